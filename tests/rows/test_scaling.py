"""Scalings of inputs: the straight one, the empirical distribution, and blends of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling, Moments

INPUTS = Inputs.of_numbers("ab")


def table(seed=0, n=50):
    """Return a heavy-tailed column and one of few values, neither constant."""
    rng = np.random.RandomState(seed)
    tail, few = rng.standard_cauchy(n), rng.randint(0, 4, n).astype(float)
    few[:2] = 0, 3
    return np.column_stack([tail, few])


def distribution(column):
    """Return the mid-ranks of a column between 0 for the least and 1 for the greatest."""
    rank = rankdata(column)
    return (rank - rank.min()) / np.ptp(rank)


def test_without_blend_it_is_min_max_to_the_last_bit():
    X = table()
    scaled = InputScaling.fit(X, INPUTS).apply(X)
    np.testing.assert_array_equal(scaled, (X - X.min(axis=0)) / np.ptp(X, axis=0))
    assert scaled.min() == 0
    assert scaled.max() == 1


def test_a_full_blend_is_the_empirical_distribution():
    X = table()
    scaled = InputScaling.fit(X, INPUTS, blend=1.0).apply(X)
    expected = np.column_stack([distribution(column) for column in X.T])
    np.testing.assert_allclose(scaled, expected, atol=1e-12)


def test_half_a_blend_is_half_of_each():
    X = table()
    ends = [InputScaling.fit(X, INPUTS, blend=blend).apply(X) for blend in (0.0, 1.0)]
    half = InputScaling.fit(X, INPUTS, blend=0.5).apply(X)
    np.testing.assert_allclose(half, (ends[0] + ends[1]) / 2, atol=1e-12)


@given(seed=st.integers(0, 10**6), n=st.integers(3, 300), blend=st.sampled_from([0.0, 0.5, 1.0]))
def test_it_rises_everywhere(seed, n, blend):
    X = table(seed, n)
    scaling = InputScaling.fit(X, INPUTS, blend=blend)
    span = np.ptp(X, axis=0)
    grid = np.linspace(X.min(axis=0) - span, X.max(axis=0) + span, 1000)
    assert np.diff(scaling.apply(np.sort(np.vstack([X, grid]), axis=0)), axis=0).min() >= -1e-14


def test_an_integer_weight_is_a_repeated_row():
    X = table(n=40)
    count = np.random.RandomState(1).randint(1, 5, size=len(X))
    weighted = InputScaling.fit(X, INPUTS, blend=0.5, weight=count.astype(float))
    repeated = InputScaling.fit(np.repeat(X, count, axis=0), INPUTS, blend=0.5)
    np.testing.assert_allclose(weighted.apply(X), repeated.apply(X), atol=1e-12)
    unweighted = InputScaling.fit(X, INPUTS, blend=0.5)
    assert np.abs(weighted.apply(X) - unweighted.apply(X)).max() > 0.01


@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_outside_the_line_goes_on_with_what_is_straight_of_it(blend):
    X = table()
    low, high = X.min(axis=0), X.max(axis=0)
    far = InputScaling.fit(X, INPUTS, blend=blend).apply(np.stack([low - 3.0, high + 5.0]))
    slope = (1 - blend) / (high - low)
    np.testing.assert_allclose(far, [-3.0 * slope, 1 + 5.0 * slope], atol=1e-12)


@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_constant_and_binary_columns(blend):
    X = np.column_stack([np.full(9, 7.0), np.arange(9) % 3 == 0]).astype(float)
    scaling = InputScaling.fit(X, INPUTS, blend=blend)
    np.testing.assert_array_equal(scaling.apply(X), np.column_stack([np.zeros(9), X[:, 1]]))
    # Another value than the constant is not lost: it may matter to a map that is used.
    assert scaling.apply(np.array([[9.0, 0.0]]))[0, 0] == 2.0


@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_a_range_of_next_to_nothing_is_still_a_range(blend):
    X = np.linspace(0, 3e-310, 7)[:, None]
    scaled = InputScaling.fit(X, Inputs.of_numbers("a"), blend=blend).apply(X)
    np.testing.assert_allclose(scaled[:, 0], np.linspace(0, 1, 7), atol=1e-9)


def test_corners_are_few_and_lie_on_the_distribution():
    X = np.random.RandomState(0).standard_normal((5000, 1))
    scaling = InputScaling.fit(X, Inputs.of_numbers("a"), blend=1.0, max_knots=20)
    assert len(scaling.knots[0]) == 20
    scaled = scaling.apply(X)
    assert np.abs(scaled[:, 0] - distribution(X[:, 0])).max() <= 1 / 19
    at_corners = np.searchsorted(np.sort(X[:, 0]), scaling.knots[0]) / len(X)
    np.testing.assert_allclose(scaling.values[0], at_corners, atol=2e-3)


def test_the_identity_changes_nothing():
    X = table() * 1e3
    np.testing.assert_array_equal(InputScaling.identity(2).apply(X), X)


def test_targets_are_standardised_and_brought_back():
    y = np.random.RandomState(0).standard_normal((30, 2)) * [5.0, 1e-9] + [100.0, 0.0]
    count = np.arange(30) % 3 + 1
    weighted = Moments.of(y, count.astype(float)).scaling()
    repeated = np.repeat(y, count, axis=0)
    np.testing.assert_allclose(weighted.mean, repeated.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(weighted.scale, repeated.std(axis=0), rtol=1e-12)
    standard = np.column_stack([weighted.apply(y[:, t], t) for t in range(2)])
    np.testing.assert_allclose(weighted.undo(standard), y, rtol=1e-12, atol=1e-22)


@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_gaps_stay_gaps_and_change_nothing_else(blend):
    X = table()
    holes = X.copy()
    holes[3, 0] = holes[7, 1] = np.nan
    whole = np.delete(X, [3, 7], axis=0)
    scaled = InputScaling.fit(holes[4:], INPUTS, blend=blend).apply(holes)
    assert np.isnan(scaled).sum() == 2
    assert np.isnan(scaled[3, 0])
    assert np.isnan(scaled[7, 1])
    known = np.delete(holes[4:, 1], 3)
    alone = InputScaling.fit(known[:, None], Inputs.of_numbers("b"), blend=blend)
    np.testing.assert_allclose(
        np.delete(scaled, [3, 7], axis=0)[:, 1], alone.apply(whole[:, 1:])[:, 0]
    )


@pytest.mark.parametrize("blend", [0.0, 0.5])
def test_levels_stay_as_they_are_and_gaps_alone_are_no_number(blend):
    X = np.column_stack([np.arange(5.0), np.full(5, np.nan), [0, 1, 4, 2, np.nan]])
    scaling = InputScaling.fit(X, Inputs(("a", "b", "c"), (0, 0, 5)), blend=blend)
    np.testing.assert_array_equal(scaling.apply(X)[:, 2], X[:, 2])
    assert np.isnan(scaling.apply(X)[:, 1]).all()


@pytest.mark.parametrize("blend", [0.5, 1.0])
def test_a_range_of_the_least_numbers_is_scaled_straight_and_filled_in(rng, blend):
    unit = rng.uniform(size=(200, 2))
    X = 1e-310 * unit
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    inputs = Inputs.of_numbers("ab")
    scaling = InputScaling.fit(X, inputs, blend=blend)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    np.testing.assert_allclose(scaling.apply(X), (X - low) / (high - low), atol=1e-12)
    found = scaling.with_filling(X, inputs).apply(X, apart=False)[:, :2]
    assert ((found >= 0) & (found <= 1)).all()


def with_directions(blend=0.5):
    """Return rows of two numbers and a category, and a scaling with two directions."""
    X = np.column_stack([table(), np.arange(50) % 3])
    inputs = Inputs(("a", "b", "c"), (0, 0, 3))
    directions = np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, 0.0]])
    return X, replace(InputScaling.fit(X, inputs, blend=blend), directions=directions)


def test_directions_are_combinations_of_scaled_numbers():
    X, scaling = with_directions()
    scaled = scaling.apply(X)
    plain = replace(scaling, directions=None).apply(X)
    np.testing.assert_array_equal(scaled[:, :3], plain)
    np.testing.assert_allclose(scaled[:, 3], plain[:, 0] - 2 * plain[:, 1], atol=1e-15)
    np.testing.assert_allclose(scaled[:, 4], 0.5 * plain[:, 1], atol=1e-15)
    assert scaling.n_columns == 5
    assert [scaling.columns_of(d) for d in range(3)] == [[0, 3, 4], [1, 3, 4], [2]]


def test_a_gap_of_a_number_makes_one_of_directions():
    X, scaling = with_directions()
    X[0, 2], X[1, 0], X[2, 1] = np.nan, np.nan, np.nan
    expected = [[0, 0, 1, 0, 0], [1, 0, 0, 1, 1], [0, 1, 0, 1, 1]]
    np.testing.assert_array_equal(np.isnan(scaling.apply(X))[:3], expected)


@pytest.mark.parametrize("d", [0, 1, 2])
def test_an_exchanged_input_takes_along_what_hangs_on_it(d, rng):
    X, scaling = with_directions()
    others = rng.permutation(len(X))
    exchanged = X.copy()
    exchanged[:, d] = X[others, d]
    found = scaling.exchange(scaling.apply(X), d, others)
    np.testing.assert_allclose(found, scaling.apply(exchanged), atol=1e-14)


@pytest.mark.parametrize("kind", ["plain", "directions", "gaps"])
def test_columns_that_are_used_are_scaled_as_always(kind):
    X, scaling = with_directions()
    if kind != "directions":
        scaling = replace(scaling, directions=None)
    if kind == "gaps":
        X[::5, 0] = np.nan
        scaling = scaling.with_filling(X, Inputs(("a", "b", "c"), (0, 0, 3)))
    whole = scaling.apply(X)
    for used in ([0], [1, whole.shape[1] - 1]):
        some = scaling.apply(X, used=used)
        assert some.shape == whole.shape
        np.testing.assert_array_equal(some[:, used], whole[:, used])
    if kind == "plain":
        assert not scaling.apply(X, used=[0])[:, 1:].any()

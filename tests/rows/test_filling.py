"""Gaps of numbers are filled in by what the other numbers of the row say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyadic.rows.filling import Bumps, Filling
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling


def correlated(n=2_000, seed=0):
    """Return rows of three correlated numbers and one of its own, and a third with gaps."""
    rng = np.random.RandomState(seed)
    common = rng.standard_normal((n, 1))
    X = np.hstack([common + 0.3 * rng.standard_normal((n, 3)), rng.standard_normal((n, 1))])
    return X, np.where(rng.uniform(size=X.shape) < 0.3, np.nan, X)


def test_what_is_filled_in_is_the_mean_given_the_rest():
    covariance = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])
    filling = Filling(np.arange(3), np.zeros(3), np.ones(3), np.linalg.inv(covariance))
    X = np.array([[0.5, np.nan, -0.4], [np.nan, 1.0, np.nan], [np.nan] * 3, [1.0, 2.0, 0.1]])
    for row, found in zip(X, filling.fill(X), strict=True):
        g, o = np.isnan(row), ~np.isnan(row)
        expected = row.copy()
        expected[g] = covariance[np.ix_(g, o)] @ np.linalg.solve(covariance[np.ix_(o, o)], row[o])
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_what_was_learned_from_rows_with_gaps_fills_in_as_the_truth_does():
    X, holes = correlated()
    covariance = np.ones((4, 4)) + 0.09 * np.eye(4)
    covariance[3] = covariance[:, 3] = [0, 0, 0, 1]
    scale = np.sqrt(np.diagonal(covariance))
    precision = np.linalg.inv(covariance / np.outer(scale, scale))
    truth = Filling(np.arange(4), np.zeros(4), scale, precision).fill(holes)
    found = Filling.learn(holes, np.arange(4)).fill(holes)
    gaps = np.isnan(holes)
    np.testing.assert_array_equal(found[~gaps], X[~gaps])
    errors = [np.mean((each - X)[gaps] ** 2) for each in (found, truth)]
    assert errors[0] < 1.02 * errors[1]
    assert errors[1] < 0.5 * np.mean(X[gaps] ** 2)  # that of the mean


def test_weights_are_counts():
    _, holes = correlated(60)
    count = np.random.RandomState(1).randint(1, 4, 60)
    one = Filling.learn(holes, np.arange(4), count.astype(float))
    two = Filling.learn(np.repeat(holes, count, axis=0), np.arange(4))
    np.testing.assert_allclose(one.mean, two.mean)
    np.testing.assert_allclose(one.scale, two.scale)


@pytest.mark.parametrize("n", [3, 10])
def test_few_rows_and_copies_of_a_column_are_no_trouble(n):
    X = np.random.RandomState(0).standard_normal((n, 1)) * np.array([1.0, 2.0, -1.0, 1e6])
    X[0, 1] = X[1, 2] = np.nan
    found = Filling.learn(X, np.arange(4)).fill(X)
    assert np.isfinite(found).all()


def curved(n=2_000, seed=0):
    """Return rows of a number, its square, and a number of its own, and the same with gaps."""
    rng = np.random.RandomState(seed)
    x = rng.standard_normal(n)
    X = np.column_stack([x, x**2 + 0.1 * rng.standard_normal(n), rng.standard_normal(n)])
    return X, np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)


def test_bumps_and_ends_make_every_line_between_corners():
    X = np.random.RandomState(0).lognormal(size=(500, 1))
    bumps = Bumps.at_quantiles(X, 4)
    corners = np.append(bumps.corners[0], bumps.corners[1:, -1])
    np.testing.assert_array_equal(corners[[0, -1]], [X.min(), X.max()])
    share = [(each >= X).mean() for each in corners[1:-1]]
    np.testing.assert_allclose(share, np.arange(1, 5) / 5, atol=0.002)
    x = np.concatenate([np.linspace(corners[0], corners[-1], 400), [-1e300, 1e300, np.nan]])
    found = bumps.beside(x[:, None])
    np.testing.assert_array_equal(found[:, 0], x)
    heights = np.eye(len(corners))[1:-1]
    expected = np.column_stack([np.interp(x, corners, each) for each in heights])
    np.testing.assert_allclose(found[:-1, 1:], expected[:-1], atol=1e-12)
    assert np.isnan(found[-1]).all()


def test_corners_of_weighted_rows_are_those_of_copies():
    X, count = np.random.RandomState(0).standard_normal((80, 2)), np.arange(80) % 4 + 1
    one = Bumps.at_quantiles(X, 4, count.astype(float))
    two = Bumps.at_quantiles(np.repeat(X, count, axis=0), 4)
    np.testing.assert_array_equal(one.places, two.places)
    np.testing.assert_array_equal(one.corners, two.corners)


def test_curves_are_followed_where_there_are_any():
    _, holes = curved()
    plain, chosen = Filling.learn(holes, np.arange(3)), Filling.choose(holes, np.arange(3))
    assert plain.bumps is None
    assert len(chosen.bumps) > 0
    new, gaps = curved(seed=1)
    missing = np.isnan(gaps[:, 1]) & ~np.isnan(gaps[:, 0])
    errors = [np.mean((each.fill(gaps) - new)[missing, 1] ** 2) for each in (plain, chosen)]
    assert errors[0] > 0.9 * new[missing, 1].var()  # no line says anything of a square
    assert errors[1] < 0.3 * errors[0]
    # Of normal numbers a line says all.
    assert Filling.choose(correlated()[1], np.arange(4)).bumps is None


def test_what_bumps_say_is_the_mean_given_the_rest():
    _, holes = curved(400)
    bumps = Bumps.at_quantiles(holes, 2)
    filling = Filling.learn(holes, np.arange(3), bumps=bumps)
    unit = (bumps.beside(holes) - filling.mean) / filling.scale
    found = (filling.fill(holes) - filling.mean[:3]) / filling.scale[:3]
    for row, each in zip(unit[:50], found[:50], strict=True):
        g, o = np.isnan(row), ~np.isnan(row)
        P = filling.precision
        expected = -np.linalg.solve(P[np.ix_(g, g)], P[np.ix_(g, o)] @ row[o])
        own = np.flatnonzero(g) < 3
        np.testing.assert_allclose(each[g[:3]], np.clip(expected[own], -3, 3), atol=1e-6)


@pytest.mark.parametrize("unit", [1e300, 1e-300, 1.0])
def test_units_make_no_difference(unit):
    _, holes = curved(300)
    found, scaled = (
        Filling.choose(each, np.arange(3)).fill(each) for each in (holes, unit * holes)
    )
    np.testing.assert_allclose(scaled / unit, found, rtol=1e-6, atol=1e-9)
    shifted = 1e6 + holes
    np.testing.assert_allclose(
        Filling.choose(shifted, np.arange(3)).fill(shifted), 1e6 + found, atol=1e-6
    )


def test_a_scaling_fills_numbers_and_puts_flags_after_all_inputs():
    _, holes = correlated()
    table = np.column_stack([holes[:, :2], np.full(len(holes), np.nan), holes[:, 3] > 0])
    table[::7, 3] = np.nan
    inputs = Inputs(("a", "b", "empty", "level"), (0, 0, 0, 2))
    scaling = InputScaling.fit(table, inputs).with_filling(table, inputs)
    scaled = scaling.apply(table)
    assert scaling.flagged == (0, 1)
    assert scaling.columns_of(1) == [1, 5]
    assert scaling.columns_of(3) == [3]
    np.testing.assert_array_equal(scaled[:, 4:], np.isnan(table[:, :2]))
    assert np.isfinite(scaled[:, :2]).all()
    assert np.isnan(scaled[:, 2]).all()
    np.testing.assert_array_equal(scaled[:, 3], table[:, 3])


@pytest.mark.parametrize("scaled", [True, False])
def test_what_was_filled_in_lies_apart_from_all_that_is_known(scaled):
    X, holes = correlated()
    inputs = Inputs.of_numbers("abcd")
    own = InputScaling.fit(holes, inputs) if scaled else InputScaling.identity(4)
    scaling = own.with_filling(holes, inputs)
    far = np.vstack([holes, 1e9 * X[:5], -1e9 * X[:5]])
    plain, apart = scaling.apply(far, apart=False), scaling.apply(far)
    assert len(scaling.ends) == len(scaling.flagged) > 1
    for (low, high), d in zip(scaling.ends, scaling.flagged, strict=True):
        span, gaps, x = high - low, np.isnan(far[:, d]), plain[:, d]
        expected = 8 * span + np.clip(x, low - span, high + span)[gaps]
        np.testing.assert_allclose(apart[gaps, d], expected, rtol=1e-12)
        # Far from the rows tables have come to rest, so that nothing is lost there.
        np.testing.assert_array_equal(
            apart[~gaps, d], np.clip(x, low - 2 * span, high + 2 * span)[~gaps]
        )
        assert apart[~gaps, d].max() < low + 4 * span < apart[gaps, d].min()
    others = [c for c in range(apart.shape[1]) if c not in scaling.flagged]
    np.testing.assert_array_equal(apart[:, others], plain[:, others])
    before = replace(scaling, ends=())  # as older files have it
    np.testing.assert_array_equal(before.apply(far), plain)


@pytest.mark.parametrize("rows", [correlated, curved])
def test_tensors_are_filled_in_as_arrays_are(rows):
    torch = pytest.importorskip("torch")
    _, holes = rows(200)
    filling = Filling.choose(holes, np.arange(holes.shape[1]))
    assert (filling.bumps is not None) == (rows is curved)
    there = filling.fill(torch.tensor(holes))
    np.testing.assert_allclose(there.numpy(), filling.fill(holes), atol=1e-12)

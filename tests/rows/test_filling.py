"""Gaps of numbers are filled in by what the other numbers of the row say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyadic.rows.filling import Filling
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


def test_tensors_are_filled_in_as_arrays_are():
    torch = pytest.importorskip("torch")
    _, holes = correlated(200)
    filling = Filling.learn(holes, np.arange(4))
    there = filling.fill(torch.tensor(holes))
    np.testing.assert_allclose(there.numpy(), filling.fill(holes), atol=1e-12)

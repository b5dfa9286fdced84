"""The linear trend, against ridge regressions written out over the rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from polyadic.compute import ComputeSpec
from polyadic.rows.view import standard_prediction
from polyadic.search.trend import linear_trend
from tests.small import data_of, respond_reference


def problem(n=60, n_inputs=5, noise=0.5, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs)) * np.arange(1, n_inputs + 1)
    y = X @ rng.standard_normal((n_inputs, 2)) + [1.0, -2.0]
    return X, y + noise * rng.standard_normal(y.shape)


def coefficients_of(X, y, weight=None):
    """Return β₁ … β_D and β₀ of each target, read off the function that was fitted."""
    data = data_of(X, y, weight, scale_inputs=False)
    # Beyond the training range it is no line: one step from end to end along each input.
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    corners = np.vstack([low, low + np.diag(span)])
    values = standard_prediction([linear_trend(data)], corners, respond_reference)
    values = data.view.targets.undo(values)
    slopes = (values[1:] - values[0]) / np.where(span > 0, span, 1.0)[:, None]
    return np.vstack([slopes, values[:1] - low @ slopes])


def ridge_by_rows(X, y):
    """Return the coefficients, the constant last, of the ridge of least GCV error.

    The hat matrix and the residuals are formed row by row, the coefficients are
    scikit-learn's.
    """
    n = len(X)
    scale = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / scale
    errors = {}
    for strength in n * np.logspace(-6, 3, 28):
        hat = 1 / n + Z @ np.linalg.solve(Z.T @ Z + strength * np.eye(Z.shape[1]), Z.T)
        residual = y - hat @ y
        errors[strength] = residual @ residual / (1 - np.trace(hat) / n) ** 2
    ridge = Ridge(alpha=min(errors, key=errors.get), solver="svd").fit(Z, y)
    slope = ridge.coef_ / scale
    return np.append(slope, ridge.intercept_ - X.mean(axis=0) @ slope)


@pytest.mark.parametrize(("n", "noise"), [(60, 0.05), (60, 0.5), (60, 50.0), (12, 0.5)])
def test_it_is_the_ridge_of_least_cross_validation_error(n, noise):
    X, y = problem(n, noise=noise)
    expected = np.column_stack([ridge_by_rows(X, column) for column in y.T])
    np.testing.assert_allclose(coefficients_of(X, y), expected, rtol=1e-7, atol=1e-9)


def test_fewer_rows_than_inputs():
    X, y = problem(n=10, n_inputs=25, noise=30.0)  # so that no strength is next to nothing
    expected = np.column_stack([ridge_by_rows(X, column) for column in y.T])
    np.testing.assert_allclose(coefficients_of(X, y), expected, rtol=1e-6, atol=1e-8)


def test_an_exact_line_is_found():
    X, y = problem(n=200, noise=0.0)
    coefficients = coefficients_of(X, y)
    fitted = X @ coefficients[:-1] + coefficients[-1]
    assert np.abs(fitted - y).max() < 1e-4 * np.ptp(y)


def test_an_integer_weight_is_a_repeated_row():
    X, y = problem()
    count = np.random.RandomState(1).randint(1, 5, size=len(X))
    weighted = coefficients_of(X, y, count.astype(float))
    repeated = coefficients_of(np.repeat(X, count, axis=0), np.repeat(y, count, axis=0))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_column_gets_no_coefficient(value):
    X, y = problem()
    without = coefficients_of(X[:, 1:], y)
    X[:, 0] = value
    coefficients = coefficients_of(X, y)
    assert (coefficients[0] == 0).all()
    np.testing.assert_allclose(coefficients[1:], without, rtol=1e-9)


@pytest.mark.parametrize("n_inputs", [1, 2, 6])
@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_as_a_weight_tensor_it_is_the_same_function(engine, n_inputs):
    X, y = problem(n_inputs=n_inputs)
    data = data_of(X, y, scale_inputs=False)
    member, coefficients = linear_trend(data), coefficients_of(X, y)
    expected = X @ coefficients[:-1] + coefficients[-1]
    with ComputeSpec(engine=engine, n_jobs=1).open() as compute:
        found = data.view.targets.undo(standard_prediction([member], X, compute.predict))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("scale_inputs", [True, False])
def test_beyond_the_training_range_it_is_level(scale_inputs, engine):
    X, y = problem()
    X[:, 3] = 7.0  # a constant column has no range at all
    data = data_of(X, y, scale_inputs=scale_inputs)
    low, high = X.min(axis=0), X.max(axis=0)
    rng = np.random.RandomState(1)
    far = rng.uniform(-50, 50, size=(300, 5))
    edge = np.where(far < low, low, high)
    near = edge + 1e-9 * np.sign(far - edge)  # a little outside
    with ComputeSpec(engine=engine, n_jobs=1).open() as compute:

        def predict(rows):
            return standard_prediction([linear_trend(data)], rows, compute.predict)

        inside = predict(np.clip(far, low, high))
        np.testing.assert_allclose(predict(far), inside, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(predict(1e100 * (far + 100)), predict(high[None]) + 0 * inside)
        np.testing.assert_allclose(predict(near), predict(edge), rtol=0, atol=1e-7)
        # A line is least and greatest at corners.
        corners = predict(np.array(list(product(*zip(low, high, strict=True)))))
        for rows in (far, 1e6 * far, X):
            assert (predict(rows) <= corners.max(axis=0) + 1e-9).all()
            assert (predict(rows) >= corners.min(axis=0) - 1e-9).all()
        assert np.ptp(predict(X), axis=0).min() > 0.5  # not level where the rows are

"""The linear trend, against ridge regressions written out over the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from polyadic.compute import ComputeSpec
from polyadic.model import trend


def problem(n=60, n_inputs=5, noise=0.5, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs)) * np.arange(1, n_inputs + 1)
    y = X @ rng.standard_normal((n_inputs, 2)) + [1.0, -2.0]
    return X, y + noise * rng.standard_normal(y.shape)


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
    np.testing.assert_allclose(trend.linear_trend(X, y, None), expected, rtol=1e-7, atol=1e-9)


def test_fewer_rows_than_inputs():
    X, y = problem(n=10, n_inputs=25, noise=30.0)  # so that no strength is next to nothing
    expected = np.column_stack([ridge_by_rows(X, column) for column in y.T])
    np.testing.assert_allclose(trend.linear_trend(X, y, None), expected, rtol=1e-6, atol=1e-8)


def test_an_exact_line_is_found():
    X, y = problem(n=200, noise=0.0)
    fitted = trend.evaluate(trend.linear_trend(X, y, None), X)
    assert np.abs(fitted - y).max() < 1e-4 * np.ptp(y)


def test_an_integer_weight_is_a_repeated_row():
    X, y = problem()
    count = np.random.RandomState(1).randint(1, 5, size=len(X))
    weighted = trend.linear_trend(X, y, count.astype(float))
    repeated = trend.linear_trend(np.repeat(X, count, axis=0), np.repeat(y, count, axis=0), None)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_column_gets_no_coefficient(value):
    X, y = problem()
    without = trend.linear_trend(X[:, 1:], y, None)
    X[:, 0] = value
    coefficients = trend.linear_trend(X, y, None)
    assert (coefficients[0] == 0).all()
    np.testing.assert_allclose(coefficients[1:], without, rtol=1e-9)


@pytest.mark.parametrize("n_inputs", [1, 2, 6])
@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_as_a_weight_tensor_it_is_the_same_function(engine, n_inputs):
    X, y = problem(n_inputs=n_inputs)
    coefficients = trend.linear_trend(X, y, None)
    model, layout = trend.trend_model(coefficients), trend.trend_layout(n_inputs)
    outside = np.vstack([X, -10 * X])
    expected = outside @ coefficients[:-1] + coefficients[-1]
    with ComputeSpec(engine=engine, n_jobs=1).open() as compute:
        for cores, column in zip(model.cores, expected.T, strict=True):
            response = compute.predict(outside, cores, model.map_weights, layout)
            np.testing.assert_allclose(response, column, rtol=1e-10, atol=1e-10)

"""Problems of known kind that need no files: what the defaults must hold on beside real data.

Each is a function without arguments that returns inputs and target, always the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

Problem = Callable[[], tuple[NDArray[Any], NDArray[Any]]]
Truth = Callable[[NDArray[Any]], NDArray[Any]]


def uniform(truth: Truth, n_rows: int, n_inputs: int, noise: float) -> Problem:
    """Return the problem of a function on the unit cube with Gaussian noise."""

    def problem() -> tuple[NDArray[Any], NDArray[Any]]:
        rng = np.random.RandomState(7)
        X = rng.uniform(size=(n_rows, n_inputs))
        return X, truth(X) + noise * rng.standard_normal(n_rows)

    return problem


def heteroscedastic() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a problem whose noise grows with its second input."""
    rng = np.random.RandomState(7)
    X = rng.uniform(size=(900, 4))
    return X, X[:, 1] * (np.sin(5 * X[:, 0]) + rng.standard_normal(len(X)))


def correlated() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return twelve inputs that are three hidden ones, mixed."""
    rng = np.random.RandomState(3)
    hidden = rng.standard_normal((800, 3))
    X = hidden @ rng.standard_normal((3, 12)) + 0.1 * rng.standard_normal((800, 12))
    y = np.sin(hidden[:, 0]) + hidden[:, 1] * hidden[:, 2] + 0.2 * rng.standard_normal(800)
    return X, y


def _additive(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.sin(2 * np.arange(1, X.shape[1] + 1) * X).sum(axis=1))


def _steps(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.floor(4 * X[:, 0]) + 2.0 * ((X[:, 1] > 0.5) & (X[:, 2] > 0.3)))


def _four_of_many(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(4 * X[:, 0] * X[:, 1] + X[:, 2] + np.sin(4 * X[:, 3]))


def _three_of_many(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(4 * X[:, 0] * X[:, 1] + 2 * np.sin(4 * X[:, 2]))


COLLECTION: dict[str, Problem] = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(600, noise=1.0, random_state=1),
    "friedman2": lambda: make_friedman2(600, noise=50.0, random_state=1),
    "friedman3": lambda: make_friedman3(600, noise=0.1, random_state=1),
    "additive": uniform(_additive, 700, 6, 0.3),
    "high-frequency": uniform(lambda X: np.sin(25 * X[:, 0]) + X[:, 1], 800, 3, 0.1),
    "steps": uniform(_steps, 800, 5, 0.2),
    "heteroscedastic": heteroscedastic,
    "irrelevant": uniform(lambda X: np.sin(5 * X[:, 0]) + X[:, 1] ** 2, 500, 20, 0.2),
    "correlated": correlated,
    "one-input": uniform(lambda X: X[:, 0] * np.sin(12 * X[:, 0]), 300, 1, 0.1),
    "fifty-inputs": uniform(_four_of_many, 1000, 50, 0.3),
    "two-hundred-inputs": uniform(_three_of_many, 375, 200, 0.3),  # 300 rows to learn from
    "few-rows": uniform(lambda X: X[:, :5].sum(axis=1), 120, 30, 0.3),
    "linear": uniform(lambda X: X @ np.arange(10) / 3, 500, 10, 0.5),
    "noise": uniform(lambda X: np.zeros(len(X)), 500, 8, 1.0),
}

"""How large errors are, row by row: an additive model of the log of their variance.

    log s² = β₀ + Σ_j β_j B_j(x),        error ~ s · t₄

The coefficients are those of greatest likelihood under Student's t with four degrees of freedom,
which a few gross errors do not move, and have a ridge penalty whose strength is chosen by
cross-validation.  Then all are shrunk to the constant as far as the folds say.  The scale that the
other folds predict for each row is kept: divided by it, its error is one of a row that the scale
was not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

_FREEDOM = 4.0
_INFORMATION = 0.5 * _FREEDOM / (_FREEDOM + 3)  # of one row on log s²
_STRENGTHS = (1.0, 5.0, 25.0, 125.0, 625.0)
_FOLDS = 5
_STEPS, _TOL = 30, 1e-6
_LEAST = 1e-14  # of s²
_MOST = 60.0  # of |log s²|


@dataclass(frozen=True, eq=False)
class LogScale:
    """An additive model of log s², and what it says of rows that it has not seen.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        β, that of the constant first.
    predicted : ndarray of shape (n,)
        log s² of each row, from the other folds.
    """

    coefficients: NDArray[np.float64]
    predicted: NDArray[np.float64]


def fit_log_scale(
    B: NDArray[np.float64],
    errors: NDArray[np.float64],
    weight: NDArray[np.float64],
    free: NDArray[np.bool_],
) -> LogScale:
    """Fit the model.

    Parameters
    ----------
    B : ndarray of shape (n, p)
        Columns of about unit variance; the first is constant and not penalised.
    errors : ndarray of shape (n,)
        Errors of rows that the model did not learn from.
    weight : ndarray of shape (n,)
        Of the rows, with mean 1.
    free : ndarray of bool of shape (p,)
        Columns with the least penalty, whatever the strength is.
    """
    squares = errors**2 + _LEAST
    n_folds = min(_FOLDS, len(B))
    fold = np.random.RandomState(0).permutation(np.arange(len(B)) % n_folds)
    best: tuple[float, float, NDArray[np.float64]] | None = None
    for strength in _STRENGTHS if B.shape[1] > 1 else _STRENGTHS[:1]:
        penalty = _penalty(free, strength)
        predicted = np.empty(len(B))
        for k in range(n_folds):
            out = fold == k
            others = ~out if n_folds > 1 else out
            share = float(weight[others].sum() / weight.sum())
            beta = _climb(B[others], squares[others], weight[others], penalty * share)
            predicted[out] = _bounded(B[out] @ beta)
        cost = float(weight @ _cost(squares, predicted))
        if best is None or cost < best[0]:
            best = cost, strength, predicted
    assert best is not None
    _, strength, predicted = best
    beta = _climb(B, squares, weight, _penalty(free, strength))
    constant, trust = _shrink(predicted, squares, weight)
    shrunk = trust * beta
    shrunk[0] += constant
    return LogScale(shrunk, constant + trust * predicted)


def _shrink(
    predicted: NDArray[np.float64], squares: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the line by which what other folds predict is to be trusted.

    Its slope is the best one less a standard error, 0 at least and 1 at most: where errors are as
    large everywhere, no row shall seem to be better known than others.
    """
    centre = float(np.average(predicted, weights=weight))
    apart = predicted - centre
    spread = float(weight @ apart**2)
    slope = 0.0
    if spread > 0:
        columns = np.column_stack([np.ones(len(apart)), apart])
        best = _climb(columns, squares, weight, np.full(2, 1e-9))[1]
        slope = float(np.clip(best - 1 / np.sqrt(_INFORMATION * spread), 0.0, 1.0))
    level = np.ones((len(apart), 1))
    scaled = squares * np.exp(-slope * apart)
    return float(_climb(level, scaled, weight, np.full(1, 1e-9))[0]) - slope * centre, slope


def _penalty(free: NDArray[np.bool_], strength: float) -> NDArray[np.float64]:
    penalty = np.where(free, _STRENGTHS[0], strength)
    penalty[0] = 1e-9
    return penalty


def _bounded(g: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.clip(g, -_MOST, _MOST))


def _cost(squares: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return minus the log likelihood of each row, but for a constant."""
    return np.asarray(0.5 * g + (_FREEDOM + 1) / 2 * np.log1p(squares * np.exp(-g) / _FREEDOM))


def _climb(
    B: NDArray[np.float64],
    squares: NDArray[np.float64],
    weight: NDArray[np.float64],
    penalty: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the coefficients by Fisher's scoring, steps halved where they lose."""
    beta = np.zeros(B.shape[1])
    beta[0] = _bounded(np.log(2 * np.median(squares)))
    factor = cho_factor(_INFORMATION * (B.T * weight) @ B + np.diag(penalty))

    def objective(beta: NDArray[np.float64]) -> float:
        return float(weight @ _cost(squares, _bounded(B @ beta))) + 0.5 * float(penalty @ beta**2)

    value = objective(beta)
    for _ in range(_STEPS):
        ratio = squares * np.exp(-_bounded(B @ beta)) / _FREEDOM
        slopes = 0.5 - (_FREEDOM + 1) / 2 * ratio / (1 + ratio)
        step = cho_solve(factor, B.T @ (weight * slopes) + penalty * beta)
        size = 1.0
        while (tried := objective(beta - size * step)) > value and size > 1e-3:
            size /= 2
        if tried > value:
            break
        gain, beta, value = value - tried, beta - size * step, tried
        if gain < _TOL * len(B):
            break
    return beta

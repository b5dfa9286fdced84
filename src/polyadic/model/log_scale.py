"""How large errors are, row by row: a linear model of the log of their variance.

    log s² = β₀ + Σ_j β_j B_j(x),        error ~ s · t₄

The coefficients are those of greatest likelihood under Student's t with four degrees of freedom,
which a few gross errors do not move.  Columns come in blocks, and each block has a ridge penalty
of its own, found by its evidence: what makes no difference is shrunk away and what does hardly is,
so that the lowest scales are not too high and the highest not too low.  A usual strength, chosen
by cross-validation, steadies them where errors are few.  Then all are drawn to the constant as far
as the folds say.  The scale that the other folds predict for each row is kept: divided by it, its
error is one of a row that the scale was not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

_FREEDOM = 4.0
_INFORMATION = 0.5 * _FREEDOM / (_FREEDOM + 3)  # of one row on log s²
_STRENGTHS = (5.0, 50.0, 500.0)
_DOUBT = 4.0  # coefficients that the usual strength counts as, beside those of a block
_FREE = 1e-9  # penalty of what has none
_FOLDS = 5
_TURNS, _STEADY = 6, 0.1  # of the penalties, and the change of their logarithm that ends them
_STEPS, _TOL = 30, 1e-6
_LEAST = 1e-14  # of s²
_MOST = 60.0  # of |log s²|
_MOST_TRUST = 1.5


@dataclass(frozen=True, eq=False)
class LogScale:
    """A model of log s², and what it says of rows that it has not seen.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        β, that of the constant first.
    predicted : ndarray of shape (n,)
        log s² of each row, from the other folds.
    strength : float
        The usual strength of penalties that these prefer.
    cost : float
        Minus their log likelihood, but for a constant.
    """

    coefficients: NDArray[np.float64]
    predicted: NDArray[np.float64]
    strength: float
    cost: float


def fit_log_scale(
    B: NDArray[np.float64],
    errors: NDArray[np.float64],
    weight: NDArray[np.float64],
    blocks: NDArray[np.intp],
    likely: NDArray[np.bool_],
    keys: NDArray[np.int64],
    *strengths: float,
) -> LogScale:
    """Fit the model.

    Parameters
    ----------
    B : ndarray of shape (n, p)
        Columns of about unit variance, the first constant.
    errors : ndarray of shape (n,)
        Errors of rows that the model did not learn from.
    weight : ndarray of shape (n,)
        Of the rows, with mean 1.
    blocks : ndarray of int of shape (p,)
        Which block each column belongs to, from 0 on; −1 is not penalised.
    likely : ndarray of bool of shape (p,)
        Columns that the least of the usual strengths is for, being likely to count.
    keys : ndarray of int of shape (n,)
        Rows of one key are in one fold: several groups may hold out the same row.
    *strengths : float
        Usual strengths of penalties to choose from; without any these are the usual ones.
    """
    squares = errors**2 + _LEAST
    names, place = np.unique(keys, return_inverse=True)
    n_folds = min(_FOLDS, len(names))
    fold = place % n_folds
    parts = [_Part.of(B, squares, weight, fold != k if n_folds > 1 else fold == k, blocks)
             for k in range(n_folds)]  # fmt: skip
    best: tuple[float, float, NDArray[np.float64]] | None = None
    for strength in (strengths or _STRENGTHS) if B.shape[1] > 1 else _STRENGTHS[:1]:
        predicted = np.empty(len(B))
        for k, part in enumerate(parts):
            share = part.weight.sum() / weight.sum()
            usual = np.where(likely, _STRENGTHS[0], strength) * share
            predicted[fold == k] = _bounded(B[fold == k] @ part.learn(usual))
        cost = float(weight @ _cost(squares, predicted))
        if best is None or cost < best[0]:
            best = cost, strength, predicted
    assert best is not None
    _, strength, predicted = best
    every = _Part.of(B, squares, weight, np.full(len(B), True), blocks)
    constant, trust = _shrink(predicted, squares, weight)
    shrunk = trust * every.learn(np.where(likely, _STRENGTHS[0], strength))
    shrunk[0] += constant
    predicted = constant + trust * predicted
    return LogScale(shrunk, predicted, strength, float(weight @ _cost(squares, predicted)))


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows that a scale is learned from, and what they tell of it: BᵀWB, once for all."""

    B: NDArray[np.float64]
    squares: NDArray[np.float64]
    weight: NDArray[np.float64]
    information: NDArray[np.float64]
    blocks: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        B: NDArray[np.float64],
        squares: NDArray[np.float64],
        weight: NDArray[np.float64],
        chosen: NDArray[np.bool_],
        blocks: NDArray[np.intp],
    ) -> _Part:
        B, weight = B[chosen], weight[chosen]
        return cls(B, squares[chosen], weight, _INFORMATION * (B.T * weight) @ B, blocks)

    def learn(self, usual: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients, with penalties of about the usual strength of each.

        A block's is λ = (γ + a) / (|β|² + a/λ₀), where γ is how many of its coefficients the rows
        determine.  That is MacKay's rule with a prior of weight a on the usual strength λ₀.
        """
        owner = np.maximum(self.blocks, 0)
        penalised = self.blocks >= 0
        n_blocks = int(owner.max()) + 1
        penalty, beta = np.where(penalised, usual, _FREE), None
        for turn in range(_TURNS):
            beta = _climb(self.B, self.squares, self.weight, penalty, self.information, beta)
            if turn == _TURNS - 1 or not penalised.any():
                break
            spread = np.diagonal(np.linalg.inv(self.information + np.diag(penalty)))
            known = np.bincount(owner, penalised * (1 - penalty * spread), n_blocks)
            size = np.bincount(owner, penalised * beta**2, n_blocks)
            moved = (known[owner] + _DOUBT) / (size[owner] + _DOUBT / usual)
            change = np.abs(np.log(moved / penalty))[penalised].max()
            if change < _STEADY:
                break
            penalty = np.where(penalised, moved, _FREE)
        assert beta is not None
        return beta


def _shrink(
    predicted: NDArray[np.float64], squares: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the line by which what other folds predict is to be trusted.

    Its slope b of greatest likelihood, with the standard error e, is drawn to zero as Stein does:
    b(1 − e²/b²), and none below e.  Where errors are as large everywhere, no row shall seem to be
    better known than others; where they are not, the slope stays what it is.
    """
    centre = float(np.average(predicted, weights=weight))
    apart = predicted - centre
    spread = float(weight @ apart**2)
    slope = 0.0
    if spread > 0:
        columns = np.column_stack([np.ones(len(apart)), apart])
        best = float(_climb(columns, squares, weight, np.full(2, _FREE))[1])
        noise = 1 / (_INFORMATION * spread)
        if best > 0 and best**2 > noise:
            slope = min(best - noise / best, _MOST_TRUST)
    level = np.ones((len(apart), 1))
    scaled = squares * np.exp(-slope * apart)
    return float(_climb(level, scaled, weight, np.full(1, _FREE))[0]) - slope * centre, slope


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
    information: NDArray[np.float64] | None = None,
    start: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the coefficients by Fisher's scoring, steps halved where they lose."""
    if start is None:
        start = np.zeros(B.shape[1])
        start[0] = _bounded(np.log(2 * np.median(squares)))
    if information is None:
        information = _INFORMATION * (B.T * weight) @ B
    beta, factor = start, cho_factor(information + np.diag(penalty))

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

"""The step of the feature weights λ: P × P sums in, P weights out, each solved to optimality.

Every problem is min ½‖y − Fλ‖² + β·Reg(λ) under its constraints, written with
Q = FᵀF and c = Fᵀy.  Three of the non-negative ones, and L1, are one problem,

    min ½ λᵀQλ − cᵀλ   subject to λ ≥ 0,

which an active-set method solves exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from polyadic.normal import NormalEquations

MIXINGS = ("simplex", "l1", "l2", "fixed_norm")

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def solve_mixing(equations: NormalEquations, mixing: str, nonnegative: bool, beta: float) -> Vector:
    """Return the optimal feature weights for one kind of regularisation.

    Parameters
    ----------
    equations : NormalEquations
        The sums of F, the responses of each map.
    mixing : {"simplex", "l1", "l2", "fixed_norm"}
        Non-negative with unit sum; penalty β‖λ‖₁; penalty ½β‖λ‖₂²; or ‖λ‖₂ ≤ 1.
    nonnegative : bool
        Whether λ ≥ 0 is required; always so on the simplex.
    beta : float
        Strength of the L1 or L2 penalty.
    """
    Q, c = equations.gram, equations.moment
    if mixing == "simplex":
        return _simplex(Q, c, equations.target)
    if mixing == "l1":
        return nonnegative_quadratic(Q, c - beta) if nonnegative else _l1(Q, c, beta)
    if mixing == "l2":
        ridge = Q + beta * np.eye(len(c))
        return nonnegative_quadratic(ridge, c) if nonnegative else _least_squares(ridge, c)
    return _fixed_norm(Q, c, nonnegative)


def penalty(weights: Vector, mixing: str, beta: float) -> float:
    """Return β·Reg(λ), the part of the objective that belongs to the feature weights."""
    if mixing == "l1":
        return beta * float(np.abs(weights).sum())
    if mixing == "l2":
        return 0.5 * beta * float(weights @ weights)
    return 0.0


def initial_weights(n_maps: int, mixing: str, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Draw λ uniformly on [0, 1] as the paper does, then make it feasible."""
    weights = rng.uniform(size=n_maps)
    if mixing == "simplex":
        return np.asarray(weights / weights.sum())
    if mixing == "fixed_norm":
        return np.asarray(weights / max(1.0, float(np.linalg.norm(weights))))
    return np.asarray(weights)


def nonnegative_quadratic(Q: Matrix, c: Vector) -> Vector:
    """Minimise ½λᵀQλ − cᵀλ over λ ≥ 0 by the active-set method of Lawson and Hanson.

    Q is positive semi-definite.  One weight is freed at a time, the one with the steepest
    descent, so a collinear or zero column is never freed beside its twin.
    """
    scale = np.sqrt(np.diagonal(Q))
    scale = np.where(scale > 0, scale, 1.0)
    Q, c = Q / np.outer(scale, scale), c / scale  # unit diagonal: tolerances mean something
    weights = np.zeros(len(c))
    free = np.zeros(len(c), dtype=bool)
    tolerance = 1e-12 * max(float(np.abs(c).max(initial=0.0)), np.finfo(float).tiny)
    for _ in range(10 * len(c) + 10):
        descent = np.where(free, -np.inf, c - Q @ weights)
        steepest = int(np.argmax(descent))
        if descent[steepest] <= tolerance:
            break
        free[steepest] = True
        previous = weights
        weights = _restore(Q, c, weights, free)
        if not free[steepest] and np.array_equal(weights, previous):
            break  # rounding: freeing this weight gains nothing
    return np.asarray(weights / scale)


def _restore(Q: Matrix, c: Vector, weights: Vector, free: NDArray[np.bool_]) -> Vector:
    """Move to the minimum over the free weights; those that would turn negative are bound."""
    while free.any():
        target = np.zeros_like(weights)
        target[free] = _least_squares(Q[np.ix_(free, free)], c[free])
        blocking = free & (target <= 0)
        if not blocking.any():
            return target
        step = np.min(weights[blocking] / (weights[blocking] - target[blocking] + 1e-300))
        weights = weights + step * (target - weights)
        free &= ~(blocking & (weights <= 1e-15 * np.abs(weights).max(initial=0.0)))
        weights = np.where(free, weights, 0.0)
    return weights


def _least_squares(Q: Matrix, c: Vector) -> Vector:
    """Return the smallest λ with Qλ = c, in the least-squares sense where Q is singular."""
    values, vectors = np.linalg.eigh(Q)
    keep = values > 1e-14 * max(float(values[-1]), 0.0)
    coefficients = (vectors.T @ c)[keep] / values[keep]
    return np.asarray(vectors[:, keep] @ coefficients)


def _l1(Q: Matrix, c: Vector, beta: float) -> Vector:
    """Minimise ½λᵀQλ − cᵀλ + β‖λ‖₁ with λ = u − v and u, v ≥ 0."""
    doubled = np.block([[Q, -Q], [-Q, Q]])
    parts = nonnegative_quadratic(doubled, np.r_[c - beta, -c - beta])
    return np.asarray(parts[: len(c)] - parts[len(c) :])


def _simplex(Q: Matrix, c: Vector, target: float) -> Vector:
    """Minimise ½‖y − Fλ‖² over λ ≥ 0 with Σλ = 1.

    On the simplex ‖y − Fλ‖² = λᵀMλ with M = (y1ᵀ − F)ᵀ(y1ᵀ − F).  Dropping the sum,
    min ½uᵀ(M + s11ᵀ)u − s1ᵀu over u ≥ 0 has its best scale at t = s/(λᵀMλ + s) and then
    the value −½s²/(λᵀMλ + s), so u = tλ for the same λ, whatever s > 0.
    """
    M = Q - c[:, None] - c[None, :] + target
    M = M + max(0.0, -float(np.linalg.eigvalsh(M)[0])) * np.eye(len(c))  # rounding
    scale = max(float(np.diagonal(M).mean()), np.finfo(float).tiny)
    weights = nonnegative_quadratic(M / scale + 1.0, np.ones(len(c)))
    total = float(weights.sum())
    return np.asarray(weights / total) if total > 0 else np.full(len(c), 1 / len(c))


def _fixed_norm(Q: Matrix, c: Vector, nonnegative: bool) -> Vector:
    """Minimise ½λᵀQλ − cᵀλ over ‖λ‖ ≤ 1: a ridge whose strength μ makes the norm one."""

    def ridge(mu: float) -> Vector:
        system = Q + mu * np.eye(len(c))
        return nonnegative_quadratic(system, c) if nonnegative else _least_squares(system, c)

    def excess(mu: float) -> float:
        return float(np.linalg.norm(ridge(mu))) - 1.0

    # ‖λ(μ)‖ ≤ ‖c‖/μ falls in μ, so the root lies in [0, ‖c‖].
    upper = float(np.linalg.norm(c))
    lower = 1e-15 * float(np.trace(Q))
    unconstrained = ridge(0.0)
    if np.linalg.norm(unconstrained) <= 1.0:
        return unconstrained
    if upper <= lower or excess(lower) <= 0:
        return ridge(lower)
    root: Any = brentq(excess, lower, upper, xtol=1e-300, rtol=1e-14, maxiter=500)
    weights = ridge(root)
    return np.asarray(weights / max(1.0, float(np.linalg.norm(weights))))

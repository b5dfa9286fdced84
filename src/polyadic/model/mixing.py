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

from polyadic.model.normal import NormalEquations, require_finite

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
    require_finite(Q, c)
    if mixing == "simplex":
        return _simplex(Q, c, equations.target_norm2)
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
    """Minimise ½λᵀQλ − cᵀλ over λ ≥ 0, where Q is positive semi-definite and a minimum exists."""
    from polyadic.model.compiled_active_set import (
        nonnegative_minimum,  # numba is loaded when it is needed
    )

    scale, Q = _unit_diagonal(Q)
    return np.asarray(nonnegative_minimum(Q, c / scale) / scale)


def _sound(eigenvalues: Vector) -> NDArray[np.bool_]:
    """Return which eigenvalues are more than rounding."""
    return np.asarray(eigenvalues > 1e-15 * len(eigenvalues) * max(eigenvalues[-1], 0.0))


def _unit_diagonal(Q: Matrix) -> tuple[Vector, Matrix]:
    """Return s and Q/ssᵀ, so that maps of any size are solved to the same precision."""
    scale = np.sqrt(np.diagonal(Q))
    scale = np.where(scale > 0, scale, 1.0)
    return scale, Q / np.outer(scale, scale)


def _least_squares(Q: Matrix, c: Vector) -> Vector:
    """Return the smallest λ with Qλ = c, in the least-squares sense where Q is singular."""
    scale, Q = _unit_diagonal(Q)
    values, vectors = np.linalg.eigh(Q)
    sound = _sound(values)
    inverse = (vectors[:, sound] / values[sound]) @ vectors[:, sound].T
    weights = inverse @ (c / scale) / scale
    if not sound.all():
        null = np.linalg.qr(vectors[:, ~sound] / scale[:, None])[0]
        weights = weights - null @ (null.T @ weights)
        # What a large map lost to the rounding of a small one is put right.
        weights = weights + inverse @ (c / scale - Q @ (weights * scale)) / scale
    return np.asarray(weights)


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
    # The error of the best map, or what rounding leaves of it: a bad map of any size
    # must not drown the differences between good ones.
    size = max(float(np.diagonal(M).min()), 1e-14 * target, np.finfo(float).tiny)
    weights = nonnegative_quadratic(M / size + 1.0, np.ones(len(c)))
    return np.asarray(weights / weights.sum())


def _fixed_norm(Q: Matrix, c: Vector, nonnegative: bool) -> Vector:
    """Minimise ½λᵀQλ − cᵀλ over ‖λ‖ ≤ 1: a ridge whose strength μ makes the norm one."""

    def ridge(mu: float) -> Vector:
        system = Q + mu * np.eye(len(c))
        return nonnegative_quadratic(system, c) if nonnegative else _least_squares(system, c)

    def excess(mu: float) -> float:
        return 1.0 - 1.0 / max(float(np.linalg.norm(ridge(mu))), np.finfo(float).tiny)

    if excess(0.0) <= 0:
        return ridge(0.0)
    # ‖λ(μ)‖ ≤ ‖c‖/μ falls in μ.  Of a singular Q the weights at μ = 0 are not always the
    # smallest ones, so that the norm may jump there.
    positive = np.diagonal(Q)[np.diagonal(Q) > 0]
    root: Any = 1e-15 * float(positive.min())
    if excess(root) > 0:
        upper = 2 * float(np.linalg.norm(c))
        root = brentq(excess, root, upper, xtol=1e-300, rtol=1e-14, maxiter=500)
    weights = ridge(root * (1 + 1e-12))  # the feasible side
    return np.asarray(weights / max(1.0, float(np.linalg.norm(weights))))

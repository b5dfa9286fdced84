"""The step of the feature weights λ: P × P sums in, P weights out, each solved to optimality.

Every problem is min ½‖y − Fλ‖² + β·Reg(λ) under its constraints, written with
Q = FᵀF and c = Fᵀy.  Three of the non-negative ones, and L1, are one problem,

    min ½ λᵀQλ − cᵀλ   subject to λ ≥ 0,

which an active-set method solves exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from polyadic.model.normal import NormalEquations, require_finite

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Mixing(ABC):
    """One kind of regularisation of λ; its constraints on λ are those that `start` meets."""

    @abstractmethod
    def solve(self, sums: NormalEquations, nonnegative: bool, beta: float) -> Vector:
        """Return the optimal λ for the sums of F, the responses of each map."""

    def penalty(self, map_weights: Vector, beta: float) -> float:
        """Return β·Reg(λ)."""
        return 0.0

    def start(self, map_weights: Vector) -> Vector:
        """Return a feasible λ, made of any that is not negative."""
        return map_weights


class Simplex(Mixing):
    """λ ≥ 0 with Σλ = 1."""

    def solve(self, sums: NormalEquations, nonnegative: bool, beta: float) -> Vector:
        """Minimise ½‖y − Fλ‖²; λ is non-negative in any case.

        On the simplex ‖y − Fλ‖² = λᵀMλ with M = (y1ᵀ − F)ᵀ(y1ᵀ − F).  Dropping the sum,
        min ½uᵀ(M + s11ᵀ)u − s1ᵀu over u ≥ 0 has its best scale at t = s/(λᵀMλ + s) and then
        the value −½s²/(λᵀMλ + s), so u = tλ for the same λ, whatever s > 0.
        """
        Q, c, target = sums.gram, sums.moment, sums.target_norm2
        M = Q - c[:, None] - c[None, :] + target
        # The error of the best map, or what rounding leaves of it: a bad map of any size
        # must not drown the differences between good ones.
        size = max(float(np.diagonal(M).min()), 1e-14 * target, np.finfo(float).tiny)
        weights = nonnegative_quadratic(M / size + 1.0, np.ones(len(c)))
        return np.asarray(weights / weights.sum())

    def start(self, map_weights: Vector) -> Vector:
        """Return λ divided by its sum."""
        return np.asarray(map_weights / map_weights.sum())


class L1(Mixing):
    """The penalty β‖λ‖₁."""

    def solve(self, sums: NormalEquations, nonnegative: bool, beta: float) -> Vector:
        """Minimise ½λᵀQλ − cᵀλ + β‖λ‖₁: with λ = u − v and u, v ≥ 0 where signs are free."""
        Q, c = sums.gram, sums.moment
        if nonnegative:
            return nonnegative_quadratic(Q, c - beta)
        doubled = np.block([[Q, -Q], [-Q, Q]])
        parts = nonnegative_quadratic(doubled, np.r_[c - beta, -c - beta])
        return np.asarray(parts[: len(c)] - parts[len(c) :])

    def penalty(self, map_weights: Vector, beta: float) -> float:
        """Return β‖λ‖₁."""
        return beta * float(np.abs(map_weights).sum())


class L2(Mixing):
    """The penalty ½β‖λ‖₂²."""

    def solve(self, sums: NormalEquations, nonnegative: bool, beta: float) -> Vector:
        """Minimise ½λᵀ(Q + β·I)λ − cᵀλ."""
        return _solve_ridge(sums.gram, sums.moment, beta, nonnegative)

    def penalty(self, map_weights: Vector, beta: float) -> float:
        """Return ½β‖λ‖₂²."""
        return 0.5 * beta * float(map_weights @ map_weights)


class FixedNorm(Mixing):
    """The constraint ‖λ‖₂ ≤ 1."""

    def solve(self, sums: NormalEquations, nonnegative: bool, beta: float) -> Vector:
        """Minimise ½λᵀQλ − cᵀλ over ‖λ‖ ≤ 1: a ridge whose strength μ makes the norm one."""
        Q, c = sums.gram, sums.moment

        def excess(mu: float) -> float:
            norm = float(np.linalg.norm(_solve_ridge(Q, c, mu, nonnegative)))
            return 1.0 - 1.0 / max(norm, np.finfo(float).tiny)

        if excess(0.0) <= 0:
            return _solve_ridge(Q, c, 0.0, nonnegative)
        # ‖λ(μ)‖ ≤ ‖c‖/μ falls in μ.  Of a singular Q the weights at μ = 0 are not always the
        # smallest ones, so that the norm may jump there.
        positive = np.diagonal(Q)[np.diagonal(Q) > 0]
        mu: Any = 1e-15 * float(positive.min())
        if excess(mu) > 0:
            upper = 2 * float(np.linalg.norm(c))
            mu = brentq(excess, mu, upper, xtol=1e-300, rtol=1e-14, maxiter=500)
        weights = _solve_ridge(Q, c, mu * (1 + 1e-12), nonnegative)  # the feasible side
        return np.asarray(weights / max(1.0, float(np.linalg.norm(weights))))

    def start(self, map_weights: Vector) -> Vector:
        """Return λ, divided by its norm where that is above one."""
        return np.asarray(map_weights / max(1.0, float(np.linalg.norm(map_weights))))


_KINDS: dict[str, Mixing] = {
    "simplex": Simplex(),
    "l1": L1(),
    "l2": L2(),
    "fixed_norm": FixedNorm(),
}
MIXINGS = tuple(_KINDS)


def solve_mixing(equations: NormalEquations, mixing: str, nonnegative: bool, beta: float) -> Vector:
    """Return the optimal λ for one of `MIXINGS`; on the simplex λ ≥ 0 always holds."""
    require_finite(equations.gram, equations.moment)
    return _KINDS[mixing].solve(equations, nonnegative, beta)


def penalty(map_weights: Vector, mixing: str, beta: float) -> float:
    """Return β·Reg(λ), the part of the objective that belongs to the feature weights."""
    return _KINDS[mixing].penalty(map_weights, beta)


def initial_weights(n_maps: int, mixing: str, rng: np.random.RandomState) -> Vector:
    """Draw λ uniformly on [0, 1] as the paper does, then make it feasible."""
    return _KINDS[mixing].start(rng.uniform(size=n_maps))


def _solve_ridge(Q: Matrix, c: Vector, strength: float, nonnegative: bool) -> Vector:
    """Minimise ½λᵀ(Q + strength·I)λ − cᵀλ, over λ ≥ 0 if asked for."""
    system = Q + strength * np.eye(len(c))
    return nonnegative_quadratic(system, c) if nonnegative else _least_squares(system, c)


def nonnegative_quadratic(Q: Matrix, c: Vector) -> Vector:
    """Minimise ½λᵀQλ − cᵀλ over λ ≥ 0, where Q is positive semi-definite and a minimum exists."""
    # Imported here, so that numba is loaded only when it is needed.
    from polyadic.model.compiled_active_set import nonnegative_minimum

    scale, Q = _unit_diagonal(Q)
    return np.asarray(nonnegative_minimum(Q, c / scale) / scale)


def _unit_diagonal(Q: Matrix) -> tuple[Vector, Matrix]:
    """Return s and Q/ssᵀ, so that maps of any size are solved to the same precision."""
    scale = np.sqrt(np.diagonal(Q))
    scale = np.where(scale > 0, scale, 1.0)
    return scale, Q / np.outer(scale, scale)


def _least_squares(Q: Matrix, c: Vector) -> Vector:
    """Return the smallest λ with Qλ = c, in the least-squares sense where Q is singular."""
    scale, Q = _unit_diagonal(Q)
    values, vectors = np.linalg.eigh(Q)
    sound = values > 1e-15 * len(values) * max(values[-1], 0.0)  # more than rounding
    inverse = (vectors[:, sound] / values[sound]) @ vectors[:, sound].T
    weights = inverse @ (c / scale) / scale
    if not sound.all():
        null = np.linalg.qr(vectors[:, ~sound] / scale[:, None])[0]
        weights = weights - null @ (null.T @ weights)
        # What a large map lost to the rounding of a small one is put right.
        weights = weights + inverse @ (c / scale - Q @ (weights * scale)) / scale
    return np.asarray(weights)

"""Non-negative least squares for a handful of weights, compiled.

The active-set method takes a round for each weight that is freed; in plain NumPy the rounds
of one λ step would cost as much as several core steps of a small data set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyadic.model.jit import inline, jit


@jit
def nonnegative_minimum(Q: Any, c: Any) -> Any:
    """Minimise ½λᵀQλ − cᵀλ over λ ≥ 0, Q of unit diagonal, by the method of Lawson and Hanson.

    One weight is freed at a time, the one with the steepest descent; each round must lower
    the value, so there is no cycle.
    """
    weights, best = np.zeros(len(c)), 0.0
    free = np.zeros(len(c), np.bool_)
    useless = np.zeros(len(c), np.bool_)  # freeing these gained nothing but rounding
    while True:
        steepest, most = -1, 0.0
        for p in range(len(c)):
            descent, rounding = _descent(Q, c, weights, p)
            if not free[p] and not useless[p] and descent > max(rounding, most):
                steepest, most = p, descent
        if steepest < 0:
            return weights
        trial, moved = free.copy(), weights.copy()
        trial[steepest] = True
        _descend(Q, c, moved, trial)
        value = 0.0
        for p in range(len(c)):
            value -= 0.5 * moved[p] * (c[p] + _descent(Q, c, moved, p)[0])
        if value < best:
            weights, best, free = moved, value, trial
            useless[:] = False
        else:
            useless[steepest] = True


@inline
def _descend(Q: Any, c: Any, weights: Any, free: Any) -> None:
    """Go to the minimum over the free weights; those that reach zero are bound, in `free`.

    The value may fall along the null space of Q, where only a bound ends the way.  So rays in
    the null space come first, until none falls; then a Newton step in the range of Q leads to
    the minimum.  Whenever a weight is bound, the system is a smaller one and all begins anew.
    """
    follow_rays = True
    while free.any():
        index = np.flatnonzero(free)
        newton, ray, rounding = _directions(Q, c, weights, index)
        length, curvature = _length_and_curvature(Q, ray, index)
        follow_rays = follow_rays and length > rounding
        if not follow_rays:
            if not _move(weights, free, index, newton, 1.0):
                return
            follow_rays = True
            continue
        longest = length / curvature if curvature > 0 else np.inf
        step = _step_to_bound(weights, index, ray, longest)
        if not np.isfinite(step):
            return  # rounding: the value of a sound problem does not fall for ever
        follow_rays = _move(weights, free, index, ray, step)


@inline
def _step_to_bound(weights: Any, index: Any, direction: Any, longest: float) -> float:
    """Return how far a direction can be followed until a weight is zero, at most `longest`."""
    step = longest
    for i, p in enumerate(index):
        if direction[i] < 0:
            step = min(step, weights[p] / -direction[i])
    return step


@inline
def _move(weights: Any, free: Any, index: Any, direction: Any, longest: float) -> bool:
    """Follow a direction; bind the weights that reach zero, and return whether any did."""
    step, bound = _step_to_bound(weights, index, direction, longest), False
    for i, p in enumerate(index):
        if direction[i] < 0 and weights[p] / -direction[i] <= step:
            free[p], weights[p], bound = False, 0.0, True
        else:
            weights[p] = max(weights[p] + step * direction[i], 0.0)
    return bound


@inline
def _descent(Q: Any, c: Any, weights: Any, p: int) -> Any:
    """Return entry p of c − Qλ, the steepest descent, and a bound on its rounding."""
    descent, size = c[p], abs(c[p])
    for q in range(len(c)):
        descent -= Q[p, q] * weights[q]
        size += abs(Q[p, q] * weights[q])
    return descent, 1e-14 * size


@inline
def _directions(Q: Any, c: Any, weights: Any, index: Any) -> Any:
    """Return the Newton step on the range of Q, and the descent's part in its null space.

    With them comes the rounding of the descent, squared; all of the free weights alone.
    """
    n = len(index)
    system, gradient, rounding = np.empty((n, n)), np.empty(n), 0.0
    for i, p in enumerate(index):
        gradient[i], noise = _descent(Q, c, weights, p)
        rounding += noise * noise
        for j, q in enumerate(index):
            system[i, j] = Q[p, q]
    values, vectors = np.linalg.eigh(system)
    newton, ray = np.zeros(n), np.zeros(n)
    for k in range(n):
        along = 0.0
        for i in range(n):
            along += vectors[i, k] * gradient[i]
        # An eigenvalue of nothing but rounding belongs to the null space.
        if values[k] > 1e-15 * n * max(values[n - 1], 0.0):
            for i in range(n):
                newton[i] += vectors[i, k] * along / values[k]
        else:
            for i in range(n):
                ray[i] += vectors[i, k] * along
    return newton, ray, rounding


@inline
def _length_and_curvature(Q: Any, ray: Any, index: Any) -> Any:
    """Return the squared length of a direction, and how the value curves along it."""
    length = curvature = 0.0
    for i, p in enumerate(index):
        length += ray[i] * ray[i]
        for j, q in enumerate(index):
            curvature += ray[i] * Q[p, q] * ray[j]
    return length, curvature

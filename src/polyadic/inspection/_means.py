"""Means over rows of what a model says where some inputs are held fixed.

The responses of a model are a sum of products over inputs, f(x) = Re Σₚ λₚ Σᵣ Π_d a_dpr(x_d).
Averaged over rows with some inputs held fixed, the fixed inputs come out of the mean:

    Re Σₚ λₚ Σᵣ a_dpr(g) · mean over rows of Π_{e≠d} a_epr(x_e)

so that N rows and G grid points cost N + G evaluations and not N·G, and the result is the
exact average.  Under a link the response of every row at every point is needed, which is one
product of matrices from the same N + G evaluations; the link is applied to each, and the mean
taken after it.  Rows with gaps of numbers, which are filled in by the other numbers of the row,
have no such form, nor have models with directions; these are predicted at each point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._checks import complete_groups
from polyadic.inspection._outputs import Output
from polyadic.inspection._terms import (
    Block,
    Group,
    believe,
    blocks,
    distance_of,
    is_entangled,
    is_filled,
    respond_rows,
)

_MAX_ROWS = 20_000  # at a time: their terms are held in memory
_MAX_VALUES = 2_000_000  # responses of rows at points that are held at a time

Points = Sequence[NDArray[np.float64]]


def mean_outputs(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], points: Points, output: Output
) -> NDArray[np.float64]:
    """Return means at all points, an axis for the points of each group and one for the columns."""
    shape = tuple(len(values) for values in points)
    total = np.zeros((*shape, len(output.columns)))
    if output.is_linear:
        for part in _cut(X, _MAX_ROWS):
            found = mean_responses(estimator, part, chosen, points, output.responses)
            total += output.sign * len(part) / len(X) * found
        return total
    size = int(np.prod(shape)) * len(output.responses)
    for part in _cut(X, min(_MAX_ROWS, max(1, _MAX_VALUES // size))):
        found = respond_at(estimator, part, chosen, points, output.responses)
        found = believe(
            estimator, found, _distances(estimator, part, chosen, points), output.responses
        )
        total += output.finish(found).sum(axis=0) / len(X)
    return total


def _distances(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], points: Points
) -> NDArray[np.float64]:
    """Return how far every row at all points lies beyond the rows of the fit: rows, points."""
    held = [place for group in chosen for place in group]
    found = distance_of(estimator, X, set(range(X.shape[1])) - set(held))
    for group, values in zip(chosen, points, strict=True):
        at = np.full((len(values), X.shape[1]), np.nan)
        at[:, list(group)] = values
        found = found[..., None] + distance_of(estimator, at, group)
    return found


def _cut(X: NDArray[np.float64], size: int) -> Iterator[NDArray[np.float64]]:
    for first in range(0, len(X), size):
        yield X[first : first + size]


def respond_at(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Points,
    targets: Sequence[int],
) -> NDArray[np.float64]:
    """Return the responses of every row at all points: rows, points, targets."""
    shape = tuple(len(values) for values in points)
    found = np.empty((len(X), *shape, len(targets)))
    by_hand = is_entangled(estimator, X, but=[place for group in chosen for place in group])
    for index, target in enumerate(targets):
        found[~by_hand, ..., index] = _multiply_terms(
            estimator, X[~by_hand], chosen, points, target
        )
    if by_hand.any():
        found[by_hand] = _predict_each(estimator, X[by_hand], chosen, points, targets)
    for axis, at_gap, some in _gap_points(estimator, X, chosen, points):
        place = (slice(None),) * (axis + 1) + (at_gap,)
        found[place] = _predict_each(estimator, X, chosen, some, targets)
    return found


def mean_responses(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Points,
    targets: Sequence[int],
) -> NDArray[np.float64]:
    """Return mean responses at all points, by the closed form for rows that have one."""
    shape = tuple(len(values) for values in points)
    total = np.zeros((*shape, len(targets)))
    by_hand = is_entangled(estimator, X, but=[place for group in chosen for place in group])
    if not by_hand.all():
        rows = X[~by_hand]
        each = [_sum_terms(estimator, rows, chosen, points, target) for target in targets]
        total += (1 - by_hand.mean()) * np.stack(each, axis=-1)
    if by_hand.any():
        total += by_hand.mean() * _mean_each(estimator, X[by_hand], chosen, points, targets)
    for axis, at_gap, some in _gap_points(estimator, X, chosen, points):
        place = (slice(None),) * axis + (at_gap,)
        total[place] = _mean_each(estimator, X, chosen, some, targets)
    return total


def at_own_values(
    X: NDArray[np.float64], group: Group, means: Callable[[NDArray[np.float64]], NDArray[Any]]
) -> NDArray[Any]:
    """Return means at the values of a group that each row has, which many may share."""
    own = X[:, list(group)]
    # Gaps are no values to NumPy, unlike infinity, which no row has.
    marked = np.where(np.isnan(own), np.inf, own)
    values, place = np.unique(marked, axis=0, return_inverse=True)
    return means(np.where(np.isinf(values), np.nan, values))[place.reshape(-1)]


def _gap_points(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], points: Points
) -> Iterator[tuple[int, NDArray[np.bool_], list[NDArray[np.float64]]]]:
    """Yield which points of a group are gaps: what is put in there differs from row to row."""
    for axis, (group, values) in enumerate(zip(chosen, points, strict=True)):
        rows = np.zeros((len(values), X.shape[1]))
        rows[:, list(group)] = values
        at_gap = is_filled(estimator, rows)
        if at_gap.any():
            yield axis, at_gap, [*points[:axis], values[at_gap], *points[axis + 1 :]]


def _predict_each(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Points,
    targets: Sequence[int],
) -> NDArray[np.float64]:
    """Set all rows to each point, and predict them."""
    shape = tuple(len(values) for values in points)
    found = np.empty((len(X), *shape, len(targets)))
    step = max(1, _MAX_ROWS // shape[-1])
    for first in range(0, len(X), step):
        part = slice(first, first + step)
        for outer in np.ndindex(shape[:-1]):
            rows = np.repeat(X[part], shape[-1], axis=0)
            for group, values, place in zip(chosen, points, outer, strict=False):
                rows[:, list(group)] = values[place]
            rows[:, list(chosen[-1])] = np.tile(points[-1], (len(X[part]), 1))
            responses = respond_rows(estimator, rows)[:, list(targets)]
            found[(part, *outer)] = responses.reshape(-1, shape[-1], len(targets))
    return found


def _mean_each(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Points,
    targets: Sequence[int],
) -> NDArray[np.float64]:
    size = int(np.prod([len(values) for values in points])) * len(targets)
    parts = _cut(X, max(1, _MAX_VALUES // size))
    sums = [_predict_each(estimator, part, chosen, points, targets).sum(axis=0) for part in parts]
    return np.asarray(np.sum(sums, axis=0) / len(X))


def _multiply_terms(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], points: Points, target: int
) -> NDArray[np.float64]:
    """Return responses as products of what rows and points contribute, rows first."""
    shape = tuple(len(values) for values in points)
    found = np.full((len(X), int(np.prod(shape))), float(estimator.target_scaling_.mean[target]))
    if not len(X):
        return found.reshape(len(X), *shape)
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), points, target):
        held = _held_terms(block, shape)
        at = held[0] if len(held) == 1 else (held[0][:, None] * held[1]).reshape(-1, block.rank)
        rest = block.product_without(range(len(chosen)))
        found += block.weight * (np.broadcast_to(rest, (len(X), block.rank)) @ at.T).real
    return found.reshape(len(X), *shape)


def _sum_terms(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], points: Points, target: int
) -> NDArray[np.float64]:
    """Sum the closed form over all blocks, in the units of the response."""
    shape = tuple(len(values) for values in points)
    total = np.full(shape, float(estimator.target_scaling_.mean[target]))
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), points, target):
        others = block.mean_without(range(len(chosen)))
        held = _held_terms(block, shape)
        equation = "gr,r->g" if len(held) == 1 else "gr,hr,r->gh"
        total += block.weight * np.einsum(equation, *held, np.broadcast_to(others, block.rank)).real
    return total


def _held_terms(block: Block, shape: tuple[int, ...]) -> list[NDArray[Any]]:
    """Return the terms of points; a group without cores in a block is constant there."""
    return [block.points.get(g, np.ones((n, block.rank))) for g, n in enumerate(shape)]

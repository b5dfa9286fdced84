"""The model as sums of products over groups of inputs.

    f(x) = mean + Re Σ_blocks weight · Σᵣ Π_groups terms_group(x)ᵣ

A block is some of the rank components of one feature map of one member, in the target's
units, or in those that a link is applied to.  All of partial dependence, permutation and
interaction are products and means of these terms, so that the features of an input are evaluated
once, whatever is asked.  Gaps of numbers are filled in by the rest of their row, and stay so where
another input is changed.  Along directions a model is no product over the inputs: then rows are
predicted at each point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.members import Member

_BLOCK_BYTES = 1e8  # of the terms of one block; products of them take as much again

Group = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """Terms of the groups that take part in it; the others are constant.

    `rows` and `points` hold, for each group, one line of r terms for each row of the data
    and for each of the group's own points.
    """

    weight: float
    rows: dict[int, NDArray[Any]]
    points: dict[int, NDArray[Any]]

    def without_each(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield each group with the product of all the others, formed without division."""
        groups = list(self.rows)
        after = [np.ones_like(self.rows[groups[0]])]
        for group in reversed(groups[1:]):
            after.append(after[-1] * self.rows[group])
        before: Any = 1.0
        for group in groups:
            yield group, before * after.pop()
            before = before * self.rows[group]

    @property
    def rank(self) -> int:
        """Number of terms that a row has."""
        return int(next(iter(self.rows.values())).shape[1])

    def product_without(self, left_out: Sequence[int]) -> Any:
        """Return the product of all groups but some, row by row; 1 where none is left."""
        kept = [terms for group, terms in self.rows.items() if group not in left_out]
        return product(kept) if kept else 1.0

    def mean_without(self, left_out: Sequence[int]) -> Any:
        """Return the mean over rows of the product of all groups but some."""
        return np.atleast_2d(self.product_without(left_out)).mean(axis=0)


def product(factors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Multiply arrays of one shape, at least one."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def blocks(
    estimator: Any,
    X: NDArray[np.float64],
    groups: Sequence[Group],
    points: Sequence[NDArray[np.float64]],
    target: int,
) -> Iterator[Block]:
    """Yield the blocks of a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        What was fitted.
    X : ndarray of shape (n_samples, n_features)
        Rows.
    groups : sequence of tuples
        Inputs that are set together; each input belongs to one group.
    points : sequence of ndarrays of shape (n_points, group size)
        Where else to evaluate the first groups.
    target : int
        Which target.
    """
    held, spans = _held_rows(X, groups, points)
    scale = float(estimator.target_scaling_.scale[target])
    for member in estimator.members_:
        if not member.share:
            continue
        layout, cores = member.layout, member.model.cores[target]
        owned = _cores_of(member, groups)
        scaled, fixed = member.inputs.apply(X), member.inputs.apply(held)
        for feature_map, weight in zip(layout.maps, member.model.map_weights, strict=True):
            if weight == 0:
                continue
            met = layout.factors(scaled, feature_map)
            there = {
                (group, core): layout.factor(fixed[span], feature_map, core)
                for group, span in enumerate(spans)
                for core in owned.get(group, [])
            }
            for some in _rank_slices(cores[0].shape[1], len(owned) * (len(X) + 1)):
                yield Block(
                    member.share * float(weight) * scale,
                    {
                        g: product([met[c] @ cores[c][:, some] for c in own])
                        for g, own in owned.items()
                    },
                    {
                        g: product([there[g, c] @ cores[c][:, some] for c in owned[g]])
                        for g in range(len(spans))
                        if g in owned
                    },
                )


def _held_rows(
    X: NDArray[np.float64], groups: Sequence[Group], points: Sequence[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], list[slice]]:
    """Return rows that have the points of all groups below each other, and where each lies."""
    ends = np.cumsum([0, *(len(values) for values in points)])
    held = np.repeat(X[:1], ends[-1], axis=0)
    spans = [slice(first, last) for first, last in pairwise(ends)]
    for group, span, values in zip(groups, spans, points, strict=False):
        held[span, list(group)] = values
    return held, spans


def _cores_of(member: Member, groups: Sequence[Group]) -> dict[int, list[int]]:
    """Return the cores of each group that has any; the flag of an input goes with it."""
    group_of = {
        column: index
        for index, group in enumerate(groups)
        for place in group
        for column in member.inputs.columns_of(place)
    }
    owned: dict[int, list[int]] = {}
    for core, column in enumerate(member.layout.core_inputs):
        owned.setdefault(group_of[column], []).append(core)
    return owned


def is_filled(estimator: Any, X: NDArray[np.float64], but: Sequence[int] = ()) -> NDArray[np.bool_]:
    """Return which rows have a gap of a number, but for some, that is filled in by the others.

    The model is no product over the inputs of such a row, since one of them hangs on the others.
    """
    if all(member.inputs.filling is None for member in estimator.members_):
        return np.zeros(len(X), dtype=bool)
    n_levels = schema_of(estimator).inputs.n_levels
    numbers = [place for place, n in enumerate(n_levels) if not n and place not in but]
    return np.asarray(np.isnan(X[:, numbers]).any(axis=1))


def has_directions(estimator: Any) -> bool:
    """Whether inputs act through linear combinations, so that a model is no product over them."""
    return any(m.inputs.directions is not None for m in estimator.members_ if m.share)


def is_entangled(
    estimator: Any, X: NDArray[np.float64], but: Sequence[int] = ()
) -> NDArray[np.bool_]:
    """Return the rows for which the model is no product over the inputs, some of them aside."""
    if has_directions(estimator):
        return np.ones(len(X), dtype=bool)
    return is_filled(estimator, X, but)


def respond_rows(
    estimator: Any, X: NDArray[np.float64], *, moderate: bool = False
) -> NDArray[np.float64]:
    """Return the responses to rows as the model sees them, before any link, a column each.

    These are what the members say; `moderate` is for what is predicted in the end.
    """
    predictor = replace(estimator._predictor(), link="identity")
    with (predictor if moderate else replace(predictor, reach=None)).open() as predict:
        return np.asarray(predict(X))


def distance_of(
    estimator: Any, X: NDArray[np.float64], places: Iterable[int]
) -> NDArray[np.float64]:
    """Return how far some inputs of rows lie beyond the rows of the fit; such parts add up."""
    reach, some = estimator._predictor().reach, list(places)
    if reach is None:
        return np.zeros(len(X))
    seen = np.full_like(X, np.nan)  # a gap is nowhere
    seen[:, some] = X[:, some]
    return np.asarray(reach.distance(seen))


def believe(
    estimator: Any,
    f: NDArray[np.float64],
    distance: NDArray[np.float64],
    responses: Sequence[int],
) -> NDArray[np.float64]:
    """Return what is predicted of responses, along the last axis, to rows at some distance."""
    reach, mean = estimator._predictor().reach, estimator.target_scaling_.mean[list(responses)]
    return f if reach is None else mean + reach.share_at(distance)[..., None] * (f - mean)


def _rank_slices(rank: int, terms: int) -> Iterator[slice]:
    """Yield so many rank components at a time as memory has room for."""
    step = max(1, int(_BLOCK_BYTES / (16 * terms)))
    for first in range(0, rank, step):
        yield slice(first, first + step)

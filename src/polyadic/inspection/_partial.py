"""Partial dependence in closed form.

The model is a sum of products over inputs, f(x) = Re Σₚ λₚ Σᵣ Π_d a_dpr(x_d).  Averaged over
rows with some inputs held fixed, the fixed inputs come out of the mean:

    Re Σₚ λₚ Σᵣ a_dpr(g) · mean over rows of Π_{e≠d} a_epr(x_e)

so that N rows and G grid points cost N + G evaluations and not N·G, and the result is the
exact average of the model's predictions.  Rows with gaps of numbers, which are filled in by the
other numbers of the row, have no such form, and are predicted at each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._checks import check_arguments, complete_groups
from polyadic.inspection._inputs import Input, encode_points, places_of
from polyadic.inspection._terms import Group, blocks, is_filled, predict_rows

_MAX_ROWS = 20_000  # at a time: their terms are held in memory


@dataclass(frozen=True)
class PartialDependence:
    """How a prediction depends on one or two inputs, the others averaged over rows.

    Parameters
    ----------
    inputs : tuple of int, or of tuples of int
        Places of the inputs that vary, as in `inputs_`; a tuple for columns that are set together.
    names : tuple of str
        Their names.
    grids : tuple of ndarray
        The values that each takes, of shape (n_points,) or (n_points, n_columns): numbers, levels
        or dates.  A gap is NaN, None or NaT, and stands last.
    labels : tuple of list of str
        Names of the values of what has levels, or is set together; empty for a curve.
    values : ndarray
        The mean prediction, one axis for each grid.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import partial_dependence
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> found = partial_dependence(model, X, [3], resolution=5)
    >>> found.names, found.values.shape
    (('x3',), (5,))
    """

    inputs: tuple[int | Group, ...]
    names: tuple[str, ...]
    grids: tuple[NDArray[Any], ...]
    labels: tuple[list[str], ...]
    values: NDArray[np.float64]


def partial_dependence(
    estimator: Any,
    X: Any,
    inputs: Any,
    *,
    grids: Sequence[Any] | None = None,
    resolution: int = 50,
    target: int = 0,
) -> PartialDependence:
    """Return the mean prediction over the rows of `X` with one or two inputs held fixed.

    Parameters
    ----------
    estimator : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows to average over, such as `predict` takes.
    inputs : int or str, or one or two of them
        Columns, by place or by name.  A list in the place of a column names columns that
        are set together.  Of a date each part is an input: ``"when"`` is time itself, and
        ``"when: weekday"`` its weekday.
    grids : sequence of array-like, optional
        The values of each input, in the terms of `X`.  By default `resolution` points over its
        range in `X`, or the 20 levels of a category that the fit saw most often, and a gap where
        the fit saw gaps.  The values of columns that are set together are rows, by default those
        that `X` has.
    resolution : int
        Points of a grid.
    target : int
        Which target, where there are several.

    Returns
    -------
    result : PartialDependence
        Grids and mean predictions.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import partial_dependence
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(80, n_features=5, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=3, n_basis=4, random_state=0).fit(X, y)
    >>> partial_dependence(model, X, 3, resolution=5).values.shape
    (5,)
    >>> partial_dependence(model, X, [[0, 1]], grids=[[[0.0, 0.5], [1.0, 0.5]]]).values.shape
    (2,)

    A category has its levels, and a column with gaps has one point more:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None, 3.0] * 10, "colour": list("abab") * 10})
    >>> model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0)
    >>> model = model.fit(frame, frame["size"].fillna(5) + (frame["colour"] == "a"))
    >>> partial_dependence(model, frame, "colour").labels
    (['a', 'b'],)
    >>> partial_dependence(model, frame, "size", resolution=3).grids
    (array([ 1.,  2.,  3., nan]),)
    """
    X, chosen, target = check_arguments(estimator, X, inputs, target, by_part=True)
    if len(chosen) > 2:
        raise ValueError(
            f"`inputs` must name one input or two, got {len(chosen)}: {inputs!r}. Ask for each "
            "pair by itself."
        )
    groups = [places_of(group) for group in chosen]
    if grids is None:
        points = [_default_points(group, X, resolution) for group in chosen]
    else:
        points = _check_grids(chosen, grids)
    parts = [X[first : first + _MAX_ROWS] for first in range(0, len(X), _MAX_ROWS)]
    values = sum(
        len(part) / len(X) * mean_predictions(estimator, part, groups, points, target)
        for part in parts
    )
    pairs = list(zip(chosen, points, strict=True))
    return PartialDependence(
        tuple(places[0] if len(places) == 1 else places for places in groups),
        tuple(", ".join(each.name for each in group) for group in chosen),
        tuple(_decode(group, found) for group, found in pairs),
        tuple(_write(group, found) for group, found in pairs),
        np.asarray(values),
    )


def mean_predictions(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Sequence[NDArray[np.float64]],
    target: int,
) -> NDArray[np.float64]:
    """Return the mean prediction at all points, by the closed form for rows that have one."""
    changed = [place for group in chosen for place in group]
    by_hand = is_filled(estimator, X, but=changed)
    total = np.zeros(tuple(len(values) for values in points))
    if not by_hand.all():
        total += (1 - by_hand.mean()) * _sum_terms(estimator, X[~by_hand], chosen, points, target)
    if by_hand.any():
        total += by_hand.mean() * _predict_each(estimator, X[by_hand], chosen, points, target)
    for axis, (group, values) in enumerate(zip(chosen, points, strict=True)):
        at_gap = _are_filled(estimator, X, group, values)
        if at_gap.any():  # what is put in place of it differs from row to row
            some = [*points[:axis], values[at_gap], *points[axis + 1 :]]
            place = (slice(None),) * axis + (at_gap,)
            total[place] = _predict_each(estimator, X, chosen, some, target)
    return total


def _are_filled(
    estimator: Any, X: NDArray[np.float64], group: Group, values: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which points of a group are gaps that are filled in."""
    rows = np.zeros((len(values), X.shape[1]))
    rows[:, list(group)] = values
    return is_filled(estimator, rows)


def _predict_each(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Sequence[NDArray[np.float64]],
    target: int,
) -> NDArray[np.float64]:
    """Set all rows to each point, predict them, and take the mean."""
    shape = tuple(len(values) for values in points)
    total, step = np.zeros(shape), max(1, _MAX_ROWS // shape[-1])
    for first in range(0, len(X), step):
        part = X[first : first + step]
        for outer in np.ndindex(shape[:-1]):
            rows = np.tile(part, (shape[-1], 1))
            for group, values, place in zip(chosen, points, outer, strict=False):
                rows[:, list(group)] = values[place]
            rows[:, list(chosen[-1])] = np.repeat(points[-1], len(part), axis=0)
            found = predict_rows(estimator, rows, target)
            total[outer] += found.reshape(shape[-1], len(part)).sum(axis=1)
    return total / len(X)


def _sum_terms(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Sequence[NDArray[np.float64]],
    target: int,
) -> NDArray[np.float64]:
    """Sum the closed form over all blocks, in the target's units."""
    shape = tuple(len(values) for values in points)
    total = np.full(shape, float(estimator.target_scaling_.mean[target]))
    groups = complete_groups(chosen, X.shape[1])
    for block in blocks(estimator, X, groups, points, target):
        others = block.mean_without(range(len(chosen)))
        rank = next(iter(block.rows.values())).shape[1]
        # A group without cores in this block has no terms: it is constant there.
        held = [block.points.get(g, np.ones((n, rank))) for g, n in enumerate(shape)]
        equation = "gr,r->g" if len(held) == 1 else "gr,hr,r->gh"
        total += block.weight * np.einsum(equation, *held, np.broadcast_to(others, rank)).real
    return total


def _default_points(
    group: Sequence[Input], X: NDArray[np.float64], resolution: int
) -> NDArray[np.float64]:
    if len(group) == 1:
        return group[0].choose_points(group[0].values(X), resolution)[:, None]
    columns = X[:, places_of(group)]
    # Gaps are all alike, and come last.
    rows = np.unique(np.where(np.isnan(columns), np.inf, columns), axis=0)
    return np.where(np.isinf(rows), np.nan, rows)


def _check_grids(
    chosen: Sequence[Sequence[Input]], grids: Sequence[Any]
) -> list[NDArray[np.float64]]:
    """Return each grid as rows, one column for each input of its group."""
    if len(grids) != len(chosen):
        raise ValueError(
            f"`grids` must have one grid for each of the {len(chosen)} inputs, got {len(grids)}. "
            "Pass a list of grids, or None."
        )
    return [encode_points(group, g, "grids") for group, g in zip(chosen, grids, strict=True)]


def _decode(group: Sequence[Input], points: NDArray[np.float64]) -> NDArray[Any]:
    """Return points in the users' terms."""
    columns = [each.decode(points[:, [place]]) for place, each in enumerate(group)]
    if len(columns) == 1:
        return columns[0]
    plain = all(column.dtype.kind == "f" for column in columns)
    return np.column_stack([column if plain else column.astype(object) for column in columns])


def _write(group: Sequence[Input], points: NDArray[np.float64]) -> list[str]:
    """Return the names of points, where they have any."""
    if len(group) == 1 and not group[0].levels:
        return []
    columns = [each.write(points[:, place]) for place, each in enumerate(group)]
    return [", ".join(texts) for texts in zip(*columns, strict=True)]

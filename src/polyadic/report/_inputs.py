"""What the inputs do, as far as rows are there to tell.

columns ─► importance; inputs, each part of a date by itself ─► curves, one pair
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.inspection._importance import find_effects, find_growths, find_strengths
from polyadic.inspection._inputs import Input, list_columns, list_inputs
from polyadic.inspection._means import mean_outputs
from polyadic.inspection._outputs import check_output
from polyadic.report._subject import Subject

MAX_ROWS = 1000
"""Rows that partial dependence averages over."""

_N_CURVES = 6
_RESOLUTION = 41
_MAX_DISTINCT = 12  # values of a column that are drawn one by one
_LEAST_INTERACTION = 0.01  # of the standard deviation of the predictions


@dataclass(frozen=True)
class Points:
    """The values that the curve of an input is evaluated at, a gap last where rows have any.

    `counts` says how many rows have each, where they are values that rows have, and `labels` what
    those of a category are called; `is_ordered` where that is an order.
    """

    name: str
    place: int
    values: NDArray[np.float64]
    labels: list[str]
    counts: list[int]
    is_ordered: bool = False
    is_time: bool = False

    @property
    def is_gap(self) -> NDArray[np.bool_]:
        """Which of the values is the gap."""
        return np.isnan(self.values)

    def keep(self, kept: Any) -> Points:
        """Return some of the values."""
        places = np.arange(len(self.values))[kept]
        labels = [self.labels[place] for place in places] if self.labels else []
        counts = [self.counts[place] for place in places] if self.counts else []
        return replace(self, values=self.values[places], labels=labels, counts=counts)


@dataclass(frozen=True)
class Importance:
    """How much a column matters, in the target's units.

    `effect` is the standard deviation of its partial dependence over the rows; `growth` the
    growth of the error when it is shuffled, and `deviation` its standard error.
    """

    name: str
    effect: float
    growth: float | None = None
    deviation: float | None = None

    @property
    def size(self) -> float:
        """What columns are ordered by."""
        return self.effect if self.growth is None else self.growth


@dataclass(frozen=True)
class Curve:
    """The mean prediction at values of an input, and where its rows are.

    A category has `labels` and the number of rows of each; other inputs have percentiles, and what
    is predicted at a gap where rows have gaps.  Points of a date are days since 1970.
    """

    name: str
    points: list[float]
    labels: list[str]
    rows: list[int]
    values: list[float]
    percentiles: list[float]
    gap: float | None = None
    n_gaps: int = 0
    is_time: bool = False


@dataclass(frozen=True)
class Pair:
    """The two inputs that act together most: their mean predictions, first by second."""

    curves: tuple[Curve, Curve]
    values: NDArray[np.float64]
    strength: float
    places: NDArray[np.float64] | None


@dataclass(frozen=True)
class Inputs:
    """What is known of the inputs, the columns that matter most first.

    `predicted_range` is the least and the greatest prediction for any of the rows.
    """

    n_rows: int
    predicted_range: tuple[float, float]
    importances: list[Importance]
    curves: list[Curve]
    pair: Pair | None


def find_inputs(subject: Subject) -> Inputs | None:
    """Look at the model over the rows of a subject, where it has any."""
    if subject.X is None:
        return None
    some = np.random.RandomState(0).permutation(len(subject.X))[:MAX_ROWS]
    X, model = subject.X[some], subject.model
    columns = list_columns(schema_of(model))
    groups = [column.places for column in columns]
    output = check_output(model, None)
    effects = find_effects(model, X, groups, [], output)
    # A date is called what its first part is called, time itself.
    names = [subject.names[places[0]] for places in groups]
    pairs = zip(names, effects.importances, strict=True)
    importances = [Importance(name, float(effect)) for name, effect in pairs]
    if subject.y is not None:
        growths = find_growths(model, X, subject.y[some], groups)
        each = zip(importances, growths.values, growths.standard_errors, strict=True)
        importances = [
            Importance(found.name, found.effect, float(growth.mean()), float(error))
            for found, growth, error in each
        ]
    order = sorted(range(len(columns)), key=lambda index: -importances[index].size)
    first = _choose_curves(model, X, [place for index in order for place in groups[index]])
    inputs = list_inputs(schema_of(model))
    own = [inputs[place].values(X) for place in first]
    points = [
        choose_points(subject.names[place], inputs[place], values)
        for place, values in zip(first, own, strict=True)
    ]
    curves = [
        mean_outputs(model, X, [(each.place,)], [each.values[:, None]], output)[:, 0]
        for each in points
    ]
    predicted = effects.predicted
    return Inputs(
        len(X),
        (float(predicted.min()), float(predicted.max())),
        [importances[index] for index in order],
        [_make_curve(*found) for found in zip(own, points, curves, strict=True)],
        _find_pair(model, X, points, float(predicted.std())),
    )


def _choose_curves(model: Any, X: NDArray[np.float64], order: list[int]) -> list[int]:
    """Return the inputs to draw: those of most relevance, or else of most importance."""
    order = [place for place in order if not np.isnan(X[:, place]).all()]
    learned = getattr(model, "inputs_", None)
    if learned is None:
        return order[:_N_CURVES]
    ranked = sorted(order, key=lambda place: -learned[place].relevance)
    used = [place for place in ranked if learned[place].relevance > 0]
    return used[:_N_CURVES] or ranked[:1]


def choose_points(name: str, each: Input, values: NDArray[np.float64]) -> Points:
    """Return where the curve of an input is evaluated: at its levels, or where its rows are.

    A number has points from the 1st to the 99th percentile, or the few values there are.
    """
    there, (place,) = values[~np.isnan(values)], each.places
    distinct, counts = np.unique(there, return_counts=True)
    points, few = distinct, counts.tolist()
    is_category = each.column.kind == "category"
    if is_category:
        order = np.argsort(-counts, kind="stable")
        points, few = distinct[order], counts[order].tolist()
    elif not each.levels:
        low, high = np.quantile(there, [0.01, 0.99])
        points, few = np.linspace(low, high, _RESOLUTION), []
        if len(distinct) <= _MAX_DISTINCT:
            common = (distinct >= low) & (distinct <= high)
            common = common if common.sum() > 1 else np.ones_like(common)
            points, few = distinct[common], counts[common].tolist()
    n_gaps = len(values) - len(there)
    if n_gaps and each.takes_gaps:
        points, few = np.append(points, np.nan), [*few, n_gaps] if few else []
    labels = each.write(points) if each.levels else []
    return Points(name, place, points, labels, few, not is_category, each.is_time)


def _make_curve(own: NDArray[np.float64], points: Points, values: NDArray[np.float64]) -> Curve:
    if points.labels:
        rows, labels, values = _group_rare(points, values, len(own))
        return Curve(points.name, [], labels, rows, values.tolist(), [])
    there, gap = own[~np.isnan(own)], points.is_gap
    shown = points.keep(~gap)
    return Curve(
        points.name,
        shown.values.tolist(),
        [],
        shown.counts,
        values[~gap].tolist(),
        np.quantile(there, np.linspace(0.01, 0.99, 99)).tolist(),
        float(values[gap][0]) if gap.any() else None,
        len(own) - len(there) if gap.any() else 0,
        points.is_time,
    )


def _group_rare(
    points: Points, values: NDArray[np.float64], n_rows: int
) -> tuple[list[int], list[str], NDArray[np.float64]]:
    """Put levels of few rows together: each row of them counts once in their mean."""
    counts = np.array(points.counts)
    rare = counts < max(5, n_rows / 100)
    rare[_MAX_DISTINCT:] = True
    rare[points.is_gap] = False
    if points.is_ordered or not rare.any():
        return points.counts, points.labels, values
    kept = points.keep(~rare)
    n_rare = int(rare.sum())
    other = np.average(values[rare], weights=counts[rare])
    # A gap is no level, and stands last.
    last = len(kept.values) - int(kept.is_gap.sum())
    kept.labels.insert(last, f"other ({n_rare} level{'s' * (n_rare > 1)})")
    kept.counts.insert(last, int(counts[rare].sum()))
    return kept.counts, kept.labels, np.insert(values[~rare], last, other)


def _find_pair(
    model: Any, X: NDArray[np.float64], points: list[Points], spread: float
) -> Pair | None:
    """Return the pair that acts together most; None where none does by much of the spread."""
    if len(points) < 2:
        return None
    strengths = find_strengths(model, X, [(each.place,) for each in points], [0])
    (first, second), strength = max(strengths.items(), key=lambda item: item[1])
    if strength < _LEAST_INTERACTION * spread:
        return None
    # A category comes second: it is drawn as one line for each of its levels.
    pair = sorted([points[first], points[second]], key=lambda p: (bool(p.labels), -len(p.values)))
    shown = [_common_points(each, len(X)) for each in pair]
    places = [(each.place,) for each in shown]
    grids = [each.values[:, None] for each in shown]
    values = mean_outputs(model, X, places, grids, check_output(model, None))[..., 0]
    one, two = (
        Curve(
            each.name,
            [] if each.labels else each.values.tolist(),
            each.labels,
            each.counts,
            [],
            [],
            is_time=each.is_time,
        )
        for each in shown
    )
    rows = X[:, [pair[0].place, pair[1].place]]
    there = None if two.labels else rows[~np.isnan(rows).any(axis=1)]
    return Pair((one, two), values, float(strength), there)


def _common_points(points: Points, n_rows: int) -> Points:
    """Leave out levels of few rows, all but the six most common, and gaps of what is a curve."""
    if not points.labels:
        return points.keep(~points.is_gap)
    common = np.argsort(-np.array(points.counts), kind="stable")[:6]
    kept = [place for place in common if points.counts[place] >= max(5, n_rows / 100)]
    return points.keep(sorted(kept or common[:1]))

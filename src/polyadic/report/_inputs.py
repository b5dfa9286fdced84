"""What the inputs do, as far as rows are there to tell.

columns (a category is one) ─► effects at points and rows ─► importance, curves, one pair
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection import (
    InputEffects,
    input_effects,
    interaction_strengths,
    partial_dependence,
    permutation_importance,
)
from polyadic.report._subject import Subject

MAX_ROWS = 1000
"""Rows that partial dependence averages over."""

_N_CURVES = 6
_RESOLUTION = 41
_MAX_DISTINCT = 12  # values of a column that are drawn one by one
_LEAST_INTERACTION = 0.01  # of the standard deviation of the predictions


@dataclass(frozen=True)
class Column:
    """An input, which may be a category.

    `points` are the values that its curve is evaluated at, and `counts` how many rows have
    each, where they are values that rows have.
    """

    name: str
    places: tuple[int, ...]
    points: NDArray[np.float64]
    labels: list[str]
    counts: list[int]
    is_category: bool = False


@dataclass(frozen=True)
class Importance:
    """How much a column matters, in the target's units.

    `effect` is the standard deviation of its partial dependence over the rows; `growth` the
    growth of the error when it is shuffled, and `deviation` how much that varies.
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
    """The mean prediction at values of a column, and where its rows are.

    A category has `labels` and the number of rows of each; other columns have percentiles.
    """

    name: str
    points: list[float]
    labels: list[str]
    rows: list[int]
    values: list[float]
    percentiles: list[float]


@dataclass(frozen=True)
class Pair:
    """The two columns that act together most: their mean predictions, first by second."""

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
    X, model = subject.X[some], subject.model_of_inputs
    columns = find_columns(subject, X)
    groups = [column.places for column in columns]
    effects = input_effects(model, X, groups, points=[column.points for column in columns])
    importances = [
        Importance(c.name, float(s)) for c, s in zip(columns, effects.importances, strict=True)
    ]
    if subject.y is not None:
        growths = permutation_importance(model, X, subject.y[some], groups)
        importances = [
            Importance(found.name, found.effect, float(growth.mean()), float(growth.std(ddof=1)))
            for found, growth in zip(importances, growths, strict=True)
        ]
    order = sorted(range(len(columns)), key=lambda index: -importances[index].size)
    first = _choose_curves(model, columns, order)
    predicted = model.predict(X)
    return Inputs(
        len(X),
        (float(predicted.min()), float(predicted.max())),
        [importances[index] for index in order],
        [_make_curve(X, columns[index], effects, index) for index in first],
        _find_pair(model, X, [columns[index] for index in first], float(predicted.std())),
    )


def _choose_curves(model: Any, columns: list[Column], order: list[int]) -> list[int]:
    """Return the columns to draw: those of most relevance, or else of most importance."""
    learned = getattr(model, "inputs_", None)
    if learned is None:
        return order[:_N_CURVES]
    relevance = [max(learned[place].relevance for place in c.places) for c in columns]
    ranked = sorted(order, key=lambda index: -relevance[index])
    return [index for index in ranked if relevance[index] > 0][:_N_CURVES] or ranked[:1]


def find_columns(subject: Subject, X: NDArray[np.float64]) -> list[Column]:
    """Return the inputs, categories with the names of their levels."""
    levels = subject.levels
    return [
        _category(name, place, X[:, place], levels[name])
        if name in levels
        else _number(name, place, X[:, place])
        for place, name in enumerate(subject.names)
    ]


def _number(name: str, place: int, values: NDArray[np.float64]) -> Column:
    """Return points from the 1st to the 99th percentile, or the few values there are."""
    values = values[~np.isnan(values)]
    if not len(values):
        return Column(name, (place,), np.zeros((1, 1)), [], [0])
    low, high = np.quantile(values, [0.01, 0.99])
    distinct = np.unique(values)
    if len(distinct) <= _MAX_DISTINCT:
        common = distinct[(distinct >= low) & (distinct <= high)]
        points = common if len(common) > 1 else distinct
        counts = [int((values == point).sum()) for point in points]
        return Column(name, (place,), points[:, None], [], counts)
    return Column(name, (place,), np.linspace(low, high, _RESOLUTION)[:, None], [], [])


def _category(name: str, place: int, values: NDArray[np.float64], levels: list[str]) -> Column:
    """Return the levels that rows have, the most common one first; a gap is one of them."""
    codes, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    known = [*levels, "not in the fit"]
    labels = ["no value" if np.isnan(code) else known[int(code)] for code in codes[order]]
    points = codes[order][:, None]
    return Column(name, (place,), points, labels, counts[order].tolist(), is_category=True)


def _make_curve(X: NDArray[np.float64], column: Column, effects: InputEffects, index: int) -> Curve:
    values = effects.curves[index]
    if column.is_category:
        rows, labels, values = _group_rare(column, values, len(X))
        return Curve(column.name, [], labels, rows, values.tolist(), [])
    own = X[:, column.places[0]]
    own = own[~np.isnan(own)]
    percentiles = np.quantile(own, np.linspace(0.01, 0.99, 99)).tolist() if len(own) else []
    return Curve(
        column.name, column.points[:, 0].tolist(), [], column.counts, values.tolist(), percentiles
    )


def _group_rare(
    column: Column, values: NDArray[np.float64], n_rows: int
) -> tuple[list[int], list[str], NDArray[np.float64]]:
    """Put levels of few rows together: each row of them counts once in their mean."""
    counts = np.array(column.counts)
    rare = counts < max(5, n_rows / 100)
    rare[_MAX_DISTINCT:] = True
    if not rare.any():
        return column.counts, column.labels, values
    labels = [label for label, is_rare in zip(column.labels, rare, strict=True) if not is_rare]
    n_rare = int(rare.sum())
    labels.append(f"other ({n_rare} level{'s' * (n_rare > 1)})")
    other = np.average(values[rare], weights=counts[rare])
    rows = [*counts[~rare].tolist(), int(counts[rare].sum())]
    return rows, labels, np.append(values[~rare], other)


def _find_pair(
    model: Any, X: NDArray[np.float64], columns: list[Column], spread: float
) -> Pair | None:
    """Return the pair that acts together most; None where none does by much of the spread."""
    if len(columns) < 2:
        return None
    strengths = interaction_strengths(model, X, [column.places for column in columns])
    (first, second), strength = max(strengths.items(), key=lambda item: item[1])
    if strength < _LEAST_INTERACTION * spread:
        return None
    # A category comes second: it is drawn as one line for each of its levels.
    pair = sorted([columns[first], columns[second]], key=lambda c: (c.is_category, -len(c.points)))
    shown = [_common_points(column, len(X)) for column in pair]
    found = partial_dependence(
        model, X, [list(c.places) for c in pair], grids=[c.points for c in shown]
    )
    one, two = (
        Curve(c.name, [] if c.is_category else c.points[:, 0].tolist(), c.labels, c.counts, [], [])
        for c in shown
    )
    places = None if two.labels else X[:, [pair[0].places[0], pair[1].places[0]]]
    if places is not None:
        places = places[~np.isnan(places).any(axis=1)]
    return Pair((one, two), found.values, float(strength), places)


def _common_points(column: Column, n_rows: int) -> Column:
    """Leave out gaps and levels of few rows, and all but the six most common."""
    if not column.is_category:
        return column
    there = [i for i, code in enumerate(column.points[:, 0]) if not np.isnan(code)]
    kept = [i for i in there if column.counts[i] >= max(5, n_rows / 100)][:6] or there[:1]
    labels, counts = [column.labels[i] for i in kept], [column.counts[i] for i in kept]
    return Column(column.name, column.places, column.points[kept], labels, counts, is_category=True)

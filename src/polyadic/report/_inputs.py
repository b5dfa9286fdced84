"""What the inputs do, as far as rows are there to tell.

columns ─► importance; inputs, each part of a date by itself ─► curves, one pair
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.inspection import InputEffects
from polyadic.inspection._importance import find_effects, find_growths
from polyadic.inspection._inputs import list_columns, list_inputs
from polyadic.inspection._interactions import find_strengths
from polyadic.inspection._losses import measure_of
from polyadic.inspection._means import mean_outputs
from polyadic.inspection._outputs import Output, check_output
from polyadic.inspection._terms import Group, has_directions, respond_rows
from polyadic.members import name_beside
from polyadic.report._coverage import find_spread, has_uncertainty
from polyadic.report._points import Points, choose_points, common_points, group_rare
from polyadic.report._residuals import Residuals, find_residuals
from polyadic.report._subject import Subject, Tell, say_nothing

MAX_ROWS = 1000
"""Rows that partial dependence averages over."""

MAX_CLASSES = 6
"""Classes that have curves."""

_N_CURVES = 6
_N_SPREAD = 200  # rows that the interval around a curve is averaged over
_ROUNDING = 1e-9  # of the standard deviation of the predictions
_LEAST_INTERACTION = 0.01  # of the standard deviation of the predictions


@dataclass(frozen=True)
class Importance:
    """How much a column matters, in units of the prediction, or of the loss.

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
    is predicted at a gap where rows have gaps.  Points of a date are days since 1970.  Where there
    are several classes, `classes` has a curve for each in place of `values`.  Between `low`
    and `high` lies the mean 90 % interval of a row, or else lie the curves of single members;
    `residuals` say what the model misses along the input.
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
    classes: dict[str, list[float]] = field(default_factory=dict)
    class_gaps: dict[str, float] = field(default_factory=dict)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    residuals: Residuals | None = None

    @property
    def lines(self) -> dict[str, list[float]]:
        """What is drawn, by the names of classes."""
        return self.classes or {"": self.values}


@dataclass(frozen=True)
class Pair:
    """The two inputs that act together most: their mean predictions, first by second.

    `label` is what these are, and `strength` is measured before any link.
    """

    curves: tuple[Curve, Curve]
    values: NDArray[np.float64]
    strength: float
    places: NDArray[np.float64] | None
    label: str = "mean prediction"


@dataclass(frozen=True)
class Inputs:
    """What is known of the inputs, the columns that matter most first.

    `predicted_range` is the least and the greatest prediction for any of the rows, `label` what
    curves show, and `error` what the importance is the growth of.  Curves are of `classes` where
    there are several, the most frequent ones.
    """

    n_rows: int
    predicted_range: tuple[float, float]
    importances: list[Importance]
    curves: list[Curve]
    pair: Pair | None
    label: str
    error: str
    classes: list[str]


def find_inputs(subject: Subject, tell: Tell = say_nothing) -> Inputs | None:
    """Look at the model over the rows of a subject, where it has any."""
    if subject.X is None:
        return None
    some = np.random.RandomState(0).permutation(len(subject.X))[:MAX_ROWS]
    y = None if subject.y is None else subject.y[some]
    if subject.classes and y is not None:
        # Rows of classes that the fit did not see cannot be right.
        some, y = some[y >= 0], y[y >= 0]
    if not len(some):
        return None
    X, model = subject.X[some], subject.model
    columns = list_columns(schema_of(model))
    groups = [column.places for column in columns]
    output = _name_output(check_output(model, None), subject.classes)
    tell("importance of the inputs")
    effects = find_effects(model, X, groups, [], output)
    # A date is called what its first part is called, time itself.
    names = [subject.names[places[0]] for places in groups]
    importances = _find_importances(model, X, y, names, groups, effects)
    order = sorted(range(len(columns)), key=lambda index: -importances[index].size)
    first = _choose_curves(model, X, [place for index in order for place in groups[index]])
    inputs = list_inputs(schema_of(model))
    own = [inputs[place].values(X) for place in first]
    points = [
        choose_points(subject.names[place], inputs[place], values)
        for place, values in zip(first, own, strict=True)
    ]
    shown = _choose_classes(effects.predicted, output)
    residual = _find_residual(effects.predicted, y, output)
    sure = has_uncertainty(model) and not subject.classes
    spread = find_spread(model, X) if sure and residual is not None else None
    curves = list[Curve]()
    for values, each in zip(own, points, strict=True):
        tell(f"curve {len(curves) + 1} of {len(points)}")
        means = mean_outputs(model, X, [(each.place,)], [each.values[:, None]], output)
        curve = _make_curve(values, each, means, output, shown)
        if sure:
            curve = _add_interval(curve, model, X, each)
        elif not output.names:
            curve = _add_band(curve, model, X, each, output)
        if residual is not None:
            found = find_residuals(values, residual, each.values, each.labels, spread)
            curve = replace(curve, residuals=found)
        curves.append(curve)
    predicted = effects.predicted
    tell("the pair that acts together most")
    return Inputs(
        len(X),
        (float(predicted.min()), float(predicted.max())),
        [importances[index] for index in order],
        curves,
        _find_pair(model, X, points, output),
        output.label,
        measure_of(model).name,
        [output.names[place] for place in shown] if output.names else [],
    )


def _name_output(output: Output, classes: list[str]) -> Output:
    """Return what is looked at with classes by the names that the page has for them."""
    if len(classes) == 2:
        return replace(output, label=f"mean probability of {classes[1]}")
    return replace(output, names=tuple(classes)) if classes else output


def _find_importances(
    model: Any,
    X: NDArray[np.float64],
    y: NDArray[np.float64] | None,
    names: list[str],
    groups: list[Group],
    effects: InputEffects,
) -> list[Importance]:
    """Return the importance of each column, by shuffling where targets are known."""
    spread = np.sqrt((effects.at_rows.std(axis=1) ** 2).sum(axis=1))
    spread = np.where(spread > _ROUNDING * effects.predicted.std(), spread, 0.0)
    if y is None:
        return [Importance(*found) for found in zip(names, spread.tolist(), strict=True)]
    growths = find_growths(model, X, y, groups)
    means = growths.values.mean(axis=1).tolist()
    errors = np.where(spread > 0, growths.standard_errors, 0.0).tolist()
    found = zip(names, spread.tolist(), means, errors, strict=True)
    return [Importance(*each) for each in found]


def _choose_classes(predicted: NDArray[np.float64], output: Output) -> list[int]:
    """Return the columns that are drawn: those of the classes of greatest probability."""
    if not output.names:
        return [0]
    order = np.argsort(-predicted.mean(axis=0), kind="stable")[:MAX_CLASSES]
    return sorted(order.tolist())


def _find_residual(
    predicted: NDArray[np.float64], y: NDArray[np.float64] | None, output: Output
) -> NDArray[np.float64] | None:
    """Return actual less predicted; of the second of two classes, and of none of several."""
    if y is None or output.names:
        return None
    observed = (y == 1).astype(np.float64) if output.link == "logit" else y
    return np.asarray(observed - predicted[:, 0])


def _choose_curves(model: Any, X: NDArray[np.float64], order: list[int]) -> list[int]:
    """Return the inputs to draw: those of most relevance, or else of most importance."""
    order = [place for place in order if not np.isnan(X[:, place]).all()]
    learned = getattr(model, "inputs_", None)
    if learned is None:
        return order[:_N_CURVES]
    ranked = sorted(order, key=lambda place: -learned[place].relevance)
    used = [place for place in ranked if learned[place].relevance > 0]
    return used[:_N_CURVES] or ranked[:1]


def _make_curve(
    own: NDArray[np.float64],
    points: Points,
    means: NDArray[np.float64],
    output: Output,
    shown: list[int],
) -> Curve:
    """Return the curve of an input from its means, a column for each class."""
    kept, means = group_rare(points, means[:, shown], len(own))
    gap = kept.is_gap & (not kept.labels)
    values, at_gap = means[~gap].T.tolist(), means[gap].reshape(-1, len(shown))
    line = kept.keep(~gap)
    curve = Curve(
        kept.name, [] if kept.labels else line.values.tolist(), line.labels, line.counts, [], []
    )
    if not kept.labels:
        there = own[~np.isnan(own)]
        curve = replace(
            curve,
            percentiles=np.quantile(there, np.linspace(0.01, 0.99, 99)).tolist(),
            n_gaps=len(own) - len(there) if gap.any() else 0,
            is_time=kept.is_time,
        )
    if not output.names:
        return replace(curve, values=values[0], gap=float(at_gap[0, 0]) if gap.any() else None)
    names = [output.names[place] for place in shown]
    gaps = dict(zip(names, at_gap[0].tolist(), strict=True)) if gap.any() else {}
    return replace(curve, classes=dict(zip(names, values, strict=True)), class_gaps=gaps)


def _add_band(
    curve: Curve, model: Any, X: NDArray[np.float64], points: Points, output: Output
) -> Curve:
    """Return a curve with the least and the greatest of what each member would say alone."""
    alone = members_alone(model)
    if len(alone) < 2:
        return curve
    kept = points.keep(~points.is_gap | bool(points.labels))
    found = []
    for member in alone:
        means = mean_outputs(member, X, [(kept.place,)], [kept.values[:, None]], output)
        found.append(group_rare(kept, means, len(X))[1][:, 0])
    return replace(curve, low=np.min(found, axis=0).tolist(), high=np.max(found, axis=0).tolist())


def _add_interval(curve: Curve, model: Any, X: NDArray[np.float64], points: Points) -> Curve:
    """Return a curve with the mean interval of a row, over some rows set to each value."""
    kept = points.keep(~points.is_gap | bool(points.labels))
    some = X[:_N_SPREAD]
    rows = np.repeat(some, len(kept.values), axis=0)
    rows[:, kept.place] = np.tile(kept.values, len(some))
    spread = find_spread(model, rows)
    ends = []
    for end in (spread.low, spread.high):
        distance = (end - spread.predicted).reshape(len(some), -1).mean(axis=0)
        grouped = group_rare(kept, distance[:, None], len(X))[1][:, 0]
        ends.append((np.array(curve.values) + grouped).tolist())
    return replace(curve, low=ends[0], high=ends[1])


def members_alone(model: Any) -> list[Any]:
    """Return models in which one member predicts in place of all, and of a linear trend.

    What remembers rows comes on top.
    """
    mean, beside = model.members_[: len(model.alpha_)], model.members_[len(model.alpha_) :]
    sums = [member for member in beside if name_beside(member) != "linear trend"]
    whole = sum(m.share for m in model.members_) - sum(m.share for m in sums)
    found = []
    for member in mean:
        alone = copy(model)
        alone.members_ = [replace(member, share=whole), *sums]
        found.append(alone)
    return found


def _find_pair(
    model: Any, X: NDArray[np.float64], points: list[Points], output: Output
) -> Pair | None:
    """Return the pair that acts together most; None where none does by much of the spread."""
    if len(points) < 2:
        return None
    places = [(each.place,) for each in points]
    strengths = find_strengths(model, X, places, output.responses)
    (first, second), strength = max(strengths.items(), key=lambda item: item[1])
    responses = respond_rows(model, X)[:, list(output.responses)]
    if strength < _LEAST_INTERACTION * float(np.sqrt(responses.var(axis=0).sum())):
        return None
    # A category comes second: it is drawn as one line for each of its levels.
    pair = sorted([points[first], points[second]], key=lambda p: (bool(p.labels), -len(p.values)))
    shown = [common_points(each, len(X)) for each in pair]
    if not output.is_linear or has_directions(model):
        # Every row is predicted at every pair of points, so that fewer of them do.
        shown = [each if each.labels or each.counts else each.thinned() for each in shown]
    grids = [each.values[:, None] for each in shown]
    values = mean_outputs(model, X, [(each.place,) for each in shown], grids, output)
    # Of several classes the one that moves most.
    column = int(np.ptp(values, axis=(0, 1)).argmax())
    label = f"{output.label} of {output.names[column]}" if output.names else output.label
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
    return Pair((one, two), values[..., column], float(strength), there, label)

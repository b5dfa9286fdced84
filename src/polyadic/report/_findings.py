"""All numbers of a report, found once: the page shows them, and JSON has them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.inspection import short_name
from polyadic.inspection._inputs import Input, list_inputs
from polyadic.members import name_beside
from polyadic.report._classes import ClassErrors, find_class_errors
from polyadic.report._coverage import Coverage, find_coverage
from polyadic.report._errors import Errors, find_errors
from polyadic.report._inputs import Inputs, find_inputs
from polyadic.report._subject import Subject, Tell, say_nothing

_MAX_LEVELS = 20  # of a category that are told with their rows


@dataclass(frozen=True)
class LearnedInput:
    """What the fit learned about an input; `curve` is the place of its curve, if it has one."""

    name: str
    relevance: float
    kernel: str | None
    length_scale: float | None
    n_basis: int
    curve: int | None


@dataclass(frozen=True)
class Learned:
    """What the fit learned about the inputs, the most relevant first, and those it left out."""

    inputs: list[LearnedInput]
    unused: list[str]


@dataclass(frozen=True)
class InputFacts:
    """What is known of the values of an input.

    `span` is the least value, the median and the greatest, and `levels` the most frequent levels
    of a category with how many of the rows of the report have each, those of an order in it.
    """

    name: str
    kind: str
    span: list[float | str] | None
    n_levels: int
    levels: list[tuple[str, int | None]]
    n_gaps: int


@dataclass(frozen=True)
class MemberFacts:
    """What one member is; a linear trend, as old files have it, has no penalty of its own."""

    feature_map: str
    n_basis: int
    inputs_used: int
    rank: int
    alpha: float | None
    share: float


@dataclass(frozen=True)
class Findings:
    """What a report says in numbers.

    `errors` is None where no rows were kept from the fit, and for a classifier, which has
    `class_errors` in their place; `coverage` is None where the model does not say how sure it is,
    or has no rows to show it on, `inputs` is None where there are no rows
    to look at the model with, `data` where nothing is known of its inputs, and `learned` where
    the features were named.
    """

    errors: Errors | None
    class_errors: ClassErrors | None
    coverage: Coverage | None
    learned: Learned | None
    inputs: Inputs | None
    data: list[InputFacts] | None
    weights: list[tuple[str, float]]
    members: list[MemberFacts]
    loss: list[float]
    epochs: int


def find(subject: Subject, tell: Tell = say_nothing) -> Findings:
    """Compute all numbers of the report."""
    model = subject.model
    inputs = find_inputs(subject, tell)
    names = [short_name(feature_map) for feature_map in model.feature_maps_]
    pairs = zip(names, map(float, model.feature_weights_), strict=True)
    return Findings(
        errors=None if subject.classes else find_errors(subject, tell),
        class_errors=find_class_errors(subject, tell) if subject.classes else None,
        coverage=find_coverage(subject),
        learned=_find_learned(subject, inputs),
        inputs=inputs,
        data=_find_data(subject),
        weights=sorted(pairs, key=lambda pair: -abs(pair[1])),
        members=_describe_members(model),
        loss=[float(value) for value in model.loss_curve_],
        epochs=int(model.n_iter_),
    )


def _find_data(subject: Subject) -> list[InputFacts] | None:
    """Return what is known of the values of each input, by the rows or by the model's schema."""
    schema = schema_of(subject.model)
    if schema.is_numeric and subject.ranges is None and subject.X is None:
        return None
    pairs = zip(subject.names, list_inputs(schema), strict=True)
    return [_describe_input(subject, name, each) for name, each in pairs]


def _describe_input(subject: Subject, name: str, each: Input) -> InputFacts:
    (place,) = each.places
    span, levels = None, list[tuple[str, int | None]]()
    n_gaps = each.column.n_gaps if each.has_gaps else 0
    own = None if subject.X is None else each.values(subject.X)
    if subject.X is not None and subject.ranges is None:
        n_gaps = int(np.isnan(subject.X[:, place]).sum())
    if each.levels:
        levels = _count_levels(each, own)
    elif not np.isnan(found := _find_range(subject, place, own)).any():
        span = list(each.write(found)) if each.is_time else found.tolist()
    kind = {"order": "ordered category"}.get(each.column.kind, each.column.kind)
    return InputFacts(name, kind, span, len(each.levels), levels, n_gaps)


def _count_levels(each: Input, own: NDArray[np.float64] | None) -> list[tuple[str, int | None]]:
    """Return the first levels with how many rows have each, the most frequent ones of a category.

    Without rows they come as frequent as they were in the fit.
    """
    codes = np.arange(len(each.levels), dtype=np.float64)
    if own is None:
        return [(label, None) for label in each.write(codes[:_MAX_LEVELS])]
    counts = np.array([(own == code).sum() for code in codes])
    order = np.arange(len(codes))
    if each.column.kind == "category":
        order = np.argsort(-counts, kind="stable")
    shown = order[:_MAX_LEVELS]
    return list(zip(each.write(codes[shown]), counts[shown].tolist(), strict=True))


def _find_range(
    subject: Subject, place: int, own: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the least value of an input, the median and the greatest, NaN where none is known."""
    if subject.ranges is not None:
        return np.asarray(subject.ranges[place])
    there = np.empty(0) if own is None else own[~np.isnan(own)]
    return np.quantile(there, [0, 0.5, 1]) if len(there) else np.full(3, np.nan)


def _find_learned(subject: Subject, inputs: Inputs | None) -> Learned | None:
    """Return what the model says of its inputs, under the names that they have here."""
    summaries = getattr(subject.model, "inputs_", None)
    if summaries is None:
        return None
    curves = {} if inputs is None else {c.name: place for place, c in enumerate(inputs.curves)}
    named = list(zip(subject.names, summaries, strict=True))
    found = [
        LearnedInput(
            name,
            summary.relevance,
            summary.kernel,
            summary.length_scale,
            summary.n_basis,
            curves.get(name),
        )
        for name, summary in named
        if summary.kind != "unused"
    ]
    return Learned(
        sorted(found, key=lambda learned: -learned.relevance),
        [name for name, summary in named if summary.kind == "unused"],
    )


def as_json(subject: Subject, findings: Findings) -> dict[str, Any]:
    """Return all numbers in a form that JSON has."""
    found: dict[str, Any] = _plain(asdict(findings))
    return {
        "target": subject.target,
        "measured_on": subject.measured_on if findings.errors or findings.class_errors else None,
        "rows": subject.rows_are if findings.inputs else None,
        "facts": dict(subject.facts),
        "cautions": list(subject.cautions),
        **found,
    }


def _describe_members(model: Any) -> list[MemberFacts]:
    """Describe all members; those beside the mean have no α."""
    found = []
    for index, member in enumerate(model.members_):
        layout = member.layout
        maps = [short_name(feature_map) for feature_map in layout.maps]
        is_beside = index >= len(model.alpha_)
        name = maps[0] if len(maps) == 1 else f"{len(maps)} maps"
        name = name_beside(member) if is_beside else name
        found.append(
            MemberFacts(
                name,
                max(layout.n_basis),
                _count_used(member),
                int(member.model.cores[0][0].shape[1]),
                None if is_beside else float(model.alpha_[index]),
                float(member.share),
            )
        )
    return found


def _count_used(member: Any) -> int:
    """Return how many inputs a member uses, themselves or a flag of their gaps."""
    sizes = member.layout.n_basis
    columns = [member.inputs.columns_of(d) for d in range(len(member.inputs.knots))]
    return sum(any(sizes[column] > 1 for column in each) for each in columns)


def _plain(value: Any) -> Any:
    """Return lists in place of arrays and tuples."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value

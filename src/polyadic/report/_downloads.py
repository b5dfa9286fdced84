"""The numbers of a page as CSV, in links that carry them: no script, and no other file."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyadic.inspection._inputs import as_dates
from polyadic.report._classes import ClassErrors
from polyadic.report._errors import Errors
from polyadic.report._findings import Findings
from polyadic.report._inputs import Curve, Inputs
from polyadic.report._subject import Subject

_WIDTHS = ("width of 90 % interval", "share inside")
_MEASURES = ("r2", "rmse", "mae", "loss", "log_loss", "accuracy", "auc")


@dataclass(frozen=True)
class Download:
    """A file in a link."""

    name: str
    text: str

    @property
    def link(self) -> str:
        """The address of the link, which is the file itself."""
        # The mark in front tells spreadsheets that it is Unicode.
        data = base64.b64encode(self.text.encode("utf-8-sig")).decode("ascii")
        return f"data:text/csv;charset=utf-8;base64,{data}"


def make_downloads(subject: Subject, findings: Findings) -> dict[str, list[Download]]:
    """Return the files of each section."""
    found: dict[str, list[Download]] = {"errors": [], "importance": [], "dependence": []}
    if findings.errors is not None:
        found["errors"] = list(_list_errors(findings.errors))
    if findings.class_errors is not None:
        found["errors"] = list(_list_class_errors(subject, findings.class_errors))
    if findings.coverage is not None:
        names = ("nominal", "observed", "low", "high", "width")
        rows = [[vars(each)[name] for name in names] for each in findings.coverage.levels]
        found["errors"].append(_write("coverage", names, rows))
    if findings.learned is not None:
        names = ("name", "relevance", "kernel", "length_scale", "n_basis")
        rows = [[vars(each)[name] for name in names] for each in findings.learned.inputs]
        found["importance"].append(_write("learned-inputs", names, rows))
    if findings.inputs is not None:
        found["importance"].append(_list_importances(findings.inputs))
        found["dependence"] = [_list_curves(findings.inputs)]
        found["errors"] += _list_residuals(findings.inputs)
    return found


def _list_errors(errors: Errors) -> Iterator[Download]:
    yield _list_measures([errors.model, *errors.baselines])
    pairs = zip(errors.actual.tolist(), errors.predicted.tolist(), strict=True)
    yield _write("predictions", ("actual", "predicted"), pairs)
    head = ("predicted", "actual", "standard_error", "rows")
    yield _write("calibration", head, (vars(each).values() for each in errors.calibration))


def _list_class_errors(subject: Subject, errors: ClassErrors) -> Iterator[Download]:
    yield _list_measures([errors.model, *errors.baselines])
    names = subject.classes
    rows = zip(errors.actual.tolist(), errors.predicted.tolist(), strict=True)
    head = ("actual", *(f"probability of {name}" for name in names))
    yield _write("predictions", head, ([names[place], *p] for place, p in rows))
    head = ("predicted", "observed", "low", "high", "rows")
    yield _write("calibration", head, (vars(each).values() for each in errors.calibration))
    counts = zip(names, errors.confusion.tolist(), strict=True)
    yield _write("confusion", ("actual", *names), ([name, *row] for name, row in counts))


def _list_measures(everything: Sequence[Any]) -> Download:
    """Return the table of measures, with standard errors."""
    known = [name for name in _MEASURES if vars(everything[0]).get(name) is not None]
    head = ["predicted by"]
    for name in known:
        head += [name, f"standard error of {name}"]
    rows = []
    for each in everything:
        row = [each.name]
        for name in known:
            row += [vars(each)[name], each.standard_errors.get(name)]
        rows.append(row)
    return _write("measures", head, rows)


def _list_importances(inputs: Inputs) -> Download:
    head = ("input", f"growth of {inputs.error}", "standard error", "spread of effect")
    rows = [(each.name, each.growth, each.deviation, each.effect) for each in inputs.importances]
    return _write("importance", head, rows)


def _list_curves(inputs: Inputs) -> Download:
    rows = [row for curve in inputs.curves for row in _rows_of_curve(curve)]
    head = ("input", "value", "class", inputs.label, "low", "high", "rows")
    return _write("partial-dependence", head, rows)


def _list_residuals(inputs: Inputs) -> Iterator[Download]:
    rows = [row for curve in inputs.curves for row in _rows_of_residuals(curve)]
    if rows:
        head = ("input", "value", "mean residual", "standard error", "rows", *_WIDTHS)
        yield _write("residuals", head, rows)


def _rows_of_curve(curve: Curve) -> Iterator[list[Any]]:
    values = curve.labels or _write_points(curve, curve.points)
    gaps = curve.class_gaps or ({"": curve.gap} if curve.gap is not None else {})
    for name, line in curve.lines.items():
        for place, (value, mean) in enumerate(zip(values, line, strict=True)):
            low, high, rows = (
                each[place] if each else None for each in (curve.low, curve.high, curve.rows)
            )
            yield [curve.name, value, name, mean, low, high, rows]
        if name in gaps:
            yield [curve.name, "gap", name, gaps[name], None, None, curve.n_gaps]


def _rows_of_residuals(curve: Curve) -> Iterator[list[Any]]:
    found = curve.residuals
    if found is None:
        return
    values = found.labels or _write_points(curve, found.points)
    none: list[Any] = [None] * len(found.means)
    widths = [each or none for each in (found.widths, found.covered)]
    columns = zip(values, found.means, found.standard_errors, found.rows, *widths, strict=True)
    yield from ([curve.name, *row] for row in columns)


def _write_points(curve: Curve, points: list[float]) -> list[Any]:
    if not curve.is_time:
        return points
    return list(np.datetime_as_string(as_dates(np.array(points)), unit="s"))


def _write(name: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> Download:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return Download(name, stream.getvalue())


def _cell(value: Any) -> Any:
    """Return a number with ten digits, which is more than any of them has."""
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value

"""The page itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from polyadic.estimators._status import StatusLine
from polyadic.estimators._tables import schema_of
from polyadic.inspection import describe_kernel, write_number, write_part
from polyadic.inspection._inputs import list_inputs
from polyadic.members import mean_predicts, names_beside
from polyadic.report._coverage import has_uncertainty
from polyadic.report._downloads import make_downloads
from polyadic.report._figures import make_figures
from polyadic.report._findings import Findings, as_json, find
from polyadic.report._subject import Subject, Tell, say_nothing
from polyadic.storage.atomic import replacing


def render(subject: Subject, *, verbose: str | int = "auto") -> str:
    """Return the report as HTML.

    Parameters
    ----------
    subject : Subject
        What it is about.
    verbose : "auto" or 0, default="auto"
        Whether a line on a terminal or in a notebook says what is being done where that takes
        more than two seconds.

    Returns
    -------
    page : str
        The page, which needs nothing else.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.report import Subject, render
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(100, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> page = render(Subject(model, None, "y", [f"x{d}" for d in range(10)]))
    >>> "y from 10 inputs" in page
    True
    """
    with _telling(verbose) as tell:
        return _render(subject, find(subject, tell), tell)


def write_report(
    subject: Subject, path: str | os.PathLike[str], *, verbose: str | int = "auto"
) -> dict[str, Any]:
    """Write the report; the file appears whole or not at all.

    Parameters
    ----------
    subject : Subject
        What it is about.
    path : str or path-like
        The file.
    verbose : "auto" or 0, default="auto"
        Whether a line on a terminal or in a notebook says what is being done where that takes
        more than two seconds.

    Returns
    -------
    numbers : dict
        All numbers of the page, in a form that JSON has.

    Examples
    --------
    >>> import os, tempfile
    >>> import polyadic
    >>> from polyadic.report import Subject, write_report
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(100, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> subject = Subject(model, None, "y", [f"x{d}" for d in range(10)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     numbers = write_report(subject, os.path.join(folder, "report.html"))
    >>> numbers["target"]
    'y'
    """
    with _telling(verbose) as tell:
        findings = find(subject, tell)
        page = _render(subject, findings, tell)
    with replacing(path) as file:
        file.write(page.encode("utf-8"))
    return as_json(subject, findings)


@contextmanager
def _telling(verbose: str | int) -> Iterator[Tell]:
    """Give the function that hears of each step."""
    if verbose not in ("auto", 0):
        raise ValueError(f'`verbose` must be "auto" or 0, got {verbose!r}. Pass "auto" for a line.')
    with StatusLine(verbose == "auto") as status:
        yield lambda step: status.tell(f"report, {step}")


def _render(subject: Subject, findings: Findings, tell: Tell = say_nothing) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = _write
    environment.filters["count"] = "{:,}".format
    environment.filters["smoothness"] = describe_kernel
    environment.filters["part"] = write_part
    environment.filters["short"] = lambda value: _write(value, 2)
    environment.filters["score"] = lambda value: _write(None if value is None else round(value, 4))
    environment.filters["error"] = _write_error
    folder = files("polyadic.report")
    template = environment.from_string(folder.joinpath("template.html").read_text("utf-8"))
    return template.render(
        subject=subject,
        findings=findings,
        style=Markup(folder.joinpath("style.css").read_text("utf-8")),
        figures=make_figures(subject, findings, tell),
        svg=Markup,
        measured=findings.errors or findings.class_errors,
        cards=_cards(subject, findings),
        columns=_columns(findings),
        downloads=make_downloads(subject, findings),
        worst=_list_worst(subject, findings),
        n_fit=subject.model.n_samples_fit_ if _knows_rows(subject.model) else None,
        has_categories=any(schema_of(subject.model).inputs.n_levels),
        automatic=hasattr(subject.model, "selection_"),
        beside=names_beside(subject.model.members_, len(subject.model.alpha_)),
        of_table=dict(subject.facts).get("table"),
        sure=has_uncertainty(subject.model) and not subject.classes,
        n_alone=len(subject.model.alpha_),
        mean_predicts=mean_predicts(subject.model.members_, len(subject.model.alpha_)),
        banded=findings.inputs is not None and any(c.low for c in findings.inputs.curves),
        has_loss="held_out_loss" in getattr(subject.model, "selection_", {}),
        n_trials=len(getattr(subject.model, "selection_", {}).get("stage", [])),
        parameters=_list_parameters(subject.model),
        versions=_list_versions(),
    )


def _write_error(value: float | None) -> str:
    """Return a standard error as it stands behind a number."""
    if not value:
        return ""
    return f" ± {_write(value, 2)}" if value >= 1e-4 else " ± <0.0001"


def _write(value: float | str | None, digits: int = 4) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None else write_number(value, digits)


def _list_parameters(model: Any) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in sorted(model.get_params(deep=False).items())]


def _list_versions() -> list[tuple[str, str]]:
    from polyadic import __version__

    packages = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
    others = [(name, importlib.metadata.version(name)) for name in packages]
    return [("polyadic", __version__), ("Python", platform.python_version()), *others]


_LABELS = {
    "r2": "R²",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
}
_SHORT = {"r2": "R²", "rmse": "RMSE", "mae": "MAE", "auc": "AUC"}


def _knows_rows(model: Any) -> bool:
    return hasattr(model, "n_samples_fit_")  # which files of the first versions lack


def _columns(findings: Findings) -> list[tuple[str, str]]:
    """Return the measures of the table of errors: their names, and their heads."""
    if findings.class_errors is not None:
        names = ["log_loss", "accuracy", "auc"]
    elif findings.errors is None:
        return []
    else:
        names = ["r2", "rmse", "mae"]
        if findings.errors.loss_name is not None:
            return [("loss", findings.errors.loss_name), *((n, _SHORT[n]) for n in names)]
    return [(name, _SHORT.get(name, _LABELS[name])) for name in names]


def _cards(subject: Subject, findings: Findings) -> list[tuple[str, str, str]]:
    """Return the few numbers that stand at the top: label, value, interval."""
    errors: Any = findings.errors or findings.class_errors
    if errors is None:
        return []
    labels = dict(_LABELS)
    if findings.errors is not None and findings.errors.loss_name is not None:
        labels = {"loss": findings.errors.loss_name, **labels}
    points = vars(errors.model)
    cards = [
        (label, write_number(points[name]), _write_interval(errors, name))
        for name, label in labels.items()
        if points.get(name) is not None
    ]
    if findings.errors is not None and findings.errors.below is not None:
        aim = f"{write_part(subject.model.quantile)} asked for"
        cards.insert(1, ("rows below the prediction", write_part(findings.errors.below), aim))
    if findings.coverage is not None:
        width = f"{write_number(findings.coverage.usual.width)} wide"
        held = write_part(findings.coverage.usual.observed)
        cards.append(("inside 90 % intervals", held, width))
    if findings.class_errors is not None:
        error = write_number(findings.class_errors.calibration_error, 2)
        cards.append(("expected calibration error", error, ""))
    return [*cards, (subject.measured_on, f"{errors.rows:,}", "")]


def _write_interval(errors: Any, name: str) -> str:
    if name not in errors.intervals:
        return ""
    low, high = map(write_number, errors.intervals[name])
    return f"{low} to {high}"


def _list_worst(subject: Subject, findings: Findings) -> tuple[list[str], list[list[str]]] | None:
    """Return heads and lines of the rows of the largest errors, with their main inputs."""
    if findings.errors is None or findings.inputs is None or not findings.errors.worst:
        return None
    assert subject.X is not None
    inputs = dict(zip(subject.names, list_inputs(schema_of(subject.model)), strict=True))
    shown = [curve.name for curve in findings.inputs.curves[:4]]
    lines = []
    for row, actual, predicted in findings.errors.worst:
        numbers = [write_number(value) for value in (actual, predicted, actual - predicted)]
        own = [inputs[name].write(inputs[name].values(subject.X[[row]]))[0] for name in shown]
        lines.append([f"{row + 1:,}", *numbers, *own])
    return ["row", "actual", "predicted", "difference", *shown], lines

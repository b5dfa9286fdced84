"""The page itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from importlib.resources import files
from typing import Any

from polyadic.estimators._tables import schema_of
from polyadic.inspection import describe_kernel, write_number, write_part
from polyadic.report._errors import Errors
from polyadic.report._figures import make_figures
from polyadic.report._findings import Findings, as_json, find
from polyadic.report._subject import Subject
from polyadic.storage.atomic import replacing


def render(subject: Subject) -> str:
    """Return the report as HTML."""
    return _render(subject, find(subject))


def write_report(subject: Subject, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the report; the file appears whole or not at all.

    Returns
    -------
    numbers : dict
        All numbers of the page, in a form that JSON has.
    """
    findings = find(subject)
    page = _render(subject, findings)
    with replacing(path) as file:
        file.write(page.encode("utf-8"))
    return as_json(subject, findings)


def _render(subject: Subject, findings: Findings) -> str:
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
    folder = files("polyadic.report")
    template = environment.from_string(folder.joinpath("template.html").read_text("utf-8"))
    return template.render(
        subject=subject,
        findings=findings,
        style=Markup(folder.joinpath("style.css").read_text("utf-8")),
        figures=make_figures(subject, findings),
        svg=Markup,
        cards=[] if findings.errors is None else _cards(findings.errors, subject.measured_on),
        has_categories=any(schema_of(subject.model).inputs.n_levels),
        automatic=hasattr(subject.model, "selection_"),
        n_members=len(subject.model.members_),
        n_trials=len(getattr(subject.model, "selection_", {}).get("stage", [])),
        parameters=_list_parameters(subject.model),
        versions=_list_versions(),
    )


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


def _cards(errors: Errors, measured_on: str) -> list[tuple[str, str, str]]:
    """Return the few numbers that stand at the top: label, value, interval."""
    labels = {"r2": "R²", "rmse": "root mean squared error", "mae": "mean absolute error"}
    cards = [
        (label, write_number(getattr(errors.model, name)), _write_interval(errors, name))
        for name, label in labels.items()
        if getattr(errors.model, name) is not None
    ]
    return [*cards, (measured_on, f"{errors.rows:,}", "")]


def _write_interval(errors: Errors, name: str) -> str:
    if name not in errors.intervals:
        return ""
    low, high = map(write_number, errors.intervals[name])
    return f"{low} to {high}"

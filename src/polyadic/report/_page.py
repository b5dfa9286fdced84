"""The page itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from importlib.resources import files
from typing import Any

from polyadic.files import replacing
from polyadic.report._figures import figures
from polyadic.report._subject import Subject


def render(subject: Subject) -> str:
    """Return the report as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["short"] = lambda value: f"{value:.4g}"
    folder = files("polyadic.report")
    template = environment.from_string(folder.joinpath("template.html").read_text("utf-8"))
    return template.render(
        subject=subject,
        style=Markup(folder.joinpath("style.css").read_text("utf-8")),
        figures=figures(subject),
        svg=Markup,
        weights=_weights(subject.model),
        parameters=_parameters(subject.model),
        versions=_versions(),
        headline=_headline(subject),
    )


def write_report(subject: Subject, path: str | os.PathLike[str]) -> None:
    """Write the report; the file appears whole or not at all."""
    page = render(subject)
    with replacing(path) as file:
        file.write(page.encode("utf-8"))


def _weights(model: Any) -> list[tuple[str, float]]:
    pairs = zip(map(str, model.feature_maps_), model.feature_weights_, strict=True)
    return sorted(pairs, key=lambda pair: -abs(pair[1]))


def _parameters(model: Any) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in sorted(model.get_params(deep=False).items())]


def _versions() -> list[tuple[str, str]]:
    from polyadic import __version__

    packages = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
    others = [(name, importlib.metadata.version(name)) for name in packages]
    return [("polyadic", __version__), ("Python", platform.python_version()), *others]


def _headline(subject: Subject) -> list[tuple[str, str]]:
    """Return the few numbers that stand at the top."""
    found = []
    if subject.metrics is not None:
        if subject.metrics["r2"] is not None:
            found.append(("R²", f"{subject.metrics['r2']:.4f}"))
        found.append(("root mean squared error", f"{subject.metrics['rmse']:.4g}"))
        found.append(("mean absolute error", f"{subject.metrics['mae']:.4g}"))
        found.append((subject.measured_on, f"{subject.metrics['rows']}"))
    found.append(("inputs", str(len(subject.names))))
    found.append(("epochs", str(subject.model.n_iter_)))
    return found

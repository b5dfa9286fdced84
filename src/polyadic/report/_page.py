"""The page itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from importlib.resources import files
from typing import Any

from polyadic.report._figures import figures
from polyadic.report._subject import Subject
from polyadic.storage.atomic import replacing


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
        automatic=hasattr(subject.model, "selection_"),
        members=_members(subject.model),
        n_candidates=_n_candidates(subject.model),
        parameters=_parameters(subject.model),
        versions=_versions(),
        headline=_headline(subject),
    )


def write_report(subject: Subject, path: str | os.PathLike[str]) -> None:
    """Write the report; the file appears whole or not at all."""
    page = render(subject)
    with replacing(path) as file:
        file.write(page.encode("utf-8"))


def _members(model: Any) -> list[tuple[str, int, int, int, float, float]]:
    """Return map, basis functions, inputs used, rank, penalty and share of each member."""
    rows = []
    for member, rank, alpha in zip(model.members_, model.rank_, model.alpha_, strict=False):
        n_basis = member.layout.n_basis
        maps = [str(feature_map) for feature_map in member.layout.maps]
        name = maps[0] if len(maps) == 1 else f"{len(maps)} maps"
        used = sum(size > 1 for size in n_basis)
        rows.append((name, max(n_basis), used, int(rank), float(alpha), member.share))
    return rows


def _n_candidates(model: Any) -> int:
    """Return how many candidates an automatic fit screened."""
    return list(getattr(model, "selection_", {}).get("stage", [])).count("screen")


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

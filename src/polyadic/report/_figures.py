"""Figures of the report: SVG that takes its colours from the page.

Matplotlib draws with colours that occur nowhere else, and these are replaced by CSS
variables, so that one picture serves light and dark pages.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyadic.inspection import (
    ConvergenceDisplay,
    FeatureWeightsDisplay,
    PartialDependence,
    PartialDependenceDisplay,
    PredictionDisplay,
    partial_dependence,
    short_name,
)
from polyadic.report._subject import Subject

_INK, _ACCENT, _SECOND, _MUTED = "#010203", "#040506", "#070809", "#0a0b0c"
_VARIABLES = {
    _INK: "var(--ink)",
    _ACCENT: "var(--accent)",
    _SECOND: "var(--second)",
    _MUTED: "var(--muted)",
}
_MAX_POINTS = 1000
_MAX_CURVES = 4
_MAX_BARS = 12


@dataclass(frozen=True)
class Figure:
    """A picture, what it shows in words, and the line under it."""

    name: str
    svg: str
    text: str
    caption: str


def figures(subject: Subject) -> dict[str, list[Figure]]:
    """Return the figures of each section."""
    return {
        "errors": _errors(subject),
        "weights": [_weights(subject)],
        "convergence": [_convergence(subject)],
        "dependence": _dependence(subject),
    }


def _draw(name: str, paint: Callable[[Any], Any], size: tuple[float, float] = (4.4, 3.1)) -> str:
    """Return the SVG of what `paint` draws on an axis."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure as Canvas

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 10,
        "font.family": "sans-serif",
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _MUTED,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=[_ACCENT, _SECOND]),
        "axes.formatter.use_mathtext": False,
    }
    stream = io.StringIO()
    with matplotlib.rc_context(style):
        canvas: Any = Canvas(figsize=size, layout="constrained")
        paint(canvas.subplots())
        canvas.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return _inline(stream.getvalue(), name)


def _inline(svg: str, name: str) -> str:
    """Make a file's SVG fit for a page: its size from CSS, its names its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg


def _errors(subject: Subject) -> list[Figure]:
    if subject.actual is None or subject.predicted is None:
        return []
    pairs = PredictionDisplay(subject.actual[:_MAX_POINTS], subject.predicted[:_MAX_POINTS])
    options = {"color": _ACCENT}
    shown = f"{len(pairs.actual)} {subject.measured_on}"
    residuals = pairs.actual - pairs.predicted
    return [
        Figure(
            "predicted",
            _draw("predicted", lambda ax: pairs.plot(ax=ax, **options)),
            f"Scatter plot of predicted against actual {subject.target} for {shown}. Points on "
            "the diagonal are predicted exactly.",
            f"Predicted against actual {subject.target}: {shown}.",
        ),
        Figure(
            "residuals",
            _draw("residuals", lambda ax: pairs.plot(kind="residuals", ax=ax, **options)),
            f"Scatter plot of residuals against predictions for {shown}. Half of the residuals "
            f"lie between {np.quantile(residuals, 0.25):.3g} and "
            f"{np.quantile(residuals, 0.75):.3g}.",
            "Residuals over predictions. A shape in the cloud is something the model missed.",
        ),
    ]


def _weights(subject: Subject) -> Figure:
    weights, maps = subject.model.feature_weights_, subject.model.feature_maps_
    order = np.argsort(-np.abs(weights), kind="stable")[:_MAX_BARS]
    display = FeatureWeightsDisplay([short_name(maps[place]) for place in order], weights[order])
    some = "" if len(order) == len(weights) else f", the {len(order)} largest of {len(weights)}"
    return Figure(
        "weights",
        _draw("weights", lambda ax: display.plot(ax=ax), (4.9, 1.0 + 0.32 * len(order))),
        f"Bar chart of the weights of feature maps{some}. The largest is "
        f"{weights[order[0]]:.3g}, of {maps[order[0]]}.",
        f"Weight λ of each feature map{some}. The table below has the numbers.",
    )


def _convergence(subject: Subject) -> Figure:
    loss = subject.model.loss_curve_
    return Figure(
        "convergence",
        _draw("convergence", lambda ax: ConvergenceDisplay.from_estimator(subject.model, ax=ax)),
        f"Line chart of the training loss over {len(loss)} epochs, from {loss[0]:.3g} to "
        f"{loss[-1]:.3g}.",
        "Loss after each epoch: one sweep over all cores and one step of the weights.",
    )


def _dependence(subject: Subject) -> list[Figure]:
    """Draw the inputs whose curves vary most, and the two first of them together."""
    curves = [_curve(subject, place) for place in range(len(subject.names))]
    order = sorted(range(len(curves)), key=lambda place: -float(np.std(curves[place].values)))
    found = [_line(subject, curves[place], rank) for rank, place in enumerate(order[:_MAX_CURVES])]
    if len(order) > 1:
        found.append(_map(subject, order[0], order[1]))
    return found


def _curve(subject: Subject, place: int) -> PartialDependence:
    return partial_dependence(subject.model, subject.X, place, resolution=41)


def _line(subject: Subject, curve: PartialDependence, rank: int) -> Figure:
    name, values = curve.names[0], curve.values
    low, high = curve.grids[0][int(values.argmin())], curve.grids[0][int(values.argmax())]
    return Figure(
        f"dependence{rank}",
        _draw(
            f"dependence{rank}",
            lambda ax: PartialDependenceDisplay(curve).plot(ax=ax),
        ),
        f"Line chart of the mean predicted {subject.target} over {name}: least, "
        f"{values.min():.3g}, at {low:.3g} and greatest, {values.max():.3g}, at {high:.3g}.",
        f"{name}: moves the mean prediction by {np.ptp(values):.3g}.",
    )


def _map(subject: Subject, first: int, second: int) -> Figure:
    found = partial_dependence(subject.model, subject.X, [first, second], resolution=31)

    def paint(ax: Any) -> None:
        display = PartialDependenceDisplay(found).plot(ax=ax, cmap="cividis")
        bar = display.figure_.colorbar(display.contours_, ax=ax)
        bar.set_label("mean prediction")
        bar.outline.set_visible(False)

    both = f"{found.names[0]} and {found.names[1]}"
    return Figure(
        "dependence-map",
        _draw("dependence-map", paint),
        f"Contour map of the mean predicted {subject.target} over {both}, from "
        f"{found.values.min():.3g} to {found.values.max():.3g}.",
        f"{both} together.",
    )

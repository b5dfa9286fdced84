"""Pictures of partial dependence: curves with the rows under them, bars for categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyadic.inspection import write_number, write_tick
from polyadic.inspection._displays import write_dates
from polyadic.inspection._inputs import GAP, as_dates
from polyadic.report._drawing import ACCENT, INK, MUTED, SECOND, Figure, draw, fit_text
from polyadic.report._inputs import Curve, Inputs, Pair


def draw_curves(target: str, inputs: Inputs) -> list[Figure]:
    """Return one picture for each curve."""
    widest = max((float(np.ptp(curve.values)) for curve in inputs.curves), default=0.0)
    return [
        _draw_curve(target, curve, f"dependence{rank}", widest, inputs.predicted_range)
        for rank, curve in enumerate(inputs.curves)
    ]


def _draw_curve(
    target: str, curve: Curve, name: str, widest: float, predicted: tuple[float, float]
) -> Figure:
    values = np.array(curve.values)
    least, most = int(values.argmin()), int(values.argmax())
    low, high = write_number(values[least]), write_number(values[most])
    if curve.labels:
        kind, where = "Bar chart", curve.labels
        svg = draw(
            name, lambda ax: _paint_bars(ax, curve, widest), 1.0 + 0.27 * max(3, len(values))
        )
    else:
        kind, where = "Line chart", _write_points(curve)
        svg = draw(name, lambda ax: _paint_line(ax, curve, widest))
    text = (
        f"{kind} of the mean predicted {target} by {curve.name}: least, {low}, at "
        f"{where[least]} and greatest, {high}, at {where[most]}."
    )
    caption = f"{curve.name}: mean predictions from {low} to {high}. {_explain(curve)}"
    if curve.gap is not None:
        one = "row has a gap" if curve.n_gaps == 1 else "rows have a gap"
        told = f"{curve.n_gaps:,} {one}, for which the mean prediction is {write_number(curve.gap)}"
        text, caption = f"{text} {told}.", f"{caption} {told}: the point beside."
    if values[least] < predicted[0] or values[most] > predicted[1]:
        caption += (
            " Some lie beyond the prediction for any row: in the data this input goes together "
            "with others, and here it is set without them."
        )
    return Figure(name, svg, text, caption)


def _write_points(curve: Curve) -> list[str]:
    if curve.is_time:
        return [str(day) for day in as_dates(np.array(curve.points)).astype("datetime64[D]")]
    return [write_number(point) for point in curve.points]


def _explain(curve: Curve) -> str:
    """Say how the picture shows where the rows are."""
    if curve.labels:
        return "Numbers of rows are in brackets; the line is the mean."
    if curve.rows:
        return "Points are values that rows have, the bars under them how many have each."
    return "The curve spans 98 % of the rows; each mark under it is one hundredth of them."


def _paint_bars(ax: Any, curve: Curve, widest: float) -> None:
    """Draw each level's distance from the mean over the rows."""
    places, values = np.arange(len(curve.values)), np.array(curve.values)
    mean = float(np.average(values, weights=curve.rows))
    ax.barh(places, values - mean, left=mean, color=ACCENT)
    ax.axvline(mean, color=MUTED, linewidth=0.8)
    counted = zip(curve.labels, curve.rows, strict=True)
    ax.set_yticks(places, [f"{fit_text(label, 18)} ({n:,})" for label, n in counted])
    ax.invert_yaxis()
    ax.set(xlabel="mean prediction", xlim=_find_limits(curve.values, widest))
    ax.set_ylabel(fit_text(curve.name, 24))


def _paint_line(ax: Any, curve: Curve, widest: float) -> None:
    few = {"marker": "o", "markersize": 4} if curve.rows else {}
    ax.plot(curve.points, curve.values, color=ACCENT, **few)
    drawn = [*curve.values, curve.gap] if curve.gap is not None else curve.values
    low, high = _find_limits(drawn, widest)
    ax.set_ylim(low - 0.1 * (high - low), high)  # room for the marks of the rows
    _paint_rows(ax, curve)
    if curve.gap is not None:
        beside = curve.points[-1] + 0.1 * (np.ptp(curve.points) or 1.0)
        ax.plot(beside, curve.gap, "o", color=SECOND, markersize=5)
        ax.annotate(
            GAP, (beside, curve.gap), (0, 5), textcoords="offset points", ha="center", fontsize=8
        )
    if curve.is_time:
        write_dates(ax.xaxis)
    ax.set(xlabel=fit_text(curve.name), ylabel="mean prediction")


def _paint_rows(ax: Any, curve: Curve) -> None:
    """Show where the rows are: a mark for each hundredth, or a bar for each of few values."""
    along = ax.get_xaxis_transform()
    if curve.rows:
        heights = 0.1 * np.array(curve.rows) / max(curve.rows)
        ax.vlines(curve.points, 0, heights, color=MUTED, linewidth=5, transform=along)
        return
    marks = np.full(len(curve.percentiles), 0.03)
    ax.plot(curve.percentiles, marks, "|", color=MUTED, transform=along)


def _find_limits(values: list[float], widest: float) -> tuple[float, float]:
    """Return the ends of an axis: a curve that hardly moves should not look like the largest."""
    middle = (min(values) + max(values)) / 2
    half = 0.55 * max(float(np.ptp(values)), widest / 4) or 1.0
    return middle - half, middle + half


def draw_pair(target: str, pair: Pair) -> Figure:
    """Return the picture of two columns: a map, or a line for each level of a category."""
    first, second = pair.curves
    both = f"{first.name} and {second.name}"
    low, high = write_number(pair.values.min()), write_number(pair.values.max())
    kind = "Line chart" if second.labels else "Contour map"
    under = "" if second.labels else " Points are rows."
    return Figure(
        "dependence-pair",
        draw("dependence-pair", lambda ax: _paint_pair(ax, pair)),
        f"{kind} of the mean predicted {target} over {both}, from {low} to {high}.",
        f"{both}, the two that act together most: beyond the sum of their own curves they move "
        f"predictions by {write_number(pair.strength)} (standard deviation over the rows).{under}",
    )


def _paint_pair(ax: Any, pair: Pair) -> None:
    first, second = pair.curves
    ax.set_xlabel(fit_text(first.name))
    for curve, axis in zip(pair.curves, (ax.xaxis, ax.yaxis), strict=True):
        if curve.is_time:
            write_dates(axis)
    if second.labels:
        _paint_lines(ax, pair)
        return
    drawn = ax.contourf(first.points, second.points, pair.values.T, levels=8, cmap="cividis")
    ends = [(curve.points[0], curve.points[-1]) for curve in pair.curves]
    if pair.places is not None:
        ax.scatter(*pair.places.T, s=3, color=INK, alpha=0.5, linewidths=0)
    ax.set(xlim=ends[0], ylim=ends[1], ylabel=fit_text(second.name))
    bar = ax.figure.colorbar(drawn, ax=ax, format=write_tick)
    bar.set_label("mean prediction")
    bar.outline.set_visible(False)


def _paint_lines(ax: Any, pair: Pair) -> None:
    first, second = pair.curves
    places = np.arange(len(first.labels)) if first.labels else first.points
    for label, values in zip(second.labels, pair.values.T, strict=True):
        ax.plot(places, values, label=fit_text(label, 18), marker="o" if first.labels else None)
    if first.labels:
        ax.set_xticks(places, [fit_text(label, 12) for label in first.labels], rotation=30)
    ax.set_ylabel("mean prediction")
    ax.legend(frameon=False, fontsize=8, title=fit_text(second.name, 24), title_fontsize=8)

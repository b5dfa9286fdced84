"""Pictures of partial dependence: curves with the rows under them, bars for categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyadic.inspection import write_number, write_tick
from polyadic.inspection._dependence_display import write_dates
from polyadic.inspection._inputs import GAP, as_dates
from polyadic.report._coverage import USUAL, wilson
from polyadic.report._drawing import ACCENT, CYCLE, INK, MUTED, SECOND, Figure, draw, fit_text
from polyadic.report._inputs import Curve, Inputs, Pair
from polyadic.report._residuals import Residuals

_FEW_ROWS = 20  # of a part that may lie outside of a picture
_MOST_BAND = 1.0  # room for a band beyond a curve, in units of the largest curve


def draw_curves(target: str, inputs: Inputs) -> list[Figure]:
    """Return one picture for each curve."""
    widest = max((float(np.ptp(_numbers(curve))) for curve in inputs.curves), default=0.0)
    return [
        _draw_curve(target, curve, f"dependence{rank}", widest, inputs)
        for rank, curve in enumerate(inputs.curves)
    ]


def _numbers(curve: Curve) -> list[float]:
    """Return all values of a curve, of all classes."""
    return [value for line in curve.lines.values() for value in line]


def _draw_curve(target: str, curve: Curve, name: str, widest: float, inputs: Inputs) -> Figure:
    kind, paint, height = "Line chart", _paint_line, 3.1
    if curve.labels:
        kind, paint, height = "Bar chart", _paint_bars, 1.0 + 0.27 * max(3, len(curve.labels))
        if curve.classes:
            paint, height = _paint_stacks, height + 0.5
    svg = draw(name, lambda ax: paint(ax, curve, widest, inputs.label), height)
    if curve.classes:
        return Figure(name, svg, *_describe_classes(target, curve, kind))
    values = np.array(curve.values)
    least, most = int(values.argmin()), int(values.argmax())
    low, high = write_number(values[least]), write_number(values[most])
    where = curve.labels or _write_points(curve)
    text = (
        f"{kind} of the {inputs.label} ({target}) by {curve.name}: least, {low}, at "
        f"{where[least]} and greatest, {high}, at {where[most]}."
    )
    caption = f"{curve.name}: {_plural(inputs.label)} from {low} to {high}."
    if curve.gap is not None:
        told = f"{_count_gaps(curve)}, for which it is {write_number(curve.gap)}"
        text, caption = f"{text} {told}.", f"{caption} {told}: the point beside."
    beyond = values[least] < inputs.predicted_range[0] or values[most] > inputs.predicted_range[1]
    if beyond:
        caption += (
            " Some lie beyond the prediction for any row: in the data this input goes together "
            "with others, and here it is set without them."
        )
    return Figure(name, svg, text, caption)


def _plural(label: str) -> str:
    """Return "mean predictions" from "mean prediction"."""
    for one, many in (("prediction", "predictions"), ("probability", "probabilities")):
        label = label.replace(f"mean {one}", f"mean {many}")
    return label


def _describe_classes(target: str, curve: Curve, kind: str) -> tuple[str, str]:
    """Return what a picture of several classes shows, and the line under it."""
    spans = [
        f"{name} {write_number(min(line), 2)} to {write_number(max(line), 2)}"
        for name, line in curve.classes.items()
    ]
    text = f"{kind} of the mean probability of each {target} by {curve.name}: {', '.join(spans)}."
    moves = max(curve.classes, key=lambda name: float(np.ptp(curve.classes[name])))
    span = curve.classes[moves]
    low, high = write_number(min(span), 3), write_number(max(span), 3)
    caption = f"{curve.name}: it moves {moves} most, from {low} to {high}."
    if curve.class_gaps:
        caption += f" {_count_gaps(curve)}: the points beside."
    return text, caption


def _count_gaps(curve: Curve) -> str:
    one = "row has a gap" if curve.n_gaps == 1 else "rows have a gap"
    return f"{curve.n_gaps:,} {one}"


def _write_points(curve: Curve) -> list[str]:
    if curve.is_time:
        return [str(day) for day in as_dates(np.array(curve.points)).astype("datetime64[D]")]
    return [write_number(point) for point in curve.points]


def _paint_bars(ax: Any, curve: Curve, widest: float, label: str) -> None:
    """Draw each level's distance from the mean over the rows."""
    places, values = np.arange(len(curve.values)), np.array(curve.values)
    mean = float(np.average(values, weights=curve.rows))
    ax.barh(places, values - mean, left=mean, color=ACCENT)
    if curve.low:
        ax.hlines(places, curve.low, curve.high, color=INK, linewidth=1)
    ax.axvline(mean, color=MUTED, linewidth=0.8)
    _write_levels(ax, curve.name, curve.labels, curve.rows)
    limits = _find_limits(curve.values, widest, [*curve.low, *curve.high])
    ax.set(xlabel=fit_text(label), xlim=limits)


def _write_levels(ax: Any, name: str, labels: Sequence[str], rows: Sequence[int]) -> None:
    """Write the levels of a category with how many rows have each, the first one on top."""
    counted = zip(labels, rows, strict=True)
    texts = [f"{fit_text(label, 18)} ({n:,})" for label, n in counted]
    ax.set_yticks(np.arange(len(texts)), texts)
    ax.set_ylim(len(texts) - 0.4, -0.6)
    ax.set_ylabel(fit_text(name, 24))


def _paint_stacks(ax: Any, curve: Curve, widest: float, label: str) -> None:
    """Draw the probabilities of classes one after another, which together are one."""
    places, end = np.arange(len(curve.labels)), np.zeros(len(curve.labels))
    for (name, values), colour in zip(curve.classes.items(), CYCLE, strict=False):
        ax.barh(places, values, left=end, color=colour, label=fit_text(name, 16))
        end = end + values
    _write_levels(ax, curve.name, curve.labels, curve.rows)
    ax.set(xlabel=fit_text(label), xlim=(0, 1))
    _name_classes(ax)


def _name_classes(ax: Any) -> None:
    ax.legend(
        frameon=False,
        fontsize=8,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        borderpad=0,
        handlelength=1.2,
    )


def _paint_line(ax: Any, curve: Curve, widest: float, label: str) -> None:
    few = {"marker": "o", "markersize": 4} if curve.rows else {}
    if curve.low:
        ax.fill_between(curve.points, curve.low, curve.high, color=ACCENT, alpha=0.15, linewidth=0)
        for edge in (curve.low, curve.high):
            ax.plot(curve.points, edge, color=ACCENT, linewidth=0.5, linestyle="-")
    gaps = curve.class_gaps or ({"": curve.gap} if curve.gap is not None else {})
    for (name, values), colour in zip(curve.lines.items(), CYCLE, strict=False):
        ax.plot(curve.points, values, color=colour, linestyle="-", label=fit_text(name, 16), **few)
    drawn = [*_numbers(curve), *gaps.values()]
    low, high = _find_limits(drawn, widest, [*curve.low, *curve.high])
    ax.set_ylim(low - 0.1 * (high - low), high)  # room for the marks of the rows
    _paint_rows(ax, curve)
    if gaps:
        beside = curve.points[-1] + 0.1 * (np.ptp(curve.points) or 1.0)
        colours = CYCLE if curve.classes else (SECOND,)
        for value, colour in zip(gaps.values(), colours, strict=False):
            ax.plot(beside, value, "o", color=colour, markersize=5)
        ax.annotate(
            GAP,
            (beside, max(gaps.values())),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    if curve.classes:
        _name_classes(ax)
    if curve.is_time:
        write_dates(ax.xaxis)
    ax.set(xlabel=fit_text(curve.name), ylabel=fit_text(label))


def _paint_rows(ax: Any, curve: Curve) -> None:
    """Show where the rows are: a mark for each hundredth, or a bar for each of few values."""
    along = ax.get_xaxis_transform()
    if curve.rows:
        heights = 0.1 * np.array(curve.rows) / max(curve.rows)
        ax.vlines(curve.points, 0, heights, color=MUTED, linewidth=5, transform=along)
        return
    marks = np.full(len(curve.percentiles), 0.03)
    ax.plot(curve.percentiles, marks, "|", color=MUTED, transform=along)


def _find_limits(
    values: Sequence[float], widest: float, band: Sequence[float]
) -> tuple[float, float]:
    """Return the ends of an axis: a curve that hardly moves should not look like the largest.

    There is room for the band too, but not so much that nothing is seen of the curve.
    """
    low, high = min(values), max(values)
    middle, span = (low + high) / 2, max(high - low, widest / 4)
    half = 0.55 * span or 1.0
    ends = (middle - half, middle + half)
    if not band:
        return ends
    most = _MOST_BAND * max(span, widest) or np.inf
    margin = 0.03 * (max(band) - min(band))
    return (
        max(min(ends[0], min(band) - margin), low - most),
        min(max(ends[1], max(band) + margin), high + most),
    )


def draw_residuals(inputs: Inputs, what: str) -> list[Figure]:
    """Return pictures of mean residuals along the inputs, on one scale."""
    shown = [curve for curve in inputs.curves if curve.residuals and len(curve.residuals.means) > 1]
    if not shown:
        return []
    reach = max(_reach(curve.residuals) for curve in shown if curve.residuals)
    return [_draw_residuals(curve, place, reach, what) for place, curve in enumerate(shown)]


def _reach(found: Residuals) -> float:
    """Return how far residuals lie from zero; parts of few rows, which vary, do not count."""
    most, rows = max(found.rows), np.array(found.rows)
    size = np.abs(found.means) + 2 * np.array(found.standard_errors)
    return float(size[rows >= min(_FEW_ROWS, most)].max())


def _draw_residuals(curve: Curve, place: int, reach: float, what: str) -> Figure:
    found, name = curve.residuals, f"residuals{place}"
    assert found is not None

    def paint(ax: Any) -> None:
        errors = 2 * np.array(found.standard_errors)
        options: Any = {"fmt": "o", "color": ACCENT, "markersize": 4, "linewidth": 1}
        if found.labels:
            ax.errorbar(found.means, np.arange(len(errors)), xerr=errors, **options)
            ax.axvline(0, color=MUTED, linewidth=0.8)
        else:
            ax.errorbar(found.points, found.means, yerr=errors, **options)
            ax.axhline(0, color=MUTED, linewidth=0.8)
        _name_axes(ax, curve, found, what, (-1.05 * reach, 1.05 * reach))

    size = np.abs(found.means) / np.maximum(found.standard_errors, np.finfo(float).tiny)
    worst = int(size.argmax())
    at = found.labels[worst] if found.labels else write_number(found.points[worst])
    off = int((size > 2).sum())
    parts = f"{len(found.means)} {'levels' if found.labels else 'parts of the rows'}"
    are = "is" if off == 1 else "are"
    verdict = (
        f"none of {parts} is off by more than two standard errors"
        if not off
        else f"{off} of {parts} {are} off by more than two standard errors, "
        f"most at {at} with {write_number(found.means[worst])}"
    )
    return Figure(
        name,
        draw(name, paint, _height(found)),
        f"Mean residuals by {curve.name}, with two standard errors: {verdict}.",
        f"{curve.name}: {verdict}.",
    )


def _name_axes(
    ax: Any, curve: Curve, found: Residuals, what: str, ends: tuple[float, float]
) -> None:
    """Name the axes of parts of the rows: levels go down the page, and values to the right."""
    if found.labels:
        _write_levels(ax, curve.name, found.labels, found.rows)
        ax.set(xlabel=what, xlim=ends)
        return
    if curve.is_time:
        write_dates(ax.xaxis)
    ax.set(xlabel=fit_text(curve.name), ylabel=what, ylim=ends)


def _height(found: Residuals) -> float:
    """Return the height of a picture of parts of the rows: levels take a line each."""
    return max(2.6, 1.0 + 0.27 * len(found.labels))


def draw_widths(inputs: Inputs) -> list[Figure]:
    """Return pictures of how wide intervals are along the inputs, on one scale."""
    shown = [curve for curve in inputs.curves if curve.residuals and curve.residuals.widths]
    widest = max((max(c.residuals.widths) for c in shown if c.residuals), default=0.0)
    return [_draw_widths(curve, place, widest) for place, curve in enumerate(shown)]


def _draw_widths(curve: Curve, place: int, widest: float) -> Figure:
    found, name = curve.residuals, f"widths{place}"
    assert found is not None

    def paint(ax: Any) -> None:
        if found.labels:
            ax.barh(np.arange(len(found.labels)), found.widths, color=ACCENT)
        else:
            ax.plot(found.points, found.widths, "-o", color=ACCENT, markersize=4)
        _name_axes(ax, curve, found, "width of 90 % interval", (0, 1.05 * widest))

    low, high = write_number(min(found.widths)), write_number(max(found.widths))
    told = f"intervals are {low} to {high} wide; {_tell_coverage(found)}"
    return Figure(
        name,
        draw(name, paint, _height(found)),
        f"Mean width of 90 % intervals by {curve.name}: {told}.",
        f"{curve.name}: {told}.",
    )


def _tell_coverage(found: Residuals) -> str:
    """Say in how many parts of the rows intervals hold fewer or more rows than they should."""
    ends = [wilson(c, n) for c, n in zip(found.covered, found.rows, strict=True)]
    few = sum(high < USUAL for _, high in ends)
    many = sum(low > USUAL for low, _ in ends)
    parts = f"of {len(ends)} {'levels' if found.labels else 'parts of the rows'}"
    if not few and not many:
        return f"in none {parts} they hold clearly fewer or more than 90 %"
    told = [f"clearly {word} in {n}" for n, word in ((few, "fewer"), (many, "more")) if n]
    return f"they hold {' and '.join(told)} {parts}"


def draw_pair(target: str, pair: Pair, moved: str) -> Figure:
    """Return the picture of two columns: a map, or a line for each level of a category."""
    first, second = pair.curves
    both = f"{first.name} and {second.name}"
    low, high = write_number(pair.values.min()), write_number(pair.values.max())
    kind = "Line chart" if second.labels else "Contour map"
    under = "" if second.labels else " Points are rows."
    return Figure(
        "dependence-pair",
        draw("dependence-pair", lambda ax: _paint_pair(ax, pair)),
        f"{kind} of the {pair.label} ({target}) over {both}, from {low} to {high}.",
        f"{both}, the two that act together most: beyond the sum of their own effects they move "
        f"{moved} by {write_number(pair.strength)} (standard deviation over the rows).{under}",
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
    bar.set_label(fit_text(pair.label))
    bar.outline.set_visible(False)


def _paint_lines(ax: Any, pair: Pair) -> None:
    first, second = pair.curves
    places = np.arange(len(first.labels)) if first.labels else first.points
    for label, values in zip(second.labels, pair.values.T, strict=True):
        ax.plot(places, values, label=fit_text(label, 18), marker="o" if first.labels else None)
    if first.labels:
        ax.set_xticks(places, [fit_text(label, 12) for label in first.labels], rotation=30)
    ax.set_ylabel(fit_text(pair.label))
    ax.legend(frameon=False, fontsize=8, title=fit_text(second.name, 24), title_fontsize=8)

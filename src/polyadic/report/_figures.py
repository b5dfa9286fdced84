"""Figures of the report: each a picture, its words, and the line under it."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyadic.inspection import (
    ConvergenceDisplay,
    FeatureWeightsDisplay,
    PredictionDisplay,
    SelectionDisplay,
    describe_kernel,
    short_name,
    write_number,
    write_part,
    write_tick,
)
from polyadic.inspection._displays import held_out_name
from polyadic.report._class_figures import draw_class_errors
from polyadic.report._coverage import Coverage
from polyadic.report._curves import draw_curves, draw_pair, draw_residuals, draw_widths
from polyadic.report._drawing import ACCENT, MUTED, SECOND, Figure, draw, fit_text
from polyadic.report._errors import Errors
from polyadic.report._findings import Findings, Learned
from polyadic.report._inputs import Inputs
from polyadic.report._subject import Subject, Tell, say_nothing

_MAX_POINTS = 1000
_MAX_BARS = 15


def make_figures(
    subject: Subject, findings: Findings, tell: Tell = say_nothing
) -> dict[str, list[Figure]]:
    """Return the figures of each section."""
    tell("drawing figures")
    model, inputs = subject.model, findings.inputs
    curves = [] if inputs is None else draw_curves(subject.target, inputs)
    if inputs is not None and inputs.pair is not None:
        moved = {"identity": "predictions", "log": "logarithms of predictions", "logit": "log odds"}
        curves.append(
            draw_pair(subject.target, inputs.pair, moved.get(model._link, "scores of classes"))
        )
    return {
        "errors": _draw_measured(subject, findings),
        "residuals": [] if inputs is None else draw_residuals(inputs, "actual − predicted"),
        "coverage": [] if findings.coverage is None else [_draw_coverage(findings.coverage)],
        "widths": [] if inputs is None else draw_widths(inputs),
        "importance": [
            *([] if inputs is None else [_draw_importance(inputs)]),
            *([] if findings.learned is None else _draw_lengths(findings.learned)),
        ],
        "dependence": curves,
        # Members that learn their features have one share, and epochs of many trials: neither
        # makes a picture that tells of the fit.
        "fit": (
            [_draw_weights(model), _draw_convergence(model)]
            if findings.learned is None
            else [_draw_search(model)]
        ),
    }


def _draw_measured(subject: Subject, findings: Findings) -> list[Figure]:
    if findings.class_errors is not None:
        return draw_class_errors(subject, findings.class_errors)
    return [] if findings.errors is None else _draw_errors(subject, findings.errors)


def _draw_errors(subject: Subject, errors: Errors) -> list[Figure]:
    pairs = PredictionDisplay(errors.actual[:_MAX_POINTS], errors.predicted[:_MAX_POINTS])
    shown, rows = len(pairs.actual), f"{errors.rows:,} {subject.measured_on}"
    if shown < errors.rows:
        rows = f"{shown:,} of the {rows}"
    low, middle, high = map(write_number, errors.residual_quartiles)
    return [
        Figure(
            "predicted",
            draw("predicted", lambda ax: pairs.plot(ax=ax, color=ACCENT), 3.4),
            f"Scatter plot of predicted against actual {subject.target} for {rows}. Points on "
            "the diagonal are predicted exactly.",
            f"Predicted against actual {subject.target}: {rows}.",
        ),
        Figure(
            "calibration",
            draw("calibration", lambda ax: _paint_calibration(ax, errors), 3.4),
            f"Mean actual {subject.target} for each tenth of the rows, in the order of their "
            "prediction, with standard errors, beside the diagonal.",
            "Calibration: rows in ten parts by their prediction. On the diagonal, predictions "
            "of that size are right on average.",
        ),
        Figure(
            "residuals",
            draw("residuals", lambda ax: pairs.plot(kind="residuals", ax=ax, color=ACCENT)),
            f"Scatter plot of residuals against predictions for {rows}. Half of the residuals "
            f"lie between {low} and {high}.",
            "Residuals over predictions. A shape in the cloud is something the model missed.",
        ),
        Figure(
            "histogram",
            draw("histogram", lambda ax: _paint_histogram(ax, errors)),
            f"Histogram of the residuals: their median is {middle}, half of them lie between "
            f"{low} and {high}.",
            f"Residuals: half lie between {low} and {high}. The line is a normal distribution of "
            "the same mean and deviation.",
        ),
    ]


def _paint_calibration(ax: Any, errors: Errors) -> None:
    tenths = errors.calibration
    predicted, actual = [t.predicted for t in tenths], [t.actual for t in tenths]
    spread = [t.standard_error for t in tenths]
    ends = [min(predicted + actual), max(predicted + actual)]
    ax.plot(ends, ends, color=MUTED, linewidth=0.8)
    ax.errorbar(predicted, actual, yerr=spread, fmt="o", color=ACCENT, markersize=4, linewidth=1)
    ax.set(xlabel="mean prediction", ylabel="mean actual", aspect="equal")


def _paint_histogram(ax: Any, errors: Errors) -> None:
    residual = errors.actual - errors.predicted
    _, edges, _ = ax.hist(residual, bins=30, color=ACCENT)
    spread = float(residual.std())
    if spread > 0:  # as many rows in all, of the same mean and deviation
        x = np.linspace(edges[0], edges[-1], 81)
        bell = np.exp(-0.5 * ((x - residual.mean()) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
        ax.plot(x, len(residual) * (edges[1] - edges[0]) * bell, color=SECOND, linewidth=1)
    ax.axvline(0, color=MUTED, linewidth=0.8)
    ax.set(xlabel="actual − predicted", ylabel="rows")


def _draw_coverage(coverage: Coverage) -> Figure:
    nominal = [level.nominal for level in coverage.levels]

    def paint(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        ends = [[getattr(level, name) for level in coverage.levels] for name in ("low", "high")]
        ax.vlines(nominal, *ends, color=ACCENT, linewidth=1)
        observed = [level.observed for level in coverage.levels]
        ax.plot(nominal, observed, "o", color=ACCENT, markersize=4)
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
        ax.set(xlabel="coverage asked for", ylabel="share of rows inside")

    usual, held = coverage.usual, write_part(coverage.usual.observed)
    off = max(abs(level.observed - level.nominal) for level in coverage.levels)
    return Figure(
        "coverage",
        draw("coverage", paint, 3.4),
        f"Share of {coverage.rows:,} rows inside intervals of ten coverages from 10 to 95 %, with "
        f"95 % intervals, beside the diagonal. Intervals of 90 % hold {held}.",
        f"Coverage of intervals on {coverage.rows:,} rows, with 95 % intervals. On the diagonal "
        f"they hold what they promise; the largest distance is {write_number(off, 2)}. Intervals "
        f"of 90 % hold {held} and are {write_number(usual.width)} wide on "
        "average.",
    )


def _draw_importance(inputs: Inputs) -> Figure:
    everything = inputs.importances
    shown = everything[:_MAX_BARS]
    shuffled = shown[0].growth is not None
    label = f"growth of the {inputs.error}" if shuffled else "standard deviation of its effect"

    def paint(ax: Any) -> None:
        places = np.arange(len(shown))
        spread = [2 * (found.deviation or 0.0) for found in shown] if shuffled else None
        options = {"error_kw": {"ecolor": MUTED, "linewidth": 1}} if shuffled else {}
        ax.barh(places, [found.size for found in shown], xerr=spread, color=ACCENT, **options)
        ax.set_yticks(places, [fit_text(found.name, 24) for found in shown])
        ax.invert_yaxis()
        ax.axvline(0, color=MUTED, linewidth=0.8)
        ax.set_xlabel(label)

    some = "" if len(shown) == len(everything) else f", the first {len(shown)} of {len(everything)}"
    first = f"{shown[0].name} comes first with {write_number(shown[0].size)}"
    return Figure(
        "importance",
        draw("importance", paint, 0.9 + 0.27 * len(shown)),
        f"Bar chart of the importance of the inputs, {label}{some}: {first}.",
        f"Importance of the inputs{some}{', with two standard errors' if shuffled else ''}.",
    )


def _draw_lengths(learned: Learned) -> list[Figure]:
    """Draw the length scales of numbers; those of categories are not along a range."""
    numbers = [each for each in learned.inputs if each.length_scale and each.kernel != "levels"]
    shown = numbers[:_MAX_BARS]
    if not shown:
        return []
    lengths = [each.length_scale or 0.0 for each in shown]

    def paint(ax: Any) -> None:
        places = np.arange(len(shown))
        ax.set_xscale("log")
        first = min(*lengths, 1.0) / 2
        ax.hlines(places, first, lengths, color=MUTED, linewidth=0.8)
        ax.plot(lengths, places, "o", color=ACCENT, markersize=5)
        ax.axvline(1, color=MUTED, linewidth=0.8)
        names = [f"{fit_text(each.name, 18)}, {describe_kernel(each.kernel)}" for each in shown]
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set(xlim=(first, 2 * max(*lengths, 1.0)))
        ax.xaxis.set_major_formatter(write_tick)
        ax.xaxis.set_minor_formatter("")
        ax.set_xlabel("length scale")

    least = int(np.argmin(lengths))
    return [
        Figure(
            "lengths",
            draw("lengths", paint, 0.9 + 0.27 * len(shown)),
            f"Length scales of the {len(shown)} most relevant inputs on a logarithmic axis. The "
            f"shortest is {write_number(lengths[least], 2)}, of {shown[least].name}.",
            "Learned length scales of numbers, the most relevant first, and how smooth their "
            "kernels are. Of one smoothness, the shorter the faster predictions change; the line "
            "is where it is the input's whole range.",
        )
    ]


def _draw_weights(model: Any) -> Figure:
    weights, maps = model.feature_weights_, model.feature_maps_
    order = np.argsort(-np.abs(weights), kind="stable")[:_MAX_BARS]
    display = FeatureWeightsDisplay([short_name(maps[place]) for place in order], weights[order])
    some = "" if len(order) == len(weights) else f", the {len(order)} largest of {len(weights)}"
    return Figure(
        "weights",
        draw("weights", lambda ax: display.plot(ax=ax, color=ACCENT), 0.9 + 0.27 * len(order)),
        f"Bar chart of the weights of feature maps{some}. The largest is "
        f"{write_number(weights[order[0]])}, of {maps[order[0]]}.",
        f"Weight λ of each feature map{some}. The table below has the numbers.",
    )


def _draw_search(model: Any) -> Figure:
    """Draw the trials of an automatic fit."""
    measured = held_out_name(model.selection_)
    errors, ranks = model.selection_[measured], model.selection_["rank"]
    count, best = len(errors), int(np.argmin(errors))
    least = f"{write_number(errors[best])} at rank {ranks[best]}, in trial {best + 1}"
    what, axis = "Mean squared error on rows held out, in units of the target's variance", None
    if measured == "held_out_loss":
        what, axis = "Mean loss on rows held out", "held-out loss"
    display = SelectionDisplay(ranks, errors, *([axis] if axis else []))
    return Figure(
        "search",
        draw("search", lambda ax: _paint_search(ax, display)),
        f"Scatter plot of the held-out error of {count} trials, by their rank. The least is "
        f"{least}.",
        f"{what}, for each of {count} trials of rank and penalty; the line is the least so "
        f"far: {least}. A higher rank is taken only where it pays.",
    )


def _paint_search(ax: Any, display: SelectionDisplay) -> None:
    display.plot(ax=ax).least_line_.set_color(MUTED)


def _draw_convergence(model: Any) -> Figure:
    loss = model.loss_curve_
    ends = f"from {write_number(loss[0])} to {write_number(loss[-1])}"
    whose = "the first member" if len(model.members_) > 1 else "the model"
    caption = (
        f"Loss of {whose} after each of its {len(loss)} epochs: a sweep over all cores and a step "
        "of the weights."
    )
    if hasattr(model, "selection_"):
        caption = (
            f"Loss of {whose} after each of the {len(loss)} epochs that led to it. Its search goes "
            "from few rows to more and changes rank and penalty on the way, and the last epochs "
            "are on all rows: the curve may jump and rise where the fit gets no worse."
        )
    return Figure(
        "convergence",
        draw("convergence", lambda ax: ConvergenceDisplay.from_estimator(model, ax=ax)),
        f"Line chart of the training loss of {whose} over {len(loss)} epochs, {ends}.",
        caption,
    )

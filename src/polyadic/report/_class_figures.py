"""Pictures of how well classes are predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection import write_number, write_part
from polyadic.report._classes import N_BINS, ClassErrors
from polyadic.report._drawing import ACCENT, INK, MUTED, Figure, draw, fit_text
from polyadic.report._subject import Subject

_MAX_CONFUSED = 12  # classes that a matrix has room for


def draw_class_errors(subject: Subject, errors: ClassErrors) -> list[Figure]:
    """Return the pictures of a classifier's errors."""
    figures = [_draw_reliability(subject, errors), _draw_probabilities(subject, errors)]
    if errors.roc is not None and errors.precision_recall is not None:
        return [
            _draw_roc(subject, errors, errors.roc),
            _draw_precision(subject, errors, errors.precision_recall),
            *figures,
        ]
    return [_draw_confusion(subject, errors), *figures]


def _draw_roc(subject: Subject, errors: ClassErrors, roc: NDArray[np.float64]) -> Figure:
    second, area = subject.classes[1], write_number(errors.model.auc or 0.0, 3)

    def paint(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        ax.plot(*roc.T, color=ACCENT, drawstyle="steps-post")
        ax.set(xlabel=f"share of other rows called {fit_text(second, 12)}", aspect="equal")
        ax.set_ylabel(f"share of {fit_text(second, 12)} found")

    return Figure(
        "roc",
        draw("roc", paint, 3.6),
        f"ROC curve: for each threshold, the share of rows of {second} that are found against the "
        f"share of other rows taken for it. The area under it is {area}.",
        f"ROC curve of {second}: the area under it is {area}. On the diagonal, which has ½, "
        "probabilities say nothing.",
    )


def _draw_precision(subject: Subject, errors: ClassErrors, found: NDArray[np.float64]) -> Figure:
    second, share = subject.classes[1], errors.classes[1].rows / sum(c.rows for c in errors.classes)

    def paint(ax: Any) -> None:
        ax.axhline(share, color=MUTED, linewidth=0.8)
        ax.plot(*found.T, color=ACCENT, drawstyle="steps-post")
        ax.set(xlabel=f"share of {fit_text(second, 12)} found (recall)", ylim=(0, 1.03))
        ax.set_ylabel("share of these that is right (precision)")
        ax.set_aspect("equal")

    return Figure(
        "precision",
        draw("precision", paint, 3.6),
        f"Precision against recall of {second} for each threshold. Without a model precision is "
        f"{write_part(share)}.",
        f"Precision and recall of {second} for each threshold; the line is its share of the rows, "
        f"{write_part(share)}.",
    )


def _draw_reliability(subject: Subject, errors: ClassErrors) -> Figure:
    two = len(subject.classes) == 2
    whose = subject.classes[1] if two else "the predicted class"
    bins, error = errors.calibration, write_number(errors.calibration_error, 2)

    def paint(ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        places = [b.predicted for b in bins]
        ax.vlines(places, [b.low for b in bins], [b.high for b in bins], color=ACCENT, linewidth=1)
        ax.plot(places, [b.observed for b in bins], "o", color=ACCENT, markersize=4)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
        ax.set_xlabel(f"probability of {fit_text(whose, 20)}")
        ax.set_ylabel(f"observed share of {fit_text(whose, 20)}" if two else "share that is right")

    return Figure(
        "reliability",
        draw("reliability", paint, 3.6),
        f"Reliability diagram: observed share against predicted probability of {whose} in "
        f"{len(bins)} parts, beside the diagonal. The expected calibration error is {error}.",
        f"Reliability: rows in {N_BINS} parts by the probability of {whose}, with 95 % "
        f"intervals. On the diagonal probabilities hold; the expected calibration error, the mean "
        f"distance from it over the rows, is {error}.",
    )


def _draw_probabilities(subject: Subject, errors: ClassErrors) -> Figure:
    """Draw how often each probability is given, to rows that have the class and to others."""
    two = len(subject.classes) == 2
    if two:
        sure, right = errors.predicted[:, 1], errors.actual == 1
        names = [fit_text(name, 16) for name in subject.classes[::-1]]
        what = f"probability of {fit_text(subject.classes[1], 20)}"
    else:
        sure = errors.predicted.max(axis=1)
        right = errors.predicted.argmax(axis=1) == errors.actual
        names, what = ["right", "wrong"], "probability of the predicted class"

    def paint(ax: Any) -> None:
        edges = np.linspace(0, 1, N_BINS + 1)
        middle = (edges[1:] + edges[:-1]) / 2
        below = np.zeros(N_BINS)
        for part, name, colour in zip((right, ~right), names, (ACCENT, MUTED), strict=True):
            counts = np.histogram(sure[part], edges)[0]
            ax.bar(middle, counts, 0.9 / N_BINS, below, color=colour, label=name)
            below = below + counts
        ax.set(xlabel=what, ylabel="rows")
        options: Any = {"frameon": False, "fontsize": 8, "ncols": 2, "borderpad": 0}
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), **options)

    sides = "of each class" if two else "that it is right for, and others"
    return Figure(
        "probabilities",
        draw("probabilities", paint, 3.6),
        f"Histogram of the {what} for rows {sides}.",
        f"How sure the model is: rows by the {what}.",
    )


def _draw_confusion(subject: Subject, errors: ClassErrors) -> Figure:
    """Draw the matrix of actual by predicted classes; of many classes the most frequent."""
    counts = errors.confusion
    order = np.argsort(-counts.sum(axis=1), kind="stable")[:_MAX_CONFUSED]
    shown = np.sort(order)
    matrix = counts[np.ix_(shown, shown)]
    of_class = np.maximum(counts[shown].sum(axis=1, keepdims=True), 1)
    names = [fit_text(subject.classes[place], 12) for place in shown]
    some = "" if len(shown) == len(counts) else f", the {len(shown)} most frequent of {len(counts)}"

    def paint(ax: Any) -> None:
        shares = matrix / of_class
        for (row, column), share in np.ndenumerate(shares):
            # Opacity and not a colour map, so that the page's colours serve light and dark.
            box = ax.add_patch(_square(column, row))
            box.set(facecolor=ACCENT, alpha=float(0.75 * share), linewidth=0)
            ax.text(
                column, row, f"{matrix[row, column]:,}", ha="center", va="center", fontsize=8,
                color=INK,
            )  # fmt: skip
        places = np.arange(len(names))
        ax.set_xticks(places, names, rotation=35 if len(names) > 4 else 0, fontsize=8)
        ax.set_yticks(places, names, fontsize=8)
        ax.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), aspect="equal")
        ax.set(xlabel="predicted", ylabel="actual")

    off = counts - np.diag(np.diag(counts))
    actual, predicted = np.unravel_index(int(off.argmax()), off.shape)
    most = (
        f" Most often {subject.classes[actual]} is taken for {subject.classes[predicted]}: "
        f"{off[actual, predicted]:,} of {counts[actual].sum():,} rows."
        if off.any()
        else ""
    )
    return Figure(
        "confusion",
        draw("confusion", paint, 3.6),
        f"Confusion matrix of actual and predicted classes{some}.{most}",
        f"Rows by actual and predicted class{some}; the darker, the larger the part of the actual "
        f"class.{most}",
    )


def _square(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1)

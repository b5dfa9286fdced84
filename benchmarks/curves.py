"""Error against time over `effort`, as an SVG beside the boosters; needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import compare
from benchmarks.models import EFFORTS, LARGE_BOOSTING, PROCESS, TITLES, at_effort

MARKS = {PROCESS: "D", "boosting": "o", LARGE_BOOSTING: "s", "catboost": "^", "xrfm": "v"}


def points(record: dict[str, Any], names: list[str]) -> list[tuple[str, float, float]]:
    """Return name, seconds and error of the models that have both."""
    found = []
    for name in names:
        seconds, mse = (compare.mean(record, name, key) for key in ("seconds", "mse"))
        if seconds is not None and mse is not None:
            found.append((name, seconds, mse))
    return found


def draw(sets: dict[str, Any], path: Path) -> bool:
    """Draw a panel for each set; return False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(3, len(sets))
    lines = -(-len(sets) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4 * columns, 3.2 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(sets) :]:
        axis.set_visible(False)
    for axis, (name, record) in zip(axes.flat, sets.items(), strict=False):
        curve = points(record, [at_effort(effort) for effort in EFFORTS])
        _, seconds, errors = zip(*curve, strict=True)
        axis.plot(seconds, errors, "k.-", label="polyadic, effort ¼ to 4")
        for other, x, y in points(record, list(MARKS)):
            axis.plot(x, y, MARKS[other], label=TITLES[other])
        axis.set(title=name, xscale="log", yscale="log", xlabel="seconds of a fit")
    axes[0, 0].set_ylabel("mean test MSE")
    handles = {}
    for axis in axes.flat:
        drawn, labels = axis.get_legend_handles_labels()
        handles.update(zip(labels, drawn, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    with matplotlib.rc_context({"svg.hashsalt": "polyadic"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True

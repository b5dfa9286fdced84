"""Pictures of the experiments, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyadic.experiments.cells import Cell
from polyadic.storage.atomic import replacing

_COLOURS = {"FL": "#c8541c", "CV": "#1c6dc8"}
_NAMES = {"FL": "feature learning", "CV": "cross-validated"}


def draw(experiment: str, found: Sequence[Cell], folder: Path) -> None:
    """Draw an experiment into ``EXPERIMENT.png`` and ``EXPERIMENT.svg``."""
    import matplotlib
    from matplotlib.figure import Figure

    paint = _dynamics if experiment == "figure2" else _bars
    names = list(dict.fromkeys(cell.run.dataset for cell in found))
    figure: Any = Figure(figsize=(1.2 + 2.4 * max(2, len(names)), 5.2), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False)
    for column, name in enumerate(names):
        mine = [cell for cell in found if cell.run.dataset == name]
        paint(axes[:, column], mine)
        axes[0, column].set_title(name)
    axes[0, 0].set_ylabel("test MSE")
    axes[1, 0].set_ylabel("training time, s")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(bottom=0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    # Neither date nor random names: equal results make equal files.
    with matplotlib.rc_context({"svg.hashsalt": experiment, "svg.fonttype": "none"}):
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            with replacing(folder / f"{experiment}.{kind}") as file:
                figure.savefig(file, format=kind, dpi=150, metadata=metadata)


def _dynamics(axes: Any, mine: Sequence[Cell]) -> None:
    """Draw error and time over the number of maps, with one standard deviation."""
    for model, colour in _COLOURS.items():
        line = [cell for cell in mine if cell.run.model == model]
        if not line:
            continue
        maps = np.array([cell.run.n_maps for cell in line])
        for axis, names in zip(axes, (("mse", "mse_std"), ("seconds", "seconds_std")), strict=True):
            mean, deviation = (np.array([getattr(cell, name) for cell in line]) for name in names)
            axis.plot(maps, mean, color=colour, marker="o", markersize=3, label=_NAMES[model])
            axis.fill_between(
                maps, mean - deviation, mean + deviation, color=colour, alpha=0.2, linewidth=0
            )
    axes[1].set_xlabel("number of maps P")


def _bars(axes: Any, mine: Sequence[Cell]) -> None:
    """Draw a bar for each cell, and the paper's figure as a diamond."""
    is_table1 = mine[0].run.experiment == "table1"
    labels = [cell.run.regularisation if is_table1 else cell.run.model for cell in mine]
    places = np.arange(len(mine))
    paper = [cell.paper for cell in mine]
    colours = [_COLOURS[cell.run.model] for cell in mine]
    turn = {"rotation": 45, "ha": "right"} if len(mine) > 2 else {}
    columns = (
        (axes[0], [cell.mse for cell in mine], [cell.mse_std for cell in mine], 0),
        (axes[1], [cell.seconds for cell in mine], [cell.seconds_std for cell in mine], 2),
    )
    for axis, mean, deviation, index in columns:
        axis.bar(places, mean, yerr=deviation, color=colours, capsize=2, label="polyadic")
        known = [(place, cell[index]) for place, cell in zip(places, paper, strict=True) if cell]
        if known:
            axis.scatter(*zip(*known, strict=True), color="#222", marker="D", s=18, label="paper")
        axis.set_xticks(places, labels, **turn)

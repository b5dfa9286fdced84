"""A picture of partial dependence: a curve, bars, or a map."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from polyadic.inspection._displays import LITERAL, Display
from polyadic.inspection._inputs import GAP
from polyadic.inspection._partial import PartialDependence, partial_dependence


class PartialDependenceDisplay(Display):
    """How predictions depend on one input (a line, or bars for a category) or two (a map).

    A gap is a point beside the line, or one more bar.  Several classes have a line each, or bars
    one after another, which together are one; a map is of one class.

    Parameters
    ----------
    dependence : PartialDependence
        What :func:`partial_dependence` computed.

    Examples
    --------
    >>> import pandas as pd
    >>> import polyadic
    >>> from polyadic.inspection import PartialDependenceDisplay
    >>> frame = pd.DataFrame({"size": range(40), "colour": ["red", "red", "blue", None] * 10})
    >>> model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0)
    >>> model = model.fit(frame, frame["size"] + 10.0 * (frame["colour"] == "red"))
    >>> display = PartialDependenceDisplay.from_estimator(model, frame, "colour")
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['red', 'blue', 'gap']
    """

    def __init__(self, dependence: PartialDependence) -> None:
        self.dependence = dependence

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        inputs: Any,
        *,
        resolution: int = 50,
        target: Any = None,
        response_method: str = "auto",
        ax: Any = None,
    ) -> Self:
        """Compute the dependence on `inputs` over the rows of `X`, and draw it.

        Options are those of :func:`partial_dependence`.
        """
        options: Any = {"target": target, "response_method": response_method}
        found = partial_dependence(estimator, X, inputs, resolution=resolution, **options)
        return cls(found).plot(ax=ax)

    def plot(self, *, ax: Any = None, **options: Any) -> Self:
        """Draw; options go to ``Axes.plot``, ``barh``, ``contourf`` or ``pcolormesh``."""
        found = self.dependence
        if len(found.grids) == 2 and found.classes:
            shown = ", ".join(found.classes[:10])
            raise ValueError(
                f"`target` must be one of the classes, {shown}, for a map of two inputs, got all "
                "of them. Pass its label."
            )
        ax = self._begin(ax)
        if len(found.grids) == 2:
            self._paint_map(ax, options)
        elif found.labels[0]:
            self._paint_bars(ax, options)
        else:
            self._paint_curve(ax, options)
        return self

    def _paint_bars(self, ax: Any, options: dict[str, Any]) -> None:
        found = self.dependence
        places, end = np.arange(len(found.values)), 0.0
        if found.classes:
            # Probabilities sum to one, so that bars stand one after another; scores do not.
            stacked = bool((found.values >= 0).all())
            self.bars_ = []
            for name, values in zip(found.classes, found.values.T, strict=True):
                bar = {"left": end, "label": name} if stacked else {"label": name, "alpha": 0.6}
                self.bars_.append(ax.barh(places, values, **{**bar, **options}))
                end = end + values
            _write_legend(ax)
        else:
            self.bars_ = ax.barh(places, found.values, **options)
        ax.set_yticks(places, found.labels[0], **LITERAL)
        ax.invert_yaxis()
        ax.set_xlabel(found.label, **LITERAL)
        ax.set_ylabel(found.names[0], **LITERAL)

    def _paint_curve(self, ax: Any, options: dict[str, Any]) -> None:
        grid, values = self.dependence.grids[0], self.dependence.values
        gap = np.isnan(grid)
        self.lines_ = ax.plot(grid[~gap], values[~gap], **options)
        if gap.any():
            beside = grid[~gap].max() + np.ptp(grid[~gap]) * 0.08 if not gap.all() else 0.0
            at_gap = np.atleast_1d(values[gap][0])
            for line, value in zip(self.lines_, at_gap, strict=True):
                self.gap_ = ax.plot(beside, value, "o", color=line.get_color())[0]
            ax.annotate(
                GAP, (beside, at_gap.max()), (0, 6), textcoords="offset points", ha="center"
            )
        if self.dependence.classes:
            for line, name in zip(self.lines_, self.dependence.classes, strict=True):
                line.set_label(name)
            _write_legend(ax)
        if grid.dtype.kind == "M":
            write_dates(ax.xaxis)
        ax.set_xlabel(self.dependence.names[0], **LITERAL)
        ax.set_ylabel(self.dependence.label, **LITERAL)

    def _paint_map(self, ax: Any, options: dict[str, Any]) -> None:
        """Draw contours, or a cell for each value of what has levels; gaps of curves have none."""
        found, axes, values = self.dependence, [], self.dependence.values
        for place, (grid, labels) in enumerate(zip(found.grids, found.labels, strict=True)):
            kept = np.ones(len(grid), dtype=bool) if labels else ~np.isnan(grid)
            values = values.compress(kept, axis=place)
            axes.append(np.arange(len(grid)) if labels else grid[kept])
        if any(found.labels):
            self.cells_ = ax.pcolormesh(*axes, values.T, **{"shading": "nearest", **options})
        else:
            self.contours_ = ax.contourf(*axes, values.T, **{"levels": 12, **options})
        for axis, places, labels in zip((ax.xaxis, ax.yaxis), axes, found.labels, strict=True):
            if labels:
                axis.set_ticks(places, labels, **LITERAL)
            elif places.dtype.kind == "M":
                write_dates(axis)
        if found.labels[0]:
            ax.tick_params(axis="x", rotation=45)
        ax.set_xlabel(found.names[0], **LITERAL)
        ax.set_ylabel(found.names[1], **LITERAL)


def _write_legend(ax: Any) -> None:
    """Write the names of classes, which may have dollar signs."""
    for text in ax.legend(frameon=False).get_texts():
        text.set_parse_math(False)


def write_dates(axis: Any) -> None:
    """Write days since 1970, which is what Matplotlib makes of dates, as dates."""
    from matplotlib import dates

    tools: Any = dates  # which has no types
    locator = tools.AutoDateLocator(minticks=3, maxticks=7)
    axis.set_major_locator(locator)
    axis.set_major_formatter(tools.ConciseDateFormatter(locator))

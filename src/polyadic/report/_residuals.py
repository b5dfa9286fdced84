"""What the model misses along each input: mean residuals where the rows are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from polyadic.report._coverage import Spread

_MAX_BINS = 10
_MAX_LEVELS = 12  # of a category, the most frequent
_LEAST_ROWS = 5  # of a bin


@dataclass(frozen=True)
class Residuals:
    """Residuals in parts of the rows by an input: levels, or tenths by its value.

    `points` are the mean values of the parts, and `labels` their names where these are levels;
    `standard_errors` those of the means.  Where the model predicts intervals, `widths` are the
    mean widths of those of 90 %, and `covered` the share of rows that they hold.
    """

    points: list[float]
    labels: list[str]
    rows: list[int]
    means: list[float]
    standard_errors: list[float]
    widths: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)


def find_residuals(
    values: NDArray[np.float64],
    residual: NDArray[np.float64],
    levels: NDArray[np.float64],
    labels: list[str],
    spread: Spread | None = None,
) -> Residuals:
    """Return mean residuals by the values of an input; `levels` are those that have `labels`."""
    if labels:
        parts = [
            np.isnan(values) if np.isnan(level) else values == level for level in levels.tolist()
        ]
    else:
        there = np.flatnonzero(~np.isnan(values))
        order = there[np.argsort(values[there], kind="stable")]
        n_bins = min(_MAX_BINS, max(1, len(order) // _LEAST_ROWS))
        edges = np.unique(np.quantile(values[order], np.linspace(0, 1, n_bins + 1)[1:-1]))
        # Rows of one value are in one part.
        place = np.searchsorted(edges, values, side="left")
        parts = [(place == k) & ~np.isnan(values) for k in range(len(edges) + 1)]
    common = sorted(range(len(parts)), key=lambda k: -int(parts[k].sum()))[:_MAX_LEVELS]
    kept = [(k, parts[k]) for k in sorted(common) if parts[k].sum() >= _LEAST_ROWS]
    found = Residuals(
        [] if labels else [float(values[part].mean()) for _, part in kept],
        [labels[k] for k, _ in kept] if labels else [],
        [int(part.sum()) for _, part in kept],
        [float(residual[part].mean()) for _, part in kept],
        [float(residual[part].std(ddof=1) / np.sqrt(part.sum())) for _, part in kept],
    )
    if spread is None:
        return found
    below, above = spread.low - spread.predicted, spread.high - spread.predicted
    inside = (below <= residual) & (residual <= above)
    return replace(
        found,
        widths=[float((above - below)[part].mean()) for _, part in kept],
        covered=[float(inside[part].mean()) for _, part in kept],
    )

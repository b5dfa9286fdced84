"""What the model misses along each input: mean residuals where the rows are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MAX_BINS = 10
_LEAST_ROWS = 5  # of a bin


@dataclass(frozen=True)
class Residuals:
    """Residuals in parts of the rows by an input: levels, or tenths by its value.

    `points` are the mean values of the parts, and `labels` their names where these are levels;
    `standard_errors` those of the means.
    """

    points: list[float]
    labels: list[str]
    rows: list[int]
    means: list[float]
    standard_errors: list[float]


def find_residuals(
    values: NDArray[np.float64],
    residual: NDArray[np.float64],
    levels: NDArray[np.float64],
    labels: list[str],
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
    kept = [(k, part) for k, part in enumerate(parts) if part.sum() >= _LEAST_ROWS]
    return Residuals(
        [] if labels else [float(values[part].mean()) for _, part in kept],
        [labels[k] for k, _ in kept] if labels else [],
        [int(part.sum()) for _, part in kept],
        [float(residual[part].mean()) for _, part in kept],
        [float(residual[part].std(ddof=1) / np.sqrt(part.sum())) for _, part in kept],
    )

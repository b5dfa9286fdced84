"""The values that the curve of an input is evaluated at: its levels, or where its rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._inputs import Input

_RESOLUTION = 41
_MAX_DISTINCT = 12  # values of a column that are drawn one by one


@dataclass(frozen=True)
class Points:
    """The values that the curve of an input is evaluated at, a gap last where rows have any.

    `counts` says how many rows have each, where they are values that rows have, and `labels` what
    those of a category are called; `is_ordered` where that is an order.
    """

    name: str
    place: int
    values: NDArray[np.float64]
    labels: list[str]
    counts: list[int]
    is_ordered: bool = False
    is_time: bool = False

    @property
    def is_gap(self) -> NDArray[np.bool_]:
        """Which of the values is the gap."""
        return np.isnan(self.values)

    def thinned(self) -> Points:
        """Return every second value, both ends among them."""
        return self.keep(slice(None, None, 2))

    def keep(self, kept: Any) -> Points:
        """Return some of the values."""
        places = np.arange(len(self.values))[kept]
        labels = [self.labels[place] for place in places] if self.labels else []
        counts = [self.counts[place] for place in places] if self.counts else []
        return replace(self, values=self.values[places], labels=labels, counts=counts)


def choose_points(name: str, each: Input, values: NDArray[np.float64]) -> Points:
    """Return where the curve of an input is evaluated: at its levels, or where its rows are.

    A number has points from the 1st to the 99th percentile, or the few values there are.
    """
    there, (place,) = values[~np.isnan(values)], each.places
    distinct, counts = np.unique(there, return_counts=True)
    points, few = distinct, counts.tolist()
    is_category = each.column.kind == "category"
    if is_category:
        order = np.argsort(-counts, kind="stable")
        points, few = distinct[order], counts[order].tolist()
    elif not each.levels:
        low, high = np.quantile(there, [0.01, 0.99])
        points, few = np.linspace(low, high, _RESOLUTION), []
        if len(distinct) <= _MAX_DISTINCT:
            common = (distinct >= low) & (distinct <= high)
            common = common if common.sum() > 1 else np.ones_like(common)
            points, few = distinct[common], counts[common].tolist()
    n_gaps = len(values) - len(there)
    if n_gaps and each.takes_gaps:
        points, few = np.append(points, np.nan), [*few, n_gaps] if few else []
    labels = each.write(points) if each.levels else []
    return Points(name, place, points, labels, few, not is_category, each.is_time)


def group_rare(
    points: Points, means: NDArray[np.float64], n_rows: int
) -> tuple[Points, NDArray[np.float64]]:
    """Put levels of few rows together: each row of them counts once in their mean."""
    counts = np.array(points.counts)
    if not points.labels or points.is_ordered:
        return points, means
    rare = counts < max(5, n_rows / 100)
    rare[_MAX_DISTINCT:] = True
    rare[points.is_gap] = False
    if not rare.any():
        return points, means
    kept = points.keep(~rare)
    n_rare = int(rare.sum())
    other = np.average(means[rare], axis=0, weights=counts[rare])
    # A gap is no level, and stands last.
    last = len(kept.values) - int(kept.is_gap.sum())
    labels, some = list(kept.labels), list(kept.counts)
    labels.insert(last, f"other ({n_rare} level{'s' * (n_rare > 1)})")
    some.insert(last, int(counts[rare].sum()))
    values = np.insert(kept.values, last, np.inf)
    grouped = replace(kept, values=values, labels=labels, counts=some)
    return grouped, np.insert(means[~rare], last, other, axis=0)


def common_points(points: Points, n_rows: int) -> Points:
    """Leave out levels of few rows, all but the six most common, and gaps of what is a curve."""
    if not points.labels:
        return points.keep(~points.is_gap)
    common = np.argsort(-np.array(points.counts), kind="stable")[:6]
    kept = [place for place in common if points.counts[place] >= max(5, n_rows / 100)]
    return points.keep(sorted(kept or common[:1]))

"""Scaling of inputs to the unit interval and of targets to zero mean and unit variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class InputScaling:
    """A rising, piecewise linear map of each column onto [0, 1].

    `blend` mixes two maps.  At 0 it is x ↦ (x − low)/span, straight from the smallest value
    to the largest.  At 1 it is the empirical distribution function, which spreads crowded
    values and draws outliers in.  Beyond the training range the line goes on with the slope
    of the straight part, so that an input far outside moves the scaled value little, and at
    a blend of 1 not at all.

    Parameters
    ----------
    knots, values : tuple of ndarray
        Corners of each column's map; a constant column has one.
    slopes : ndarray
        Slope outside the knots.
    """

    knots: tuple[NDArray[np.float64], ...]
    values: tuple[NDArray[np.float64], ...]
    slopes: NDArray[np.float64]

    @classmethod
    def fit(
        cls,
        X: NDArray[Any],
        names: Sequence[str],
        *,
        blend: float = 0.0,
        weight: NDArray[Any] | None = None,
        max_knots: int = 64,
    ) -> InputScaling:
        """Learn the map of each column."""
        straight = cls.between(X.min(axis=0), X.max(axis=0), names)
        if not blend:
            return straight
        knots, values, slopes = [], [], []
        columns = np.asarray(X, dtype=np.float64).T
        for column, slope in zip(columns, straight.slopes, strict=True):
            corners, heights = _blended(column, weight, blend, max_knots)
            knots.append(corners)
            values.append(heights)
            slopes.append((1 - blend) * slope if len(corners) > 1 else 1.0)
        return cls(tuple(knots), tuple(values), np.array(slopes))

    @classmethod
    def between(cls, low: NDArray[Any], high: NDArray[Any], names: Sequence[str]) -> InputScaling:
        """Return the straight map from the least and the greatest value of each column."""
        low, high = low.astype(np.float64), high.astype(np.float64)
        with np.errstate(over="ignore"):
            span = high - low
        for column in np.flatnonzero(~np.isfinite(span)).tolist():
            raise ValueError(
                f"Input {names[column]} spans {low[column]:g} to {high[column]:g}, a range "
                "beyond double precision. Divide the column by a constant."
            )
        ends = [
            np.array([a, b]) if a < b else np.array([a]) for a, b in zip(low, high, strict=True)
        ]
        values = [np.array([0.0, 1.0])[: len(corners)] for corners in ends]
        with np.errstate(over="ignore", divide="ignore"):
            slopes = np.where(span > 0, 1 / span, 1.0)
        return cls(tuple(ends), tuple(values), slopes)

    @classmethod
    def identity(cls, n_inputs: int) -> InputScaling:
        """Leave inputs as they are."""
        zero = np.zeros(1)
        return cls((zero,) * n_inputs, (zero,) * n_inputs, np.ones(n_inputs))

    @property
    def straight(self) -> list[bool]:
        """Whether a column's map is one line through its least and its greatest value."""
        with np.errstate(over="ignore"):  # the slope of a subnormal range is infinite
            return [
                len(knots) == 2 and bool(slope == 1 / (knots[1] - knots[0]))
                for knots, slope in zip(self.knots, self.slopes, strict=True)
            ]

    def apply(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Scale rows; those outside the learned range fall outside [0, 1]."""
        straight = self.straight
        if all(straight):
            # Columns one by one would read all of a large table once for each.
            low, high = np.array(self.knots).T
            scaled = np.asarray(X - low)
            scaled /= high - low
            return scaled
        scaled = np.empty(X.shape, dtype=np.float64)
        for index, (knots, values) in enumerate(zip(self.knots, self.values, strict=True)):
            column, slope = X[:, index], self.slopes[index]
            if len(knots) == 1:
                scaled[:, index] = slope * (column - knots[0])
                continue
            if straight[index]:
                # Division by the span is exact at both ends, unlike interpolation.
                scaled[:, index] = (column - knots[0]) / (knots[1] - knots[0])
                continue
            scaled[:, index] = np.interp(column, knots, values)
            scaled[:, index] += slope * np.minimum(column - knots[0], 0.0)
            scaled[:, index] += slope * np.maximum(column - knots[-1], 0.0)
        return scaled


def _blended(
    column: NDArray[Any], weight: NDArray[Any] | None, blend: float, max_knots: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of the blended map: at the values, or evenly in height where many."""
    if weight is None:  # without the places of all rows it is a mere sort
        distinct, share = np.unique(column, return_counts=True)
    else:
        distinct, inverse = np.unique(column, return_inverse=True)
        share = np.bincount(inverse, weights=weight)
    if len(distinct) == 1:
        return distinct, np.zeros(1)
    rank = np.cumsum(share) - share / 2  # the middle of each value's share of the rows
    rank = (rank - rank[0]) / (rank[-1] - rank[0])
    straight = (distinct - distinct[0]) / (distinct[-1] - distinct[0])
    heights = blend * rank + (1 - blend) * straight
    if len(distinct) > max_knots:
        corners = np.unique(np.interp(np.linspace(0, 1, max_knots), heights, distinct))
        distinct, heights = corners, np.interp(corners, distinct, heights)
    return distinct, heights


@dataclass(frozen=True)
class TargetScaling:
    """y ↦ (y − mean) / scale, target by target; a constant target has scale 1."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, y: NDArray[Any], weight: NDArray[Any] | None) -> TargetScaling:
        """Learn weighted mean and standard deviation of the columns of `y`."""
        return Moments.of(y, weight).scaling()

    def apply(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Standardise targets."""
        return np.asarray((y - self.mean) / self.scale)

    def undo(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return standardised responses to the target's own units."""
        return np.asarray(y * self.scale + self.mean)


@dataclass(frozen=True)
class Moments:
    """Weight, mean, standard deviation and range of the targets of some rows; they add up."""

    weight: float
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, y: NDArray[Any], weight: NDArray[Any] | None) -> Moments:
        """Sum up the columns of `y`."""
        size = np.abs(y).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        unit = y / size  # squares of values near 1e300 stay finite
        mean = np.average(unit, axis=0, weights=weight)
        deviation = np.sqrt(np.average((unit - mean) ** 2, axis=0, weights=weight))
        total = float(len(y)) if weight is None else float(weight.sum())
        return cls(total, mean * size, deviation * size, y.min(axis=0), y.max(axis=0))

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        mine, theirs = self.weight / weight, other.weight / weight
        apart = np.sqrt(mine * theirs) * np.abs(self.mean - other.mean)
        within = np.hypot(np.sqrt(mine) * self.deviation, np.sqrt(theirs) * other.deviation)
        return Moments(
            weight,
            self.mean + theirs * (other.mean - self.mean),
            np.hypot(within, apart),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def scaling(self) -> TargetScaling:
        """Return the scaling to zero mean and unit variance."""
        with np.errstate(over="ignore"):
            beyond = np.flatnonzero(~np.isfinite(self.high - self.low))
        for target in beyond:
            raise ValueError(
                f"Target {target} of `y` spans {self.low[target]:g} to {self.high[target]:g}, a "
                "range beyond double precision. Divide it by a constant."
            )
        constant = self.deviation <= 1e-14 * np.maximum(np.abs(self.low), np.abs(self.high))
        return TargetScaling(self.mean, np.where(constant, 1.0, self.deviation))

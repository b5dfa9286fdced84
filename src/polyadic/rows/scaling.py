"""Scaling of inputs to the unit interval and of targets to zero mean and unit variance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features.tables import APART
from polyadic.rows.arrays import array_namespace, as_double, interpolate, on_host, place_like
from polyadic.rows.filling import Filling
from polyadic.rows.inputs import Inputs


@dataclass(frozen=True)
class InputScaling:
    """A rising, piecewise linear map of each column onto [0, 1]; codes of levels stay as they are.

    `blend` mixes two maps.  At 0 it is x ↦ (x − low)/span, straight from the smallest value
    to the largest.  At 1 it is the empirical distribution function, which spreads crowded
    values and draws outliers in.  Beyond the training range the line goes on with the slope
    of the straight part, so that an input far outside moves the scaled value little, and at
    a blend of 1 not at all.

    Gaps stay gaps, or those of numbers are filled in, and each number that has them is followed,
    after all inputs, by a flag: 1 where there was a gap, else 0.  Directions come last: linear
    combinations of what inputs have become, each a column of its own.

    Parameters
    ----------
    knots, values : tuple of ndarray
        Corners of each column's map; a constant column has one.
    slopes : ndarray
        Slope outside the knots.
    filling : Filling, optional
        What is put in place of gaps.
    flagged : tuple of int
        The inputs that have a flag.
    ends : tuple of pair of float
        The range of each of these, scaled.  Above it lies what was filled in, by so many ranges
        that tables tell it from what was known; older files have none of this.
    directions : ndarray of shape (n_inputs, k), optional
        By how much each input counts in each direction; zero for categories.  There are none where
        gaps are filled in.
    """

    knots: tuple[NDArray[np.float64], ...]
    values: tuple[NDArray[np.float64], ...]
    slopes: NDArray[np.float64]
    filling: Filling | None = None
    flagged: tuple[int, ...] = ()
    ends: tuple[tuple[float, float], ...] = ()
    directions: NDArray[np.float64] | None = None

    @classmethod
    def fit(
        cls,
        X: NDArray[Any],
        inputs: Inputs,
        *,
        blend: float = 0.0,
        weight: NDArray[Any] | None = None,
        max_knots: int = 64,
    ) -> InputScaling:
        """Learn the map of each column."""
        low, high, _ = column_ranges(X)
        straight = cls.between(low, high, inputs)
        if not blend:
            return straight
        knots, values, slopes = [], [], []
        columns = np.asarray(X, dtype=np.float64).T
        for d, (column, slope) in enumerate(zip(columns, straight.slopes, strict=True)):
            corners, heights = straight.knots[d], straight.values[d]
            # The slope of a subnormal range is infinite, which lines between corners are not up to.
            if len(corners) > 1 and np.isfinite(slope):
                corners, heights = _blend_corners(column, weight, blend, max_knots)
                slope = (1 - blend) * slope
            knots.append(corners)
            values.append(heights)
            slopes.append(slope)
        return cls(tuple(knots), tuple(values), np.array(slopes))

    @classmethod
    def between(cls, low: NDArray[Any], high: NDArray[Any], inputs: Inputs) -> InputScaling:
        """Return the straight map from the least and the greatest value of each column."""
        # Codes are no lengths, and a column of nothing but gaps has no range.
        unscaled = (np.array(inputs.n_levels) > 0) | (low > high)
        low = np.where(unscaled, 0.0, low).astype(np.float64)
        high = np.where(unscaled, 0.0, high).astype(np.float64)
        with np.errstate(over="ignore"):
            span = high - low
        for column in np.flatnonzero(~np.isfinite(span)).tolist():  # the first one is enough
            raise ValueError(
                f"Input {inputs.names[column]!r} spans {low[column]:g} to {high[column]:g}, a "
                "range beyond double precision. Divide the column by a constant."
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

    def with_filling(
        self, X: NDArray[Any], inputs: Inputs, weight: NDArray[Any] | None = None
    ) -> InputScaling:
        """Return the scaling that fills in the gaps of numbers, as rows with gaps teach it."""
        low, high, gaps = column_ranges(X)
        numbers = (np.array(inputs.n_levels) == 0) & (low < high)
        if not gaps[numbers].any():
            return self
        filling = Filling.choose(X, np.flatnonzero(numbers), weight)
        flagged = np.flatnonzero(numbers & (gaps > 0)).tolist()
        is_own = [len(values) == 1 for values in self.values]
        low, high = np.where(is_own, (low, high), [[0.0], [1.0]])[:, flagged]
        ends = tuple(zip(low.tolist(), high.tolist(), strict=True))
        return replace(self, filling=filling, flagged=tuple(flagged), ends=ends)

    def fill_as(self, other: InputScaling) -> InputScaling:
        """Return the scaling that fills in gaps as another one does."""
        return replace(self, filling=other.filling, flagged=other.flagged, ends=other.ends)

    @property
    def n_columns(self) -> int:
        """How many columns rows become: inputs, flags and directions."""
        n_directions = 0 if self.directions is None else self.directions.shape[1]
        return len(self.knots) + len(self.flagged) + n_directions

    def columns_of(self, d: int) -> list[int]:
        """Return the columns that hang on an input: itself, its flag, and its directions."""
        flags = [len(self.knots) + self.flagged.index(d)] if d in self.flagged else []
        if self.directions is None or not self.directions[d].any():
            return [d, *flags]
        return [d, *range(len(self.knots), self.n_columns)]

    @property
    def is_straight(self) -> list[bool]:
        """Whether a column's map is one line through its least and its greatest value."""
        return [self._is_line(d) for d in range(len(self.knots))]

    def _is_line(self, d: int) -> bool:
        knots, slope = self.knots[d], self.slopes[d]
        with np.errstate(over="ignore"):  # the slope of a subnormal range is infinite
            return len(knots) == 2 and bool(slope == 1 / (knots[1] - knots[0]))

    def apply(
        self, X: Any, *, apart: bool = True, filled: Any = None, used: Collection[int] | None = None
    ) -> Any:
        """Scale rows, arrays or tensors; those outside the learned range fall outside [0, 1].

        What was filled in lies apart from what was known, or else is as if it had been.  `filled`
        are the rows with their gaps filled in, where another scaling has done so.  `used` are the
        columns that matter, by default all of them; others may be zero.
        """
        if self.filling is None:
            scaled = self.scale(X, used if self.directions is None else None)
            return scaled if self.directions is None else self._add_directions(scaled)
        xp, columns = array_namespace(X), list(self.flagged)
        flags = xp.astype(xp.isnan(X[:, columns]), xp.float64)
        filled = self.scale(self.filling.fill(X) if filled is None else filled, used)
        if apart and self.ends:
            filled = self._move_apart(filled, flags)
        return xp.concat([filled, flags], axis=1)

    def exchange(self, scaled: Any, d: int, others: NDArray[np.intp]) -> Any:
        """Return scaled rows with one input, and all that hangs on it, from other rows."""
        xp, n_own = array_namespace(scaled), len(self.knots) + len(self.flagged)
        exchanged = xp.asarray(scaled, copy=True)
        for column in self.columns_of(d):
            if column < n_own:
                exchanged[:, column] = scaled[others, column]
            elif self.directions is not None:
                change = scaled[others, d] - scaled[:, d]
                exchanged[:, column] += float(self.directions[d, column - n_own]) * change
        return exchanged

    def _add_directions(self, scaled: Any) -> Any:
        """Return scaled rows followed by their places along each direction."""
        assert self.directions is not None
        # A gap of what takes no part must not make one of the sum.
        part = np.flatnonzero(self.directions.any(axis=1)).tolist()
        weights = place_like(self.directions[part], scaled)
        return array_namespace(scaled).concat([scaled, scaled[:, part] @ weights], axis=1)

    def _move_apart(self, filled: Any, flags: Any) -> Any:
        """Return rows with numbers that were filled in above all known ones, which end."""
        xp = array_namespace(filled)
        columns = list(self.flagged)
        low, high = (place_like(np.array(each), filled) for each in zip(*self.ends, strict=True))
        some, span = filled[:, columns], high - low
        moved = xp.clip(some, low - span, high + span) + APART * span
        filled = xp.asarray(filled, copy=True)
        filled[:, columns] = xp.where(
            flags > 0, moved, xp.clip(some, low - 2 * span, high + 2 * span)
        )
        return filled

    def scale(self, X: Any, used: Collection[int] | None = None) -> Any:
        """Scale rows, arrays or tensors, and leave gaps; at least the columns that are used."""
        if all(self.is_straight):
            # Columns one by one would read all of a large table once for each.
            low, high = (place_like(ends, X) for ends in np.array(self.knots).T)
            scaled = as_double(X) - low
            scaled /= high - low
            return scaled
        xp, needed = array_namespace(X), range(len(self.knots)) if used is None else used
        nothing = xp.zeros(len(X), dtype=xp.float64, device=X.device)
        columns = [
            self.scale_column(X[:, d], d) if d in needed else nothing
            for d in range(len(self.knots))
        ]
        return xp.stack(columns, axis=1)

    def scale_column(self, column: Any, d: int) -> Any:
        """Return the scaled values of one column."""
        xp, column = array_namespace(column), as_double(column)
        knots, slope = self.knots[d], float(self.slopes[d])
        first, last = float(knots[0]), float(knots[-1])
        if len(knots) == 1:
            return slope * (column - first)
        if self._is_line(d):
            # Division by the span is exact at both ends, unlike interpolation.
            return (column - first) / (last - first)
        below, above = xp.clip(column - first, max=0.0), xp.clip(column - last, min=0.0)
        return interpolate(column, knots, self.values[d]) + slope * below + slope * above


def _blend_corners(
    column: NDArray[Any], weight: NDArray[Any] | None, blend: float, max_knots: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners of the blended map: at the values, or evenly in height where many."""
    known = ~np.isnan(column)
    column, weight = column[known], None if weight is None else weight[known]
    if weight is None:  # np.unique is faster without return_inverse, which only weights need
        distinct, count = np.unique(column, return_counts=True)
    else:
        distinct, inverse = np.unique(column, return_inverse=True)
        count = np.bincount(inverse, weights=weight)
    if len(distinct) == 1:
        return distinct, np.zeros(1)
    # The rank of a value is the middle of the rows that have it, so that ties are fair.
    rank = np.cumsum(count) - count / 2
    rank = (rank - rank[0]) / (rank[-1] - rank[0])
    straight = (distinct - distinct[0]) / (distinct[-1] - distinct[0])
    heights = blend * rank + (1 - blend) * straight
    if len(distinct) > max_knots:
        # Corners at even heights: where values crowd, the map is steep and has more of them.
        corners = np.unique(np.interp(np.linspace(0, 1, max_knots), heights, distinct))
        distinct, heights = corners, np.interp(corners, distinct, heights)
    return distinct, heights


def column_ranges(
    X: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the least and the greatest value of each column, and its number of gaps.

    Those of nothing but gaps are infinity and −infinity.  Gaps are NaN, and make a least or a
    greatest value one, too: only where there is one are columns looked at again.
    """
    xp = array_namespace(X)
    low, high = (on_host(as_double(end(X, axis=0))).copy() for end in (xp.min, xp.max))
    gaps = np.zeros(len(low), dtype=np.int64)
    for d in np.flatnonzero(np.isnan(low)).tolist():
        column = as_double(X[:, d])
        missing = xp.isnan(column)
        gaps[d] = int(xp.sum(xp.astype(missing, xp.int64)))
        low[d] = float(xp.min(xp.where(missing, xp.inf, column)))
        high[d] = float(xp.max(xp.where(missing, -xp.inf, column)))
    return low, high, gaps


@dataclass(frozen=True)
class TargetScaling:
    """y ↦ (y − mean) / scale, target by target; a constant target has scale 1."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, y: Any, target: int) -> Any:
        """Standardise the values of one target."""
        return (as_double(y) - float(self.mean[target])) / float(self.scale[target])

    def undo(self, y: Any) -> Any:
        """Return standardised responses, a column a target, to the targets' own units."""
        return y * place_like(self.scale, y) + place_like(self.mean, y)


@dataclass(frozen=True)
class Moments:
    """Weight, mean, standard deviation and range of the targets of some rows; they add up."""

    weight: float
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, y: Any, weight: Any = None) -> Moments:
        """Sum up the columns of `y`."""
        xp, y = array_namespace(y), as_double(y)
        size = xp.max(xp.abs(y), axis=0)
        size = xp.where(size > 0, size, xp.ones_like(size))
        unit = y / size  # squares of values near 1e300 stay finite
        weights = None if weight is None else as_double(weight)
        mean = _average(unit, weights)
        deviation = xp.sqrt(_average((unit - mean) ** 2, weights))
        total = float(len(y)) if weights is None else float(xp.sum(weights))
        ends = xp.min(y, axis=0), xp.max(y, axis=0)
        return cls(total, *map(on_host, (mean * size, deviation * size, *ends)))

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        mine, theirs = self.weight / weight, other.weight / weight
        # The variance of all rows is that within both parts, and that between their means.
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
        # A target that does not vary has the unit of its size.
        size = np.where(self.mean == 0, 1.0, np.abs(self.mean))
        return TargetScaling(self.mean, np.where(constant, size, self.deviation))


def _average(values: Any, weight: Any) -> Any:
    """Return the weighted mean of each column."""
    xp = array_namespace(values)
    if weight is None:
        return xp.mean(values, axis=0)
    return xp.sum(values * weight[:, None], axis=0) / xp.sum(weight)

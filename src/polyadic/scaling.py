"""Scaling of inputs to the unit interval and of targets to zero mean and unit variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class InputScaling:
    """x ↦ (x − low) / span, column by column; a constant column has span 1."""

    low: NDArray[np.float64]
    span: NDArray[np.float64]

    @classmethod
    def fit(cls, X: NDArray[Any], names: list[str]) -> InputScaling:
        """Learn the range of each column."""
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        with np.errstate(over="ignore"):
            span = high - low
        for column in np.flatnonzero(~np.isfinite(span)):
            raise ValueError(
                f"Input {names[column]} spans {low[column]:g} to {high[column]:g}, a range "
                "beyond double precision. Divide the column by a constant."
            )
        return cls(low, np.where(span > 0, span, 1.0))

    @classmethod
    def identity(cls, n_inputs: int) -> InputScaling:
        """Leave inputs as they are."""
        return cls(np.zeros(n_inputs), np.ones(n_inputs))

    def apply(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Scale rows; those outside the learned range fall outside [0, 1]."""
        scaled = np.asarray(X - self.low)
        scaled /= self.span
        return scaled


@dataclass(frozen=True)
class TargetScaling:
    """y ↦ (y − mean) / scale, target by target; a constant target has scale 1."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, y: NDArray[Any], weight: NDArray[Any] | None) -> TargetScaling:
        """Learn weighted mean and standard deviation of the columns of `y`."""
        low, high = y.min(axis=0), y.max(axis=0)
        with np.errstate(over="ignore"):
            beyond = np.flatnonzero(~np.isfinite(high - low))
        for target in beyond:
            raise ValueError(
                f"Target {target} of `y` spans {low[target]:g} to {high[target]:g}, a range "
                "beyond double precision. Divide it by a constant."
            )
        size = np.abs(y).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        unit = y / size  # squares of values near 1e300 stay finite
        mean = np.average(unit, axis=0, weights=weight)
        deviation = np.sqrt(np.average((unit - mean) ** 2, axis=0, weights=weight))
        constant = deviation <= 1e-14 * np.abs(unit).max(axis=0)
        return cls(mean * size, np.where(constant, 1.0, deviation * size))

    def apply(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Standardise targets."""
        return np.asarray((y - self.mean) / self.scale)

    def undo(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return standardised responses to the target's own units."""
        return np.asarray(y * self.scale + self.mean)

"""R² from sums, for predictions that come in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.scaling import Moments


@dataclass(frozen=True)
class Residuals:
    """Squared errors and moments of the targets of some rows; they add up."""

    squares: NDArray[np.float64]
    targets: Moments

    @classmethod
    def of(
        cls, y: NDArray[Any], prediction: NDArray[Any], weight: NDArray[Any] | None
    ) -> Residuals:
        """Sum up rows; targets are columns."""
        squares = (y - prediction) ** 2
        if weight is not None:
            squares *= weight[:, None]
        return cls(squares.sum(axis=0), Moments.of(y, weight))

    def __add__(self, other: Residuals) -> Residuals:
        return Residuals(self.squares + other.squares, self.targets + other.targets)

    def r2(self) -> float:
        """Return R², averaged over the targets; of a constant target it is 1 or 0."""
        spread = self.targets.weight * self.targets.deviation**2
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(spread > 0, 1 - self.squares / spread, self.squares == 0)
        return float(score.mean())

"""What one pass over rows tells, in sums that add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.holdout import row_hash
from polyadic.rows.scaling import Moments


@dataclass(frozen=True)
class Statistics:
    """What one pass over rows of positive weight tells; statistics of chunks add up.

    Parameters
    ----------
    n_rows : int
        How many there are.
    low, high : ndarray
        Range of each input.
    targets : Moments
        Of each target.
    content : int
        A 64-bit sum that says which rows these are, and in which order.
    """

    n_rows: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    targets: Moments
    content: int

    @classmethod
    def of(
        cls,
        X: NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any] | None,
        first_row: int = 0,
        *,
        identify: bool = True,
    ) -> Statistics:
        """Sum up rows that `first_row` others come before."""
        content = 0
        if identify:
            table = np.column_stack([X, y] if weight is None else [X, y, weight])
            numbers = np.arange(first_row, first_row + len(X), dtype=np.uint64)
            with np.errstate(over="ignore"):
                content = int(row_hash(table, numbers).sum(dtype=np.uint64))
        return cls(len(X), X.min(axis=0), X.max(axis=0), Moments.of(y, weight), content)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.n_rows + other.n_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.targets + other.targets,
            (self.content + other.content) % 2**64,
        )

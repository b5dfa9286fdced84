"""What one pass over rows tells, in values that add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import array_namespace, on_host
from polyadic.rows.holdout import hash_rows, row_hash
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import Moments, column_ranges


@dataclass(frozen=True)
class Statistics:
    """What one pass over rows of positive weight tells; statistics of pieces add up.

    Parameters
    ----------
    n_rows : int
        How many there are.
    low, high : ndarray
        Range of each input; that of gaps alone is from infinity to −infinity.
    gaps : ndarray
        Number of gaps of each input.
    targets : Moments
        Of each target.
    """

    n_rows: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    gaps: NDArray[np.int64]
    targets: Moments

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any = None) -> Statistics:
        """Sum up rows in their own units."""
        return cls(len(X), *column_ranges(X), Moments.of(y, weight))

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.n_rows + other.n_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.gaps + other.gaps,
            self.targets + other.targets,
        )


def summarise(rows: Rows, first_row: int) -> Statistics:
    """Return the statistics of a piece of rows."""
    return Statistics.of(rows.X, rows.y, rows.weight)


def fingerprint(rows: Rows, first_row: int) -> int:
    """Return a 64-bit fingerprint of rows that `first_row` others come before.

    It depends on values, weights, groups and order.  Those of pieces add up, modulo 2⁶⁴.
    """
    arrays = [a for a in (rows.X, rows.y, rows.weight, rows.groups) if a is not None]
    xp = array_namespace(rows.X)
    numbers = xp.arange(first_row, first_row + len(rows), device=rows.X.device, dtype=xp.int64)
    return int(row_hash(arrays, numbers).sum()) % 2**64


@dataclass(frozen=True)
class Hashes:
    """The different hashes of rows, unsigned; those of pieces add up."""

    values: NDArray[np.uint64]

    def __add__(self, other: Hashes) -> Hashes:
        return Hashes(np.union1d(self.values, other.values))


def hash_piece(rows: Rows, first_row: int, seed: int, *, by_group: bool = True) -> Hashes:
    """Return the hashes by which the rows of a piece are held out, or those of their values."""
    hashes = hash_rows(rows.X, rows.y, rows.groups if by_group else None, seed)
    return Hashes(np.unique(on_host(hashes).view(np.uint64)))

"""Held-out rows, chosen by a hash of what the row says.

The choice depends on neither the order of the rows nor how they are cut into chunks, and
repeated rows stay together: a row of weight 3 and three copies of it are held out alike,
and no copy of a training row leaks into the held-out part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import array_namespace, as_double
from polyadic.rows.rows import Rows

# Up to so many rows their copies are counted and merged, and the number of held-out ones is
# exact; beyond, chance is as good unless few of them differ.
EXACT_ROWS = 10_000
_THINNED_BY = 2**41  # added to a seed: rows are thinned by another hash than they are held out by


def _as_signed(bits: int) -> int:
    """Return the signed number with these 64 bits: torch has no unsigned ones."""
    return bits - 2**64 if bits >= 2**63 else bits


# The constants of splitmix64: what is added for each column, and then three rounds of a shift
# and a factor.
_INCREMENT = _as_signed(0x9E3779B97F4A7C15)
_ROUNDS = ((30, _as_signed(0xBF58476D1CE4E5B9)), (27, _as_signed(0x94D049BB133111EB)), (31, 1))
_SIGN = _as_signed(2**63)


def row_hash(arrays: Sequence[Any], seed: Any) -> Any:
    """Return a 64-bit hash of each row's values, as the bits of signed numbers.

    Parameters
    ----------
    arrays : sequence of arrays
        Tables or columns of one length; their columns are hashed one after the other.
    seed : int or array of int64
        Where the hash starts, for all rows or for each.
    """
    xp = array_namespace(arrays[0])
    state = xp.zeros(len(arrays[0]), dtype=xp.int64, device=arrays[0].device) + seed
    columns = (column for array in arrays for column in (array.T if array.ndim == 2 else [array]))
    for column in columns:
        # Adding zero turns −0.0 into 0.0, which is the same value with other bits.
        state ^= (as_double(column) + 0.0).view(xp.int64)
        state += _INCREMENT
        for shift, factor in _ROUNDS:
            # A shift of a signed number brings copies of its sign along; the mask removes them.
            state ^= (state >> shift) & (2 ** (64 - shift) - 1)
            state *= factor
    return state


@dataclass(frozen=True)
class Part:
    """The rows whose hash lies in (above, upto], whatever chunk they come in.

    Parameters
    ----------
    seed : int
        Of the hash.
    above, upto : int
        Bounds of the hash; by default there are none.
    share : float
        Of these rows, about how many: drawn by their own values, also where groups are hashed.
    """

    seed: int
    above: int = -1
    upto: int = 2**64 - 1
    share: float = 1.0

    def mask(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Return which of these rows, in their own units, belong to the part."""
        # With the sign bit flipped, the order of signed numbers is that of unsigned ones.
        hashes = hash_rows(X, y, groups, self.seed) ^ _SIGN
        chosen = hashes <= _as_signed(self.upto ^ 2**63)
        if self.above >= 0:
            chosen &= hashes > _as_signed(self.above ^ 2**63)
        if self.share < 1:
            chosen &= Part(self.seed + _THINNED_BY).subset(self.share).mask(X, y)
        return chosen

    def count(self, rows: Rows, first_row: int) -> int:
        """Return how many rows of a piece belong to the part."""
        return int(self.mask(rows.X, rows.y, rows.groups).sum())

    def divides(self, hashes: NDArray[np.uint64]) -> bool:
        """Whether some of these hashes lie in the part, but not all."""
        inside = (hashes > self.above) & (hashes <= self.upto)
        return bool(inside.any() and not inside.all())

    def take(self, rows: Rows) -> Rows:
        """Return those of some rows, in their own units, that belong to the part."""
        return rows.take(self.mask(rows.X, rows.y, rows.groups)) if len(rows) else rows

    @property
    def fraction(self) -> float:
        """The fraction of all rows that lie in the part, about."""
        return (self.upto - self.above) / 2**64 * self.share

    def subset(self, fraction: float) -> Part:
        """Return about this fraction of the part's rows; larger subsets hold smaller ones."""
        if fraction >= 1:  # as floats, bounds of 64 bits would lose their last digits
            return self
        upto = self.above + int(fraction * (self.upto - self.above))
        return replace(self, upto=min(upto, self.upto))

    def thin(self, share: float) -> Part:
        """Return about this share of the part's rows, some of every group."""
        return replace(self, share=min(1.0, share) * self.share)


def explain_empty_part() -> ValueError:
    """Return the error of a fit that needs a part of the rows, where none lies in it."""
    return ValueError(
        "A part of the rows that a fit needs is empty: too few of them differ to hold some out or "
        "to subsample. Pass early_stopping=False and subsample=None."
    )


def hash_rows(X: Any, y: Any, groups: Any, seed: int) -> Any:
    """Return the hash by which rows are held out: of their group, or else of their values."""
    return row_hash([X, y] if groups is None else [groups], seed)


def split_by_chance(fraction: float, seed: int) -> tuple[Part, Part]:
    """Return the rows to train on and about this fraction of them to hold out.

    Where few rows or groups differ, one of the parts may be empty.
    """
    limit = int(fraction * 2**64)
    return Part(seed, above=limit), Part(seed, upto=limit)


def split_exactly(
    hashes: NDArray[np.uint64], fraction: float, seed: int
) -> tuple[Part, Part | None]:
    """Return the rows to train on and those to hold out, or all and None where none differ.

    `hashes` are the different ones of all rows, in order.
    """
    count = min(int(np.ceil(fraction * len(hashes))), len(hashes) - 1)
    if count < 1:
        return Part(seed), None
    limit = int(hashes[count - 1])
    return Part(seed, above=limit), Part(seed, upto=limit)

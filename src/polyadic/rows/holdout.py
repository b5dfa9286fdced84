"""Held-out rows, chosen by a hash of what the row says.

The choice depends on neither the order of the rows nor how they are cut into chunks, and
repeated rows stay together: a row of weight 3 and three copies of it are held out alike,
and no copy of a training row leaks into the held-out part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXES = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
    (np.uint64(31), np.uint64(1)),
)


# Up to so many rows the number of held-out ones is exact; beyond, chance is as good.
_EXACT_ROWS = 10_000


def row_hash(table: NDArray[Any], seed: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row's values (splitmix64 over the columns)."""
    state = np.full(len(table), seed, dtype=np.uint64)
    shifted = np.empty_like(state)
    for column in np.asarray(table, dtype=np.float64).T:
        # Adding zero turns −0.0 into 0.0, which is the same value with other bits.
        state ^= (column + 0.0).view(np.uint64)
        state += GOLDEN
        for shift, factor in MIXES:
            np.right_shift(state, shift, out=shifted)
            state ^= shifted
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
    """

    seed: int
    above: int = -1
    upto: int = 2**64 - 1

    def mask(self, X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of these rows, in their own units, belong to the part."""
        hashes = row_hash(np.column_stack([X, y]), self.seed)
        chosen = hashes <= np.uint64(self.upto)
        if self.above >= 0:
            chosen &= hashes > np.uint64(self.above)
        return np.asarray(chosen)

    def share(self, share: float) -> Part:
        """Return a part of this part, about `share` of its rows; larger ones hold smaller ones."""
        upto = self.above + int(share * (self.upto - self.above))
        return Part(self.seed, self.above, min(upto, self.upto))


def split(
    n_rows: int, hashes: Callable[[int], NDArray[np.uint64]], fraction: float, seed: int
) -> tuple[Part, Part | None]:
    """Return the rows to train on and those to hold out, or all and None where that cannot be.

    `hashes` gives the hashes of all rows for a seed; it is called only where rows are few.
    """
    limit = int(fraction * 2**64)
    if n_rows <= _EXACT_ROWS:
        limit = _limit(hashes(seed), fraction)
    if limit < 0:
        return Part(seed), None
    return Part(seed, above=limit), Part(seed, upto=limit)


def some(n_rows: int, most: int, seed: int) -> Part | None:
    """Return a part of about `most` of `n_rows` rows, None where they are no more."""
    return Part(seed).share(most / n_rows) if n_rows > most else None


def held_out(X: NDArray[Any], y: NDArray[Any], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which rows to hold out: `fraction` of the distinct rows, but never all.

    Where there is a single distinct row, none is held out.
    """
    hashes = row_hash(np.column_stack([X, y]), seed)
    limit = _limit(hashes, fraction)
    return np.zeros(len(hashes), dtype=bool) if limit < 0 else hashes <= np.uint64(limit)


def _limit(hashes: NDArray[np.uint64], fraction: float) -> int:
    """Return the greatest hash of `fraction` of the distinct rows; −1 where there are none."""
    distinct = np.unique(hashes)
    count = min(int(np.ceil(fraction * len(distinct))), len(distinct) - 1)
    return int(distinct[count - 1]) if count >= 1 else -1

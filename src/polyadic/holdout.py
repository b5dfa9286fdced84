"""Held-out rows, chosen by a hash of what the row says.

The choice depends on neither the order of the rows nor how they are cut into chunks, and
repeated rows stay together: a row of weight 3 and three copies of it are held out alike,
and no copy of a training row leaks into the held-out part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def row_hash(table: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row's values (splitmix64 over the columns)."""
    # Adding zero turns −0.0 into 0.0, which is the same value with other bits.
    bits = np.ascontiguousarray(table, dtype=np.float64).__add__(0.0).view(np.uint64)
    state = np.full(len(bits), np.uint64(seed), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            state = (state ^ column) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * _MIX_1
            state = (state ^ (state >> np.uint64(27))) * _MIX_2
            state = state ^ (state >> np.uint64(31))
    return state


def held_out(X: NDArray[Any], y: NDArray[Any], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return which rows to hold out: `fraction` of the distinct rows, but never all.

    Where there is a single distinct row, none is held out.
    """
    hashes = row_hash(np.column_stack([X, y]), seed)
    distinct = np.unique(hashes)
    count = min(int(np.ceil(fraction * len(distinct))), len(distinct) - 1)
    if count < 1:
        return np.zeros(len(hashes), dtype=bool)
    return np.asarray(hashes <= distinct[count - 1])

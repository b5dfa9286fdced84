"""Copies of a row, merged into one row that counts as often.

A fit of hundreds of unknowns to a dozen rows amplifies rounding until it shows.  Where rows are
brought to one form before anything is computed from them, weighted rows, repeated rows and
rows in another order give the same fit to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyadic.rows.arrays import on_host, place_like
from polyadic.rows.holdout import row_hash
from polyadic.rows.rows import Rows


def merge_copies(rows: Rows) -> Rows:
    """Return the different rows, each with its total weight, in the order of their hashes."""
    arrays = [array for array in (rows.X, rows.y, rows.groups) if array is not None]
    keys = on_host(row_hash(arrays, 0))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    weight: Any = None if rows.weight is None else on_host(rows.weight)
    total = np.bincount(inverse, weights=weight).astype(np.float64)
    merged = Rows(rows.X, rows.y, None, rows.groups).take(first)
    if (total == 1).all():
        return merged
    return Rows(merged.X, merged.y, place_like(total, rows.X), merged.groups)

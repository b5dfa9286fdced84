"""Copies of a row, merged into one row that counts as often.

A fit of hundreds of unknowns to a dozen rows amplifies rounding until it shows.  Where rows are
brought to one form before anything is computed from them, weighted rows, repeated rows and
rows in another order give the same fit to the last digit.

Of a few combinations of levels, each with many rows, copies are rows like others, and stay apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import array_namespace, on_host, place_like
from polyadic.rows.holdout import EXACT_ROWS, row_hash
from polyadic.rows.rows import Rows, concatenate_rows

# Inputs that occur so often, on average, are a design: a few combinations of levels.
_OFTEN, _FEW = 5, 30
_LOOKED_AT = 10_000  # rows that are asked whether inputs repeat


@dataclass(frozen=True)
class SomeRows:
    """Some rows of a piece; those of pieces add up."""

    rows: Rows

    def __add__(self, other: SomeRows) -> SomeRows:
        return SomeRows(concatenate_rows([self.rows, other.rows]))


def take_some(rows: Rows, first_row: int, n_rows: int) -> SomeRows:
    """Return rows at even distances that say of all `n_rows` whether they are a design."""
    step = max(1, n_rows // _LOOKED_AT)
    return SomeRows(rows.take(slice(-first_row % step, None, step)))


def number_rows(rows: Rows, first_row: int) -> Rows:
    """Return rows that are held out one by one: each is a group, by its place."""
    xp = array_namespace(rows.X)
    ends = first_row, first_row + len(rows)
    numbers = xp.arange(*ends, dtype=xp.int64, device=rows.X.device)
    return Rows(rows.X, rows.y, rows.weight, numbers)


def is_design(rows: Rows) -> bool:
    """Whether rows have few different inputs, each of them often.

    Held out by what they say, such rows would be judged by the very pairs of input and target
    that were kept from the fit.  A table that is there several times over is no design, unless
    its rows are few.
    """
    some = take_some(rows, 0, len(rows)).rows
    count = some.total_weight if _has_counts(some) else len(some)
    inputs, pairs = (len(np.unique(_keys(arrays))) for arrays in ([some.X], [some.X, some.y]))
    return count >= _OFTEN * inputs and (pairs > inputs or inputs < _FEW)


def separate_copies(rows: Rows) -> Rows:
    """Return rows that are held out one by one, copies too, in the order of their hashes.

    A row whose weight is a whole number is as many copies.  Copies are alike, so that it does not
    matter which of them is held out.
    """
    if _has_counts(rows):
        counts = on_host(rows.weight).astype(np.intp)
        rows = Rows(rows.X, rows.y).take(np.repeat(np.arange(len(rows)), counts))
    weight = np.zeros(len(rows)) if rows.weight is None else on_host(rows.weight)
    return number_rows(rows.take(np.lexsort([weight, _keys([rows.X, rows.y])])), 0)


def _has_counts(rows: Rows) -> bool:
    """Whether weights are whole numbers, and few enough to be written out."""
    if rows.weight is None:
        return False
    weight = on_host(rows.weight)
    return bool((weight == np.rint(weight)).all() and weight.sum() <= EXACT_ROWS)


def _keys(arrays: list[Any]) -> NDArray[np.int64]:
    return on_host(row_hash(arrays, 0))


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

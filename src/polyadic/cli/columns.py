"""Columns of a table as numbers: what kind each is, and its values with gaps as NaN."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.cli.tables import list_names
from polyadic.sources.files.sniff import is_number

MAX_CATEGORIES = 50


@dataclass(frozen=True)
class Column:
    """One input column of a table: a number, a flag, a date or a category.

    `fill` replaces missing values, where the model was fitted with ``--missing mean``.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | None = None

    @property
    def names(self) -> list[str]:
        """Names of the inputs that the column becomes."""
        if self.kind == "category":
            return [f"{self.name}={category}" for category in self.categories]
        return [self.name]

    @property
    def is_plain(self) -> bool:
        """Whether its values are used as they are."""
        return self.kind in ("number", "flag") and self.fill is None


def kind_of(kind: Any) -> str:
    """Return "number", "flag", "date", "category", "empty", or what else an Arrow type is."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "flag"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_null(kind):
        return "empty"
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "category"
    return f"of type {kind}"


def values(path: Path, data: Any, column: Column) -> NDArray[np.float64]:
    """Return a column of an Arrow table as numbers, filled where it has a fill value."""
    found = data.column(column.name)
    kind = kind_of(found.type)
    if kind != column.kind and not (kind == "empty" or {kind, column.kind} == {"number", "flag"}):
        raise Mistake(
            f"Column {column.name!r} of {path} is a {kind} and was a {column.kind} when the "
            f"model was fitted{_locate_text(found) if kind == 'category' else ''}."
        )
    if column.kind == "category":
        return _one_hot(path, found, column)
    numbers = as_numbers(found)
    return numbers if column.fill is None else np.where(np.isnan(numbers), column.fill, numbers)


def as_numbers(values: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers, flags or dates (as days) as numbers; gaps are NaN."""
    from pyarrow import compute, types

    if types.is_date(values.type) or types.is_timestamp(values.type):
        stamps = compute.cast(values, "timestamp[us]", safe=False).to_numpy(zero_copy_only=False)
        days = stamps.astype("datetime64[us]").astype(np.float64) / 86_400e6
        return np.where(np.isnat(stamps), np.nan, days)
    numbers = compute.cast(values, "float64", safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64)


def _one_hot(path: Path, found: Any, column: Column) -> NDArray[np.float64]:
    values = found.to_pylist()
    unknown = sorted({v for v in values if v is not None} - set(column.categories))
    if unknown:
        raise Mistake(
            f"Column {column.name!r} of {path} has a category {unknown[0]!r} that was not "
            f"there when the model was fitted; it knows {list_names(column.categories)}."
        )
    hot = np.array([[value == c for c in column.categories] for value in values], dtype=np.float64)
    hot[[value is None for value in values]] = np.nan
    return hot


def _locate_text(found: Any) -> str:
    """Say where the first text is, in a column that was numbers."""
    texts = found.to_pylist()
    for row, text in enumerate(texts):
        if text is not None and not is_number(text):
            return f" (row {row + 1} is {text!r})"
    return ""

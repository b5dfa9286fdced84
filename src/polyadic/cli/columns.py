"""Columns of a table as numbers: what kind each is, and its values with gaps as NaN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.cli.tables import Table, is_number, listed


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


def kind_of(table: Table, name: str) -> str:
    """Return "number", "flag", "date", "category", "empty", or what else a column is."""
    from pyarrow import types

    kind = table.data.column(name).type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "flag"
    if types.is_temporal(kind) and not types.is_duration(kind):
        return "date"
    if types.is_null(kind):
        return "empty"
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "category"
    return f"of type {kind}"


def stray(table: Table, name: str) -> str:
    """Say where the first text is, in a column that is otherwise numbers."""
    values = table.data.column(name).to_pylist()
    numbers = [value is None or is_number(value) for value in values]
    if 2 * sum(numbers) < len(values):
        return ""
    row = numbers.index(False)
    return f" (row {row + 1} of {name!r} is {values[row]!r})"


def has_decimal_commas(table: Table, name: str) -> bool:
    """Return whether a column of text would be numbers with a comma for the decimal mark."""
    values = [value for value in table.data.column(name).to_pylist() if value is not None]
    return all(is_number(value.replace(",", ".", 1)) for value in values)


def values(table: Table, column: Column) -> NDArray[np.float64]:
    """Return a column as numbers, filled where the preparation says so; gaps are NaN."""
    kind = kind_of(table, column.name)
    if kind != column.kind and not (kind == "empty" or {kind, column.kind} == {"number", "flag"}):
        raise Mistake(
            f"Column {column.name!r} of {table.path} is a {kind} and was a {column.kind} when the "
            f"model was fitted{stray(table, column.name) if kind == 'category' else ''}."
        )
    if column.kind == "category":
        return _one_hot(table, column)
    numbers = _numbers(table, column.name, kind)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0]) + 1
        raise Mistake(f"Column {column.name!r} of {table.path} is infinite in row {row}.")
    return filled(column, numbers)


def _numbers(table: Table, name: str, kind: str) -> NDArray[np.float64]:
    from pyarrow import compute, types

    values = table.data.column(name)
    if kind == "date":
        if types.is_time(values.type):
            raise Mistake(f"Column {name!r} is a time of day. Make it a number of minutes.")
        stamps = compute.cast(values, "timestamp[us]", safe=False).to_numpy()
        days = stamps.astype("datetime64[us]").astype(np.float64) / 86_400e6
        return np.where(np.isnat(stamps), np.nan, days)
    return np.asarray(compute.cast(values, "float64", safe=False).to_numpy(), dtype=np.float64)


def _one_hot(table: Table, column: Column) -> NDArray[np.float64]:
    values = table.data.column(column.name).to_pylist()
    unknown = sorted({v for v in values if v is not None} - set(column.categories))
    if unknown:
        raise Mistake(
            f"Column {column.name!r} of {table.path} has a category {unknown[0]!r} that was not "
            f"there when the model was fitted; it knows {listed(column.categories)}."
        )
    hot = np.array([[value == c for c in column.categories] for value in values], dtype=np.float64)
    hot[[value is None for value in values]] = np.nan
    return hot


def target_values(table: Table, name: str) -> NDArray[np.float64]:
    """Return the target as numbers; gaps are NaN."""
    kind = kind_of(table, name)
    if kind not in ("number", "flag"):
        where = stray(table, name) if kind == "category" else ""
        what = {"category": "text", "date": "dates", "empty": "nothing"}.get(kind, kind)
        raise Mistake(f"The target {name!r} of {table.path} must be numbers, got {what}{where}.")
    y = _numbers(table, name, kind)
    if np.isinf(y).any():
        raise Mistake(f"The target {name!r} of {table.path} has infinite values.")
    return y


def gaps(part: NDArray[np.float64]) -> int:
    """Return the number of rows with a gap."""
    return int(np.isnan(part.reshape(len(part), -1)).any(axis=1).sum())


def filled(column: Column, part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with gaps filled, where the column has a fill value."""
    return part if column.fill is None else np.where(np.isnan(part), column.fill, part)

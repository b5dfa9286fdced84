"""From the columns of a table to the numbers a model takes, the same way every time.

What is learned when a model is fitted (categories, fill values, the order of the columns)
is kept in the model file, so that later tables are treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.columns import (
    Column,
    filled,
    gaps,
    has_decimal_commas,
    kind_of,
    stray,
    target_values,
    values,
)
from polyadic.cli.errors import Mistake
from polyadic.cli.tables import Named, Table, listed

MAX_CATEGORIES = 50


@dataclass(frozen=True)
class Preparation:
    """How the columns of a table become inputs."""

    columns: tuple[Column, ...]
    target: str | None = None
    ignored: tuple[str, ...] = ()
    messages: list[str] = field(default_factory=list, compare=False)

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [name for column in self.columns for name in column.names]

    def as_dict(self) -> dict[str, Any]:
        """Return what :meth:`from_dict` takes."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Preparation:
        """Return the preparation that a model file holds."""
        columns = tuple(Column(**column) for column in stored["columns"])
        return cls(columns, stored["target"], tuple(stored["ignored"]), stored["messages"])

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Preparation:
        """Return the preparation of a model that was fitted on numbers in Python."""
        return cls(tuple(Column(name, "number") for name in names))

    def inputs(self, table: Table, by_name: bool = False) -> NDArray[np.float64]:
        """Return the inputs of a table; raise a mistake if it is not like the first one."""
        self.check_names(table, by_name)
        parts = [values(table, column) for column in self.columns]
        missing = [c.name for c, part in zip(self.columns, parts, strict=True) if gaps(part)]
        if missing:
            raise Mistake(
                f"{table.path} has missing values in {listed(missing)}. Fill them in, or fit the "
                "model with --missing mean."
            )
        return np.column_stack(parts)

    def check_names(self, table: Named, by_name: bool) -> None:
        """Raise a mistake unless a table has the columns of the first one."""
        expected = [column.name for column in self.columns]
        known = {self.target, *self.ignored}
        present = [name for name in table.names if name in expected or name not in known]
        missing = [name for name in expected if name not in present]
        if missing:
            raise Mistake(
                f"{table.path} lacks {listed(missing)}. The model takes {listed(expected)}."
            )
        extra = [name for name in present if name not in expected]
        if extra and not by_name:
            raise Mistake(
                f"{table.path} has columns that the model does not know: {listed(extra)}. Remove "
                "them, or pass --by-name to leave them out."
            )
        if present != expected and not by_name:
            raise Mistake(
                f"The columns of {table.path} are in another order than when the model was fitted "
                f"({listed(expected)}). Reorder them, or pass --by-name."
            )


def learn(
    table: Table, target: str | None, *, encode: bool, missing: str, ignored: Sequence[str] = ()
) -> tuple[Preparation, NDArray[np.float64], NDArray[np.float64]]:
    """Return how to prepare tables like this one, and its inputs and target.

    Parameters
    ----------
    table : Table
        The table to fit a model on.
    target : str or None
        Name of the target; by default the one the file names, or "target".
    encode : bool
        Whether text becomes one input a category, and dates become days.
    missing : {"error", "drop", "mean"}
        What to do about missing values.
    ignored : sequence of str
        Columns to leave out.
    """
    target = target_name(table, target, ignored)
    names = [name for name in table.names if name != target and name not in ignored]
    if not names:
        raise Mistake(f"{table.path} has no input columns besides the target {target!r}.")
    kinds = {name: kind_of(table, name) for name in names}
    _check_kinds(table, kinds, encode)
    messages: list[str] = []
    columns = [_learned(table, name, kind, messages) for name, kind in kinds.items()]
    parts = [values(table, column) for column in columns]
    y = target_values(table, target)
    columns, keep = _without_gaps(table, columns, parts, y, missing, messages)
    preparation = Preparation(tuple(columns), target, tuple(ignored), messages)
    X = np.column_stack([filled(c, p) for c, p in zip(columns, parts, strict=True)])
    return preparation, X[keep], y[keep]


def target_of(table: Table, preparation: Preparation, named: str | None) -> NDArray[np.float64]:
    """Return the target of a table to evaluate on."""
    target = named or preparation.target or table.target
    if target is None or target not in table.names:
        raise Mistake(
            f"{table.path} has no column {target or 'target'!r} to compare with; it has "
            f"{listed(table.names)}. Pass --target."
        )
    y = target_values(table, target)
    if np.isnan(y).any():
        raise Mistake(f"{table.path} has missing values in the target {target!r}. Remove the rows.")
    return y


def target_name(table: Named, target: str | None, ignored: Sequence[str]) -> str:
    """Return the column to predict: the one asked for, or the one the table tells."""
    unknown = [name for name in ignored if name not in table.names]
    if unknown:
        raise Mistake(f"{table.path} has no column {listed(unknown)} to ignore.")
    target = target or table.target
    if target is None:
        raise Mistake(
            f"Which column of {table.path} is the target? Pass --target with one of "
            f"{listed(table.names)}."
        )
    if target not in table.names:
        raise Mistake(
            f"{table.path} has no column {target!r}. Pass --target with one of "
            f"{listed(table.names)}."
        )
    return target


def _check_kinds(table: Table, kinds: dict[str, str], encode: bool) -> None:
    """Raise a mistake that names the columns a model cannot take."""
    for name, kind in kinds.items():
        if kind == "empty":
            raise Mistake(f"Column {name!r} of {table.path} is empty. Pass --ignore {name!r}.")
        if kind.startswith("of type"):
            raise Mistake(f"Column {name!r} of {table.path} is {kind}. Pass --ignore {name!r}.")
    dates = [name for name, kind in kinds.items() if kind == "date"]
    texts = [name for name, kind in kinds.items() if kind == "category"]
    if encode or not (dates or texts):
        return
    if texts and has_decimal_commas(table, texts[0]):
        raise Mistake(f"{table.path} has decimal commas in {listed(texts)}. Pass --decimal ','.")
    parts = []
    if texts:
        parts.append(f"text in {listed(texts)}{stray(table, texts[0])}")
    if dates:
        parts.append(f"dates in {listed(dates)}")
    raise Mistake(
        f"{table.path} has {' and '.join(parts)}, and a model takes numbers. Pass --encode to make "
        "one input of each category and days of dates, or --ignore NAME to leave a column out."
    )


def _learned(table: Table, name: str, kind: str, messages: list[str]) -> Column:
    if kind != "category":
        if kind == "date":
            messages.append(f"{name!r}: dates as days since 1970")
        if kind == "flag":
            messages.append(f"{name!r}: true as 1, false as 0")
        return Column(name, kind)
    values = table.data.column(name).to_pylist()
    categories = sorted({value for value in values if value is not None})
    if len(categories) > MAX_CATEGORIES:
        raise Mistake(
            f"Column {name!r} of {table.path} has {len(categories)} different texts; at most "
            f"{MAX_CATEGORIES} can be encoded. Pass --ignore {name!r}, or make them numbers."
        )
    messages.append(f"{name!r}: one input for each of {len(categories)} categories")
    return Column(name, kind, tuple(categories))


def _without_gaps(
    table: Table,
    columns: list[Column],
    parts: list[NDArray[np.float64]],
    y: NDArray[np.float64],
    missing: str,
    messages: list[str],
) -> tuple[list[Column], NDArray[np.bool_]]:
    """Return the columns with their fill values, and the rows to keep."""
    keep = ~np.isnan(y)
    counts = {column.name: gaps(part) for column, part in zip(columns, parts, strict=True)}
    counts = {name: count for name, count in counts.items() if count}
    if missing == "error" and (counts or not keep.all()):
        named = listed([*counts, *([] if keep.all() else ["the target"])])
        raise Mistake(
            f"{table.path} has missing values in {named}. Pass --missing mean to fill them in, or "
            "--missing drop to leave these rows out."
        )
    if missing == "drop":
        for part in parts:
            keep &= ~np.isnan(part.reshape(len(part), -1)).any(axis=1)
    if missing == "mean":
        texts = [c.name for c in columns if c.kind == "category" and c.name in counts]
        if texts:
            raise Mistake(f"{listed(texts)} is text and has no mean. Pass --missing drop.")
        columns = [_with_mean(c, part[keep]) for c, part in zip(columns, parts, strict=True)]
        messages += [f"{name!r}: mean in place of {n} missing values" for name, n in counts.items()]
    if not keep.all():
        messages.append(f"{int((~keep).sum())} rows with missing values left out")
    if not keep.any():
        raise Mistake(f"{table.path} has no row without missing values.")
    return columns, keep


def _with_mean(column: Column, part: NDArray[np.float64]) -> Column:
    """Return the column with its mean as fill value; a category has none."""
    if column.kind == "category":
        return column
    if np.isnan(part).all():
        raise Mistake(f"Column {column.name!r} is empty. Pass --ignore {column.name!r}.")
    return replace(column, fill=float(np.nanmean(part)))

"""From the columns of a table to the numbers a model takes, the same way every time.

What is learned when a model is fitted (categories, fill values, the order of the columns)
is kept in the model file, so that later tables are treated alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.columns import Column, as_numbers, values
from polyadic.cli.errors import Mistake
from polyadic.cli.survey import Survey
from polyadic.cli.tables import Table, list_names
from polyadic.sources.files.numpy_files import NpyRows
from polyadic.sources.files.row_files import NUMBER
from polyadic.sources.files.row_source import RowSource


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

    @property
    def is_plain(self) -> bool:
        """Whether columns that are numbers are all it takes."""
        return all(column.is_plain for column in self.columns)

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

    def source(self, table: Table, by_name: bool = False, target: str | None = None) -> RowSource:
        """Return the rows of a table that is like the one of the fit, with a target or without."""
        self.check_names(table, by_name, target)
        if self.is_plain:
            self._check_numbers(table, target)
            return table.source(self.names, target, "error")
        parts = [self._encode(table)]
        if target is not None:
            parts.append(target_of(table, self, target))
        return make_source(table.path, self.names, target, np.column_stack(parts))

    def inputs(self, table: Table, by_name: bool = False) -> NDArray[np.float64]:
        """Return the inputs of a table that is like the one of the fit, all in memory."""
        source = self.source(table, by_name)
        return np.concatenate([batch.X for batch in source.batches()])

    def _check_numbers(self, table: Table, target: str | None) -> None:
        """Raise a mistake that names text where the model takes numbers."""
        names = [column.name for column in self.columns]
        if not table.has_numbers([*names, *([] if target is None else [target])]):
            parts = [values(table.path, table.read([c.name]), c) for c in self.columns]
            if target is not None:
                parts.append(target_of(table, self, target))

    def _encode(self, table: Table) -> NDArray[np.float64]:
        """Return the inputs of a table in memory."""
        names = [column.name for column in self.columns]
        texts = [column.name for column in self.columns if column.kind == "category"]
        data = table.read(names, texts)
        parts = [values(table.path, data, column) for column in self.columns]
        missing = [
            f"{column.name!r} (row {int(np.argmax(_find_gaps(part))) + 1})"
            for column, part in zip(self.columns, parts, strict=True)
            if _find_gaps(part).any()
        ]
        if missing:
            filled = any(column.fill is not None for column in self.columns)
            remedy = "" if filled else ", or fit the model with --missing mean"
            raise Mistake(
                f"{table.path} has missing or infinite values in {', '.join(missing[:10])}. Fill "
                f"them in{remedy}."
            )
        return np.column_stack(parts)

    def check_names(self, table: Table, by_name: bool, target: str | None = None) -> None:
        """Raise a mistake unless a table has the columns of the first one."""
        expected = [column.name for column in self.columns]
        known = {self.target, target, *self.ignored, *table.index}
        present = [name for name in table.names if name in expected or name not in known]
        missing = [name for name in expected if name not in present]
        if missing:
            raise Mistake(
                f"{table.path} lacks {list_names(missing)}. The model takes {list_names(expected)}."
            )
        extra = [name for name in present if name not in expected]
        if extra and not by_name:
            raise Mistake(
                f"{table.path} has columns that the model does not know: {list_names(extra)}. "
                "Remove them, or pass --by-name to leave them out."
            )
        if present != expected and not by_name:
            raise Mistake(
                f"The columns of {table.path} are in another order than when the model was fitted "
                f"({list_names(expected)}). Reorder them, or pass --by-name."
            )


class PreparedRows(NpyRows):
    """Rows that were read, and made numbers of, as if they were a file of a matrix."""

    def __init__(self, path: Path, names: Sequence[str], rows: NDArray[np.float64]) -> None:
        self._names, self._rows = list(names), rows
        super().__init__(path)

    def _columns(self) -> Iterator[tuple[str, str]]:
        return ((name, NUMBER) for name in self._names)

    def _matrix(self) -> NDArray[Any]:
        return self._rows


def make_source(
    path: Path, names: Sequence[str], target: str | None, rows: NDArray[np.float64]
) -> RowSource:
    """Return rows in memory as a source; the target is the last column."""
    targets = [] if target is None else [target]
    file = PreparedRows(path, [*names, *targets], rows)
    return RowSource([file], names, targets, None, "error", True)


def learn(
    survey: Survey, data: Any, missing: str, ignored: Sequence[str], messages: Sequence[str] = ()
) -> tuple[Preparation, RowSource]:
    """Return how to prepare tables like this one, and its rows.

    Parameters
    ----------
    survey : Survey
        What is in the columns; they must have been checked.
    data : pyarrow.Table or None
        The whole table, where columns are encoded or gaps are filled.
    missing : {"error", "drop", "mean"}
        What to do about missing values.
    ignored : sequence of str
        Columns that are left out.
    messages : sequence of str
        What was done to the table before.
    """
    table, target = survey.table, survey.target
    names = [name for name in survey.columns if name != target]
    columns = [_learn_column(survey, name) for name in names]
    told = [*messages, *_messages(columns)]
    if data is None:
        preparation = Preparation(tuple(columns), target, tuple(ignored), told)
        return preparation, table.source(names, target, missing)
    parts = [values(table.path, data, column) for column in columns]
    y = as_numbers(data.column(target))
    keep = np.isfinite(y)
    if missing == "mean":
        columns = [_fill_with_mean(c, part[keep]) for c, part in zip(columns, parts, strict=True)]
        parts = [values(table.path, data, column) for column in columns]
        told += [
            f"{name!r}: mean in place of {survey.columns[name].gaps} missing values"
            for name in names
            if survey.columns[name].gaps
        ]
    for part in parts:
        keep &= ~_find_gaps(part)
    if not keep.any():
        raise Mistake(f"{table.path} has no row without missing values.")
    preparation = Preparation(tuple(columns), target, tuple(ignored), told)
    rows = np.column_stack([*parts, y])[keep]
    return preparation, make_source(table.path, preparation.names, target, rows)


def target_of(table: Table, preparation: Preparation, named: str | None) -> NDArray[np.float64]:
    """Return the target of a table to evaluate on."""
    target = comparison_target(table, preparation, named)
    survey = Survey.of(table, table.batches([target]), [], target)
    survey.check(encode=False, missing="error")
    return np.concatenate([as_numbers(batch.column(target)) for batch in table.batches([target])])


def comparison_target(table: Table, preparation: Preparation, named: str | None) -> str:
    """Return the column to compare predictions with."""
    target = named or preparation.target or table.target
    if target is None or target not in table.names:
        raise Mistake(
            f"{table.path} has no column {target or 'target'!r} to compare with; it has "
            f"{list_names(table.names)}. Pass --target."
        )
    return target


def target_name(table: Table, target: str | None, named: Sequence[str]) -> str:
    """Return the column to predict: the one asked for, or the one the table tells."""
    unknown = [name for name in named if name not in table.names]
    if unknown:
        raise Mistake(f"{table.path} has no column {list_names(unknown)} to ignore or keep.")
    target = target or table.target
    if target is None:
        raise Mistake(
            f"Which column of {table.path} is the target? Pass --target with one of "
            f"{list_names(table.names)}."
        )
    if target not in table.names:
        raise Mistake(
            f"{table.path} has no column {target!r}. Pass --target with one of "
            f"{list_names(table.names)}."
        )
    return target


def _learn_column(survey: Survey, name: str) -> Column:
    column = survey.columns[name]
    if column.kind == "category":
        return Column(name, column.kind, tuple(sorted(column.texts)))
    return Column(name, column.kind)


def _messages(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        if column.kind == "date":
            yield f"{column.name!r}: dates as days since 1970"
        if column.kind == "flag":
            yield f"{column.name!r}: true as 1, false as 0"
        if column.kind == "category":
            count = len(column.categories)
            yield f"{column.name!r}: one input for each of {count} categories"


def _fill_with_mean(column: Column, part: NDArray[np.float64]) -> Column:
    """Return the column with its mean as fill value; a category has none."""
    if column.kind == "category":
        return column
    return replace(column, fill=float(np.nanmean(part)))


def _find_gaps(part: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows have a gap or an infinite value."""
    return np.asarray(~np.isfinite(part.reshape(len(part), -1)).all(axis=1))

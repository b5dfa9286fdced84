"""One pass over a table before a fit: how many rows there are, and which columns name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake, note, warn
from polyadic.cli.tables import Table, cut, list_names
from polyadic.cli.targets import CLASSIFICATION, TargetValues
from polyadic.cli.tasks import decide_task
from polyadic.sources.files.arrow_files import CsvRows
from polyadic.sources.files.row_files import NUMBER, TEXT, number_rows
from polyadic.sources.files.row_source import RowSource

_LEAST_ROWS_OF_IDS = 20
_MOST_IDS = 100_000
# Numbers are doubles, and whole numbers of up to 64 bits that are more than this are ids, mostly.
_LAST_EXACT, _LAST_ID = 2.0**53, 2.0**64
_INDEX = "an index that pandas wrote"
_ROW_NAME = "no two values are alike, as in names of rows"
_ROW_NUMBER = "may be a row number or an id"
_MERGED = "beyond 2⁵³, where neighbours are one number"


@dataclass
class RowNumbers:
    """Whether a column of numbers counts rows: numbers that only rise or fall, or all differ."""

    rows: int = 0
    monotone: bool = True
    last: float = np.nan
    direction: float = 0.0
    whole: list[NDArray[np.float64]] | None = field(default_factory=list)
    are_whole: bool = True
    largest: float = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Look at more rows."""
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.diff(values, prepend=self.last)[0 if self.rows else 1 :]
        if len(steps) and self.monotone:
            self.direction = self.direction or float(np.sign(steps[0]))
            # A gap is no step at all.
            self.monotone = bool((np.sign(steps) == self.direction).all() and self.direction)
        self.last = float(values[-1]) if len(values) else self.last
        self.rows += len(values)
        if self.are_whole:
            self._add_whole(values)

    def _add_whole(self, values: NDArray[np.float64]) -> None:
        """Look at more rows of a column that has had nothing but whole numbers and gaps."""
        gaps = np.isnan(values)
        self.are_whole = bool((gaps | (values == np.round(values))).all())
        self.largest = float(np.fmax.reduce(np.abs(values), initial=self.largest))
        if self.whole is not None:
            may_be_ids = self.are_whole and not gaps.any() and self.rows <= _MOST_IDS
            self.whole = [*self.whole, values] if may_be_ids else None

    @property
    def are_merged(self) -> bool:
        """Whether whole numbers are so large that doubles do not tell all of them apart."""
        return self.are_whole and _LAST_EXACT < self.largest <= _LAST_ID

    @property
    def found(self) -> bool:
        """Whether the column seems to number rows."""
        if self.rows < _LEAST_ROWS_OF_IDS:
            return False
        return self.monotone or (
            self.whole is not None and len(np.unique(np.concatenate(self.whole))) == self.rows
        )


@dataclass
class RowNames:
    """Whether a column of text names rows: no two texts are alike, as far as was looked."""

    texts: set[str] = field(default_factory=set)
    is_over: bool = False
    differ: bool = True

    def add(self, values: Any) -> None:
        """Look at more rows, until two are alike or rows enough have been seen."""
        if self.is_over:
            return
        count = len(self.texts) + len(values)
        self.texts.update(text for text in values.to_pylist() if text is not None)
        self.differ = len(self.texts) == count
        self.is_over = not self.differ or count > _MOST_IDS

    @property
    def found(self) -> bool:
        """Whether the column seems to name rows."""
        return self.differ and len(self.texts) >= _LEAST_ROWS_OF_IDS


@dataclass(frozen=True)
class Survey:
    """How many rows a table has, and columns that number or name them, or are empty."""

    n_rows: int
    target: TargetValues
    row_numbers: list[str]
    row_names: list[str]
    empty: list[str]
    merged: list[str]

    @classmethod
    def of(cls, source: RowSource, target: str) -> Survey:
        """Look at all rows; the target is one of the columns of the source, whatever it holds."""
        kinds, names = source.kinds, [name for name in source.names if name != target]
        numbers = {name: RowNumbers() for name in names if kinds[name] == NUMBER}
        texts = {name: RowNames() for name in names if kinds[name] == TEXT}
        gaps = dict.fromkeys(names, 0)
        n_rows, found = 0, TargetValues()
        for batch in source.frames():
            n_rows += batch.num_rows
            found.add(batch.column(target))
            for name in gaps:
                gaps[name] += batch.column(name).null_count
            for values, name in zip(number_rows(batch, list(numbers)), numbers, strict=True):
                numbers[name].add(values)
            for name, each in texts.items():
                each.add(batch.column(name))
        row_numbers = [name for name, each in numbers.items() if each.found]
        row_names = [name for name, each in texts.items() if each.found]
        empty = [name for name, count in gaps.items() if count == n_rows]
        merged = [name for name, each in numbers.items() if each.are_merged]
        return cls(n_rows, found, row_numbers, row_names, empty, merged)


@dataclass(frozen=True)
class Chosen:
    """The columns of a table that a fit uses, and why it does not use the others.

    Parameters
    ----------
    table : Table
        Where they are.
    source : RowSource
        Their rows, and the target.
    values : TargetValues
        What the target holds.
    n_rows : int
        Rows of the table, with those that have no target.
    left_out : dict
        Why columns are no inputs.
    notes : dict
        What is to be said of those that are.
    """

    table: Table
    source: RowSource
    values: TargetValues
    n_rows: int
    left_out: dict[str, str]
    notes: dict[str, str]

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.source.targets[0]

    def decide_task(self, asked: str | None, parameters: Mapping[str, Any]) -> str:
        """Return what the target is, and say so where it is told from its values.

        Parameters
        ----------
        asked : str or None
            The task that users name.
        parameters : mapping
            Those of the estimator that users give, which may tell the task.
        """
        task, remark = decide_task(self.values, self.target, asked, parameters)
        if task == CLASSIFICATION:
            self._check_classes(asked)
        elif len(self.values.counts) == 1:
            (only,) = self.values.labels
            remark = (
                f"the target {self.target!r} is {only!r} in all rows, so there is nothing to "
                "learn. Pass --target to name another column."
            )
        if remark is not None:
            note(remark)
        return task

    def _check_classes(self, asked: str | None) -> None:
        """Raise a mistake where a target has no classes, or none that users would call so."""
        values, name = self.values, self.target
        if len(values.counts) == 1:
            (only,) = values.labels
            raise Mistake(
                f"The target {name!r} is {only!r} in all rows: there is nothing to tell apart. "
                "Pass --target to name another column."
            )
        if values.kind == "number" and not values.are_whole:
            example = next(value for value in values.counts if value != round(value))
            raise Mistake(
                f"The target {name!r} has numbers that are not whole, such as {example!r}, which "
                "cannot be classes. Pass --task regression."
            )
        if asked is None and values.doubt is not None:
            examples = (file.examples.get(name) for file in self.table.files)
            example = next((f" ({text})" for text in examples if text), "")
            raise Mistake(
                f"The target {name!r} is text{example}, and {values.doubt}. Fix the file if they "
                "must be numbers, pass --target to name another column, or pass --task "
                "classification if they are classes."
            )


def choose_columns(table: Table, target: str, ignore: Sequence[str], keep: Sequence[str]) -> Chosen:
    """Read a table once, and leave out the columns that nothing can be learned from.

    Parameters
    ----------
    table : Table
        The table.
    target : str
        The column to predict.
    ignore, keep : sequence of str
        Columns that users leave out, and those that they use whatever they look like.
    """
    index = [name for name in table.index if name not in (*keep, *ignore, target)]
    left_out = dict.fromkeys(ignore, "--ignore") | dict.fromkeys(index, _INDEX)
    names = [name for name in table.names if name != target and name not in left_out]
    if not names:
        raise Mistake(f"{table.path} has no input columns besides the target {target!r}.")
    survey = Survey.of(table.source([*names, target], None, "keep"), target)
    if not survey.n_rows:
        raise Mistake(f"{table.path} has no rows under its header.")
    if not survey.target.n_rows:
        raise Mistake(f"{table.path} has no values in the target {target!r}. Pass --target.")
    row_names = [name for name in survey.row_names if name not in keep]
    left_out |= dict.fromkeys(row_names, _ROW_NAME) | dict.fromkeys(survey.empty, "empty")
    source = _source(table, target, left_out)
    row_numbers = [name for name in survey.row_numbers if name not in keep]
    # Only a file of text has them as doubles whatever they are used as.
    is_text = any(isinstance(file, CsvRows) for file in table.files)
    merged = survey.merged if is_text else []
    notes = _join_notes(
        source.notes, dict.fromkeys(row_numbers, _ROW_NUMBER), dict.fromkeys(merged, _MERGED)
    )
    examples = {name: text for file in table.files for name, text in file.examples.items()}
    told = [
        f"{name!r} ({examples[name]})" if name in examples else repr(name) for name in row_names
    ]
    _warn(source, index, told, row_numbers)
    return Chosen(table, source, survey.target, survey.n_rows, left_out, notes)


def _join_notes(*parts: Mapping[str, str]) -> dict[str, str]:
    """Return all that is to be said of each column."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: "; ".join(part[name] for part in parts if name in part) for name in names}


def _source(table: Table, target: str, left_out: Mapping[str, str]) -> RowSource:
    names = [name for name in table.names if name != target and name not in left_out]
    if not names:
        raise Mistake(f"{table.path} has no input columns besides the target {target!r}.")
    return table.source(names, target, "drop")


def _warn(
    source: RowSource, index: list[str], row_names: list[str], row_numbers: list[str]
) -> None:
    """Say what users might want otherwise."""
    for remark in source.remarks:
        warn(remark)
    keep = "Pass --keep NAME to use it, or --ignore NAME to leave it out without a word."
    if index:
        warn(f"{list_names(index)}: {_INDEX}, left out. {keep}")
    if row_names:
        warn(f"{cut(row_names)}: {_ROW_NAME}, left out. {keep}")
    if row_numbers:
        warn(
            f"{list_names(row_numbers)} {_ROW_NUMBER}: all values differ, or they "
            "only rise or fall. It is used as an input. Pass --ignore NAME to leave it out, or "
            "--keep NAME to use it without a word."
        )

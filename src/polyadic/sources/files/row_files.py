"""A file of rows, as a stream of blocks of numbers or of Arrow record batches.

    RowFile ── ParquetRows, CsvRows   arrow_files.py
            ├─ ExcelRows              excel_files.py
            └─ NpyRows, NpzRows       numpy_files.py

Nothing of a file is kept open, or in memory, between two passes over it; but a sheet of Excel,
which is slow to read, is kept as text.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.files.sniff import FormatError, is_number

NUMBER, TEXT, DATE = "number", "text", "date"
"""What columns may be; true and false are numbers, and so are times of the day, in hours, and
durations, in days."""

KINDS = (NUMBER, TEXT, DATE)
READ_ERRORS = (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
"""What readers raise about files that are not what they should be."""

_BATCH_ROWS = 2**16

_REMEDIES = {
    "gaps": "Fix the file, or pass missing='complete' to open_rows to leave such rows out.",
    "target": "Targets and weights must be numbers; a classifier takes text as labels.",
    "gap": "Fix the file, or pass missing='drop' to open_rows to leave such rows out.",
    "infinite": "Fix the file, or pass na=[{!r}] to open_rows to read it as a gap.",
    "columns": "Fix the file, or name the columns to read with open_rows(…, columns=…).",
    "stray": "Fix the file, or pass na=[{!r}] to open_rows to read it as a gap.",
    "fit": "Fix the file.",
    "dates": "Write days as 2020-12-31, or pass dates={{{!r}: '%d/%m/%Y'}} to open_rows.",
    "thousands": "Remove them from these numbers: they are not decimal marks.",
    "commas": "Remove commas that separate thousands, and keep those that are decimals.",
    "decimal": "Pass decimal=',' to open_rows.",
    "marks": "Write all numbers with one decimal mark.",
    "encoding": "Pass encoding='cp1252', or another, to open_rows.",
}


class RowsError(ValueError):
    """Rows that cannot be used: the problem, and remedies in the words of ``open_rows``.

    `kinds` (keys of the remedies) and `value` let others give them in their own words.
    """

    def __init__(self, problem: str, *kinds: str, value: str = "") -> None:
        self.problem, self.kinds, self.value = problem, kinds, value
        super().__init__(self.told(_REMEDIES))

    def told(self, remedies: Mapping[str, str]) -> str:
        """Return the problem, and what to do about it in some words."""
        return " ".join([self.problem, *(remedies[kind].format(self.value) for kind in self.kinds)])


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file: columns × rows, gaps as NaN, and where they are."""

    values: NDArray[np.float64]
    first_row: int
    row_group: int | None = None

    def place(self, path: Path, row: int) -> str:
        """Say where a row of this block is; the first row of a file is row 1."""
        group = "" if self.row_group is None else f" (row group {self.row_group})"
        return f"Row {self.first_row + row + 1} of {path}{group}"

    def more(self, rows: NDArray[np.bool_], most: int = 5) -> str:
        """Say which rows of this block have it neither, besides the first, if there are any."""
        others = np.flatnonzero(rows)[1:]
        shown = [str(self.first_row + row + 1) for row in others[:most].tolist()]
        left = f" and {len(others) - most} more" if len(others) > most else ""
        return f", nor have rows {', '.join(shown)}{left}" if shown else ""


@dataclass(frozen=True)
class ArrowBlock:
    """Consecutive rows of a file as a record batch, and where they are."""

    batch: Any
    first_row: int
    row_group: int | None = None


class RowFile(ABC):
    """One file.

    Attributes
    ----------
    types : dict
        What each column is: `NUMBER`, `TEXT`, `DATE`, or why it cannot be used.
    remedies : dict
        Which remedy there is for a column that cannot be used, if not to leave it out.
    notes : dict
        What is done to a column.
    examples : dict
        Where a column is text, and which: "row 3 is 'x'".
    decimal : str
        Decimal mark of its numbers.
    dates : dict
        How days of a column are spelled, where not as 2020-12-31.
    strays : dict
        Texts that are gaps in a column of numbers.
    empty : set of str
        Columns without a value, as far as is known.
    flags : set of str
        Columns of true and false, which are numbers.
    remarks : list of str
        What is done to the file.
    index : list of str
        Columns in which pandas keeps its index.
    target : str or None
        The column that is the target, where the format says so.
    """

    def __init__(self, path: Path, partition: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.index: list[str] = []
        self.target: str | None = None
        self.remedies: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.examples: dict[str, str] = {}
        self.decimal = "."
        self.dates: dict[str, str] = {}
        self.strays: dict[str, tuple[str, ...]] = {}
        self.empty: set[str] = set()
        self.flags: set[str] = set()
        self.remarks: list[str] = []
        self._stamp = self._stat()
        with self._explain_errors():
            columns = list(self._columns())
        names = [name for name, _ in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{path} has several columns named {twice[0]!r}. Give each its own name."
            )
        # A column that the names of folders spell is the same in all rows of the file.
        self._constants = {name: _constant(text) for name, text in (partition or {}).items()}
        kinds = {n: TEXT if isinstance(v, str) else NUMBER for n, v in self._constants.items()}
        self.types: dict[str, str] = dict(columns) | kinds

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self._stamp[0]

    @abstractmethod
    def _columns(self) -> Iterator[tuple[str, str]]:
        """Yield name and type of every column."""

    @abstractmethod
    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        """Yield stored columns as Arrow record batches, and the row group they are from if any."""

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield stored columns of a file that is as it was."""
        first = 0
        for group, batch in self._batches(columns, n_rows):
            yield Block(number_rows(batch, columns), first, group)
            first += batch.num_rows

    def _stored(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns that are in the file itself."""
        return [name for name in columns if name not in self._constants]

    def blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield all rows, about `n_rows` at a time; raise if the file is not what it was."""
        self._check()
        stored = self._stored(columns)
        for block in self._blocks(stored, n_rows):
            if len(stored) == len(columns):
                yield block
                continue
            values = np.empty((len(columns), block.values.shape[1]))
            rows = iter(block.values)
            for row, name in zip(values, columns, strict=True):
                row[:] = self._constants[name] if name in self._constants else next(rows)
            yield Block(values, block.first_row, block.row_group)
        self._check()

    def arrow(self, columns: Sequence[str], n_rows: int = _BATCH_ROWS) -> Generator[ArrowBlock]:
        """Yield all rows as Arrow record batches; columns that are not numbers as they are."""
        import pyarrow

        self._check()
        first = 0
        for group, batch in self._batches(self._stored(columns), n_rows):
            arrays = [
                pyarrow.repeat(self._constants[name], batch.num_rows)
                if name in self._constants
                else batch.column(name)
                for name in columns
            ]
            yield ArrowBlock(pyarrow.record_batch(arrays, names=list(columns)), first, group)
            first += batch.num_rows
        self._check()

    def describe(self, name: str) -> str:
        """Return what a column is, and where, as an error says it."""
        kind = self.types[name]
        what = f"is {kind}" if kind in KINDS else kind
        example = f" ({self.examples[name]})" if name in self.examples else ""
        return f"{name!r} {what}{example}"

    def read_as(self, kinds: Mapping[str, str]) -> RowFile:
        """Return the file with columns read as these kinds, as far as it leaves a choice."""
        return self

    def _stat(self) -> tuple[int, int]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.path} is not there. Put it back, or leave it out of open_rows."
            ) from None
        return status.st_size, status.st_mtime_ns

    def _check(self) -> None:
        if self._stat() != self._stamp:
            raise ValueError(
                f"{self.path} changed after it was opened, so passes over its rows would not "
                "agree. Call open_rows again when it is complete."
            )

    @contextmanager
    def _explain_errors(self, row_group: int | None = None) -> Iterator[None]:
        """Turn the errors of a reader into one that names the file and the row group."""
        try:
            yield
        except FileNotFoundError:
            self._stat()
            raise
        except RowsError:
            raise
        except FormatError as error:
            raise OSError(f"{self.path} cannot be read: {as_sentence(error)}") from error
        except READ_ERRORS as error:
            what = str(self.path) if row_group is None else f"Row group {row_group} of {self.path}"
            raise OSError(
                f"{what} cannot be read: {as_sentence(error)} Write the file anew, or leave it out."
            ) from error


def _constant(text: str) -> float | str:
    """Return what the name of a folder says of a column."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return float("nan")
    return float(text) if is_number(text) else text


def number_rows(batch: Any, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return columns of a record batch as rows of a matrix, nulls as NaN."""
    from pyarrow import compute

    values = np.empty((len(columns), batch.num_rows))
    if batch.num_rows:
        for row, name in zip(values, columns, strict=True):
            numbers = compute.cast(batch.column(name), "float64", safe=False)
            row[:] = np.from_dlpack(compute.fill_null(numbers, float("nan")))
    return values


def as_sentence(error: BaseException) -> str:
    """Return what an error says, on one line, with a full stop."""
    text = " ".join(str(error).split())
    text = "".join(mark if mark.isprintable() else "�" for mark in text)
    return text if text.endswith(".") else f"{text}."

"""Files of rows: Parquet, CSV, npy and npz, each as a stream of blocks of numbers.

Nothing of a file is kept open, or in memory, between two passes over it.  Files are read one by
one and not scanned by ``pyarrow.dataset``: its scanner decodes a whole row group at a time (291 MB
for 3 million rows of 8 columns, where reading page by page takes 40 MB and a quarter of the time).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.files.sniff import FormatError, check_csv, is_number

NUMBER = "number"
# What Parquet reads of a column chunk at a time; a whole one may be larger than memory.
_COLUMN_BUFFER = 2**16
_CSV_BLOCK = 2**20
_BATCH_ROWS = 2**16

_REMEDIES = {
    "gap": "Fix the file, or pass missing='drop' to open_rows to leave such rows out.",
    "columns": "Fix the file, or name the columns to read with open_rows(…, columns=…).",
    "delimiter": "Pass delimiter={!r} to open_rows.",
}


class RowsError(ValueError):
    """Rows that cannot be used: the problem, and a remedy in the words of ``open_rows``.

    `kind` ("gap", "columns" or "delimiter") and `value` let others give it in their own words.
    """

    def __init__(self, problem: str, kind: str, value: str = "") -> None:
        super().__init__(f"{problem} {_REMEDIES[kind].format(value)}")
        self.problem, self.kind, self.value = problem, kind, value


@dataclass(frozen=True)
class CsvFormat:
    """How CSV files are written; `delimiter` None is a comma, or a tab for .tsv."""

    delimiter: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()

    def delimiter_of(self, path: Path) -> str:
        """Return the delimiter of a file."""
        return self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")


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


class RowFile(ABC):
    """One file.

    Attributes
    ----------
    types : dict
        What each column is: `NUMBER`, or the name of another type.
    index : list of str
        Columns in which pandas keeps its index.
    target : str or None
        The column that is the target, where the format says so.
    """

    def __init__(self, path: Path, partition: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.index: list[str] = []
        self.target: str | None = None
        self._stamp = self._stat()
        with self._reading():
            columns = list(self._columns())
        names = [name for name, _ in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{path} has several columns named {twice[0]!r}. Give each its own name."
            )
        # A column that the names of folders spell is the same in all rows of the file.
        self._constants = {name: _constant(text) for name, text in (partition or {}).items()}
        kinds = {n: "string" if isinstance(v, str) else NUMBER for n, v in self._constants.items()}
        self.types: dict[str, str] = dict(columns) | kinds

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self._stamp[0]

    @abstractmethod
    def _columns(self) -> Iterator[tuple[str, str]]:
        """Yield name and type of every column."""

    @abstractmethod
    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield stored columns of a file that is as it was."""

    @abstractmethod
    def _arrow(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield stored columns as Arrow record batches, text as text."""

    def blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield all rows, about `n_rows` at a time; raise if the file is not what it was."""
        self._check()
        stored = [name for name in columns if name not in self._constants]
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

    def arrow(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield all rows as Arrow record batches; columns that are not numbers as they are."""
        import pyarrow

        self._check()
        for batch in self._arrow([name for name in columns if name not in self._constants]):
            arrays = [
                pyarrow.array([self._constants[name]] * batch.num_rows)
                if name in self._constants
                else batch.column(name)
                for name in columns
            ]
            yield pyarrow.record_batch(arrays, names=list(columns))

    def table(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """Return all rows as an Arrow table; types are told from all rows, `texts` are text."""
        import pyarrow

        return pyarrow.Table.from_batches(self.arrow(columns))

    def first_texts(self, columns: Sequence[str]) -> dict[str, list[str]]:
        """Return how the first values of columns are spelled, in a file that is text."""
        return {}

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
    def _reading(self, row_group: int | None = None) -> Iterator[None]:
        """Turn the errors of a reader into one that names the file and the row group."""
        try:
            yield
        except FileNotFoundError:
            self._stat()
            raise
        except RowsError:
            raise
        except FormatError as error:
            raise OSError(f"{self.path} cannot be read: {_sentence(error)}") from error
        except (OSError, ValueError, EOFError) as error:
            what = str(self.path) if row_group is None else f"Row group {row_group} of {self.path}"
            remedy = "Write the file anew, or leave it out."
            raise OSError(f"{what} cannot be read: {_sentence(error)} {remedy}") from error


class ParquetRows(RowFile):
    """A Parquet file, a few pages of every column at a time."""

    def _open(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(
            self.path,
            buffer_size=_COLUMN_BUFFER,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    def _columns(self) -> Iterator[tuple[str, str]]:
        with self._open() as file:
            schema = file.schema_arrow
        kept = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index = [name for name in kept if name in schema.names]
        for field in schema:
            yield field.name, _arrow_kind(field.type)

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int, Any]]:
        with self._reading():
            file = self._open()
        with file:
            for group in range(file.num_row_groups):
                with self._reading(group):
                    for batch in file.iter_batches(
                        n_rows, row_groups=[group], columns=list(columns), use_threads=False
                    ):
                        yield group, batch

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        first = 0
        for group, batch in self._batches(columns, n_rows):
            yield Block(_matrix(batch, columns), first, group)
            first += batch.num_rows

    def _arrow(self, columns: Sequence[str]) -> Iterator[Any]:
        return (batch for _, batch in self._batches(columns, _BATCH_ROWS))


class CsvRows(RowFile):
    """A CSV file, a block of text at a time."""

    def __init__(
        self, path: Path, csv: CsvFormat, partition: Mapping[str, str] | None = None
    ) -> None:
        self._csv = csv
        super().__init__(path, partition)

    def _options(self, block_size: int, **convert: Any) -> dict[str, Any]:
        from pyarrow import csv

        usual = csv.ConvertOptions()
        return {
            "read_options": csv.ReadOptions(use_threads=False, block_size=block_size),
            "parse_options": csv.ParseOptions(delimiter=self._csv.delimiter_of(self.path)),
            "convert_options": csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=self._csv.decimal,
                null_values=[*usual.null_values, *self._csv.na],
                **convert,
            ),
        }

    def _columns(self) -> Iterator[tuple[str, str]]:
        """Tell the types from the first block; what comes later must be like it."""
        from pyarrow import csv, types

        other = check_csv(self.path, self._csv.delimiter_of(self.path))
        if other is not None:
            mark, word = other
            raise RowsError(f"{self.path} seems to be delimited by a {word}.", "delimiter", mark)
        with csv.open_csv(self.path, **self._options(_CSV_BLOCK)) as file:
            schema = file.schema
        names = schema.names
        if names and all(is_number(name) for name in names):
            raise FormatError(
                f"its first line is {', '.join(names[:4])}, so it seems to have no header. Put a "
                "line with the names of the columns before it."
            )
        self.index = [name for name in names[:1] if not name]
        self._flags = {field.name for field in schema if types.is_boolean(field.type)}
        for field in schema:
            if types.is_binary(field.type):
                raise FormatError(
                    f"column {field.name!r} is not UTF-8 text. Save the file in that encoding."
                )
            empty = types.is_null(field.type)  # as far as the first block tells
            yield field.name, NUMBER if empty else _arrow_kind(field.type)

    def _batches(self, columns: Sequence[str]) -> Generator[Any]:
        import pyarrow
        from pyarrow import csv

        kinds = {
            name: pyarrow.bool_() if name in self._flags else pyarrow.float64()
            for name in columns
            if self.types[name] == NUMBER
        }
        options = self._options(_CSV_BLOCK, column_types=kinds, include_columns=list(columns))
        done = 0
        try:
            with csv.open_csv(self.path, **options) as file:
                for batch in file:
                    yield batch
                    done += batch.num_rows
        except (ValueError, OSError) as error:
            raise self._wrong(error, done) from error

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        first = 0
        for batch in self._batches(columns):
            yield Block(_matrix(batch, columns), first)
            first += batch.num_rows

    def _arrow(self, columns: Sequence[str]) -> Iterator[Any]:
        return self._batches(columns)

    def table(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """Return all rows as an Arrow table; types are told from all rows, `texts` are text."""
        import pyarrow
        from pyarrow import csv

        kinds = {name: pyarrow.string() for name in texts if name in self.types}
        whole = min(self.n_bytes + 1, 2**31 - 1)
        if self.path.suffix.lower() in (".gz", ".bz2"):
            whole = 2**31 - 1
        stored = [name for name in columns if name not in self._constants]
        with self._reading():
            found = csv.read_csv(
                self.path, **self._options(whole, column_types=kinds, include_columns=stored)
            )
        for name in set(columns) - set(stored):
            found = found.append_column(name, [[self._constants[name]] * len(found)])
        return found.select(list(columns))

    def first_texts(self, columns: Sequence[str]) -> dict[str, list[str]]:
        """Return how the first values of columns are spelled."""
        import pyarrow
        from pyarrow import csv

        stored = [name for name in columns if name not in self._constants]
        kinds = dict.fromkeys(stored, pyarrow.string())
        options = self._options(_CSV_BLOCK, column_types=kinds, include_columns=stored)
        with csv.open_csv(self.path, **options) as file:
            batch = file.read_next_batch()
        return {name: batch.column(name).drop_null().to_pylist() for name in stored}

    def _wrong(self, error: Exception, done: int) -> Exception:
        """Return an error that says where a CSV file is not what it should be."""
        found = re.search(r"CSV column #(\d+): (?:Row #(\d+): )?.*?(invalid value.*)", str(error))
        if found is None:
            what = f"{self.path} cannot be read after row {done}: {_sentence(error)}"
            return OSError(what) if isinstance(error, OSError) else ValueError(what)
        name = list(self.types)[int(found[1])]
        # Arrow counts lines from the header on, which is the first.
        where = f"row {int(found[2]) - 1}" if found[2] else f"a row after {done}"
        return RowsError(
            f"Column {name!r} of {self.path} must be numbers, but {where} has an {found[3]}.",
            "columns",
        )


class NpyRows(RowFile):
    """A matrix in an npy file; its columns are x0, x1 and so on, and the last is the target."""

    def _matrix(self) -> NDArray[Any]:
        # Mapped anew each time: pages that were touched count as memory of the process.
        return _checked_matrix(np.load(self.path, mmap_mode="r", allow_pickle=False))

    def _columns(self) -> Iterator[tuple[str, str]]:
        self._names = numbered(self._matrix().shape[1])
        self.target = self._names[-1] if self._names else None
        return ((name, NUMBER) for name in self._names)

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        index = [self._names.index(name) for name in columns]
        first, count = 0, 1
        while first < count:
            with self._reading():
                matrix = self._matrix()
                count = len(matrix)
                part = matrix[first : first + n_rows]
                values = np.empty((len(index), len(part)))
                for row, column in zip(values, index, strict=True):
                    row[:] = part[:, column]
                del matrix, part
            if values.size:
                yield Block(values, first)
            first += n_rows

    def _arrow(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow

        for block in self._blocks(columns, _BATCH_ROWS):
            yield pyarrow.record_batch(list(block.values), names=list(columns))


class NpzRows(NpyRows):
    """Arrays `X` and `y` in an npz file, and `columns` and `target` that name them."""

    def _columns(self) -> Iterator[tuple[str, str]]:
        with np.load(self.path, allow_pickle=False) as stored:
            if "X" not in stored.files or stored["X"].ndim != 2:
                raise ValueError("it must hold a matrix `X`, and `y` for the target.")
            n_inputs = stored["X"].shape[1]
            given = stored["columns"] if "columns" in stored.files else numbered(n_inputs)
            self._names = [str(name) for name in given]
            if len(self._names) != n_inputs:
                raise ValueError(f"`columns` has {len(self._names)} names for {n_inputs} inputs.")
            if "y" in stored.files:
                self.target = str(stored["target"]) if "target" in stored.files else "target"
                self._names.append(self.target)
        self._matrix()
        return ((name, NUMBER) for name in self._names)

    def _matrix(self) -> NDArray[Any]:
        with np.load(self.path, allow_pickle=False) as stored:
            X = _checked_matrix(stored["X"])
            if "y" not in stored.files:
                return X
            y = stored["y"]
        if y.shape != (len(X),):
            raise ValueError(f"it must have one value of `y` for each of its {len(X)} rows.")
        return np.column_stack([X, y])


def numbered(count: int) -> list[str]:
    """Return the names of columns that have none."""
    return [f"x{index}" for index in range(count)]


def _checked_matrix(matrix: NDArray[Any]) -> NDArray[Any]:
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(
            f"it must hold a matrix of numbers, got shape {matrix.shape} and type {matrix.dtype}."
        )
    return np.asarray(matrix)


def _constant(text: str) -> float | str:
    """Return what the name of a folder says of a column."""
    if text == "__HIVE_DEFAULT_PARTITION__":
        return float("nan")
    return float(text) if is_number(text) else text


def _matrix(batch: Any, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return columns of a record batch as rows of a matrix, nulls as NaN."""
    from pyarrow import compute

    values = np.empty((len(columns), batch.num_rows))
    if batch.num_rows:
        for row, name in zip(values, columns, strict=True):
            numbers = compute.cast(batch.column(name), "float64", safe=False)
            row[:] = np.from_dlpack(compute.fill_null(numbers, float("nan")))
    return values


def _arrow_kind(kind: Any) -> str:
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return NUMBER if any(is_kind(kind) for is_kind in numeric) else str(kind)


def _sentence(error: BaseException) -> str:
    """Return what an error says, on one line, with a full stop."""
    text = " ".join(str(error).split())
    text = "".join(mark if mark.isprintable() else "�" for mark in text)
    return text if text.endswith(".") else f"{text}."

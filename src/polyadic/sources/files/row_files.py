"""Files of rows: Parquet, CSV and npy, each as a stream of blocks of numbers.

Nothing of a file is kept open, or in memory, between two passes over it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBER = "number"
# What Parquet reads of a column chunk at a time; a whole one may be larger than memory.
_COLUMN_BUFFER = 2**16
_CSV_BLOCK = 2**20


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file: columns × rows, gaps as NaN, and where they are."""

    values: NDArray[np.float64]
    first_row: int
    row_group: int | None = None


class RowFile(ABC):
    """One file; `types` tells what each of its columns is, `NUMBER` or a name for the type."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = self._stat()
        self.types: dict[str, str] = {}
        names = []
        with self._reading():
            for name, kind in self._columns():
                names.append(name)
                self.types[name] = kind
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{path} has several columns named {twice[0]!r}. Give each its own name."
            )

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self._stamp[0]

    @abstractmethod
    def _columns(self) -> Iterator[tuple[str, str]]:
        """Yield name and type of every column."""

    @abstractmethod
    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield the rows of a file that is as it was."""

    def blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        """Yield all rows, about `n_rows` at a time; raise if the file is not what it was."""
        self._check()
        yield from self._blocks(columns, n_rows)
        self._check()

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
        except (OSError, ValueError, EOFError) as error:
            what = str(self.path) if row_group is None else f"Row group {row_group} of {self.path}"
            raise OSError(
                f"{what} cannot be read: {_sentence(error)} Write the file anew, or leave it out."
            ) from error


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
            for field in file.schema_arrow:
                yield field.name, _arrow_kind(field.type)

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        with self._reading():
            file = self._open()
        with file:
            first = 0
            for group in range(file.num_row_groups):
                with self._reading(group):
                    for batch in file.iter_batches(
                        n_rows, row_groups=[group], columns=list(columns), use_threads=False
                    ):
                        yield Block(_matrix(batch, columns), first, group)
                        first += batch.num_rows


class CsvRows(RowFile):
    """A CSV file, a block of text at a time; `delimiter` None is a comma, or a tab for .tsv."""

    def __init__(self, path: Path, delimiter: str | None = None, decimal: str = ".") -> None:
        self._delimiter = delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        self._decimal = decimal
        super().__init__(path)
        names = list(self.types)
        if names and all(_is_number(name) for name in names):
            raise ValueError(
                f"{path} seems to have no header: its first line is {', '.join(names[:4])}. Put a "
                "line with the names of the columns before it."
            )

    def _open(self, columns: Sequence[str] | None = None) -> Any:
        from pyarrow import csv

        convert = {} if columns is None else self._as_numbers(columns)
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK),
            parse_options=csv.ParseOptions(delimiter=self._delimiter),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=True, decimal_point=self._decimal, **convert
            ),
        )

    def _as_numbers(self, columns: Sequence[str]) -> dict[str, Any]:
        import pyarrow

        kinds = {name: pyarrow.float64() for name in columns}
        for name in self._flags.intersection(columns):
            kinds[name] = pyarrow.bool_()
        return {"column_types": kinds, "include_columns": list(columns)}

    def _columns(self) -> Iterator[tuple[str, str]]:
        """Tell the types from the first block; what comes later must be like it."""
        from pyarrow import types

        with self._open() as file:
            schema = file.schema
        self._flags = {field.name for field in schema if types.is_boolean(field.type)}
        for field in schema:
            empty = types.is_null(field.type)  # as far as the first block tells
            yield field.name, NUMBER if empty else _arrow_kind(field.type)

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        first = 0
        try:
            with self._open(columns) as file:
                for batch in file:
                    yield Block(_matrix(batch, columns), first)
                    first += batch.num_rows
        except ValueError as error:
            raise ValueError(self._wrong(error, first)) from error

    def _wrong(self, error: ValueError, first: int) -> str:
        """Say where a CSV file is not what it should be."""
        found = re.search(r"CSV column #(\d+): (?:Row #(\d+): )?.*?(invalid value.*)", str(error))
        if found is None:
            return f"{self.path} cannot be read after row {first}: {_sentence(error)}"
        name = list(self.types)[int(found[1])]
        # Arrow counts lines from the header on, which is the first.
        where = f"row {int(found[2]) - 2}" if found[2] else f"a row after {first}"
        return (
            f"Column {name!r} of {self.path} must be numbers, but {where} has an {found[3]}. Mend "
            "the file, or name the columns to read with open_rows(…, columns=…)."
        )


class NpyRows(RowFile):
    """A matrix in an npy file; its columns are x0, x1 and so on."""

    def _mapped(self) -> NDArray[Any]:
        matrix = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"it must hold a matrix of numbers, got shape {matrix.shape} and type "
                f"{matrix.dtype}."
            )
        return np.asarray(matrix)

    def _columns(self) -> Iterator[tuple[str, str]]:
        for index in range(self._mapped().shape[1]):
            yield f"x{index}", NUMBER

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        index = [int(name[1:]) for name in columns]
        first, count = 0, 1
        while first < count:
            with self._reading():
                # Mapped anew: pages that were touched count as memory of the process.
                matrix = self._mapped()
                count = len(matrix)
                part = matrix[first : first + n_rows]
                values = np.empty((len(index), len(part)))
                for row, column in zip(values, index, strict=True):
                    row[:] = part[:, column]
                del matrix, part
            if values.size:
                yield Block(values, first)
            first += n_rows


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _sentence(error: BaseException) -> str:
    """Return what an error says, on one line, with a full stop."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."

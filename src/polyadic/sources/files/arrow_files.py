"""Files that Arrow reads: Parquet, a few pages at a time, and CSV, a block of text at a time.

They are read one by one and not scanned by ``pyarrow.dataset``: its scanner decodes a whole row
group at a time (291 MB for 3 million rows of 8 columns, where reading page by page takes 40 MB
and a quarter of the time).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from polyadic.sources.files.row_files import (
    DATE,
    KINDS,
    NUMBER,
    READ_ERRORS,
    TEXT,
    RowFile,
    RowsError,
    as_sentence,
)
from polyadic.sources.files.sniff import (
    CsvFormat,
    FormatError,
    Spelling,
    is_number,
    spelling_of,
    unpack,
)
from polyadic.sources.files.text_columns import TextColumn, first_stray, warn_of_thousands

# What Parquet reads of a column chunk at a time; a whole one may be larger than memory.
_COLUMN_BUFFER = 2**16
_CSV_BLOCK = 2**20


class ParquetRows(RowFile):
    """A Parquet file, a few pages of every column at a time."""

    def _open(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(
            self.path, buffer_size=_COLUMN_BUFFER, pre_buffer=False, page_checksum_verification=True
        )

    def _columns(self) -> Iterator[tuple[str, str]]:
        from pyarrow import types

        with self._open() as file:
            schema = file.schema_arrow
        kept = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index = [name for name in kept if name in schema.names]
        self.empty = {field.name for field in schema if types.is_null(field.type)}
        self.flags = {field.name for field in schema if types.is_boolean(field.type)}
        for field in schema:
            yield field.name, _kind_of(field.type)

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        with self._explain_errors():
            file = self._open()
        with file:
            for group in range(file.num_row_groups):
                with self._explain_errors(group):
                    for batch in file.iter_batches(
                        n_rows, row_groups=[group], columns=list(columns), use_threads=False
                    ):
                        yield group, _with_numbers(batch)


class CsvRows(RowFile):
    """A CSV file, a block of text at a time.

    Parameters
    ----------
    path : Path
        The file.
    csv : CsvFormat
        What users say of how it is written.
    partition : mapping, optional
        Columns that the names of folders spell.
    """

    def __init__(
        self, path: Path, csv: CsvFormat, partition: Mapping[str, str] | None = None
    ) -> None:
        self._csv = csv
        self._texts: dict[str, TextColumn] = {}
        self._parts: dict[str, float] = {}
        super().__init__(path, partition)

    def _unpack(self) -> Any:
        """Open the text."""
        return unpack(self.path)

    def _spell(self) -> tuple[Spelling, bytes]:
        """Tell how the text is written, and return its head in UTF-8."""
        return spelling_of(self.path, self._csv)

    @contextmanager
    def _open(self, **convert: Any) -> Iterator[Any]:
        """Open the file as a stream of record batches."""
        from pyarrow import csv

        with (
            self._unpack() as text,
            csv.open_csv(
                text, **self._options(_CSV_BLOCK, self._spelling.encoding, convert)
            ) as file,
        ):
            yield file

    def _options(self, block_size: int, encoding: str, convert: dict[str, Any]) -> dict[str, Any]:
        from pyarrow import csv

        usual, spelling = csv.ConvertOptions(), self._spelling
        return {
            "read_options": csv.ReadOptions(
                use_threads=False, block_size=block_size, encoding=encoding
            ),
            "parse_options": csv.ParseOptions(
                delimiter=spelling.delimiter, newlines_in_values=True
            ),
            "convert_options": csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=spelling.decimal,
                null_values=[*usual.null_values, *self._csv.na],
                **convert,
            ),
        }

    def _columns(self) -> Iterator[tuple[str, str]]:
        """Tell the types from the head of the file; what comes later must be like it."""
        import pyarrow

        self._spelling, head = self._spell()
        self.decimal = self._spelling.decimal
        if self._spelling.remark is not None:
            self.remarks.append(self._spelling.remark)
        first = self._read(head)
        names = first.schema.names
        if names and all(is_number(name) for name in names):
            raise FormatError(
                f"its first line is {', '.join(names[:4])}, so it seems to have no header. Put a "
                "line with the names of the columns before it."
            )
        self.index = [name for name in names[:1] if not name]
        self._stored_types = dict(zip(names, first.schema.types, strict=True))
        if self._csv.decimal == ",":
            texts = dict.fromkeys(names, pyarrow.string())
            self.remarks += warn_of_thousands(self._read(head, column_types=texts))
        columns = [column.combine_chunks() for column in first.columns]
        found = [self._look_at(name, each) for name, each in zip(names, columns, strict=True)]
        if "decimal" in self.remedies.values():
            # Where some commas are decimals beyond doubt, others may be so too.
            doubtful = [n for n, remedy in self.remedies.items() if remedy == "thousands"]
            self.remedies |= dict.fromkeys(doubtful, "commas")
            told = dict.fromkeys(doubtful, "has commas of thousands or of decimals")
            found = [told.get(name, kind) for name, kind in zip(names, found, strict=True)]
        yield from zip(names, found, strict=True)

    def _read(self, head: bytes, **convert: Any) -> Any:
        """Return the first rows as Arrow types them, or as told."""
        from pyarrow import BufferReader, csv

        options = self._options(len(head) + 1, "utf8", convert)
        return csv.read_csv(BufferReader(head), **options).combine_chunks()

    def _look_at(self, name: str, values: Any) -> str:
        """Return what a column is, after a look at its first values."""
        from pyarrow import types

        if types.is_null(values.type):
            self.empty.add(name)
        if types.is_boolean(values.type):
            self.flags.add(name)
        if not types.is_string(values.type):
            return _kind_of(values.type)
        given, decimal = self._csv, self._spelling.decimal
        known = given.strays.get(name, ())
        found = TextColumn.of(values, decimal, given.dates.get(name), known)
        self.dates.update({name: found.pattern} if found.pattern else {})
        self.strays.update({name: found.strays} if found.strays else {})
        self._texts[name] = found
        self._parts[name], self.examples[name] = first_stray(values, self._spelling.decimal)
        self.notes.update({name: found.note} if found.note else {})
        self.remedies.update({name: found.remedy} if found.remedy else {})
        return found.kind

    def read_as(self, kinds: Mapping[str, str]) -> CsvRows:
        """Return the file with columns read as these kinds, as far as their text allows.

        Any column can be text.  Text of which half are numbers can be numbers with gaps.
        """
        import pyarrow

        other = copy(self)
        other.types, other._texts = dict(self.types), dict(self._texts)
        other.notes = dict(self.notes)
        other._stored_types = dict(self._stored_types)
        for name, kind in kinds.items():
            if name not in self._stored_types or self.types[name] == kind:
                continue
            if kind == TEXT:
                other._texts.pop(name, None)
                other.notes.pop(name, None)
                other._stored_types[name] = pyarrow.string()
            elif name in self.empty:
                other._stored_types[name] = pyarrow.timestamp("s")
            elif kind == NUMBER and self._parts.get(name, 0.0) >= 0.5:
                other._texts[name] = TextColumn(NUMBER)
                other.notes[name] = f"{self.examples[name]}, read as a gap"
            else:
                raise self._refuse(name, kind)
            other.types[name] = kind
        return other

    def _refuse(self, name: str, kind: str) -> RowsError:
        """Return the error of a column that is not what it should be."""
        here, example = self.types[name], self.examples.get(name)
        told = f"{here if here not in KINDS else f'is {here}'}{f' ({example})' if example else ''}"
        return RowsError(
            f"Column {name!r} of {self.path} must be {kind}s, as in the fit, but {told}.",
            self.remedies.get(name, "dates" if kind == DATE else "fit"),
            value=name,
        )

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        """Yield blocks of text as record batches, whatever number of rows they have."""
        done = 0
        kinds = {name: self._read_type(name) for name in columns}
        try:
            with self._open(column_types=kinds, include_columns=list(columns)) as file:
                for batch in file:
                    yield None, _with_numbers(self._convert(batch))
                    done += batch.num_rows
        except READ_ERRORS as error:
            raise self._explain(error, done) from error

    def _read_type(self, name: str) -> Any:
        """Return the Arrow type that a column is read as; text may be made numbers of later."""
        import pyarrow
        from pyarrow import types

        stored = self._stored_types[name]
        plain = types.is_integer(stored) or types.is_floating(stored) or types.is_null(stored)
        return pyarrow.float64() if plain else stored

    def _convert(self, batch: Any) -> Any:
        """Return a batch with the numbers and dates that were read as text."""
        for place, name in enumerate(batch.schema.names):
            column = self._texts.get(name)
            if column is not None and column.kind in (NUMBER, DATE):
                values = column.read(batch.column(place), self._spelling.decimal)
                batch = batch.set_column(place, name, values)
        return batch

    def _explain(self, error: Exception, done: int) -> Exception:
        """Return an error that says where a CSV file is not what it should be."""
        if "invalid UTF8" in str(error):
            what = f"{self.path} is not UTF-8 text after row {done}."
            return RowsError(what, "encoding")
        found = re.search(
            r"CSV column #(\d+): (?:Row #(\d+): )?.*?invalid value '(.*?)'", str(error)
        )
        if found is None:
            what = f"{self.path} cannot be read after row {done}: {as_sentence(error)}"
            return ValueError(what) if isinstance(error, ValueError) else OSError(what)
        name = list(self._stored_types)[int(found[1])]
        # Arrow counts lines from the header on, which is the first.
        where = f"row {int(found[2]) - 1}" if found[2] else f"a row after {done}"
        kind = {NUMBER: "numbers", DATE: "dates"}[self.types[name]]
        return RowsError(
            f"Column {name!r} of {self.path} must be {kind}, but {where} has an invalid value "
            f"{found[3]!r}.",
            "stray",
            value=found[3],
        )


def _kind_of(kind: Any) -> str:
    """Return what an Arrow type is to a fit, or why it cannot be used."""
    from pyarrow import types

    numeric = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
        types.is_time,
        types.is_duration,
        types.is_null,
    )
    if any(is_kind(kind) for is_kind in numeric):
        return NUMBER
    if types.is_temporal(kind):
        return DATE
    if types.is_dictionary(kind):
        return TEXT
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return TEXT
    return f"is of type {kind}"


def _with_numbers(batch: Any) -> Any:
    """Return a batch in which times of the day are hours, and durations days."""
    from pyarrow import compute, types

    for place, field in enumerate(batch.schema):
        if types.is_time(field.type) or types.is_duration(field.type):
            ticks = compute.cast(batch.column(place), f"int{field.type.bit_width}")
            second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[field.type.unit]
            unit = 3600 * second * (1 if types.is_time(field.type) else 24)
            numbers = compute.divide(compute.cast(ticks, "float64"), unit)
            batch = batch.set_column(place, field.name, numbers)
    return batch

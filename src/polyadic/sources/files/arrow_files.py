"""Files that Arrow reads: Parquet, a few pages at a time, and CSV, a block of text at a time.

They are read one by one and not scanned by ``pyarrow.dataset``: its scanner decodes a whole row
group at a time (291 MB for 3 million rows of 8 columns, where reading page by page takes 40 MB
and a quarter of the time).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyadic.sources.files.row_files import NUMBER, CsvFormat, RowFile, RowsError, as_sentence
from polyadic.sources.files.sniff import FormatError, check_csv, is_number

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
        with self._open() as file:
            schema = file.schema_arrow
        kept = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index = [name for name in kept if name in schema.names]
        for field in schema:
            yield field.name, _arrow_kind(field.type)

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        with self._explain_errors():
            file = self._open()
        with file:
            for group in range(file.num_row_groups):
                with self._explain_errors(group):
                    for batch in file.iter_batches(
                        n_rows, row_groups=[group], columns=list(columns), use_threads=False
                    ):
                        yield group, batch


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

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        """Yield blocks of text as record batches, whatever number of rows they have."""
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
                    yield None, batch
                    done += batch.num_rows
        except (ValueError, OSError) as error:
            raise self._explain(error, done) from error

    def table(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """Return all rows as an Arrow table; types are told from all rows, `texts` are text."""
        import pyarrow
        from pyarrow import csv

        kinds = {name: pyarrow.string() for name in texts if name in self.types}
        whole = min(self.n_bytes + 1, 2**31 - 1)
        if self.path.suffix.lower() in (".gz", ".bz2"):
            whole = 2**31 - 1
        stored = self._stored(columns)
        with self._explain_errors():
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

        stored = self._stored(columns)
        kinds = dict.fromkeys(stored, pyarrow.string())
        options = self._options(_CSV_BLOCK, column_types=kinds, include_columns=stored)
        with csv.open_csv(self.path, **options) as file:
            batch = file.read_next_batch()
        return {name: batch.column(name).drop_null().to_pylist() for name in stored}

    def _explain(self, error: Exception, done: int) -> Exception:
        """Return an error that says where a CSV file is not what it should be."""
        found = re.search(r"CSV column #(\d+): (?:Row #(\d+): )?.*?(invalid value.*)", str(error))
        if found is None:
            what = f"{self.path} cannot be read after row {done}: {as_sentence(error)}"
            return OSError(what) if isinstance(error, OSError) else ValueError(what)
        name = list(self.types)[int(found[1])]
        # Arrow counts lines from the header on, which is the first.
        where = f"row {int(found[2]) - 1}" if found[2] else f"a row after {done}"
        return RowsError(
            f"Column {name!r} of {self.path} must be numbers, but {where} has an {found[3]}.",
            "columns",
        )


def _arrow_kind(kind: Any) -> str:
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return NUMBER if any(is_kind(kind) for is_kind in numeric) else str(kind)

"""Tables of the command: names, rows as a stream of numbers, or all of it as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyadic.cli.errors import Mistake
from polyadic.sources.files.paths import open_files
from polyadic.sources.files.row_files import NUMBER, RowFile
from polyadic.sources.files.row_source import RowSource, select_rows
from polyadic.sources.files.sniff import CsvFormat

_SHOWN = 10


@dataclass(frozen=True)
class Table:
    """The files of a table; nothing of them is read but names and types."""

    path: Path
    files: list[RowFile]
    csv: CsvFormat

    @property
    def types(self) -> dict[str, str]:
        """Names and types of the columns."""
        return self.files[0].types

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.types)

    @property
    def index(self) -> list[str]:
        """Columns in which pandas keeps its index."""
        return self.files[0].index

    @property
    def target(self) -> str | None:
        """The column that is the target, where the file says so, or one that is called so."""
        return self.files[0].target or ("target" if "target" in self.types else None)

    def has_numbers(self, names: Sequence[str]) -> bool:
        """Return whether these columns are numbers, as far as the types tell."""
        return all(self.types[name] == NUMBER for name in names)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield all rows as Arrow record batches."""
        return (block.batch for file in self.files for block in file.arrow(columns))

    def read(self, columns: Sequence[str], texts: Sequence[str] = ()) -> Any:
        """Return all rows as one Arrow table; `texts` are read as text whatever they look like."""
        import pyarrow

        parts = [
            pyarrow.Table.from_batches(
                [b.batch for b in file.read_as(dict.fromkeys(texts, "text")).arrow(columns)]
            )
            for file in self.files
        ]
        table = pyarrow.concat_tables(parts, promote_options="permissive")
        if not len(table):
            raise self.explain_no_rows()
        return table

    def source(self, names: Sequence[str], target: str | None, missing: str) -> RowSource:
        """Return the rows of columns that are numbers."""
        return select_rows(self.files, target, names, None, missing)

    def explain_no_rows(self) -> Mistake:
        """Return the mistake of a table that has only a header."""
        return Mistake(f"{self.path} has no rows under its header.")


def read_table(path: str, csv: CsvFormat) -> Table:
    """Open a file or a folder of files whose endings tell their format."""
    return Table(Path(path), open_files(path, csv), csv)


def list_names(names: Sequence[str]) -> str:
    """Return names as an error shows them: the first ten, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown

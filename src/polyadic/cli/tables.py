"""Tables of the command: which columns they have, and their rows as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyadic.cli.errors import Mistake
from polyadic.sources.files.encoding import kinds_of
from polyadic.sources.files.opening import select_rows
from polyadic.sources.files.paths import open_files
from polyadic.sources.files.row_files import RowFile
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.files.sniff import CsvFormat
from polyadic.sources.schema import Schema

_SHOWN = 10


@dataclass(frozen=True)
class Table:
    """The files of a table; nothing of them is read but names and types."""

    path: Path
    files: list[RowFile]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.files[0].types)

    @property
    def index(self) -> list[str]:
        """Columns in which pandas keeps its index."""
        return self.files[0].index

    @property
    def dates(self) -> dict[str, str]:
        """How days of columns are spelled."""
        return {name: pattern for file in self.files for name, pattern in file.dates.items()}

    @property
    def strays(self) -> dict[str, list[str]]:
        """Texts that are gaps in columns of numbers."""
        found: dict[str, list[str]] = {}
        for file in self.files:
            for name, texts in file.strays.items():
                found[name] = sorted({*found.get(name, []), *texts})
        return found

    @property
    def target(self) -> str | None:
        """The column that is the target, where the file says so, or one that is called so."""
        return self.files[0].target or ("target" if "target" in self.names else None)

    def source(
        self,
        names: Sequence[str],
        target: str | None,
        missing: str,
        schema: Schema | None = None,
    ) -> RowSource:
        """Return the rows of columns to predict from, read as those of a fit if there was one."""
        files = self.files
        if schema is not None:
            files = [file.read_as(kinds_of(schema, names)) for file in files]
        return select_rows(files, target, names, None, missing)

    def require_target(self, target: str | None, named: Mapping[str, Sequence[str]]) -> str:
        """Return the column to predict: the one asked for, or the one the table tells.

        Parameters
        ----------
        target : str or None
            The column that users name.
        named : mapping
            Columns that users name with other options, which the table must have; the target
            cannot be one that ``--ignore`` leaves out.
        """
        for option, names in named.items():
            self._require_columns(option, names)
        target = target or self.target
        if target is None:
            raise Mistake(
                f"Which column of {self.path} is the target? Pass --target with one of "
                f"{list_names(self.names)}."
            )
        if target not in self.names:
            raise Mistake(
                f"{self.path} has no column {target!r}. Pass --target with one of "
                f"{list_names(self.names)}."
            )
        if target in named.get("--ignore", ()):
            raise Mistake(
                f"--ignore leaves {target!r} out, which is the target. Name another column with "
                "--ignore, or with --target."
            )
        return target

    def _require_columns(self, option: str, names: Sequence[str]) -> None:
        """Raise a mistake unless the table has the columns that an option names."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise Mistake(
                f"{self.path} has no column {list_names(unknown)}. Pass {option} with one of "
                f"{list_names(self.names)}."
            )


def read_table(path: str, csv: Mapping[str, Any]) -> Table:
    """Open a file or a folder of files whose endings tell their format.

    Parameters
    ----------
    path : str
        The file or folder.
    csv : mapping
        What is known of how CSV files are written: the fields of `CsvFormat`.
    """
    return Table(Path(path), open_files(path, CsvFormat(**csv)))


@dataclass(frozen=True)
class Expected:
    """The table that a model was fitted to: its columns, its target, and what was left out."""

    names: list[str]
    target: str | None = None
    ignored: tuple[str, ...] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    strays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decimal: str = "."

    def read(self, path: str, csv: Mapping[str, Any]) -> Table:
        """Open a table that is written like the one of the fit where it does not tell itself."""
        like = {"dates": self.dates, "strays": self.strays, "likely": self.decimal}
        return read_table(path, {**csv, **like})

    def comparison_target(self, table: Table, named: str | None) -> str:
        """Return the column to compare predictions with."""
        target = named or self.target or table.target
        if target is None or target not in table.names:
            raise Mistake(
                f"{table.path} has no column {target or 'target'!r} to compare with; it has "
                f"{list_names(table.names)}. Pass --target."
            )
        return target

    def check(self, table: Table, by_name: bool, target: str | None = None) -> None:
        """Raise a mistake unless a table has the columns of the first one."""
        known = {self.target, target, *self.ignored, *table.index}
        present = [name for name in table.names if name in self.names or name not in known]
        missing = [name for name in self.names if name not in present]
        if missing:
            raise Mistake(
                f"{table.path} lacks {list_names(missing)}. The model takes "
                f"{list_names(self.names)}."
            )
        extra = [name for name in present if name not in self.names]
        if extra and not by_name:
            raise Mistake(
                f"{table.path} has columns that the model does not know: {list_names(extra)}. "
                "Remove them, or pass --by-name to leave them out."
            )
        if present != self.names and not by_name:
            raise Mistake(
                f"The columns of {table.path} are in another order than when the model was fitted "
                f"({list_names(self.names)}). Reorder them, or pass --by-name."
            )


def list_names(names: Sequence[str]) -> str:
    """Return names as an error shows them: the first ten, and how many more there are."""
    return cut([repr(name) for name in names])


def cut(texts: Sequence[str]) -> str:
    """Return the first ten of some texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

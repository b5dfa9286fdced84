"""One pass over a table before a fit: what is in its columns, and all that is wrong at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.columns import MAX_CATEGORIES, as_numbers, kind_of
from polyadic.cli.errors import Mistake
from polyadic.cli.tables import Table, list_names
from polyadic.sources.files.sniff import is_number

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([,.' ])\d{3}(\1\d{3})*([.,]\d+)?")
_LEAST_ROWS_OF_IDS = 20
_MOST_IDS = 100_000


@dataclass
class ColumnSurvey:
    """What was seen of a column; the first row is row 1."""

    name: str
    kind: str
    rows: int = 0
    gaps: int = 0
    first_gap: int = 0
    first_infinite: int = 0
    texts: dict[str, int] = field(default_factory=dict)
    n_numbers: int = 0
    monotone: bool = True
    last: float = np.nan
    direction: float = 0.0
    whole: list[NDArray[np.float64]] | None = field(default_factory=list)

    def add(self, values: Any) -> None:
        """Look at more rows."""
        if self.kind == "empty":
            self.kind = kind_of(values.type)
        gaps = np.asarray(values.is_null())
        self.gaps += int(gaps.sum())
        self.first_gap = self.first_gap or self._first_row(gaps)
        if self.kind in ("number", "flag"):
            self._add_numbers(as_numbers(values))
        if self.kind == "category":
            self._add_texts(values.to_pylist())
        self.rows += len(values)

    def _first_row(self, found: NDArray[np.bool_]) -> int:
        """Return the number of the first of more rows that is so; 0 where none is."""
        return self.rows + int(np.argmax(found)) + 1 if found.any() else 0

    def _add_numbers(self, values: NDArray[np.float64]) -> None:
        self.first_infinite = self.first_infinite or self._first_row(np.isinf(values))
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.diff(values, prepend=self.last)[0 if self.rows else 1 :]
        if len(steps) and self.monotone:
            self.direction = self.direction or float(np.sign(steps[0]))
            self.monotone = bool((np.sign(steps) == self.direction).all() and self.direction)
        self.last = float(values[-1]) if len(values) else self.last
        if self.whole is not None:
            few = self.rows + len(values) <= _MOST_IDS
            with np.errstate(invalid="ignore"):
                integers = self.kind == "number" and bool((values == np.round(values)).all())
            self.whole = [*self.whole, values] if few and integers else None

    def _add_texts(self, values: list[str | None]) -> None:
        for place, value in enumerate(values):
            if value is None:
                continue
            if is_number(value):
                self.n_numbers += 1
            if len(self.texts) <= self.rows + len(values):
                self.texts.setdefault(value, self.rows + place + 1)

    @property
    def is_empty(self) -> bool:
        """Whether there is no value at all."""
        return self.gaps == self.rows

    @property
    def is_like_an_id(self) -> bool:
        """Whether values name rows rather than measure them."""
        if self.rows < _LEAST_ROWS_OF_IDS or self.gaps:
            return False
        if self.kind == "category":
            return len(self.texts) == self.rows
        if self.kind != "number":
            return False
        return self.monotone or (
            self.whole is not None and len(np.unique(np.concatenate(self.whole))) == self.rows
        )

    def strays(self) -> list[str]:
        """Return the texts that are not numbers."""
        return [text for text in self.texts if not is_number(text)]

    def example(self) -> str:
        """Return the column with a row that is text, rather than a number where there are any."""
        text = (self.strays() or list(self.texts))[0]
        return f"{self.name!r} (row {self.texts[text]} is {text!r})"

    def has_thousands(self, decimal: str) -> bool:
        """Return whether the texts are numbers with separators of thousands.

        With a decimal comma a point is one, although "340.399" is a number to others.
        """
        pointed = [text for text in self.texts if "." in text] if decimal == "," else []
        if pointed and not self.strays():
            return all(_THOUSANDS.fullmatch(text) for text in pointed)
        return self.matches(_THOUSANDS.fullmatch)

    def has_decimal_commas(self, decimal: str) -> bool:
        """Return whether the texts would be numbers with a comma for the decimal point."""
        return decimal == "." and self.matches(_has_decimal_comma)

    def matches(self, is_so: Callable[[str], Any]) -> bool:
        """Return whether all texts that are not numbers are so."""
        return bool(self.strays()) and all(is_so(text) for text in self.strays())


@dataclass(frozen=True)
class Survey:
    """All columns of a table."""

    table: Table
    columns: dict[str, ColumnSurvey]
    target: str

    @classmethod
    def of(cls, table: Table, batches: Iterable[Any], names: Sequence[str], target: str) -> Survey:
        """Look at all rows of the inputs and the target."""
        columns: dict[str, ColumnSurvey] = {}
        for batch in batches:
            for name in [*names, target]:
                values = batch.column(name)
                columns.setdefault(name, ColumnSurvey(name, kind_of(values.type))).add(values)
        if not columns or not columns[target].rows:
            raise table.explain_no_rows()
        return cls(table, columns, target)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns[self.target].rows

    @property
    def _has_decimal_commas(self) -> bool:
        """Whether commas are decimal marks in some column beyond doubt."""
        mark = self.table.csv.decimal
        return any(
            column.has_decimal_commas(mark) and not column.has_thousands(mark)
            for column in self.columns.values()
        )

    def ids(self, kept: Sequence[str]) -> list[str]:
        """Return the inputs that look like row numbers or names of rows."""
        return [
            name
            for name, column in self.columns.items()
            if name not in (*kept, self.target) and column.is_like_an_id
        ]

    def check(self, encode: bool, missing: str) -> None:
        """Raise a mistake that names every problem of the table at once, with its remedy."""
        found = _Problems()
        for name, column in self.columns.items():
            is_target = name == self.target
            self._check_kind(column, encode and not is_target, found, is_target)
            encoded_gap = missing == "mean" and column.kind == "category"
            if column.gaps and not column.is_empty and (missing == "error" or encoded_gap):
                told = f"{column.gaps} row{'s' * (column.gaps > 1)}, first row {column.first_gap}"
                remedy = "Pass --missing mean to fill gaps in, or --missing drop to leave such "
                remedy += "rows out."
                if encoded_gap:
                    remedy = "Text has no mean: pass --missing drop, or --ignore NAME."
                found.add("missing values in", _name_column(column, is_target, told), remedy)
            if column.first_infinite and missing != "drop":
                told = f"row {column.first_infinite}"
                remedy = "Pass --missing drop to leave rows with infinite values out."
                found.add("infinite values in", _name_column(column, is_target, told), remedy)
        found.tell(f"{self.table.path}")

    def _check_kind(
        self, column: ColumnSurvey, encode: bool, found: _Problems, is_target: bool
    ) -> None:
        """Note what is wrong with the type of a column."""
        named = f"the target {column.name!r}" if is_target else repr(column.name)
        ignore = "Pass --ignore NAME to leave a column out."
        if column.is_empty:
            found.add("no values in (it is empty)", named, ignore)
        elif column.kind == "category":
            self._check_text(column, encode, found, is_target)
        elif column.kind == "date" and not encode:
            remedy = "Pass --encode to make days of dates, or --ignore NAME to leave a column out."
            found.add("dates in", named, "The target must be numbers." if is_target else remedy)
        elif column.kind not in ("number", "flag", "date"):
            found.add(f"a column {column.kind}:", named, ignore)

    def _check_text(
        self, column: ColumnSurvey, encode: bool, found: _Problems, is_target: bool
    ) -> None:
        """Note what is wrong with a column of text."""
        named = f"the target {column.example()}" if is_target else column.example()
        if column.has_thousands(self.table.csv.decimal):
            if self._has_decimal_commas:
                remedy = "Remove those that separate thousands, and keep those that are decimals."
                found.add("commas of thousands or of decimals in", named, remedy)
            else:
                remedy = "Remove the separators from these numbers: they are not decimal marks."
                found.add("thousands separators in", named, remedy)
        elif column.has_decimal_commas(self.table.csv.decimal):
            found.add("decimal commas in", named, "Pass --decimal ','.")
        elif self.table.csv.decimal == "," and column.n_numbers and not column.strays():
            found.add("decimal points in", named, "Write all numbers with one decimal mark.")
        elif encode and len(column.texts) <= MAX_CATEGORIES:
            return
        elif encode:
            told = f"{column.name!r} ({len(column.texts)} of them, for example {_first(column)!r})"
            remedy = f"At most {MAX_CATEGORIES} can be encoded: pass --ignore NAME."
            found.add("too many different texts in", told, remedy)
        else:
            strays = column.strays()
            if column.n_numbers and len(strays) == 1:
                found.hint(f"If {strays[0]!r} stands for a missing value, pass --na {strays[0]!r}.")
            remedy = "Pass --encode to make one input of each category, or --ignore NAME to leave "
            remedy += "a column out."
            found.add("text in", named, "The target must be numbers." if is_target else remedy)


@dataclass
class _Problems:
    """What is wrong, by kind, and what to do about it."""

    found: dict[str, list[str]] = field(default_factory=dict)
    remedies: list[str] = field(default_factory=list)

    def add(self, kind: str, what: str, remedy: str) -> None:
        self.found.setdefault(kind, []).append(what)
        self.hint(remedy)

    def hint(self, remedy: str) -> None:
        if remedy not in self.remedies:
            self.remedies.append(remedy)

    def tell(self, path: str) -> None:
        """Raise a mistake if anything was found."""
        if self.found:
            parts = [f"{kind} {_cut(names)}" for kind, names in self.found.items()]
            raise Mistake(f"{path} has {'; '.join(parts)}. {' '.join(self.remedies)}")


def _cut(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _name_column(column: ColumnSurvey, is_target: bool, told: str) -> str:
    return f"{'the target ' * is_target}{column.name!r} ({told})"


def _first(column: ColumnSurvey) -> str:
    return next(iter(column.texts))


def _has_decimal_comma(text: str) -> bool:
    return is_number(text.replace(",", ".", 1))


def doubtful_commas(table: Table, names: Sequence[str]) -> str | None:
    """Return a warning where --decimal ',' may have read thousands as decimals."""
    if table.csv.decimal != ",":
        return None
    found = {
        name: commas[0]
        for file in table.files
        for name, texts in file.first_texts(names).items()
        if (commas := [text for text in texts if "," in text])
        and all(re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", text) for text in commas)
    }
    if not found:
        return None
    name, text = next(iter(found.items()))
    return (
        f"every comma in {list_names(list(found))} has three digits after it, such as in "
        f"{text!r}, and is read as a decimal. If the comma separates thousands, remove it from "
        f"{name!r} first."
    )

"""How any table becomes rows of numbers.

    table ─► Survey: what each column holds, its levels and gaps; those of pieces add up
               └─► Schema: one Column each, fixed from then on
    table ─► Schema.encode ─► Encoded: an array of inputs, and what the fit had not seen

An input is a number, NaN where there is a gap, or a category: the code of its level, 0 for the
most frequent one, the number of levels for one that the fit did not see, NaN for a gap.
`columns.py` says how one column is read, `dates.py` what a date becomes, and `survey.py` looks at
training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.inputs import Inputs
from polyadic.sources.columns import (
    Kind,
    Level,
    Table,
    Values,
    is_gap,
    join_columns,
    read_numbers,
)
from polyadic.sources.dates import date_part

COLUMN_KINDS = ("number", "category", "order", "date", "gaps")


class TableWarning(UserWarning):
    """Something about a table that its owner should know, but that does not stop anything."""


@dataclass(frozen=True)
class Column:
    """What a fit took one column for.

    Parameters
    ----------
    name : str
        Of the column; x0, x1, … where columns have none.
    kind : {"number", "category", "order", "date", "gaps"}
        What it holds; of nothing but gaps nothing was learned, and all that comes is a gap.
    levels : tuple
        Of a category, the most frequent one first, or of an order, the least one first.
    parts : tuple of str
        Of a date: time itself, and those of day of year, weekday and time of day that vary.
    zone : str, optional
        Time zone of a date.
    n_gaps : int
        Gaps in the training rows.
    """

    name: str
    kind: Kind
    levels: tuple[Level, ...] = ()
    parts: tuple[str, ...] = ()
    zone: str | None = None
    n_gaps: int = 0

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs that the column becomes."""
        if self.kind != "date":
            return (self.name,)
        return tuple(f"{self.name}: {part}" if part else self.name for part in self.parts)

    @property
    def n_levels(self) -> int:
        """Number of levels, 0 for what is not a category."""
        return len(self.levels) if self.kind == "category" else 0

    @property
    def has_text(self) -> bool:
        """Whether levels are text."""
        return bool(self.levels) and isinstance(self.levels[0], str)

    def encode(self, values: Values, label: str) -> NDArray[np.float64]:
        """Return the inputs that the values of this column become, a column each."""
        if self.kind == "gaps" or values.gaps.all():  # nothing says of what kind they are
            nothing = np.full(len(values.gaps), np.nan)
            return np.column_stack([date_part(nothing, part) for part in self.parts or ("",)])
        if self.kind == "date":
            self._check_date(values, label)
            assert values.array is not None
            return np.column_stack([date_part(values.array, part) for part in self.parts])
        if self.kind == "number":
            return _numbers(values, label)[:, None]
        return self._look_up(values, label)[:, None]

    def _check_date(self, values: Values, label: str) -> None:
        if values.kind != "date":
            raise _retyped(label, "dates", values, "pandas.to_datetime(X[name])")
        if (values.zone is None) != (self.zone is None):
            now, then = values.zone or "no time zone", self.zone or "no time zone"
            raise ValueError(
                f"`X` must have times with a zone where the fit had one, but {label} has {now} and "
                f"had {then}. Use X[name].dt.tz_localize({self.zone!r})."
            )

    def _look_up(self, values: Values, label: str) -> NDArray[np.float64]:
        if values.kind == "date" or _holds_text(values) != self.has_text:
            remedy = "X[name].astype(str)" if self.has_text else "X[name].astype(float)"
            raise _retyped(label, "text" if self.has_text else "numbers", values, remedy)
        # An order has no place for what it does not know, so that is a gap.
        unseen = len(self.levels) if self.kind == "category" else np.nan
        codes = {level: code for code, level in enumerate(self.levels)}
        found = (codes.get(item, unseen) for item in values.levels)
        encoded = np.fromiter(found, dtype=np.float64, count=len(values.gaps))
        encoded[values.gaps] = np.nan
        return encoded


def _numbers(values: Values, label: str) -> NDArray[np.float64]:
    """Return the values of a column of numbers, or of a category whose levels are numbers."""
    if values.kind == "date" or _holds_text(values):
        raise _retyped(label, "numbers", values, "pandas.to_numeric(X[name])")
    array = values.array
    if array is None:
        pairs = zip(values.levels, values.gaps.tolist(), strict=True)
        array = np.array([np.nan if gap else float(item) for item, gap in pairs])
    return _without_infinity(array, label)


def is_plain(X: Any) -> bool:
    """Whether a table is an array of numbers, which needs no reading."""
    return isinstance(X, np.ndarray) and X.dtype.kind in "biuf"


def as_numbers(X: Any) -> NDArray[Any] | None:
    """Return a table that holds nothing but numbers as an array; None for any other."""
    return X if is_plain(X) else read_numbers(X)


def count_gaps(X: NDArray[Any], names: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Return the number of gaps in each column of an array; raise where it has infinity."""
    n_gaps = np.zeros(X.shape[1], dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = X.sum(axis=0, dtype=np.float64)  # finite where all numbers are
    for place in np.flatnonzero(~np.isfinite(sums)).tolist():
        label = f"column {place}" if names is None else f"column {names[place]!r}"
        column = _without_infinity(X[:, place], label)
        n_gaps[place] = np.count_nonzero(np.isnan(column))
    return n_gaps


def same_gaps(X: NDArray[Any], n_gaps: Any = 1) -> NDArray[Any]:
    """Return an array whose gaps are all the same NaN: by their bits, which rows are hashed by."""
    return np.where(np.isnan(X), np.nan, X) if np.any(n_gaps) else X


def _without_infinity(array: NDArray[np.float64], label: str) -> NDArray[np.float64]:
    if np.isinf(array).any():
        row = int(np.argmax(np.isinf(array)))
        raise ValueError(
            f"Input X contains infinity: {label} is {array[row]:g} in row {row}. Put NaN there, "
            "which is a gap, or a number."
        )
    return array


def _holds_text(values: Values) -> bool:
    if values.items is None:
        return False
    there = (item for item in values.items if not is_gap(item))
    return isinstance(next(there, None), str)


def _retyped(label: str, expected: str, values: Values, remedy: str) -> TypeError:
    now = "dates" if values.kind == "date" else "text" if _holds_text(values) else "numbers"
    example = next((item for item in values.levels if not is_gap(item)), None)
    shown = "" if values.kind == "date" else f", such as {example!r}"
    return TypeError(
        f"`X` must hold in each column what it held in the fit, but {label} held {expected} and "
        f"now holds {now}{shown}. Use {remedy}."
    )


@dataclass(frozen=True)
class Surprises:
    """How many levels and gaps of each column the fit had not seen; those of pieces add up."""

    levels: tuple[int, ...]
    gaps: tuple[int, ...]

    def __add__(self, other: Surprises) -> Surprises:
        return Surprises(
            tuple(a + b for a, b in zip(self.levels, other.levels, strict=True)),
            tuple(a + b for a, b in zip(self.gaps, other.gaps, strict=True)),
        )

    def message(self, schema: Schema) -> str | None:
        """Return what to tell about them; None where there are none."""
        had_none = [column.kind == "gaps" for column in schema.columns]
        levels = [0 if none else n for n, none in zip(self.levels, had_none, strict=True)]
        values = [n if none else 0 for n, none in zip(self.levels, had_none, strict=True)]
        names = [column.name for column in schema.columns]
        found = [
            (what, fate, [f"{n} in {name!r}" for n, name in zip(counts, names, strict=True) if n])
            for what, fate, counts in (
                ("levels that the fit did not see", "predicted as the average level", levels),
                ("gaps where it had none", "predicted as an average value", self.gaps),
                ("values where it had none", "left out", values),
            )
        ]
        told = [f"{what} ({_some(each)}), which are {fate}" for what, fate, each in found if each]
        return f"The rows to predict have {'; and '.join(told)}." if told else None

    def warn(self, schema: Schema, stacklevel: int = 2) -> None:
        """Warn once about all of them."""
        message = self.message(schema)
        if message is not None:
            warnings.warn(message, TableWarning, stacklevel=stacklevel)


def _some(texts: Sequence[str], most: int = 10) -> str:
    more = [f"and {len(texts) - most} more columns"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


@dataclass(frozen=True)
class Encoded:
    """Rows as inputs, and what in them the fit had not seen."""

    X: NDArray[np.float64]
    surprises: Surprises


@dataclass(frozen=True)
class Schema:
    """What a fit took each column of its table for, and how rows become numbers by that.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the table.
    has_names : bool
        Whether the table had names of columns.
    is_whole : bool
        Whether rows must be numbers without gaps, as in a fit to named feature maps.

    Examples
    --------
    >>> import pandas as pd
    >>> from polyadic.sources.survey import Survey
    >>> frame = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> schema = Survey.of(frame).schema()
    >>> schema.inputs
    Inputs(names=('size', 'colour'), n_levels=(0, 2))
    >>> schema.encode(frame).X
    array([[ 1.,  0.],
           [nan,  1.],
           [ 3.,  0.]])
    """

    columns: tuple[Column, ...]
    has_names: bool = True
    is_whole: bool = False

    @classmethod
    def of_numbers(cls, names: Sequence[str] | None, n_columns: int, n_gaps: Any = None) -> Schema:
        """Return the schema of columns that are all numbers."""
        found = _plain_names(names, n_columns)
        gaps = [0] * n_columns if n_gaps is None else [int(n) for n in n_gaps]
        columns = [Column(name, "number", n_gaps=n) for name, n in zip(found, gaps, strict=True)]
        return cls(tuple(columns), has_names=names is not None)

    @property
    def inputs(self) -> Inputs:
        """The inputs that the columns become."""
        pairs = [(name, each.n_levels) for each in self.columns for name in each.input_names]
        names, n_levels = zip(*pairs, strict=True)
        return Inputs(names, n_levels)

    @property
    def is_numeric(self) -> bool:
        """Whether every column is a number, and so the table an array."""
        return all(column.kind == "number" for column in self.columns)

    def label(self, place: int) -> str:
        """Return what an error calls a column."""
        return f"column {self.columns[place].name!r}" if self.has_names else f"column {place}"

    def encode(self, X: Any) -> Encoded:
        """Return the inputs of some rows.

        Parameters
        ----------
        X : data frame of pandas or Polars, Arrow table, or array of two dimensions
            With the columns of the fit.

        Returns
        -------
        encoded : Encoded
            An array of doubles, and counts of what the fit had not seen.
        """
        table = Table(X)
        self.check_columns(table.names, len(table))
        numbers = as_numbers(X) if self.is_numeric else None
        if numbers is not None:
            return self.encode_numbers(numbers)
        parts, unseen, gaps = [], [], []
        for place, column in enumerate(self.columns):
            values = table.read(place, column.zone, as_text=column.has_text)
            part = column.encode(values, self.label(place))
            n_gaps = int(np.count_nonzero(values.gaps))
            self._require_whole(n_gaps, place, values.gaps)
            parts.append(part)
            gaps.append(0 if column.n_gaps else n_gaps)
            unseen.append(_count_unseen(column, part, n_gaps))
        surprises = Surprises(tuple(unseen), tuple(gaps))
        return Encoded(same_gaps(join_columns(parts)), surprises)

    def encode_numbers(self, X: NDArray[Any]) -> Encoded:
        """Return an array of numbers as it is, and what the fit had not seen."""
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        names = [column.name for column in self.columns]
        n_gaps = count_gaps(X, names if self.has_names else None)
        for place in np.flatnonzero(n_gaps).tolist():
            self._require_whole(int(n_gaps[place]), place, np.isnan(X[:, place]))
        return Encoded(same_gaps(X, n_gaps), self.unseen_gaps(n_gaps.tolist()))

    def unseen_gaps(self, n_gaps: Sequence[int]) -> Surprises:
        """Return which of the gaps of each column are in one that had none in the fit."""
        pairs = zip(n_gaps, self.columns, strict=True)
        found = tuple(0 if column.n_gaps else n for n, column in pairs)
        return Surprises((0,) * len(found), found)

    def _require_whole(self, n_gaps: int, place: int, gaps: NDArray[np.bool_]) -> None:
        if self.is_whole and n_gaps:
            row = int(np.argmax(gaps))
            raise ValueError(
                f"Input X contains NaN: {self.label(place)} has {n_gaps} gaps, the first in row "
                f'{row}, and named feature maps cannot take them. Use feature_maps="auto", or '
                "fill them in."
            )

    def whole(self) -> Schema:
        """Return the schema of a fit that takes numbers only; raise where there is more."""
        for place, column in enumerate(self.columns):
            if column.kind not in ("number", "gaps"):
                held = {"category": "categories", "order": "ordered categories", "date": "dates"}
                raise ValueError(
                    f"Named feature maps need numbers, but {self.label(place)} holds "
                    f'{held[column.kind]}. Use feature_maps="auto", or encode the column.'
                )
        return replace(self, is_whole=True)

    def with_gaps(self, n_gaps: Sequence[int], n_rows: int) -> Schema:
        """Return the schema with the gaps of each input in so many rows that a fit learns from."""
        found = dict(zip(self.inputs.names, n_gaps, strict=True))
        columns = []
        for each in self.columns:
            here = int(found[each.name])
            kind: Kind = "gaps" if here == n_rows else each.kind
            columns.append(replace(each, kind=kind, n_gaps=max(each.n_gaps, here)))
        return replace(self, columns=tuple(columns))

    def check_columns(self, names: Sequence[str] | None, n_columns: int) -> None:
        """Raise unless a table has the columns of the fit, in their order."""
        expected = [column.name for column in self.columns]
        if names is not None and self.has_names and list(names) != expected:
            raise ValueError(explain_columns(list(names), expected))
        if n_columns != len(expected):
            raise ValueError(
                f"`X` must have the {len(expected)} columns of the fit, got {n_columns}. Pass "
                "those columns."
            )


def explain_columns(names: list[str], expected: list[str]) -> str:
    """Return how the columns of a table differ from those of the fit, and what to do."""
    known, present = set(expected), set(names)
    missing = [repr(name) for name in expected if name not in present]
    extra = [repr(name) for name in names if name not in known]
    if missing:
        also = f" It has {_some(extra)} instead." if extra else ""
        return (
            f"`X` must have the columns of the fit, but {_some(missing)} is missing.{also} Add or "
            "rename it; a column of gaps is predicted as the average."
        )
    if extra:
        return (
            f"`X` must have no other columns than the fit, but has {_some(extra)}. Leave it out: "
            "X[model.feature_names_in_]."
        )
    place = next(i for i, (a, b) in enumerate(zip(names, expected, strict=True)) if a != b)
    return (
        f"`X` must have its columns in the order of the fit, but column {place} is "
        f"{names[place]!r} and was {expected[place]!r}. Pass X[model.feature_names_in_]."
    )


def _count_unseen(column: Column, encoded: NDArray[np.float64], n_gaps: int) -> int:
    if column.kind == "category":
        return int(np.count_nonzero(encoded == len(column.levels)))
    if column.kind in ("order", "gaps"):
        return int(np.count_nonzero(np.isnan(encoded))) - n_gaps
    return 0


def _plain_names(names: Sequence[str] | None, n_columns: int) -> list[str]:
    return [f"x{place}" for place in range(n_columns)] if names is None else list(names)

"""What one pass over a table tells about its columns; surveys of pieces add up.

A survey of training rows becomes the `Schema` of a fit.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.columns import (
    Kind,
    Level,
    Table,
    Values,
    is_gap,
    mixed_types,
    plain_level,
)
from polyadic.sources.dates import DateRange
from polyadic.sources.schema import Column, Schema, count_gaps, is_plain

FROM_DTYPE = "from_dtype"
MOST_LEVELS = 100_000  # of a category; the others are the average level
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}($|[T ]\d)")
_ID_ROWS = 20  # from so many rows on, a column of text without two alike is worth a word


@dataclass(frozen=True)
class ColumnSurvey:
    """What is known of one column.

    Parameters
    ----------
    label : str
        What an error calls it.
    kind : {"number", "category", "order", "date", "gaps"}
        What it holds.
    n_rows, n_gaps : int
        How many rows there are, and how many of them have nothing.
    counts : dict
        How often each level of a category is there; where rows have weights, their sum.
    order : tuple
        Levels of an ordered category.
    zone : str, optional
        Time zone of dates.
    dates : DateRange, optional
        Of dates.
    """

    label: str
    kind: Kind
    n_rows: int
    n_gaps: int
    counts: dict[Level, float] = field(default_factory=dict)
    order: tuple[Level, ...] = ()
    zone: str | None = None
    dates: DateRange | None = None

    @classmethod
    def of(
        cls,
        values: Values,
        label: str,
        weight: NDArray[np.float64] | None = None,
        *,
        is_named: bool,
        takes_text: bool,
    ) -> ColumnSurvey:
        """Sum up a column; one that is named as a category is one."""
        n_rows, n_gaps = len(values.gaps), int(np.count_nonzero(values.gaps))
        if values.kind == "gaps" or n_gaps == n_rows:
            return cls(label, "gaps", n_rows, n_gaps)
        if values.kind == "date":
            if is_named:
                raise ValueError(
                    f"`categorical_features` must name columns of text or numbers, but {label} "
                    "holds dates. Leave it out, or make text of it."
                )
            assert values.array is not None
            dates = DateRange.of(values.array)
            return cls(label, "date", n_rows, n_gaps, zone=values.zone, dates=dates)
        if values.kind == "number" and not is_named:
            return cls(label, "number", n_rows, n_gaps)
        if values.kind == "order" and not is_named:
            return cls(label, "order", n_rows, n_gaps, order=values.order)
        counts = _count_levels(values, label, weight)
        if not takes_text:
            if _has_text(counts):
                raise ValueError(
                    f"`categorical_features` must not be None where columns are text, but {label} "
                    f'holds {next(iter(counts))!r}. Use categorical_features="from_dtype".'
                )
            return cls(label, "number", n_rows, n_gaps)
        return cls(label, "category", n_rows, n_gaps, counts)

    def __add__(self, other: ColumnSurvey) -> ColumnSurvey:
        n_rows, n_gaps = self.n_rows + other.n_rows, self.n_gaps + other.n_gaps
        if "gaps" in (self.kind, other.kind):
            known = other if self.kind == "gaps" else self
        else:
            known = self
            self._require_same(other)
        counts = dict(self.counts)
        for level, count in other.counts.items():
            counts[level] = counts.get(level, 0) + count
        if len(counts) > 2 * MOST_LEVELS:  # so that ids of any number of rows fit in memory
            counts = {level: counts[level] for level in _by_count(counts)}
        dates = known.dates
        if self.dates is not None and other.dates is not None:
            dates = self.dates + other.dates
        return ColumnSurvey(
            self.label, known.kind, n_rows, n_gaps, counts, known.order, known.zone, dates
        )

    def _require_same(self, other: ColumnSurvey) -> None:
        """Raise unless both hold the same kind of thing."""
        if self.kind != other.kind or _has_text(self.counts) != _has_text(other.counts):
            raise TypeError(
                f"`X` must have values of one kind in each column, but {self.label} holds "
                f"{self._holds()} in one piece of the table and {other._holds()} in another. Make "
                "text or numbers of all of them."
            )
        if self.order != other.order:
            raise ValueError(
                f"An ordered category must have one order, but {self.label} has the levels "
                f"{list(self.order)} in one piece of the table and {list(other.order)} in another. "
                "Give both the same levels."
            )
        if (self.zone is None) != (other.zone is None):
            raise ValueError(
                f"Times of a column must all have a time zone, or none of them, but {self.label} "
                "has both. Give all of them one."
            )

    def _holds(self) -> str:
        example = next(iter(self.counts), None)
        return f"{self.kind}s" if example is None else f"levels such as {example!r}"

    def column(self, name: str) -> Column:
        """Return what a fit takes the column for."""
        if self.kind == "category":
            return Column(name, "category", tuple(_by_count(self.counts)), n_gaps=self.n_gaps)
        if self.kind == "order":
            return Column(name, "order", self.order, n_gaps=self.n_gaps)
        if self.dates is not None:
            parts = self.dates.parts()
            return Column(name, "date", parts=parts, zone=self.zone, n_gaps=self.n_gaps)
        return Column(name, "number", n_gaps=self.n_gaps)

    @property
    def is_id(self) -> bool:
        """Whether every row has another text, from which nothing can be learned."""
        there = self.n_rows - self.n_gaps
        return there >= _ID_ROWS and len(self.counts) == there and _has_text(self.counts)

    @property
    def looks_like_dates(self) -> bool:
        """Whether all levels are text such as 2020-01-31."""
        return bool(self.counts) and all(_DATE.match(str(level)) for level in self.counts)

    def similar_levels(self) -> tuple[Level, Level] | None:
        """Return two levels that differ in nothing but case and white space, if there are any."""
        seen: dict[str, Level] = {}
        for level in self.counts if _has_text(self.counts) else ():
            plain = "".join(str(level).split()).casefold()
            if plain in seen:
                return seen[plain], level
            seen[plain] = level
        return None


@dataclass(frozen=True)
class Survey:
    """What one pass over a piece of a table tells; surveys of pieces add up.

    Parameters
    ----------
    names : tuple of str, optional
        Of the columns.
    columns : tuple of ColumnSurvey
        What is known of each.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> survey = Survey.of(frame[:2]) + Survey.of(frame[2:])
    >>> [(column.name, column.kind, column.levels) for column in survey.schema().columns]
    [('size', 'number', ()), ('colour', 'category', ('red', 'blue'))]
    """

    names: tuple[str, ...] | None
    columns: tuple[ColumnSurvey, ...]

    @classmethod
    def of(
        cls,
        X: Any,
        categorical_features: Any = FROM_DTYPE,
        weight: NDArray[np.float64] | None = None,
    ) -> Survey:
        """Sum up a piece of a table.

        Parameters
        ----------
        X : data frame of pandas or Polars, Arrow table, or array of two dimensions
            The piece.
        categorical_features : "from_dtype", None, or list of names, places or bool
            Columns that are categories besides those of text or of a category's data type; with
            None there are none at all.
        weight : ndarray, optional
            How often each row counts.

        Returns
        -------
        survey : Survey
            What is known of its columns.
        """
        table = Table(X)
        named = named_columns(categorical_features, table.names, len(table))
        takes_text = categorical_features is not None
        columns = [
            ColumnSurvey.of(
                table.read(place, as_text=named[place]),
                table.label(place),
                weight,
                is_named=named[place],
                takes_text=takes_text,
            )
            for place in range(len(table))
        ]
        return cls(table.names, tuple(columns))

    def __add__(self, other: Survey) -> Survey:
        if (self.names, len(self.columns)) != (other.names, len(other.columns)):
            raise ValueError("Pieces of a table must have the same columns, got others.")
        columns = [a + b for a, b in zip(self.columns, other.columns, strict=True)]
        return Survey(self.names, tuple(columns))

    def schema(self) -> Schema:
        """Return what a fit takes the columns for."""
        names = self.names or [f"x{place}" for place in range(len(self.columns))]
        columns = [each.column(name) for each, name in zip(self.columns, names, strict=True)]
        return Schema(tuple(columns), has_names=self.names is not None)

    def doubts(self) -> list[str]:
        """Return what about the columns their owner should look at, a sentence each."""
        told = []
        pairs = [(each.label, each.similar_levels()) for each in self.columns]
        alike = [(label, pair) for label, pair in pairs if pair is not None]
        if alike:
            label, (one, other) = alike[0]
            more = f", and in {len(alike) - 1} other columns" if len(alike) > 1 else ""
            told.append(
                f"Levels that differ only in case or white space are different levels: {one!r} and "
                f"{other!r} in {label}{more}. Make them one if they mean the same."
            )
        dates = [each.label for each in self.columns if each.looks_like_dates]
        if dates:
            told.append(
                f"The text of {', '.join(dates)} looks like dates, and is taken for levels of a "
                "category. Pass dates instead: pandas.to_datetime(X[name])."
            )
        ids = [each.label for each in self.columns if each.is_id and each.label not in dates]
        if ids:
            told.append(
                f"No two rows of {', '.join(ids)} have the same text, so nothing can be learned "
                "from it. Leave it out, or make dates or numbers of it."
            )
        return told


def learn_schema(
    X: Any,
    categorical_features: Any = FROM_DTYPE,
    weight: NDArray[np.float64] | None = None,
    numbers: NDArray[Any] | None = None,
) -> tuple[Schema, list[str]]:
    """Return the schema of training rows, and what about them their owner should look at.

    `numbers` is the table as an array, where it holds nothing but numbers.
    """
    if numbers is not None:
        names = None if is_plain(X) else Table(X).names
        if not any(named_columns(categorical_features, names, numbers.shape[1])):
            return Schema.of_numbers(names, numbers.shape[1], count_gaps(numbers, names)), []
    survey = Survey.of(X, categorical_features, weight)
    return survey.schema(), survey.doubts()


def named_columns(wanted: Any, names: Sequence[str] | None, n_columns: int) -> list[bool]:
    """Return whether each column is named as a category.

    Parameters
    ----------
    wanted : "from_dtype", None, or list of names, places or bool
        What users passed.
    names : sequence of str, optional
        Of the columns.
    n_columns : int
        How many there are.

    Returns
    -------
    named : list of bool
        One for each column.
    """
    if wanted is None or (isinstance(wanted, str) and wanted == FROM_DTYPE):
        return [False] * n_columns
    array = np.asarray(wanted, dtype=object)
    kinds = {_entry_kind(item) for item in array.ravel()}
    if isinstance(wanted, str) or array.ndim != 1 or len(kinds) > 1 or None in kinds:
        raise ValueError(
            '`categorical_features` must be "from_dtype", None, or a list of names, of places or '
            f"of a bool for each column, got {wanted!r}."
        )
    if kinds == {bool}:
        if len(array) != n_columns:
            raise ValueError(
                f"`categorical_features` must have one bool for each of the {n_columns} columns, "
                f"got {len(array)}."
            )
        return [bool(item) for item in array]
    if kinds == {str} and names is None:
        raise ValueError(
            "`categorical_features` must be places or bools where columns have no names, got "
            f"{wanted!r}. Pass a data frame, or places."
        )
    known = list(names or []) if kinds == {str} else list(range(n_columns))
    named = [False] * n_columns
    for item in array:
        if item not in known:
            raise ValueError(
                f"`categorical_features` must name columns of `X`, got {item!r}. Use some of "
                f"{known if len(known) < 20 else f'the {n_columns} columns'}."
            )
        named[known.index(item)] = True
    return named


def _entry_kind(item: Any) -> type | None:
    for kind, types in ((bool, (bool, np.bool_)), (int, (int, np.integer)), (str, (str,))):
        if isinstance(item, types):
            return kind
    return None


def _count_levels(
    values: Values, label: str, weight: NDArray[np.float64] | None
) -> dict[Level, float]:
    """Return how often each level is there; raise where levels are of two kinds."""
    counts: dict[Level, float] = {}
    for level, count in _count(values.levels, weight).items():
        if not is_gap(level):
            plain = plain_level(level)
            counts[plain] = counts.get(plain, 0) + count
    texts = [level for level in counts if isinstance(level, str)]
    if texts and len(texts) < len(counts):
        raise mixed_types(label, texts[0], next(v for v in counts if not isinstance(v, str)))
    return counts


def _count(items: list[Any], weight: NDArray[np.float64] | None) -> Mapping[Any, float]:
    """Return how often each item is there; weights are counts."""
    if weight is None:
        return Counter(items)
    weights: dict[Any, list[float]] = {}
    for item, each in zip(items, weight.tolist(), strict=True):
        weights.setdefault(item, []).append(each)
    # Exact sums do not depend on the order of the rows.
    return {item: math.fsum(each) for item, each in weights.items()}


def _by_count(counts: Mapping[Level, float]) -> list[Level]:
    """Return the most frequent levels, those that are as frequent in the order of their text."""
    return sorted(counts, key=lambda level: (-counts[level], str(level)))[:MOST_LEVELS]


def _has_text(counts: Mapping[Level, float]) -> bool:
    return isinstance(next(iter(counts), None), str)

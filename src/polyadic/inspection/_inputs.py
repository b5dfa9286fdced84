"""The inputs of a model as users know them: columns, levels, gaps, and parts of dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._numbers import write_number
from polyadic.inspection._terms import Group
from polyadic.sources.columns import Level, Table, is_gap, plain_level
from polyadic.sources.dates import TIME, WEEKDAY, date_part
from polyadic.sources.schema import Column, Schema

GAP = "gap"
_MAX_LEVELS = 20  # of a category that a grid has by default
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTH = 31
_DAY = np.timedelta64(86_400_000_000, "us")


@dataclass(frozen=True)
class Input:
    """A column of the users' table, or a part of a date.

    Parameters
    ----------
    name : str
        As users know it.
    column : Column
        What the fit took the column for.
    places : tuple of int
        Where it stands among the numbers that the model sees; a date is several.
    parts : tuple of str
        Which parts of a date these are.
    """

    name: str
    column: Column
    places: Group
    parts: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        """Names of its codes: levels, or days of the week; none of a number."""
        return _DAYS if self.parts == (WEEKDAY,) else self.column.levels

    @property
    def is_time(self) -> bool:
        """Whether it is a date, and not only the weekday or the time of day."""
        return TIME in self.parts

    @property
    def takes_gaps(self) -> bool:
        """Whether it may be a gap; those of a date are gaps of time itself."""
        return self.is_time or not self.parts

    @property
    def has_gaps(self) -> bool:
        """Whether it was a gap in some of the training rows."""
        return self.takes_gaps and self.column.n_gaps > 0

    def values(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what rows have; no part of a date where there is no date."""
        own = X[:, self.places[0]]
        if not self.parts:
            return own
        time = self.places[0] - self.column.parts.index(self.parts[0])
        return np.where(np.isnan(X[:, time]), np.nan, own)

    def choose_points(self, values: NDArray[np.float64], resolution: int) -> NDArray[np.float64]:
        """Return the levels that are frequent in the fit, or a grid over values; a gap last."""
        there = values[~np.isnan(values)]
        if self.levels:
            most = _MAX_LEVELS if self.column.kind == "category" else None
            points = np.arange(len(self.levels), dtype=np.float64)[:most]
        elif len(there):
            points = np.linspace(there.min(), there.max(), resolution)
        elif self.column.kind == "gaps":
            raise ValueError(
                f"Input {self.name!r} had nothing but gaps in the training rows, so that the model "
                "does not depend on it. Leave it out of the inputs to show."
            )
        else:
            raise ValueError(
                f"`X` must have a value of {self.name!r} in some row, got nothing but gaps. Pass "
                "rows that have one, or grids=…."
            )
        return np.append(points, np.nan) if self.has_gaps else points

    def encode(self, values: NDArray[Any], argument: str) -> NDArray[np.float64]:
        """Return what the model sees of values in the users' terms, a column for each place."""
        if self.column.levels:
            points = self._find_codes(values, argument)
        elif self.is_time:
            points = self._split_times(values, argument)
        else:
            points = values.astype(np.float64)[:, None]
        if np.isinf(points).any() or (np.isnan(points).any() and not self.has_gaps):
            raise ValueError(
                f"`{argument}` must hold finite values of {self.name!r}, got NaN or infinity, "
                "which the training rows did not have. Remove these points."
            )
        return points

    def _find_codes(self, values: NDArray[Any], argument: str) -> NDArray[np.float64]:
        codes = {level: float(code) for code, level in enumerate(self.levels)}
        found = [np.nan if is_gap(item) else codes.get(plain_level(item)) for item in values]
        if None in found:
            shown = ", ".join(map(repr, self.levels[:10])) + ", …" * (len(self.levels) > 10)
            raise ValueError(
                f"`{argument}` must hold levels that the fit saw, but {self.name!r} has no level "
                f"{values[found.index(None)]!r}. Use some of {shown}."
            )
        return np.array(found, dtype=np.float64)[:, None]

    def _split_times(self, values: NDArray[Any], argument: str) -> NDArray[np.float64]:
        read = Table(values[:, None]).read(0, self.column.zone)
        if read.array is None or read.kind not in ("date", "gaps"):
            raise ValueError(
                f"`{argument}` must hold dates for {self.name!r}, got {values.tolist()[0]!r}. Pass "
                "for instance pandas.date_range(…)."
            )
        return np.column_stack([date_part(read.array, part) for part in self.parts])

    def decode(self, points: NDArray[np.float64]) -> NDArray[Any]:
        """Return the users' terms of what the model sees: levels, dates or numbers."""
        if self.column.levels:
            items = [None if np.isnan(code) else self.levels[int(code)] for code in points[:, 0]]
            return np.array([*items, None], dtype=object)[:-1]  # never an array of text
        if self.is_time:
            return as_dates(points[:, 0])
        return points[:, 0]

    def write(self, values: NDArray[np.float64]) -> list[str]:
        """Return levels, dates or numbers as text, from what the model sees."""
        if self.is_time:
            there = values[~np.isnan(values)]
            # Within a month the time of day tells values apart.
            in_days = not np.mod(there, 1).any() or np.ptp(there) > _MONTH
            unit: Any = "D" if in_days else "m"
            texts = np.datetime_as_string(as_dates(values), unit=unit).tolist()
            return [GAP if text == "NaT" else text.replace("T", " ") for text in texts]
        return [GAP if np.isnan(value) else self._write_one(value) for value in values.tolist()]

    def _write_one(self, value: float) -> str:
        if not self.levels:
            return write_number(value)
        if value >= len(self.levels):
            return "not in the fit"
        text = str(self.levels[int(value)])
        return text if text.strip() else repr(text)


def as_dates(days: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Return dates from days since 1970; a gap becomes NaT."""
    passed = np.where(np.isnan(days), 0, np.rint(days * _DAY.astype(np.int64)))
    dates = passed.astype(np.int64).astype("datetime64[us]")
    return np.where(np.isnan(days), np.datetime64("NaT", "us"), dates)


def list_columns(schema: Schema) -> list[Input]:
    """Return the columns of the table, a date as one."""
    columns, place = [], 0
    for column in schema.columns:
        places = tuple(range(place, place + len(column.input_names)))
        columns.append(Input(column.name, column, places, column.parts))
        place += len(places)
    return columns


def list_inputs(schema: Schema) -> list[Input]:
    """Return all that the model sees, each part of a date by itself."""
    return [part for column in list_columns(schema) for part in _split(column)]


def _split(whole: Input) -> list[Input]:
    parts = whole.parts or ("",)
    found = zip(whole.column.input_names, whole.places, parts, strict=True)
    return [
        Input(name, whole.column, (place,), (part,) if whole.parts else ())
        for name, place, part in found
    ]


def find_inputs(schema: Schema, inputs: Any, *, by_part: bool) -> list[tuple[Input, ...]]:
    """Return some inputs, each by itself or in a group with others.

    An entry is the place or name of a column, the name of a part of a date, or a list of them for
    what is set together.  With `by_part` the name of a date is its first part, time itself.
    """
    columns = list_columns(schema)
    if np.isscalar(inputs):
        inputs = [inputs]
    groups = [
        tuple(_find(columns, part, by_part) for part in ([entry] if np.isscalar(entry) else entry))
        for entry in inputs
    ]
    places = [place for group in groups for place in places_of(group)]
    if not places or not all(groups) or len(set(places)) < len(places):
        raise ValueError(
            f"`inputs` must name different inputs, got {inputs!r}. Name each of them once."
        )
    return groups


def places_of(group: Sequence[Input]) -> Group:
    """Return where a group stands among the numbers that the model sees."""
    return tuple(place for each in group for place in each.places)


def _find(columns: Sequence[Input], entry: Any, by_part: bool) -> Input:
    names = [column.name for column in columns]
    if isinstance(entry, str) and entry in names:
        entry = names.index(entry)
    if isinstance(entry, int | np.integer) and 0 <= entry < len(columns):
        return _split(columns[int(entry)])[0] if by_part else columns[int(entry)]
    for part in (part for column in columns for part in _split(column)):
        if part.name == entry:
            return part
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    raise ValueError(
        f"`inputs` must be among {shown}, got {entry!r}. Pass a name, or a place from 0 to "
        f"{len(names) - 1}."
    )


def encode_points(group: Sequence[Input], values: Any, argument: str) -> NDArray[np.float64]:
    """Return what the model sees of values that users want for a group, a row for each."""
    plain = not any(each.column.levels or each.is_time for each in group)
    # NumPy makes text of what stands beside text, but knows what dates are by themselves.
    by_itself = len(group) == 1 and group[0].is_time
    array = np.asarray(values, dtype=np.float64 if plain else None if by_itself else object)
    rows = array[:, None] if array.ndim == 1 and len(group) == 1 else array
    if rows.ndim != 2 or rows.shape[1] != len(group) or not len(rows):
        shape = "(n_points,)" if len(group) == 1 else f"(n_points, {len(group)})"
        raise ValueError(
            f"`{argument}` must hold values of shape {shape} for {len(group)} column"
            f"{'s' * (len(group) > 1)}, got shape {array.shape}. Pass a row for each point."
        )
    pairs = zip(group, rows.T, strict=True)
    return np.hstack([each.encode(column, argument) for each, column in pairs])

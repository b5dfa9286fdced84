"""The columns of a table as inputs of a graph, and these as the rows of numbers of a model.

    a column that holds     is an input of shape (n, 1) that has     its gaps are
    ----------------------  ---------------------------------------  -----------------------
    numbers                 numbers                                  NaN
    levels that are text    text                                     the empty text
    levels that are numbers numbers                                  NaN
    dates                   microseconds of wall time since 1970,    −2⁶³, as in NumPy
                            as whole numbers

A table of nothing but numbers is one input, X, of shape (n, D).  Inside of the graph rows lie
the other way round, an input after the other, because that is how they are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto, helper

from polyadic.export._graph import LEARNING, Graph
from polyadic.export._search import search_sorted
from polyadic.sources.columns import Table
from polyadic.sources.dates import AT_GAPS, DAY_OF_YEAR, TIME, WEEKDAY
from polyadic.sources.schema import Column, Schema

WHOLE_TABLE = "X"
_NO_TIME = np.iinfo(np.int64).min
_DAY, _HOUR = 86_400e6, 3_600e6  # in microseconds


@dataclass(frozen=True)
class Door:
    """The inputs of a graph.

    Parameters
    ----------
    schema : Schema
        What the fit took each column for.
    names : tuple of str
        Of the inputs: one for each column, or one for all of them.
    number : int
        ONNX's type of numbers.
    is_whole : bool
        Whether all columns are one input.
    """

    schema: Schema
    names: tuple[str, ...]
    number: int
    is_whole: bool = False

    @classmethod
    def of(cls, schema: Schema, number: int, taken: Sequence[str]) -> Door:
        """Return the inputs of a table; those whose name is taken get a longer one."""
        if all(_holds_numbers(column) for column in schema.columns):
            return cls(schema, (WHOLE_TABLE,), number, is_whole=True)
        names: list[str] = []
        for place, column in enumerate(schema.columns):
            name = column.name or f"x{place}"
            while name in taken or name in names:
                name += "_"
            names.append(name)
        return cls(schema, tuple(names), number)

    def describe(self) -> list[ValueInfoProto]:
        """Return name, type and shape of each input, and what its values mean."""
        columns = self.schema.columns
        if self.is_whole:
            told = "The columns of the fit: " + ", ".join(column.name for column in columns)
            shape: list[str | int | None] = ["rows", len(columns)]
            return [helper.make_tensor_value_info(WHOLE_TABLE, self.number, shape, told)]
        return [
            helper.make_tensor_value_info(name, self._type(place), ["rows", 1], _meaning(column))
            for place, (name, column) in enumerate(zip(self.names, columns, strict=True))
        ]

    def _type(self, place: int) -> int:
        column = self.schema.columns[place]
        if column.kind == "date":
            return int(TensorProto.INT64)
        return int(TensorProto.STRING) if column.has_text else self.number

    def read(self, X: Any) -> dict[str, NDArray[Any]]:
        """Return a table as the inputs of the graph."""
        table = Table(X)
        self.schema.check_columns(table.names, len(table))
        columns = [_read(table, place, column) for place, column in enumerate(self.schema.columns)]
        numbers = np.dtype(helper.tensor_dtype_to_np_dtype(self.number))
        columns = [each.astype(numbers) if each.dtype.kind == "f" else each for each in columns]
        if self.is_whole:
            return {WHOLE_TABLE: np.concatenate(columns, axis=1)}
        return dict(zip(self.names, columns, strict=True))

    def encode(self, graph: Graph, names: Sequence[str], wanted: Sequence[int]) -> str:
        """Return some inputs of the model, a row each, as doubles.

        `names` are those of the graph's inputs, one for each column or one for all of them.
        """
        owners = [
            (place, part)
            for place, column in enumerate(self.schema.columns)
            for part in range(len(column.input_names))
        ]
        columns = self.schema.columns
        places = [owners[each][0] for each in wanted]
        if len(names) == 1 and len(columns) > 1:
            table = _double(graph, names[0])
            if places != list(range(len(columns))):
                table = graph.add("Gather", table, places, axis=1)
            if not any(columns[place].levels for place in places):
                return graph.add("Transpose", table, perm=[1, 0])
            sizes = [1] * len(places)
            values = graph.add_many("Split", table, sizes, count=len(sizes), axis=1)
        else:
            values = tuple(names[place] for place in places)
        parts = [
            _encode(graph, columns[place], owners[each][1], value)
            for each, place, value in zip(wanted, places, values, strict=True)
        ]
        together = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        return graph.add("Transpose", together, perm=[1, 0])


def _holds_numbers(column: Column) -> bool:
    return column.kind != "date" and not column.has_text


def _meaning(column: Column) -> str:
    if column.kind == "date":
        zone = "" if column.zone is None else f" in {column.zone}"
        return (
            f"Microseconds of wall time{zone} since 1970, as numpy.datetime64[us] has them; "
            f"{_NO_TIME} is a gap."
        )
    if column.has_text:
        return f"One of {len(column.levels)} levels; the empty text is a gap."
    if column.levels:
        return f"One of {len(column.levels)} levels; NaN is a gap."
    return "A number; NaN is a gap."


def _read(table: Table, place: int, column: Column) -> NDArray[Any]:
    """Return a column of a table as an input of the graph has it."""
    values = table.read(place, column.zone, as_text=column.has_text)
    if column.kind == "date":
        assert values.array is not None
        times = np.where(values.gaps, 0.0, values.array).astype(np.int64)
        return np.where(values.gaps, _NO_TIME, times)[:, None]
    if column.has_text:
        pairs, empty = zip(values.levels, values.gaps.tolist(), strict=True), _empty_text(column)
        texts = ["" if gap else str(each) or empty for each, gap in pairs]
        return np.array(texts, dtype=object)[:, None]
    found = values.levels if values.array is None else values.array
    return np.array(found, dtype=np.float64)[:, None]


def _empty_text(column: Column) -> str:
    """Return what stands for an empty text that is no gap, as the graph takes it for one.

    Where the fit did not see it, another text that it did not see means the same.
    """
    if "" in column.levels:
        return ""
    text = "not seen"
    while text in column.levels:
        text += "_"
    return text


def _double(graph: Graph, value: str) -> str:
    return graph.add("Cast", value, to=TensorProto.DOUBLE)


def _encode(graph: Graph, column: Column, part: int, value: str) -> str:
    """Return an input of the model, n × 1, from a column."""
    if column.kind == "date":
        return date_part(graph, value, column.parts[part])
    if column.kind in ("number", "gaps"):  # what comes where there were gaps has no effect
        return _double(graph, value)
    unseen = float(len(column.levels)) if column.kind == "category" else np.nan
    codes = {level: float(code) for code, level in enumerate(column.levels)}
    if column.has_text:
        texts = {"": np.nan, **codes}  # unless a level is the empty text itself
        found = graph.add(
            "LabelEncoder", value, domain=LEARNING, default_float=unseen,
            keys_strings=list(texts), values_floats=list(texts.values()),
        )  # fmt: skip
        return _double(graph, found)
    return _level_codes(graph, _double(graph, value), codes, unseen)


def _level_codes(graph: Graph, value: str, codes: Mapping[Any, float], unseen: float) -> str:
    """Return the codes of levels that are numbers."""
    levels = np.array(sorted(codes), dtype=np.float64)
    row = graph.add("Transpose", value, perm=[1, 0])
    place = search_sorted(graph, row, levels[None])
    known = graph.add("Equal", graph.add("Gather", levels, place), row)
    code = graph.add("Gather", np.array([codes[level] for level in sorted(codes)]), place)
    code = graph.add("Where", known, code, unseen)
    code = graph.add("Where", graph.add("IsNaN", row), np.nan, code)
    return graph.add("Transpose", code, perm=[1, 0])


def date_part(graph: Graph, microseconds: str, part: str) -> str:
    """Return a part of wall times, as `polyadic.sources.dates.date_part` does."""
    gap = graph.add("Equal", microseconds, np.array(_NO_TIME))
    time = _double(graph, graph.add("Where", gap, np.array(0), microseconds))
    if part == TIME:
        return graph.add("Where", gap, np.nan, graph.add("Div", time, _DAY))
    return graph.add("Where", gap, AT_GAPS[part], _cyclic_part(graph, time, part))


def _cyclic_part(graph: Graph, time: str, part: str) -> str:
    days = _floored(graph, time, _DAY)
    if part == WEEKDAY:
        return _remainder(graph, graph.add("Add", days, 3.0), 7.0)  # 1970 began on a Thursday
    if part == DAY_OF_YEAR:
        return _day_of_year(graph, days)
    return graph.add("Div", _remainder(graph, time, _DAY), _HOUR)


def _floored(graph: Graph, value: str, unit: float) -> str:
    return graph.add("Floor", graph.add("Div", value, unit))


def _remainder(graph: Graph, value: str, unit: float) -> str:
    return graph.add("Sub", value, graph.add("Mul", _floored(graph, value, unit), unit))


def _day_of_year(graph: Graph, days: str) -> str:
    """Return the day of the year, the first of January being 1.

    Years are counted from the first of March, so that the day which some years have more comes
    last; 400 of them are 146,097 days.
    """
    day = _remainder(graph, graph.add("Add", days, 719_468.0), 146_097.0)
    # Without the days that leap years have more, every year has 365 of them.
    short = graph.add("Sub", day, _floored(graph, day, 1_460.0))
    short = graph.add("Add", short, _floored(graph, day, 36_524.0))
    short = graph.add("Sub", short, _floored(graph, day, 146_096.0))
    year = _floored(graph, short, 365.0)
    before = graph.add("Add", graph.add("Mul", year, 365.0), _floored(graph, year, 4.0))
    before = graph.add("Sub", before, _floored(graph, year, 100.0))
    since = graph.add("Sub", day, before)  # the first of March
    fourth, hundredth, first = (
        graph.add("Equal", _remainder(graph, year, unit), 0.0) for unit in (4.0, 100.0, 400.0)
    )
    leap = graph.add("And", fourth, graph.add("Or", graph.add("Not", hundredth), first))
    march = graph.add("Where", leap, 61.0, 60.0)
    is_next = graph.add("GreaterOrEqual", since, 306.0)
    return graph.add("Add", since, graph.add("Where", is_next, -305.0, march))

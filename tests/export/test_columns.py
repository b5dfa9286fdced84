"""Columns of tables at the door of a graph, held to what `Schema.encode` makes of them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic.sources.dates import DAY_OF_YEAR, TIME_OF_DAY, WEEKDAY
from polyadic.sources.dates import date_part as expected_part
from polyadic.sources.survey import Survey
from tests.export.graphs import run_function

pytest.importorskip("onnx")
from onnx import TensorProto

from polyadic.export._columns import Door, date_part


def encode(train, rows, number=TensorProto.DOUBLE):
    """Return rows as the graph encodes them, and as the schema of the training rows does."""
    schema = Survey.of(train).schema()
    n_gaps = np.isnan(schema.encode(train).X).sum(axis=0)
    schema = schema.with_gaps(n_gaps.tolist(), len(train))
    door = Door.of(schema, number, ())
    inputs = door.read(rows)
    names = dict(zip(inputs, (f"i{place}" for place in range(len(inputs))), strict=True))

    def write(graph, *values):
        wanted = range(len(schema.inputs))
        return graph.add("Transpose", door.encode(graph, values, list(wanted)), perm=[1, 0])

    found = run_function(write, **{names[name]: array for name, array in inputs.items()})
    return found, schema.encode(rows).X


MIXED = pd.DataFrame(
    {
        "number": [1.5, np.nan, 3.0, 4.0] * 5,
        "text": ["red", None, "blue", "red"] * 5,
        "flag": [True, False, False, True] * 5,
        "digits": pd.Categorical([3, 1, 3, 20] * 5),
        "halves": pd.Categorical([0.5, np.nan, -2.5, 0.5] * 5),
        "grade": pd.Categorical(["low", "high", "mid", None] * 5, ["low", "mid", "high"], True),
        "day": pd.to_datetime(
            ["2020-02-29", None, "1969-12-31 23:59", "2100-03-01"] * 5, format="ISO8601"
        ),
        "passed": pd.to_timedelta(["1D", "36h", None, "-2D"] * 5),
    }
)


def test_every_kind_of_column_is_encoded_as_the_schema_does():
    found, wanted = encode(MIXED, MIXED)
    np.testing.assert_array_equal(found, wanted)


def test_a_column_of_gaps_stays_one():
    rows = MIXED.assign(text=None)
    found, wanted = encode(rows, rows)
    np.testing.assert_array_equal(found, wanted)
    assert np.isnan(found[:, 1]).all()


def test_levels_that_were_not_there_are_the_average_level_and_of_an_order_a_gap():
    rows = pd.DataFrame(
        {
            **MIXED.head(1),
            "text": ["green"],
            "digits": pd.Categorical([2]),
            "halves": pd.Categorical([7.0]),
            "grade": pd.Categorical(["top"], ["top"], ordered=True),
        }
    )
    found, wanted = encode(MIXED, rows)
    np.testing.assert_array_equal(found, wanted)
    assert found[0, [1, 3, 4]].tolist() == [2.0, 3.0, 2.0]
    assert np.isnan(found[0, 5])


def test_a_single_level_that_is_a_number():
    train = pd.DataFrame({"k": pd.Categorical([7, None] * 3), "t": ["a", "b"] * 3})
    rows = pd.DataFrame({"k": pd.Categorical([7, 8, None]), "t": ["a", "a", "b"]})
    found, wanted = encode(train, rows)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("levels", [["a", "b"], ["a", "not seen"]])
def test_an_empty_text_that_is_new_is_a_new_level_and_no_gap(levels):
    train = pd.DataFrame({"t": [*levels, None]})
    found, wanted = encode(train, pd.DataFrame({"t": ["", None, *levels]}))
    np.testing.assert_array_equal(found, wanted)
    assert found[0] == 2
    assert np.isnan(found[1])


def test_the_empty_text_is_a_level_where_the_fit_had_it_as_one():
    train = pd.DataFrame({"t": ["", "a", "a"]})
    found, wanted = encode(train, train)
    np.testing.assert_array_equal(found, wanted)
    assert found[:, 0].tolist() == [1.0, 0.0, 0.0]


def test_a_table_of_numbers_is_one_input_whether_they_are_levels_or_not():
    train = pd.DataFrame({"a": [1.0, 2.0, np.nan], "k": pd.Categorical([4, 2, 4])})
    door = Door.of(Survey.of(train).schema(), TensorProto.FLOAT, ())
    inputs = door.read(train)
    assert list(inputs) == ["X"]
    assert inputs["X"].dtype == np.float32
    found, wanted = encode(train, train, TensorProto.FLOAT)
    np.testing.assert_array_equal(found, wanted)


def test_times_with_a_zone_are_read_as_wall_time_of_the_fit():
    times = pd.date_range("2021-03-27 22:00", periods=30, freq="h", tz="UTC")
    train = pd.DataFrame({"t": times.tz_convert("Europe/Amsterdam"), "k": ["a", "b"] * 15})
    rows = pd.DataFrame({"t": times, "k": ["a", "b"] * 15})
    found, wanted = encode(train, rows)
    np.testing.assert_array_equal(found, wanted)


def test_only_inputs_that_are_asked_for_are_read():
    schema = Survey.of(MIXED).schema()
    door = Door.of(schema, TensorProto.DOUBLE, ())
    inputs = dict(zip("abcdefgh", door.read(MIXED).values(), strict=True))

    def write(graph, *values):
        value = door.encode(graph, values, [5, 0])
        used = {name for node in graph.nodes for name in node.input}
        assert used & set(values) == {"a", "f"}
        return value

    found = run_function(write, **inputs)
    np.testing.assert_array_equal(found, schema.encode(MIXED).X[:, [5, 0]].T)


def test_names_that_outputs_have_get_longer():
    schema = Survey.of(pd.DataFrame({"label": ["a"], "label_": ["b"], "": [1.0]})).schema()
    assert Door.of(schema, TensorProto.DOUBLE, ("label",)).names == ("label_", "label__", "x2")


@given(
    days=st.lists(
        st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)), min_size=1, max_size=60
    ),
    hours=st.floats(0, 23.99),
)  # fmt: skip
@pytest.mark.parametrize("part", [DAY_OF_YEAR, WEEKDAY, TIME_OF_DAY])
def test_parts_of_dates_are_those_of_the_calendar(part, days, hours):
    times = np.array(days, dtype="datetime64[us]").astype(np.int64) + int(hours * 3_600e6)
    times = np.append(times, np.iinfo(np.int64).min)[:, None]
    found = run_function(lambda graph, value: date_part(graph, value, part), x=times)
    there = times[:-1, 0].astype(np.float64)
    np.testing.assert_allclose(found[:-1, 0], expected_part(there, part), atol=1e-4)
    if part == DAY_OF_YEAR:
        assert found[:-1, 0].tolist() == [day.timetuple().tm_yday for day in days]
    assert found[-1, 0] == expected_part(np.array([np.nan]), part)[0]

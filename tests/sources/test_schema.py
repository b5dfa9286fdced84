"""How any table becomes rows of numbers: the same from every container, and with clear errors."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic import FeatureLearningRegressor
from polyadic.sources.columns import Table
from polyadic.sources.schema import Schema, Surprises, TableWarning, as_numbers
from polyadic.sources.survey import Survey, learn_schema, named_columns

NAN = np.nan
PARIS = ZoneInfo("Europe/Paris")
COLUMNS = {
    "number": [1.5, None, -2.0, 4.0],
    "whole": [3, 1, 2, 2],
    "flag": [True, False, None, True],
    "text": ["b", "nan", None, "b"],
    "exact": [Decimal("0.5"), None, Decimal("2.0"), Decimal("3.0")],
    "day": [dt.date(2020, 2, 29), None, dt.date(1969, 12, 31), dt.date(2021, 1, 1)],
    "time": [dt.datetime(2020, 1, 1, 6), dt.datetime(2020, 3, 1, 18, 30), None,
             dt.datetime(2021, 5, 5)],
    "zoned": [dt.datetime(2020, 1, 1, 6, tzinfo=PARIS), None,
              dt.datetime(2020, 7, 1, 6, tzinfo=PARIS), dt.datetime(2020, 7, 2, 7, tzinfo=PARIS)],
    "lasted": [dt.timedelta(days=1), dt.timedelta(hours=6), None, dt.timedelta(0)],
    "hour": [dt.time(6), dt.time(6, 30), None, dt.time(0)],
    "empty": [None] * 4,
}  # fmt: skip
INPUTS = {
    "number": [1.5, NAN, -2.0, 4.0],
    "whole": [3, 1, 2, 2],
    "flag": [1, 0, NAN, 1],
    "text": [0, 1, NAN, 0],
    "exact": [0.5, NAN, 2, 3],
    "day": [18321, NAN, -1, 18628],
    "day: day of year": [60, 183, 365, 1],
    "day: weekday": [5, 3, 2, 4],
    "time": [18262.25, 18322 + 18.5 / 24, NAN, 18752],
    "time: day of year": [1, 61, 183, 125],
    "time: weekday": [2, 6, 3, 2],
    "time: time of day": [6, 18.5, 12, 0],
    "zoned": [18262.25, NAN, 18444.25, 18445 + 7 / 24],
    "zoned: weekday": [2, 3, 2, 3],
    "zoned: time of day": [6, 12, 6, 7],
    "lasted": [1, 0.25, NAN, 0],
    "hour": [6, 6.5, NAN, 0],
    "empty": [NAN] * 4,
}


def as_objects():
    """Return the columns as an array of Python's objects."""
    array = np.empty((4, len(COLUMNS)), dtype=object)
    for place, column in enumerate(COLUMNS.values()):
        array[:, place] = column
    return array


def polars_frame():
    frame = pl.DataFrame({name: COLUMNS[name] for name in COLUMNS if name != "zoned"})
    zoned = pl.Series("zoned", COLUMNS["zoned"], dtype=pl.Datetime("us", "Europe/Paris"))
    return frame.with_columns(zoned).select(list(COLUMNS))


CONTAINERS = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas on Arrow": lambda: polars_frame().to_pandas(use_pyarrow_extension_array=True),
    "pandas, objects": lambda: pd.DataFrame(as_objects(), columns=list(COLUMNS)),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"text": "category"}),
    "pandas, other index": lambda: pd.DataFrame(COLUMNS, index=[7, 7, 1, 0]),
    "polars": polars_frame,
    "polars, categories": lambda: polars_frame().with_columns(pl.col("text").cast(pl.Categorical)),
    "arrow": lambda: polars_frame().to_arrow(),
    "arrow, chunks": lambda: pa.concat_tables(
        [polars_frame()[:1].to_arrow(), polars_frame()[1:].to_arrow()]
    ),
    "objects": as_objects,
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_inputs(container):
    table = CONTAINERS[container]()
    schema = Survey.of(table).schema()
    if schema.has_names:
        assert schema.inputs.names == tuple(INPUTS)
    assert schema.inputs.n_levels == tuple(2 if name == "text" else 0 for name in INPUTS)
    encoded = schema.encode(table)
    assert encoded.X.dtype == np.float64
    np.testing.assert_allclose(encoded.X.T, list(INPUTS.values()), rtol=1e-15)
    assert encoded.surprises.message(schema) is None


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_schema_encodes_every_other_container(container):
    schema = Survey.of(pd.DataFrame(COLUMNS)).schema()
    encoded = schema.encode(CONTAINERS[container]())
    np.testing.assert_allclose(encoded.X.T, list(INPUTS.values()), rtol=1e-15)
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_surveys_of_pieces_add_up():
    frame = pd.DataFrame(COLUMNS)
    whole = Survey.of(frame)
    for cut in range(5):
        assert Survey.of(frame[:cut]) + Survey.of(frame[cut:]) == whole


# ------------------------------------------------------------------------- dates


@given(st.lists(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)), min_size=2))
def test_parts_of_a_date_are_those_of_pandas(times):
    column = pd.Series(times, dtype="datetime64[us]")
    frame = pd.DataFrame({"t": column})
    schema = Survey.of(frame).schema()
    found = dict(zip(schema.inputs.names, schema.encode(frame).X.T, strict=True))
    hours = (column - column.dt.normalize()) / pd.Timedelta(hours=1)
    expected = {
        "t": (column - pd.Timestamp(0)) / pd.Timedelta(days=1),
        "t: day of year": column.dt.day_of_year,
        "t: weekday": column.dt.day_of_week,
        "t: time of day": hours,
    }
    for name, part in found.items():
        np.testing.assert_allclose(part, expected[name], rtol=1e-14, atol=1e-9)
    # A part is left out where it says nothing that time itself does not say.
    days = column.dt.normalize()
    assert ("t: time of day" in found) == (hours.nunique() > 1 and days.nunique() > 1)
    assert ("t: day of year" in found) == (
        column.dt.year.nunique() > 1 and column.dt.day_of_year.nunique() > 1
    )


def test_times_of_another_zone_are_those_of_the_fit():
    winter_and_summer = ["2024-01-10 12:00", "2024-07-10 12:00", "2024-07-20 09:30"]
    paris = pd.DataFrame({"t": pd.to_datetime(winter_and_summer).tz_localize("Europe/Paris")})
    schema = Survey.of(paris).schema()
    expected = schema.encode(paris).X
    np.testing.assert_array_equal(expected[:, -1], [12, 12, 9.5])
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        other = paris.assign(t=paris["t"].dt.tz_convert(zone))
        np.testing.assert_array_equal(schema.encode(other).X, expected)
        np.testing.assert_array_equal(schema.encode(pl.from_pandas(other)).X, expected)
        np.testing.assert_array_equal(schema.encode(other.astype(object)).X, expected)


@pytest.mark.parametrize("zone", ["UTC+02:00", "-05:30", "Europe/Paris"])
def test_times_of_a_fixed_offset_are_those_of_every_library(zone):
    times = pd.to_datetime(["2024-01-10 12:00", "2024-07-10 12:00", "2024-07-20 09:30"], utc=True)
    frame = pd.DataFrame({"t": times.tz_convert(zone)})
    schema = Survey.of(frame).schema()
    expected = schema.encode(frame).X
    clock = [t.hour + t.minute / 60 for t in frame["t"]]
    np.testing.assert_array_equal(expected[:, -1], clock)
    for other in ("UTC", "America/New_York", "+03:00"):
        moved = frame.assign(t=frame["t"].dt.tz_convert(other))
        np.testing.assert_array_equal(schema.encode(moved).X, expected)
        np.testing.assert_array_equal(schema.encode(pa.table(moved)).X, expected)
        np.testing.assert_array_equal(schema.encode(moved.astype(object)).X, expected)
        if other != "+03:00":  # which Polars does not know
            np.testing.assert_array_equal(schema.encode(pl.from_pandas(moved)).X, expected)


def test_times_of_day_keep_their_microseconds():
    times = [dt.time(1, 2, 3, 456_789), dt.time(0, 0, 0, 1)]
    expected = np.array([[3723.456789], [1e-6]]) / 3600
    for frame in (pd.DataFrame({"t": times}), pl.DataFrame({"t": times}), pa.table({"t": times})):
        found = Survey.of(frame).schema().encode(frame).X
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_naive_and_aware_times_do_not_mix():
    naive = pd.DataFrame({"t": pd.to_datetime(["2024-01-10", "2024-07-10"])})
    aware = naive.assign(t=naive["t"].dt.tz_localize("UTC"))
    for fitted, other in ((naive, aware), (aware, naive)):
        with pytest.raises(ValueError, match=r"column 't' has .* and had .*tz_localize"):
            Survey.of(fitted).schema().encode(other)
    with pytest.raises(ValueError, match="column 't' has both"):
        Survey.of(pd.DataFrame({"t": [naive["t"][0], aware["t"][0]]}, dtype=object))
    with pytest.raises(ValueError, match="column 't' has both"):
        Survey.of(naive) + Survey.of(aware)


# ------------------------------------------------------------- categories and orders


def test_levels_go_by_their_count_and_then_by_their_text():
    frame = pd.DataFrame({"c": ["d", "a", "c", "a", "b", "c"]})
    (column,) = Survey.of(frame).schema().columns
    assert column.levels == ("a", "c", "b", "d")


def test_a_weight_is_a_count_of_levels():
    frame = pd.DataFrame({"c": ["a", "a", "b", "c"]})
    weight = np.array([1.0, 1.0, 3.0, 4.0])
    repeated = frame.iloc[np.repeat(np.arange(4), weight.astype(int))]
    schema = Survey.of(frame, weight=weight).schema()
    assert schema.columns[0].levels == ("c", "b", "a")
    assert Survey.of(repeated).schema() == schema


def test_a_category_has_so_many_levels_at_most(monkeypatch):
    monkeypatch.setattr("polyadic.sources.survey.MOST_LEVELS", 3)
    pieces = [pd.DataFrame({"c": [f"id {piece} {i}" for i in range(3)] + ["a"]}) for piece in "xyz"]
    survey = Survey.of(pieces[0]) + Survey.of(pieces[1]) + Survey.of(pieces[2])
    schema = survey.schema()
    assert schema.columns[0].levels[0] == "a"
    assert len(schema.columns[0].levels) == 3
    np.testing.assert_array_equal(schema.encode(pieces[2]).X[2:, 0], [3, 0])


def test_levels_that_are_not_used_do_not_exist():
    frame = pd.DataFrame({"c": pd.Categorical(["x", "y"], categories=["z", "y", "x", "w"])})
    (column,) = Survey.of(frame).schema().columns
    assert column.levels == ("x", "y")


def test_an_order_is_kept_with_levels_that_no_row_has():
    sizes = pd.CategoricalDtype(["S", "M", "L", "XL"], ordered=True)
    frame = pd.DataFrame({"size": pd.Series(["L", "S", None], dtype=sizes)})
    schema = Survey.of(frame).schema()
    assert schema.inputs.n_levels == (0,)
    np.testing.assert_array_equal(schema.encode(frame).X[:, 0], [2, 0, NAN])
    later = schema.encode(pd.DataFrame({"size": ["XL", "M", "XXL"]}))
    np.testing.assert_array_equal(later.X[:, 0], [3, 1, NAN])
    assert later.surprises.levels == (1,)
    arrow = pa.table(
        {"size": pa.DictionaryArray.from_arrays([2, 0, None], ["S", "M", "L"], ordered=True)}
    )
    assert Survey.of(arrow).schema().columns[0].levels == ("S", "M", "L")
    cut = pd.DataFrame({"age": pd.cut(pd.Series([10, 40, 70]), [0, 30, 60, 90])})
    schema = Survey.of(cut).schema()
    np.testing.assert_array_equal(schema.encode(cut).X[:, 0], [0, 1, 2])


def test_an_enum_of_polars_is_a_category():
    frame = pl.DataFrame({"c": pl.Series(["x", "y", "x"], dtype=pl.Enum(["z", "y", "x"]))})
    (column,) = Survey.of(frame).schema().columns
    assert (column.kind, column.levels) == ("category", ("x", "y"))


NUMBERED = pd.DataFrame({"zip": [10, 20, 20, 30], "x": [1.0, 2.0, 3.0, 4.0], "c": list("abab")})


@pytest.mark.parametrize(
    "wanted", [["zip"], [0], [True, False, False], np.array([0]), ["zip", "c"]]
)
def test_numbers_that_are_named_are_categories(wanted):
    schema = Survey.of(NUMBERED, wanted).schema()
    assert schema.inputs.n_levels == (3, 0, 2)
    assert schema.columns[0].levels == (20, 10, 30)
    with_gaps = NUMBERED.assign(zip=[10.0, NAN, 40.0, 30.0])  # gaps make floats of whole numbers
    encoded = schema.encode(with_gaps)
    np.testing.assert_array_equal(encoded.X[:, 0], [1, NAN, 3, 2])
    assert encoded.surprises == Surprises((1, 0, 0), (1, 0, 0))


def test_whole_numbers_stay_numbers_unless_named():
    assert Survey.of(NUMBERED).schema().inputs.n_levels == (0, 0, 2)
    category = NUMBERED.astype({"zip": "category"})
    assert Survey.of(category).schema().columns[0].levels == (20, 10, 30)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("zip", "\"from_dtype\", None, or a list .*got 'zip'"),
        (["zip", 1], "must be .*list of names, of places"),
        ([1.5], "must be .*list of names"),
        (["town"], r"must name columns of `X`, got 'town'. Use some of \['zip', 'x', 'c'\]"),
        ([3], "must name columns of `X`, got 3"),
        ([-1], "must name columns of `X`, got -1"),
        ([True, False], "one bool for each of the 3 columns, got 2"),
        ([[0]], "must be .*list"),
    ],
)
def test_bad_categorical_features_are_named(wanted, says):
    with pytest.raises(ValueError, match=f"`categorical_features` .*{says}"):
        Survey.of(NUMBERED, wanted)


def test_other_ways_to_name_categories_wrongly():
    with pytest.raises(ValueError, match="places or bools where columns have no names"):
        named_columns(["a"], None, 2)
    with pytest.raises(ValueError, match=r"must not be None .*column 'c' holds 'a'.*from_dtype"):
        Survey.of(NUMBERED, None)
    dates = pd.DataFrame({"t": pd.to_datetime(["2024-01-10", "2024-07-10"])})
    with pytest.raises(ValueError, match="column 't' holds dates"):
        Survey.of(dates, ["t"])
    numbers = NUMBERED[["x"]].assign(k=pd.Categorical([1, 2, 1, 2]))
    assert Survey.of(numbers, None).schema().inputs.n_levels == (0, 0)


# -------------------------------------------------------------------- odd tables


def test_a_level_named_nan_is_a_level():
    frame = pd.DataFrame({"c": pd.Series(["nan", None, "x", "nan"], dtype=object)})
    schema = Survey.of(frame).schema()
    assert schema.columns[0].levels == ("nan", "x")
    np.testing.assert_array_equal(schema.encode(frame).X[:, 0], [0, NAN, 1, 0])


def test_columns_of_gaps_and_of_one_level_are_allowed():
    frame = pd.DataFrame({"gaps": [NAN] * 3, "none": [None] * 3, "one": ["a"] * 3})
    schema = Survey.of(frame).schema()
    assert schema.inputs.n_levels == (0, 0, 1)
    np.testing.assert_array_equal(schema.encode(frame).X, [[NAN, NAN, 0]] * 3)


@pytest.mark.parametrize("later", [["x", "y", None], [1.0, NAN, 2.0], [dt.date(2020, 1, 1)] * 3])
def test_what_comes_where_there_were_gaps_is_a_gap(later):
    frame = pd.DataFrame({"gaps": [NAN] * 3, "size": [1.0, 2.0, 3.0]})
    schema = Survey.of(frame).schema().with_gaps([3, 0], n_rows=3)
    assert [column.kind for column in schema.columns] == ["gaps", "number"]
    there = sum(not pd.isna(item) for item in later)
    for table in (frame.assign(gaps=pd.Series(later)), pl.DataFrame(frame.assign(gaps=later))):
        encoded = schema.encode(table)
        np.testing.assert_array_equal(encoded.X, [[NAN, 1], [NAN, 2], [NAN, 3]])
        message = encoded.surprises.message(schema)
        assert f"values where it had none ({there} in 'gaps'), which are left out" in message


def test_text_may_come_where_partitions_had_gaps():
    dd = pytest.importorskip("dask.dataframe")
    from polyadic.sources.dask.tables import LazyTable

    schema = Schema.of_numbers(["z", "size"], 2).with_gaps([4, 0], n_rows=4)
    lazy = dd.from_pandas(pd.DataFrame({"z": list("abcd"), "size": [1, 2, 3, 4]}), npartitions=2)
    found = LazyTable(lazy, schema).inputs().compute(scheduler="synchronous")
    np.testing.assert_array_equal(found, [[NAN, 1], [NAN, 2], [NAN, 3], [NAN, 4]])


def test_whole_numbers_that_doubles_do_not_tell_apart_are_different_levels():
    big = 2**53 + np.array([0, 1, 2, 1, 2**60])
    containers = [
        big[:, None],
        big[:, None].astype(object),
        pd.DataFrame({"id": big}),
        pd.DataFrame({"id": pd.Series(big, dtype="Int64")}),
        pl.DataFrame({"id": big}),
        pa.table({"id": big}),
    ]
    for X in containers:
        schema = Survey.of(X, [0] if isinstance(X, np.ndarray) else ["id"]).schema()
        (column,) = schema.columns
        assert column.levels[0] == 2**53 + 1
        assert set(column.levels) == set(big.tolist())
        codes = schema.encode(X).X[:, 0]
        assert [column.levels[int(code)] for code in codes] == big.tolist()
        np.testing.assert_array_equal(Table(X).read(0).array, big.astype(float))
    some = pa.table({"id": pa.array([2**53 + 1, None])})
    np.testing.assert_array_equal(Table(some).read(0).array, [2.0**53, NAN])


NUMBER_FRAMES = {
    "doubles": pd.DataFrame({"a": [1.5, NAN, 3.0], "b": [0.0, -0.0, 1e300]}),
    "singles": pd.DataFrame({"a": [0.1, NAN], "b": [1.0, 2.0]}, dtype=np.float32),
    "whole": pd.DataFrame({"a": [1, 2], "b": [3, 2**60]}),
    "flags": pd.DataFrame({"a": [True, False], "b": [True, True]}),
    "mixed": pd.DataFrame({"a": [1, 2], "b": [0.5, NAN], "c": [True, False]}),
    "nullable": pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.array([3, 4], "Int64")}),
    "polars": pl.DataFrame({"a": [1, None], "b": [0.5, 1.5], "c": [True, None]}),
    "arrow": pa.table({"a": pa.array([1, None]), "b": pa.array([0.5, 1.5])}),
    "no names": pd.DataFrame([[1.0, 2.0], [3.0, NAN]]),
}


@pytest.mark.parametrize("frame", NUMBER_FRAMES.values(), ids=NUMBER_FRAMES.keys())
def test_frames_of_numbers_are_read_at_once_as_column_by_column(frame):
    numbers, table = as_numbers(frame), Table(frame)
    columns = [table.read(place).array for place in range(len(table))]
    np.testing.assert_array_equal(numbers, np.column_stack(columns))
    assert numbers.dtype == np.float64
    assert numbers.flags.c_contiguous
    schema, doubts = learn_schema(frame, numbers=numbers)
    assert (schema, doubts) == (Survey.of(frame).schema(), [])
    np.testing.assert_array_equal(schema.encode(frame).X, numbers)


def test_other_frames_are_not_read_at_once():
    assert as_numbers(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})) is None
    assert as_numbers(pd.DataFrame({"a": pd.to_datetime(["2020", "2021"])})) is None
    infinite = pd.DataFrame({"a": [1.0, np.inf]})
    with pytest.raises(ValueError, match=r"column 'a' is inf in row 1"):
        learn_schema(infinite, numbers=as_numbers(infinite))


def test_levels_that_differ_in_case_or_white_space_are_told():
    frame = pd.DataFrame({"a": ["x", "y"] * 2, "b": ["New York", "new york ", "Rome", "Rome"]})
    survey = Survey.of(frame)
    assert survey.schema().inputs.n_levels == (2, 3)
    (told,) = survey.doubts()
    assert "'New York' and 'new york ' in column 'b'" in told


def test_a_column_of_ids_is_told():
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(30)], "x": range(30)})
    (told,) = Survey.of(frame).doubts()
    assert "column 'id'" in told
    assert not Survey.of(frame[:10]).doubts()


def test_text_that_looks_like_dates_is_told():
    frame = pd.DataFrame({"day": ["2020-01-31", "2020-02-29", None], "code": ["2020-1", "a", "b"]})
    (told,) = Survey.of(frame).doubts()
    assert "column 'day' looks like dates" in told
    assert "to_datetime" in told


def test_gaps_have_the_same_bits():
    odd = np.copysign(NAN, -1.0)
    assert np.array(odd).view(np.int64) != np.array(NAN).view(np.int64)
    array = np.array([[odd, 1.0], [2.0, NAN]])
    for table in (array, pd.DataFrame(array), array.astype(object)):
        gaps = Survey.of(table).schema().encode(table).X[[0, 1], [0, 1]]
        np.testing.assert_array_equal(gaps.view(np.int64), np.array([NAN] * 2).view(np.int64))


def test_an_array_of_numbers_is_doubles():
    whole = np.arange(6).reshape(3, 2)
    for array in (whole, whole > 2, whole.astype(np.float16)):
        encoded = Survey.of(array).schema().encode(array).X
        assert encoded.dtype == np.float64
        np.testing.assert_array_equal(encoded, array)


def test_numbers_in_an_array_of_text_are_numbers():
    array = np.array([[1.5, "a"], [2, "7"], [-3, "b"]])
    schema = Survey.of(array).schema()
    assert schema.inputs.n_levels == (0, 3)
    np.testing.assert_array_equal(schema.encode(array).X[:, 0], [1.5, 2, -3])
    # What was text stays text, also where all that is left of it looks like numbers.
    np.testing.assert_array_equal(schema.encode(np.array([["1", "7"]])).X, [[1, 0]])


BAD_COLUMNS = {
    "mixed": ([1, "a", 2.5], TypeError, r"column 'c' holds 1 and 'a'.*astype\(str\)"),
    "a number among dates": ([dt.date(2020, 1, 1), 3], TypeError, "column 'c' holds .* and 3"),
    "a dictionary": ([{"foo": "bar"}, 1], TypeError, "argument must be .* string.* number.*dict"),
    "lists": ([[1], [2, 3]], TypeError, "column 'c' holds .* of type list"),
    "bytes": ([b"a", b"b"], TypeError, "column 'c' holds .*bytes. Decode it"),
    "complex": ([1j, 2.0], TypeError, "column 'c' holds 1j of type complex"),
}


@pytest.mark.parametrize(("values", "error", "says"), BAD_COLUMNS.values(), ids=BAD_COLUMNS.keys())
def test_a_column_that_cannot_be_read_is_named(values, error, says):
    with pytest.raises(error, match=says):
        Survey.of(pd.DataFrame({"x": range(len(values)), "c": pd.Series(values, dtype=object)}))
    array = np.empty((len(values), 2), dtype=object)
    array[:, 0], array[:, 1] = 0, pd.Series(values, dtype=object)
    with pytest.raises(error, match=says.replace("'c'", "1")):
        Survey.of(array)


def test_other_types_that_cannot_be_read():
    with pytest.raises(TypeError, match=r"column 's' holds .*dict"):
        Survey.of(pl.DataFrame({"s": [{"a": 1}]}))
    with pytest.raises(TypeError, match=r"column 'p' .*Period.*to_timestamp"):
        Survey.of(pd.DataFrame({"p": pd.period_range("2020-01", periods=2, freq="M")}))
    with pytest.raises(TypeError, match=r"column 'c' holds 'a' and 1"):
        Survey.of(pd.DataFrame({"c": pd.Categorical(["a", 1, "a"])}))


def test_two_columns_of_one_name_are_an_error():
    with pytest.raises(ValueError, match=r"different name for each column.*'a' 2 times.*Rename"):
        Survey.of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_pieces_that_do_not_agree_are_an_error():
    def survey(values):
        return Survey.of(pd.DataFrame({"c": values}))

    with pytest.raises(TypeError, match=r"column 'c' holds numbers in one piece .*such as 'a'"):
        survey([1.0]) + survey(["a"])
    low = pd.Categorical(["a"], categories=["a", "b"], ordered=True)
    high = pd.Categorical(["a"], categories=["b", "a"], ordered=True)
    with pytest.raises(ValueError, match=r"column 'c' has the levels \['a', 'b'\]"):
        survey(low) + survey(high)
    with pytest.raises(ValueError, match="same columns"):
        survey([1.0]) + Survey.of(pd.DataFrame({"d": [1.0]}))
    assert (survey([None]) + survey(["a"])).schema().columns[0].levels == ("a",)


# ------------------------------------------------------------------ later tables

FITTED = pd.DataFrame(
    {"size": [1.0, 2.0], "colour": ["red", "blue"], "day": pd.to_datetime(["2020-01-01"] * 2)}
)
DRIFT = {
    "missing": (FITTED[["size", "day"]], "'colour' is missing"),
    "renamed": (FITTED.rename(columns={"size": "Size"}), "'size' is missing.*'Size' instead"),
    "extra": (FITTED.assign(z=1), "no other columns .*has 'z'. Leave it out"),
    "reordered": (FITTED[["colour", "size", "day"]], "column 0 is 'colour' and was 'size'"),
    "text for numbers": (FITTED.assign(size=["a", "b"]), "'size' held numbers and now holds text"),
    "numbers for text": (FITTED.assign(colour=[1, 2]), "'colour' held text and now holds numbers"),
    "dates for text": (FITTED.assign(colour=FITTED["day"]), "'colour' held text .* dates"),
    "text for dates": (FITTED.assign(day=["a", "b"]), "'day' held dates .* text.*to_datetime"),
    "infinity": (FITTED.assign(size=[1, np.inf]), "infinity: column 'size' is inf in row 1"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "says"), DRIFT.values(), ids=DRIFT.keys())
def test_a_table_that_differs_from_that_of_the_fit_is_an_error(table, says):
    schema = Survey.of(FITTED).schema()
    with pytest.raises((ValueError, TypeError), match=says):
        schema.encode(table)
    with pytest.raises((ValueError, TypeError), match=says):
        schema.encode(pl.from_pandas(table))


def test_a_later_column_of_gaps_fits_any_kind():
    schema = Survey.of(FITTED).schema()
    for gaps in ([None, None], [NAN, NAN], pd.array([pd.NA, pd.NA], dtype="string")):
        encoded = schema.encode(FITTED.assign(size=gaps, colour=gaps, day=gaps))
        assert np.isnan(encoded.X).all()
        assert encoded.surprises == Surprises((0, 0, 0), (2, 2, 2))


def test_what_the_fit_did_not_see_is_counted_and_told_once():
    schema = Survey.of(FITTED).schema()
    later = FITTED.assign(colour=["green", "Red"], size=[NAN, 1])
    encoded = schema.encode(later)
    np.testing.assert_array_equal(encoded.X[:, 1], [2, 2])
    twice = encoded.surprises + encoded.surprises
    with pytest.warns(TableWarning) as told:
        twice.warn(schema)
    (message,) = [str(each.message) for each in told]
    assert "levels that the fit did not see (4 in 'colour')" in message
    assert "gaps where it had none (2 in 'size')" in message
    assert "average level; and gaps" in message
    assert message.endswith("which are predicted as an average value.")


def test_a_schema_of_whole_rows_takes_nothing_else():
    schema = Schema.of_numbers(["a", "b"], 2).whole()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [NAN, 3.0]})
    with pytest.raises(
        ValueError, match=r"contains NaN: column 'b' has 1 gaps.*feature_maps=\"auto"
    ):
        schema.encode(frame)
    with pytest.raises(ValueError, match=r"column 'colour' holds categories.*feature_maps=\"auto"):
        Survey.of(FITTED).schema().whole()


# ------------------------------------------------------------------- properties

LEVELS = st.one_of(st.none(), st.text(max_size=3))


@given(
    st.lists(st.tuples(LEVELS, st.one_of(st.none(), st.floats(-5, 5))), min_size=1), st.randoms()
)
def test_the_order_of_rows_changes_nothing(rows, random):
    frame = pd.DataFrame(rows, columns=["c", "x"]).astype({"c": object, "x": float})
    order = list(range(len(rows)))
    random.shuffle(order)
    schema = Survey.of(frame).schema()
    assert Survey.of(frame.iloc[order]).schema() == schema
    shuffled = schema.encode(frame.iloc[order]).X
    np.testing.assert_array_equal(shuffled, schema.encode(frame).X[order])


@given(st.lists(LEVELS, min_size=1))
def test_new_names_for_levels_change_nothing_but_codes(items):
    renamed = [None if item is None else f"~{item[::-1]}" for item in items]
    codes = []
    for column in (items, renamed):
        frame = pd.DataFrame({"c": pd.Series(column, dtype=object)})
        codes.append(Survey.of(frame).schema().encode(frame).X[:, 0])
    gaps = np.array([item is None for item in items])
    np.testing.assert_array_equal(np.isnan(codes[0]), gaps)
    pairs = set(zip(codes[0][~gaps], codes[1][~gaps], strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_a_record_batch_is_a_table():
    table = pa.table(
        {"size": [1.0, None, 3.0, 4.0] * 9, "colour": ["red", "blue", None, "red"] * 9}
    )
    (batch,) = table.to_batches()
    schema, _ = learn_schema(batch)
    assert schema == learn_schema(table)[0]
    np.testing.assert_array_equal(schema.encode(batch).X, schema.encode(table).X)
    y, weight = np.arange(36.0), np.arange(36) % 3
    models = [
        FeatureLearningRegressor(effort=0.02, n_estimators=1, random_state=0).fit(X, y, weight)
        for X in (batch, table)
    ]
    np.testing.assert_array_equal(models[0].predict(batch), models[1].predict(table))
    assert models[0].feature_names_in_.tolist() == ["size", "colour"]

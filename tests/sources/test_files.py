"""Files that are not as they should be: errors that say where, and rows that are counted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import warnings
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from polyadic import open_rows
from polyadic.sources.files.streamed import FileSource
from polyadic.sources.survey import Survey
from tests.small import regressor
from tests.sources.rows import kept_in, small_batches, table, write


@pytest.fixture
def good():
    X, y, _ = table(300)
    return pa.table({"a": X[:, 0], "b": X[:, 1], "y": y[:, 0]})


@pytest.fixture
def saved(tmp_path, good):
    """Write tables; a column given by name takes the place of the good one."""

    def save(name="t.parquet", group=100, **columns):
        changed = good
        for column, values in columns.items():
            if values is None:
                changed = changed.drop_columns(column)
            elif column in changed.column_names:
                index = changed.column_names.index(column)
                changed = changed.set_column(index, column, [values])
            else:
                changed = changed.append_column(column, [values])
        pa.parquet.write_table(changed, tmp_path / name, row_group_size=group)
        return tmp_path / name

    return save


def model(**parameters):
    return regressor(**{"n_basis": 2, "rank": 2, "max_iter": 2, "n_jobs": 1, **parameters})


def count(source):
    return sum(len(batch) for batch in source.batches())


def with_value(values, row, value):
    changed = np.array(values.to_pylist() if hasattr(values, "to_pylist") else values)
    changed[row] = value
    return pa.array(changed)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None])
@pytest.mark.parametrize("column", ["a", "y"])
def test_a_gap_is_told_with_file_row_group_row_and_column(saved, good, value, column):
    values = good[column].to_pylist()
    values[217] = value
    path = saved(**{column: pa.array(values)})
    what = "an infinite value" if value in (np.inf, -np.inf) else "no number"
    acts = [model().fit, lambda source: list(source.batches())]
    if (column, what) == ("a", "no number"):
        acts = acts[:1]  # a gap in an input is none to who reads rows, but to a named map
    for act in acts:
        with pytest.raises(ValueError, match="Row 218") as caught:
            act(open_rows(path, "y"))
        assert f"Row 218 of {path} (row group 2) has {what} in column {column!r}" in str(
            caught.value
        )


def test_gaps_that_are_dropped_are_counted(saved, good, tmp_path):
    saved("0.parquet", a=with_value(good["a"], [3, 250], np.nan))
    saved("1.parquet", b=with_value(good["b"], slice(100, 200), np.inf))  # all of a row group
    saved("2.parquet", y=pa.nulls(300, pa.float64()))
    source = open_rows(tmp_path, "y", missing="complete")
    assert source.n_dropped is None
    fitted = model().fit(source)
    assert (fitted.n_samples_fit_, fitted.n_samples_dropped_) == (498, 402)
    assert source.n_dropped == 402
    assert len(fitted.predict(source)) == 498
    whole = np.concatenate([batch.X for batch in source.batches()])
    assert (len(whole), bool(np.isfinite(whole).all())) == (498, True)


def test_nothing_left(saved):
    path = saved(y=pa.nulls(300, pa.float64()))
    with pytest.raises(ValueError, match=r"no row of positive weight \(300 rows were left out\)"):
        model().fit(open_rows(path, "y", missing="drop"))
    path = saved(w=pa.array(np.zeros(300)))
    source = open_rows(path, "y", weight="w")
    with pytest.raises(ValueError, match="no row of positive weight"):
        model().fit(source)


def test_weights_must_not_be_negative(saved):
    path = saved(w=with_value(np.ones(300), 120, -2.5))
    with pytest.raises(ValueError, match=r"Row 121 .*row group 1\) has the weight -2.5 in column"):
        model().fit(open_rows(path, "y", weight="w", missing="drop"))


def test_a_missing_weight_is_a_gap(saved):
    path = saved(w=with_value(np.ones(300), 120, np.nan))
    with pytest.raises(ValueError, match=r"Row 121 .* no number in column 'w'"):
        model().fit(open_rows(path, "y", weight="w"))


def test_types_of_numbers_become_double(saved, good):
    small = pa.array(np.arange(300) % 7, pa.int8())
    path = saved(
        a=small,
        b=good["b"].combine_chunks().cast("float32"),
        c=pa.array([i % 3 == 0 for i in range(300)]),
        d=pa.array([i / 4 for i in range(300)]).cast(pa.decimal128(10, 2)),
    )
    (batch,) = open_rows(path, "y").batches()
    expected = [
        np.arange(300) % 7,
        np.float64(good["b"].to_numpy().astype(np.float32)),
        np.arange(300) % 3 == 0,
        np.arange(300) / 4,
    ]
    assert batch.X.dtype == np.float64
    np.testing.assert_array_equal(batch.X, np.column_stack(expected))


def test_rows_without_a_target_are_dropped_and_gaps_kept(saved, good):
    path = saved(
        a=with_value(good["a"], [3, 250], np.nan), y=with_value(good["y"], slice(100, 140), np.nan)
    )
    source = open_rows(path, "y", missing="drop")
    X = np.concatenate([batch.X for batch in source.batches()])
    assert (len(X), source.n_dropped) == (260, 40)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(X[:, 0])), [3, 210])


def test_gaps_are_one_by_their_bits(saved, good):
    """A hash of rows sees bits: nulls, and NaN of either sign, are the same gap."""
    values = good["a"].to_pylist()
    values[3], values[4], values[5] = None, np.nan, -np.float64(np.nan)
    (batch,) = open_rows(saved(a=pa.array(values, from_pandas=False)), "y").batches()
    bits = np.ascontiguousarray(batch.X[3:6, 0]).view(np.int64)
    assert set(bits) == {np.float64(np.nan).view(np.int64)}


STRANGE = {
    "list": pa.array([[1.0]] * 300),
    "binary": pa.array([b"x"] * 300),
    "struct": pa.array([{"x": 1}] * 300),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_column_that_cannot_be_used(saved, kind):
    path = saved(z=STRANGE[kind])
    with pytest.raises(ValueError, match=f"t.parquet has .*'z' is of type {kind}.*columns="):
        open_rows(path, "y")
    assert count(open_rows(path, "y", ["a", "b"])) == 300


def test_targets_and_weights_must_be_numbers(saved):
    path = saved(y=pa.array(["x"] * 300), w=pa.array(["x"] * 300))
    words = "'{}' is text.*Targets and weights must be numbers"
    with pytest.raises(ValueError, match=words.format("w")):
        open_rows(path, "y", ["a", "b"], weight="w")
    labels = open_rows(path, "y", ["a", "b"])  # which a classifier takes
    with pytest.raises(ValueError, match=words.format("y")):
        labels.require_numbers()
    dates = saved(y=pa.array(np.arange(300).astype("datetime64[D]")))
    with pytest.raises(ValueError, match=r"'y' is date.*must be numbers"):
        open_rows(dates, "y", ["a", "b"])


COLUMNS = {
    "text": pa.array(["x", "y", None] * 100),
    "dictionary": pa.array(["x", "y", None] * 100).dictionary_encode(),
    "ordered": pa.DictionaryArray.from_arrays(
        [1, 0, 2] * 100, ["low", "mid", "high"], ordered=True
    ),
    "flag": pa.array([True, False, None] * 100),
    "date": pa.array(np.arange(300).astype("datetime64[D]")),
    "time": pa.array(np.arange(300) * 7_000, pa.timestamp("s")),
    "zone": pa.array(np.arange(300) * 7_000, pa.timestamp("ms", "Europe/Berlin")),
    "duration": pa.array(np.arange(300) * 7_000, pa.duration("ms")),
    "clock": pa.array((np.arange(300) * 70).astype(np.int32)).cast(pa.time32("s")),
    "empty": pa.nulls(300),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_is_what_it_is_in_a_frame(saved, good, kind, monkeypatch):
    """Files are read a batch at a time, a frame at once."""
    small_batches(monkeypatch)
    monkeypatch.setattr("polyadic.sources.files.row_source._MOST_ROWS", 64)
    path = saved(z=COLUMNS[kind])
    source = open_rows(path, "y")
    frame = good.select(["a", "b"]).append_column("z", COLUMNS[kind])
    expected = Survey.of(frame).schema()
    assert source.schema == expected
    assert source.inputs == expected.inputs
    X = np.concatenate([batch.X for batch in source.batches()])
    np.testing.assert_allclose(X, expected.encode(frame).X, rtol=1e-15, atol=0)


def test_levels_are_those_of_rows_that_count(saved, good):
    kinds = np.where(np.arange(300) < 250, "x", "y")
    path = saved(z=pa.array(kinds), w=pa.array(np.where(kinds == "x", 0.01, 1.0)))
    assert open_rows(path, "y").schema.columns[2].levels == ("x", "y")
    weighted = open_rows(path, "y", ["a", "b", "z"], "w")
    assert weighted.schema.columns[2].levels == ("y", "x")
    path = saved(z=pa.array(kinds), w=pa.array(np.where(kinds == "x", 0.0, 1.0)))
    assert open_rows(path, "y", ["a", "b", "z"], "w").schema.columns[2].levels == ("y",)


def test_rows_are_read_as_those_of_a_fit(tmp_path):
    """A level that looks like a number, flag or date alone is a level; gaps are gaps."""
    (tmp_path / "t.csv").write_text("a,y\n" + "1,0\ntrue,0\n2020-01-01,1\nA,1\n" * 10)
    schema = open_rows(tmp_path / "t.csv", "y").schema
    assert schema.columns[0].kind == "category"
    for text in ("1", "true", "2020-01-01", "A"):
        (tmp_path / "one.csv").write_text(f'a\n{text}\nB\n""\n')
        (batch,) = open_rows(tmp_path / "one.csv").encoded(schema).batches()
        code = schema.columns[0].levels.index(text)
        np.testing.assert_array_equal(batch.X[:, 0], [code, 4, np.nan])


def test_days_and_months_in_doubt_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("day,y\n1/2/2020,1\n3/4/2020,2\n")
    for pattern, days in (("%d/%m/%Y", [18293, 18355]), ("%m/%d/%Y", [18263, 18325])):
        (batch,) = open_rows(path, "y", dates={"day": pattern}).batches()
        np.testing.assert_array_equal(batch.X[:, 0], days)
    path.write_text("day,y\n31/1/2020,1\n3/4/2020,2\n")
    schema = open_rows(tmp_path / "t.csv", "y", dates={"day": "%m/%d/%Y"}).schema
    path.write_text("day,y\n1/2/2020,1\n")
    with pytest.raises(ValueError, match=r"must be dates.*dates=\{'day': '%d/%m/%Y'\}"):
        open_rows(path, "y").encoded(schema)


def test_a_part_knows_its_own_levels(saved, good):
    kinds = [f"once {i}" if i % 10 == 0 else "often" for i in range(300)]
    kept, held = open_rows(saved(z=pa.array(kinds)), "y").split(0.3)
    levels = [set(part.schema.columns[2].levels) for part in (kept, held)]
    assert levels[0] | levels[1] == set(kinds)
    assert levels[0] & levels[1] == {"often"}
    assert count(kept) + count(held) == 300


def test_a_part_stays_one_when_its_numbers_become_levels(saved):
    kept, held = open_rows(saved(z=pa.array(np.arange(300) % 5)), "y").split(0.3)
    plain = [np.concatenate([batch.X for batch in part.batches()]) for part in (kept, held)]
    schema, _ = kept.learn_schema(["z"])
    for part, expected in zip((kept, held), plain, strict=True):
        X = np.concatenate([batch.X for batch in part.encoded(schema).batches()])
        np.testing.assert_array_equal(X[:, :2], expected[:, :2])
        levels = np.array([*schema.columns[2].levels])
        np.testing.assert_array_equal(levels[X[:, 2].astype(int)], expected[:, 2])


def test_a_split_is_not_that_of_a_fit(good, saved, monkeypatch):
    """A fit that holds rows out by the same hash would find all of them, or none."""
    for module in ("rows.holdout", "sources.data"):
        monkeypatch.setattr(f"polyadic.{module}.EXACT_ROWS", 100)
    kept, _ = open_rows(saved(), "y").split(0.3, seed=0)
    rows = FileSource(kept).data()
    assert 0.15 < len(rows.gather_rows(rows.split(0.3, seed=0)[1])) / rows.n_rows < 0.45


def test_columns_that_differ_between_files(saved, good, tmp_path):
    saved("0.parquet")
    saved("1.parquet", a=pa.array(np.arange(300)))  # whole numbers are numbers
    assert count(open_rows(tmp_path, "y")) == 600
    saved("2.parquet", a=pa.array(["x"] * 300))
    with pytest.raises(ValueError, match=r"'a' of .*2.parquet is text, and number in .*0.parquet"):
        open_rows(tmp_path, "y")
    saved("2.parquet", a=None)
    with pytest.raises(ValueError, match=r"2.parquet has no column 'a'; it has 'b', 'y'"):
        open_rows(tmp_path, "y")
    saved("2.parquet", extra=pa.array(np.ones(300)))
    with pytest.raises(ValueError, match=r"2.parquet has a column 'extra' that .*0.parquet lacks"):
        open_rows(tmp_path, "y")
    assert count(open_rows(tmp_path, "y", ["a", "b"])) == 900
    pa.parquet.write_table(good.select(["y", "b", "a"]), tmp_path / "2.parquet")
    last = list(open_rows(tmp_path, "y").batches())[-1]
    np.testing.assert_array_equal(last.X[-300:, 0], good["a"].to_numpy())


def test_empty_files_and_row_groups_have_no_rows(saved, good, tmp_path):
    saved("0.parquet")
    pa.parquet.write_table(good.slice(0, 0), tmp_path / "1.parquet")
    with pa.parquet.ParquetWriter(tmp_path / "2.parquet", good.schema) as writer:
        for part in (good.slice(0, 50), good.slice(0, 0), good.slice(50, 10)):
            writer.write_table(part)
    (tmp_path / "3.csv").write_text("a,b,y\n")
    source = open_rows(tmp_path, "y")
    assert count(source) == 360
    assert model().fit(source).n_samples_fit_ == 360


def test_a_file_that_vanishes(saved, tmp_path):
    path = saved()
    source = open_rows(path, "y")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"t.parquet is not there"):
        model().fit(source)
    with pytest.raises(FileNotFoundError, match=r"t.parquet is not there"):
        open_rows(path, "y")


def test_a_file_that_changes_between_passes(saved, good):
    path = saved()
    source = open_rows(path, "y")
    assert count(source) == 300
    saved(a=with_value(good["a"], 0, 7.0))
    os.utime(path, ns=(0, 0))
    with pytest.raises(ValueError, match=r"t.parquet changed after it was opened"):
        list(source.batches())


@pytest.fixture
def torn(tmp_path):
    """Return a source, and a function that spoils the middle row group of its second file."""
    X, y, w = table(2400)
    write(tmp_path, X, y, w, cuts=(1200,), row_group_size=400)

    def spoil():
        path = tmp_path / "001.parquet"
        status, content = path.stat(), bytearray(path.read_bytes())
        where = pa.parquet.ParquetFile(path).metadata.row_group(1).column(0)
        first = where.dictionary_page_offset or where.data_page_offset
        content[first : first + 2000] = b"\xff" * 2000
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return open_rows(tmp_path, "u", ["a", "b", "c"]), spoil


def test_a_row_group_that_cannot_be_read(torn):
    source, spoil = torn
    spoil()
    with pytest.raises(OSError, match=r"Row group 1 of .*001.parquet cannot be read"):
        list(source.batches())


def test_a_file_that_breaks_in_a_fit_leaves_the_checkpoint(torn, monkeypatch, tmp_path_factory):
    source, spoil = torn
    small_batches(monkeypatch)
    kept_in(monkeypatch, "disk")
    path = tmp_path_factory.mktemp("checkpoint") / "fit"
    from polyadic.storage.checkpoint import Checkpoint

    written = []
    write_once = Checkpoint.write

    def write_and_spoil(self):
        write_once(self)
        written.append(path.read_bytes())
        if len(written) == 3:
            spoil()

    monkeypatch.setattr(Checkpoint, "write", write_and_spoil)
    monkeypatch.setattr("polyadic.storage.checkpoint._FRACTION_OF_TIME", np.inf)
    with pytest.raises(OSError, match="Row group 1"):
        model(checkpoint=path, max_iter=20).fit(source)
    assert path.read_bytes() == written[-1]


def test_a_broken_file(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(OSError, match=r"t.parquet cannot be read"):
        open_rows(path, "y")


GOOD_CSV = "a,b,y\n" + "".join(f"{i / 10},{i % 7},{i}\n" for i in range(200))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n" + "1,2,3\n" * 300_000 + "1,oops,3\n", "'b' .* row 300001 has an .*'oops'"),
        (GOOD_CSV + "1,2,3,4\n", "cannot be read"),
        (GOOD_CSV + "1,2,\n", "Row 201 of .* has no number in column 'y'"),
        (
            GOOD_CSV + "inf,2,3\n",
            r"Row 201 of .* has an infinite value in column 'a'.*na=\['inf'\]",
        ),
        ("1,2,3\n4,5,6\n", "no header"),
        ("a,a,y\n1,2,3\n", "several columns named 'a'"),
        ("", "it is empty"),
        ("a,y\n" + '"1,137",2\n"12,100",3\n', "'a' has thousands separators.*Remove"),
        ("a,y\n" + '"1,5",2\n"12,25",3\n', "'a' has decimal commas.*decimal=','"),
        ("a,y\nnone,1\n" + "".join(f'"{i},5",2\n' for i in range(20)), "'a' has decimal commas"),
        ("a,y\n" + "x,1.5\n" * 300_000 + "ö,3\n", "not UTF-8 text after row.*encoding='cp1252'"),
    ],
)
def test_csv_that_is_not_as_it_should_be(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr("polyadic.sources.files.sniff.HEAD", 2**20)
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises((ValueError, OSError), match=message) as caught:
        list(open_rows(path, "y").batches())
    assert str(path) in str(caught.value)


MESSY = "a;b;town;y\n" + "".join(
    f"{i / 10};{i % 7};{'KölnÜ'[i % 2 * 4 :]};{i}\n" for i in range(40)
)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.filterwarnings("ignore:.*read as Windows-1252")
def test_spellings_are_told_from_the_file(tmp_path, delimiter, encoding):
    path = tmp_path / "t.csv"
    found = []
    for decimal in ".," if delimiter != "," else ".":
        text = MESSY.replace(".", decimal).replace(";", delimiter)
        path.write_bytes(text.encode(encoding))
        source = open_rows(path, "y")
        assert source.schema.columns[2].levels == ("KölnÜ", "Ü")
        found += [batch.X for batch in source.batches()]
    expected = np.c_[np.arange(40) / 10, np.arange(40) % 7, np.arange(40) % 2]
    np.testing.assert_array_equal(found, [expected] * len(found))


def test_a_guess_of_the_encoding_is_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(MESSY.encode("latin-1"))
    with pytest.warns(UserWarning, match=r"t.csv: it is not UTF-8 text.*Windows-1252"):
        open_rows(path, "y")
    path.write_bytes(MESSY.replace("Ü", "€").encode("cp1250"))
    source = open_rows(path, "y", encoding="cp1250")
    assert source.schema.columns[2].levels == ("Köln€", "€")
    with pytest.raises(ValueError, match="`encoding` must be one that Python knows"):
        open_rows(path, "y", encoding="klingon")


def _zipped(text):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__MACOSX/t.csv", "rubbish")
        archive.writestr("folder/t.csv", text)
    return packed.getvalue()


PACKED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda text: pa.compress(text, "zstd", asbytes=True),
    "zip": _zipped,
}


@pytest.mark.parametrize("ending", PACKED)
def test_packed_text(tmp_path, ending):
    """By what is in it, whatever its name says of the packing."""
    content = PACKED[ending](MESSY.encode() * 1)
    for name in (f"t.csv.{ending}", "t.csv"):
        (tmp_path / name).write_bytes(content)
        (batch,) = open_rows(tmp_path / name, "y").batches()
        np.testing.assert_array_equal(batch.X[:, 0], np.arange(40) / 10)
    (tmp_path / "t.csv").write_bytes(content[: len(content) // 2])
    with pytest.raises((OSError, ValueError), match=r"t.csv .*cannot be read"):
        list(open_rows(tmp_path / "t.csv", "y").batches())


def test_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (
        ["size", None, "day", "town", "y"],
        [1.5, None, datetime(2020, 1, 3), "Köln", 1],
        [None, None, datetime(2020, 3, 1, 12), None, 2],
        [2, None, None, "#N/A", 3],
    ):
        book.active.append(row)
    book.active["B1"] = "empty"
    book.create_sheet("Notes")["A1"] = "nothing"
    book.save(tmp_path / "t.xlsx")
    with pytest.warns(UserWarning, match="sheet 'Sheet', the first of 2"):
        source = open_rows(tmp_path / "t.xlsx", "y")
    kinds = [column.kind for column in source.schema.columns]
    assert kinds == ["number", "number", "date", "category"]
    (batch,) = source.batches()
    np.testing.assert_array_equal(batch.y[:, 0], [1, 2, 3])
    days = [18264, 18322.5, np.nan]
    np.testing.assert_array_equal(
        batch.X[:, [0, 2, -1]].T, [[1.5, np.nan, 2], days, [0, np.nan, np.nan]]
    )


def test_a_workbook_without_openpyxl(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"t.xlsx needs openpyxl.*polyadic\[app\]"):
        open_rows(tmp_path / "t.xlsx", "y")


NUMBERS = [str(i / 4) for i in range(40)]
TEXTS = {
    "signs": ([*NUMBERS[:3], "?", "-"], "number", "'\\?' and '-' read as a gap"),
    "a word": ([*NUMBERS, "unknown"], "number", "'unknown' read as a gap"),
    "a slip": ([*NUMBERS, "1O5"], "number", "'1O5' read as a gap"),
    "few numbers": (["1", "2", "3", "A"] * 5, "category", None),
    "names with digits": ([*NUMBERS, "2A", "2B"], "category", None),
    "dates, day first": (["31/12/2020", "1/2/2021"], "date", "day first"),
    "dates, month first": (["12/31/2020 10:30", "1/2/2021 09:00"], "date", "month first"),
    "dates with points": (["01.02.2020", "3.4.2021"], "date", "day first"),
    "dates of either": (["01/02/2020", "3/4/2021"], "category", "day or month may come first"),
    "no dates": (["31/12/2020", "12/31/2020"], "category", None),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_is_something_else(tmp_path, kind):
    texts, expected, remark = TEXTS[kind]
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        source = open_rows(path, "y")
    assert source.schema.columns[0].kind == expected
    notes = [str(warning.message) for warning in told]
    if expected == "date":  # which is a note, and no warning
        assert notes == []
        notes = list(source.notes.values())
    assert len(notes) == (remark is not None)
    assert remark is None or re.search(remark, notes[0])
    (batch,) = source.batches()
    if expected == "number":
        numbers = [float(text) if text in NUMBERS else np.nan for text in texts]
        np.testing.assert_array_equal(batch.X[:, 0], numbers)
    if kind == "dates, month first":
        days = np.array(["2020-12-31T10:30", "2021-01-02T09:00"], "datetime64[s]")
        np.testing.assert_allclose(batch.X[:, 0], days.astype(float) / 86_400, rtol=1e-15)


def test_csv_in_other_spellings(tmp_path):
    (tmp_path / "t.tsv").write_text(GOOD_CSV.replace(",", "\t"))
    (tmp_path / "t.txt").write_text(GOOD_CSV.replace(",", ";").replace(".", ","))
    (tmp_path / "flags.csv").write_text("a,y\ntrue,1\nfalse,2\n")
    (tab,) = open_rows(tmp_path / "t.tsv", "y").batches()
    (semicolon,) = open_rows(tmp_path / "t.txt", "y", delimiter=";", decimal=",").batches()
    np.testing.assert_array_equal(tab.X, semicolon.X)
    (flags,) = open_rows(tmp_path / "flags.csv", "y").batches()
    np.testing.assert_array_equal(flags.X[:, 0], [1.0, 0.0])


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), dtype="U3"), np.zeros((1, 1, 1))])
def test_npy_that_is_no_matrix(tmp_path, array):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(OSError, match=r"t.npy cannot be read: .*matrix of numbers"):
        open_rows(tmp_path / "t.npy", "x0")


def test_paths(saved, tmp_path, monkeypatch):
    for name in ("b.parquet", "a.parquet", "c.pq", "_SUCCESS", ".hidden"):
        saved(name)
    names = ["a.parquet", "b.parquet", "c.pq"]
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    home = f"~/{tmp_path.name}"
    for path in (tmp_path, str(tmp_path), home, [f"{home}/[ab].parquet", Path(home) / "c.pq"]):
        assert [file.name for file in open_rows(path, "y").files] == names
    monkeypatch.chdir(tmp_path)
    assert len(open_rows("*.parquet", "y").files) == 2
    saved("odd[1].parquet")
    assert len(open_rows("odd[1].parquet", "y").files) == 1


def test_paths_that_stand_for_nothing(saved, tmp_path):
    path = saved()
    for wrong in (tmp_path / "gone.parquet", str(tmp_path / "*.csv"), []):
        with pytest.raises(FileNotFoundError):
            open_rows(wrong, "y")
    with pytest.raises(ValueError, match=r"must be .*got .*t.xls, which is Parquet"):
        open_rows(path.rename(tmp_path / "t.xls"), "y")
    with pytest.raises(ValueError, match=r"t.xls is a file that holds no rows.*glob"):
        open_rows(tmp_path, "y")


def test_folders_spell_columns(good, tmp_path):
    """The layout that Hive, Spark and pandas write: the names of folders are columns."""
    for year, half in ((2020, good.slice(0, 100)), (2021, good.slice(100))):
        folder = tmp_path / f"year={year}" / "half=0.5"
        folder.mkdir(parents=True)
        pa.parquet.write_table(half, folder / "part.parquet")
    (tmp_path / "_metadata").mkdir()
    (tmp_path / "_metadata" / "notes.txt").write_text("nothing")
    source = open_rows(tmp_path, "y")
    assert source.names == ["a", "b", "year", "half"]
    X = np.concatenate([batch.X for batch in source.batches()])
    np.testing.assert_array_equal(X[:, 2], [2020.0] * 100 + [2021.0] * 200)
    np.testing.assert_array_equal(X[:, [0, 3]], np.c_[good["a"].to_numpy(), np.full(300, 0.5)])
    by_year = open_rows(tmp_path, "year", ["half", "b"])
    np.testing.assert_array_equal(
        np.concatenate([batch.y for batch in by_year.batches()])[:, 0], X[:, 2]
    )
    (tmp_path / "year=2020").rename(tmp_path / "year=__HIVE_DEFAULT_PARTITION__")
    X = np.concatenate([batch.X for batch in open_rows(tmp_path, "y").batches()])
    assert np.isnan(X[:, 2]).sum() == 100
    (tmp_path / "year=2021").rename(tmp_path / "year=last")
    with pytest.raises(ValueError, match=r"'year' of .* is text, and number in"):
        open_rows(tmp_path, "y")
    (tmp_path / "year=__HIVE_DEFAULT_PARTITION__").rename(tmp_path / "year=first")
    X = np.concatenate([batch.X for batch in open_rows(tmp_path, "y").batches()])
    np.testing.assert_array_equal(X[:, 2], [1.0] * 100 + [0.0] * 200)


def test_the_index_of_pandas_is_no_input(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}, index=[7, 5, 6])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv")
    for name, index in (("t.parquet", "__index_level_0__"), ("t.csv", "")):
        assert open_rows(tmp_path / name, "y").names == ["a"]
        (batch,) = open_rows(tmp_path / name, "y", ["a", index]).batches()
        np.testing.assert_array_equal(batch.X[:, 1], [7, 5, 6])


def test_texts_that_stand_for_nothing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,2\n?,3\n-,4\n")
    source = open_rows(path, "y", missing="complete", na=["?", "-"])
    assert (count(source), source.n_dropped) == (1, 2)


def test_named_arrays(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "t.npz", X=X, y=X[:, 0], columns=["p", "q"], target="t")
    (batch,) = open_rows(tmp_path / "t.npz", "t").batches()
    np.testing.assert_array_equal(np.c_[batch.X, batch.y], np.c_[X, X[:, 0]])
    for arrays, message in (
        ({"Z": X}, "matrix `X`"),
        ({"X": X, "y": X}, "one value of `y` for each of its 3 rows"),
        ({"X": X, "columns": ["p"]}, "1 names for 2 inputs"),
    ):
        np.savez(tmp_path / "t.npz", **arrays)
        with pytest.raises(OSError, match=message):
            open_rows(tmp_path / "t.npz", "t")


def test_files_that_are_not_the_text_they_are_called(tmp_path):
    """They are named for what they are; nothing binary reaches the terminal."""
    path = tmp_path / "t.csv"
    for content, message in (
        (b"PK\x03\x04rest", "zip archive"),
        (b"\xd0\xcf\x11\xe0rest", "Excel workbook"),
        (b"\xfd7zXZ\x00", "cannot be read"),
        (b"PAR1", "Parquet"),
        (b'{"a": 1}', "JSON"),
        (b"a,b\x00,y\n1,2,3\n", "not text"),
    ):
        path.write_bytes(content)
        with pytest.raises((OSError, ValueError), match=message) as caught:
            open_rows(path, "y")
        assert str(path) in str(caught.value)
        assert str(caught.value).isprintable()
    whole = gzip.compress(GOOD_CSV.encode() * 50)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-50])
    with pytest.raises(OSError, match=r"t.csv.gz cannot be read"):
        list(open_rows(tmp_path / "t.csv.gz", "y").batches())


def test_a_split_of_few_rows_is_exact_and_keeps_copies_together(saved, good):
    copies = pa.concat_tables([good.slice(0, 20)] * 5)
    path = saved()
    pa.parquet.write_table(copies, path)
    kept, held = open_rows(path, "y").split(0.25)
    rows = [{tuple(row) for batch in part.batches() for row in batch.X} for part in (kept, held)]
    assert (len(rows[0]), len(rows[1]), count(held)) == (15, 5, 25)
    assert not rows[0] & rows[1]
    pa.parquet.write_table(good.slice(0, 1), path)
    kept, held = open_rows(path, "y").split(0.5)
    assert (count(kept), count(held)) == (1, 0)


def test_names_that_make_no_sense(saved):
    path = saved()
    for arguments, message in (
        (("z",), "has no column 'z'"),
        (("y", ["a", "y"]), "different columns, got 'y' twice"),
        (("y", "a"), "`columns` must be a list"),
        (("y", ["a"], "nope"), "has no column 'nope'"),
        ((["a", "b", "y"],), "no column to predict from"),
    ):
        with pytest.raises(ValueError, match=message):
            open_rows(path, *arguments)
    with pytest.raises(ValueError, match="`missing` must be 'keep', 'drop' or 'complete'"):
        open_rows(path, "y", missing="mean")
    source = open_rows(path, "y")
    with pytest.raises(ValueError, match="`y` and `sample_weight` must be None"):
        model().fit(source, np.ones(300))
    with pytest.raises(ValueError, match="column 0 is 'b' and was 'a'"):
        model().fit(source).predict(open_rows(path, columns=["b", "a"]))

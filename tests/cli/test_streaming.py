"""Large tables on the command line: read from disk, with the same answers."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import polyadic
from polyadic.cli import main

CONFIG = """
rank = 3
n_basis = 4
max_iter = 4
[[feature_maps]]
kind = "dampedfourier"
period = 2.0
decay = 0.7
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    X = rng.rand(3000, 3)
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.01 * rng.randn(3000)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2] > 0.5, "target": y})
    pa.parquet.write_table(table, "t.parquet", row_group_size=500)
    pa.csv.write_csv(table, "t.csv")
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def fit(data, *words, **options):
    return run("fit", data, "--config", "config.toml", "--stream", *words, **options)


def test_the_fit_on_all_rows_is_the_one_in_memory():
    fit("t.parquet", "--holdout", "0")
    run("fit", "t.parquet", "--config", "config.toml", "--holdout", "0", "--out", "memory.polyadic")
    mine, expected = polyadic.load("model.polyadic"), polyadic.load("memory.polyadic")
    np.testing.assert_allclose(mine.cores_, expected.cores_, rtol=0, atol=1e-8)
    for command in ("predict", "evaluate"):
        streamed = run(command, "model.polyadic", "t.parquet", "--stream").stdout
        loaded = run(command, "memory.polyadic", "t.parquet").stdout
        if command == "predict":
            a, b = (np.array(text.split()[1:], dtype=float) for text in (streamed, loaded))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
            assert len(a) == 3000
        else:
            assert streamed == loaded


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_predictions_are_written_as_they_come(name, monkeypatch):
    monkeypatch.setattr("polyadic.sources.files.row_source._MOST_ROWS", 1024)
    fit("t.parquet")
    said = run("predict", "model.polyadic", "t.csv", "--stream", "--out", name).stdout
    assert said == f"Wrote 3000 predictions to {name}.\n"
    read = pa.csv.read_csv if name.endswith("csv") else pa.parquet.read_table
    run("predict", "model.polyadic", "t.csv", "--out", "expected.csv")
    expected = pa.csv.read_csv("expected.csv")["prediction"]
    np.testing.assert_allclose(read(name)["prediction"], expected, rtol=0, atol=1e-10)


def test_facts_and_report(folder):
    fit("t.csv")
    facts = json.loads(run("show", "model.polyadic", "--json").stdout)
    assert facts["data"]["rows"] == 3000
    held = facts["held_out"]
    assert held["rows"] == 3000 - facts["data"]["rows_fitted"]
    assert 500 < held["rows"] < 700
    assert held["r2"] > 0.95
    assert [entry["name"] for entry in facts["inputs"]] == ["a", "b", "c"]
    run("report", "model.polyadic")
    assert (folder / "report.html").stat().st_size > 10_000


def test_a_large_file_is_read_from_disk_and_that_is_said(monkeypatch):
    monkeypatch.setattr("polyadic.cli.streaming.STREAMED_BYTES", 10_000)
    result = run("fit", "t.parquet", "--config", "config.toml")
    assert "t.parquet has 0.0 GB, so its rows are read from disk" in result.stderr
    result = run("fit", "t.parquet", "--config", "config.toml", "--no-stream")
    assert result.stderr == ""


def test_a_folder_is_read_from_disk(folder):
    (folder / "parts").mkdir()
    table = pa.parquet.read_table("t.parquet")
    for index in range(3):
        part = table.slice(1000 * index, 1000)
        pa.parquet.write_table(part, folder / "parts" / f"{index}.parquet")
    run("fit", "parts", "--config", "config.toml", "--holdout", "0")
    parts = polyadic.load("model.polyadic")
    fit("t.parquet", "--holdout", "0")
    np.testing.assert_array_equal(parts.cores_, polyadic.load("model.polyadic").cores_)


def test_mistakes(folder):
    table = pa.parquet.read_table("t.parquet")
    text = table.append_column("kind", [pa.array(["x"] * 3000)])
    pa.parquet.write_table(text, "text.parquet")
    values = table["a"].to_pylist()
    values[7] = None
    pa.parquet.write_table(table.set_column(0, "a", [pa.array(values)]), "gap.parquet")
    before = sorted(path.name for path in folder.iterdir())
    for words, message in (
        (["text.parquet"], "not numbers: 'kind'.* --ignore 'kind'"),
        (["text.parquet", "--encode"], "--encode needs the whole table in memory"),
        (["t.parquet", "--missing", "mean"], "--missing mean needs the whole table in memory"),
        (["t.parquet", "--target", "z"], "no column 'z'. Pass --target"),
        (["gap.parquet"], "Row 7 of gap.parquet .*column 'a'.*pass --missing drop"),
        (["config.toml"], "must end in"),
    ):
        result = fit(*words, code=2)
        assert re.search(message, result.stderr), result.stderr
        assert "Traceback" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    said = fit("gap.parquet", "--missing", "drop").stdout
    assert "1 rows with missing values left out" in said
    predict = ["predict", "model.polyadic", "--stream"]
    assert "Row 7" in run(*predict, "gap.parquet", code=2).stderr
    assert "does not know: 'kind'" in run(*predict, "text.parquet", code=2).stderr
    run(*predict, "text.parquet", "--by-name")

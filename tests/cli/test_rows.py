"""Rows of the command: read from files as they are needed, held out by what they say."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import polyadic
from polyadic.estimators.saving import load_with_notes
from tests.cli.command import run

CONFIG = """
rank = 3
n_basis = 4
max_iter = 4
force = true
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


def fit(data, *words, **options):
    return run("fit", data, "--config", "config.toml", *words, **options)


def test_the_fit_is_that_of_arrays():
    fit("t.parquet", "--holdout", "0")
    table = pa.parquet.read_table("t.parquet")
    X = np.column_stack([table[name].to_numpy().astype(float) for name in "abc"])
    mine = polyadic.load("model.polyadic")
    settings = {"rank": 3, "n_basis": 4, "max_iter": 4, "random_state": 0}
    expected = polyadic.FeatureLearningRegressor(mine.feature_maps, **settings)
    expected.fit(X, table["target"].to_numpy())
    np.testing.assert_allclose(mine.cores_, expected.cores_, rtol=0, atol=1e-8)
    printed = run("predict", "model.polyadic", "t.parquet").stdout.split()[1:]
    np.testing.assert_allclose(np.array(printed, float), expected.predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_predictions_are_written_as_they_come(name, monkeypatch):
    fit("t.parquet")
    run("predict", "model.polyadic", "t.csv", "--out", "expected.csv")
    monkeypatch.setattr("polyadic.sources.files.row_source._MOST_ROWS", 1024)
    said = run("predict", "model.polyadic", "t.csv", "--out", name).stdout
    assert said == f"Wrote 3000 predictions to {name}.\n"
    read = pa.csv.read_csv if name.endswith("csv") else pa.parquet.read_table
    expected = pa.csv.read_csv("expected.csv")["prediction"]
    np.testing.assert_allclose(read(name)["prediction"], expected, rtol=0, atol=1e-10)


def test_rows_are_counted_and_measured(folder):
    fit("t.csv")
    facts = json.loads(run("show", "model.polyadic", "--json").stdout)
    data, held = facts["data"], facts["held_out"]
    assert (data["rows"], data["rows_fitted"], data["rows_held_out"]) == (3000, 2400, 600)
    assert held["rows"] == 600
    assert held["r2"] > 0.95
    assert [entry["name"] for entry in facts["inputs"]] == ["a", "b", "c"]


def test_copies_of_a_row_are_held_out_together(folder):
    """On noise that is there five times, nothing can be learned for rows that are held out."""
    rng = np.random.RandomState(0)
    rows = np.repeat(rng.randn(300, 3), 5, axis=0)[rng.permutation(1500)]
    names = ["a", "b", "target"]
    pa.csv.write_csv(pa.table(dict(zip(names, rows.T, strict=True))), "copies.csv")
    words = ["--rank", 10, "--n-basis", 16, "--max-iter", 10, "--alpha", 1e-4, "--json"]
    facts = json.loads(fit("copies.csv", *words).stdout)
    assert facts["held_out"]["rows"] == 300
    assert facts["held_out"]["r2"] < 0.1


def test_the_same_rows_are_held_out_however_they_are_read(folder):
    """From Parquet or text, with a column of text beside them or without."""
    table = pa.parquet.read_table("t.parquet")
    kinds = pa.array(np.where(np.arange(3000) % 7, "x", "y"))
    pa.parquet.write_table(table.append_column("kind", kinds), "more.parquet")
    fitted = []
    for name, words in (("t.parquet", []), ("t.csv", []), ("more.parquet", ["--ignore", "kind"])):
        fit(name, *words)
        _, notes = load_with_notes("model.polyadic")
        fitted.append(notes["data"]["fingerprints"])
        assert notes["data"]["rows_fitted"] == 2400
    assert fitted == [fitted[0]] * 3


def test_levels_of_held_out_rows_are_unknown_to_the_fit(folder):
    """A level that is in one row only: it is either a level of the model, or was held out."""
    table = pa.parquet.read_table("t.parquet").slice(0, 200)
    kinds = [f"once {i}" if i % 10 == 0 else "often" for i in range(200)]
    pa.parquet.write_table(table.append_column("kind", pa.array(kinds)), "u.parquet")
    said = run("fit", "u.parquet", "--effort", "0.05", "--n-estimators", "1").stderr
    assert "did not see" not in said
    levels = polyadic.load("model.polyadic").schema_.columns[-1].levels
    held = {kind for kind in kinds if kind != "often"} - set(levels)
    assert 0 < len(held) < 20
    said = run("evaluate", "model.polyadic", "u.parquet").stderr
    assert f"levels that the fit did not see ({len(held)} in 'kind')" in said


def test_a_folder_is_the_table_in_its_files(folder):
    table = pa.parquet.read_table("t.parquet")
    for index in range(3):
        part = table.slice(1000 * index, 1000).drop_columns("c")
        (folder / "parts" / f"c={index}").mkdir(parents=True)
        pa.parquet.write_table(part, folder / "parts" / f"c={index}" / "0.parquet")
    fit("parts", "--holdout", "0")
    parts = polyadic.load("model.polyadic")
    group = pa.array(np.repeat([0.0, 1.0, 2.0], 1000))
    whole = table.drop_columns(["c", "target"]).append_column("c", group)
    pa.parquet.write_table(whole.append_column("target", table["target"]), "whole.parquet")
    fit("whole.parquet", "--holdout", "0")
    np.testing.assert_array_equal(parts.cores_, polyadic.load("model.polyadic").cores_)
    (folder / "parts" / "c=1" / "0.parquet").unlink()
    pa.parquet.write_table(table.drop_columns(["a", "c"]), folder / "parts" / "c=1" / "0.parquet")
    assert "has no column 'a'" in fit("parts", code=2).stderr


def test_a_sample_of_the_rows_is_kept(folder):
    fit("t.parquet")
    _, notes = load_with_notes("model.polyadic")
    sample = notes["sample"]
    assert sample["described"] == "a sample of 1000 of the 2400 rows of the fit"
    assert sample["inputs"].shape == (1000, 3)
    table = pa.parquet.read_table("t.parquet")
    rows = {tuple(row) for row in zip(*(table[n].to_pylist() for n in "abc"), strict=True)}
    assert {tuple(row) for row in sample["inputs"]} < rows
    fit("t.parquet", "--no-sample")
    assert "sample" not in load_with_notes("model.polyadic")[1]
    pa.parquet.write_table(table.slice(0, 50), "few.parquet")
    fit("few.parquet", "--holdout", "0")
    assert load_with_notes("model.polyadic")[1]["sample"]["described"] == "the 50 rows of the fit"


def test_rows_that_cannot_be_used(folder):
    table = pa.parquet.read_table("t.parquet")
    text = table.append_column("kind", [pa.array(["x"] * 3000)])
    pa.parquet.write_table(text, "text.parquet")
    values = table["a"].to_pylist()
    values[7] = None
    pa.parquet.write_table(table.set_column(0, "a", [pa.array(values)]), "gap.parquet")
    before = sorted(path.name for path in folder.iterdir())
    for words, message in (
        (["text.parquet"], "need numbers, but column 'kind' holds categories"),
        (["t.parquet", "--target", "z"], "no column 'z'. Pass --target"),
        (["gap.parquet"], r"Row 8 of gap.parquet .* has no number in column 'a'"),
        (["config.toml"], "must be a CSV, Parquet, Excel, npy or npz file"),
    ):
        result = fit(*words, code=2)
        assert re.search(message, result.stderr), result.stderr
        assert "Traceback" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    fit("t.parquet")
    predict = ["predict", "model.polyadic"]
    assert "Row 8 of gap.parquet" in run(*predict, "gap.parquet", code=2).stderr
    assert "does not know: 'kind'" in run(*predict, "text.parquet", code=2).stderr
    run(*predict, "text.parquet", "--by-name")
    words = ["--by-name", "--target", "kind"]
    sentence = run("evaluate", "model.polyadic", "text.parquet", *words, code=2).stderr
    assert "'kind' is text. The target must be numbers, as in the fit." in sentence

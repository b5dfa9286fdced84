"""`polyadic report`: what it takes, and what it refuses in one sentence."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyadic
from polyadic.cli import main
from polyadic.estimators import _status
from polyadic.estimators.saving import load_with_notes, save
from polyadic.members import InputSummary
from tests.report.tables import QUICK, change_notes, houses, refused, report, run, write_table

ROWS = np.random.RandomState(0).rand(80, 2)
COLUMNS = {"a": ROWS[:, 0], "b": ROWS[:, 1], "target": ROWS[:, 0] + ROWS[:, 1] ** 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    write_table(folder / "t.csv", COLUMNS)
    run("fit", folder / "t.csv", "--out", folder / "model.polyadic", *QUICK)
    return folder


FORGED = {
    "sample of another width": {"sample": {"inputs": np.zeros((9, 5)), "described": "rows"}},
    "sample without rows": {"sample": {"inputs": np.zeros((0, 2)), "described": "rows"}},
    "sample of NaN": {"sample": {"inputs": np.full((9, 2), np.nan), "described": "rows"}},
    "sample undescribed": {"sample": {"inputs": np.zeros((9, 2))}},
    "sample a text": {"sample": "rows"},
    "sample of texts": {"sample": {"inputs": [["a", "b"]], "described": "rows"}},
    "inputs a number": {"inputs": 5},
    "inputs without deciles": {"inputs": [{"name": "a"}, {"name": "b"}]},
    "too few inputs": {"inputs": [{"name": "a", "deciles": [0.0] * 11}]},
    "uneven deciles": {"inputs": [{"deciles": [0.0] * 11}, {"deciles": [0.0]}]},
    "held_out a list": {"held_out": [1, 2]},
    "held_out without metrics": {"held_out": {"actual": [1.0], "predicted": [1.0]}},
    "pairs of two lengths": {
        "held_out": {"metrics": {}, "actual": np.zeros(3), "predicted": np.zeros(4)}
    },
    "metrics of text": {
        "held_out": {
            "metrics": {"rows": "x", "rmse": 1, "mae": 1, "r2": None},
            "actual": np.zeros(3),
            "predicted": np.zeros(3),
        }
    },
    "data a list": {"data": ["t.csv"]},
    "data incomplete": {"data": {"file": "t.csv"}},
    "holdout of all": {
        "data": {"file": "t", "rows": 1, "rows_fitted": 1, "date": "", "seconds": 1, "holdout": 2}
    },
    "seconds a text": {
        "data": {"file": "t", "rows": 1, "rows_fitted": 1, "date": "", "seconds": "long"}
    },
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_notes_end_in_one_sentence(folder, tmp_path, kind):
    forged = change_notes(folder / "model.polyadic", tmp_path / "forged.polyadic", **FORGED[kind])
    table = folder / "t.csv"
    for words in (["report", "--out", tmp_path / "page.html"], ["show"], ["show", "--json"]):
        sentence = refused(words[0], forged, *words[1:])
        assert "forged.polyadic cannot be used" in sentence
        assert repr(next(iter(FORGED[kind]))) in sentence
    for command in ("predict", "evaluate"):
        assert "forged.polyadic cannot be used" in refused(command, forged, table)
    assert not (tmp_path / "page.html").exists()


SUMMARY = {"kind": "number", "kernel": "rbf", "length_scale": 1.0, "n_basis": 4, "relevance": 0.5}
SUMMARIES = {
    "too few": [SUMMARY],
    "not finite": [SUMMARY, {**SUMMARY, "relevance": float("nan")}],
    "no length scale": [SUMMARY, {**SUMMARY, "length_scale": None}],
    "no kernel": [SUMMARY, {**SUMMARY, "kernel": None}],
    "a text": "inputs",
}


@pytest.mark.parametrize("kind", SUMMARIES)
def test_forged_summaries_of_inputs_end_in_one_sentence(folder, tmp_path, kind):
    model, notes = load_with_notes(folder / "model.polyadic")
    model.inputs_ = (
        SUMMARIES[kind]
        if kind == "a text"
        else [InputSummary("a", **fields) for fields in SUMMARIES[kind]]
    )
    save(model, tmp_path / "forged.polyadic", notes=notes)
    for words in (["report", "--out", tmp_path / "page.html"], ["show"]):
        sentence = refused(words[0], tmp_path / "forged.polyadic", *words[1:])
        assert "forged.polyadic cannot be used" in sentence
        assert "'inputs_'" in sentence


@pytest.mark.slow
def test_a_table_without_the_target_asks_for_an_option_that_exists(folder, tmp_path):
    other = {"a": COLUMNS["a"], "b": COLUMNS["b"], "price": 2 * COLUMNS["target"]}
    table = write_table(tmp_path / "other.csv", other)
    words = [folder / "model.polyadic", table, "--by-name", "--out", tmp_path / "page.html"]
    assert "Pass --target" in refused("report", *words)
    numbers = report(*words, "--target", "price")
    assert numbers["target"] == "price"
    assert numbers["errors"]["rows"] == 80
    assert "<h1>price from 2 inputs</h1>" in (tmp_path / "page.html").read_text("utf-8")


def test_a_model_saved_in_python_is_reported_on_with_a_table(folder, tmp_path):
    y = COLUMNS["target"]
    model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(ROWS, y)
    polyadic.save(model, tmp_path / "mine.polyadic")
    table = write_table(tmp_path / "t.csv", {"x0": ROWS[:, 0], "x1": ROWS[:, 1], "price": y})
    words = [tmp_path / "mine.polyadic", "--force", "--out", tmp_path / "page.html"]
    assert report(*words)["inputs"] is None
    assert report(*words)["data"] is None
    numbers = report(words[0], table, *words[1:], "--target", "price")
    assert numbers["errors"]["model"]["r2"] == pytest.approx(model.score(ROWS, y))
    assert len(numbers["inputs"]["curves"]) == 2


NEW = np.random.RandomState(1).rand(40, 2)
NEW_Y = NEW[:, 0] + NEW[:, 1] ** 2


@pytest.fixture(scope="module")
def compared(folder):
    """Return the numbers of a report on new rows, and what it said on a terminal meanwhile."""
    table = write_table(folder / "new.csv", {"a": NEW[:, 0], "b": NEW[:, 1], "target": NEW_Y})
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_status, "sys", SimpleNamespace(stderr=terminal, modules={}))
        patch.setattr(_status, "_DELAY", 0.0)
        patch.setattr(_status, "_PAUSE", 0.001)
        words = ["--train", folder / "t.csv", "--out", folder / "new.html"]
        numbers = report(folder / "model.polyadic", table, *words)
    return numbers, terminal.getvalue()


def test_other_models_learn_from_the_rows_of_the_fit(folder, compared):
    errors = compared[0]["errors"]
    assert (errors["rows"], errors["n_fitted"], errors["n_folds"]) == (40, 64, 0)
    kept, _ = polyadic.open_rows(folder / "t.csv", target="target").split(0.2)
    ((X, y),) = [(batch.X, batch.y[:, 0]) for batch in kept.batches()]
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 8))).fit(X, y)
    found = {each["name"]: each["r2"] for each in errors["baselines"]}
    assert found["ridge regression"] == pytest.approx(ridge.score(NEW, NEW_Y), abs=1e-9)
    assert not compared[0]["cautions"]


def test_a_report_says_on_a_terminal_what_it_does(compared):
    lines = compared[1].split("\r")
    for step in ("fitting gradient boosting", "drawing figures"):
        assert any(f"polyadic: report, {step}" in line for line in lines)
    assert not lines[-1].strip()


def test_the_table_of_the_fit_shows_what_was_held_out(folder, tmp_path):
    words = [folder / "model.polyadic", "--train", folder / "t.csv"]
    numbers = report(*words, "--out", tmp_path / "page.html")
    known = json.loads(run("show", folder / "model.polyadic", "--json"))["held_out"]
    assert numbers["errors"]["rows"] == known["rows"] == 16
    assert numbers["errors"]["model"]["r2"] == pytest.approx(known["r2"], abs=1e-12)
    assert numbers["coverage"]["rows"] == 16
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "FeatureLearningRegressor of t.csv" in text
    assert "part of t.csv that was kept from the fit" in text


def test_only_the_table_of_the_fit_is_one(folder, tmp_path):
    words = ["report", folder / "model.polyadic", "--out", tmp_path / "page.html", "--train"]
    fewer = write_table(tmp_path / "t.csv", {name: v[:50] for name, v in COLUMNS.items()})
    assert "table that the model was fitted to, t.csv" in refused(*words, fewer)
    whole = tmp_path / "whole.polyadic"
    run("fit", folder / "t.csv", "--out", whole, "--holdout", "0", *QUICK)
    words[1] = whole
    assert "none are left to measure it on. Pass DATA" in refused(*words, folder / "t.csv")


@pytest.mark.slow
def test_rows_of_the_fit_are_warned_of(folder, tmp_path):
    words = ["--force", "--out", tmp_path / "page.html"]
    renamed = write_table(tmp_path / "new.csv", COLUMNS)
    for table in (folder / "t.csv", renamed):
        assert report(folder / "model.polyadic", table, *words)["cautions"]
    others = write_table(tmp_path / "t.csv", {name: v[:50] for name, v in COLUMNS.items()})
    assert not report(folder / "model.polyadic", others, *words)["cautions"]


@pytest.mark.slow
def test_a_table_with_gaps_and_new_levels_is_reported_on(tmp_path):
    frame, target = houses(300)
    frame["age"] = frame["age"].mask(frame.index % 9 == 0)
    frame.assign(target=target).to_csv(tmp_path / "old.csv", index=False)
    new = frame.assign(target=target)[:100]
    new.loc[:29, "smoker"], new.loc[30:49, "smoker"] = None, "now and then"
    new.to_csv(tmp_path / "new.csv", index=False)
    model, page = tmp_path / "m.polyadic", tmp_path / "page.html"
    run("fit", tmp_path / "old.csv", "--out", model, *QUICK)
    numbers = report(model, "--out", page)
    age, smoker, _ = numbers["data"]
    assert 0 < age["n_gaps"] < 34
    assert {label for label, _ in smoker["levels"]} == {"yes", "no"}
    words = ["report", model, tmp_path / "new.csv", "--out", page, "--json", "--force"]
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("levels that the fit did not see") == 1
    numbers = json.loads(result.stdout)
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "smoker"]
    assert dict(zip(curve["labels"], curve["rows"], strict=True)).items() > {
        ("gap", 30),
        ("not in the fit", 20),
    }
    assert len(numbers["errors"]["baselines"]) == 3


@pytest.mark.parametrize("name", ["model.polyadic", "t.csv"])
def test_what_it_reads_is_not_overwritten(folder, name):
    before = (folder / name).read_bytes()
    words = ["report", folder / "model.polyadic", folder / "t.csv", "--out", folder / name]
    assert "Name another file" in refused(*words)
    assert (folder / name).read_bytes() == before


@pytest.mark.slow
def test_names_of_all_kinds_are_names(tmp_path):
    """Dollar signs are no mathematics, and no font lacks a glyph that the page writes as text."""
    names = ["rate_$a_{$", "cost $ per $m", "温度 🌡", "tab\there"]
    rng = np.random.RandomState(0)
    columns = {name: rng.rand(60) for name in names}
    columns["größe"] = sum(columns.values())
    table = write_table(tmp_path / "t.csv", columns)
    model, page = tmp_path / "m.polyadic", tmp_path / "page.html"
    run("fit", table, "--target", "größe", "--out", model, *QUICK)
    run("report", model, table, "--out", page)
    text = page.read_text("utf-8")
    assert "<h1>größe from 4 inputs</h1>" in text
    for name in ("rate_$a_{$", "cost $ per $m", "温度 🌡", "tab here"):
        assert f">{name}</text>" in text

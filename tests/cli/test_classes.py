"""Classes in the command: from a table with labels to probabilities, as a user would run it."""

from __future__ import annotations

import json
import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import polyadic
from polyadic import FeatureLearningClassifier
from polyadic.estimators.saving import load_with_notes, save
from tests.cli.command import run

SMALL = ["--effort", "0.05", "--n-estimators", "1"]


def table(count=200, seed=0, names=("near", "far")):
    """Points in a square, by how far they are from its middle; a tenth of them are wrong."""
    rng = np.random.RandomState(seed)
    X = rng.rand(count, 2).round(6)
    place = (((X - 0.5) ** 2).sum(axis=1) > 0.15) ^ (rng.rand(count) < 0.1)
    kind = rng.choice(["u", "v"], count)
    label = np.array(names)[place.astype(int)]
    return pa.table({"a": X[:, 0], "b": X[:, 1], "kind": kind, "target": label.tolist()})


def frame_of(rows):
    return rows.to_pandas().drop(columns="target")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of two texts, what the command said of it, and the folder of its table."""
    folder = tmp_path_factory.mktemp("fitted")
    pa.csv.write_csv(table(), folder / "t.csv")
    result = run("fit", folder / "t.csv", *SMALL, "--out", folder / "m.polyadic")
    return folder / "m.polyadic", result


def test_text_is_recognised_measured_and_told(fitted):
    _, result = fitted
    assert result.stderr == "Note: the target 'target' is text, so 2 classes are predicted.\n"
    assert "FeatureLearningClassifier: target (2 classes: far, near) from 3 columns" in (
        result.stdout
    )
    assert re.search(
        r"40 held-out rows: log-loss 0\.\d{4}, accuracy \d\d\.\d %, AUC 0\.\d{4}\n"
        r"  a constant prediction: log-loss 0\.\d{4}, accuracy \d\d\.\d %, AUC 0\.5000\n",
        result.stdout,
    )
    assert "how log odds change without one" in result.stdout


def test_the_rows_that_were_held_out_are_measured_as_in_python(fitted):
    path, _ = fitted
    facts = json.loads(run("show", path, "--json").stdout)
    assert (facts["task"], facts["classes"]) == ("classification", ["far", "near"])
    kept, held = polyadic.open_rows(path.parent / "t.csv", target="target").split(0.2)
    model = FeatureLearningClassifier(effort=0.05, n_estimators=1, random_state=0).fit(kept)
    p = model.predict_proba(held)
    _, notes = load_with_notes(path)
    np.testing.assert_array_equal(notes["held_out"]["predicted"], p)
    actual, metrics = notes["held_out"]["actual"].astype(int), facts["held_out"]
    assert metrics["rows"] == facts["data"]["rows_held_out"] == len(p) == 40
    assert metrics["log_loss"] == pytest.approx(-np.log(p[np.arange(40), actual]).mean(), rel=1e-12)
    assert metrics["accuracy"] == model.score(held)


def test_predictions_are_labels_and_probabilities(fitted, folder):
    path, _ = fitted
    rows = table(50, seed=1)
    model = polyadic.load(path)
    p = model.predict_proba(frame_of(rows))
    pa.csv.write_csv(rows.drop_columns("target"), "new.csv")
    said = run("predict", path, "new.csv").stdout
    assert said.split() == ["prediction", *model.predict(frame_of(rows))]
    tabs = pa.csv.ParseOptions(delimiter="\t")
    for name, read in (
        ("p.csv", pa.csv.read_csv),
        ("p.tsv", partial(pa.csv.read_csv, parse_options=tabs)),
        ("p.parquet", pa.parquet.read_table),
    ):
        run("predict", path, "new.csv", "--proba", "--out", name)
        found = read(name)
        assert found.column_names == ["prediction", "probability_far", "probability_near"]
        assert found["prediction"].to_pylist() == said.split()[1:]
        np.testing.assert_array_equal(np.column_stack(found.columns[1:]), p)


def test_a_table_is_evaluated(fitted, folder):
    path, _ = fitted
    rows = table(150, seed=1)
    pa.parquet.write_table(rows, "new.parquet")
    metrics = json.loads(run("evaluate", path, "new.parquet", "--json").stdout)
    model = polyadic.load(path)
    assert metrics["accuracy"] == model.score(frame_of(rows), rows["target"].to_pylist())
    assert (metrics["rows"], metrics["auc"] > 0.8) == (150, True)
    lines = run("evaluate", path, "new.parquet").stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["150 rows", "a constant prediction"]


@pytest.mark.slow
def test_a_report_is_written(fitted, folder):
    """With the rows that the file kept, and with those of a table; it has the same numbers."""
    path, _ = fitted
    numbers = json.loads(run("report", path, "--json").stdout)
    shown = json.loads(run("show", path, "--json").stdout)["held_out"]
    found = numbers["class_errors"]["model"]
    assert found["accuracy"] == pytest.approx(shown["accuracy"], rel=1e-12)
    assert found["log_loss"] == pytest.approx(shown["log_loss"], rel=1e-12)
    pa.csv.write_csv(table(150, seed=1), "new.csv")
    measured = json.loads(run("evaluate", path, "new.csv", "--json").stdout)
    numbers = json.loads(run("report", path, "new.csv", "--force", "--json").stdout)
    assert numbers["class_errors"]["model"]["auc"] == pytest.approx(measured["auc"], abs=1e-4)
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_report_of_several_classes_is_written(folder):
    near = table(150)["a"].to_numpy()
    labels = pa.array(np.array(["low", "middle", "high"])[np.digitize(near, [0.3, 0.6])])
    pa.csv.write_csv(table(150).set_column(3, "target", labels), "t.csv")
    run("fit", "t.csv", *SMALL)
    found = json.loads(run("report", "model.polyadic", "--json").stdout)["class_errors"]["model"]
    assert 0.5 < found["auc"] <= 1


def test_rows_of_the_fit_are_told(fitted):
    path, _ = fitted
    said = run("evaluate", path, path.parent / "t.csv").stderr
    assert "rows of t.csv that the model was fitted to" in said


def test_labels_that_the_fit_did_not_see_are_told(fitted, folder):
    path, _ = fitted
    rows = table(60, seed=1)
    labels = rows["target"].to_pylist()
    strange = pa.array(["elsewhere" if row < 6 else label for row, label in enumerate(labels)])
    pa.csv.write_csv(rows.set_column(3, "target", strange), "new.csv")
    result = run("evaluate", path, "new.csv", "--json")
    assert "6 rows have classes that the fit did not see" in result.stderr
    expected = polyadic.load(path).predict(frame_of(rows)) == np.array(strange)
    assert json.loads(result.stdout)["accuracy"] == pytest.approx(expected.mean(), rel=1e-12)


def test_labels_may_have_any_marks(folder):
    rows = table(60, names=('near, "very"', "far"))
    pa.csv.write_csv(rows, "t.csv")
    run("fit", "t.csv", *SMALL)
    run("predict", "model.polyadic", "t.csv", "--proba", "--out", "p.csv")
    found = pa.csv.read_csv("p.csv")
    assert found.column_names[1:] == ["probability_far", 'probability_near, "very"']
    labels = polyadic.load("model.polyadic").predict(frame_of(rows)).tolist()
    assert found["prediction"].to_pylist() == labels


@pytest.mark.parametrize(
    ("names", "classes", "said"),
    [
        ((False, True), [False, True], "is true or false"),
        ((1, 0), [0, 1], "is 0 or 1, so classes are predicted. Pass --task regression"),
        (("A", "1"), ["1", "A"], "is text"),
    ],
)
def test_labels_are_what_they_are_in_the_file(folder, names, classes, said):
    rows = table(120, names=names)
    pa.csv.write_csv(rows, "t.csv")
    assert said in run("fit", "t.csv", *SMALL).stderr
    model = polyadic.load("model.polyadic")
    assert model.classes_.tolist() == classes
    assert type(model.classes_.tolist()[0]) is type(classes[0])
    written = {str(label).lower() if label in (False, True) else str(label) for label in classes}
    assert set(run("predict", "model.polyadic", "t.csv").stdout.split()[1:]) <= written
    # A table in which all labels that there are look like numbers.
    some = rows.filter(pa.array([label == names[1] for label in rows["target"].to_pylist()]))
    pa.csv.write_csv(some, "some.csv")
    metrics = json.loads(run("evaluate", "model.polyadic", "some.csv", "--json").stdout)
    assert metrics["accuracy"] == model.score(frame_of(some), some["target"].to_pylist())


def test_formats_give_the_same_classes(folder):
    openpyxl = pytest.importorskip("openpyxl")
    rows = table(80)
    book = openpyxl.Workbook()
    for row in [rows.column_names, *(list(row.values()) for row in rows.to_pylist())]:
        book.active.append(row)
    book.save("t.xlsx")
    pa.csv.write_csv(rows, "t.csv")
    pa.parquet.write_table(
        rows.set_column(3, "target", rows["target"].dictionary_encode()), "t.parquet"
    )
    said = []
    for name in ("t.csv", "t.parquet", "t.xlsx"):
        run("fit", name, *SMALL, "--force")
        said.append(run("predict", "model.polyadic", "t.csv", "--proba").stdout)
    assert said == [said[0]] * 3


def test_rows_without_a_label_are_left_out(folder):
    labels = ["" if row < 5 else label for row, label in enumerate(table()["target"].to_pylist())]
    pa.csv.write_csv(table().set_column(3, "target", pa.array(labels)), "t.csv")
    result = run("fit", "t.csv", *SMALL)
    assert "fitted on 156 of 200 rows of t.csv, 39 held out, 5 without a target" in result.stdout
    assert polyadic.load("model.polyadic").classes_.tolist() == ["far", "near"]


def test_users_choose_the_task(folder):
    pa.csv.write_csv(table(160, names=(0, 1)), "t.csv")
    result = run("fit", "t.csv", *SMALL, "--task", "regression")
    assert (result.stderr, "RMSE" in result.stdout) == ("", True)
    assert (
        "--proba is about classes"
        in run("predict", "model.polyadic", "t.csv", "--proba", code=2).stderr
    )
    result = run("fit", "t.csv", *SMALL, "--loss", "poisson", "--force")
    assert polyadic.load("model.polyadic").loss == "poisson"
    run("fit", "t.csv", *SMALL, "--quantile", "0.8", "--force")
    model = polyadic.load("model.polyadic")
    assert (model.loss, model.quantile) == ("quantile", 0.8)
    pa.csv.write_csv(table(100), "text.csv")
    said = run("fit", "text.csv", "--task", "regression", "--force", code=2).stderr
    assert "'target' is text" in said
    assert "must be numbers" in said
    said = run("fit", "text.csv", "--loss", "huber", "--force", code=2).stderr
    assert "--loss is for numbers, and the target 'target' is taken for classes" in said
    assert "must be numbers" in run("evaluate", "model.polyadic", "text.csv", code=2).stderr


def test_classes_can_have_weights(folder):
    """As in Python, on all rows; and the rarer class is then predicted more often."""
    rows = table(200)
    pa.csv.write_csv(rows, "t.csv")
    counts = {}
    for words, weight in (([], None), (["--class-weight", "far=4"], {"far": 4.0})):
        run("fit", "t.csv", *SMALL, *words, "--holdout", "0", "--force")
        model = polyadic.load("model.polyadic")
        assert model.class_weight == weight
        counts[bool(words)] = int((model.predict(frame_of(rows)) == "far").sum())
    assert counts[True] > counts[False]
    run("fit", "t.csv", *SMALL, "--class-weight", "balanced", "--force")
    assert polyadic.load("model.polyadic").class_weight == "balanced"


def test_text_that_hardly_repeats_needs_a_word(folder):
    names = [f"n{row // 2 if row < 20 else row}" for row in range(40)]
    rows = table(40).set_column(3, "target", pa.array(names))
    pa.csv.write_csv(rows, "t.csv")
    said = run("fit", "t.csv", *SMALL, code=2).stderr
    assert "The target 'target' is text (row 1 is 'n0'), and its 30 different texts in 40" in said
    assert "--task classification" in said


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["x"] * 40, "'target' is 'x' in all rows"),
        ([True] * 40, "'target' is True in all rows"),
        ([0.5, 1.5] * 20, "not whole, such as 0.5, which cannot be classes. Pass --task regr"),
    ],
)
def test_what_cannot_be_classes(folder, labels, said):
    pa.csv.write_csv(table(40).set_column(3, "target", pa.array(labels)), "t.csv")
    assert said in run("fit", "t.csv", "--task", "classification", code=2).stderr


def test_a_classifier_saved_in_python_can_be_used(folder):
    rows = table(80)
    model = FeatureLearningClassifier(effort=0.05, n_estimators=1, random_state=0)
    model.fit(frame_of(rows), rows["target"].to_pylist())
    polyadic.save(model, "m.polyadic")
    pa.csv.write_csv(rows, "t.csv")
    assert "target (2 classes: far, near) from 3 columns" in run("show", "m.polyadic").stdout
    said = run("predict", "m.polyadic", "t.csv", "--by-name").stdout
    assert said.split()[1:] == model.predict(frame_of(rows)).tolist()
    metrics = json.loads(run("evaluate", "m.polyadic", "t.csv", "--json").stdout)
    assert metrics["accuracy"] == model.score(frame_of(rows), rows["target"].to_pylist())


@pytest.mark.parametrize(
    "change",
    [
        {"actual": np.full(40, 2.0)},
        {"predicted": np.zeros((40, 3))},
        {"predicted": np.zeros(40)},
        {"metrics": {"rows": 40, "accuracy": "high"}},
        {"metrics": {"rows": 40, "mse": 1.0, "rmse": 1.0, "mae": 1.0, "r2": 0.5}},
    ],
)
def test_forged_notes_are_refused(fitted, folder, change):
    model, notes = load_with_notes(fitted[0])
    notes["held_out"] = {**notes["held_out"], **change}
    save(model, "m.polyadic", notes=notes)
    said = run("show", "m.polyadic", code=2).stderr
    assert "what it notes of 'held_out' is not what polyadic writes" in said

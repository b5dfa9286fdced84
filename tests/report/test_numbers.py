"""What the report says is true of the rows and the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import polyadic
from polyadic.report import Subject, render
from polyadic.report._errors import find_errors
from polyadic.report._findings import find
from tests.report.tables import QUICK, categories, change_notes, report, run, write_table


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(400, n_features=6, noise=0.5, random_state=0)
    model = polyadic.KernelMachineRegressor(rank=8, n_basis=4, alpha=0.01, random_state=0)
    return model.fit(X, y), X, y


def subject_of(model, X, **changes):
    names = [f"x{place}" for place in range(model.n_features_in_)]
    return Subject(**{"model": model, "X": X, "target": "y", "names": names, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    table = write_table(folder / "houses.csv", categories(400))
    model = folder / "model.polyadic"
    run("fit", table, "--encode", "--holdout", 0, "--out", model, *QUICK)
    return folder


def one_hot(columns, names):
    """Return the rows as the model sees them, by the names of its inputs."""
    inputs = []
    for name in names:
        column, _, level = name.partition("=")
        inputs.append(columns[column] == level if level else columns[column])
    return np.column_stack(inputs).astype(float)


def predict(model, rows):
    return model.predict(pd.DataFrame(rows, columns=model.feature_names_in_))


@pytest.fixture(scope="module")
def with_sample(folder):
    model = polyadic.load(folder / "model.polyadic")
    rows = one_hot(categories(400), model.feature_names_in_)[:300]
    note = {"inputs": rows, "described": "a sample of 300 of the 400 rows of the fit"}
    path = change_notes(folder / "model.polyadic", folder / "sample.polyadic", sample=note)
    return path, model, rows


def test_without_rows_there_are_no_curves_and_the_page_says_why(folder, tmp_path):
    bare = change_notes(folder / "model.polyadic", tmp_path / "bare.polyadic", sample=None)
    page = tmp_path / "page.html"
    numbers = report(bare, "--out", page)
    assert numbers["inputs"] is None
    text = page.read_text("utf-8")
    assert "figure-dependence" not in text
    assert "figure-importance" not in text
    assert "This needs rows" in text
    assert "polyadic report bare.polyadic rows.csv" in text


def test_ranges_are_those_of_all_rows_of_the_fit(with_sample, tmp_path):
    path, model, _ = with_sample
    everything = one_hot(categories(400), model.feature_names_in_)
    numbers = report(path, "--out", tmp_path / "page.html")
    for (name, *row), column in zip(numbers["ranges"], everything.T, strict=True):
        assert row == [column.min(), np.median(column), column.max()], name
    assert "all rows of the fit" in (tmp_path / "page.html").read_text("utf-8")


def test_a_category_is_one_input_and_its_columns_move_together(with_sample, tmp_path):
    path, model, rows = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    names = list(model.feature_names_in_)
    assert {found["name"] for found in numbers["inputs"]["importances"]} == {
        "age",
        "smoker",
        "roof",
    }
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "smoker"]
    for label, count, value in zip(curve["labels"], curve["rows"], curve["values"], strict=True):
        changed = rows.copy()
        for level in ("yes", "no"):
            changed[:, names.index(f"smoker={level}")] = level == label
        assert value == pytest.approx(predict(model, changed).mean(), rel=1e-9)
        assert count == rows[:, names.index(f"smoker={label}")].sum()
    assert "a sample of 300 of the 400 rows of the fit" in (tmp_path / "page.html").read_text()
    assert "target from 3 inputs" in (tmp_path / "page.html").read_text()


def test_rare_levels_are_grouped(with_sample, tmp_path):
    path, model, rows = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "roof"]
    assert curve["labels"] == ["shingle", "other (2 levels)"]
    assert curve["rows"] == [297, 3]
    names, total = list(model.feature_names_in_), 0.0
    for level, count in (("clay", 2), ("metal", 1)):
        changed = rows.copy()
        for other in ("clay", "metal", "shingle"):
            changed[:, names.index(f"roof={other}")] = other == level
        total += count * predict(model, changed).mean()
    assert curve["values"][1] == pytest.approx(total / 3, rel=1e-9)


@pytest.mark.slow
def test_a_table_of_many_rows_shows_the_ends_of_all_of_them(folder, tmp_path):
    columns = categories(3000, seed=1)
    columns["age"][2345], columns["age"][1234] = 7, 99
    table = write_table(tmp_path / "new.csv", columns)
    numbers = report(folder / "model.polyadic", table, "--out", tmp_path / "page.html")
    ranges = {name: row for name, *row in numbers["ranges"]}
    assert (ranges["age"][0], ranges["age"][2]) == (7, 99)
    assert numbers["inputs"]["n_rows"] == 1000
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "the rows of new.csv" in text
    assert "A random 1,000 of these rows" in text


def test_curves_span_where_the_rows_are(friedman):
    model, X, _ = friedman
    rows = X.copy()
    rows[0, 3] = 40.0
    (curve,) = [c for c in find(subject_of(model, rows)).inputs.curves if c.name == "x3"]
    low, high = np.quantile(rows[:, 3], [0.01, 0.99])
    assert (curve.points[0], curve.points[-1]) == (low, high)
    assert len(curve.percentiles) == 99


def test_few_values_are_drawn_one_by_one(friedman):
    model, X, _ = friedman
    rows = X.copy()
    rows[:, 3] = np.round(4 * rows[:, 3]) / 4
    (curve,) = [c for c in find(subject_of(model, rows)).inputs.curves if c.name == "x3"]
    assert curve.points == [0, 0.25, 0.5, 0.75, 1]
    assert sum(curve.rows) == len(rows)


def test_the_pair_is_the_one_that_interacts(friedman):
    """Friedman's function has x0·x1, while x3 is the largest of all."""
    model, X, _ = friedman
    found = find(subject_of(model, X)).inputs
    assert found.importances[0].name == "x3"
    assert {curve.name for curve in found.pair.curves} == {"x0", "x1"}
    assert found.importances[-1].name == "x5"


def test_a_curve_beyond_all_predictions_is_told():
    """In rows where two inputs go together, setting one without the other leaves the data."""
    X = np.random.RandomState(0).rand(200, 2)
    trend = polyadic.features.PurePowerFeatures()
    model = polyadic.KernelMachineRegressor(trend, rank=3, n_basis=2, alpha=1e-9, max_iter=100)
    model.fit(X, X[:, 0] - X[:, 1])
    told = "beyond the prediction for any row"
    assert told not in render(subject_of(model, X))
    assert told in render(subject_of(model, X[:, [0, 0]]))


def test_an_additive_model_has_no_pair():
    X = np.random.RandomState(0).rand(200, 3)
    trend = polyadic.features.PurePowerFeatures()
    model = polyadic.KernelMachineRegressor(trend, rank=3, n_basis=2, alpha=1e-9, max_iter=200)
    model.fit(X, X @ [1.0, 2.0, 3.0])
    subject = subject_of(model, X)
    assert find(subject).inputs.pair is None
    assert "No two of them act together" in render(subject)


def test_targets_bring_permutation_and_a_ridge(friedman):
    model, X, y = friedman
    found = find(subject_of(model, X, y=y, actual=y, predicted=model.predict(X)))
    first, last = found.inputs.importances[0], found.inputs.importances[-1]
    assert first.growth > 10 * first.deviation > 0
    assert abs(last.growth) < first.growth / 20
    mean, ridge = found.errors.baselines
    assert mean.r2 == pytest.approx(0, abs=1e-9)
    assert mean.rmse == pytest.approx(y.std())
    assert mean.r2 < ridge.r2 < found.errors.model.r2


def test_a_ridge_finds_a_line():
    X = np.random.RandomState(0).rand(100, 3)
    y = X @ [1.0, 2.0, 3.0]
    model = polyadic.KernelMachineRegressor(rank=2, n_basis=2).fit(X, y)
    errors = find_errors(subject_of(model, X, y=y, actual=y, predicted=model.predict(X)))
    assert errors.baselines[1].r2 > 0.9999


@pytest.mark.parametrize("n_rows", [2000, 8000])
def test_intervals_are_as_wide_as_theory_has_them(friedman, n_rows):
    """The standard error of the RMSE of normal residuals is σ/√(2n)."""
    rng = np.random.RandomState(0)
    actual = 5 * rng.randn(2000)
    predicted = actual + rng.randn(2000)
    metrics = {"rows": n_rows, "rmse": 1.0, "mae": 0.8, "r2": 0.96}
    subject = subject_of(friedman[0], None, actual=actual, predicted=predicted, metrics=metrics)
    low, high = find_errors(subject).intervals["rmse"]
    assert low < 1.0 < high
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(2 * n_rows), rel=0.15)


def test_calibration_is_by_tenths_of_the_predictions(friedman):
    rng = np.random.RandomState(0)
    predicted = rng.permutation(1000).astype(float)
    subject = subject_of(friedman[0], None, actual=predicted + 7, predicted=predicted)
    tenths = find_errors(subject).calibration
    assert [t.predicted for t in tenths] == [49.5 + 100 * k for k in range(10)]
    assert [t.actual - t.predicted for t in tenths] == pytest.approx([7] * 10)
    assert [t.rows for t in tenths] == [100] * 10


def test_a_target_that_does_not_vary_has_no_score(friedman):
    model, X, _ = friedman
    flat = np.full(30, 2.0)
    subject = subject_of(model, X[:30], y=flat, actual=flat, predicted=flat + 1)
    assert find_errors(subject).model.r2 is None
    assert "<td>–</td>" in render(subject)


def test_members_and_epochs_agree_with_the_table():
    X, y = make_friedman1(120, n_features=5, noise=0.5, random_state=0)
    model = polyadic.FeatureLearningRegressor(effort=0.3, random_state=0).fit(X, y)
    found = find(subject_of(model, X))
    assert len(found.members) == len(model.members_)
    assert sum(member.alpha is None for member in found.members) == len(model.members_) - len(
        model.alpha_
    )
    page = render(subject_of(model, X))
    assert f"the {len(model.loss_curve_)} epochs that led to it" in page
    assert f"the longest fit took {model.n_iter_} epochs" in page

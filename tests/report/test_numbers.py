"""What the report says is true of the rows and the model."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import make_friedman1

import polyadic
from polyadic.cli import main
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
    run("fit", table, "--holdout", 0, "--out", model, *QUICK)
    return folder


def encode(model, columns):
    """Return the rows as the model sees them: numbers, and codes of levels."""
    frame = pd.DataFrame(columns).drop(columns="target")
    return model.schema_.encode(frame).X


def with_level(model, rows, name, level):
    """Return what the model predicts for rows that all have a level."""
    frame = pd.DataFrame(
        {
            column.name: np.array(column.levels, dtype=object)[rows[:, place].astype(int)]
            if column.levels
            else rows[:, place]
            for place, column in enumerate(model.schema_.columns)
        }
    )
    return model.predict(frame.assign(**{name: level}))


@pytest.fixture(scope="module")
def with_sample(folder):
    model = polyadic.load(folder / "model.polyadic")
    rows = encode(model, categories(400))[:300]
    note = {"inputs": rows, "described": "a sample of 300 of the 400 rows of the fit"}
    path = change_notes(folder / "model.polyadic", folder / "sample.polyadic", sample=note)
    return path, model, rows


@pytest.mark.slow
def test_without_rows_there_are_no_curves_and_the_page_says_why(folder, tmp_path):
    bare = change_notes(folder / "model.polyadic", tmp_path / "bare.polyadic", sample=None)
    page = tmp_path / "page.html"
    numbers = report(bare, "--out", page)
    assert numbers["inputs"] is None
    text = page.read_text("utf-8")
    assert "figure-dependence" not in text
    assert "figure-importance" not in text
    assert "needs rows, and the model file has none" in text
    assert "polyadic report bare.polyadic rows.csv" in text


def test_ranges_are_those_of_all_rows_of_the_fit(with_sample, tmp_path):
    """Of numbers: the levels of a category have no order."""
    path, _, _ = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    age = categories(400)["age"]
    assert numbers["ranges"] == [["age", age.min(), np.median(age), age.max()]]
    assert "all rows of the fit" in (tmp_path / "page.html").read_text("utf-8")


def test_a_category_is_one_input_with_a_bar_for_each_level(with_sample, tmp_path):
    path, model, rows = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    names = {found["name"] for found in numbers["inputs"]["importances"]}
    assert names == {"age", "smoker", "roof"}
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "smoker"]
    place, levels = 1, list(model.schema_.columns[1].levels)
    for label, count, value in zip(curve["labels"], curve["rows"], curve["values"], strict=True):
        expected = with_level(model, rows, "smoker", label).mean()
        assert value == pytest.approx(expected, rel=1e-9)
        assert count == (rows[:, place] == levels.index(label)).sum()
    assert "a sample of 300 of the 400 rows of the fit" in (tmp_path / "page.html").read_text()
    assert "target from 3 inputs" in (tmp_path / "page.html").read_text()


def test_rare_levels_are_grouped(with_sample, tmp_path):
    path, model, rows = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "roof"]
    assert curve["labels"] == ["shingle", "other (2 levels)"]
    assert curve["rows"] == [297, 3]
    counts = {"clay": 2, "metal": 1}
    total = sum(n * with_level(model, rows, "roof", level).mean() for level, n in counts.items())
    assert curve["values"][1] == pytest.approx(total / 3, rel=1e-9)


def test_gaps_and_levels_that_are_new_have_a_place(with_sample, tmp_path):
    path, _, _ = with_sample
    columns = categories(100)
    columns["smoker"][:30], columns["smoker"][30:50] = "", "now and then"
    columns["age"] = ["" if i % 9 == 0 else age for i, age in enumerate(columns["age"])]
    table = write_table(tmp_path / "new.csv", columns)
    words = ["report", path, table, "--out", tmp_path / "page.html", "--json"]
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Warning") == 1
    numbers = json.loads(result.stdout)
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "smoker"]
    assert {"no value", "not in the fit"} < set(curve["labels"])
    (curve,) = [c for c in numbers["inputs"]["curves"] if c["name"] == "age"]
    assert np.isfinite(curve["values"]).all()
    assert len(numbers["errors"]["baselines"]) == 2


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


@pytest.mark.slow
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
    assert [member.alpha for member in found.members] == model.alpha_.tolist()
    sizes = [member.model.cores[0][0].shape[1] for member in model.members_]
    assert [member.rank for member in found.members] == sizes
    page = render(subject_of(model, X))
    assert f"the {len(model.loss_curve_)} epochs of the trials that led to it" in page
    assert f"{model.n_iter_} epochs of the trials led to them" in page


@pytest.fixture(scope="module")
def automatic():
    """Return a model that learned its features, and may not use x2."""
    X, y = make_friedman1(300, n_features=6, noise=0.5, random_state=0)
    sizes = [6, 6, 1, 6, 6, 6]
    model = polyadic.FeatureLearningRegressor(n_basis=sizes, effort=0.4, random_state=0)
    return model.fit(X, y), X, y


def rows_of_table(page, region):
    """Return the cells of the rows of a table, as text."""
    table = page[page.index(f'aria-label="{region}"') :].split("</table>")[0]
    lines = re.findall(r"<tr>(<th scope=\"row\">.*?)</tr>", table, re.DOTALL)
    strip = re.compile(r"<[^>]*>")
    return [
        [unescape(strip.sub("", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", line)]
        for line in lines
    ]


def test_the_relevance_is_the_variance_that_an_input_makes(automatic):
    """Beside the mean, over rows, of the variance over all values of one input."""
    model, X, _ = automatic
    page = render(subject_of(model, X))
    table = rows_of_table(page, "What was learned about each input")
    told = {name: cells for name, *cells in table}
    assert set(told) == {"x0", "x1", "x3", "x4", "x5"}
    total = model.predict(X).var()
    for place in (0, 1, 3, 4, 5):
        variances = []
        for row in X[::5]:
            rows = np.repeat(row[None], len(X), axis=0)
            rows[:, place] = X[:, place]
            variances.append(model.predict(rows).var())
        part = told[f"x{place}"][0].removesuffix(" %").removeprefix("< ")
        assert float(part) / 100 == pytest.approx(np.mean(variances) / total, abs=0.04)


def test_inputs_stand_by_relevance_with_what_was_learned(automatic):
    model, X, _ = automatic
    page = render(subject_of(model, X))
    cells = rows_of_table(page, "What was learned about each input")
    by_name = {f"x{place}": summary for place, summary in enumerate(model.inputs_)}
    order = sorted(by_name, key=lambda name: -by_name[name].relevance)
    assert [name for name, *_ in cells] == order[:-1]
    words = {"matern12": "rough", "matern32": "smooth", "rbf": "very smooth"}
    for name, _, kernel, length, size in cells:
        assert kernel == words[by_name[name].kernel]
        assert float(length) == pytest.approx(by_name[name].length_scale, rel=0.06, abs=0.5)
        assert int(size) == 6
    assert "The model does not use x2." in page


def test_the_bars_are_as_long_as_the_relevance(automatic):
    model, X, _ = automatic
    page = render(subject_of(model, X))
    parts = [float(part) for part in re.findall(r"--part: ([\d.]+)", page)]
    relevance = sorted((s.relevance for s in model.inputs_ if s.kind != "unused"), reverse=True)
    np.testing.assert_allclose(parts, np.array(relevance) / relevance[0], atol=1e-4)


def test_curves_go_by_relevance_and_the_table_leads_to_them(automatic):
    model, X, _ = automatic
    subject = subject_of(model, X)
    names = [curve.name for curve in find(subject).inputs.curves]
    relevance = [summary.relevance for summary in model.inputs_]
    assert names == [f"x{place}" for place in np.argsort(relevance)[::-1][:5]]
    page = render(subject)
    for curve, name in re.findall(r'<a href="#(figure-dependence\d)">(\w+)</a>', page):
        figure = page[page.index(f'id="{curve}"') :].split("</figure>")[0]
        assert f"<figcaption>{name}: mean predictions" in figure
    assert len(re.findall('<a href="#figure-dependence', page)) == 5


def test_categories_lead_to_their_curves(with_sample, tmp_path):
    path, model, _ = with_sample
    numbers = report(path, "--out", tmp_path / "page.html")
    curves = [curve["name"] for curve in numbers["inputs"]["curves"]]
    learned = {entry["name"]: entry for entry in numbers["learned"]["inputs"]}
    assert {*learned, *numbers["learned"]["unused"]} == set(model.feature_names_in_)
    for name, entry in learned.items():
        if entry["curve"] is not None:
            assert curves[entry["curve"]] == name
    assert curves[0] == numbers["learned"]["inputs"][0]["name"]


def test_without_rows_the_relevance_is_there(automatic):
    page = render(subject_of(automatic[0], None))
    assert len(rows_of_table(page, "What was learned about each input")) == 5
    assert "needs rows" in page
    assert "figure-dependence" not in page


def test_many_inputs_are_folded_away():
    X = np.random.RandomState(0).rand(150, 20)
    y = X @ np.linspace(0.1, 2.0, 20)
    model = polyadic.FeatureLearningRegressor(n_basis=2, effort=0.2, random_state=0).fit(X, y)
    page = render(subject_of(model, X))
    first = rows_of_table(page, "What was learned about the 15 most relevant inputs")
    others = rows_of_table(page, "What was learned about the other inputs")
    assert (len(first), len(others)) == (15, 5)
    assert {"x19", "x18", "x17"} <= {name for name, *_ in first}
    folded = page[page.index("<summary>The other 5</summary>") :].split("</details>")[0]
    assert 'aria-label="What was learned about the other inputs"' in folded


def test_the_search_is_told_with_its_ranks(automatic):
    model, X, _ = automatic
    page = render(subject_of(model, X))
    trials = pd.DataFrame(model.selection_)
    best = trials.loc[trials["held_out_mse"].idxmin()]
    figure = page[page.index('id="figure-search"') :].split("</figure>")[0]
    assert f"at rank {best['rank']}, in trial {best.name + 1}." in figure
    for rank in set(trials["rank"]):
        assert f">rank {rank}</text>" in figure
    assert f"in {len(trials)} trials" in page
    assert "figure-weights" not in page


def test_a_model_with_named_maps_has_its_weights(friedman):
    model, X, _ = friedman
    page = render(subject_of(model, X))
    assert find(subject_of(model, X)).learned is None
    assert "Relevance" not in page
    assert "figure-weights" in page
    assert "figure-search" not in page


@pytest.mark.parametrize("name", ["automatic", "automatic-trend"])
def test_files_of_the_first_version_are_reported_on(name):
    """Their members chose maps of their own, and may share a linear trend."""
    model = polyadic.load(Path(__file__).parents[1] / "golden" / f"{name}.polyadic")
    X = np.random.RandomState(0).rand(50, model.n_features_in_)
    page = render(subject_of(model, X))
    maps = [name for name, *_ in rows_of_table(page, "Table of members")]
    assert maps[-1] == "linear trend"
    assert len(maps) == len(model.alpha_) + 1
    assert f"chosen in {len(model.selection_['stage'])} trials in all" in page
    assert "figure-search" not in page
    assert "Members chose a feature map each" in page

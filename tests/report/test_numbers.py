"""What the report says is true of the rows and the model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import polyadic
from polyadic.report import render, write_report
from polyadic.report._errors import find_errors
from polyadic.report._findings import find
from polyadic.sources.schema import TableWarning
from tests.report.tables import houses, subject_of, visits
from tests.small import mean_with

pytestmark = pytest.mark.slow  # many pages of many models; test_report.py has the quick ones


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(400, n_features=6, noise=0.5, random_state=0)
    model = polyadic.KernelMachineRegressor(rank=8, n_basis=4, alpha=0.01, random_state=0)
    return model.fit(X, y), X, y


@pytest.fixture(scope="module")
def categories():
    frame, y = houses(400)
    return polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(frame, y), frame, y


@pytest.fixture(scope="module")
def gaps():
    frame, y = visits()
    return polyadic.FeatureLearningRegressor(effort=0.3, random_state=0).fit(frame, y), frame, y


def curve_of(found, name):
    (curve,) = [curve for curve in found.inputs.curves if curve.name == name]
    return curve


def test_without_rows_there_are_no_curves_and_the_page_says_why(categories):
    subject = subject_of(categories[0], None, model_file="bare.polyadic")
    assert find(subject).inputs is None
    text = render(subject)
    assert "figure-dependence" not in text
    assert "figure-importance" not in text
    assert "needs rows, and the model file has none" in text
    assert "polyadic report bare.polyadic rows.csv" in text
    assert "2 levels: no, yes" in text


def test_levels_come_by_how_many_rows_of_the_report_have_them(categories):
    model, frame, _ = categories
    most, fewer = ("yes", "no") if (frame["smoker"] == "no").mean() > 0.5 else ("no", "yes")
    rows = frame[frame["smoker"] == most].head(20)
    rows = pd.concat([rows, frame[frame["smoker"] == fewer].head(3)])
    (facts,) = [each for each in find(subject_of(model, rows)).data if each.name == "smoker"]
    assert facts.levels == [(most, 20), (fewer, 3)]


def test_ranges_may_be_those_of_other_rows(categories):
    """A model file has the ranges of all rows of the fit, and a sample of the rows."""
    model, frame, _ = categories
    ranges = np.array([[18.0, 41.0, 64.0], [np.nan] * 3, [np.nan] * 3])
    subject = subject_of(model, frame[:300], ranges=ranges, ranges_are="all rows of the fit")
    age, smoker, roof = find(subject).data
    assert age.span == [18, 41, 64]
    assert smoker.span is None
    assert smoker.levels == list(frame["smoker"][:300].value_counts().items())
    assert roof.n_levels == 3
    assert "all rows of the fit" in render(subject)


def test_a_category_has_the_mean_prediction_at_each_level(categories):
    model, frame, _ = categories
    found = find(subject_of(model, frame))
    assert {each.name for each in found.inputs.importances} == {"age", "smoker", "roof"}
    curve = curve_of(found, "smoker")
    for label, count, value in zip(curve.labels, curve.rows, curve.values, strict=True):
        assert value == pytest.approx(mean_with(model, frame, smoker=label), rel=1e-9)
        assert count == (frame["smoker"] == label).sum()
    assert "y from 3 inputs" in render(subject_of(model, frame))


def test_rare_levels_are_grouped(categories):
    model, frame, _ = categories
    curve = curve_of(find(subject_of(model, frame)), "roof")
    assert curve.labels == ["shingle", "other (2 levels)"]
    assert curve.rows == [397, 3]
    total = sum(
        count * mean_with(model, frame, roof=level) for level, count in (("clay", 2), ("metal", 1))
    )
    assert curve.values[1] == pytest.approx(total / 3, rel=1e-9)


def test_levels_that_are_new_have_a_place(categories):
    model, _, _ = categories
    frame, y = houses(100)
    frame.loc[:29, "smoker"], frame.loc[30:49, "smoker"] = None, "now and then"
    frame["age"] = frame["age"].mask(frame.index % 9 == 0)
    with pytest.warns(TableWarning, match="20 in 'smoker'.*gaps where it had none.*30 in 'smoker'"):
        predicted = model.predict(frame)
    found = find(subject_of(model, frame, y=y, actual=y, predicted=predicted))
    curve = curve_of(found, "smoker")
    assert {"not in the fit", "gap"} < set(curve.labels)
    assert sum(curve.rows) == 100
    assert np.isfinite(curve_of(found, "age").values).all()
    assert found.errors.baselines[1].r2 is not None


def test_a_table_of_many_rows_shows_the_ends_of_all_of_them(categories):
    frame, y = houses(3000, seed=1)
    frame.loc[2345, "age"], frame.loc[1234, "age"] = 7, 99
    frame.loc[:20, "roof"] = "thatch"
    subject = subject_of(categories[0], frame, y=y, rows_are="the rows of new.csv")
    found = find(subject)
    age = found.data[0]
    assert (age.span[0], age.span[2]) == (7, 99)
    assert found.inputs.n_rows == 1000
    text = render(subject)
    assert "the rows of new.csv" in text
    assert "A random 1,000 of these rows" in text


def test_a_gap_is_a_point_of_its_own(gaps):
    model, frame, _ = gaps
    found = find(subject_of(model, frame))
    for name in ("size", "when"):
        curve = curve_of(found, name)
        assert curve.n_gaps == frame[name].isna().sum() > 0
        assert np.isfinite(curve.values).all()
        assert np.isfinite(curve.percentiles).all()
    assert curve_of(found, "size").gap == pytest.approx(mean_with(model, frame, size=np.nan))
    cost = curve_of(found, "cost $ of $x")
    assert (cost.labels[-1], cost.gap) == ("gap", None)
    assert cost.rows[-1] == frame["cost $ of $x"].isna().sum()
    expected = mean_with(model, frame, **{"cost $ of $x": None})
    assert cost.values[-1] == pytest.approx(expected, rel=1e-9)


def test_a_date_matters_as_one_and_is_drawn_by_its_parts(gaps):
    model, frame, y = gaps
    found = find(subject_of(model, frame, y=y))
    assert {each.name for each in found.inputs.importances} == set(frame)
    weekday = curve_of(found, "when: weekday")
    assert weekday.labels == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    counts = frame["when"].dt.day_of_week.value_counts().sort_index()
    assert weekday.rows == counts.tolist()
    assert min(weekday.values[5:]) > max(weekday.values[:5]) + 1
    assert curve_of(found, "grade").labels == ["low", "mid", "high"]
    when = {each.name: each for each in found.data}["when"]
    there = frame["when"].dropna()
    assert when.span[::2] == [str(there.min().date()), str(there.max().date())]
    assert when.n_gaps == frame["when"].isna().sum()


def test_the_page_writes_levels_gaps_and_dates(gaps, tmp_path):
    model, frame, y = gaps
    predicted = model.predict(frame)
    subject = subject_of(model, frame, y=y, actual=y, predicted=predicted)
    numbers = write_report(subject, tmp_path / "page.html")
    json.dumps(numbers, allow_nan=False)
    page = (tmp_path / "page.html").read_text("utf-8")
    told = {name: cells for name, *cells in rows_of_table(page, "Table of inputs")}
    n_gaps = frame.isna().sum()
    assert told["size"][-1] == str(n_gaps["size"])
    assert told["cost $ of $x"][0] == "category"
    assert told["cost $ of $x"][1].startswith("3 levels: ")
    assert told["cost $ of $x"][2] == str(n_gaps["cost $ of $x"])
    assert "All 4 inputs, dates by their parts" in page
    for name in ("cost $ of $x", "rate_$a_{$", "cost $ per $m", "&lt;b&gt;bold&lt;/b&gt;"):
        assert re.search(f">{re.escape(name)}[^<]*</text>", page), name
    assert "<b>bold" not in page


def test_the_ridge_knows_categories_and_gaps():
    """The target is a line in one column for each level, and in one for gaps."""
    frame, _ = visits()
    effect = frame["cost $ of $x"].map({"rate_$a_{$": 5.0, "cost $ per $m": -3.0}).fillna(0.0)
    y = np.asarray(effect + frame["size"].fillna(20.0), dtype=float)
    model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(frame, y)
    errors = find_errors(subject_of(model, frame, y=y, actual=y, predicted=model.predict(frame)))
    assert errors.baselines[1].r2 > 0.99


def test_a_model_of_noise_is_reported_on():
    """No input is used, and a column of other rows may be all gaps."""
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"a": rng.rand(60), "b": rng.choice(list("xyz"), 60)})
    model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(frame, rng.rand(60))
    model.inputs_ = [replace(each, kind="unused", relevance=0.0) for each in model.inputs_]
    text = render(subject_of(model, frame.assign(a=np.nan)))
    assert "None of the inputs helps to predict" in text


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
    mean, ridge, boosting = found.errors.baselines
    assert 0 < boosting.r2 < found.errors.model.r2
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
    assert rows_of_table(render(subject), "Table of errors")[0][:2] == ["this model", "–"]


def test_members_and_epochs_agree_with_the_table():
    X, y = make_friedman1(120, n_features=5, noise=0.5, random_state=0)
    model = polyadic.FeatureLearningRegressor(effort=0.3, random_state=0).fit(X, y)
    found = find(subject_of(model, X))
    beside = [None] * (len(model.members_) - len(model.alpha_))  # what stands there has no penalty
    assert [member.alpha for member in found.members] == [*model.alpha_.tolist(), *beside]
    sizes = [member.model.cores[0][0].shape[1] for member in model.members_]
    assert [member.rank for member in found.members] == sizes
    page = render(subject_of(model, X))
    assert f"{model.n_iter_} epochs led to them" in page


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
    lines = re.findall(r"<tr[^>]*>(<th scope=\"row\".*?)</tr>", table, re.DOTALL)
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


def test_categories_lead_to_their_curves(categories):
    model, frame, _ = categories
    found = find(subject_of(model, frame))
    curves = [curve.name for curve in found.inputs.curves]
    assert {*(each.name for each in found.learned.inputs), *found.learned.unused} == set(frame)
    assert [curves[each.curve] for each in found.learned.inputs] == curves
    assert curves == [each.name for each in found.learned.inputs]


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

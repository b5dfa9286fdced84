"""What the report says of classifiers is true of the rows and the model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris, make_friedman1

import polyadic
from polyadic.report import Subject, render, write_report
from polyadic.report._baselines import compare
from polyadic.report._classes import find_calibration, find_class_errors, measure_classes
from polyadic.report._findings import find
from polyadic.report._page import _render
from tests.report.test_numbers import rows_of_table

pytestmark = pytest.mark.slow  # many pages of many models; test_report.py has the quick ones

OPTIONS = {"effort": 0.1, "n_estimators": 2, "random_state": 0}


def make_patients(n_rows=240, seed=0):
    """Return a table of all kinds of columns, and labels that are not easy to print."""
    rng = np.random.RandomState(seed)
    age, kind = rng.randint(18, 80, n_rows), rng.choice(["a", "b", "c"], n_rows)
    dose = 10 * rng.rand(n_rows)
    odds = 0.08 * (age - 50) + 2 * (kind == "b") + 0.3 * (dose - 5)
    labels = np.where(odds + rng.logistic(size=n_rows) > 0, "$ill$", "<b>well</b>")
    dose[rng.rand(n_rows) < 0.1] = np.nan
    frame = pd.DataFrame({"age": age, "kind": kind, "dose": dose, "noise": rng.rand(n_rows)})
    return frame, labels.astype(object)


FRAME, LABELS = make_patients()
NEW, NEW_LABELS = make_patients(200, seed=1)


@pytest.fixture(scope="module")
def two():
    return polyadic.FeatureLearningClassifier(**OPTIONS).fit(FRAME, LABELS)


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return polyadic.FeatureLearningClassifier(**OPTIONS).fit(X[::2], y[::2]), X[1::2], y[1::2]


def subject_of_two(model, **known):
    return Subject.of(model, NEW, NEW_LABELS, target="health", **known)


def report_of(subject):
    """Return all numbers of a report, and its page."""
    findings = find(subject)
    return findings, _render(subject, findings)


def test_measures_are_those_of_scikit_learn(two, three):
    for model, X, y in [(two, NEW, NEW_LABELS), three]:
        p = model.predict_proba(X)
        found = find_class_errors(Subject.of(model, X, y)).model
        assert found.log_loss == pytest.approx(metrics.log_loss(y, p, labels=model.classes_))
        assert found.accuracy == pytest.approx(model.score(X, y))
        score = p[:, 1] if p.shape[1] == 2 else p
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, score, multi_class="ovr"))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_standard_errors_are_those_of_rows_drawn_anew(n_classes):
    """Ties of scores are there too, and classes are not of one size."""
    rng = np.random.RandomState(0)
    actual = rng.choice(n_classes, 400, p=[0.7, 0.3] if n_classes == 2 else [0.6, 0.3, 0.1])
    p = np.round(rng.dirichlet(np.ones(n_classes), 400) + 0.5 * np.eye(n_classes)[actual], 2) + 0.01
    p /= p.sum(axis=1, keepdims=True)
    told = measure_classes("", actual, p).standard_errors
    drawn = [measure_classes("", actual[i], p[i]) for i in rng.randint(400, size=(300, 400))]
    for name, error in told.items():
        assert error == pytest.approx(np.std([vars(d)[name] for d in drawn]), rel=0.15)


def test_an_area_that_was_not_measured_on_all_rows_is_that_of_the_pairs(three):
    model, X, y = three
    subject = Subject.of(model, X, y)
    alone = find_class_errors(subject)
    known = {"rows": 4 * len(y), "log_loss": 0.2, "accuracy": 0.9, "auc": None}
    found = find_class_errors(replace(subject, metrics=known))
    expected = metrics.roc_auc_score(y, model.predict_proba(X), multi_class="ovr")
    assert found.model.auc == pytest.approx(expected)
    assert found.intervals["auc"] == alone.intervals["auc"]
    half_width = 1.96 * alone.model.standard_errors["log_loss"] / 2
    assert found.intervals["log_loss"] == pytest.approx((0.2 - half_width, 0.2 + half_width))


def test_one_class_has_no_area():
    found = measure_classes("", np.zeros(5, dtype=int), np.full((5, 2), 0.5))
    assert found.auc is None
    assert "auc" not in found.standard_errors


def test_calibration_error_is_the_mean_gap_over_bins():
    rng = np.random.RandomState(0)
    p = rng.dirichlet(np.ones(3), 500)
    actual = rng.randint(0, 3, 500)
    sure, right = p.max(axis=1), p.argmax(axis=1) == actual
    expected = 0.0
    for low in np.arange(15) / 15:
        part = (sure >= low) & (sure < low + 1 / 15)
        expected += abs((right[part] - sure[part]).sum()) / 500
    bins, error = find_calibration(actual, p)
    assert error == pytest.approx(expected)
    assert sum(each.rows for each in bins) == 500
    assert all(0 <= each.low < each.observed + 1e-12 <= each.high + 2e-12 for each in bins)
    sure = np.concatenate([np.full(300, 0.2), np.full(100, 0.9)])
    actual = np.concatenate([np.arange(300) % 5 == 0, np.arange(100) % 10 != 0]).astype(int)
    assert find_calibration(actual, np.column_stack([1 - sure, sure]))[1] == pytest.approx(0)


def test_confusion_and_classes_are_counted(three):
    model, X, y = three
    found = find_class_errors(Subject.of(model, X, y))
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(y, model.predict(X)))
    told = metrics.classification_report(y, model.predict(X), output_dict=True, zero_division=0)
    for label, facts in zip(model.classes_, found.classes, strict=True):
        assert facts.name == f"class {label}"
        assert facts.recall == pytest.approx(told[str(label)]["recall"])
        assert facts.precision == pytest.approx(told[str(label)]["precision"])
    assert found.roc is None


def test_curves_of_thresholds_have_their_areas(two):
    found = find_class_errors(subject_of_two(two))
    assert np.trapezoid(found.roc[:, 1], found.roc[:, 0]) == pytest.approx(
        found.model.auc, abs=0.01
    )
    p, is_second = two.predict_proba(NEW)[:, 1], two.classes_[1] == NEW_LABELS
    chosen = p >= np.sort(p)[:, None]
    hits = (chosen & is_second).sum(axis=1)
    possible = np.column_stack([hits / is_second.sum(), hits / chosen.sum(axis=1)])
    for point in found.precision_recall[:-1]:  # the last one, of no row, is there by convention
        assert np.abs(possible - point).max(axis=1).min() < 1e-12


def test_rows_of_classes_that_are_new_are_told(two):
    codes = (two.classes_[1] == NEW_LABELS).astype(float)
    codes[:7] = -1
    schema = two.schema_
    subject = Subject(
        model=two,
        X=schema.encode(NEW).X,
        target="health",
        names=schema.inputs.names,
        y=codes,
        actual=codes,
        predicted=two.predict_proba(NEW),
    )
    found, page = report_of(subject)
    assert found.class_errors.unknown == 7
    known = metrics.log_loss(codes[7:], two.predict_proba(NEW)[7:])
    assert found.class_errors.model.log_loss == pytest.approx(known)
    assert "7 of these rows are of a class that the fit did not see" in page


def test_rows_of_new_classes_only_say_nothing(two):
    none = np.full(len(NEW), -1.0)
    subject = Subject(
        model=two,
        X=two.schema_.encode(NEW).X,
        target="health",
        names=two.schema_.inputs.names,
        y=none,
        actual=none,
        predicted=two.predict_proba(NEW),
    )
    found = find(subject)
    assert found.class_errors is None
    assert found.inputs is None


def test_measures_may_be_those_of_more_rows(two):
    given = {"rows": 800, "log_loss": 0.4, "accuracy": 0.8, "auc": 0.9}
    subject = subject_of_two(two, metrics=given)
    plain, found = find_class_errors(subject_of_two(two)), find_class_errors(subject)
    assert (found.rows, found.model.log_loss, found.model.auc) == (800, 0.4, 0.9)
    for name, error in found.model.standard_errors.items():
        assert error == pytest.approx(plain.model.standard_errors[name] / 2)


# -------------------------------------------------------------------- beside other models


def test_the_constant_is_the_share_of_each_class(two, three):
    for model, X, y in [(two, NEW, NEW_LABELS), three]:
        constant = compare(Subject.of(model, X, y), np.zeros(len(y))).baselines[0].predicted
        rows = LABELS if model is two else load_iris().target[::2]
        shares = [np.mean(rows == label) for label in model.classes_]
        np.testing.assert_allclose(constant, np.tile(shares, (len(y), 1)), rtol=1e-6)


def test_other_models_predict_rows_that_they_have_not_seen(two):
    """Labels that say nothing cannot be learned, unless a model sees the rows it predicts."""
    rng = np.random.RandomState(0)
    labels = rng.choice(two.classes_, len(NEW))
    found = find_class_errors(Subject.of(two, NEW, labels))
    assert found.n_folds == 5
    assert found.n_fitted == 160
    logistic, boosting = found.baselines[1:]
    assert logistic.auc == pytest.approx(0.5, abs=0.13)
    assert boosting.auc == pytest.approx(0.5, abs=0.13)


def test_other_models_are_fitted_to_the_rows_of_the_fit_where_they_are_at_hand(two):
    from sklearn.ensemble import HistGradientBoostingClassifier

    findings, page = report_of(subject_of_two(two, fit_rows=(FRAME, LABELS)))
    found = findings.class_errors
    assert (found.n_folds, found.n_fitted) == (0, 240)
    codes = two.schema_.encode(FRAME).X
    theirs = HistGradientBoostingClassifier(
        categorical_features=[False, True, False, False], random_state=0, max_iter=8
    ).fit(codes, LABELS)
    expected = theirs.score(two.schema_.encode(NEW).X, NEW_LABELS)
    assert found.baselines[2].accuracy == pytest.approx(expected)
    assert "were fitted to 240 rows of the fit" in page


# ------------------------------------------------------------------------------- inputs


def test_curves_are_mean_probabilities_of_the_second_class(two):
    found = find(subject_of_two(two)).inputs
    assert (found.label, found.error) == ("mean probability of <b>well</b>", "log-loss")
    for curve in found.curves:
        values = curve.labels or curve.points
        for value, mean in list(zip(values, curve.values, strict=True))[:4]:
            p = two.predict_proba(NEW.assign(**{curve.name: value}))[:, 1]
            assert mean == pytest.approx(p.mean(), rel=1e-9)
            assert curve.residuals is not None
        if curve.name == "dose":
            p = two.predict_proba(NEW.assign(dose=np.nan))[:, 1]
            assert curve.gap == pytest.approx(p.mean(), rel=1e-9)


def test_curves_of_several_classes_add_up_to_one(three):
    model, X, y = three
    found = find(Subject.of(model, X, y)).inputs
    assert found.classes == ["class 0", "class 1", "class 2"]
    for curve in found.curves:
        assert curve.values == []
        np.testing.assert_allclose(np.sum(list(curve.classes.values()), axis=0), 1, rtol=1e-9)
        p = model.predict_proba(X.assign(**{curve.name: curve.points[3]})).mean(axis=0)
        assert [line[3] for line in curve.classes.values()] == pytest.approx(p, rel=1e-9)


def test_residuals_say_where_probabilities_are_off(two):
    found = find(subject_of_two(two)).inputs
    (kind,) = [curve for curve in found.curves if curve.name == "kind"]
    p, well = two.predict_proba(NEW)[:, 1], NEW_LABELS == "<b>well</b>"
    for label, mean, error, rows in zip(
        kind.residuals.labels,
        kind.residuals.means,
        kind.residuals.standard_errors,
        kind.residuals.rows,
        strict=True,
    ):
        own = (well - p)[NEW["kind"] == label]
        assert rows == len(own)
        assert mean == pytest.approx(own.mean())
        assert error == pytest.approx(own.std(ddof=1) / np.sqrt(len(own)))


# ------------------------------------------------------------------------------- the page


def test_the_page_of_two_classes(two, tmp_path):
    numbers = write_report(subject_of_two(two), tmp_path / "page.html")
    json.dumps(numbers, allow_nan=False)
    page = (tmp_path / "page.html").read_text("utf-8")
    for name in ("roc", "precision", "reliability", "probabilities", "residuals0", "lengths"):
        assert f'id="figure-{name}"' in page
    assert "figure-confusion" not in page
    assert "<b>well" not in page
    assert "ROC curve of &lt;b&gt;well&lt;/b&gt;" in page
    table = rows_of_table(page, "Table of errors")
    names = [name for name, *_ in table]
    assert names[0] == "this model"
    assert names[2:] == ["logistic regression", "gradient boosting"]
    assert "±" in table[0][1]
    assert "model.predict_proba(X)" not in page  # there is no file to load
    assert "growth of the log-loss" in page
    assert "The rows of the fit are not at hand" in page


def test_the_page_of_several_classes(three, tmp_path):
    model, X, y = three
    write_report(Subject.of(model, X, y, model_file="iris.polyadic"), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    for name in ("confusion", "reliability", "probabilities", "dependence0"):
        assert f'id="figure-{name}"' in page
    assert "figure-roc" not in page
    assert [name for name, *_ in rows_of_table(page, "Table of classes")] == [
        "class 0",
        "class 1",
        "class 2",
    ]
    assert "model.predict_proba(X)" in page


def test_many_classes_show_the_most_frequent():
    rng = np.random.RandomState(0)
    X = rng.rand(260, 2)
    y = np.minimum((14 * X[:, 0] ** 2).astype(int), 13)
    model = polyadic.KernelMachineClassifier(rank=2, n_basis=4, max_iter=3, random_state=0)
    found, page = report_of(Subject.of(model.fit(X, y), X, y))
    assert len(found.inputs.classes) == 6
    frequent = np.argsort(-model.predict_proba(X).mean(axis=0))[:6]
    assert set(found.inputs.classes) == {f"class {place}" for place in frequent}
    assert found.class_errors.confusion.shape == (14, 14)
    assert "of the 6 most frequent of 14 classes" in page
    assert "the 12 most frequent of 14" in page
    assert "gradient boosting" not in page


def test_without_rows_there_is_what_was_learned(two):
    codes = (two.classes_[1] == NEW_LABELS).astype(float)
    subject = Subject(
        model=two,
        X=None,
        target="health",
        names=two.schema_.inputs.names,
        actual=codes,
        predicted=two.predict_proba(NEW),
    )
    page = render(subject)
    assert "needs rows, and the model file has none" in page
    assert 'id="figure-roc"' in page
    assert [name for name, *_ in rows_of_table(page, "Table of errors")] == [
        "this model",
        "the share of each class in the fit",
    ]


@pytest.mark.parametrize("loss", ["poisson", "quantile", "absolute_error"])
def test_other_losses_are_measured_by_themselves(loss):
    X, y = make_friedman1(150, n_features=4 + 1, noise=1.0, random_state=0)
    options = {"quantile": 0.8} if loss == "quantile" else {}
    model = polyadic.KernelMachineRegressor(
        loss=loss, rank=3, n_basis=4, max_iter=5, random_state=0, **options
    ).fit(X[:100], y[:100])
    found, page = report_of(Subject.of(model, X[100:], y[100:]))
    predicted = model.predict(X[100:])
    if loss == "poisson":
        expected = metrics.mean_poisson_deviance(y[100:], predicted)
        assert found.errors.model.loss == pytest.approx(expected)
        assert found.errors.baselines[0].mae == pytest.approx(
            np.abs(y[100:] - y[:100].mean()).mean(), rel=1e-6
        )
        assert "linear Poisson regression" in page
        assert "mean Poisson deviance" in page
    if loss == "quantile":
        expected = metrics.mean_pinball_loss(y[100:], predicted, alpha=0.8)
        assert found.errors.model.loss == pytest.approx(expected)
        assert found.errors.below == pytest.approx((y[100:] < predicted).mean())
        assert "80.0 % asked for" in page
        assert "ridge" not in page
    if loss == "absolute_error":
        assert found.errors.model.loss is None
        assert "the median of the fit&#39;s target" in page

"""Inspection of classifiers and of models under a log link, against predictions row by row."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import sklearn.inspection
from sklearn import metrics
from sklearn.datasets import make_friedman1

import polyadic
from polyadic.inspection import (
    ConvergenceDisplay,
    InputRelevanceDisplay,
    PartialDependenceDisplay,
    PredictionDisplay,
    SelectionDisplay,
    input_effects,
    interaction_strengths,
    partial_dependence,
    permutation_importance,
)

matplotlib.use("agg")

X, Y = make_friedman1(90, n_features=5, noise=0.3, random_state=0)
THREE = np.array(["low", "mid", "high"], dtype=object)[np.digitize(Y, [12.0, 17.0])]
TWO = np.where(Y > 14, "yes", "no")
SMALL = {"rank": 3, "n_basis": 4, "max_iter": 4, "random_state": 0}


def make_table():
    """Return a table with a category, and gaps of numbers."""
    rng = np.random.RandomState(0)
    size, kind = 10 * rng.rand(90), np.array(["a", "b", None], dtype=object)[rng.randint(0, 3, 90)]
    odds = size - 5 + 3 * (kind == "a")
    size[rng.rand(90) < 0.2] = np.nan
    frame = pd.DataFrame({"size": size, "kind": kind, "other": rng.rand(90)})
    return frame, np.where(odds + rng.randn(90) > 0, "yes", "no")


FRAME, LABELS = make_table()
MODELS = {
    "two classes": lambda: polyadic.KernelMachineClassifier(**SMALL).fit(X, TWO),
    "three classes": lambda: polyadic.KernelMachineClassifier(**SMALL).fit(X, THREE),
    "log link": lambda: polyadic.KernelMachineRegressor(loss="poisson", **SMALL).fit(X, Y),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def automatic():
    return polyadic.FeatureLearningClassifier(effort=0.2, n_estimators=2, random_state=0).fit(
        FRAME, LABELS
    )


@pytest.fixture(scope="module")
def three():
    return MODELS["three classes"]()


def predict(model, rows):
    """Return what a model says of rows, a column each: all classes, but one of two."""
    if not sklearn.base.is_classifier(model):
        return model.predict(rows)[:, None]
    p = model.predict_proba(rows)
    return p[:, 1:] if p.shape[1] == 2 else p


def as_columns(values):
    return values.reshape(len(values), -1)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("two classes", "auto"),
        ("two classes", "decision_function"),
        ("three classes", "auto"),
        ("three classes", "decision_function"),
        ("log link", "auto"),
    ],
)
def test_it_is_what_scikit_learn_finds_by_brute_force(kind, method):
    model = MODELS[kind]()
    for inputs in ([3], [(4, 1)]):
        theirs = sklearn.inspection.partial_dependence(
            model, X, inputs, response_method=method, method="brute", grid_resolution=4
        )
        ours = partial_dependence(
            model,
            X,
            list(np.atleast_1d(inputs[0])),
            grids=theirs["grid_values"],
            response_method=method,
        )
        several = np.moveaxis(ours.values, -1, 0) if ours.classes else ours.values[None]
        np.testing.assert_allclose(several, theirs["average"], rtol=1e-9)


def test_logarithms_are_averaged_before_the_link():
    model = MODELS["log link"]()
    found = partial_dependence(model, X, 3, resolution=3, response_method="decision_function")
    for value, mean in zip(found.grids[0], found.values, strict=True):
        rows = X.copy()
        rows[:, 3] = value
        assert mean == pytest.approx(np.log(model.predict(rows)).mean(), rel=1e-9)
    assert found.label == "mean log of the prediction"


@pytest.mark.parametrize("method", ["auto", "decision_function"])
def test_a_class_is_asked_for_by_its_label(three, method):
    whole = partial_dependence(three, X, 0, resolution=4, response_method=method)
    assert whole.classes == ("high", "low", "mid")
    for place, label in enumerate(three.classes_):
        found = partial_dependence(three, X, 0, resolution=4, target=label, response_method=method)
        np.testing.assert_allclose(found.values, whole.values[:, place], rtol=1e-12)
        assert found.label.endswith(f"of {label}")
    if method == "auto":
        np.testing.assert_allclose(whole.values.sum(axis=1), 1, rtol=1e-12)


def test_the_first_of_two_classes_is_the_rest():
    model = MODELS["two classes"]()
    first, second = (partial_dependence(model, X, 0, target=label) for label in ("no", "yes"))
    np.testing.assert_allclose(first.values, 1 - second.values, rtol=1e-12)
    odds = [
        partial_dependence(model, X, 0, target=label, response_method="decision_function")
        for label in ("no", "yes")
    ]
    np.testing.assert_allclose(odds[0].values, -odds[1].values, rtol=1e-12)
    assert odds[0].label == "mean log odds of no"


def test_rows_are_averaged_in_parts(monkeypatch, three):
    whole = partial_dependence(three, X, [0, 3], resolution=4).values
    monkeypatch.setattr("polyadic.inspection._means._MAX_VALUES", 500)
    monkeypatch.setattr("polyadic.inspection._terms._BLOCK_BYTES", 1)
    parts = partial_dependence(three, X, [0, 3], resolution=4).values
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


@pytest.mark.parametrize("name", ["size", "kind", "other"])
def test_categories_and_gaps_are_predicted_as_they_are(automatic, name):
    found = partial_dependence(automatic, FRAME, name, resolution=4)
    for value, mean in zip(found.grids[0], found.values, strict=True):
        frame = FRAME.copy()
        frame[name] = pd.Series([value] * len(frame), dtype=FRAME[name].dtype)
        assert mean == pytest.approx(automatic.predict_proba(frame)[:, 1].mean(), rel=1e-9)


def test_two_inputs_with_gaps(automatic):
    found = partial_dependence(automatic, FRAME, ["size", "kind"], resolution=3)
    assert found.values.shape == (4, 3)
    for (i, j), mean in np.ndenumerate(found.values):
        frame = FRAME.assign(size=found.grids[0][i])
        frame["kind"] = pd.Series([found.grids[1][j]] * len(frame), dtype=object)
        assert mean == pytest.approx(automatic.predict_proba(frame)[:, 1].mean(), rel=1e-9)


def test_effects_are_means_of_predictions(model):
    found = input_effects(model, X, [3, (0, 4)], points=[[[0.1], [0.8]], [[0.2, 0.9]]])
    for curve, group, wanted, effect in zip(
        found.curves, ([3], [0, 4]), ([[0.1], [0.8]], [[0.2, 0.9]]), found.at_rows, strict=True
    ):
        for values, value in zip(wanted, as_columns(curve), strict=True):
            rows = X.copy()
            rows[:, group] = values
            np.testing.assert_allclose(value, predict(model, rows).mean(axis=0), rtol=1e-9)
        for row, value in list(zip(X, as_columns(effect), strict=True))[:10]:
            rows = X.copy()
            rows[:, group] = row[group]
            np.testing.assert_allclose(value, predict(model, rows).mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(as_columns(found.predicted), predict(model, X), rtol=1e-9)
    assert found.importances.shape == (2,)


def test_many_rows_have_effects_over_some_of_them(monkeypatch, three):
    whole = input_effects(three, X, [3]).importances
    monkeypatch.setattr("polyadic.inspection._importance._MAX_AVERAGED", 45)
    some = input_effects(three, X, [3]).importances
    assert some != whole
    assert some == pytest.approx(whole, rel=0.2)


MEASURES = {
    "squared_error": lambda y, p: np.sqrt(metrics.mean_squared_error(y, p)),
    "absolute_error": metrics.mean_absolute_error,
    "quantile": lambda y, p: metrics.mean_pinball_loss(y, p, alpha=0.8),
    "poisson": metrics.mean_poisson_deviance,
    "gamma": metrics.mean_gamma_deviance,
}


@pytest.mark.parametrize("loss", MEASURES)
def test_importance_is_growth_of_the_loss_of_the_fit(loss):
    options = {"quantile": 0.8} if loss == "quantile" else {}
    model = polyadic.KernelMachineRegressor(loss=loss, **SMALL, **options).fit(X, Y)
    found = permutation_importance(model, X, Y, [3, 2], n_repeats=2, random_state=4)
    check_growths(found, lambda rows: MEASURES[loss](Y, model.predict(rows)))


@pytest.mark.parametrize("labels", [TWO, THREE])
def test_importance_in_classes_is_growth_of_the_log_loss(labels):
    model = polyadic.KernelMachineClassifier(**SMALL).fit(X, labels)
    found = permutation_importance(model, X, labels, [3, 2], n_repeats=2, random_state=4)
    check_growths(found, lambda rows: metrics.log_loss(labels, model.predict_proba(rows)))


def check_growths(found, error):
    rng = np.random.RandomState(4)
    orders = [rng.permutation(len(X)) for _ in range(2)]
    for place, growth in zip((3, 2), found, strict=True):
        for order, value in zip(orders, growth, strict=True):
            rows = X.copy()
            rows[:, place] = X[order, place]
            assert value == pytest.approx(error(rows) - error(X), abs=1e-9)


def test_huber_is_the_squared_error_where_no_row_is_far_off():
    line = X @ [1.0, 2.0, 3.0, 4.0, 5.0]
    options = {**SMALL, "n_basis": 2, "rank": 5, "max_iter": 60, "alpha": 1e-9}
    trend = polyadic.features.PurePowerFeatures()
    model = polyadic.KernelMachineRegressor(trend, loss="huber", **options).fit(X, line)
    near = polyadic.KernelMachineRegressor(trend, **options).fit(X, line)
    found = permutation_importance(model, X, line, [0, 4])
    expected = permutation_importance(near, X, line, [0, 4])
    assert found[0] == pytest.approx(expected[0], rel=0.05)  # rows stay within the corner
    assert (found[1] < 0.9 * expected[1]).all()  # and here they do not


def test_standard_errors_are_those_of_rows_drawn_anew():
    """Over many samples of rows the importance varies as much as one sample says it does."""
    from polyadic.inspection._importance import find_growths

    rows, y = make_friedman1(3000, n_features=5, noise=1.0, random_state=1)
    model = polyadic.KernelMachineRegressor(**SMALL).fit(X, Y)
    found = [
        find_growths(model, part, own, [(3,)])
        for part, own in zip(rows.reshape(30, 100, 5), y.reshape(30, 100), strict=True)
    ]
    spread = np.std([each.values.mean() for each in found], ddof=1)
    told = np.mean([each.standard_errors[0] for each in found])
    assert told == pytest.approx(spread, rel=0.35)


def test_interaction_is_measured_before_the_link(model):
    def mean_score(places, values):
        rows = X.copy()
        rows[:, places] = values
        if model._link == "log":
            return np.log(model.predict(rows)).mean()
        return model.decision_function(rows).mean(axis=0)

    found = interaction_strengths(model, X, [0, 1, 3])
    assert set(found) == {(0, 1), (0, 2), (1, 2)}
    beyond = [
        mean_score([0, 1], row[[0, 1]]) - mean_score([0], row[0]) - mean_score([1], row[1])
        for row in X
    ]
    expected = np.sqrt(np.var(beyond, axis=0).sum())
    assert found[0, 1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"target": "huge"}, r"`target` must be one of the classes, 'high', 'low', 'mid', got"),
        ({"response_method": "predict"}, r"`response_method` must be one of 'auto'"),
    ],
)
def test_wrong_choices_are_named(three, arguments, told):
    with pytest.raises(ValueError, match=told):
        partial_dependence(three, X, 0, **arguments)


def test_a_regressor_has_no_probabilities():
    with pytest.raises(ValueError, match="`response_method` must be 'auto' or"):
        partial_dependence(MODELS["log link"](), X, 0, response_method="predict_proba")


@pytest.mark.parametrize(
    ("labels", "told"),
    [(THREE[:-1], "`y` must be a label for each"), (np.full(90, "huge"), "classes of the fit")],
)
def test_wrong_labels_are_named(three, labels, told):
    with pytest.raises(ValueError, match=told):
        permutation_importance(three, X, labels)


# ------------------------------------------------------------------------------- pictures


def test_classes_have_a_line_each(three):
    display = PartialDependenceDisplay.from_estimator(three, X, 3, resolution=5)
    drawn = np.array([line.get_ydata() for line in display.lines_])
    np.testing.assert_array_equal(drawn.T, display.dependence.values)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["high", "low", "mid"]
    assert display.ax_.get_ylabel() == "mean probability"
    with pytest.raises(ValueError, match="`target` must be one of the classes"):
        PartialDependenceDisplay.from_estimator(three, X, [0, 1], resolution=3)
    map_of_one = PartialDependenceDisplay.from_estimator(
        three, X, [0, 1], resolution=3, target="mid"
    )
    assert map_of_one.contours_ is not None


def test_bars_of_classes_add_up_to_one():
    labels = np.where(FRAME["other"] > 0.6, "maybe", LABELS)
    model = polyadic.FeatureLearningClassifier(effort=0.1, n_estimators=1, random_state=0)
    display = PartialDependenceDisplay.from_estimator(model.fit(FRAME, labels), FRAME, "kind")
    widths = np.array([[bar.get_width() for bar in bars] for bars in display.bars_])
    np.testing.assert_allclose(widths.sum(axis=0), 1, rtol=1e-9)
    lefts = np.array([[bar.get_x() for bar in bars] for bars in display.bars_])
    np.testing.assert_allclose(lefts[1], widths[0], rtol=1e-9)


def test_other_displays_take_classifiers(automatic, three):
    assert SelectionDisplay.from_estimator(automatic).ax_.get_ylabel() == "held-out loss"
    assert len(InputRelevanceDisplay.from_estimator(automatic).bars_) == 3
    assert ConvergenceDisplay.from_estimator(three).lines_
    with pytest.raises(ValueError, match="`estimator` must be a regressor"):
        PredictionDisplay.from_estimator(three, X, THREE)


def test_a_gap_is_a_point_beside_the_curve(automatic):
    display = PartialDependenceDisplay.from_estimator(automatic, FRAME, "size", resolution=5)
    assert display.gap_.get_ydata()[0] == display.dependence.values[5]

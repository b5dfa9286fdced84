"""Partial dependence against brute force, and what the displays draw."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError

import polyadic
from polyadic.features import FourierFeatures, GaussianFeatures, PurePowerFeatures
from polyadic.inspection import (
    ConvergenceDisplay,
    FeatureWeightsDisplay,
    InputRelevanceDisplay,
    PartialDependenceDisplay,
    PredictionDisplay,
    SelectionDisplay,
    partial_dependence,
)
from tests.small import regressor

matplotlib.use("agg")

X, Y = make_friedman1(70, n_features=5, noise=0.3, random_state=0)
GOLDEN = Path(__file__).parents[1] / "golden"


def learned(maps="auto", y=Y, rows=X, **changes):
    return regressor(maps, **changes).fit(rows, y)


def automatic(rows=X):
    """Return a model that learned its features, and may not use x2."""
    model = polyadic.FeatureLearningRegressor(n_basis=[4, 4, 1, 3, 5], effort=0.4, random_state=0)
    return model.fit(rows, Y)


MODELS = {
    "quantized": lambda: learned(),
    "members": lambda: learned(n_estimators=3),
    "free signs": lambda: learned([FourierFeatures(p) for p in (2.0, 3.0, 9.0)], mixing="l2"),
    "plain and mixed": lambda: learned(
        [GaussianFeatures(0.3, 1.5), PurePowerFeatures()], quantized=False, n_basis=[3, 4, 2, 5, 3]
    ),
    "not scaled": lambda: learned(scale_inputs=False),
    "features learned": lambda: automatic(),
}


@pytest.mark.parametrize("kind", MODELS)
def test_partial_dependence_is_the_mean_of_predictions(kind):
    model = MODELS[kind]()
    found = partial_dependence(model, X, 3, resolution=6)
    expected = []
    for value in found.grids[0]:
        rows = X.copy()
        rows[:, 3] = value
        expected.append(model.predict(rows).mean())
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    both = partial_dependence(model, X, [4, 1], grids=[[0.1, 0.9], [0.0, 0.5, 1.0]])
    assert both.values.shape == (2, 3)
    for (i, j), value in np.ndenumerate(both.values):
        rows = X.copy()
        rows[:, 4], rows[:, 1] = both.grids[0][i], both.grids[1][j]
        assert value == pytest.approx(model.predict(rows).mean(), rel=1e-10)


def test_partial_dependence_of_one_of_several_targets():
    model = learned(y=np.column_stack([Y, 100 - 2 * Y]))
    found = partial_dependence(model, X, 0, resolution=3, target=1)
    rows = X.copy()
    rows[:, 0] = found.grids[0][2]
    assert found.values[2] == pytest.approx(model.predict(rows)[:, 1].mean(), rel=1e-10)


def test_columns_that_are_set_together():
    model = learned()
    rows = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
    found = partial_dependence(model, X, [[2, 4], 1], grids=[rows, [0.2, 0.7]])
    assert found.inputs == ((2, 4), 1)
    assert found.names == ("x2, x4", "x1")
    for (i, j), value in np.ndenumerate(found.values):
        changed = X.copy()
        changed[:, [2, 4]], changed[:, 1] = rows[i], found.grids[1][j]
        assert value == pytest.approx(model.predict(changed).mean(), rel=1e-10)


def test_columns_that_are_set_together_take_the_values_that_rows_have():
    rows = np.column_stack([X[:, :3], X[:, 3] > 0.5, X[:, 3] <= 0.5])
    found = partial_dependence(learned(rows=rows), rows, [[3, 4]])
    np.testing.assert_array_equal(found.grids[0], [[0, 1], [1, 0]])


def test_many_rows_are_averaged_in_parts(monkeypatch):
    model = learned()
    whole = partial_dependence(model, X, [0, 3], resolution=4).values
    monkeypatch.setattr("polyadic.inspection._means._MAX_ROWS", 17)
    monkeypatch.setattr("polyadic.inspection._terms._BLOCK_BYTES", 1)
    parts = partial_dependence(model, X, [0, 3], resolution=4).values
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_inputs_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = learned(rows=frame)
    by_name = partial_dependence(model, frame, "d", resolution=4)
    assert by_name.names == ("d",)
    np.testing.assert_array_equal(
        by_name.values, partial_dependence(model, frame, 3, resolution=4).values
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (list("edcba"), "must be in the same order"),
        (list("abcdef"), "unseen at fit time"),
        (list("abcd"), "seen at fit time, yet now missing"),
    ],
)
def test_frames_unlike_the_first_are_refused_as_predict_does(columns, expected):
    model = learned(rows=pd.DataFrame(X, columns=list("abcde")))
    frame = pd.DataFrame({name: X[:, "abcde".find(name)] for name in columns})
    for call in (model.predict, lambda frame: partial_dependence(model, frame, "a")):
        with pytest.raises(ValueError, match=expected):
            call(frame)


@pytest.mark.parametrize("columns", [slice(0, 4), [0, 1, 2, 3, 4, 0]])
def test_rows_of_another_width_are_refused(columns):
    with pytest.raises(ValueError, match="is expecting 5 features"):
        partial_dependence(learned(), X[:, columns], 0)


@pytest.mark.parametrize("target", [1, 5, -1, "y"])
def test_a_target_out_of_range_is_named(target):
    with pytest.raises(ValueError, match=r"`target` must .* got .*one target.*Pass target=0"):
        partial_dependence(learned(), X, 0, target=target)


@pytest.mark.parametrize("inputs", ["z", 5, -1, [], [0, 0], [0, 1, 2], [[]], [[0, 1], 1], 1.5])
def test_wrong_inputs_are_named(inputs):
    with pytest.raises(ValueError, match="`inputs` must"):
        partial_dependence(learned(), X, inputs)


@pytest.mark.parametrize(
    "grids", [[[1.0], [2.0]], [[[0.1, 0.2]]], [[]], [0.5], [[np.nan]]], ids=str
)
def test_wrong_grids_are_named(grids):
    with pytest.raises(ValueError, match="`grids` must"):
        partial_dependence(learned(), X, 0, grids=grids)


def test_feature_weights_display():
    model = learned()
    display = FeatureWeightsDisplay.from_estimator(model)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_array_equal(widths, model.feature_weights_)
    assert display.ax_.get_yticklabels()[0].get_text() == "DampedFourier(decay=0.6, period=1.3)"


def test_convergence_display():
    model = learned(early_stopping=True)
    display = ConvergenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), model.loss_curve_)
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), model.validation_curve_)
    assert display.ax_.get_yscale() == "log"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["training loss", "held-out MSE"]
    assert ConvergenceDisplay([1.0, 0.0]).plot().ax_.get_yscale() == "linear"


def test_a_loss_within_one_decade_has_plain_numbers():
    display = ConvergenceDisplay([0.093, 0.062, 0.041]).plot()
    display.figure_.canvas.draw()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert {"0.05", "0.1"} <= set(labels)
    assert not any("10" in label and "×" in label for label in labels)


def test_input_relevance_display():
    model = automatic(pd.DataFrame(X, columns=list("abcde")))
    display = InputRelevanceDisplay.from_estimator(model)
    drawn = [bar.get_width() for bar in display.bars_]
    assert drawn == sorted(drawn, reverse=True)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    relevance = [summary.relevance for summary in model.inputs_]
    assert [dict(zip(labels, drawn, strict=True))[name] for name in "abcde"] == relevance
    assert labels[-1] == "c"
    with pytest.raises(ValueError, match=r"`estimator` must .* no `inputs_`.*Fit"):
        InputRelevanceDisplay.from_estimator(learned())


def test_selection_display():
    model = automatic()
    display = SelectionDisplay.from_estimator(model)
    drawn = {
        (int(trial), float(error), line.get_label())
        for line in display.lines_
        for trial, error in zip(*line.get_data(), strict=True)
    }
    trials = zip(model.selection_["held_out_mse"], model.selection_["rank"], strict=True)
    assert drawn == {(n, error, f"rank {rank}") for n, (error, rank) in enumerate(trials, 1)}


def test_the_least_error_so_far_is_a_line():
    display = SelectionDisplay([8, 8, 16, 16], [3.0, 2.0, 2.5, 1.0]).plot()
    assert display.least_line_.get_ydata().tolist() == [3, 2, 2, 1]
    assert len({line.get_marker() for line in display.lines_}) == 2
    assert display.ax_.get_yscale() == "linear"
    assert SelectionDisplay([8, 8], [3.0, 0.1]).plot().ax_.get_yscale() == "log"


def test_trials_of_each_member_apart_are_no_course():
    first_version = polyadic.load(GOLDEN / "automatic.polyadic")
    for model in (first_version, learned()):
        with pytest.raises(ValueError, match=r"`estimator` must .* no such trials.*Fit"):
            SelectionDisplay.from_estimator(model)


@pytest.mark.parametrize("kind", ["predictions", "residuals"])
def test_prediction_display(kind):
    model = learned()
    display = PredictionDisplay.from_estimator(model, X, Y, kind=kind)
    predicted = model.predict(X)
    expected = [Y, predicted] if kind == "predictions" else [predicted, Y - predicted]
    np.testing.assert_array_equal(display.points_.get_offsets(), np.column_stack(expected))
    again = PredictionDisplay.from_predictions(Y, predicted, kind=kind)
    np.testing.assert_array_equal(again.points_.get_offsets(), display.points_.get_offsets())


def test_predicted_against_actual_has_equal_axes():
    display = PredictionDisplay([0.0, 10.0], [4.0, 6.0]).plot()
    assert display.ax_.get_xlim() == display.ax_.get_ylim()
    assert display.ax_.get_aspect() == 1


def test_wrong_predictions_are_refused():
    with pytest.raises(ValueError, match="columns of one length"):
        PredictionDisplay([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="`kind` must be"):
        PredictionDisplay([1, 2], [1, 2]).plot(kind="pie")


def test_partial_dependence_display_draws_on_a_given_axis():
    from matplotlib.figure import Figure

    model, axes = learned(), Figure().subplots(1, 2)
    line = PartialDependenceDisplay.from_estimator(model, X, 0, resolution=9, ax=axes[0])
    assert line.ax_ is axes[0]
    np.testing.assert_array_equal(line.lines_[0].get_ydata(), line.dependence.values)
    area = PartialDependenceDisplay.from_estimator(model, X, [0, 1], resolution=9, ax=axes[1])
    assert (area.ax_.get_xlabel(), area.ax_.get_ylabel()) == ("x0", "x1")


def test_columns_that_are_set_together_are_drawn_as_bars():
    rows = np.column_stack([X[:, :3], X[:, 3] > 0.5, X[:, 3] <= 0.5])
    model = learned(rows=rows)
    display = PartialDependenceDisplay.from_estimator(model, rows, [[3, 4]])
    assert [bar.get_width() for bar in display.bars_] == display.dependence.values.tolist()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["0, 1", "1, 0"]
    area = PartialDependenceDisplay.from_estimator(model, rows, [[3, 4], 0], resolution=7)
    assert area.cells_.get_array().shape == (7, 2)


def test_an_unfitted_model_has_no_pictures():
    for display in (
        FeatureWeightsDisplay,
        ConvergenceDisplay,
        InputRelevanceDisplay,
        SelectionDisplay,
    ):
        with pytest.raises(NotFittedError):
            display.from_estimator(polyadic.FeatureLearningRegressor())

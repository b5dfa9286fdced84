"""Partial dependence against brute force, and what the displays draw."""

from __future__ import annotations

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
    PartialDependenceDisplay,
    PredictionDisplay,
    partial_dependence,
)

matplotlib.use("agg")

X, Y = make_friedman1(70, n_features=5, noise=0.3, random_state=0)
SMALL = {"rank": 3, "n_basis": 4, "max_iter": 4, "random_state": 0}


def learned(maps="auto", y=Y, rows=X, **changes):
    return polyadic.FeatureLearningRegressor(maps, **{**SMALL, **changes}).fit(rows, y)


MODELS = {
    "quantized": lambda: learned(),
    "members": lambda: learned(n_estimators=3),
    "free signs": lambda: learned([FourierFeatures(p) for p in (2.0, 3.0, 9.0)], mixing="l2"),
    "plain and mixed": lambda: learned(
        [GaussianFeatures(0.3, 1.5), PurePowerFeatures()], quantized=False, n_basis=[3, 4, 2, 5, 3]
    ),
    "not scaled": lambda: learned(scale_inputs=False),
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


def test_inputs_by_name():
    model = learned(rows=pd.DataFrame(X, columns=list("abcde")))
    by_name = partial_dependence(model, X, "d", resolution=4)
    assert by_name.names == ("d",)
    np.testing.assert_array_equal(
        by_name.values, partial_dependence(model, X, 3, resolution=4).values
    )


@pytest.mark.parametrize("inputs", ["z", 5, -1, [], [0, 0], [0, 1, 2]])
def test_wrong_inputs_are_named(inputs):
    with pytest.raises(ValueError, match="`inputs` must"):
        partial_dependence(learned(), X, inputs)


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
    assert ConvergenceDisplay([1.0, 0.0]).plot().ax_.get_yscale() == "linear"


@pytest.mark.parametrize("kind", ["predictions", "residuals"])
def test_prediction_display(kind):
    model = learned()
    display = PredictionDisplay.from_estimator(model, X, Y, kind=kind)
    predicted = model.predict(X)
    expected = [Y, predicted] if kind == "predictions" else [predicted, Y - predicted]
    np.testing.assert_array_equal(display.points_.get_offsets(), np.column_stack(expected))
    again = PredictionDisplay.from_predictions(Y, predicted, kind=kind)
    np.testing.assert_array_equal(again.points_.get_offsets(), display.points_.get_offsets())


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


def test_an_unfitted_model_has_no_pictures():
    for display in (FeatureWeightsDisplay, ConvergenceDisplay):
        with pytest.raises(NotFittedError):
            display.from_estimator(polyadic.FeatureLearningRegressor())

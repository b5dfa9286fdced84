"""Inspection of models of tables: rows as they are, and levels by their codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polyadic import FeatureLearningRegressor
from polyadic.inspection import input_effects, partial_dependence, permutation_importance


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    size, town = rng.rand(200), rng.choice(["Oslo", "Rome", "Ulm"], 200, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"size": np.where(rng.rand(200) < 0.1, np.nan, size), "town": town})
    y = size * (1 + (town == "Rome")) + 2.0 * (town == "Ulm")
    model = FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0)
    return model.fit(frame, y), frame, y


def test_partial_dependence_of_a_category_is_the_mean_prediction_at_each_level(fitted):
    model, frame, _ = fitted
    found = partial_dependence(model, frame, "town")
    levels = model.schema_.columns[1].levels
    assert levels == ("Oslo", "Rome", "Ulm")
    np.testing.assert_array_equal(found.grids[0], [0, 1, 2])
    expected = [model.predict(frame.assign(town=level)).mean() for level in levels]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)


def test_partial_dependence_of_a_number_with_gaps(fitted):
    model, frame, _ = fitted
    found = partial_dependence(model, frame, "size", resolution=5)
    low, high = frame["size"].min(), frame["size"].max()
    np.testing.assert_allclose(found.grids[0], np.linspace(low, high, 5))
    expected = [model.predict(frame.assign(size=value)).mean() for value in found.grids[0]]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)


def test_importance_is_that_of_columns(fitted):
    model, frame, y = fitted
    effects = input_effects(model, frame)
    growth = permutation_importance(model, frame, y)
    assert effects.at_rows.shape == (2, 200)
    assert np.isfinite(effects.importances).all()
    assert growth[1].mean() > growth[0].mean() > 0

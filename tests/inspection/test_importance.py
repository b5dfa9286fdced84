"""Importance and interaction against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import polyadic
from polyadic.features import FourierFeatures, GaussianFeatures, PurePowerFeatures
from polyadic.inspection import (
    input_effects,
    interaction_strengths,
    permutation_importance,
    write_number,
    write_tick,
)
from tests.small import regressor, turned_rows

X, Y = make_friedman1(60, n_features=5, noise=0.3, random_state=0)
GROUPS = [3, (0, 4), 1]


def learned(maps="auto", **changes):
    return regressor(maps, **changes).fit(X, Y)


MODELS = {
    "joint members": lambda: learned(n_estimators=2),
    "features learned": lambda: learned(
        n_basis=[4, 1, 5, 4, 3], max_iter="auto", n_estimators=2, effort=0.3
    ),
    "some inputs take no part": lambda: learned(
        [FourierFeatures(2.0), FourierFeatures(5.0)], n_basis=[4, 1, 2, 4, 1]
    ),
    "plain": lambda: learned([GaussianFeatures(0.3, 1.5), PurePowerFeatures()], quantized=False),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def mean_prediction(model, places, values):
    rows = X.copy()
    rows[:, places] = values
    return model.predict(rows).mean()


def test_effects_are_means_of_predictions(model):
    points = [[[0.1], [0.8]], [[0.2, 0.9]], [[0.5]]]
    found = input_effects(model, X, GROUPS, points=points)
    for group, wanted, curve, effect in zip(
        GROUPS, points, found.curves, found.at_rows, strict=True
    ):
        places = list(np.atleast_1d(group))
        expected = [mean_prediction(model, places, values) for values in wanted]
        np.testing.assert_allclose(curve, expected, rtol=1e-9)
        own = [mean_prediction(model, places, row[places]) for row in X]
        np.testing.assert_allclose(effect, own, rtol=1e-9)
    np.testing.assert_allclose(found.importances, found.at_rows.std(axis=1))


def test_a_rare_value_far_out_counts_little():
    """The old ranking went by the curve over an even grid, where one row of 200 came first."""
    rng = np.random.RandomState(0)
    rare = np.zeros(200)
    rare[0] = 1.0
    rows = np.column_stack([rng.rand(200), rare])
    model = polyadic.KernelMachineRegressor(PurePowerFeatures(), rank=2, n_basis=2, alpha=1e-6)
    model.fit(rows, rows[:, 0] + 3 * rows[:, 1])
    found = input_effects(model, rows, points=[[[0.0], [1.0]], [[0.0], [1.0]]])
    assert np.ptp(found.curves[1]) > 2 * np.ptp(found.curves[0])
    assert found.importances[0] > found.importances[1]


def test_permutation_is_prediction_of_shuffled_rows(model):
    found = permutation_importance(model, X, Y, GROUPS, n_repeats=3, random_state=4)
    rng = np.random.RandomState(4)
    orders = [rng.permutation(len(X)) for _ in range(3)]
    plain = np.sqrt(np.mean((model.predict(X) - Y) ** 2))
    for group, growth in zip(GROUPS, found, strict=True):
        places = list(np.atleast_1d(group))
        for order, value in zip(orders, growth, strict=True):
            rows = X.copy()
            rows[:, places] = X[order][:, places]
            rmse = np.sqrt(np.mean((model.predict(rows) - Y) ** 2))
            assert value == pytest.approx(rmse - plain, abs=1e-9)


def test_interaction_is_what_a_pair_has_beyond_its_inputs(model):
    found = interaction_strengths(model, X, GROUPS)
    assert set(found) == {(0, 1), (0, 2), (1, 2)}
    for (first, second), strength in found.items():
        one, two = (list(np.atleast_1d(GROUPS[g])) for g in (first, second))
        beyond = [
            mean_prediction(model, one + two, row[one + two])
            - mean_prediction(model, one, row[one])
            - mean_prediction(model, two, row[two])
            for row in X
        ]
        assert strength == pytest.approx(np.std(beyond), abs=1e-9)


@pytest.fixture(scope="module")
def turned():
    """A model that sees inputs along directions, and its few rows."""
    rows, y = turned_rows(48)
    more = turned_rows(250, seed=1)
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0)
    model.fit(*(np.concatenate(parts) for parts in zip((rows, y), more, strict=True)))
    assert any(member.inputs.directions is not None for member in model.members_ if member.share)
    return model, rows, y


def test_along_directions_all_is_predicted(turned):
    """No closed form is left; few rows are all averaged over."""
    model, rows, y = turned

    def mean_at(places, values):
        held = rows.copy()
        held[:, places] = values
        return model.predict(held).mean()

    effects = input_effects(model, rows, points=[[[0.1], [0.8]]] * 3)
    for d in range(3):
        expected = [mean_at([d], [value]) for value in (0.1, 0.8)]
        np.testing.assert_allclose(effects.curves[d], expected, rtol=1e-9)
        expected = [mean_at([d], row[[d]]) for row in rows]
        np.testing.assert_allclose(effects.at_rows[d], expected, rtol=1e-9)
    strengths = interaction_strengths(model, rows, range(3))
    for (a, b), strength in strengths.items():
        beyond = [
            mean_at([a, b], row[[a, b]]) - mean_at([a], row[[a]]) - mean_at([b], row[[b]])
            for row in rows
        ]
        assert strength == pytest.approx(np.std(beyond), rel=1e-9)
    assert strengths[0, 1] > 5 * max(strengths[0, 2], strengths[1, 2])
    growth = permutation_importance(model, rows, y, n_repeats=1, random_state=4)[:, 0]
    order = np.random.RandomState(4).permutation(len(rows))
    before = np.sqrt(np.mean((model.predict(rows) - y) ** 2))
    for d in range(3):
        shuffled = rows.copy()
        shuffled[:, d] = rows[order, d]
        after = np.sqrt(np.mean((model.predict(shuffled) - y) ** 2))
        assert growth[d] == pytest.approx(after - before, abs=1e-9)


def test_relevance_counts_what_directions_do(turned):
    model = turned[0]
    relevance = [each.relevance for each in model.inputs_]
    assert min(relevance[:2]) > 3 * relevance[2]
    kinds = [each.kind for each in model.inputs_]
    assert kinds == ["number"] * 3


@pytest.mark.parametrize("y", [Y[:-1], np.column_stack([Y, Y]), np.full(60, np.nan)])
def test_wrong_targets_are_named(y):
    with pytest.raises(ValueError, match="`y` must be a finite number for each"):
        permutation_importance(learned(), X, y)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (37296.4, "37,296"),
        (9999.7, "10,000"),
        (1952.0, "1952"),
        (0.84342, "0.8434"),
        (100.0, "100"),
        (-0.5, "−0.5"),
        (-0.0, "0"),
        (1e16, "1 × 10¹⁶"),
        (2.5e-7, "2.5 × 10⁻⁷"),
        (float("nan"), "–"),
    ],
)
def test_numbers_are_as_people_write_them(value, text):
    assert write_number(value) == text


def test_ticks_are_short_and_differ():
    assert [write_tick(v) for v in (100000.5, 100001.0)] == ["100,000.5", "100,001"]
    assert [write_tick(v) for v in (2e6, -1.5e9, 1e-7)] == ["2 M", "−1.5 bn", "10⁻⁷"]

"""What may be hidden in gaps, against sums and integrals written out."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic import FeatureLearningRegressor, load, save
from polyadic.compute import ComputeSpec
from polyadic.features import Table
from polyadic.features.tables import knots
from polyadic.model.evidence import Evidence
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.search.gaps import chances_of, learn_chances, trust_of, weigh


def holes_in(X, part, seed=5):
    return np.where(np.random.RandomState(seed).uniform(size=X.shape) < part, np.nan, X)


def independent(n, seed=0):
    """Return three inputs that say nothing of each other, and a function of their products."""
    X = np.random.RandomState(seed).uniform(size=(n, 3))
    return X, np.sin(6 * X[:, 0]) * (X[:, 1] - 0.3) + 2 * (X[:, 2] - 0.5) ** 2 * X[:, 1]


@pytest.mark.parametrize("spread", [0.02, 0.1])
def test_chances_are_those_of_what_turned_out(spread):
    rng = np.random.RandomState(0)
    guess = rng.uniform(0.3, 0.7, size=4_000)
    truth = np.clip(guess + spread * rng.standard_normal(len(guess)), 0, 1)
    chances = chances_of(guess, truth)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (chances >= 0).all()
    u = knots()
    mean = chances @ u
    deviation = np.sqrt(chances @ u**2 - mean**2)
    inside = (u > 0.35) & (u < 0.65)
    np.testing.assert_allclose(mean[inside], u[inside], atol=0.3 * spread)
    # What counts as the same guess widens it by half of itself, in squares.
    np.testing.assert_allclose(deviation[inside], 1.12 * spread, rtol=0.12)


def test_heavy_rows_count_for_more():
    guess, truth = np.full(40, 0.5), np.repeat([0.2, 0.8], 20)
    weight = np.repeat([1.0, 3.0], 20)
    assert chances_of(guess, truth, weight)[96] @ knots() == pytest.approx(0.65)


def test_features_of_a_gap_are_the_means_over_what_may_be_hidden():
    X, _ = independent(3_000)
    holes, inputs = holes_in(X, 0.2), Inputs.of_numbers("abc")
    scaling = InputScaling.fit(holes, inputs).with_filling(holes, inputs)
    chances = learn_chances({0.0: scaling}, holes, None)[0.0]
    table = Table.mercer("matern32", 0.4, n_basis=6, chances=chances[0])
    row = scaling.apply(np.array([[np.nan, 0.4, 0.6]]))
    u = np.random.RandomState(1).uniform(size=20_000)
    expected = table.features(u).mean(axis=0)
    np.testing.assert_allclose(table.features(row[:, 0])[0], expected, atol=0.05)
    assert np.abs(table.features(np.array([0.5]))[0] - expected).max() > 0.3


def test_rows_with_gaps_are_trusted_as_the_kernel_says():
    X, _ = independent(2_000)
    holes, inputs = holes_in(X, 0.2), Inputs.of_numbers("abc")
    scaling = InputScaling.fit(holes, inputs).with_filling(holes, inputs)
    chances = learn_chances({0.0: scaling}, holes, None)[0.0]
    lengths, rng = np.array([0.2, 0.7, 5.0, 1.0, 1.0, 1.0]), np.random.RandomState(2)
    trust = trust_of(scaling, chances, Evidence("rbf", lengths, 2.0, 0.1, 0.0), 20.0)
    a, b = rng.uniform(size=(2, 100_000))
    alike = [np.exp(-(((a - b) / length) ** 2) / 2).mean() for length in lengths[:3]]
    gaps = np.isnan(holes)
    share = np.prod(np.where(gaps, alike, 1.0), axis=1)
    found = weigh(trust, holes)
    np.testing.assert_allclose(found, 1 / (1 + 20 * (1 - share)), rtol=0.1)
    assert (found[~gaps.any(axis=1)] == 1).all()
    assert trust_of(scaling, chances, Evidence("rbf", lengths, 2.0, 0.1, 0.0), 0.0) is None
    rows = Rows(holes, np.zeros(len(holes)), np.full(len(holes), 3.0))
    for engine in ("reference", "compiled"):
        with ComputeSpec(engine=engine, n_jobs=1).open() as compute:
            counted = trust.count(rows, compute.predict)
        np.testing.assert_allclose(counted.weight, 3 * found, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000, 2_500])  # with exact processes and without
def test_predictions_are_means_over_what_is_hidden(n, tmp_path):
    X, y = independent(n)
    model = FeatureLearningRegressor(random_state=0, n_jobs=1, verbose=0)
    model.fit(holes_in(X, 0.15), y + 0.02 * np.random.RandomState(1).standard_normal(n))
    new, rng = independent(200, seed=3)[0], np.random.RandomState(4)
    rows, place = new.copy(), rng.randint(3, size=200)
    rows[np.arange(200), place] = np.nan
    # The truth, over all that may be hidden.
    truth = np.zeros(200)
    for u in (np.arange(200) + 0.5) / 200:
        filled = np.where(np.isnan(rows), u, rows)
        truth += (
            np.sin(6 * filled[:, 0]) * (filled[:, 1] - 0.3)
            + 2 * (filled[:, 2] - 0.5) ** 2 * filled[:, 1]
        ) / 200
    middle = np.where(np.isnan(rows), 0.5, rows)
    found = model.predict(rows)
    assert np.mean((found - truth) ** 2) < 0.2 * np.mean((model.predict(middle) - truth) ** 2)
    save(model, tmp_path / "model.polyadic")
    np.testing.assert_array_equal(load(tmp_path / "model.polyadic").predict(rows), found)


def test_few_known_values_and_copies_are_no_trouble():
    X, y = independent(60)
    holes = holes_in(X, 0.3)
    holes[4:, 2] = np.nan
    model = FeatureLearningRegressor(effort=0.1, random_state=0, verbose=0)
    model.fit(np.vstack([holes, holes]), np.concatenate([y, y]))
    assert np.isfinite(model.predict(holes)).all()
    assert np.isfinite(model.predict(np.full((1, 3), np.nan))).all()
    _, std = model.predict(1e12 * holes, return_std=True)
    assert np.isfinite(std).all()

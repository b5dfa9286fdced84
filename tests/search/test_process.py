"""Exact processes beside members, against Gaussian processes written out over the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from polyadic import FeatureLearningRegressor, load, save
from polyadic.compute import ComputeSpec
from polyadic.members import name_beside
from polyadic.search.near import Known, NearPart
from polyadic.search.process import share_processes
from tests.search.ways import kernel, learn

QUICK = {"n_estimators": 2, "random_state": 0, "n_jobs": 1, "verbose": 0}


def smooth(n, seed=0, noise=0.1):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 3))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + noise * rng.standard_normal(n)


def processes(model):
    beside = model.members_[len(model.alpha_) :]
    return [each for each in beside if name_beside(each) == "exact process"]


def mean_of_processes(ways, X, y, Z):
    """Return the mean of what Gaussian processes of all rows say, written out."""
    noises = [each.evidence.noise / each.evidence.signal * np.eye(len(X)) for each in ways]
    pairs = zip(ways, noises, strict=True)
    return np.mean(
        [kernel(each, Z, X) @ np.linalg.solve(kernel(each, X, X) + R, y) for each, R in pairs],
        axis=0,
    )


@pytest.mark.parametrize(
    ("others_err", "least", "most"), [(0.02, 0.0, 0.3), (0.12, 0.3, 0.7), (1.0, 0.7, 1.0)]
)
def test_the_share_is_the_likely_one(others_err, least, most):
    X, y = smooth(160)
    ways, rng = learn(X, y), np.random.RandomState(1)
    known, held = slice(0, 120), slice(120, None)
    said = y[held] + others_err * rng.standard_normal(40)
    weight = rng.uniform(0.5, 1.5, 40)
    part = NearPart(
        Known(X[known], y[known, None], np.ones(120)),
        X[held],
        weight,
        said[:, None],
        lambda f: y[held, None] - f,
    )
    found = share_processes([part], ways)
    process = mean_of_processes(ways, X[known], y[known], X[held])
    variance = np.mean(weight * (y[held] - (said + process) / 2) ** 2)

    def cost(share):
        rest = y[held] - (1 - share) * said - share * process
        return 0.5 * weight @ rest**2 / variance + 0.5 * ((share - 0.5) / 0.2) ** 2

    likely = minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    assert sum(each.share for each in found.sums) == pytest.approx(likely, abs=1e-6)
    assert found.others == pytest.approx(1 - likely, abs=1e-6)
    assert least <= likely <= most


def test_a_fit_of_few_rows_has_processes_of_all_of_them(tmp_path):
    X, y = smooth(150)
    model = FeatureLearningRegressor(**QUICK).fit(X, y)
    beside = processes(model)
    assert len(beside) == 3
    new, ways = smooth(50, seed=2)[0], learn(X, y)
    scaling = model.target_scaling_
    expected = sum(m.share for m in beside) * mean_of_processes(ways, X, scaling.apply(y, 0), new)
    with ComputeSpec(n_jobs=1).open() as compute:
        found = sum(member.respond(new, 0, compute.predict) for member in beside)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    save(model, tmp_path / "model.polyadic")
    again = load(tmp_path / "model.polyadic")
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (200, {"rank": 4}),  # the model is fixed
        (400, {"effort": 0.2}),  # more rows than are remembered
        (200, {"loss": "huber"}),
    ],
)
def test_none_where_rows_are_many_or_the_model_is_fixed(rows, options):
    X, y = smooth(rows)
    model = FeatureLearningRegressor(**{**QUICK, **options}).fit(X, y)
    assert not processes(model)


def test_none_of_a_single_input_where_members_are_the_process():
    X, y = smooth(200)
    model = FeatureLearningRegressor(**QUICK).fit(X[:, :1], y)
    assert len(model.members_) == len(model.alpha_)
    assert share_processes([], learn(X[:, :1], np.sin(9 * X[:, 0]))) is None


def test_repeated_rows_and_weights_say_the_same():
    X, y = smooth(120)
    twice = FeatureLearningRegressor(**QUICK).fit(np.vstack([X, X]), np.concatenate([y, y]))
    weighted = FeatureLearningRegressor(**QUICK).fit(X, y, sample_weight=np.full(120, 2.0))
    new = smooth(50, seed=2)[0]
    assert len(processes(twice)) == len(processes(weighted)) == 3
    assert np.abs(twice.predict(new) - weighted.predict(new)).max() < 0.05

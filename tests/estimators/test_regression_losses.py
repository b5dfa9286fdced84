"""Regressors with a loss: what they predict, what they refuse, and that rows may be anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance

import polyadic
from polyadic import FeatureLearningRegressor, KernelMachineRegressor
from polyadic.features import PurePowerFeatures
from tests.small import FAR_APART as MAPS

SMALL = {"n_basis": 4, "rank": 3, "max_iter": 8, "random_state": 0}
LOSSES = ["absolute_error", "huber", "quantile", "poisson", "gamma"]


def regressor(loss, maps=MAPS, **parameters):
    quantile = 0.8 if loss == "quantile" else None
    return FeatureLearningRegressor(maps, loss=loss, quantile=quantile, **{**SMALL, **parameters})


def counts(n=400, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 2))
    return X, rng.poisson(np.exp(1 + np.sin(5 * X[:, 0]))).astype(float) + 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_falls_and_is_better_than_a_constant(loss):
    X, y = counts()
    model = regressor(loss).fit(X, y)
    curve = np.array(model.loss_curve_)
    assert (np.diff(curve) <= 0).all()
    assert curve[-1] < curve[0]
    assert model.predict(X).shape == y.shape
    if loss in ("poisson", "gamma"):
        assert (model.predict(X * 3 - 1) > 0).all()


def test_quantiles_have_their_share_of_rows_below():
    X, y = counts(2000)
    y = y + np.random.RandomState(1).uniform(size=len(y))  # no two are equal
    below = []
    for quantile in (0.1, 0.5, 0.9):
        model = KernelMachineRegressor(
            MAPS[0],
            loss="quantile",
            quantile=quantile,
            n_basis=4,
            rank=3,
            max_iter=60,
            tol=0.0,
            random_state=0,
        ).fit(X, y)
        predicted = model.predict(X)
        below.append((y < predicted).mean())
        constant = np.full(len(y), np.quantile(y, quantile))
        assert mean_pinball_loss(y, predicted, alpha=quantile) < 0.93 * mean_pinball_loss(
            y, constant, alpha=quantile
        )
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "other"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)]
)
def test_a_linear_model_is_that_of_scikit_learn(loss, other):
    X, y = counts()
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    model = KernelMachineRegressor(
        PurePowerFeatures(),
        loss=loss,
        n_basis=2,
        rank=1,
        alpha=1e-8,
        max_iter=400,
        tol=0.0,
        random_state=0,
    ).fit(X[:, :1], y)
    linear = other(alpha=0.0, tol=1e-10, max_iter=1000).fit(X[:, :1], y)
    np.testing.assert_allclose(model.predict(X[:, :1]), linear.predict(X[:, :1]), rtol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_exposure_is_a_weight():
    """A rate that counts as long as it was watched is the sum of its events."""
    rng = np.random.RandomState(0)
    X, exposure = rng.uniform(size=(600, 1)), rng.uniform(0.1, 5.0, 600)
    events = rng.poisson(exposure * np.exp(2 * X[:, 0]))
    model = regressor("poisson").fit(X, events / exposure, sample_weight=exposure)
    grid = np.linspace(0.05, 0.95, 20)[:, None]
    np.testing.assert_allclose(model.predict(grid), np.exp(2 * grid[:, 0]), rtol=0.15)
    assert mean_poisson_deviance(
        events / exposure, model.predict(X), sample_weight=exposure
    ) < mean_poisson_deviance(events / exposure, np.full(600, 2.0), sample_weight=exposure)


@pytest.mark.parametrize("loss", LOSSES)
def test_files_bring_them_back(tmp_path, loss):
    X, y = counts(100)
    model = regressor(loss).fit(X, y)
    polyadic.save(model, tmp_path / "model.polyadic")
    again = polyadic.load(tmp_path / "model.polyadic")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params()["loss"] == loss


def test_rows_in_files_and_tensors(tmp_path):
    X, y = counts(300)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = polyadic.open_rows(tmp_path / "rows.npy", target="x2")
    plain, read = regressor("gamma").fit(X, y), regressor("gamma").fit(source)
    np.testing.assert_allclose(read.predict(source), plain.predict(X), rtol=1e-6)
    torch = pytest.importorskip("torch")
    tensors = regressor("gamma", engine="torch").fit(torch.as_tensor(X), torch.as_tensor(y))
    np.testing.assert_allclose(tensors.predict(X), plain.predict(X), rtol=1e-6)


def test_several_targets_share_feature_weights():
    X, y = counts()
    Y = np.column_stack([y, y[::-1]])
    model = regressor("huber").fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert (np.diff(model.loss_curve_) <= 0).all()


def test_held_out_rows_are_judged_by_the_loss():
    X, y = counts(1500)
    model = regressor("poisson", early_stopping=True, max_iter=12).fit(X, y)
    best = min(model.validation_curve_)
    assert best < model.validation_curve_[0]
    # Half a deviance, which is about one for counts, in units of their mean.
    assert 0.2 < 2 * best * y.mean() < 2.0


def test_a_warm_start_goes_on():
    X, y = counts()
    model = regressor("poisson", max_iter=3, warm_start=True, tol=0.0).fit(X, y)
    first = model.loss_curve_[-1]
    assert model.fit(X, y).loss_curve_[-1] < first


def test_a_subsample_sees_part_of_the_rows_first():
    X, y = counts()
    model = regressor("poisson", subsample=0.25).fit(X, y)
    assert model.score(X, y) > 0.3


@pytest.mark.parametrize("loss", LOSSES)
def test_units_do_not_matter(loss):
    """Targets times a constant give predictions times that constant, and inputs have no unit."""
    X, y = counts(150)
    weight, model = 1 + np.arange(150) % 3, regressor(loss)
    expected, curve = model.fit(X, y, weight).predict(X), model.loss_curve_
    assert expected.std() > 0.1
    for unit in (1e-9, 1e9):
        np.testing.assert_allclose(
            model.fit(X, unit * y, weight).predict(X), unit * expected, rtol=1e-8
        )
        np.testing.assert_allclose(model.loss_curve_, curve, rtol=1e-8)
        found = model.fit(unit * X, y, weight).predict(unit * X)
        np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_an_automatic_fit_is_as_good_in_any_unit(loss):
    """To the last digit it is not the same: other values round otherwise."""
    X, y = counts(300)
    truth = np.exp(1 + np.sin(5 * X[:, 0])) + 0.5
    model = FeatureLearningRegressor(loss=loss, effort=0.1, n_estimators=1, random_state=0)
    errors = []
    for unit in (1.0, 1e-9, 1e9):
        found = model.fit(X, unit * y, groups=np.arange(300)).predict(X)
        errors.append(np.sqrt(np.mean(np.log(found / unit / truth) ** 2)))
    constant = np.sqrt(np.mean(np.log(y.mean() / truth) ** 2))
    assert max(errors) < 0.3 * constant
    assert max(errors) < 1.2 * min(errors)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rates_of_great_exposures_are_learned():
    rng = np.random.RandomState(0)
    X, exposure = rng.uniform(size=(400, 1)), rng.uniform(1e12, 5e12, 400)
    rate = 1e-11 * np.exp(2 * X[:, 0])
    events = rng.poisson(exposure * rate)
    model = regressor("poisson").fit(X, events / exposure, sample_weight=exposure)
    np.testing.assert_allclose(model.predict(X), rate, rtol=0.15)


@pytest.mark.parametrize(
    ("parameters", "y", "words"),
    [
        ({"loss": "quantile"}, 1.0, "`quantile` must be a number between 0 and 1"),
        ({"quantile": 0.5}, 1.0, "got quantile=0.5 with loss='squared_error'"),
        ({"loss": "huber", "objective": "complex"}, 1.0, "`objective` must be 'real'"),
        ({"loss": "poisson"}, -1.0, "`y` must be zero or more.*loss='poisson'"),
        ({"loss": "gamma"}, 0.0, "`y` must be positive with loss='gamma'"),
        ({"loss": "hinge"}, 1.0, "'loss' parameter"),
    ],
)
def test_what_has_no_loss_is_refused(parameters, y, words):
    X, good = counts(50)
    bad = np.where(np.arange(50) == 3, y, good)
    with pytest.raises(ValueError, match=words):
        FeatureLearningRegressor(MAPS, **{**SMALL, **parameters}).fit(X, bad)

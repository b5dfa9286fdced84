"""Fits under every loss: no step raises the true objective, and known optima are reached."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy.optimize import minimize

from polyadic.compute import ComputeSpec
from polyadic.features import DampedFourierFeatures, PurePowerFeatures, TensorLayout
from polyadic.model import als, cpd
from polyadic.model.losses import (
    AbsoluteError,
    Gamma,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
)
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.sources.arrays import ArraySource

LOSSES = {
    "squared error": SquaredError(),
    "absolute error": AbsoluteError(),
    "huber": Huber(),
    "low quantile": Quantile(0.1),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "logistic": Logistic(),
    "multinomial": Multinomial((0.0, 1.0, 2.0)),
}
POWERS = (PurePowerFeatures(),)
DAMPED = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.5))


def targets_of(loss, score, rng):
    """Return targets whose location, mean or odds follow a score."""
    if isinstance(loss, Logistic):
        return (rng.uniform(size=len(score)) < 1 / (1 + np.exp(-score))).astype(float)
    if isinstance(loss, Multinomial):
        return np.digitize(score + 0.3 * rng.standard_normal(len(score)), [-1.0, 1.0]).astype(float)
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(0.7 * score)).astype(float)
    if isinstance(loss, Gamma):
        return np.exp(0.7 * score) * rng.gamma(0.5, 2.0, len(score)) + 1e-9
    return score + rng.standard_t(2, len(score))


def problem(loss, kind, seed=0):
    """Return rows: ordinary ones, and some that tempt a step to go too far."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (120, 2))
    score = 2 * np.sin(2 * X[:, 0]) + X[:, 1]
    weight = None
    if kind == "separable" and isinstance(loss, Logistic | Multinomial):
        y = np.digitize(X[:, 0], [-0.3, 0.4][: len(loss.labels) - 1]).astype(float)
    else:
        y = targets_of(loss, score, rng)
    if kind == "outliers" and not isinstance(loss, Logistic | Multinomial):
        y[::17] = y[::17] + 1e4
    if kind == "weighted":
        weight = rng.choice([0.01, 1.0, 50.0], len(y))
    if kind == "few rows":
        X, y = (
            X[:3],
            np.array([0.0, 1.0, 2.0 if isinstance(loss, Multinomial) else 1.0])
            + (1e-3 if isinstance(loss, Gamma) else 0.0),
        )
    if kind == "one value":
        y = np.full(len(y), 1.0)
    return Rows(X, y[:, None], weight)


def start(rows, loss, maps, alpha, rank=4, seed=1):
    data = ArraySource(rows, Inputs.of_numbers(["a", "b"])).data().under(loss)
    layout = TensorLayout.of(maps, (4, 4), quantized=True)
    rng = np.random.RandomState(seed)
    cores = tuple(
        cpd.initial_cores(layout.core_sizes, rank, layout.is_complex, rng)
        for _ in range(data.n_targets)
    )
    model = als.Model(cores, np.full(len(maps), 1 / len(maps)))
    return data, layout, model, als.Objective(alpha, has_loss=True)


KINDS = ["usual", "weighted", "outliers", "separable", "few rows", "one value"]


@pytest.mark.parametrize("maps", [POWERS, DAMPED], ids=["one map", "several maps"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOSSES)
def test_no_epoch_raises_the_objective(name, kind, maps):
    loss = LOSSES[name]
    for alpha in (1e-6, 0.3):
        rows = problem(loss, kind)
        data, layout, model, objective = start(rows, loss, maps, alpha)
        with ComputeSpec(n_jobs=1).open() as compute:
            targets = data.targets(compute, layout)
            found = list(islice(als.epochs(targets, objective, model), 12))
            losses = np.array([epoch.loss for epoch in found])
            last = targets.loss(found[-1].model)
        assert np.isfinite(losses).all()
        assert (np.diff(losses) <= 0).all()
        assert losses[-1] < losses[0]
        # The objective is what it says: the mean loss and the penalty.
        norm = sum(cpd.squared_norm(cores) for cores in found[-1].model.cores)
        total = last.value + 0.5 * alpha * norm
        np.testing.assert_allclose(losses[-1] * last.weight, total, rtol=1e-12)


def test_squared_error_as_a_loss_is_the_fit_without_one():
    loss = SquaredError()
    rows = problem(loss, "weighted")
    data, layout, model, objective = start(rows, loss, DAMPED, 0.1)
    plain = ArraySource(rows, Inputs.of_numbers(["a", "b"])).data()
    with ComputeSpec(n_jobs=1).open() as compute:
        under = list(islice(als.epochs(data.targets(compute, layout), objective, model), 5))
        samples = plain.samples(compute, layout)
        usual = list(islice(als.epochs(samples, als.Objective(0.1), model), 5))
    np.testing.assert_allclose(
        [epoch.loss for epoch in under], [epoch.loss for epoch in usual], rtol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma", "huber", "low quantile"])
def test_one_input_reaches_the_optimum_of_another_solver(name):
    """With one input and full rank the tensor is any polynomial: a convex problem."""
    loss, rng = LOSSES[name], np.random.RandomState(3)
    x = rng.uniform(size=(200, 1))
    rows = Rows(x, targets_of(loss, 3 * x[:, 0] - 1, rng)[:, None])
    data = ArraySource(rows, Inputs.of_numbers(["x"])).data().under(loss)
    layout = TensorLayout.of(POWERS, (3,), quantized=False)
    model = als.Model(([np.zeros((3, 1))],), np.ones(1))
    objective = als.Objective(0.01, has_loss=True)
    with ComputeSpec(n_jobs=1).open() as compute:
        epochs = als.epochs(data.targets(compute, layout), objective, model)
        *_, last = islice(epochs, 400)
    psi = layout.factors(data.view.inputs.apply(x), layout.maps[0])[0]
    y = rows.y[:, 0]
    middle, spread = data.view.targets.mean[0], data.view.targets.scale[0]
    if name in ("poisson", "gamma"):
        y, shift = y / y.mean(), 0.0
    else:
        y, shift = ((y - middle) / spread, 0.0) if loss.is_location else (y, middle)

    def total(v):
        return loss.value(y, psi @ v + shift).sum() + 0.005 * v @ v

    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 9000}
    found = minimize(total, np.zeros(3), method="Nelder-Mead", options=options)
    assert last.loss * len(y) <= found.fun * (1 + 1e-4) + 1e-6


def test_a_fit_goes_on_to_the_same_digit():
    loss = LOSSES["multinomial"]
    data, layout, model, objective = start(problem(loss, "usual"), loss, DAMPED, 0.1)
    with ComputeSpec(n_jobs=1).open() as compute:
        targets = data.targets(compute, layout)
        whole = als.fit(targets, objective, model, als.Stopping(6), mix_first=True)
        keeper = als.Keeper()
        keeper.so_far = als.fit(targets, objective, model, als.Stopping(3), mix_first=True)
        again = als.fit(targets, objective, model, als.Stopping(6), keeper=keeper)
    assert again.last.loss == whole.last.loss
    for mine, theirs in zip(again.last.model.cores, whole.last.model.cores, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)

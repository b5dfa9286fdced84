"""The driver: its steps only lower the objective, and its stopping rules hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic.engines.reference import ReferenceEngine
from polyadic.features import (
    DampedFourierFeatures,
    FourierFeatures,
    PurePowerFeatures,
    TensorLayout,
)
from polyadic.model import als, cpd, mixing
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples
from tests import oracle
from tests.small import slow_but

FORMS = [(kind, sign) for kind in mixing.MIXINGS for sign in (False, True)][1:]
COMPLEX = (FourierFeatures(2.0), DampedFourierFeatures(1.5, 0.7), PurePowerFeatures())
LAYOUTS = [
    TensorLayout.of(COMPLEX, (2, 4), True),
    TensorLayout.of(COMPLEX[:2], (3, 2), False),
    TensorLayout.of((PurePowerFeatures(), oracle.Cosines()), (3, 2), False),
    TensorLayout.of(COMPLEX[:1], (4,), True),
]


def start(layout, rank, kind, rng, n_targets=1):
    cores = tuple(
        cpd.initial_cores(layout.core_sizes, rank, layout.is_complex, rng) for _ in range(n_targets)
    )
    n_maps = len(layout.maps)
    weights = mixing.initial_weights(n_maps, kind, rng) if n_maps > 1 else np.ones(1)
    return als.Model(cores, weights)


def rows_of(rng, layout, n=12, kind="noise"):
    X = rng.uniform(size=(n, len(layout.n_basis)))
    if kind == "twins":  # fewer distinct rows than unknowns: every core system is singular
        X = X[rng.randint(2, size=n)]
    if kind == "constant":
        X[:, 0] = 0.0
    y = np.sin(3 * X.sum(axis=1)) + (rng.standard_normal(n) if kind == "noise" else 0.0)
    return Rows(X, y, rng.uniform(0.1, 2.0, size=n))


def samples_of(rows, layout, chunk_size=5):
    return MemorySamples(ReferenceEngine(), rows, layout, chunk_size)


class Objective:
    """The objective of every target, computed densely."""

    def __init__(self, targets, layout, objective):
        self.targets, self.layout, self.objective = targets, layout, objective

    def __call__(self, model):
        fit = sum(
            oracle.objective(
                rows.X,
                rows.y,
                rows.weight,
                self.layout,
                cores,
                model.map_weights,
                self.objective.alpha,
            )
            for rows, cores in zip(self.targets, model.cores, strict=True)
        )
        kind, beta = self.objective.mixing, self.objective.beta
        return fit + mixing.penalty(model.map_weights, kind, beta)

    def rounding(self, model):
        """What rounding does to sums of squares whose terms cancel: 64 ε times those squares."""
        total = 0.0
        for rows, cores in zip(self.targets, model.cores, strict=True):
            size = np.zeros(len(rows))
            for feature_map, weight in zip(self.layout.maps, model.map_weights, strict=True):
                factors = self.layout.factors(rows.X, feature_map)
                terms = np.prod([f @ c for f, c in zip(factors, cores, strict=True)], axis=0)
                size += abs(weight) * np.abs(terms).sum(axis=1)
            total += rows.weight @ size**2
        return 64 * np.finfo(float).eps * total


@pytest.mark.parametrize(("kind", "nonnegative"), FORMS)
@pytest.mark.parametrize("data", slow_but({"twins"}, ["noise", "twins", "constant"]))
@given(
    seed=st.integers(0, 10**6),
    layout=st.sampled_from(LAYOUTS),
    rank=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 1e-8, 0.01, 1.0]),
    beta=st.sampled_from([0.0, 0.1, 3.0]),
    n_targets=st.integers(1, 2),
)
def test_no_step_raises_the_objective(
    kind, nonnegative, data, seed, layout, rank, alpha, beta, n_targets
):
    rng = np.random.RandomState(seed)
    targets = [rows_of(rng, layout, kind=data) for _ in range(n_targets)]
    objective = als.Objective(alpha, beta, kind, nonnegative)
    value = Objective(targets, layout, objective)
    samples = [samples_of(rows, layout) for rows in targets]
    model = start(layout, rank, kind, rng, n_targets)
    slack = 1e-10 * sum(rows.weight @ rows.y**2 for rows in targets)
    history = [value(model)]

    def note(model):
        history.append(value(model))
        rounding = value.rounding(model)
        assert history[-1] <= history[-2] + slack + rounding + 1e-10 * history[-2]

    class Spy(als.Keeper):
        def on_step(self, sweep):
            note(sweep.model)

    for _ in range(3):
        als.mixing_sums(samples, model)
        model = als.sweep(samples, objective, als.Sweep(model), Spy()).model
        model = replace(model, cores=tuple(cpd.rebalance(cores) for cores in model.cores))
        note(model)
        model = als._mix(als.mixing_sums(samples, model), objective, model)
        note(model)
    steps = 3 * (n_targets * len(layout.core_sizes) + 2)
    assert len(history) == steps + 1


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_the_reported_loss_and_error_are_the_dense_ones(kind, rng):
    layout = LAYOUTS[0]
    rows = rows_of(rng, layout)
    objective = als.Objective(0.3, 0.2, "l1", kind=kind)
    value = Objective([rows], layout, objective)
    epochs = als.epochs([samples_of(rows, layout)], objective, start(layout, 2, "l1", rng))
    for epoch in (next(epochs) for _ in range(3)):
        weight = rows.weight.sum()
        assert epoch.loss == pytest.approx(value(epoch.model) / weight, rel=1e-9)
        plain = Objective([rows], layout, als.Objective(0.0, 0.0))(epoch.model)
        assert epoch.error == pytest.approx(2 * plain / weight, rel=1e-9)


def test_maps_of_weight_zero_are_never_evaluated_in_a_sweep(rng):
    class Unwanted(PurePowerFeatures):
        def ratio(self, x):
            raise AssertionError("a map of weight zero was evaluated")

    layout = TensorLayout.of((FourierFeatures(2.0), Unwanted()), (2, 4), True)
    rows = rows_of(rng, layout)
    samples = samples_of(rows, layout)
    model = replace(start(layout, 2, "l1", rng), map_weights=np.array([1.0, 0.0]))
    samples.start(model.cores[0])
    swept = als.sweep([samples], als.Objective(0.1), als.Sweep(model))
    assert np.isfinite(swept.model.cores[0][0]).all()


class Scripted:
    """Epochs with given criteria, in place of a fit."""

    def __init__(self, monkeypatch, losses, validation=None):
        def epochs(targets, objective, model, **start):
            for number, loss in enumerate(losses):
                yield als.Epoch(number=number, model=number, loss=loss, error=loss)

        monkeypatch.setattr(als, "epochs", epochs)
        if validation is not None:
            monkeypatch.setattr(als, "mean_error", lambda targets, number: validation[number])
        self.validation = [] if validation is None else ["held-out rows"]

    def fit(self, **stopping):
        stopping = als.Stopping(**{"max_iter": 5, **stopping})
        one_map = als.Model((), np.ones(1))
        return als.fit([], als.Objective(0.0), one_map, stopping, validation=self.validation)


def test_max_iter_counts_epochs(monkeypatch):
    fit = Scripted(monkeypatch, [9, 8, 7, 6, 5, 4, 3]).fit(max_iter=3)
    assert [epoch.number for epoch in fit.history] == [1, 2, 3]
    assert fit.best.number == 3


def test_tol_stops_after_patience_epochs_of_small_gain(monkeypatch):
    losses = [100, 50, 49.999, 40, 39.999, 39.998, 1]
    fit = Scripted(monkeypatch, losses).fit(max_iter=6, tol=1e-3, patience=2)
    assert fit.last.number == 5


def test_without_tol_a_fit_runs_to_the_end(monkeypatch):
    fit = Scripted(monkeypatch, [5, 5, 5, 5, 5, 5]).fit(tol=0.0)
    assert fit.last.number == 5


def test_the_best_epoch_is_kept_not_the_last(monkeypatch):
    fit = Scripted(monkeypatch, [1, 4, 2, 3, 5, 6]).fit()
    assert fit.best.number == 2  # the start itself is no result of a fit


def test_held_out_error_decides_where_there_is_one(monkeypatch):
    losses, held_out = [9, 8, 7, 6, 5, 4], [9, 5, 3, 4, 5, 6]
    fit = Scripted(monkeypatch, losses, held_out).fit(tol=1e-4, patience=2)
    assert fit.best.number == 2
    assert fit.last.number == 4


def test_held_out_rows_stop_a_fit_even_without_a_tolerance(monkeypatch):
    losses, held_out = [9, 8, 7, 6, 5, 4], [9, 5, 3, 4, 5, 6]
    fit = Scripted(monkeypatch, losses, held_out).fit(tol=0.0, patience=2)
    assert fit.last.number == 4


def test_all_zero_weights_before_the_first_sweep_do_not_end_the_fit(rng):
    layout = LAYOUTS[0]
    rows = rows_of(rng, layout)
    model = start(layout, 2, "l1", rng)
    objective = als.Objective(0.01, beta=1e6, mixing="l1")
    first = next(als.epochs([samples_of(rows, layout)], objective, model))
    np.testing.assert_array_equal(first.model.map_weights, model.map_weights)


@pytest.mark.parametrize("kind", ["simplex", "l1"])
def test_a_fit_goes_on_from_the_start_that_is_ahead(kind, rng):
    layout = LAYOUTS[0]
    rows = rows_of(rng, layout)
    samples, objective = [samples_of(rows, layout)], als.Objective(0.1, 0.1, kind)
    model = start(layout, 2, kind, rng)
    alone = {
        first: [e.loss for e in islice(als.epochs(samples, objective, model, mix_first=first), 6)]
        for first in (True, False)
    }
    ahead = alone[not alone[False][2] < 0.9 * alone[True][2]]
    fit = als.fit(samples, objective, model, als.Stopping(5))
    assert [epoch.number for epoch in fit.history] == [1, 2, 3, 4, 5]
    assert [epoch.loss for epoch in fit.history] == pytest.approx(ahead[1:], rel=1e-9)

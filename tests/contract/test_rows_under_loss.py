"""Rows under a loss in every kind of store, and in every engine, against NumPy on one chunk.

Working responses and weights are made where the rows are, and the true loss comes back as a sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polyadic.compute import ComputeSpec
from polyadic.engines.reference import ReferenceEngine
from polyadic.model.als import Model, mean_error
from polyadic.model.losses import Logistic, Multinomial, Poisson, Quantile
from polyadic.rows.holdout import Part
from polyadic.rows.rows import Rows
from polyadic.rows.view import Member
from polyadic.samples.memory import MemorySamples
from polyadic.sources.data import RowsUnderLoss
from tests.contract.problems import PROBLEMS
from tests.contract.stores import as_tensors, in_memory, on_a_cluster, on_disk
from tests.contract.test_engines import assert_same

LOSSES = {
    "logistic": Logistic((2.0, 3.0)),
    "multinomial": Multinomial((0.0, 1.0, 4.0)),
    "poisson": Poisson(),
    "quantile": Quantile(0.8),
}
NAMES = ("damped and fourier", "tables, weighted", "powers, zero column")
CHOSEN = [problem for problem in PROBLEMS if problem.name in NAMES]


def rows_of(problem, loss):
    rng = np.random.RandomState(0)
    y = rng.standard_normal(len(problem.rows.y))
    if isinstance(loss, Logistic | Multinomial):
        y = rng.choice(loss.labels, len(y))
    if isinstance(loss, Poisson):
        y = rng.poisson(1.5, len(y)).astype(float)
    return Rows(problem.rows.X, y[:, None], problem.rows.weight)


# Where rows are, the engine, and the rows of a chunk.
PLACES = {
    "reference": (in_memory, "reference", "auto"),
    "compiled, chunks": (in_memory, "compiled", 41),
    "torch, chunks": (as_tensors, "torch", 64),
    "torch, arrays": (in_memory, "torch", "auto"),
    "disk": (on_disk, "compiled", "auto"),
    "dask": (on_a_cluster, "compiled", "auto"),
}


EVERYWHERE = pytest.mark.parametrize(
    "place",
    [pytest.param(each, marks=pytest.mark.cluster if each == "dask" else ()) for each in PLACES],
)


@EVERYWHERE
@pytest.mark.parametrize("problem", CHOSEN, ids=lambda problem: problem.name)
@pytest.mark.parametrize("name", LOSSES)
def test_rows_under_a_loss_are_the_same_everywhere(request, name, problem, place):
    loss, (store, engine, chunk_size) = LOSSES[name], PLACES[place]
    if engine == "torch":
        pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    rows = rows_of(problem, loss)
    data = store(request, rows).under(loss)
    n_outputs = loss.n_outputs(1)
    assert data.n_targets == n_outputs
    model = Model(
        tuple([core / (1 + k) for core in problem.cores] for k in range(n_outputs)),
        0.3 * problem.weights,
    )
    f = respond(model, problem, rows.X)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    shift = np.zeros(n_outputs) if loss.is_relative else data.view.targets.mean
    y = rows.y
    if name == "poisson":
        y = y / np.average(y, axis=0, weights=weight)
    if name == "quantile":
        y = (y - data.view.targets.mean) / data.view.targets.scale
    f = f + shift
    spec = ComputeSpec(engine, chunk_size=chunk_size, n_jobs=1)
    with data.open_compute(spec) as compute:
        targets = data.targets(compute, problem.layout)
        found = targets.loss(model)
        expected = float(weight @ loss.total(y, iter(f.T)))
        np.testing.assert_allclose(found.value, expected, rtol=1e-9)
        np.testing.assert_allclose(found.weight, weight.sum(), rtol=1e-12)
        context = loss.context(iter(f.T))
        for caution in (0, 1):
            samples = targets.around(model, caution)
            assert len(samples) == n_outputs
            for target, mine in enumerate(samples):
                z, c = loss.linearise(y, f[:, target], target, context, caution)
                seen = Rows(rows.X, z - shift[target], c * weight)
                oracle = MemorySamples(ReferenceEngine(), seen, problem.layout, len(y))
                for each in (oracle, mine):
                    each.start(problem.later)
                assert_same(mine.mixing_equations(), oracle.mixing_equations(), 1e-9)
                for core in (0, len(problem.cores) - 1):
                    sums = [each.normal_equations(core, problem.weights) for each in (mine, oracle)]
                    assert_same(*sums, 1e-9)
    data.close()


@EVERYWHERE
@pytest.mark.parametrize("loss", [None, LOSSES["logistic"]], ids=["squares", "logistic"])
def test_a_part_without_rows_is_told(request, place, loss):
    """Few rows that differ may all be on one side of the hash that cuts many."""
    problem, (store, engine, chunk_size) = CHOSEN[0], PLACES[place]
    if engine == "torch":
        pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    data = store(request, rows_of(problem, LOSSES["logistic"])).under(loss)
    model, nowhere = Model((problem.cores,), problem.weights), Part(0, above=7, upto=7)
    error_of = mean_error if loss is None else RowsUnderLoss.loss
    told = pytest.raises(ValueError, match="A part of the rows that a fit needs is empty")
    spec = ComputeSpec(engine, chunk_size=chunk_size, n_jobs=1)
    with data.open_compute(spec) as compute, told:
        error_of(data.targets(compute, problem.layout, nowhere), model)
    data.close()


def respond(model, problem, X):
    engine = ReferenceEngine()
    each = (engine.predict(X, c, model.map_weights, problem.layout) for c in model.cores)
    return np.column_stack(list(each))


def test_what_others_left_over_is_an_offset():
    """A view without some members has their responses beside the fit's own."""
    problem, loss = CHOSEN[0], Logistic((2.0, 3.0))
    rows = rows_of(problem, loss)
    data = in_memory(None, rows).under(loss)
    model, other = (Model((cores,), problem.weights) for cores in (problem.cores, problem.later))
    member = Member(data.view.inputs, problem.layout, other, share=0.5)
    view = replace(data.view, without=(member,))
    f = respond(model, problem, rows.X) + 0.5 * respond(other, problem, rows.X)
    f = f[:, 0] + data.view.targets.mean[0]
    with ComputeSpec("reference", n_jobs=1).open() as compute:
        targets = data.targets(compute, problem.layout, view=view)
        assert isinstance(targets, RowsUnderLoss)
        value = targets.loss(model).value
        (samples,) = targets.around(model, 0)
        samples.start(problem.cores)
        sums = samples.mixing_equations()
    np.testing.assert_allclose(value, loss.value(rows.y[:, 0], f).sum(), rtol=1e-10)
    z, c = loss.linearise(rows.y, f, 0)
    offset = f - respond(model, problem, rows.X)[:, 0]
    np.testing.assert_allclose(sums.target_norm2, (c * (z - offset) ** 2).sum(), rtol=1e-10)


def test_the_same_responses_are_asked_for_once():
    """The loss of a model and the squares that touch it there share what the model says."""
    problem, loss = CHOSEN[0], LOSSES["multinomial"]
    rows = rows_of(problem, loss)
    data = in_memory(None, rows).under(loss)
    asked = []

    def count(X, cores, *words):
        asked.append(cores)
        return ReferenceEngine().predict(X, cores, *words)

    first, other = (
        Model(tuple([core / k for core in cores] for k in (1, 2, 3)), problem.weights)
        for cores in (problem.cores, problem.later)
    )
    fresh = {}
    for turn, model in enumerate((first, first, other, first)):
        member = Member(data.view.inputs, problem.layout, model)
        view = replace(data.view, around=member)
        found = data.store.loss(view, count).value
        assert found == fresh.setdefault(id(model), found)
        alone = in_memory(None, rows).under(loss).store.loss(view, ReferenceEngine().predict)
        assert found == alone.value
        # The answers of two models are kept: of the one that is, and of one that is tried.
        assert len(asked) == (3, 3, 6, 6)[turn]
    third = Model(first.cores, 2 * problem.weights)  # other feature weights are another model
    view = replace(data.view, around=Member(data.view.inputs, problem.layout, third))
    data.store.loss(view, count)
    assert len(asked) == 9

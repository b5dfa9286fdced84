"""The Triton kernels against the reference: on a GPU, else through Triton's interpreter."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    # Triton decides when a kernel is defined, that is when its module is imported.
    os.environ["TRITON_INTERPRET"] = "1"
# The interpreter of earlier versions cannot read the scalars of today's NumPy.
minimum = "3.0" if DEVICE == "cuda" else "3.7"
pytest.importorskip("triton", minversion=minimum, reason="the kernels need Triton")

from polyadic.engines.reference import ReferenceEngine  # noqa: E402
from polyadic.engines.torch.engine import TorchEngine  # noqa: E402
from polyadic.engines.torch.triton_state import KernelState  # noqa: E402
from polyadic.engines.torch.triton_table_state import FusedTableState  # noqa: E402
from polyadic.features import DampedFourierFeatures  # noqa: E402
from polyadic.samples.device import DeviceSamples  # noqa: E402
from polyadic.samples.memory import MemorySamples  # noqa: E402
from polyadic.samples.placement import MemoryPlan  # noqa: E402
from tests.contract.problems import PROBLEMS, Problem  # noqa: E402
from tests.contract.test_engines import (  # noqa: E402
    TOLERANCE,
    assert_same,
    check_iterations,
    check_leverage,
    check_sweep,
    start_oracle,
)
from tests.engines.test_torch import needs_gpu  # noqa: E402

# The kernels' layouts: quantized and complex.  The interpreter is slow, so it has a few.
BY_NAME = {p.name: p for p in PROBLEMS if p.layout.is_complex and p.layout.is_quantized}
INTERPRETED = [
    ("fourier, weighted", True),
    ("fourier, weighted", False),
    ("zero columns", True),
    ("cancelling factor", True),
    ("cancelling factor", False),
    ("nearly cancelling factor", True),
    ("user's and fourier", True),
]
EVERYTHING = [(name, keep) for name in BY_NAME for keep in (True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "keep"), EVERYTHING if DEVICE == "cuda" else INTERPRETED)
def test_sums_are_those_of_the_reference(name, keep, monkeypatch):
    # The way of many rows, with products that exchange one input for another.
    monkeypatch.setattr("polyadic.engines.torch.triton_state._FEW_PRODUCTS", 0)
    problem = BY_NAME[name]
    engine = TorchEngine(DEVICE, keep=keep, kernels=True)
    state = engine.start(problem.rows, problem.cores, problem.layout)
    assert isinstance(state, KernelState)
    samples = MemorySamples(engine, problem.rows, problem.layout, problem.n_rows)
    check_sweep(samples, start_oracle(samples, problem), problem, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fourier, weighted", "cancelling factor"])
def test_of_few_rows_products_are_formed_anew(name, monkeypatch):
    monkeypatch.setattr(KernelState, "_switch", None)  # not to be called
    problem = BY_NAME[name]
    samples = DeviceSamples(TorchEngine(DEVICE, kernels=True), problem.rows, problem.layout)
    check_sweep(samples, start_oracle(samples, problem), problem, 1e-9)
    (state,) = samples._states
    assert state._block is not None
    chunks = DeviceSamples(TorchEngine(DEVICE, kernels=True), problem.rows, problem.layout, 70)
    chunks.start(problem.cores)
    expected = chunks.normal_equations(0, problem.weights)
    samples.start(problem.cores)
    assert_same(samples.normal_equations(0, problem.weights), expected, 1e-12)
    assert all(state._block is None for state in chunks._states)


@pytest.mark.parametrize("keep", [True, False])
def test_single_precision(keep, monkeypatch):
    monkeypatch.setattr("polyadic.engines.torch.triton_state._FEW_PRODUCTS", 0)
    problem = BY_NAME["fourier, one map"]
    engine = TorchEngine(DEVICE, "float32", keep=keep, kernels=True)
    samples = MemorySamples(engine, problem.rows, problem.layout, problem.n_rows)
    check_sweep(samples, start_oracle(samples, problem), problem, TOLERANCE["float32"])


def test_predictions():
    problem = BY_NAME["damped and fourier"]
    arguments = (problem.rows.X, problem.cores, problem.weights, problem.layout)
    expected = ReferenceEngine().predict(*arguments)
    predicted = TorchEngine(DEVICE, kernels=True).predict(*arguments)
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["damped and fourier", "tables, levels and gaps"])
def test_what_a_posterior_leaves_open(name):
    (problem,) = (each for each in PROBLEMS if each.name == name)
    engine = TorchEngine(DEVICE, "float32", kernels=True)
    check_leverage(engine, problem, 1)


TABLES = {p.name: p for p in PROBLEMS if p.layout.is_tabled}


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", TABLES)
def test_sums_of_tables_are_those_of_the_reference(name, dtype, keep, monkeypatch):
    # Two programs for the ranks, the last one with padding, and several for the rows.
    monkeypatch.setattr("polyadic.engines.torch.triton_table_state._RANKS", 4)
    monkeypatch.setattr("polyadic.engines.torch.triton_table_state._NUMBERS", 256)
    problem = TABLES[name]
    engine = TorchEngine(DEVICE, dtype, keep=keep, kernels=True)
    state = engine.start(problem.rows, problem.cores, problem.layout)
    assert isinstance(state, FusedTableState)
    samples = MemorySamples(engine, problem.rows, problem.layout, problem.n_rows)
    oracle = start_oracle(samples, problem)
    check_sweep(samples, oracle, problem, TOLERANCE[dtype])
    check_iterations(samples, oracle, problem, TOLERANCE[dtype])


def test_rows_of_another_place_in_memory_have_the_same_digits():
    # A row that is formed anew must have the digits that its neighbours were multiplied by.
    problem = TABLES["tables, weighted"]
    state = TorchEngine(DEVICE, kernels=True).start(problem.rows, problem.cores, problem.layout)
    positions = state._positions
    some = torch.tensor([3, 140, 7, 149, 0], device=DEVICE)
    whole, few = state._form(positions, without=1), state._form(positions[:, some], without=1)
    assert torch.equal(whole[some], few)


@needs_gpu
@pytest.mark.parametrize(("memory", "place"), [(None, "state"), (6e7, "rows"), (3.6e7, "host")])
def test_many_rows_in_large_tiles(memory, place, monkeypatch):
    monkeypatch.setattr("polyadic.engines.torch.triton_state._FEW_PRODUCTS", 0)
    maps = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.5))
    problem = Problem("many rows", maps, n_rows=300_000, weighted=True)
    engine = TorchEngine("cuda")
    samples = DeviceSamples(engine, problem.rows, problem.layout, 70_000, MemoryPlan(memory))
    check_sweep(samples, start_oracle(samples, problem), problem, 1e-9)
    assert samples.place == place

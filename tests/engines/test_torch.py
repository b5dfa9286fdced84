"""The PyTorch engine against the reference engine, on the CPU and on a GPU where there is one."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from polyadic.compute import LIMITS_OF_A_CPU, ComputeSpec, few_blas_threads
from polyadic.engines.reference import ReferenceEngine
from polyadic.features import DampedFourierFeatures, MercerFeatures, TensorLayout
from polyadic.model import als
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples
from polyadic.samples.placement import MemoryPlan
from tests import small
from tests.contract.problems import PROBLEMS, Problem
from tests.contract.test_engines import (
    TOLERANCE,
    assert_same,
    assert_same_sketch,
    check_sweep,
    start_oracle,
)

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")

from polyadic.engines.torch.engine import TorchEngine  # noqa: E402
from polyadic.engines.torch.sums import gram  # noqa: E402
from polyadic.engines.torch.tables import TableState  # noqa: E402
from polyadic.samples.device import DeviceSamples  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
no_gpu = pytest.mark.skipif(len(DEVICES) < 2, reason="no GPU that torch can use")


def needs_gpu(test):
    """Mark a test as one for a GPU, and skip it where there is none."""
    return pytest.mark.gpu(no_gpu(test))


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


# Bytes that leave room for products, for rows, and for one chunk of them.
PLACES = {"state": None, "rows": 160_000, "host": 120_000}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_wait_where_there_is_room(place, weighted, device):
    maps = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.5))
    problem = Problem("places", maps, n_rows=900, weighted=weighted)
    engine = TorchEngine(device, kernels=False)
    samples = DeviceSamples(engine, problem.rows, problem.layout, 128, MemoryPlan(PLACES[place]))
    check_sweep(samples, start_oracle(samples, problem), problem, 1e-9)
    assert samples.place == place


@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_cannot_share(device):
    problem = Problem("backwards", (DampedFourierFeatures(2.0, 0.7),), weighted=True)
    rows = problem.rows
    X, y, weight = (array[::-1].copy()[::-1] for array in (rows.X, rows.y, rows.weight))
    X.flags.writeable = False
    problem.rows = Rows(X, y, weight)
    for memory in (None, 60_000):
        engine = TorchEngine(device, kernels=False)
        samples = DeviceSamples(engine, problem.rows, problem.layout, 50, MemoryPlan(memory))
        check_sweep(samples, start_oracle(samples, problem), problem, 1e-9)


def test_too_little_memory_is_an_error():
    problem = PROBLEMS[0]
    samples = DeviceSamples(TorchEngine(), problem.rows, problem.layout, memory=MemoryPlan(1000))
    with pytest.raises(MemoryError, match=r"`memory_limit` must be at least .* lower chunk_size"):
        samples.start(problem.cores)


def test_a_fit_is_that_of_the_reference(device):
    problem = Problem("fit", (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.5)))
    model = als.Model((problem.cores,), np.array([0.5, 0.5]))

    def fit(samples):
        return als.fit([samples], als.Objective(0.1), model, als.Stopping(3)).history

    rows, layout = problem.rows, problem.layout
    expected = fit(MemorySamples(ReferenceEngine(), rows, layout, 150))
    for memory in (None, 50_000):
        engine = TorchEngine(device, kernels=False)
        found = fit(DeviceSamples(engine, rows, layout, 50, MemoryPlan(memory)))
        np.testing.assert_allclose(
            [epoch.loss for epoch in found], [epoch.loss for epoch in expected], rtol=1e-8
        )


@pytest.mark.parametrize("height", [3, 64, 84, 128, 132, 404])
@pytest.mark.parametrize("few", [0, 2**16])
def test_gram_of_bands_is_symmetric_and_right(height, few, device, monkeypatch):
    monkeypatch.setattr("polyadic.engines.torch.sums._FEW_COLUMNS", few)
    parts = np.random.RandomState(0).standard_normal((3, height, 50))
    parts = torch.as_tensor(parts, device=device)
    expected = torch.einsum("pik,pjk->ij", parts, parts)
    torch.testing.assert_close(gram(parts), expected)


def test_the_callers_matmul_precision_is_kept(device):
    problem = PROBLEMS[0]
    engine = TorchEngine(device, "float32", kernels=False)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        state = engine.start(problem.rows, problem.cores, problem.layout)
        state.normal_equations(0, problem.weights)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_single_precision_sums_lose_little_on_cards_without_fast_doubles(device):
    rng = np.random.RandomState(0)
    layout = TensorLayout.of((DampedFourierFeatures(2.0, 0.7),), (4, 4), quantized=True)
    problem = Problem("long", layout.maps, n_basis=(4, 4), n_rows=60_000)
    rows = Rows(problem.rows.X, rng.standard_normal(60_000))
    engine = TorchEngine(device, "float32", kernels=False)
    engine.block_dtype = torch.float32
    state, oracle = (e.start(rows, problem.cores, layout) for e in (engine, ReferenceEngine()))
    sums, expected = (each.normal_equations(0, np.ones(1)).on_host() for each in (state, oracle))
    assert_same(sums, expected, 5e-6)


def tabled(n_rows, **options):
    names = {"tables": ("matern12", "", "rbf"), "n_basis": (5, 1, 3), "weighted": True}
    return Problem("tables", (MercerFeatures(),), n_rows=n_rows, **names, **options)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_tables_in_many_pieces(keep, dtype, device, monkeypatch):
    # Three parts of 3,002 rows, each a piece, and some rows of padding.
    for name in ("_PIECE_BYTES", "_PIECE_BYTES_OF_A_DEVICE"):
        monkeypatch.setattr(f"polyadic.engines.torch.tables.{name}", 1)
    problem, tolerance = tabled(9_004), TOLERANCE[dtype]
    start = problem.rows, problem.cores, problem.layout
    states = TorchEngine(device, dtype, keep=keep).start(*start), ReferenceEngine().start(*start)
    assert isinstance(states[0], TableState)
    for core in (0, 1, 0):
        sketches = (each.core_sketch(core).on_host() for each in states)
        assert_same_sketch(*sketches, tolerance)
        direction = problem.later[core]
        found, expected = (each.gram_product(core, direction).on_host().value for each in states)
        atol = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
        equations = (each.normal_equations(core, np.ones(1)).on_host() for each in states)
        assert_same(*equations, tolerance)
        for each in states:
            each.commit(core, problem.later[core])
    assert_same(*(each.mixing_equations().on_host() for each in states), tolerance)


def test_a_fit_that_iterates_is_that_of_the_reference(device, monkeypatch):
    for place in ("memory", "device"):
        monkeypatch.setattr(f"polyadic.samples.{place}.iterating_is_cheaper", lambda *_, **__: True)
    problem = tabled(150)
    model = als.Model((problem.cores,), np.ones(1))

    def losses(samples):
        fit = als.fit([samples], als.Objective(0.1), model, als.Stopping(3))
        return [epoch.loss for epoch in fit.history]

    expected = losses(MemorySamples(ReferenceEngine(), problem.rows, problem.layout, 150))
    assert expected[-1] < expected[0]
    for chunk_size in (None, 50):
        samples = DeviceSamples(TorchEngine(device), problem.rows, problem.layout, chunk_size)
        np.testing.assert_allclose(losses(samples), expected, rtol=1e-8)


def test_of_many_rows_a_sketch_takes_some(device):
    problem = tabled(50_000)
    state = TorchEngine(device).start(problem.rows, problem.cores, problem.layout)
    oracle = ReferenceEngine().start(problem.rows, problem.cores, problem.layout)
    found, expected = state.core_sketch(0).on_host(), oracle.core_sketch(0)
    share = found.sketched_weight / found.total_weight
    assert 8192 / 50_000 <= share < 0.2
    for name in ("moment", "feature_power", "total_weight"):
        value, truth = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(value, truth, rtol=0, atol=1e-9 * np.abs(truth).max())
    atol = 0.1 * expected.product_gram.max()  # some 8,000 rows stand for all
    np.testing.assert_allclose(found.product_gram / share, expected.product_gram, atol=atol)


def test_single_precision_sums_of_tables_lose_little(device):
    problem = tabled(300_000, rank=2)
    sums = []
    for engine in (TorchEngine(device, "float32"), ReferenceEngine()):
        state = engine.start(problem.rows, problem.cores, problem.layout)
        sums.append(state.gram_product(0, np.ones((5, 2))).on_host().value)
    np.testing.assert_allclose(*sums, rtol=0, atol=2e-6 * np.abs(sums[1]).max())


@pytest.mark.parametrize("keep", [True, False])
def test_the_state_of_tables_takes_the_memory_that_it_says(keep):
    problem = tabled(10_000, rank=7)
    engine = TorchEngine("cpu", "float32", keep=keep)
    rows = problem.rows.map(lambda array: torch.as_tensor(array, dtype=torch.float32))
    state = engine.start(rows, problem.cores, problem.layout)
    state.normal_equations(0, np.ones(1))
    arrays = [rows.X, rows.y, rows.weight, *vars(state).values()]
    long = {id(a): a for a in arrays if isinstance(a, torch.Tensor) and max(a.shape) >= 10_000}
    taken = sum(each.nbytes for each in long.values())
    said = engine.state_bytes(10_000, problem.layout, 7)
    if not keep:  # a state that lives as long as a step is part of the step's memory
        said += engine.scratch_bytes(10_000, problem.layout, 7)
    assert taken <= said * 1.001
    assert not keep or taken >= 0.99 * said


@needs_gpu
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("rank", [4, 300])
def test_steps_of_tables_take_no_more_memory_than_they_say(keep, rank):
    problem = tabled(400_000, rank=rank)
    engine = TorchEngine("cuda", "float32", keep=keep)
    rows = engine.upload(problem.rows).map(lambda array: array.to(torch.float32))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    state = engine.start(rows, problem.cores, problem.layout)
    for core in (0, 1):
        state.core_sketch(core)
        state.gram_product(core, problem.later[core])
        state.normal_equations(core, np.ones(1))
        state.commit(core, problem.later[core])
    state.mixing_equations()
    taken = torch.cuda.max_memory_allocated() - before
    size = (400_000, problem.layout, rank)
    assert taken <= engine.state_bytes(*size) + engine.scratch_bytes(*size)


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_threads_are_never_raised(threads):
    with threadpool_limits(threads, "blas"), few_blas_threads():
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert {pool["num_threads"] for pool in pools} == {threads}


def test_many_blas_threads_are_lowered_and_come_back():
    def most():
        return max(pool["num_threads"] for pool in threadpool_info() if "blas" in pool["user_api"])

    with threadpool_limits(8, "blas"):
        before = most()
        with few_blas_threads():
            assert most() <= 4
        assert most() == before


def regressor(**options):
    shape = {"n_basis": 8, "rank": 4, "alpha": 0.1, "max_iter": 3, "tol": 0, "random_state": 0}
    return small.regressor(**shape, **options)


@pytest.fixture
def data():
    return small.smooth_rows()


def test_tensors_in_tensors_out(data, device):
    X, y = data
    expected = regressor().fit(X, y).predict(X)
    tensors = torch.tensor(X, device=device), torch.tensor(y, device=device)
    model = regressor().fit(*tensors)
    predicted = model.predict(tensors[0])
    assert predicted.device == tensors[0].device
    np.testing.assert_allclose(predicted.cpu().numpy(), expected, rtol=1e-12)
    assert all(isinstance(core, np.ndarray) for core in model.cores_)


@needs_gpu
def test_a_model_fitted_on_a_gpu_predicts_anywhere(data):
    X, y = data
    model, other = regressor(device="cuda").fit(X, y), regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-6)
    there = model.predict(X)
    np.testing.assert_allclose(model.set_params(device=None).predict(X), there, rtol=1e-9)


@pytest.mark.skipif(len(DEVICES) > 1, reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_install(data):
    with pytest.raises(ValueError, match=r"needs an NVIDIA GPU .* CUDA build of PyTorch"):
        regressor(device="cuda").fit(*data)


def test_without_torch_the_error_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "polyadic\[gpu\]"'):
        regressor(device="cuda").fit(*data)


def test_a_device_that_does_not_exist(data):
    with pytest.raises(ValueError, match=r"`device` must be None, 'cpu', or .* got 'kuda'"):
        regressor(device="kuda").fit(*data)


@pytest.mark.parametrize("device", ["meta", "xpu:7"])
def test_a_device_that_holds_no_numbers(data, device):
    with pytest.raises(ValueError, match=rf"`device='{device}'` must hold numbers in double"):
        regressor(device=device).fit(*data)


def test_an_engine_of_the_cpu_cannot_compute_elsewhere(data):
    with pytest.raises(ValueError, match="`engine` must be 'auto' or 'torch' with device='cuda'"):
        regressor(device="cuda", engine="reference").fit(*data)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0"])
def test_the_cpu_is_the_compiled_engine_unless_torch_is_asked_for(device):
    with ComputeSpec(device=device).open() as compute:
        assert not compute.engine.takes_tensors
    with ComputeSpec("torch", device).open() as compute:
        assert (compute.engine.takes_tensors, compute.engine.device.type) == (True, "cpu")
        assert compute.limits == LIMITS_OF_A_CPU


def test_a_fit_by_torch_on_the_cpu_is_that_of_the_compiled_engine(data):
    found, expected = regressor(engine="torch").fit(*data), regressor().fit(*data)
    np.testing.assert_allclose(found.loss_curve_, expected.loss_curve_, rtol=1e-9)


def test_a_spec_travels_and_is_opened_where_the_rows_are(data):
    spec = pickle.loads(pickle.dumps(ComputeSpec("torch", chunk_size=100)))
    problem = PROBLEMS[0]
    arguments = (problem.rows.X, problem.cores, problem.weights, problem.layout)
    expected = ReferenceEngine().predict(*arguments)
    with spec.open() as compute:
        np.testing.assert_allclose(compute.predict(*arguments), expected, atol=1e-10)
        there = compute.predict(torch.tensor(arguments[0]), *arguments[1:])
        np.testing.assert_array_equal(there.numpy(), compute.predict(*arguments))

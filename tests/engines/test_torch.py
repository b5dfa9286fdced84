"""The PyTorch engine against the reference engine, on the CPU and on a GPU where there is one."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from polyadic import FeatureLearningRegressor
from polyadic.device import few_blas_threads
from polyadic.engines.reference import ReferenceEngine
from polyadic.features import DampedFourierFeatures, TensorLayout
from polyadic.model import als
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples
from tests.contract.problems import PROBLEMS, Problem
from tests.contract.test_engines import TOLERANCE, assert_same

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")

from polyadic.engines.torch.engine import TorchEngine, gram  # noqa: E402
from polyadic.samples.device import DeviceSamples  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
needs_gpu = pytest.mark.skipif(len(DEVICES) < 2, reason="no GPU that torch can use")


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def check_sweep(samples, problem, tolerance):
    """Compare every sum of a sweep, and of some steps out of order, with the reference."""
    oracle = MemorySamples(ReferenceEngine(), problem.rows, problem.layout, problem.n_rows)
    pair = (samples, oracle)
    for each in pair:
        each.start(problem.cores)
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), tolerance)
    n_cores = len(problem.cores)
    for core in [*range(n_cores), 0, n_cores - 1, n_cores // 2]:
        expected = oracle.normal_equations(core, problem.weights)
        assert_same(samples.normal_equations(core, problem.weights), expected, tolerance)
        for each in pair:
            each.commit(core, problem.later[core])
    everything = np.ones(len(problem.maps))
    expected = oracle.normal_equations(0, everything)
    assert_same(samples.normal_equations(0, everything), expected, tolerance)
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), tolerance)
    for each in pair:
        each.start(problem.cores)  # in the memory of the state that is there
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), tolerance)
    for core in (0, n_cores - 1):
        expected = oracle.normal_equations(core, problem.weights)
        assert_same(samples.normal_equations(core, problem.weights), expected, tolerance)


@pytest.mark.parametrize("keep", [True, False], ids=["keep", "no state"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_eager_sums_are_those_of_the_reference(problem, dtype, keep, device):
    if dtype not in problem.dtypes:
        pytest.skip("the problem itself is beyond single precision")
    engine = TorchEngine(device, dtype, keep=keep, kernels=False)
    samples = MemorySamples(engine, problem.rows, problem.layout, 64)
    check_sweep(samples, problem, TOLERANCE[dtype])
    arguments = (problem.rows.X, problem.cores, problem.weights, problem.layout)
    expected = ReferenceEngine().predict(*arguments)
    scale = TOLERANCE[dtype] * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(engine.predict(*arguments), expected, rtol=0, atol=scale)


# Bytes that leave room for products, for rows, and for one chunk of them.
PLACES = {"state": None, "rows": 160_000, "host": 120_000}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_wait_where_there_is_room(place, weighted, device):
    maps = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.5))
    problem = Problem("places", maps, n_rows=900, weighted=weighted)
    engine = TorchEngine(device, kernels=False)
    samples = DeviceSamples(engine, problem.rows, problem.layout, 128, PLACES[place])
    check_sweep(samples, problem, 1e-9)
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
        check_sweep(DeviceSamples(engine, problem.rows, problem.layout, 50, memory), problem, 1e-9)


def test_too_little_memory_is_an_error():
    problem = PROBLEMS[0]
    samples = DeviceSamples(TorchEngine(), problem.rows, problem.layout, memory=1000)
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
        found = fit(DeviceSamples(TorchEngine(device, kernels=False), rows, layout, 50, memory))
        np.testing.assert_allclose(
            [epoch.loss for epoch in found], [epoch.loss for epoch in expected], rtol=1e-8
        )


@pytest.mark.parametrize("height", [3, 64, 84, 128, 132, 404])
@pytest.mark.parametrize("few", [0, 2**16])
def test_gram_of_bands_is_symmetric_and_right(height, few, device, monkeypatch):
    monkeypatch.setattr("polyadic.engines.torch.engine._FEW_COLUMNS", few)
    parts = torch.randn((3, height, 50), dtype=torch.float64, device=device)
    expected = torch.einsum("pik,pjk->ij", parts, parts)
    torch.testing.assert_close(gram(parts), expected)


def test_the_callers_matmul_precision_is_kept(device):
    problem = PROBLEMS[0]
    engine = TorchEngine(device, "float32", kernels=False)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        state = engine.start(problem.rows, problem.cores, problem.layout)
        engine.normal_equations(state, 0, problem.weights)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_single_precision_sums_lose_little_on_cards_without_fast_doubles(device):
    rng = np.random.RandomState(0)
    layout = TensorLayout((DampedFourierFeatures(2.0, 0.7),), (4, 4), quantized=True)
    problem = Problem("long", layout.maps, n_basis=(4, 4), n_rows=60_000)
    rows = Rows(problem.rows.X, rng.standard_normal(60_000))
    engine = TorchEngine(device, "float32", kernels=False)
    engine.block_dtype = torch.float32
    sums = engine.normal_equations(engine.start(rows, problem.cores, layout), 0, np.ones(1))
    oracle = ReferenceEngine()
    expected = oracle.normal_equations(oracle.start(rows, problem.cores, layout), 0, np.ones(1))
    assert_same(sums, expected, 5e-6)


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


MAPS = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.8)]


def regressor(**options):
    shape = {"n_basis": 8, "rank": 4, "alpha": 0.1, "max_iter": 3, "tol": 0, "random_state": 0}
    return FeatureLearningRegressor(MAPS, **shape, **options)


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(300, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]


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
    with pytest.raises(ValueError, match="`engine` must be 'auto' with device='cuda'"):
        regressor(device="cuda", engine="reference").fit(*data)

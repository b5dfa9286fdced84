"""Every engine, in every kind of samples, against the reference engine on one chunk.

A new engine is one entry in `ENGINES`, a new kind of samples one in `SAMPLES`, a way to combine
them one in `SOLVERS`, and a new verb one in `check_sweep`.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest

from polyadic.compute import ENGINES as NAMES
from polyadic.compute import Compute, ComputeSpec
from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.engines.reference import ReferenceEngine
from polyadic.model.posterior import CorePosterior
from polyadic.samples.memory import MemorySamples
from polyadic.samples.placement import MemoryPlan
from polyadic.samples.workers import Workers
from tests.contract import stores
from tests.contract.problems import PROBLEMS
from tests.small import slow_but

# Relative to the largest entry of each sum.
TOLERANCE = {"float64": 1e-9, "float32": 5e-5}


def in_memory(request, engine, problem, chunk_size, workers):
    return MemorySamples(engine, problem.rows, problem.layout, chunk_size, workers)


def on_disk(request, engine, problem, chunk_size, workers):
    """Have the rows in a file, in which they stay."""
    request.getfixturevalue("monkeypatch").setattr(MemoryPlan, "place", lambda *_, **__: "disk")
    compute = Compute(engine, chunk_size, workers)
    return stores.samples_of(stores.on_disk(request, problem.rows), problem.layout, compute)


def on_a_cluster(request, engine, problem, chunk_size, workers):
    """Have a worker make an engine of the same kind."""
    name, dtype = "torch" if engine.takes_tensors else "compiled", str(engine.dtype).split(".")[-1]
    spec = ComputeSpec(name, dtype=dtype, chunk_size=chunk_size)
    compute = Compute(engine, chunk_size, workers, spec=spec)
    return stores.samples_of(stores.on_a_cluster(request, problem.rows), problem.layout, compute)


def on_a_device(request, engine, problem, chunk_size, workers):
    """Have PyTorch keep the rows, with as much state as it is made to."""
    from polyadic.samples.device import DeviceSamples

    memory = MemoryPlan()
    if not engine.keep:  # as if there were room for one chunk only
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr(memory, "place", lambda *_, **__: "host")
    return DeviceSamples(engine, problem.rows, problem.layout, chunk_size, memory)


def torch_engine(**options):
    """Return plain PyTorch, on a GPU where there is one."""
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    from polyadic.engines.torch.engine import TorchEngine

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return TorchEngine(device, kernels=False, **options)


ENGINES = {"reference": ReferenceEngine, "compiled": CompiledEngine, "torch": torch_engine}
SAMPLES = {"memory": in_memory, "device": on_a_device, "disk": on_disk, "dask": on_a_cluster}

# Engine, samples, chunk size, number of threads, and what else the engine is made with.
SOLVERS = {
    "reference, chunks": ("reference", "memory", 64, 1, {}),
    "compiled": ("compiled", "memory", None, 1, {}),
    "compiled, chunks": ("compiled", "memory", 41, 1, {}),
    "compiled, threads": ("compiled", "memory", 41, 3, {}),
    "compiled, no state": ("compiled", "memory", None, 1, {"keep": False}),
    "compiled, no state, chunks": ("compiled", "memory", 70, 1, {"keep": False}),
    "compiled, disk, threads": ("compiled", "disk", 41, 3, {}),
    "compiled, dask": ("compiled", "dask", 41, 1, {}),
    "torch, chunks": ("torch", "memory", 64, 1, {}),
    "torch, no state": ("torch", "memory", None, 1, {"keep": False}),
    "torch, device": ("torch", "device", None, 1, {}),
    "torch, device, host, chunks": ("torch", "device", 70, 1, {"keep": False}),
    "torch, disk": ("torch", "disk", 41, 1, {}),
    "torch, dask": ("torch", "dask", 41, 1, {}),
}


# The quick run has every engine and all samples, and one problem of each kind.
QUICK_SOLVERS = {
    *("reference, chunks", "compiled, chunks", "compiled, no state", "compiled, disk, threads"),
    *("compiled, dask", "torch, device"),
}
QUICK_TABLES = {"tables, weighted", "tables, at a knot", "tables, levels and gaps"}
QUICK_PROBLEMS = {
    *("fourier, weighted", "damped and fourier", "zero columns", "cancelling factor"),
    *("user's and fourier", "powers, zero column", "plain, all kinds", "mixed, zeros"),
    *QUICK_TABLES,
}


@pytest.fixture(params=slow_but(QUICK_SOLVERS, SOLVERS, cluster={"compiled, dask", "torch, dask"}))
def solver(request):
    """Return how to make an engine of a dtype, its samples, chunk size and workers."""
    engine, samples, chunk_size, n_jobs, options = SOLVERS[request.param]
    make = ENGINES[engine]
    with Workers(n_jobs).open() as workers:
        yield lambda dtype: (make(dtype=dtype, **options), SAMPLES[samples], chunk_size, workers)


@pytest.fixture(params=slow_but({"float64"}, ["float64", "float32"]))
def dtype(request, problem):
    if request.param not in problem.dtypes:
        pytest.skip("the problem itself is beyond single precision")
    return request.param


@pytest.fixture(params=slow_but(QUICK_PROBLEMS, PROBLEMS, attrgetter("name")))
def problem(request):
    return request.param


def assert_same(equations, expected, tolerance):
    for name in ("gram", "moment", "target_norm2", "total_weight"):
        value, truth = getattr(equations, name), getattr(expected, name)
        np.testing.assert_allclose(
            value, truth, rtol=0, atol=tolerance * np.abs(truth).max(), err_msg=name
        )


@pytest.fixture
def pair(request, problem, solver, dtype):
    """Return the samples under test and the oracle, both started."""
    engine, make, chunk_size, workers = solver(dtype)
    if make is on_a_cluster and (problem.name not in QUICK_PROBLEMS or dtype != "float64"):
        pytest.skip("a cluster adds up what its engine computes, whatever the problem is")
    samples = make(request, engine, problem, chunk_size, workers)
    return samples, start_oracle(samples, problem)


def start_oracle(samples, problem):
    """Start samples, and return the reference on one chunk, started too."""
    oracle = MemorySamples(ReferenceEngine(), problem.rows, problem.layout, problem.n_rows)
    for each in (samples, oracle):
        each.start(problem.cores)
    return oracle


def check_sweep(samples, oracle, problem, tolerance):
    """Compare every sum of a sweep with the reference; both have been started."""
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), tolerance)
    for core, value in enumerate(problem.later):
        expected = oracle.normal_equations(core, problem.weights)
        assert_same(samples.normal_equations(core, problem.weights), expected, tolerance)
        for each in (samples, oracle):
            each.commit(core, value)
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), tolerance)


def test_sweeps_have_the_sums_of_the_reference(problem, pair, dtype):
    check_sweep(*pair, problem, TOLERANCE[dtype])
    for each in pair:
        each.start(problem.cores)  # in the memory of the state that is there
    check_sweep(*pair, problem, TOLERANCE[dtype])


def test_steps_in_any_order_and_with_changing_weights(problem, pair, dtype):
    samples, oracle = pair
    rng = np.random.RandomState(1)
    n_cores = len(problem.cores)
    for core in [n_cores - 1, 0, 0, n_cores // 2, 1 % n_cores]:
        weights = rng.standard_normal(len(problem.maps))
        weights[rng.uniform(size=len(weights)) < 0.3] = 0.0
        weights[rng.randint(len(weights))] = 1.0
        expected = oracle.normal_equations(core, weights)
        assert_same(samples.normal_equations(core, weights), expected, TOLERANCE[dtype])
        committed = rng.randint(n_cores)
        for each in pair:
            each.commit(committed, problem.later[committed])
    assert_same(samples.mixing_equations(), oracle.mixing_equations(), TOLERANCE[dtype])


TABLES = [problem for problem in PROBLEMS if problem.layout.is_tabled]


@pytest.mark.parametrize(
    "problem", slow_but(QUICK_TABLES, TABLES, attrgetter("name")), indirect=True
)
def test_core_steps_that_do_not_form_their_system(problem, pair, dtype):
    check_iterations(*pair, problem, TOLERANCE[dtype])


def check_iterations(samples, oracle, problem, tolerance):
    """Compare what conjugate gradients ask for with the reference; both have been started."""
    rng, one, n_cores = np.random.RandomState(1), np.ones(1), len(problem.cores)
    for core in [*range(n_cores), n_cores - 1, 0, 0, n_cores // 2]:
        assert_same_sketch(samples.core_sketch(core), oracle.core_sketch(core), tolerance)
        equations, shape = oracle.normal_equations(core, one), problem.cores[core].shape
        for _ in range(2):
            direction = rng.standard_normal(shape)
            expected = (equations.gram @ direction.ravel()).reshape(shape)
            atol = tolerance * np.abs(equations.gram).max() * np.abs(direction).max()
            found = samples.gram_product(core, direction)
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
        assert_same(samples.normal_equations(core, one), equations, tolerance)
        for each in (samples, oracle):
            each.commit(core, problem.later[core])


def assert_same_sketch(sketch, expected, tolerance):
    # So few rows are all part of the sketch, in every engine.
    names = ("moment", "feature_power", "product_gram", "sketched_weight", "total_weight")
    for name in names:
        value, truth = getattr(sketch, name), getattr(expected, name)
        scale = np.abs(truth).max()
        if name == "moment":  # of any sign, so it may be small beside its terms
            power = expected.feature_power.max() * expected.product_gram.max()
            scale = max(scale, np.sqrt(power))
        np.testing.assert_allclose(value, truth, rtol=0, atol=tolerance * scale, err_msg=name)


def test_predictions(problem, solver, dtype):
    engine, _, chunk_size, workers = solver(dtype)
    arguments = (problem.rows.X, problem.cores, problem.weights, problem.layout)
    response = Compute(engine, chunk_size, workers).predict(*arguments)
    expected = ReferenceEngine().predict(*arguments)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(response, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


def test_all_engines_are_here():
    assert {"auto", *ENGINES} == set(NAMES)
    assert {engine for engine, *_ in SOLVERS.values()} == set(ENGINES)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_posterior_leaves_open(problem, engine, monkeypatch):
    for name in ("_MET", "_MET_BY_A_DEVICE"):  # several pieces
        monkeypatch.setattr(f"polyadic.compute.{name}", 1)
    for core in {0, len(problem.cores) - 1}:
        check_leverage(ENGINES[engine](dtype="float32"), problem, core)


def check_leverage(engine, problem, core):
    """Compare with the squares of the reference's design, in double whatever the engine is."""
    layout, rng = problem.layout, np.random.RandomState(core)
    unknowns = problem.cores[core].size * (2 if layout.is_complex else 1)
    root = np.tril(rng.standard_normal((unknowns, unknowns)))[:, : unknowns - 1]
    model = (problem.cores, problem.weights, layout)
    found = Compute(engine).leverage(problem.rows.X, *model, CorePosterior(core, root))
    A = ReferenceEngine().start(problem.rows, problem.cores, layout).design(core, problem.weights)
    # Re A v, for v of real and imaginary parts, is [Re A, −Im A] times these.
    A = np.hstack([A.real, -A.imag]) if layout.is_complex else A
    expected = np.einsum("ij,jk,ik->i", A, root @ root.T, A)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * expected.max())


def test_sums_for_the_complex_objective_alone(problem):
    if not problem.layout.is_complex:
        pytest.skip("a real problem has one objective")
    engine = CompiledEngine(hermitian=True)
    samples = MemorySamples(engine, problem.rows, problem.layout, 37)
    oracle = start_oracle(samples, problem)
    single = np.eye(len(problem.maps))[-1]
    for core, weights in enumerate([problem.weights, single] * (len(problem.cores) // 2)):
        mine, expected = (each.normal_equations(core, weights) for each in (samples, oracle))
        np.testing.assert_allclose(mine.moment, expected.moment, rtol=0, atol=1e-9 * scale(mine))
        found, wanted = hermitian(mine.gram), hermitian(expected.gram)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def hermitian(gram):
    """Return AᴴA from the sums of [Re A, Im A]."""
    half = len(gram) // 2
    cross = gram[:half, half:]
    return gram[:half, :half] + gram[half:, half:] + 1j * (cross - cross.T)


def scale(equations):
    """Return what rounding of the moment is relative to."""
    return np.sqrt(equations.gram.diagonal().max() * equations.target_norm2)


def test_threads_do_not_change_the_last_digit(problem):
    sums = []
    for n_jobs in (1, 2, 3):
        with Workers(n_jobs).open() as workers:
            samples = MemorySamples(CompiledEngine(), problem.rows, problem.layout, 37, workers)
            samples.start(problem.cores)
            ends = (0, len(problem.cores) - 1)
            sums.append([samples.normal_equations(c, problem.weights) for c in ends])
    for other in sums[1:]:
        for mine, first in zip(other, sums[0], strict=True):
            np.testing.assert_array_equal(mine.gram, first.gram)
            np.testing.assert_array_equal(mine.moment, first.moment)

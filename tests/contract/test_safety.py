"""Fits inside other people's threads and processes, and what an import brings along."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import DampedFourierFeatures, FourierFeatures

MAPS = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.6)]


def problem():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]


def fitted(seed=0, n_jobs=2):
    """Fit in several chunks and threads, and return the predictions."""
    X, y = problem()
    model = FeatureLearningRegressor(
        MAPS, n_basis=4, rank=3, max_iter=3, chunk_size=70, n_jobs=n_jobs, random_state=seed
    )
    return model.fit(X, y).predict(X)


@pytest.fixture(scope="module")
def expected():
    return [fitted(seed, n_jobs=1) for seed in range(4)]


@pytest.mark.parametrize("n_jobs", [2, 3, -1, None])
def test_the_number_of_threads_does_not_change_a_fit(n_jobs, expected):
    np.testing.assert_array_equal(fitted(n_jobs=n_jobs), expected[0])


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_inside_joblib(backend, expected):
    results = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(fitted)(seed) for seed in range(4)
    )
    np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_fits_in_child_processes_after_a_fit_in_the_parent(method, expected):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    fitted()  # the parent has had threads
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map_async(fitted, range(4)).get(timeout=120)
    np.testing.assert_array_equal(results, expected)


def test_fits_inside_a_grid_search():
    X, y = problem()
    model = KernelMachineRegressor(MAPS[0], n_basis=4, max_iter=2, n_jobs=2, random_state=0)
    search = GridSearchCV(model, {"rank": [1, 4]}, n_jobs=2, cv=2).fit(X, y)
    assert search.best_params_ == {"rank": 4}


def test_cross_validation_does_not_depend_on_the_number_of_jobs():
    X, y = problem()
    results = []
    for n_jobs in (1, 2):
        model = KernelMachineRegressorCV(
            MAPS, n_basis=4, rank=3, cv=2, max_iter=2, n_jobs=n_jobs, random_state=0
        )
        results.append(model.fit(X, y).cv_results_["mean_test_mse"])
    np.testing.assert_array_equal(*results)


def test_the_threads_of_blas_are_as_before_after_fits_in_several_threads():
    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas()
    threads = [threading.Thread(target=fitted, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas() == before


def python(code, **environment):
    """Run code in a new interpreter and return what it prints."""
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def test_an_import_brings_nothing_heavy_along():
    heavy = {"numba", "pandas", "matplotlib", "torch", "dask", "pyarrow", "jinja2", "llvmlite"}
    loaded = "import sys, json, {}; print(json.dumps(sorted(sys.modules)))"
    # scikit-learn itself takes pandas along where it is installed.
    expected = heavy & set(python(loaded.format("sklearn.base")))
    assert heavy & set(python(loaded.format("polyadic"))) == expected
    assert not expected & {"numba", "matplotlib", "torch", "dask"}


def test_kernels_are_compiled_once_and_found_again(tmp_path):
    code = """
import json, numpy as np
from polyadic import KernelMachineRegressor
X = np.random.RandomState(0).uniform(size=(50, 2))
model = KernelMachineRegressor(n_basis=4, rank=2, max_iter=3, n_jobs=1, random_state=0)
predictions = model.fit(X, np.sin(5 * X[:, 0])).predict(X)
from polyadic.model import compiled_solve as _solve
from polyadic.engines.compiled import assembly as _assembly, kernels as _kernels
kernels = (_kernels.products, _assembly.core_sums, _solve.solve_real_part, _kernels.respond)
counts = [[sum(k.stats.cache_hits.values()), sum(k.stats.cache_misses.values())] for k in kernels]
print(json.dumps([counts, predictions.tolist()]))
"""
    compiled, predictions = python(code, NUMBA_CACHE_DIR=str(tmp_path))
    found, predictions_again = python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert compiled == [[0, 1]] * 4
    assert found == [[1, 0]] * 4
    assert predictions == predictions_again  # to the last digit


def test_a_fit_without_state_is_the_same_fit():
    X, y = problem()
    settings = {"n_basis": 4, "rank": 3, "max_iter": 4, "n_jobs": 1, "random_state": 0}
    kept = FeatureLearningRegressor(MAPS, **settings).fit(X, y)
    # The state alone takes 300·3·2·16 bytes, and inputs and responses half as much again.
    free = FeatureLearningRegressor(MAPS, **settings, memory_limit=4e4, chunk_size=64).fit(X, y)
    np.testing.assert_allclose(free.predict(X), kept.predict(X), rtol=0, atol=1e-7)


def test_a_fit_that_cannot_fit_says_what_it_needs():
    X, y = problem()
    model = FeatureLearningRegressor([FourierFeatures(2.0)], n_basis=4, memory_limit="10 kB")
    with pytest.raises(MemoryError, match=r"`memory_limit` must be at least .* MB for 300 rows"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.5GB", 1.5e9), ("200 MiB", 200 * 2**20), ("64kb", 64e3), ("17", 17.0), (12.5, 12.5)],
)
def test_sizes_in_words(text, expected):
    from polyadic.samples.placement import parse_bytes

    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["much", "1.5XB", "-3GB", ""])
def test_sizes_that_mean_nothing(text):
    X, y = problem()
    with pytest.raises(ValueError, match="`memory_limit` must be a number of bytes or a string"):
        FeatureLearningRegressor(MAPS, memory_limit=text).fit(X, y)


def test_a_limit_needs_an_engine_that_can_be_measured():
    X, y = problem()
    with pytest.raises(ValueError, match="`memory_limit` must be None with engine='reference'"):
        FeatureLearningRegressor(MAPS, engine="reference", memory_limit="1GB").fit(X, y)

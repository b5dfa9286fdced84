"""Fits inside other people's threads and processes."""

from __future__ import annotations

import multiprocessing
import threading

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import FourierFeatures
from tests.small import MAPS, regressor, smooth_rows


def fitted(seed=0, n_jobs=2):
    """Fit in several chunks and threads, and return the predictions."""
    X, y = smooth_rows()
    model = regressor(max_iter=3, chunk_size=70, n_jobs=n_jobs, random_state=seed)
    return model.fit(X, y).predict(X)


@pytest.fixture(scope="module")
def expected():
    return [fitted(seed, n_jobs=1) for seed in range(4)]


@pytest.mark.parametrize("n_jobs", [2, 3, -1, None])
def test_the_number_of_threads_does_not_change_a_fit(n_jobs, expected):
    np.testing.assert_array_equal(fitted(n_jobs=n_jobs), expected[0])


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_inside_joblib(backend, expected):
    results = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(fitted)(seed) for seed in range(4)
    )
    np.testing.assert_array_equal(results, expected)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_fits_in_child_processes_after_a_fit_in_the_parent(method, expected):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    fitted()  # the parent has had threads
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map_async(fitted, range(4)).get(timeout=120)
    np.testing.assert_array_equal(results, expected)


@pytest.mark.slow
@pytest.mark.process
def test_fits_inside_a_grid_search():
    X, y = smooth_rows()
    model = KernelMachineRegressor(MAPS[0], n_basis=4, max_iter=2, n_jobs=2, random_state=0)
    search = GridSearchCV(model, {"rank": [1, 4]}, n_jobs=2, cv=2).fit(X, y)
    assert search.best_params_ == {"rank": 4}


def test_cross_validation_does_not_depend_on_the_number_of_jobs():
    X, y = smooth_rows()
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


def test_a_fit_without_state_is_the_same_fit():
    X, y = smooth_rows()
    kept = regressor(n_jobs=1).fit(X, y)
    # The state alone takes 300·3·2·16 bytes, and inputs and responses half as much again.
    free = regressor(n_jobs=1, memory_limit=4e4, chunk_size=64).fit(X, y)
    np.testing.assert_allclose(free.predict(X), kept.predict(X), rtol=0, atol=1e-7)


def test_a_fit_that_cannot_fit_says_what_it_needs():
    X, y = smooth_rows()
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
    X, y = smooth_rows()
    with pytest.raises(ValueError, match="`memory_limit` must be a number of bytes or a string"):
        FeatureLearningRegressor(MAPS, memory_limit=text).fit(X, y)


def test_a_limit_needs_an_engine_that_can_be_measured():
    X, y = smooth_rows()
    with pytest.raises(ValueError, match="`memory_limit` must be None with engine='reference'"):
        FeatureLearningRegressor(MAPS, engine="reference", memory_limit="1GB").fit(X, y)

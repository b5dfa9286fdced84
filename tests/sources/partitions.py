"""A small problem, in memory and as Dask arrays."""

from __future__ import annotations

import time

import numpy as np

from tests import small

SETTINGS = {"n_basis": 4, "rank": 3, "max_iter": 3, "n_jobs": 1, "random_state": 0}


def problem(n_rows=400):
    """Return inputs, two targets, and weights of which some are zero."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n_rows, 3))
    smooth = np.column_stack([np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2], np.cos(3 * X[:, 1])])
    weight = rng.randint(0, 4, size=n_rows).astype(float)
    return X, smooth + 0.05 * rng.standard_normal(smooth.shape), weight


def collections(*arrays):
    """Return Dask arrays in three partitions, the last one smaller."""
    import dask.array as da

    size = 3 * len(arrays[0]) // 8
    return [None if a is None else da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays]


def model(**options):
    """Return an estimator that fits the problem in a moment."""
    return small.regressor(**{**SETTINGS, **options})


def assert_nothing_is_left(client):
    """Raise unless the cluster forgets all tasks, which it does soon after it is told."""
    until = time.monotonic() + 10
    while client.who_has() and time.monotonic() < until:
        time.sleep(0.05)
    assert not client.who_has()
    assert not any(client.has_what().values())
    assert not client.futures

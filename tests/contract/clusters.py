"""Samples on a Dask cluster that lives in this process, for the contract tests."""

from __future__ import annotations

import atexit
from functools import cache

import numpy as np
import pytest

from polyadic.compute import Compute, ComputeSpec
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.view import View


@cache
def client():
    """Return a client of two threads, which pass chunks without copying them."""
    distributed = pytest.importorskip("distributed", reason="needs polyadic[dask]")
    opened = distributed.Client(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address=":0",
        set_as_default=False,
    )
    atexit.register(opened.close)
    return opened


def on_a_cluster(request, engine, problem, chunk_size, workers):
    """Spread the rows over three partitions."""
    rows = problem.rows
    with client().as_current():
        import dask.array as da

        from polyadic.sources.dask import DaskSource

        size = -(-len(rows) // 3)
        parts = [
            None if a is None else da.from_array(a, chunks=(size, *a.shape[1:]))
            for a in (rows.X, rows.y, rows.weight)
        ]
        inputs = Inputs.of_numbers(["a"] * rows.X.shape[1])
        data = DaskSource(*parts, inputs, gaps=True).data(scale_inputs=False)
    as_they_are = View(
        InputScaling.identity(rows.X.shape[1]), TargetScaling(np.zeros(1), np.ones(1))
    )
    name, dtype = "torch" if engine.takes_tensors else "compiled", str(engine.dtype).split(".")[-1]
    spec = ComputeSpec(name, dtype=dtype, chunk_size=chunk_size)
    compute = Compute(engine, chunk_size, workers, spec=spec)
    (samples,) = data.samples(compute, problem.layout, view=as_they_are)
    return samples

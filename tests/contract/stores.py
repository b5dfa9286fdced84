"""Rows of a problem as training data, in every kind of store, and samples of them as they are."""

from __future__ import annotations

import numpy as np

from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.view import View
from polyadic.sources.arrays import ArraySource
from polyadic.sources.files.opening import open_rows
from polyadic.sources.files.streamed import FileSource
from tests.contract.clusters import client

_BATCH_ROWS = 60


def in_memory(request, rows):
    return ArraySource(rows, Inputs.of_numbers(["x"] * rows.X.shape[1])).data(scale_inputs=False)


def as_tensors(request, rows):
    import torch

    return in_memory(request, rows.map(torch.as_tensor))


def on_disk(request, rows):
    """Write the rows to a file, which is read in small batches."""
    path = request.getfixturevalue("tmp_path") / "rows.npy"
    weight = [] if rows.weight is None else [rows.weight]
    np.save(path, np.column_stack([rows.X, rows.y, *weight]))
    names = [f"x{index}" for index in range(rows.X.shape[1] + 2)]
    patch = request.getfixturevalue("monkeypatch")
    patch.setattr("polyadic.sources.files.row_source._LEAST_ROWS", _BATCH_ROWS)
    patch.setattr("polyadic.sources.files.row_source._MOST_ROWS", _BATCH_ROWS)
    source = open_rows(path, names[-2], names[:-2], names[-1] if weight else None)
    return FileSource(source).data(scale_inputs=False)


def on_a_cluster(request, rows):
    """Spread the rows over three partitions."""
    with client().as_current():
        import dask.array as da

        from polyadic.sources.dask import DaskSource

        size = -(-len(rows) // 3)
        parts = [
            None if a is None else da.from_array(a, chunks=(size, *a.shape[1:]))
            for a in (rows.X, rows.y.ravel(), rows.weight)
        ]
        inputs = Inputs.of_numbers(["x"] * rows.X.shape[1])
        return DaskSource(*parts, inputs, gaps=True).data(scale_inputs=False)


def samples_of(data, layout, compute):
    """Return the samples of the only target, of rows as they are."""
    as_they_are = View(InputScaling.identity(data.n_inputs), TargetScaling(np.zeros(1), np.ones(1)))
    (samples,) = data.samples(compute, layout, view=as_they_are)
    return samples

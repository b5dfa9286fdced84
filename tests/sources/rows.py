"""Tables on disk for the tests of rows on disk, and ways to say where their rows are kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from polyadic.samples.placement import MemoryPlan
from polyadic.sources.files import row_source

_PLACE = MemoryPlan.place
PLACES = ("state", "rows", "disk")


def table(n_rows=2500, seed=0):
    """Return inputs, two targets and weights, some of them zero."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 3, size=(n_rows, 3))
    y = np.column_stack([np.sin(2 * X[:, 0]) * X[:, 1], X[:, 2] ** 2 - X[:, 0]])
    weight = rng.uniform(0.5, 2.0, size=n_rows)
    weight[rng.uniform(size=n_rows) < 0.1] = 0.0
    return X, y + 0.05 * rng.standard_normal(y.shape), weight


def write(folder, X, y, weight, cuts=(700, 1900), row_group_size=333):
    """Write rows to as many Parquet files as there are pieces between the cuts."""
    columns = dict(zip("abc", X.T, strict=True)) | {"u": y[:, 0], "v": y[:, 1], "w": weight}
    whole = pa.table(columns)
    edges = [0, *cuts, len(X)]
    for index, (first, last) in enumerate(pairwise(edges)):
        part = whole.slice(first, last - first)
        pa.parquet.write_table(part, folder / f"{index:03}.parquet", row_group_size=row_group_size)
    return folder


def small_batches(monkeypatch, rows=400):
    """Have sources read in batches of so few rows that a test has several."""
    monkeypatch.setattr(row_source, "_LEAST_ROWS", rows)
    monkeypatch.setattr(row_source, "_MOST_ROWS", rows)


def kept_in(monkeypatch, place):
    """Pretend that there is memory for this place and for no faster one."""
    settled = []

    def place_of(self, needed, *words, **options):
        if "disk" not in needed:  # of samples that hold what was read
            return _PLACE(self, needed, *words, **options)
        settled.append(_PLACE(self, needed, *words, **{**options, "free": needed[place]}))
        return settled[-1]

    monkeypatch.setattr(MemoryPlan, "place", place_of)
    return settled

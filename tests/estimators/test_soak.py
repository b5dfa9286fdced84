"""Fifty fits in a row leave the process as it was."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]

FITS = """
import ctypes, gc, json, os, sys, tempfile, threading
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import polyadic
from polyadic.features import DampedFourierFeatures

folder = Path(sys.argv[1])
tempfile.tempdir = str(folder)
rng = np.random.RandomState(0)
X = rng.uniform(size=(20_000, 3))
y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2]
table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
parquet.write_table(table, folder / "rows.parquet", row_group_size=3000)
maps = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.6)]
settings = {"n_basis": 4, "rank": 4, "max_iter": 3, "chunk_size": 2560, "random_state": 0}


def round_of_fits():
    model = polyadic.FeatureLearningRegressor(maps, n_jobs=2, **settings).fit(X, y)
    model.predict(X)
    kept = folder / "fit.checkpoint"
    polyadic.KernelMachineRegressor(maps[0], checkpoint=kept, **settings).fit(X, y)
    source = polyadic.open_rows(folder / "rows.parquet", target="y")
    model = polyadic.FeatureLearningRegressor(maps, n_jobs=2, **settings)
    model.fit(source).score(source)
    for _ in source.batches():
        break  # and the rest is left unread
    try:
        polyadic.FeatureLearningRegressor(maps, **settings).fit(X, np.where(y > 1, np.nan, y))
    except ValueError:
        pass
    few = polyadic.FeatureLearningRegressor(effort=0.05, n_estimators=2, random_state=0)
    few.fit(X[:99], y[:99])


class Malloc(ctypes.Structure):  # struct mallinfo2 of glibc
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd",
        "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]


mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Malloc


def in_use():
    "Bytes that were asked for and not given back; what an allocator keeps for later is not."
    gc.collect()
    malloc = mallinfo2()
    return [sys.getallocatedblocks(), malloc.uordblks + malloc.hblkhd, pa.total_allocated_bytes()]


def left_behind():
    handles = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                     if os.path.exists(f"/proc/self/fd/{fd}"))
    return threading.active_count(), len(handles), sorted(os.listdir(folder))


for _ in range(4):
    round_of_fits()
before, memory = left_behind(), []
for _ in range(10):
    round_of_fits()  # five fits each
    memory.append(in_use())
print(json.dumps([before, left_behind(), memory]))
"""


def counts_memory():
    """Whether the allocator tells what is in use, as that of glibc does."""
    return os.path.exists("/proc/self/fd") and hasattr(ctypes.CDLL(None), "mallinfo2")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not counts_memory(), reason="needs /proc and glibc's mallinfo2")
def test_fifty_fits_leave_memory_threads_handles_and_files_as_they_were(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FITS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=300,
    )
    before, after, memory = json.loads(done.stdout)
    assert after == before
    # What is made once, such as the scratch memory of a thread, may come late; a leak comes always.
    objects, malloc, arrow = (
        median(b - a for a, b in pairwise(kind)) for kind in zip(*memory, strict=True)
    )
    assert objects < 5 * 20  # a fitted estimator has hundreds
    assert malloc < 20_000  # an array with a number for each row has eight times as many
    assert arrow <= 0

"""The size of real processes: rows on disk stay there, whatever their number."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from polyadic import FeatureLearningRegressor, open_rows
from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.features import TensorLayout
from polyadic.model import cpd
from polyadic.rows.rows import Rows
from polyadic.samples import disk, memory_usage
from polyadic.samples.memory import MemorySamples
from polyadic.samples.placement import MemoryPlan
from tests.small import MAPS
from tests.sources.rows import table, write

FIT = """
import json, sys
from pathlib import Path
from polyadic import KernelMachineRegressor, open_rows
from polyadic.features import DampedFourierFeatures
from polyadic.samples.disk import StreamSamples
places = set()
settle = StreamSamples._settle
def seen(self, rank):
    settle(self, rank)
    places.add(self.place)
StreamSamples._settle = seen
path, limit = sys.argv[1:]
model = KernelMachineRegressor(
    DampedFourierFeatures(2.0, 0.7), n_basis=[2, 2, 1, 1, 1, 1, 1, 1], rank=2, max_iter=1, n_jobs=2,
    early_stopping=True, memory_limit=limit, random_state=0,
)
source = open_rows(path, target="y")
model.fit(source)
# Of this process alone: what getrusage tells begins with the size of the parent.
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps({"peak": peak, "rows": model.n_samples_fit_, "places": sorted(places)}))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Four million rows in one row group, 288 MB."""
    rng = np.random.default_rng(0)
    columns = {f"x{index}": rng.uniform(size=4_000_000) for index in range(8)}
    columns["y"] = columns["x0"] * columns["x1"]
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    pa.parquet.write_table(
        pa.table(columns), path, row_group_size=4_000_000, use_dictionary=False, compression=None
    )
    return path


def in_a_process(path, limit):
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(path), limit],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak of a process")
def test_a_process_stays_under_its_limit(large):
    """All rows would take 288 MB beyond the 300 that the libraries take before the first row."""
    told = in_a_process(large, "550MB")
    assert told["rows"] == 4_000_000
    assert told["places"] == ["disk"]
    assert told["peak"] < 550e6


def test_a_limit_that_leaves_no_room_for_a_batch(tmp_path):
    source = open_rows(write(tmp_path, *table()), "u", ["a", "b", "c"])
    model = FeatureLearningRegressor(MAPS, n_basis=4, rank=3, memory_limit="1MB")
    with pytest.raises(MemoryError, match=r"`memory_limit` must be at least .* MB on top of the"):
        model.fit(source)


def test_what_a_process_takes_is_seen():
    before = memory_usage.resident()
    block = np.ones(20_000_000)
    assert memory_usage.resident() - before > 0.9 * block.nbytes
    assert memory_usage.available() > 0


def test_all_samples_of_a_fit_share_the_allowance(tmp_path, monkeypatch):
    """Rows to train on and rows held out would each fit, but not both."""
    source = open_rows(write(tmp_path, *table()), "u", ["a", "b", "c"])
    plans = []
    find = disk.StreamSamples._find_place

    def seen(self, rank, n_rows):
        scratch = self._bytes_by_place(rank, 0)["state"]
        state = self._bytes_by_place(rank, n_rows)["state"] - scratch
        free = (scratch + 0.9 * state) / disk._FRACTION
        monkeypatch.setattr(memory_usage, "available", lambda: free)
        plans.append((n_rows, find(self, rank, n_rows)))
        return plans[-1][1]

    monkeypatch.setattr(disk.StreamSamples, "_find_place", seen)
    model = FeatureLearningRegressor(
        MAPS, n_basis=4, rank=3, max_iter=2, early_stopping=True, random_state=0
    )
    model.fit(source)
    # The second is of the posterior, which looks at all rows once more when the fit is over.
    (n_rows, place), (n_again, place_again) = plans
    assert (place, place_again) == ("rows", "rows")
    assert n_rows == pytest.approx(len(table()[0]), abs=2)
    assert n_again == len(table()[0])


def test_memory_that_is_set_aside_is_not_for_state():
    """A search on rows from disk leaves room for what the process takes beside its state."""
    engine, layout = CompiledEngine(), TensorLayout.of(tuple(MAPS), (4, 4), True)
    rows = Rows(np.zeros((1000, 2)), np.zeros(1000))
    state = engine.state_bytes(1000, layout, rank=8)
    cores = cpd.initial_cores(layout.core_sizes, 8, True, np.random.RandomState(0))
    for reserved, keeps in ((0.0, True), (1.2 * state, False)):
        memory = MemoryPlan(2.0 * state)
        memory.reserve(reserved)
        samples = MemorySamples(engine, rows, layout, 100, memory=memory)
        samples.start(cores)
        assert samples.stateless is not keeps

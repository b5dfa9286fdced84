"""A local Dask cluster beside threads of one process: time, latency and bytes of a core step.

    python -m benchmarks.cluster [--rows 1000000] [--rounds 5]

writes its tables to docs/scaling.md.  Both ways compute the same sums of the same rows; their
epochs take turns, so that a busy moment of the machine hits both.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster
from numpy.typing import NDArray

from benchmarks.common import timed
from benchmarks.report import scaling_page
from polyadic.compute import Compute, ComputeSpec
from polyadic.features import FourierFeatures, TensorLayout
from polyadic.model import als, cpd
from polyadic.model.als import Samples
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.sources.arrays import ArraySource
from polyadic.sources.dask import DaskSource

N_INPUTS, RANK, PERIODS = 8, 20, (2.0, 10.0, 128.0, 25.0, 64.0, 600.0)


class Shape(NamedTuple):
    """What the time of a core step depends on, besides rows and rank."""

    n_maps: int
    n_basis: int


SMALL, LARGE = Shape(2, 16), Shape(6, 4)
NAMES = [f"column {index}" for index in range(N_INPUTS)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each way")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of scaling.md")
    arguments = parser.parse_args()
    n_rows, n_workers, page = arguments.rows, arguments.workers, scaling_page(arguments.out)
    lines: list[list[str]] = []
    with cluster(n_workers, profiler=False):
        name = "workers, Dask's profiler off"
        lines += _epochs(name, SMALL, n_rows, n_workers, 1, arguments.rounds)
    with cluster(n_workers, profiler=True):
        for shape, each in ((LARGE, 1), (SMALL, 1), (SMALL, 4)):
            lines += _epochs("workers", shape, n_rows, n_workers, each, arguments.rounds)
        what = (
            f"A cluster of processes on one machine, beside threads of one process: {n_rows:,} "
            f"rows of {N_INPUTS} inputs, rank {RANK}."
        )
        head = "", "maps", "core steps", "partitions a worker", "s an epoch", "as fast as threads"
        page.keep("cluster", what, head, lines)
        what = "A core step of a cluster that has nothing to compute."
        page.keep("latency", what, ("partitions", "ms, median", "ms, least"), _latency(n_workers))
        what = (
            "What a core step moves over all connections of scheduler, workers and driver; one sum "
            f"of rank {RANK} is {8 * (16 * RANK**2 + 4 * RANK):,} bytes."
        )
        page.keep("bytes", what, ("rows", "partitions", "bytes"), _bytes(n_rows, n_workers))


@contextmanager
def cluster(n_workers: int, *, profiler: bool) -> Iterator[None]:
    """Run workers of one thread each; Dask looks at what they do a hundred times a second."""
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.worker.profile.enabled": profiler}),
        LocalCluster(**options) as opened,
        Client(opened),
    ):
        yield


def _epochs(
    name: str, shape: Shape, n_rows: int, n_workers: int, each: int, rounds: int
) -> list[list[str]]:
    """Return seconds of an epoch in threads of one process, and on workers in the same run."""
    X, y = rows(n_rows, n_workers * each)
    layout, model = problem(shape)
    local = ArraySource(Rows(X.compute(), y.compute()[:, None]), Inputs.of_numbers(NAMES)).data()
    with ComputeSpec(n_jobs=n_workers).open() as compute, spread(X, y) as data:
        ways = [_turns(d.samples(compute, layout), model) for d in (local, data)]
        times = [[timed(lambda way=way: next(way))[0] for way in ways] for _ in range(rounds)]
    threads, workers = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(here / there for here, there in times)
    size = [str(shape.n_maps), str(len(layout.core_sizes))]
    lines = [
        [f"{n_workers} threads of one process", *size, "", f"{threads:.2f}", "1.00"],
        [f"{n_workers} {name}", *size, str(each), f"{workers:.2f}", f"{ratio:.2f}"],
    ]
    print(*lines, sep="\n", flush=True)
    return lines


def _turns(targets: list[Samples], model: als.Model) -> Iterator[als.Epoch]:
    """Return the epochs of a fit, the first of which is behind it: it compiles and allocates."""
    epochs = als.epochs(targets, als.Objective(alpha=1.0), model)
    list(islice(epochs, 2))
    return epochs


def _latency(n_workers: int) -> list[list[str]]:
    """Return the time of a core step that has nothing to compute."""
    lines = []
    for n_partitions in (n_workers, 4 * n_workers, 16 * n_workers):
        X, y = rows(100 * n_partitions, n_partitions)
        with ComputeSpec(n_jobs=1).open() as compute, spread(X, y) as data:
            seconds = list(_steps(data, compute, 40))
        median, least = 1e3 * statistics.median(seconds), 1e3 * min(seconds)
        lines.append([str(n_partitions), f"{median:.1f}", f"{least:.1f}"])
    return lines


def _bytes(n_rows: int, n_workers: int) -> list[list[str]]:
    """Return what passes through the machine's loopback for each core step."""
    lines = []
    for count in (n_rows // 10, n_rows):
        X, y = rows(count, n_workers)
        with ComputeSpec(n_jobs=1).open() as compute, spread(X, y) as data:
            steps = _steps(data, compute, 40)
            next(steps)
            before = _loopback()
            n_steps = len(list(steps))
            moved = (_loopback() - before) / n_steps
        lines.append([f"{count:,}", str(n_workers), f"{moved:,.0f}"])
    return lines


def _loopback() -> int:
    """Return the bytes that were sent inside this machine."""
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


def _steps(data: Any, compute: Compute, n_steps: int) -> Iterator[float]:
    """Take core steps, and yield the seconds that each one's sums took."""
    layout, model = problem(SMALL)
    (samples,), (cores,) = data.samples(compute, layout), model.cores
    samples.start(cores)
    samples.mixing_equations()
    for step in range(n_steps):
        core = step % len(cores)
        yield timed(lambda core=core: samples.normal_equations(core, model.map_weights))[0]
        samples.commit(core, cores[core])


def problem(shape: Shape) -> tuple[TensorLayout, als.Model]:
    """Return the model that is fitted."""
    maps = tuple(FourierFeatures(period) for period in PERIODS[: shape.n_maps])
    layout = TensorLayout.of(maps, (shape.n_basis,) * N_INPUTS, True)
    cores = cpd.initial_cores(layout.core_sizes, RANK, True, np.random.RandomState(0))
    return layout, als.Model((cores,), np.ones(len(maps)) / len(maps))


def rows(n_rows: int, n_partitions: int) -> tuple[da.Array, da.Array]:
    """Return inputs and targets that the workers draw themselves."""
    size = -(-n_rows // n_partitions)
    rng = da.random.default_rng(0)
    X = rng.uniform(size=(n_rows, N_INPUTS), chunks=(size, N_INPUTS))
    return X, X.map_blocks(_target, dtype=np.float64, drop_axis=1)


def _target(X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2])


@contextmanager
def spread(X: da.Array, y: da.Array) -> Iterator[Any]:
    """Hold rows on the cluster."""
    data = DaskSource(X, y, None, Inputs.of_numbers(NAMES)).data()
    try:
        yield data
    finally:
        data.close()


if __name__ == "__main__":
    main()

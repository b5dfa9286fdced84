"""Section 3: how time grows with each size, and how far it is from the machine's limits."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.common import median_time
from benchmarks.machine import blas_rate
from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.features import FourierFeatures, TensorLayout
from polyadic.model import als, cpd
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples
from polyadic.samples.workers import Workers

PERIODS = (10, 2, 128, 25, 64, 600, 2000, 1024, 7, 30, 300, 900)


@dataclass(frozen=True)
class Shape:
    """The sizes that time depends on."""

    N: int = 30_000
    D: int = 8
    I: int = 4  # noqa: E741
    R: int = 20
    P: int = 6
    threads: int = 1
    dtype: str = "float64"


def shapes(threads: int, quick: bool) -> dict[str, list[Shape]]:
    """Return what is measured, one size at a time."""
    base = Shape()
    counts = [1_000, 10_000, 100_000] + ([] if quick else [1_000_000])
    return {
        "N": [replace(base, N=count) for count in counts],
        "R": [replace(base, R=rank) for rank in (5, 10, 20, 40, 80)],
        "P": [replace(base, P=maps) for maps in (1, 3, 6, 12)],
        "I": [replace(base, I=size) for size in (2, 4, 16, 64)],
        "D": [replace(base, D=inputs) for inputs in (2, 8, 16)],
        "dtype": [replace(base, dtype=dtype) for dtype in ("float64", "float32")],
        "threads": [replace(base, threads=n) for n in range(1, threads + 1)],
    }


def run(threads: int, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the records of each series."""
    return {
        name: [measure(shape) for shape in series]
        for name, series in shapes(threads, quick).items()
    }


def measure(shape: Shape) -> dict[str, Any]:
    """Time one sweep and its parts; the second of two, so that nothing is compiled."""
    rng = np.random.RandomState(0)
    maps = tuple(FourierFeatures(float(period)) for period in PERIODS[: shape.P])
    layout = TensorLayout.of(maps, (shape.I,) * shape.D, True)
    cores = cpd.initial_cores(layout.core_sizes, shape.R, True, rng)
    rows = Rows(rng.uniform(size=(shape.N, shape.D)), rng.standard_normal(shape.N))
    model = als.Model((cores,), np.ones(shape.P) / shape.P)
    with Workers(shape.threads).open() as workers:
        samples = MemorySamples(CompiledEngine(shape.dtype), rows, layout, None, workers)
        for _ in range(2):
            start = _clock(lambda: samples.start(cores))
            sweep = _clock(lambda: als.sweep([samples], als.Objective(alpha=1.0), als.Sweep(model)))
        samples.start(cores)
        parts = _parts(samples, layout, shape) if shape.threads == 1 else {}
    elements = shape.N * shape.P * shape.R * len(layout.core_sizes)
    return {
        **asdict(shape),
        "start_s": start,
        "sweep_s": sweep,
        "ns_per_element": (start + sweep) / elements * 1e9,
        **parts,
    }


def _parts(samples: Any, layout: TensorLayout, shape: Shape) -> dict[str, float]:
    """Time the kernel of every step, and the Gram of its block by itself, on one thread.

    A chunk goes through one block of columns after the other, and assembly is what the
    Gram leaves of the time.
    """
    from polyadic.engines.compiled.gram import COLUMNS, sums

    dtype, maps = np.dtype(shape.dtype), np.arange(shape.P)
    weights = np.ones(shape.P, dtype=dtype)
    padded = [state.padded for state in samples._states]
    width = min(padded[0], COLUMNS[dtype])
    M = np.random.default_rng(0).standard_normal((4 * shape.R + 1, width)).astype(dtype)
    gram = median_time(lambda: sums(M), 15) * sum(padded) / width * len(layout.core_sizes)
    kernel = sum(
        _clock(lambda state=state, core=core: state.core_sums(core, weights, maps))
        for core in range(len(layout.core_sizes))
        for state in samples._states
    )
    assembly = kernel - gram
    steps, columns = len(layout.core_sizes), 4 * shape.R + 1
    elements = shape.N * shape.P * shape.R * steps
    rows = len(samples._states[0].rows)
    number = 2 * np.dtype(shape.dtype).itemsize
    return {
        "assembly_ns": assembly / elements * 1e9,
        "assembly_GB_s": 2 * number * elements / assembly / 1e9,
        "gram_GF_s": columns**2 * shape.N * steps / gram / 1e9,
        "blas_GF_s": blas_rate(columns, rows, shape.dtype),
        "assembly_s": assembly,
        "gram_s": gram,
    }


def _clock(function: Any) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began

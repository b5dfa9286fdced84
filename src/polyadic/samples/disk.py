"""Sums over rows that are read from disk, or kept in memory where there is room.

A fit takes the first of these places that has room:

- "state": rows are read once, rows and products stay in memory, which is fastest;
- "rows": scaled rows stay, products are formed in each step;
- "disk": every step is a pass over the files.

Sums of "rows" and "disk" are the same to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.holdout import explain_empty_part
from polyadic.rows.rows import Rows, concatenate_rows
from polyadic.samples import memory_usage
from polyadic.samples.placement import MemoryPlan, auto_chunk_size, iterating_is_cheaper
from polyadic.samples.prefetch import AHEAD
from polyadic.samples.workers import A, Workers

# What allocators and libraries may take beyond what is counted here.
_MARGIN = 32e6
# Where no limit is set, the fraction of the free memory that rows and products may take.
_FRACTION = 0.5
# Copies of a batch that live while its rows are chosen, scaled and cut.
_COPIES = 5
# Bytes of rows that are read a second, about, and the seconds that a pass takes in any case.
_READ, _ROUND_TRIP = 5e8, 1e-3
# Rows that are enough to have everything compiled and loaded before memory is measured.
_FEW_ROWS = 256


@dataclass(frozen=True)
class Reading:
    """How to read the rows of one target.

    Parameters
    ----------
    batches : callable
        Begins a pass.
    rows : callable
        Makes scaled rows of a batch, maybe none.
    n_rows : int
        How many rows to expect.
    batch_rows, batch_bytes : int
        Size of a batch.
    """

    batches: Callable[[], Generator[Any]]
    rows: Callable[[Any], Rows]
    n_rows: int
    batch_rows: int
    batch_bytes: int


class Computing(Protocol):
    """What samples on disk ask of `Compute`, which knows them."""

    @property
    def engine(self) -> Engine:
        """Computes one chunk."""

    @property
    def chunk_size(self) -> int | None:
        """Rows of a chunk, where they are given."""

    @property
    def workers(self) -> Workers:
        """The threads that batches are spread over."""

    @property
    def memory(self) -> MemoryPlan:
        """Memory that these samples share with others."""

    def samples(self, rows: Rows, layout: TensorLayout) -> Samples:
        """Return the samples of some rows."""

    def for_pieces(self) -> Computing:
        """Return what computes one batch, in one thread and keeping nothing."""


class StreamSamples:
    """The rows of one target in files.

    Parameters
    ----------
    compute : Computing
        Computes a batch; its memory limit is that of the whole process, unless it is about a
        device.
    layout : TensorLayout
        Which core sees what.
    reading : Reading
        How to read the rows.
    """

    def __init__(self, compute: Computing, layout: TensorLayout, reading: Reading) -> None:
        self.layout, self._compute = layout, compute
        self._reading, self._memory = reading, compute.memory
        self._piecewise = compute.for_pieces()
        self._cores: Cores = []
        self._ready = False
        self._kept: list[Rows] = []
        self._whole: Samples | None = None
        self.place = ""
        self._memory.wait(self)

    @property
    def n_rows(self) -> int:
        """Rows to expect."""
        return self._reading.n_rows

    @property
    def stateless(self) -> bool:
        """Whether sums depend on the cores alone."""
        return self._whole is None or self._whole.stateless

    def start(self, cores: Cores) -> None:
        """Set the cores; on the first call, decide where the rows are kept."""
        self._cores = list(cores)
        if not self._ready:
            with self._memory.lock:  # one at a time measures what is left, and takes it
                self._settle(rank=cores[0].shape[1])
            self._ready = True
        if self._whole is not None:
            self._whole.start(cores)

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sum(lambda samples: samples.normal_equations(core, map_weights))

    def iterates(self, core: int) -> bool:
        """Whether conjugate gradients are the cheaper way to solve one core."""
        if self._whole is not None:
            return self._whole.iterates(core)
        reading, rank = self._reading, self._cores[0].shape[1]
        n_bytes = self.n_rows * reading.batch_bytes / reading.batch_rows
        a_pass = n_bytes / _READ if self.place == "disk" else 0.0
        problem = (self.layout, core, rank, self.n_rows)
        return iterating_is_cheaper(*problem, _ROUND_TRIP + a_pass, stateless=True)

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from."""
        return self._sum(lambda samples: samples.core_sketch(core))

    def gram_product(self, core: int, value: NDArray[Any]) -> NDArray[np.float64]:
        """Return AᵀA v for v of the shape of one core."""
        return self._sum(lambda samples: GramProduct(samples.gram_product(core, value))).value

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        self._cores[core] = value
        if self._whole is not None:
            self._whole.commit(core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sum(lambda samples: samples.mixing_equations())

    def _sum(self, sums_of: Callable[[Samples], A]) -> A:
        if self._whole is not None:
            return sums_of(self._whole)

        def sums(rows: Rows) -> A | None:
            if not len(rows):
                return None
            samples = self._piecewise.samples(rows, self.layout)
            samples.start(self._cores)
            return sums_of(samples)

        if self.place == "rows":
            total = self._compute.workers.sum(sums, self._kept)
        else:
            read = self._reading.rows
            with closing(self._reading.batches()) as batches:
                total = self._compute.workers.sum(lambda batch: sums(read(batch)), batches)
        if total is None:
            raise explain_empty_part()
        return total

    def _settle(self, rank: int) -> None:
        """Find a place for the rows, and bring them there."""
        if not self.place:
            if self._is_limited and not self._memory.is_used:
                self._warm_up()
            self._memory.place_alike(self, lambda n_rows: self._find_place(rank, n_rows))
        if self.place != "disk":
            self._keep()

    @property
    def _is_limited(self) -> bool:
        """Whether the limit is about this process: that of a device's engine is not."""
        return self._memory.limit is not None and not self._compute.engine.takes_tensors

    def _find_place(self, rank: int, n_rows: int) -> str:
        """Return the fastest place for `n_rows` rows."""
        taken = memory_usage.resident()
        needed = self._bytes_by_place(rank, n_rows)
        if self._memory.is_used:
            # Later samples come in the middle of a fit: the memory of its batches is already
            # counted in what the process takes, so reading from disk needs no more.
            needed["disk"] = -np.inf
        return self._memory.place(
            needed,
            f", {(needed['disk'] + _MARGIN) / 1e6:.3g} MB on top of the {taken / 1e6:.4g} MB that "
            "the process takes, to read and compute one batch of rows for each thread",
            "n_jobs, rank or the number of columns",
            taken=taken + _MARGIN,
            free=None if self._is_limited else _FRACTION * memory_usage.available(),
        )

    def _bytes_by_place(self, rank: int, n_rows: int) -> dict[str, float]:
        """Return the bytes of host memory that each place takes."""
        reading, engine = self._reading, self._compute.engine
        row = reading.batch_bytes / reading.batch_rows
        scratch = self._scratch_bytes(rank)
        needed = {"rows": row * n_rows + scratch, "disk": scratch}
        if engine.takes_tensors:
            # Three copies of the rows: as they were read, put together, and on their way to the
            # device, whose own memory is planned by its samples.
            return {"state": 3 * row * n_rows + scratch, **needed}
        if not engine.keep:
            return needed
        state = row * n_rows + engine.state_bytes(n_rows, self.layout, rank)
        return {"state": state + scratch, **needed}

    def _scratch_bytes(self, rank: int) -> float:
        """Return the bytes of the batches and chunks that are computed at a time."""
        reading, compute, layout = self._reading, self._compute, self.layout
        if compute.engine.takes_tensors:
            return (AHEAD + _COPIES) * reading.batch_bytes
        columns = (2 if layout.is_complex else 1) * max(layout.core_sizes) * rank
        size = compute.chunk_size or auto_chunk_size(reading.batch_rows, layout, rank)
        size = min(size, reading.batch_rows)
        # Beside the products of a chunk, three matrices of doubles as wide as its block.
        chunk = self._piecewise.engine.scratch_bytes(size, layout, rank) + 24 * size * columns
        n_jobs = compute.workers.n_jobs
        # Each thread has a batch and a chunk; batches wait to be read, and sums to be added.
        return (
            n_jobs * (_COPIES * reading.batch_bytes + chunk)
            + (AHEAD + 3) * reading.batch_bytes
            + (3 * n_jobs + 3) * 8 * columns**2
        )

    def _warm_up(self) -> None:
        """Have everything compiled and loaded, so that the process has its usual size."""
        with closing(self._reading.batches()) as batches:
            few = (self._reading.rows(batch).take(slice(0, _FEW_ROWS)) for batch in batches)
            rows = next((rows for rows in few if len(rows)), None)
        if rows is None:
            raise explain_empty_part()
        samples = self._piecewise.samples(rows, self.layout)
        samples.start(self._cores)
        samples.normal_equations(0, np.ones(len(self.layout.maps)))
        samples.mixing_equations()

    def _keep(self) -> None:
        """Read the rows into memory, unless they are more than expected.

        How many rows a part of the hashes has is only known roughly; where there are far more
        than were planned for, they stay on disk.
        """
        most = 1.05 * self.n_rows + self._reading.batch_rows
        kept: list[Rows] = []
        with closing(self._reading.batches()) as batches:
            for batch in batches:
                kept.append(self._reading.rows(batch))
                most -= len(kept[-1])
                if most < 0:
                    self.place = "disk"
                    return
        if self.place == "rows":
            self._kept = kept
        else:
            self._whole = self._compute.samples(concatenate_rows(kept), self.layout)

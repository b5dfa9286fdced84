"""Sums over rows that are read from disk, or kept in memory where there is room.

A fit takes the first of these places that has room:

- "state": rows are read once, rows and products stay in memory, which is fastest;
- "rows": scaled rows stay, products are formed in each step;
- "disk": every step is a pass over the files.

Sums of "rows" and "disk" are the same to the last digit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.device import DeviceCompute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows, concatenate_rows
from polyadic.samples import memory_usage
from polyadic.samples.placement import Budget, auto_chunk_size
from polyadic.samples.prefetch import AHEAD, ordered_sum
from polyadic.samples.workers import Workers

# What allocators and libraries may take beyond what is counted here.
_MARGIN = 32e6
# Where no limit is set, the share of the free memory that rows and products may take.
_SHARE = 0.5
# Copies of a batch that live while its rows are chosen, scaled and cut.
_COPIES = 5
# Rows that are enough to have everything compiled and loaded before memory is measured.
_FEW_ROWS = 256


_NO_ROWS = (
    "A part of the rows that a fit needs is empty: rows are too few to hold some out or to "
    "subsample. Pass early_stopping=False and subsample=None."
)


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


class Allowance:
    """Memory that all samples of a fit share.

    The first of them that needs a place decides for those with the same layout.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_used = False
        self._waiting: WeakSet[StreamSamples] = WeakSet()

    def enter(self, samples: StreamSamples) -> None:
        """Count these samples until they have a place."""
        self._waiting.add(samples)

    def settle(self, samples: StreamSamples, plan: MemoryPlan, limit: float | None) -> None:
        """Give a place to these samples, and to all that are like them."""
        alike = [each for each in self._waiting if each.layout is samples.layout]
        # Later samples come in the middle of a fit, whose batches are part of the process.
        place = plan.place(sum(each.n_rows for each in alike), limit, may_fail=not self.is_used)
        for each in alike:
            each.place = place
            self._waiting.discard(each)
        self.is_used = True


class StreamSamples:
    """The rows of one target in files.

    Parameters
    ----------
    compute : Compute
        Computes a batch; its memory limit is that of the whole process.
    layout : TensorLayout
        Which core sees what.
    reading : Reading
        How to read the rows.
    allowance : Allowance
        Memory that these samples share with others.
    """

    def __init__(
        self, compute: Compute, layout: TensorLayout, reading: Reading, allowance: Allowance
    ) -> None:
        self.layout, self._compute = layout, compute
        self._reading, self._allowance = reading, allowance
        self._piecewise = _for_pieces(compute)
        self._cores: Cores = []
        self._ready = False
        self._kept: list[Rows] = []
        self._whole: Samples | None = None
        self.place = ""
        allowance.enter(self)

    @property
    def n_rows(self) -> int:
        """Rows to expect."""
        return self._reading.n_rows

    @property
    def stateless(self) -> bool:
        """Whether sums depend on the cores alone."""
        return self._whole is None or self._whole.stateless

    def start(self, cores: Cores) -> None:
        """Take these cores; find a place for the rows when they come first."""
        self._cores = list(cores)
        if not self._ready:
            with self._allowance.lock:  # one at a time measures what is left, and takes it
                self._settle(rank=cores[0].shape[1])
            self._ready = True
        if self._whole is not None:
            self._whole.start(cores)

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sum(lambda samples: samples.normal_equations(core, weights))

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        self._cores[core] = value
        if self._whole is not None:
            self._whole.commit(core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sum(lambda samples: samples.mixing_equations())

    def _sum(self, sums_of: Callable[[Samples], NormalEquations]) -> NormalEquations:
        if self._whole is not None:
            return sums_of(self._whole)

        def sums(rows: Rows) -> NormalEquations | None:
            if not len(rows):
                return None
            samples = self._piecewise.samples(rows, self.layout)
            samples.start(self._cores)
            return sums_of(samples)

        workers, reading = self._compute.workers, self._reading
        if self.place == "rows":
            total = ordered_sum(workers, sums, (rows for rows in self._kept))
        else:
            total = ordered_sum(workers, lambda b: sums(reading.rows(b)), reading.batches())
        if total is None:
            raise ValueError(_NO_ROWS)
        return total

    def _settle(self, rank: int) -> None:
        """Find a place for the rows, and bring them there."""
        on_device = isinstance(self._compute, DeviceCompute)
        limit = None if on_device else self._compute.budget.limit
        if not self.place:
            if limit is not None and not self._allowance.is_used:
                self._warm_up()
            plan = MemoryPlan.of(self._compute, self.layout, rank, self._reading)
            self._allowance.settle(self, plan, limit)
        if self.place != "disk":
            self._keep()

    def _warm_up(self) -> None:
        """Have everything compiled and loaded, so that the process has its usual size."""
        with closing(self._reading.batches()) as batches:
            few = (self._reading.rows(batch).take(slice(0, _FEW_ROWS)) for batch in batches)
            rows = next((rows for rows in few if len(rows)), None)
        if rows is None:
            raise ValueError(_NO_ROWS)
        samples = self._piecewise.samples(rows, self.layout)
        samples.start(self._cores)
        samples.normal_equations(0, np.ones(len(self.layout.maps)))
        samples.mixing_equations()

    def _keep(self) -> None:
        """Read the rows into memory, unless they are more than expected.

        Of a part of the rows the number is not known exactly.
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


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a fit needs.

    Parameters
    ----------
    rows, state : float
        For each row that is kept, without and with its products.
    scratch : float
        For the batches and chunks that are computed at a time.
    """

    rows: float
    state: float
    scratch: float

    @classmethod
    def of(cls, compute: Compute, layout: TensorLayout, rank: int, reading: Reading) -> MemoryPlan:
        """Count the bytes."""
        rows = reading.batch_bytes / reading.batch_rows
        # An engine that cannot tell the size of its state keeps none here.
        state_bytes = getattr(compute.engine, "state_bytes", lambda *_: np.inf)
        state = rows + float(state_bytes(1, layout, rank))
        columns = (2 if layout.is_complex else 1) * max(layout.core_sizes) * rank
        if isinstance(compute, DeviceCompute):
            return cls(rows, 3 * rows, (AHEAD + _COPIES) * reading.batch_bytes)
        size = compute.chunk_size or auto_chunk_size(reading.batch_rows, layout, rank)
        chunk = min(size, reading.batch_rows) * (min(state, 16.0 * rank) + 24 * columns)
        n_jobs = compute.workers.n_jobs
        scratch = (
            n_jobs * (_COPIES * reading.batch_bytes + chunk)
            + (AHEAD + 3) * reading.batch_bytes
            + (3 * n_jobs + 3) * 8 * columns**2
        )
        return cls(rows, state, scratch)

    def place(self, n_rows: int, limit: float | None, *, may_fail: bool = True) -> str:
        """Return the fastest place for `n_rows` rows."""
        taken = memory_usage.resident()
        left = _SHARE * memory_usage.available() if limit is None else limit - taken - _MARGIN
        if self.state * n_rows + self.scratch <= left:
            return "state"
        if self.rows * n_rows + self.scratch <= left:
            return "rows"
        if self.scratch <= left or not may_fail:
            return "disk"
        what = "`memory_limit` must be" if limit is not None else "The free memory should be"
        before = f" on top of the {taken / 1e6:.4g} MB that the process takes"
        raise MemoryError(
            f"{what} at least {(self.scratch + _MARGIN) / 1e6:.3g} MB{before}, to read and compute "
            f"one batch of rows for each thread; {max(left, 0) / 1e6:.3g} MB are left. Raise it, "
            "or lower n_jobs, rank or the number of columns."
        )


def _for_pieces(compute: Compute) -> Compute:
    """Return what computes one batch, in one thread and keeping nothing."""
    if isinstance(compute, DeviceCompute):
        return compute
    engine: Any = compute.engine
    if hasattr(engine, "keep"):
        engine = replace(engine, keep=False)
    return replace(compute, engine=engine, workers=Workers(1), budget=Budget())

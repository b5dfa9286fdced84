"""What runs on the workers: a chunk of rows, and the state of fits that lives beside it.

A task tells a chunk where the driver believes its state to be and what changed since.  A
chunk that is elsewhere, because its worker died, because it was moved or because a task ran
twice, says so; the driver then sends all it takes to make the state anew.  So state is never
more than a faster way to the same sums, and it never leaves its worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.holdout import Part, row_hash
from polyadic.rows.rows import Rows
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import View, part_of
from polyadic.samples.placement import MemoryPlan
from polyadic.samples.workers import Workers, add_up

# Row numbers of a partition start at its number times this, whatever sizes the others have.
_PARTITION_ROWS = 2**40
# Answers that are added up at a time.
FAN_IN = 8


@dataclass(frozen=True)
class Setup:
    """All that samples are made from but the rows: how to see and how to compute them."""

    view: View
    part: Part | None
    layout: TensorLayout
    engine: Engine
    chunk_size: int | None
    memory_limit: float | None

    def samples(self, rows: Rows, memory: MemoryPlan) -> list[Samples]:
        """Return the samples of each target; none where the part has no rows here."""
        rows = part_of(rows, self.part)
        if not len(rows):
            return []
        compute = Compute(self.engine, self.chunk_size, Workers(1), memory)
        seen = self.view.rows(rows)
        return [compute.samples(each, self.layout) for each in seen]


@dataclass(frozen=True)
class Step:
    """What a chunk is asked for: the sums of one step, at one version of the cores.

    Parameters
    ----------
    group, target : int
        Which samples, and which target of them.
    live : frozenset of int
        The groups that are still in use; state of others is let go.
    before, version : int
        The version that `changes` lead from, and the one they lead to.
    changes : tuple of (int, ndarray)
        Cores that changed in between.
    core : int, optional
        The core whose sums are asked for; by default those of the λ step.
    weights : ndarray, optional
        λ, for a core step.
    setup : Setup, optional
        What samples are made from, where they may be missing.
    cores : list of ndarray, optional
        All cores of this version, where the state may be missing.
    """

    group: int
    target: int
    live: frozenset[int]
    before: int
    version: int
    changes: tuple[tuple[int, NDArray[Any]], ...]
    core: int | None = None
    weights: NDArray[np.float64] | None = None
    setup: Setup | None = None
    cores: Cores | None = None


class Stale:
    """The answer of a chunk whose state is missing or at another version."""


class _Group:
    """The samples of every target, and the version that each is at."""

    def __init__(self, samples: list[Samples]) -> None:
        self.samples = samples
        self.versions = [-1] * len(samples)

    def bring(self, step: Step) -> bool:
        """Bring the state to the version of a step; return whether that was possible."""
        samples, version = self.samples[step.target], self.versions[step.target]
        self.versions[step.target] = -1  # until done: an exception may leave it in between
        if version == step.before:
            for core, value in step.changes:
                samples.commit(core, value)
        elif version != step.version:
            if step.cores is None:
                return False
            samples.start(step.cores)
        self.versions[step.target] = step.version
        return True


class Chunk:
    """The rows of one partition on a worker, and the state of fits to them.

    Parameters
    ----------
    number : int
        Of the partition.
    rows : Rows
        Those that count.
    n_given : int
        How many rows there were, those of weight zero among them.
    """

    def __init__(self, number: int, rows: Rows, n_given: int) -> None:
        self.number, self.rows, self.n_given = number, rows, n_given
        self._groups: dict[int, _Group] = {}
        self._memories: dict[float | None, MemoryPlan] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Chunk, (self.number, self.rows, self.n_given)  # state does not travel

    def __sizeof__(self) -> int:
        arrays = (self.rows.X, self.rows.y, self.rows.weight)
        return object.__sizeof__(self) + sum(a.nbytes for a in arrays if a is not None)

    def sums(self, step: Step) -> NormalEquations | Stale | None:
        """Return the sums of one step; None where no row of this chunk takes part."""
        with self._lock:
            for unused in set(self._groups) - step.live:
                del self._groups[unused]
            if step.group not in self._groups:
                if step.setup is None:
                    return Stale()
                self._groups[step.group] = self._group(step.setup)
            group = self._groups[step.group]
            if not group.samples:
                return None
            if not group.bring(step):
                return Stale()
            samples = group.samples[step.target]
            if step.core is None:
                return samples.mixing_equations()
            assert step.weights is not None
            return samples.normal_equations(step.core, step.weights)

    def _group(self, setup: Setup) -> _Group:
        """Make samples; all of a fit share one memory plan."""
        limit = setup.memory_limit
        memory = self._memories.setdefault(limit, MemoryPlan(limit))
        return _Group(setup.samples(self.rows, memory))


def sums(chunk: Chunk, step: Step) -> NormalEquations | Stale | None:
    """Return the sums of one step over one chunk."""
    # Overflow is found in the sums, in words; other tasks of the worker keep their threads.
    with Workers(1).open(), np.errstate(over="ignore", invalid="ignore"):
        return chunk.sums(step)


def statistics(chunk: Chunk) -> tuple[Statistics | None, int]:
    """Return what one pass over the rows tells, and how many were given."""
    rows = chunk.rows
    if not len(rows):
        return None, chunk.n_given
    return Statistics.of(rows.X, rows.y, rows.weight, identify=False), chunk.n_given


def content(chunk: Chunk) -> int:
    """Return a number that says which rows these are."""
    rows, first = chunk.rows, chunk.number * _PARTITION_ROWS
    return Statistics.of(rows.X, rows.y, rows.weight, first).content if len(rows) else 0


def hashes(chunk: Chunk, seed: int) -> NDArray[np.uint64]:
    """Return the hash of every row."""
    return row_hash(np.column_stack([chunk.rows.X, chunk.rows.y]), seed)


def taken(chunk: Chunk, part: Part | None) -> Rows:
    """Return the rows of a part."""
    return part_of(chunk.rows, part)


def moved(chunk: Chunk) -> Chunk:
    """Return the same rows on another worker."""
    return Chunk(chunk.number, chunk.rows, chunk.n_given)


def batches(items: list[Any]) -> list[list[Any]]:
    """Return neighbours that one task adds up, always the same ones."""
    return [items[first : first + FAN_IN] for first in range(0, len(items), FAN_IN)]


def total(parts: Sequence[Any]) -> Any:
    """Add answers in their order; none counts for nothing, and a stale one spoils the sum."""
    if any(isinstance(part, Stale) for part in parts):
        return Stale()
    return add_up(parts)


def total_statistics(
    parts: Sequence[tuple[Statistics | None, int]],
) -> tuple[Statistics | None, int]:
    """Add statistics, and count the rows that were given."""
    return total([known for known, _ in parts]), sum(given for _, given in parts)

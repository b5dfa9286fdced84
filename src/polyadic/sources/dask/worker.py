"""What runs on the workers: a chunk of rows, and the state of fits that lives beside it.

A task tells a chunk where the driver believes its state to be and what changed since.  A
chunk that is elsewhere, because its worker died, because it was moved or because a task ran
twice, says so; the driver then sends all it takes to make the state anew.  So state is never
more than a faster way to the same sums, and it never leaves its worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute, ComputeSpec
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.rows.copies import number_rows
from polyadic.rows.holdout import Part
from polyadic.rows.rows import Rows
from polyadic.rows.view import View
from polyadic.samples.workers import A, Workers, add_up
from polyadic.sources.arrays import ArrayStore

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
    spec: ComputeSpec

    def samples(self, rows: Rows, compute: Compute) -> list[Samples]:
        """Return the samples of each target; none where the part has no rows here."""
        store = ArrayStore(rows if self.part is None else self.part.take(rows))
        if not len(store.rows):
            return []
        return store.samples(compute, self.layout, None, self.view)


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
    ask : callable
        Returns the sums of some samples that are at this version.
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
    ask: Callable[[Samples], Any]
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
        self._computes: dict[ComputeSpec, Compute] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Chunk, (self.number, self.rows, self.n_given)  # state does not travel

    def __sizeof__(self) -> int:
        arrays = (self.rows.X, self.rows.y, self.rows.weight)
        return object.__sizeof__(self) + sum(a.nbytes for a in arrays if a is not None)

    def sums(self, step: Step) -> Any:
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
            return step.ask(group.samples[step.target])

    def _group(self, setup: Setup) -> _Group:
        """Make samples; those of one fit share what they compute with, and so its memory."""
        if setup.spec not in self._computes:
            with setup.spec.open() as compute:  # of one thread, so it works when closed too
                self._computes[setup.spec] = compute
        return _Group(setup.samples(self.rows, self._computes[setup.spec]))


def sums(chunk: Chunk, step: Step) -> Any:
    """Return the sums of one step over one chunk."""
    # Overflow is found in the sums, in words; other tasks of the worker keep their threads.
    with Workers(1).open(), np.errstate(over="ignore", invalid="ignore"):
        return chunk.sums(step)


def apply_to_rows(chunk: Chunk, function: Callable[[Rows, int], A]) -> A | None:
    """Return what a function makes of a chunk's rows; None where there are none."""
    if not len(chunk.rows):
        return None
    return function(chunk.rows, chunk.number * _PARTITION_ROWS)


def count_given(chunk: Chunk) -> int:
    """Return how many rows there were, those of weight zero among them."""
    return chunk.n_given


def take_part(chunk: Chunk, part: Part | None) -> Rows:
    """Return the rows of a part."""
    return chunk.rows if part is None else part.take(chunk.rows)


def number_chunk(chunk: Chunk) -> Chunk:
    """Return a chunk whose rows have numbers, by which they are held out one by one."""
    rows = number_rows(chunk.rows, chunk.number * _PARTITION_ROWS)
    return Chunk(chunk.number, rows, chunk.n_given)


def move(chunk: Chunk) -> Chunk:
    """Return a copy of the rows, made on the worker that runs this."""
    return Chunk(chunk.number, chunk.rows, chunk.n_given)


def batches(items: list[Any]) -> list[list[Any]]:
    """Return groups of neighbours, each added up by one task; they are always the same."""
    return [items[first : first + FAN_IN] for first in range(0, len(items), FAN_IN)]


def add_in_order(parts: Sequence[Any]) -> Any:
    """Add answers in their order; None is left out, and a stale one makes the sum stale."""
    if any(isinstance(part, Stale) for part in parts):
        return Stale()
    return add_up(parts)


def add_delayed(parts: list[Any], name: str = "sum") -> Any:
    """Return the sum of delayed answers, added up where they are; None where all are none."""
    token, turns = uuid4().hex, count()
    together = dask.delayed(add_in_order, pure=False)
    while len(parts) > 1:
        parts = [
            together(group, dask_key_name=f"polyadic-{name}-{token}-{next(turns)}")
            for group in batches(parts)
        ]
    return parts[0].compute()

"""Rows in memory, in chunks, over a pool of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyadic.engines import Engine, State, Sums
from polyadic.features import TensorLayout
from polyadic.model.conjugate import CoreSketch
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows
from polyadic.samples.placement import (
    MemoryPlan,
    auto_chunk_size,
    bytes_by_place,
    iterating_is_cheaper,
)
from polyadic.samples.workers import Workers

T = TypeVar("T")


class MemorySamples:
    """All rows in memory, one state a chunk.

    Parameters
    ----------
    engine : Engine
        Computes one chunk.
    rows : Rows
        Scaled inputs, standardised target, weights.
    layout : TensorLayout
        Which core sees what.
    chunk_size : int, optional
        Rows of a chunk; by default what caches hold.
    workers : Workers, optional
        The pool that the chunks are spread over.
    memory : MemoryPlan, optional
        Memory that the states of all samples of a fit may take together.
    """

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        layout: TensorLayout,
        chunk_size: int | None = None,
        workers: Workers | None = None,
        memory: MemoryPlan | None = None,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._layout = layout
        self._chunk_size = chunk_size
        self._workers = workers or Workers()
        self._memory = memory or MemoryPlan()
        self._memory.enter(self)
        self._rank = 0
        self._states: list[State] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def stateless(self) -> bool:
        """Whether the engine keeps nothing between steps."""
        return not self._engine.keep

    def start(self, cores: Cores) -> None:
        """Rebuild the state of every chunk for these cores."""
        if cores[0].shape[1] != self._rank:
            self._prepare(cores[0].shape[1])
        if self._states:
            # In the memory they have: fresh pages cost about as much as the products.
            self._states = self._workers.map(lambda state: state.restart(cores), self._states)
            return
        self._states = self._workers.map(
            lambda rows: self._engine.start(rows, cores, self._layout), self._chunks
        )

    def _prepare(self, rank: int) -> None:
        """Cut the rows for this rank, and see that the state fits."""
        self._rank, self._states = rank, []
        size = self._chunk_size or auto_chunk_size(len(self), self._layout, rank)
        self._chunks = [self._rows.take(part) for part in slices(len(self), size)]
        if self._memory.limit is not None:
            self._engine = self._engine.keeping(self._place(rank, size) == "state")

    def _place(self, rank: int, size: int) -> str:
        """Return whether there is room for products beside the rows of all samples."""
        layout, n_rows = self._layout, self._memory.n_rows
        at_a_time = size * self._workers.n_jobs
        return self._memory.place(
            bytes_by_place(self._engine, layout, rank, n_rows, at_a_time),
            f" for {n_rows} rows, rank {rank} and {len(layout.maps)} feature maps",
            "rank, chunk_size, n_jobs or the number of feature maps",
            taken=self._memory.reserved,
        )

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sum(lambda state: state.normal_equations(core, map_weights))

    def iterates(self, core: int) -> bool:
        """Whether conjugate gradients are the cheaper way to solve one core."""
        return iterating_is_cheaper(self._layout, core, self._rank, len(self))

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from."""
        return self._sum(lambda state: state.core_sketch(core))

    def gram_product(self, core: int, value: NDArray[Any]) -> NDArray[np.float64]:
        """Return AᵀA v for v of the shape of one core."""
        return self._sum(lambda state: state.gram_product(core, value)).value

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""
        for state in self._states:  # engines only take note: not worth waking a thread
            state.commit(core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sum(lambda state: state.mixing_equations())

    def _sum(self, sums_of: Callable[[State], Sums[T]]) -> T:
        total = self._workers.sum(sums_of, self._states)
        assert total is not None  # there is a chunk at least
        return total.on_host()


def slices(n_rows: int, chunk_size: int) -> list[slice]:
    """Cut `n_rows` into chunks of `chunk_size`, the last one shorter."""
    return [slice(first, first + chunk_size) for first in range(0, n_rows, chunk_size)]

"""Rows in memory, in chunks, over a pool of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows
from polyadic.samples.placement import Budget, auto_chunk_size
from polyadic.samples.workers import Workers


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
    budget : Budget, optional
        Memory that the states of all samples of a fit may take together.
    """

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        layout: TensorLayout,
        chunk_size: int | None = None,
        workers: Workers | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._layout = layout
        self._chunk_size = chunk_size
        self._workers = workers or Workers()
        self._budget = budget or Budget()
        self._budget.enter(self)
        self._rank = 0
        self._states: list[Any] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def stateless(self) -> bool:
        """Whether the engine keeps nothing between steps."""
        return not getattr(self._engine, "keep", False)

    def start(self, cores: Cores) -> None:
        """Make the state of every chunk anew for these cores."""
        if cores[0].shape[1] != self._rank:
            self._prepare(cores[0].shape[1])
        if self._states:
            # In the memory they have: fresh pages cost about as much as the products.
            self._states = self._workers.map(
                lambda state: self._engine.restart(state, cores), self._states
            )
            return
        layout = self._layout
        self._states = self._workers.map(
            lambda rows: self._engine.start(rows, cores, layout), self._chunks
        )

    def _prepare(self, rank: int) -> None:
        """Cut the rows for this rank, and see that the state fits."""
        self._rank, self._states = rank, []
        size = self._chunk_size or auto_chunk_size(len(self), self._layout, rank)
        self._chunks = [self._rows.take(part) for part in slices(len(self), size)]
        self._engine = self._budget.fit(self._engine, self._layout, rank, size, self._workers)

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._workers.sum(
            lambda state: self._engine.normal_equations(state, core, weights), self._states
        )

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""
        for state in self._states:  # engines only take note: not worth waking a thread
            self._engine.commit(state, core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._workers.sum(self._engine.mixing_equations, self._states)


def predict(
    engine: Engine,
    X: NDArray[Any],
    cores: Cores,
    weights: NDArray[np.float64],
    layout: TensorLayout,
    chunk_size: int | None,
    workers: Workers,
) -> NDArray[np.float64]:
    """Return the response of every row of `X`, chunk by chunk."""
    response = np.empty(len(X))
    size = chunk_size or auto_chunk_size(len(X), layout, cores[0].shape[1])

    def fill(part: slice) -> None:
        response[part] = engine.predict(X[part], cores, weights, layout)

    workers.map(fill, slices(len(X), size))
    return response


def slices(n_rows: int, chunk_size: int) -> list[slice]:
    """Cut `n_rows` into chunks of `chunk_size`, the last one shorter."""
    return [slice(first, first + chunk_size) for first in range(0, n_rows, chunk_size)]

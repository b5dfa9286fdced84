"""Rows in memory, in chunks, over a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polyadic.cpd import Cores
from polyadic.engines import Engine, Rows
from polyadic.features import TensorLayout
from polyadic.normal import NormalEquations

T = TypeVar("T")
S = TypeVar("S")


class Workers:
    """A pool of `n_jobs` threads that keeps the order of its answers.

    One worker runs in the caller's thread.  With several, BLAS is held to one thread each
    while they work, so that cores are not oversubscribed.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[Workers]:
        """Hold the threads for the length of a fit."""
        if self.n_jobs == 1:
            yield self
            return
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(self.n_jobs) as self._pool:
            try:
                yield self
            finally:
                self._pool = None

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Apply `function` to each item, answers in the order of the items."""
        return map(function, items) if self._pool is None else self._pool.map(function, items)


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
    chunk_size : int
        Rows of a chunk.
    workers : Workers
        The pool that the chunks are spread over.
    """

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        layout: TensorLayout,
        chunk_size: int,
        workers: Workers | None = None,
    ) -> None:
        self._engine = engine
        self._layout = layout
        self._workers = workers or Workers()
        self._chunks = [rows.take(part) for part in slices(len(rows), chunk_size)]
        self._states: list[Any] = []

    def start(self, cores: Cores) -> None:
        """Make the state of every chunk anew for these cores."""
        self._states = []  # the old state is let go before the new one takes memory

        def state_of(rows: Rows) -> Any:
            return self._engine.start(rows, cores, self._layout)

        self._states = list(self._workers.map(state_of, self._chunks))

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sum(lambda state: self._engine.normal_equations(state, core, weights))

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""
        for _ in self._workers.map(
            lambda state: self._engine.commit(state, core, value), self._states
        ):
            pass

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sum(self._engine.mixing_equations)

    def _sum(self, equations_of: Callable[[Any], NormalEquations]) -> NormalEquations:
        return reduce(add, self._workers.map(equations_of, self._states))


def predict(
    engine: Engine,
    X: NDArray[Any],
    cores: Cores,
    weights: NDArray[np.float64],
    layout: TensorLayout,
    chunk_size: int,
    workers: Workers,
) -> NDArray[np.float64]:
    """Return the response of every row of `X`, chunk by chunk."""

    def response(part: slice) -> NDArray[Any]:
        return engine.predict(X[part], cores, weights, layout)

    return np.concatenate(list(workers.map(response, slices(len(X), chunk_size))))


def slices(n_rows: int, chunk_size: int) -> list[slice]:
    """Cut `n_rows` into chunks of `chunk_size`, the last one shorter."""
    return [slice(first, first + chunk_size) for first in range(0, n_rows, chunk_size)]

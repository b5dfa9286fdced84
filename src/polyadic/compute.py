"""What a fit computes with: an engine, chunks of rows, and threads.

The estimators make one `Compute` from their parameters; everything below them asks it for
samples and predictions and need not know which engine or how many threads there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples, predict
from polyadic.samples.placement import Budget
from polyadic.samples.workers import Workers

ENGINES = ("auto", "compiled", "reference", "torch")


@dataclass(frozen=True)
class SearchLimits:
    """How much a search may take of what it computes with.

    Parameters
    ----------
    few_rows, held_rows : int
        Rows that candidates are screened on, and those that choices are judged by, at most.
    work : float
        Floating-point operations of the moves of all members, at most.
    """

    few_rows: int = 16_000
    held_rows: int = 20_000
    work: float = 1.2e13


@dataclass(frozen=True)
class ComputeSpec:
    """Names."""

    engine: str = "auto"
    device: str | None = None
    dtype: str = "float64"
    chunk_size: int | None = None
    memory_limit: float | str | None = None
    n_jobs: int | None = None
    objective: str = "real"

    @property
    def on_torch(self) -> bool:
        return self.engine == "torch" or (self.device or "cpu").split(":")[0] != "cpu"

    def check(self) -> None:
        if self.on_torch:
            from polyadic.device import check_device

            check_device(self.device or "cpu")

    @contextmanager
    def open(self) -> Iterator[Compute]:
        """Hold threads for the length of a fit or a prediction."""
        if self.on_torch:
            from polyadic.device import DeviceCompute, few_blas_threads

            with interruptible(), few_blas_threads():
                yield DeviceCompute.on(
                    "auto",
                    self.device or "cpu",
                    self.dtype,
                    self.chunk_size or "auto",
                    self.memory_limit,
                    self,
                )
            return
        budget = Budget(self.memory_limit)
        with interruptible(), Workers(_openmp_effective_n_threads(self.n_jobs)).open() as workers:
            yield Compute(
                _engine(self.engine, self.dtype, self.objective),
                self.chunk_size,
                workers,
                budget,
                self,
            )


@dataclass(frozen=True)
class Compute:
    """An engine, the rows of a chunk, and the threads that chunks are spread over."""

    engine: Engine
    chunk_size: int | None
    workers: Workers
    budget: Budget
    spec: Any = None

    limits: ClassVar[SearchLimits] = SearchLimits()

    def samples(self, rows: Rows, layout: TensorLayout, see: Any = None) -> Samples:
        """Return the samples of one target's rows."""
        rows = rows if see is None else see(rows)
        return MemorySamples(self.engine, rows, layout, self.chunk_size, self.workers, self.budget)

    def for_pieces(self) -> Compute:
        return self

    def predict(
        self,
        X: NDArray[Any],
        cores: Cores,
        weights: NDArray[np.float64],
        layout: TensorLayout,
    ) -> NDArray[np.float64]:
        """Return the response of every row of `X`."""
        return predict(self.engine, X, cores, weights, layout, self.chunk_size, self.workers)


def on_device(device: str | None) -> TypeGuard[str]:
    """Whether `device` names a torch device, and not the engines of the CPU."""
    return device not in (None, "cpu")


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C be Ctrl-C.

    One that comes while compiled code hands its answer over is a call that succeeded with an
    exception set, which the interpreter calls a SystemError.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def _engine(name: str, dtype: str, objective: str) -> Engine:
    """Return an engine by its name; numba is loaded no sooner than it is needed."""
    if name == "reference":
        from polyadic.engines.reference import ReferenceEngine

        return ReferenceEngine(dtype)
    from polyadic.engines.compiled.engine import CompiledEngine

    return CompiledEngine(dtype, hermitian=objective == "complex")

"""What a fit computes with: an engine, chunks of rows, and threads.

The estimators make one `Compute` from their parameters; everything below them asks it for
samples and predictions and need not know which engine or how many threads there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from polyadic.cpd import Cores
from polyadic.engines import Engine, Rows
from polyadic.engines.reference import ReferenceEngine
from polyadic.features import TensorLayout
from polyadic.samples import Samples
from polyadic.samples.memory import MemorySamples, Workers, predict

if TYPE_CHECKING:
    from polyadic.device import DeviceCompute

ENGINES = ("auto", "reference")


@dataclass(frozen=True)
class Compute:
    """An engine, the rows of a chunk, and the threads that chunks are spread over."""

    engine: Engine
    chunk_size: int
    workers: Workers

    @classmethod
    @contextmanager
    def open(
        cls,
        *,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = "float64",
        chunk_size: int | str = "auto",
        memory_limit: float | str | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[Compute | DeviceCompute]:
        """Hold threads for the length of a fit or a prediction."""
        if device not in (None, "cpu"):
            from polyadic.device import DeviceCompute

            yield DeviceCompute.open(device, dtype, chunk_size, memory_limit)
            return
        rows = 4096 if isinstance(chunk_size, str) else chunk_size
        with Workers(_openmp_effective_n_threads(n_jobs)).open() as workers:
            yield cls(ReferenceEngine(dtype), rows, workers)

    def samples(self, rows: Rows, layout: TensorLayout) -> Samples:
        """Return the samples of one target's rows."""
        return MemorySamples(self.engine, rows, layout, self.chunk_size, self.workers)

    def predict(
        self,
        X: NDArray[Any],
        cores: Cores,
        weights: NDArray[np.float64],
        layout: TensorLayout,
    ) -> NDArray[np.float64]:
        """Return the response of every row of `X`."""
        return predict(self.engine, X, cores, weights, layout, self.chunk_size, self.workers)

"""How rows are cut into chunks, and whether the state of a fit fits in memory."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.samples.workers import Workers

# Less work is not worth handing to another thread.
_LEAST_SECONDS = 750e-6
# From some megabytes on, memory comes in large pages, which the processor finds sooner.
_MOST_BYTES = 12_000_000
# Chunks that a large problem has at least; smaller ones have a power of two, so that threads
# share them evenly.
_CHUNKS = 16
# Rows are computed in blocks: a part of one costs as much as the whole.
_BLOCK = 64
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def auto_chunk_size(n_rows: int, layout: TensorLayout, rank: int) -> int:
    """Return the rows of a chunk: enough to be worth a thread, few enough to share.

    It depends on the problem alone, not on the number of threads, so that neither do the
    results.
    """
    columns = (2 if layout.is_complex else 1) * max(layout.core_sizes) * rank
    elements = rank * len(layout.maps)
    # Seconds a row takes in a step, about: 1.5 ns an element, 45 billion sums a second.
    seconds = 1.5e-9 * elements + columns**2 / 45e9
    least, most = int(_LEAST_SECONDS / seconds), _MOST_BYTES // (16 * elements)
    rows = max(256, least, min(most, n_rows // _CHUNKS))
    n_chunks = max(1, round(n_rows / rows))
    if n_chunks < _CHUNKS:
        n_chunks = 2 ** round(math.log2(n_chunks))
    return max(1, -(-n_rows // (n_chunks * _BLOCK))) * _BLOCK


def parse_bytes(limit: float | str) -> float:
    """Return the number of bytes that `memory_limit` says, for instance "1.5GB"."""
    if not isinstance(limit, str):
        return float(limit)
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(i?)b?\s*", limit, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"`memory_limit` must be a number of bytes or a string like '1.5GB', got {limit!r}."
        )
    number, unit, binary = match.groups()
    scale = _UNITS[unit.lower()]
    if binary:
        scale = 1024 ** ("kmgt".index(unit.lower()) + 1) if unit else 1
    return float(number) * scale


class Budget:
    """Memory that the states of all samples of a fit may take together.

    Parameters
    ----------
    limit : float or str, optional
        Bytes, or a string like "1.5GB"; by default there is no limit.
    """

    def __init__(self, limit: float | str | None = None) -> None:
        self.limit = None if limit is None else parse_bytes(limit)
        self._reserved = 0.0
        self._samples: WeakSet[Any] = WeakSet()

    def reserve(self, taken: float) -> None:
        """Set bytes of the limit aside for what is not state."""
        self._reserved = taken

    def enter(self, samples: Any) -> None:
        """Count the rows of these samples for as long as they live."""
        self._samples.add(samples)

    def fit(
        self, engine: Engine, layout: TensorLayout, rank: int, chunk_size: int, workers: Workers
    ) -> Engine:
        """Return the engine, made to keep no state where the state would not fit."""
        if self.limit is None:
            return engine
        from polyadic.engines.compiled.engine import CompiledEngine

        assert isinstance(engine, CompiledEngine)
        limit = self.limit - self._reserved
        n_rows = sum(len(samples) for samples in self._samples)
        kept = engine.state_bytes(n_rows, layout, rank)
        if kept <= limit:
            return engine
        scratch = min(n_rows, chunk_size * workers.n_jobs)
        free = replace(engine, keep=False)
        needed = free.state_bytes(n_rows, layout, rank) + engine.state_bytes(scratch, layout, rank)
        if needed > limit:
            raise MemoryError(
                f"`memory_limit` must be at least {(needed + self._reserved) / 1e6:.3g} MB for "
                f"{n_rows} rows, rank {rank} and {len(layout.maps)} feature maps "
                f"({kept / 1e6:.3g} MB to keep the state, which is faster), got "
                f"{self.limit / 1e6:.3g} MB. Raise it, or lower "
                "rank, chunk_size, n_jobs or the number of feature maps."
            )
        return free

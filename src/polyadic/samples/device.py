"""Rows on a torch device, as close to it as its memory allows.

A fit takes the first of these places that has room:

- "state": rows and products stay on the device, which is fastest;
- "rows": rows stay, products are formed in each step;
- "host": rows wait in pinned host memory, and are copied while others are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines import State
from polyadic.engines.torch.engine import TorchEngine, as_tensor
from polyadic.features import TensorLayout
from polyadic.model.conjugate import CoreSketch
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows
from polyadic.samples.memory import slices
from polyadic.samples.placement import MemoryPlan, bytes_by_place, iterating_is_cheaper
from polyadic.samples.workers import A, add_up

# Memory of the block of one chunk.  Blocks come and go, and a large one is as fast as a
# huge one.
_BLOCK_BYTES = 3 * 2**30
# How much faster than a processor a GPU computes rows, the seconds in which a question is asked
# and answered, and bytes that are copied a second.
_SPEED, _ROUND_TRIP, _COPIED = 500.0, 200e-6, 20e9
# What the library's own pieces, partial sums and fragmentation may take of the free memory.
_USABLE = 0.9


class DeviceSamples:
    """The rows of one target on a torch device.

    Parameters
    ----------
    engine : TorchEngine
        Computes one chunk.
    rows : Rows
        NumPy arrays, or tensors on any device; scaled, unless `see` does that.
    layout : TensorLayout
        Which core sees what.
    chunk_size : int, optional
        Rows of a chunk; by default as many as fill a few gigabytes with their block.
    memory : MemoryPlan, optional
        Its limit is of device memory; without, what is free when the fit starts is used.
    see : callable, optional
        Returns rows as the fit sees them, where rows are not scaled yet.
    """

    def __init__(
        self,
        engine: TorchEngine,
        rows: Rows,
        layout: TensorLayout,
        chunk_size: int | None = None,
        memory: MemoryPlan | None = None,
        see: Callable[[Rows], Rows] | None = None,
    ) -> None:
        self._engine, self._rows, self._layout, self._see = engine, rows, layout, see
        self._chunk_size, self._memory = chunk_size, memory or MemoryPlan()
        self._rank = 0
        self._chunks: list[Rows] = []
        self._states: list[State] = []
        self._cores: Cores = []
        self._as_given = False
        self.place = ""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def stateless(self) -> bool:
        """Whether nothing is kept between steps."""
        return self.place != "state"

    def start(self, cores: Cores) -> None:
        """Rebuild the state of every chunk for these cores."""
        self._cores = list(cores)
        rank = cores[0].shape[1]
        if rank != self._rank:
            self._rank, self._chunks, self._states = rank, [], []
            self._prepare(rank)
        if self.place == "state":
            if self._states:
                self._states = [state.restart(cores) for state in self._states]
            else:
                start, layout = self._engine.start, self._layout
                self._states = [start(rows, cores, layout) for rows in self._chunks]

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._add_up(lambda state: state.normal_equations(core, map_weights)).on_host()

    def iterates(self, core: int) -> bool:
        """Whether conjugate gradients are the cheaper way to solve one core."""
        problem = (self._layout, core, self._rank, len(self))
        if self._engine.device.type == "cpu":
            return iterating_is_cheaper(*problem, stateless=self.stateless)
        rows = self._engine.keeping(False).state_bytes(len(self), self._layout, self._rank)
        copying = rows / _COPIED if self.place == "host" else 0.0
        return iterating_is_cheaper(
            *problem,
            _ROUND_TRIP + copying,
            stateless=self.stateless,
            speed=_SPEED,
            sending=8 / _COPIED,
        )

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from."""
        return self._add_up(lambda state: state.core_sketch(core)).on_host()

    def gram_product(self, core: int, value: NDArray[Any]) -> NDArray[np.float64]:
        """Return AᵀA v for v of the shape of one core."""
        return self._add_up(lambda state: state.gram_product(core, value)).on_host().value

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""
        self._cores[core] = value
        for state in self._states:
            state.commit(core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._add_up(lambda state: state.mixing_equations()).on_host()

    def _add_up(self, sums_of: Callable[[State], A]) -> A:
        """Add up all chunks, on the device."""
        total = add_up(map(sums_of, self._each_state()))
        assert total is not None  # there is a chunk at least
        return total

    def _each_state(self) -> Iterator[State]:
        if self.place == "state":
            yield from self._states
            return
        chunks = _stream(self._engine, self._chunks) if self.place == "host" else self._chunks
        for rows in chunks:
            ready = self._bring(rows) if self._as_given else rows
            yield self._engine.start(ready, self._cores, self._layout)

    def _prepare(self, rank: int) -> None:
        """Decide what stays on the device, and bring it there."""
        size = self._chunk_size or self._auto_chunk_size(rank)
        # Rows that users put on the device take no further memory, whatever place is chosen.
        is_there = self._engine.holds(self._rows.X)
        self.place = self._find_place(rank, min(size, len(self)), is_there)
        parts = slices(len(self), size)
        keep = self.place == "state"
        self._engine = self._engine.keeping(keep, keep_block=keep and len(parts) == 1)
        # Rows that are on the device are scaled chunk by chunk, and need no copy of all.
        self._as_given = self.place == "rows" and is_there
        bring = self._pin if self.place == "host" else self._bring
        for part in parts:
            chunk = self._rows.take(part)
            self._chunks.append(chunk if self._as_given else bring(chunk))

    def _auto_chunk_size(self, rank: int) -> int:
        """Return rows of a chunk whose block takes a few gigabytes, in chunks of equal size."""
        scratch = self._engine.keeping(True).scratch_bytes(len(self), self._layout, rank)
        # Where a step needs little beside them, the rows themselves are what is large.
        rows = self._engine.keeping(False).state_bytes(len(self), self._layout, rank)
        return -(-len(self) // max(1, math.ceil(max(scratch, rows) / _BLOCK_BYTES)))

    def _find_place(self, rank: int, size: int, is_there: bool) -> str:
        """Return the place nearest to the device that has room."""
        engine, layout = self._engine.keeping(True), self._layout
        stateless = engine.keeping(False)
        scratch = stateless.scratch_bytes(size, layout, rank)
        on_the_way = stateless.state_bytes(size, layout, rank)  # a copy of a chunk's rows
        needed = bytes_by_place(engine, layout, rank, len(self), size)
        if is_there:
            needed["rows"] = needed["host"] = scratch
        else:
            # Two chunks are on the device at a time: one is computed, the next one copied.
            needed["host"] = scratch + 2 * on_the_way
        needed = {place: n_bytes + on_the_way for place, n_bytes in needed.items()}
        return self._memory.place(
            needed,
            f" for chunks of {size} rows",
            "chunk_size or rank",
            free=available(engine.device) if self._memory.limit is None else None,
        )

    def _apply_view(self, rows: Rows) -> Rows:
        return rows if self._see is None else self._see(rows)

    def _bring(self, rows: Rows) -> Rows:
        """Bring a chunk to the device in the engine's precision; what is there is not copied."""
        engine = self._engine
        return self._apply_view(engine.upload(rows)).map(lambda array: array.to(engine.dtype))

    def _pin(self, rows: Rows) -> Rows:
        """Copy a chunk to host memory that the device can read by itself."""
        engine = self._engine

        def pin(array: Any) -> Tensor:
            tensor = as_tensor(array).to("cpu", engine.dtype).contiguous()
            return tensor.pin_memory() if engine.device.type == "cuda" else tensor

        return self._apply_view(rows).map(pin)


def available(device: torch.device) -> float:
    """Return the bytes of device memory that a fit may take now."""
    if device.type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return _USABLE * float(free + cached)


def _stream(engine: TorchEngine, chunks: list[Rows]) -> Iterator[Rows]:
    """Yield chunks on the device; the next one is copied while this one is computed."""
    if engine.device.type != "cuda":
        yield from chunks
        return
    copying: Any = torch.cuda.Stream(engine.device)  # type: ignore[no-untyped-call]
    computing = torch.cuda.current_stream(engine.device)

    def fetch(chunk: Rows) -> Rows:
        with torch.cuda.stream(copying):
            return engine.upload(chunk)

    fetched, before = fetch(chunks[0]), None
    for upcoming in [*chunks[1:], None]:
        computing.wait_stream(copying)
        for array in (fetched.X, fetched.y, fetched.weight):
            if array is not None:
                array.record_stream(computing)  # type: ignore[attr-defined]
        yield fetched
        this = computing.record_event()
        if before is not None:
            before.synchronize()  # no more than two chunks are on the device
        before = this
        if upcoming is not None:
            fetched = fetch(upcoming)

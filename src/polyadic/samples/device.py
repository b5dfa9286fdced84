"""Rows on a torch device, as close to it as its memory allows.

A fit takes the first of these places that has room:

- "state": rows and products stay on the device, which is fastest;
- "rows": rows stay, products are formed in each step;
- "host": rows wait in pinned host memory, and are copied while others are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch.eager import State
from polyadic.engines.torch.engine import TorchEngine, as_tensor, equations
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows

# Memory of the block of one chunk.  Blocks come and go, and a large one is as fast as a
# huge one.
_BLOCK_BYTES = 3 * 2**30
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
    memory : float, optional
        Bytes of device memory to use; by default what is free when the fit starts.
    see : callable, optional
        Returns rows as the fit sees them, where rows are not scaled yet.
    """

    def __init__(
        self,
        engine: TorchEngine,
        rows: Rows,
        layout: TensorLayout,
        chunk_size: int | None = None,
        memory: float | None = None,
        see: Callable[[Rows], Rows] | None = None,
    ) -> None:
        self._engine, self._rows, self._layout, self._see = engine, rows, layout, see
        self._chunk_size, self._memory = chunk_size, memory
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
        """Make the state of every chunk anew for these cores."""
        self._cores = list(cores)
        rank = cores[0].shape[1]
        if rank != self._rank:
            self._rank, self._chunks, self._states = rank, [], []
            self._prepare(rank)
        if self.place == "state":
            start, restart = self._engine.start, self._engine.restart
            if self._states:
                self._states = [restart(state, cores) for state in self._states]
            else:
                self._states = [start(rows, cores, self._layout) for rows in self._chunks]
                self._states[0].alone = len(self._states) == 1

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sum(lambda state: self._engine.core_sums(state, core, weights))

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""
        self._cores[core] = value
        for state in self._states:
            self._engine.commit(state, core, value)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sum(self._engine.mixing_sums)

    def _sum(self, sums_of: Callable[[State], Tensor]) -> NormalEquations:
        """Add up all chunks on the device, and bring the sum to the host."""
        total = 0.0

        def parts() -> Iterator[Tensor]:
            nonlocal total
            for state in self._each_state():
                total += state.total
                yield sums_of(state)

        sums = reduce(add, parts())
        return equations(sums, total)

    def _each_state(self) -> Iterator[State]:
        if self.place == "state":
            yield from self._states
            return
        chunks = _streamed(self._engine, self._chunks) if self.place == "host" else self._chunks
        for rows in chunks:
            ready = self._resident(rows) if self._as_given else rows
            yield self._engine.start(ready, self._cores, self._layout)

    def _prepare(self, rank: int) -> None:
        """Decide what stays on the device, and bring it there."""
        plan = MemoryPlan.of(self._rows, self._layout, rank, self._engine)
        size = self._chunk_size or plan.chunk_size
        limit = available(self._engine.device) if self._memory is None else self._memory
        self.place = plan.place(min(size, len(self)), limit)
        self._engine = self._engine.keeping(self.place == "state")
        self._as_given = self.place == "rows" and plan.is_there
        bring = self._pinned if self.place == "host" else self._resident
        for first in range(0, len(self), size):
            chunk = self._rows.take(slice(first, first + size))
            self._chunks.append(chunk if self._as_given else bring(chunk))

    def _seen(self, rows: Rows) -> Rows:
        return rows if self._see is None else self._see(rows)

    def _resident(self, rows: Rows) -> Rows:
        """Bring a chunk to the device in the engine's precision; what is there is not copied."""
        engine = self._engine
        return self._seen(engine.upload(rows)).map(lambda array: array.to(engine.dtype))

    def _pinned(self, rows: Rows) -> Rows:
        """Copy a chunk to host memory that the device can read by itself."""
        engine = self._engine

        def pin(array: Any) -> Tensor:
            tensor = as_tensor(array).to("cpu", engine.dtype).contiguous()
            return tensor.pin_memory() if engine.device.type == "cuda" else tensor

        return self._seen(rows).map(pin)


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a fit needs on the device, for each row.

    Parameters
    ----------
    rows, features, products, block : int
        Bytes of a row's data, of its features, of its products and of its block.
    n_rows : int
        Number of rows.
    is_there : bool
        Whether they are on the device already, so that steps without products can scale them
        chunk by chunk and need no copy of all.
    """

    rows: int
    features: int
    products: int
    block: int
    n_rows: int
    is_there: bool = False

    @classmethod
    def of(cls, rows: Rows, layout: TensorLayout, rank: int, engine: TorchEngine) -> MemoryPlan:
        """Count the bytes of a row."""
        item = engine.dtype.itemsize
        field = (2 if layout.is_complex else 1) * item
        n_maps = len(layout.maps)
        columns = 2 * max(layout.core_sizes) * rank + 4
        # Plain PyTorch holds the block and two copies of it at a time.
        block = columns * engine.block_dtype.itemsize * (1 if engine.fuses(layout) else 3)
        scaling = 3 * 8 * (rows.X.shape[1] + 1)  # doubles on their way to the engine's precision
        if layout.quantized:
            features = n_maps * (len(layout.n_basis) + 1) * field
        else:
            features = n_maps * sum(layout.n_basis) * field
        return cls(
            rows=(rows.X.shape[1] + 4) * item,
            features=features,
            products=n_maps * rank * field,
            block=max(block, scaling),
            n_rows=len(rows),
            is_there=engine.holds(rows.X),
        )

    @property
    def chunk_size(self) -> int:
        """Rows of a chunk whose block takes a few gigabytes, in chunks of equal size."""
        n_chunks = -(-self.n_rows * self.block // _BLOCK_BYTES)
        return -(-self.n_rows // n_chunks)

    def place(self, chunk_size: int, limit: float) -> str:
        """Return the place nearest to the device that `limit` bytes allow."""
        scratch = chunk_size * (self.block + self.rows)
        if self.n_rows * (self.rows + self.features + self.products) + scratch <= limit:
            return "state"
        scratch += chunk_size * self.features
        if (0 if self.is_there else self.n_rows * self.rows) + scratch <= limit:
            return "rows"
        if not self.is_there:
            scratch += 2 * chunk_size * self.rows
        if scratch <= limit:
            return "host"
        raise MemoryError(
            f"`memory_limit` must be at least {scratch / 1e6:.3g} MB for chunks of {chunk_size} "
            f"rows, got {limit / 1e6:.3g} MB. Raise it, or lower chunk_size or rank."
        )


def available(device: torch.device) -> float:
    """Return the bytes of device memory that a fit may take now."""
    if device.type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return _USABLE * float(free + cached)


def _streamed(engine: TorchEngine, chunks: list[Rows]) -> Iterator[Rows]:
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

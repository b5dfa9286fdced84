"""How rows are cut into chunks, and where they find room: one planner for all samples.

Samples give the bytes that each place takes, the fastest place first, counted by the
engine; the planner knows the limit and returns the first place that has room.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Mapping, Sized
from typing import Any, Protocol
from weakref import WeakSet

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.conjugate import MAX_ITER

# Less work is not worth handing to another thread.
_LEAST_SECONDS = 750e-6
# From some megabytes on, memory comes in large pages, which the processor finds sooner.
_MOST_BYTES = 12_000_000
# Chunks that a large problem has at least; smaller ones have a power of two, so that threads
# share them evenly.
_CHUNKS = 16
# Rows of a chunk of inputs with tables, at least and at most.
_LEAST_TABLED, _MOST_TABLED = 1024, 65_536
# Rows are computed in blocks: a part of one costs as much as the whole.
_BLOCK = 64
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def auto_chunk_size(n_rows: int, layout: TensorLayout, rank: int) -> int:
    """Return the rows of a chunk: enough to be worth a thread, few enough to share.

    It depends on the problem alone, not on the number of threads, so that neither do the
    results.
    """
    if layout.is_tabled:
        # A chunk contracts tables of its own in every pass, so many small ones are dear.
        return int(min(max(n_rows // _CHUNKS, _LEAST_TABLED), _MOST_TABLED))
    columns = (2 if layout.is_complex else 1) * max(layout.core_sizes) * rank
    elements = rank * len(layout.maps)
    # Seconds a row takes in a step, about: 1.5 ns an element, 45 billion sums a second.
    seconds = 1.5e-9 * elements + columns**2 / 45e9
    least, most = int(_LEAST_SECONDS / seconds), _MOST_BYTES // (16 * elements)
    rows = max(256, least, min(most, n_rows // _CHUNKS))
    n_chunks = max(1, round(n_rows / rows))
    # Threads mostly come in powers of two; of many chunks the last round hardly matters.
    if n_chunks < _CHUNKS:
        n_chunks = 2 ** round(math.log2(n_chunks))
    return max(1, -(-n_rows // (n_chunks * _BLOCK))) * _BLOCK


def iterating_is_cheaper(
    layout: TensorLayout,
    core: int,
    rank: int,
    n_rows: float,
    round_trip: float = 30e-6,
    *,
    stateless: bool = False,
    speed: float = 1.0,
    sending: float = 0.0,
) -> bool:
    """Whether conjugate gradients take less time for a core than its Gram matrix.

    Only layouts of tables are solved so.

    Parameters
    ----------
    layout, core, rank, n_rows
        The problem; `n_rows` are those that one processor has to itself.
    round_trip : float
        Seconds that a pass over the rows takes beside its arithmetic.
    stateless : bool
        Whether every pass forms the products anew.
    speed : float
        How many times faster than a processor the rows are computed.
    sending : float
        Seconds that each number of the sums is on its way to the driver.
    """
    if not layout.is_tabled:
        return False
    unknowns, elements = layout.core_sizes[core] * rank, n_rows * rank / speed
    # Seconds, about: 1.5 ns an element for a pass, 0.5 ns for each factor of a product, 30 billion
    # operations of BLAS a second.
    products = 0.5e-9 * len(layout.core_sizes) * elements if stateless else 0.0
    before = products + round_trip
    a_pass = 1.5e-9 * elements + sending * unknowns + before
    direct = (n_rows / speed + unknowns / 3) * unknowns**2 / 30e9 + sending * unknowns**2 + before
    return (MAX_ITER + 2) * a_pass + rank**3 / 1e9 < direct


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


def bytes_by_place(
    engine: Engine, layout: TensorLayout, rank: int, n_rows: int, at_a_time: int
) -> dict[str, float]:
    """Return what rows take in memory, with and without kept products, fastest place first."""

    def needed(engine: Engine) -> float:
        state = engine.state_bytes(n_rows, layout, rank)
        return state + engine.scratch_bytes(min(n_rows, at_a_time), layout, rank)

    kept = {"state": needed(engine)} if engine.keep else {}
    return {**kept, "rows": needed(engine.keeping(False))}


class Waiting(Protocol):
    """Samples that wait for a place."""

    layout: TensorLayout
    place: str

    @property
    def n_rows(self) -> int:
        """Rows to expect."""


class MemoryPlan:
    """Memory that all samples of a fit share: each gets the first place that has room.

    Parameters
    ----------
    limit : float or str, optional
        Bytes, or a string like "1.5GB"; by default there is no limit.
    """

    def __init__(self, limit: float | str | None = None) -> None:
        self.limit = None if limit is None else parse_bytes(limit)
        self.lock = threading.RLock()
        self.reserved = 0.0
        self.is_used = False
        self._entered: WeakSet[Any] = WeakSet()
        self._waiting: WeakSet[Any] = WeakSet()

    def reserve(self, n_bytes: float) -> None:
        """Set bytes of the limit aside for what is not state."""
        self.reserved = n_bytes

    def enter(self, samples: Sized) -> None:
        """Count the rows of these samples for as long as they live."""
        self._entered.add(samples)

    @property
    def n_rows(self) -> int:
        """Rows of all samples that entered."""
        return sum(len(samples) for samples in self._entered)

    def place(
        self,
        needed: Mapping[str, float],
        purpose: str,
        remedy: str,
        *,
        taken: float = 0.0,
        free: float | None = None,
    ) -> str:
        """Return the first place that has room.

        Parameters
        ----------
        needed : mapping of str to float
            Bytes of each place, the fastest place first.
        purpose, remedy : str
            What the memory is for, and what to lower, for the error where no place has room.
        taken : float
            Bytes of the limit that are taken already.
        free : float, optional
            Bytes that are free, where another limit than this one counts.
        """
        limit = math.inf if self.limit is None else self.limit
        room = limit - taken if free is None else free
        for place, n_bytes in needed.items():
            if n_bytes <= room:
                return place
        least, fastest = min(needed.values()), next(iter(needed.values()))
        faster = f" ({_mega(fastest + taken)} to keep the state, which is faster)"
        what, got = ("The free memory", room) if free is not None else ("`memory_limit`", limit)
        raise MemoryError(
            f"{what} must be at least {_mega(least + taken)}{purpose}"
            f"{faster if fastest > least else ''}, got {_mega(got)}. Raise it, or lower {remedy}."
        )

    def wait(self, samples: Waiting) -> None:
        """Count these samples until they have a place."""
        self._waiting.add(samples)

    def place_alike(self, samples: Waiting, place_of: Callable[[int], str]) -> None:
        """Decide where the rows of all waiting samples with this layout are kept."""
        # One fit makes all its samples with the same layout object before it starts any, so
        # those that share it will be in memory at the same time.
        alike = [each for each in self._waiting if each.layout is samples.layout]
        place = place_of(sum(each.n_rows for each in alike))
        for each in alike:
            each.place = place
            self._waiting.discard(each)
        self.is_used = True


def _mega(n_bytes: float) -> str:
    return f"{max(n_bytes, 0) / 1e6:.3g} MB"

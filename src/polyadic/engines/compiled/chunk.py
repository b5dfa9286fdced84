"""What every chunk of the compiled engine has: the bookkeeping of its products.

The state of a chunk is Z, for every map the product of the factors of all cores but one.
A step brings Z on from the core solved last to the next one, multiplying by one factor
and dividing by another, and assembles the block of the Gram matrix in the same pass:

    Z without core 3 ── × f₃(new) ÷ f₄ ──► Z without core 4 ──► M ──► M Mᵀ

A sample whose divisor is zero or cancels is computed again as a plain product.  Where the
state may not be kept, Z is made anew in every step by the same product.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows

_threads = threading.local()


def scratch(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return memory of this thread; fresh pages in every step would cost as much as the work."""
    size = shape[0] * shape[1]
    if getattr(_threads, "memory", np.empty(0)).nbytes < size * dtype.itemsize:
        _threads.memory = np.empty(size * dtype.itemsize, dtype=np.uint8)
    memory: NDArray[Any] = _threads.memory
    return memory[: size * dtype.itemsize].view(dtype).reshape(shape)


class Chunk(ABC):
    """State of one chunk: which core the product of each map lacks, and the bookkeeping.

    Parameters
    ----------
    rows : Rows
        The chunk.
    cores : list of ndarray
        The cores as they are.
    layout : TensorLayout
        Which core sees what.
    dtype : numpy.dtype
        Real precision of state and assembly.
    keep : bool
        Whether the state is kept between steps.
    """

    def __init__(
        self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: Any, keep: bool
    ) -> None:
        self.rows, self.layout = rows, layout
        self.dtype, self.keep = np.dtype(dtype), keep
        self.weight = float(len(rows)) if rows.weight is None else float(rows.weight.sum())
        # Which core the product of each map lacks; −1 where there is no valid product.
        self.lacks = np.full(len(layout.maps), -1)
        self.responses: NDArray[Any] | None = None
        self.set_cores(cores)

    @abstractmethod
    def set_cores(self, cores: Cores) -> None:
        """Take all cores anew."""

    @abstractmethod
    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Take one core anew."""

    @abstractmethod
    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; the products then lack core 0."""

    @abstractmethod
    def core_sums(
        self, core: int, weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core.

        The products of `maps` are brought to lack this core, by exchange where `lacks` says
        that they lack another one; `lacks` is brought up to date.
        """

    @abstractmethod
    def predict(self, weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""

    @abstractmethod
    def release(self) -> None:
        """Let go of the products."""

    def restart(self, cores: Cores) -> None:
        """Go on with other cores, in the same memory."""
        self.set_cores(cores)
        self.responses = None
        if self.keep:
            self.start()

    def start(self) -> None:
        """Make products and responses for the cores as they are."""
        self.responses = self.respond()
        self.lacks[:] = 0
        if not self.keep:
            self.forget()

    def forget(self) -> None:
        """Let go of the products and remember that there are none."""
        self.release()
        self.lacks[:] = -1

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core; only products that lack it stay valid."""
        self.set_core(core, value)
        self.lacks[self.lacks != core] = -1
        self.responses = None

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums of one core step."""
        sums = self.core_sums(core, weights.astype(self.dtype, copy=False), np.flatnonzero(weights))
        if not self.keep:
            self.forget()
        return NormalEquations(*sums, self.weight)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums of the responses."""
        if self.responses is None:
            self.start()
        assert self.responses is not None
        return NormalEquations.of(self.responses.T, self.rows.y, self.rows.weight)

"""What every chunk of the compiled engine has: the bookkeeping of its products.

The state of a chunk is Z, for every map the product of the factors of all cores but one.
A step brings Z on from the core solved last to the next one, multiplying by one factor
and dividing by another, and assembles the block of the Gram matrix in the same pass:

    Z without core 3 ── × f₃(new) ÷ f₄ ──► Z without core 4 ──► M ──► M Mᵀ

A sample whose divisor is zero or cancels is computed again as a plain product.  Where the
state may not be kept, Z is made anew in every step by the same product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows


class Chunk(ABC):
    """State of one chunk: which core is left out of each map's product, and the bookkeeping.

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
        self.total_weight = float(len(rows)) if rows.weight is None else float(rows.weight.sum())
        # For each map, the core left out of its stored product Z; −1 if Z is invalid.
        self.left_out = np.full(len(layout.maps), -1)
        self.responses: NDArray[Any] | None = None
        self.set_cores(cores)

    @abstractmethod
    def set_cores(self, cores: Cores) -> None:
        """Replace all cores."""

    @abstractmethod
    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""

    @abstractmethod
    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; core 0 is left out of the products."""

    @abstractmethod
    def core_sums(
        self, core: int, map_weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core.

        The products of `maps` are brought to leave this core out, by exchange where `left_out`
        names another one, which is brought up to date.
        """

    @abstractmethod
    def predict(self, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""

    @abstractmethod
    def columns(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return [Re A, −Im A]ᵀ of one core, or Aᵀ where everything is real.

        For a chunk that has no state yet.
        """

    @abstractmethod
    def release(self) -> None:
        """Free the memory of the products."""

    def restart(self, cores: Cores) -> Chunk:
        """Go on with other cores, in the same memory."""
        self.set_cores(cores)
        self.responses = None
        return self.start()

    def start(self) -> Chunk:
        """Compute the products that are kept; without any, each step computes its own."""
        if self.keep:
            self._respond()
        return self

    def _respond(self) -> NDArray[Any]:
        """Make responses, and the products that come with them."""
        self.responses = self.respond()
        self.left_out[:] = 0
        if not self.keep:
            self.forget()
        return self.responses

    def forget(self) -> None:
        """Free the products, and record that there are none."""
        self.release()
        self.left_out[:] = -1

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core; only products it is left out of stay valid."""
        self.set_core(core, value)
        self.left_out[self.left_out != core] = -1
        self.responses = None

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        maps = np.flatnonzero(map_weights)
        sums = self.core_sums(core, map_weights.astype(self.dtype, copy=False), maps)
        if not self.keep:
            self.forget()
        return NormalEquations(*sums, self.total_weight)

    def core_sketch(self, core: int) -> CoreSketch:
        """Raise: only layouts of tables are solved by conjugate gradients."""
        raise NotImplementedError("Only layouts of tables have a sketch.")

    def gram_product(self, core: int, value: NDArray[Any]) -> GramProduct:
        """Raise: only layouts of tables are solved by conjugate gradients."""
        raise NotImplementedError("Only layouts of tables have products.")

    def mixing_equations(self) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""
        responses = self._respond() if self.responses is None else self.responses
        return NormalEquations.of(responses.T, self.rows.y, self.rows.weight)

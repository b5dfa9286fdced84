"""The compiled engine: near the hardware's limit on one core, a chunk at a time.

Two kinds of chunk do the work: `PolarChunk` for quantized Fourier features, whose factors
are all [1, e], and `GeneralChunk` for whatever else there is.  `_chunk.py` tells what
state is kept; `_kernels.py`, `_assembly.py` and `_gram.py` are the inner loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled.chunk import Chunk
from polyadic.engines.compiled.general import GeneralChunk
from polyadic.engines.compiled.polar import PolarChunk
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows


@dataclass(frozen=True)
class CompiledEngine:
    """Numba kernels, one call a chunk and step.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        Precision of state and assembly; sums are always double.
    keep : bool
        Whether state is kept between steps, N·R·P numbers in all; if not, every step
        makes its products anew, slower by about half the number of cores.
    hermitian : bool
        Whether only AᴴA is wanted of the Gram matrix, which is all that the complex objective
        needs; with a single map that is a quarter less work.
    """

    dtype: str = "float64"
    keep: bool = True
    hermitian: bool = False

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> Chunk:
        """Return the state of a chunk for these cores."""
        chunk = self._chunk(rows, cores, layout)
        if self.keep:  # else every step makes what it needs
            chunk.start()
        return chunk

    def restart(self, state: Chunk, cores: Cores) -> Chunk:
        """Return the state for other cores of the same sizes, in the same memory."""
        state.restart(cores)
        return state

    def normal_equations(
        self, state: Chunk, core: int, weights: NDArray[np.float64]
    ) -> NormalEquations:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        return state.normal_equations(core, weights)

    def commit(self, state: Chunk, core: int, value: NDArray[Any]) -> None:
        """Replace one core in the state."""
        state.commit(core, value)

    def mixing_equations(self, state: Chunk) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""
        return state.mixing_equations()

    def predict(
        self,
        X: NDArray[Any],
        cores: Cores,
        weights: NDArray[np.float64],
        layout: TensorLayout,
    ) -> NDArray[Any]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""
        return self._chunk(Rows(X, np.zeros(len(X))), cores, layout).predict(weights)

    def _chunk(self, rows: Rows, cores: Cores, layout: TensorLayout) -> Chunk:
        if PolarChunk.suits(layout):
            return PolarChunk(rows, cores, layout, self.dtype, self.keep, self.hermitian)
        return GeneralChunk(rows, cores, layout, self.dtype, self.keep)

    def state_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> int:
        """Return the memory that the state of `n_rows` rows takes."""
        n_maps, numbers = len(layout.maps), 2 if layout.is_complex else 1
        responses = n_maps
        inputs = 2 * (len(layout.n_basis) + 1)  # in double precision
        kept = numbers * rank * n_maps if self.keep else 0
        return n_rows * (kept + responses + inputs) * np.dtype(self.dtype).itemsize

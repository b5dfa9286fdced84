"""Chunks of quantized Fourier features: every factor is [1, e] with e = ρ·exp(2πj·x/θ)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled import kernels
from polyadic.engines.compiled.assembly import assemble_columns, core_sums
from polyadic.engines.compiled.chunk import Chunk
from polyadic.engines.compiled.gram import COLUMNS
from polyadic.engines.compiled.kernels import BLOCK
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.scratch import scratch
from polyadic.rows.rows import Rows

# |f|² relative to |w₀|² + |e·w₁|² below which a factor is not divided by.
_UNSAFE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}


class PolarChunk(Chunk):
    """A chunk whose features the kernels make themselves, from the inputs.

    With `hermitian`, only AᴴA is wanted of the Gram matrix.
    """

    def __init__(
        self,
        rows: Rows,
        cores: Cores,
        layout: TensorLayout,
        dtype: Any,
        keep: bool,
        hermitian: bool,
    ) -> None:
        super().__init__(rows, cores, layout, dtype, keep)
        self.hermitian = hermitian
        n = len(rows)
        self.padded = -(-n // BLOCK) * BLOCK
        self.polar = np.array([m.wave() for m in layout.maps], dtype=np.float64)
        self.input_bit = np.array(layout.core_places)
        # The last row carries the shift of two-sided maps.
        self.x = np.zeros((rows.X.shape[1] + 1, self.padded))
        self.x[:-1, :n] = rows.X.T
        self.x[-1, :n] = rows.X @ (np.array(layout.n_basis) // 2)
        self.sqrt_weight = np.zeros(self.padded, dtype=self.dtype)
        self.sqrt_weight[:n] = 1.0 if rows.weight is None else np.sqrt(rows.weight)
        self.y = np.zeros(self.padded, dtype=self.dtype)
        self.y[:n] = rows.y
        self.y *= self.sqrt_weight
        self.unsafe = self.dtype.type(_UNSAFE[self.dtype])
        self.Z = np.empty(0, dtype=self.dtype)

    @staticmethod
    def suits(layout: TensorLayout) -> bool:
        """Whether all maps are waves, and all inputs quantized."""
        return layout.is_quantized and all(m.wave() is not None for m in layout.maps)

    def set_cores(self, cores: Cores) -> None:
        """Replace all cores; real and imaginary parts are stored apart."""
        stacked = np.array(cores, dtype=np.result_type(self.dtype, np.complex64))
        self.W = stacked.view(self.dtype).reshape(*stacked.shape, 2)

    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        parts = np.ascontiguousarray(value).view(np.float64)
        self.W[core] = parts.reshape(self.W[core].shape)

    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; core 0 is left out of the products."""
        self._provide()
        responses = np.empty((len(self.layout.maps), self.padded), dtype=self.dtype)
        kernels.products(self.Z, responses, self.x, self.input_bit, self.W, self.polar, 0)
        return responses[:, : len(self.rows)]

    def core_sums(
        self, core: int, map_weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core."""
        self._provide()
        size = 4 * self.W.shape[2]
        M = scratch((size + 1, min(self.padded, COLUMNS[self.dtype])), self.dtype)
        gram, moment = np.empty((size, size)), np.empty(size)
        target = core_sums(
            gram, moment, M, self.Z, self.left_out, self.x, self.y, self.sqrt_weight,
            self.input_bit, self.W, self.polar, maps, map_weights, core, self.unsafe,
            self.hermitian,
        )  # fmt: skip
        return gram, moment, target

    def _provide(self) -> None:
        """See that there is memory for the products."""
        if not self.Z.size:
            size = self.padded * self.W.shape[2] * len(self.layout.maps) * 2
            self.Z = np.empty(size, dtype=self.dtype)

    def predict(self, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""
        response, maps = np.zeros(self.padded), np.flatnonzero(map_weights)
        kernels.respond(response, map_weights, maps, self.x, self.input_bit, self.W, self.polar)
        return response[: len(self.rows)]

    def columns(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return [Re A, −Im A]ᵀ of one core."""
        M, maps = (
            np.empty((4 * self.W.shape[2], self.padded), self.dtype),
            np.flatnonzero(map_weights),
        )
        assemble_columns(M, self.x, self.input_bit, self.W, self.polar, maps, map_weights, core)
        return M[:, : len(self.rows)]

    def release(self) -> None:
        """Free the memory of the products."""
        self.Z = np.empty(0, dtype=self.dtype)

"""Chunks of quantized Fourier features: every factor is [1, e] with e = ρ·exp(2πj·x/θ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled import kernels
from polyadic.engines.compiled.assembly import core_sums
from polyadic.engines.compiled.chunk import Chunk, scratch
from polyadic.engines.compiled.gram import COLUMNS
from polyadic.engines.compiled.kernels import BLOCK
from polyadic.features import DampedFourierFeatures, FeatureMap, FourierFeatures, TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# 1/θ, ρ, and whether the frequencies begin at −I/2.  Exact types: a subclass may differ.
_POLAR: dict[type[FeatureMap], Callable[[Any], tuple[float, float, float]]] = {
    FourierFeatures: lambda m: (1 / m.period, 1.0, 1.0),
    DampedFourierFeatures: lambda m: (1 / m.period, m.decay, 0.0),
}

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
        self.polar = np.array([_POLAR[type(m)](m) for m in layout.maps])
        self.where = np.array(layout.input_bits)
        # The last row carries the shift of two-sided maps.
        self.x = np.zeros((rows.X.shape[1] + 1, self.padded))
        self.x[:-1, :n] = rows.X.T
        self.x[-1, :n] = rows.X @ (np.array(layout.n_basis) // 2)
        self.root = np.zeros(self.padded, dtype=self.dtype)
        self.root[:n] = 1.0 if rows.weight is None else np.sqrt(rows.weight)
        self.y = np.zeros(self.padded, dtype=self.dtype)
        self.y[:n] = rows.y
        self.y *= self.root
        self.unsafe = self.dtype.type(_UNSAFE[self.dtype])
        self.Z = np.empty(0, dtype=self.dtype)

    @staticmethod
    def suits(layout: TensorLayout) -> bool:
        """Whether all maps are Fourier features in quantized form."""
        return layout.quantized and all(type(m) in _POLAR for m in layout.maps)

    def set_cores(self, cores: Cores) -> None:
        """Take all cores anew, real and imaginary parts apart."""
        stacked = np.array(cores, dtype=np.result_type(self.dtype, np.complex64))
        self.W = stacked.view(self.dtype).reshape(*stacked.shape, 2)

    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Take one core anew."""
        parts = np.ascontiguousarray(value).view(np.float64)
        self.W[core] = parts.reshape(self.W[core].shape)

    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; the products then lack core 0."""
        self._provide()
        responses = np.empty((len(self.polar), self.padded), dtype=self.dtype)
        kernels.products(self.Z, responses, self.x, self.where, self.W, self.polar, 0)
        return responses[:, : len(self.rows)]

    def core_sums(
        self, core: int, weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core."""
        self._provide()
        size = 4 * self.W.shape[2]
        M = scratch((size + 1, min(self.padded, COLUMNS[self.dtype])), self.dtype)
        gram, moment = np.empty((size, size)), np.empty(size)
        target = core_sums(
            gram, moment, M, self.Z, maps, self.lacks, weights, self.x, self.y, self.root,
            self.where, self.W, self.polar, core, self.unsafe, self.hermitian,
        )  # fmt: skip
        return gram, moment, target

    def _provide(self) -> None:
        """See that there is memory for the products."""
        if not self.Z.size:
            size = self.padded * self.W.shape[2] * len(self.polar) * 2
            self.Z = np.empty(size, dtype=self.dtype)

    def predict(self, weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""
        response, maps = np.zeros(self.padded), np.flatnonzero(weights)
        kernels.respond(response, weights, maps, self.x, self.where, self.W, self.polar)
        return response[: len(self.rows)]

    def release(self) -> None:
        """Let go of the products."""
        self.Z = np.empty(0, dtype=self.dtype)

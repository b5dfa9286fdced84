"""Chunks of quantized Fourier features: every factor is [1, e] with e = ρ·exp(2πj·x/θ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cpd import Cores
from polyadic.engines import Rows, _kernels
from polyadic.engines._chunk import Chunk, scratch
from polyadic.engines._kernels import BLOCK
from polyadic.features import DampedFourierFeatures, FeatureMap, FourierFeatures, TensorLayout

# 1/θ, ρ, and whether the frequencies begin at −I/2.  Exact types: a subclass may differ.
_POLAR: dict[type[FeatureMap], Callable[[Any], tuple[float, float, float]]] = {
    FourierFeatures: lambda m: (1 / m.period, 1.0, 1.0),
    DampedFourierFeatures: lambda m: (1 / m.period, m.decay, 0.0),
}

# |f|² relative to |w₀|² + |e·w₁|² below which a factor is not divided by.
_UNSAFE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-6}


class PolarChunk(Chunk):
    """A chunk whose features the kernels make themselves, from the inputs."""

    def __init__(
        self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: Any, keep: bool
    ) -> None:
        super().__init__(rows, cores, layout, dtype, keep)
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
        self.flags = np.zeros(self.padded, dtype=bool)
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
        self.W[core, :, :, 0], self.W[core, :, :, 1] = value.real, value.imag

    def make(self, maps: NDArray[np.intp], without: int) -> None:
        """Make the product of all cores but one for some maps."""
        self._product(np.empty((0, 0), dtype=self.dtype), maps, without)

    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; the products then lack core 0."""
        responses = np.empty((len(self.polar), self.padded), dtype=self.dtype)
        self._product(responses, np.arange(len(self.polar)), 0)
        return responses[:, : len(self.rows)]

    def _product(self, responses: NDArray[Any], maps: NDArray[np.intp], without: int) -> None:
        if not self.Z.size:
            size = self.padded * self.W.shape[2] * len(self.polar) * 2
            self.Z = np.empty(size, dtype=self.dtype)
        _kernels.product(self.Z, responses, maps, self.x, self.where, self.W, self.polar, without)

    def assemble(
        self, core: int, weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[Any], NDArray[np.intp] | None]:
        """Return M of one core, and the samples, if any, for which a division was unsafe."""
        M = scratch((4 * self.W.shape[2] + 1, self.padded), self.dtype)
        M[-1] = self.y
        n_flagged = _kernels.assemble(
            M, self.flags, self.Z, maps, self.lacks, weights, self.x, self.root,
            self.where, self.W, self.polar, core, self.unsafe,
        )  # fmt: skip
        if not n_flagged:
            return M, None
        unsafe = np.flatnonzero(self.flags[: len(self.rows)])
        self.flags[:] = False
        return M, unsafe

    def predict(self, weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""
        response, maps = np.zeros(self.padded), np.flatnonzero(weights)
        _kernels.respond(response, weights, maps, self.x, self.where, self.W, self.polar)
        return response[: len(self.rows)]

    def take(self, index: NDArray[np.intp]) -> PolarChunk:
        """Return a chunk of some of the rows, with no state."""
        stacked = self.W.view(np.result_type(self.dtype, np.complex64))[..., 0]
        return PolarChunk(self.rows.take(index), list(stacked), self.layout, self.dtype, False)

    def put(self, index: NDArray[np.intp], maps: NDArray[np.intp], other: PolarChunk) -> None:
        """Overwrite the products of some rows by those of a chunk that `take` returned."""
        shape = (len(self.polar), -1, self.W.shape[2], 2, BLOCK)
        mine, exact = self.Z.reshape(shape), other.Z.reshape(shape)
        here, there = np.divmod(index, BLOCK), np.divmod(np.arange(len(index)), BLOCK)
        for p in maps:
            mine[p][here[0], :, :, here[1]] = exact[p][there[0], :, :, there[1]]

    def release(self) -> None:
        """Let go of the products."""
        self.Z = np.empty(0, dtype=self.dtype)

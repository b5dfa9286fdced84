"""Chunks of any features: factors come from the feature maps as arrays, n × size a core.

Products are stored as maps × rank × samples, complex or real as the layout is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled.chunk import Chunk
from polyadic.engines.compiled.gram import sums
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.jit import jit
from polyadic.rows.rows import Rows

# |f| relative to ‖ψ‖·‖w‖ below which a factor is not divided by.
_UNSAFE = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 1e-3}


class GeneralChunk(Chunk):
    """A chunk whose features are computed by the maps themselves, one core at a time."""

    def __init__(
        self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: Any, keep: bool
    ) -> None:
        field = np.complex64 if layout.is_complex else np.float32
        self.field = np.result_type(dtype, field)
        super().__init__(rows, cores, layout, dtype, keep)
        self.sqrt_weight = None if rows.weight is None else np.sqrt(rows.weight).astype(dtype)
        self.Z = np.empty((0, 0, 0), dtype=self.field)

    def set_cores(self, cores: Cores) -> None:
        """Replace all cores."""
        self.cores = [core.astype(self.field) for core in cores]

    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        self.cores[core] = value.astype(self.field)

    def respond(self) -> NDArray[Any]:
        """Return the P × n real responses of every map; core 0 is left out of the products."""
        maps = np.arange(len(self.layout.maps))
        self._make(maps, 0)
        each = ((self.Z[p] * self._response(p, 0)).sum(axis=0).real for p in maps.tolist())
        return np.stack(list(each))

    def core_sums(
        self, core: int, map_weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core."""
        return sums(self._weight_rows(self._assemble(core, map_weights, maps)))

    def columns(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return [Re A, −Im A]ᵀ of one core, or Aᵀ where everything is real."""
        maps, (size, rank) = np.flatnonzero(map_weights), self.cores[core].shape
        self._make(maps, core)
        shape = (2 if self.layout.is_complex else 1, size, rank, len(self.rows))
        parts = np.zeros(shape, self.dtype)
        for p in maps.tolist():
            psi, Z = map_weights[p].astype(self.dtype) * self._factor(p, core), self.Z[p]
            # Products below the normal numbers would take many times as long.
            _flush(psi.view(self.dtype))
            _flush(Z.view(self.dtype))
            if self.layout.is_complex:
                # Side by side, as processors like them.
                halves = (half.copy() for each in (Z, psi) for half in (each.real, each.imag))
                _accumulate_parts(*parts, *halves)
            else:
                _accumulate(parts[0], Z, psi, self.dtype.type(1))
        return parts.reshape(-1, len(self.rows))

    def products(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the product of all cores but one, for each map that takes part."""
        maps = np.flatnonzero(map_weights)
        self._make(maps, core)
        return self.Z[maps]

    def _make(self, maps: NDArray[np.intp], without: int) -> None:
        """Make the product of all cores but one for some maps."""
        if not self.Z.size:
            shape = (len(self.layout.maps), self.cores[0].shape[1], len(self.rows))
            self.Z = np.empty(shape, dtype=self.field)
        for p in maps.tolist():
            self.Z[p] = 1.0
            for core in range(len(self.cores)):
                if core != without:
                    self.Z[p] *= self._response(p, core)
        self.left_out[maps] = without

    def _assemble(
        self, core: int, map_weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> NDArray[Any]:
        """Return the transpose of A of one core, size·R × n."""
        self._make(maps[self.left_out[maps] < 0], core)
        n, (size, rank) = len(self.rows), self.cores[core].shape
        A = np.zeros((size, rank, n), dtype=self.field)
        flags = np.zeros(n, dtype=bool)
        for p in maps.tolist():
            psi = self._factor(p, core)
            if self.left_out[p] != core:
                w, into = self.cores[core], self._response(p, int(self.left_out[p]))
                # |wᵀψ| ≤ ‖w‖·‖ψ‖; a response far below that bound has lost its digits.
                features = np.linalg.norm(psi, axis=0)
                columns = np.linalg.norm(w, axis=0) * _UNSAFE[self.dtype]
                _exchange(self.Z[p], into, w.T @ psi, features, columns, flags)
            _accumulate(A, self.Z[p], psi, map_weights[p])
        self.left_out[maps] = core
        A = A.reshape(size * rank, n)
        if flags.any():
            # Samples for which a division was unsafe are made anew, as plain products.
            exact = self._take(flags)
            A[:, flags] = exact._assemble(core, map_weights, maps)
            for p in maps:
                self.Z[p][:, flags] = exact.Z[p]
        return A

    def _weight_rows(self, A: NDArray[Any]) -> NDArray[Any]:
        """Return M, real and imaginary parts and y stacked and weighted."""
        parts = [A.real, A.imag] if np.iscomplexobj(A) else [A]
        M = np.concatenate([*parts, self.rows.y[None].astype(self.dtype)])
        if self.sqrt_weight is not None:
            M *= self.sqrt_weight
        return M

    def predict(self, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the weighted sum of the responses, without a state."""
        response = np.zeros(len(self.rows))
        for p in np.flatnonzero(map_weights).tolist():
            product = self._response(p, 0)
            for core in range(1, len(self.cores)):
                product *= self._response(p, core)
            response += map_weights[p] * product.sum(axis=0).real
        return response

    def _take(self, index: NDArray[np.bool_]) -> GeneralChunk:
        """Return a chunk of some of the rows, with no state."""
        return GeneralChunk(self.rows.take(index), self.cores, self.layout, self.dtype, False)

    def release(self) -> None:
        """Free the memory of the products."""
        self.Z = np.empty((0, 0, 0), dtype=self.field)

    def _factor(self, p: int, core: int) -> NDArray[Any]:
        """Return the size × n factor that one core meets under one map."""
        factor = self.layout.factor(self.rows.X, self.layout.maps[p], core)
        return np.ascontiguousarray(factor.T, dtype=self.field)

    def _response(self, p: int, core: int) -> NDArray[Any]:
        """Return the rank × n response of one core."""
        return np.asarray(self.cores[core].T @ self._factor(p, core))


@jit
def _exchange(Z: Any, into: Any, out: Any, features: Any, columns: Any, flags: Any) -> None:
    """Multiply Z by the responses `into` and divide it by `out`, rank × n each.

    A sample is flagged where |out| is not above `features` (by sample) times `columns`
    (by rank), the size that its rounding is relative to.
    """
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            if abs(out[r, i]) > features[i] * columns[r]:
                Z[r, i] *= into[r, i] / out[r, i]
            else:
                flags[i] = True


@jit
def _flush(values: Any) -> None:
    """Set to zero what may make subnormal numbers of products."""
    least = np.sqrt(np.finfo(values.dtype).tiny)
    for k in range(values.shape[0]):
        for i in range(values.shape[1]):
            if abs(values[k, i]) < least:
                values[k, i] = 0.0


@jit
def _accumulate(A: Any, Z: Any, psi: Any, weight: Any) -> None:
    """Add λ·ψₖ·z to A, size × rank × n."""
    for k in range(A.shape[0]):
        for r in range(A.shape[1]):
            for i in range(A.shape[2]):
                A[k, r, i] += weight * psi[k, i] * Z[r, i]


@jit
def _accumulate_parts(
    real: Any, imaginary: Any, Z_real: Any, Z_imaginary: Any, psi_real: Any, psi_imaginary: Any
) -> None:
    """Add Re ψₖ·z and −Im ψₖ·z to parts of their own, size × rank × n."""
    for k in range(real.shape[0]):
        for r in range(real.shape[1]):
            for i in range(real.shape[2]):
                a, b = psi_real[k, i], psi_imaginary[k, i]
                c, d = Z_real[r, i], Z_imaginary[r, i]
                real[k, r, i] += a * c - b * d
                imaginary[k, r, i] -= a * d + b * c

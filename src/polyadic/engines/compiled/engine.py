"""The compiled engine: near the hardware's limit on one core, a chunk at a time.

Three kinds of chunk do the work: `TableChunk` for inputs with tables, `PolarChunk` for
quantized Fourier features, whose factors are all [1, e], and `GeneralChunk` for whatever else
there is.  `chunk.py` tells what
state is kept; `kernels.py`, `assembly.py` and `gram.py` are the inner loops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled.chunk import Chunk
from polyadic.engines.compiled.general import GeneralChunk
from polyadic.engines.compiled.polar import PolarChunk
from polyadic.engines.compiled.tables import TableChunk
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.posterior import CorePosterior, leverage
from polyadic.rows.rows import Rows

Sure = tuple[NDArray[np.float64], NDArray[np.bool_]]  # what is open of rows, and if that is sure


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

    takes_tensors: ClassVar[bool] = False

    def keeping(self, keep: bool) -> CompiledEngine:
        """Return this engine with or without products that stay in memory."""
        return replace(self, keep=keep)

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> Chunk:
        """Return the state of a chunk for these cores."""
        return self._chunk(rows, cores, layout).start()

    def predict(
        self, X: NDArray[Any], cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> NDArray[Any]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""
        return self._chunk(_rows(X), cores, layout).predict(map_weights)

    def leverage(
        self,
        X: NDArray[Any],
        cores: Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        posterior: CorePosterior,
    ) -> NDArray[np.float64]:
        """Return what the posterior of a core leaves open of each row, in units of the noise.

        A slower way is for the rows that a faster one is not sure of.
        """
        core, (column, _) = posterior.core, layout.core_places[posterior.core]

        def columns(X: NDArray[Any], dtype: str) -> NDArray[Any]:
            chunk = CompiledEngine(dtype, keep=False)._chunk(_rows(X), cores, layout)
            return chunk.columns(core, map_weights)

        def by_curve(X: NDArray[Any]) -> Sure:
            chunk = GeneralChunk(_rows(X), cores, layout, "float32", keep=False)
            return posterior.curve_leverage(X[:, column], chunk.products(core, map_weights))

        def in_single_precision(X: NDArray[Any]) -> Sure:
            return posterior.single_leverage(columns(X, "float32"))

        def exactly(X: NDArray[Any]) -> Sure:
            return leverage(posterior.panels, columns(X, "float64")), np.ones(len(X), dtype=bool)

        ways = [exactly]
        if posterior.is_wide and len(cores) > 1:  # one core is exactly a linear model
            ways.insert(0, in_single_precision)
        if posterior.curve is not None:
            ways.insert(0, by_curve)
        found, left = np.empty(len(X)), np.arange(len(X))
        for way in ways:
            if len(left):
                found[left], is_sure = way(X[left])
                left = left[~is_sure]
        return found

    def _chunk(self, rows: Rows, cores: Cores, layout: TensorLayout) -> Chunk:
        if layout.is_tabled:
            return TableChunk(rows, cores, layout, self.dtype, self.keep)
        if PolarChunk.suits(layout):
            return PolarChunk(rows, cores, layout, self.dtype, self.keep, self.hermitian)
        return GeneralChunk(rows, cores, layout, self.dtype, self.keep)

    def state_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory that the state of `n_rows` rows takes between steps."""
        responses = len(layout.maps)
        inputs = 2 * (len(layout.inputs) + 1)  # in double precision
        rest = n_rows * (responses + inputs) * np.dtype(self.dtype).itemsize
        return rest + (self._products_bytes(n_rows, layout, rank) if self.keep else 0)

    def scratch_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory of the products that a step makes where none are kept."""
        return 0 if self.keep else self._products_bytes(n_rows, layout, rank)

    def _products_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> int:
        numbers = (2 if layout.is_complex else 1) * rank * len(layout.maps)
        return n_rows * numbers * np.dtype(self.dtype).itemsize


def _rows(X: NDArray[Any]) -> Rows:
    """Return inputs as rows whose targets do not matter."""
    return Rows(X, np.zeros(len(X)))

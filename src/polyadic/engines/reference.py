"""The plain NumPy engine: written to be read beside the paper, and the oracle of the others.

For one core d and one map p, with Ψ⁽ʲ'ᵖ⁾ the factors that core j meets,

    Z⁽ᵈ'ᵖ⁾ = ⊛_{j≠d} Ψ⁽ʲ'ᵖ⁾ W⁽ʲ⁾          (n × R)
    A_d    = Σₚ λₚ (Z⁽ᵈ'ᵖ⁾ ⊙ Ψ⁽ᵈ'ᵖ⁾)       (n × size·R)

The product over the other cores is formed as such: nothing is ever divided, so a factor
may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.model.posterior import CorePosterior
from polyadic.rows.rows import Rows


class ReferenceState:
    """Rows, cores and the responses Ψ⁽ʲ'ᵖ⁾W⁽ʲ⁾, each computed when first asked for."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: str) -> None:
        self.rows = rows
        self.layout = layout
        self.total_weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        self._precision = dtype
        self.dtype = np.result_type(dtype, np.complex64) if layout.is_complex else np.dtype(dtype)
        self.cores = [core.astype(self.dtype) for core in cores]
        self._factors: dict[int, list[NDArray[Any]]] = {}
        self._responses: dict[tuple[int, int], NDArray[Any]] = {}

    def restart(self, cores: Cores) -> ReferenceState:
        """Return the state for other cores of the same sizes."""
        return ReferenceState(self.rows, cores, self.layout, self._precision)

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        A = self.design(core, map_weights)
        block = np.hstack([A.real, A.imag]) if np.iscomplexobj(A) else A
        return NormalEquations.of(block, self.rows.y, self.rows.weight)

    def design(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return A, by which the responses of the rows are A v."""
        n, (size, rank) = len(self.rows), self.cores[core].shape
        A = np.zeros((n, size, rank), dtype=self.dtype)
        for p in np.flatnonzero(map_weights).tolist():
            Z, psi = self.product(p, without=core), self.factor(p, core)
            A += map_weights[p] * (Z[:, None, :] * psi[:, :, None])
        return A.reshape(n, size * rank)

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from, over all rows."""
        Z, psi, y = self.product(0, without=core), self.factor(0, core), self.rows.y
        weight = np.ones(len(y)) if self.rows.weight is None else self.rows.weight
        return CoreSketch(
            moment=psi.T @ (Z * (weight * y)[:, None]),
            feature_power=weight @ psi**2,
            product_gram=Z.T @ (Z * weight[:, None]),
            sketched_weight=self.total_weight,
            total_weight=self.total_weight,
        )

    def gram_product(self, core: int, value: NDArray[Any]) -> GramProduct:
        """Return AᵀA v, by the responses A v of the rows."""
        Z, psi = self.product(0, without=core), self.factor(0, core)
        response = ((psi @ value) * Z).sum(axis=1)
        if self.rows.weight is not None:
            response = response * self.rows.weight
        return GramProduct(psi.T @ (Z * response[:, None]))

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core; its responses are computed again when they are asked for."""
        self.cores[core] = value.astype(self.dtype)
        for p in range(len(self.layout.maps)):
            self._responses.pop((p, core), None)

    def mixing_equations(self) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""
        columns = [self.product(p).sum(axis=1).real for p in range(len(self.layout.maps))]
        return NormalEquations.of(np.stack(columns, axis=1), self.rows.y, self.rows.weight)

    def factor(self, p: int, core: int) -> NDArray[Any]:
        """Return Ψ, what one core meets under one map."""
        if p not in self._factors:
            factors = self.layout.factors(self.rows.X, self.layout.maps[p])
            self._factors[p] = [factor.astype(self.dtype) for factor in factors]
        return self._factors[p][core]

    def response(self, p: int, core: int) -> NDArray[Any]:
        """Return ΨW of one core under one map."""
        if (p, core) not in self._responses:
            self._responses[p, core] = self.factor(p, core) @ self.cores[core]
        return self._responses[p, core]

    def product(self, p: int, without: int | None = None) -> NDArray[Any]:
        """Return Z, the product of the responses of all cores but one."""
        product = np.ones((len(self.rows.X), self.cores[0].shape[1]), dtype=self.dtype)
        for core in range(len(self.cores)):
            if core != without:
                product *= self.response(p, core)
        return product


@dataclass(frozen=True)
class ReferenceEngine:
    """Plain NumPy, one chunk at a time.

    Its states are caches: sums depend on the cores alone, so there is nothing to keep.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        Precision of state and assembly; sums are always double.
    """

    dtype: str = "float64"

    keep: ClassVar[bool] = False
    takes_tensors: ClassVar[bool] = False

    def keeping(self, keep: bool) -> ReferenceEngine:
        """Return this engine, which keeps no products in either case."""
        return self

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> ReferenceState:
        """Return the state of a chunk for these cores."""
        return ReferenceState(rows, cores, layout, self.dtype)

    def predict(
        self, X: NDArray[Any], cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> NDArray[Any]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""
        state = self.start(Rows(X, np.zeros(len(X))), cores, layout)
        response = np.zeros(len(X))
        for p in np.flatnonzero(map_weights).tolist():
            response += map_weights[p] * state.product(p).sum(axis=1).real
        return response

    def leverage(
        self,
        X: NDArray[Any],
        cores: Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        posterior: CorePosterior,
    ) -> NDArray[np.float64]:
        """Return what the posterior of a core leaves open of each row, in units of the noise."""
        state = ReferenceEngine().start(Rows(X, np.zeros(len(X))), cores, layout)
        return posterior.variance(state.design(posterior.core, map_weights))

    def state_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory of the factors and responses of every core and map."""
        numbers = len(layout.maps) * sum(size + rank for size in layout.core_sizes)
        return n_rows * numbers * self._item(layout)

    def scratch_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory of A, its real and imaginary parts, and one term of its sum."""
        return 3 * n_rows * max(layout.core_sizes) * rank * self._item(layout)

    def _item(self, layout: TensorLayout) -> int:
        return np.dtype(self.dtype).itemsize * (2 if layout.is_complex else 1)

"""The plain NumPy engine: written to be read beside the paper, and the oracle of the others.

For one core d and one map p, with Ψ⁽ʲ'ᵖ⁾ the factors that core j meets,

    Z⁽ᵈ'ᵖ⁾ = ⊛_{j≠d} Ψ⁽ʲ'ᵖ⁾ W⁽ʲ⁾          (n × R)
    A_d    = Σₚ λₚ (Z⁽ᵈ'ᵖ⁾ ⊙ Ψ⁽ᵈ'ᵖ⁾)       (n × size·R)

The product over the other cores is formed as such: nothing is ever divided, so a factor
may be zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows


class _State:
    """Rows, cores and the responses Ψ⁽ʲ'ᵖ⁾W⁽ʲ⁾, each computed when first asked for."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: str) -> None:
        self.rows = rows
        self.layout = layout
        self.dtype = np.result_type(dtype, np.complex64) if layout.is_complex else np.dtype(dtype)
        self.cores = [core.astype(self.dtype) for core in cores]
        self._factors: dict[int, list[NDArray[Any]]] = {}
        self._responses: dict[tuple[int, int], NDArray[Any]] = {}

    def factor(self, p: int, core: int) -> NDArray[Any]:
        if p not in self._factors:
            factors = self.layout.factors(self.rows.X, self.layout.maps[p])
            self._factors[p] = [factor.astype(self.dtype) for factor in factors]
        return self._factors[p][core]

    def response(self, p: int, core: int) -> NDArray[Any]:
        if (p, core) not in self._responses:
            self._responses[p, core] = self.factor(p, core) @ self.cores[core]
        return self._responses[p, core]

    def product(self, p: int, without: int | None = None) -> NDArray[Any]:
        product = np.ones((len(self.rows.X), self.cores[0].shape[1]), dtype=self.dtype)
        for core in range(len(self.cores)):
            if core != without:
                product *= self.response(p, core)
        return product

    def replace(self, core: int, value: NDArray[Any]) -> None:
        self.cores[core] = value.astype(self.dtype)
        for p in range(len(self.layout.maps)):
            self._responses.pop((p, core), None)


class ReferenceEngine:
    """Plain NumPy, one chunk at a time.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        Precision of state and assembly; sums are always double.
    """

    keep = False

    def __init__(self, dtype: str = "float64") -> None:
        self.dtype = dtype

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> _State:
        """Return the state of a chunk for these cores."""
        return _State(rows, cores, layout, self.dtype)

    def restart(self, state: _State, cores: Cores) -> _State:
        """Return the state for other cores of the same sizes."""
        return self.start(state.rows, cores, state.layout)

    def normal_equations(
        self, state: _State, core: int, weights: NDArray[np.float64]
    ) -> NormalEquations:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        n, (size, rank) = len(state.rows), state.cores[core].shape
        A = np.zeros((n, size, rank), dtype=state.dtype)
        for p in np.flatnonzero(weights).tolist():
            Z, psi = state.product(p, without=core), state.factor(p, core)
            A += weights[p] * (Z[:, None, :] * psi[:, :, None])
        A = A.reshape(n, size * rank)
        block = np.hstack([A.real, A.imag]) if np.iscomplexobj(A) else A
        return NormalEquations.of(block, state.rows.y, state.rows.weight)

    def commit(self, state: _State, core: int, value: NDArray[Any]) -> None:
        """Replace one core in the state."""
        state.replace(core, value)

    def mixing_equations(self, state: _State) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""
        columns = [state.product(p).sum(axis=1).real for p in range(len(state.layout.maps))]
        return NormalEquations.of(np.stack(columns, axis=1), state.rows.y, state.rows.weight)

    def predict(
        self,
        X: NDArray[Any],
        cores: Cores,
        weights: NDArray[np.float64],
        layout: TensorLayout,
    ) -> NDArray[Any]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""
        state = _State(Rows(X, np.zeros(len(X))), cores, layout, self.dtype)
        response = np.zeros(len(X))
        for p in np.flatnonzero(weights).tolist():
            response += weights[p] * state.product(p).sum(axis=1).real
        return response

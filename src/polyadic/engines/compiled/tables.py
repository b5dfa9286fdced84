"""Chunks of inputs with tables: gather, interpolate, multiply.

Contracted with its core, the table of an input is T = values · W, knots × rank, and the factor
of a row is a blend of two neighbouring rows of T.  The rank is innermost, so that a row's
factor is read as it lies in memory:

    Z[n]         product over all cores but one, n × rank
    response[n]  Σᵣ T[x, r] · Z[n, r]                   A v, for T = values · v
    sums[j]      Σₙ (share of knot j in row n) · c[n] · Z[n]      Aᵀ c = valuesᵀ · sums

However many basis functions an input has, a pass costs the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.engines.compiled.chunk import Chunk
from polyadic.engines.compiled.gram import sums
from polyadic.features import Table, TensorLayout
from polyadic.features.tables import APART, MARGIN, N_KNOTS
from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.cpd import Cores
from polyadic.model.jit import inline, jit
from polyadic.rows.rows import Rows

# |f| relative to the largest value of its term below which a factor is not divided by.
_UNSAFE = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}
# Rows of a chunk whose products are enough for a preconditioner, for each unit of rank.
_SKETCHED, _LEAST_SKETCHED = 2, 512


class TableChunk(Chunk):
    """A chunk whose inputs all have tables."""

    def __init__(
        self, rows: Rows, cores: Cores, layout: TensorLayout, dtype: Any, keep: bool
    ) -> None:
        self.values = [table.values.astype(dtype, copy=False) for table in layout.tables]
        self.positions = np.empty((len(self.values), len(rows)), dtype)
        _place(rows.X, np.array(layout.core_inputs), _ranges(layout.tables), self.positions)
        self.y = rows.y.astype(dtype, copy=False)
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        self.weight = weight.astype(dtype, copy=False)
        self.Z = np.empty((0, 0), dtype)
        self._powers: dict[int, NDArray[np.float64]] = {}
        super().__init__(rows, cores, layout, dtype, keep)

    def set_cores(self, cores: Cores) -> None:
        """Replace all cores."""
        self.rank = cores[0].shape[1]
        # All contracted tables in one array: kernels that multiply over inputs read them so.
        n_points = max(map(len, self.values))
        self.T = np.zeros((len(cores), n_points, self.rank), self.dtype)
        for core, value in enumerate(cores):
            self.set_core(core, value)

    def set_core(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        table = self._contract(core, value)
        self.T[core, : len(table)] = table

    def _contract(self, core: int, value: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.values[core] @ value.astype(self.dtype, copy=False))

    def respond(self) -> NDArray[Any]:
        """Return the responses; core 0 is left out of the products."""
        self._make(0)
        responses = np.empty((1, len(self.rows)), self.dtype)
        _respond(self.Z, self.positions[0], self.T[0], responses[0])
        return responses

    def core_sums(
        self, core: int, map_weights: NDArray[Any], maps: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return Gram matrix, moment and yᵀy of one core."""
        A = self.columns(core, map_weights).T
        return sums(np.ascontiguousarray(np.column_stack([A, self.y]).T) * np.sqrt(self.weight))

    def columns(self, core: int, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return Aᵀ of one core."""
        self._bring(core)
        psi, n = self._features(core), len(self.rows)
        A = (map_weights[0] * psi[:, :, None] * self.Z[:, None, :]).reshape(n, -1)
        return np.asarray(A.T)

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from, products of some rows."""
        self._bring(core)
        stride = max(1, len(self.rows) // max(_SKETCHED * self.rank, _LEAST_SKETCHED))
        Z, weight = self.Z[::stride], self.weight[::stride]
        sketch = CoreSketch(
            moment=self._scatter(core, self.weight * self.y),
            feature_power=self._power(core),
            product_gram=((Z * weight[:, None]).T @ Z).astype(np.float64),
            sketched_weight=float(weight.sum(dtype=np.float64)),
            total_weight=self.total_weight,
        )
        self._release_unless_kept()
        return sketch

    def gram_product(self, core: int, value: NDArray[Any]) -> GramProduct:
        """Return AᵀA v, in one pass over the products."""
        self._bring(core)
        found = np.zeros((len(self.values[core]), self.rank), self.dtype)
        _multiply(self.Z, self.positions[core], self._contract(core, value), self.weight, found)
        self._release_unless_kept()
        return GramProduct(self._gather_sums(core, found))

    def predict(self, map_weights: NDArray[np.float64]) -> NDArray[Any]:
        """Return the responses, without a state."""
        responses = np.empty(len(self.rows), self.dtype)
        _predict(self.positions, self.T, responses)
        return np.asarray(responses.astype(np.float64) * map_weights[0])

    def release(self) -> None:
        """Free the memory of the products."""
        self.Z = np.empty((0, 0), self.dtype)

    def _make(self, without: int) -> None:
        """Make the product of all cores but one."""
        if not self.Z.size:
            self.Z = np.empty((len(self.rows), self.rank), self.dtype)
        _make(self.Z, self.positions, self.T, without)
        self.left_out[0] = without

    def _bring(self, core: int) -> None:
        """Bring the products to leave this core out."""
        before = int(self.left_out[0])
        if before < 0:
            self._make(core)
        elif before != core:
            least = _UNSAFE[self.dtype] * np.abs(self.T[core]).max(axis=0)
            _exchange(self.Z, self.positions, self.T, before, core, least)
            self.left_out[0] = core

    def _release_unless_kept(self) -> None:
        if not self.keep:
            self.forget()

    def _scatter(self, core: int, coefficients: NDArray[Any]) -> NDArray[np.float64]:
        """Return Aᵀc."""
        found = np.zeros((len(self.values[core]), self.rank), self.dtype)
        _scatter(self.Z, self.positions[core], coefficients, found)
        return self._gather_sums(core, found)

    def _gather_sums(self, core: int, found: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((self.values[core].T @ found), dtype=np.float64)

    def _power(self, core: int) -> NDArray[np.float64]:
        """Return Σ w·ψᵢ² of one core's input, which is the same in every step."""
        if core not in self._powers:
            self._powers[core] = (self._features(core) ** 2).T @ self.weight.astype(np.float64)
        return self._powers[core]

    def _features(self, core: int) -> NDArray[Any]:
        """Return the n × size basis functions of one core's input."""
        position = self.positions[core]
        below = np.nan_to_num(position).astype(np.intp)
        lower = self.values[core][below]
        fraction = (position - below)[:, None]
        return np.asarray(lower + fraction * (self.values[core][below + 1] - lower))


def _ranges(tables: Sequence[Table]) -> NDArray[np.float64]:
    """Return the first value, the span, the number of levels, the gap's position of tables.

    And how far what was filled in is apart: infinitely, where it has no place of its own.
    """
    return np.array(
        [
            (
                each.low,
                each.high - each.low if each.high > each.low else 1.0,
                each.n_levels,
                np.nan if each.gap is None else each.gap,
                APART * (each.high - each.low) if each.has_filled else np.inf,
            )
            for each in tables
        ]
    )


@jit
def _place(X: Any, columns: Any, ranges: Any, positions: Any) -> None:
    """Set the positions of all rows among the points of every table, as `Table.positions` does."""
    last = N_KNOTS - 1
    for d in range(len(columns)):
        low, span, n_levels, gap, apart = ranges[d]
        for n in range(len(X)):
            x = np.float64(X[n, columns[d]])
            if np.isnan(x):
                place = gap
            elif n_levels > 0:
                place = min(x, n_levels)
            else:
                is_filled = x > low + apart / 2
                u = (x - (apart if is_filled else 0.0) - low) / span
                inside = min(max(u, 0.0), 1.0)
                if u != inside:
                    inside += MARGIN * np.tanh((u - inside) / MARGIN)
                place = (inside + MARGIN) * (last / (1 + 2 * MARGIN))
                place = min(max(place, 0.0), last * (1 - 1e-6))
                if is_filled:
                    place += N_KNOTS
            positions[d, n] = place


@inline
def _knot(position: Any) -> int:
    """Return the knot below a position; the first for NaN, whose fraction is NaN too."""
    return int(position) if position >= 0 else 0


@inline
def _blend(T: Any, j: int, t: Any, r: int) -> Any:
    return T[j, r] + t * (T[j + 1, r] - T[j, r])


@jit
def _make(Z: Any, positions: Any, T: Any, without: int) -> None:
    """Set Z to the product over all inputs but one."""
    one = Z.dtype.type(1)
    for n in range(len(Z)):
        row = Z[n]
        row[:] = one
        for d in range(len(T)):
            if d != without:
                table = T[d]
                j = _knot(positions[d, n])
                t = positions[d, n] - Z.dtype.type(j)
                for r in range(len(row)):
                    row[r] *= _blend(table, j, t, r)


@jit
def _exchange(Z: Any, positions: Any, T: Any, into: int, out: int, least: Any) -> None:
    """Multiply Z by the factor of one input and divide it by that of another.

    Where the divisor is not above `least`, the element is made anew as a plain product.
    """
    new, old = T[into], T[out]
    for n in range(len(Z)):
        row = Z[n]
        j, k = _knot(positions[into, n]), _knot(positions[out, n])
        t = positions[into, n] - Z.dtype.type(j)
        u = positions[out, n] - Z.dtype.type(k)
        unsafe = 0
        for r in range(len(row)):
            divisor = _blend(old, k, u, r)
            row[r] *= _blend(new, j, t, r) / divisor
            unsafe += abs(divisor) <= least[r]
        if unsafe:
            for r in range(len(row)):
                if abs(_blend(old, k, u, r)) <= least[r]:
                    product = Z.dtype.type(1)
                    for d in range(len(T)):
                        if d != out:
                            i = _knot(positions[d, n])
                            product *= _blend(T[d], i, positions[d, n] - Z.dtype.type(i), r)
                    row[r] = product


@jit
def _respond(Z: Any, position: Any, T: Any, responses: Any) -> None:
    """Set responses to Σᵣ T[x, r] · Z[n, r]."""
    for n in range(len(Z)):
        j = _knot(position[n])
        t = position[n] - Z.dtype.type(j)
        response = Z.dtype.type(0)
        for r in range(Z.shape[1]):
            response += _blend(T, j, t, r) * Z[n, r]
        responses[n] = response


@jit
def _multiply(Z: Any, position: Any, T: Any, weight: Any, found: Any) -> None:
    """Add every row's weight · response · Z to the sums of its two knots."""
    for n in range(len(Z)):
        row = Z[n]
        j = _knot(position[n])
        t = position[n] - Z.dtype.type(j)
        response = Z.dtype.type(0)
        for r in range(len(row)):
            response += _blend(T, j, t, r) * row[r]
        _add(row, weight[n] * response, j, t, found)


@jit
def _scatter(Z: Any, position: Any, coefficients: Any, found: Any) -> None:
    """Add every row's coefficient · Z to the sums of its two knots."""
    for n in range(len(Z)):
        j = _knot(position[n])
        _add(Z[n], coefficients[n], j, position[n] - Z.dtype.type(j), found)


@inline
def _add(row: Any, coefficient: Any, j: int, t: Any, found: Any) -> None:
    upper = coefficient * t
    lower = coefficient - upper
    for r in range(len(row)):
        found[j, r] += lower * row[r]
        found[j + 1, r] += upper * row[r]


@jit
def _predict(positions: Any, T: Any, responses: Any) -> None:
    """Set responses to Σᵣ Π_d T_d[x, r], without a product that is kept."""
    row = np.empty(T.shape[2], T.dtype)
    for n in range(len(responses)):
        row[:] = T.dtype.type(1)
        for d in range(len(T)):
            table = T[d]
            j = _knot(positions[d, n])
            t = positions[d, n] - T.dtype.type(j)
            for r in range(len(row)):
                row[r] *= _blend(table, j, t, r)
        responses[n] = row.sum()

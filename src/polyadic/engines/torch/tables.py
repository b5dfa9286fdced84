"""The state of layouts of tables on a torch device, in a few large launches.

Contracted with its core a table is T = values · W, one row a knot, and a row of data meets
(1 − t)·T[j] + t·T[j + 1].  The product Z of all cores but one is all that is kept; sums are
products of matrices with Z itself, so that nothing else is as large:

    A v  = rows of Z Vᵀ times rows of Ψ, summed           AᵀA v = (Ψ · A v)ᵀ Z

Z is brought from core to core by multiplying the new factor of one core in and dividing that
of another out.  The same table at the same position gives the same digits, so a division takes
out exactly what was multiplied in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch.eager import DeviceState, Options
from polyadic.engines.torch.sums import (
    DeviceProduct,
    DeviceSketch,
    DeviceSums,
    gram,
    no_tf32,
)
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# Rows whose sum is single where the engine is; what adds such parts up is double.
_PART = 4096
# Memory of each array that is as long as a piece: what a processor's cache holds, or enough
# for a device to be busy for longer than a launch takes.
_PIECE_BYTES, _PIECE_BYTES_OF_A_DEVICE = 2**21, 2**28
# Arrays of a piece that are alive at a time while products are formed.
_ARRAYS = 5
# A factor so much smaller than the largest is not divided by.
TINY = {torch.float64: 1e-11, torch.float32: 1e-5}
# Cores with more are solved by conjugate gradients wherever rows are, so that their Gram matrix
# takes no memory.
_MOST_UNKNOWNS = 4096
# Rows that ZᵀZ is summed over: it is for a preconditioner, which need not be exact.
_SKETCHED_ROWS, _SKETCHED_RANKS = 8192, 8


class TableState(DeviceState):
    """Positions among the knots, a table for each core, and one product that leaves one out."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, options: Options) -> None:
        super().__init__(rows, cores, layout, options)
        self._device = self.X.device
        self._positions = self._locate()
        self._weight = self.sqrt_weight if rows.weight is None else self._pad_weight(rows.weight)
        self._values = [self._upload(table.values) for table in layout.tables]
        self._features = [values.to(self.dtype) for values in self._values]
        self._tables = self._contract_all(cores)
        self._Z: Tensor | None = None

    def restart(self, cores: Cores) -> DeviceState:
        """Exchange all cores; positions stay, and so does the memory of the product."""
        self._tables = self._contract_all(cores)
        self.left_out = [None]
        return self

    def width(self, n_rows: int) -> int:
        """Return the number of rows with the padding that makes all parts equal."""
        self._part = part_size(n_rows)
        return -(-n_rows // self._part) * self._part

    def _locate(self) -> Tensor:
        """Return the positions of every row, one row of the matrix for each core."""
        shape = (len(self.layout.tables), len(self.y))
        positions = torch.zeros(shape, dtype=self.dtype, device=self._device)
        pairs = zip(self.layout.core_inputs, self.layout.tables, strict=True)
        for index, (column, table) in enumerate(pairs):
            positions[index, : len(self.X)] = table.positions(self.X[:, column])
        return positions

    def _pad_weight(self, weight: Any) -> Tensor:
        pad = (0, len(self.y) - len(self.X))
        return torch.nn.functional.pad(weight.to(self.dtype), pad)

    def _upload(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(array)).to(self._device, torch.float64)

    def _contract(self, core: int, value: NDArray[Any]) -> Tensor:
        """Return values · W of one core, in double before it is rounded."""
        return (self._values[core] @ self._upload(value)).to(self.dtype)

    def _contract_all(self, cores: Cores) -> Tensor:
        """Return the tables of all cores, zeros below the shorter ones: cores × points × rank."""
        tables = [self._contract(*pair) for pair in enumerate(cores)]
        return torch.nn.utils.rnn.pad_sequence(tables, batch_first=True)

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        table = self._contract(core, value)
        self._tables[core, : len(table)] = table

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> DeviceSums:
        """Return the sums of A, whose blocks come and go."""
        with no_tf32():
            self._leave_out(core)
            n_columns = self.n_columns(core) + 1
            total = torch.zeros((n_columns, n_columns), dtype=torch.float64, device=self._device)
            for piece in self._pieces(*_block_numbers(n_columns)):
                Z, psi = self._product(core, piece), self._psi(core, piece)
                Z = Z * (float(map_weights[0]) * self.sqrt_weight[piece])[:, None]
                shape = (len(Z), n_columns)
                block = torch.empty(shape, dtype=self.options.block_dtype, device=self._device)
                torch.mul(
                    psi[:, :, None], Z[:, None], out=block[:, :-1].view(len(Z), -1, self.rank)
                )
                block[:, -1] = self.y[piece] * self.sqrt_weight[piece]
                total += gram(self._cut(block).mT)
        return DeviceSums(total, self.total_weight)

    def columns(self, core: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Return Aᵀ of rows without weights."""
        rows = slice(len(self.X))
        Z, psi = self._form(self._positions[:, rows], without=core), self._psi(core, rows)
        return (float(map_weights[0]) * psi[:, :, None] * Z[:, None]).flatten(1).T

    def core_sketch(self, core: int) -> DeviceSketch:
        """Return the sums that conjugate gradients start from; ZᵀZ of rows evenly spread."""
        with no_tf32():
            self._leave_out(core)
            moment = power = torch.zeros((), dtype=torch.float64, device=self._device)
            weighted = self._weight * self.y.to(self.dtype)
            for piece in self._pieces(self._numbers(core)):
                Z, psi = self._product(core, piece), self._psi(core, piece)
                moment = moment + self._sum_products(psi * weighted[piece, None], Z)
                power = power + (psi.square() * self._weight[piece, None]).sum(
                    0, dtype=torch.float64
                )
            n_sketched = max(_SKETCHED_ROWS, _SKETCHED_RANKS * self.rank)
            some = slice(None, len(self.X), max(1, len(self.X) // n_sketched))
            Z = self._product(core, some).to(self.options.block_dtype)
            G = gram(_cut_evenly(Z * self.sqrt_weight[some, None]).mT)
        weight = self._weight[some].sum(dtype=torch.float64)
        return DeviceSketch(moment, power, G, weight, self.total_weight)

    def gram_product(self, core: int, value: NDArray[Any]) -> DeviceProduct:
        """Return AᵀA v: the product is read twice, and nothing of its size is made."""
        with no_tf32():
            self._leave_out(core)
            total = torch.zeros((), dtype=torch.float64, device=self._device)
            V = self._upload(value).to(self.dtype).T
            for piece in self._pieces(self._numbers(core)):
                Z, psi = self._product(core, piece), self._psi(core, piece)
                response = ((Z @ V) * psi).sum(1) * self._weight[piece]
                total = total + self._sum_products(psi * response[:, None], Z)
        return DeviceProduct(total)

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the response of every row, once for each map, of which there is one."""
        out = torch.empty((1, len(self.y)), dtype=self.dtype, device=self._device)
        kept, core = self._Z, self.left_out[0]
        for piece in self._pieces(self.rank):
            if kept is None or core is None:
                out[0, piece] = self._form(self._positions[:, piece]).sum(1)
            else:
                out[0, piece] = (kept[piece] * self._factor(core, piece)).sum(1)
        return out.expand(len(list(maps)), -1)

    def _leave_out(self, core: int) -> None:
        """Bring the kept product to that without one core, where one is kept."""
        old = self.left_out[0]
        if not self.keep or old == core:
            return
        if self._Z is None:
            shape = (len(self.y), self.rank)
            self._Z = torch.empty(shape, dtype=self.dtype, device=self._device)
        for piece in self._pieces(self.rank):
            if old is None:
                self._Z[piece] = self._form(self._positions[:, piece], without=core)
            else:
                self._exchange(self._Z[piece], piece, old, core)
        self.left_out = [core]

    def _exchange(self, Z: Tensor, piece: slice, old: int, new: int) -> None:
        """Multiply one core into a piece of the product and divide another out, in place."""
        Z *= self._factor(old, piece)
        divisor = self._factor(new, piece)
        lost = divisor.abs() <= TINY[self.dtype] * self._tables[new].abs().amax(0)
        Z /= divisor.masked_fill_(lost, 1.0)
        rows = lost.any(1).nonzero()[:, 0]
        if len(rows):
            Z[rows] = self._form(self._positions[:, piece][:, rows], without=new)

    def _product(self, core: int, rows: slice) -> Tensor:
        """Return the product of all cores but one, of some rows."""
        if self._Z is not None:
            return self._Z[rows]
        return self._form(self._positions[:, rows], without=core)

    def _form(self, positions: Tensor, without: int | None = None) -> Tensor:
        """Return the product of the factors of all cores but one, at some positions."""
        product = None
        for core, (table, position) in enumerate(zip(self._tables, positions, strict=True)):
            if core != without:
                factor = look_up(table, position)
                product = factor if product is None else product.mul_(factor)
        if product is not None:
            return product
        return torch.ones((positions.shape[1], self.rank), dtype=self.dtype, device=self._device)

    def _factor(self, core: int, rows: slice) -> Tensor:
        return look_up(self._tables[core], self._positions[core, rows])

    def _psi(self, core: int, rows: slice) -> Tensor:
        """Return the features that one core meets."""
        return look_up(self._features[core], self._positions[core, rows])

    def _sum_products(self, left: Tensor, right: Tensor) -> Tensor:
        """Return leftᵀ right, the rows of each part in the engine's precision, then in double."""
        return torch.bmm(self._cut(left).mT, self._cut(right)).sum(0, dtype=torch.float64)

    def _cut(self, matrix: Tensor) -> Tensor:
        return matrix.view(-1, self._part, matrix.shape[1])

    def _numbers(self, core: int) -> int:
        """Return how many numbers a row of a piece has, in the widest array that is made."""
        formed = 0 if self.keep else self.rank
        return max(formed, self.layout.core_sizes[core])

    def _pieces(self, of_a_row: int, of_a_part: int = 0) -> Iterator[slice]:
        """Yield rows whose arrays, of so many numbers, are small enough; whole parts of them."""
        rows = piece_parts(self._device, self._part, of_a_row, of_a_part) * self._part
        for first in range(0, len(self.y), rows):
            yield slice(first, min(first + rows, len(self.y)))


def look_up(table: Tensor, position: Tensor) -> Tensor:
    """Return the values at positions, between the knots, in one launch: n × columns."""
    # What is not a number has no knot, but its fraction makes the answer none either.
    below = position.to(torch.int32).clamp_(0, len(table) - 2)
    upper = position - below
    knots = torch.stack([below, below + 1], dim=1)
    weights = torch.stack([1 - upper, upper], dim=1)
    return torch.nn.functional.embedding_bag(knots, table, per_sample_weights=weights, mode="sum")


def part_size(n_rows: int) -> int:
    """Return the rows of a part, so that parts are equal and hardly any row is padding."""
    return max(1, -(-n_rows // max(1, -(-n_rows // _PART))))


def piece_parts(device: torch.device, part: int, of_a_row: int, of_a_part: int = 0) -> int:
    """Return how many parts a piece has whose arrays have so many numbers a row and a part."""
    most = _PIECE_BYTES if device.type == "cpu" else _PIECE_BYTES_OF_A_DEVICE
    return max(1, most // (8 * (part * of_a_row + of_a_part)))


def state_bytes(n_rows: int, layout: TensorLayout, rank: int, item: int, keep: bool) -> float:
    """Return the memory of rows of `item` bytes a number, and of what is kept of them."""
    rows = len(layout.inputs) + 2
    return n_rows * item * (rows + (_row_numbers(layout) + rank if keep else 0))


def scratch_bytes(
    n_rows: int, layout: TensorLayout, rank: int, device: torch.device, keep: bool
) -> float:
    """Return the memory of a step beside the state."""
    part, largest = part_size(n_rows), max(layout.core_sizes)
    n_parts = -(-n_rows // part)
    n_columns = min(largest * rank, _MOST_UNKNOWNS) + 1

    def of_pieces(of_a_row: int, of_a_part: int = 0) -> int:
        parts = min(n_parts, piece_parts(device, part, of_a_row, of_a_part))
        return 8 * parts * (part * of_a_row + of_a_part)

    forming = _ARRAYS * of_pieces(max(rank, largest))
    # A block and its sums, the sum of all, and the triangles of one piece.
    direct = of_pieces(*_block_numbers(n_columns)) + forming + 4 * 8 * n_columns**2
    once = 0 if keep else 8 * n_rows * _row_numbers(layout)
    scaling = 3 * 8 * n_rows * (len(layout.inputs) + 1)  # doubles on their way to the precision
    return max(direct + once, scaling)


def _row_numbers(layout: TensorLayout) -> int:
    """Return the numbers of a row beside its product: positions, y, weight and its root."""
    return len(layout.tables) + 3


def _block_numbers(n_columns: int) -> tuple[int, int]:
    """Return the numbers of a row of the block, and of the sums of a part."""
    return n_columns, n_columns**2


def _cut_evenly(matrix: Tensor) -> Tensor:
    """Cut a matrix of any height into equal parts; zeros fill the last one."""
    part = part_size(len(matrix))
    padded = torch.nn.functional.pad(matrix, (0, 0, 0, -len(matrix) % part))
    return padded.view(-1, part, matrix.shape[1])

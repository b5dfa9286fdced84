"""The state that the Triton kernels work on, and their launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor

from polyadic.cpd import Cores
from polyadic.engines import Rows
from polyadic.engines import triton_kernels as kernels
from polyadic.engines.torch_eager import TINY, State
from polyadic.engines.torch_features import core_places, leading, ratio, wave
from polyadic.features import GeometricFeatures, TensorLayout

_ALIGNMENT = 1024  # columns are padded to a multiple, so that kernels need no edge cases
_RANKS = 4  # ranks that one program takes at a time: few, so that little is padded


class KernelState(State):
    """Ratios, cores and products on the device, laid out as the kernels want them."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, *options: Any) -> None:
        super().__init__(rows, cores, layout, *options)
        self._places = core_places(layout)
        dims = [dim for dim, _ in self._places]
        self._first = self._tensor(np.searchsorted(dims, np.arange(len(layout.n_basis) + 1)))
        identity = np.zeros((2, self.rank))
        identity[0] = 1
        self._cores = self._tensor(np.stack([_planes(core) for core in [*cores, identity]]))
        self._cores = self._cores.to(self.dtype)
        self._ratios: tuple[Tensor, ...] | None = None
        self._products: Tensor | None = None
        self._chosen: tuple[NDArray[np.float64], Tensor, Tensor] | None = None

    def width(self, n_rows: int) -> int:
        """Return how many columns the arrays of `n_rows` rows have."""
        return -(-n_rows // _ALIGNMENT) * _ALIGNMENT

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        if array.dtype.kind == "i":
            array = array.astype(np.int32)
        return torch.as_tensor(array).to(self.X.device)

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        self._cores[core] = self._tensor(_planes(value)).to(self.dtype)

    def block(self, core: int, weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows, as rows of one matrix."""
        shape = (4 * self.rank + 1, len(self.y))
        block = torch.empty(shape, dtype=self.block_dtype, device=self.X.device)
        torch.mul(self.y, self.root, out=block[-1])
        active = np.flatnonzero(weights).tolist()
        opened = {self.opened[p] for p in active}
        if len(active) == 0:
            block[:-1] = 0
        elif self.keep and len(opened) == 1 and None not in opened:
            self._step(block, opened.pop(), core, weights)
        else:
            self._assemble(block, core, weights)
        if self.keep:
            for p in active:
                self.opened[p] = core
        return block

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each."""
        chosen = self._tensor(np.array(list(maps)))
        er, ei, lr, li = self._features()
        shape = (len(chosen), len(self.y))
        out = torch.empty(shape, dtype=self.dtype, device=self.X.device)
        rows = self._rows_per_program()
        kernels.respond[(shape[1] // rows, shape[0])](
            er, ei, lr, li, self._cores, self._first, chosen, out, shape[1],
            len(self.layout.n_basis), len(self._places),
            RANK=self.rank, RANKS=_RANKS, BLOCK=rows, LEADING=lr is not er,
        )  # fmt: skip
        return out

    def _step(self, block: Tensor, old: Any, core: int, weights: NDArray[np.float64]) -> None:
        """Update the products in one pass; what cannot be divided is assembled anew."""
        er, ei, _, _ = self._features()
        assert self._products is not None
        maps, values = self._choose(weights)
        width = len(self.y)
        flags = torch.zeros(
            -(-width // kernels.FLAGGED_ROWS), dtype=torch.int32, device=self.X.device
        )
        padded = triton.next_power_of_2(len(maps))
        rows = 128 if self.dtype == torch.float64 else 256
        kernels.step[(width // rows,)](
            self._products[0], self._products[1], er, ei, self._cores, maps, values, self.root,
            block, flags, width, len(self.layout.n_basis), len(maps), old, *self._places[old],
            core, *self._places[core], TINY[self.dtype] ** 2,
            RANK=self.rank, MAPS=padded, BLOCK=rows, FLAGGED=kernels.FLAGGED_ROWS,
            num_warps=min(16, max(4, padded // 2)),
        )  # fmt: skip
        self._assemble(block, core, weights, flags)

    def _assemble(
        self, block: Tensor, core: int, weights: NDArray[np.float64], flags: Tensor | None = None
    ) -> None:
        """Form the products from all cores, for all rows or for those with a flag."""
        er, ei, lr, li = self._features()
        maps, values = self._choose(weights)
        products: Any = (er, ei)  # stand-ins where nothing is kept
        if self.keep:
            if self._products is None:
                shape = (2, len(self.layout.maps), self.rank, len(self.y))
                self._products = torch.empty(shape, dtype=self.dtype, device=self.X.device)
            products = self._products
        rows = self._rows_per_program()
        kernels.assemble[(len(self.y) // rows,)](
            products[0], products[1], er, ei, lr, li, self._cores, self._first, maps, values,
            self.root, block, self._first if flags is None else flags, len(self.y),
            len(self.layout.n_basis), len(self._places), len(maps), core, *self._places[core],
            RANK=self.rank, RANKS=_RANKS, BLOCK=rows, LEADING=lr is not er, STORE=self.keep,
            FLAGS=flags is not None, FLAGGED=kernels.FLAGGED_ROWS,
        )  # fmt: skip

    def _rows_per_program(self) -> int:
        return 256 if self.dtype == torch.float64 else 512

    def _choose(self, weights: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        """Return the maps that take part and their weights, uploaded once a sweep."""
        if self._chosen is None or not np.array_equal(self._chosen[0], weights):
            maps = np.flatnonzero(weights)
            values = self._tensor(weights[maps]).to(self.dtype)
            self._chosen = (weights.copy(), self._tensor(maps), values)
        return self._chosen[1], self._chosen[2]

    def _features(self) -> tuple[Tensor, ...]:
        """Return ratios and leading terms, real and imaginary; the ratios where none leads."""
        if self._ratios is not None:
            return self._ratios
        shape = (2, len(self.layout.maps), self.X.shape[1], len(self.y))
        ratios = torch.empty(shape, dtype=self.dtype, device=self.X.device)
        terms = []
        for p, feature_map in enumerate(self.layout.maps):
            assert isinstance(feature_map, GeometricFeatures)
            self._write_ratio(feature_map, ratios[0, p], ratios[1, p])
            terms.append(leading(self.X, feature_map, self.layout))
        er, ei = ratios
        result = (er, ei, er, ei)
        if any(term is not None for term in terms):
            lead = torch.zeros((2, len(terms), len(self.y)), dtype=self.dtype, device=self.X.device)
            lead[0] = 1
            for p, term in enumerate(terms):
                if term is not None:
                    lead[0, p, : len(self.X)], lead[1, p, : len(self.X)] = term.real, term.imag
            result = (er, ei, lead[0], lead[1])
        if self.keep:
            self._ratios = result
        return result

    def _write_ratio(self, feature_map: GeometricFeatures, re: Tensor, im: Tensor) -> None:
        known = wave(feature_map)
        n_rows = len(self.X)
        if known is None:
            values = ratio(self.X, feature_map, torch.complex128)
            re.zero_(), im.zero_()
            re[:, :n_rows], im[:, :n_rows] = values.real, values.imag
            return
        kernels.fourier_ratio[(len(self.y) // _ALIGNMENT, len(re))](
            self.X, re, im, n_rows, self.X.stride(0), self.X.stride(1), len(self.y),
            self._tensor(np.array(known)), BLOCK=_ALIGNMENT,
        )  # fmt: skip


def _planes(core: NDArray[Any]) -> NDArray[np.float64]:
    """Return Re w₀, Im w₀, Re w₁, Im w₁ of a core of two rows."""
    return np.stack([core[0].real, core[0].imag, core[1].real, core[1].imag])

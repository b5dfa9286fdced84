"""The state that the Triton kernels work on, and their launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch import triton_kernels as kernels
from polyadic.engines.torch.eager import TINY, State
from polyadic.engines.torch.features import core_places, leading, ratio, wave
from polyadic.features import GeometricFeatures, TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# Where the arithmetic of a step takes less time than its launches, rows come in small tiles and
# the block of a single chunk is kept; so many products are sooner formed anew, in one launch,
# than brought from one input to the next.
_FEW_ROWS, _FEW_PRODUCTS = 2**16, 2**22
_RANKS = 4  # ranks that one program takes at a time: few, so that little is padded


class KernelState(State):
    """Ratios, cores and products on the device, laid out as the kernels want them."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, *options: Any) -> None:
        super().__init__(rows, cores, layout, *options)
        self._device = self.X.device
        self._places = core_places(layout)
        dims = [dim for dim, _ in self._places]
        self._first = self._upload(np.searchsorted(dims, np.arange(len(layout.n_basis) + 1)))
        self._cores = self._stacked(cores)
        # The last rows of every block: y of the weighted rows, and zeros, for products of
        # matrices whose height is a multiple of 4 are faster.
        self._tail = self._empty(self.n_tiles, 4, self._tile).zero_()
        self._tail[:, 0] = (self.y * self.root).view(-1, self._tile)
        self._block: Tensor | None = None
        self._ratios: tuple[Tensor, ...] | None = None
        self._products: Any = None  # their real and imaginary parts
        self._chosen: tuple[NDArray[np.float64], Tensor, Tensor] | None = None

    def restart(self, cores: Cores) -> State:
        """Exchange all cores; ratios stay, and so does the memory of the products."""
        self._cores = self._stacked(cores)
        self.opened = [None] * len(self.layout.maps)
        return self

    def _stacked(self, cores: Cores) -> Tensor:
        """Return all cores on the device, by way of host memory that it can read by itself."""
        identity = np.zeros((2, self.rank))
        identity[0] = 1
        planes = np.stack([_planes(core) for core in [*cores, identity]])
        staged = torch.from_numpy(planes).to(self.dtype)
        self._staged = staged.pin_memory() if self._device.type == "cuda" else staged
        return self._staged.to(self._device, copy=True)

    def width(self, n_rows: int) -> int:
        """Return the number of rows with the padding that fills the last tile."""
        self._tile = 4096 if n_rows > _FEW_ROWS else kernels.FLAGGED_ROWS
        return -(-n_rows // self._tile) * self._tile

    def _upload(self, array: NDArray[Any]) -> Tensor:
        if array.dtype.kind == "i":
            array = array.astype(np.int32)
        return torch.as_tensor(array).to(self._device)

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self._device)

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        # A sum comes to the host before this core is set again, so its copy is through by then.
        self._staged[core].copy_(torch.from_numpy(_planes(value)))
        self._cores[core].copy_(self._staged[core], non_blocking=True)

    def block(self, core: int, weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows, tile by tile."""
        block = self._open_block()
        if not weights.any():
            block[:, : 4 * self.rank] = 0
            return block
        if self.keep:
            self._open(self._places[core][0], weights)
        self._assemble(block, core, weights)
        return block

    def _open_block(self) -> Tensor:
        """Return a block with its last rows filled in: of few rows, always the same one."""
        if self._block is not None:
            return self._block
        filled = 4 * self.rank
        shape = (self.n_tiles, filled + 4, self._tile)
        block = torch.empty(shape, dtype=self.block_dtype, device=self._device)
        block[:, filled:] = self._tail
        if self.alone and len(self.y) <= _FEW_ROWS:
            self._block = block
        return block

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each.

        Where there is memory for products, those without the first input are left in it.
        """
        maps = list(maps)
        chosen = self._upload(np.array(maps))
        er, ei, lr, li = self._features()
        out = self._empty(len(chosen), len(self.y))
        keep, dim = self._products is not None, self._places[0][0]
        kernels.respond[(len(self.y) // self._rows, len(chosen))](
            *(self._products if keep else (er, ei)), er, ei, lr, li, self._cores, self._first,
            chosen, out, *self._counts, dim, len(self.y),
            RANK=self.rank, RANKS=_RANKS, TILE=self._tile, BLOCK=self._rows,
            LEADING=lr is not er, KEEP=keep,
        )  # fmt: skip
        if keep:
            for p in maps:
                self.opened[p] = dim
        return out

    def _group(self, core: int) -> int:
        """Return the input of a core: its cores are left out of the products together."""
        return self._places[core][0]

    def _open(self, dim: int, weights: NDArray[np.float64]) -> None:
        """Bring the products of the maps that take part to those without input `dim`."""
        active = np.flatnonzero(weights).tolist()
        opened = {self.opened[p] for p in active}
        if opened == {dim}:
            return
        if self._products is None:
            shape = (self.n_tiles, len(self.layout.maps), self.rank, self._tile)
            self._products = self._empty(*shape), self._empty(*shape)
        flags, n_products = None, len(self.y) * len(active) * self.rank
        if len(opened) == 1 and None not in opened and n_products > _FEW_PRODUCTS:
            flags = self._switch(opened.pop(), dim, weights)
        self._rebuild(dim, weights, flags)
        for p in active:
            self.opened[p] = dim

    def _switch(self, old: Any, dim: int, weights: NDArray[np.float64]) -> Tensor:
        """Exchange one input for another; return where the division went wrong."""
        er, ei, _, _ = self._features()
        maps, _ = self._choose(weights)
        n_flags = len(self.y) // kernels.FLAGGED_ROWS
        flags = torch.zeros(n_flags, dtype=torch.int32, device=self._device)
        rows = 512 if self.dtype == torch.float64 else 256
        kernels.switch[(len(self.y) // rows, len(maps))](
            *self._products, er, ei, self._cores, self._first, maps, flags, *self._counts,
            old, dim, TINY[self.dtype] ** 2,
            RANK=self.rank, RANKS=_RANKS, TILE=self._tile, BLOCK=rows,
            FLAGGED=kernels.FLAGGED_ROWS,
        )  # fmt: skip
        return flags

    def _rebuild(self, dim: int, weights: NDArray[np.float64], flags: Tensor | None) -> None:
        """Form the products from all cores, for all rows or for those with a flag."""
        er, ei, lr, li = self._features()
        maps, _ = self._choose(weights)
        kernels.rebuild[(len(self.y) // self._rows, len(maps))](
            *self._products, er, ei, lr, li, self._cores, self._first, maps,
            self._first if flags is None else flags, *self._counts, dim,
            RANK=self.rank, RANKS=_RANKS, TILE=self._tile, BLOCK=self._rows,
            LEADING=lr is not er, FLAGS=flags is not None, FLAGGED=kernels.FLAGGED_ROWS,
        )  # fmt: skip

    def _assemble(self, block: Tensor, core: int, weights: NDArray[np.float64]) -> None:
        """Write the block of one core's step."""
        er, ei, lr, li = self._features()
        maps, values = self._choose(weights)
        products = (er, ei) if self._products is None else self._products
        kernels.assemble[(len(self.y) // self._rows,)](
            *products, er, ei, lr, li, self._cores, self._first, maps, values, self.root, block,
            *self._counts, len(maps), core, *self._places[core],
            RANK=self.rank, RANKS=_RANKS, HEIGHT=block.shape[1], TILE=self._tile,
            BLOCK=self._rows, LEADING=lr is not er, KEPT=self.keep,
        )  # fmt: skip

    @property
    def n_tiles(self) -> int:
        """Number of tiles the rows are cut into."""
        return len(self.y) // self._tile

    @property
    def _rows(self) -> int:
        """Rows that one program takes."""
        return 256 if self.dtype == torch.float64 else 512

    @property
    def _counts(self) -> tuple[int, int, int]:
        """Number of inputs, cores and maps."""
        return len(self.layout.n_basis), len(self._places), len(self.layout.maps)

    def _choose(self, weights: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        """Return the maps that take part and their weights, uploaded once a sweep."""
        if self._chosen is None or not np.array_equal(self._chosen[0], weights):
            maps = np.flatnonzero(weights)
            values = self._upload(weights[maps]).to(self.dtype)
            self._chosen = (weights.copy(), self._upload(maps), values)
        return self._chosen[1], self._chosen[2]

    def _features(self) -> tuple[Tensor, ...]:
        """Return ratios and leading terms, real and imaginary; the ratios where none leads."""
        if self._ratios is not None:
            return self._ratios
        maps = self.layout.maps
        er, ei = self._empty(2, self.n_tiles, len(maps), self.X.shape[1], self._tile)
        terms = {}
        for p, feature_map in enumerate(maps):
            assert isinstance(feature_map, GeometricFeatures)
            self._write_ratio(p, feature_map, er, ei)
            term = leading(self.X, feature_map, self.layout)
            if term is not None:
                terms[p] = term
        features = (er, ei, er, ei)
        if terms:
            lr, li = self._empty(2, self.n_tiles, len(maps), self._tile)
            lr.fill_(1), li.fill_(0)
            for p, term in terms.items():
                lr[:, p], li[:, p] = self._tiled(term.real), self._tiled(term.imag)
            features = (er, ei, lr, li)
        if self.keep:
            self._ratios = features
        return features

    def _tiled(self, values: Tensor) -> Tensor:
        """Pad an array with the rows innermost, and cut it into tiles, tiles second to last."""
        padded = torch.nn.functional.pad(values, (0, len(self.y) - values.shape[-1]))
        return padded.view(*values.shape[:-1], -1, self._tile)

    def _write_ratio(self, p: int, feature_map: GeometricFeatures, er: Tensor, ei: Tensor) -> None:
        known = wave(feature_map)
        if known is None:
            values = ratio(self.X, feature_map, torch.complex128)
            er[:, p] = self._tiled(values.real).transpose(0, 1)
            ei[:, p] = self._tiled(values.imag).transpose(0, 1)
            return
        rows = kernels.FLAGGED_ROWS
        kernels.fourier_ratio[(len(self.y) // rows, self.X.shape[1])](
            self.X, er, ei, self._upload(np.array(known)), len(self.X), *self.X.stride(),
            p, len(self.layout.maps), TILE=self._tile, BLOCK=rows,
        )  # fmt: skip


def _planes(core: NDArray[Any]) -> NDArray[np.float64]:
    """Return Re w₀, Im w₀, Re w₁, Im w₁ of a core of two rows."""
    return np.stack([core[0].real, core[0].imag, core[1].real, core[1].imag])

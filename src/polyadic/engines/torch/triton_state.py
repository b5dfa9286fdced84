"""The state that the Triton kernels work on, and their launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch import triton_kernels as kernels
from polyadic.engines.torch.eager import TINY, DeviceState, Options
from polyadic.engines.torch.features import leading, ratio
from polyadic.features import GeometricFeatures, TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# Where the arithmetic of a step takes less time than its launches, rows come in small tiles and
# the block of a single chunk is kept; so many products are sooner formed anew, in one launch,
# than brought from one input to the next.
_FEW_ROWS, _FEW_PRODUCTS = 2**16, 2**22
_RANKS = 4  # ranks that one program takes at a time: few, so that little is padded


class Features(NamedTuple):
    """Ratios, real and imaginary parts, and leading terms where any map has some."""

    er: Tensor
    ei: Tensor
    leading: tuple[Tensor, Tensor] | None


class KernelState(DeviceState):
    """Ratios, cores and products on the device, laid out as the kernels want them."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, options: Options) -> None:
        super().__init__(rows, cores, layout, options)
        self._device = self.X.device
        self._places = layout.core_places
        dims = [dim for dim, _ in self._places]
        self._first = self._upload(np.searchsorted(dims, np.arange(len(layout.n_basis) + 1)))
        self._cores = self._stack(cores)
        # The last rows of every block: y of the weighted rows, and zeros, for products of
        # matrices whose height is a multiple of 4 are faster.
        self._tail = self._empty(self.n_tiles, 4, self._tile).zero_()
        self._tail[:, 0] = (self.y * self.sqrt_weight).view(-1, self._tile)
        self._block: Tensor | None = None
        self._kept_features: Features | None = None
        self._products: Any = None  # their real and imaginary parts
        self._chosen: tuple[NDArray[np.float64], Tensor, Tensor] | None = None

    def restart(self, cores: Cores) -> DeviceState:
        """Exchange all cores; ratios stay, and so does the memory of the products."""
        self._cores = self._stack(cores)
        self.left_out = [None] * len(self.layout.maps)
        return self

    def _stack(self, cores: Cores) -> Tensor:
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

    def block(self, core: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows, tile by tile."""
        block = self._provide_block()
        if not map_weights.any():
            block[:, : 4 * self.rank] = 0
            return block
        if self.keep:
            self._leave_out(self._places[core][0], map_weights)
        self._assemble(block, core, map_weights)
        return block

    def _provide_block(self) -> Tensor:
        """Return a block with its last rows filled in: of few rows, always the same one."""
        if self._block is not None:
            return self._block
        filled = 4 * self.rank
        shape = (self.n_tiles, filled + 4, self._tile)
        block = torch.empty(shape, dtype=self.options.block_dtype, device=self._device)
        block[:, filled:] = self._tail
        if self.options.keep_block and len(self.y) <= _FEW_ROWS:
            self._block = block
        return block

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each.

        Where there is memory for products, those without the first input are left in it.
        """
        maps = list(maps)
        out = self._empty(len(maps), len(self.y))
        keep, dim = self._products is not None, self._places[0][0]
        self._launch(
            kernels.respond, self._rows, len(maps),
            maps_ptr=self._upload(np.array(maps)), out_ptr=out, dim=dim, width=len(self.y),
            KEEP=keep,
        )  # fmt: skip
        if keep:
            for p in maps:
                self.left_out[p] = dim
        return out

    def _launch(self, kernel: Any, rows: int, slots: int | None = None, /, **given: Any) -> None:
        """Run a kernel over all rows, and over maps; what kernels share is bound here, by name."""
        features, layout = self._features(), self.layout
        ratios = features.er, features.ei
        # Where there are no products or leading terms a kernel does not read them.
        zr, zi = self._products or ratios
        lr, li = features.leading or ratios
        known = {
            "zr_ptr": zr, "zi_ptr": zi, "er_ptr": features.er, "ei_ptr": features.ei,
            "lr_ptr": lr, "li_ptr": li, "core_ptr": self._cores, "first_ptr": self._first,
            "n_dims": len(layout.inputs), "n_cores": len(self._places), "n_all": len(layout.maps),
            "RANK": self.rank, "RANKS": _RANKS, "TILE": self._tile, "BLOCK": rows,
            "LEADING": features.leading is not None, "FLAGGED": kernels.FLAGGED_ROWS, **given,
        }  # fmt: skip
        grid = (len(self.y) // rows,) if slots is None else (len(self.y) // rows, slots)
        kernel[grid](**{name: known[name] for name in kernel.arg_names})

    def _group(self, core: int) -> int:
        """Return the input of a core: its cores are left out of the products together."""
        return self._places[core][0]

    def _leave_out(self, dim: int, map_weights: NDArray[np.float64]) -> None:
        """Bring the products of the maps that take part to those without input `dim`."""
        active = np.flatnonzero(map_weights).tolist()
        left_out = {self.left_out[p] for p in active}
        if left_out == {dim}:
            return
        if self._products is None:
            shape = (self.n_tiles, len(self.layout.maps), self.rank, self._tile)
            self._products = self._empty(*shape), self._empty(*shape)
        # With one old input left out of all products it can be exchanged for the new one; where
        # there is none, or few products, they are formed from all cores.
        flags, n_products = None, len(self.y) * len(active) * self.rank
        if len(left_out) == 1 and None not in left_out and n_products > _FEW_PRODUCTS:
            flags = self._switch(left_out.pop(), dim, map_weights)
        self._rebuild(dim, map_weights, flags)  # all rows, or those where a division was unsafe
        for p in active:
            self.left_out[p] = dim

    def _switch(self, old: Any, dim: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Exchange one input for another; return where the division went wrong."""
        maps, _ = self._choose(map_weights)
        n_flags = len(self.y) // kernels.FLAGGED_ROWS
        flags = torch.zeros(n_flags, dtype=torch.int32, device=self._device)
        rows = 512 if self.dtype == torch.float64 else 256
        self._launch(
            kernels.switch, rows, len(maps),
            maps_ptr=maps, flag_ptr=flags, old=old, dim=dim, tiny=TINY[self.dtype] ** 2,
        )  # fmt: skip
        return flags

    def _rebuild(self, dim: int, map_weights: NDArray[np.float64], flags: Tensor | None) -> None:
        """Form the products from all cores, for all rows or for those with a flag."""
        maps, _ = self._choose(map_weights)
        some = flags is not None
        self._launch(
            kernels.rebuild, self._rows, len(maps),
            maps_ptr=maps, flag_ptr=flags if some else self._first, dim=dim, FLAGS=some,
        )  # fmt: skip

    def _assemble(self, block: Tensor, core: int, map_weights: NDArray[np.float64]) -> None:
        """Write the block of one core's step."""
        maps, values = self._choose(map_weights)
        dim, bit = self._places[core]
        self._launch(
            kernels.assemble, self._rows,
            maps_ptr=maps, map_weight_ptr=values, sqrt_weight_ptr=self.sqrt_weight,
            block_ptr=block, n_maps=len(maps), core=core, dim=dim, bit=bit,
            HEIGHT=block.shape[1], KEPT=self.keep,
        )  # fmt: skip

    @property
    def n_tiles(self) -> int:
        """Number of tiles the rows are cut into."""
        return len(self.y) // self._tile

    @property
    def _rows(self) -> int:
        """Rows that one program takes."""
        return 256 if self.dtype == torch.float64 else 512

    def _choose(self, map_weights: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        """Return the maps that take part and their weights λ, uploaded once a sweep."""
        if self._chosen is None or not np.array_equal(self._chosen[0], map_weights):
            maps = np.flatnonzero(map_weights)
            values = self._upload(map_weights[maps]).to(self.dtype)
            self._chosen = (map_weights.copy(), self._upload(maps), values)
        return self._chosen[1], self._chosen[2]

    def _features(self) -> Features:
        """Return ratios and leading terms of every map."""
        if self._kept_features is not None:
            return self._kept_features
        maps = self.layout.maps
        er, ei = self._empty(2, self.n_tiles, len(maps), self.X.shape[1], self._tile)
        terms = {}
        for p, feature_map in enumerate(maps):
            assert isinstance(feature_map, GeometricFeatures)
            self._write_ratio(p, feature_map, er, ei)
            term = leading(self.X, feature_map, self.layout)
            if term is not None:
                terms[p] = term
        features = Features(er, ei, self._tile_terms(terms) if terms else None)
        if self.keep:
            self._kept_features = features
        return features

    def _tile_terms(self, terms: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the leading terms of all maps, 1 for those that have none."""
        lr, li = self._empty(2, self.n_tiles, len(self.layout.maps), self._tile)
        lr.fill_(1), li.fill_(0)
        for p, term in terms.items():
            lr[:, p], li[:, p] = self._cut_tiles(term.real), self._cut_tiles(term.imag)
        return lr, li

    def _cut_tiles(self, values: Tensor) -> Tensor:
        """Pad an array with the rows innermost, and cut it into tiles, tiles second to last."""
        padded = torch.nn.functional.pad(values, (0, len(self.y) - values.shape[-1]))
        return padded.view(*values.shape[:-1], -1, self._tile)

    def _write_ratio(self, p: int, feature_map: GeometricFeatures, er: Tensor, ei: Tensor) -> None:
        wave = feature_map.wave()
        if wave is None:
            values = ratio(self.X, feature_map, torch.complex128)
            er[:, p] = self._cut_tiles(values.real).transpose(0, 1)
            ei[:, p] = self._cut_tiles(values.imag).transpose(0, 1)
            return
        rows = kernels.FLAGGED_ROWS
        row_stride, column_stride = self.X.stride()
        kernels.fourier_ratio[(len(self.y) // rows, self.X.shape[1])](
            x_ptr=self.X, er_ptr=er, ei_ptr=ei, wave_ptr=self._upload(np.array(wave[:2])),
            n_rows=len(self.X), row_stride=row_stride, column_stride=column_stride,
            p=p, n_all=len(self.layout.maps), TILE=self._tile, BLOCK=rows,
        )  # fmt: skip


def _planes(core: NDArray[Any]) -> NDArray[np.float64]:
    """Return Re w₀, Im w₀, Re w₁, Im w₁ of a core of two rows."""
    return np.stack([core[0].real, core[0].imag, core[1].real, core[1].imag])

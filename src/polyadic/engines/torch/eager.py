"""States in plain PyTorch: any layout, any device, and the oracle of the kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch.features import Factors
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# A response this much smaller than its terms is not divided by, but left out of a new product.
TINY = {torch.float64: 1e-6, torch.float32: 3e-4}


class State:
    """Rows and cores of a chunk, and which cores are left out of each map's product.

    `opened[p]` is the group of cores left out of the kept product of map p, None where
    there is no such product.  A commit to a core that is left out changes nothing in the
    product; a commit to any other makes it worthless.
    """

    alone = False  # whether there is no other chunk, so that scratch memory may be kept

    def __init__(
        self,
        rows: Rows,
        cores: Cores,
        layout: TensorLayout,
        dtype: torch.dtype,
        block_dtype: torch.dtype,
        keep: bool,
    ) -> None:
        self.rows, self.X = rows, cast(Any, rows.X)
        self.layout, self.dtype, self.block_dtype, self.keep = layout, dtype, block_dtype, keep
        self.rank: int = cores[0].shape[1]
        self.opened: list[int | None] = [None] * len(layout.maps)
        weight: Any = rows.weight
        self.total = float(len(rows) if weight is None else weight.sum(dtype=torch.float64))
        self.y, self.root = self._padded(rows, width=self.width(len(rows)))

    def restart(self, cores: Cores) -> State:
        """Return the state of the same rows for other cores; this one may be used up."""
        return type(self)(self.rows, cores, self.layout, self.dtype, self.block_dtype, self.keep)

    def width(self, n_rows: int) -> int:
        """Return how many columns the arrays of `n_rows` rows have."""
        return n_rows

    def _padded(self, rows: Rows, width: int) -> tuple[Tensor, Tensor]:
        """Return y and the roots of the weights; padded rows have weight 0."""
        y: Any = rows.y
        ones = torch.ones_like(y, dtype=self.dtype)
        root = ones if rows.weight is None else torch.as_tensor(rows.weight).sqrt().to(self.dtype)
        pad = (0, width - len(y))
        return torch.nn.functional.pad(y, pad), torch.nn.functional.pad(root, pad)

    def n_columns(self, core: int) -> int:
        """Return the number of columns of B in the step of one core."""
        return self.layout.core_sizes[core] * self.rank * (2 if self.layout.is_complex else 1)

    def block(self, core: int, weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows: parts × columns × rows.

        Further columns may follow, of zeros.
        """
        raise NotImplementedError

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each."""
        raise NotImplementedError

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        self._set_core(core, value)
        group = self._group(core)
        self.opened = [None if opened != group else opened for opened in self.opened]

    def _group(self, core: int) -> int:
        """Return the group that a core is left out with; here every core is its own."""
        return core

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        raise NotImplementedError


class EagerState(State):
    """One kept product a map, updated by multiplying one core in and dividing one out."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, *options: Any) -> None:
        super().__init__(rows, cores, layout, *options)
        self._field = self.dtype.to_complex() if layout.is_complex else self.dtype
        self._factor = Factors(self.X, layout, self._field)
        self._cores = [self._upload(core) for core in cores]
        self._products: dict[int, Tensor] = {}

    def _upload(self, core: NDArray[Any]) -> Tensor:
        return torch.as_tensor(core).to(self.X.device, self._field)

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        self._cores[core] = self._upload(value)

    def block(self, core: int, weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows: parts × columns × rows."""
        size, width = len(self._cores[core]), len(self.y)
        A = torch.zeros((size, self.rank, width), dtype=self._field, device=self.X.device)
        for p in np.flatnonzero(weights).tolist():
            A += float(weights[p]) * (self._without(p, core) * self._factor(p, core)[:, None])
        A = A.flatten(0, 1)
        parts = [A.real, A.imag] if A.is_complex() else [A]
        block = torch.cat([*parts, self.y[None].to(self.dtype)]).to(self.block_dtype)
        return in_parts(block * self.root)

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each."""
        return torch.stack([self._product(p).sum(0).real for p in maps])

    def _response(self, p: int, core: int) -> Tensor:
        return self._cores[core].T @ self._factor(p, core)

    def _product(self, p: int, without: int | None = None) -> Tensor:
        shape = (self.rank, len(self.y))
        product = torch.ones(shape, dtype=self._field, device=self.X.device)
        leading = self._factor.leading(p)
        if leading is not None:
            product *= leading
        for core in range(len(self._cores)):
            if core != without:
                product *= self._response(p, core)
        return product

    def _without(self, p: int, core: int) -> Tensor:
        """Return the product of all cores but one, from the kept product where there is one."""
        opened = self.opened[p]
        if opened is None:
            product = self._product(p, without=core)
        elif opened == core:
            product = self._products[p]
        else:
            product = self._products[p] * self._response(p, opened)
            product = self._divide(product, p, core)
        if self.keep:
            self._products[p], self.opened[p] = product, core
        return product

    def _divide(self, product: Tensor, p: int, core: int) -> Tensor:
        """Take a core out of a product; where it is too small to, form the product anew."""
        response = self._response(p, core)
        terms = self._cores[core].abs().T @ self._factor(p, core).abs()
        lost = response.abs() <= TINY[self.dtype] * terms
        quotient = product / torch.where(lost, torch.ones_like(response), response)
        if not bool(lost.any()):
            return quotient
        return torch.where(lost, self._product(p, without=core), quotient)


def in_parts(block: Tensor, width: int = 4096) -> Tensor:
    """Cut a matrix into a stack of parts of `width` columns; zeros fill the last one."""
    if block.shape[1] <= width:
        return block[None]
    padded = torch.nn.functional.pad(block, (0, -block.shape[1] % width))
    return padded.view(len(block), -1, width).transpose(0, 1)

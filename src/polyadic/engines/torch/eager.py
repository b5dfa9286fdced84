"""States on a torch device; in plain PyTorch, for any layout, and the oracle of the kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch.features import Factors
from polyadic.engines.torch.sums import (
    DeviceProduct,
    DeviceSketch,
    DeviceSums,
    gram,
    gram_of,
    in_parts,
    no_tf32,
)
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows

# A response this much smaller than its terms is not divided by, but left out of a new product.
TINY = {torch.float64: 1e-6, torch.float32: 3e-4}


@dataclass(frozen=True)
class Options:
    """How states compute.

    Parameters
    ----------
    dtype, block_dtype : torch.dtype
        Precision of the products, and of the block that is multiplied with itself.
    keep : bool
        Whether products stay in memory from step to step.
    keep_block : bool
        Whether the block of few rows does too; for a state that is the only one.
    """

    dtype: torch.dtype
    block_dtype: torch.dtype
    keep: bool
    keep_block: bool


class DeviceState:
    """Rows and cores of a chunk, and which cores are left out of each map's product.

    `left_out[p]` is the group of cores left out of the kept product of map p, None where
    there is no such product.  A commit to a core that is left out changes nothing in the
    product; a commit to any other makes it worthless.
    """

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, options: Options) -> None:
        self.rows, self.X = rows, cast(Any, rows.X)
        self.layout, self.options = layout, options
        self.dtype, self.keep = options.dtype, options.keep
        self.rank: int = cores[0].shape[1]
        self.left_out: list[int | None] = [None] * len(layout.maps)
        weight: Any = rows.weight
        self.total_weight = float(len(rows) if weight is None else weight.sum(dtype=torch.float64))
        self.y, self.sqrt_weight = self._pad(rows, width=self.width(len(rows)))

    def restart(self, cores: Cores) -> DeviceState:
        """Return the state of the same rows for other cores; this one may be used up."""
        return type(self)(self.rows, cores, self.layout, self.options)

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> DeviceSums:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        with no_tf32():
            sums = gram_of(self.block(core, map_weights), self.n_columns(core) + 1)
        return DeviceSums(sums, self.total_weight)

    def core_sketch(self, core: int) -> DeviceSketch:
        """Raise: only layouts of tables are solved by conjugate gradients."""
        raise NotImplementedError("Only layouts of tables have a sketch.")

    def gram_product(self, core: int, value: NDArray[Any]) -> DeviceProduct:
        """Raise: only layouts of tables are solved by conjugate gradients."""
        raise NotImplementedError("Only layouts of tables have products.")

    def mixing_equations(self) -> DeviceSums:
        """Return the sums of F, the real responses of every map."""
        with no_tf32():
            responses = self.responses(range(len(self.layout.maps)))
            block = torch.cat([responses, self.y[None]]).to(torch.float64) * self.sqrt_weight
            return DeviceSums(gram(in_parts(block)), self.total_weight)

    def width(self, n_rows: int) -> int:
        """Return how many columns the arrays of `n_rows` rows have."""
        return n_rows

    def _pad(self, rows: Rows, width: int) -> tuple[Tensor, Tensor]:
        """Return y and the square roots of the weights; padded rows have weight 0."""
        y: Any = rows.y
        ones = torch.ones_like(y, dtype=self.dtype)
        weight = ones if rows.weight is None else torch.as_tensor(rows.weight)
        pad = (0, width - len(y))
        sqrt_weight = torch.nn.functional.pad(weight.sqrt().to(self.dtype), pad)
        return torch.nn.functional.pad(y, pad), sqrt_weight

    def n_columns(self, core: int) -> int:
        """Return the number of columns of B in the step of one core."""
        return self.layout.core_sizes[core] * self.rank * (2 if self.layout.is_complex else 1)

    def block(self, core: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows: parts × columns × rows.

        Further columns may follow, of zeros.
        """
        raise NotImplementedError

    def columns(self, core: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Return [Re A, −Im A]ᵀ of rows without weights, or Aᵀ where everything is real."""
        block = self.block(core, map_weights)[:, : self.n_columns(core)]
        columns = block.transpose(0, 1).flatten(1)[:, : len(self.X)]
        if self.layout.is_complex:
            columns[len(columns) // 2 :] *= -1
        return columns

    def responses(self, maps: Iterable[int]) -> Tensor:
        """Return the real responses of some maps, one row each."""
        raise NotImplementedError

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""
        self._set_core(core, value)
        group = self._group(core)
        self.left_out = [None if each != group else each for each in self.left_out]

    def _group(self, core: int) -> int:
        """Return the group that a core is left out with; here every core is its own."""
        return core

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        raise NotImplementedError


class EagerState(DeviceState):
    """One kept product a map, updated by multiplying one core in and dividing one out."""

    def __init__(self, rows: Rows, cores: Cores, layout: TensorLayout, options: Options) -> None:
        super().__init__(rows, cores, layout, options)
        self._field = self.dtype.to_complex() if layout.is_complex else self.dtype
        self._factor = Factors(self.X, layout, self._field)
        self._cores = [self._upload(core) for core in cores]
        self._products: dict[int, Tensor] = {}

    def _upload(self, core: NDArray[Any]) -> Tensor:
        return torch.as_tensor(core).to(self.X.device, self._field)

    def _set_core(self, core: int, value: NDArray[Any]) -> None:
        self._cores[core] = self._upload(value)

    def block(self, core: int, map_weights: NDArray[np.float64]) -> Tensor:
        """Return the columns of B and y of the weighted rows: parts × columns × rows."""
        size, width = len(self._cores[core]), len(self.y)
        A = torch.zeros((size, self.rank, width), dtype=self._field, device=self.X.device)
        for p in np.flatnonzero(map_weights).tolist():
            Z, factor = self._product_without(p, core), self._factor(p, core)
            A += float(map_weights[p]) * (Z * factor[:, None])
        A = A.flatten(0, 1)
        parts = [A.real, A.imag] if A.is_complex() else [A]
        block = torch.cat([*parts, self.y[None].to(self.dtype)]).to(self.options.block_dtype)
        return in_parts(block * self.sqrt_weight)

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

    def _product_without(self, p: int, core: int) -> Tensor:
        """Return the product of all cores but one, from the kept product where there is one."""
        left_out = self.left_out[p]
        if left_out is None:
            product = self._product(p, without=core)
        elif left_out == core:
            product = self._products[p]
        else:
            product = self._products[p] * self._response(p, left_out)
            product = self._divide(product, p, core)
        if self.keep:
            self._products[p], self.left_out[p] = product, core
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

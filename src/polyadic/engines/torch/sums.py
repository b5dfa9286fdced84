"""Sums on a torch device: the Gram matrix of [B, y] holds every one of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.normal import NormalEquations

_ONE_BAND = 64  # rows of a block whose Gram matrix is one product
_FEW_COLUMNS = 2**16


@dataclass(frozen=True)
class DeviceSums:
    """The Gram matrix of [B, y] on a device, and the sum of the row weights."""

    gram: Tensor
    total_weight: float

    def __add__(self, other: DeviceSums) -> DeviceSums:
        return DeviceSums(self.gram + other.gram, self.total_weight + other.total_weight)

    def on_host(self) -> NormalEquations:
        """Bring the sums to the host, as normal equations."""
        matrix = to_host(self.gram)
        sums = matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1])
        return NormalEquations(*sums, self.total_weight)


@dataclass(frozen=True)
class DeviceSketch:
    """The sums of `CoreSketch` on a device."""

    moment: Tensor
    feature_power: Tensor
    product_gram: Tensor
    sketched_weight: Tensor
    total_weight: float

    def __add__(self, other: DeviceSketch) -> DeviceSketch:
        return DeviceSketch(
            self.moment + other.moment,
            self.feature_power + other.feature_power,
            self.product_gram + other.product_gram,
            self.sketched_weight + other.sketched_weight,
            self.total_weight + other.total_weight,
        )

    def on_host(self) -> CoreSketch:
        """Bring the sums to the host."""
        return CoreSketch(
            to_host(self.moment),
            to_host(self.feature_power),
            to_host(self.product_gram),
            float(self.sketched_weight),
            self.total_weight,
        )


@dataclass(frozen=True)
class DeviceProduct:
    """AᵀA v on a device."""

    value: Tensor

    def __add__(self, other: DeviceProduct) -> DeviceProduct:
        return DeviceProduct(self.value + other.value)

    def on_host(self) -> GramProduct:
        """Bring the product to the host."""
        return GramProduct(to_host(self.value))


def to_host(tensor: Tensor) -> NDArray[np.float64]:
    """Return a tensor as an array."""
    if tensor.is_cuda:
        # Pinned memory is kept by torch, so its pages are there, and the device writes to it.
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        tensor = pinned.copy_(tensor)
    return tensor.numpy()


def in_parts(block: Tensor, width: int = 4096) -> Tensor:
    """Cut a matrix into a stack of parts of `width` columns; zeros fill the last one."""
    if block.shape[1] <= width:
        return block[None]
    padded = torch.nn.functional.pad(block, (0, -block.shape[1] % width))
    return padded.view(len(block), -1, width).transpose(0, 1)


def gram_of(parts: Tensor, height: int) -> Tensor:
    """Return the Gram matrix of the first `height` rows of a stack of parts."""
    if is_small(parts):  # what is padded would have to be cut off by one more launch
        return gram(parts[:, :height])
    return gram(parts)[:height, :height]


def gram(parts: Tensor) -> Tensor:
    """Return the sum of part · partᵀ over a stack of parts, in double precision.

    Single-precision parts are multiplied in single precision, but each part is only a few
    thousand columns wide, and what adds the parts up is double.  Of a large matrix only the
    lower triangle is computed, in a few bands of rows.
    """
    height = parts.shape[1]
    if height <= _ONE_BAND or is_small(parts):
        return torch.bmm(parts, parts.mT).sum(0, dtype=torch.float64)
    total = torch.zeros((height, height), dtype=torch.float64, device=parts.device)
    for first, last in pairwise(_bands(height)):
        band, all_above = parts[:, first:last], parts[:, :last].transpose(1, 2)
        total[first:last, :last] = torch.bmm(band, all_above).sum(0, dtype=torch.float64)
    lower = total.tril()
    return lower + lower.tril(-1).T


def is_small(parts: Tensor) -> bool:
    """Whether launches take longer than the product, so that the fewest are best."""
    return parts.shape[0] * parts.shape[2] <= _FEW_COLUMNS


def _bands(height: int) -> list[int]:
    """Return where to cut the lower triangle of more than `_ONE_BAND` rows.

    On an H200, 32 and the rest took 25 % less time for 84 rows than one product of all,
    and thirds 20 % less for 404; narrower bands waste what they save on partial tiles.
    """
    if height <= 128:
        return [0, 32, height]
    third = -(-height // 12) * 4
    return [0, third, 2 * third, height]


@contextmanager
def no_tf32() -> Iterator[None]:
    """Keep single-precision products single: some programs switch their digits off."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

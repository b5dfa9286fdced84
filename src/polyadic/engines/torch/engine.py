"""The PyTorch engine: the verbs on any torch device, fused kernels where there are some.

A state gives a block, the columns of B and y of the weighted rows as the rows of one
matrix with the samples innermost, cut into a stack of parts; the engine's part is
Σ part · partᵀ, which holds every sum at once.  `EagerState` is plain PyTorch for any
layout; `KernelState` runs the Triton kernels for quantized complex layouts of geometric
maps, the ones that large fits use.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch.eager import EagerState, State, in_parts
from polyadic.engines.torch.features import is_geometric
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows

_DTYPES = {"float64": torch.float64, "float32": torch.float32}
# Cards whose double precision runs at half the rate of single, by compute capability.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
_ONE_BAND = 64  # rows of a block whose Gram matrix is one product
_FEW_COLUMNS = 2**16


class TorchEngine:
    """PyTorch on one device, one chunk at a time.

    Parameters
    ----------
    device : str or torch.device
        Where the arithmetic happens.
    dtype : {"float64", "float32"}
        Precision of state and assembly; sums are double.
    keep : bool
        Whether a state keeps its products from step to step.  Without, every step forms
        them anew: more arithmetic, but nothing stays in memory besides the rows.
    kernels : bool, optional
        Whether to use the Triton kernels where the layout allows; by default on CUDA
        devices where Triton is installed.
    """

    def __init__(
        self,
        device: str | torch.device = "cpu",
        dtype: str = "float64",
        *,
        keep: bool = True,
        kernels: bool | None = None,
    ) -> None:
        self.device = torch.empty(0, device=device).device  # "cuda" is the current one of them
        self.dtype = _DTYPES[dtype]
        self.keep = keep
        if kernels is None:
            kernels = self.device.type == "cuda" and importlib.util.find_spec("triton") is not None
        self.kernels = kernels
        self._precision = dtype
        self.block_dtype = torch.float64 if self._doubles_are_fast() else self.dtype

    def keeping(self, keep: bool) -> TorchEngine:
        """Return this engine with or without products that stay in memory."""
        return TorchEngine(self.device, self._precision, keep=keep, kernels=self.kernels)

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> State:
        """Return the state of a chunk for these cores."""
        rows = self.upload(rows)
        options = (rows, cores, layout, self.dtype, self.block_dtype, self.keep)
        if not self.fuses(layout):
            return EagerState(*options)
        from polyadic.engines.torch.triton_state import KernelState

        return KernelState(*options)

    def restart(self, state: State, cores: Cores) -> State:
        """Return the state of the same chunk for other cores."""
        return state.restart(cores)

    def fuses(self, layout: TensorLayout) -> bool:
        """Whether the kernels compute this layout."""
        return self.kernels and layout.is_complex and is_geometric(layout)

    def upload(self, rows: Rows) -> Rows:
        """Return the rows as tensors on the device; those that are there stay as they are."""
        return rows.map(lambda array: as_tensor(array).to(self.device, non_blocking=True))

    def holds(self, array: Any) -> bool:
        """Whether an array is a tensor on the engine's device."""
        return isinstance(array, Tensor) and array.device == self.device

    def core_sums(self, state: State, core: int, weights: NDArray[np.float64]) -> Tensor:
        """Return the Gram matrix of [B, y] on the device."""
        with _no_tf32():
            height = state.n_columns(core) + 1
            block = state.block(core, weights)
            if _is_small(block):  # what is padded would have to be cut off by one more launch
                return gram(block[:, :height])
            return gram(block)[:height, :height]

    def mixing_sums(self, state: State) -> Tensor:
        """Return the Gram matrix of [F, y] on the device."""
        with _no_tf32():
            responses = state.responses(range(len(state.layout.maps)))
            block = torch.cat([responses, state.y[None]]).to(torch.float64) * state.root
            return gram(in_parts(block))

    def normal_equations(
        self, state: State, core: int, weights: NDArray[np.float64]
    ) -> NormalEquations:
        """Return the sums of B = [Re A, Im A], or of B = A where everything is real."""
        return equations(self.core_sums(state, core, weights), state.total)

    def commit(self, state: State, core: int, value: NDArray[Any]) -> None:
        """Replace one core in the state."""
        state.commit(core, value)

    def mixing_equations(self, state: State) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""
        return equations(self.mixing_sums(state), state.total)

    def predict(
        self, X: Any, cores: Cores, weights: NDArray[np.float64], layout: TensorLayout
    ) -> NDArray[np.float64]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""
        return np.asarray(self.respond(X, cores, weights, layout).cpu().numpy())

    def respond(
        self, X: Any, cores: Cores, weights: NDArray[np.float64], layout: TensorLayout
    ) -> Tensor:
        """Return what `predict` does, on the device."""
        state = self.start(Rows(X, np.zeros(len(X))), cores, layout)
        response = torch.zeros(len(X), dtype=torch.float64, device=self.device)
        with _no_tf32():
            for p in np.flatnonzero(weights).tolist():
                response += float(weights[p]) * state.responses([p])[0, : len(X)]
        return response

    def _doubles_are_fast(self) -> bool:
        if self.dtype == torch.float64 or self.device.type != "cuda":
            return True
        return torch.cuda.get_device_capability(self.device) in _FAST_DOUBLE


def as_tensor(array: Any) -> Tensor:
    """Return an array as a tensor, copied where torch cannot share its memory."""
    if isinstance(array, np.ndarray):
        array = np.require(array, requirements=["C", "W"])
    return torch.as_tensor(array)


def equations(sums: Tensor, total: float) -> NormalEquations:
    """Bring the Gram matrix of [B, y] to the host, as normal equations."""
    if sums.is_cuda:
        # Pinned memory is kept by torch, so its pages are there, and the device writes to it.
        pinned = torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True)
        sums = pinned.copy_(sums)
    matrix = sums.numpy()
    return NormalEquations(matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1]), total)


def gram(parts: Tensor) -> Tensor:
    """Return the sum of part · partᵀ over a stack of parts, in double precision.

    Single-precision parts are multiplied in single precision, but each part is only a few
    thousand columns wide, and what adds the parts up is double.  Of a large matrix only the
    lower triangle is computed, in a few bands of rows.
    """
    height = parts.shape[1]
    if height <= _ONE_BAND or _is_small(parts):
        return torch.bmm(parts, parts.mT).sum(0, dtype=torch.float64)
    total = torch.zeros((height, height), dtype=torch.float64, device=parts.device)
    for first, last in pairwise(_bands(height)):
        band, all_above = parts[:, first:last], parts[:, :last].transpose(1, 2)
        total[first:last, :last] = torch.bmm(band, all_above).sum(0, dtype=torch.float64)
    lower = total.tril()
    return lower + lower.tril(-1).T


def _is_small(parts: Tensor) -> bool:
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
def _no_tf32() -> Iterator[None]:
    """Keep single-precision products single: some programs switch their digits off."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

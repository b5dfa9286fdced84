"""The PyTorch engine: states on any torch device, fused kernels where there are some.

A state makes a block, the columns of B and y of the weighted rows as the rows of one
matrix with the samples innermost, cut into a stack of parts; Σ part · partᵀ holds every
sum at once.  `EagerState` is plain PyTorch for any
layout; `KernelState` runs the Triton kernels for quantized complex layouts of geometric
maps; `TableState` is for layouts of tables, whose blocks need not be made at all.
"""

from __future__ import annotations

import importlib.util
from copy import copy
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyadic.engines.torch import tables
from polyadic.engines.torch.eager import DeviceState, EagerState, Options
from polyadic.engines.torch.features import is_geometric
from polyadic.engines.torch.sums import no_tf32
from polyadic.engines.torch.tables import TableState
from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.posterior import CorePosterior, leverage
from polyadic.rows.rows import Rows

_DTYPES = {"float64": torch.float64, "float32": torch.float32}
# Cards whose double precision runs at half the rate of single, by compute capability.
_FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


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
    keep_block : bool
        Whether the kernels keep the block of few rows too, for a state that is the only one.
    kernels : bool, optional
        Whether to use the Triton kernels where the layout allows; by default on CUDA
        devices where Triton is installed.
    """

    takes_tensors: ClassVar[bool] = True

    def __init__(
        self,
        device: str | torch.device = "cpu",
        dtype: str = "float64",
        *,
        keep: bool = True,
        keep_block: bool = False,
        kernels: bool | None = None,
    ) -> None:
        self.device = torch.empty(0, device=device).device  # "cuda" is the current one of them
        self.dtype = _DTYPES[dtype]
        self.keep, self.keep_block = keep, keep_block
        if kernels is None:
            kernels = self.device.type == "cuda" and importlib.util.find_spec("triton") is not None
        self.kernels = kernels
        self.block_dtype = torch.float64 if self._doubles_are_fast() else self.dtype

    def keeping(self, keep: bool, *, keep_block: bool = False) -> TorchEngine:
        """Return this engine with or without products, and a block, that stay in memory."""
        engine = copy(self)
        engine.keep, engine.keep_block = keep, keep_block
        return engine

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> DeviceState:
        """Return the state of a chunk for these cores."""
        options = Options(self.dtype, self.block_dtype, self.keep, self.keep_block)
        rows = self.upload(rows)
        if layout.is_tabled:
            return self._table_state(rows, cores, layout, options)
        if not self.fuses(layout):
            return EagerState(rows, cores, layout, options)
        from polyadic.engines.torch.triton_state import KernelState

        return KernelState(rows, cores, layout, options)

    def _table_state(
        self, rows: Rows, cores: Cores, layout: TensorLayout, options: Options
    ) -> TableState:
        if not self.kernels:
            return TableState(rows, cores, layout, options)
        from polyadic.engines.torch.triton_table_state import FusedTableState

        return FusedTableState(rows, cores, layout, options)

    def fuses(self, layout: TensorLayout) -> bool:
        """Whether the kernels compute this layout."""
        return self.kernels and layout.is_complex and is_geometric(layout)

    def upload(self, rows: Rows) -> Rows:
        """Return the rows as tensors on the device; those that are there stay as they are."""
        return rows.map(lambda array: as_tensor(array).to(self.device, non_blocking=True))

    def holds(self, array: Any) -> bool:
        """Whether an array is a tensor on the engine's device."""
        return isinstance(array, Tensor) and array.device == self.device

    def predict(
        self, X: Any, cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> Any:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row.

        An array gives an array, a tensor one on the engine's device.
        """
        state = self.start(Rows(X, np.zeros(len(X))), cores, layout)
        response = torch.zeros(len(X), dtype=torch.float64, device=self.device)
        with no_tf32():
            for p in np.flatnonzero(map_weights).tolist():
                response += float(map_weights[p]) * state.responses([p])[0, : len(X)]
        return response if isinstance(X, Tensor) else response.cpu().numpy()

    def leverage(
        self,
        X: Any,
        cores: Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        posterior: CorePosterior,
    ) -> Any:
        """Return what the posterior of a core leaves open of each row, in units of the noise.

        An array gives an array, a tensor one on the engine's device.
        """
        engine = TorchEngine(self.device, keep=False, kernels=self.kernels)
        state = engine.start(Rows(X, np.zeros(len(X))), cores, layout)
        panels = [(first, as_tensor(each).to(self.device)) for first, each in posterior.panels]
        found = leverage(panels, state.columns(posterior.core, map_weights))
        return found if isinstance(X, Tensor) else found.cpu().numpy()

    def state_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the device memory of `n_rows` rows, and of what is kept of them."""
        if layout.is_tabled:
            return tables.state_bytes(n_rows, layout, rank, self.dtype.itemsize, self.keep)
        rows = n_rows * (len(layout.inputs) + 4) * self.dtype.itemsize
        if not self.keep:
            return rows
        products = n_rows * len(layout.maps) * rank * self._field_bytes(layout)
        return rows + products + self._feature_bytes(n_rows, layout)

    def scratch_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the device memory of the block of a step, and of features that are not kept."""
        if layout.is_tabled:
            return tables.scratch_bytes(n_rows, layout, rank, self.device, self.keep)
        columns = 2 * max(layout.core_sizes) * rank + 4
        # Plain PyTorch holds the block and two copies of it at a time.
        block = columns * self.block_dtype.itemsize * (1 if self.fuses(layout) else 3)
        scaling = 3 * 8 * (len(layout.inputs) + 1)  # doubles on their way to the engine's precision
        features = 0 if self.keep else self._feature_bytes(n_rows, layout)
        return n_rows * max(block, scaling) + features

    def _feature_bytes(self, n_rows: int, layout: TensorLayout) -> int:
        """Return the memory of the features: geometric ones are made from a ratio an input."""
        numbers = len(layout.inputs) + 1 if is_geometric(layout) else sum(layout.core_sizes)
        return n_rows * len(layout.maps) * numbers * self._field_bytes(layout)

    def _field_bytes(self, layout: TensorLayout) -> int:
        return (2 if layout.is_complex else 1) * self.dtype.itemsize

    def _doubles_are_fast(self) -> bool:
        if self.dtype == torch.float64 or self.device.type != "cuda":
            return True
        return torch.cuda.get_device_capability(self.device) in _FAST_DOUBLE


def as_tensor(array: Any) -> Tensor:
    """Return an array as a tensor, copied where torch cannot share its memory."""
    if isinstance(array, np.ndarray):
        array = np.require(array, requirements=["C", "W"])
    return torch.as_tensor(array)

"""Computing on a GPU, and tensors at the estimators' door.

This module is light; torch is imported when a device is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute, SearchLimits
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.rows.rows import Rows
from polyadic.samples.placement import Budget
from polyadic.samples.workers import Workers, thread_pools

if TYPE_CHECKING:
    import torch


_PREDICTED_ROWS = 2**20  # rows that are predicted at a time
_SOLVING_THREADS = 4


class DeviceCompute(Compute):
    """A PyTorch engine on one device, and how much of its memory to use."""

    # Screening is a chain of launches there: eight times the rows take hardly longer.
    limits = SearchLimits(few_rows=128_000, held_rows=160_000, work=1e15)

    @classmethod
    def on(
        cls,
        engine: str,
        device: str,
        dtype: str,
        chunk_size: int | str,
        memory_limit: float | str | None,
        spec: Any = None,
    ) -> DeviceCompute:
        """Check that the device is there, and make an engine for it."""
        check_device(device, engine)
        from polyadic.engines.torch.engine import TorchEngine

        rows = None if isinstance(chunk_size, str) else chunk_size
        return cls(TorchEngine(device, dtype), rows, Workers(), Budget(memory_limit), spec)

    def samples(self, rows: Rows, layout: TensorLayout, see: Any = None) -> Samples:
        """Return the samples of one target's rows; `see` scales those that are not yet."""
        from polyadic.engines.torch.engine import TorchEngine
        from polyadic.samples.device import DeviceSamples

        assert isinstance(self.engine, TorchEngine)
        limit = self.budget.limit
        return DeviceSamples(self.engine, rows, layout, self.chunk_size, limit, see)

    def predict(
        self, X: NDArray[Any], cores: Cores, weights: NDArray[np.float64], layout: TensorLayout
    ) -> NDArray[np.float64]:
        """Return the response of every row of `X`."""
        size = self.chunk_size or _PREDICTED_ROWS
        parts = [X[first : first + size] for first in range(0, len(X), size)]
        if not is_tensor(X):
            return np.concatenate(
                [self.engine.predict(part, cores, weights, layout) for part in parts]
            )
        import torch

        return torch.cat([self.engine.respond(part, cores, weights, layout) for part in parts])


@contextmanager
def few_blas_threads() -> Iterator[None]:
    """Hold BLAS to a few threads while the host solves the small systems of a fit.

    With the 16 threads of a 16-core machine a system of 800 unknowns took 50 ms, with 4
    threads 10 ms: longer than the GPU takes for its part.
    """
    pools = thread_pools().select(user_api="blas")
    if max((pool["num_threads"] for pool in pools.info()), default=0) <= _SOLVING_THREADS:
        yield
        return
    with pools.limit(limits=_SOLVING_THREADS):
        yield


def check_device(device: str, engine: str = "auto") -> None:
    """Raise an error that says what to install or change where `device` cannot be used."""
    if engine != "auto":
        raise ValueError(
            f"`engine` must be 'auto' with device={device!r}, got {engine!r}, which computes "
            "on the CPU. Leave it out, or pass device=None."
        )
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"`device={device!r}` needs PyTorch, which is not installed. Install it with "
            'pip install "polyadic[gpu]", or pass device=None to compute on the CPU.'
        ) from error
    try:
        kind = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"`device` must be None, 'cpu', or the name of a torch device such as 'cuda' or "
            f"'cuda:1', got {device!r}."
        ) from error
    if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"`device={device!r}` needs an NVIDIA GPU that PyTorch {torch.__version__} can use, "
            f"and it finds {torch.cuda.device_count()}. Install a driver and a CUDA build of "
            "PyTorch (pytorch.org says which), or pass device=None to compute on the CPU."
        )
    try:
        _hold_a_number(kind)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ValueError(
            f"`device={device!r}` must hold numbers in double precision with this PyTorch, "
            f"{torch.__version__}, but: {error}. Pass device='cuda' on a machine with an NVIDIA "
            "GPU, or device=None to compute on the CPU."
        ) from error


@cache
def _hold_a_number(device: torch.device) -> None:
    """Try a device; what was found to work is not tried again for every fit."""
    import torch

    torch.ones(1, dtype=torch.float64, device=device).item()


def is_tensor(array: Any) -> bool:
    """Whether `array` is a torch tensor; false, without importing torch, for anything else."""
    return type(array).__module__.split(".")[0] == "torch" and hasattr(array, "device")


def to_host(array: Any) -> Any:
    """Return a torch tensor as a NumPy array; leave anything else as it is."""
    if not is_tensor(array):
        return array
    array = array.detach().cpu()
    return (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()


def like(values: NDArray[Any], array: Any) -> Any:
    """Return `values` as a tensor on the device of `array`, if that is a tensor."""
    if not is_tensor(array):
        return values
    import torch

    return torch.as_tensor(values, device=array.device)

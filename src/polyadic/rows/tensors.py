"""Tensors at the door: torch is not imported here for anything that is not a tensor."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def is_tensor(array: Any) -> bool:
    """Whether `array` is a torch tensor."""
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

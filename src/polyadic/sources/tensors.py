"""Torch tensors at the door: checked where they are, on whatever device that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array
from torch import Tensor

from polyadic.engines.torch.engine import as_tensor
from polyadic.rows.rows import Rows, require_two_dimensions

_PIECE = 2**25  # numbers that are looked at at a time


def check_inputs(X: Any, *, gaps: bool = False) -> Tensor:
    """Return a tensor of inputs; raise unless it has two dimensions and finite numbers.

    With `gaps`, NaN is one.
    """
    if X.layout != torch.strided:
        raise ValueError(f"`X` must be a dense tensor, got {X.layout}. Pass X.to_dense().")
    require_two_dimensions(X)
    if not len(X) or not X.shape[1]:
        raise ValueError(
            f"`X` must have at least one row and one input, got the shape {tuple(X.shape)}."
        )
    inputs = _finite(_real(X, "X"), "X", gaps=gaps)
    if gaps and any(count_gaps(inputs)):
        # All gaps are the same NaN by their bits, which rows are hashed by.
        return inputs.masked_fill(torch.isnan(inputs), torch.nan)
    return inputs


def count_gaps(X: Any) -> list[int]:
    """Return the number of gaps in each column."""
    counts = torch.stack([torch.isnan(X[part]).sum(0) for part in _slices(X)])
    return list(counts.sum(0).tolist())


def check_rows(X: Any, y: Any, sample_weight: Any, *, gaps: bool = False) -> tuple[Rows, bool]:
    """Return the rows of positive weight, targets as columns, and whether `y` is a vector."""
    X = check_inputs(X, gaps=gaps)
    if y is None:
        raise ValueError("`y` must be given with `X`, got None. Pass the targets of the rows.")
    y = _beside(X, y, "y")
    if y.ndim not in (1, 2) or len(y) != len(X) or not y.numel():
        raise ValueError(
            f"`y` must have one row for each of the {len(X)} rows of `X`, got the shape "
            f"{tuple(y.shape)}. Pass a vector, or a column for each target."
        )
    single = y.ndim == 1
    arrays: list[Any] = [X, y.reshape(len(X), -1)]
    if sample_weight is None:
        return Rows(*arrays), single
    weight = _beside(X, sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = weight.repeat(len(X))
    if weight.shape != (len(X),):
        raise ValueError(
            f"`sample_weight` must have one entry for each of the {len(X)} rows of `X`, got the "
            f"shape {tuple(weight.shape)}."
        )
    if not (weight >= 0).all() or not weight.any():
        raise ValueError(
            "`sample_weight` must be non-negative and have at least one positive entry, got a "
            f"least one of {weight.min():g} and a greatest of {weight.max():g}. Pass positive "
            "weights for the rows to learn from."
        )
    arrays.append(weight)
    rows = Rows(*arrays)
    return (rows if weight.all() else rows.take(weight > 0)), single


def _beside(X: Tensor, values: Any, name: str) -> Tensor:
    """Return targets or weights, a tensor or not, as finite numbers on the device of `X`."""
    if not isinstance(values, Tensor):
        values = as_tensor(
            check_array(values, dtype=np.float64, ensure_2d=False, input_name=name)
            if np.ndim(values)
            else np.float64(values)
        )
    return _finite(_real(values, name).to(X.device), name)


def _real(array: Tensor, name: str) -> Tensor:
    """Return single or double precision, whichever holds the numbers, without their gradients."""
    array = array.detach()
    if array.is_complex():
        raise ValueError(f"`{name}` must hold real numbers, got {array.dtype}. Pass its real part.")
    if array.dtype in (torch.float32, torch.float64):
        return array
    return array.to(torch.float32 if array.is_floating_point() else torch.float64)


def _finite(array: Tensor, name: str, *, gaps: bool = False) -> Tensor:
    """Return numbers as they are; raise where one is not finite."""
    for part in _slices(array):
        bad = torch.isinf(array[part]) if gaps else ~torch.isfinite(array[part])
        if bad.any():
            row = part.start + int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
            what = "infinity" if gaps else "NaN or infinity"
            raise ValueError(
                f"`{name}` must be finite, but row {row} holds {what}. Leave such rows "
                "out, or fill them in."
            )
    return array


def _slices(array: Tensor) -> Iterator[slice]:
    """Yield slices of rows that hold about as many numbers each, however many columns."""
    size = max(1, _PIECE // max(1, array[:1].numel()))
    for first in range(0, len(array), size):
        yield slice(first, first + size)

"""Rows as a fit sees them, computed where their tensors are: `data.View` for torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyadic.engines.torch.engine import as_tensor
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import View


def seen(rows: Rows, view: View, target: int) -> Rows:
    """Return rows in their own units as a fit of one target sees them, in double precision."""
    X, y = as_tensor(rows.X), as_tensor(rows.y)[:, target].to(torch.float64)
    standard = (y - float(view.targets.mean[target])) / float(view.targets.scale[target])
    if view.coefficients is not None and view.straight is not None:
        slopes = torch.as_tensor(view.coefficients[:, target].copy(), device=X.device)
        standard -= scaled(X, view.straight) @ slopes[:-1] + slopes[-1]
    return Rows(scaled(X, view.inputs), standard, rows.weight)  # type: ignore[arg-type]


def scaled(X: Tensor, scaling: InputScaling) -> Tensor:
    """Return what `InputScaling.apply` does, in double precision on the device of `X`."""
    X = X.to(torch.float64)

    def there(values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float64, device=X.device)

    straight = scaling.straight
    if all(straight):
        low, high = there(np.array(scaling.knots)).T
        return torch.div(X - low, high - low)
    columns = []
    for index, (knots, values) in enumerate(zip(scaling.knots, scaling.values, strict=True)):
        column, slope = X[:, index], float(scaling.slopes[index])
        first, last = float(knots[0]), float(knots[-1])
        if len(knots) == 1:
            columns.append(slope * (column - first))
        elif straight[index]:
            columns.append((column - first) / (last - first))
        else:
            inside = _interpolated(column.clamp(first, last), there(knots), there(values))
            below, above = (column - first).clamp(max=0), (column - last).clamp(min=0)
            columns.append(inside + slope * below + slope * above)
    return torch.stack(columns, dim=1)


def _interpolated(column: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Return the height of the line through the corners at each value between them."""
    left = torch.searchsorted(knots, column.contiguous(), right=True) - 1
    left.clamp_(0, len(knots) - 2)
    beyond = column - knots[left]
    heights = values[left] + (values.diff() / knots.diff())[left] * beyond
    # A gap between knots may be so small that its slope is infinite: at the knots it is not asked.
    heights = torch.where(beyond == 0, values[left], heights)
    return torch.where(column == knots[-1], values[-1], heights)

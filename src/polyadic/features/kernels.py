"""One-dimensional kernels, by the logarithm of their value at a distance in length scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

KERNELS = ("matern12", "matern32", "rbf")

_ROOT3 = float(np.sqrt(3.0))


def log_kernel(distance: NDArray[Any], kernel: str) -> NDArray[np.float64]:
    """Return log k at distances in units of the length scale."""
    if kernel == "matern12":
        return -distance
    if kernel == "matern32":
        return np.asarray(np.log1p(_ROOT3 * distance) - _ROOT3 * distance)
    return -0.5 * distance**2

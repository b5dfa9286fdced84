"""NumPy arrays and torch tensors behind one interface, so that rows are handled where they are.

Everything in `rows` is written once, for the array API standard; `array_namespace` gives the
functions of whichever library an array belongs to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, to_device
from numpy.typing import NDArray

__all__ = ["array_namespace", "as_double", "interpolate", "on_host", "place_like", "to_device"]


def as_double(array: Any) -> Any:
    """Return an array in double precision, where it is; one that is so already is not copied."""
    xp = array_namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def on_host(array: Any) -> NDArray[Any]:
    """Return an array or a tensor of any device as a NumPy array."""
    return array if is_numpy_array(array) else np.asarray(array.cpu())


def place_like(values: NDArray[Any], array: Any) -> Any:
    """Return NumPy values as doubles of the library and on the device of `array`."""
    if is_numpy_array(array):
        return values
    xp = array_namespace(array)
    return xp.asarray(values.copy(), dtype=xp.float64, device=array.device)


def interpolate(column: Any, knots: NDArray[np.float64], values: NDArray[np.float64]) -> Any:
    """Return the height of the line through the corners (knots, values) at each value.

    Beyond the first and the last knot it is the height there.
    """
    xp = array_namespace(column)
    corners, heights = place_like(knots, column), place_like(values, column)
    inside = xp.clip(column, float(knots[0]), float(knots[-1]))
    left = xp.searchsorted(corners, inside, side="right") - 1
    left = xp.clip(left, 0, len(knots) - 2)
    beyond = inside - corners[left]
    # A gap between knots may be so small that its slope is infinite: at the knot itself the
    # slope is not asked for.
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = (heights[1:] - heights[:-1]) / (corners[1:] - corners[:-1])
        lines = xp.where(beyond == 0, heights[left], heights[left] + slopes[left] * beyond)
    return xp.where(inside == corners[-1], heights[-1], lines)

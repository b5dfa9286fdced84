"""Where values lie among sorted numbers, which ONNX has no operator for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.export._graph import Graph


def search_sorted(graph: Graph, values: str, corners: NDArray[Any]) -> str:
    """Return the place of the last corner that is no greater than each value.

    Each row of `values` has a row of `corners`, which rise and may end in NaN; places are those
    among the corners of all rows, one after the other.  What is below the first corner, or NaN,
    gets the place of the first.  Places are found by bisection, a bit at a time.
    """
    n_rows, size = corners.shape
    first = np.arange(n_rows)[:, None] * size
    found = graph.add("Identity", first)
    for bit in reversed(range(max(size - 1, 0).bit_length())):
        tried = graph.add("Add", found, np.array(1 << bit))
        inside = graph.add("Min", tried, first + size - 1)  # where corners are no power of two
        corner = graph.add("Gather", corners.ravel(), inside)
        goes_on = graph.add("GreaterOrEqual", values, corner)
        found = graph.add("Where", goes_on, inside, found)
    return found

"""Memory that a thread uses again: fresh pages in every step would cost as much as the work."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

_threads = threading.local()
# More than this is not held between steps.
_KEPT_BYTES = 2**26


def scratch(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """Return memory of this thread, of any content, to use until the thread asks again."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes > _KEPT_BYTES:
        return np.empty(shape, dtype)
    kept: NDArray[np.uint8] | None = getattr(_threads, "kept", None)
    if kept is None or len(kept) < n_bytes:
        kept = _threads.kept = np.empty(n_bytes, np.uint8)
    memory: NDArray[Any] = kept[:n_bytes].view(dtype).reshape(shape)
    return memory

"""How the package compiles: one decorator for kernels, one for what kernels call."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

from polyadic.model.kernel_cache import kernel_folder, places

# reassoc and contract allow vectors and fused multiply-adds; NaN and infinity stay honest.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
_CONFIG: Any = numba.config
_FOLDER = kernel_folder(_CONFIG.CACHE_DIR)
_LOCK = threading.Lock()  # two modules of kernels may be imported at the same time
if _FOLDER is None:
    warnings.warn(
        "Compiled kernels cannot be kept, so every process compiles them anew: none of "
        f"{', '.join(map(str, places(_CONFIG.CACHE_DIR)))} can be written. Set "
        "NUMBA_CACHE_DIR to a folder that can.",
        stacklevel=2,
    )


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel on its first call, or load it from the folder of these sources."""
    with _LOCK, _numba_keeps_in(str(_FOLDER or "")):
        return numba.njit(
            cache=_FOLDER is not None, nogil=True, error_model="numpy", fastmath=_FASTMATH
        )(function)


@contextmanager
def _numba_keeps_in(folder: str) -> Iterator[None]:
    """Direct numba's cache to a folder; a function's place is settled when it is decorated."""
    before = {"CACHE_DIR": _CONFIG.CACHE_DIR}
    if hasattr(_CONFIG, "CACHE_LOCATOR_CLASSES"):  # numba 0.62 and later
        before["CACHE_LOCATOR_CLASSES"] = _CONFIG.CACHE_LOCATOR_CLASSES
        _CONFIG.CACHE_LOCATOR_CLASSES = ""
    _CONFIG.CACHE_DIR = folder
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(_CONFIG, name, value)


# What kernels call becomes part of them.  As functions of their own they would be resolved to
# one piece of code in the process that compiles and to another where kernels come from the
# cache, and the last digits of a fit would depend on which it is.
inline = numba.njit(forceinline=True, error_model="numpy", fastmath=_FASTMATH)

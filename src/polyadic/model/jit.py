"""How the package compiles: one decorator for kernels, one for what kernels call.

Numba's cache looks at the file of a kernel alone.  After a change to a function that kernels
of other files call, remove the cached kernels (``__pycache__/*.nb?``).
"""

from __future__ import annotations

import numba

# reassoc and contract allow vectors and fused multiply-adds; NaN and infinity stay honest.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FASTMATH)
# What kernels call becomes part of them.  As functions of their own they would be resolved to
# one piece of code in the process that compiles and to another where kernels come from the
# cache, and the last digits of a fit would depend on which it is.
inline = numba.njit(forceinline=True, error_model="numpy", fastmath=_FASTMATH)

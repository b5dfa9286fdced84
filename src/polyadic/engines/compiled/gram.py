"""M Mᵀ for the few rows and many columns a chunk has, where BLAS is far from its best.

BLAS copies its operands into an order of its own and works in tiles as large as a whole
Gram matrix is here.  The rows of M are long and lie one after another, so tiles of 4 × 4
dot products, sixteen sums in vector registers, need no copy and waste little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.model.jit import inline, jit

# Columns summed at a time: eight rows of them stay in the first-level cache, and no more
# are added in single precision before the sum goes on in double.
COLUMNS = {np.dtype(np.float64): 256, np.dtype(np.float32): 1024}

_u = np.uintp


def sums(M: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return B Bᵀ, B y and yᵀy, in double precision, where the last row of M is y."""
    n = len(M) - 1
    gram, moment = np.empty((n, n)), np.empty(n)
    return gram, moment, _sums(M, COLUMNS[M.dtype], gram, moment)


@jit
def _sums(M: Any, columns: int, gram: Any, moment: Any) -> Any:
    n = len(moment)
    total = np.zeros((n + 1, n + 1))
    for first in range(0, M.shape[1], columns):
        add_products(M, first, min(columns, M.shape[1] - first), total, n)
    for i in range(n):
        moment[i] = total[n, i]
        for j in range(i + 1):
            gram[i, j] = total[i, j]
    mirror(gram)
    return total[n, n]


@inline
def mirror(gram: Any) -> None:
    """Copy what is below the diagonal to above it, cache line by cache line."""
    n = len(gram)
    for first in range(0, n, 8):
        for second in range(0, first + 8, 8):
            for i in range(first, min(first + 8, n)):
                for j in range(second, min(second + 8, i)):
                    gram[j, i] = gram[i, j]


@inline
def add_products(M: Any, first: int, count: int, total: Any, most: int) -> None:
    """Add M Mᵀ over some columns to `total`, below the diagonal.

    Of the last row all products are added, of the others those with the first `most` rows.
    """
    even = len(M) // 4 * 4
    for i in range(0, even, 4):
        for j in range(0, min(i + 4, most), 4):
            _add_tile(M, total, i, j, first, count)
    for i in range(even, len(M)):
        for j in range(0, even, 4):
            _add_strip(M, total, i, j, first, count)
        for j in range(even, i + 1):
            _add_product(M, total, i, j, first, count)


@inline
def _four(s: Any, x: Any, y0: Any, y1: Any, y2: Any, y3: Any) -> Any:
    return s[0] + x * y0, s[1] + x * y1, s[2] + x * y2, s[3] + x * y3


@inline
def _add_tile(M: Any, G: Any, i: int, j: int, first: int, count: int) -> None:
    """Add the products of rows i … i + 3 with rows j … j + 3 over some columns."""
    a0, a1, a2, a3 = M[i], M[i + 1], M[i + 2], M[i + 3]
    b0, b1, b2, b3 = M[j], M[j + 1], M[j + 2], M[j + 3]
    o = M.dtype.type(0)
    s0 = s1 = s2 = s3 = (o, o, o, o)
    for column in range(count):
        k = _u(first) + _u(column)
        y0, y1, y2, y3 = b0[k], b1[k], b2[k], b3[k]
        s0 = _four(s0, a0[k], y0, y1, y2, y3)
        s1 = _four(s1, a1[k], y0, y1, y2, y3)
        s2 = _four(s2, a2[k], y0, y1, y2, y3)
        s3 = _four(s3, a3[k], y0, y1, y2, y3)
    _add_row(G[i], j, s0)
    _add_row(G[i + 1], j, s1)
    _add_row(G[i + 2], j, s2)
    _add_row(G[i + 3], j, s3)


@inline
def _add_strip(M: Any, G: Any, i: int, j: int, first: int, count: int) -> None:
    """Add the products of row i with rows j … j + 3."""
    a, b0, b1, b2, b3 = M[i], M[j], M[j + 1], M[j + 2], M[j + 3]
    o = M.dtype.type(0)
    s = (o, o, o, o)
    for column in range(count):
        k = _u(first) + _u(column)
        s = _four(s, a[k], b0[k], b1[k], b2[k], b3[k])
    _add_row(G[i], j, s)


@inline
def _add_row(row: Any, j: int, s: Any) -> None:
    for k in range(4):
        row[j + k] += s[k]


@inline
def _add_product(M: Any, G: Any, i: int, j: int, first: int, count: int) -> None:
    """Add the product of row i with row j."""
    a, b = M[i], M[j]
    s = M.dtype.type(0)
    for column in range(count):
        k = _u(first) + _u(column)
        s += a[k] * b[k]
    G[i, j] += s

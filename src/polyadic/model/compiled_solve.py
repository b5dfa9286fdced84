"""The sound case of a core step, compiled: a small system built, scaled, factorised, checked.

In plain NumPy a system of a dozen unknowns is some forty calls, each longer than the work
it does, and holds up other threads for as long.  What comes out sound here is the answer;
for all else there is `normal.guarded_solve`, whose first attempt this is.

`work` is memory for two matrices.  Fresh pages for those of a large system would cost as much
as its factorisation.
"""

from __future__ import annotations

from typing import Any

import numba.np.linalg  # noqa: F401  brings LAPACK in, under the name used below
import numpy as np
from numba import types
from numba.extending import overload

from polyadic.model.jit import inline, jit


@jit
def solve_complex(
    gram: Any, moment: Any, gram_of_others: Any, current: Any, alpha: float, scale: float, work: Any
) -> Any:
    """Solve for a complex core, the complex response fitted; return it and whether it is sound."""
    half, matrix = current.size, work[0]
    # With A = P + jQ, AᴴA = PᵀP + QᵀQ + j(PᵀQ − QᵀP) and Aᴴy = Pᵀy − jQᵀy.
    right = np.empty(half, np.complex128)
    for i in range(half):
        right[i] = complex(moment[i], -moment[half + i])
        for j in range(half):
            even = gram[i, j] + gram[half + i, half + j]
            matrix[i, j] = complex(even, gram[i, half + j] - gram[half + i, j])
    _add_penalty(matrix, gram_of_others, alpha)
    answer, sound = _solve(work, right, current.copy().reshape(half), scale)
    return answer.reshape(current.shape), sound


@jit
def solve_real_part(
    gram: Any, moment: Any, gram_of_others: Any, current: Any, alpha: float, scale: float, work: Any
) -> Any:
    """Solve for a complex core, the real part of the response fitted, in real numbers."""
    half, rank = current.size, len(gram_of_others)
    matrix, right, old = work[0], moment.copy(), np.empty(2 * half)
    matrix[:] = gram
    flat = current.copy().reshape(half)
    # Re(A v) = [Re A, −Im A] [Re v; Im v], so the signs of the second half change.
    for i in range(half):
        old[i], old[half + i] = flat[i].real, flat[i].imag
        right[half + i] = -right[half + i]
        for j in range(half):
            matrix[i, half + j] = -matrix[i, half + j]
            matrix[half + i, j] = -matrix[half + i, j]
        # vᴴHv in real numbers is [[Re H, −Im H], [Im H, Re H]].
        first = i // rank * rank
        for j in range(rank):
            h = alpha * gram_of_others[i - first, j]
            matrix[i, first + j] += h.real
            matrix[half + i, half + first + j] += h.real
            matrix[half + i, first + j] += h.imag
            matrix[i, half + first + j] -= h.imag
    answer, sound = _solve(work, right, old, scale)
    for i in range(half):
        flat[i] = complex(answer[i], answer[half + i])
    return flat.reshape(current.shape), sound


@jit
def solve_real(
    gram: Any, moment: Any, gram_of_others: Any, current: Any, alpha: float, scale: float, work: Any
) -> Any:
    """Solve for a real core."""
    size, matrix = current.size, work[0]
    matrix[:] = gram
    _add_penalty(matrix, gram_of_others, alpha)
    answer, sound = _solve(work, moment, current.copy().reshape(size), scale)
    return answer.reshape(current.shape), sound


@inline
def _add_penalty(matrix: Any, gram_of_others: Any, alpha: float) -> None:
    """Add α(I ⊗ H)."""
    rank = len(gram_of_others)
    for i in range(len(matrix)):
        first = i // rank * rank
        for j in range(rank):
            matrix[i, first + j] += alpha * gram_of_others[i - first, j]


@inline
def _solve(work: Any, moment: Any, current: Any, scale: float) -> Any:
    """Return the answer, and whether it is finite, no worse and from pivots above rounding."""
    n, matrix, factor = len(moment), work[0], work[1]
    inverse = np.empty(n)
    for i in range(n):
        diagonal = matrix[i, i].real
        inverse[i] = 1 / np.sqrt(diagonal) if diagonal > 0 else 0.0
    for i in range(n):
        for j in range(n):
            factor[i, j] = matrix[i, j] * (inverse[i] * inverse[j])
        factor[i, i] = 1.0
    if _cholesky(factor) != 0:  # it is not positive definite
        return current, False
    least = 1.0
    for i in range(n):
        least = min(least, factor[i, i].real)
    answer = np.empty_like(current)
    for i in range(n):
        answer[i] = moment[i] * inverse[i]
    _substitute(factor, answer)
    for i in range(n):
        answer[i] *= inverse[i]
    bound = _quadratic(matrix, moment, current) + 1e-12 * scale
    rounding = 4 * n * 2.220446049250313e-16
    return answer, least * least >= rounding and _quadratic(matrix, moment, answer) <= bound


# LAPACK as numba calls it.  Its own np.linalg.cholesky raises where there is no factor, and
# what compiled code holds when it raises is never freed.
_KINDS = {types.float64: "d", types.complex128: "z"}
_POINTER: Any = types.CPointer
_POTRF: dict[Any, Any] = {
    number: types.ExternalFunction(
        "numba_xxpotrf",
        types.intc(types.char, types.char, types.intp, _POINTER(number), types.intp),
    )
    for number in _KINDS
}


def _cholesky(matrix: Any) -> int:
    """Replace the lower triangle by L with L Lᴴ = `matrix`; return 0 if there is one."""
    try:
        matrix[:] = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return 1
    return 0


@overload(_cholesky)
def _compiled_cholesky(matrix: Any) -> Any:
    potrf, kind = _POTRF[matrix.dtype], ord(_KINDS[matrix.dtype])
    upper = ord("U")  # of the transpose, which is what LAPACK sees in an array of rows

    def factorise(matrix: Any) -> Any:
        return potrf(kind, upper, len(matrix), matrix.ctypes, len(matrix))

    return factorise


@inline
def _substitute(factor: Any, x: Any) -> None:
    """Replace x by the solution v of L Lᴴ v = x; the rows of L are contiguous."""
    n = len(x)
    for i in range(n):
        known = 0 * x[i]
        for j in range(i):
            known += factor[i, j] * x[j]
        x[i] = (x[i] - known) / factor[i, i].real
    for i in range(n - 1, -1, -1):
        x[i] /= factor[i, i].real
        for j in range(i):
            x[j] -= np.conj(factor[i, j]) * x[i]


@inline
def _quadratic(matrix: Any, moment: Any, v: Any) -> Any:
    """Return vᴴ(matrix·v − 2·moment)."""
    total = 0.0
    for i in range(len(v)):
        row = -2 * moment[i]
        for j in range(len(v)):
            row += matrix[i, j] * v[j]
        total += (np.conj(v[i]) * row).real
    return total

"""Compiled kernels of the quantized complex case, where every factor is [1, e].

Samples are innermost, in blocks of BLOCK, real and imaginary parts in planes of their
own.  A block's distances are constants of the compiled code, which tells the compiler
that the planes do not overlap, so every inner loop becomes vector instructions.

    Z   [map][block][rank][re, im][BLOCK]     product over all cores but one
    E   [map][previous, current][re, im][BLOCK]     e of two cores, for one block
    M   [4R + 1][rows]        Re ψ₀z, Re ψ₁z, Im ψ₀z, Im ψ₁z, y, weighted: one BLAS call
                              M Mᵀ gives Gram matrix, moment and yᵀy

The factor of core c at one sample is f = w₀ + e·w₁ with e = (ρ·exp(2πj·x/θ))^(2^bit).
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from polyadic._jit import inline, jit

BLOCK = 64
# Rows of Z, of 2·BLOCK numbers, that are asked of memory before they are needed.
_AHEAD = 4

# Unsigned indices spare the test for negative ones, which would stop vectorisation.
_u = np.uintp


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask memory for the cache line of array[index], which need not exist."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, flag(1), flag(3), flag(1)])  # to write, all caches, data
        return context.get_dummy_value()

    return numba.types.void(array, index), generate


@inline
def fetch(Z: Any, z: int) -> None:
    """Prefetch one row of Z.

    The hardware does not see it coming: rows of several maps take turns, and within a row
    two streams run side by side.
    """
    for line in range(0, 2 * BLOCK, 64 // Z.itemsize):
        _prefetch(Z, z + line)  # type: ignore[call-arg]


@inline
def powers(x: Any, first: int, rate: float, modulus: float, out: Any, at: int) -> None:
    """Write modulus·exp(2πj·rate·x) of one block of samples.

    The argument is reduced in turns, where that is exact.  A quarter of the angle lies in
    [−π/4, π/4]; its sine and cosine are short series, and two squarings restore the angle.
    """
    for i in range(BLOCK):
        t = x[_u(first) + _u(i)] * rate
        a = (t - math.floor(t + 0.5)) * (math.pi / 2)
        q = a * a
        s = 1 - q / 110 * (1 - q / 156 * (1 - q / 210))
        s = a * (1 - q / 6 * (1 - q / 20 * (1 - q / 42 * (1 - q / 72 * s))))
        c = 1 - q / 132 * (1 - q / 182 * (1 - q / 240))
        c = 1 - q / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56 * (1 - q / 90 * c))))
        s, c = 2 * s * c, (c - s) * (c + s)
        out[_u(at) + _u(i)] = modulus * ((c - s) * (c + s))
        out[_u(at + BLOCK) + _u(i)] = modulus * (2 * s * c)


@inline
def modulus_of(decay: float, bit: int) -> float:
    """Return decay^(2^bit)."""
    for _ in range(bit):
        decay = decay * decay
    return decay


@inline
def fill(x: Any, first: int, where: Any, polar: Any, out: Any, at: int) -> None:
    """Write e of one core and map for one block: `where` is its input and bit."""
    rate = polar[0] * (1 << where[1])
    powers(x[where[0]], first, rate, modulus_of(polar[1], where[1]), out, at)


@inline
def block_product(
    Z: Any, at: int, x: Any, first: int, where: Any, W: Any, polar: Any, without: int
) -> None:
    """Write ∏ f over all cores but one, for one block and map and all ranks.

    The leading term of a two-sided map, a phase that all its cores share, comes first.
    """
    E = np.empty(2 * BLOCK, Z.dtype)
    powers(x[len(x) - 1], first, -polar[2] * polar[0], 1.0, E, 0)
    for r in range(W.shape[2]):
        z = _u(at + r * 2 * BLOCK)
        for k in range(2 * BLOCK):
            Z[z + _u(k)] = E[k]
    for core in range(len(W)):
        if core == without:
            continue
        fill(x, first, where[core], polar, E, 0)
        for r in range(W.shape[2]):
            z = _u(at + r * 2 * BLOCK)
            w0r, w0i = W[core, 0, r, 0], W[core, 0, r, 1]
            w1r, w1i = W[core, 1, r, 0], W[core, 1, r, 1]
            for k in range(BLOCK):
                i = _u(k)
                er, ei = E[i], E[_u(BLOCK) + i]
                fr = w0r + er * w1r - ei * w1i
                fi = w0i + er * w1i + ei * w1r
                zr, zi = Z[z + i], Z[z + _u(BLOCK) + i]
                Z[z + i] = zr * fr - zi * fi
                Z[z + _u(BLOCK) + i] = zr * fi + zi * fr


@inline
def block_response(
    Z: Any, at: int, x: Any, first: int, where: Any, w: Any, polar: Any, out: Any
) -> None:
    """Write Re Σᵣ z·f, the response of one map, where z lacks the core `w`."""
    E = np.empty(2 * BLOCK, Z.dtype)
    fill(x, first, where, polar, E, 0)
    out[:] = 0
    for r in range(w.shape[1]):
        z = _u(at + r * 2 * BLOCK)
        w0r, w0i, w1r, w1i = w[0, r, 0], w[0, r, 1], w[1, r, 0], w[1, r, 1]
        for k in range(BLOCK):
            i = _u(k)
            er, ei = E[i], E[_u(BLOCK) + i]
            fr = w0r + er * w1r - ei * w1i
            fi = w0i + er * w1i + ei * w1r
            out[i] += Z[z + i] * fr - Z[z + _u(BLOCK) + i] * fi


@jit
def product(
    Z: Any, F: Any, maps: Any, x: Any, where: Any, W: Any, polar: Any, without: int
) -> None:
    """Make Z of some maps without one core, and F, their responses, where F has rows."""
    n_blocks, rank = x.shape[1] // BLOCK, W.shape[2]
    for p in maps:
        for block in range(n_blocks):
            first = block * BLOCK
            at = (p * n_blocks + block) * rank * 2 * BLOCK
            block_product(Z, at, x, first, where, W, polar[p], without)
            if len(F):
                out = F[p, first : first + BLOCK]
                block_response(Z, at, x, first, where[without], W[without], polar[p], out)


@jit
def respond(out: Any, weights: Any, maps: Any, x: Any, where: Any, W: Any, polar: Any) -> None:
    """Add Re Σₚ λₚ Σᵣ ∏ f to `out`, keeping no more than one block of Z."""
    Z = np.empty(W.shape[2] * 2 * BLOCK, W.dtype)
    response = np.empty(BLOCK, W.dtype)
    for block in range(x.shape[1] // BLOCK):
        first = block * BLOCK
        for p in maps:
            block_product(Z, 0, x, first, where, W, polar[p], 0)
            block_response(Z, 0, x, first, where[0], W[0], polar[p], response)
            for i in range(BLOCK):
                out[first + i] += weights[p] * response[i]


@jit
def assemble(
    M: Any,
    flags: Any,
    Z: Any,
    maps: Any,
    lacks: Any,
    weights: Any,
    x: Any,
    root: Any,
    where: Any,
    W: Any,
    polar: Any,
    core: int,
    tolerance: Any,
) -> int:
    """Write the block M of one core step; return how many samples need another way.

    Where Z of map p lacks another core, `lacks[p]`, it is brought on to lack `core`
    instead: multiplied by the factor of the former, divided by that of the latter.
    A sample for which that quotient is unsafe is flagged.
    """
    n_blocks, rank = x.shape[1] // BLOCK, W.shape[2]
    E = np.empty(len(polar) * 4 * BLOCK, Z.dtype)
    A = np.empty(4 * BLOCK, Z.dtype)
    zero, n_flagged = W[0, 0, 0, 0] * 0, 0
    for block in range(n_blocks):
        first = block * BLOCK
        for p in maps:
            fill(x, first, where[core], polar[p], E, (4 * p + 2) * BLOCK)
            if lacks[p] != core:
                fill(x, first, where[lacks[p]], polar[p], E, 4 * p * BLOCK)
        for r in range(rank):
            A[:] = zero
            for j, p in enumerate(maps):
                z = ((p * n_blocks + block) * rank + r) * 2 * BLOCK
                later, k = divmod(j + _AHEAD, len(maps))
                fetch(Z, ((maps[k] * n_blocks + block) * rank + r + later) * 2 * BLOCK)
                if lacks[p] != core:
                    into, out = W[lacks[p], :, r], W[core, :, r]
                    reach = modulus_of(polar[p, 1], where[core, 1] + 1)
                    least = least_square(out, reach, tolerance)
                    if exchange(A, weights[p], Z, z, E, p, into, out, least):
                        n_flagged += flag(flags[first : first + BLOCK], E, p, out, least)
                else:
                    accumulate(A, Z, z, E, p, weights[p])
            for k in range(4):
                store(M[k * rank + r], A, k, root, first)
    return n_flagged


@inline
def store(row: Any, A: Any, part: int, root: Any, first: int) -> None:
    """Write one part of A, weighted, to one block of a row of M.

    What has no weight, such as the end of the last block, is zero even if A is not finite.
    """
    m0, a0 = _u(first), _u(part * BLOCK)
    zero = row.dtype.type(0)
    for k in range(BLOCK):
        i = _u(k)
        weighted = A[a0 + i] * root[m0 + i]
        row[m0 + i] = weighted if root[m0 + i] > zero else zero


@inline
def accumulate(A: Any, Z: Any, z: int, E: Any, p: int, weight: Any) -> None:
    """Add λ·z and λ·e·z to A."""
    z0, e0 = _u(z), _u((4 * p + 2) * BLOCK)
    for k in range(BLOCK):
        i = _u(k)
        er, ei = E[e0 + i], E[e0 + _u(BLOCK) + i]
        zr, zi = weight * Z[z0 + i], weight * Z[z0 + _u(BLOCK) + i]
        A[i] += zr
        A[_u(BLOCK) + i] += er * zr - ei * zi
        A[_u(2 * BLOCK) + i] += zi
        A[_u(3 * BLOCK) + i] += er * zi + ei * zr


@inline
def least_square(w: Any, reach: float, tolerance: Any) -> Any:
    """Return the |f|² below which a factor is too small to divide by.

    Rounding of f = w₀ + e·w₁ is relative to |w₀| + |e|·|w₁|; `reach` is |e|².
    """
    w0, w1 = w[0, 0] ** 2 + w[0, 1] ** 2, w[1, 0] ** 2 + w[1, 1] ** 2
    return tolerance * (w0 + w.dtype.type(reach) * w1)


@inline
def exchange(
    A: Any, weight: Any, Z: Any, z: int, E: Any, p: int, into: Any, out: Any, least: Any
) -> bool:
    """Multiply z by the factor of `into`, divide it by that of `out`, and accumulate.

    Returns whether any quotient was unsafe.
    """
    a0r, a0i, a1r, a1i = into[0, 0], into[0, 1], into[1, 0], into[1, 1]
    b0r, b0i, b1r, b1i = out[0, 0], out[0, 1], out[1, 0], out[1, 1]
    one = Z.dtype.type(1)
    unsafe = one - one
    z0, e0 = _u(z), _u(4 * p * BLOCK)
    for k in range(BLOCK):
        i = _u(k)
        er, ei = E[e0 + i], E[e0 + _u(BLOCK) + i]
        gr = a0r + er * a1r - ei * a1i
        gi = a0i + er * a1i + ei * a1r
        er, ei = E[e0 + _u(2 * BLOCK) + i], E[e0 + _u(3 * BLOCK) + i]
        fr = b0r + er * b1r - ei * b1i
        fi = b0i + er * b1i + ei * b1r
        square = fr * fr + fi * fi
        unsafe += one - one if square > least else one
        inverse = one / square
        qr = (gr * fr + gi * fi) * inverse
        qi = (gi * fr - gr * fi) * inverse
        zr, zi = Z[z0 + i], Z[z0 + _u(BLOCK) + i]
        zr, zi = zr * qr - zi * qi, zr * qi + zi * qr
        Z[z0 + i] = zr
        Z[z0 + _u(BLOCK) + i] = zi
        zr, zi = weight * zr, weight * zi
        A[i] += zr
        A[_u(BLOCK) + i] += er * zr - ei * zi
        A[_u(2 * BLOCK) + i] += zi
        A[_u(3 * BLOCK) + i] += er * zi + ei * zr
    return bool(unsafe > 0)


@inline
def flag(flags: Any, E: Any, p: int, w: Any, least: Any) -> int:
    """Mark the samples of one block whose factor is too small; return how many are new."""
    count = 0
    for i in range(BLOCK):
        er, ei = E[(4 * p + 2) * BLOCK + i], E[(4 * p + 3) * BLOCK + i]
        fr = w[0, 0] + er * w[1, 0] - ei * w[1, 1]
        fi = w[0, 1] + er * w[1, 1] + ei * w[1, 0]
        # Twice the bound: rounding here may differ from that of the vector loop.
        if not (flags[i] or fr * fr + fi * fi > 2 * least):
            flags[i] = True
            count += 1
    return count


@jit
def general_exchange(Z: Any, into: Any, out: Any, features: Any, columns: Any, flags: Any) -> None:
    """Multiply Z by the responses `into` and divide it by `out`, rank × n each.

    A sample is flagged where |out| is not above `features` (by sample) times `columns`
    (by rank), the size that its rounding is relative to.
    """
    for r in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            if abs(out[r, i]) > features[i] * columns[r]:
                Z[r, i] *= into[r, i] / out[r, i]
            else:
                flags[i] = True


@jit
def general_accumulate(A: Any, Z: Any, psi: Any, weight: Any) -> None:
    """Add λ·ψₖ·z to A, size × rank × n."""
    for k in range(A.shape[0]):
        for r in range(A.shape[1]):
            for i in range(A.shape[2]):
                A[k, r, i] += weight * psi[k, i] * Z[r, i]

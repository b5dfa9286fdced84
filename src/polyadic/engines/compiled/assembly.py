"""The compiled core step: products brought from one core to the next, and their sums.

    E   [map][previous, current][re, im][BLOCK]     e of two cores, for one block
    A   [4][BLOCK]            Re ψ₀z, Im ψ₀z, Re ψ₁z, Im ψ₁z of one rank, summed over maps
    M   [4R + 1][columns]     A of every rank, weighted, and y, of as many samples as caches
                              hold; M Mᵀ gives Gram matrix, moment and yᵀy

Z is read and written once: multiplied by the factor of the core solved last, divided by
that of the core at hand, and added to A on the way.  A block of samples where a divisor is
zero or cancels is made anew, as a plain product.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from polyadic.engines.compiled.gram import add_products, mirror
from polyadic.engines.compiled.kernels import (
    BLOCK,
    block_product,
    fill,
    is_next_bit,
    modulus_of,
    square,
)
from polyadic.model.jit import inline, jit

# Rows of Z, of 2·BLOCK numbers, that are asked of memory before they are needed.
_AHEAD = 4

_u = np.uintp


@jit
def core_sums(
    gram: Any, moment: Any, M: Any, Z: Any, left_out: Any,
    x: Any, y: Any, sqrt_weight: Any, input_bit: Any, W: Any, polar: Any,
    maps: Any, map_weights: Any, core: int, tolerance: Any, hermitian: bool,
) -> Any:  # fmt: skip
    """Write Gram matrix and moment of one core step over one chunk; return yᵀy.

    Core `left_out[p]` is left out of the product of map p, −1 where there is no product;
    afterwards it is `core` for all of `maps`.  `hermitian` says that only AᴴA
    is wanted of the Gram matrix.
    """
    # Arrays come one by one: numba counts a reference whenever it takes one out of a tuple, and
    # needs microseconds to recognise a tuple that comes from Python.
    n_samples, rank, n_maps = x.shape[1], W.shape[2], len(maps)
    # One map: |e| is the same for all samples, and with it the second half follows.
    short = hermitian and n_maps == 1
    E = np.empty(n_maps * 4 * BLOCK, Z.dtype)
    A = np.empty(4 * BLOCK, Z.dtype)
    total = np.zeros((len(M), len(M)))
    doubtful = np.empty(n_maps, np.bool_)
    for start in range(0, n_samples, M.shape[1]):
        count = min(M.shape[1], n_samples - start)
        for first in range(start, start + count, BLOCK):
            now = left_out[maps]  # a copy: every block begins where the last step ended
            assemble_safely(
                M, first - start, A, E, Z, now, doubtful, first, x, sqrt_weight, input_bit, W,
                polar, maps, map_weights, core, tolerance,
            )  # fmt: skip
        # y is the last row of M, so that one product M Mᵀ gives all sums.
        for i in range(count):
            M[4 * rank, i] = y[start + i]
        add_products(M, 0, count, total, 2 * rank if short else 4 * rank)
    for p in maps:
        left_out[p] = core
    if short:  # |e|² = decay^(2^(bit + 1)) for all samples
        add_second_half(total, modulus_of(polar[maps[0], 1], input_bit[core, 1] + 1))
    split_sums(total, gram, moment)
    return total[4 * rank, 4 * rank]


@jit
def assemble_columns(
    M: Any, x: Any, input_bit: Any, W: Any, polar: Any, maps: Any, map_weights: Any, core: int
) -> None:  # fmt: skip
    """Write Re ψ₀z, Re ψ₁z, −Im ψ₀z, −Im ψ₁z of every rank, keeping one block of products."""
    rank, n_maps = W.shape[2], len(maps)
    Z = np.empty(n_maps * rank * 2 * BLOCK, W.dtype)
    E = np.empty(n_maps * 4 * BLOCK, W.dtype)
    A = np.empty(4 * BLOCK, W.dtype)
    zero = W[0, 0, 0, 0] * 0
    for first in range(0, x.shape[1], BLOCK):
        for j, p in enumerate(maps):
            block_product(Z, j * rank * 2 * BLOCK, x, first, input_bit, W, polar[p], core)
            fill(x, first, input_bit[core], polar[p], E, (4 * j + 2) * BLOCK)
        for r in range(rank):
            A[:] = zero
            for j, p in enumerate(maps):
                accumulate(A, Z, (j * rank + r) * 2 * BLOCK, E, j, map_weights[p])
            for k in range(BLOCK):
                i, to = _u(k), _u(first) + _u(k)
                M[r, to] = A[i]
                M[rank + r, to] = A[_u(2 * BLOCK) + i]
                M[2 * rank + r, to] = -A[_u(BLOCK) + i]
                M[3 * rank + r, to] = -A[_u(3 * BLOCK) + i]


@inline
def add_second_half(total: Any, square: float) -> None:
    """Write the products of e·z with e·z: |e|² times those of z with z."""
    half = len(total) // 2
    for i in range(half):
        for j in range(i + 1):
            total[half + i, half + j] = square * total[i, j]


@inline
def assemble_safely(
    M: Any, at: int, A: Any, E: Any, Z: Any, now: Any, doubtful: Any, first: int, x: Any,
    sqrt_weight: Any, input_bit: Any, W: Any, polar: Any, maps: Any, map_weights: Any, core: int,
    tolerance: Any,
) -> None:  # fmt: skip
    """Write one block of M; products whose division was not safe are formed anew, as such."""
    n_samples, rank, sound = x.shape[1], W.shape[2], False
    doubtful[:] = False
    # Two rounds at most: a product that is formed anew is not divided.
    while not sound:
        for j, p in enumerate(maps):
            if now[j] < 0:
                z = (p * n_samples + first) * rank * 2
                block_product(Z, z, x, first, input_bit, W, polar[p], core)
                now[j] = core
        fill_factors(E, now, maps, x, first, input_bit, polar, core)
        sound = assemble(
            M, at, A, E, Z, now, doubtful, first, n_samples, sqrt_weight, input_bit, W, polar,
            maps, map_weights, core, tolerance,
        )  # fmt: skip
        # What was divided unsafely counts as no product at all, and is formed in the next round.
        for j in range(len(maps)):
            now[j] = -1 if doubtful[j] else core


@inline
def split_sums(total: Any, gram: Any, moment: Any) -> None:
    """Write Gram matrix and moment, in the order Re ψ₀z, Re ψ₁z, Im ψ₀z, Im ψ₁z."""
    rank = len(moment) // 4
    order = (0, 2, 1, 3)
    for a in range(4):
        for i in range(rank):
            row = order[a] * rank + i
            moment[a * rank + i] = total[4 * rank, row]
            for b in range(a + 1):
                to, first = b * rank, order[b] * rank
                for j in range(rank if b < a else i + 1):
                    if order[b] <= order[a]:
                        gram[a * rank + i, to + j] = total[row, first + j]
                    else:
                        gram[a * rank + i, to + j] = total[first + j, row]
    mirror(gram)


@inline
def fill_factors(
    E: Any, now: Any, maps: Any, x: Any, first: int, input_bit: Any, polar: Any, core: int
) -> None:
    """Write e of the cores that enter and leave the products of one block."""
    for j, p in enumerate(maps):
        previous, current = 4 * j * BLOCK, (4 * j + 2) * BLOCK
        before = now[j]
        if before != core:
            fill(x, first, input_bit[before], polar[p], E, previous)
        # Sine and cosine cost as much as the rest of a step: squares spare half of them.
        if before != core and is_next_bit(input_bit[before], input_bit[core]):
            square(E, previous, current)
        else:
            fill(x, first, input_bit[core], polar[p], E, current)


@inline
def assemble(
    M: Any, at: int, A: Any, E: Any, Z: Any, now: Any, doubtful: Any, first: int, n_samples: int,
    sqrt_weight: Any, input_bit: Any, W: Any, polar: Any, maps: Any, map_weights: Any, core: int,
    tolerance: Any,
) -> bool:  # fmt: skip
    """Write one block of M, from column `at` on; return whether every division was safe.

    Maps for which one was not are noted in `doubtful`.
    """
    rank, sound = W.shape[2], True
    zero = W[0, 0, 0, 0] * 0
    for r in range(rank):
        A[:] = zero
        for j, p in enumerate(maps):
            z = ((p * n_samples + first) * rank + r * BLOCK) * 2
            # Ask for the row of Z that comes a few turns later: of another map, or the next rank.
            later, k = divmod(j + _AHEAD, len(maps))
            fetch(Z, ((maps[k] * n_samples + first) * rank + (r + later) * BLOCK) * 2)
            if now[j] != core:  # another core is left out of z: it enters, and this one leaves
                into, out = W[now[j], :, r], W[core, :, r]
                reach = modulus_of(polar[p, 1], input_bit[core, 1] + 1)
                least = division_threshold(out, reach, tolerance)
                if not exchange(A, map_weights[p], Z, z, E, j, into, out, least):
                    doubtful[j], sound = True, False
            else:
                accumulate(A, Z, z, E, j, map_weights[p])
        for k in range(4):
            store(M[k * rank + r], at, A, k, sqrt_weight, first)
    return sound


@inline
def store(row: Any, at: int, A: Any, part: int, sqrt_weight: Any, first: int) -> None:
    """Write one part of A, weighted, to one block of a row of M.

    What has no weight, such as the end of the last block, is zero even if A is not finite.
    """
    m0, w0, a0 = _u(at), _u(first), _u(part * BLOCK)
    zero = row.dtype.type(0)
    for k in range(BLOCK):
        i = _u(k)
        weighted = A[a0 + i] * sqrt_weight[w0 + i]
        row[m0 + i] = weighted if sqrt_weight[w0 + i] > zero else zero


@inline
def accumulate(A: Any, Z: Any, z: int, E: Any, j: int, weight: Any) -> None:
    """Add λ·z and λ·e·z to A."""
    z0, e0 = _u(z), _u((4 * j + 2) * BLOCK)
    for k in range(BLOCK):
        i = _u(k)
        er, ei = E[e0 + i], E[e0 + _u(BLOCK) + i]
        zr, zi = weight * Z[z0 + i], weight * Z[z0 + _u(BLOCK) + i]
        A[i] += zr
        A[_u(BLOCK) + i] += zi
        A[_u(2 * BLOCK) + i] += er * zr - ei * zi
        A[_u(3 * BLOCK) + i] += er * zi + ei * zr


@inline
def division_threshold(w: Any, reach: float, tolerance: Any) -> Any:
    """Return the |f|² below which a factor is too small to divide by.

    Rounding of f = w₀ + e·w₁ is relative to |w₀| + |e|·|w₁|; `reach` is |e|².
    """
    w0, w1 = w[0, 0] ** 2 + w[0, 1] ** 2, w[1, 0] ** 2 + w[1, 1] ** 2
    return tolerance * (w0 + w.dtype.type(reach) * w1)


@inline
def exchange(
    A: Any, weight: Any, Z: Any, z: int, E: Any, j: int, into: Any, out: Any, least: Any
) -> bool:
    """Multiply z by the factor of `into`, divide it by that of `out`, and accumulate.

    Returns whether every quotient was safe.
    """
    a0r, a0i, a1r, a1i = into[0, 0], into[0, 1], into[1, 0], into[1, 1]
    b0r, b0i, b1r, b1i = out[0, 0], out[0, 1], out[1, 0], out[1, 1]
    one = Z.dtype.type(1)
    unsafe = one - one
    z0, e0 = _u(z), _u(4 * j * BLOCK)
    for k in range(BLOCK):
        i = _u(k)
        er, ei = E[e0 + i], E[e0 + _u(BLOCK) + i]
        # g, the factor that enters, and f, the one that leaves
        gr = a0r + er * a1r - ei * a1i
        gi = a0i + er * a1i + ei * a1r
        er, ei = E[e0 + _u(2 * BLOCK) + i], E[e0 + _u(3 * BLOCK) + i]
        fr = b0r + er * b1r - ei * b1i
        fi = b0i + er * b1i + ei * b1r
        square = fr * fr + fi * fi
        # Counted, not branched upon, so that the loop stays one of vectors; NaN is unsafe too.
        unsafe += one - one if square > least else one
        inverse = one / square
        qr = (gr * fr + gi * fi) * inverse
        qi = (gi * fr - gr * fi) * inverse
        # What is divided by nothing may be infinite here: the block is then written again.
        zr, zi = Z[z0 + i], Z[z0 + _u(BLOCK) + i]
        zr, zi = zr * qr - zi * qi, zr * qi + zi * qr
        Z[z0 + i] = zr
        Z[z0 + _u(BLOCK) + i] = zi
        # The same as `accumulate`, while z is in registers.
        zr, zi = weight * zr, weight * zi
        A[i] += zr
        A[_u(BLOCK) + i] += zi
        A[_u(2 * BLOCK) + i] += er * zr - ei * zi
        A[_u(3 * BLOCK) + i] += er * zi + ei * zr
    return bool(unsafe == 0)


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

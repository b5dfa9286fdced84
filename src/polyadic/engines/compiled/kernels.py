"""Compiled kernels of the quantized complex case, where every factor is [1, e].

Samples are innermost, in blocks of BLOCK, real and imaginary parts in planes of their
own.  A block's distances are constants of the compiled code, which tells the compiler
that the planes do not overlap, so every inner loop becomes vector instructions.

    Z   [map][block][rank][re, im][BLOCK]     product over all cores but one
    x   [input][sample]       one more row holds the shift of two-sided maps
    W   [core][2][rank][re, im]
    input_bit [core][2]       which input, and which bit of it, a core belongs to
    polar [map][3]            frequency 1/θ, decay ρ, and whether frequencies begin at −I/2

The factor of core c at one sample is f = w₀ + e·w₁ with e = (ρ·exp(2πj·x/θ))^(2^bit).
Here are the products as such; `assembly.py` brings them from one core to the next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyadic.model.jit import inline, jit

BLOCK = 64

# Unsigned indices spare the test for negative ones, which would stop vectorisation.
_u = np.uintp


@inline
def powers(x: Any, first: int, rate: float, modulus: float, out: Any, at: int) -> None:
    """Write modulus·exp(2πj·rate·x) of one block of samples.

    The argument is reduced in turns, where that is exact.  A quarter of the angle lies in
    [−π/4, π/4]; its sine and cosine are short series, and two squarings restore the angle.
    """
    for i in range(BLOCK):
        t = x[_u(first) + _u(i)] * rate
        # A quarter of the angle, from the fraction of a turn that is left of t.  NumPy's floor is
        # a double; that of math is an integer here, which far from the rows would overflow.
        a = (t - np.floor(t + 0.5)) * (math.pi / 2)
        q = a * a
        # Taylor series of sine and cosine up to a¹⁵ and a¹⁶, by Horner's rule.
        s = 1 / 39916800 - q * (1 / 6227020800 - q / 1307674368000)
        s = 1 / 6 - q * (1 / 120 - q * (1 / 5040 - q * (1 / 362880 - q * s)))
        s = a - a * q * s
        c = 1 / 479001600 - q * (1 / 87178291200 - q / 20922789888000)
        c = 1 / 24 - q * (1 / 720 - q * (1 / 40320 - q * (1 / 3628800 - q * c)))
        c = 1 - q * (0.5 - q * c)
        # Twice the angle, twice: sin 2a = 2·sin a·cos a, cos 2a = (cos a − sin a)(cos a + sin a).
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
def fill(x: Any, first: int, input_bit: Any, polar: Any, out: Any, at: int) -> None:
    """Write e of one core and map for one block: `input_bit` names its input and bit."""
    rate = polar[0] * (1 << input_bit[1])
    powers(x[input_bit[0]], first, rate, modulus_of(polar[1], input_bit[1]), out, at)


@inline
def is_next_bit(earlier: Any, later: Any) -> bool:
    """Whether e of one core is the square of that of another.

    Every fourth bit is computed as such: squaring doubles the rounding.
    """
    same = later[0] == earlier[0]
    return bool(same and later[1] == earlier[1] + 1 and later[1] % 4 != 0)


@inline
def square(E: Any, earlier: int, later: int) -> None:
    """Write the squares of one block of E, which may take the place of their roots."""
    e0, s0 = _u(earlier), _u(later)
    for k in range(BLOCK):
        i = _u(k)
        er, ei = E[e0 + i], E[e0 + _u(BLOCK) + i]
        E[s0 + i] = (er - ei) * (er + ei)
        E[s0 + _u(BLOCK) + i] = (er + er) * ei


@inline
def block_product(
    Z: Any, at: int, x: Any, first: int, input_bit: Any, W: Any, polar: Any, without: int
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
    filled = -1  # the core whose e is in E
    for core in range(len(W)):
        if core == without:
            continue
        if filled >= 0 and is_next_bit(input_bit[filled], input_bit[core]):
            square(E, 0, 0)  # in place: cheaper than sine and cosine
        else:
            fill(x, first, input_bit[core], polar, E, 0)
        filled = core
        for r in range(W.shape[2]):
            z = _u(at + r * 2 * BLOCK)
            w0r, w0i = W[core, 0, r, 0], W[core, 0, r, 1]
            w1r, w1i = W[core, 1, r, 0], W[core, 1, r, 1]
            # f = w₀ + e·w₁ and z = z·f, real and imaginary parts apart
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
    Z: Any, at: int, x: Any, first: int, input_bit: Any, w: Any, polar: Any, out: Any
) -> None:
    """Write Re Σᵣ z·f, the response of one map, where the core `w` is left out of z."""
    E = np.empty(2 * BLOCK, Z.dtype)
    fill(x, first, input_bit, polar, E, 0)
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
def products(Z: Any, F: Any, x: Any, input_bit: Any, W: Any, polar: Any, without: int) -> None:
    """Make Z of all maps without one core, and F, their responses."""
    n_samples, rank = x.shape[1], W.shape[2]
    for p in range(len(polar)):
        for first in range(0, n_samples, BLOCK):
            at = (p * n_samples + first) * rank * 2  # where Z of this map and block begins
            block_product(Z, at, x, first, input_bit, W, polar[p], without)
            out = F[p, first : first + BLOCK]
            block_response(Z, at, x, first, input_bit[without], W[without], polar[p], out)


@jit
def respond(
    out: Any, map_weights: Any, maps: Any, x: Any, input_bit: Any, W: Any, polar: Any
) -> None:
    """Add Re Σₚ λₚ Σᵣ ∏ f to `out`, keeping no more than one block of Z."""
    Z = np.empty(W.shape[2] * 2 * BLOCK, W.dtype)
    response = np.empty(BLOCK, W.dtype)
    for block in range(x.shape[1] // BLOCK):
        first = block * BLOCK
        for p in maps:
            block_product(Z, 0, x, first, input_bit, W, polar[p], 0)
            block_response(Z, 0, x, first, input_bit[0], W[0], polar[p], response)
            for i in range(BLOCK):
                out[first + i] += map_weights[p] * response[i]

"""Fused GPU kernels for quantized complex layouts, where core c meets the factor [1, e].

Every array has the rows innermost, padded to `stride`, and real and imaginary parts apart:

    ratio  (P, D, stride)    e(x) of each map and input; bit q of an input meets e^(2^q)
    z      (P, R, stride)    product of all cores' responses w₀ + e·w₁ but one
    block  (4R + 1, stride)  Re A₀, Re A₁, Im A₀, Im A₁ of the weighted rows, then their y
    core   (C + 1, 4, R)     Re w₀, Im w₀, Re w₁, Im w₁; the last row is w₀ = 1, w₁ = 0

`assemble` forms z from all cores and needs no state.  `step` takes the core that was left
out last time into z, divides the next one out, and assembles in the same pass, so z is
read and written once.  Where a response is too small to divide by, `step` raises a flag
for its rows, and `assemble` does those again.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

FLAGGED_ROWS = 512  # rows that share a flag, and the most rows a program may take


@triton.jit
def _power(er_ptr: Any, ei_ptr: Any, at: Any, known: Any, bit: Any) -> Any:
    """Return e^(2^bit)."""
    er = tl.load(er_ptr + at, mask=known, other=0.0)
    ei = tl.load(ei_ptr + at, mask=known, other=0.0)
    for _ in range(bit):
        er, ei = er * er - ei * ei, 2 * er * ei
    return er, ei


@triton.jit
def _response(core_ptr: Any, at: Any, known: Any, er: Any, ei: Any, RANK: tl.constexpr) -> Any:
    """Return w₀ + e·w₁ and w₀."""
    ar = tl.load(core_ptr + at, mask=known)
    ai = tl.load(core_ptr + at + RANK, mask=known)
    br = tl.load(core_ptr + at + 2 * RANK, mask=known)
    bi = tl.load(core_ptr + at + 3 * RANK, mask=known)
    return ar + er * br - ei * bi, ai + er * bi + ei * br, ar, ai


@triton.jit
def _product(
    er_ptr: Any, ei_ptr: Any, core_ptr: Any, first_ptr: Any, zr: Any, zi: Any, at: Any, ranks: Any,
    within: Any, skip: Any, stride: Any, n_dims: Any, n_cores: Any, RANK: tl.constexpr,
) -> Any:  # fmt: skip
    """Multiply z by the responses of all cores but `skip`, for the map whose ratios are at `at`."""
    for dim in range(n_dims):
        er = tl.load(er_ptr + at + dim * stride)
        ei = tl.load(ei_ptr + at + dim * stride)
        for core in range(tl.load(first_ptr + dim), tl.load(first_ptr + dim + 1)):
            row = tl.where(core == skip, n_cores, core)
            rr, ri, _, _ = _response(core_ptr, row * (4 * RANK) + ranks, within, er, ei, RANK)
            zr, zi = zr * rr - zi * ri, zr * ri + zi * rr
            er, ei = er * er - ei * ei, 2 * er * ei
    return zr, zi


@triton.jit
def _start(
    lr_ptr: Any, li_ptr: Any, at: Any,
    LEADING: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr, DTYPE: tl.constexpr,
) -> Any:  # fmt: skip
    """Return the product of the inputs' leading terms, for every rank of a tile."""
    zr = tl.full([RANKS, BLOCK], 1.0, DTYPE)
    zi = tl.zeros([RANKS, BLOCK], DTYPE)
    if LEADING:
        zi = zi + tl.load(li_ptr + at)
        zr = zr * tl.load(lr_ptr + at)
    return zr, zi


@triton.jit(do_not_specialize=["core", "core_dim", "core_bit", "n_maps", "n_dims", "n_cores"])
def assemble(
    zr_ptr: Any, zi_ptr: Any, er_ptr: Any, ei_ptr: Any, lr_ptr: Any, li_ptr: Any,
    core_ptr: Any, first_ptr: Any, maps_ptr: Any, weight_ptr: Any, root_ptr: Any, block_ptr: Any,
    flag_ptr: Any, stride: Any, n_dims: Any, n_cores: Any, n_maps: Any,
    core: Any, core_dim: Any, core_bit: Any,
    RANK: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr,
    LEADING: tl.constexpr, STORE: tl.constexpr, FLAGS: tl.constexpr, FLAGGED: tl.constexpr,
) -> None:  # fmt: skip
    """Form z without one core from all the others, and the block of that core's step."""
    program = tl.program_id(0).to(tl.int64)
    rows = (program * BLOCK + tl.arange(0, BLOCK))[None, :]
    stride = stride.to(tl.int64)
    dtype: tl.constexpr = root_ptr.dtype.element_ty
    root = tl.load(root_ptr + rows)
    last = RANK
    if FLAGS:
        last = RANK * tl.load(flag_ptr + program * BLOCK // FLAGGED)
    for first in range(0, last, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        within = ranks < RANK
        ar = tl.zeros([RANKS, BLOCK], dtype)
        ai = tl.zeros([RANKS, BLOCK], dtype)
        br = tl.zeros([RANKS, BLOCK], dtype)
        bi = tl.zeros([RANKS, BLOCK], dtype)
        for slot in range(n_maps):
            p = tl.load(maps_ptr + slot).to(tl.int64)
            weight = tl.load(weight_ptr + slot)
            at = p * n_dims * stride + rows
            zr, zi = _start(lr_ptr, li_ptr, p * stride + rows, LEADING, RANKS, BLOCK, dtype)
            zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, at, ranks, within,
                              core, stride, n_dims, n_cores, RANK)  # fmt: skip
            if STORE:
                z_at = (p * RANK + ranks) * stride + rows
                tl.store(zr_ptr + z_at, zr, mask=within)
                tl.store(zi_ptr + z_at, zi, mask=within)
            er, ei = _power(er_ptr, ei_ptr, at + core_dim * stride, rows >= 0, core_bit)
            zr, zi = weight * zr, weight * zi
            ar += zr
            ai += zi
            br += er * zr - ei * zi
            bi += er * zi + ei * zr
        out = block_ptr + ranks * stride + rows
        tl.store(out, ar * root, mask=within)
        tl.store(out + RANK * stride, br * root, mask=within)
        tl.store(out + 2 * RANK * stride, ai * root, mask=within)
        tl.store(out + 3 * RANK * stride, bi * root, mask=within)


@triton.jit
def _reciprocal(size: Any) -> Any:
    """Return 1/size for 1e-30 < size < 1e30.

    The division of doubles is slow in hardware: a single-precision start and two Newton
    steps, each of which doubles the digits, are exact to the last bit or two.
    """
    if size.dtype == tl.float64:
        guess = (1.0 / size.to(tl.float32)).to(tl.float64)
        guess = guess * (2.0 - size * guess)
        guess = guess * (2.0 - size * guess)
    else:
        guess = 1.0 / size
    return guess


@triton.jit(
    do_not_specialize=[
        "n_dims", "n_maps", "old", "old_dim", "old_bit", "core", "core_dim", "core_bit"
    ]
)  # fmt: skip
def step(
    zr_ptr: Any, zi_ptr: Any, er_ptr: Any, ei_ptr: Any, core_ptr: Any, maps_ptr: Any,
    weight_ptr: Any, root_ptr: Any, block_ptr: Any, flag_ptr: Any, stride: Any, n_dims: Any,
    n_maps: Any, old: Any, old_dim: Any, old_bit: Any, core: Any, core_dim: Any, core_bit: Any,
    tiny: Any,
    RANK: tl.constexpr, MAPS: tl.constexpr, BLOCK: tl.constexpr, FLAGGED: tl.constexpr,
) -> None:  # fmt: skip
    """Take core `old` into z, divide `core` out of it, and form the block of its step."""
    program = tl.program_id(0).to(tl.int64)
    row = program * BLOCK + tl.arange(0, BLOCK)
    rows = row[None, :]
    stride = stride.to(tl.int64)
    slot = tl.arange(0, MAPS)[:, None]
    known = slot < n_maps
    maps = tl.load(maps_ptr + slot, mask=known, other=0).to(tl.int64)
    weight = tl.load(weight_ptr + slot, mask=known, other=0.0)
    root = tl.load(root_ptr + row)
    at = maps * n_dims * stride + rows
    pr, pi = _power(er_ptr, ei_ptr, at + old_dim * stride, known, old_bit)
    er, ei = _power(er_ptr, ei_ptr, at + core_dim * stride, known, core_bit)
    lost = tl.zeros([MAPS, BLOCK], tl.int32)
    for r in range(RANK):
        z_at = (maps * RANK + r) * stride + rows
        zr = tl.load(zr_ptr + z_at, mask=known, other=0.0)
        zi = tl.load(zi_ptr + z_at, mask=known, other=0.0)
        nr, ni, _, _ = _response(core_ptr, old * (4 * RANK) + r, None, pr, pi, RANK)
        dr, di, ar, ai = _response(core_ptr, core * (4 * RANK) + r, None, er, ei, RANK)
        size = dr * dr + di * di
        bad = (size <= tiny * (ar * ar + ai * ai)) | (size < 1e-30) | (size > 1e30)
        lost = lost | bad.to(tl.int32)
        inverse = _reciprocal(tl.where(bad, 1.0, size))
        fr = (nr * dr + ni * di) * inverse
        fi = (ni * dr - nr * di) * inverse
        zr, zi = zr * fr - zi * fi, zr * fi + zi * fr
        tl.store(zr_ptr + z_at, zr, mask=known)
        tl.store(zi_ptr + z_at, zi, mask=known)
        zr, zi = weight * zr, weight * zi
        out = block_ptr + r * stride + row
        tl.store(out, root * tl.sum(zr, axis=0))
        tl.store(out + RANK * stride, root * tl.sum(er * zr - ei * zi, axis=0))
        tl.store(out + 2 * RANK * stride, root * tl.sum(zi, axis=0))
        tl.store(out + 3 * RANK * stride, root * tl.sum(er * zi + ei * zr, axis=0))
    flag = tl.max(tl.max(tl.where(known, lost, 0), axis=1), axis=0)
    if flag > 0:
        tl.store(flag_ptr + program * BLOCK // FLAGGED, 1)


@triton.jit(do_not_specialize=["n_dims", "n_cores"])
def respond(
    er_ptr: Any, ei_ptr: Any, lr_ptr: Any, li_ptr: Any, core_ptr: Any, first_ptr: Any,
    maps_ptr: Any, out_ptr: Any, stride: Any, n_dims: Any, n_cores: Any,
    RANK: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr, LEADING: tl.constexpr,
) -> None:  # fmt: skip
    """Write the real response of each map, Re Σᵣ Π_c (w₀ + e·w₁)."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.program_id(1).to(tl.int64)
    p = tl.load(maps_ptr + slot).to(tl.int64)
    rows = row[None, :]
    stride = stride.to(tl.int64)
    dtype: tl.constexpr = er_ptr.dtype.element_ty
    total = tl.zeros([BLOCK], dtype)
    for first in range(0, RANK, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        zr, zi = _start(lr_ptr, li_ptr, p * stride + rows, LEADING, RANKS, BLOCK, dtype)
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, p * n_dims * stride + rows,
                          ranks, ranks < RANK, -1, stride, n_dims, n_cores, RANK)  # fmt: skip
        total += tl.sum(tl.where(ranks < RANK, zr, 0.0), axis=0)
    tl.store(out_ptr + slot * stride + row, total)


@triton.jit(do_not_specialize=["n_rows", "row_stride", "column_stride"])
def fourier_ratio(
    x_ptr: Any, er_ptr: Any, ei_ptr: Any, n_rows: Any, row_stride: Any, column_stride: Any,
    stride: Any, wave_ptr: Any, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Write decay · exp(2πj · frequency · x) of each input; padded rows get 0.

    The wave's frequency and decay come as doubles in memory: a number passed to a kernel
    would be rounded to single precision.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dim = tl.program_id(1).to(tl.int64)
    known = row < n_rows
    x = tl.load(x_ptr + row * row_stride + dim * column_stride, mask=known, other=0.0)
    # The whole turns go away in double precision, so that single loses no digits to them.
    turn = x.to(tl.float64) * tl.load(wave_ptr)
    turn = (turn - tl.floor(turn)).to(er_ptr.dtype.element_ty) * 6.283185307179586
    size = tl.where(known, tl.load(wave_ptr + 1), 0.0).to(turn.dtype)
    at = dim * stride + row
    tl.store(er_ptr + at, size * tl.cos(turn))
    tl.store(ei_ptr + at, size * tl.sin(turn))

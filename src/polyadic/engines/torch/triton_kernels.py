"""Fused GPU kernels for quantized complex layouts, where core c meets the factor [1, e].

Rows are cut into tiles of TILE, and what belongs to one tile lies together in memory.
Real and imaginary parts are apart.

    ratio  (tiles, P, D, TILE)  e(x) of each map and input; bit q of an input meets e^(2^q)
    lead   (tiles, P, TILE)     product over the inputs of the maps' leading terms
    z      (tiles, P, R, TILE)  product of the responses w₀ + e·w₁ of all inputs but one
    block  (tiles, H, TILE)     Re A₀, Re A₁, Im A₀, Im A₁, R rows each, then y; H is padded
    core   (C + 1, 4, R)        Re w₀, Im w₀, Re w₁, Im w₁; the last row is w₀ = 1, w₁ = 0

While a sweep goes through the cores of one input, z stays as it is: `assemble` reads it,
and multiplies the input's other cores in without writing anything but the block.  At the
next input `switch` takes the cores of the last one in and divides those of the next one
out.  Where they are too small to divide by, it raises a flag for the rows, and `rebuild`
forms their z from all cores; few rows are always rebuilt.  `respond`, which goes through all
cores anyway, leaves the z of a new sweep behind.  Without kept products `assemble` forms them
in every step.
"""

# Triton reads annotations as code, so kernels have none.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
import triton
import triton.language as tl

FLAGGED_ROWS = 512  # rows that share a flag, and the most rows a program may take


@triton.jit
def _power(er_ptr, ei_ptr, at, bit):
    """Return e^(2^bit)."""
    er = tl.load(er_ptr + at)
    ei = tl.load(ei_ptr + at)
    for _ in range(bit):
        er, ei = er * er - ei * ei, 2 * er * ei
    return er, ei


@triton.jit
def _core(core_ptr, at, known, RANK: tl.constexpr):
    """Return Re w₀, Im w₀, Re w₁, Im w₁."""
    ar = tl.load(core_ptr + at, mask=known)
    ai = tl.load(core_ptr + at + RANK, mask=known)
    br = tl.load(core_ptr + at + 2 * RANK, mask=known)
    bi = tl.load(core_ptr + at + 3 * RANK, mask=known)
    return ar, ai, br, bi


@triton.jit
def _product(
    er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, at, ranks, within, start, stop, skip, n_cores,
    RANK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Multiply z by the responses of the cores of inputs `start` to `stop`, all but `skip`.

    `at` says where the ratios of the map's first input are.
    """
    for dim in range(start, stop):
        er = tl.load(er_ptr + at + dim * TILE)
        ei = tl.load(ei_ptr + at + dim * TILE)
        for core in range(tl.load(first_ptr + dim), tl.load(first_ptr + dim + 1)):
            # The row after the last core is the identity: a branch would cost more than it saves.
            row = tl.where(core == skip, n_cores, core)
            ar, ai, br, bi = _core(core_ptr, row * (4 * RANK) + ranks, within, RANK)
            rr = ar + er * br - ei * bi
            ri = ai + er * bi + ei * br
            zr, zi = zr * rr - zi * ri, zr * ri + zi * rr
            er, ei = er * er - ei * ei, 2 * er * ei  # e of the next bit is the square of this
    return zr, zi


@triton.jit
def _leading(
    lr_ptr, li_ptr, at,
    LEADING: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Return the product of the inputs' leading terms, for every rank of a tile."""
    zr = tl.full([RANKS, BLOCK], 1.0, DTYPE)
    zi = tl.zeros([RANKS, BLOCK], DTYPE)
    if LEADING:
        zr = zr * tl.load(lr_ptr + at)
        zi = zi + tl.load(li_ptr + at)
    return zr, zi


@triton.jit(do_not_specialize=["n_dims", "n_cores", "n_all", "n_maps", "core", "dim", "bit"])
def assemble(
    zr_ptr, zi_ptr, er_ptr, ei_ptr, lr_ptr, li_ptr, core_ptr, first_ptr, maps_ptr, map_weight_ptr,
    sqrt_weight_ptr, block_ptr, n_dims, n_cores, n_all, n_maps, core, dim, bit,
    RANK: tl.constexpr, RANKS: tl.constexpr, HEIGHT: tl.constexpr, TILE: tl.constexpr,
    BLOCK: tl.constexpr, LEADING: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Form the block of one core's step, from the kept z of its input or from all cores."""
    row = tl.program_id(0).to(tl.int64) * BLOCK
    tile = row // TILE
    at = (row % TILE + tl.arange(0, BLOCK))[None, :]
    dtype: tl.constexpr = sqrt_weight_ptr.dtype.element_ty
    sqrt_weight = tl.load(sqrt_weight_ptr + tile * TILE + at)
    # A kept z lacks this input alone: only its other cores are still to be multiplied in.
    start = 0
    stop = n_dims
    if KEPT:
        start = dim
        stop = dim + 1
    for first in range(0, RANK, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        within = ranks < RANK
        # a = Σₚ λₚ z and b = Σₚ λₚ e·z: what the two rows of the core are multiplied with
        ar = tl.zeros([RANKS, BLOCK], dtype)
        ai = tl.zeros([RANKS, BLOCK], dtype)
        br = tl.zeros([RANKS, BLOCK], dtype)
        bi = tl.zeros([RANKS, BLOCK], dtype)
        for slot in range(n_maps):
            p = tile * n_all + tl.load(maps_ptr + slot)
            weight = tl.load(map_weight_ptr + slot)
            ratio_at = p * n_dims * TILE + at
            if KEPT:
                z_at = (p * RANK + ranks) * TILE + at
                zr = tl.load(zr_ptr + z_at, mask=within, other=0.0)
                zi = tl.load(zi_ptr + z_at, mask=within, other=0.0)
            else:
                zr, zi = _leading(lr_ptr, li_ptr, p * TILE + at, LEADING, RANKS, BLOCK, dtype)
            zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                              within, start, stop, core, n_cores, RANK, TILE)  # fmt: skip
            er, ei = _power(er_ptr, ei_ptr, ratio_at + dim * TILE, bit)
            zr, zi = weight * zr, weight * zi
            ar += zr
            ai += zi
            br += er * zr - ei * zi
            bi += er * zi + ei * zr
        # Re a, Re b, Im a, Im b below each other: the columns of B = [Re A, Im A]
        out = block_ptr + (tile * HEIGHT + ranks) * TILE + at
        tl.store(out, ar * sqrt_weight, mask=within)
        tl.store(out + RANK * TILE, br * sqrt_weight, mask=within)
        tl.store(out + 2 * RANK * TILE, ai * sqrt_weight, mask=within)
        tl.store(out + 3 * RANK * TILE, bi * sqrt_weight, mask=within)


@triton.jit(do_not_specialize=["n_dims", "n_cores", "n_all", "dim"])
def rebuild(
    zr_ptr, zi_ptr, er_ptr, ei_ptr, lr_ptr, li_ptr, core_ptr, first_ptr, maps_ptr, flag_ptr,
    n_dims, n_cores, n_all, dim,
    RANK: tl.constexpr, RANKS: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    LEADING: tl.constexpr, FLAGS: tl.constexpr, FLAGGED: tl.constexpr,
):  # fmt: skip
    """Form z without input `dim` from the cores of all others, or where there is a flag."""
    row = tl.program_id(0).to(tl.int64) * BLOCK
    p = row // TILE * n_all + tl.load(maps_ptr + tl.program_id(1))
    at = (row % TILE + tl.arange(0, BLOCK))[None, :]
    dtype: tl.constexpr = er_ptr.dtype.element_ty
    last = RANK
    # Without a flag the loop over ranks is empty, and z stays as `switch` left it.
    if FLAGS:
        last = RANK * tl.load(flag_ptr + row // FLAGGED)
    for first in range(0, last, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        within = ranks < RANK
        ratio_at = p * n_dims * TILE + at
        zr, zi = _leading(lr_ptr, li_ptr, p * TILE + at, LEADING, RANKS, BLOCK, dtype)
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, 0, dim, -1, n_cores, RANK, TILE)  # fmt: skip
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, dim + 1, n_dims, -1, n_cores, RANK, TILE)  # fmt: skip
        z_at = (p * RANK + ranks) * TILE + at
        tl.store(zr_ptr + z_at, zr, mask=within)
        tl.store(zi_ptr + z_at, zi, mask=within)


@triton.jit
def _reciprocal(size):
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


@triton.jit(do_not_specialize=["n_dims", "n_cores", "n_all", "old", "dim"])
def switch(
    zr_ptr, zi_ptr, er_ptr, ei_ptr, core_ptr, first_ptr, maps_ptr, flag_ptr,
    n_dims, n_cores, n_all, old, dim, tiny,
    RANK: tl.constexpr, RANKS: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    FLAGGED: tl.constexpr,
):  # fmt: skip
    """Take the cores of input `old` into z, and divide those of input `dim` out of it."""
    row = tl.program_id(0).to(tl.int64) * BLOCK
    p = row // TILE * n_all + tl.load(maps_ptr + tl.program_id(1))
    at = (row % TILE + tl.arange(0, BLOCK))[None, :]
    ratio_at = p * n_dims * TILE + at
    lost = tl.zeros([RANKS, BLOCK], tl.int32)
    for first in range(0, RANK, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        within = ranks < RANK
        z_at = (p * RANK + ranks) * TILE + at
        zr = tl.load(zr_ptr + z_at, mask=within, other=0.0)
        zi = tl.load(zi_ptr + z_at, mask=within, other=0.0)
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, old, old + 1, -1, n_cores, RANK, TILE)  # fmt: skip
        er = tl.load(er_ptr + ratio_at + dim * TILE)
        ei = tl.load(ei_ptr + ratio_at + dim * TILE)
        # The divisor d is the product of the responses of all cores of input `dim`.
        dr = tl.full([RANKS, BLOCK], 1.0, zr.dtype)
        di = tl.zeros([RANKS, BLOCK], zr.dtype)
        bad = tl.zeros([RANKS, BLOCK], tl.int32)
        for core in range(tl.load(first_ptr + dim), tl.load(first_ptr + dim + 1)):
            ar, ai, br, bi = _core(core_ptr, core * (4 * RANK) + ranks, within, RANK)
            rr = ar + er * br - ei * bi
            ri = ai + er * bi + ei * br
            # A response much smaller than its terms has lost its digits to cancellation.
            bad = bad | (rr * rr + ri * ri <= tiny * (ar * ar + ai * ai)).to(tl.int32)
            dr, di = dr * rr - di * ri, dr * ri + di * rr
            er, ei = er * er - ei * ei, 2 * er * ei
        # The reciprocal begins in single precision, which holds no more than this.
        size = dr * dr + di * di
        bad = bad | (size < 1e-30).to(tl.int32) | (size > 1e30).to(tl.int32)
        # z / d = z · conj(d) / |d|²; what is bad is formed anew by `rebuild`
        inverse = _reciprocal(tl.where(bad > 0, 1.0, size))
        zr, zi = (zr * dr + zi * di) * inverse, (zi * dr - zr * di) * inverse
        lost = lost | tl.where(within, bad, 0)
        tl.store(zr_ptr + z_at, zr, mask=within)
        tl.store(zi_ptr + z_at, zi, mask=within)
    # One flag for many rows: several programs may write it, all of them the same value.
    if tl.max(tl.max(lost, axis=1), axis=0) > 0:
        tl.store(flag_ptr + row // FLAGGED, 1)


@triton.jit(do_not_specialize=["n_dims", "n_cores", "n_all", "dim", "width"])
def respond(
    zr_ptr, zi_ptr, er_ptr, ei_ptr, lr_ptr, li_ptr, core_ptr, first_ptr, maps_ptr, out_ptr,
    n_dims, n_cores, n_all, dim, width,
    RANK: tl.constexpr, RANKS: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    LEADING: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Write the real response of each map, Re Σᵣ Π_c (w₀ + e·w₁).

    Input `dim` comes last, so that z without it is there to keep on the way.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK
    at = (row % TILE + tl.arange(0, BLOCK))[None, :]
    slot = tl.program_id(1).to(tl.int64)
    p = row // TILE * n_all + tl.load(maps_ptr + slot)
    ratio_at = p * n_dims * TILE + at
    dtype: tl.constexpr = er_ptr.dtype.element_ty
    total = tl.zeros([BLOCK], dtype)
    for first in range(0, RANK, RANKS):
        ranks = (first + tl.arange(0, RANKS))[:, None]
        within = ranks < RANK
        zr, zi = _leading(lr_ptr, li_ptr, p * TILE + at, LEADING, RANKS, BLOCK, dtype)
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, 0, dim, -1, n_cores, RANK, TILE)  # fmt: skip
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, dim + 1, n_dims, -1, n_cores, RANK, TILE)  # fmt: skip
        if KEEP:
            z_at = (p * RANK + ranks) * TILE + at
            tl.store(zr_ptr + z_at, zr, mask=within)
            tl.store(zi_ptr + z_at, zi, mask=within)
        zr, zi = _product(er_ptr, ei_ptr, core_ptr, first_ptr, zr, zi, ratio_at, ranks,
                          within, dim, dim + 1, -1, n_cores, RANK, TILE)  # fmt: skip
        total += tl.sum(tl.where(within, zr, 0.0), axis=0)
    tl.store(out_ptr + slot * width + row + tl.arange(0, BLOCK), total)


@triton.jit(do_not_specialize=["n_rows", "row_stride", "column_stride", "p", "n_all"])
def fourier_ratio(
    x_ptr, er_ptr, ei_ptr, wave_ptr, n_rows, row_stride, column_stride, p, n_all,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write decay · exp(2πj · frequency · x) of each input for map p; padded rows get 0.

    Frequency and decay come as doubles in memory: a number passed to a kernel would be
    rounded to single precision.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    row = first + tl.arange(0, BLOCK)
    dim = tl.program_id(1)
    known = row < n_rows
    x = tl.load(x_ptr + row * row_stride + dim * column_stride, mask=known, other=0.0)
    # The whole turns go away in double precision, so that single loses no digits to them.
    turn = x.to(tl.float64) * tl.load(wave_ptr)
    turn = (turn - tl.floor(turn)).to(er_ptr.dtype.element_ty) * 6.283185307179586
    size = tl.where(known, tl.load(wave_ptr + 1), 0.0).to(turn.dtype)
    place = (first // TILE * n_all + p) * tl.num_programs(1) + dim
    at = place * TILE + first % TILE + tl.arange(0, BLOCK)
    tl.store(er_ptr + at, size * tl.cos(turn))
    tl.store(ei_ptr + at, size * tl.sin(turn))

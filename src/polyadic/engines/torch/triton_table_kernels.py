"""Fused GPU kernels for layouts of tables: factors are looked up where they are multiplied.

    table     (C, K, R)  values · W of each core, a row a knot: small enough to stay in the cache
    position  (C, n)     where each row lies among the knots of each core's input
    z         (n, R)     product of the factors of all cores but one

`form` writes z once and reads no more than positions; `exchange` reads and writes it once.  Both
look factors up by the same three operations, so that a division takes out, to the last digit,
what was multiplied in.
"""

# Triton reads annotations as code, so kernels have none.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
import triton
import triton.language as tl


@triton.jit
def _factor(
    table_ptr, position_ptr, core, stride, rows, ranks, known, n_rows,
    KNOTS: tl.constexpr, RANK: tl.constexpr,
):  # fmt: skip
    """Return the factors of one core, rows × ranks."""
    at = stride.to(tl.int64) * core + rows
    position = tl.load(position_ptr + at, mask=rows < n_rows, other=0.0)
    # What is not a number has no knot, but its fraction makes the answer none either.
    below = tl.minimum(tl.maximum(position.to(tl.int32), 0), KNOTS - 2)
    knot = table_ptr + (core * KNOTS + below) * RANK + ranks
    low = tl.load(knot, mask=known, other=0.0)
    high = tl.load(knot + RANK, mask=known, other=0.0)
    return tl.fma(position - below.to(position.dtype), high - low, low)


@triton.jit(do_not_specialize=["n_rows", "stride", "n_cores", "without"])
def form(
    z_ptr, table_ptr, position_ptr, n_rows, stride, n_cores, without,
    KNOTS: tl.constexpr, RANK: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the product of all cores but one."""
    rows = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK))[:, None]
    ranks = (tl.program_id(1) * RANKS + tl.arange(0, RANKS))[None, :]
    known = (rows < n_rows) & (ranks < RANK)
    product = tl.full([BLOCK, RANKS], 1.0, z_ptr.dtype.element_ty)
    for core in range(n_cores):
        if core != without:
            product *= _factor(table_ptr, position_ptr, core, stride, rows, ranks, known, n_rows,
                               KNOTS, RANK)  # fmt: skip
    tl.store(z_ptr + rows * RANK + ranks, product, mask=known)


@triton.jit(do_not_specialize=["n_rows", "stride", "old", "new"])
def exchange(
    z_ptr, table_ptr, position_ptr, least_ptr, lost_ptr, n_rows, stride, old, new,
    KNOTS: tl.constexpr, RANK: tl.constexpr, RANKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Multiply one core into the product and divide another out, if it is large enough.

    Rows with a factor that is not are marked, to be formed anew.
    """
    rows = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK))[:, None]
    ranks = (tl.program_id(1) * RANKS + tl.arange(0, RANKS))[None, :]
    known = (rows < n_rows) & (ranks < RANK)
    z = tl.load(z_ptr + rows * RANK + ranks, mask=known, other=0.0)
    z *= _factor(table_ptr, position_ptr, old, stride, rows, ranks, known, n_rows, KNOTS, RANK)
    divisor = _factor(table_ptr, position_ptr, new, stride, rows, ranks, known, n_rows,
                      KNOTS, RANK)  # fmt: skip
    least = tl.load(least_ptr + ranks, mask=ranks < RANK, other=0.0)
    lost = tl.abs(divisor) <= least
    tl.store(z_ptr + rows * RANK + ranks, z / tl.where(lost, 1.0, divisor), mask=known)
    marked = tl.max((lost & known).to(tl.int32), axis=1)[:, None]
    tl.store(lost_ptr + rows, tl.full([BLOCK, 1], 1, tl.int8), mask=(rows < n_rows) & (marked > 0))

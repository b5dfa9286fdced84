"""What cores make of one input: a factor, n × rank, from a contraction that is known beforehand.

A factor is a real basis of functions of the input times a matrix, in which features, their
weights and cores are one.  There are three kinds of bases,

    Lookup   the hats between neighbouring points of a table: two rows of the matrix, blended
    Waves    sin(frequency · x + phase), which cosines and complex exponentials are made of
    Powers   x^exponent

and the matrix of any has a row for each function.  Factors of the same kind are computed some at
a time, so that graphs stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from polyadic.export._graph import Graph
from polyadic.export._rows import Rows
from polyadic.features import (
    FeatureMap,
    GaussianFeatures,
    MercerFeatures,
    PurePowerFeatures,
    Table,
    TensorLayout,
)
from polyadic.features.layout import Input
from polyadic.features.maps import even_table
from polyadic.features.tables import APART, MARGIN, N_KNOTS
from polyadic.model.cpd import Cores

_TOGETHER, _WIDE = 4, 256  # factors that are computed at a time, and their columns
_BITS = 2  # of a feature's index that are contracted at a time


@dataclass(frozen=True)
class Lookup:
    """The hats of the points of a table.

    Parameters
    ----------
    column : int
        Of scaled rows.
    low, high, n_levels, gap, has_filled
        As of a table.
    n_points : int
        Rows of its values.
    """

    column: int
    low: float
    high: float
    n_levels: int
    gap: float
    has_filled: bool
    n_points: int

    @classmethod
    def of(cls, column: int, table: Table) -> Lookup:
        """Return the hats of a table."""
        gap = np.nan if table.gap is None else table.gap
        own = table.low, table.high, table.n_levels, gap, table.has_filled
        return cls(column, *own, len(table.values))


@dataclass(frozen=True)
class Waves:
    """Sines of one column of scaled rows."""

    column: int
    frequencies: tuple[float, ...]
    phases: tuple[float, ...]


@dataclass(frozen=True)
class Powers:
    """Powers of one column of scaled rows."""

    column: int
    exponents: tuple[float, ...]


Basis = Lookup | Waves | Powers
Factor = tuple[Basis, NDArray[Any]]  # the matrix is complex where features or cores are
Lots = Callable[[int], list[int]]  # how many of so many factors are computed at a time


def factors_of(layout: TensorLayout, feature_map: FeatureMap, cores: Cores) -> list[Factor]:
    """Return the factors of all inputs that take part under one map."""
    found: list[Factor] = []
    first = 0
    for column, each in enumerate(layout.inputs):
        count = len(each.core_sizes)
        own = cores[first : first + count]
        found += _input_factors(column, each, feature_map, own) if count else []
        first += count
    return found


def _input_factors(
    column: int, each: Input, feature_map: FeatureMap, cores: Cores
) -> Iterator[Factor]:
    """Yield the factors of one input; one with many cores has several."""
    if each.table is not None:
        yield Lookup.of(column, each.table), each.table.values @ cores[0]
        return
    if len(cores) == 1:
        basis, matrix = _basis(column, feature_map, np.arange(each.core_sizes[0]), each.n_basis)
        yield basis, matrix @ cores[0]
        return
    for bit in range(0, len(cores), _BITS):
        group = cores[bit : bit + _BITS]
        powers = np.arange(1 << len(group)) << bit
        # The leading term of a sequence of features belongs to its first factor.
        basis, matrix = _basis(column, feature_map, powers, each.n_basis if not bit else 0)
        yield basis, matrix @ _kronecker(group)


def _kronecker(cores: Cores) -> NDArray[Any]:
    """Return cores of two rows as one, whose row has the place that their bits spell."""
    found = np.ones((1, cores[0].shape[1]))
    for core in cores:
        found = (core[:, None] * found).reshape(-1, core.shape[1])
    return found


def _basis(
    column: int, feature_map: FeatureMap, powers: NDArray[np.int64], n_basis: int
) -> tuple[Basis, NDArray[Any]]:
    """Return a real basis and a matrix whose product are some features of a map.

    Features of waves and powers are those with the given `powers` of their ratio; of the others
    they are the first ones.
    """
    wave = feature_map.wave()
    if wave is not None:
        frequency, decay, two_sided = wave
        k = powers - (n_basis // 2 if two_sided else 0)
        turns = 2 * np.pi * frequency * k
        # A cosine is a sine a quarter ahead.
        phases = np.repeat([np.pi / 2, 0.0], len(k))
        weight = np.diag(decay**k)
        basis = Waves(column, tuple(np.tile(turns, 2).tolist()), tuple(phases.tolist()))
        return basis, np.vstack([weight, 1j * weight])
    known = _BASES.get(type(feature_map))
    if known is None:
        raise ValueError(
            f"`model` has the feature map {feature_map!r}, which ONNX cannot be told of. Use a map "
            "of polyadic.features, or give yours the method wave()."
        )
    return known(column, feature_map, powers)


def _power_basis(
    column: int, feature_map: Any, powers: NDArray[np.int64]
) -> tuple[Basis, NDArray[Any]]:
    return Powers(column, tuple(powers.astype(float).tolist())), np.eye(len(powers))


def _gaussian_basis(
    column: int, feature_map: Any, powers: NDArray[np.int64]
) -> tuple[Basis, NDArray[Any]]:
    bound, length_scale = feature_map.bound, feature_map.length_scale
    frequency = np.pi * (powers + 1) / (2 * bound)
    density = np.sqrt(2 * np.pi) * length_scale * np.exp(-0.5 * (length_scale * frequency) ** 2)
    phases = frequency * (bound - 0.5)
    basis = Waves(column, tuple(frequency.tolist()), tuple(phases.tolist()))
    return basis, np.diag(np.sqrt(density / bound))


def _mercer_basis(
    column: int, feature_map: Any, powers: NDArray[np.int64]
) -> tuple[Basis, NDArray[Any]]:
    table = even_table(feature_map.kernel, float(feature_map.length_scale), len(powers))
    return Lookup.of(column, table), table.values


_BASES: dict[type[FeatureMap], Callable[..., tuple[Basis, NDArray[Any]]]] = {
    PurePowerFeatures: _power_basis,
    GaussianFeatures: _gaussian_basis,
    MercerFeatures: _mercer_basis,
}


def product_of(graph: Graph, X: Rows, factors: Sequence[Factor]) -> list[str]:
    """Return the product of factors, 1 × n × rank; of complex ones, real and imaginary part."""
    rank = factors[0][1].shape[1]
    is_complex = any(np.iscomplexobj(matrix) for _, matrix in factors)
    if is_complex:
        factors = [(basis, np.hstack([m.real, m.imag])) for basis, m in factors]
    size = _together(rank)
    lots = list(_compute(graph, X, factors, partial(_lots, size)))
    product: list[str] = []
    while size:
        for lot in (name for count, name in lots if count == size):
            parts = _split(graph, lot, rank, axis=2) if is_complex else [lot]
            product = _multiply(graph, product, parts) if product else parts
        if size > 1 and product:
            halves = [_split(graph, part, size // 2, axis=0) for part in product]
            product = _multiply(graph, *map(list, zip(*halves, strict=True)))
        size //= 2
    return product


def sum_of(graph: Graph, X: Rows, factors: Sequence[Factor]) -> str:
    """Return the sum of factors, n × rank."""
    found = [
        graph.add("ReduceSum", lot, [0], keepdims=0)
        for _, lot in _compute(graph, X, factors, lambda count: [count])
    ]
    return found[0] if len(found) == 1 else graph.add("Add", *found)


def _compute(
    graph: Graph, X: Rows, factors: Sequence[Factor], lots: Lots
) -> Iterator[tuple[int, str]]:
    """Yield factors some at a time, a tensor of them × n × rank, and how many they are."""
    for kind, compute in _COMPUTE.items():
        some = [each for each in factors if _kind(each[0]) == kind]
        if some:
            yield from compute(graph, X, some, lots(len(some)))


def _split(graph: Graph, value: str, size: int, axis: int) -> list[str]:
    return list(graph.add_many("Split", value, [size, size], count=2, axis=axis))


def _multiply(graph: Graph, one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the product of two factors, each one tensor or its real and imaginary part."""
    if len(one) == 1:
        return [graph.add("Mul", one[0], other[0])]
    (a, b), (c, d) = one, other
    real = graph.add("Sub", graph.add("Mul", a, c), graph.add("Mul", b, d))
    return [real, graph.add("Add", graph.add("Mul", a, d), graph.add("Mul", b, c))]


def _kind(basis: Basis) -> str:
    if type(basis) is Lookup:
        return "levels" if basis.n_levels else "numbers"
    return "waves" if type(basis) is Waves else "powers"


def _together(rank: int) -> int:
    """Return how many factors are computed at a time: few that are wide, a power of two."""
    most = max(1, min(_TOGETHER, _WIDE // rank))
    return 1 << (most.bit_length() - 1)


def _lots(most: int, n_factors: int) -> list[int]:
    """Return how factors are taken, at most some at a time: powers of two, the largest first."""
    rest = n_factors % most
    return [most] * (n_factors // most) + [
        1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1
    ]


def _cut(graph: Graph, rows: str, lots: Sequence[int]) -> tuple[str, ...]:
    if len(lots) == 1:
        return (rows,)
    return graph.add_many("Split", rows, list(lots), count=len(lots), axis=0)


def _number_lots(
    graph: Graph, X: Rows, factors: Sequence[Any], lots: list[int]
) -> Iterator[tuple[int, str]]:
    """Yield what is looked up between the knots of numbers, some factors at a time."""
    bases = [basis for basis, _ in factors]
    position = _positions(graph, X.take(graph, [basis.column for basis in bases]), bases)
    placed = graph.add("GreaterOrEqual", position, 0.0)  # which what is not a number is not
    below = graph.add("Floor", graph.add("Where", placed, position, 0.0))
    index = _cut(graph, graph.add("Cast", below, to=TensorProto.INT64), lots)
    part = _cut(graph, graph.add("Sub", position, below), lots)
    for place, (own, size) in enumerate(_take_lots(factors, lots)):
        matrices = [matrix for _, matrix in own]
        rises = [np.vstack([np.diff(matrix, axis=0), 0 * matrix[:1]]) for matrix in matrices]
        start, rise = (_look_up(graph, each, index[place]) for each in (matrices, rises))
        t = graph.add("Unsqueeze", part[place], [2])
        yield size, graph.add("Add", start, graph.add("Mul", t, rise))


def _take_lots(factors: Sequence[Any], lots: Sequence[int]) -> Iterator[tuple[Any, int]]:
    ends = np.cumsum(lots).tolist()
    return ((factors[end - size : end], size) for end, size in zip(ends, lots, strict=True))


def _look_up(graph: Graph, matrices: Sequence[NDArray[Any]], index: str) -> str:
    """Return rows of matrices, each of which has a row of the index."""
    first = np.cumsum([0, *(len(matrix) for matrix in matrices[:-1])])
    if len(matrices) > 1:
        index = graph.add("Add", index, first[:, None])
    return graph.add("Gather", np.vstack(matrices), index)


def _positions(graph: Graph, x: str, bases: Sequence[Any]) -> str:
    """Return where numbers lie among knots, as `polyadic.features.tables.positions` does."""
    low, high, gap = (
        np.array([[basis_value] for basis_value in values])
        for values in zip(*((b.low, b.high, b.gap) for b in bases), strict=True)
    )
    span = np.where(high > low, high - low, 1.0)
    has_filled = any(each.has_filled for each in bases)
    known, is_filled = x, ""
    if has_filled:
        apart = np.array([[APART * (b.high - b.low) if b.has_filled else np.inf] for b in bases])
        is_filled = graph.add("Greater", x, low + apart / 2)
        known = graph.add("Where", is_filled, graph.add("Sub", x, apart), x)
    u = graph.add("Div", graph.add("Sub", known, low), span)
    inside = graph.add("Clip", u, 0.0, 1.0)
    beyond = graph.add("Div", graph.add("Sub", u, inside), MARGIN)
    beyond = graph.add("Mul", graph.add("Tanh", beyond), MARGIN)
    inside = graph.add("Add", graph.add("Add", inside, beyond), MARGIN)
    last = N_KNOTS - 1
    found = graph.add("Mul", inside, last / (1 + 2 * MARGIN))
    found = graph.add("Clip", found, 0.0, last * (1 - 1e-6))
    if has_filled:
        found = graph.add("Where", is_filled, graph.add("Add", found, float(N_KNOTS)), found)
    return graph.add("Where", graph.add("IsNaN", x), gap, found)


def _level_lots(
    graph: Graph, X: Rows, factors: Sequence[Any], lots: list[int]
) -> Iterator[tuple[int, str]]:
    """Yield what is looked up at levels, some factors at a time."""
    x = X.take(graph, [basis.column for basis, _ in factors])
    n_levels, gap = (
        np.array([[value] for value in values])
        for values in zip(*((float(b.n_levels), b.gap) for b, _ in factors), strict=True)
    )
    code = graph.add("Where", graph.add("IsNaN", x), gap, graph.add("Min", x, n_levels))
    index = _cut(graph, graph.add("Cast", code, to=TensorProto.INT64), lots)
    for place, (own, size) in enumerate(_take_lots(factors, lots)):
        yield size, _look_up(graph, [matrix for _, matrix in own], index[place])


def _wave_lots(
    graph: Graph, X: Rows, factors: Sequence[Any], lots: list[int]
) -> Iterator[tuple[int, str]]:
    """Yield products of sines and matrices, some factors at a time."""
    for own, size in _take_lots(factors, lots):
        x = graph.add("Unsqueeze", X.take(graph, [basis.column for basis, _ in own]), [2])
        frequencies, phases = (
            _pad([np.array(getattr(basis, name))[:, None] for basis, _ in own]).swapaxes(1, 2)
            for name in ("frequencies", "phases")
        )
        angle = graph.add("Add", graph.add("Mul", x, frequencies), phases)
        matrices = _pad([matrix for _, matrix in own])
        yield size, graph.add("MatMul", graph.add("Sin", angle), matrices)


def _power_lots(
    graph: Graph, X: Rows, factors: Sequence[Any], lots: list[int]
) -> Iterator[tuple[int, str]]:
    """Yield products of powers and matrices, some factors at a time."""
    for own, size in _take_lots(factors, lots):
        x = graph.add("Unsqueeze", X.take(graph, [basis.column for basis, _ in own]), [2])
        exponents = _pad([np.array(basis.exponents)[:, None] for basis, _ in own]).swapaxes(1, 2)
        matrices = _pad([matrix for _, matrix in own])
        yield size, graph.add("MatMul", graph.add("Pow", x, exponents), matrices)


def _pad(matrices: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return matrices in one array, the shorter ones with zeros below."""
    found = np.zeros((len(matrices), max(map(len, matrices)), matrices[0].shape[1]))
    for place, matrix in enumerate(matrices):
        found[place, : len(matrix)] = matrix
    return found


_COMPUTE: dict[str, Callable[..., Iterator[tuple[int, str]]]] = {
    "numbers": _number_lots,
    "levels": _level_lots,
    "waves": _wave_lots,
    "powers": _power_lots,
}

"""A model of how large errors are where: functions of single columns, and of pairs of the foremost.

    log s² = β₀ + Σ_d f_d(x_d) + Σ_{a,b} g_ab(x_a, x_b)

The columns are the inputs and what stands beside them.  Functions of one are piecewise linear, or
a number for each level; those of two are piecewise bilinear, and there only if they say more of
rows that they were not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from polyadic.features import Table
from polyadic.features.tables import N_KNOTS
from polyadic.model.log_scale import LogScale, fit_log_scale
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member
from polyadic.search.trend import (
    Product,
    additive_member,
    at_knots,
    level_features,
    number_table,
)
from polyadic.uncertainty import N_BESIDE

_BESIDE = ("the response", "familiarity", "spread")
_BUMPS = {False: 7, True: 11}  # corners of a function of one number; the latter for many rows
_MANY_ROWS = 500  # from which on pairs are looked at, too
_MOST_LEVELS, _MOST_COLUMNS, _MOST_INPUTS = 64, 400, 64
_BLEND = 0.5
_LEAST_VARIANCE = 1e-10  # of the mean square
_FOREMOST, _CORNERS = 4, 5  # columns that may act in pairs, and corners along each
_LEAST_EFFECT = 0.02  # variance that the function of such a column has
_LEAST_PRODUCT = 0.01  # that is kept, of log s²


def learn_scale(
    extended: NDArray[np.float64],
    errors: NDArray[np.float64],
    weight: NDArray[np.float64],
    keys: NDArray[np.int64],
    inputs: Inputs,
    used: Sequence[bool],
) -> tuple[Member, NDArray[np.float64]]:
    """Return the model of log s², and what other rows make of it for each row."""
    names, n_levels = (*inputs.names, *_BESIDE), (*inputs.n_levels, 0, 0, 0)
    scaling = InputScaling.fit(extended, Inputs(names, n_levels), blend=_BLEND, weight=weight)
    scaled = np.asarray(scaling.apply(extended))
    tables = _choose_tables(scaled, n_levels, used)
    if all(table is None for table in tables):
        tables[-1] = _still()
    there = {d: table for d, table in enumerate(tables) if table is not None}
    functions = [_of_one(table, scaled[:, d], d >= len(inputs)) for d, table in there.items()]
    found = _fit(functions, errors, weight, keys)
    products: list[Product] = []
    hats = _foremost(found, functions, there, scaled)
    pairs = list(combinations(hats, 2))
    if pairs:
        of_pairs = [_of_two(hats[a], hats[b], scaled[:, [a, b]]) for a, b in pairs]
        together = _fit([*functions, *of_pairs], errors, weight, keys, found.strength)
        if together.cost < found.cost:
            found, functions = together, [*functions, *of_pairs]
    pieces = zip(_split(found, functions), functions, strict=True)
    constant, own = found.coefficients[:1], [piece / each.unit for piece, each in pieces]
    for (a, b), coefficients in zip(pairs, own[len(there) :], strict=False):
        products += _products(a, b, hats, coefficients)
    coefficients = np.concatenate([*own[: len(there)], constant])[:, None]
    return additive_member(scaling, tables, coefficients, products), found.predicted


def constant_scale(
    extended: NDArray[np.float64],
    errors: NDArray[np.float64],
    weight: NDArray[np.float64],
    enough: int,
) -> tuple[Member, NDArray[np.float64]]:
    """Return the same log s² for all rows: few errors are taken with one more, of a mean guess."""
    doubt = 1 - len(errors) / enough
    value = float(np.log((weight @ errors**2 + doubt) / (weight.sum() + doubt)))
    tables: list[Table | None] = [None] * extended.shape[1]
    tables[-1] = _still()
    scaling = InputScaling.identity(extended.shape[1])
    return additive_member(scaling, tables, np.array([[0.0], [value]])), np.full(1, value)


@dataclass(frozen=True, eq=False)
class _Function:
    """A function of one or two columns, by what its coefficients belong to.

    Parameters
    ----------
    values : ndarray of shape (n, p)
        Of about unit variance.
    unit : ndarray of shape (p,)
        What they were divided by.
    block : ndarray of int of shape (p,)
        Those of one number have one penalty.
    likely : ndarray of bool of shape (p,)
        Those that are likely to count.
    """

    values: NDArray[np.float64]
    unit: NDArray[np.float64]
    block: NDArray[np.intp]
    likely: NDArray[np.bool_]


def _of_one(table: Table, x: NDArray[np.float64], is_beside: bool) -> _Function:
    B, block = table.features(x), _blocks(table)
    variance = np.ones(1)
    if not table.n_levels:
        variance = np.bincount(block, B.var(axis=0)).astype(np.float64)
    return _scale_function(B, block, variance, (block == 0) & is_beside)


def _of_two(a: Table, b: Table, x: NDArray[np.float64]) -> _Function:
    """Return all products of the functions of two columns."""
    A, B = a.features(x[:, 0]), b.features(x[:, 1])
    both = (A[:, :, None] * B[:, None, :]).reshape(len(x), -1)
    block = np.zeros(both.shape[1], dtype=np.intp)
    return _scale_function(both, block, both.var(axis=0).sum(keepdims=True), block > 0)


def _scale_function(
    B: NDArray[np.float64],
    block: NDArray[np.intp],
    variance: NDArray[np.float64],
    likely: NDArray[np.bool_],
) -> _Function:
    # What varies by rounding alone does not vary.
    varies = variance > _LEAST_VARIANCE * np.bincount(block, (B**2).mean(axis=0))
    unit = np.sqrt(np.where(varies, variance, np.inf))[block]
    return _Function(B / unit, unit, block, likely)


def _fit(
    functions: Sequence[_Function],
    errors: NDArray[np.float64],
    weight: NDArray[np.float64],
    keys: NDArray[np.int64],
    *strengths: float,
) -> LogScale:
    """Return the sum of a constant and functions that explains the errors best."""
    blocks = [np.array([-1])]
    for each in functions:
        blocks.append(1 + blocks[-1].max() + each.block)
    B = np.hstack([np.ones((len(errors), 1)), *(each.values for each in functions)])
    likely = np.concatenate([[False], *(each.likely for each in functions)])
    return fit_log_scale(B, errors, weight, np.concatenate(blocks), likely, keys, *strengths)


def _split(found: LogScale, functions: Sequence[_Function]) -> list[NDArray[np.float64]]:
    """Return the coefficients of each function."""
    ends = np.cumsum([len(each.unit) for each in functions])[:-1]
    return np.split(found.coefficients[1:], ends)


def _foremost(
    found: LogScale,
    functions: Sequence[_Function],
    there: dict[int, Table],
    scaled: NDArray[np.float64],
) -> dict[int, Table]:
    """Return hats over corners along the columns that matter most, numbers all."""
    if len(scaled) < _MANY_ROWS:
        return {}
    pieces = zip(there, functions, _split(found, functions), strict=True)
    effects = {d: float((each.values @ piece).var()) for d, each, piece in pieces}
    numbers = [d for d in there if effects[d] > _LEAST_EFFECT and not there[d].n_levels]
    foremost = sorted(numbers, key=lambda d: -effects[d])[:_FOREMOST]
    return {d: _hat_table(scaled[:, d], there[d]) for d in foremost}


def _hat_table(x: NDArray[np.float64], table: Table) -> Table:
    """Return hats over corners of a column, less their means; nothing of a gap."""
    there = x[~np.isnan(x)]
    corners = np.unique(np.quantile(there, np.linspace(0, 1, _CORNERS)))
    hats = _hats(at_knots(table.low, table.high), corners) - _hats(there, corners).mean(axis=0)
    values = np.zeros((len(table.values), len(corners) - 1))
    values[:N_KNOTS] = hats[:, :-1]  # the last is what the others leave
    return Table(table.low, table.high, values, gap=table.gap)


def _hats(x: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return functions that are 1 at a corner, 0 at the others and linear between them."""
    return np.column_stack([np.interp(x, corners, each) for each in np.eye(len(corners))])


def _products(
    a: int, b: int, hats: dict[int, Table], coefficients: NDArray[np.float64]
) -> list[Product]:
    """Return a function of two columns as a sum of products, as few as make a difference."""
    A, B = hats[a].values, hats[b].values
    left, sizes, right = np.linalg.svd(coefficients.reshape(A.shape[1], B.shape[1]))
    found = []
    for k, size in enumerate(sizes):
        of_a, of_b = size * (A @ left[:, k]), B @ right[k]
        if np.abs(of_a).max() * np.abs(of_b).max() > _LEAST_PRODUCT:
            found.append(Product(a, of_a, b, of_b))
    return found


def _blocks(table: Table) -> NDArray[np.intp]:
    """Return which columns have one penalty: a line, what bends it, and gaps; or levels."""
    if table.n_levels:
        return np.zeros(table.n_basis, dtype=np.intp)
    has_gaps = len(table.values) > N_KNOTS
    block = np.ones(table.n_basis, dtype=np.intp)
    block[0] = 0
    if has_gaps:
        block[-1] = block[:-1].max() + 1
    return block


def _choose_tables(
    scaled: NDArray[np.float64], n_levels: Sequence[int], used: Sequence[bool]
) -> list[Table | None]:
    """Return what a scale sees of each column: of all inputs if these are not too many."""
    every, none = [True] * len(used), [False] * len(used)
    for inputs in (every, list(used), none):
        for bumps in (_BUMPS[len(scaled) >= _MANY_ROWS], 0):
            tables = [
                _table(scaled[:, d], n_levels[d], bumps) if each else None
                for d, each in enumerate([*inputs, *[True] * N_BESIDE])
            ]
            there = [table.n_basis for table in tables if table is not None]
            if sum(there) <= _MOST_COLUMNS and len(there) <= _MOST_INPUTS:
                return tables
    raise AssertionError("what stands beside the inputs is few")


def _still() -> Table:
    """Return a table of nothing, for a model must have at least one input."""
    return Table(0.0, 1.0, np.zeros((N_KNOTS, 1)))


def _table(x: NDArray[np.float64], n_levels: int, bumps: int) -> Table | None:
    """Return what a scale sees of one column: a line and bumps, or levels; none if it is still."""
    there = ~np.isnan(x)
    has_gaps = not there.all()
    if n_levels:
        return level_features(min(n_levels, _MOST_LEVELS), has_gaps)
    if not there.any():
        return None
    corners = np.unique(np.quantile(x[there], np.linspace(0, 1, max(bumps, 2))))
    if len(corners) < 2:
        return None
    low, high = float(corners[0]), float(corners[-1])
    at = at_knots(low, high)
    functions = at[:, None]
    if bumps and len(corners) > 2:
        functions = np.hstack([functions, _hats(at, corners) @ _bends(len(corners))])
    return number_table(low, high, functions, functions.mean(axis=0), has_gaps=has_gaps)


def _bends(n: int) -> NDArray[np.float64]:
    """Return values at n corners, such that a ridge on them is one on their second differences."""
    differences = np.diff(np.eye(n), n=2, axis=0)
    return np.asarray(np.linalg.pinv(differences))

"""The linear trend: a ridge regression from sums, written as a CPD like any other model.

It is linear in every number and has a constant for every level of a category and for gaps.  A
sum of functions g_d(x_d) of D inputs and a constant is a sum of D + 1 rank-one terms over the
features [1, g_d] of each input, so it is a model of rank D + 1 with tables of two columns: views,
prediction, model files and reports need not know that it is special.  Beyond the training range
it is level, so that what it says is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import PurePowerFeatures, Table, Tabled, TensorLayout, Unused
from polyadic.features.tables import N_KNOTS, knots
from polyadic.model.als import Model
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.arrays import array_namespace, on_host, place_like
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member, View
from polyadic.sources.data import Data

# Strengths of the ridge tried, in units of the rows' total weight.
_STRENGTHS = np.logspace(-6, 3, 28)
_MOST_LEVELS, _MOST_COLUMNS = 64, 1_000  # of a category, and of all of them about


@dataclass(frozen=True)
class LinearSums:
    """The normal equations of each target on [features, 1], and the number of rows; they add up."""

    equations: tuple[NormalEquations, ...]
    n_rows: int

    def __add__(self, other: LinearSums) -> LinearSums:
        pairs = zip(self.equations, other.equations, strict=True)
        return LinearSums(tuple(a + b for a, b in pairs), self.n_rows + other.n_rows)


def linear_trend(data: Data) -> Member:
    """Return the ridge regression of all targets on the inputs as the usual view shows them.

    The strength is the one with the least generalised cross-validation error, which, like
    everything else here, follows from sums over the rows.
    """
    tables = linear_features(data)
    sums = data.store.reduce("trend", partial(linear_sums, view=data.view, tables=tables))
    is_indicator = [table.n_levels > 0 or i > 0 for table in tables for i in range(table.n_basis)]
    owner = np.repeat(np.arange(len(tables)), [table.n_basis for table in tables])
    blocks = np.where(is_indicator, owner, -1)
    columns = [_ridge(equations, sums.n_rows, blocks) for equations in sums.equations]
    return additive_member(data.view.inputs, tables, np.column_stack(columns))


def linear_features(data: Data) -> list[Table]:
    """Return what a trend sees of each input: a number and its gaps, or levels one by one."""
    ends = data.view.inputs.apply(np.stack([data.statistics.low, data.statistics.high]))
    n_categories = sum(n_levels > 0 for n_levels in data.inputs.n_levels)
    most = max(2, min(_MOST_LEVELS, _MOST_COLUMNS // max(1, n_categories)))
    triples = zip(data.inputs.n_levels, data.statistics.gaps > 0, ends.T, strict=True)
    return [
        level_features(min(n_levels, most), bool(gaps))
        if n_levels
        else _number_features(*_sound_range(*range_), bool(gaps))
        for n_levels, gaps, range_ in triples
    ]


def _sound_range(low: float, high: float) -> tuple[float, float]:
    """Return a range, [0, 0] where nothing is known."""
    return (float(low), float(high)) if low <= high else (0.0, 0.0)


def _number_features(low: float, high: float, has_gaps: bool) -> Table:
    """Return x, level beyond its range, and where there are gaps a column for them."""
    x = at_knots(low, high)
    return number_table(low, high, x[:, None], np.array([(low + high) / 2]), has_gaps=has_gaps)


def at_knots(low: float, high: float) -> NDArray[np.float64]:
    """Return what a number is at the knots of a table, level beyond its range."""
    return np.asarray(low + (high - low) * np.clip(knots(), 0.0, 1.0))


def number_table(
    low: float,
    high: float,
    functions: NDArray[np.float64],
    middle: NDArray[np.float64],
    *,
    has_gaps: bool,
) -> Table:
    """Return functions of a number by their values at the knots.

    Where there are gaps these have the values `middle`, and a column of their own.
    """
    if not has_gaps:
        return Table(low, high, functions, gap=(N_KNOTS - 1) / 2)
    values = np.zeros((N_KNOTS + 2, functions.shape[1] + 1))
    values[:N_KNOTS, :-1] = functions
    values[N_KNOTS:] = *middle, 1.0
    return Table(low, high, values, gap=float(N_KNOTS))


def level_features(n_levels: int, has_gaps: bool) -> Table:
    """Return an indicator for each level, and one for gaps; that of none of them is zero."""
    values = np.zeros((n_levels + 2 + has_gaps, n_levels + has_gaps))
    values[:n_levels, :n_levels] = np.eye(n_levels)
    if has_gaps:
        values[n_levels + 1 :, n_levels] = 1.0
    return Table(0.0, 1.0, values, n_levels=n_levels, gap=float(n_levels + has_gaps))


def linear_sums(rows: Rows, first_row: int, view: View, tables: Sequence[Table]) -> LinearSums:
    """Sum up a piece of rows, where they are."""
    xp, F = array_namespace(rows.X), linear_columns(view.inputs.apply(rows.X), tables)
    targets = [view.targets.apply(rows.y[:, t], t)[:, None] for t in range(rows.y.shape[1])]
    table = xp.concat([F, *targets], axis=1)
    if rows.weight is not None:
        table = table * xp.sqrt(xp.astype(rows.weight, xp.float64))[:, None]
    gram, size = on_host(table.T @ table), table.shape[1] - len(targets)
    return LinearSums(
        tuple(
            NormalEquations(
                gram[:size, :size], gram[:size, t], float(gram[t, t]), rows.total_weight
            )
            for t in range(size, len(gram))
        ),
        len(rows),
    )


def linear_columns(X: Any, tables: Sequence[Table]) -> Any:
    """Return what coefficients belong to: the features of scaled inputs, and ones."""
    xp = array_namespace(X)
    ones = xp.ones((len(X), 1), dtype=X.dtype, device=X.device)
    return xp.concat([*(_look_up(table, X[:, d]) for d, table in enumerate(tables)), ones], axis=1)


def _look_up(table: Table, x: Any) -> Any:
    """Return the features of one input, arrays or tensors."""
    xp = array_namespace(x)
    position, values = table.positions(x), place_like(table.values, x)
    below = xp.astype(position, xp.int64)
    t = (position - xp.astype(below, xp.float64))[:, None]
    return (1 - t) * values[below] + t * values[below + 1]


@dataclass(frozen=True, eq=False)
class Product:
    """A function of one input times one of another, by their values at the rows of their tables."""

    first: int
    of_first: NDArray[np.float64]
    second: int
    of_second: NDArray[np.float64]


def additive_member(
    scaling: InputScaling,
    tables: Sequence[Table | None],
    coefficients: NDArray[np.float64],
    products: Sequence[Product] = (),
) -> Member:
    """Return Σ_d ψ_d(x_d)·β_d + β₀ as a member: a column of coefficients a target, β₀ last.

    Each input's table has a column of ones, one for each target, and one for each product that it
    takes part in; these are added for all targets.  An input without a table takes no part, nor
    does one that adds nothing.
    """
    n_targets, first = coefficients.shape[1], 0
    inputs: list[Tabled | Unused] = []
    columns: list[list[int | None]] = []  # of each input, which is that of each product
    last = max(d for d, table in enumerate(tables) if table is not None)
    for d, table in enumerate(tables):
        if table is None:
            inputs.append(Unused())
            continue
        values = [np.ones((len(table.values), 1))]
        values.append(table.values @ coefficients[first : first + table.n_basis])
        first += table.n_basis
        places: list[int | None] = []
        for each in products:
            own = {each.first: each.of_first, each.second: each.of_second}.get(d)
            places.append(None if own is None else sum(v.shape[1] for v in values))
            values += [] if own is None else [own[:, None]]
        # What adds nothing, such as a constant column, takes no part; one input must be there.
        if not any(each.any() for each in values[1:]) and (columns or d < last):
            inputs.append(Unused())
            continue
        columns.append(places)
        kept = Table(
            table.low, table.high, np.hstack(values), None, None, table.n_levels, table.gap
        )
        inputs.append(Tabled(kept))
    layout = TensorLayout((PurePowerFeatures(),), tuple(inputs))
    cores = tuple(
        _sum_cores(layout.core_sizes, t, columns, coefficients[-1, t]) for t in range(n_targets)
    )
    return Member(scaling, layout, Model(cores, np.ones(1)))


def _sum_cores(
    sizes: Sequence[int], target: int, products: Sequence[Sequence[int | None]], constant: float
) -> Cores:
    """Return the cores of a sum over inputs of one column of their tables, products, a constant."""
    cores = []
    for index, (size, of_input) in enumerate(zip(sizes, products, strict=True)):
        core = np.zeros((size, len(sizes) + len(of_input) + 1))
        core[0] = 1.0
        core[:, index] = np.eye(size)[1 + target]
        for place, column in enumerate(of_input):
            if column is not None:
                core[:, len(sizes) + place] = np.eye(size)[column]
        cores.append(core)
    cores[0][0, -1] = constant
    return cores


def _ridge(
    equations: NormalEquations, n_rows: float, blocks: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the coefficients, the constant last; the constant is not penalised.

    Numbers are penalised in units of their deviation.  Indicators of one input, those with the
    same number in `blocks`, have one unit, so that a rare level is not free to follow its few
    rows; −1 is a number.
    """
    gram, moment, total = equations.gram, equations.moment, equations.total_weight
    # Integer weights count rows; weights that sum to less than the rows are relative.
    n_rows = max(total, n_rows)
    mean, target_mean = gram[-1, :-1] / total, moment[-1] / total
    covariance = gram[:-1, :-1] - total * np.outer(mean, mean)
    slope = moment[:-1] - total * mean * target_mean
    scatter = max(equations.target_norm2 - total * target_mean**2, 0.0)
    variance = np.maximum(np.diagonal(covariance), 0.0) / total
    # A column whose spread is rounding is constant: it gets the coefficient zero.  The
    # variance is a difference of squares, so its root is right to half the digits only.
    used = np.sqrt(variance) > 1e-6 * np.abs(mean)
    indicator = blocks >= 0
    of_block = np.bincount(blocks[indicator], variance[indicator], 1 + max(blocks.max(), 0))
    variance = np.where(indicator, of_block[blocks], variance)
    scale = np.where(used, np.sqrt(variance), np.inf)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ (slope / scale)
    best, chosen = np.inf, np.zeros(len(slope))
    for strength in _STRENGTHS * total:
        shrunk = rotated / (values + strength)
        residual = max(scatter - float((shrunk * (rotated + strength * shrunk)).sum()), 0.0)
        # Generalised cross-validation: the constant and the shrunk slopes cost freedom.
        freedom = 1 - (1 + float((values / (values + strength)).sum())) / n_rows
        if freedom <= 0:
            continue
        error = residual / freedom**2
        if error < best:
            best, chosen = error, vectors @ shrunk / scale
    return np.append(chosen, target_mean - mean @ chosen)

"""What rows that were held out tell of errors: how large they are where, and how distributed.

    held-out rows ─► error, response, familiarity, spread ─► additive model of the log scale

A group's members have not seen the rows that it holds out, so their errors there are those of
new rows.  What each is told by is the inputs, the response itself, how familiar the
row is, that is how much of the kernel other rows share with it, and how much members differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import Table
from polyadic.features.tables import N_KNOTS, knots
from polyadic.members import Reach, beyond_range
from polyadic.model.als import Model
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.model.log_scale import fit_log_scale
from polyadic.rows.arrays import on_host
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import Member
from polyadic.search.learned import LearnedFeatures
from polyadic.search.trend import additive_member, level_features, number_table
from polyadic.sources.data import Data
from polyadic.uncertainty import (
    LEAST_FAMILIAR,
    N_BESIDE,
    LearnedScale,
    Uncertainty,
    extend,
    spread_of,
)

_KNOWN_ROWS = 128  # training rows that familiarity is told by
_BUMPS = {False: 7, True: 11}  # corners of a function of one number; the latter for many rows
_MANY_ROWS = 500
_MOST_LEVELS, _MOST_COLUMNS, _MOST_INPUTS = 64, 400, 64
_LEAST_ROWS = 20  # from which on a scale is learned row by row
_BLEND = 0.5
_LEAST_VARIANCE = 1e-10  # of the mean square
_MARGIN = 2.0  # of log s² beyond what held-out rows have
_BESIDE = ("the response", "familiarity", "spread")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that a group holds out, and what its members say of them.

    Parameters
    ----------
    X : array or tensor of shape (n, D)
        Inputs in their own units.
    errors : ndarray of shape (n, n_targets)
        Targets less predictions, in units of the targets' deviation.
    said : list of ndarray of shape (n, n_targets)
        What each member of the mean says, its share included.
    total : ndarray of shape (n, n_targets)
        The response that predicts.
    weight : ndarray of shape (n,), optional
        Of the rows.
    keys : ndarray of int of shape (n,)
        What rows are held out by: the same for copies, and for rows of one group.
    known : Data
        The rows that the group trains on.
    training_error : ndarray of shape (n_targets,)
        Mean squared error there, in the same units.
    """

    X: Any
    errors: NDArray[np.float64]
    said: list[NDArray[np.float64]]
    total: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    keys: NDArray[np.int64]
    known: Data
    training_error: NDArray[np.float64]


def learn_uncertainty(
    held: Sequence[HeldOut],
    data: Data,
    features: LearnedFeatures,
    members: Sequence[Member],
    units: NDArray[np.float64],
    compute: Compute,
) -> Uncertainty:
    """Return how sure predictions of these members are.

    `features` are what familiarity is told by, and the first members those of the mean.
    """
    n_members = sum(len(each.said) for each in held)
    kernels = [familiarity_of(each.known, features) for each in held]
    familiar = [
        on_host(kernel.respond(each.X, 0, compute.predict))
        for kernel, each in zip(kernels, held, strict=True)
    ]
    usual = max(float(np.median(np.concatenate(familiar))), np.finfo(float).tiny)
    familiar = [each / usual for each in familiar]
    least = float(min(each.min() for each in familiar))
    inputs, used = data.inputs, _used_inputs(members, data.inputs)
    pairs = list(zip(held, familiar, strict=True))
    weight = np.concatenate(
        [np.ones(len(h.errors)) if h.weight is None else h.weight for h in held]
    )
    weight = weight / weight.mean()
    keys = np.concatenate([h.keys for h in held])
    models, bounds, distributions, noise = [], [], [], []
    for t in range(len(units)):
        extended = np.concatenate(
            [
                extend(on_host(h.X), h.total[:, t], f, spread_of(h.said, h.total)[:, t])
                for h, f in pairs
            ]
        )
        errors = np.concatenate([h.errors[:, t] for h in held])
        if len(errors) < _LEAST_ROWS:
            model, predicted = _constant_scale(extended, errors, weight)
            distributions.append(ErrorDistribution.of_few())
        else:
            model, predicted = _learn_scale(extended, errors, weight, keys, inputs, used)
            distributions.append(ErrorDistribution.learn(errors * np.exp(-0.5 * predicted), weight))
        models.append(model)
        bounds.append([predicted.min() - _MARGIN, predicted.max() + _MARGIN])
        trained = float(np.mean([h.training_error[t] for h in held]))
        noise.append(noise_share(trained, float(np.average(errors**2, weights=weight))))
    return Uncertainty(
        LearnedScale(
            replace(kernels[0], share=kernels[0].share / usual),
            least if least > LEAST_FAMILIAR else 0.0,
            *_ranges(data.statistics, members, inputs),
            n_members,
            tuple(models),
            np.array(bounds),
        ),
        tuple(distributions),
        units,
        np.array(noise),
    )


def learn_reach(
    data: Data, members: Sequence[Member], held: Sequence[tuple[Any, Statistics]]
) -> Reach:
    """Return how far log odds are believed: as far as rows that were held out lie from the others.

    `held` are the rows of each group, and what is known of those that it trains on.  A new row
    that is exchangeable with these is farther than the farthest of n in one of n + 1 cases.
    """
    ends = _ranges(data.statistics, members, data.inputs)
    slacks = [0.0]
    for X, others in held:
        low, high = _ranges(others, members, data.inputs)
        slacks.append(float(on_host(beyond_range(X, low, high)).max()))
    return Reach(*ends, max(slacks))


def _ranges(
    known: Statistics, members: Sequence[Member], inputs: Inputs
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the range of each input that takes part and is a number, infinite for others."""
    used, is_number = np.array(_used_inputs(members, inputs)), np.array(inputs.n_levels) == 0
    has_range = used & is_number & (known.low < known.high)
    low, high = np.where(has_range, known.low, -np.inf), np.where(has_range, known.high, np.inf)
    return low.astype(np.float64), high.astype(np.float64)


def noise_share(training_error: float, held_out_error: float) -> float:
    """Return which part of the error on new rows more rows would not take away.

    With h the freedom that a fit takes from each row, training errors are about σ²(1 − h) and
    others about σ²(1 + h).  Their harmonic mean is σ² but for h², and nothing where training
    rows are met exactly.
    """
    total = training_error + held_out_error
    return min(1.0, 2 * training_error / total) if total > 0 else 1.0


def familiarity_of(known: Data, features: LearnedFeatures) -> Member:
    """Return the mean kernel of a row with some known ones, as a model of a term for each."""
    rows = on_host(known.gather_about(_KNOWN_ROWS, seed=2).X)[:_KNOWN_ROWS]
    scaled = np.asarray(features.scaling.apply(rows))
    cores = [
        np.ascontiguousarray(each.table.features(scaled[:, d]).T)
        for d, each in enumerate(features.layout.inputs)
        if each.table is not None
    ]
    return Member(features.scaling, features.layout, Model((cores,), np.ones(1)), 1 / len(rows))


def _used_inputs(members: Sequence[Member], inputs: Inputs) -> list[bool]:
    """Return which inputs take part in any member, by themselves or by their flag."""
    return [
        any(m.layout.inputs[c].core_sizes for m in members for c in m.inputs.columns_of(d))
        for d in range(len(inputs))
    ]


def _learn_scale(
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
    columns, units, blocks = [np.ones((len(errors), 1))], [np.ones(1)], [np.array([-1])]
    likely = [np.array([False])]
    for d, table in enumerate(tables):
        if table is not None:
            B, block = table.features(scaled[:, d]), _blocks(table)
            of_block = np.bincount(block, B.var(axis=0)) if not table.n_levels else np.ones(1)
            # What varies by rounding alone does not vary.
            varies = of_block > _LEAST_VARIANCE * np.bincount(block, (B**2).mean(axis=0))
            deviation = np.sqrt(np.where(varies, of_block, np.inf))[block]
            columns.append(B / deviation)
            units.append(deviation)
            blocks.append(1 + blocks[-1].max() + block)
            likely.append((block == 0) & (d >= len(inputs)))
    parts = np.hstack(columns), errors, weight, *map(np.concatenate, (blocks, likely)), keys
    found = fit_log_scale(*parts)
    coefficients = found.coefficients / np.concatenate(units)
    return (
        additive_member(scaling, tables, np.roll(coefficients, -1)[:, None]),
        found.predicted,
    )


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


def _constant_scale(
    extended: NDArray[np.float64], errors: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[Member, NDArray[np.float64]]:
    """Return the same log s² for all rows: few errors are taken with one more, of a mean guess."""
    doubt = 1 - len(errors) / _LEAST_ROWS
    value = float(np.log((weight @ errors**2 + doubt) / (weight.sum() + doubt)))
    tables: list[Table | None] = [None] * extended.shape[1]
    tables[-1] = _still()
    scaling = InputScaling.identity(extended.shape[1])
    return additive_member(scaling, tables, np.array([[0.0], [value]])), np.full(1, value)


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
    at = low + (high - low) * np.clip(knots(), 0.0, 1.0)
    functions = at[:, None]
    if bumps and len(corners) > 2:
        hats = np.column_stack([np.interp(at, corners, each) for each in np.eye(len(corners))])
        functions = np.hstack([functions, hats @ _bends(len(corners))])
    return number_table(low, high, functions, functions.mean(axis=0), has_gaps=has_gaps)


def _bends(n: int) -> NDArray[np.float64]:
    """Return values at n corners, such that a ridge on them is one on their second differences."""
    differences = np.diff(np.eye(n), n=2, axis=0)
    return np.asarray(np.linalg.pinv(differences))

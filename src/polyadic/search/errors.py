"""What rows that were held out tell of errors: how large they are where, and how distributed.

    held-out rows ─► error, response, familiarity, spread ─► model of the log scale

A group's members have not seen the rows that it holds out, so their errors there are those of
new rows.  What each is told by is the inputs, the response itself, how familiar the
row is, that is how much of the kernel other rows share with it, and how much members differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.members import Reach, beyond_range
from polyadic.model.als import Model
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.rows.arrays import on_host
from polyadic.rows.inputs import Inputs
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import Member
from polyadic.search.learned import LearnedFeatures
from polyadic.search.scales import constant_scale, learn_scale
from polyadic.sources.data import Data
from polyadic.uncertainty import (
    LEAST_FAMILIAR,
    LearnedScale,
    Uncertainty,
    extend,
    spread_of,
)

_KNOWN_ROWS = 128  # training rows that familiarity is told by
_LEAST_ROWS = 20  # from which on a scale is learned row by row
_MARGIN = 2.0  # of log s² beyond what held-out rows have


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
            model, predicted = constant_scale(extended, errors, weight, _LEAST_ROWS)
            loss = data.view.loss
            distributions.append(ErrorDistribution.of_few(0.5 if loss is None else loss.level))
        else:
            model, predicted = learn_scale(extended, errors, weight, keys, inputs, used)
            distributions.append(ErrorDistribution.learn(errors * np.exp(-0.5 * predicted), weight))
        models.append(model)
        bounds.append([predicted.min() - _MARGIN, predicted.max() + _MARGIN])
        trained = float(np.mean([h.training_error[t] for h in held]))
        noise.append(noise_share(trained, float(np.average(errors**2, weights=weight))))
    known = float(np.mean([h.known.total_weight for h in held])) / data.total_weight
    left = np.array([error_left(each, known) for each in noise])
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
        units * np.sqrt(left),
        np.array(noise) / left,
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


def error_left(noise: float, known: float) -> float:
    """Return which part of the variance of errors is left once all rows have been learned from.

    Those that were held out are of members that knew a part of the rows, `known`.  Noise stays, and
    what is not known falls as n^−½ or faster.
    """
    return noise + (1 - noise) * math.sqrt(known)


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

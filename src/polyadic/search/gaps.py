"""Gaps that were filled in: what may be hidden there, and how much a row with gaps tells.

    known values, hidden ─► filled in ─► what they turned out to be, wherever the same was filled in

What is filled in is a guess, and a function of it is not the mean of the function over all that
may be hidden there, which is what predicts best.  A model is linear in the features of each input,
so that mean is had by the mean of the features, as long as gaps of a row hang together only
through the guesses.  A table has these means beside the features themselves.

A row with gaps is also a worse teacher: besides noise its target has what the hidden values do to
it, signal · (1 − Π_d s_d), where s_d is the kernel of two values that may be hidden in input d.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import PurePowerFeatures, Table, Tabled, TensorLayout, Unused
from polyadic.features.tables import N_KNOTS, knots, number_kernel, positions
from polyadic.model.als import Model
from polyadic.model.cpd import Cores
from polyadic.model.evidence import Evidence
from polyadic.rows.filling import STEPS
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member, Trust

_WORK, _MOST_HIDDEN = 1e10, 5_000  # operations of filling in all that is hidden; rows of a column
_LEAST_HIDDEN = 10  # of a column, from which on what may be hidden is learned
_NEIGHBOURS, _PART = 20, 0.05  # of the guesses around one, which tell how far off it may be
_WIDTH = 0.5  # of a guess to be the same as another, in units of how far off these are

# Of each input with gaps, how likely each knot is, where each was filled in.
Chances = Mapping[int, NDArray[np.float64]]


def learn_chances(
    scalings: Mapping[float, InputScaling], X: NDArray[Any], weight: NDArray[Any] | None
) -> dict[float, Chances]:
    """Return what may be hidden in each input with gaps, from rows in their own units.

    That is asked for each of some scalings, which fill in alike.
    """
    first = next(iter(scalings.values()))
    filling = first.filling
    found: dict[float, dict[int, NDArray[np.float64]]] = {blend: {} for blend in scalings}
    if filling is None:
        return dict(found)
    work = 2 * STEPS * len(filling.mean) ** 2 * len(first.flagged)
    most = int(np.clip(_WORK / work, _LEAST_HIDDEN, _MOST_HIDDEN))
    for d, (low, high) in zip(first.flagged, first.ends, strict=True):
        there = np.flatnonzero(~np.isnan(X[:, d]))
        some = there[:: -(-len(there) // most)]
        if len(some) < _LEAST_HIDDEN:
            for each in found.values():
                each[d] = np.eye(N_KNOTS)
            continue
        hidden = np.array(X[some], dtype=np.float64)
        hidden[:, d] = np.nan
        pair = filling.fill(hidden)[:, d], X[some, d]
        known = None if weight is None else weight[some]
        for blend, scaling in scalings.items():
            guess, truth = ((scaling.scale_column(x, d) - low) / (high - low) for x in pair)
            found[blend][d] = chances_of(np.clip(guess, 0, 1), truth, known)
    return dict(found)


def chances_of(
    guess: NDArray[np.float64], truth: NDArray[np.float64], weight: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Return how likely the truth is at each knot, a row for each knot that was guessed.

    A mean over guesses nearby, which are the nearer, the closer these come to the truth.
    """
    order = np.argsort(guess, kind="stable")
    squares = np.append(0.0, np.cumsum((truth - guess)[order] ** 2))
    # Beyond all guesses it is what the last of them says.
    at = np.clip(knots(), guess.min(), guess.max())
    count = min(len(guess), max(_NEIGHBOURS, round(_PART * len(guess))))
    first = np.clip(np.searchsorted(guess[order], at) - count // 2, 0, len(guess) - count)
    off = np.sqrt((squares[first + count] - squares[first]) / count)
    width = np.maximum(_WIDTH * off, 1 / N_KNOTS)
    distance = (at[:, None] - guess) / width[:, None]
    share = np.exp(-0.5 * (distance**2 - (distance**2).min(axis=1, keepdims=True)))
    share = share if weight is None else share * weight
    share /= share.sum(axis=1, keepdims=True)
    place = positions(truth, 0.0, 1.0)
    below = place.astype(np.intp)
    hats, rows = np.zeros((len(truth), N_KNOTS)), np.arange(len(truth))
    hats[rows, below], hats[rows, below + 1] = 1 - (place - below), place - below
    return np.asarray(share @ hats)


def trust_of(
    scaling: InputScaling, chances: Chances, evidence: Evidence, ratio: float
) -> Trust | None:
    """Return how much rows with gaps tell under a kernel, as a model of one term.

    None if they are not doubted, with a ratio of signal to noise of zero.
    """
    if not ratio:
        return None
    inputs: list[Tabled | Unused] = [Unused()] * scaling.n_columns
    for d, (low, high) in zip(scaling.flagged, scaling.ends, strict=True):
        K = number_kernel(evidence.kernel, evidence.length_scales[d])
        alike = np.einsum("ij,jk,ik->i", chances[d], K, chances[d], optimize=True)
        values = np.append(np.ones(N_KNOTS), np.clip(alike, 0, 1))[:, None]
        inputs[d] = Tabled(Table(low, high, values, has_filled=True))
    layout = TensorLayout((PurePowerFeatures(),), tuple(inputs))
    cores: Cores = [np.ones((1, 1)) for _ in layout.core_sizes]
    member = Member(scaling, layout, Model((cores,), np.ones(1)))
    return Trust(member, ratio)


def weigh(trust: Trust | None, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return how much rows in their own units tell."""
    rows = Rows(X, np.zeros((len(X), 1)))
    if trust is None:
        return np.ones(len(X))
    return np.asarray(trust.count(rows, _respond).weight)


def _respond(
    X: NDArray[Any], cores: Cores, map_weights: NDArray[Any], layout: TensorLayout
) -> NDArray[np.float64]:
    """Return the response of a model of one term, on the host."""
    factors = layout.factors(X, layout.maps[0])
    return np.asarray(np.prod([psi @ w for psi, w in zip(factors, cores, strict=True)], axis=0))[
        :, 0
    ]

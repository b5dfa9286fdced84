"""What rows nearby say: a kernel of short reach as one more member.

    member(x) = Σᵢ cᵢ k(x, xᵢ),        (K + λ/w) c = y of the rows xᵢ

Few terms describe what holds everywhere, and remember no single row.  Where rows lie close to each
other, or are copies, one says something of the next.  The kernel falls alike along all inputs and
is a product over them, so this is one more model, of a term for each row.  Held-out rows choose
how far it reaches, how strong its ridge is, whether inputs that other members have no use for
take part, and whether it is there at all.

Of numbers it is fitted to what the other members leave over.  Members that fit classes leave next
to nothing over of the rows they were trained on, so there it is fitted to the labels, and
held-out rows choose its share and that of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from polyadic.features import TensorLayout
from polyadic.model.als import Model
from polyadic.rows.inputs import Inputs
from polyadic.rows.view import Member
from polyadic.search.learned import LearnedFeatures, short_tables

NEAR_ROWS = 1_500  # that a model remembers at most
LEAST_NEAR_ROWS = 50
# Numbers that the model may be made of: those of the rows' features, for every target.
_MOST_NUMBERS = 2**23
# Inputs that may all be tried, whether or not features were learned of them, and how many times as
# good that must be.
_MOST_ALIKE, _CLEARLY = 100, 1.1
_REACHES = 0.1, 0.3, 1.0  # in usual distances of two rows
_STRENGTHS = 0.01, 0.1, 0.6, 3.0
# What a row must gain in log likelihood, and in standard errors: less where it comes on top of what
# others say than where it takes their place.
_GAIN, _SURE, _SURE_OF_CLASSES = 0.0025, 1.0, 2.0
_FREEDOM = 4.0  # of Student's t, under which a few gross errors do not decide
_LEAST_SHARE, _MOST_SHARE = 0.05, 50.0  # of the other members, and of rows nearby

# What rows nearby say of the held-out rows of each part.
Said = Sequence[NDArray[np.float64]]
# The shares of the other members and of rows nearby that suit best, and what each row gains.
Settle = Callable[[Said], tuple[tuple[float, float], NDArray[np.float64]]]


@dataclass(frozen=True, eq=False)
class Known:
    """Rows to remember.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs in their own units.
    y : ndarray of shape (n, n_targets)
        What is left over of standardised targets, or labels less the shares of their classes.
    weight : ndarray of shape (n,)
        Of the rows, with mean 1.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]

    def seen_by(self, features: LearnedFeatures) -> Known:
        """Return the same, rows with gaps counting for less."""
        return replace(self, weight=self.weight * features.weigh(self.X))


@dataclass(frozen=True, eq=False)
class NearPart:
    """Rows to remember, and rows that judge what these say.

    Parameters
    ----------
    known : Known
        The former.
    X : ndarray of shape (m, D)
        Inputs of the latter, in their own units.
    weight : ndarray of shape (m,)
        Of the latter.
    said : ndarray of shape (m, n_targets)
        What the other members say of them.
    judge : callable
        Takes responses, and returns what is left over of standardised targets, or the loss of
        each row.
    """

    known: Known
    X: NDArray[np.float64]
    weight: NDArray[np.float64]
    said: NDArray[np.float64]
    judge: Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class RowSum:
    """A sum of kernels with remembered rows.

    Parameters
    ----------
    features : LearnedFeatures
        Says how inputs are scaled.
    layout : TensorLayout
        The kernel.
    strength : float
        The ridge λ.
    share : float
        Of the sum in the prediction.
    """

    features: LearnedFeatures
    layout: TensorLayout
    strength: float
    share: float = 1.0

    def member(self, known: Known) -> Member:
        """Return the model that remembers some rows."""
        factors = _factors(self.layout, self.features, known.X)
        answers = _solve(_product(factors, factors), known.seen_by(self.features), self.strength)
        others = [np.ascontiguousarray(each.T) for each in factors[1:]]
        cores = tuple([np.ascontiguousarray(factors[0].T * c), *others] for c in answers.T)
        return Member(self.features.scaling, self.layout, Model(cores, np.ones(1)), self.share)

    def say(self, part: NearPart) -> NDArray[np.float64]:
        """Return what the rows that a part remembers say of those that are held out."""
        near, others = (_factors(self.layout, self.features, X) for X in (part.known.X, part.X))
        known = part.known.seen_by(self.features)
        found = _product(others, near) @ _solve(_product(near, near), known, self.strength)
        return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Beside:
    """Sums over remembered rows, and what the shares of all other members are multiplied by."""

    sums: tuple[RowSum, ...]
    others: float

    def members(self, known: Known) -> list[Member]:
        """Return the models that remember some rows."""
        return [each.member(known) for each in self.sums]


def choose_near_rows(
    parts: Sequence[NearPart], features: LearnedFeatures, inputs: Inputs, of_classes: bool
) -> Beside | None:
    """Return how rows nearby tell most of held-out rows, or None if that is in doubt.

    Parameters
    ----------
    parts : sequence of NearPart
        Of each group of members.
    features : LearnedFeatures
        How inputs are scaled, and which of many take part.
    inputs : Inputs
        What they are.
    of_classes : bool
        Whether responses are those of classes.
    """
    settle = _settle_classes(parts) if of_classes else _settle_numbers(parts)
    if settle is None:
        return None
    weight = np.concatenate([part.weight for part in parts])
    best, most, gains = None, 0.0, np.zeros(len(weight))
    for layout, least in _layouts(parts[0].known, features, inputs):
        said = [_said_of_held(part, features, layout) for part in parts]
        for strength, *each in zip(_STRENGTHS, *said, strict=True):
            shares, gained = settle(each)
            if (gain := float(np.average(gained, weights=weight))) > least * most:
                near = RowSum(features, layout, strength, shares[1])
                best, most, gains = Beside((near,), shares[0]), gain, gained
    noise = float(np.sqrt(weight**2 @ (gains - most) ** 2)) / weight.sum()
    return best if most > max(_GAIN, (_SURE_OF_CLASSES if of_classes else _SURE) * noise) else None


def _layouts(
    known: Known, features: LearnedFeatures, inputs: Inputs
) -> Iterator[tuple[TensorLayout, float]]:
    """Yield kernels to try, and how many times the gain of others they must have."""
    dropped = any(each.table is None for each in features.layout.inputs)
    choices = [(False, 1.0), (True, _CLEARLY)]
    for of_all, least in choices[: 2 if dropped and len(inputs) <= _MOST_ALIKE else 1]:
        for reach in _REACHES:
            layout = short_tables(features, inputs, known.X, reach, of_all)
            if layout is not None and fits(layout, known):
                yield layout, least


def fits(layout: TensorLayout, known: Known) -> bool:
    """Whether the features of remembered rows, for every target, are not too many numbers."""
    return sum(layout.core_sizes) * known.y.size <= _MOST_NUMBERS


def _settle_numbers(parts: Sequence[NearPart]) -> Settle | None:
    """Return what says how much better rows nearby explain what is left over.

    None where nothing is left over of most rows.
    """
    rest = np.concatenate([part.judge(part.said) for part in parts])
    unit = 1.4826 * np.median(np.abs(rest), axis=0)
    if not (unit > 0).all():
        return None

    def cost(rest: NDArray[np.float64]) -> NDArray[np.float64]:
        losses = (_FREEDOM + 1) / 2 * np.log1p((rest / unit) ** 2 / _FREEDOM)
        return np.asarray(losses.mean(axis=1))

    before = cost(rest)
    return lambda said: ((1.0, 1.0), before - cost(rest - np.concatenate(said)))


def _settle_classes(parts: Sequence[NearPart]) -> Settle:
    """Return what finds the shares of least loss."""
    weight = np.concatenate([part.weight for part in parts])

    def cost(shares: Sequence[float], said: Said) -> NDArray[np.float64]:
        pairs = zip(parts, said, strict=True)
        return np.concatenate([p.judge(shares[0] * p.said + shares[1] * near) for p, near in pairs])

    before = cost((1.0, 0.0), [part.said for part in parts])

    def settle(said: Said) -> tuple[tuple[float, float], NDArray[np.float64]]:
        found = minimize(
            lambda shares: float(np.average(cost(shares, said), weights=weight)),
            (1.0, 0.5),
            bounds=((_LEAST_SHARE, 1.0), (0.0, _MOST_SHARE)),
            method="L-BFGS-B",
        )
        shares = float(found.x[0]), float(found.x[1])
        return shares, before - cost(shares, said)

    return settle


def _said_of_held(
    part: NearPart, features: LearnedFeatures, layout: TensorLayout
) -> list[NDArray[np.float64]]:
    """Return what rows nearby say of held-out rows, for each strength.

    To choose by, single precision is enough, and takes half the time, unless a system is singular.
    """
    near, others = (_factors(layout, features, X) for X in (part.known.X, part.X))
    single, beside = ([each.astype(np.float32) for each in some] for some in (near, others))
    known = part.known.seen_by(features)
    try:
        return _say(single, beside, known)
    except np.linalg.LinAlgError:
        return _say(near, others, known)


def _say(
    near: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]], known: Known
) -> list[NDArray[np.float64]]:
    """Return what known rows say of others by the features of both, for each strength."""
    among, across = _product(near, near), _product(others, near)
    found = (across @ _solve(among, known, strength) for strength in _STRENGTHS)
    return [each.astype(np.float64) for each in found]


def _factors(
    layout: TensorLayout, features: LearnedFeatures, X: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the features of each input that takes part, for rows in their own units."""
    return layout.factors(features.scaling.apply(X), layout.maps[0])


def _product(a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the kernel of rows with rows by the features of each input."""
    K: NDArray[Any] = a[0] @ b[0].T
    for left, right in zip(a[1:], b[1:], strict=True):
        K *= left @ right.T
    return K


def _solve(K: NDArray[Any], known: Known, strength: float) -> NDArray[Any]:
    """Return the coefficients of the rows; one of weight w has the ridge λ/w, as w copies have."""
    system = K.copy()
    system.flat[:: len(K) + 1] += strength / known.weight
    return np.asarray(cho_solve(cho_factor(system, overwrite_a=True), known.y.astype(K.dtype)))

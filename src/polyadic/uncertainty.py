"""How sure predictions are: the scale of each row's error, and how errors are distributed.

    y = prediction + scale(x) · z,        z ~ ErrorDistribution

After an automatic fit the scale is learned from rows that were held out (`LearnedScale`); with
named maps it follows from the posterior of one core (`PosteriorScale`).  Both are asked in the
same breath as the prediction, which stays what it is to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import PREDICTED_ROWS, Compute
from polyadic.members import Predictor, beyond_range, ignore_overflow
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.model.posterior import CorePosterior
from polyadic.rows.arrays import array_namespace, as_double, on_host, place_like, to_device
from polyadic.rows.tensors import is_tensor
from polyadic.rows.view import Member, add_responses, member_responses

N_BESIDE = 3  # columns that stand beside the inputs for a model of the scale
LEAST_FAMILIAR = 1e-4  # beside a usual row
LEAST_SPREAD = 1e-6
LEAST_SCALE = 1e-9  # all of these in units of the targets' deviation


class Scale(Protocol):
    """How large the error of each row is, in units of its target's deviation."""

    def of(self, X: Any, said: Sequence[Any], total: Any, compute: Compute) -> tuple[Any, Any]:
        """Return scales without and with what is not known of unfamiliar rows, a column a target.

        `said` is what each member says of the rows `X`, and `total` their sum.
        """


@dataclass(frozen=True, eq=False)
class LearnedScale:
    """What rows that were held out tell of errors: a small model of their log scale.

    Parameters
    ----------
    familiarity : Member
        The kernel of a row with some training rows, in sum; 1 for a usual row.
    least : float
        Familiarity below which there was no row that was held out; 0 if there is no such.
    low, high : ndarray of shape (D,)
        Training range of each input that takes part and is a number, else infinite.
    n_members : int
        Members whose spread counts, the first ones.
    models : tuple of Member
        Of each target: log s² as a sum of functions of the inputs, the response, the log
        familiarity and the log spread.
    bounds : ndarray of shape (n_targets, 2)
        Of log s².
    """

    familiarity: Member
    least: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_members: int
    models: tuple[Member, ...]
    bounds: NDArray[np.float64]

    def of(self, X: Any, said: Sequence[Any], total: Any, compute: Compute) -> tuple[Any, Any]:
        """Return the scales; far from all rows nothing is known but the spread of the targets."""
        xp, respond = array_namespace(X), compute.predict
        familiar = self.familiarity.respond(X, 0, respond)
        spread = spread_of(said[: self.n_members], total)
        columns = []
        for t, model in enumerate(self.models):
            extended = extend(X, total[:, t], familiar, spread[:, t])
            low, high = self.bounds[t].tolist()
            columns.append(xp.exp(0.5 * xp.clip(model.respond(extended, 0, respond), low, high)))
        known = xp.stack(columns, axis=1)
        return known, xp.sqrt(known**2 + self._strangeness(X, familiar)[:, None] ** 2)

    def _strangeness(self, X: Any, familiar: Any) -> Any:
        """Return 0 for rows like those held out, and up to 1 for those unlike or beyond them."""
        xp = array_namespace(X)
        known = xp.exp(-beyond_range(X, self.low, self.high))
        if self.least:
            known = known * xp.clip(familiar / self.least, 0.0, 1.0)
        return 1 - known


@dataclass(frozen=True, eq=False)
class PosteriorScale:
    """What the posterior of a core tells: noise, and what rows leave open of the core.

    Parameters
    ----------
    members : tuple of Member
        The members that the posteriors belong to.
    posteriors : tuple of tuple of CorePosterior
        Of each member, of each target.
    noise : ndarray of shape (n_targets,)
        Variance of the noise.
    span : tuple of float
        The range, over the rows of the fit, of the scaled input that the core meets.
    """

    members: tuple[Member, ...]
    posteriors: tuple[tuple[CorePosterior, ...], ...]
    noise: NDArray[np.float64]
    span: tuple[float, float] = (0.0, 1.0)

    @cached_property
    def _posteriors(self) -> tuple[tuple[CorePosterior, ...], ...]:
        """The posteriors with their curves, which a fit that nobody asks need not wait for."""
        found = []
        for member, posteriors in zip(self.members, self.posteriors, strict=True):
            model, layout = member.model, member.layout
            pairs = zip(posteriors, model.cores, strict=True)
            found.append(
                tuple(
                    p.with_curve(cores, model.map_weights, layout, self.span) for p, cores in pairs
                )
            )
        return tuple(found)

    def of(self, X: Any, said: Sequence[Any], total: Any, compute: Compute) -> tuple[Any, Any]:
        """Return the scales, noise alone and all."""
        xp, open_part = array_namespace(X), array_namespace(X).zeros_like(total)
        for member, posteriors in zip(self.members, self._posteriors, strict=True):
            scaled, model, layout = member.inputs.apply(X), member.model, member.layout
            for t, posterior in enumerate(posteriors):
                if posterior.root.size:  # else the core is taken for certain
                    found = compute.leverage(
                        scaled, model.cores[t], model.map_weights, layout, posterior
                    )
                    open_part[:, t] += to_device(found, X.device) / len(self.members)
        spread = spread_of(said, total)
        noise = xp.zeros_like(total) + place_like(self.noise, total)
        return xp.sqrt(noise), xp.sqrt(noise * (1 + open_part) + spread**2)


def spread_of(said: Sequence[Any], total: Any) -> Any:
    """Return the deviation of the members' responses, zero where one or none speaks."""
    xp = array_namespace(total)
    if len(said) < 2:
        return xp.zeros_like(total)
    return len(said) * xp.std(xp.stack(list(said)), axis=0, correction=1)


def extend(X: Any, response: Any, familiar: Any, spread: Any) -> Any:
    """Return rows in their own units with what is known of the prediction beside them."""
    xp = array_namespace(X)
    beside = [
        response,
        xp.log(xp.clip(familiar, min=LEAST_FAMILIAR)),
        xp.log(xp.clip(spread, min=LEAST_SPREAD)),
    ]
    return xp.concat([as_double(X), xp.stack(beside, axis=1)], axis=1)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """All that is known of a fit's errors.

    Parameters
    ----------
    scale : LearnedScale or PosteriorScale
        How large the error of a row is.
    errors : tuple of ErrorDistribution
        Of each target, how errors are distributed in units of that scale.
    units : ndarray of shape (n_targets,)
        The deviation of each target, in its own units.
    noise : ndarray of shape (n_targets,)
        Which part of the variance, where rows are familiar, more rows would not take away.
    """

    scale: Scale
    errors: tuple[ErrorDistribution, ...]
    units: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Of each target, the standard deviation of errors in units of their scale."""
        return np.array([each.deviation for each in self.errors])


@dataclass(frozen=True)
class _Beside:
    """Predicts what stands beside predictions, columns of numbers, wherever the rows are."""

    predictor: Predictor
    single_target = False

    def single_threaded(self) -> Self:
        """Return what predicts the same in one thread, for tasks that run side by side."""
        return replace(self, predictor=self.predictor.single_threaded())

    def shape(self, y: Any) -> Any:
        """Return columns as they are."""
        return y

    @contextmanager
    def open(self) -> Iterator[Callable[..., Any]]:
        """Give the function that predicts checked rows."""
        with ignore_overflow(), self.predictor.spec.open() as compute:
            yield partial(self._predict, compute)

    def _predict(self, compute: Compute, X: Any, first_row: int = 0) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class ErrorPredictor(_Beside):
    """Predicts targets and the scale of their errors.

    There are three columns for each target: predictions, scales, and scales as they would be if
    no row were strange.
    """

    uncertainty: Uncertainty

    @property
    def n_targets(self) -> int:
        """Number of columns."""
        return 3 * self.predictor.n_targets

    def quantiles(self, predicted: Any, scale: Any, alpha: NDArray[np.float64]) -> Any:
        """Return quantiles by what is predicted, a column a target; axes of `alpha` come last."""
        levels = [each.quantiles(alpha.ravel()) for each in self.uncertainty.errors]
        # Lazy rows of which there are nobody knows how many take new axes, but no new shape.
        axes = (..., *[None] * alpha.ndim)
        factors = np.stack(levels).reshape(len(levels), *alpha.shape)
        found = predicted[axes] + times(scale[axes], factors)
        # What is predicted by way of a logarithm is positive, and so are its targets.
        return found.clip(0.0) if self.predictor.link == "log" else found

    def _predict(self, compute: Compute, X: Any, first_row: int = 0) -> Any:
        # What stands beside each row takes memory too, so very many are taken piece by piece.
        starts = range(0, max(len(X), 1), PREDICTED_ROWS)
        pieces = [
            self._predict_piece(compute, X[start : start + PREDICTED_ROWS], first_row + start)
            for start in starts
        ]
        return pieces[0] if len(pieces) == 1 else array_namespace(X).concat(pieces, axis=0)

    def _predict_piece(self, compute: Compute, X: Any, first_row: int) -> Any:
        xp, members = array_namespace(X), self.predictor.members
        said = list(member_responses(members, X, compute.predict))
        total = add_responses(said, members, X)
        scales = self.uncertainty.scale.of(X, said, total, compute)
        units = place_like(self.uncertainty.units, total)
        known, whole = (units * xp.clip(scale, min=LEAST_SCALE) for scale in scales)
        return xp.concat([self.predictor.finish(total, first_row), whole, known], axis=1)


@dataclass(frozen=True)
class EntropyPredictor(_Beside):
    """Predicts how uncertain the class of a row is, in nats.

    There are two columns: the entropy of the probabilities, and the mean entropy of what each of
    the members by itself would say, were it believed everywhere.  What the former is more than the
    latter is what they do not agree on, or what is beyond their reach.
    """

    n_members: int
    n_targets = 2

    def _predict(self, compute: Compute, X: Any, first_row: int = 0) -> Any:
        xp, members = array_namespace(X), self.predictor.members
        said = list(member_responses(members, X, compute.predict))
        total, of_mean = add_responses(said, members, X), said[: self.n_members]
        whole = _entropy(self.predictor.finish(self.predictor.moderate(total, X), first_row))
        if not of_mean:
            return xp.stack([whole, whole], axis=1)
        beside = total - add_responses(of_mean, members, X)
        alone = (self.predictor.finish(beside + len(of_mean) * each) for each in of_mean)
        noise = sum(map(_entropy, alone)) / len(of_mean)
        return xp.stack([whole, xp.where(noise < whole, noise, whole)], axis=1)


def _entropy(p: Any) -> Any:
    xp = array_namespace(p)
    return -xp.sum(p * xp.log(xp.clip(p, min=np.finfo(float).tiny)), axis=1)


@dataclass(frozen=True)
class LogScore:
    """The log density of observed targets under what was predicted; scores add up."""

    total: float
    weight: float

    def __add__(self, other: LogScore) -> LogScore:
        return LogScore(self.total + other.total, self.weight + other.weight)

    @property
    def mean(self) -> float:
        """Log density of a target of a row."""
        return self.total / self.weight


def times(columns: Any, factors: NDArray[np.float64]) -> Any:
    """Return columns, arrays, tensors or lazy ones, each times a number."""
    if is_tensor(columns):
        return columns * columns.new_tensor(factors)
    return columns * factors


def log_score(y: Any, predicted: Any, weight: Any, errors: Sequence[ErrorDistribution]) -> LogScore:
    """Return the log density of targets, columns as an `ErrorPredictor` gives them."""
    y, predicted = on_host(y), on_host(predicted)
    n_targets = len(errors)
    require_targets(y, (len(predicted), n_targets))
    weight = np.ones(len(y)) if weight is None else on_host(weight)
    found = log_densities(y, predicted[:, :n_targets], predicted[:, n_targets:], errors)
    return LogScore(float(weight @ found.mean(axis=1)), float(weight.sum()))


def log_densities(
    y: NDArray[Any],
    predicted: NDArray[Any],
    scale: NDArray[Any],
    errors: Sequence[ErrorDistribution],
) -> NDArray[np.float64]:
    """Return the log density of each target by its prediction and scale, a column a target."""
    columns = zip(errors, y.T, predicted.T, scale.T, strict=False)
    return np.column_stack([e.log_density((u - p) / s) - np.log(s) for e, u, p, s in columns])


def require_targets(y: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raise unless there is a target for every one that is predicted."""
    if y.shape != shape:
        raise ValueError(
            f"`y` must have the shape of the predictions, {shape}, got {y.shape}. Pass every "
            "target of the fit for every row."
        )

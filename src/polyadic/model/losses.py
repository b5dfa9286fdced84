"""Losses: what a response costs a row, and the square that touches that cost where it is.

A fit with a loss is a sequence of least-squares fits.  Around the response f of a row each loss
has a parabola, given by its working response z and its weight c:

    loss(y, f + d)  ~  loss(y, f) + ½c·(f + d − z)² − ½c·(f − z)²,        z = f − loss′/c

With c the second derivative that is Newton's method, which is fast but may overshoot.  A greater
c is more cautious: the parabola of a bounded second derivative lies above the loss, and the
others do so near f once c is large enough.  The driver compares the true loss after every step,
and is more cautious where it rose; so no step raises it.

Rows are NumPy arrays or torch tensors; everything is written once, for the array API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

Column = Any  # one number for each row, an array or a tensor

# Second derivatives of confident rows are next to nothing; a row counts this much at least.
_LEAST_CURVATURE = 1e-2
# Corners of absolute errors are round within this part of the targets' spread.
_ROUND = 1e-2
_HUBER = 1.345  # spreads: a mean of normal numbers is then 95 % as exact as it can be
_MOST_EXPONENT = 30.0  # of a mean beside that of all rows
MOST_LOG = 700.0  # of a mean in its own units, whose exponential is a finite number
# To least squares the labels of few rows may be without noise, but log odds seldom exceed ten.
_LEAST_PENALTY = 0.05
_CAREFUL = 4.0  # factor of the curvature for each unit of caution
_FEATURE_CLASSES = 12  # classes that features are learned from, the most frequent ones
_GROSS = 5.0  # spreads from the middle beyond which features need not follow a target


@dataclass(frozen=True)
class LossSum:
    """The loss of some rows and the sum of their weights; it can be added."""

    value: float
    weight: float

    def __add__(self, other: LossSum) -> LossSum:
        return LossSum(self.value + other.value, self.weight + other.weight)

    @property
    def mean(self) -> float:
        """Loss of a row."""
        return self.value / self.weight


class Loss(ABC):
    """What a response costs.

    A response is on the scale of the link: f = start + what the weight tensor says.  Of losses
    that are *relative* the start is taken out of the targets, and with it their unit: a fit does
    not depend on it.  A loss of a *location* is one of y − f.
    """

    name: ClassVar[str]
    link: ClassVar[str] = "identity"
    is_location: ClassVar[bool] = False
    # Whether targets are taken relative to the start, beside which responses are then.
    is_relative: ClassVar[bool] = False
    # Whether the parabola of one response depends on the others of its row.
    couples: ClassVar[bool] = False
    # Whether targets far from what a model says of their rows are to count for little.
    is_robust: ClassVar[bool] = False
    # Whether responses may be stretched to fit rows that were held out.
    stretches: ClassVar[bool] = False
    # The least penalty that a search begins with.
    least_penalty: ClassVar[float] = 0.0

    @property
    def level(self) -> float:
        """The quantile of the targets that predictions are at, about."""
        return 0.5

    def n_outputs(self, n_targets: int) -> int:
        """Return how many responses a row has."""
        return n_targets

    @abstractmethod
    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row, zero at least."""

    @abstractmethod
    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature of the parabola of each row."""

    def total(self, y: Any, responses: Iterable[Column]) -> Column:
        """Return the loss of each row over all of its targets, the columns of `y`."""
        values = [self.value(y[:, t], f) for t, f in enumerate(responses)]
        return sum(values[1:], start=values[0])

    def doubt(self, responses: Iterable[Column], start: NDArray[np.float64]) -> Column | float:
        """Return the loss of each row if its label were drawn at random; for classes alone.

        Rows that judge a model may all be of the class that it says; then the more confident it
        is the better.  One row more, of a random label, says how confident is too confident.
        """
        return 0.0

    def context(self, responses: Iterable[Column]) -> Column | None:
        """Return what a row's parabolas need to know of all of its responses."""
        return None

    def linearise(
        self, y: Any, f: Column, target: int, context: Column | None = None, caution: int = 0
    ) -> tuple[Column, Column]:
        """Return working response and weight of each row, for one of its responses.

        Parameters
        ----------
        y : array of shape (n, T)
            Targets.
        f : array of shape (n,)
            The responses as they are.
        target : int
            Which response of a row it is.
        context : array of shape (n,), optional
            What `context` made of all responses.
        caution : int
            0 is the fastest step; a step that raised the loss is tried again with more.
        """
        slope, curvature = self.bend(y[:, target], f, caution)
        return f - slope / curvature, curvature

    @abstractmethod
    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the constant that costs little, and the spread, of each response."""

    def relative(self, y: Column, start: float, spread: float) -> Column:
        """Return a target as the loss takes it, for the start and the spread of its response."""
        return y

    def check(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        """Raise unless targets of this range have a loss."""
        return None

    def shift(
        self, y: NDArray[Any], f: NDArray[Any], weight: NDArray[Any] | None
    ) -> NDArray[np.float64]:
        """Return what to add to responses, a column each, for rows that a model has not seen."""
        return np.zeros(f.shape[1])

    def narrowed(self, spread: float) -> Loss:
        """Return the loss for targets this far, in their own units, from what can be said."""
        return self

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return columns from which least squares may learn features."""
        return np.asarray(y, dtype=np.float64)


class _Location(Loss):
    """A loss of y − f: targets are standardised, and outliers do not say by how much."""

    is_location: ClassVar[bool] = True
    is_relative: ClassVar[bool] = True

    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a quantile of each target, and the spread around its middle."""
        columns = [_middle_and_spread(column, weight, self.level) for column in y.T]
        middle, spread = np.array(columns).T
        return middle, spread

    def relative(self, y: Column, start: float, spread: float) -> Column:
        """Return a target in units of its spread, from its middle on."""
        return (y - start) / spread

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the targets, drawn in where they are far out."""
        middle, spread = np.array([_middle_and_spread(each, None, 0.5) for each in y.T]).T
        return np.asarray(np.clip(y, middle - _GROSS * spread, middle + _GROSS * spread))


@dataclass(frozen=True)
class SquaredError(_Location):
    """½(y − f)²: the parabola is the loss itself.

    Fits with it need no working response; it is here so that every loss can be compared.
    """

    name: ClassVar[str] = "squared_error"

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        return 0.5 * (y - f) ** 2

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature, which is one."""
        return f - y, array_namespace(f).ones_like(f)

    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation."""
        mean = np.average(y, axis=0, weights=weight)
        spread = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))
        return mean, np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True)
class Huber(_Location):
    """Half a square up to `delta`, and a line beyond it, in units of the targets' spread."""

    delta: float = 0.3

    name: ClassVar[str] = "huber"
    is_robust: ClassVar[bool] = True

    def narrowed(self, spread: float) -> Huber:
        """Return the loss whose line begins where few targets are that are no outliers."""
        return Huber(float(np.clip(_HUBER * spread, _ROUND, self.delta)))

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        xp = array_namespace(f)
        size = xp.abs(y - f)
        inside = xp.clip(size, max=self.delta)
        return inside * (size - 0.5 * inside)

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature of a parabola around y, which lies above the loss."""
        xp = array_namespace(f)
        curvature = self.delta / xp.clip(xp.abs(y - f), min=self.delta)
        return curvature * (f - y), curvature


@dataclass(frozen=True)
class Quantile(_Location):
    """The pinball loss, whose best constant is the quantile; its corner is a little round."""

    quantile: float = 0.5

    name: ClassVar[str] = "quantile"

    @property
    def level(self) -> float:
        """The quantile itself."""
        return self.quantile

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        xp, rest = array_namespace(f), y - f
        size = xp.abs(rest)
        inside = xp.clip(size, max=_ROUND)
        rounded = size - inside + 0.5 * (inside**2 / _ROUND + _ROUND)
        return 0.5 * rounded + (self.quantile - 0.5) * rest

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature of a parabola that lies above the loss."""
        xp = array_namespace(f)
        curvature = 0.5 / xp.clip(xp.abs(y - f), min=_ROUND)
        return curvature * (f - y) - (self.quantile - 0.5), curvature

    def shift(
        self, y: NDArray[Any], f: NDArray[Any], weight: NDArray[Any] | None
    ) -> NDArray[np.float64]:
        """Return the quantile of what is left: rows that a model has seen lie too close to it."""
        return np.array([_quantile(rest, weight, self.quantile) for rest in (y - f).T])


@dataclass(frozen=True)
class AbsoluteError(Quantile):
    """|y − f|, whose best constant is the median; its corner is a little round."""

    name: ClassVar[str] = "absolute_error"
    is_robust: ClassVar[bool] = True

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row, twice that of the quantile ½."""
        return 2 * super().value(y, f)

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature, twice those of the quantile ½."""
        slope, curvature = super().bend(y, f, caution)
        return 2 * slope, 2 * curvature


class _Logarithmic(Loss):
    """A loss of a mean μ = exp(f), of targets in units of their own mean."""

    link: ClassVar[str] = "log"
    is_relative: ClassVar[bool] = True

    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the logarithm of each mean."""
        mean = np.average(y, axis=0, weights=weight)
        # Where few targets are above zero, none of them may be among these rows.
        return np.log(np.where(mean > 0, mean, 1.0)), np.ones(len(mean))

    def relative(self, y: Column, start: float, spread: float) -> Column:
        """Return a target in units of its mean."""
        return y / float(np.exp(start))


@dataclass(frozen=True)
class Poisson(_Logarithmic):
    """Half the deviance of counts or rates, μ − y − y·log(μ/y)."""

    name: ClassVar[str] = "poisson"

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        xp, mean = array_namespace(f), _exp(f)
        some = xp.where(y > 0, y, xp.ones_like(y))
        value = mean - y + xp.where(y > 0, y * (xp.log(some) - f), xp.zeros_like(y))
        return xp.clip(value, min=0.0)

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature: the second derivative, or that of the chord to log y."""
        mean = _exp(f)
        return mean - y, _CAREFUL**caution * _chord(mean, y)

    def check(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        """Raise if a target is negative, or if all are zero."""
        if (low < 0).any() or not (high > 0).all():
            raise ValueError(
                "`y` must be zero or more, and not always zero, with loss='poisson', got values "
                f"from {low.min():g} to {high.max():g}. Use loss='squared_error', or count what is "
                "to be predicted."
            )

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the square roots, whose noise is the same everywhere."""
        return np.asarray(np.sqrt(y))


@dataclass(frozen=True)
class Gamma(_Logarithmic):
    """Half the deviance of positive amounts, y/μ − 1 − log(y/μ)."""

    name: ClassVar[str] = "gamma"

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        xp = array_namespace(f)
        logarithm = xp.log(y) - f
        return xp.clip(_exp(logarithm) - 1 - logarithm, min=0.0)

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature: the second derivative, or that of the chord to log y."""
        xp = array_namespace(f)
        ratio = _exp(xp.log(y) - f)
        return 1 - ratio, _CAREFUL**caution * _chord(ratio, xp.ones_like(ratio))

    def check(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        """Raise unless all targets are positive."""
        if not (low > 0).all():
            raise ValueError(
                f"`y` must be positive with loss='gamma', got {low.min():g}. Use loss='poisson' "
                "for amounts that may be zero, or loss='squared_error'."
            )

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the logarithms, whose noise is the same everywhere."""
        return np.asarray(np.log(y))


@dataclass(frozen=True)
class Logistic(Loss):
    """−log of the probability of a row's class, of two; f is the log odds of the second."""

    labels: tuple[float, ...] = (0.0, 1.0)

    name: ClassVar[str] = "logistic"
    link: ClassVar[str] = "logit"
    stretches: ClassVar[bool] = True
    least_penalty: ClassVar[float] = _LEAST_PENALTY

    def value(self, y: Column, f: Column) -> Column:
        """Return the loss of each row."""
        xp = array_namespace(f)
        signed = xp.where(y == self.labels[1], -f, f)
        return xp.logaddexp(xp.zeros_like(signed), signed)

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Return slope and curvature: the second derivative, or Jaakkola and Jordan's bound."""
        xp = array_namespace(f)
        p = _sigmoid(f)
        hit = xp.astype(y == self.labels[1], f.dtype)
        if not caution:
            return p - hit, xp.clip(p * (1 - p), min=_LEAST_CURVATURE)
        half = xp.clip(0.5 * xp.abs(f), min=1e-4)
        return p - hit, 0.25 * xp.tanh(half) / half

    def doubt(self, responses: Iterable[Column], start: NDArray[np.float64]) -> Column:
        """Return the loss of each row if its label were drawn at random."""
        (f,) = responses
        xp, share = array_namespace(f), 1 / (1 + float(np.exp(-start[0])))
        return xp.logaddexp(xp.zeros_like(f), f) - share * f

    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the log odds of all rows."""
        none, some = _class_shares(y[:, 0], weight, self.labels)
        return np.array([np.log(some / none)]), np.ones(1)

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return 1 for rows of the second class."""
        return np.asarray((y == self.labels[1]), dtype=np.float64)


@dataclass(frozen=True)
class Multinomial(Loss):
    """−log of the probability of a row's class, of several; each has a response."""

    labels: tuple[float, ...]

    name: ClassVar[str] = "multinomial"
    link: ClassVar[str] = "softmax"
    couples: ClassVar[bool] = True
    stretches: ClassVar[bool] = True
    least_penalty: ClassVar[float] = _LEAST_PENALTY

    def n_outputs(self, n_targets: int) -> int:
        """Return the number of classes."""
        return len(self.labels)

    def value(self, y: Column, f: Column) -> Column:
        """Raise: the loss is that of all responses together."""
        raise NotImplementedError("The loss of several classes is `total`.")

    def bend(self, y: Column, f: Column, caution: int) -> tuple[Column, Column]:
        """Raise: the parabola needs the context of all responses."""
        raise NotImplementedError("The parabolas of several classes are `linearise`.")

    def total(self, y: Any, responses: Iterable[Column]) -> Column:
        """Return the loss of each row, in one pass over the classes and a few numbers a row."""
        largest = scale = own = None
        for label, f in zip(self.labels, responses, strict=True):
            largest, scale = _add_exp(largest, scale, f)
            mine = f * array_namespace(f).astype(y[:, 0] == label, f.dtype)
            own = mine if own is None else own + mine
        xp = array_namespace(scale)
        return xp.clip(largest + xp.log(scale) - own, min=0.0)

    def doubt(self, responses: Iterable[Column], start: NDArray[np.float64]) -> Column:
        """Return the loss of each row if its label were drawn at random."""
        columns = list(responses)
        mean = sum(float(np.exp(share)) * f for share, f in zip(start, columns, strict=True))
        return self.context(columns) - mean

    def context(self, responses: Iterable[Column]) -> Column:
        """Return log Σ exp(f) of each row."""
        largest = scale = None
        for f in responses:
            largest, scale = _add_exp(largest, scale, f)
        return largest + array_namespace(scale).log(scale)

    def linearise(
        self, y: Any, f: Column, target: int, context: Column | None = None, caution: int = 0
    ) -> tuple[Column, Column]:
        """Return working response and weight of each row for one class.

        All classes move at the same time.  The matrix of second derivatives, diag(p) − ppᵀ, is
        below diag(2p(1 − p)) by diagonal dominance, and below ½I everywhere (Böhning).
        """
        assert context is not None
        xp = array_namespace(f)
        p = xp.exp(xp.clip(f - context, max=0.0))
        slope = p - xp.astype(y[:, 0] == self.labels[target], f.dtype)
        if caution:
            return f - 2 * slope, xp.full_like(f, 0.5)
        curvature = xp.clip(2 * p * (1 - p), min=_LEAST_CURVATURE)
        return f - slope / curvature, curvature

    def start(
        self, y: NDArray[Any], weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the logarithm of each class's share."""
        return np.log(_class_shares(y[:, 0], weight, self.labels)), np.ones(len(self.labels))

    def feature_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return 1 for rows of a class, a column each; of many, the most frequent."""
        labels, counts = np.unique(y[:, 0], return_counts=True)
        chosen = labels[np.argsort(-counts, kind="stable")[:_FEATURE_CLASSES]]
        return np.asarray((y[:, :1] == chosen), dtype=np.float64)


def invert_link(link: str, f: Any) -> Any:
    """Return what responses, a column each, predict: means, or the probability of each class."""
    xp = array_namespace(f)
    if link == "log":
        return xp.exp(xp.clip(f, min=-MOST_LOG, max=MOST_LOG))
    if link == "logit":
        return xp.concat([_sigmoid(-f), _sigmoid(f)], axis=1)
    if link == "softmax":
        odds = xp.exp(f - xp.max(f, axis=1, keepdims=True))
        return odds / xp.sum(odds, axis=1, keepdims=True)
    return f


def loss_of(name: str, quantile: float | None = None) -> Loss | None:
    """Return the loss that a regressor calls so; None for squared error, which needs none."""
    if name == "quantile":
        return Quantile(0.5 if quantile is None else quantile)
    losses: dict[str, Loss | None] = {
        "squared_error": None,
        "absolute_error": AbsoluteError(),
        "huber": Huber(),
        "poisson": Poisson(),
        "gamma": Gamma(),
    }
    return losses[name]


REGRESSION_LOSSES = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma")


def class_loss(labels: NDArray[np.float64]) -> Loss:
    """Return the loss of classes with these labels, sorted numbers."""
    values = tuple(float(label) for label in labels)
    return Logistic(values) if len(values) == 2 else Multinomial(values)


def _exp(f: Any) -> Any:
    xp = array_namespace(f)
    return xp.exp(xp.clip(f, min=-_MOST_EXPONENT, max=_MOST_EXPONENT))


def _sigmoid(f: Any) -> Any:
    xp = array_namespace(f)
    return xp.exp(-xp.logaddexp(xp.zeros_like(f), -f))  # right to the last digit, however small


def _add_exp(largest: Column | None, scale: Column | None, f: Column) -> tuple[Column, Column]:
    """Add exp(f) to scale · exp(largest)."""
    xp = array_namespace(f)
    if largest is None or scale is None:
        return f, xp.ones_like(f)
    most = xp.maximum(largest, f)
    return most, scale * xp.exp(largest - most) + xp.exp(f - most)


def _chord(second: Column, other: Column) -> Column:
    """Return the greater of a second derivative and of the logarithmic mean of both.

    For μ − y·log μ as a function of log μ, the mean of μ and y is the slope of the chord of the
    derivative from where it is to where it vanishes.
    """
    xp = array_namespace(second)
    ratio = xp.clip(other / second, min=1.0)
    rest = ratio - 1
    # (r − 1)/log r, and its series where that cancels.
    safe = xp.where(rest > 1e-6, rest, xp.ones_like(rest))
    mean = xp.where(rest > 1e-6, safe / xp.log1p(safe), 1 + 0.5 * rest)
    return xp.clip(second * mean, min=1e-10)


def _class_shares(
    y: NDArray[Any], weight: NDArray[Any] | None, labels: tuple[float, ...]
) -> NDArray[np.float64]:
    """Return each class's share of the rows; a class without rows has half a row of mean weight."""
    weight = np.ones(len(y)) if weight is None else weight
    sums = np.array([weight[y == label].sum() for label in labels])
    sums = np.where(sums > 0, sums, 0.5 * weight.mean())
    return np.asarray(sums / sums.sum())


def _middle_and_spread(
    y: NDArray[Any], weight: NDArray[Any] | None, level: float
) -> tuple[float, float]:
    """Return a quantile, and the spread around the median as outliers do not change it."""
    middle = _quantile(y, weight, 0.5)
    deviation = np.abs(y - middle)
    spread = 1.4826 * _quantile(deviation, weight, 0.5)
    if not spread > 0:  # most rows are equal
        spread = float(np.average(deviation, weights=weight)) or 1.0
    return _quantile(y, weight, level), spread


def _quantile(y: NDArray[Any], weight: NDArray[Any] | None, level: float) -> float:
    """Return a quantile; a row of weight 2 is two rows."""
    order = np.argsort(y, kind="stable")
    counts = np.cumsum(np.ones(len(y)) if weight is None else weight[order])
    index = np.searchsorted(counts, level * counts[-1] * (1 - 1e-12))
    return float(y[order[min(int(index), len(y) - 1)]])

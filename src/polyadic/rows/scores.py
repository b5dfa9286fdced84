"""How good predictions are, from sums: for predictions that come in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import on_host
from polyadic.rows.scaling import Moments

_LEAST_PROBABILITY = np.finfo(np.float64).eps  # as in scikit-learn


def log_losses(places: Any, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return −log of the probability of each row's class.

    Parameters
    ----------
    places : array_like of int
        Of the rows' classes among all; broadcast to the rows.
    probabilities : ndarray
        With a last axis of classes.  None counts as zero: a class that was held impossible costs
        36, not infinitely much.
    """
    of_rows = np.broadcast_to(places, probabilities.shape[:-1])[..., None]
    own = np.take_along_axis(probabilities, of_rows, axis=-1)[..., 0]
    return np.asarray(-np.log(np.maximum(own, _LEAST_PROBABILITY)))


def count_below(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many rows score less than each score, from how many have it; ties are halves.

    An area under the ROC curve is the mean of this for other classes, over the rows of a class.
    """
    return np.asarray(np.cumsum(counts) - counts / 2)


@dataclass(frozen=True)
class Hits:
    """The weight of rows whose class is predicted, and that of all; those of pieces add up."""

    hits: float
    weight: float

    @classmethod
    def of(cls, y: Any, probabilities: Any, weight: Any = None) -> Hits:
        """Sum up rows: a column with the number of each row's class, and one for each class."""
        is_hit = on_host(y)[:, 0] == on_host(probabilities).argmax(axis=1)
        weights = np.ones(len(is_hit)) if weight is None else on_host(weight)
        return cls(float(weights @ is_hit), float(weights.sum()))

    def __add__(self, other: Hits) -> Hits:
        return Hits(self.hits + other.hits, self.weight + other.weight)

    @property
    def share(self) -> float:
        """The accuracy."""
        return self.hits / self.weight


@dataclass(frozen=True)
class Evaluation:
    """Errors of some predictions and moments of their targets; evaluations add up.

    Parameters
    ----------
    n_rows : int
        How many rows of positive weight there are.
    squares, absolutes : ndarray
        Weighted sums of the squared and the absolute errors of each target.
    targets : Moments
        Of the targets.
    """

    n_rows: int
    squares: NDArray[np.float64]
    absolutes: NDArray[np.float64]
    targets: Moments

    @classmethod
    def of(cls, y: Any, prediction: Any, weight: Any = None) -> Evaluation:
        """Sum up rows of positive weight; targets are columns."""
        if tuple(y.shape) != tuple(prediction.shape):  # they would be broadcast in silence
            raise ValueError(
                f"`y` must have the shape of the predictions, {tuple(prediction.shape)}, got "
                f"{tuple(y.shape)}. Pass every target of the fit for every row."
            )
        error = on_host(y) - on_host(prediction)
        if weight is None:
            squares, absolutes = (error**2).sum(axis=0), np.abs(error).sum(axis=0)
        else:
            squares, absolutes = on_host(weight) @ error**2, on_host(weight) @ np.abs(error)
        return cls(len(error), squares, absolutes, Moments.of(y, weight))

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.n_rows + other.n_rows,
            self.squares + other.squares,
            self.absolutes + other.absolutes,
            self.targets + other.targets,
        )

    @property
    def mse(self) -> float:
        """Mean squared error, averaged over the targets."""
        return float(self.squares.mean()) / self.targets.weight

    @property
    def mae(self) -> float:
        """Mean absolute error, averaged over the targets."""
        return float(self.absolutes.mean()) / self.targets.weight

    @property
    def r2(self) -> float:
        """R², averaged over the targets; of a constant target it is 1 or 0."""
        spread = self.targets.weight * self.targets.deviation**2
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(spread > 0, 1 - self.squares / spread, self.squares == 0)
        return float(score.mean())

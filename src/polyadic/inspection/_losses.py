"""What predictions cost, row by row: the loss of the fit, as users know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import is_classifier

from polyadic.model.losses import Huber
from polyadic.rows.scores import log_losses

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A mean over rows, or the root of one.

    Parameters
    ----------
    name : str
        What people call it.
    of_rows : callable
        From targets and predictions of rows, the latter with a last axis of columns, to what each
        row costs.
    is_root : bool
        Whether the root of the mean is taken, so that it is in units of the target.
    """

    name: str
    of_rows: Callable[[Array, Array], Array]
    is_root: bool = False

    def finish(self, mean: Any) -> Any:
        """Return the measure from the mean over rows."""
        return np.sqrt(mean) if self.is_root else mean

    def slope(self, mean: Any) -> Any:
        """Return by how much the measure grows with the mean."""
        return 0.5 / np.sqrt(np.maximum(mean, np.finfo(float).tiny)) if self.is_root else 1.0


def measure_of(estimator: Any, target: int = 0) -> Measure:
    """Return what a fitted estimator is measured by: the loss that it was fitted with."""
    if is_classifier(estimator):
        return Measure("log-loss", _log_loss)
    by_loss = {
        "squared_error": Measure("root mean squared error", _squared, is_root=True),
        "absolute_error": Measure("mean absolute error", _absolute),
        "quantile": Measure("mean pinball loss", partial(_pinball, estimator.quantile)),
        "poisson": Measure("mean Poisson deviance", _poisson),
        "gamma": Measure("mean gamma deviance", _gamma),
    }
    if estimator.loss in by_loss:
        return by_loss[estimator.loss]
    corner = Huber.delta * float(estimator.target_scaling_.scale[target])
    # Twice the loss, so that it is the squared error where no row lies beyond the corner.
    return Measure("root of the mean Huber loss", partial(_huber, corner), is_root=True)


def _squared(y: Array, predicted: Array) -> Array:
    return np.asarray((y - predicted[..., 0]) ** 2)


def _absolute(y: Array, predicted: Array) -> Array:
    return np.abs(y - predicted[..., 0])


def _pinball(quantile: float, y: Array, predicted: Array) -> Array:
    rest = y - predicted[..., 0]
    return np.maximum(quantile * rest, (quantile - 1) * rest)


def _huber(corner: float, y: Array, predicted: Array) -> Array:
    size = _absolute(y, predicted)
    inside = np.minimum(size, corner)
    return np.asarray(inside * (2 * size - inside))


def _poisson(y: Array, predicted: Array) -> Array:
    mean = predicted[..., 0]
    return np.asarray(2 * (xlogy(y, y / mean) - y + mean))


def _gamma(y: Array, predicted: Array) -> Array:
    ratio = y / predicted[..., 0]
    return np.asarray(2 * (ratio - 1 - np.log(ratio)))


def _log_loss(y: Array, predicted: Array) -> Array:
    return log_losses(y.astype(np.intp), predicted)

"""How sure regressors are: standard deviations, intervals, quantiles and log scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._sources import rows_to_predict
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.rows.arrays import on_host
from polyadic.rows.tensors import is_tensor, like
from polyadic.uncertainty import (
    ErrorPredictor,
    LogScore,
    Uncertainty,
    log_score,
    require_targets,
    times,
)


class UncertaintyParts(NamedTuple):
    """Standard deviations: of all there is, of noise, and of what is not known for want of rows.

    Their squares add up: total² = noise² + ignorance².
    """

    total: Any
    noise: Any
    ignorance: Any


class PredictsErrors:
    """What regressors say of their errors."""

    members_: Any
    uncertainty_: Uncertainty
    _predictor: Callable[[], Any]
    _takes_tables: Callable[[], bool]
    _link: str
    _single_target: bool

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> Any:
        """Predict an interval that holds the target of a new row as often as asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.
        coverage : float or list of float, default=0.9
            How often, between 0 and 1; as often it is missed above as below.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2), or (n_samples, 2, k) for k coverages
            Lower and upper ends; with several targets an axis for them follows the rows.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import FeatureLearningRegressor
        >>> X, y = make_friedman1(500, noise=1.0, random_state=0)
        >>> model = FeatureLearningRegressor(n_estimators=2, effort=0.2, random_state=0)
        >>> interval = model.fit(X[:300], y[:300]).predict_interval(X[300:], coverage=0.9)
        >>> inside = (interval[:, 0] <= y[300:]) & (y[300:] <= interval[:, 1])
        >>> bool(0.8 < inside.mean() < 0.98)
        True
        """
        wanted = _check_levels(coverage, "coverage", "0.9")
        sides = np.stack([(1 - wanted) / 2, (1 + wanted) / 2]).reshape(2, *wanted.shape)
        return self._quantiles(X, sides)

    def predict_quantiles(self, X: Any, alpha: Any = (0.05, 0.5, 0.95)) -> Any:
        """Predict quantiles of the target of a new row; they never cross.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.
        alpha : list of float or float, default=(0.05, 0.5, 0.95)
            Which ones, between 0 and 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples, k), or (n_samples,) for one number
            With several targets an axis for them follows the rows.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import FeatureLearningRegressor
        >>> X, y = make_friedman1(300, noise=1.0, random_state=0)
        >>> model = FeatureLearningRegressor(n_estimators=1, effort=0.2, random_state=0)
        >>> model.fit(X, y).predict_quantiles(X[:5], alpha=[0.1, 0.5, 0.9]).shape
        (5, 3)
        """
        return self._quantiles(X, _check_levels(alpha, "alpha", "[0.1, 0.5, 0.9]"))

    def predict_uncertainty(self, X: Any) -> UncertaintyParts:
        """Predict how sure a prediction is, and how much of that is for want of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        parts : UncertaintyParts
            Standard deviations `total`, `noise` and `ignorance`, each shaped as a prediction.
            Noise would stay if there were more rows; ignorance would go, and grows away from
            the rows of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from polyadic import FeatureLearningRegressor
        >>> x = np.linspace(0, 1, 100)[:, None]
        >>> y = np.sin(6 * x[:, 0])
        >>> model = FeatureLearningRegressor(n_estimators=1, random_state=0).fit(x, y)
        >>> inside, outside = model.predict_uncertainty([[0.5], [3.0]]).ignorance
        >>> bool(inside < outside)
        True
        """
        _, scale, known = self._predict_scales(X)
        deviation, share = self.uncertainty_.deviations, np.sqrt(self.uncertainty_.noise)
        total = self._shape(times(scale, deviation), X)
        noise = self._shape(times(known, deviation * share), X)
        # Squares of large numbers would not be numbers.
        ignorance = (total - noise).clip(0.0) ** 0.5 * (total + noise) ** 0.5
        return UncertaintyParts(total, noise, ignorance)

    def log_score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log density of observed targets under what is predicted.

        Parameters
        ----------
        X : array-like, Dask collection or source of rows
            Inputs; a source brings its targets and weights along.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Observed targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.

        Returns
        -------
        score : float
            The greater the better; natural logarithms, in the targets' own units, the mean over
            several targets.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import FeatureLearningRegressor
        >>> X, y = make_friedman1(500, noise=1.0, random_state=0)
        >>> model = FeatureLearningRegressor(n_estimators=2, effort=0.2, random_state=0)
        >>> bool(-1.8 < model.fit(X[:300], y[:300]).log_score(X[300:], y[300:]) < -1.4)
        True
        """
        predictor = self._error_predictor()
        measure = partial(log_score, errors=self.uncertainty_.errors)
        found: LogScore = rows_to_predict(self, X, y, sample_weight).evaluate(predictor, measure)
        return found.mean

    def calibrate(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the distribution of errors from fresh rows, in units of their predicted scale.

        Predictions stay as they are.  Of rows that are exchangeable with these, and that neither
        the fit nor anyone who chose it has seen, an interval then holds at least as many as it
        says, on average over the rows to calibrate on: that is split-conformal prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs of rows that the fit has not seen; a source brings targets and weights along.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Their targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row; a row of weight 3 counts as three rows.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import FeatureLearningRegressor
        >>> X, y = make_friedman1(500, noise=1.0, random_state=0)
        >>> model = FeatureLearningRegressor(n_estimators=1, effort=0.2, random_state=0)
        >>> model = model.fit(X[:300], y[:300]).calibrate(X[300:400], y[300:400])
        >>> model.predict_interval(X[400:], coverage=0.8).shape
        (100, 2)
        """
        predictor = self._error_predictor()
        measure = partial(_errors_of, n_targets=len(self.uncertainty_.errors))
        found: _Errors = rows_to_predict(self, X, y, sample_weight).evaluate(predictor, measure)
        errors = tuple(ErrorDistribution.learn(z, found.weight) for z in found.errors.T)
        self.uncertainty_ = replace(self.uncertainty_, errors=errors)
        return self

    def _predict_with_std(self, X: Any) -> tuple[Any, Any]:
        found, scale, _ = self._predict_scales(X)
        deviation = self._shape(times(scale, self.uncertainty_.deviations), X)
        return self._shape(found, X), deviation

    def _quantiles(self, X: Any, alpha: NDArray[np.float64]) -> Any:
        """Return quantiles of an array of levels, whose axes come last."""
        found, scale, _ = self._predict_scales(X)
        return self._shape(self._error_predictor().quantiles(found, scale, alpha), X)

    def _predict_scales(self, X: Any) -> tuple[Any, Any, Any]:
        """Return predictions, scales, and scales of familiar rows, a column a target."""
        predictor = self._error_predictor()
        found, n = rows_to_predict(self, X).predict(predictor), predictor.predictor.n_targets
        return found[:, :n], found[:, n : 2 * n], found[:, 2 * n :]

    def _error_predictor(self) -> ErrorPredictor:
        check_is_fitted(self)
        if not hasattr(self, "uncertainty_"):
            name, loss = type(self).__name__, getattr(self, "loss", "squared_error")
            if loss != "squared_error" and not self._takes_tables():
                raise AttributeError(
                    f"This {name} has no uncertainty: with named maps `loss` must be "
                    f"'squared_error' for that, got {loss!r}. Use FeatureLearningRegressor"
                    f"(loss={loss!r}), whose features are learned."
                )
            raise AttributeError(
                f"This {name} has no uncertainty: it was fitted by an earlier version of "
                "polyadic, or interrupted before its end. Fit it again."
            )
        return ErrorPredictor(self._predictor(), self.uncertainty_)

    def _shape(self, columns: Any, X: Any) -> Any:
        return like_rows(columns[:, 0] if self._single_target else columns, X)


class _Errors(NamedTuple):
    """Errors of some rows in units of their scale, a column a target, and the rows' weights."""

    errors: NDArray[np.float64]
    weight: NDArray[np.float64]

    def __add__(self, other: Any) -> _Errors:
        return _Errors(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def _errors_of(y: Any, predicted: Any, weight: Any, n_targets: int) -> _Errors:
    y, predicted = on_host(y), on_host(predicted)
    require_targets(y, (len(predicted), n_targets))
    scale = predicted[:, n_targets : 2 * n_targets]
    weight = np.ones(len(y)) if weight is None else on_host(weight)
    return _Errors((y - predicted[:, :n_targets]) / scale, weight)


def _check_levels(values: Any, name: str, example: str) -> NDArray[np.float64]:
    """Return numbers between 0 and 1 as an array of no or one axis."""
    try:
        levels = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        levels = np.full(1, np.nan)
    if levels.ndim > 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(
            f"`{name}` must be a number between 0 and 1, or a list of such, got {values!r}. "
            f"Pass for instance {name}={example}."
        )
    return levels


def like_rows(y: Any, X: Any) -> Any:
    """Return predictions as the kind of array that the rows are, where they are."""
    return y.to(X.device) if is_tensor(y) else like(y, X)

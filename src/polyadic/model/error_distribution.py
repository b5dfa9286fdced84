"""How errors are distributed, in units of their scale: quantiles, density and deviation.

Errors of rows that a model did not learn from are divided by the scale that is predicted for
them.  Their own order statistics are the quantiles; that is split-conformal prediction, and
covers new rows of the same kind as often as it says.  A density, and quantiles further out than
any of the errors, are those of Student's t with a unit of its own on each side of zero:

    p(z) = 2/(a + b) · t_ν(z/a)  for z < 0,        2/(a + b) · t_ν(z/b)  for z ≥ 0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, ndtri, stdtrit

NORMAL = 1e6  # degrees of freedom of what is normal to all digits that matter
_FREEDOMS = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 100.0, NORMAL)
_KEPT = 4_000  # order statistics that are kept
_FITTED = 5_000  # errors that a density is fitted to
_MOST_COPIES = 1_000_000  # of rows whose weights are whole numbers
_SKEWED = 50  # errors from which on the two sides may differ
_LEAST = 1e-3  # of a unit, and of the deviation


@dataclass(frozen=True, eq=False)
class ErrorDistribution:
    """The distribution of errors in units of their scale.

    Parameters
    ----------
    errors : ndarray of shape (n,)
        Those of rows that were held out, in rising order; none for what is normal.
    levels : ndarray of shape (n,)
        How likely the error of a new row is to be no greater than each.
    freedom, below, above : float
        ν, a and b.
    deviation : float
        The root of the mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.model.error_distribution import ErrorDistribution
    >>> errors = np.random.RandomState(0).standard_normal(99)
    >>> found = ErrorDistribution.learn(errors)
    >>> low, high = found.quantiles(np.array([0.05, 0.95]))
    >>> int(((low <= errors) & (errors <= high)).sum())
    91
    """

    errors: NDArray[np.float64]
    levels: NDArray[np.float64]
    freedom: float
    below: float
    above: float
    deviation: float

    @classmethod
    def normal(cls) -> ErrorDistribution:
        """Return the normal distribution of mean 0 and variance 1."""
        return cls(np.empty(0), np.empty(0), NORMAL, 1.0, 1.0, 1.0)

    @classmethod
    def of_few(cls, quantile: float = 0.5) -> ErrorDistribution:
        """Return what is assumed where too few errors are known: Student's t of four degrees.

        Its mean square is 1, and a part of it, `quantile`, is below what is predicted.
        """
        freedom = 4.0
        levels = np.union1d(np.arange(1, 100) / 100, [quantile])
        middle = stdtrit(freedom, quantile)
        errors = (stdtrit(freedom, levels) - middle) / np.sqrt(2 + middle**2)
        unit = (2 * (quantile**3 + (1 - quantile) ** 3)) ** -0.5
        return cls(errors, levels, freedom, quantile * unit, (1 - quantile) * unit, 1.0)

    @classmethod
    def learn(cls, errors: NDArray[Any], weight: NDArray[Any] | None = None) -> ErrorDistribution:
        """Return the distribution of errors; a row of weight w counts as w rows.

        Weights below one on average are taken for shares of the rows that there are.
        """
        w = np.ones(len(errors)) if weight is None else np.asarray(weight, dtype=np.float64)
        z, w = np.asarray(errors, dtype=np.float64)[w > 0], w[w > 0]
        if w.sum() <= _MOST_COPIES and (w == np.rint(w)).all():
            z, w = np.repeat(z, w.astype(int)), np.ones(int(w.sum()))
        order = np.argsort(z, kind="stable")
        z, w = z[order], w[order] / min(w.mean(), 1.0)
        # A new row is one more, and may come before or behind any of these.
        levels = np.cumsum(w) / (w.sum() + 1)
        deviation = max(float(np.sqrt(np.average(z**2, weights=w))), _LEAST)
        freedom, below, above = _fit_density(z, w)
        kept = np.unique(np.linspace(0, len(z) - 1, min(len(z), _KEPT)).round().astype(int))
        return cls(z[kept], levels[kept], freedom, below, above, deviation)

    def quantiles(self, alpha: NDArray[Any]) -> NDArray[np.float64]:
        """Return quantiles, rising with `alpha`: one of the errors, or beyond them of the t.

        Those below the median are rounded down and those above it up, so that what lies between
        two of them is never covered less often than it should be.
        """
        alpha = np.asarray(alpha, dtype=np.float64)
        far = self._quantiles_of_t(alpha)
        if not len(self.errors):
            return far
        up = np.searchsorted(self.levels, alpha * (1 - 1e-12), side="left")
        down = np.searchsorted(self.levels, alpha * (1 + 1e-12), side="right") - 1
        last = len(self.errors) - 1
        above = np.where(
            up <= last, self.errors[np.minimum(up, last)], np.maximum(far, self.errors[-1])
        )
        below = np.where(
            down >= 0, self.errors[np.maximum(down, 0)], np.minimum(far, self.errors[0])
        )
        return np.where(alpha < 0.5, below, above)

    def _quantiles_of_t(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = self.below + self.above
        is_below = alpha < self.below / whole
        unit = np.where(is_below, self.below, self.above)
        tail = np.where(is_below, alpha, 1 - alpha) * whole / (2 * unit)
        tail = np.clip(tail, 1e-300, 0.5)
        far = ndtri(tail) if self.freedom >= NORMAL else stdtrit(self.freedom, tail)
        return np.asarray(np.where(is_below, 1, -1) * unit * far)

    def log_density(self, z: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log density of errors."""
        unit = np.where(z < 0, self.below, self.above)
        return self._constant - _tail(z / unit, self.freedom)

    @cached_property
    def _constant(self) -> float:
        return float(np.log(2 / (self.below + self.above)) + _log_peak(self.freedom))


def _tail(z: NDArray[Any], freedom: float) -> NDArray[np.float64]:
    """Return −log of the density of Student's t beside its peak."""
    if freedom >= NORMAL:
        return np.asarray(0.5 * z**2)
    return np.asarray((freedom + 1) / 2 * np.log1p(z**2 / freedom))


def _log_peak(freedom: float) -> float:
    """Return the log density of Student's t at zero."""
    if freedom >= NORMAL:
        return -0.5 * float(np.log(2 * np.pi))
    return float(gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi))


def _fit_density(z: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the degrees of freedom and the units of greatest likelihood."""
    if len(z) > _FITTED:
        some = np.linspace(0, len(z) - 1, _FITTED).round().astype(int)
        z, weight = z[some], weight[some]
    n, size = weight.sum(), max(float(np.median(np.abs(z))), _LEAST)
    is_below, skewed = z < 0, len(z) >= _SKEWED

    def cost(units: NDArray[np.float64], freedom: float) -> tuple[float, NDArray[np.float64]]:
        a, b = np.exp(units) if skewed else np.exp(units[[0, 0]])
        scaled = z / np.where(is_below, a, b)
        s2 = scaled**2
        pull = s2 if freedom >= NORMAL else (freedom + 1) * s2 / (freedom + s2)
        value = (
            float(weight @ _tail(scaled, freedom)) / n + np.log((a + b) / 2) - _log_peak(freedom)
        )
        pulls = weight * pull / n
        slopes = np.array([a, b]) / (a + b) - [pulls[is_below].sum(), pulls[~is_below].sum()]
        return value, slopes if skewed else slopes.sum(keepdims=True)

    best, chosen = np.inf, (NORMAL, 1.0, 1.0)
    start = np.full(2 if skewed else 1, np.log(size))
    bounds = [(np.log(_LEAST), np.log(1 / _LEAST))] * len(start)
    for freedom in _FREEDOMS:
        found = minimize(cost, start, (freedom,), jac=True, method="L-BFGS-B", bounds=bounds)
        if found.fun < best - 1e-4:  # of about the same, the tails that are heavier
            units = np.exp(found.x)
            best, chosen = found.fun, (freedom, float(units[0]), float(units[-1]))
    return chosen

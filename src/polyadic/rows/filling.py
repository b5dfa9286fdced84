"""Filling: what missing numbers are likely to be, given those of the row that are there.

Numbers are taken for normal ones with a mean and a covariance Σ.  With P = Σ⁻¹, the mean of the
missing ones, g, given the others, o, solves P_gg x_g = −P_go x_o, a system of its own for every
row.  A few conjugate gradients solve all of them at once, each a product of rows and P.

Numbers that hang together along curves have bumps beside them, functions of one number that rise
to a corner and fall again.  All of them are taken for normal ones together, so that what is filled
in is a sum of piecewise linear functions of the numbers that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import array_namespace, as_double, place_like

_ROUNDS = 5  # of filling rows in and learning from them
_SHRINKAGE = 0.01  # of correlations, at least; more where rows are few
STEPS = 15  # of conjugate gradients
FAR = 3.0  # deviations from the mean at which what is filled in ends
# Of bumps: how many a column has at most, all numbers of a row, and rows times their square.
_MOST_BUMPS, _MOST_NUMBERS, _WORK = 5, 200, 1e8
_LEAST_WIDTH = 1e-6  # of a bump's sides, in units of the range
_LEAST_ROWS = 50
_PIECE = 2**22  # numbers that are filled in at once
_BETTER = 0.98  # of the squared error without bumps is that with them, or there are none


@dataclass(frozen=True, eq=False)
class Bumps:
    """Functions of one column each: 0 up to the first corner, 1 at the next, 0 from the last on.

    Parameters
    ----------
    places : ndarray of int
        Whose functions these are, as places among the columns that are filled in.
    corners : ndarray of shape (3, n)
        Of each.
    """

    places: NDArray[np.int64]
    corners: NDArray[np.float64]

    @classmethod
    def at_quantiles(
        cls, X: NDArray[Any], n_corners: int, weight: NDArray[Any] | None = None
    ) -> Bumps:
        """Return bumps around quantiles of each column, and between its ends.

        Parameters
        ----------
        X : ndarray of shape (n, D)
            Rows, gaps as NaN.
        n_corners : int
            How many a column has at most; less where many rows say the same.
        weight : ndarray of shape (n,), optional
            How often each row counts.
        """
        places, corners = [], []
        for place, column in enumerate(X.T):
            there = ~np.isnan(column)
            if not there.any():
                continue
            order = np.argsort(column[there], kind="stable")
            share = np.cumsum(np.ones(len(order)) if weight is None else weight[there][order])
            wanted = np.linspace(0, 1, n_corners + 2) * share[-1]
            each = np.unique(column[there][order][np.searchsorted(share[:-1], wanted)])
            # In units of the range, which may be next to nothing or next to infinite.
            unit = (each - each[0]) / max(float(np.ptp(each)), np.finfo(float).tiny)
            each = each[np.diff(unit, prepend=-1.0) > _LEAST_WIDTH]
            for first in range(len(each) - 2):
                places.append(place)
                corners.append(each[first : first + 3])
        return cls(np.array(places, dtype=np.int64), np.array(corners).reshape(-1, 3).T.copy())

    def __len__(self) -> int:
        return len(self.places)

    def beside(self, X: Any) -> Any:
        """Return columns, arrays or tensors, and after them what the bumps are there."""
        xp = array_namespace(X)
        left, middle, right = (place_like(each, X) for each in self.corners)
        own = X[:, xp.asarray(self.places.copy(), device=X.device)]
        own = xp.where(own < left, left, xp.where(own > right, right, own))
        rise, fall = (own - left) / (middle - left), (right - own) / (right - middle)
        return xp.concat([X, xp.where(own < middle, rise, fall)], axis=1)


@dataclass(frozen=True, eq=False)
class Filling:
    """A normal distribution of some columns, and maybe of bumps of them.

    Parameters
    ----------
    columns : ndarray of int
        Which columns these are.
    mean, scale : ndarray
        Of each of them, and of each bump.
    precision : ndarray
        Inverse of their correlations.
    bumps : Bumps, optional
        The bumps.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    precision: NDArray[np.float64]
    bumps: Bumps | None = None

    @classmethod
    def learn(
        cls,
        X: NDArray[Any],
        columns: NDArray[np.int64],
        weight: NDArray[Any] | None = None,
        bumps: Bumps | None = None,
    ) -> Filling:
        """Learn from rows with gaps: fill them in, learn from all numbers, and again.

        Parameters
        ----------
        X : ndarray of shape (n, D)
            Rows, gaps as NaN.
        columns : ndarray of int
            Those that are filled in.
        weight : ndarray of shape (n,), optional
            How often each row counts.
        bumps : Bumps, optional
            Of these columns.
        """
        some = as_double(X[:, columns])
        some = some if bumps is None else bumps.beside(some)
        there = ~np.isnan(some)
        # Squares of numbers near 1e300 stay finite.
        size = _or_one(np.max(np.abs(some), axis=0, where=there, initial=0.0))
        some = some / size
        share = np.ones(len(some)) if weight is None else weight / weight.max()
        total = _or_one((share[:, None] * there).sum(axis=0))
        known = np.where(there, some, 0.0)
        mean = (share[:, None] * known).sum(axis=0) / total
        rest = np.where(there, some - mean, 0.0)
        scale = _or_one(np.sqrt((share[:, None] * rest**2).sum(axis=0) / total))
        filled, n = rest / scale, len(scale)
        found = cls(columns, mean * size, scale * size, np.eye(n), bumps)
        shrinkage = max(_SHRINKAGE, n / (n + len(some)))
        for _ in range(_ROUNDS):
            covariance = filled.T @ (share[:, None] * filled)
            # What is filled in varies less than what was there, so correlations are taken.
            unit = 1 / np.sqrt(_or_one(np.diagonal(covariance)))
            correlation = (1 - shrinkage) * covariance * np.outer(unit, unit)
            precision = np.asarray(np.linalg.inv(correlation + shrinkage * np.eye(n)))
            found = replace(found, precision=precision)
            filled = found._solve(rest / scale, ~there)
        return found

    @classmethod
    def choose(
        cls, X: NDArray[Any], columns: NDArray[np.int64], weight: NDArray[Any] | None = None
    ) -> Filling:
        """Learn without bumps and with them; return what finds hidden numbers better.

        Each half of the rows has numbers hidden that gaps of another row hide, and the other half
        has taught.
        """
        n_bumps = min(_MOST_BUMPS, _MOST_NUMBERS // len(columns) - 1)
        plain = cls.learn(X, columns, weight)
        if n_bumps < 1 or len(X) < _LEAST_ROWS:
            return plain
        size = len(columns) * (1 + n_bumps)
        few = slice(None, None, max(1, round(len(X) * size**2 / _WORK)))
        X, weight = X[few], None if weight is None else weight[few]
        bumps = Bumps.at_quantiles(X[:, columns], n_bumps, weight)
        if not len(bumps):
            return plain
        errors = [cls._error(X, columns, weight, each, plain.scale) for each in (None, bumps)]
        return cls.learn(X, columns, weight, bumps) if errors[1] < _BETTER * errors[0] else plain

    @classmethod
    def _error(
        cls,
        X: NDArray[Any],
        columns: NDArray[np.int64],
        weight: NDArray[Any] | None,
        bumps: Bumps | None,
        scale: NDArray[np.float64],
    ) -> float:
        """Return the squares of what is not found of hidden numbers, in sum."""
        total = 0.0
        for teach, test in ((0, 1), (1, 0)):
            taught = None if weight is None else weight[teach::2]
            found = cls.learn(X[teach::2], columns, taught, bumps)
            rows = X[test::2]
            rest = (found.fill(_hide(rows)) - rows)[:, columns] / scale
            count = np.ones(len(rows)) if weight is None else weight[test::2]
            total += float(count @ np.nansum(rest**2, axis=1))
        return total

    def is_same(self, other: Filling | None) -> bool:
        """Whether another one is this one, or was read from the same place of a file."""
        return other is not None and self.precision is other.precision

    def fill(self, X: Any) -> Any:
        """Return rows, arrays or tensors, with the gaps of these columns filled in."""
        xp = array_namespace(X)
        columns = xp.asarray(self.columns.copy(), device=X.device)
        rows = xp.nonzero(xp.any(xp.isnan(X[:, columns]), axis=1))[0]
        if not len(rows):
            return X
        X = xp.astype(X, xp.float64, copy=True)
        step = max(1, _PIECE // len(self.mean))
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            X[some[:, None], columns] = self._fill(X[some[:, None], columns])
        return X

    def _fill(self, X: Any) -> Any:
        """Return rows of these columns alone, with their gaps filled in."""
        xp, n = array_namespace(X), len(self.columns)
        mean, scale = place_like(self.mean, X), place_like(self.scale, X)
        known = X if self.bumps is None else self.bumps.beside(X)
        gaps = xp.isnan(known)
        unit = xp.where(gaps, xp.zeros_like(known), (known - mean) / scale)
        found = xp.clip(self._solve(unit, gaps)[:, :n], -FAR, FAR)
        return xp.where(gaps[:, :n], mean[:n] + scale[:n] * found, X)

    def _solve(self, unit: Any, gaps: Any) -> Any:
        """Return standardised rows, zero where there are gaps, with these at their mean."""
        xp = array_namespace(unit)
        # In units of its diagonal the matrix is the better conditioned.
        root = np.sqrt(np.diagonal(self.precision))
        P, root = place_like(self.precision / np.outer(root, root), unit), place_like(root, unit)
        gaps = xp.astype(gaps, xp.float64)
        x = unit * root
        residual = direction = -(x @ P) * gaps
        size = xp.sum(residual**2, axis=1, keepdims=True)
        for _ in range(STEPS):
            product = (direction @ P) * gaps
            curvature = xp.sum(direction * product, axis=1, keepdims=True)
            step = size / xp.where(curvature > 0, curvature, xp.inf)
            x = x + step * direction
            residual = residual - step * product
            before, size = size, xp.sum(residual**2, axis=1, keepdims=True)
            direction = residual + size / xp.where(before > 0, before, xp.inf) * direction
        return x / root


def _or_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values to divide by, 1 in place of 0."""
    return np.where(values > 0, values, 1.0)


def _hide(X: NDArray[Any]) -> NDArray[Any]:
    """Return rows that have the gaps of other rows, too."""
    gaps = np.isnan(X)
    others = gaps[gaps.any(axis=1)]
    if not len(others):
        return X
    # The next row with gaps is not the row itself, where there are two.
    place = np.cumsum(gaps.any(axis=1)) % len(others)
    return np.where(others[place], np.nan, X)

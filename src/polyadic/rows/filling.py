"""Filling: what missing numbers are likely to be, given those of the row that are there.

Numbers are taken for normal ones with a mean and a covariance Σ.  With P = Σ⁻¹, the mean of the
missing ones, g, given the others, o, solves P_gg x_g = −P_go x_o, a system of its own for every
row.  A few conjugate gradients solve all of them at once, each a product of rows and P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.arrays import array_namespace, place_like

_ROUNDS = 5  # of filling rows in and learning from them
_SHRINKAGE = 0.01  # of correlations, at least; more where rows are few
STEPS = 15  # of conjugate gradients
FAR = 3.0  # deviations from the mean at which what is filled in ends


@dataclass(frozen=True, eq=False)
class Filling:
    """A normal distribution of some columns.

    Parameters
    ----------
    columns : ndarray of int
        Which columns these are.
    mean, scale : ndarray
        Of each of them.
    precision : ndarray
        Inverse of their correlations.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    precision: NDArray[np.float64]

    @classmethod
    def learn(
        cls, X: NDArray[Any], columns: NDArray[np.int64], weight: NDArray[Any] | None = None
    ) -> Filling:
        """Learn from rows with gaps: fill them in, learn from all numbers, and again.

        Parameters
        ----------
        X : ndarray of shape (n, D)
            Rows, gaps as NaN.
        columns : ndarray of int
            Those that are filled in; each must have different values.
        weight : ndarray of shape (n,), optional
            How often each row counts.
        """
        some = X[:, columns]
        there = ~np.isnan(some)
        share = np.ones(len(some)) if weight is None else weight / weight.max()
        total = (share[:, None] * there).sum(axis=0)
        known = np.where(there, some, 0.0)
        mean = (share[:, None] * known).sum(axis=0) / total
        rest = np.where(there, some - mean, 0.0)
        scale = np.sqrt((share[:, None] * rest**2).sum(axis=0) / total)
        filled, size = rest / scale, len(columns)
        found = cls(columns, mean, scale, np.eye(size))
        shrinkage = max(_SHRINKAGE, size / (size + len(some)))
        for _ in range(_ROUNDS):
            covariance = filled.T @ (share[:, None] * filled)
            # What is filled in varies less than what was there, so correlations are taken.
            unit = 1 / np.sqrt(np.diagonal(covariance))
            correlation = (1 - shrinkage) * covariance * np.outer(unit, unit)
            found = cls(columns, mean, scale, np.linalg.inv(correlation + shrinkage * np.eye(size)))
            filled = found._solve(rest / scale, ~there)
        return found

    def fill(self, X: Any) -> Any:
        """Return rows, arrays or tensors, with the gaps of these columns filled in."""
        xp = array_namespace(X)
        columns = xp.asarray(self.columns.copy(), device=X.device)
        some = X[:, columns]
        missing = xp.isnan(some)
        rows = xp.any(missing, axis=1)
        if not bool(xp.any(rows)):
            return X
        mean, scale = place_like(self.mean, X), place_like(self.scale, X)
        part, gaps = some[rows], missing[rows]
        unit = xp.where(gaps, xp.zeros_like(part), (part - mean) / scale)
        found = xp.clip(self._solve(unit, gaps), -FAR, FAR)
        X = xp.asarray(X, copy=True)
        some[rows] = xp.where(gaps, mean + scale * found, part)
        X[:, columns] = some
        return X

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

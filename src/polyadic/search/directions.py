"""Directions: linear combinations of numbers along which the targets change most.

    M = Σᵢ ∇f(xᵢ) ∇f(xᵢ)ᵀ,        f(x) = Σᵢ cᵢ k(x, xᵢ),        (K + noise/signal) c = y

The leading eigenvectors of M, with f the mean of a process with the Gaussian kernel, are the
directions.  A product of functions of one input each must spend many terms on a function of a sum
or a difference of inputs; along such a direction it is one function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.model.evidence import Evidence

N_DIRECTIONS = 3
_JITTER = 1e-8


def leading_directions(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    evidence: Evidence,
    weight: NDArray[Any] | None = None,
    levels: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return orthonormal directions, a column each; categories have no part in them.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Rows as the evidence has seen them.
    y : ndarray of shape (n, T)
        Standardised targets.
    evidence : Evidence
        Of the Gaussian kernel.
    weight : ndarray of shape (n,), optional
        Of the rows.
    levels : ndarray of bool of shape (D,), optional
        Which columns are codes of levels.
    """
    assert evidence.kernel == "rbf"
    is_number = np.ones(X.shape[1], dtype=bool) if levels is None else ~levels
    lengths, weight = evidence.length_scales, np.ones(len(X)) if weight is None else weight
    scaled = X[:, is_number] / lengths[is_number]
    norms = (scaled**2).sum(axis=1)
    log_k = scaled @ scaled.T - 0.5 * (norms[:, None] + norms)
    for d in np.flatnonzero(~is_number).tolist():
        log_k -= (X[:, d, None] != X[:, d]) / lengths[d]
    K = np.exp(np.minimum(log_k, 0.0))
    noise = np.diag(evidence.noise / evidence.signal / weight + _JITTER)
    products = np.zeros((is_number.sum(),) * 2)
    for c in np.linalg.solve(K + noise, y).T:
        # ∇f(x) = Σᵢ cᵢ k(x, xᵢ) (xᵢ − x) / ℓ²
        pull = K * c
        slopes = (pull @ scaled - pull.sum(axis=1)[:, None] * scaled) / lengths[is_number]
        products += slopes.T @ (weight[:, None] * slopes)
    _, vectors = np.linalg.eigh(products)
    found = np.zeros((X.shape[1], min(N_DIRECTIONS, len(vectors))))
    found[is_number] = vectors[:, ::-1][:, : found.shape[1]]
    return found

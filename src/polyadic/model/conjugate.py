"""Core steps by conjugate gradients: the same system as the direct one, never formed.

The system of a core, (Σₙ aₙaₙᵀ + α I ⊗ H) v = Σₙ aₙyₙ with aₙ = ψₙ ⊗ zₙ, has (I·R)² numbers;
its product with a core takes one pass over the rows.  ψ and z are nearly independent, so

    diag(mean ψᵢ²) ⊗ ZᵀZ + α I ⊗ H

is nearly the system itself: one R × R factor for each i, and few iterations are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.model.normal import CoreSolution, require_finite

# More iterations buy nothing: alternating between the cores is the slow loop.
MAX_ITER, TOL = 6, 1e-3
# Jitter of the preconditioner, relative to the diagonals of ZᵀZ and of H.
_JITTER_OF_PRODUCTS, _JITTER_OF_PENALTY, _SMALLEST = 1e-5, 1e-6, 1e-12


@dataclass(frozen=True)
class CoreSketch:
    """The sums that conjugate gradients start from; they can be added.

    Parameters
    ----------
    moment : ndarray of shape (size, rank)
        Σ w·y·ψ zᵀ.
    feature_power : ndarray of shape (size,)
        Σ w·ψᵢ².
    product_gram : ndarray of shape (rank, rank)
        Σ w·z zᵀ, over a fraction of the rows where they are many.
    sketched_weight : float
        Σ w over the rows of `product_gram`.
    total_weight : float
        Σ w.
    """

    moment: NDArray[np.float64]
    feature_power: NDArray[np.float64]
    product_gram: NDArray[np.float64]
    sketched_weight: float
    total_weight: float

    def __add__(self, other: CoreSketch) -> CoreSketch:
        return CoreSketch(
            self.moment + other.moment,
            self.feature_power + other.feature_power,
            self.product_gram + other.product_gram,
            self.sketched_weight + other.sketched_weight,
            self.total_weight + other.total_weight,
        )

    def on_host(self) -> CoreSketch:
        """Return these sums, which are on the host already."""
        return self

    def preconditioner(
        self, gram_of_others: NDArray[Any], alpha: float
    ) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """Return the function that solves diag(mean ψᵢ²) ⊗ ZᵀZ + α I ⊗ H."""
        G = self.product_gram * (self.total_weight / self.sketched_weight)
        diagonal = G.diagonal()
        # Terms differ in size by many orders, so each is taken in units of its own.
        units = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        H = alpha * gram_of_others * np.outer(units, units)
        H = _add_to_diagonal(H, _JITTER_OF_PENALTY * float(H.diagonal().max()))
        # With G = LLᵀ and L⁻¹HL⁻ᵀ = Q diag(h) Qᵀ one pair of products solves it for every i.
        inverse = np.linalg.inv(_cholesky(G * np.outer(units, units)))
        h, Q = np.linalg.eigh(inverse @ H @ inverse.T)
        basis = Q.T @ (inverse * units)
        mean_power = self.feature_power / self.total_weight
        system = mean_power[:, None] + np.maximum(h, 0.0)
        scale = 1 / np.maximum(system, _SMALLEST * float(system.max()))
        return lambda residual: ((residual @ basis.T) * scale) @ basis


@dataclass(frozen=True)
class GramProduct:
    """AᵀA v of some rows, of the shape of one core; it can be added."""

    value: NDArray[np.float64]

    def __add__(self, other: GramProduct) -> GramProduct:
        return GramProduct(self.value + other.value)

    def on_host(self) -> GramProduct:
        """Return this product, which is on the host already."""
        return self


def solve_core_iteratively(
    sketch: CoreSketch,
    gram_product: Callable[[NDArray[Any]], NDArray[np.float64]],
    gram_of_others: NDArray[Any],
    current: NDArray[Any],
    alpha: float,
    *,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
) -> CoreSolution:
    """Lower ½‖y − A v‖² + ½α vᵀ(I ⊗ H)v over one core by a few steps from where it is.

    Parameters
    ----------
    sketch : CoreSketch
        The sums of the step.
    gram_product : callable
        Returns AᵀA v, size × rank like v.
    gram_of_others : ndarray
        H, the product of the other cores' Grams.
    current : ndarray
        The core as it is; no step raises the objective above what it has here.
    alpha : float
        Strength of the penalty on the weight tensor.
    max_iter, tol
        Iterations, and the preconditioned residual relative to the first at which to stop.
    """

    def apply(v: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(gram_product(v) + alpha * (v @ gram_of_others))

    require_finite(sketch.product_gram, sketch.moment)
    solve = sketch.preconditioner(gram_of_others, alpha)
    value, residual = current, sketch.moment - apply(current)
    require_finite(sketch.product_gram, residual)
    direction = step = solve(residual)
    size = first = float((residual * step).sum())
    for _ in range(max_iter):
        if not size > tol**2 * first or size <= 0:
            break
        product = apply(direction)
        curvature = float((direction * product).sum())
        if not curvature > 0:  # rounding is all that is left
            break
        value = value + (size / curvature) * direction
        residual = residual - (size / curvature) * product
        step = solve(residual)
        size, before = float((residual * step).sum()), size
        direction = step + (size / before) * direction
    return CoreSolution(value, 0.0)


def _cholesky(G: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of a Gram matrix of unit diagonal, with as little jitter as it takes.

    Sums of single precision are not positive definite where products depend on each other, as
    those of one input do beyond its number of basis functions.
    """
    jitter = _JITTER_OF_PRODUCTS
    while True:
        try:
            return np.linalg.cholesky(_add_to_diagonal(G, jitter))
        except np.linalg.LinAlgError:
            jitter *= 10


def _add_to_diagonal(matrix: NDArray[Any], value: float) -> NDArray[Any]:
    matrix = matrix.copy()
    matrix.ravel()[:: len(matrix) + 1] += value
    return matrix

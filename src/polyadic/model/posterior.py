"""The posterior of one core, the others held fixed: Laplace's approximation of a fit.

A model is linear in each of its cores, f = A v, so with noise of variance σ² and the penalty α
the posterior of the last core's v is exactly normal,

    cov v = σ² (AᵀA + α I ⊗ H)⁻¹,        σ² = (‖y − A v‖² + α vᵀ(I ⊗ H)v) / N

where that σ² is the one of greatest evidence.  A model of one core is Bayesian linear regression,
and this is all there is to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyadic.model import cpd
from polyadic.model.normal import NormalEquations, core_system

MOST_UNKNOWNS = 2_000  # of a core whose covariance is kept
_LEAST = 1e-12  # eigenvalues, beside the greatest


@dataclass(frozen=True, eq=False)
class CorePosterior:
    """The covariance of a core in units of the noise, by a root of it.

    Parameters
    ----------
    core : int
        Which core it is.
    root : ndarray of shape (unknowns, k)
        Real and imaginary parts of the core are unknowns of their own.
    """

    core: int
    root: NDArray[np.float64]

    def variance(self, A: NDArray[np.complexfloating] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return aᵀ cov(v) a / σ² for each row a of A."""
        block = np.hstack([A.real, -A.imag]) if np.iscomplexobj(A) else A
        return np.asarray(((block @ self.root) ** 2).sum(axis=1))


def core_posterior(
    equations: NormalEquations,
    cores: cpd.Cores,
    core: int,
    alpha: float,
) -> tuple[CorePosterior, float]:
    """Return the posterior of a core, and the sum of squares that makes the noise."""
    H = cpd.gram_product(cpd.grams(cores), without=core)
    matrix, moment, v = core_system(equations, H, cores[core], alpha)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > _LEAST * max(values[-1], np.finfo(float).tiny)
    root = vectors[:, kept] / np.sqrt(values[kept])
    squares = equations.target_norm2 - 2 * float(moment @ v) + float(v @ matrix @ v)
    return CorePosterior(core, root), max(squares, 0.0)

"""The exact Gaussian process: what approximations of a kernel machine are measured against.

    y = f(x) + e,   cov f = signal · k(x, x'),   var e = noise

Kernels have one length scale for each input and are products over inputs (Matérn 1/2 and 3/2)
or a function of the distance in length scales (Matérn 3/2).  Length scales, signal and noise
maximise the marginal likelihood of at most 1,000 rows, the kernel is the one of the greatest,
and its equations are then solved for all rows.  All of it is in double precision, and shares
nothing with the library that it is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

Array = NDArray[np.float64]

SQRT3 = math.sqrt(3)
BLOCK = 256  # rows of a kernel matrix that are computed at once
JITTER = 1e-8
BOUNDS = {"length": (1e-2, 1e4), "signal": (1e-3, 1e4), "noise": (1e-6, 1e1)}
# A function that changes fast looks like noise from a start of long length scales.
STARTS = (1.0, 0.25)
FIRST_STEPS = 15


@njit(cache=True)  # type: ignore[untyped-decorator]
def product12(A: Array, B: Array) -> Array:
    """Return the product of Matérn 1/2 kernels; rows are divided by length scales."""
    K = np.empty((len(A), len(B)))
    for i in range(len(A)):
        for j in range(len(B)):
            total = 0.0
            for d in range(A.shape[1]):
                total += abs(A[i, d] - B[j, d])
            K[i, j] = math.exp(-total)
    return K


@njit(cache=True)  # type: ignore[untyped-decorator]
def product12_slopes(Z: Array, K: Array, W: Array) -> Array:
    """Return Σ_ij W_ij ∂K_ij/∂log ℓ_d for each input; W is symmetric."""
    slopes = np.zeros(Z.shape[1])
    for i in range(len(Z)):
        for j in range(i):
            weight = 2 * W[i, j] * K[i, j]
            for d in range(Z.shape[1]):
                slopes[d] += weight * abs(Z[i, d] - Z[j, d])
    return slopes


@njit(cache=True)  # type: ignore[untyped-decorator]
def product32(A: Array, B: Array) -> Array:
    """Return the product of Matérn 3/2 kernels, Π_d (1 + s_d) exp(−s_d)."""
    K = np.empty((len(A), len(B)))
    for i in range(len(A)):
        for j in range(len(B)):
            total, product = 0.0, 1.0
            for d in range(A.shape[1]):
                s = SQRT3 * abs(A[i, d] - B[j, d])
                total += s
                product *= 1 + s
            # The product is at most exp(total), so it is finite wherever it is used.
            K[i, j] = product * math.exp(-total) if total < 700 else 0.0
    return K


@njit(cache=True)  # type: ignore[untyped-decorator]
def product32_slopes(Z: Array, K: Array, W: Array) -> Array:
    """Return Σ_ij W_ij ∂K_ij/∂log ℓ_d for each input; W is symmetric."""
    slopes = np.zeros(Z.shape[1])
    for i in range(len(Z)):
        for j in range(i):
            weight = 2 * W[i, j] * K[i, j]
            for d in range(Z.shape[1]):
                s = SQRT3 * abs(Z[i, d] - Z[j, d])
                slopes[d] += weight * s * s / (1 + s)
    return slopes


def isotropic32(A: Array, B: Array) -> Array:
    """Return the Matérn 3/2 kernel of the Euclidean distance."""
    s = _scaled_distance(A, B)
    return np.asarray((1 + s) * np.exp(-s))


def isotropic32_slopes(Z: Array, K: Array, W: Array) -> Array:
    """Return Σ_ij W_ij ∂K_ij/∂log ℓ_d, where ∂K/∂log ℓ_d = 3K (z_id − z_jd)² / (1 + s)."""
    V = 3 * W * K / (1 + _scaled_distance(Z, Z))
    return np.asarray(2 * V.sum(axis=1) @ Z**2 - 2 * np.sum(Z * (V @ Z), axis=0))


def _scaled_distance(A: Array, B: Array) -> Array:
    squared = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1) - 2 * A @ B.T
    return np.sqrt(3 * np.maximum(squared, 0.0))


@dataclass(frozen=True)
class Kernel:
    """A kernel of rows in units of length scales, its slopes, and a usual length scale."""

    matrix: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array, Array], Array]
    usual: Callable[[int], float]


# With the usual length scale, standardised rows at a usual distance have about 1/e or more.
KERNELS = {
    "product-matern12": Kernel(product12, product12_slopes, lambda d: float(d)),
    "product-matern32": Kernel(product32, product32_slopes, lambda d: math.sqrt(3 * d)),
    "isotropic-matern32": Kernel(isotropic32, isotropic32_slopes, lambda d: math.sqrt(d)),
}


def log_likelihood(kernel: Kernel, X: Array, y: Array, p: Array) -> tuple[float, Array]:
    """Return the log marginal likelihood and its slopes by log ℓ, log signal and log noise."""
    n = len(y)
    signal, noise = np.exp(p[-2:])
    Z = X / np.exp(p[:-2])
    K = signal * kernel.matrix(Z, Z)
    covariance = K.copy()
    covariance.flat[:: n + 1] += noise + JITTER * signal
    factor, failed = lapack.dpotrf(covariance, lower=1, clean=1)
    if failed:
        return -1e10, np.zeros(len(p))
    answers = lapack.dpotrs(factor, y, lower=1)[0].ravel()
    half = lapack.dpotri(factor, lower=1)[0]  # the lower triangle of the inverse
    inverse = np.tril(half) + np.tril(half, -1).T
    value = -0.5 * y @ answers - np.log(factor.diagonal()).sum() - 0.5 * n * math.log(2 * np.pi)
    M = 0.5 * (np.outer(answers, answers) - inverse)
    trace = float(M.trace())
    by_signal = np.vdot(M, K) + JITTER * signal * trace
    by_noise = noise * trace
    return float(value), np.append(kernel.slopes(Z, K, M), [by_signal, by_noise])


def learn(kernel: Kernel, X: Array, y: Array, steps: int) -> tuple[float, Array]:
    """Return the greatest log likelihood that was found, and where."""
    D = X.shape[1]

    def climb(p: Array, most: int) -> tuple[float, Array]:
        def objective(p: Array) -> tuple[float, Array]:
            value, slopes = log_likelihood(kernel, X, y, p)
            return -value / len(y), -slopes / len(y)

        ranges = [BOUNDS["length"]] * D + [BOUNDS["signal"], BOUNDS["noise"]]
        found = minimize(
            objective,
            p,
            jac=True,
            method="L-BFGS-B",
            bounds=np.log(ranges),
            options={"maxiter": most, "maxfun": 2 * most, "ftol": 1e-7},
        )
        return -found.fun * len(y), found.x

    lengths = [np.full(D, math.log(kernel.usual(D) * share)) for share in STARTS]
    starts = [climb(np.append(each, [0.0, math.log(0.1)]), FIRST_STEPS) for each in lengths]
    return climb(max(starts, key=lambda found: found[0])[1], steps)


class ExactProcess:
    """The mean of an exact Gaussian process with learned length scales.

    Parameters
    ----------
    kernels : sequence of str
        Among which the marginal likelihood chooses.
    learning_rows : int
        Rows, drawn at random, from which scales are learned.
    steps : int
        Steps of L-BFGS; none leaves the kernels as they begin.
    parameters : ndarray, optional
        Logarithms of length scales, signal and noise for standardised inputs, not to be learned.
    """

    def __init__(
        self,
        kernels: Sequence[str] = tuple(KERNELS),
        learning_rows: int = 1_000,
        steps: int = 60,
        parameters: Array | None = None,
    ) -> None:
        self.kernels = kernels
        self.learning_rows = learning_rows
        self.steps = steps
        self.parameters = parameters

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Learn the scales, choose the kernel, and solve for all rows."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.centre_, deviation = X.mean(axis=0), X.std(axis=0)
        self.deviation_ = np.where(deviation > 0, deviation, 1.0)
        self.mean_ = y.mean()
        Z, u = self._standardise(X), y - self.mean_
        chosen = np.random.RandomState(0).permutation(len(u))[: self.learning_rows]
        found = {name: self._parameters(name, Z[chosen], u[chosen]) for name in self.kernels}
        self.likelihoods_ = {name: value for name, (value, _) in found.items()}
        self.kernel_ = max(self.likelihoods_, key=self.likelihoods_.__getitem__)
        self.parameters_ = found[self.kernel_][1]
        signal, noise = np.exp(self.parameters_[-2:])
        self.rows_ = Z / np.exp(self.parameters_[:-2])
        covariance = np.empty((len(u), len(u)), order="F")
        for rows in _blocks(len(u)):
            covariance[:, rows] = signal * self._kernel(self.rows_, self.rows_[rows])
        covariance.ravel(order="K")[:: len(u) + 1] += noise + JITTER * signal
        self._factor = cho_factor(covariance, lower=True, overwrite_a=True)
        self.answers_ = signal * cho_solve(self._factor, u)
        return self

    def predict(self, X: NDArray[Any], return_std: bool = False) -> Any:
        """Return the mean of the process at rows, and the deviation of new targets from it."""
        Z = self._standardise(np.asarray(X, dtype=np.float64)) / np.exp(self.parameters_[:-2])
        signal, noise = np.exp(self.parameters_[-2:])
        means, deviations = [], []
        for rows in _blocks(len(Z)):
            k = self._kernel(Z[rows], self.rows_)
            means.append(k @ self.answers_)
            if return_std:
                half = solve_triangular(self._factor[0], signal * k.T, lower=True)
                deviations.append(np.sqrt(np.maximum(signal - (half**2).sum(axis=0), 0) + noise))
        mean = np.asarray(self.mean_ + np.concatenate(means))
        return (mean, np.concatenate(deviations)) if return_std else mean

    def _standardise(self, X: Array) -> Array:
        return np.asarray((X - self.centre_) / self.deviation_)

    def _parameters(self, name: str, X: Array, y: Array) -> tuple[float, Array]:
        if self.parameters is not None:
            return log_likelihood(KERNELS[name], X, y, self.parameters)[0], self.parameters
        return learn(KERNELS[name], X, y, self.steps)

    def _kernel(self, A: Array, B: Array) -> Array:
        return KERNELS[self.kernel_].matrix(A, B)


def _blocks(n: int) -> list[slice]:
    return [slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]

"""The yardstick: Algorithm 1 of the paper in straightforward NumPy.

Full-length arrays, one Z of N × R for each map, a factor removed by division: what one
writes who follows the paper line by line.  Features are made once, before the loop; maps
of weight zero are skipped, as the paper's Figure on the number of maps supposes.  The λ
step and the drawing of the first cores are the library's own, so that both fits run
through the same numbers and differ by rounding alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.mixing import solve_mixing
from polyadic.normal import NormalEquations


@dataclass
class PlainFit:
    """Cores, feature weights, and what prediction needs."""

    cores: list[NDArray[Any]]
    weights: NDArray[np.float64]
    periods: tuple[float, ...]
    n_basis: int

    def predict(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return Re Σₚ λₚ φₚ(x)ᵀw."""
        response = np.zeros(len(X))
        for period, weight in zip(self.periods, self.weights, strict=True):
            if weight:
                factors = quantized_fourier(X, period, self.n_basis)
                Z = np.ones((len(X), self.cores[0].shape[1]))
                for psi, core in zip(factors, self.cores, strict=True):
                    Z = Z * (psi @ core)
                response += weight * Z.sum(axis=1).real
        return response


def quantized_fourier(X: NDArray[Any], period: float, n_basis: int) -> list[NDArray[Any]]:
    """Return the N × 2 factor of each core; frequencies −I/2 … I/2 − 1."""
    factors = []
    for x in X.T:
        for bit in range(n_basis.bit_length() - 1):
            gamma = np.exp(2j * np.pi / period * x[:, None] * np.array([0, 2**bit]))
            if bit == 0:
                gamma = gamma * np.exp(-2j * np.pi / period * x * (n_basis // 2))[:, None]
            factors.append(gamma)
    return factors


def fit(
    X: NDArray[Any],
    y: NDArray[Any],
    cores: list[NDArray[Any]],
    weights: NDArray[np.float64],
    *,
    periods: tuple[float, ...],
    n_basis: int,
    alpha: float,
    beta: float,
    epochs: int,
) -> PlainFit:
    """Learn cores and L1-penalised feature weights, the complex objective, λ step first."""
    cores = [core.astype(complex) for core in cores]
    rank = cores[0].shape[1]
    psi = [quantized_fourier(X, period, n_basis) for period in periods]
    Z = [np.ones((len(X), rank), dtype=complex) for _ in periods]
    for p, factors in enumerate(psi):
        for factor, core in zip(factors, cores, strict=True):
            Z[p] = Z[p] * (factor @ core)
    H = np.ones((rank, rank), dtype=complex)
    for core in cores:
        H = H * (core.conj().T @ core)
    weights = mixing_step(Z, y, beta)
    for _ in range(epochs):
        for k in range(len(cores)):
            A = np.zeros((len(X), 2 * rank), dtype=complex)
            used = np.flatnonzero(weights)
            for p in used:
                Z[p] = Z[p] / (psi[p][k] @ cores[k])
                A += weights[p] * (psi[p][k][:, :, None] * Z[p][:, None, :]).reshape(len(X), -1)
            H = H / (cores[k].conj().T @ cores[k])
            system = A.conj().T @ A + alpha * np.kron(np.eye(2), H)
            new = np.linalg.solve(system, A.conj().T @ y).reshape(2, rank)
            for p in used:
                Z[p] = Z[p] * (psi[p][k] @ new)
            for p in np.flatnonzero(weights == 0):
                Z[p] = Z[p] / (psi[p][k] @ cores[k]) * (psi[p][k] @ new)
            cores[k] = new
            H = H * (new.conj().T @ new)
        weights = mixing_step(Z, y, beta)
    return PlainFit(cores, weights, periods, n_basis)


def mixing_step(Z: list[NDArray[Any]], y: NDArray[Any], beta: float) -> NDArray[np.float64]:
    """Minimise ½‖y − Fλ‖² + β‖λ‖₁ with F the real response of each map."""
    F = np.stack([z.sum(axis=1).real for z in Z], axis=1)
    return solve_mixing(NormalEquations.of(F, y, None), "l1", False, beta)

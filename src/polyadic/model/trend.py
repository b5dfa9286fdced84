"""The linear trend: a ridge regression from sums, written as a CPD like any other model.

A linear function Σ_d β_d x_d + β₀ of D inputs is a sum of D + 1 rank-one terms over the
features [1, x] of each input, so it is a model of rank D + 1 with `PurePowerFeatures` and
two basis functions: prediction, model files and reports need not know that it is special.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import PurePowerFeatures, TensorLayout
from polyadic.model.als import Model
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations

# Strengths of the ridge tried, in units of the rows' total weight.
_STRENGTHS = np.logspace(-6, 3, 28)


def trend_layout(n_inputs: int) -> TensorLayout:
    """Return the layout of a linear function."""
    return TensorLayout.of((PurePowerFeatures(),), (2,) * n_inputs, quantized=True)


def linear_trend(
    X: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None
) -> NDArray[np.float64]:
    """Return β₁ … β_D and β₀ of a ridge regression for each target, (D + 1) × T.

    The strength is the one with the least generalised cross-validation error, which, like
    everything else here, follows from sums over the rows.
    """
    block = np.column_stack([X, np.ones(len(X))])
    return np.column_stack(
        [_ridge(NormalEquations.of(block, column, weight), len(X)) for column in y.T]
    )


def evaluate(coefficients: NDArray[Any], X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the trend at each row, one column for each target."""
    return np.asarray(X @ coefficients[:-1] + coefficients[-1])


def trend_model(coefficients: NDArray[Any]) -> Model:
    """Write a linear function as a weight tensor of rank D + 1 for each target."""
    return Model(tuple(_linear_cores(column) for column in coefficients.T), np.ones(1))


def _linear_cores(coefficients: NDArray[Any]) -> Cores:
    n_inputs = len(coefficients) - 1
    cores = []
    for index in range(n_inputs):
        core = np.zeros((2, n_inputs + 1))
        core[0] = 1.0
        core[:, index] = 0.0, coefficients[index]
        cores.append(core)
    cores[0][0, -1] = coefficients[-1]
    return cores


def _ridge(equations: NormalEquations, n_rows: float) -> NDArray[np.float64]:
    """Return the coefficients, the constant last; the constant is not penalised."""
    gram, moment, total = equations.gram, equations.moment, equations.total_weight
    # Integer weights count rows; weights that sum to less than the rows are relative.
    n_rows = max(total, n_rows)
    mean, target_mean = gram[-1, :-1] / total, moment[-1] / total
    covariance = gram[:-1, :-1] - total * np.outer(mean, mean)
    slope = moment[:-1] - total * mean * target_mean
    scatter = max(equations.target_norm2 - total * target_mean**2, 0.0)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0) / total)
    # A column whose spread is rounding is constant: it gets the coefficient zero.  The
    # variance is a difference of squares, so its root is right to half the digits only.
    used = deviation > 1e-6 * np.abs(mean)
    scale = np.where(used, deviation, np.inf)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    values = np.maximum(values, 0.0)
    rotated = vectors.T @ (slope / scale)
    best, chosen = np.inf, np.zeros(len(slope))
    for strength in _STRENGTHS * total:
        shrunk = rotated / (values + strength)
        residual = max(scatter - float((shrunk * (rotated + strength * shrunk)).sum()), 0.0)
        freedom = 1 - (1 + float((values / (values + strength)).sum())) / n_rows
        if freedom <= 0:
            continue
        error = residual / freedom**2
        if error < best:
            best, chosen = error, vectors @ shrunk / scale
    return np.append(chosen, target_mean - mean @ chosen)

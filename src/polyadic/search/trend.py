"""The linear trend: a ridge regression from sums, written as a CPD like any other model.

A linear function Σ_d β_d x_d + β₀ of D inputs is a sum of D + 1 rank-one terms over the
features [1, x] of each input, so it is a model of rank D + 1 with `PurePowerFeatures` and
two basis functions: views, prediction, model files and reports need not know that it is special.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import PurePowerFeatures, TensorLayout
from polyadic.model.als import Model
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.arrays import array_namespace, on_host
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member, View
from polyadic.sources.data import Data

# Strengths of the ridge tried, in units of the rows' total weight.
_STRENGTHS = np.logspace(-6, 3, 28)


@dataclass(frozen=True)
class LinearSums:
    """The normal equations of each target on [x, 1], and the number of rows; they add up."""

    equations: tuple[NormalEquations, ...]
    n_rows: int

    def __add__(self, other: LinearSums) -> LinearSums:
        pairs = zip(self.equations, other.equations, strict=True)
        return LinearSums(tuple(a + b for a, b in pairs), self.n_rows + other.n_rows)


def linear_trend(data: Data) -> Member:
    """Return the ridge regression of all targets on the inputs as the usual view shows them.

    The strength is the one with the least generalised cross-validation error, which, like
    everything else here, follows from sums over the rows.
    """
    sums = data.store.reduce("trend", partial(linear_sums, view=data.view))
    columns = [_ridge(equations, sums.n_rows) for equations in sums.equations]
    model = linear_model(np.column_stack(columns))
    return Member(_bounded_scaling(data), linear_layout(data.n_inputs), model)


def _bounded_scaling(data: Data) -> InputScaling:
    """Return the usual scaling, level beyond the training range: what a line says is bounded."""
    low, high = data.statistics.low, data.statistics.high
    ends = data.view.inputs.apply(np.stack([low, high]).astype(np.float64))
    sizes = np.where(low < high, 2, 1)
    knots = [np.array(pair[:n]) for *pair, n in zip(low, high, sizes, strict=True)]
    values = [np.array(pair[:n]) for *pair, n in zip(*ends, sizes, strict=True)]
    return InputScaling(tuple(knots), tuple(values), np.zeros(data.n_inputs))


def linear_sums(rows: Rows, first_row: int, view: View) -> LinearSums:
    """Sum up a piece of rows, where they are."""
    xp, X = array_namespace(rows.X), view.inputs.apply(rows.X)
    ones = xp.ones((len(X), 1), dtype=X.dtype, device=X.device)
    targets = [view.targets.apply(rows.y[:, t], t)[:, None] for t in range(rows.y.shape[1])]
    table = xp.concat([X, ones, *targets], axis=1)
    if rows.weight is not None:
        table = table * xp.sqrt(xp.astype(rows.weight, xp.float64))[:, None]
    gram, size, total = on_host(table.T @ table), X.shape[1] + 1, rows.total_weight
    return LinearSums(
        tuple(
            NormalEquations(gram[:size, :size], gram[:size, t], float(gram[t, t]), total)
            for t in range(size, len(gram))
        ),
        len(rows),
    )


def linear_layout(n_inputs: int) -> TensorLayout:
    """Return the layout of a linear function."""
    return TensorLayout.of((PurePowerFeatures(),), (2,) * n_inputs, quantized=True)


def linear_model(coefficients: NDArray[Any]) -> Model:
    """Write linear functions, β₁ … β_D and β₀ in a column each, as tensors of rank D + 1."""
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
        # Generalised cross-validation: the constant and the shrunk slopes cost freedom.
        freedom = 1 - (1 + float((values / (values + strength)).sum())) / n_rows
        if freedom <= 0:
            continue
        error = residual / freedom**2
        if error < best:
            best, chosen = error, vectors @ shrunk / scale
    return np.append(chosen, target_mean - mean @ chosen)

"""The linear trend under a loss: a penalised linear model, such as logistic regression.

It is fitted like everything else under a loss, by squares that touch it, from sums over the rows;
and it is a member like the trend of least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import Table
from polyadic.model.als import Model
from polyadic.model.cpd import Cores
from polyadic.model.losses import LossSum
from polyadic.model.normal import NormalEquations
from polyadic.rows.arrays import array_namespace, on_host, place_like
from polyadic.rows.rows import Rows
from polyadic.rows.view import Member, View
from polyadic.search.trend import LinearSums, additive_member, linear_columns, linear_features
from polyadic.sources.data import Data

_MOST_STEPS, _MOST_CAUTION = 20, 6
_TOL = 1e-6  # relative to the loss
MOST_OUTPUTS = 50  # of a row, beyond which there is no trend


def loss_trend(data: Data) -> Member:
    """Return the linear model of all responses on the inputs as the usual view shows them.

    Coefficients are penalised as those of scikit-learn's logistic regression are by default:
    half their squares, those of numbers in units of their deviation.
    """
    tables = linear_features(data)
    unit = data.total_weight / data.n_rows  # weights are relative
    coefficients = np.zeros((sum(table.n_basis for table in tables) + 1, data.n_targets))
    penalty: NDArray[np.float64] | None = None

    def view(values: NDArray[np.float64], caution: int = 0) -> View:
        around = replace(nothing, model=Model(tuple([each] for each in values.T), np.ones(1)))
        return replace(data.view, around=around, caution=caution)

    def objective(values: NDArray[np.float64]) -> float:
        ask = partial(linear_loss, view=view(values), tables=tables)
        found: LossSum = data.store.reduce("loss", ask)
        penalised = 0.0 if penalty is None else 0.5 * float((penalty @ values**2).sum())
        return found.value + penalised

    nothing = additive_member(data.view.inputs, tables, coefficients)
    value = objective(coefficients)
    for _ in range(_MOST_STEPS):
        before = value
        for caution in range(_MOST_CAUTION):
            ask = partial(working_sums, view=view(coefficients, caution), tables=tables)
            sums = data.store.reduce("trend", ask)
            if penalty is None:
                penalty = unit * _penalties(sums.equations[0], tables)
            columns = [_solve(equations, penalty) for equations in sums.equations]
            tried = np.column_stack(columns)
            reached = objective(tried)
            if reached <= value:
                coefficients, value = tried, reached
                break
        if not value < before * (1 - _TOL):
            break
    return additive_member(data.view.inputs, tables, coefficients)


def respond_linearly(F: Any, cores: Cores, *_: Any) -> Any:
    """Return the responses of a model whose one core is a column of coefficients."""
    return F @ place_like(cores[0], F)


def linear_loss(rows: Rows, first_row: int, view: View, tables: Sequence[Table]) -> LossSum:
    """Sum up the loss of a piece of rows, where they are."""
    F = linear_columns(view.inputs.apply(rows.X), tables)
    return view.loss_sum(rows, first_row, respond_linearly, F)


def working_sums(rows: Rows, first_row: int, view: View, tables: Sequence[Table]) -> LinearSums:
    """Sum up working responses and weights of a piece of rows, where they are."""
    xp, F = array_namespace(rows.X), linear_columns(view.inputs.apply(rows.X), tables)
    context = view.context(rows, F, respond_linearly)
    equations = []
    for target in range(view.n_outputs(rows.y.shape[1])):
        seen = view.see(rows, target, respond_linearly, F, context)
        weighted = F.T * seen.weight
        sums = on_host(weighted @ F), on_host(weighted @ seen.y)
        norm2 = float(xp.sum(seen.weight * seen.y**2))
        equations.append(NormalEquations(*sums, norm2, float(xp.sum(seen.weight))))
    return LinearSums(tuple(equations), len(rows))


def _penalties(equations: NormalEquations, tables: Sequence[Table]) -> NDArray[np.float64]:
    """Return the penalty of each coefficient: none on the constant, which comes last.

    Working weights at the start of a loss are all the same, so that deviations follow from them.
    """
    total = equations.total_weight
    mean = equations.gram[-1, :-1] / total
    variance = np.maximum(np.diagonal(equations.gram)[:-1] / total - mean**2, 0.0)
    is_number = [table.n_levels == 0 and i == 0 for table in tables for i in range(table.n_basis)]
    # A column whose spread is rounding is constant, and must not be free.
    constant = np.sqrt(variance) <= 1e-6 * np.abs(mean)
    variance = np.where(constant, np.maximum(mean**2, 1.0), variance)
    return np.append(np.where(is_number, variance, 1.0), 0.0)


def _solve(equations: NormalEquations, penalty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients of one response."""
    system = equations.gram + np.diag(penalty)
    units = 1 / np.sqrt(np.maximum(np.diagonal(system), np.finfo(float).tiny))
    scaled = system * np.outer(units, units)
    scaled.ravel()[:: len(scaled) + 1] += 1e-10
    return np.asarray(units * np.linalg.solve(scaled, units * equations.moment))

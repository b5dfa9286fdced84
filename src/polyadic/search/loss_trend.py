"""The linear trend under a loss: a penalised linear model, such as logistic regression.

It is fitted like everything else under a loss, by squares that touch it, from sums over the rows;
and it is a member like the trend of least squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import Table
from polyadic.model.losses import LossSum
from polyadic.model.normal import NormalEquations
from polyadic.rows.arrays import array_namespace, on_host
from polyadic.rows.rows import Rows
from polyadic.rows.view import Member, Respond, View
from polyadic.search.trend import LinearSums, additive_member, linear_features, look_up
from polyadic.sources.data import Data

_MOST_STEPS, _MOST_CAUTION = 20, 6
_TOL = 1e-6  # relative to the loss
MOST_OUTPUTS = 50  # of a row, beyond which there is no trend


def loss_trend(data: Data, compute: Compute) -> Member:
    """Return the linear model of all responses on the inputs as the usual view shows them.

    Coefficients are penalised as those of scikit-learn's logistic regression are by default:
    half their squares, those of numbers in units of their deviation.
    """
    tables = linear_features(data)
    respond = compute.spec.predict if data.is_remote else compute.predict
    unit = data.total_weight / data.n_rows  # weights are relative
    coefficients = np.zeros((sum(table.n_basis for table in tables) + 1, data.n_targets))
    penalty: NDArray[np.float64] | None = None

    def objective(values: NDArray[np.float64]) -> tuple[Member, float]:
        member = additive_member(data.view.inputs, tables, values)
        view = replace(data.view, around=member)
        found: LossSum = data.store.reduce("loss", partial(view.loss_sum, respond=respond))
        penalised = 0.0 if penalty is None else 0.5 * float((penalty @ values**2).sum())
        return member, found.value + penalised

    member, value = objective(coefficients)
    for _ in range(_MOST_STEPS):
        before = value
        for caution in range(_MOST_CAUTION):
            view = replace(data.view, around=member, caution=caution)
            ask = partial(working_sums, view=view, tables=tables, respond=respond)
            sums = data.store.reduce("trend", ask)
            if penalty is None:
                penalty = unit * _penalties(sums.equations[0], tables)
            columns = [_solve(equations, penalty) for equations in sums.equations]
            tried = np.column_stack(columns)
            candidate, reached = objective(tried)
            if reached <= value:
                coefficients, member, value = tried, candidate, reached
                break
        if not value < before * (1 - _TOL):
            break
    return member


def working_sums(
    rows: Rows, first_row: int, view: View, tables: Sequence[Table], respond: Respond
) -> LinearSums:
    """Sum up working responses and weights of a piece of rows, where they are."""
    xp, X = array_namespace(rows.X), view.inputs.apply(rows.X)
    ones = xp.ones((len(X), 1), dtype=X.dtype, device=X.device)
    F = xp.concat([*(look_up(table, X[:, d]) for d, table in enumerate(tables)), ones], axis=1)
    context = view.context(rows, X, respond)
    equations = []
    for target in range(view.n_outputs(rows.y.shape[1])):
        seen = view.see(rows, target, respond, X, context)
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

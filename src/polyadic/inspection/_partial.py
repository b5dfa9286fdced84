"""Partial dependence in closed form.

The model is a sum of products over inputs, f(x) = Re Σₚ λₚ Σᵣ Π_d a_dpr(x_d).  Averaged over
rows with some inputs held fixed, the fixed inputs come out of the mean:

    Re Σₚ λₚ Σᵣ a_dpr(g) · mean over rows of Π_{e≠d} a_epr(x_e)

so that N rows and G grid points cost N + G evaluations and not N·G, and the result is the
exact average of the model's predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.inspection._checks import check_arguments, complete_groups, input_names
from polyadic.inspection._terms import Group, blocks

_MAX_ROWS = 20_000  # at a time: their terms are held in memory


@dataclass(frozen=True)
class PartialDependence:
    """How a prediction depends on one or two inputs, the others averaged over rows.

    Parameters
    ----------
    inputs : tuple of int, or of tuples of int
        The inputs that vary; a tuple for columns that are set together.
    names : tuple of str
        Their names.
    grids : tuple of ndarray
        The values that each takes, of shape (n_points,) or (n_points, n_columns); codes of
        levels for a category, in the order of ``schema_``.
    values : ndarray
        The mean prediction, one axis for each grid.
    """

    inputs: tuple[int | Group, ...]
    names: tuple[str, ...]
    grids: tuple[NDArray[np.float64], ...]
    values: NDArray[np.float64]


def partial_dependence(
    estimator: Any,
    X: Any,
    inputs: Any,
    *,
    grids: Sequence[Any] | None = None,
    resolution: int = 50,
    target: int = 0,
) -> PartialDependence:
    """Return the mean prediction over the rows of `X` with one or two inputs held fixed.

    Parameters
    ----------
    estimator : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        A fitted estimator.
    X : array-like of shape (n_samples, n_features)
        The rows to average over, such as `predict` takes.
    inputs : int or str, or one or two of them
        Columns, by place or by name.  A list in the place of a column names columns that
        are set together: ``[["colour=red", "colour=blue"]]`` is one category.
    grids : sequence of array-like, optional
        The values of each input; `resolution` points over its range in `X` by default.  The
        values of columns that are set together are rows, by default those that `X` has.
    resolution : int
        Points of a grid.
    target : int
        Which target, where there are several.

    Returns
    -------
    result : PartialDependence
        Grids and mean predictions.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import partial_dependence
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(80, n_features=5, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=3, n_basis=4, random_state=0).fit(X, y)
    >>> partial_dependence(model, X, 3, resolution=5).values.shape
    (5,)
    >>> partial_dependence(model, X, [[0, 1]], grids=[[[0.0, 0.5], [1.0, 0.5]]]).values.shape
    (2,)
    """
    X, chosen, target = check_arguments(estimator, X, inputs, target)
    names = input_names(estimator)
    if len(chosen) > 2:
        raise ValueError(
            f"`inputs` must name one input or two, got {len(chosen)}: {inputs!r}. Ask for each "
            "pair by itself."
        )
    if grids is None:
        n_levels = schema_of(estimator).inputs.n_levels
        grids = [
            _default_grid(X[:, list(group)], resolution, n_levels[group[0]]) for group in chosen
        ]
    points = _check_grids(chosen, grids)
    parts = [X[first : first + _MAX_ROWS] for first in range(0, len(X), _MAX_ROWS)]
    values = sum(
        len(part) / len(X) * mean_predictions(estimator, part, chosen, points, target)
        for part in parts
    )
    return PartialDependence(
        tuple(group[0] if len(group) == 1 else group for group in chosen),
        tuple(", ".join(names[place] for place in group) for group in chosen),
        tuple(p[:, 0] if len(g) == 1 else p for g, p in zip(chosen, points, strict=True)),
        np.asarray(values),
    )


def mean_predictions(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    points: Sequence[NDArray[np.float64]],
    target: int,
) -> NDArray[np.float64]:
    """Sum the closed form over all blocks, in the target's units."""
    shape = tuple(len(values) for values in points)
    total = np.full(shape, float(estimator.target_scaling_.mean[target]))
    groups = complete_groups(chosen, X.shape[1])
    for block in blocks(estimator, X, groups, points, target):
        others = block.mean_without(range(len(chosen)))
        rank = next(iter(block.rows.values())).shape[1]
        # A group without cores in this block has no terms: it is constant there.
        held = [block.points.get(g, np.ones((n, rank))) for g, n in enumerate(shape)]
        equation = "gr,r->g" if len(held) == 1 else "gr,hr,r->gh"
        total += block.weight * np.einsum(equation, *held, np.broadcast_to(others, rank)).real
    return total


def _default_grid(
    columns: NDArray[np.float64], resolution: int, n_levels: int
) -> NDArray[np.float64]:
    """Return values from the least to the greatest, or the codes of all levels of a category."""
    columns = columns[~np.isnan(columns).any(axis=1)]
    if columns.shape[1] > 1:
        return np.unique(columns, axis=0)
    if n_levels:
        return np.arange(n_levels, dtype=np.float64)
    if not len(columns):
        return np.zeros(1)  # of an input without a value, which takes no part
    return np.linspace(columns.min(), columns.max(), resolution)


def _check_grids(chosen: Sequence[Group], grids: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return each grid as rows, one column for each input of its group."""
    if len(grids) != len(chosen):
        raise ValueError(
            f"`grids` must have one grid for each of the {len(chosen)} inputs, got {len(grids)}. "
            "Pass a list of grids, or None."
        )
    points = []
    for group, grid in zip(chosen, grids, strict=True):
        values = np.asarray(grid, dtype=np.float64)
        rows = values[:, None] if values.ndim == 1 and len(group) == 1 else values
        if rows.ndim != 2 or rows.shape[1] != len(group) or not len(rows):
            shape = "(n_points,)" if len(group) == 1 else f"(n_points, {len(group)})"
            raise ValueError(
                f"`grids` must hold values of shape {shape} for {len(group)} column"
                f"{'s' * (len(group) > 1)}, got shape {values.shape}. Pass a row for each point."
            )
        if not np.isfinite(rows).all():
            raise ValueError("`grids` must be finite, got NaN or infinity. Remove these points.")
        points.append(rows)
    return points

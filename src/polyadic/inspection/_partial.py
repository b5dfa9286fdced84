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
from sklearn.utils.validation import check_array, check_is_fitted

from polyadic.features import FeatureMap, TensorLayout
from polyadic.model.cpd import Cores


@dataclass(frozen=True)
class PartialDependence:
    """How a prediction depends on one or two inputs, the others averaged over rows.

    Parameters
    ----------
    inputs : tuple of int
        The inputs that vary.
    names : tuple of str
        Their names.
    grids : tuple of ndarray
        The values that each takes.
    values : ndarray
        The mean prediction, one axis for each grid.
    """

    inputs: tuple[int, ...]
    names: tuple[str, ...]
    grids: tuple[NDArray[np.float64], ...]
    values: NDArray[np.float64]


def partial_dependence(
    estimator: Any,
    X: Any,
    inputs: int | str | Sequence[int | str],
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
        The rows to average over.
    inputs : int or str, or one or two of them
        Columns, by place or by name.
    grids : sequence of array-like, optional
        The values of each input; `resolution` points over its range in `X` by default.
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
    """
    check_is_fitted(estimator)
    names = _names(estimator)
    X = check_array(X, dtype=np.float64)
    chosen = _places(names, inputs)
    if grids is None:
        ends = [(X[:, place].min(), X[:, place].max()) for place in chosen]
        grids = [np.linspace(low, high, resolution) for low, high in ends]
    points = [np.asarray(grid, dtype=np.float64) for grid in grids]
    values = _mean_predictions(estimator, X, chosen, points, target)
    return PartialDependence(
        tuple(chosen), tuple(names[place] for place in chosen), tuple(points), values
    )


def _names(estimator: Any) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    count = estimator.n_features_in_
    return [f"x{place}" for place in range(count)] if names is None else [str(n) for n in names]


def _places(names: list[str], inputs: Any) -> list[int]:
    """Return where one input is, or two."""
    entries: list[Any] = [inputs] if isinstance(inputs, int | str | np.integer) else list(inputs)
    places = [_place(names, entry) for entry in entries]
    if len(places) not in (1, 2) or len(set(places)) != len(places):
        raise ValueError(
            f"`inputs` must name one input or two different ones, got {inputs!r}. "
            "Make one display for each pair."
        )
    return places


def _place(names: list[str], entry: int | str) -> int:
    if isinstance(entry, str) and entry in names:
        return names.index(entry)
    if not isinstance(entry, str) and 0 <= entry < len(names):
        return int(entry)
    raise ValueError(f"`inputs` must be among {', '.join(names)}, got {entry!r}.")


def _mean_predictions(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: list[int],
    grids: list[NDArray[np.float64]],
    target: int,
) -> NDArray[np.float64]:
    """Sum the closed form over members and maps, in the target's units."""
    held = []
    for place, grid in zip(chosen, grids, strict=True):
        rows = np.repeat(X[:1], len(grid), axis=0)
        rows[:, place] = grid
        held.append(rows)
    total = np.zeros(tuple(len(grid) for grid in grids))
    for member in estimator.members_:
        cores = member.model.cores[target]
        scaled, points = member.inputs.apply(X), [member.inputs.apply(rows) for rows in held]
        for feature_map, weight in zip(member.layout.maps, member.model.map_weights, strict=True):
            if weight == 0 or member.share == 0:
                continue
            others = _terms(member.layout, feature_map, cores, scaled, None, chosen).mean(axis=0)
            fixed = [
                _terms(member.layout, feature_map, cores, rows, place, [])
                for rows, place in zip(points, chosen, strict=True)
            ]
            equation = "gr,r->g" if len(fixed) == 1 else "gr,hr,r->gh"
            mean = np.einsum(equation, *fixed, others)
            total += member.share * weight * mean.real
    scaling = estimator.target_scaling_
    flat = np.zeros((total.size, len(estimator.members_[0].model.cores)))
    flat[:, target] = total.ravel()
    return np.asarray(scaling.undo(flat)[:, target].reshape(total.shape))


def _terms(
    layout: TensorLayout,
    feature_map: FeatureMap,
    cores: Cores,
    rows: NDArray[np.float64],
    only: int | None,
    without: list[int],
) -> NDArray[Any]:
    """Return n × R products over the cores of one input, or of all but some."""
    product = np.ones((len(rows), cores[0].shape[1]), dtype=cores[0].dtype)
    factors = layout.factors(rows, feature_map)
    for owner, factor, core in zip(layout.core_inputs, factors, cores, strict=True):
        if owner == only or (only is None and owner not in without):
            product = product * (factor @ core)
    return product

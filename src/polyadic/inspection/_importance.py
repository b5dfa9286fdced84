"""Which inputs matter, and which act together, where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._checks import check_arguments, complete_groups
from polyadic.inspection._inputs import encode_points, places_of
from polyadic.inspection._partial import mean_predictions
from polyadic.inspection._terms import Group, blocks, is_filled, predict_rows, product


@dataclass(frozen=True)
class InputEffects:
    """Partial dependence of many inputs at once.

    Parameters
    ----------
    curves : list of ndarray
        The mean prediction at the points asked for, input by input.
    at_rows : ndarray of shape (n_inputs, n_samples)
        The mean prediction at each row's own value of the input.
    predicted : ndarray of shape (n_samples,)
        The prediction of each row.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import input_effects
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> effects = input_effects(model, X, [0, 1])
    >>> effects.at_rows.shape, effects.importances.shape
    ((2, 60), (2,))
    """

    curves: list[NDArray[np.float64]]
    at_rows: NDArray[np.float64]
    predicted: NDArray[np.float64]

    @property
    def importances(self) -> NDArray[np.float64]:
        """Standard deviation of each input's effect over the rows, in the target's units."""
        return np.asarray(self.at_rows.std(axis=1))


def input_effects(
    estimator: Any,
    X: Any,
    inputs: Sequence[Any] | None = None,
    *,
    points: Sequence[Any] = (),
    target: int = 0,
) -> InputEffects:
    """Return the partial dependence of all inputs, each at points and at the rows' own values.

    An input's importance is the standard deviation of its effect over the rows: a value that
    few rows have counts little, however far the curve goes there.

    Parameters
    ----------
    estimator : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows.
    inputs : sequence, optional
        Columns, by place or by name, or lists of columns that are set together; by default
        every column by itself.  The parts of a date go together, unless one is named.
    points : sequence of array-like of shape (n_points, n_columns), optional
        Where the curves of the inputs are wanted, in their order and in the terms of `X`.
    target : int
        Which target, where there are several.

    Returns
    -------
    effects : InputEffects
        Curves, effects at the rows, and importances.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import input_effects
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(200, n_features=6, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(X, y)
    >>> int(input_effects(model, X).importances.argmin())
    5
    """
    X, chosen, target = check_arguments(estimator, X, inputs, target)
    grids = [encode_points(chosen[i], found, "points") for i, found in enumerate(points)]
    return find_effects(estimator, X, [places_of(group) for group in chosen], grids, target)


def find_effects(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    grids: Sequence[NDArray[np.float64]] = (),
    target: int = 0,
) -> InputEffects:
    """Return the effects of inputs by their places, over rows as the model sees them."""
    mean = float(estimator.target_scaling_.mean[target])
    pairs = zip(chosen, grids, strict=False)
    curves = [mean_predictions(estimator, X, [group], [grid], target) for group, grid in pairs]
    at_rows = np.full((len(chosen), len(X)), mean)
    predicted = np.full(len(X), mean)
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        for group, others in block.without_each():
            if group < len(chosen):
                mean_others = block.weight * others.mean(axis=0)
                at_rows[group] += _sum_terms(block.rows[group], mean_others)
        own = block.weight * product(list(block.rows.values())).sum(axis=1).real
        predicted += own
        whole = float(own.mean())
        for group in set(range(len(chosen))) - set(block.rows):
            at_rows[group] += whole
    return InputEffects(curves, at_rows, predicted)


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    inputs: Sequence[Any] | None = None,
    *,
    n_repeats: int = 5,
    random_state: int = 0,
    target: int = 0,
) -> NDArray[np.float64]:
    """Return by how much the root mean squared error grows when inputs are shuffled.

    Shuffling takes one factor of the model's product from other rows, so that nothing is
    predicted anew but rows with gaps of numbers.

    Parameters
    ----------
    estimator : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        Rows that the model has not seen.
    y : array-like of shape (n_samples,)
        Their targets.
    inputs : sequence, optional
        Columns, by place or by name, or lists of columns that are shuffled together; by
        default every column by itself.  The parts of a date go together, unless one is named.
    n_repeats : int
        How often each is shuffled.
    random_state : int
        Seed of the shuffles.
    target : int
        Which target of the model `y` is.

    Returns
    -------
    growth : ndarray of shape (n_inputs, n_repeats)
        Growth of the error in the target's units.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import permutation_importance
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(200, n_features=6, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(X, y)
    >>> permutation_importance(model, X, y).shape
    (6, 5)
    """
    X, chosen, target = check_arguments(estimator, X, inputs, target)
    y = _check_column(y, len(X))
    groups = [places_of(group) for group in chosen]
    return find_growths(estimator, X, y, groups, n_repeats, random_state, target)


def find_growths(
    estimator: Any,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    chosen: Sequence[Group],
    n_repeats: int = 5,
    random_state: int = 0,
    target: int = 0,
) -> NDArray[np.float64]:
    """Return the growth of the error by the places of inputs, over rows as the model sees them."""
    rng = np.random.RandomState(random_state)
    orders = [rng.permutation(len(X)) for _ in range(n_repeats)]
    mean = float(estimator.target_scaling_.mean[target])
    plain = np.full(len(X), mean)
    shuffled = np.full((len(chosen), n_repeats, len(X)), mean)
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        for group, others in block.without_each():
            terms = block.rows[group]
            whole = block.weight * np.einsum("nr,nr->n", others, terms).real
            for repeat, order in enumerate(orders if group < len(chosen) else []):
                response = np.einsum("nr,nr->n", others, terms[order]).real
                shuffled[group, repeat] += block.weight * response
        plain += whole
        shuffled[[g for g in range(len(chosen)) if g not in block.rows]] += whole
    filled = is_filled(estimator, X)
    for repeat, order in enumerate(orders if filled.any() else []):
        some = filled | filled[order]
        for index, places in enumerate(chosen):
            rows = X[some]
            rows[:, list(places)] = X[order[some]][:, list(places)]
            shuffled[index, repeat, some] = predict_rows(estimator, rows, target)
    return np.asarray(_rmse(y, shuffled) - _rmse(y, plain))


def interaction_strengths(
    estimator: Any, X: Any, inputs: Sequence[Any], *, target: int = 0
) -> dict[tuple[int, int], float]:
    """Return how much each pair of inputs acts together beyond the sum of the two.

    That is the standard deviation over the rows of the partial dependence of the pair less
    those of its two inputs, in the target's units; zero where the two just add up.

    Parameters
    ----------
    estimator : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows.
    inputs : sequence
        Columns, by place or by name, or lists of columns that are set together.  The parts of a
        date go together, unless one is named.
    target : int
        Which target, where there are several.

    Returns
    -------
    strengths : dict
        For each pair of places in `inputs`, its strength.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import interaction_strengths
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(300, n_features=5, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=6, n_basis=4, random_state=0).fit(X, y)
    >>> strengths = interaction_strengths(model, X, range(5))
    >>> max(strengths, key=strengths.get)  # Friedman's x0·x1
    (0, 1)
    """
    X, chosen, target = check_arguments(estimator, X, inputs, target)
    return find_strengths(estimator, X, [places_of(group) for group in chosen], target)


def find_strengths(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], target: int = 0
) -> dict[tuple[int, int], float]:
    """Return the strengths of pairs by the places of inputs, over rows as the model sees them."""
    pairs = list(combinations(range(len(chosen)), 2))
    single = find_effects(estimator, X, chosen, target=target).at_rows
    joint = np.zeros((len(pairs), len(X)))
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        rest = block.rows.get(len(chosen), np.ones_like(next(iter(block.rows.values()))))
        terms = [block.rows.get(group, np.ones_like(rest)) for group in range(len(chosen))]
        for index, (first, second) in enumerate(pairs):
            others = rest
            for group in set(range(len(chosen))) - {first, second}:
                others = others * terms[group]
            mean_others = block.weight * others.mean(axis=0)
            joint[index] += _sum_terms(terms[first] * terms[second], mean_others)
    return {
        pair: float(np.std(joint[index] - single[pair[0]] - single[pair[1]]))
        for index, pair in enumerate(pairs)
    }


def _sum_terms(terms: NDArray[Any], factor: NDArray[Any]) -> NDArray[np.float64]:
    """Return the real part of the sum over r, row by row."""
    # Many small products: threads of a BLAS cost more than they bring.
    return np.asarray(np.einsum("nr,r->n", terms, factor).real)


def _check_column(y: Any, n_rows: int) -> NDArray[np.float64]:
    column = np.asarray(y, dtype=np.float64)
    if column.shape != (n_rows,) or not np.isfinite(column).all():
        raise ValueError(
            f"`y` must be a finite number for each of the {n_rows} rows of `X`, got shape "
            f"{column.shape}. Pass one target."
        )
    return column


def _rmse(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.mean((predicted - y) ** 2, axis=-1)))

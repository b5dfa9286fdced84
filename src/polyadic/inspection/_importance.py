"""Which inputs matter, where the rows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from polyadic.inspection._checks import check_arguments, complete_groups
from polyadic.inspection._inputs import encode_points, places_of
from polyadic.inspection._losses import measure_of
from polyadic.inspection._means import at_own_values, mean_outputs
from polyadic.inspection._outputs import Output, check_output
from polyadic.inspection._terms import (
    Group,
    believe,
    blocks,
    distance_of,
    has_directions,
    is_entangled,
    product,
    respond_rows,
)

_MAX_AVERAGED = 1000  # rows that effects under a link are averaged over
MAX_BY_HAND = 50  # the same where every row must be predicted at every value


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

    All have a last axis more for the classes, where there are several.

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
        """Standard deviation of each input's effect over the rows, in units of the prediction.

        Of several classes it is the root of the sum of their squares.
        """
        spread = self.at_rows.std(axis=1)
        return np.asarray(spread if spread.ndim == 1 else np.sqrt((spread**2).sum(axis=1)))


def input_effects(
    estimator: Any,
    X: Any,
    inputs: Sequence[Any] | None = None,
    *,
    points: Sequence[Any] = (),
    target: Any = None,
    response_method: str = "auto",
) -> InputEffects:
    """Return the partial dependence of all inputs, each at points and at the rows' own values.

    An input's importance is the standard deviation of its effect over the rows: a value that
    few rows have counts little, however far the curve goes there.  Under a link, which classifiers
    have, effects at the rows' own values are means over at most 1,000 rows, drawn at random.

    Parameters
    ----------
    estimator : regressor or classifier of this package
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows.
    inputs : sequence, optional
        Columns, by place or by name, or lists of columns that are set together; by default
        every column by itself.  The parts of a date go together, unless one is named.
    points : sequence of array-like of shape (n_points, n_columns), optional
        Where the curves of the inputs are wanted, in their order and in the terms of `X`.
    target : int or label, optional
        Which target of a regressor, by its place, the first by default; which class of a
        classifier, by its label, the second of two or all of several by default.
    response_method : {"auto", "predict_proba", "decision_function"}
        What the model predicts, or what its link is applied to, as in `partial_dependence`.

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
    X, chosen, output = check_arguments(estimator, X, inputs, target, response_method)
    grids = [encode_points(chosen[i], found, "points") for i, found in enumerate(points)]
    effects = find_effects(estimator, X, [places_of(group) for group in chosen], grids, output)
    return InputEffects(
        [output.shape(curve) for curve in effects.curves],
        output.shape(effects.at_rows),
        output.shape(effects.predicted),
    )


def find_effects(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    grids: Sequence[NDArray[np.float64]],
    output: Output,
) -> InputEffects:
    """Return the effects of inputs by their places, over rows as the model sees them.

    All have a last axis for the columns of the output.
    """
    pairs = zip(chosen, grids, strict=False)
    curves = [mean_outputs(estimator, X, [group], [grid], output) for group, grid in pairs]
    turned = has_directions(estimator)
    if output.is_linear and not turned:
        each = [effects_of_response(estimator, X, chosen, t) for t in output.responses]
        at_rows, predicted = (np.stack(part, axis=-1) for part in zip(*each, strict=True))
        return InputEffects(curves, output.sign * at_rows, output.sign * predicted)
    some = some_rows(X, MAX_BY_HAND if turned else _MAX_AVERAGED)

    def means(group: Group, at: NDArray[np.float64]) -> NDArray[np.float64]:
        return mean_outputs(estimator, some, [group], [at], output)

    found = [at_own_values(X, group, partial(means, group)) for group in chosen]
    responses = respond_rows(estimator, X, moderate=True)[:, list(output.responses)]
    return InputEffects(curves, np.stack(found), output.finish(responses))


def some_rows(X: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return rows that stand for all, in their order."""
    return X[np.sort(np.random.RandomState(0).permutation(len(X))[:most])]


def effects_of_response(
    estimator: Any, X: NDArray[np.float64], chosen: Sequence[Group], target: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the effects at rows, and the responses, in closed form."""
    mean = float(estimator.target_scaling_.mean[target])
    at_rows = np.full((len(chosen), len(X)), mean)
    predicted = np.full(len(X), mean)
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        for group, others in block.without_each():
            if group < len(chosen):
                mean_others = block.weight * others.mean(axis=0)
                at_rows[group] += sum_terms(block.rows[group], mean_others)
        own = block.weight * product(list(block.rows.values())).sum(axis=1).real
        predicted += own
        whole = float(own.mean())
        for group in set(range(len(chosen))) - set(block.rows):
            at_rows[group] += whole
    return at_rows, predicted


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
    """Return by how much the error of a model grows when inputs are shuffled.

    The error is that of the model's own loss: the log-loss of a classifier, and of a regressor the
    root mean squared error, the mean absolute error, the root of the mean Huber loss, the mean
    pinball loss, or the mean deviance under the Poisson and gamma losses.  Shuffling takes one
    factor of the model's product from other rows, so that nothing is predicted anew but rows with
    gaps of numbers, and models with directions.

    Parameters
    ----------
    estimator : regressor or classifier of this package
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        Rows that the model has not seen.
    y : array-like of shape (n_samples,)
        Their targets, or labels.
    inputs : sequence, optional
        Columns, by place or by name, or lists of columns that are shuffled together; by
        default every column by itself.  The parts of a date go together, unless one is named.
    n_repeats : int
        How often each is shuffled.
    random_state : int
        Seed of the shuffles.
    target : int
        Which target of a regressor `y` is.

    Returns
    -------
    growth : ndarray of shape (n_inputs, n_repeats)
        Growth of the error, for each shuffle.

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
    classes = is_classifier(estimator)
    X, chosen, output = check_arguments(estimator, X, inputs, None if classes else target)
    y = find_places(estimator, y, len(X)) if classes else check_column(y, len(X))
    groups = [places_of(group) for group in chosen]
    return find_growths(estimator, X, y, groups, n_repeats, random_state, output).values


@dataclass(frozen=True)
class Growths:
    """Growth of an error, a row for each input and a column for each shuffle.

    `standard_errors` are those of the mean over the shuffles, as a number for all rows there are.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]


def find_growths(
    estimator: Any,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    chosen: Sequence[Group],
    n_repeats: int = 5,
    random_state: int = 0,
    output: Output | None = None,
) -> Growths:
    """Return the growth of the error by the places of inputs, over rows as the model sees them.

    Labels of classes are their places.
    """
    rng = np.random.RandomState(random_state)
    orders = [rng.permutation(len(X)) for _ in range(n_repeats)]
    output = whole_output(estimator, output)
    measure = measure_of(estimator, output.responses[0])
    each = [_shuffled_responses(estimator, X, chosen, orders, t) for t in output.responses]
    plain, shuffled = (np.stack(found, axis=-1) for found in zip(*each, strict=True))
    everything = range(X.shape[1])
    plain = believe(estimator, plain, distance_of(estimator, X, everything), output.responses)
    before = measure.of_rows(y, output.finish(plain))
    values, errors = np.empty((len(chosen), n_repeats)), np.empty(len(chosen))
    for group, responses in enumerate(_refill(estimator, X, chosen, orders, shuffled, output)):
        own = distance_of(estimator, X, chosen[group])
        others = distance_of(estimator, X, set(everything) - set(chosen[group]))
        away = np.stack([others + own[order] for order in orders])
        responses = believe(estimator, responses, away, output.responses)
        after = measure.of_rows(y, output.finish(responses))
        means = after.mean(axis=1)
        values[group] = measure.finish(means) - measure.finish(before.mean())
        # What each row does to the growth, to first order, says how it varies with the rows.
        share = (measure.slope(means)[:, None] if measure.is_root else 1.0) * after
        of_rows = share.mean(axis=0) - measure.slope(before.mean()) * before
        by_shuffle = values[group].var(ddof=1) / n_repeats if n_repeats > 1 else 0.0
        errors[group] = np.sqrt(of_rows.var() / len(X) + by_shuffle)
    return Growths(values, errors)


def whole_output(estimator: Any, output: Output | None = None) -> Output:
    """Return the prediction itself: one target of a regressor, or all classes."""
    if not is_classifier(estimator):
        return check_output(estimator, 0) if output is None else output
    columns = range(len(estimator.classes_))
    responses = range(len(estimator.target_scaling_.mean))
    return Output(estimator._link, tuple(responses), tuple(columns))


def _shuffled_responses(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    orders: Sequence[NDArray[np.int64]],
    target: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return responses as rows are, and with each input shuffled in each order."""
    if has_directions(estimator):  # all of them are predicted anew
        plain = respond_rows(estimator, X)[:, target]
        return plain, np.zeros((len(chosen), len(orders), len(X)))
    mean = float(estimator.target_scaling_.mean[target])
    plain = np.full(len(X), mean)
    shuffled = np.full((len(chosen), len(orders), len(X)), mean)
    for block in blocks(estimator, X, complete_groups(chosen, X.shape[1]), [], target):
        for group, others in block.without_each():
            terms = block.rows[group]
            whole = block.weight * np.einsum("nr,nr->n", others, terms).real
            for repeat, order in enumerate(orders if group < len(chosen) else []):
                response = np.einsum("nr,nr->n", others, terms[order]).real
                shuffled[group, repeat] += block.weight * response
        plain += whole
        shuffled[[g for g in range(len(chosen)) if g not in block.rows]] += whole
    return plain, shuffled


def _refill(
    estimator: Any,
    X: NDArray[np.float64],
    chosen: Sequence[Group],
    orders: Sequence[NDArray[np.int64]],
    shuffled: NDArray[np.float64],
    output: Output,
) -> Iterator[NDArray[np.float64]]:
    """Yield the responses of each group, those that are no products predicted anew."""
    filled = is_entangled(estimator, X)
    for places, responses in zip(chosen, shuffled, strict=True):
        for repeat, order in enumerate(orders if filled.any() else []):
            some = filled | filled[order]
            rows = X[some]
            rows[:, list(places)] = X[order[some]][:, list(places)]
            responses[repeat, some] = respond_rows(estimator, rows)[:, list(output.responses)]
        yield responses


def sum_terms(terms: NDArray[Any], factor: NDArray[Any]) -> NDArray[np.float64]:
    """Return the real part of the sum over r, row by row."""
    # Many small products: threads of a BLAS cost more than they bring.
    return np.asarray(np.einsum("nr,r->n", terms, factor).real)


def check_column(y: Any, n_rows: int) -> NDArray[np.float64]:
    """Return targets as numbers, one for each row."""
    column = np.asarray(y, dtype=np.float64)
    if column.shape != (n_rows,) or not np.isfinite(column).all():
        raise ValueError(
            f"`y` must be a finite number for each of the {n_rows} rows of `X`, got shape "
            f"{column.shape}. Pass one target."
        )
    return column


def find_places(estimator: Any, y: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the place of each row's label among the classes."""
    places = {label: place for place, label in enumerate(estimator.classes_.tolist())}
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"`y` must be a label for each of the {n_rows} rows of `X`, got shape {labels.shape}. "
            "Pass one column."
        )
    unknown = sorted({repr(label) for label in labels.tolist() if label not in places})
    if unknown:
        raise ValueError(
            f"`y` must hold classes of the fit, got {', '.join(unknown[:5])}. Leave these rows out."
        )
    return np.array([places[label] for label in labels.tolist()], dtype=np.float64)

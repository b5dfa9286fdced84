"""Partial dependence: mean predictions where one or two inputs are held fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._checks import check_arguments
from polyadic.inspection._inputs import Input, encode_points, places_of
from polyadic.inspection._means import mean_outputs
from polyadic.inspection._terms import Group


@dataclass(frozen=True)
class PartialDependence:
    """How a prediction depends on one or two inputs, the others averaged over rows.

    Parameters
    ----------
    inputs : tuple of int, or of tuples of int
        Places of the inputs that vary, as in `inputs_`; a tuple for columns that are set together.
    names : tuple of str
        Their names.
    grids : tuple of ndarray
        The values that each takes, of shape (n_points,) or (n_points, n_columns): numbers, levels
        or dates.  A gap is NaN, None or NaT, and stands last.
    labels : tuple of list of str
        Names of the values of what has levels, or is set together; empty for a curve.
    values : ndarray
        The mean prediction, one axis for each grid, and a last one for the classes where there
        are several.
    classes : tuple of str
        Names of these classes; empty where values are of one target or class.
    label : str
        What the values are: "mean prediction", "mean probability of yes", …

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.inspection import partial_dependence
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> found = partial_dependence(model, X, [3], resolution=5)
    >>> found.names, found.values.shape
    (('x3',), (5,))
    """

    inputs: tuple[int | Group, ...]
    names: tuple[str, ...]
    grids: tuple[NDArray[Any], ...]
    labels: tuple[list[str], ...]
    values: NDArray[np.float64]
    classes: tuple[str, ...] = ()
    label: str = "mean prediction"


def partial_dependence(
    estimator: Any,
    X: Any,
    inputs: Any,
    *,
    grids: Sequence[Any] | None = None,
    resolution: int = 50,
    target: Any = None,
    response_method: str = "auto",
) -> PartialDependence:
    """Return the mean prediction over the rows of `X` with one or two inputs held fixed.

    Of a classifier that is the mean probability of a class, and of a regressor under the Poisson
    or gamma loss the mean of what it predicts: each row is predicted, and then the mean is taken.
    The result is exact, over all rows.

    Parameters
    ----------
    estimator : regressor or classifier of this package
        A fitted estimator.
    X : data frame or array-like of shape (n_samples, n_features)
        The rows to average over, such as `predict` takes.
    inputs : int or str, or one or two of them
        Columns, by place or by name.  A list in the place of a column names columns that
        are set together.  Of a date each part is an input: ``"when"`` is time itself, and
        ``"when: weekday"`` its weekday.
    grids : sequence of array-like, optional
        The values of each input, in the terms of `X`.  By default `resolution` points over its
        range in `X`, or the 20 levels of a category that the fit saw most often, and a gap where
        the fit saw gaps.  The values of columns that are set together are rows, by default those
        that `X` has.
    resolution : int
        Points of a grid.
    target : int or label, optional
        Which target of a regressor, by its place, the first by default; which class of a
        classifier, by its label, the second of two or all of several by default.
    response_method : {"auto", "predict_proba", "decision_function"}
        "auto" is what the model predicts: numbers in the target's units, or probabilities.
        "decision_function" is what the link is applied to, where effects add up: the log odds of
        two classes, the score of each of several, the logarithm under a log link.

    Returns
    -------
    result : PartialDependence
        Grids and mean predictions.

    Examples
    --------
    >>> import numpy as np
    >>> import polyadic
    >>> from polyadic.inspection import partial_dependence
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(80, n_features=5, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=3, n_basis=4, random_state=0).fit(X, y)
    >>> partial_dependence(model, X, 3, resolution=5).values.shape
    (5,)
    >>> partial_dependence(model, X, [[0, 1]], grids=[[[0.0, 0.5], [1.0, 0.5]]]).values.shape
    (2,)

    A category has its levels, and a column with gaps has one point more:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None, 3.0] * 10, "colour": list("abab") * 10})
    >>> model = polyadic.FeatureLearningRegressor(effort=0.2, random_state=0)
    >>> model = model.fit(frame, frame["size"].fillna(5) + (frame["colour"] == "a"))
    >>> partial_dependence(model, frame, "colour").labels
    (['a', 'b'],)
    >>> partial_dependence(model, frame, "size", resolution=3).grids
    (array([ 1.,  2.,  3., nan]),)

    Of a classifier it is a probability:

    >>> model = polyadic.FeatureLearningClassifier(effort=0.2, random_state=0)
    >>> model = model.fit(X, np.where(y > 14, "high", "low"))
    >>> found = partial_dependence(model, X, 3, resolution=5, target="high")
    >>> found.label, bool(np.all((found.values > 0) & (found.values < 1)))
    ('mean probability of high', True)
    """
    X, chosen, output = check_arguments(estimator, X, inputs, target, response_method, by_part=True)
    if len(chosen) > 2:
        raise ValueError(
            f"`inputs` must name one input or two, got {len(chosen)}: {inputs!r}. Ask for each "
            "pair by itself."
        )
    groups = [places_of(group) for group in chosen]
    if grids is None:
        points = [_default_points(group, X, resolution) for group in chosen]
    else:
        points = _check_grids(chosen, grids)
    pairs = list(zip(chosen, points, strict=True))
    return PartialDependence(
        tuple(places[0] if len(places) == 1 else places for places in groups),
        tuple(", ".join(each.name for each in group) for group in chosen),
        tuple(_decode(group, found) for group, found in pairs),
        tuple(_write(group, found) for group, found in pairs),
        output.shape(mean_outputs(estimator, X, groups, points, output)),
        output.names,
        output.label,
    )


def _default_points(
    group: Sequence[Input], X: NDArray[np.float64], resolution: int
) -> NDArray[np.float64]:
    if len(group) == 1:
        return group[0].choose_points(group[0].values(X), resolution)[:, None]
    columns = X[:, places_of(group)]
    # Gaps are all alike, and come last.
    rows = np.unique(np.where(np.isnan(columns), np.inf, columns), axis=0)
    return np.where(np.isinf(rows), np.nan, rows)


def _check_grids(
    chosen: Sequence[Sequence[Input]], grids: Sequence[Any]
) -> list[NDArray[np.float64]]:
    """Return each grid as rows, one column for each input of its group."""
    if len(grids) != len(chosen):
        raise ValueError(
            f"`grids` must have one grid for each of the {len(chosen)} inputs, got {len(grids)}. "
            "Pass a list of grids, or None."
        )
    return [encode_points(group, g, "grids") for group, g in zip(chosen, grids, strict=True)]


def _decode(group: Sequence[Input], points: NDArray[np.float64]) -> NDArray[Any]:
    """Return points in the users' terms."""
    columns = [each.decode(points[:, [place]]) for place, each in enumerate(group)]
    if len(columns) == 1:
        return columns[0]
    plain = all(column.dtype.kind == "f" for column in columns)
    return np.column_stack([column if plain else column.astype(object) for column in columns])


def _write(group: Sequence[Input], points: NDArray[np.float64]) -> list[str]:
    """Return the names of points, where they have any."""
    if len(group) == 1 and not group[0].levels:
        return []
    columns = [each.write(points[:, place]) for place, each in enumerate(group)]
    return [", ".join(texts) for texts in zip(*columns, strict=True)]

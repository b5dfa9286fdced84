"""Labels of classes as Dask collections: one pass tells them, and numbers are made where they are.

Nothing is computed here but that pass.
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from polyadic.sources.dask.inputs import as_numbers, partition_sizes, partitions
from polyadic.sources.dask.worker import add_delayed
from polyadic.sources.labels import Classes, LabelColumn, Labels


def learn_labels(X: Any, y: Any, sample_weight: Any) -> Labels:
    """Return how much the rows of each label weigh, after one pass over labels and weights."""
    look = dask.delayed(_labels_of, pure=False)
    parts = partitions(X, y, sample_weight, tables=True, labels=True)
    found: Labels = add_delayed(
        [look(number, labels, weight) for number, (_, labels, weight) in enumerate(parts)]
    )
    return found


def number_lazily(X: Any, y: Any, sample_weight: Any, classes: Classes) -> tuple[Any, Any]:
    """Return Dask arrays: the number of each row's class, and the weights of rows if they have any.

    Parameters
    ----------
    X, y, sample_weight : Dask collections
        As users passed them; labels and weights may be arrays.
    classes : Classes
        Of the fit.
    """
    parts = partitions(X, y, sample_weight, tables=True, labels=True)
    sizes = partition_sizes(X) or (np.nan,) * len(parts)
    number, weigh = (dask.delayed(each, pure=False) for each in (_number, _weigh))
    numbers = [number(place, labels, classes) for place, (_, labels, _) in enumerate(parts)]
    if classes.weights is None:
        return _array(numbers, sizes), sample_weight
    weights = [
        weigh(place, each, weight, classes)
        for place, (each, (_, _, weight)) in enumerate(zip(numbers, parts, strict=True))
    ]
    return _array(numbers, sizes), _array(weights, sizes)


def _array(parts: list[Any], sizes: Any) -> Any:
    """Return one Dask array of delayed columns."""
    arrays = [
        da.from_delayed(part, (size,), dtype=np.float64)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _column(place: int, y: Any) -> LabelColumn:
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"`y` must have one column of labels, got {array.ndim} dimensions in partition "
            f"{place}. Fit a classifier to each column."
        )
    return LabelColumn.of(array)


def _labels_of(place: int, y: Any, weight: Any) -> Labels:
    column = _column(place, y)
    weights = None if weight is None else as_numbers(weight, "sample_weight", place)
    if weights is not None and len(weights) != len(column.places):
        raise ValueError(
            f"`sample_weight` must have as many rows as `y` in every partition, but partition "
            f"{place} has {len(weights)} and {len(column.places)}. Take both from one data frame."
        )
    return Labels.of(column, weights, f"row {{}} of partition {place}")


def _number(place: int, y: Any, classes: Classes) -> NDArray[np.float64]:
    return classes.number(_column(place, y))


def _weigh(
    place: int, numbers: NDArray[np.float64], weight: Any, classes: Classes
) -> NDArray[np.float64]:
    given = None if weight is None else as_numbers(weight, "sample_weight", place)
    weights = classes.weigh(numbers, given)
    assert weights is not None
    return weights

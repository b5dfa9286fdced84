"""From Dask collections to matching partitions, and from those to checked rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from polyadic.rows.rows import Rows, require_two_dimensions
from polyadic.sources.dask.worker import Chunk
from polyadic.sources.schema import same_gaps


def partitions(
    X: Any, y: Any, sample_weight: Any = None, *, tables: bool = False, labels: bool = False
) -> list[tuple[Any, Any, Any]]:
    """Return the delayed inputs, targets and weights of each partition; weights may be None.

    With `tables`, inputs may be something else than numbers, and with `labels` targets may.
    """
    inputs = make_rows_whole(X, tables=tables)
    if y is None:
        raise ValueError("`y` must hold the targets when `X` is a Dask collection, got None.")
    targets = _match_partitions(y, inputs, "y", numbers=not labels)
    parts = [_list_partitions(inputs), _list_partitions(targets)]
    if sample_weight is None:
        parts.append([None] * len(parts[0]))
    else:
        weights = _match_partitions(sample_weight, inputs, "sample_weight")
        if weights.ndim != 1:
            raise ValueError(
                f"`sample_weight` must be one number for each row, got {weights.ndim} dimensions."
            )
        parts.append(_list_partitions(weights))
    return list(zip(*parts, strict=True))


def make_rows_whole(X: Any, *, tables: bool = False) -> Any:
    """Return inputs with whole rows in every partition; raise where they are no numbers.

    With `tables` they may be something else.
    """
    require_two_dimensions(X)
    if not tables:
        _check_numeric(X, "X")
    return _whole(X)


def holds_numbers(X: Any) -> bool:
    """Whether the data types say that all columns are numbers."""
    dtypes = [X.dtype] if isinstance(X, da.Array) else list(X.dtypes)
    return all(dtype.kind in "biuf" for dtype in dtypes)


def _whole(values: Any) -> Any:
    """Return an array with all columns of a row in one block; data frames are so already."""
    if isinstance(values, da.Array) and values.ndim == 2 and values.numblocks[1] > 1:
        return values.rechunk({1: -1})
    return values


def _check_numeric(values: Any, name: str) -> None:
    """Raise for a column that cannot hold numbers, before anything is computed."""
    if isinstance(values, da.Array):
        columns = {"": values.dtype}
    elif values.ndim == 1:
        columns = {str(values.name): values.dtype}
    else:
        columns = {str(column): dtype for column, dtype in values.dtypes.items()}
    for column, dtype in columns.items():
        if dtype.kind not in "biufO" or isinstance(dtype, _categorical()):
            where = f"column {column!r} is" if column else "it is"
            raise ValueError(
                f"`{name}` must be numeric, but {where} {dtype}. Leave it out, or encode it."
            )


def _categorical() -> Any:
    """Return the data types whose kind says object although no number is in them."""
    try:
        import pandas as pd
    except ImportError:  # arrays need no pandas
        return ()
    return pd.CategoricalDtype, pd.StringDtype


def _match_partitions(values: Any, X: Any, name: str, *, numbers: bool = True) -> Any:
    """Return targets or weights cut into rows like `X`."""
    if not hasattr(values, "dask"):
        values = _cut(values, X, name)
    if numbers:
        _check_numeric(values, name)
    if values.ndim not in (1, 2):
        raise ValueError(f"`{name}` must have one or two dimensions, got {values.ndim}.")
    values = _whole(values)
    mine, theirs = partition_sizes(values), partition_sizes(X)
    if mine is not None and theirs is not None and mine != theirs:
        if sum(mine) != sum(theirs):
            raise ValueError(
                f"`{name}` must have a row for each of the {sum(theirs)} rows of `X`, got "
                f"{sum(mine)}."
            )
        return values.rechunk({0: theirs})
    counts = _count(values), _count(X)
    if counts[0] != counts[1]:
        raise ValueError(
            f"`{name}` must have the partitions of `X`, which has {counts[1]}, got {counts[0]}. "
            "Take both from one data frame, or call compute_chunk_sizes() on Dask arrays so that "
            "they can be cut alike."
        )
    return values


def _cut(values: Any, X: Any, name: str) -> Any:
    """Return an array in memory as a Dask array."""
    sizes = partition_sizes(X)
    if sizes is None:
        raise TypeError(
            f"`{name}` must be a Dask collection when the partition sizes of `X` are not known, "
            f"got {type(values).__name__}. Take it from the data frame that `X` comes from."
        )
    array = np.asarray(values)
    if len(array) != sum(sizes):
        raise ValueError(
            f"`{name}` must have a row for each of the {sum(sizes)} rows of `X`, got {len(array)}."
        )
    return da.from_array(array, chunks=(sizes, *((size,) for size in array.shape[1:])))


def partition_sizes(values: Any) -> tuple[int, ...] | None:
    """Return the rows of each partition, or None where they are not known."""
    if not isinstance(values, da.Array) or any(size != size for size in values.chunks[0]):
        return None
    return tuple(int(size) for size in values.chunks[0])


def _count(values: Any) -> int:
    return int(values.numblocks[0] if isinstance(values, da.Array) else values.npartitions)


def _list_partitions(values: Any) -> list[Any]:
    """Return the partitions, in order."""
    parts = values.to_delayed()
    return list(parts.ravel() if isinstance(parts, np.ndarray) else parts)


def load_chunk(
    number: int, X: Any, y: Any, weight: Any, names: Sequence[str], *, gaps: bool = False
) -> Chunk:
    """Check the rows of one partition, and drop those of weight zero; inputs may have `gaps`."""
    inputs = as_numbers(X, "X", number, names, gaps=gaps)
    targets = as_numbers(y, "y", number)
    targets = targets[:, None] if targets.ndim == 1 else targets
    weights = None if weight is None else as_numbers(weight, "sample_weight", number)
    for values, name in ((targets, "y"), (weights, "sample_weight")):
        if values is not None and len(values) != len(inputs):
            raise ValueError(
                f"`{name}` must have as many rows as `X` in every partition, but partition "
                f"{number} has {len(values)} and {len(inputs)}. Take both from one data frame."
            )
    n_given = len(inputs)
    if weights is not None:
        if (weights < 0).any():
            row = int(np.argmax(weights < 0))
            raise ValueError(
                f"`sample_weight` must not be negative, but row {row} of partition {number} has "
                f"{weights[row]:g}."
            )
        used = weights > 0
        inputs, targets, weights = inputs[used], targets[used], weights[used]
    return Chunk(number, Rows(inputs, targets, weights), n_given)


def as_numbers(
    values: Any, name: str, partition: int, columns: Sequence[str] = (), *, gaps: bool = False
) -> NDArray[np.float64]:
    """Return one partition as finite doubles; raise an error that says where it has others.

    With `gaps`, NaN is one.
    """
    try:
        if hasattr(values, "to_numpy"):
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be numeric, but partition {partition} is not: {error}. Encode text."
        ) from error
    finite = ~np.isinf(array) if gaps else np.isfinite(array)
    if not finite.all():
        row, *column = np.argwhere(~finite)[0].tolist()
        where = f" in {columns[column[0]]!r}" if column and columns else ""
        raise ValueError(
            f"`{name}` must be finite, but row {row} of partition {partition} has "
            f"{array[(row, *column)]}{where}. Drop such rows, or fill them in."
        )
    return same_gaps(array) if gaps else array

"""Tables of any kind as Dask collections: a survey of their partitions, and rows encoded there."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from polyadic.sources.columns import take_rows
from polyadic.sources.dask.inputs import holds_numbers, make_rows_whole, partitions
from polyadic.sources.dask.worker import add_up
from polyadic.sources.schema import Schema
from polyadic.sources.survey import Survey, named_columns


def learn_lazily(
    X: Any, y: Any, sample_weight: Any, names: list[str] | None, categorical_features: Any
) -> tuple[Schema, list[str]]:
    """Return the schema of training rows, and what about them their owner should look at.

    Levels are found in one pass over the partitions; a table of nothing but numbers needs none.
    """
    named = named_columns(categorical_features, names, X.shape[1])
    if holds_numbers(X) and not any(named):
        return Schema.of_numbers(names, X.shape[1]), []
    look = dask.delayed(_survey_partition, pure=False)
    parts = [
        look(rows, weight, categorical_features)
        for rows, _, weight in partitions(X, y, sample_weight, tables=True)
    ]
    survey: Survey | None = add_up(parts)
    if survey is None:
        raise ValueError("`X` must have at least one row of positive weight, got none.")
    return survey.schema(), survey.doubts()


def _survey_partition(X: Any, weight: Any, categorical_features: Any) -> Survey | None:
    """Sum up the rows of a partition that count."""
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
        X, weight = take_rows(X, weight > 0), weight[weight > 0]
    return Survey.of(X, categorical_features, weight) if len(X) else None


def encode_lazily(X: Any, schema: Schema) -> Any:
    """Return a collection of inputs; that of numbers is one as it is."""
    if schema.is_numeric:
        return X
    X = make_rows_whole(X, tables=True)
    n_inputs = len(schema.inputs)
    if isinstance(X, da.Array):
        chunks = (X.chunks[0], (n_inputs,))
        empty = np.empty((0, 0))
        return X.map_blocks(_encode, schema, dtype=np.float64, chunks=chunks, meta=empty)
    import pandas as pd

    meta = pd.DataFrame(np.empty((0, n_inputs)), columns=list(schema.inputs.names))
    return X.map_partitions(_encode_frame, schema, meta=meta)


def _encode(X: Any, schema: Schema) -> NDArray[np.float64]:
    return schema.encode(X).X


def _encode_frame(X: Any, schema: Schema) -> Any:
    import pandas as pd

    return pd.DataFrame(_encode(X, schema), columns=list(schema.inputs.names), index=X.index)

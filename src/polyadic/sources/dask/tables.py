"""Tables of any kind as Dask collections: a survey of their partitions, and rows encoded there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from polyadic.sources.columns import take_rows
from polyadic.sources.dask.inputs import as_numbers, holds_numbers, make_rows_whole, partitions
from polyadic.sources.dask.worker import add_delayed
from polyadic.sources.schema import Encoded, Schema, Surprises
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
    survey: Survey | None = add_delayed(parts)
    if survey is None:
        raise ValueError("`X` must have at least one row of positive weight, got none.")
    return survey.schema(), survey.doubts()


def _survey_partition(X: Any, weight: Any, categorical_features: Any) -> Survey | None:
    """Sum up the rows of a partition that count."""
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
        X, weight = take_rows(X, weight > 0), weight[weight > 0]
    return Survey.of(X, categorical_features, weight) if len(X) else None


@dataclass(frozen=True, eq=False)
class LazyTable:
    """A table as users passed it, which becomes inputs where its partitions are.

    Parameters
    ----------
    rows : Dask collection
        The table.
    schema : Schema
        What the fit took its columns for.
    """

    rows: Any
    schema: Schema

    def inputs(self, *, warn: bool = False) -> Any:
        """Return a collection of inputs; that of numbers is one as it is.

        With `warn`, each partition tells, when it is computed, what the fit had not seen.
        """
        if self.schema.is_numeric:
            return self.rows
        X, n_inputs = make_rows_whole(self.rows, tables=True), len(self.schema.inputs)
        if isinstance(X, da.Array):
            options = {"chunks": (X.chunks[0], (n_inputs,)), "meta": np.empty((0, 0))}
            return X.map_blocks(_encode, self.schema, warn, dtype=np.float64, **options)
        import pandas as pd

        meta = pd.DataFrame(np.empty((0, n_inputs)), columns=list(self.schema.inputs.names))
        return X.map_partitions(_encode_frame, self.schema, warn, meta=meta)


def encode_partition(X: Any, schema: Schema, number: int) -> Encoded:
    """Return the inputs of a partition, and what the fit had not seen in it."""
    if not schema.is_numeric:
        return schema.encode(X)
    numbers = as_numbers(X, "X", number, schema.inputs.names, gaps=not schema.is_whole)
    return Encoded(numbers, unseen_gaps(numbers, schema))


def unseen_gaps(X: NDArray[np.float64], schema: Schema) -> Surprises:
    """Return the gaps of checked numbers in columns that had none in the fit."""
    return schema.unseen_gaps(np.count_nonzero(np.isnan(X), axis=0).tolist())


def _encode(X: Any, schema: Schema, warn: bool) -> NDArray[np.float64]:
    encoded = schema.encode(X)
    if warn:
        encoded.surprises.warn(schema)
    return encoded.X


def _encode_frame(X: Any, schema: Schema, warn: bool) -> Any:
    import pandas as pd

    inputs = _encode(X, schema, warn)
    return pd.DataFrame(inputs, columns=list(schema.inputs.names), index=X.index)

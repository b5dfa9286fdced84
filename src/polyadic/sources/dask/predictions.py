"""Predictions and scores of Dask collections, a partition at a time, on any scheduler of Dask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic
from uuid import uuid4

import dask
import numpy as np
from numpy.typing import NDArray

from polyadic.samples.workers import A
from polyadic.sources import Measure, Predicts
from polyadic.sources.dask.inputs import as_numbers, load_chunk, make_rows_whole
from polyadic.sources.dask.tables import LazyTable, encode_partition, unseen_gaps
from polyadic.sources.dask.worker import add_delayed
from polyadic.sources.schema import Schema, Surprises


@dataclass(frozen=True)
class Scored(Generic[A]):
    """How good predictions of some rows are, and what in them the fit had not seen; both add up."""

    value: A
    surprises: Surprises

    def __add__(self, other: Scored[A]) -> Scored[A]:
        return Scored(self.value + other.value, self.surprises + other.surprises)


def predict_lazily(predictor: Predicts, table: LazyTable) -> Any:
    """Return the predictions as a Dask array; nothing is computed yet.

    What the fit had not seen is told partition by partition, when it is computed.
    """
    X = make_rows_whole(table.inputs(warn=True))
    blocks = X.to_dask_array() if hasattr(X, "columns") else X
    options: dict[str, Any] = {"chunks": (blocks.chunks[0], (predictor.n_targets,))}
    options["meta"] = np.empty((0, 0))
    if predictor.single_target:
        options = {"drop_axis": 1, "meta": np.empty(0)}
    task = partial(_predict_block, predictor, table.schema)
    name = f"polyadic-predict-{uuid4().hex}"
    return blocks.map_blocks(task, dtype=np.float64, name=name, **options)


def evaluate(
    predictor: Predicts,
    measure: Measure[A],
    schema: Schema,
    parts: Sequence[tuple[Any, Any, Any]],
) -> Scored[A]:
    """Return how good the predictions are; the sums are added up on the workers."""
    token = uuid4().hex
    look = dask.delayed(partial(_evaluate_partition, predictor, measure, schema), pure=False)
    answers = [
        look(number, *part, dask_key_name=f"polyadic-score-{token}-{number}")
        for number, part in enumerate(parts)
    ]
    total: Scored[A] | None = add_delayed(answers)
    if total is None:
        raise ValueError("`X` must have at least one row of positive weight, got none.")
    return total


def _predict_block(
    predictor: Predicts, schema: Schema, X: Any, block_id: tuple[int, ...] = (0,)
) -> NDArray[np.float64]:
    """Predict the inputs of one partition, whose number Dask passes as `block_id`."""
    inputs = as_numbers(X, "X", block_id[0], schema.inputs.names, gaps=not schema.is_whole)
    if schema.is_numeric:  # else it was told where the inputs were made
        unseen_gaps(inputs, schema).warn(schema)
    return np.asarray(predictor.shape(_predict_checked(predictor, inputs)))


def _predict_checked(predictor: Predicts, X: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(X):
        return np.empty((0, predictor.n_targets))
    with predictor.open() as predict:
        return np.asarray(predict(X))


def _evaluate_partition(
    predictor: Predicts,
    measure: Measure[A],
    schema: Schema,
    number: int,
    X: Any,
    y: Any,
    weight: Any,
) -> Scored[A] | None:
    encoded = encode_partition(X, schema, number)
    names, gaps = schema.inputs.names, not schema.is_whole
    rows = load_chunk(number, encoded.X, y, weight, names, gaps=gaps).rows
    if not len(rows):
        return None
    value = measure(rows.y, _predict_checked(predictor, rows.X), rows.weight)
    return Scored(value, encoded.surprises)

"""Predictions and scores of Dask collections, a partition at a time, on any scheduler of Dask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import dask
import numpy as np
from numpy.typing import NDArray

from polyadic.sources import Measure, Predicts
from polyadic.sources.dask.inputs import as_numbers, load_chunk, make_rows_whole
from polyadic.sources.dask.worker import add_up

A = TypeVar("A")


def predict_lazily(predictor: Predicts, X: Any, names: Sequence[str], *, gaps: bool = False) -> Any:
    """Return the predictions as a Dask array; nothing is computed yet."""
    X = make_rows_whole(X)
    blocks = X.to_dask_array() if hasattr(X, "columns") else X
    options: dict[str, Any] = {"chunks": (blocks.chunks[0], (predictor.n_targets,))}
    options["meta"] = np.empty((0, 0))
    if predictor.single_target:
        options = {"drop_axis": 1, "meta": np.empty(0)}
    task = partial(_predict_block, predictor, names, gaps)
    name = f"polyadic-predict-{uuid4().hex}"
    return blocks.map_blocks(task, dtype=np.float64, name=name, **options)


def evaluate(
    predictor: Predicts,
    measure: Measure[A],
    names: Sequence[str],
    parts: Sequence[tuple[Any, Any, Any]],
    *,
    gaps: bool = False,
) -> A:
    """Return how good the predictions are; the sums are added up on the workers."""
    token = uuid4().hex
    look = dask.delayed(partial(_evaluate_partition, predictor, measure, names, gaps), pure=False)
    answers = [
        look(number, *part, dask_key_name=f"polyadic-score-{token}-{number}")
        for number, part in enumerate(parts)
    ]
    total: A | None = add_up(answers)
    if total is None:
        raise ValueError("`X` must have at least one row of positive weight, got none.")
    return total


def _predict_block(
    predictor: Predicts, names: Sequence[str], gaps: bool, X: Any, block_id: tuple[int, ...] = (0,)
) -> NDArray[np.float64]:
    """Predict one partition, whose number Dask passes as `block_id`."""
    y = _predict_checked(predictor, as_numbers(X, "X", block_id[0], names, gaps=gaps))
    return np.asarray(predictor.shape(y))


def _predict_checked(predictor: Predicts, X: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(X):
        return np.empty((0, predictor.n_targets))
    with predictor.open() as predict:
        return np.asarray(predict(X))


def _evaluate_partition(
    predictor: Predicts,
    measure: Measure[A],
    names: Sequence[str],
    gaps: bool,
    number: int,
    X: Any,
    y: Any,
    weight: Any,
) -> A | None:
    rows = load_chunk(number, X, y, weight, names, gaps=gaps).rows
    if not len(rows):
        return None
    return measure(rows.y, _predict_checked(predictor, rows.X), rows.weight)

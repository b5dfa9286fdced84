"""Predictions and scores of Dask collections, a partition at a time, on any scheduler of Dask."""

from __future__ import annotations

from copy import copy
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._data import input_names
from polyadic.rows.scores import Residuals
from polyadic.sources.dask.inputs import loaded, numbers, partitions, with_whole_rows
from polyadic.sources.dask.worker import batches, total


def predict_lazily(estimator: Any, X: Any) -> Any:
    """Return the predictions as a Dask array; nothing is computed yet."""
    X = with_whole_rows(X)
    blocks = X.to_dask_array() if hasattr(X, "columns") else X
    task = partial(_predicted, _single_threaded(estimator))
    if estimator._single_target:
        return blocks.map_blocks(
            task, dtype=np.float64, drop_axis=1, name=_name("predict"), meta=np.empty(0)
        )
    chunks = (blocks.chunks[0], (len(estimator.target_scaling_.mean),))
    return blocks.map_blocks(
        task, dtype=np.float64, chunks=chunks, name=_name("predict"), meta=np.empty((0, 0))
    )


def score(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return R² of the predictions."""
    model, token = _single_threaded(estimator), uuid4().hex
    measure, together = dask.delayed(_residuals, pure=False), dask.delayed(total, pure=False)
    turns = count()
    parts = [
        measure(model, number, *part, dask_key_name=f"polyadic-score-{token}-{number}")
        for number, part in enumerate(partitions(X, y, sample_weight))
    ]
    while len(parts) > 1:
        parts = [
            together(group, dask_key_name=f"polyadic-sum-{token}-{next(turns)}")
            for group in batches(parts)
        ]
    residuals: Residuals | None = parts[0].compute()
    if residuals is None:
        raise ValueError("`X` must have at least one row of positive weight, got none.")
    return residuals.r2()


def _name(what: str) -> str:
    return f"polyadic-{what}-{uuid4().hex}"


def _single_threaded(estimator: Any) -> Any:
    """Return the estimator as a task needs it: the threads are those of the workers."""
    model = copy(estimator)
    model.n_jobs = 1
    return model


def _predicted(estimator: Any, X: Any, block_id: tuple[int, ...] = (0,)) -> NDArray[np.float64]:
    """Predict one partition, whose number Dask passes as `block_id`."""
    y = _columns(estimator, numbers(X, "X", block_id[0], input_names(estimator)))
    return y[:, 0] if estimator._single_target else y


def _columns(estimator: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the predictions for checked rows, a column a target."""
    if not len(X):
        return np.empty((0, len(estimator.target_scaling_.mean)))
    with np.errstate(over="ignore", invalid="ignore"), estimator._compute() as compute:
        return np.asarray(estimator._predict_rows(compute, X))


def _residuals(estimator: Any, number: int, X: Any, y: Any, weight: Any) -> Residuals | None:
    """Sum up one partition."""
    rows = loaded(number, X, y, weight, input_names(estimator)).rows
    return Residuals.of(rows.y, _columns(estimator, rows.X), rows.weight) if len(rows) else None

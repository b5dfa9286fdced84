"""Sources: where rows come from, and how fits and predictions reach them.

    arrays.py   NumPy arrays and torch tensors       files/   Parquet, CSV and npy
    dask/       collections on a cluster             data.py  what a fit knows of any of them

A source gives training data (`data`), maps a predictor over its rows (`predict`) and sums up
how good predictions are (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from polyadic.samples.workers import A
from polyadic.sources.data import Data

# Sums up (targets, predictions, weights) of some rows in a value that adds up.
Measure = Callable[[Any, Any, Any], A]


class Predicts(Protocol):
    """What predicts rows in their own units; `members.Predictor` does."""

    @property
    def n_targets(self) -> int:
        """Number of targets."""

    @property
    def single_target(self) -> bool:
        """Whether predictions are a vector."""

    def single_threaded(self) -> Self:
        """Return what predicts the same in one thread, for tasks that run side by side."""

    def shape(self, y: Any) -> Any:
        """Return predictions, a column a target, as users expect them."""

    def open(self) -> AbstractContextManager[Callable[..., Any]]:
        """Give the function (X, first_row=0) ─► predictions, a column a target."""


class Source(Protocol):
    """Rows that users passed, wherever they are."""

    def data(self, scale_inputs: bool, *, merge: bool) -> Data:
        """Return the rows as training data; `merge` asks for copies of a row as one row."""

    def predict(self, predictor: Predicts) -> Any:
        """Return the predictions for all rows."""

    def evaluate(self, predictor: Predicts, measure: Measure[A]) -> A:
        """Return how good the predictions are, by a measure that adds up."""

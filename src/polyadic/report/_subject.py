"""What a report is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted


@dataclass(frozen=True)
class Subject:
    """A fitted model, rows to look at it with, and what is known of its data.

    Parameters
    ----------
    model : estimator
        A fitted estimator with one target.
    X : ndarray of shape (n_samples, n_features)
        Rows that partial dependence averages over.
    target : str
        Name of what is predicted.
    names : sequence of str
        Names of the inputs.
    actual, predicted : ndarray, optional
        Pairs to show how good predictions are.
    measured_on : str
        Which rows these are.
    metrics : dict, optional
        Errors on these rows: rows, rmse, mae and r2.
    rows_are : str
        Which rows `X` has.
    facts : sequence of (str, str)
        What was fitted, on what: labels and values.
    messages : sequence of str
        What was done to the data.
    model_file : str, optional
        Name of the model's file, for the instructions.
    """

    model: Any
    X: NDArray[np.float64]
    target: str
    names: Sequence[str]
    actual: NDArray[np.float64] | None = None
    predicted: NDArray[np.float64] | None = None
    measured_on: str = "rows"
    metrics: dict[str, Any] | None = None
    rows_are: str = "rows"
    facts: Sequence[tuple[str, str]] = ()
    messages: Sequence[str] = ()
    model_file: str | None = None
    inputs: Sequence[tuple[str, float, float, float]] = field(init=False)

    def __post_init__(self) -> None:
        check_is_fitted(self.model)
        low, middle, high = np.quantile(self.X, [0, 0.5, 1], axis=0)
        ranges = list(zip(self.names, low, middle, high, strict=True))
        object.__setattr__(self, "inputs", ranges)

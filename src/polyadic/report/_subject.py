"""What a report is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._tables import schema_of


@dataclass(frozen=True)
class Subject:
    """A fitted model, rows to look at it with, and what is known of its data.

    Parameters
    ----------
    model : estimator
        A fitted estimator with one target.
    X : ndarray of shape (n_samples, n_inputs) or None
        Rows of the data as the model sees them, which is what its schema makes of a table, for
        importance and partial dependence; without them the page has neither.
    target : str
        Name of what is predicted.
    names : sequence of str
        Names of the inputs.
    y : ndarray of shape (n_samples,), optional
        Targets of `X`, where the model has not seen these rows: inputs are then shuffled to
        measure their importance, and the model is compared with a ridge regression.
    actual, predicted : ndarray, optional
        Pairs to show how good predictions are.
    measured_on : str
        Which rows these are.
    measured_how : str
        A sentence that says how these rows were chosen.
    metrics : dict, optional
        Errors on these rows: rows, rmse, mae and r2; those of the pairs by default.
    rows_are : str
        Which rows `X` has.
    ranges : ndarray of shape (n_inputs, 3), optional
        Least, median and greatest value of each input, NaN where there is none; those of `X` by
        default.
    ranges_are : str, optional
        Which rows `ranges` are of; those of `X` by default.
    facts : sequence of (str, str)
        What was fitted, on what: labels and values.
    messages : sequence of str
        What was done to the data.
    cautions : sequence of str
        What a reader must know to judge the errors.
    model_file : str, optional
        Name of the model's file, for the instructions.
    """

    model: Any
    X: NDArray[np.float64] | None
    target: str
    names: Sequence[str]
    y: NDArray[np.float64] | None = None
    actual: NDArray[np.float64] | None = None
    predicted: NDArray[np.float64] | None = None
    measured_on: str = "rows"
    measured_how: str = ""
    metrics: dict[str, Any] | None = None
    rows_are: str = "rows"
    ranges: NDArray[np.float64] | None = None
    ranges_are: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    messages: Sequence[str] = ()
    cautions: Sequence[str] = ()
    model_file: str | None = None

    def __post_init__(self) -> None:
        check_is_fitted(self.model)

    @property
    def n_columns(self) -> int:
        """Number of columns of the data; a date is one."""
        return len(schema_of(self.model).columns)

"""What a report is about."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._tables import of_inputs, schema_of


@dataclass(frozen=True)
class Subject:
    """A fitted model, rows to look at it with, and what is known of its data.

    Parameters
    ----------
    model : estimator
        A fitted estimator with one target.
    X : ndarray of shape (n_samples, n_inputs) or None
        Rows of the data as inputs of the model (numbers, codes of levels, NaN for gaps), for
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
        Least, median and greatest value of each input, NaN where it has none; those of `X` by
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
        """Number of columns of the data; the parts of a date are one."""
        return len(schema_of(self.model).columns)

    @property
    def levels(self) -> dict[str, list[str]]:
        """The inputs that are categories, and their levels by their codes."""
        columns = schema_of(self.model).columns
        return {c.name: [str(level) for level in c.levels] for c in columns if c.n_levels}

    @property
    def model_of_inputs(self) -> Any:
        """The model as one that takes the rows of `X`."""
        return of_inputs(self.model)

    @property
    def all_ranges(self) -> NDArray[np.float64] | None:
        """Least, median and greatest value of each input, where they are known."""
        if self.ranges is not None or self.X is None:
            return self.ranges
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN slice")
            return np.asarray(np.nanquantile(self.X, [0, 0.5, 1], axis=0).T)

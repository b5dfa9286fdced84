"""Tables in memory at the door: what scikit-learn asks of them, and their schema."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_y, validate_data

from polyadic.rows.tensors import to_host
from polyadic.sources.columns import Table, as_table, is_frame
from polyadic.sources.schema import Schema, TableWarning, as_numbers, explain_columns
from polyadic.sources.survey import FROM_DTYPE, learn_schema

_MOST_ROWS = 5  # that an error names


def schema_of(estimator: Any) -> Schema:
    """Return what a fitted estimator takes columns for; old models know numbers only."""
    known: Schema | None = getattr(estimator, "schema_", None)
    return plain_schema(estimator) if known is None else known


def plain_schema(estimator: Any) -> Schema:
    """Return the schema of a fit to named maps: columns of numbers without gaps."""
    names = getattr(estimator, "feature_names_in_", None)
    return Schema.of_numbers(names, estimator.n_features_in_).whole()


def keep_schema(estimator: Any, schema: Schema, doubts: Sequence[str]) -> None:
    """Set the schema of a fit, and tell what about its table its owner should look at."""
    estimator.schema_ = schema if estimator._takes_tables() else schema.whole()
    for doubt in doubts:
        warnings.warn(doubt, TableWarning, stacklevel=9)


def learn_inputs(estimator: Any, X: Any, weight: NDArray[np.float64] | None) -> NDArray[Any]:
    """Learn the schema of checked training rows, and return them as inputs."""
    wanted = getattr(estimator, "categorical_features", FROM_DTYPE)
    numbers = as_numbers(X)
    schema, doubts = learn_schema(X, wanted, weight, numbers)
    keep_schema(estimator, schema, doubts)
    known: Schema = estimator.schema_
    if numbers is None or not schema.is_numeric:
        return known.encode(X).X
    return known.encode_numbers(numbers).X


def check_table(
    estimator: Any, X: Any, *, reset: bool, whole: bool, has_targets: bool = True, dtype: Any
) -> Any:
    """Return a data frame as it is, and anything else as an array that has two dimensions.

    Names and number of columns are set, or checked.  Unless rows must be `whole`, an array may
    have gaps, and one of objects stays as it is.
    """
    y = "no_validation" if has_targets else None
    if is_frame(X):
        X = as_table(X)
        table = Table(X)
        _check_names(estimator, X, y, table, reset=reset)
        if not table.n_rows or not len(table):
            raise ValueError(
                f"`X` must have at least one row and one column, got {table.n_rows} rows and "
                f"{len(table)} columns."
            )
        return X
    checks: dict[str, Any] = {"dtype": dtype, "reset": reset}
    if not whole:
        X = _keep_kinds(X)
        checks["ensure_all_finite"] = False  # which the schema looks at, column by column
        if isinstance(X, np.ndarray) and X.dtype.kind in "OUMm":
            checks["dtype"] = None
    return validate_data(estimator, X, y, **checks)


def _check_names(estimator: Any, X: Any, y: Any, table: Table, *, reset: bool) -> None:
    try:
        validate_data(estimator, X, y, skip_check_array=True, reset=reset)
    except ValueError as error:
        expected = getattr(estimator, "feature_names_in_", None)
        if reset or expected is None or table.names is None:
            raise
        raise ValueError(f"{error}{explain_columns(list(table.names), list(expected))}") from None


def _keep_kinds(X: Any) -> Any:
    """Return lists as an array; one of objects where NumPy would make text of numbers."""
    if not isinstance(X, list | tuple):
        return X
    array = np.asarray(X)
    return array if array.dtype.kind in "biufc" else np.array(X, dtype=object)


def check_targets(estimator: Any, y: Any) -> NDArray[np.float64]:
    """Return targets as doubles; an error says which of them are missing."""
    y = to_host(y)
    if str(getattr(y, "dtype", "")).startswith(("datetime", "timedelta", "Datetime", "Duration")):
        raise TypeError(
            f"`y` must hold numbers, got {y.dtype}. Pass for instance the days since a date."
        )
    try:
        checked = _check_y(y, multi_output=True, y_numeric=True, estimator=estimator)
        checked = np.asarray(checked, dtype=np.float64)
        if np.isnan(checked).any():  # None among objects, which only now became a number
            raise ValueError("Input y contains NaN.")
        return checked
    except (TypeError, ValueError) as error:
        gaps = find_gaps(y)
        if not len(gaps) and "could not convert string" in str(error):
            raise ValueError(
                f"`y` must hold numbers: {error}. For classes use FeatureLearningClassifier."
            ) from error
        if not len(gaps):
            raise
        first = ", ".join(str(row) for row in gaps[:_MOST_ROWS])
        more = f" and {len(gaps) - _MOST_ROWS} more" if len(gaps) > _MOST_ROWS else ""
        raise ValueError(
            f"Input y contains NaN: the target is missing in {len(gaps)} of {len(y)} rows, rows "
            f"{first}{more} (the first row is 0). Leave these rows out."
        ) from error


def find_gaps(y: Any) -> NDArray[np.int64]:
    """Return the rows in which a target is missing; none where targets are no numbers."""
    if nw.dependencies.is_into_series(y):
        y = nw.from_native(y, series_only=True).to_frame().to_native()
    try:
        table = Table(y if is_frame(y) else np.asarray(y).reshape(len(y), -1))
        gaps = [table.read(place).gaps for place in range(len(table))]
    except (TypeError, ValueError):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.any(gaps, axis=0))

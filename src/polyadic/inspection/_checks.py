"""What all of inspection asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._sources import inputs_to_predict
from polyadic.estimators._tables import schema_of
from polyadic.inspection._inputs import Input, find_inputs
from polyadic.inspection._outputs import Output, check_output
from polyadic.inspection._terms import Group
from polyadic.rows.tensors import to_host


def check_arguments(
    estimator: Any,
    X: Any,
    inputs: Any,
    target: Any,
    response_method: str = "auto",
    *,
    by_part: bool = False,
) -> tuple[NDArray[np.float64], list[tuple[Input, ...]], Output]:
    """Return rows as the model sees them, some inputs or each column, and what is looked at."""
    rows = check_rows(estimator, X)
    output = check_output(estimator, target, response_method)
    schema = schema_of(estimator)
    wanted = range(len(schema.columns)) if inputs is None else inputs
    return rows, find_inputs(schema, wanted, by_part=by_part), output


def check_rows(estimator: Any, X: Any, stacklevel: int = 6) -> NDArray[np.float64]:
    """Return the rows of `X`, which must be such as `predict` takes, as the model sees them."""
    check_is_fitted(estimator)
    # A warning is told of the line that called a function of inspection.
    return np.asarray(
        inputs_to_predict(estimator, to_host(X), stacklevel=stacklevel), dtype=np.float64
    )


def complete_groups(groups: Sequence[Group], n_inputs: int) -> list[Group]:
    """Return the groups with one more for all the other inputs, where there are any."""
    taken = {place for group in groups for place in group}
    others = tuple(place for place in range(n_inputs) if place not in taken)
    return [*groups, others] if others else list(groups)

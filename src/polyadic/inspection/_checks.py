"""What all of inspection asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._sources import inputs_to_predict
from polyadic.estimators._tables import schema_of
from polyadic.inspection._terms import Group
from polyadic.rows.tensors import to_host


def check_arguments(
    estimator: Any, X: Any, inputs: Any, target: Any
) -> tuple[NDArray[np.float64], list[Group], int]:
    """Return checked rows, the groups of some inputs or of each, and the place of a target."""
    rows = check_rows(estimator, X)
    place = check_target(estimator, target)
    wanted = range(rows.shape[1]) if inputs is None else inputs
    return rows, find_groups(input_names(estimator), wanted), place


def check_rows(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Return the inputs of the rows of `X`, which must be such as `predict` takes."""
    check_is_fitted(estimator)
    return np.asarray(inputs_to_predict(estimator, to_host(X), stacklevel=5))


def check_target(estimator: Any, target: Any) -> int:
    """Return the place of a target."""
    count = len(estimator.target_scaling_.mean)
    if isinstance(target, int | np.integer) and 0 <= target < count:
        return int(target)
    only = "the model has one target" if count == 1 else f"the model has {count} targets"
    raise ValueError(
        f"`target` must be the place of a target, 0 to {count - 1}, got {target!r}: {only}. "
        "Pass target=0 for the first."
    )


def input_names(estimator: Any) -> list[str]:
    """Return the names of the inputs: x0, x1, … where they have none."""
    return list(schema_of(estimator).inputs.names)


def find_groups(names: Sequence[str], inputs: Any) -> list[Group]:
    """Return the places of some inputs, each by itself or in a group with others.

    An entry is a place, a name, or a list of them for columns that are set together.
    """
    if np.isscalar(inputs):
        inputs = [inputs]
    groups = [
        (_find(names, entry),)
        if np.isscalar(entry)
        else tuple(_find(names, part) for part in entry)
        for entry in inputs
    ]
    places = [place for group in groups for place in group]
    if not places or not all(groups) or len(set(places)) < len(places):
        raise ValueError(
            f"`inputs` must name different inputs, got {inputs!r}. Name each of them once."
        )
    return groups


def complete_groups(groups: Sequence[Group], n_inputs: int) -> list[Group]:
    """Return the groups with one more for all the other inputs, where there are any."""
    taken = {place for group in groups for place in group}
    others = tuple(place for place in range(n_inputs) if place not in taken)
    return [*groups, others] if others else list(groups)


def _find(names: Sequence[str], entry: Any) -> int:
    if isinstance(entry, str) and entry in names:
        return list(names).index(entry)
    if isinstance(entry, int | np.integer) and 0 <= entry < len(names):
        return int(entry)
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    raise ValueError(
        f"`inputs` must be among {shown}, got {entry!r}. Pass a name, or a place from 0 to "
        f"{len(names) - 1}."
    )

"""Rows: inputs, targets and weights, as NumPy arrays or torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Some rows.

    Rows come in two forms.  In *own units* they are what users passed, with a column of `y` for
    each target.  As *seen by a fit*, through a `View`, inputs are scaled and `y` is the
    standardised vector of one target; this is what engines get.

    Parameters
    ----------
    X : array of shape (n, D)
        Inputs.
    y : array of shape (n, T) or (n,)
        Targets.
    weight : array of shape (n,), optional
        How often each row counts; without, every row counts once.
    groups : array of shape (n,), optional
        A whole number for each row; rows with the same number are held out together.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Any) -> Rows:
        """Return the rows of a slice, a mask or an index array."""
        return self.map(lambda array: array[index])

    def map(self, change: Callable[[Any], Any]) -> Rows:
        """Return the rows with each of their arrays changed."""
        weight = None if self.weight is None else change(self.weight)
        groups = None if self.groups is None else change(self.groups)
        return Rows(change(self.X), change(self.y), weight, groups)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())


def concatenate_rows(parts: Sequence[Rows]) -> Rows:
    """Put rows of NumPy arrays one after the other."""
    weights = [part.weight for part in parts if part.weight is not None]
    groups = [part.groups for part in parts if part.groups is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
        np.concatenate(groups) if groups else None,
    )


def require_two_dimensions(X: Any) -> None:
    """Raise unless inputs are a table."""
    if X.ndim != 2:
        raise ValueError(
            f"`X` must have two dimensions, rows and inputs, got {X.ndim}. Reshape one input with "
            "X[:, None]."
        )

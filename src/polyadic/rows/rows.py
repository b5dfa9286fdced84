"""Some rows: inputs, targets and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Some rows; `weight` is None where every row counts once.

    What an engine gets is scaled, and has one target.  Elsewhere rows may be in their own
    units, with targets as columns.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Any) -> Rows:
        """Return the rows of a slice, a mask or an index array."""
        return self.map(lambda array: array[index])

    def map(self, change: Callable[[Any], Any]) -> Rows:
        """Return the rows with each of their arrays changed."""
        weight = None if self.weight is None else change(self.weight)
        return Rows(change(self.X), change(self.y), weight)


def joined(parts: Sequence[Rows]) -> Rows:
    """Put rows one after the other."""
    weights = [part.weight for part in parts if part.weight is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
    )


def require_two_dimensions(X: Any) -> None:
    """Raise unless inputs are a table."""
    if X.ndim != 2:
        raise ValueError(
            f"`X` must have two dimensions, rows and inputs, got {X.ndim}. Reshape one input with "
            "X[:, None]."
        )

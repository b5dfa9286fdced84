"""Rows on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from polyadic.data import Data


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a source, in their own units; targets are columns."""

    first_row: int
    X: NDArray[Any]
    y: NDArray[Any] | None
    weight: NDArray[Any] | None


class RowSource:
    """A lazy, re-iterable source of rows."""

    names: list[str]

    def batches(self) -> Iterator[Batch]:
        """Yield all rows."""
        raise NotImplementedError

    def data(self, *, scale_inputs: bool = True) -> Data:
        """Return the rows as training data."""
        raise NotImplementedError

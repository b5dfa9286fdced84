"""Training rows, wherever they live: what a fit must know of them, and samples of them.

Rows are in their own units here.  One pass over them gives `Statistics`, which add up like
everything else, and from these follow the scalings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.rows.holdout import Part, row_hash
from polyadic.rows.rows import Rows
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import View, part_of, view_of


def samples_through(
    compute: Compute, view: View, rows: Rows, layout: TensorLayout
) -> list[Samples]:
    """Return the samples of each target of rows in their own units; a device scales its own."""
    if not compute.engine.takes_tensors:
        return [compute.samples(each, layout) for each in view.rows(rows)]
    from polyadic.sources.tensor_view import seen

    sees = [partial(seen, view=view, target=target) for target in range(rows.y.shape[1])]
    return [compute.samples(rows, layout, see) for see in sees]


class Data(Protocol):
    """Training rows, in memory, on disk or on a cluster."""

    @property
    def view(self) -> View:
        """How a fit usually sees them."""

    @property
    def single_target(self) -> bool:
        """Whether targets are a vector."""

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""

    @property
    def n_targets(self) -> int:
        """Number of targets."""

    @property
    def total(self) -> float:
        """Sum of their weights."""

    @property
    def n_dropped(self) -> int:
        """Number of rows left out because a value is missing."""

    def content(self) -> int:
        """Return a number that says which rows these are."""

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hash of every row, see `holdout`."""

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target: all rows or a part of them, through a view."""

    def taken(self, most: int, seed: int) -> ArrayData:
        """Return about `most` rows, drawn by their hash, in memory; all if they are no more."""

    def close(self) -> None:
        """Let go of what is held outside this process; a fit does so when it ends."""


@dataclass(frozen=True)
class ArrayData:
    """Rows in memory: inputs and targets in their own units, all of positive weight."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    view: View
    single_target: bool
    n_dropped: int = 0

    @classmethod
    def of(
        cls,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        names: Sequence[str],
        *,
        scale_inputs: bool = True,
        single_target: bool = True,
    ) -> ArrayData:
        """Learn the scalings of some rows."""
        statistics = Statistics.of(X, y, weight, identify=False)
        view = view_of(statistics, names, scale_inputs)
        return cls(X, y, weight, view, single_target)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.y.shape[1])

    @property
    def total(self) -> float:
        """Sum of their weights."""
        return float(len(self.X)) if self.weight is None else float(self.weight.sum())

    def content(self) -> int:
        """Return a number that says which rows these are."""
        return Statistics.of(self.X, self.y, self.weight).content

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hash of every row."""
        return row_hash(np.column_stack([self.X, self.y]), seed)

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target."""
        if part is None and view is None:
            return [compute.samples(rows, layout) for rows in self._rows]
        some = part_of(Rows(self.X, self.y, self.weight), part)
        return samples_through(compute, view or self.view, some, layout)

    @cached_property
    def _rows(self) -> list[Rows]:
        """All rows as a fit usually sees them, scaled once for all members."""
        return self.view.rows(Rows(self.X, self.y, self.weight))

    def taken(self, most: int, seed: int) -> ArrayData:
        """Return all rows: they are in memory already."""
        return self

    def close(self) -> None:
        """Hold nothing outside this process."""

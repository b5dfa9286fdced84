"""Training rows, wherever they live: what a fit must know of them, and samples of them.

Rows are in their own units here.  One pass over them gives `Statistics`, which add up like
everything else, and from these follow the scalings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic import trend
from polyadic.compute import Compute
from polyadic.engines import Rows
from polyadic.features import TensorLayout
from polyadic.holdout import Part, row_hash
from polyadic.samples import Samples
from polyadic.scaling import InputScaling, Moments, TargetScaling


@dataclass(frozen=True)
class Statistics:
    """What one pass over rows of positive weight tells; statistics of chunks add up.

    Parameters
    ----------
    n_rows : int
        How many there are.
    low, high : ndarray
        Range of each input.
    targets : Moments
        Of each target.
    content : int
        A 64-bit sum that says which rows these are, and in which order.
    """

    n_rows: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    targets: Moments
    content: int

    @classmethod
    def of(
        cls,
        X: NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any] | None,
        first_row: int = 0,
        *,
        identify: bool = True,
    ) -> Statistics:
        """Sum up rows that `first_row` others come before."""
        content = 0
        if identify:
            table = np.column_stack([X, y] if weight is None else [X, y, weight])
            numbers = np.arange(first_row, first_row + len(X), dtype=np.uint64)
            with np.errstate(over="ignore"):
                content = int(row_hash(table, numbers).sum(dtype=np.uint64))
        return cls(len(X), X.min(axis=0), X.max(axis=0), Moments.of(y, weight), content)

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.n_rows + other.n_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.targets + other.targets,
            (self.content + other.content) % 2**64,
        )


@dataclass(frozen=True)
class View:
    """How a fit sees rows: scaled inputs, standardised targets, maybe less a linear trend.

    Parameters
    ----------
    inputs : InputScaling
        What becomes of the inputs.
    targets : TargetScaling
        What becomes of the targets.
    coefficients : ndarray, optional
        A trend in `straight` inputs that is taken out of the targets.
    straight : InputScaling, optional
        The inputs of the trend.
    """

    inputs: InputScaling
    targets: TargetScaling
    coefficients: NDArray[np.float64] | None = None
    straight: InputScaling | None = None

    def rows(self, rows: Rows) -> list[Rows]:
        """Return rows in their own units as a fit sees them, for each target."""
        scaled, standard = self.inputs.apply(rows.X), self.targets.apply(rows.y)
        if self.coefficients is not None and self.straight is not None:
            standard -= trend.evaluate(self.coefficients, self.straight.apply(rows.X))
        return [Rows(scaled, np.ascontiguousarray(column), rows.weight) for column in standard.T]


def part_of(rows: Rows, part: Part | None) -> Rows:
    """Return the rows of a part, of rows in their own units."""
    if part is None or not len(rows):
        return rows
    return rows.take(part.mask(rows.X, rows.y))


def require_two_dimensions(X: Any) -> None:
    """Raise unless inputs are a table."""
    if X.ndim != 2:
        raise ValueError(
            f"`X` must have two dimensions, rows and inputs, got {X.ndim}. Reshape one input with "
            "X[:, None]."
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """Put rows one after the other."""
    weights = [part.weight for part in parts if part.weight is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
    )


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
        return compute.through(view or self.view, some, layout)

    @cached_property
    def _rows(self) -> list[Rows]:
        """All rows as a fit usually sees them, scaled once for all members."""
        return self.view.rows(Rows(self.X, self.y, self.weight))

    def taken(self, most: int, seed: int) -> ArrayData:
        """Return all rows: they are in memory already."""
        return self

    def close(self) -> None:
        """Hold nothing outside this process."""


def view_of(statistics: Statistics, names: Sequence[str], scale_inputs: bool) -> View:
    """Return the usual view of rows with these statistics."""
    if scale_inputs:
        inputs = InputScaling.between(statistics.low, statistics.high, names)
    else:
        inputs = InputScaling.identity(len(statistics.low))
    return View(inputs, statistics.targets.scaling())

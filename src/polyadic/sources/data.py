"""Training rows, wherever they are: what a fit knows of them, and samples of them.

    Data   what one pass told, the usual view, and every question that a fit may ask
     └── Store   where the rows are: in memory or on a device, in files, on a cluster

A store offers map-reduce over its rows; everything that is known of rows is a value that adds
up.  A fit sees `Data`, `Part` and `View`, and never an array as long as the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Generic, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute, ComputeSpec
from polyadic.features import TensorLayout
from polyadic.model.als import LossRows, Model, Samples, Targets
from polyadic.model.losses import Loss, LossSum
from polyadic.rows.arrays import on_host
from polyadic.rows.holdout import (
    EXACT_ROWS,
    Part,
    explain_empty_part,
    split_by_chance,
    split_exactly,
)
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import TargetScaling
from polyadic.rows.statistics import Statistics, fingerprint, hash_piece, summarise
from polyadic.rows.view import Member, Respond, View
from polyadic.samples.workers import A

_COUNTED_ROWS = 1_000_000  # up to which rows that are not in memory are counted for a split
_START_ROWS = 250_000  # rows that the start of a loss is taken from


class Store(Protocol):
    """Where the rows of positive weight are, in their own units."""

    def reduce(self, name: str, function: Callable[[Rows, int], A]) -> A:
        """Add what `function` makes of each piece of rows, in their order.

        It is called with the piece and the number of rows before it, and must be a function
        that can be sent elsewhere; `name` is what a dashboard calls it.
        """

    def samples(
        self, compute: Compute, layout: TensorLayout, part: Part | None, view: View
    ) -> list[Samples]:
        """Return the samples of each target: all rows or a part of them, through a view."""

    def responder(self, compute: Compute) -> Respond:
        """Return what says, where the rows are, how a model responds to them."""

    def loss(self, view: View, respond: Respond) -> LossSum:
        """Return the loss of the model that a view is around."""
        return self.reduce("loss", partial(view.loss_sum, respond=respond))

    def restrict(self, part: Part) -> Store:
        """Return the rows of a part, where they are."""

    def gather(self, part: Part | None) -> MemoryStore:
        """Return the rows of a part in memory: the device's, for rows that are on one."""

    def numbered(self) -> Store:
        """Return the rows with a number each, by which they are held out one by one."""

    def reserve_memory(self, compute: Compute) -> None:
        """Set aside what of the memory limit is taken by other things than a fit's state."""

    def close(self) -> None:
        """Release what is held outside this process."""


class MemoryStore(Store, Protocol):
    """A store whose rows are in this process."""

    rows: Rows


@dataclass(frozen=True)
class Data:
    """Training rows, and what one pass over them told.

    Parameters
    ----------
    store : Store
        Where the rows are.
    statistics : Statistics
        What is known of them.
    view : View
        How a fit usually sees them.
    inputs : Inputs
        What the inputs are.
    single_target : bool
        Whether targets are a vector.
    n_dropped : int
        Number of rows left out because a value is missing.
    in_memory : bool
        Whether several members may work on them side by side.
    merged_from : int, optional
        How many rows there were before copies were merged.
    is_remote : bool
        Whether other machines compute their sums.
    """

    store: Store
    statistics: Statistics
    view: View
    inputs: Inputs
    single_target: bool = True
    n_dropped: int = 0
    in_memory: bool = True
    merged_from: int | None = None
    is_remote: bool = False

    @contextmanager
    def open_compute(self, spec: ComputeSpec) -> Iterator[Compute]:
        """Open what a fit to these rows computes with; who drives a cluster needs no GPU."""
        is_elsewhere = self.is_remote and spec.uses_torch
        here = replace(spec, engine="auto", device=None) if is_elsewhere else spec
        with here.open() as compute:
            yield replace(compute, spec=spec)

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        return self.statistics.n_rows

    @property
    def n_samples(self) -> int:
        """Number of rows that users passed and that count."""
        return self.n_rows if self.merged_from is None else self.merged_from

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return len(self.inputs)

    @property
    def n_targets(self) -> int:
        """Number of weight tensors: one for each target, or for each of several classes."""
        return self.view.n_outputs(len(self.statistics.targets.mean))

    @property
    def total_weight(self) -> float:
        """Sum of the rows' weights."""
        return self.statistics.targets.weight

    def fingerprint(self) -> int:
        """Return a number that says which rows these are, and in which order."""
        return self.store.reduce("fingerprint", fingerprint) % 2**64

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the different hashes by which rows are held out."""
        return self.store.reduce("hashes", partial(hash_piece, seed=seed)).values

    @cached_property
    def n_distinct(self) -> int:
        """Number of different rows where that is cheap to tell, else the number of rows.

        Unlike the number of rows it is the same for weighted and for repeated rows.
        """
        if self.n_rows > EXACT_ROWS:
            return self.n_rows
        hash_values = partial(hash_piece, seed=0, by_group=False)
        return len(self.store.reduce("hashes", hash_values).values)

    def split(self, fraction: float, seed: int) -> tuple[Part, Part | None]:
        """Return the rows to train on and those to hold out; all and None where none differ."""
        if self.n_rows > EXACT_ROWS:
            train, held = split_by_chance(fraction, seed)
            # A pass over very many rows elsewhere would be dear, and hardly ever tell anything.
            is_dear = self.n_rows > _COUNTED_ROWS and not self.in_memory
            if is_dear or 0 < self.store.reduce("count", held.count) < self.n_rows:
                return train, held
        return split_exactly(self.hashes(seed), fraction, seed)

    def expect(self, part: Part) -> float:
        """Return about how many rows a part has."""
        return self.n_rows * part.fraction

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target: all rows or a part of them, through a view."""
        return self.store.samples(compute, layout, part, view or self.view)

    def targets(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> Targets:
        """Return what a fit is driven by: samples of each target, or rows under a loss."""
        view = view or self.view
        if view.loss is None:
            return self.samples(compute, layout, part, view)
        store = self.store if part is None else self.store.restrict(part)
        return RowsUnderLoss(store, compute, layout, view)

    def under(self, loss: Loss | None) -> Data:
        """Return these rows with a loss in their usual view; None is the squared error."""
        if loss is None:
            return self
        moments = self.statistics.targets
        loss.check(moments.low, moments.high)
        rows = self.gather_about(_START_ROWS, seed=0)
        weight = None if rows.weight is None else on_host(rows.weight)
        start = TargetScaling(*loss.start(on_host(rows.y).astype(np.float64), weight))
        view = replace(self.view, targets=start, loss=loss)
        return replace(self, view=view, single_target=self.single_target and len(start.mean) == 1)

    def gather(self, part: Part | None, most: float = np.inf) -> Data:
        """Return the rows of a part in memory, about `most` of them, with the view of all rows."""
        return self._with_store(self._gather(part, most), in_memory=True, is_remote=False)

    def restrict(self, part: Part) -> Data:
        """Return the rows of a part where they are, with the view of all rows."""
        restricted = self.store.restrict(part)
        return self._with_store(restricted, in_memory=self.in_memory, is_remote=self.is_remote)

    def _with_store(self, store: Store, *, in_memory: bool, is_remote: bool) -> Data:
        statistics = store.reduce("statistics", summarise)
        return Data(
            store,
            statistics,
            self.view,
            self.inputs,
            self.single_target,
            in_memory=in_memory,
            is_remote=is_remote,
        )

    def gather_rows(self, part: Part | None, most: float = np.inf) -> Rows:
        """Return the rows of a part in memory, about `most` of them, in their own units."""
        return self._gather(part, most).rows

    def gather_about(self, most: int, seed: int) -> Rows:
        """Return about `most` rows in memory, drawn by their hash; all if they are no more."""
        return self.gather_rows(Part(seed) if self.n_rows > most else None, most)

    def _gather(self, part: Part | None, most: float) -> MemoryStore:
        if part is None or self.expect(part) <= most:
            return self.store.gather(part)
        share = most / self.expect(part)
        some = part.subset(share)
        # So small a range may have no group, or none of a few rows with many copies.
        while not len((found := self.store.gather(some)).rows) and some != part:
            some, share = part.thin(share), 2 * share
        return found

    def close(self) -> None:
        """Release what is held outside this process; a fit does so when it ends."""
        self.store.close()


@dataclass(frozen=True)
class RowsUnderLoss(LossRows):
    """The rows of a store under the loss of a view: linearised, and summed up, where they are."""

    store: Store
    compute: Compute
    layout: TensorLayout
    view: View

    def around(self, model: Model, caution: int) -> list[Samples]:
        """Return the samples of each target, with working responses and weights at a model."""
        return self.store.samples(self.compute, self.layout, None, self._view(model, caution))

    def loss(self, model: Model) -> LossSum:
        """Return the true loss of a model."""
        return self.store.loss(self._view(model), self.store.responder(self.compute))

    def _view(self, model: Model, caution: int = 0) -> View:
        member = Member(self.view.inputs, self.layout, model)
        return replace(self.view, around=member, caution=caution)


class PartStore(Store):
    """The rows of a part of another store, which stay where they are."""

    def __init__(self, whole: Store, part: Part) -> None:
        self._whole, self._part = whole, part

    def reduce(self, name: str, function: Callable[[Rows, int], A]) -> A:
        """Add what `function` makes of each piece that has rows of the part."""
        total = self._whole.reduce(name, partial(_apply_to_part, self._part, function))
        if total.value is None:
            raise explain_empty_part()
        return total.value

    def samples(
        self, compute: Compute, layout: TensorLayout, part: Part | None, view: View
    ) -> list[Samples]:
        """Return the samples of each target."""
        assert part is None, "a part of a part is not asked for"
        return self._whole.samples(compute, layout, self._part, view)

    def responder(self, compute: Compute) -> Respond:
        """Return what says, where the rows are, how a model responds to them."""
        return self._whole.responder(compute)

    def restrict(self, part: Part) -> Store:
        """Return the rows of another part: this one's subsets are parts themselves."""
        return PartStore(self._whole, part)

    def gather(self, part: Part | None) -> MemoryStore:
        """Return the rows in memory."""
        return self._whole.gather(part or self._part)

    def numbered(self) -> Store:
        """Return these rows with the numbers that they have among all."""
        return PartStore(self._whole.numbered(), self._part)

    def reserve_memory(self, compute: Compute) -> None:
        """Set memory aside as the whole store does."""
        self._whole.reserve_memory(compute)

    def close(self) -> None:
        """Do nothing: whoever opened the whole store closes it."""


@dataclass(frozen=True)
class _Maybe(Generic[A]):
    """A value that adds up, or none: for pieces that have no row of a part."""

    value: A | None

    def __add__(self, other: _Maybe[A]) -> _Maybe[A]:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return _Maybe(self.value + other.value)


def _apply_to_part(
    part: Part, function: Callable[[Rows, int], A], rows: Rows, first_row: int
) -> _Maybe[A]:
    taken = part.take(rows)
    return _Maybe(function(taken, first_row) if len(taken) else None)

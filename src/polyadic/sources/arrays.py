"""Rows in memory: NumPy arrays, or torch tensors where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.losses import LossSum
from polyadic.rows.arrays import to_device
from polyadic.rows.copies import (
    is_design,
    merge_copies,
    number_rows,
    separate_copies,
    take_some,
)
from polyadic.rows.holdout import EXACT_ROWS, Part, explain_empty_part
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.statistics import summarise
from polyadic.rows.view import Respond, View, usual_view
from polyadic.samples.workers import A, add_up
from polyadic.sources import Measure, Predicts
from polyadic.sources.data import Data, MemoryStore

_PIECE = 2**25  # numbers that are looked at at a time
# Up to so many numbers the rows are kept as several views show them, beyond as one does.
_SEVERAL_VIEWS = 2**22
_MOST_VIEWS = 8
_ANSWERS = 2**22  # responses that are kept


class ArraySource:
    """Checked rows in memory.

    Parameters
    ----------
    rows : Rows
        Arrays or tensors in their own units, targets as columns.
    inputs : Inputs
        What the inputs are.
    single_target : bool
        Whether targets are a vector.
    device : str, optional
        Where tensors that are many are summed up, piece by piece.
    """

    def __init__(
        self,
        rows: Rows,
        inputs: Inputs,
        single_target: bool = True,
        device: str | None = None,
    ) -> None:
        self._rows, self._inputs, self._single_target = rows, inputs, single_target
        self._device = device

    def data(self, scale_inputs: bool = True, *, merge: bool = False) -> Data:
        """Return the rows, all of positive weight, as training data.

        With `merge`, copies of a row are merged where rows are few, or kept apart where inputs
        are a few combinations of levels.
        """
        rows = self._rows
        apart = merge and rows.groups is None and is_design(rows)
        merge = merge and not apart and len(rows) <= EXACT_ROWS
        rows = separate_copies(rows) if apart else merge_copies(rows) if merge else rows
        store = ArrayStore(rows, self._device)
        statistics = store.reduce("statistics", summarise)
        view = usual_view(statistics, self._inputs, scale_inputs)
        merged_from = len(self._rows) if merge or apart else None
        return Data(
            store, statistics, view, self._inputs, self._single_target, merged_from=merged_from
        )

    def predict(self, predictor: Predicts) -> Any:
        """Return the predictions for all rows."""
        return predictor.shape(self._columns(predictor))

    def evaluate(self, predictor: Predicts, measure: Measure[A]) -> A:
        """Return how good the predictions are."""
        return measure(self._rows.y, self._columns(predictor), self._rows.weight)

    def _columns(self, predictor: Predicts) -> Any:
        with predictor.open() as predict:
            return predict(self._rows.X)


def bring_few(data: Data, scale_inputs: bool) -> Data:
    """Return rows from elsewhere as arrays, copies merged, where they are few; else as they are.

    An automatic fit amplifies rounding: it is the one in memory if it begins with its bits.  Many
    rows of a few combinations of levels are held out one by one, as those in memory are.
    """
    if data.n_rows > EXACT_ROWS:
        some = data.store.reduce("some", partial(take_some, n_rows=data.n_rows)).rows
        return replace(data, store=data.store.numbered()) if is_design(some) else data
    with closing(data):
        source = ArraySource(data.gather_rows(None), data.inputs, data.single_target)
        here = source.data(scale_inputs, merge=True)
        return replace(here, n_dropped=data.n_dropped, is_remote=data.is_remote)


class ArrayStore(MemoryStore):
    """Rows in memory, or on a device.

    Parameters
    ----------
    rows : Rows
        Arrays or tensors in their own units, targets as columns, all of positive weight.
    device : str, optional
        Where tensors that are many are summed up, piece by piece.
    """

    def __init__(self, rows: Rows, device: str | None = None) -> None:
        self.rows = rows
        # Few numbers are summed up sooner than they are brought elsewhere.
        self._device = device if np.prod(rows.X.shape) >= _PIECE // 32 else None
        self._sights: list[_Sight] = []

    def reduce(self, name: str, function: Callable[[Rows, int], A]) -> A:
        """Add what `function` makes of each piece of rows."""
        total = add_up(function(piece, first) for first, piece in self._pieces())
        if total is None:
            raise explain_empty_part()
        return total

    def _pieces(self) -> Iterator[tuple[int, Rows]]:
        """Yield pieces that hold about as many numbers each, and how many rows come before."""
        size = max(1, _PIECE // max(1, self.rows.X.shape[1]))

        def bring(array: Any) -> Any:
            return array if self._device is None else to_device(array, self._device)

        for first in range(0, len(self.rows), size):
            yield first, self.rows.take(slice(first, first + size)).map(bring)

    def samples(
        self, compute: Compute, layout: TensorLayout, part: Part | None, view: View
    ) -> list[Samples]:
        """Return the samples of each target."""
        sight = self._sight(view) if part is None else _Sight(part.take(self.rows), view)
        return [
            compute.samples(sight.rows, layout, partial(sight, target, compute.predict))
            for target in range(view.n_outputs(self.rows.y.shape[1]))
        ]

    def _sight(self, view: View) -> _Sight:
        """Return all rows as a view shows them; fits through the same view share them."""
        for sight in self._sights:
            if sight.view is view:
                return sight
        if view.around is not None:  # seen once, but its inputs may have been seen before
            alike = (each for each in self._sights if each.view.inputs is view.inputs)
            return _Sight(self.rows, view, next(alike, None) or self._sight(_inputs_of(view)))
        most = _MOST_VIEWS if np.prod(self.rows.X.shape) <= _SEVERAL_VIEWS else 1
        sight = _Sight(self.rows, view)
        self._sights = [*self._sights, sight][-most:]
        return sight

    def responder(self, compute: Compute) -> Respond:
        """Return what says how a model responds to rows."""
        return compute.predict

    def loss(self, view: View, respond: Respond) -> LossSum:
        """Return the loss of the model that a view is around."""
        if not len(self.rows):
            raise explain_empty_part()
        if np.prod(self.rows.X.shape) > _SEVERAL_VIEWS:  # piece by piece, maybe on a device
            return super().loss(view, respond)
        sight = self._sight(view)
        return view.loss_sum(self.rows, 0, sight.remember(respond), sight.scaled())

    def restrict(self, part: Part) -> ArrayStore:
        """Return the rows of a part, where they are."""
        return ArrayStore(part.take(self.rows), self._device)

    def gather(self, part: Part | None) -> ArrayStore:
        """Return the rows of a part, where they are."""
        return self if part is None else self.restrict(part)

    def numbered(self) -> ArrayStore:
        """Return the rows with a number each."""
        return ArrayStore(number_rows(self.rows, 0), self._device)

    def reserve_memory(self, compute: Compute) -> None:
        """Set nothing aside: rows that users hold do not count towards the limit."""

    def close(self) -> None:
        """Do nothing: nothing is held outside this process."""


def _inputs_of(view: View) -> View:
    """Return a view of the same inputs that many others can take them from."""
    return View(view.inputs, view.targets)


class _Sight:
    """Rows as a view shows them; what was made of all of them at once is kept.

    Its inputs are those of another sight, where that shows the same ones.
    """

    def __init__(self, rows: Rows, view: View, alike: _Sight | None = None) -> None:
        self.rows, self.view, self._alike = rows, view, alike
        self._X: Any = None
        self._context: Any = None
        self._seen: dict[int, Rows] = {}
        # By the cores that they are of: cores, feature weights, and the response of each row.
        self._answers: dict[int, tuple[Any, Any, Any]] = {}

    def __call__(self, target: int, respond: Respond, rows: Rows) -> Rows:
        """Return rows as the fit of one target sees them."""
        if rows is not self.rows:  # a chunk, on its way to a device
            return self.view.see(rows, target, respond)
        if self.view.loss is not None:  # targets are seen once, for one sweep
            X, respond = self.scaled(), self.remember(respond)
            if self._context is None:
                self._context = self.view.context(rows, X, respond)
            return self.view.see(rows, target, respond, X, self._context)
        if target not in self._seen:
            self._seen[target] = self.view.see(rows, target, respond, self.scaled())
        return self._seen[target]

    def remember(self, respond: Respond) -> Respond:
        """Return what responds, and knows what it last said of these inputs.

        The loss of a model and the squares that touch it there ask for the same responses.
        """
        # Of the model as it is, and of one that is tried, there is one for every output.
        most = min(2 * self.view.n_outputs(self.rows.y.shape[1]), _ANSWERS // len(self.rows))
        return partial((self._alike or self)._answer, respond, most)

    def _answer(
        self, respond: Respond, most: int, X: Any, cores: Any, map_weights: Any, layout: Any
    ) -> Any:
        kept = self._answers
        known = kept.get(id(cores))
        if X is not self._X:
            return respond(X, cores, map_weights, layout)
        if known is not None and known[0] is cores and known[1] is map_weights:
            return known[2]
        response = respond(X, cores, map_weights, layout)
        newest = [*kept.items(), (id(cores), (cores, map_weights, response))]
        self._answers = dict(newest[-most:] if most else [])
        return response

    def scaled(self) -> Any:
        """Return the scaled inputs."""
        if self._X is None:
            alike = self._alike
            self._X = self.view.inputs.apply(self.rows.X) if alike is None else alike.scaled()
        return self._X

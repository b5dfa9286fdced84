"""Training rows in files: passes over the batches of a source."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.rows.copies import number_rows
from polyadic.rows.holdout import Part
from polyadic.rows.rows import Rows, concatenate_rows
from polyadic.rows.statistics import summarise
from polyadic.rows.view import Respond, View, usual_view
from polyadic.samples import memory_usage
from polyadic.samples.disk import Reading, StreamSamples
from polyadic.samples.workers import A, add_up
from polyadic.sources import Measure, Predicts
from polyadic.sources.arrays import ArrayStore, bring_few
from polyadic.sources.data import Data, PartStore, Store
from polyadic.sources.files.row_source import Batch, RowSource

# Estimated bytes that compiled code, chunks and sums take besides the state of a search.
_BESIDE_STATE = 150e6


class FileSource:
    """Rows in files, read a batch at a time.

    Parameters
    ----------
    rows : RowSource
        What `open_rows` returned.
    """

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    def data(self, scale_inputs: bool = True, *, merge: bool = False) -> Data:
        """Return the rows of positive weight as training data, after one pass over them.

        With `merge`, rows that are few are brought into memory and their copies merged.
        """
        self._require_target()
        store = FileStore(self._rows)
        statistics = store.reduce("statistics", summarise)
        store.n_rows = statistics.n_rows
        inputs = self._rows.inputs
        data = Data(
            store,
            statistics,
            usual_view(statistics, inputs, scale_inputs),
            inputs,
            self._rows.single_target,
            n_dropped=self._rows.n_dropped or 0,
            in_memory=False,
        )
        return bring_few(data, scale_inputs) if merge else data

    def predict_batches(self, predictor: Predicts) -> Generator[tuple[Batch, Any]]:
        """Yield every batch of rows, and what is predicted for it, a column a target."""
        with predictor.open() as predict, closing(self._rows.batches()) as batches:
            for batch in batches:
                # Errors count the rows of files from 1, those of arrays as indices from 0.
                yield batch, predict(batch.X, batch.first_row + 1)
        self._rows.warn_of_surprises()

    def predict(self, predictor: Predicts) -> NDArray[np.float64]:
        """Return the predictions for all rows."""
        parts = [np.empty((0, predictor.n_targets))]
        parts += [predicted for _, predicted in self.predict_batches(predictor)]
        return np.asarray(predictor.shape(np.concatenate(parts)))

    def evaluate(self, predictor: Predicts, measure: Measure[A]) -> A:
        """Return how good the predictions are."""
        self._require_target()
        total = add_up(
            measure(batch.y, predicted, batch.weight)
            for batch, predicted in self.predict_batches(predictor)
            if batch.weight is None or batch.weight.any()
        )
        if total is None:
            raise ValueError(f"{self._rows} has no row of positive weight to measure on.")
        return total

    def _require_target(self) -> None:
        if not self._rows.targets:
            raise ValueError("The source of rows names no target. Pass target=… to open_rows.")


class FileStore(Store):
    """The rows of a source that have a positive weight.

    Parameters
    ----------
    source : RowSource
        Where they are.
    n_rows : int
        How many there are, once that is known.
    has_numbers : bool
        Whether each row has a number by which it is held out.
    """

    def __init__(self, source: RowSource, n_rows: int = 0, *, has_numbers: bool = False) -> None:
        self.source, self.n_rows, self._has_numbers = source, n_rows, has_numbers

    def reduce(self, name: str, function: Callable[[Rows, int], A]) -> A:
        """Add what `function` makes of each batch of rows."""
        with closing(self._batches()) as batches:
            total = add_up(function(rows, first) for first, rows in _count(batches))
        if total is None:
            dropped = self.source.n_dropped
            left_out = f" ({dropped} rows were left out)" if dropped else ""
            raise ValueError(f"{self.source} has no row of positive weight{left_out}.")
        return total

    def _batches(self) -> Generator[Rows]:
        """Yield the rows of positive weight; the others are no part of a fit."""
        first = 0
        with closing(self.source.batches()) as batches:
            for batch in batches:
                assert batch.y is not None
                rows = Rows(batch.X, batch.y, batch.weight)
                if batch.weight is not None:
                    rows = rows.take(batch.weight > 0)
                if len(rows):
                    yield number_rows(rows, first) if self._has_numbers else rows
                first += len(rows)

    def samples(
        self, compute: Compute, layout: TensorLayout, part: Part | None, view: View
    ) -> list[Samples]:
        """Return the samples of each target."""
        n_rows = round((1.0 if part is None else part.fraction) * self.n_rows)
        size = self.source.batch_rows, self.source.batch_bytes
        respond = compute.for_pieces().predict
        return [
            StreamSamples(
                compute,
                layout,
                Reading(self._batches, partial(_see, view, part, target, respond), n_rows, *size),
            )
            for target in range(view.n_outputs(len(self.source.targets)))
        ]

    def responder(self, compute: Compute) -> Respond:
        """Return what says how a model responds to rows."""
        return compute.predict

    def restrict(self, part: Part) -> PartStore:
        """Return the rows of a part, which stay on disk."""
        return PartStore(self, part)

    def gather(self, part: Part | None) -> ArrayStore:
        """Read the rows of a part into memory."""
        with closing(self._batches()) as batches:
            return ArrayStore(
                concatenate_rows([rows if part is None else part.take(rows) for rows in batches])
            )

    def numbered(self) -> FileStore:
        """Return the rows with a number each, which stay on disk."""
        return FileStore(self.source, self.n_rows, has_numbers=True)

    def reserve_memory(self, compute: Compute) -> None:
        """Count what the process takes: with rows on disk the limit is about all of it."""
        compute.memory.reserve(memory_usage.resident() + _BESIDE_STATE)

    def close(self) -> None:
        """Do nothing: nothing is held outside this process."""


def _count(batches: Iterable[Rows]) -> Iterator[tuple[int, Rows]]:
    """Yield batches, and how many rows come before."""
    first = 0
    for rows in batches:
        yield first, rows
        first += len(rows)


def _see(view: View, part: Part | None, target: int, respond: Callable[..., A], rows: Rows) -> Rows:
    """Return the rows of a batch that belong to a part, as a fit sees them."""
    return view.see(rows if part is None else part.take(rows), target, respond)

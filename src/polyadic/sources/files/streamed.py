"""Training rows on disk: what passes over the files of a source tell of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.rows.holdout import Part, row_hash, some
from polyadic.rows.rows import Rows, joined
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import View, part_of, view_of
from polyadic.samples.disk import Reading, StreamSamples
from polyadic.sources.data import ArrayData
from polyadic.sources.files.row_source import Batch, RowSource


@dataclass(frozen=True)
class StreamedData:
    """The rows of a source that have a positive weight, and what one pass over them told.

    Parameters
    ----------
    source : RowSource
        Where they are.
    view : View
        How a fit usually sees them.
    n_rows, n_dropped : int
        Number of rows that count, and of those left out because a value is missing.
    total : float
        Sum of their weights.
    """

    source: RowSource
    view: View
    n_rows: int
    n_dropped: int
    total: float

    @classmethod
    def of(cls, source: RowSource, scale_inputs: bool) -> StreamedData:
        """Learn the scalings in one pass."""
        with closing(_used(source)) as batches:
            parts = (Statistics.of(*_arrays(batch), identify=False) for batch in batches)
            first = next(parts, None)
            if first is None:
                dropped = f" ({source.n_dropped} rows were left out)" if source.n_dropped else ""
                raise ValueError(f"{source} has no row of positive weight{dropped}.")
            known = reduce(add, parts, first)
        view = view_of(known, [repr(name) for name in source.names], scale_inputs)
        return cls(source, view, known.n_rows, source.n_dropped or 0, known.targets.weight)

    def close(self) -> None:
        """Hold nothing outside this process."""

    @property
    def single_target(self) -> bool:
        """Whether targets are a vector."""
        return self.source.single_target

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self.source.targets)

    def content(self) -> int:
        """Return a number that says which rows these are, after a pass over them."""
        with closing(_used(self.source)) as batches:
            return reduce(
                add, (Statistics.of(*_arrays(batch), batch.first_row) for batch in batches)
            ).content

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hash of every row."""
        with closing(_used(self.source)) as batches:
            return np.concatenate(
                [row_hash(np.column_stack(_arrays(batch)[:2]), seed) for batch in batches]
            )

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target."""
        share = 1.0 if part is None else (part.upto - part.above) / 2**64
        return [
            StreamSamples(
                compute,
                layout,
                Reading(
                    partial(_used, self.source),
                    partial(_rows, view or self.view, part, target),
                    round(share * self.n_rows),
                    self.source.batch_rows,
                    self.source.batch_bytes,
                ),
            )
            for target in range(self.n_targets)
        ]

    def taken(self, most: int, seed: int) -> ArrayData:
        """Return about `most` rows in memory, with the scalings of all; all if they are no more."""
        part = some(self.n_rows, most, seed)
        with closing(_used(self.source)) as batches:
            rows = joined([part_of(Rows(*_arrays(batch)), part) for batch in batches])
        return ArrayData(rows.X, rows.y, rows.weight, self.view, self.single_target, self.n_dropped)


def _used(source: RowSource) -> Generator[Batch]:
    """Yield the rows of positive weight; the others are no part of a fit."""
    first = 0
    with closing(source.batches()) as batches:
        for batch in batches:
            X, y, weight = _arrays(batch)
            if weight is not None:
                used = weight > 0
                X, y, weight = X[used], y[used], weight[used]
            if len(X):
                yield Batch(first, X, y, weight)
                first += len(X)


def _arrays(batch: Batch) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    assert batch.y is not None
    return batch.X, batch.y, batch.weight


def _rows(view: View, part: Part | None, target: int, batch: Batch) -> Rows:
    """Return the rows of a batch as a fit sees them, for one target."""
    return view.rows(part_of(Rows(*_arrays(batch)), part))[target]

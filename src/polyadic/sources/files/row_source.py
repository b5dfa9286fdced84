"""Rows on disk: a source that can be read again and again, a batch at a time.

files ─► blocks ─► checked rows ─► batches ─► statistics, sums, predictions
         └────── a thread of its own ──────┘
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows import holdout
from polyadic.rows.holdout import Part, row_hash
from polyadic.rows.inputs import Inputs
from polyadic.samples.prefetch import read_ahead
from polyadic.samples.workers import add_up
from polyadic.sources.files.encoding import Tally, encode_batch, gaps_of, kinds_of
from polyadic.sources.files.row_files import (
    NUMBER,
    TEXT,
    Block,
    RowFile,
    RowsError,
    number_rows,
)
from polyadic.sources.labels import Classes, LabelColumn, Labels
from polyadic.sources.schema import Schema, same_gaps
from polyadic.sources.survey import FROM_DTYPE, Survey, named_columns

# Memory of one batch: a few are alive at a time, and each is cut into smaller chunks.
_BATCH_BYTES = 2**21
_LEAST_ROWS, _MOST_ROWS = 1024, 2**16
SPLIT_SEED = 2**40
"""What is added to the seed of a split; seeds of fits are smaller."""


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a source, in their own units; targets are columns.

    Labels are the numbers of their classes, −1 for one that the fit did not see.
    """

    first_row: int
    X: NDArray[Any]
    y: NDArray[Any] | None
    weight: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.X)


class RowSource:
    """Rows in files: what :func:`open_rows` returns.

    Attributes
    ----------
    files : list of pathlib.Path
        The files, in the order their rows are read.
    names : list of str
        The columns to predict from.
    targets : list of str
        The targets.
    weight : str or None
        The column of weights.
    """

    def __init__(
        self,
        files: Sequence[RowFile],
        names: Sequence[str],
        targets: Sequence[str],
        weight: str | None,
        missing: str,
        single_target: bool,
    ) -> None:
        self._files = list(files)
        self.files = [file.path for file in files]
        self.names, self.targets, self.weight = list(names), list(targets), weight
        self.single_target = single_target
        self._missing = missing
        self._schema: Schema | None = None
        self._classes: Classes | None = None
        # What the last pass counted; those who read the same rows as others share it.
        self._last: list[Tally] = []
        # A part is told by the hash of rows as all rows have them encoded.
        self._part: Part | None = None
        self._hashed_by: Schema | None = None
        self._others = [*targets, *([] if weight is None else [weight])]
        self._columns = [*names, *self._others]

    @property
    def n_dropped(self) -> int | None:
        """Rows that the last pass left out because a value was missing; None before the first."""
        return self._last[0].dropped if self._last else None

    @property
    def schema(self) -> Schema:
        """How columns become inputs: as a fit says, or as one pass over the rows tells."""
        if self._schema is None:
            self._schema, _ = self.learn_schema()
        return self._schema

    @property
    def inputs(self) -> Inputs:
        """The inputs that the columns become."""
        return Inputs.of_numbers(self.names) if self.is_plain else self.schema.inputs

    def warn_of_surprises(self) -> None:
        """Warn of levels and gaps that the fit had not seen, after a pass over all rows."""
        if self._schema is not None and self._last:
            self._last[0].surprises.warn(self._schema)

    def learn_schema(self, categorical_features: Any = FROM_DTYPE) -> tuple[Schema, list[str]]:
        """Read all rows once, and return how their columns become inputs, and doubts about it.

        Parameters
        ----------
        categorical_features : "from_dtype", None, or list of names, places or bool
            Columns that are categories besides those of text.
        """
        named = named_columns(categorical_features, self.names, len(self.names))
        if self.is_plain and not any(named):
            gaps = np.zeros(len(self.names), dtype=np.int64)
            for values in self._rows():
                has_weight = len(values) > len(self.names) + len(self.targets)
                counts = values[-1] > 0 if has_weight else slice(None)
                gaps += np.isnan(values[: len(self.names), counts]).sum(axis=1)
            return Schema.of_numbers(self.names, len(self.names), gaps), []
        tally = Tally(len(self.names))
        total = add_up(
            self._survey(file, batch, categorical_features)
            for file in self._files
            for batch in self._checked(file, tally)
        )
        self._last[:] = [tally]
        if total is None:
            return Schema.of_numbers(self.names, len(self.names)), []
        return total.schema(), total.doubts()

    def _survey(self, file: RowFile, batch: Any, categorical_features: Any) -> Survey:
        """Return what the rows that count tell about their columns; an error names the file."""
        import pyarrow

        weight = None if self.weight is None else number_rows(batch, [self.weight])[0]
        if self._classes is not None:
            weight = self._classes.weigh(self._targets(file, batch)[0], weight)
        if weight is not None:
            batch, weight = batch.filter(weight > 0), weight[weight > 0]
        frame = pyarrow.Table.from_batches([batch]).select(self.names)
        try:
            return Survey.of(frame, categorical_features, weight)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file.path}: {error}") from error

    def encoded(self, schema: Schema) -> RowSource:
        """Return the rows as a fit sees them; text of CSV files is read as what it was there.

        Parameters
        ----------
        schema : Schema
            How the columns of the fit became inputs.
        """
        schema.check_columns(self.names, len(self.names))
        kinds = kinds_of(schema, self.names)
        source = copy(self)
        source._files = [file.read_as(kinds) for file in self._files]
        source._schema = schema
        return source

    def labels(self) -> Labels:
        """Read the target once, and return how much the rows of each label weigh."""
        if len(self.targets) != 1:
            raise ValueError(
                f"The source of rows must name one column of labels, got {len(self.targets)}. Pass "
                "target=… to open_rows, and fit a classifier to each."
            )
        source = copy(self)
        source._schema = None
        if self._missing != "complete" and self._part is None:
            # Other columns do not say which rows there are.
            source.names, source._columns = [], self._others
        total, tally = Labels(), Tally(len(source.names))
        for file in source._files:
            for column, weight in source._label_columns(file, tally):
                total += Labels.of(column, weight)
        return total

    def _label_columns(
        self, file: RowFile, tally: Tally
    ) -> Iterator[tuple[LabelColumn, NDArray[np.float64] | None]]:
        """Yield the labels and the weights of rows that are left after the check."""
        (name,) = self.targets
        if self.is_plain and file.types[name] == NUMBER:
            for values in self._numbers(file, tally):
                labels = values[len(values) - len(self._others)]
                yield (
                    LabelColumn.of(labels, are_flags=name in file.flags),
                    None if self.weight is None else values[-1],
                )
            return
        for batch in self._checked(file, tally):
            weight = None if self.weight is None else number_rows(batch, [self.weight])[0]
            yield _label_column(file, batch, name), weight

    def labelled(self, classes: Classes) -> RowSource:
        """Return the rows with the number of each row's class as target.

        Parameters
        ----------
        classes : Classes
            Of a fit; a label that is none of them has the number −1.
        """
        source = copy(self)
        if classes.are_text:  # "1" and "2" may be all that there is here
            kinds = dict.fromkeys(self.targets, TEXT)
            source._files = [file.read_as(kinds) for file in self._files]
        source._classes = classes
        return source

    def require_numbers(self) -> None:
        """Raise unless targets are numbers."""
        for file in self._files if self._classes is None else ():
            wrong = [file.describe(name) for name in self.targets if file.types[name] != NUMBER]
            if wrong:
                raise RowsError(
                    f"{file.path} has columns that cannot be used: {'; '.join(wrong)}.", "target"
                )

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers, which need no encoding."""
        return all(file.types[name] == NUMBER for file in self._files for name in self.names) and (
            self._schema is None or self._schema.is_numeric
        )

    @property
    def _n_values(self) -> int:
        """Numbers in an encoded row."""
        return len(self.inputs) + len(self._others)

    @property
    def batch_rows(self) -> int:
        """Rows of a batch.

        They depend on the number of columns alone, so that sums do not depend on how the
        rows are spread over files.
        """
        rows = _BATCH_BYTES // (8 * self._n_values)
        return int(np.clip(rows, _LEAST_ROWS, _MOST_ROWS))

    @property
    def batch_bytes(self) -> int:
        """Memory that the values of a batch take."""
        return 8 * self._n_values * self.batch_rows

    @property
    def n_bytes(self) -> int:
        """Size of the files."""
        return sum(file.n_bytes for file in self._files)

    @property
    def notes(self) -> dict[str, str]:
        """What is done to columns to read them."""
        found = {name: note for file in reversed(self._files) for name, note in file.notes.items()}
        return {name: found[name] for name in self._columns if name in found}

    @property
    def remarks(self) -> list[str]:
        """What is done to files and columns to read them, a sentence each."""
        dates = {name for file in self._files for name in file.dates}
        return [
            *(f"{file.path}: {remark}." for file in self._files for remark in file.remarks),
            # How days are spelled is nothing to be wary of.
            *(f"Column {name!r}: {n}." for name, n in self.notes.items() if name not in dates),
        ]

    @property
    def kinds(self) -> dict[str, str]:
        """What each column is in the first file that has values: a number, text or a date."""
        return {
            name: next((file.types[name] for file in self._files if name not in file.empty), NUMBER)
            for name in self._columns
        }

    def frames(self) -> Iterator[Any]:
        """Yield all rows as they are in the files, as record batches of Arrow."""
        return (block.batch for file in self._files for block in file.arrow(self._columns))

    def batches(self) -> Generator[Batch]:
        """Yield all rows; those to come are read while the caller works on these.

        Yields
        ------
        batch : Batch
            Consecutive rows; `first_row` is the number of rows yielded before them.
        """
        return read_ahead(self._batches())

    def split(self, fraction: float = 0.2, seed: int = 0) -> tuple[RowSource, RowSource]:
        """Return two sources: most rows to learn from, and a part to measure on.

        Parameters
        ----------
        fraction : float
            Fraction of the second part, between 0 and 1.
        seed : int
            Of the hash that says where a row belongs, by its values.

        Returns
        -------
        kept, held_out : RowSource
            Every row is in one of them; equal rows are in the same.  Where all rows are
            equal, the second is empty.
        """
        if not 0 < fraction < 1:
            raise ValueError(f"`fraction` must be between 0 and 1, got {fraction!r}.")
        if self._part is not None:
            raise ValueError("This source is a part already. Split the one that open_rows returns.")
        # A fit holds rows out by seeds of its own; by the same hash it would find none.
        seed += SPLIT_SEED
        kept, held_out = self._split(fraction, seed)
        return self._take_part(kept), self._take_part(held_out or Part(seed, above=2**64 - 1))

    def _split(self, fraction: float, seed: int) -> tuple[Part, Part | None]:
        """Return two parts, after as few batches as tell that both of them have rows."""
        kept, held_out = holdout.split_by_chance(fraction, seed)
        hashes, count = np.empty(0, dtype=np.uint64), 0
        with closing(self.batches()) as batches:
            for batch in batches:
                values = [batch.X] if batch.y is None else [batch.X, batch.y]
                hashes = np.union1d(hashes, row_hash(values, seed).view(np.uint64))
                count += len(batch)
                if count > holdout.EXACT_ROWS and held_out.divides(hashes):
                    return kept, held_out
        return holdout.split_exactly(hashes, fraction, seed)

    def __repr__(self) -> str:
        files = str(self.files[0]) if len(self.files) == 1 else f"{len(self.files)} files"
        inputs = f"{len(self.names)} input{'s' * (len(self.names) != 1)}"
        target = ", ".join(map(repr, self.targets)) or "none"
        weight = "" if self.weight is None else f", weight={self.weight!r}"
        part = "" if self._part is None else ", a part of the rows"
        return f"RowSource({files}, {inputs}, target={target}{weight}{part})"

    def _take_part(self, part: Part) -> RowSource:
        source = copy(self)
        source._part, source._last = part, []
        if not self.is_plain:
            # Those who learn from a part do not know the levels of the others.
            source._hashed_by, source._schema = self.schema, None
        return source

    def _batches(self) -> Generator[Batch]:
        """Put the rows of all files into batches of equal size."""
        first, size, waiting, count = 0, self.batch_rows, list[NDArray[Any]](), 0
        for values in self._rows():
            waiting.append(values)
            count += values.shape[1]
            while count >= size:
                whole = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
                yield self._batch(whole[:, :size], first)
                first, count = first + size, count - size
                waiting = [whole[:, size:]]
        if count:
            yield self._batch(np.concatenate(waiting, axis=1), first)

    def _batch(self, values: NDArray[Any], first_row: int) -> Batch:
        inputs, targets = len(self.inputs), len(self.targets)
        return Batch(
            first_row,
            values[:inputs].T,
            values[inputs : inputs + targets].T if targets else None,
            values[-1] if len(values) > inputs + targets else None,
        )

    def _rows(self) -> Iterator[NDArray[np.float64]]:
        """Yield inputs, targets and weights × rows of what is left after the check of every row."""
        tally = Tally(len(self.names))
        for file in self._files:
            plain = self.is_plain and all(file.types[name] == NUMBER for name in self.targets)
            rows = (self._numbers if plain else self._encode)(file, tally)
            yield from rows if self._classes is None else map(self._weigh, rows)
        self._last[:] = [tally]

    def _weigh(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows whose weights are those of their classes, too."""
        assert self._classes is not None
        inputs = len(self.inputs)
        weight = None if self.weight is None else values[-1]
        weights = self._classes.weigh(values[inputs], weight)
        parts = [values[: inputs + 1], *([] if weights is None else [weights[None]])]
        return np.concatenate(parts)

    def _numbers(self, file: RowFile, tally: Tally) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a file whose columns are all numbers."""
        inputs = len(self.names)
        for block in file.blocks(self._columns, self.batch_rows):
            keep = self._check(file, block, tally)
            values = block.values if keep.all() else block.values[:, keep]
            values[np.isnan(values)] = np.nan  # one NaN by its bits, which are hashed
            if self._part is not None:
                targets = values[inputs : inputs + len(self.targets)]
                values = values[:, self._part.mask(values[:inputs].T, targets.T)]
            if self._schema is not None:
                tally.add_gaps(self._schema, values)
            if self._classes is not None:
                values[inputs] = self._classes.number(LabelColumn.of(values[inputs]))
            if values.size:
                yield values

    def _encode(self, file: RowFile, tally: Tally) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a file whose columns become inputs by a schema, or labels numbers."""
        for batch in self._checked(file, tally):
            if self.is_plain:
                inputs = same_gaps(number_rows(batch, self.names))
                if self._schema is not None:
                    tally.add_gaps(self._schema, inputs)
            else:
                encoded = encode_batch(file, batch, self.names, self.schema)
                tally.surprises += encoded.surprises
                inputs = encoded.X.T
            if batch.num_rows:
                weights = number_rows(batch, [] if self.weight is None else [self.weight])
                yield np.concatenate([inputs, self._targets(file, batch), weights])

    def _targets(self, file: RowFile, batch: Any) -> NDArray[np.float64]:
        """Return targets as numbers: those of classes, or what else tells texts apart."""
        if self._classes is not None:
            columns = [_label_column(file, batch, name) for name in self.targets]
            return np.array([self._classes.number(column) for column in columns])
        return _hashed_targets(file, batch, self.targets)

    def _checked(self, file: RowFile, tally: Tally) -> Iterator[Any]:
        """Yield the rows of a file that are left after the check as record batches."""
        for block in file.arrow(self._columns, _MOST_ROWS):
            values = gaps_of(file, block.batch, self._columns)
            keep = self._check(file, Block(values, block.first_row, block.row_group), tally)
            batch = block.batch if keep.all() else block.batch.filter(keep)
            if self._part is not None:
                X = self._hashed_values(file, batch)
                targets = _hashed_targets(file, batch, self.targets)
                batch = batch.filter(self._part.mask(X, targets.T))
            yield batch

    def _hashed_values(self, file: RowFile, batch: Any) -> NDArray[np.float64]:
        """Return the inputs by whose hash rows are in a part."""
        if self._hashed_by is None:  # all were numbers when the rows were split
            return same_gaps(number_rows(batch, self.names).T)
        return encode_batch(file, batch, self.names, self._hashed_by).X

    def _check(self, file: RowFile, block: Block, tally: Tally) -> NDArray[np.bool_]:
        """Return which rows count, or raise an error that says where one is that cannot."""
        values, inputs = block.values, len(self.names)
        finite = np.isfinite(values)
        whole = finite.all(axis=0)
        if self._missing == "complete" or whole.all():
            keep = whole
        else:
            takes_gaps = self._schema is None or not self._schema.is_whole
            wrong = np.isinf(values[:inputs]) if takes_gaps else ~finite[:inputs]
            if self._missing == "keep":
                wrong = np.concatenate([wrong, ~finite[inputs:]])
            if wrong.any():
                raise self._explain_gap(file, block, wrong)
            keep = finite[inputs:].all(axis=0)
        if self.weight is not None and (values[-1, keep] < 0).any():
            row = int(np.argmax(values[-1] < 0))
            raise ValueError(
                f"{block.place(file.path, row)} has the weight {block.values[-1, row]:g} in column "
                f"{self.weight!r}. Weights must not be negative; 0 leaves a row out."
            )
        tally.dropped += int(np.count_nonzero(~keep))
        return np.asarray(keep)

    def _explain_gap(self, file: RowFile, block: Block, wrong: NDArray[np.bool_]) -> RowsError:
        """Return the error of the first row that has what cannot be used."""
        row = int(np.argmax(wrong.any(axis=0)))
        column = int(np.argmax(wrong[:, row]))
        name, where = self._columns[column], block.place(file.path, row)
        if np.isinf(block.values[column, row]):
            what = f"{where} has an infinite value in column {name!r}."
            return RowsError(what, "infinite", value=f"{block.values[column, row]:g}")
        if name in self.targets and (self._classes is not None or file.types[name] == TEXT):
            more = block.more(wrong[column])
            return RowsError(f"{where} has no label in column {name!r}{more}.", "gap")
        return RowsError(
            f"{where} has no number in column {name!r}.",
            "gap" if name in self._others else "gaps",
        )


def _label_column(file: RowFile, batch: Any, name: str) -> LabelColumn:
    """Return the labels of a record batch."""
    if file.types[name] == NUMBER:
        return LabelColumn.of(number_rows(batch, [name])[0], are_flags=name in file.flags)
    return LabelColumn.of_arrow(batch.column(name))


def _hashed_targets(file: RowFile, batch: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return targets as numbers by which rows are told apart; those of texts are their hashes."""
    values = np.empty((len(names), batch.num_rows))
    for row, name in zip(values, names, strict=True):
        is_number = file.types[name] == NUMBER
        row[:] = (
            number_rows(batch, [name])[0]
            if is_number
            else _label_column(file, batch, name).hashes()
        )
    return values

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
from polyadic.samples.prefetch import read_ahead
from polyadic.sources.files.paths import Paths, open_files
from polyadic.sources.files.row_files import NUMBER, Block, CsvFormat, RowFile, RowsError

# Memory of one batch: a few are alive at a time, and each is cut into smaller chunks.
_BATCH_BYTES = 2**21
_LEAST_ROWS, _MOST_ROWS = 1024, 2**16


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows of a source, in their own units; targets are columns."""

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
        The inputs.
    targets : list of str
        The targets.
    weight : str or None
        The column of weights.
    n_dropped : int or None
        Rows that the last pass left out because a value was missing; None before the first.
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
        self.n_dropped: int | None = None
        self._missing = missing
        self._part: Part | None = None
        self._columns = [*names, *targets, *([] if weight is None else [weight])]

    @property
    def batch_rows(self) -> int:
        """Rows of a batch.

        They depend on the number of columns alone, so that sums do not depend on how the
        rows are spread over files.
        """
        rows = _BATCH_BYTES // (8 * len(self._columns))
        return int(np.clip(rows, _LEAST_ROWS, _MOST_ROWS))

    @property
    def batch_bytes(self) -> int:
        """Memory that the values of a batch take."""
        return 8 * len(self._columns) * self.batch_rows

    @property
    def n_bytes(self) -> int:
        """Size of the files."""
        return sum(file.n_bytes for file in self._files)

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
        hashes = self._first_hashes(seed)
        kept, held_out = holdout.split(len(hashes), lambda _: hashes, fraction, seed)
        return self._take_part(kept), self._take_part(held_out or Part(seed, above=2**64 - 1))

    def _first_hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hashes of all rows where they are few, and of more than few where not."""
        parts, count = [np.empty(0, dtype=np.uint64)], 0
        with closing(self.batches()) as batches:
            for batch in batches:
                values = [batch.X] if batch.y is None else [batch.X, batch.y]
                parts.append(row_hash(values, seed).view(np.uint64))
                count += len(batch)
                if count > holdout.EXACT_ROWS:
                    break
        return np.concatenate(parts)

    def __repr__(self) -> str:
        files = str(self.files[0]) if len(self.files) == 1 else f"{len(self.files)} files"
        inputs = f"{len(self.names)} input{'s' * (len(self.names) != 1)}"
        target = ", ".join(map(repr, self.targets)) or "none"
        weight = "" if self.weight is None else f", weight={self.weight!r}"
        part = "" if self._part is None else ", a part of the rows"
        return f"RowSource({files}, {inputs}, target={target}{weight}{part})"

    def _take_part(self, part: Part) -> RowSource:
        source = copy(self)
        source._part, source.n_dropped = part, None
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
        inputs, targets = len(self.names), len(self.targets)
        return Batch(
            first_row,
            values[:inputs].T,
            values[inputs : inputs + targets].T if targets else None,
            None if self.weight is None else values[-1],
        )

    def _rows(self) -> Iterator[NDArray[np.float64]]:
        """Yield columns × rows of what is left after the check of every row."""
        dropped, inputs = 0, len(self.names)
        for file in self._files:
            for block in file.blocks(self._columns, self.batch_rows):
                values = self._check_block(file, block)
                dropped += block.values.shape[1] - values.shape[1]
                if self._part is not None:
                    targets = values[inputs : inputs + len(self.targets)]
                    values = values[:, self._part.mask(values[:inputs].T, targets.T)]
                if values.size:
                    yield values
        self.n_dropped = dropped

    def _check_block(self, file: RowFile, block: Block) -> NDArray[np.float64]:
        """Return the values without gaps, or raise an error that says where one is."""
        values = block.values
        finite = np.isfinite(values)
        whole = finite.all(axis=0)
        if not whole.all():
            if self._missing != "drop":
                row = int(np.argmin(whole))
                column = int(np.argmin(finite[:, row]))
                what = "an infinite value" if np.isinf(values[column, row]) else "no number"
                raise RowsError(
                    f"{block.place(file.path, row)} has {what} in column "
                    f"{self._columns[column]!r}.",
                    "gap",
                )
            values = values[:, whole]
        if self.weight is not None and (values[-1] < 0).any():
            row = int(np.argmax(block.values[-1] < 0))
            raise ValueError(
                f"{block.place(file.path, row)} has the weight {block.values[-1, row]:g} in column "
                f"{self.weight!r}. Weights must not be negative; 0 leaves a row out."
            )
        return values


def open_rows(
    path: Paths | Sequence[Paths],
    target: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    missing: str = "error",
    delimiter: str | None = None,
    decimal: str = ".",
    na: Sequence[str] = (),
) -> RowSource:
    """Open rows on disk, to pass to ``fit``, ``predict`` and ``score`` in place of X and y.

    Nothing is read but the names and types of the columns.  A fit then reads the files as
    often as it needs to, a batch at a time, so they may be larger than memory.

    Parameters
    ----------
    path : path, or list of paths
        Parquet, CSV, npy or npz files, by their endings.  A folder stands for the files in it
        and in the folders in it, a glob such as "rows/*.parquet" for those it matches, both
        sorted by name.  A folder in it that is called "year=2020" gives its files a column
        "year".
    target : str or list of str, optional
        Column to predict, or several.  Not needed to predict.
    columns : list of str, optional
        Columns to predict from; by default all but target, weight and an index that pandas
        wrote, which must then be the same in all files.  The columns of an npy file are "x0",
        "x1", ….
    weight : str, optional
        Column with the weight of each row.  Rows of weight 0 do not count in a fit.
    missing : {"error", "drop"}, default="error"
        What to do about a row with a missing or infinite value in one of these columns:
        raise an error that says where it is, or leave it out and count it in
        ``n_dropped``, which a fit keeps as ``n_samples_dropped_``.
    delimiter : str, optional
        Of CSV files; by default a comma, or a tab where the name ends in .tsv.
    decimal : str, default="."
        Decimal mark of CSV files.
    na : list of str, optional
        Texts that stand for a missing value in CSV files, besides the empty one, "NA", "nan",
        "null" and their like.

    Returns
    -------
    source : RowSource
        Numbers of any type become float64, true and false 1 and 0.  Errors count the rows of
        a file from 1, the first under the header.

    Examples
    --------
    >>> import numpy as np, pyarrow, pyarrow.parquet, tempfile
    >>> from polyadic import KernelMachineRegressor, open_rows
    >>> x = np.random.default_rng(0).uniform(size=(2, 1000))
    >>> table = pyarrow.table({"a": x[0], "b": x[1], "y": np.sin(3 * x[0]) * x[1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, f"{folder}/rows.parquet")
    ...     rows = open_rows(f"{folder}/*.parquet", target="y")
    ...     model = KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(rows)
    ...     model.n_samples_fit_, model.score(rows) > 0.99
    (1000, True)
    """
    if missing not in ("error", "drop"):
        raise ValueError(f"`missing` must be 'error' or 'drop', got {missing!r}.")
    files = open_files(path, CsvFormat(delimiter, decimal, tuple(na)))
    return select_rows(files, target, columns, weight, missing)


def select_rows(
    files: Sequence[RowFile],
    target: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    weight: str | None,
    missing: str,
) -> RowSource:
    """Return the rows of open files; parameters are those of `open_rows`."""
    targets = [target] if isinstance(target, str) else list(target or ())
    weights = [] if weight is None else [weight]
    others = [*targets, *weights]
    if columns is None:
        names = [name for name in files[0].types if name not in [*others, *files[0].index]]
    elif isinstance(columns, str):
        raise ValueError(f"`columns` must be a list of names, got {columns!r}.")
    else:
        names = list(columns)
    _check_names(files[0], names, others)
    for file in files:
        _check_file(file, files[0], [*names, *others], exact=columns is None)
    return RowSource(files, names, targets, weight, missing, isinstance(target, str))


def _check_names(first: RowFile, names: list[str], others: list[str]) -> None:
    if not names:
        raise ValueError(f"{first.path} has no column to predict from besides {others}.")
    every = [*names, *others]
    for name in every:
        if every.count(name) > 1:
            raise ValueError(
                f"`target`, `columns` and `weight` must name different columns, got {name!r} twice."
            )


def _check_file(file: RowFile, first: RowFile, names: list[str], *, exact: bool) -> None:
    """Raise unless a file has the columns as numbers; and no others, where none were named."""
    for name in names:
        kind = file.types.get(name)
        if kind is None:
            raise ValueError(
                f"{file.path} has no column {name!r}; it has {', '.join(map(repr, file.types))}."
            )
        if kind == NUMBER:
            continue
        change = f", and numbers in {first.path}" if first.types[name] == NUMBER else ""
        raise RowsError(
            f"Column {name!r} of {file.path} must be numbers, but is of type {kind}{change}.",
            "columns",
        )
    extra = [name for name in file.types if name not in [*names, *file.index]]
    if exact and extra:
        raise RowsError(
            f"{file.path} has a column {extra[0]!r} that {first.path} lacks.", "columns"
        )

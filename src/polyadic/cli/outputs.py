"""What the command writes: never over an input, and over an earlier file only if told to."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.storage.atomic import replacing

Columns = dict[str, NDArray[Any]]
"""Predictions of some rows: names of columns, and their values."""

_PREDICTIONS = (".csv", ".tsv", ".txt", ".parquet", ".pq")


@dataclass(frozen=True)
class Wanted:
    """What users want to be written beside predictions.

    Parameters
    ----------
    proba : bool
        The probability of each class.
    std : bool
        Standard deviations.
    coverages, quantiles : tuple of float
        Intervals that hold so many targets, and quantiles.
    """

    proba: bool = False
    std: bool = False
    coverages: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()

    @property
    def uncertainty(self) -> str | None:
        """The first option that asks how sure predictions are."""
        asked = {"--std": self.std, "--interval": self.coverages, "--quantiles": self.quantiles}
        return next((option for option, value in asked.items() if value), None)


def check_output(out: str, inputs: Sequence[str | None] = (), force: bool = False) -> None:
    """Raise a mistake before any work if a file cannot or must not be written.

    Parameters
    ----------
    out : str
        The file to write.
    inputs : sequence of str or None
        What the command reads, or keeps its state in; it is never replaced.
    force : bool
        Whether a file that is there may be replaced.
    """
    path = Path(out).resolve()  # a link is followed to the file that is written
    if path.is_dir():
        raise Mistake(f"--out {out} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise Mistake(
            f"--out {out} is in a folder that does not exist. Create {path.parent} first."
        )
    for name in inputs:
        if name is not None and _is_part(path, Path(str(name))):
            raise Mistake(f"--out {out} is what the command reads. Name another file.")
    if path.exists() and not force:
        raise Mistake(f"--out {out} exists. Name another file, or pass --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise Mistake(
            f"--out {out} cannot be written ({error.strerror}). Name a file in another folder."
        ) from error


def _is_part(path: Path, source: Path) -> bool:
    """Return whether a path is a file that is read, or in a folder that is read."""
    source = source.resolve()
    return path == source or source in path.parents


def check_predictions(out: str) -> None:
    """Raise a mistake if predictions cannot be written in the format a name asks for."""
    if Path(out).suffix.lower() not in _PREDICTIONS:
        raise Mistake(
            f"--out {out} must end in .csv or .parquet: predictions are written in these formats."
        )


def write_predictions(path: str, parts: Iterable[Columns]) -> int:
    """Write columns, in the order of the rows, as CSV or Parquet by the file's ending.

    They come in parts, which are written as they come.  Return the number of rows.
    """
    ending = Path(path).suffix.lower()
    with replacing(path) as file:
        if ending in (".parquet", ".pq"):
            return _write_parquet(file, parts)
        return _write_csv(file, parts, "\t" if ending == ".tsv" else ",")


def _write_csv(file: IO[bytes], parts: Iterable[Columns], delimiter: str) -> int:
    count = 0
    for part in parts:
        file.write(as_lines(part, header=not count, delimiter=delimiter).encode())
        count += _n_rows(part)
    return count


def _write_parquet(file: IO[bytes], parts: Iterable[Columns]) -> int:
    import pyarrow
    from pyarrow import parquet

    count = 0
    with ExitStack() as stack:
        writer = None
        for part in parts:
            table = pyarrow.table({name: pyarrow.array(values) for name, values in part.items()})
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            count += _n_rows(part)
    return count


def as_lines(columns: Columns, *, header: bool, delimiter: str = ",") -> str:
    """Return predictions as lines of CSV, numbers with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    if header:
        writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values()), strict=True))
    return text.getvalue()


def _cells(values: NDArray[Any]) -> list[Any]:
    """Return what is written of values; true and false as other programs read them."""
    cells: list[Any] = values.tolist()
    return [str(cell).lower() for cell in cells] if values.dtype.kind == "b" else cells


def _n_rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))

"""What the command writes: never over an input, and over an earlier file only if told to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.storage.atomic import replacing

PREDICTIONS_HEADER = "prediction\n"
_PREDICTIONS = (".csv", ".tsv", ".txt", ".parquet", ".pq")


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


def write_predictions(path: str, parts: Iterable[NDArray[np.float64]]) -> int:
    """Write one column, in the order of the rows, as CSV or Parquet by the file's ending.

    It comes in parts, which are written as they come.  Return the number of rows.
    """
    columnar = Path(path).suffix.lower() in (".parquet", ".pq")
    with replacing(path) as file:
        return (_write_parquet if columnar else _write_csv)(file, parts)


def _write_csv(file: IO[bytes], parts: Iterable[NDArray[np.float64]]) -> int:
    count = 0
    file.write(PREDICTIONS_HEADER.encode())
    for part in parts:
        file.write(as_lines(part).encode())
        count += len(part)
    return count


def _write_parquet(file: IO[bytes], parts: Iterable[NDArray[np.float64]]) -> int:
    import pyarrow
    from pyarrow import parquet

    schema, count = pyarrow.schema([("prediction", pyarrow.float64())]), 0
    with parquet.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_table(pyarrow.table({"prediction": np.ascontiguousarray(part)}))
            count += len(part)
    return count


def as_lines(predictions: NDArray[np.float64]) -> str:
    """Return the predictions with all their digits, one a line."""
    return "".join(f"{value!r}\n" for value in predictions.tolist())

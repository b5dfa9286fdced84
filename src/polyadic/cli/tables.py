"""Tables in and out: CSV and Parquet through pyarrow, npy and npz through NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.storage.atomic import replacing

PREDICTIONS_HEADER = "prediction\n"
_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "vertical bar", ",": "comma"}


class Named(Protocol):
    """What is known of a table without its rows."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    @property
    def target(self) -> str | None:
        """The column that is the target, where the file says so."""


@dataclass(frozen=True)
class Table:
    """An Arrow table, and the column that is the target where the file says so."""

    data: Any
    path: Path
    target: str | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.data.column_names)

    def __len__(self) -> int:
        return int(self.data.num_rows)


def read_table(path: str, delimiter: str | None = None, decimal: str = ".") -> Table:
    """Read a file whose ending tells its format; raise a mistake that names it."""
    file = Path(path)
    suffix = file.suffix.lower()
    readers: dict[str, Callable[[Path], Table]] = {
        ".parquet": _read_parquet,
        ".pq": _read_parquet,
        ".npz": _read_npz,
        ".npy": _read_npy,
    }
    try:
        if suffix in readers:
            table = readers[suffix](file)
        else:
            table = _read_csv(file, delimiter or ("\t" if suffix == ".tsv" else ","), decimal)
    except Mistake:
        raise
    except UnicodeDecodeError as error:
        raise Mistake(f"{path} is not UTF-8 text. Save it in that encoding.") from error
    except ValueError as error:
        raise Mistake(f"{path} cannot be read as a table: {error}") from error
    _check_shape(table)
    return table


def _read_csv(path: Path, delimiter: str, decimal: str) -> Table:
    from pyarrow import csv

    size = path.stat().st_size
    if size == 0:
        raise Mistake(f"{path} is empty. It must have a header line and rows.")
    _check_header(path, delimiter)
    data = csv.read_csv(
        path,
        # One block, so that types are told from all rows and not from the first ones.
        read_options=csv.ReadOptions(block_size=min(size + 1, 2**31 - 1)),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True, decimal_point=decimal),
    )
    names = data.column_names
    if all(is_number(name) for name in names):
        raise Mistake(
            f"{path} seems to have no header: its first line is {', '.join(names[:4])}. "
            "Put a line with the names of the columns before it."
        )
    return Table(data, path, "target" if "target" in names else None)


def _check_header(path: Path, delimiter: str) -> None:
    """Raise a mistake if the header is not UTF-8, or has another delimiter."""
    with path.open("rb") as file:
        header = file.readline(1 << 20)
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Mistake(f"{path} is UTF-16 text. Save it as UTF-8.")
    if delimiter.encode() in header:
        return
    for mark, word in _DELIMITERS.items():
        if mark.encode() in header:
            raise Mistake(f"{path} seems to be delimited by a {word}. Pass --delimiter {mark!r}.")


def _read_parquet(path: Path) -> Table:
    from pyarrow import parquet

    data = parquet.read_table(path)
    return Table(data, path, "target" if "target" in data.column_names else None)


def _read_npz(path: Path) -> Table:
    """Read inputs `X` and target `y`, and `columns` and `target` that name them."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise Mistake(f"{path} must hold a matrix `X`, and `y` for the target.")
    X, y = arrays["X"], arrays.get("y")
    names = [str(name) for name in arrays.get("columns", _numbered(X.shape[1]))]
    if len(names) != X.shape[1]:
        raise Mistake(f"{path} has {len(names)} names in `columns` for {X.shape[1]} inputs.")
    if y is None:
        return Table(_arrow(names, X.T), path)
    if y.shape != (len(X),):
        raise Mistake(f"{path} must have one value of `y` for each of its {len(X)} rows.")
    target = str(arrays.get("target", "target"))
    return Table(_arrow([*names, target], [*X.T, y]), path, target)


def _read_npy(path: Path) -> Table:
    """Read a matrix; its columns are x0, x1, …, and the last one is the target."""
    matrix = np.load(path, allow_pickle=False)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise Mistake(f"{path} must hold a matrix of numbers, got shape {matrix.shape}.")
    names = _numbered(matrix.shape[1])
    return Table(_arrow(names, matrix.T), path, names[-1] if names else None)


def _numbered(count: int) -> list[str]:
    return [f"x{index}" for index in range(count)]


def _arrow(names: Sequence[str], columns: Sequence[NDArray[Any]] | NDArray[Any]) -> Any:
    import pyarrow

    arrays = [pyarrow.array(np.ascontiguousarray(column)) for column in columns]
    return pyarrow.Table.from_arrays(arrays, names=list(names))


def _check_shape(table: Table) -> None:
    names = table.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Mistake(
            f"{table.path} has several columns named {listed(twice)}. Give each its own name."
        )
    if len(table) == 0:
        raise Mistake(f"{table.path} has no rows under its header.")


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
            writer.write_table(_arrow(["prediction"], [part]))
            count += len(part)
    return count


def as_lines(predictions: NDArray[np.float64]) -> str:
    """Return the predictions with all their digits, one a line."""
    return "".join(f"{value!r}\n" for value in predictions.tolist())


def listed(names: Sequence[str]) -> str:
    """Return names as an error shows them."""
    return ", ".join(repr(name) for name in names)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True

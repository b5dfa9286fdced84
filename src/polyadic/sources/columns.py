"""How one column of a table is read: as numbers, as levels of a category, or as times.

    what a column holds                           is read as
    --------------------------------------------  ------------------------------------------
    numbers, nullable numbers, decimals, flags    number; a flag is 0 or 1
    text, categories                              category: one of some levels
    ordered categories of pandas and Arrow        order: the place of the level
    dates, and times with or without a zone       date: microseconds of wall time since 1970
    durations                                     number, in days
    times of day                                  number, in hours
    nothing but gaps                              gaps

None, NaN, NaT and NA are gaps; the text "nan" is not.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

Level = str | int | float
Kind = Literal["number", "category", "order", "date", "gaps"]

_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction)
_TIMES = (dt.date, np.datetime64)  # a datetime is a date, and so is a timestamp of pandas
_DURATIONS = (dt.timedelta, np.timedelta64)
_DAY = 86_400e6  # microseconds
_EPOCH = dt.datetime(1970, 1, 1)
_JOINED_ROWS = 4096
_MOST_EXACT = 2**53  # from here on doubles do not tell whole numbers apart
# What holds something that has no place among numbers, and what to do about it.
_REMEDIES = {
    "Period": "Pass its start: X[name].dt.to_timestamp().",
    "bytes": "Decode it: X[name].str.decode('utf-8').",
    "list": "Make columns of its entries.",
    "ndarray": "Make columns of its entries.",
    "dict": "Make columns of its entries.",
}


@dataclass(frozen=True)
class Values:
    """One column of a piece of a table.

    Parameters
    ----------
    kind : {"number", "category", "order", "date", "gaps"}
        What it holds.
    array : ndarray of shape (n,), optional
        Numbers, or microseconds of wall time; NaN where there is a gap.
    items : list, optional
        What a category has in each row, and `is_gap`, where that is nothing; also whole numbers
        that doubles do not tell apart.
    order : tuple, optional
        Levels of an ordered category, the least one first.
    zone : str, optional
        Time zone of dates; None where they have none.
    """

    kind: Kind
    array: NDArray[np.float64] | None = None
    items: list[Any] | None = None
    is_gap: NDArray[np.bool_] | None = None
    order: tuple[Level, ...] = ()
    zone: str | None = None

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """Where nothing is."""
        if self.is_gap is not None:
            return self.is_gap
        assert self.array is not None
        return np.isnan(self.array)

    @property
    def levels(self) -> list[Any]:
        """What is in each row, as something to look up or to count."""
        if self.items is not None:
            return self.items
        assert self.array is not None
        return list(self.array.tolist())


class Table:
    """Columns by their place, whatever holds them.

    Parameters
    ----------
    X : data frame of pandas or Polars, Arrow table, or array of two dimensions
        What users passed.
    """

    def __init__(self, X: Any) -> None:
        self.names: tuple[str, ...] | None = None
        if is_frame(X):
            frame = _frame_of(X)
            self._columns: Sequence[Any] = list(frame.iter_columns())
            self.names = _text_names(frame.columns)
            self.n_rows = len(frame)
        else:
            X = np.asarray(X)
            self._columns, self.n_rows = X.T, len(X)

    def __len__(self) -> int:
        return len(self._columns)

    def label(self, place: int) -> str:
        """Return what an error calls a column."""
        return f"column {place}" if self.names is None else f"column {self.names[place]!r}"

    def read(self, place: int, zone: str | None = None, *, as_text: bool = False) -> Values:
        """Read a column.

        Times that have a zone come as those of `zone`, or of their own.  With `as_text`, numbers
        in an array of text stay text.
        """
        column, label = self._columns[place], self.label(place)
        if not isinstance(column, np.ndarray):
            return _read_series(column, zone, label)
        if column.dtype.kind == "U":
            return _read_text(column, as_text=as_text)
        return _read_array(column, zone, label)


def read_numbers(X: Any) -> NDArray[np.float64] | None:
    """Return a frame of nothing but numbers and flags as one array; None for any other table.

    That is what `Table` reads column by column, but sooner.
    """
    if not is_frame(X):
        return None
    frame = _frame_of(X)
    columns = list(frame.iter_columns())
    if not all(_is_number(column.dtype) for column in columns):
        return None
    if len({column.dtype for column in columns}) == 1:  # else pandas may make objects of them
        array = frame.to_numpy()
        if array.dtype.kind in "biuf":
            return np.ascontiguousarray(array, dtype=np.float64)
    return join_columns([_cast_numbers(column)[:, None] for column in columns])


def join_columns(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return columns as one array, some rows at a time: what is written then stays near."""
    found = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)))
    for first in range(0, len(found), _JOINED_ROWS):
        rows = slice(first, first + _JOINED_ROWS)
        np.concatenate([part[rows] for part in parts], axis=1, out=found[rows])
    return found


def is_frame(X: Any) -> bool:
    """Whether `X` is a table with names of columns, and in memory."""
    return bool(nw.dependencies.is_into_dataframe(X)) or _is_batch(X)


def _is_batch(X: Any) -> bool:
    """Whether `X` is a record batch of Arrow, which narwhals does not take for a table."""
    pyarrow = nw.dependencies.get_pyarrow()
    return pyarrow is not None and isinstance(X, pyarrow.RecordBatch)


def as_table(X: Any) -> Any:
    """Return a record batch of Arrow as a table, and anything else as it is."""
    return nw.dependencies.get_pyarrow().Table.from_batches([X]) if _is_batch(X) else X


def take_rows(X: Any, used: NDArray[np.bool_]) -> Any:
    """Return some rows of a table."""
    if is_frame(X):
        return _frame_of(X).filter(used.tolist()).to_native()
    return X[used]


def plain_level(value: Any) -> Level:
    """Return a level as text, a whole number or a number, such that equal ones are the same."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, _NUMBERS):
        number = float(value)
        return int(number) if number.is_integer() else number
    return str(value)  # such as an interval of pandas.cut


def is_gap(value: Any) -> bool:
    """Whether a value of a column of objects says that there is none."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, Decimal, *_FIXED)) and bool(value != value)


_FIXED = (np.floating, np.datetime64, np.timedelta64)


def _frame_of(X: Any) -> Any:
    """Return a table of any library behind one interface."""
    try:
        return nw.from_native(as_table(X), eager_only=True)
    except nw.exceptions.DuplicateError as error:
        twice = str(error).split("- ")[1:]
        raise ValueError(
            "`X` must have a different name for each column, but these are there more than once: "
            f"{', '.join(map(str.strip, twice))}. Rename them, or leave all but one out."
        ) from None


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _text_names(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names that are text; numbers as names are places, as everywhere in scikit-learn."""
    found = tuple(names)
    return tuple(map(str, found)) if all(isinstance(name, str) for name in found) else None


def _read_series(series: Any, zone: str | None, label: str) -> Values:
    """Read a column of a data frame by its data type."""
    dtype = series.dtype
    if _is_number(dtype):
        array = _cast_numbers(series)
        return _exact(array, series.to_list) if dtype.is_integer() else Values("number", array)
    if dtype in (nw.Categorical, nw.Enum):
        return _read_category(series, label)
    if dtype == nw.String:
        return _category(series)
    if dtype in (nw.Date, nw.Datetime):
        return _read_times(series, zone)
    if dtype == nw.Duration:
        passed = series.dt.total_microseconds().cast(nw.Float64).to_numpy()
        return Values("number", np.asarray(passed, dtype=np.float64) / _DAY)
    return _read_objects(series.to_list(), zone, label)


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _cast_numbers(series: Any) -> NDArray[np.float64]:
    if not series.dtype.is_integer():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    # Arrow does not cast whole numbers that doubles cannot tell apart.
    gaps = np.asarray(series.is_null().to_numpy(), dtype=bool)
    whole = series.fill_null(0) if gaps.any() else series
    return np.where(gaps, np.nan, np.asarray(whole.to_numpy()).astype(np.float64))


def _exact(array: NDArray[np.float64], items: Callable[[], list[Any]]) -> Values:
    """Return whole numbers, and what they are where doubles do not tell them apart."""
    if not (np.abs(array) >= _MOST_EXACT).any():
        return Values("number", array)
    return Values("number", array, items(), np.isnan(array))


def _category(series: Any, order: tuple[Level, ...] = ()) -> Values:
    gaps = np.asarray(series.is_null().to_numpy(), dtype=bool)
    if gaps.all():
        return Values("gaps", np.full(len(gaps), np.nan))
    return Values("order" if order else "category", None, series.to_list(), gaps, order)


def _read_category(series: Any, label: str) -> Values:
    levels = _ordered_levels(series)
    order = tuple(plain_level(level) for level in levels)
    if _repeats([str(level) for level in order]):
        raise TypeError(f"{label} has levels that differ in nothing but their type: {levels}.")
    values = _category(series, order)
    if values.items is None:
        return values
    known = {level: plain_level(level) for level in set(values.items) if not is_gap(level)}
    if not all(isinstance(level, str) for level in known):
        items = [known.get(item) for item in values.items]
        return Values(values.kind, None, items, values.is_gap, order)
    return values


def _ordered_levels(series: Any) -> list[Any]:
    """Return the levels of a category whose type says that they have an order.

    An Enum of Polars fixes which levels there are, colours as well as grades: it is no order.
    """
    native = series.to_native()
    if series.implementation.is_pandas_like() and series.dtype == nw.Enum:
        return list(native.cat.categories)
    if series.implementation.is_pyarrow() and native.type.ordered:
        return list(native.unify_dictionaries().chunk(0).dictionary.to_pylist())
    return []


def _read_times(series: Any, zone: str | None) -> Values:
    own, shift = None, dt.timedelta()
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    else:
        own = series.dtype.time_zone
    if own is not None:
        series = _as_arrow(series)
        offset = None if zone is None else fixed_offset(zone)
        if zone is not None and zone != own:
            # Not every library knows of zones that are a fixed time away from UTC.
            series = series.dt.convert_time_zone(zone if offset is None else "UTC")
            shift = offset or dt.timedelta()
        series = series.dt.replace_time_zone(None)
    passed = series.dt.timestamp("us").cast(nw.Float64).to_numpy()
    microseconds = np.asarray(passed, dtype=np.float64) + shift / dt.timedelta(microseconds=1)
    return _times(microseconds, own)


def _as_arrow(series: Any) -> Any:
    """Return times that pandas holds as Arrow's without pandas.

    Before version 3 it takes their zone off at Greenwich.
    """
    native = series.to_native()
    if not series.implementation.is_pandas() or not str(native.dtype).endswith("[pyarrow]"):
        return series
    import pyarrow as pa

    return nw.from_native(pa.chunked_array([series.to_arrow()]), series_only=True)


def fixed_offset(zone: str) -> dt.timedelta | None:
    """Return how far a zone is from UTC where its name says so, such as +02:00; else None."""
    found = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})(?::?(\d{2}))?", zone)
    if found is not None:
        sign, *clock = found.groups()
        hours, minutes, seconds = (int(part or 0) for part in clock)
        size = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return size if sign == "+" else -size
    minutes_away = re.fullmatch(r"pytz\.FixedOffset\((-?\d+)\)", zone)
    return None if minutes_away is None else dt.timedelta(minutes=int(minutes_away[1]))


def _zone_of(name: str) -> dt.tzinfo:
    offset = fixed_offset(name)
    return ZoneInfo(name) if offset is None else dt.timezone(offset)


def _times(microseconds: NDArray[np.float64], zone: str | None) -> Values:
    kind: Kind = "gaps" if np.isnan(microseconds).all() else "date"
    return Values(kind, microseconds, zone=zone)


def _read_array(column: NDArray[Any], zone: str | None, label: str) -> Values:
    """Read a column of an array."""
    kind = column.dtype.kind
    if kind in "iu":
        return _exact(column.astype(np.float64), column.tolist)
    if kind in "bf":
        return Values("number", column.astype(np.float64))
    if kind == "M":
        return _times(_microseconds(column.astype("datetime64[us]")), None)
    if kind == "m":
        return Values("number", _microseconds(column.astype("timedelta64[us]")) / _DAY)
    return _read_objects(column.tolist(), zone, label)


def _read_text(column: NDArray[np.str_], *, as_text: bool) -> Values:
    """Read a column of an array of text, whose numbers NumPy may have made text as well."""
    if not as_text:
        try:
            return Values("number", column.astype(np.float64))
        except ValueError:
            pass
    return Values("category", None, column.tolist(), np.zeros(len(column), bool))


def _microseconds(times: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64))


def _read_objects(items: list[Any], zone: str | None, label: str) -> Values:
    """Read a column whose values say what they are one by one."""
    gaps = np.fromiter(map(is_gap, items), dtype=bool, count=len(items))
    found = {type(item): item for item, gap in zip(items, gaps, strict=True) if not gap}
    meanings = {kind: _meaning(kind) for kind in found}
    for kind, meaning in meanings.items():
        if meaning is None:
            remedy = _REMEDIES.get(kind.__name__, "Leave it out, or make text or numbers of it.")
            raise TypeError(
                f"Each entry of the `X` argument must be a date, a string or a number, but {label} "
                f"holds {_short(found[kind])} of type {kind.__name__}. {remedy}"
            )
    if len(set(meanings.values())) > 1:
        raise mixed_types(label, *list(found.values())[:2])
    meaning = next(iter(meanings.values()), None)
    if meaning == "text":
        return Values("category", None, items, gaps)
    if meaning == "date":
        return _read_datetimes(items, gaps, zone, label)
    array = np.full(len(items), np.nan)
    if meaning is None:
        return Values("gaps", array)
    array[~gaps] = [_NUMBER_OF[meaning](item) for item in _present(items, gaps)]
    is_whole = all(issubclass(kind, int | np.integer) for kind in found)
    return _exact(array, lambda: items) if is_whole else Values("number", array)


def _present(items: list[Any], gaps: NDArray[np.bool_]) -> Iterator[Any]:
    return (item for item, gap in zip(items, gaps.tolist(), strict=True) if not gap)


def mixed_types(label: str, one: Any, other: Any) -> TypeError:
    """Return the error of a column that holds things of two kinds."""
    return TypeError(
        f"`X` must have values of one kind in each column, but {label} holds {_short(one)} and "
        f"{_short(other)}. Make text of all of them, X[name].astype(str), or numbers, "
        "pandas.to_numeric(X[name], errors='coerce')."
    )


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _meaning(kind: type) -> str | None:
    """Return what values of a type are read as; None for those that have no place."""
    for meaning, types in _MEANINGS.items():
        if issubclass(kind, types):
            return meaning
    return None


_MEANINGS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": _NUMBERS,
    "date": _TIMES,
    "duration": _DURATIONS,
    "time of day": (dt.time,),
}
_NUMBER_OF: dict[str, Any] = {
    "number": float,
    "duration": lambda item: _microseconds(np.array(item, "timedelta64[us]")) / _DAY,
    "time of day": lambda item: (
        item.hour + item.minute / 60 + (item.second + item.microsecond / 1e6) / 3600
    ),
}


def _read_datetimes(
    items: list[Any], gaps: NDArray[np.bool_], zone: str | None, label: str
) -> Values:
    """Read dates and times that are objects of Python."""
    times = [_datetime(item) for item in _present(items, gaps)]
    zones = {None if time.tzinfo is None else _zone_name(time.tzinfo) for time in times}
    if None in zones and len(zones) > 1:
        raise ValueError(
            f"Times of a column must all have a time zone, or none of them, but {label} has both. "
            "Give all of them one: pandas.to_datetime(X[name], utc=True)."
        )
    own = zones.pop() if len(zones) == 1 else "UTC"
    wall = _zone_of(zone or own) if own is not None else None
    array = np.full(len(items), np.nan)
    array[~gaps] = [
        ((time.astimezone(wall).replace(tzinfo=None) if wall else time) - _EPOCH)
        / dt.timedelta(microseconds=1)
        for time in times
    ]
    return _times(array, own)


def _datetime(item: Any) -> dt.datetime:
    if isinstance(item, np.datetime64):
        item = item.astype("datetime64[us]").item()
    if isinstance(item, dt.datetime):
        return item
    return dt.datetime(item.year, item.month, item.day)


def _zone_name(zone: Any) -> str:
    """Return the name of a time zone; one that has none, such as a fixed offset, counts as UTC."""
    return str(getattr(zone, "key", "UTC"))

"""The parts of a date that a model can use: time itself, and what comes again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DAY, _HOUR = 86_400e6, 3_600e6  # in microseconds
_WEEK = 7
# What follows the name of the column in the name of an input; the first part is time itself.
TIME, DAY_OF_YEAR, WEEKDAY, TIME_OF_DAY = "", "day of year", "weekday", "time of day"
DATE_PARTS = (TIME, DAY_OF_YEAR, WEEKDAY, TIME_OF_DAY)
# At a gap, time itself says so.  Were all parts gaps, always together, then no row would tell what
# one of them does alone, and a model would be free to say anything of it.
AT_GAPS = {DAY_OF_YEAR: 183.0, WEEKDAY: 3.0, TIME_OF_DAY: 12.0}


def date_part(microseconds: NDArray[np.float64], part: str) -> NDArray[np.float64]:
    """Return a part of wall times, given in microseconds since 1970.

    Time itself is in days since 1970, the time of day in hours.  The first of January is day 1
    of the year, and Monday is weekday 0.  At a gap, time is a gap, and what comes again and again
    is in its middle.
    """
    if part == TIME:
        return microseconds / _DAY
    is_gap = np.isnan(microseconds)
    there = np.where(is_gap, 0.0, microseconds)
    return np.asarray(np.where(is_gap, AT_GAPS[part], _cyclic_part(there, part)))


def _cyclic_part(microseconds: NDArray[np.float64], part: str) -> NDArray[np.float64]:
    if part == TIME_OF_DAY:
        return np.asarray(np.mod(microseconds, _DAY) / _HOUR)
    days = np.floor(microseconds / _DAY)
    if part == WEEKDAY:
        return np.asarray(np.mod(days + 3, _WEEK))  # 1970 began on a Thursday
    dates = days.astype(np.int64).astype("datetime64[D]")
    first = dates.astype("datetime64[Y]").astype("datetime64[D]")
    return np.asarray((dates - first).astype(np.float64) + 1)


@dataclass(frozen=True)
class DateRange:
    """Least and greatest of each part of some dates; those of pieces add up.

    Parameters
    ----------
    low, high : tuple of float
        Of days since 1970, year, day of year, weekday, and time of day.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, microseconds: NDArray[np.float64]) -> DateRange:
        """Sum up wall times, of which at least one is no gap."""
        there = microseconds[~np.isnan(microseconds)]
        days = np.floor(there / _DAY)
        years = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]")
        columns = [days, years.astype(np.float64)]
        columns += [date_part(there, part) for part in (DAY_OF_YEAR, WEEKDAY, TIME_OF_DAY)]
        return cls(
            tuple(float(column.min()) for column in columns),
            tuple(float(column.max()) for column in columns),
        )

    def __add__(self, other: DateRange) -> DateRange:
        return DateRange(
            tuple(map(min, self.low, other.low)), tuple(map(max, self.high, other.high))
        )

    def parts(self) -> tuple[str, ...]:
        """Return the parts that vary, and that tell something which time itself does not.

        Within one year the day of the year is time itself; so are the weekday within one week
        and the time of day within one day.
        """
        days, years, day_of_year, weekday, hours = (
            high - low for low, high in zip(self.low, self.high, strict=True)
        )
        return (
            TIME,
            *([DAY_OF_YEAR] if years and day_of_year else []),
            *([WEEKDAY] if days >= _WEEK and weekday else []),
            *([TIME_OF_DAY] if days and hours else []),
        )

"""What a column of text in a CSV file is: numbers with strays between them, dates, or text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyadic.sources.files.row_files import DATE, NUMBER, TEXT
from polyadic.sources.files.sniff import THOUSANDS, number_pattern

# Fewer different numbers than this beside words, or beside words with digits, are names of
# categories.
_LEAST_NUMBERS, _MANY_NUMBERS = 10, 20
_MOST_STRAYS = 5
_SHOWN = 30
_INFINITE = r"\s*[+-]?([iI]nf|[iI]nfinity)\s*"
_DAY = r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})( \d{1,2}:\d{2}(:\d{2})?)?"


@dataclass(frozen=True)
class TextColumn:
    """How a column of text is to be read.

    Parameters
    ----------
    kind : str
        `NUMBER`, `DATE`, `TEXT`, or what is wrong with it.
    note : str
        What is done to it.
    remedy : str
        Which remedy there is, where something is wrong.
    pattern : str
        How dates are spelled.
    strays : tuple of str
        Texts between numbers, which are gaps.
    """

    kind: str
    note: str = ""
    remedy: str = ""
    pattern: str = ""
    strays: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        values: Any,
        decimal: str,
        pattern: str | None = None,
        known: Sequence[str] = (),
    ) -> TextColumn:
        """Look at the values of a column that Arrow takes for text.

        A `pattern` of dates is tried first; `known` texts are gaps between numbers.
        """
        if pattern is not None and _are_dates(values, pattern):
            return cls(DATE, pattern=pattern)
        texts = values.drop_null().unique()
        is_number = _matches(texts, _number(decimal))
        strays = texts.filter(_not(is_number)).to_pylist()
        n_numbers = len(texts) - len(strays)
        if set(strays) <= set(known):
            return cls(NUMBER, strays=tuple(strays))
        other = "," if decimal == "." else "."
        if _are_most(THOUSANDS, strays):
            return cls("has thousands separators", remedy="thousands")
        if _are_most(number_pattern(other), strays):
            if other == ",":
                return cls("has decimal commas", remedy="decimal")
            return cls("has decimal points", remedy="marks")
        if n_numbers and _are_gaps(strays, n_numbers):
            told = " and ".join(map(repr, strays))
            return cls(NUMBER, f"{told} read as a gap", strays=tuple(strays))
        return _dates(strays) if not n_numbers else cls(TEXT)

    def read(self, values: Any, decimal: str) -> Any:
        """Return text as what it is: an Arrow array of numbers or of times, gaps as null."""
        from pyarrow import compute

        if self.kind == DATE:
            return compute.strptime(values, format=self.pattern, unit="s")
        text = compute.if_else(_matches(values, _number(decimal)), values, None)
        text = compute.utf8_trim_whitespace(text)
        if decimal != ".":
            text = compute.replace_substring(text, decimal, ".")
        return compute.cast(text, "float64")


def first_stray(values: Any, decimal: str) -> tuple[float, str]:
    """Return the part of the texts that are numbers, and where the first is that is none."""
    from pyarrow import compute

    is_number = compute.fill_null(_matches(values, _number(decimal)), True)
    n_strays = len(values) - compute.sum(is_number).as_py()
    if not n_strays:
        return 1.0, ""
    row = compute.index(is_number, False).as_py()
    text = values[row].as_py()
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return 1.0 - n_strays / (len(values) - values.null_count), f"row {row + 1} is {shown!r}"


def _number(decimal: str) -> str:
    return f"^({number_pattern(decimal)}|{_INFINITE})$"


def _matches(values: Any, pattern: str) -> Any:
    from pyarrow import compute

    return compute.match_substring_regex(values, pattern)


def _not(mask: Any) -> Any:
    from pyarrow import compute

    return compute.invert(mask)


def _are_most(pattern: str, texts: list[str]) -> bool:
    """Return whether texts are so, but for a few that may stand for gaps."""
    others = [text for text in texts if not re.fullmatch(pattern, text)]
    return len(others) <= len(texts) // 10


def _are_gaps(strays: list[str], n_numbers: int) -> bool:
    """Return whether texts between numbers say that there is no number, or are slips.

    Signs such as "?" do; words such as "unknown" do where there are some different numbers, and
    a word with digits, such as "12 %", where it is one of a hundred.
    """
    marks = [mark for text in strays for mark in text]
    if not any(mark.isalnum() for mark in marks):
        return True
    if any(mark.isdigit() for mark in marks):
        return n_numbers >= _MANY_NUMBERS and len(strays) <= max(1, n_numbers // 100)
    return n_numbers >= _LEAST_NUMBERS and len(strays) <= _MOST_STRAYS


def _are_dates(values: Any, pattern: str) -> bool:
    """Return whether all texts are dates that are spelled in one way."""
    from pyarrow import compute

    found = compute.strptime(values, format=pattern, unit="s", error_is_null=True)
    return bool(found.null_count == values.null_count)


def _dates(texts: list[str]) -> TextColumn:
    """Return days that are spelled with the year last, where day and month can be told."""
    found = [re.fullmatch(_DAY, text) for text in texts]
    parts = [match for match in found if match is not None]
    if len(parts) < len(texts) or len({(m[2], bool(m[5]), bool(m[6])) for m in parts}) > 1:
        return TextColumn(TEXT)
    mark, clock = parts[0][2], " %H:%M" * bool(parts[0][5]) + ":%S" * bool(parts[0][6])
    first, second = (max(int(match[place]) for match in parts) for place in (1, 3))
    if max(first, second) > 31 or min(first, second) > 12:
        return TextColumn(TEXT)
    if first > 12 or (second <= 12 and mark == "."):
        return TextColumn(DATE, "day first", pattern=f"%d{mark}%m{mark}%Y{clock}")
    if second > 12:
        return TextColumn(DATE, "month first", pattern=f"%m{mark}%d{mark}%Y{clock}")
    return TextColumn(TEXT, "dates? Write them as 2020-12-31: day or month may come first")


def warn_of_thousands(table: Any) -> list[str]:
    """Return a remark where commas that are read as decimals may separate thousands."""
    found = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        commas = values.filter(_matches(values, ",")).unique().to_pylist()
        if commas and all(re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", text) for text in commas):
            found[name] = commas[0]
    if not found:
        return []
    name, text = next(iter(found.items()))
    return [
        f"every comma in {', '.join(map(repr, found))} has three digits after it, such as in "
        f"{text!r}, and is read as a decimal. If the comma separates thousands, remove it from "
        f"{name!r} first"
    ]

"""What was done with each column of a table, as one table for the reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from polyadic.sources.schema import Column, Schema

_WIDTH = 40
"""Characters that the values of a column may take."""

HEADS = ("column", "kind", "values", "gaps", "note")


def describe_columns(
    schema: Schema,
    n_rows: int,
    inputs: Sequence[Mapping[str, Any]],
    notes: Mapping[str, str],
    left_out: Mapping[str, str],
    order: Sequence[str],
) -> list[dict[str, str]]:
    """Return a line for each column of a table, in the order of the table.

    Parameters
    ----------
    schema : Schema
        What the fit took the columns for.
    n_rows : int
        Rows of the fit; 0 where that is not known.
    inputs : sequence of mappings
        Name and deciles of each input, as far as they are known.
    notes : mapping
        What is to be said of columns.
    left_out : mapping
        Why a column is no input.
    order : sequence of str
        The columns of the table; one that is in neither is the target.
    """
    deciles = {entry["name"]: entry["deciles"] or () for entry in inputs}
    lines = {
        column.name: _describe(column, n_rows, deciles.get(column.name), notes.get(column.name))
        for column in schema.columns
    }
    for name, why in left_out.items():
        lines[name] = _line(name, "left out", note=why)
    return [lines[name] for name in [*order, *lines] if name in lines][: len(lines)]


def write_columns(lines: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a table for a terminal; heads that nothing stands under are left out."""
    heads = [head for head in HEADS if head == "column" or any(line[head] for line in lines)]
    rows = [heads, *([on_one_line(line[head]) for head in heads] for line in lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    for row in rows:
        cells = zip(row, heads, widths, strict=True)
        told = (
            f"{cell:>{width}}" if head == "gaps" else f"{cell:<{width}}"
            for cell, head, width in cells
        )
        yield "  " + "  ".join(told).rstrip()


def on_one_line(text: str) -> str:
    """Return a text whose line breaks, and other signs that do not print, are escaped."""
    marks = (m if m.isprintable() else m.encode("unicode_escape").decode() for m in text)
    return "".join(marks)


def _describe(
    column: Column, n_rows: int, deciles: Sequence[float] | None, note: str | None
) -> dict[str, str]:
    """Return the line of a column that is an input."""
    from polyadic.inspection import write_number

    notes = [] if note is None else [note]
    values = ""
    if column.levels:
        values = _list_levels(column)
        notes += [_note_of_one("level", column)] * (len(column.levels) == 1)
    elif deciles:
        low, high = deciles[0], deciles[-1]
        write = _day if column.kind == "date" else partial(write_number, digits=6)
        values = f"{write(low)} to {write(high)}"
        if low == high and column.kind == "number":
            values, notes = write(low), [*notes, _note_of_one("value", column)]
    elif deciles is not None:
        notes.append("empty: takes no part")
    notes += [part for part in [", ".join(part for part in column.parts if part)] if part]
    kind = {"order": "ordered"}.get(column.kind, column.kind)
    gaps = str(column.n_gaps or "")
    if gaps and n_rows:
        gaps += f" ({_per_cent(column.n_gaps, n_rows)})"
    return _line(column.name, kind, values, gaps, "; ".join(notes))


def _note_of_one(what: str, column: Column) -> str:
    """Return what to say of a column with one value: beside it, a gap may tell something."""
    return f"one {what}: {'only its gaps count' if column.n_gaps else 'takes no part'}"


def _line(name: str, kind: str, values: str = "", gaps: str = "", note: str = "") -> dict[str, str]:
    return dict(zip(HEADS, (name, kind, values, gaps, note), strict=True))


def _list_levels(column: Column) -> str:
    """Return the number of levels, and the first of them as far as there is room."""
    count = len(column.levels)
    told = f"{count} level{'s' * (count > 1)}: "
    shown: list[str] = []
    for level in map(str, column.levels):
        if len(told) + len(", ".join([*shown, level])) > _WIDTH and shown:
            break
        shown.append(level if len(level) <= _WIDTH // 2 else f"{level[: _WIDTH // 2]}…")
    return told + ", ".join([*shown, *["…"] * (len(shown) < count)])


def _day(days: float) -> str:
    return datetime.fromtimestamp(86_400 * days, UTC).strftime("%Y-%m-%d")


def _per_cent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 else "<1 %"

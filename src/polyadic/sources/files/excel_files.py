"""Workbooks of Excel: the first sheet, as the CSV file it would be saved as."""

from __future__ import annotations

import csv
import io
import warnings
from datetime import datetime, time
from typing import Any

from polyadic.sources.files.arrow_files import CsvRows
from polyadic.sources.files.sniff import FormatError, Spelling


class ExcelRows(CsvRows):
    """The first sheet of a workbook, whose first row names the columns.

    It is read once, because that is slow, and kept as text; a sheet has a million rows at most.
    """

    def _spell(self) -> tuple[Spelling, bytes]:
        self._text, sheets = _read_sheet(self.path)
        several = len(sheets) > 1
        remark = f"rows are those of the sheet {sheets[0]!r}, the first of {len(sheets)}"
        return Spelling("utf-8", ",", ".", remark if several else None), self._text

    def _unpack(self) -> Any:
        return io.BytesIO(self._text)


def _read_sheet(path: Any) -> tuple[bytes, list[str]]:
    """Return the first sheet as CSV in UTF-8, and the names of all sheets."""
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs openpyxl, which is not installed. Install it with "
            "pip install 'polyadic[app]', or save the table as CSV."
        ) from error
    with warnings.catch_warnings():
        # What openpyxl leaves out (styles, drawings) is no part of the rows.
        warnings.simplefilter("ignore")
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        except Exception as error:
            raise FormatError(f"it is no Excel workbook ({error}). Save it anew.") from error
        try:
            text = _write(book.worksheets[0]) if book.worksheets else ""
            names = [sheet.title for sheet in book.worksheets]
        finally:
            book.close()
    if not text.strip():
        raise FormatError("its first sheet is empty. It must have a row of names, and rows.")
    return text.encode(), names


def _write(sheet: Any) -> str:
    """Return the rows of a sheet as CSV, without what lies empty right of the names."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    width = 0
    for row in sheet.iter_rows(values_only=True):
        if not width:
            width = max(
                (place + 1 for place, cell in enumerate(row) if cell is not None), default=0
            )
        cells = [*row[:width], *[None] * (width - len(row))]
        if any(cell is not None for cell in cells):
            writer.writerow([_spell(cell) for cell in cells])
    return lines.getvalue()


def _spell(cell: Any) -> Any:
    """Return a cell as CSV has it; errors of formulas are gaps."""
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ", timespec="seconds")
    if isinstance(cell, time):
        return cell.isoformat(timespec="seconds")
    if isinstance(cell, str) and cell.startswith("#") and cell.rstrip("!?").isupper():
        return ""
    return cell

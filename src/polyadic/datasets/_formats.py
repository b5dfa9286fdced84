"""Tables of numbers as people distribute them: CSV, blank-separated text, Excel."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def read_matrix(path: Path, content: bytes | None = None) -> NDArray[np.float64]:
    """Return the numbers of a table; a first line that is not numbers is its header.

    Parameters
    ----------
    path : Path
        The file; its ending tells the format.
    content : bytes, optional
        What the file holds, where it was not read from disk.
    """
    content = path.read_bytes() if content is None else content
    readers = {".xlsx": _xlsx_rows, ".xls": _xls_rows}
    rows = readers.get(path.suffix.lower(), _text_rows)(content)
    rows = [row for row in map(_without_empty_end, rows) if row]
    if rows and not _is_number(rows[0][0]):
        rows = rows[1:]
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path.name} is not a table of numbers: {error}.") from None


def _without_empty_end(row: list[str]) -> list[str]:
    """Leave out the empty cells that Excel keeps to the right of a table."""
    width = max((at + 1 for at, cell in enumerate(row) if cell), default=0)
    return row[:width]


def _text_rows(content: bytes) -> list[list[str]]:
    lines = content.decode("utf-8-sig").splitlines()
    separator = next((mark for mark in ",;\t" if lines and mark in lines[0]), None)
    return [
        [cell.strip().strip('"') for cell in line.split(separator)]
        for line in lines
        if line.strip()
    ]


def _xlsx_rows(content: bytes) -> list[list[str]]:
    """Return the cells of the first sheet; text comes out empty."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    return [_xlsx_row(row) for row in sheet.iter(f"{_SHEET}row")]


def _xlsx_row(row: ElementTree.Element) -> list[str]:
    cells: list[str] = []
    for cell in row.iter(f"{_SHEET}c"):
        value = cell.find(f"{_SHEET}v")
        column = _column_index(cell.get("r", ""))
        cells += [""] * (column - len(cells))  # empty cells may be left out of the file
        is_number = value is not None and cell.get("t", "n") == "n"
        cells.append(str(value.text) if is_number and value is not None else "")
    return cells


def _column_index(reference: str) -> int:
    """Return 0 for "A7", 26 for "AA7"."""
    letters = re.sub(r"[^A-Z]", "", reference)
    index = 0
    for letter in letters:
        index = 26 * index + ord(letter) - ord("A") + 1
    return index - 1


def _xls_rows(content: bytes) -> list[list[str]]:
    try:
        import xlrd
    except ImportError:
        raise ImportError(
            "Reading an .xls file needs the package xlrd. Install it, or save the file as CSV."
        ) from None
    sheet: Any = xlrd.open_workbook(file_contents=content).sheet_by_index(0)
    return [[str(cell.value) for cell in row] for row in sheet.get_rows()]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

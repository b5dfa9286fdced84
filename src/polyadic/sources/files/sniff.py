"""How a table in a file of text is written: packed, encoded, and with which marks."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_DELIMITERS = (",", ";", "\t", "|")
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_XZ, _ZIP = b"\xfd7zXZ", b"PK\x03\x04"
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_OTHERS = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind",
    b"PAR1": "Parquet, and is not called .parquet",
    b"\x93NUMPY": "an array of NumPy, and is not called .npy",
    b"{": "JSON",
    b"[": "JSON",
}
HEAD = 2**24
"""What of a file is looked at to tell how it is written, and what its columns are."""

_MARKS, _LINES = 2**18, 20  # characters that marks are told from, and lines at least
SAVE = "Save the table as CSV in UTF-8, or as Parquet."
THOUSANDS = r"[+-]?[1-9]\d{0,2}([,.' ])\d{3}(\1\d{3})*([.,]\d+)?"


class FormatError(ValueError):
    """A file is of another format than its name says; the message has the remedy."""


@dataclass(frozen=True)
class CsvFormat:
    """How users say that text is written; None is told from the file.

    `dates` has patterns of days in columns where day or month may come first, `strays` texts that
    are gaps in columns of numbers, and `likely` is the decimal mark where the file does not tell.
    """

    delimiter: str | None = None
    decimal: str | None = None
    na: tuple[str, ...] = ()
    encoding: str | None = None
    dates: Mapping[str, str] = field(default_factory=dict)
    strays: Mapping[str, Sequence[str]] = field(default_factory=dict)
    likely: str = "."


@dataclass(frozen=True)
class Spelling:
    """How a file of text is written, and what is to be said of it."""

    encoding: str
    delimiter: str
    decimal: str
    remark: str | None = None


def unpack(path: Path) -> Any:
    """Open a file for reading, uncompressed as it is read; what it is packed with, it says."""
    import pyarrow

    with path.open("rb") as file:
        magic = file.read(8)
    for mark, codec in _PACKED.items():
        if magic.startswith(mark):
            return pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), codec)
    if magic.startswith(_XZ):
        return lzma.open(path)
    if magic.startswith(_ZIP):
        return _open_member(path)
    return path.open("rb")


def _open_member(path: Path) -> Any:
    """Open the one table of a zip archive."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise FormatError(f"it is a zip archive that is not whole ({error}). {SAVE}") from error
    names = [name for name in archive.namelist() if not name.startswith(("__MACOSX", "."))]
    if "xl/workbook.xml" in names:
        raise FormatError("it is an Excel workbook, and is not called .xlsx. Rename it.")
    files = [name for name in names if not name.endswith("/")]
    if len(files) != 1:
        raise FormatError(
            f"it is a zip archive of {len(files)} files and must hold one table. Unpack it, and "
            "pass the folder."
        )
    return archive.open(files[0])


def spelling_of(path: Path, given: CsvFormat) -> tuple[Spelling, bytes]:
    """Tell from the head of a file how it is written, where users do not say so.

    Parameters
    ----------
    path : Path
        The file.
    given : CsvFormat
        What users say.

    Returns
    -------
    spelling : Spelling
        How it is written.
    head : bytes
        Whole lines that it begins with, in UTF-8.
    """
    with closing(unpack(path)) as file:
        start = bytes(file.read(HEAD))
    if not start.strip():
        raise FormatError(f"it is empty. It must have a header line and rows. {SAVE}")
    what = name_of(start)
    if what:
        raise FormatError(f"it is {what}. {SAVE}")
    encoding, remark = _encoding_of(start, given.encoding)
    text = _decode(start, encoding).removeprefix("\ufeff")
    if "\x00" in text:
        raise FormatError(f"it is not text. {SAVE}")
    text = _whole_lines(text) if len(start) == HEAD else text
    usual = "\t" if ".tsv" in path.suffixes else ","
    lines = _whole_lines(text[:_MARKS]) if len(text) > _MARKS else text
    lines = lines if lines.count("\n") >= _LINES else text  # of a wide table
    delimiter = given.delimiter or _delimiter_of(lines, usual)
    decimal = given.decimal or _decimal_of(_records(lines, delimiter), delimiter, given.likely)
    return Spelling(encoding, delimiter, decimal, remark), text.encode()


def _decode(start: bytes, encoding: str) -> str:
    """Return the beginning of a text, which may end within a character."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeError as error:
        raise FormatError(f"it is not text in the encoding {encoding} ({error}).") from error


def _whole_lines(text: str) -> str:
    """Return a text that was cut up to its last line that is whole, which no quote goes over."""
    end = text.rfind("\n")
    while end > 0 and text.count('"', 0, end) % 2:
        end = text.rfind("\n", 0, end)
    return text[: end + 1]


def _encoding_of(start: bytes, given: str | None) -> tuple[str, str | None]:
    """Return the encoding of text, and a remark where it is a guess."""
    if given is not None:
        return given, None
    for mark, encoding in _BOMS.items():
        if start.startswith(mark):
            return encoding, None
    for encoding in ("utf-8", "cp1252"):
        try:
            _decode(start, encoding)
        except FormatError:
            continue
        return encoding, None if encoding == "utf-8" else _not_unicode("Windows-1252")
    return "latin-1", _not_unicode("Latin-1")


def _not_unicode(encoding: str) -> str:
    return f"it is not UTF-8 text, and is read as {encoding} (Western European)"


def _records(text: str, delimiter: str) -> list[list[str]]:
    """Return the first lines, cut at a delimiter; none where that cannot be done."""
    try:
        return [record for record in csv.reader(io.StringIO(text), delimiter=delimiter) if record]
    except csv.Error:
        return []


def _delimiter_of(text: str, usual: str) -> str:
    """Return the mark that cuts all lines into equally many parts, the most if several do."""
    marks = [usual, *(mark for mark in _DELIMITERS if mark != usual)]
    best, width = None, 1
    for mark in marks:
        widths = {len(record) for record in _records(text, mark)}
        if len(widths) == 1 and max(widths) > width:
            best, width = mark, max(widths)
    header = text.split("\n", 1)[0]
    return best or next((mark for mark in marks if mark in header), usual)


def _decimal_of(records: Sequence[Sequence[str]], delimiter: str, likely: str) -> str:
    """Return a comma where numbers have one, and it cannot separate thousands instead.

    What is in doubt is as is `likely`.
    """
    if delimiter == ",":
        return "."
    sure, doubtful = set[str](), set[str]()
    for cells in zip(*records[1:], strict=False):
        values = {cell.strip() for cell in cells}
        for mark, holds in ((".", any), (",", all)):  # words have commas, but no such points
            marked = {text for text in values if mark in text}
            numbers = {text for text in marked if re.fullmatch(number_pattern(mark), text)}
            if numbers and holds(text in numbers for text in marked):
                is_doubtful = all(re.fullmatch(THOUSANDS, text) for text in numbers)
                (doubtful if is_doubtful else sure).add(mark)
    if likely == ",":
        return "." if sure == {"."} else ","
    return "," if sure == {","} and not doubtful else "."


def number_pattern(decimal: str) -> str:
    """Return the regular expression of a number with a decimal mark."""
    mark = re.escape(decimal)
    return rf"\s*[+-]?(\d+{mark}?\d*|{mark}\d+)([eE][+-]?\d+)?\s*"


def format_of(path: Path) -> str:
    """Return what a file is that is not text, as far as its first bytes tell."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return name_of(file.read(8))


def name_of(start: bytes) -> str:
    """Return what is not text, told by its first bytes; nothing where it may be text."""
    packed = {**dict.fromkeys([*_PACKED, _XZ], "compressed"), _ZIP: "a zip archive"}
    known = {**_OTHERS, **packed}
    return next((what for magic, what in known.items() if start.startswith(magic)), "")


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_encoding(encoding: str | None) -> None:
    """Raise unless Python knows an encoding."""
    if encoding is None:
        return
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ValueError(
            f"`encoding` must be one that Python knows, such as 'cp1252', got {encoding!r}."
        ) from None

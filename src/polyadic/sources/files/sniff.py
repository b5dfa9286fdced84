"""What a file that is called CSV really is, told from its first bytes."""

from __future__ import annotations

from pathlib import Path

_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "vertical bar", ",": "comma"}
_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"\xfd7zXZ": "xz-compressed",
    b"\x1f\x8b": "gzip-compressed, and is not called .gz",
    b"BZh": "bzip2-compressed, and is not called .bz2",
    b"PAR1": "Parquet, and is not called .parquet",
    b"\x93NUMPY": "an array of NumPy, and is not called .npy",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"{": "JSON",
    b"[": "JSON",
}
SAVE = "Save the table as CSV in UTF-8, or as Parquet."


class FormatError(ValueError):
    """A file is of another format than its name says; the message has the remedy."""


def check_csv(path: Path, delimiter: str) -> tuple[str, str] | None:
    """Raise unless a file is text; return the delimiter and its name if it has another one."""
    if path.suffix.lower() in (".gz", ".bz2"):
        return None
    with path.open("rb") as file:
        start = file.read(1 << 20)
    if not start.strip():
        raise FormatError(f"it is empty. It must have a header line and rows. {SAVE}")
    what = _format_of(start)
    if what:
        raise FormatError(f"it is {what}. {SAVE}")
    if b"\x00" in start:
        raise FormatError(f"it is not text. {SAVE}")
    header = start.split(b"\n", 1)[0]
    try:
        header.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"its header is not UTF-8 text. {SAVE}") from None
    if delimiter.encode() not in header:
        for mark, word in _DELIMITERS.items():
            if mark.encode() in header:
                return mark, word
    return None


def format_of(path: Path) -> str:
    """Return what a file is that is not text, as far as its first bytes tell."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return _format_of(file.read(8))


def _format_of(start: bytes) -> str:
    return next((what for magic, what in _FORMATS.items() if start.startswith(magic)), "")


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True

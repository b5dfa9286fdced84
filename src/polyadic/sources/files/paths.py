"""Which files a path stands for, and how each of them is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path

from polyadic.sources.files.row_files import CsvRows, NpyRows, ParquetRows, RowFile

Paths = str | os.PathLike[str]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".npy": "npy",
}


def found(path: Paths | Sequence[Paths]) -> list[Path]:
    """Return the files that a path, a folder, a glob or a list of these stands for."""
    if isinstance(path, str | os.PathLike):
        files = _expanded(os.path.expanduser(os.fspath(path)))
    else:
        files = [file for each in path for file in found(each)]
    if not files:
        raise FileNotFoundError(f"`path` must name at least one file, got {path!r}.")
    return files


def _expanded(path: str) -> list[Path]:
    file = Path(path)
    if file.is_dir():
        return [each for each in sorted(file.iterdir()) if _belongs(each)]
    if file.exists() or not has_magic(path):
        return [file]
    matched = sorted(glob(path))
    if not matched:
        raise FileNotFoundError(f"`path` {path!r} matches no file.")
    return [each for name in matched for each in _expanded(name)]


def _belongs(file: Path) -> bool:
    """Whether a file of a folder holds rows; hidden ones and those of other tools do not."""
    if file.name.startswith((".", "_")):
        return False
    if file.is_dir() or format_of(file) is None:
        what = "a folder" if file.is_dir() else "a file that holds no rows"
        raise ValueError(
            f"`path` must be a folder of Parquet, CSV or npy files, but {file} is {what}. Pass a "
            "list of files or a glob such as 'rows/*.parquet'; partition columns that are "
            "spelled in folder names are not read."
        )
    return True


def open_file(path: Path, delimiter: str | None, decimal: str) -> RowFile:
    """Return the file by the ending of its name."""
    kind = format_of(path)
    if kind is None:
        raise ValueError(
            f"`path` must end in {', '.join(_FORMATS)} or .csv.gz, got {path}. Convert the file, "
            "or rename it."
        )
    if kind == "npy":
        return NpyRows(path)
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow, which is not installed. Install it with "
            'pip install "polyadic[app]".'
        ) from error
    return ParquetRows(path) if kind == "parquet" else CsvRows(path, delimiter, decimal)


def format_of(path: Path) -> str | None:
    """Return "parquet", "csv" or "npy" by the ending of a name, or None."""
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] in ([".gz"], [".bz2"]):
        return "csv" if _FORMATS.get("".join(endings[-2:-1])) == "csv" else None
    return _FORMATS.get("".join(endings[-1:]))

"""Which files a path stands for, and how each of them is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import unquote

from polyadic.sources.files.arrow_files import CsvRows, ParquetRows
from polyadic.sources.files.excel_files import ExcelRows
from polyadic.sources.files.numpy_files import NpyRows, NpzRows
from polyadic.sources.files.row_files import RowFile
from polyadic.sources.files.sniff import SAVE, CsvFormat, format_of

Paths = str | os.PathLike[str]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".npy": "npy",
    ".npz": "npz",
}
_PACKED = (".gz", ".bz2", ".zst", ".xz", ".zip")


@dataclass(frozen=True)
class Found:
    """A file, and what the names of the folders it is in say of its rows."""

    path: Path
    partition: dict[str, str] = field(default_factory=dict)


def open_files(path: Paths | Sequence[Paths], csv: CsvFormat) -> list[RowFile]:
    """Open all files that a path, a folder, a glob or a list of these stands for."""
    return [_open_file(file, csv) for file in expand_paths(path)]


def expand_paths(path: Paths | Sequence[Paths]) -> list[Found]:
    """Return the files that a path, a folder, a glob or a list of these stands for."""
    if isinstance(path, str | os.PathLike):
        files = _expand(os.path.expanduser(os.fspath(path)))
    else:
        files = [file for each in path for file in expand_paths(each)]
    if not files:
        raise FileNotFoundError(f"`path` must name at least one file, got {path!r}.")
    return files


def _expand(path: str) -> list[Found]:
    file = Path(path)
    if file.is_dir():
        return [_inside(file, each) for each in sorted(file.rglob("*")) if _belongs(file, each)]
    if file.exists() or not has_magic(path):
        return [Found(file)]
    matched = sorted(glob(path))
    if not matched:
        raise FileNotFoundError(f"`path` {path!r} matches no file.")
    return [each for name in matched for each in _expand(name)]


def _belongs(folder: Path, file: Path) -> bool:
    """Whether a file of a folder holds rows; hidden ones and those of other tools do not."""
    parts = file.relative_to(folder).parts
    if any(part.startswith((".", "_")) for part in parts) or file.is_dir():
        return False
    if _format_of(file) is None:
        raise ValueError(
            f"`path` must be a folder of Parquet, CSV, Excel or npy files, but {file} is a file "
            "that holds no rows. Pass a list of files or a glob such as 'rows/*.parquet'."
        )
    return True


def _inside(folder: Path, file: Path) -> Found:
    """Return a file of a folder; folders within may be called "year=2020"."""
    parts = [part.split("=", 1) for part in file.relative_to(folder).parts[:-1] if "=" in part]
    return Found(file, {unquote(name): unquote(value) for name, value in parts})


def _open_file(found: Found, csv: CsvFormat) -> RowFile:
    """Return the file by the ending of its name."""
    path, kind = found.path, _format_of(found.path)
    if kind is None:
        what = format_of(path)
        packed = ", ".join(f".csv{ending}" for ending in _PACKED)
        known = f"a CSV, Parquet, Excel, npy or npz file ({', '.join(_FORMATS)}, {packed})"
        raise ValueError(
            f"`path` must be {known}, got {path}{what and f', which is {what}'}. {SAVE}"
        )
    if kind in ("npy", "npz"):
        return (NpyRows if kind == "npy" else NpzRows)(path, found.partition)
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow, which is not installed. Install it with "
            "pip install 'polyadic[app]'."
        ) from error
    if kind in ("csv", "excel"):
        return (CsvRows if kind == "csv" else ExcelRows)(path, csv, found.partition)
    return ParquetRows(path, found.partition)


def _format_of(path: Path) -> str | None:
    """Return "parquet", "csv", "excel", "npy" or "npz" by the ending of a name, or None."""
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings[-1:] == [".zip"]:
        return "csv"  # as the table in it is
    if endings and endings[-1] in _PACKED:
        return "csv" if _FORMATS.get("".join(endings[-2:-1])) == "csv" else None
    return _FORMATS.get("".join(endings[-1:]))

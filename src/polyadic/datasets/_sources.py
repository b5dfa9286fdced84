"""Where files are looked for, and how they are fetched and written."""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from polyadic.storage.atomic import replacing

UCI_URL = "https://archive.ics.uci.edu/static/public"
_TIMEOUT = 30.0


def data_folders(data_folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders to look in, in order; the last one is the per-user cache.

    Parameters
    ----------
    data_folder : path, optional
        A folder that comes before all others.

    Returns
    -------
    folders : list of Path
        The named folder, that of ``POLYADIC_DATA``, the cache; those that are not set are
        left out.
    """
    named = [data_folder, os.environ.get("POLYADIC_DATA")]
    return [*(Path(folder).expanduser() for folder in named if folder), cache_folder()]


def cache_folder() -> Path:
    """Return the folder that downloads are kept in."""
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"]) / "polyadic"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polyadic"


def find(folders: list[Path], *layouts: tuple[str, ...]) -> tuple[Path, ...] | None:
    """Return the files of the first folder that has all files of one of the layouts."""
    for folder in folders:
        for names in layouts:
            paths = tuple(folder / name for name in names)
            if all(path.is_file() for path in paths):
                return paths
    return None


@contextmanager
def cached(name: str) -> Iterator[IO[bytes]]:
    """Open a file of the cache for writing; it appears whole or not at all."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with replacing(cache_folder() / name) as file:
        yield file


def download(url: str, label: str) -> bytes:
    """Return what is at `url`, with a bar on standard error while it comes."""
    import click

    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        length = int(response.headers.get("Content-Length") or 0)
        parts = []
        bar: Any = click.progressbar(length=length, label=label, file=sys.stderr)
        with bar:
            while part := response.read(1 << 16):
                parts.append(part)
                bar.update(len(part))
        return b"".join(parts)

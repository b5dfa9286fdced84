"""Where files are looked for, and where they are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sklearn.utils import Bunch

from polyadic.model.kernel_cache import user_cache
from polyadic.storage.atomic import replacing


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

    Examples
    --------
    >>> from polyadic.datasets import data_folders
    >>> data_folders("my/data")[0].name
    'data'
    """
    named = [data_folder, os.environ.get("POLYADIC_DATA")]
    return [*(Path(folder).expanduser() for folder in named if folder), user_cache()]


def find(folders: list[Path], *layouts: tuple[str, ...]) -> tuple[Path, ...] | None:
    """Return the files of the first folder that has all files of one of the layouts."""
    for folder in folders:
        for names in layouts:
            paths = tuple(folder / name for name in names)
            if all(path.is_file() for path in paths):
                return paths
    return None


def make_bunch(
    X: Any, y: Any, names: Sequence[str], target: str, description: str, source: str
) -> Bunch:
    """Return a set in the form of scikit-learn's loaders."""
    return Bunch(
        data=X,
        target=y,
        feature_names=list(names),
        target_name=target,
        DESCR=description,
        source=source,
    )


@contextmanager
def open_cached(name: str) -> Iterator[IO[bytes]]:
    """Open a file of the cache for writing; it appears whole or not at all."""
    user_cache().mkdir(parents=True, exist_ok=True)
    with replacing(user_cache() / name) as file:
        yield file

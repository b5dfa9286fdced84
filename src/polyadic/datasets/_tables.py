"""The five small sets: find, read, check, download."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from polyadic.datasets import _sources
from polyadic.datasets._catalog import CATALOG, Known
from polyadic.model.kernel_cache import user_cache

Table = NDArray[np.float64]


def load_table(name: str, data_folder: str | os.PathLike[str] | None, download: bool) -> Bunch:
    """Return one of the sets in the catalog."""
    known = CATALOG[name]
    folders = _sources.data_folders(data_folder)
    paths = _sources.find(folders, (f"{name}.csv",))
    if paths is not None:
        return _bunch(known, check_table(known, _read_csv(paths[0]), str(paths[0])), str(paths[0]))
    if not download:
        raise FileNotFoundError(_where_to_put(name, known, folders))
    try:
        table = check_table(known, _from_openml(known), "OpenML")
    except Exception as error:  # whatever a server or the lack of one can do
        raise FileNotFoundError(
            f"{_where_to_put(name, known, folders)} Downloading failed (OpenML: {error})."
        ) from error
    header = ",".join([*known.columns, "target"])
    with _sources.open_cached(f"{name}.csv") as file:
        np.savetxt(file, table, fmt="%.17g", delimiter=",", header=header, comments="")
    return _bunch(known, table, "OpenML")


def _read_csv(path: Path) -> Table:
    """Return the numbers of a file with a header."""
    try:
        return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise ValueError(
            f"{path} is not a table of numbers with a header ({error}). Remove the file to "
            "download it again."
        ) from None


def check_table(known: Known, table: Table, source: str) -> Table:
    """Return inputs and target of a table that is what it should be; raise otherwise.

    The columns after the target (a second target, at OpenML) are left out.
    """
    table = table[:, : len(known.columns) + 1]
    shape = (known.rows, len(known.columns) + 1)
    if table.shape != shape:
        raise ValueError(
            f"{source} is not {known.title}: it must have {shape[0]} rows of {shape[1]} numbers, "
            f"got {table.shape[0]} of {table.shape[1]}. Remove the file to download it again."
        )
    names = [*known.columns, "target"]
    for column, expected, found in zip(names, known.sums, table.sum(axis=0), strict=True):
        # Distributors round differently, by a few units of the last printed digit.
        if not abs(found - expected) <= 1e-5 * max(1.0, abs(expected)):
            raise ValueError(
                f"{source} is not {known.title}: column {column} must add up to {expected:g}, "
                f"got {found:g}. Remove the file to download it again."
            )
    return table


def _bunch(known: Known, table: Table, source: str) -> Bunch:
    details = (known.columns, known.target, known.description)
    return _sources.make_bunch(table[:, :-1], table[:, -1], *details, source)


def _where_to_put(name: str, known: Known, folders: list[Path]) -> str:
    return (
        f"The data set {name!r} is in none of {', '.join(map(str, folders))}. "
        f"Put {name}.csv there ({len(known.columns)} inputs and the target, with a header), made "
        f"from https://archive.ics.uci.edu/dataset/{known.uci_id}."
    )


def _from_openml(known: Known) -> Table:
    """Return the whole table of OpenML, the target among its columns."""
    import click
    from sklearn.datasets import fetch_openml

    click.echo(f"{known.title} from OpenML", err=True)
    with warnings.catch_warnings(action="ignore"):  # of the retry: its outcome is told
        bunch: Any = fetch_openml(
            data_id=known.openml_id,
            data_home=str(user_cache() / "openml"),
            target_column=None,
            as_frame=False,
            parser="liac-arff",
            n_retries=1,
            delay=0.2,
        )
    return np.asarray(bunch.data, dtype=np.float64)

"""Loaders of the data sets in the paper, and of a stand-in for the largest.

    folder named by the caller ─► POLYADIC_DATA ─► per-user cache ─► OpenML

The first place that has a set wins.  What is downloaded is checked and put in the cache.
"""

from __future__ import annotations

import os

from sklearn.utils import Bunch

from polyadic.datasets._flights import load_airline, load_nycflights
from polyadic.datasets._sources import data_folders
from polyadic.datasets._tables import load_table

__all__ = [
    "data_folders",
    "load",
    "load_airfoil",
    "load_airline",
    "load_concrete",
    "load_energy",
    "load_nycflights",
    "load_wine",
    "load_yacht",
]

Folder = str | os.PathLike[str] | None


def load(name: str, data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load a data set by its name.

    Parameters
    ----------
    name : {"airfoil", "energy", "yacht", "concrete", "wine", "airline", "nycflights"}
        Which set.
    data_folder : path, optional
        Where to look first; then come the environment variable ``POLYADIC_DATA`` and the
        per-user cache.
    download : bool
        Whether to fetch a set that is in none of these places.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With `data`, `target`, `feature_names`, `target_name`, `DESCR` and `source`.

    Examples
    --------
    >>> from polyadic.datasets import load
    >>> load("yacht").data.shape  # doctest: +SKIP
    (308, 6)
    >>> load("boats")
    Traceback (most recent call last):
    ValueError: `name` must be one of airfoil, energy, yacht, concrete, ...
    """
    if name not in _LOADERS:
        raise ValueError(
            f"`name` must be one of {', '.join(_LOADERS)}, got {name!r}. For a file of your "
            "own, read it with pandas or NumPy."
        )
    return _LOADERS[name](data_folder, download=download)


def load_airfoil(data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load Airfoil Self-Noise: 1503 rows, 5 inputs; see :func:`load`.

    Examples
    --------
    >>> from polyadic.datasets import load_airfoil
    >>> load_airfoil().data.shape  # doctest: +SKIP
    (1503, 5)
    """
    return load_table("airfoil", data_folder, download)


def load_energy(data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load Energy Efficiency, heating load: 768 rows, 8 inputs; see :func:`load`.

    Examples
    --------
    >>> from polyadic.datasets import load_energy
    >>> load_energy().data.shape  # doctest: +SKIP
    (768, 8)
    """
    return load_table("energy", data_folder, download)


def load_yacht(data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load Yacht Hydrodynamics: 308 rows, 6 inputs; see :func:`load`.

    Examples
    --------
    >>> from polyadic.datasets import load_yacht
    >>> load_yacht().data.shape  # doctest: +SKIP
    (308, 6)
    """
    return load_table("yacht", data_folder, download)


def load_concrete(data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load Concrete Compressive Strength: 1030 rows, 8 inputs; see :func:`load`.

    Examples
    --------
    >>> from polyadic.datasets import load_concrete
    >>> load_concrete().data.shape  # doctest: +SKIP
    (1030, 8)
    """
    return load_table("concrete", data_folder, download)


def load_wine(data_folder: Folder = None, *, download: bool = True) -> Bunch:
    """Load Wine Quality, red then white: 6497 rows, 11 inputs; see :func:`load`.

    Examples
    --------
    >>> from polyadic.datasets import load_wine
    >>> load_wine().data.shape  # doctest: +SKIP
    (6497, 11)
    """
    return load_table("wine", data_folder, download)


_LOADERS = {
    "airfoil": load_airfoil,
    "energy": load_energy,
    "yacht": load_yacht,
    "concrete": load_concrete,
    "wine": load_wine,
    "airline": load_airline,
    "nycflights": load_nycflights,
}

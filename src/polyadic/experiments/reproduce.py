"""Repeat an experiment of the paper: do the fits that are missing, then write the results."""

from __future__ import annotations

import importlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.utils import Bunch

from polyadic import __version__, datasets
from polyadic.experiments.runs import (
    SMALL_SETS,
    Line,
    Outcome,
    Run,
    perform,
    plan,
    read_lines,
    warm_up,
    write_lines,
)
from polyadic.experiments.summary import write_summary
from polyadic.storage.atomic import replacing

OnFit = Callable[[Run, Outcome], None]


def default_datasets(experiment: str, data_folder: str | None = None) -> tuple[str, ...]:
    """Return the sets of an experiment; flights from New York stand in for the airline set."""
    if experiment != "airline":
        return SMALL_SETS
    try:
        datasets.load_airline(data_folder)
    except FileNotFoundError:
        return ("nycflights",)
    return ("airline",)


def reproduce(
    experiment: str,
    out: str | os.PathLike[str],
    *,
    names: Sequence[str] | None = None,
    restarts: int | None = None,
    models: Sequence[str] = ("FL", "CV"),
    data_folder: str | None = None,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_fit: OnFit = lambda run, outcome: None,
) -> Path:
    """Do what is missing of an experiment and write its tables and pictures.

    Parameters
    ----------
    experiment : {"table1", "table2", "figure2", "airline"}
        Which one.
    out : path
        Folder of the results; fits found in it are not repeated.
    names : sequence of str, optional
        The data sets; the paper's by default.
    restarts : int, optional
        Number of random splits; the paper's by default.
    models : sequence of {"FL", "CV"}
        Which models take part.
    data_folder : path, optional
        Where the data are.
    on_start : callable
        Told the number of fits that are done, and of all.
    on_fit : callable
        Told each fit and its outcome.

    Returns
    -------
    path : Path
        The page with the results.
    """
    importlib.import_module("matplotlib")  # better missed now than after the last fit
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = names or default_datasets(experiment, data_folder)
    runs = plan(experiment, names, restarts, models)
    path = folder / f"{experiment}-fits.csv"
    lines = read_lines(path)
    done = {run for run, _ in lines}
    missing = [run for run in runs if run not in done]
    on_start(len(runs) - len(missing), len(runs))
    with _record_session(folder / f"{experiment}-environment.json", lines):
        _perform_missing(missing, lines, path, data_folder, on_fit)
    # All of them: sets may be run by several calls.
    return write_summary(experiment, lines, folder)


def _perform_missing(
    missing: Sequence[Run], lines: list[Line], path: Path, data_folder: str | None, on_fit: OnFit
) -> None:
    """Perform runs one after another; each is kept as soon as it is done."""
    loaded: dict[str, Bunch] = {}
    warm: set[str] = set()
    for run in missing:
        if run.dataset not in loaded:
            loaded = {run.dataset: datasets.load(run.dataset, data_folder)}
        if run.model not in warm:
            warm_up(run, loaded[run.dataset])
            warm.add(run.model)
        outcome = perform(run, loaded[run.dataset])
        lines.append((run, outcome))
        write_lines(path, lines)
        on_fit(run, outcome)


@contextmanager
def _record_session(path: Path, lines: list[Line]) -> Iterator[None]:
    """Write down what the new lines were made with, also when interrupted."""
    before = len(lines)
    try:
        yield
    finally:
        if len(lines) > before:
            _record_environment(path, len(lines) - before)


def _record_environment(path: Path, fits: int) -> None:
    """Add to the file what these fits were made with."""
    sessions: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    sessions.append(
        {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "fits": fits,
            "polyadic": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
            "system": platform.system(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": 1,
            "seeds": "restart t splits with train_test_split(random_state=t), starts with t",
        }
    )
    with replacing(path) as file:
        file.write((json.dumps(sessions, indent=2) + "\n").encode())

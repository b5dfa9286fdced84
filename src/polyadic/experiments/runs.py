"""Runs: which fits an experiment is made of, how one is done, and what is kept of it.

    plan ─► fits not yet in the CSV ─► perform ─► CSV, replaced whole after every fit

An interrupted experiment goes on where it stopped, because the CSV is the only state.
"""

from __future__ import annotations

import csv
import io
import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from polyadic.experiments.paper import (
    REGULARISATIONS,
    SETTINGS,
    Setting,
    paper_baseline,
    paper_regressor,
)
from polyadic.storage.atomic import replacing

SMALL_SETS = ("airfoil", "concrete", "energy", "wine", "yacht")
EXPERIMENTS = ("table1", "table2", "figure2", "airline")


@dataclass(frozen=True)
class Run:
    """One fit: the key of a line in the CSV.

    `model` is "FL" (feature learning) or "CV" (cross-validated); `restart` is the seed of
    the split and of the initial cores.
    """

    experiment: str
    dataset: str
    model: str
    regularisation: str
    n_maps: int
    restart: int

    @property
    def setting(self) -> Setting:
        """The paper's setting; the stand-in for the airline set has that of the latter."""
        return SETTINGS["airline" if self.dataset == "nycflights" else self.dataset]

    def estimator(self) -> Any:
        """Return the unfitted estimator."""
        name = "airline" if self.dataset == "nycflights" else self.dataset
        if self.model == "CV":
            return paper_baseline(name, n_maps=self.n_maps, random_state=self.restart)
        return paper_regressor(
            name,
            *REGULARISATIONS[self.regularisation],
            n_maps=self.n_maps,
            random_state=self.restart,
        )


@dataclass(frozen=True)
class Outcome:
    """What a fit came to: the rest of a line in the CSV.

    Errors are mean squared, in units of the training part's variance; `fits` counts the
    models that were trained, `warnings` those that told of singular systems.
    """

    test_mse: float
    train_mse: float
    seconds: float
    fits: int
    warnings: int
    weights: str
    n_basis: int
    rank: int
    version: str


Line = tuple[Run, Outcome]


def plan(
    experiment: str,
    datasets: Sequence[str],
    restarts: int | None = None,
    models: Sequence[str] = ("FL", "CV"),
) -> list[Run]:
    """Return the fits of an experiment, cheap sets first.

    Parameters
    ----------
    experiment : {"table1", "table2", "figure2", "airline"}
        Which one.
    datasets : sequence of str
        Names of the sets.
    restarts : int, optional
        Number of random splits; as many as the paper's by default.
    models : sequence of {"FL", "CV"}
        Which models take part; Table 1 has the first only.
    """
    kinds = [(model, "L1") for model in models]
    if experiment == "table1":
        kinds = [("FL", name) for name in REGULARISATIONS]
    runs = []
    for dataset in datasets:
        setting = Run(experiment, dataset, "FL", "L1", 1, 1).setting
        every = len(setting.periods)
        sizes = range(1, every + 1) if experiment == "figure2" else [every]
        for restart in range(1, (restarts or setting.restarts) + 1):
            for n_maps in sizes:
                runs += [Run(experiment, dataset, *kind, n_maps, restart) for kind in kinds]
    return sorted(runs, key=lambda run: SETTINGS_ORDER.index(run.dataset))


SETTINGS_ORDER = ("yacht", "energy", "concrete", "airfoil", "wine", "nycflights", "airline")


def perform(run: Run, data: Bunch) -> Outcome:
    """Fit one model on the paper's split and measure it on the rest of the rows."""
    from polyadic import __version__

    X, X_test, y, y_test = train_test_split(
        data.data, data.target, test_size=run.setting.test_size, random_state=run.restart
    )
    centre, scale = y.mean(dtype=np.float64), y.std(ddof=1, dtype=np.float64)
    y, y_test = (y - centre) / scale, (y_test - centre) / scale
    model = run.estimator()
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
    return Outcome(
        test_mse=float(np.mean((model.predict(X_test) - y_test) ** 2)),
        train_mse=float(np.mean((model.predict(X) - y) ** 2)),
        seconds=seconds,
        fits=1 if run.model == "FL" else run.n_maps * model.n_splits_ + 1,
        warnings=len(caught),
        weights=_weights(model),
        n_basis=run.setting.n_basis,
        rank=run.setting.rank,
        version=__version__,
    )


def _weights(model: Any) -> str:
    """Return λ by period as JSON; a cross-validated model has one map, of weight 1."""
    weights = zip(model.feature_maps_, model.feature_weights_, strict=True)
    return json.dumps({f"{feature_map.period:g}": float(w) for feature_map, w in weights})


def warm_up(run: Run, data: Bunch) -> None:
    """Have everything imported and compiled before a fit is timed."""
    model = clone(run.estimator()).set_params(max_iter=1)
    with warnings.catch_warnings(action="ignore"):
        model.fit(data.data[:60], data.target[:60])


def read_lines(path: Path) -> list[Line]:
    """Return the fits that a CSV holds; none if there is no such file."""
    if not path.exists():
        return []
    try:
        with path.open(newline="") as file:
            return [(_record(Run, row), _record(Outcome, row)) for row in csv.DictReader(file)]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a CSV of fits as `polyadic reproduce` writes it ({error!r}). Move it "
            "away, or name another folder."
        ) from error


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Write the CSV of every fit; it appears whole or not at all."""
    text = io.StringIO(newline="")
    names = [field.name for kind in (Run, Outcome) for field in fields(kind)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(run) | asdict(outcome) for run, outcome in lines)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def _record(kind: Any, row: dict[str, str]) -> Any:
    convert: dict[Any, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    return kind(**{field.name: convert[field.type](row[field.name]) for field in fields(kind)})

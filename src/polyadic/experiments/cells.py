"""Cells of a summary: mean and deviation over restarts, and the paper's figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polyadic.experiments.paper import REGULARISATIONS, TABLE_1
from polyadic.experiments.runs import SETTINGS_ORDER, Line, Run


@dataclass(frozen=True)
class Cell:
    """One combination of set, model and number of maps, over its restarts."""

    run: Run
    restarts: int
    mse: float
    mse_std: float
    seconds: float
    seconds_std: float

    @property
    def paper(self) -> tuple[float, float | None, float] | None:
        """Mean MSE, its deviation and seconds in the paper, where it has this cell."""
        run = self.run
        if run.experiment == "table1":
            mse, seconds = TABLE_1[run.dataset][run.regularisation]
            return mse, None, seconds
        if run.n_maps != len(run.setting.periods) or run.dataset == "nycflights":
            return None
        return run.setting.fl if run.model == "FL" else run.setting.cv


def cells(lines: Iterable[Line]) -> list[Cell]:
    """Average fits that differ in the restart alone, sets in order of size."""
    groups: dict[Run, list[Line]] = {}
    for run, outcome in lines:
        key = Run(run.experiment, run.dataset, run.model, run.regularisation, run.n_maps, 0)
        groups.setdefault(key, []).append((run, outcome))
    found = []
    for key, group in groups.items():
        mse = np.array([outcome.test_mse for _, outcome in group])
        seconds = np.array([outcome.seconds for _, outcome in group])
        found.append(Cell(key, len(group), mse.mean(), mse.std(), seconds.mean(), seconds.std()))
    kinds = list(REGULARISATIONS)
    return sorted(
        found,
        key=lambda cell: (
            SETTINGS_ORDER.index(cell.run.dataset),
            kinds.index(cell.run.regularisation),
            cell.run.model == "CV",
            cell.run.n_maps,
        ),
    )

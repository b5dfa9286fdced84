"""Section 1: the paper's settings against Algorithm 1 in plain NumPy."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks import plain
from benchmarks.common import SETS, Split, split, timed
from polyadic.compute import ComputeSpec
from polyadic.experiments.paper import SETTINGS, paper_regressor
from polyadic.features import FourierFeatures, TensorLayout
from polyadic.model import als, cpd
from polyadic.model.mixing import initial_weights
from polyadic.rows.rows import Rows

ALPHA, BETA, EPOCHS = 0.01, 0.1, 10


def run(folder: str | None, repeats: int, threads: int, sets: tuple[str, ...] = SETS) -> Any:
    """Return one record for each data set."""
    return [measure(name, folder, repeats if name != "wine" else 2, threads) for name in sets]


def measure(name: str, folder: str | None, repeats: int, threads: int) -> dict[str, Any]:
    """Fit from `repeats` starts, everything by turns; the yardstick on one thread."""
    rows = split(name, folder)
    fits: dict[str, Callable[[int], Any]] = {
        "yardstick": lambda seed: yardstick(name, rows, seed),
        "same": lambda seed: same_work(name, rows, seed, 1),
        "same_threads": lambda seed: same_work(name, rows, seed, threads),
        "same_float32": lambda seed: same_work(name, rows, seed, 1, "float32"),
        "whole": lambda seed: whole_fit(name, rows, seed, 1),
        "whole_threads": lambda seed: whole_fit(name, rows, seed, threads),
    }
    for who in list(fits)[1:]:
        fits[who](0)  # compiles
    seconds: dict[str, list[float]] = {who: [] for who in [*fits, "mixing"]}
    errors: dict[str, list[float]] = {who: [] for who in fits}
    for seed in range(repeats):
        for who, fit in fits.items():
            with threadpool_limits(1):
                spent, model = timed(lambda fit=fit, seed=seed: fit(seed))
            seconds[who].append(spent)
            errors[who].append(float(np.mean((model.predict(rows[1]) - rows[3]) ** 2)))
            if who == "yardstick":
                seconds["mixing"].append(model.mixing_seconds)
    return {
        "set": name,
        "rows": len(rows[0]),
        "repeats": repeats,
        "threads": threads,
        "seconds": {who: statistics.median(values) for who, values in seconds.items()},
        "mse": {who: statistics.mean(values) for who, values in errors.items()},
    }


def start(name: str, rows: Split, seed: int) -> als.Model:
    """Return the random start that the yardstick and the same work share."""
    setting, rng = SETTINGS[name], np.random.RandomState(seed)
    n_cores = rows[0].shape[1] * (setting.n_basis.bit_length() - 1)
    cores = cpd.initial_cores([2] * n_cores, setting.rank, True, rng)
    return als.Model((cores,), initial_weights(len(setting.periods), "l1", rng))


def yardstick(name: str, rows: Split, seed: int) -> plain.PlainFit:
    setting, model = SETTINGS[name], start(name, rows, seed)
    return plain.fit(
        rows[0],
        rows[2],
        model.cores[0],
        model.map_weights,
        periods=setting.periods,
        n_basis=setting.n_basis,
        alpha=ALPHA,
        beta=BETA,
        epochs=EPOCHS,
    )


@dataclass
class SameWork:
    """A model of ours that the driver made without an estimator around it."""

    model: als.Model
    layout: TensorLayout

    def predict(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the real response of each row."""
        with ComputeSpec(n_jobs=1).open() as compute:
            return compute.predict(X, self.model.cores[0], self.model.map_weights, self.layout)


def same_work(name: str, rows: Split, seed: int, threads: int, dtype: str = "float64") -> SameWork:
    """Do what the yardstick does, from the same start: ten epochs, the last one's model."""
    setting = SETTINGS[name]
    maps = tuple(FourierFeatures(float(period)) for period in setting.periods)
    layout = TensorLayout.of(maps, (setting.n_basis,) * rows[0].shape[1], True)
    objective = als.Objective(ALPHA, BETA, "l1", False, "complex")
    with ComputeSpec(dtype=dtype, n_jobs=threads, objective="complex").open() as compute:
        samples = compute.samples(Rows(rows[0], rows[2]), layout)
        model, stopping = start(name, rows, seed), als.Stopping(EPOCHS)
        fit = als.fit([samples], objective, model, stopping, mix_first=True)
    return SameWork(fit.last.model, layout)


def whole_fit(name: str, rows: Split, seed: int, threads: int) -> Any:
    """Fit the estimator: it checks and scales, tries two starts of λ and keeps the best epoch."""
    model = paper_regressor(name, random_state=seed).set_params(n_jobs=threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # singular systems are the settings' own
        return model.fit(rows[0], rows[2])

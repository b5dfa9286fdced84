"""Section 1: the paper's settings against Algorithm 1 in plain NumPy."""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import plain
from benchmarks.common import SETS, Split, split, timed
from polyadic import cpd
from polyadic.experiments.paper import SETTINGS, paper_regressor
from polyadic.mixing import initial_weights


def run(folder: str | None, repeats: int, threads: int, sets: tuple[str, ...] = SETS) -> Any:
    """Return one record for each data set."""
    return [measure(name, folder, repeats if name != "wine" else 2, threads) for name in sets]


def measure(name: str, folder: str | None, repeats: int, threads: int) -> dict[str, Any]:
    """Fit both from `repeats` starts, by turns; the yardstick on one thread."""
    rows = split(name, folder)
    counts = sorted({1, threads})
    ours(name, rows, 0, threads)  # compiles
    times: dict[Any, list[float]] = {count: [] for count in ["plain", "mixing", "single", *counts]}
    errors: dict[str, list[float]] = {"plain": [], "polyadic": []}
    for seed in range(repeats):
        with threadpool_limits(1):
            seconds, fit = timed(lambda seed=seed: yardstick(name, rows, seed))
        times["plain"].append(seconds)
        times["mixing"].append(fit.mixing_seconds)
        errors["plain"].append(mse(fit, rows))
        for count in counts:
            seconds, model = timed(lambda s=seed, c=count: ours(name, rows, s, c))
            times[count].append(seconds)
        errors["polyadic"].append(mse(model, rows))
        times["single"].append(timed(lambda s=seed: ours(name, rows, s, 1, "float32"))[0])
    middle = {str(key): statistics.median(values) for key, values in times.items()}
    return {
        "set": name,
        "rows": len(rows[0]),
        "repeats": repeats,
        "yardstick_s": middle["plain"],
        "yardstick_mixing_s": middle["mixing"],
        "polyadic_s": {str(count): middle[str(count)] for count in counts},
        "float32_s": middle["single"],
        "mse": {key: statistics.mean(values) for key, values in errors.items()},
    }


def yardstick(name: str, rows: Split, seed: int) -> plain.PlainFit:
    setting, rng = SETTINGS[name], np.random.RandomState(seed)
    n_cores = rows[0].shape[1] * (setting.n_basis.bit_length() - 1)
    cores = cpd.initial_cores([2] * n_cores, setting.rank, True, rng)
    return plain.fit(
        rows[0],
        rows[2],
        cores,
        initial_weights(len(setting.periods), "l1", rng),
        periods=setting.periods,
        n_basis=setting.n_basis,
        alpha=0.01,
        beta=0.1,
        epochs=10,
    )


def ours(name: str, rows: Split, seed: int, threads: int, dtype: str = "float64") -> Any:
    model = paper_regressor(name, random_state=seed).set_params(n_jobs=threads, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # singular systems are the settings' own
        return model.fit(rows[0], rows[2])


def mse(model: Any, rows: Split) -> float:
    return float(np.mean((model.predict(rows[1]) - rows[3]) ** 2))

"""Section 4: rows predicted per second, beside two scikit-learn models of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from threadpoolctl import threadpool_limits

from benchmarks.common import median_time, split
from benchmarks.paper import whole_fit


def run(folder: str | None, repeats: int, threads: int) -> list[dict[str, Any]]:
    """Return throughput on the wine set, its rows repeated to 100,000."""
    rows = split("wine", folder)
    X = np.resize(rows[0], (100_000, rows[0].shape[1]))
    models = {
        "polyadic, paper settings": whole_fit("wine", rows, 0, 1),
        "HistGradientBoostingRegressor": HistGradientBoostingRegressor().fit(rows[0], rows[2]),
        "KernelRidge(kernel='rbf')": KernelRidge(kernel="rbf").fit(rows[0], rows[2]),
    }
    return [
        {"model": name, "threads": count, "rows_per_s": len(X) / _seconds(model, X, repeats, count)}
        for name, model in models.items()
        for count in sorted({1, threads})
    ]


def _seconds(model: Any, X: Any, repeats: int, threads: int) -> float:
    if hasattr(model, "n_jobs"):
        model.n_jobs = threads
    with threadpool_limits(threads):
        return median_time(lambda: model.predict(X), repeats)

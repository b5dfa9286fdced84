"""Section 5: peak memory of a fit of a million rows, in a process of its own."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import child, child_arguments

SIZES = {"N": 1_000_000, "D": 8, "R": 20, "P": 6}


def run(threads: int, quick: bool) -> list[dict[str, Any]]:
    """Return the peak with the state kept, and without."""
    sizes = {**SIZES, **({"N": 100_000} if quick else {})}
    cases: list[dict[str, Any]] = [
        {"dtype": "float64", "memory_limit": None},
        {"dtype": "float32", "memory_limit": None},
        {"dtype": "float64", "memory_limit": "400MB"},
    ]
    return [child(__name__, {**sizes, **case, "threads": threads}) for case in cases]


def main() -> None:
    a = child_arguments()
    from polyadic import FeatureLearningRegressor
    from polyadic.features import FourierFeatures

    rng = np.random.default_rng(0)
    maps = [FourierFeatures(float(period)) for period in (10, 2, 128, 25, 64, 1024)[: a["P"]]]
    model = FeatureLearningRegressor(
        maps, n_basis=4, rank=a["R"], mixing="l1", max_iter=1, tol=0, random_state=0,
        n_jobs=a["threads"], dtype=a["dtype"], memory_limit=a["memory_limit"],
    )  # fmt: skip
    small = rng.uniform(size=(100, a["D"]))
    model.fit(small, small[:, 0])  # loads and compiles
    before = _peak()
    X = rng.uniform(size=(a["N"], a["D"]))
    y = np.sin(7 * X[:, 0]) + X[:, 1]
    model.fit(X, y)
    fitted = _peak()
    model.predict(X)
    number = 2 * np.dtype(a["dtype"]).itemsize
    data = X.nbytes + y.nbytes
    state = 0 if a["memory_limit"] else a["N"] * a["R"] * a["P"] * number
    used = fitted - before
    print(json.dumps({
        **a, "data_B": data, "state_B": state, "fit_B": used, "ratio": used / (data + state),
        "predict_B": _peak() - fitted,
    }))  # fmt: skip


def _peak() -> int:
    """Return the most memory this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child begins with the size of its parent
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


if __name__ == "__main__":
    main()

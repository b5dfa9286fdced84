"""What the sections share: repeated timing, data, one or more threads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from polyadic import datasets

SETS = ("yacht", "energy", "concrete", "airfoil", "wine")

Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds a call takes, and its answer."""
    began = time.perf_counter()
    answer = function()
    return time.perf_counter() - began, answer


def median_time(function: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of a call, after one that is not counted."""
    function()
    return statistics.median(timed(function)[0] for _ in range(repeats))


def least_time(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the least seconds of some calls, which other work on the machine disturbs least."""
    found: list[float] = []
    while len(found) < 100 and sum(found) < 0.3:
        found.append(timed(partial(function, *arguments))[0])
    return min(found)


def split(name: str, folder: str | None, seed: int = 1) -> Split:
    """Return X_train, X_test, y_train, y_test; inputs in [0, 1], target standardised."""
    bunch = datasets.load(name, folder, download=False)
    X, T, y, u = train_test_split(bunch.data, bunch.target, test_size=0.2, random_state=seed)
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    span = np.where(span > 0, span, 1.0)
    mean, scale = y.mean(), y.std(ddof=1)
    return (X - low) / span, (T - low) / span, (y - mean) / scale, (u - mean) / scale


def child(module: str, arguments: dict[str, Any], cpus: int | None = None) -> dict[str, Any]:
    """Run `module` in a process of its own, held to some CPUs; return the JSON it prints."""
    single = (
        {} if cpus is None else {"OMP_NUM_THREADS": str(cpus), "OPENBLAS_NUM_THREADS": str(cpus)}
    )
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps({**arguments, "cpus": cpus})],
        env={**os.environ, **single},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def child_arguments() -> dict[str, Any]:
    """Return what `child` passed, and keep to the CPUs it named where the system can."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    cpus = arguments.pop("cpus")
    if cpus is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    return arguments

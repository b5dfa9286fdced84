"""Cells of the accuracy benchmark, each a fit on one split, run in processes with a time limit.

A process works off cells until one takes too long or ends it; then it is replaced.  What went
wrong is the cell's result.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks import models

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
START_LIMIT = 900.0  # seconds to load, compile and warm up, which no cell is charged with
Outcome = dict[str, Any]  # mse, r2 and seconds; or why there are none


@dataclass(frozen=True)
class Cell:
    """A model to be fitted on one split of a set, and the title that its result goes under."""

    set_name: str
    split: int
    model: str
    title: str


Sets = dict[str, tuple[NDArray[Any], NDArray[Any]]]
Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def split(X: NDArray[Any], y: NDArray[Any], seed: int, share: float = 0.2) -> Split:
    """Return X_train, X_test, y_train, y_test; inputs as they are, target standardised."""
    X, T, y, u = train_test_split(X, y, test_size=share, random_state=seed)
    mean, scale = y.mean(), y.std(ddof=1)
    return X, T, (y - mean) / scale, (u - mean) / scale


def share_of_test(set_name: str) -> float:
    """Return the share of test rows: a third of the flights, as in the paper."""
    return 1 / 3 if set_name == "nycflights" else 0.2


def score(model: Any, X: Any, T: Any, y: Any, u: Any) -> Outcome:
    """Return the test error of a model and the seconds that its fit takes."""
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    mse = float(np.mean((model.predict(T) - u) ** 2))
    if not np.isfinite(mse):
        return {"failed": "predictions that are not finite", "seconds": seconds}
    return {"mse": mse, "r2": 1 - mse / float(np.var(u)), "seconds": seconds}


def measure(cell: Cell, X: NDArray[Any], y: NDArray[Any], threads: int) -> Outcome:
    """Return the result of a cell, or the error that its model raised."""
    parts = split(X, y, cell.split, share_of_test(cell.set_name))
    try:
        with threadpool_limits(threads):
            return score(models.make(cell.model, threads), *parts)
    except Exception as error:  # whatever a model raises is its result
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def _work(pipe: Connection, threads: int) -> None:
    """Measure what comes through the pipe until None does."""
    warm: set[str] = set()
    while (task := pipe.recv()) is not None:
        cell, X, y = task
        if cell.model not in warm:
            with suppress(Exception):  # what it cannot do shows in the cell itself
                models.warm_up(cell.model)
            warm.add(cell.model)
        pipe.send("begun")
        pipe.send(measure(cell, X, y, threads))


class _Worker:
    """A process with at most one cell under way."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_work, args=(end, threads), daemon=True)
        self.process.start()
        end.close()  # so that a process which ends is noticed here

    def give(self, cell: Cell, sets: Sets) -> None:
        self.cell, self.began, self.given = cell, math.inf, time.perf_counter()
        with suppress(OSError):  # if the process has just ended, reading will tell
            self.pipe.send((cell, *sets[cell.set_name]))

    def read(self) -> Outcome | None:
        """Return the result, or None if the cell has only begun."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return {"failed": f"the process ended with {self.process.exitcode}"}
        if message == "begun":
            self.began = time.perf_counter()
            return None
        return dict(message)

    def overdue(self, limit: float) -> Outcome | None:
        """Return why the cell is given up, if it is."""
        now = time.perf_counter()
        if now - self.began > limit:
            return {"failed": f"more than {limit:g} s"}
        if math.isinf(self.began) and now - self.given > START_LIMIT:
            return {"failed": f"it did not begin within {START_LIMIT:g} s"}
        return None

    def dismiss(self) -> None:
        """Let the process end by itself, as it has nothing more to do."""
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)
        self.stop()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(
    cells: Sequence[Cell], sets: Sets, jobs: int, threads: int, limit: float
) -> Iterator[tuple[Cell, Outcome]]:
    """Yield cells with their results as they come, `jobs` at a time."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    waiting = list(reversed(cells))
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(threads))
                workers[-1].give(waiting.pop(), sets)
            ready = wait([worker.pipe for worker in workers], timeout=1.0)
            for worker in list(workers):
                outcome = worker.read() if worker.pipe in ready else None
                if outcome is None:
                    outcome = worker.overdue(limit)
                    if outcome is None:
                        continue
                    worker.stop()
                yield worker.cell, outcome
                if worker.process.is_alive() and waiting:
                    worker.give(waiting.pop(), sets)
                else:
                    worker.dismiss()
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()

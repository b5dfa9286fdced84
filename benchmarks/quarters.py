"""Coverage in each quarter of the predicted width, on made-up problems; writes uncertainty.md.

    python -m benchmarks.quarters --out docs --jobs 16

Problems differ in how errors are distributed.  Each is drawn anew several times; a default fit to
so many rows is judged on 100,000 others, cut into quarters by the width of their intervals.
Results are stored in uncertainty.json and meet what is there already.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from benchmarks import uncertainty
from benchmarks.classes import single_thread

_N_TEST, _N_INPUTS = 100_000, 3
Array = NDArray[np.float64]


def main() -> None:
    arguments = _arguments()
    found = uncertainty.results(arguments.out).get("quarters", {})
    sizes = [int(each) for each in arguments.rows.split(",")]
    todo = [
        (problem, n_rows, draw)
        for n_rows in sorted(sizes, reverse=True)  # what takes long comes first
        for problem in PROBLEMS
        for draw in range(arguments.draws)
    ]
    context = get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, context, initializer=single_thread) as pool:
        waiting = {pool.submit(measure, *each): each for each in todo}
        for each in as_completed(waiting):
            problem, n_rows, draw = waiting[each]
            sizes_of = found.setdefault(problem, {})
            sizes_of.setdefault(str(n_rows), {})[str(draw)] = each.result()
            print(problem, n_rows, draw, each.result(), flush=True)
            uncertainty.keep(arguments.out, quarters=found)


def measure(problem: str, n_rows: int, draw: int) -> list[list[float]]:
    """Return the coverage in each quarter, narrow to wide, of intervals of each coverage."""
    from polyadic import FeatureLearningRegressor

    rng = RandomState(draw)
    X = rng.uniform(size=(n_rows + _N_TEST, _N_INPUTS))
    y = PROBLEMS[problem](X, rng)
    model = FeatureLearningRegressor(random_state=0, n_jobs=1, verbose=0)
    ends = model.fit(X[:n_rows], y[:n_rows]).predict_interval(X[n_rows:], uncertainty.COVERAGES)
    of_coverage = []
    for low, high in np.moveaxis(ends, (2, 1), (0, 1)):
        inside, order = (low <= y[n_rows:]) & (y[n_rows:] <= high), np.argsort(high - low)
        of_coverage.append([float(inside[part].mean()) for part in np.array_split(order, 4)])
    return of_coverage


def _wave(X: Array) -> Array:
    return np.sin(6 * X[:, 0]) + X[:, 2]


def _here_and_there(X: Array, rng: RandomState) -> Array:
    return _wave(X) + (0.05 + np.abs(X[:, 1] - 0.5)) * rng.standard_normal(len(X))


def _heavy(X: Array, rng: RandomState) -> Array:
    return _wave(X) + 0.2 * rng.standard_t(2.5, size=len(X))


def _nothing(X: Array, rng: RandomState) -> Array:
    return np.asarray(rng.standard_normal(len(X)))


def _heavy_here(X: Array, rng: RandomState) -> Array:
    return _wave(X) + (0.05 + X[:, 1]) * 0.3 * rng.standard_t(3, size=len(X))


def _product(X: Array, rng: RandomState) -> Array:
    return _wave(X) + (0.05 + X[:, 0] * X[:, 1]) * rng.standard_normal(len(X))


def _skewed_step(X: Array, rng: RandomState) -> Array:
    return _wave(X) + np.where(X[:, 1] > 0.5, 0.5, 0.1) * (rng.exponential(size=len(X)) - 1)


def _level(X: Array, rng: RandomState) -> Array:
    return _wave(X) + 0.3 * rng.standard_normal(len(X))


PROBLEMS: dict[str, Callable[[Array, RandomState], Array]] = {
    "larger here than there": _here_and_there,
    "heavy tails": _heavy,
    "nothing but errors": _nothing,
    "heavy tails, larger here than there": _heavy_here,
    "a product of inputs, with a floor": _product,
    "a step, skewed": _skewed_step,
    "as large everywhere": _level,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quarters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default="4000,16000", help="rows of a fit, with commas")
    parser.add_argument("--draws", type=int, default=6, help="of each problem")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""How much of a calibration error is chance: more splits of one table; writes classes.md.

    python -m benchmarks.calibration --data DATA --out docs --table chile-vote --splits 15

The error of the test rows of five splits together, of the next five, and of all of them, beside
what right probabilities would have: labels are drawn from those predicted, once for each row of
the table, so that a row which several splits test has the same label in all of them.  Results are
stored in classes.json.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import classes

_TOGETHER = 5  # splits
_DRAWS = 2_000


class Tested(NamedTuple):
    """Probabilities of test rows, which column is right, and the place of each in the table."""

    P: NDArray[np.float64]
    right: NDArray[np.intp]
    place: NDArray[np.intp]


def main() -> None:
    arguments = _arguments()
    packed = dict(classes.files(arguments.data))[arguments.table]
    context, splits = get_context("spawn"), range(1, arguments.splits + 1)
    with ProcessPoolExecutor(arguments.jobs, context, initializer=classes.single_thread) as pool:
        tested = list(pool.map(partial(fit, packed), splits))
    n = len(tested)
    ends = [(first, min(first + _TOGETHER, n)) for first in range(0, n, _TOGETHER)]
    rows = [
        [arguments.table, f"{a + 1} to {b}", *compare(tested[a:b])]
        for a, b in dict.fromkeys([*ends, (0, n)])
    ]
    found = classes.results(arguments.out)
    kept = [each for each in found.get("chance", []) if each[0] != arguments.table]
    classes.keep(arguments.out, {**found, "chance": kept + rows})


def fit(packed: bytes, split: int) -> Tested:
    """Fit to one split."""
    X, T, y, u = classes.parts(packed, split)
    model = classes.fit(classes.OURS, X, y)
    columns = classes.columns_of(u, model.classes_)
    return Tested(model.predict_proba(T), columns, T.index.to_numpy())


def compare(some: list[Tested]) -> list[Any]:
    """Return how many rows there are, how many different ones, the error, and that of chance."""
    P, right, place = (np.concatenate(each) for each in zip(*some, strict=True))
    rows, copies = np.unique(place, return_inverse=True)
    rng, ends = np.random.RandomState(0), P.cumsum(axis=1)
    drawn = []
    for _ in range(_DRAWS):
        u = rng.uniform(size=len(rows))[copies]
        drawn.append(error(P, np.minimum((u[:, None] > ends).sum(axis=1), P.shape[1] - 1)))
    chance = [float(np.mean(drawn)), float(np.quantile(drawn, 0.9))]
    return [len(P), len(rows), error(P, right), *chance]


def error(P: NDArray[np.float64], columns: NDArray[np.intp]) -> float:
    """Return the expected calibration error where these columns are right."""
    return sum(map(abs, classes.gaps_of(P, columns))) / len(P)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="folder of the tables, or the file that --pack wrote")
    parser.add_argument("--table", default="chile-vote", help="its name")
    parser.add_argument("--splits", type=int, default=15, help="the first so many")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of classes.json")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    return parser.parse_args()


if __name__ == "__main__":
    main()

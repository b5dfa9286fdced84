"""What a standard deviation costs, in predictions without one; writes uncertainty.md.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.deviations --data DATA --out docs

One thread; the least of several times, of 300 and of 10,000 rows.  Named maps are fitted to made-up
rows for two epochs, as their cost hardly depends on what they have learned; automatic fits to the
numeric columns of sets, at most 4,000 rows of them.  Results are stored in uncertainty.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import tables, uncertainty
from benchmarks.common import least_time

AUTOMATIC = ("airfoil", "concrete", "hitters", "abalone", "cpu-act", "ailerons", "slid-wages")
_MOST_TRAINING = 4_000


def main() -> None:
    arguments = _arguments()
    found: dict[str, list[float]] = {}
    for name, model, X in fits(arguments.data):
        found[name] = [_ratio(model, np.resize(X, (n, X.shape[1]))) for n in uncertainty.COST_ROWS]
        print(name, found[name], flush=True)
        uncertainty.keep(arguments.out, costs=found)


def fits(data: str) -> Iterator[tuple[str, Any, NDArray[np.float64]]]:
    """Yield each fit and the rows that it was made to."""
    for name, inputs, model in _named():
        rng = np.random.RandomState(0)
        X = rng.uniform(size=(2_000, inputs))
        y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(len(X))
        yield name, model.fit(X, y), X
    from polyadic import FeatureLearningRegressor

    for name in AUTOMATIC:
        X, y = tables.capped(*tables.load(name, data), _MOST_TRAINING)
        model = FeatureLearningRegressor(random_state=0, n_jobs=1, verbose=0).fit(X, y)
        yield f"automatic, {name}, {X.shape[1]} inputs", model, np.asarray(X)


def _named() -> Iterator[tuple[str, int, Any]]:
    from polyadic import FeatureLearningRegressor
    from polyadic.features import DampedFourierFeatures, PurePowerFeatures

    usual, all_kept = "simplex", "l2"
    fourier = [DampedFourierFeatures(period, 0.7) for period in (2.0, 3.0, 4.0, 6.0, 8.0)]
    powers = [PurePowerFeatures()]
    kinds = [
        ("Fourier, quantized, 16 basis functions, rank 20", fourier[:1], usual, True, 16, 20),
        ("five of them", fourier, usual, True, 16, 20),
        ("powers, not quantized, 10 basis functions, rank 10", powers, usual, False, 10, 10),
        ("powers, not quantized, 20 basis functions, rank 20", powers, usual, False, 20, 20),
        ("Fourier, not quantized, 16 basis functions, rank 20", fourier[:1], usual, False, 16, 20),
        ("five of them, not quantized", fourier, usual, False, 16, 20),
        ("two of them, both kept, not quantized", fourier[:2], all_kept, False, 16, 20),
        ("five of them, all kept, not quantized", fourier, all_kept, False, 16, 20),
        ("Fourier, not quantized, 8 basis functions, rank 60", fourier[:1], usual, False, 8, 60),
        (
            "two of them, both kept, 16 basis functions, rank 60",
            fourier[:2],
            all_kept,
            False,
            16,
            60,
        ),
        ("five of them, all kept, 32 basis functions, rank 30", fourier, all_kept, False, 32, 30),
    ]
    for name, maps, mixing, quantized, n_basis, rank in kinds:
        for inputs in (2, 3, 5, 11):
            model = FeatureLearningRegressor(
                maps, n_basis=n_basis, rank=rank, quantized=quantized, mixing=mixing, max_iter=2,
                random_state=0, n_jobs=1, verbose=0,
            )  # fmt: skip
            yield f"{name}, {inputs} inputs", inputs, model


def _ratio(model: Any, X: NDArray[np.float64]) -> float:
    model.predict(X, return_std=True)  # compiled once
    return least_time(partial(model.predict, X, return_std=True)) / least_time(model.predict, X)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deviations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()

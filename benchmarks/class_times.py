"""How long a fit of classes takes beside a regression of the same shape.

    python -m benchmarks.class_times --rows 5000 20000 --classes 2 3 5

Both see the same inputs, and classes are parts of the same target.  Times are of the processor, in
one thread, so that others on the machine do not count.  Asked: two classes take at most three
times a regression, and C classes at most C times that.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import FeatureLearningClassifier, FeatureLearningRegressor


def draw(n_rows: int, n_inputs: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return inputs and a target that a few of them tell, with noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n_rows, n_inputs))
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] - 0.5) ** 2
    return X, y + 0.3 * rng.standard_normal(n_rows)


def seconds(model: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Return how long a fit takes."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--effort", type=float, default=1.0)
    arguments = parser.parse_args()
    options = {"random_state": 0, "n_jobs": 1, "verbose": 0, "effort": arguments.effort}
    seconds(FeatureLearningRegressor(**options), *draw(200, 4))  # compiles
    for n_rows in arguments.rows:
        X, y = draw(n_rows, arguments.inputs)
        usual = seconds(FeatureLearningRegressor(**options), X, y)
        print(f"{n_rows} × {arguments.inputs}: regression {usual:.1f} s", flush=True)
        for count in arguments.classes:
            edges = np.quantile(y, np.arange(1, count) / count)
            taken = seconds(FeatureLearningClassifier(**options), X, np.searchsorted(edges, y))
            asked = 3 * (1 if count == 2 else count)
            times, held = taken / usual, "held" if taken <= asked * usual else "missed"
            print(f"  {count} classes {taken:.1f} s, {times:.1f} times; asked {asked}: {held}")


if __name__ == "__main__":
    main()

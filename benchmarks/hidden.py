"""How well rows with gaps can be predicted at most, where inputs say nothing of each other.

    python -m benchmarks.hidden --data DATA

Of kin8nm, whose inputs are drawn one by one, a fifth of the cells is removed.  A fit to the whole
table knows next to all that there is to know; its mean over all that may be hidden in a row, drawn
from the training rows, is what predicts that row best.  What that leaves is beside what a fit to
the table with gaps comes to, and boosting.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks import cells, models, tables
from benchmarks.accuracy import load

_SET, _SPLITS, _DRAWS = "kin8nm", (1, 2), 200


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hidden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data")
    X, y = load(_SET, parser.parse_args().data)
    holes = tables.remove_cells(X)
    columns = np.corrcoef(np.asarray(X).T) - np.eye(X.shape[1])
    print(f"greatest correlation of two inputs: {np.abs(columns).max():.3f}")
    for split in _SPLITS:
        whole, removed = cells.split(X, y, split), cells.split(holes, y, split)
        errors = {"at most": best_error(whole, np.asarray(removed[1]))}
        for name in (models.OURS, "boosting"):
            for title, parts in (("whole", whole), ("removed", removed)):
                model = models.make(name, 1)
                errors[f"{name}, {title}"] = cells.score(model, *parts)["mse"]
        print(f"split {split}:", {name: round(error, 4) for name, error in errors.items()})


def best_error(whole: cells.Split, rows: NDArray[np.float64]) -> float:
    """Return the error of a fit to the whole table, over what may be hidden in rows with gaps."""
    X, _, y, u = whole
    model = models.make(models.OURS, 1).fit(X, y)
    rng, gaps, total = np.random.RandomState(0), np.isnan(rows), np.zeros(len(rows))
    for _ in range(_DRAWS):
        drawn = np.column_stack([rng.choice(column, len(rows)) for column in np.asarray(X).T])
        total += model.predict(np.where(gaps, drawn, rows)) / _DRAWS
    return float(np.mean((total - u) ** 2))


if __name__ == "__main__":
    main()

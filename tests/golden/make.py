"""Writes the golden files with version 1 of the formats; they are never written anew.

    git worktree add /tmp/version1 db08b8f
    PYTHONPATH=/tmp/version1/src python tests/golden/make.py

Rows come from sums and products alone, so that they are the same bits everywhere.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from recipe import CHECKPOINTS, Hats, problem, table_lines

import polyadic
from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import (
    DampedFourierFeatures,
    FourierFeatures,
    GaussianFeatures,
    PurePowerFeatures,
)

FOLDER = Path(__file__).resolve().parent
SMALL = {"rank": 2, "n_basis": 4, "max_iter": 3, "random_state": 0}
X, Y = problem()


def learned(maps, y=Y, **changes):
    return FeatureLearningRegressor(maps, **{**SMALL, **changes}).fit(X, y)


MODELS = {
    "complex-quantized": lambda: learned([FourierFeatures(2.0), DampedFourierFeatures(3.0, 0.7)]),
    "real-plain": lambda: learned(
        [GaussianFeatures(0.3, 1.5), PurePowerFeatures()], quantized=False, n_basis=[3, 4, 2]
    ),
    "real-quantized": lambda: learned([PurePowerFeatures()], mixing="l1"),
    "complex-plain": lambda: learned([FourierFeatures(2.0)], quantized=False, n_estimators=2),
    "several-targets": lambda: learned([FourierFeatures(2.0)], np.column_stack([Y, Y * Y])),
    "column-target": lambda: learned([FourierFeatures(2.0)], Y[:, None], scale_inputs=False),
    "one-map": lambda: KernelMachineRegressor(**SMALL).fit(X, Y),
    "cross-validated": lambda: KernelMachineRegressorCV(
        [FourierFeatures(2.0), DampedFourierFeatures(2.0, 0.7)], cv=2, **SMALL
    ).fit(X, Y),
    "automatic": lambda: FeatureLearningRegressor(
        effort=0.1, n_estimators=2, rank=4, n_basis=4, random_state=0
    ).fit(X, Y),
    "automatic-trend": lambda: with_trend(),
    "own-map": lambda: learned([Hats(1.5)], quantized=False),
}


def with_trend():
    """Return an automatic fit to which a linear trend is a member of its own."""
    line = X @ [1.0, -2.0, 0.5] + 0.01 * Y
    for seed in range(20):
        model = FeatureLearningRegressor(
            effort=0.1, n_estimators=1, rank=4, n_basis=4, random_state=seed
        ).fit(X, line)
        if len(model.members_) == 2:
            return model
    raise RuntimeError("no seed chose a trend")


def write_models():
    for name, make in MODELS.items():
        model = make()
        notes = {"rows": X[:20], "predictions": model.predict(X[:20])}
        polyadic.save(model, FOLDER / f"{name}.polyadic", notes=notes)


def write_table():
    """Fit a table with numbers, categories, flags and gaps as the command does."""
    from polyadic.cli import main

    table, model, out = (FOLDER / f"table{suffix}" for suffix in (".csv", ".polyadic", "-out.csv"))
    table.write_text("\n".join(table_lines()) + "\n")
    arguments = ["fit", table, "--target", "y", "--out", model, "--encode", "--missing", "mean"]
    arguments += ["--rank", 2, "--n-basis", 4, "--max-iter", 3]
    main([*map(str, arguments)], standalone_mode=False)
    main(["predict", str(model), str(table), "--out", str(out)], standalone_mode=False)


class Interruption:
    """Counts core steps, and presses Ctrl-C in one of them."""

    def __init__(self, solve):
        self.solve, self.steps, self.last = solve, 0, None

    def __call__(self, *arguments):
        self.steps += 1
        if self.steps == self.last:
            raise KeyboardInterrupt
        return self.solve(*arguments)


def write_checkpoints():
    """Interrupt fits in a core step; beside each goes what it would have come to."""
    from polyadic import als, checkpoint

    checkpoint._SHARE_OF_TIME = np.inf  # write at every opportunity
    solve = als.solve_core
    for name, (make, fraction) in CHECKPOINTS.items():
        als.solve_core = Interruption(solve)
        np.save(FOLDER / f"{name}.npy", make().fit(X, Y).predict(X))
        n_steps, als.solve_core = als.solve_core.steps, Interruption(solve)
        als.solve_core.last = int(fraction * n_steps)
        try:
            make(checkpoint=FOLDER / f"{name}.checkpoint").fit(X, Y)
        except KeyboardInterrupt:
            print(f"{name}: interrupted in step {als.solve_core.last} of {n_steps}")


if __name__ == "__main__":
    write_models()
    write_table()
    write_checkpoints()

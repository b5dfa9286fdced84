"""What the golden files were made of: rows, a table, a user's map, fits that were interrupted."""

from __future__ import annotations

import numpy as np

from polyadic import FeatureLearningRegressor, KernelMachineRegressorCV
from polyadic.features import DampedFourierFeatures, FeatureMap, FourierFeatures

MAPS = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.6)]


class Hats(FeatureMap):
    """A user's own feature map: |x − knot|, the same in every arithmetic."""

    is_complex = False

    def __init__(self, stretch=1.0):
        self.stretch = stretch

    def plain(self, x, n_basis):
        return self.stretch * np.abs(x[:, None] - np.arange(n_basis) / n_basis)


def problem():
    """Return rows and targets."""
    X = np.random.RandomState(0).uniform(size=(120, 3))
    return X, (X[:, 0] - 0.3) * (X[:, 0] - 0.6) * X[:, 1] * 8.0 + X[:, 2]


def table_lines():
    """Yield the lines of a table with numbers, a category, a flag and a gap."""
    X, y = problem()
    yield "size,colour,new,y"
    for index, (row, target) in enumerate(zip(X[:60], y, strict=False)):
        colour = ("red", "green", "blue")[index % 3]
        size = "" if index == 7 else f"{row[0]:.4f}"
        yield f"{size},{colour},{str(row[1] > 0.5).lower()},{target + index % 3:.4f}"


def joint(**settings):
    return FeatureLearningRegressor(
        MAPS, n_basis=4, rank=2, max_iter=6, tol=0.0, n_jobs=1, random_state=0, **settings
    )


def folds(**settings):
    return KernelMachineRegressorCV(
        [*MAPS, FourierFeatures(3.0)],
        n_basis=4,
        rank=2,
        max_iter=3,
        cv=3,
        n_jobs=1,
        random_state=0,
        **settings,
    )


def automatic(**settings):
    return FeatureLearningRegressor(
        effort=0.1, n_estimators=1, rank=4, n_basis=4, n_jobs=1, random_state=0, **settings
    )


# With each fit the part of its core steps after which it was interrupted.
CHECKPOINTS = {
    "joint": (joint, 0.9),
    "folds": (folds, 0.7),
    "folds-refit": (folds, 0.97),
    "automatic": (automatic, 0.7),
}

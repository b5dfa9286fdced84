"""The models of the accuracy benchmark, each as it comes, held to a number of threads.

A model whose package is not installed is left out.  None of them is tuned to a set.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.process import ExactProcess
from polyadic import FeatureLearningRegressor

OURS, PROCESS, LARGE_BOOSTING = "polyadic", "process", "boosting-500"
FIRST_EDITION = "first-edition"
EFFORTS = (0.25, 0.5, 1.0, 2.0, 4.0)


def ours(threads: int, **options: Any) -> Any:
    return FeatureLearningRegressor(random_state=0, n_jobs=threads, **options)


def process(threads: int) -> Any:
    return ExactProcess()


def boosting(threads: int, **options: Any) -> Any:
    return HistGradientBoostingRegressor(random_state=0, **options)


def catboost(threads: int) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(
        verbose=0, thread_count=threads, random_seed=0, allow_writing_files=False
    )


def ridge(threads: int) -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 20)))


class Xrfm:
    """xRFM with its own settings: a kernel of the distance that is learned in five rounds.

    Inputs are standardised, as its authors recommend.  It needs rows to choose the best round
    on, for which a fifth is held out.
    """

    def __init__(self, threads: int) -> None:
        import torch
        from xrfm import xRFM

        # The other models have no accelerator either.
        self.model_ = xRFM(
            device=torch.device("cpu"),
            tuning_metric="mse",
            n_threads=threads,
            random_state=0,
            verbose=False,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from four fifths of the rows."""
        self.scaler_ = StandardScaler().fit(X)
        single = self.scaler_.transform(X).astype(np.float32), y.astype(np.float32)
        A, B, a, b = train_test_split(*single, test_size=0.2, random_state=0)
        self.model_.fit(A, a, B, b)
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions as one column."""
        single = self.scaler_.transform(X).astype(np.float32)
        return np.asarray(self.model_.predict(single), dtype=np.float64).ravel()


def at_effort(effort: float) -> str:
    """Return the name of our model at some effort; it has its plain name at one."""
    return OURS if effort == 1.0 else f"{OURS}-effort-{effort:g}"


MODELS: dict[str, Callable[[int], Any]] = {
    OURS: ours,
    PROCESS: process,
    "boosting": boosting,
    LARGE_BOOSTING: partial(boosting, max_iter=500, max_leaf_nodes=63),
    "catboost": catboost,
    "xrfm": Xrfm,
    "ridge": ridge,
}
AT_EFFORTS = {at_effort(e): partial(ours, effort=e) for e in EFFORTS if e != 1.0}
PACKAGES = {"catboost": "catboost", "xrfm": "xrfm"}  # what a model needs
# Beyond these training rows a kernel matrix takes longer, or more memory, than there is.
MOST_ROWS = {PROCESS: 10_000, "xrfm": 20_000}
TITLES = {
    OURS: "polyadic",
    FIRST_EDITION: "first edition",
    PROCESS: "exact process",
    "boosting": "HistGradientBoosting",
    LARGE_BOOSTING: "HistGradientBoosting, 500 × 63",
    "catboost": "CatBoost",
    "xrfm": "xRFM",
    "ridge": "RidgeCV",
}


def make(name: str, threads: int) -> Any:
    """Return a model that has not been fitted."""
    return {**MODELS, **AT_EFFORTS}[name](threads)


def installed(name: str) -> bool:
    """Return whether the package that a model needs is there."""
    package = PACKAGES.get(name)
    return package is None or importlib.util.find_spec(package) is not None


def warm_up(name: str) -> None:
    """Fit a model to a little, so that neither compilation nor loading is timed."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(200, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(200)
    make(name, 1).fit(X, y).predict(X)
    if name.startswith(OURS):
        ours(1, effort=0.25, dtype="float32").fit(X, y)  # what it takes when rows are many

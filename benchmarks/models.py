"""The models of the accuracy benchmark, each as it comes, held to a number of threads.

A model whose package is not installed is left out.  None of them is tuned to a set.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.process import ExactProcess
from polyadic import FeatureLearningRegressor

OURS, PROCESS, LARGE_BOOSTING = "polyadic", "process", "boosting-500"
FIRST_EDITION, BY_HAND = "first-edition", "polyadic-by-hand"
EFFORTS = (0.25, 0.5, 1.0, 2.0, 4.0)
_MOST_LEVELS = 255


def ours(threads: int, **options: Any) -> Any:
    return FeatureLearningRegressor(random_state=0, n_jobs=threads, **options)


def process(threads: int) -> Any:
    return ExactProcess()


class Boosting:
    """HistGradientBoosting; categories of a data frame are its own kind of inputs.

    It takes 255 levels at most, so the rare ones of a category with more are gaps.
    """

    def __init__(self, threads: int, **options: Any) -> None:
        self.model_ = HistGradientBoostingRegressor(
            random_state=0, categorical_features="from_dtype", **options
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and know the levels."""
        self.levels_ = {
            name: X[name].value_counts().index[:_MOST_LEVELS] for name in category_names(X)
        }
        self.model_.fit(self._known(X), y)
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions; levels that were not there are gaps."""
        return self.model_.predict(self._known(X))

    def _known(self, X: Any) -> Any:
        if not self.levels_:
            return X
        known = {n: X[n].cat.set_categories(sorted(levels)) for n, levels in self.levels_.items()}
        return X.assign(**known)


class CatBoost:
    """CatBoost with its own settings; a gap in a category is a level."""

    def __init__(self, threads: int) -> None:
        from catboost import CatBoostRegressor

        self.model_ = CatBoostRegressor(
            verbose=0, thread_count=threads, random_seed=0, allow_writing_files=False
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, told which columns are categories."""
        self.model_.fit(as_texts(X), y, cat_features=category_names(X))
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions."""
        return self.model_.predict(as_texts(X))


class Ridge:
    """RidgeCV on standardised numbers, gaps as their mean and a flag, and one-hot categories."""

    def __init__(self, threads: int) -> None:
        self.strengths = np.logspace(-3, 4, 20)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, choosing the strength by leaving rows out."""
        self.model_ = make_pipeline(encoder_of(X), RidgeCV(self.strengths)).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions."""
        return self.model_.predict(X)


class ByHand:
    """Ours on what a user would make of a table by hand: the same encoding that ridge has."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def fit(self, X: Any, y: Any) -> Self:
        """Encode, and learn."""
        self.model_ = make_pipeline(encoder_of(X), ours(self.threads)).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Return predictions."""
        return self.model_.predict(X)


def encoder_of(X: Any) -> Any:
    """Return what standardises numbers, fills and flags gaps, and makes categories one-hot."""
    categories = category_names(X)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    if not categories:
        return numbers
    others = [name for name in X.columns if name not in categories]
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((numbers, others), (hot, categories))


def as_texts(X: Any) -> Any:
    """Return a data frame whose categories are text, gaps among them; an array as it is."""
    texts = {n: X[n].astype(object).fillna("gap").astype(str) for n in category_names(X)}
    return X.assign(**texts) if texts else X


def category_names(X: Any) -> list[str]:
    """Return the columns of a data frame that are categories; an array has none."""
    if isinstance(X, np.ndarray):
        return []
    return [name for name in X.columns if str(X[name].dtype) == "category"]


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
    "boosting": Boosting,
    LARGE_BOOSTING: partial(Boosting, max_iter=500, max_leaf_nodes=63),
    "catboost": CatBoost,
    "xrfm": Xrfm,
    "ridge": Ridge,
    BY_HAND: ByHand,
}
# Those that take text and gaps, and those for them alone.
OF_FRAMES, OF_FRAMES_ONLY = (OURS, "boosting", "catboost", "ridge", BY_HAND), (BY_HAND,)
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
    BY_HAND: "polyadic, encoded by hand",
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

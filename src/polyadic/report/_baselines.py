"""Simpler and other ways to predict the rows of a report, judged on the same rows.

A report has a fitted model and rows that it has not seen.  Where the rows of the fit are at hand,
other models are fitted to them.  Where they are not, each is fitted to a part of the report's own
rows and predicts the rest, in turn: it is judged on the same rows, but has learned from others,
and often from fewer, than the model.  The page says which of the two it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.model.losses import invert_link
from polyadic.report._subject import Subject, Tell, say_nothing

_MAX_ROWS = 20_000
_LEAST_ROWS = 20
_FEW_ROWS = 10_000  # that one thread is enough for
_MAX_LEVELS = 20  # of a category that a linear model has columns for
_MAX_CODES = 254  # of a category that boosting takes
_MAX_BOOSTED_CLASSES = 10  # each takes trees of its own
_MANY_CLASSES = 4  # from which on fewer folds do


BOOSTING: dict[str, Any] = {"random_state": 0}
"""Parameters of the boosted trees that are no defaults."""


@dataclass(frozen=True)
class Baseline:
    """Predictions of another model for some of the rows: numbers, or a column for each class."""

    name: str
    rows: NDArray[np.int64]
    predicted: NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Other models, and how many rows those that learn were fitted to.

    `n_folds` is zero where these are rows of the fit, and None where no model was fitted.
    """

    baselines: list[Baseline]
    n_fitted: int
    n_folds: int | None


def compare(subject: Subject, actual: NDArray[np.float64], tell: Tell = say_nothing) -> Comparison:
    """Predict the rows of a subject by a constant and, where it has inputs, by other models."""
    everything = np.arange(len(actual))
    constant = np.broadcast_to(_constant(subject.model), (len(actual), _n_columns(subject)))
    shaped = constant if subject.classes else constant[:, 0]
    baselines = [Baseline(_name_constant(subject.model), everything, shaped)]
    if subject.X is None or subject.y is None or len(subject.y) < _LEAST_ROWS:
        return Comparison(baselines, 0, None)
    known = subject.y >= 0 if subject.classes else np.ones(len(subject.y), dtype=bool)
    some = np.random.RandomState(0).permutation(np.flatnonzero(known))[:_MAX_ROWS]
    folds, n_folds = _folds(subject, some)
    for name, model in _models(subject):
        tell(f"fitting {name} to compare with")
        predicted = np.zeros((len(some), _n_columns(subject)))
        for X, y, places in folds:
            predicted[places] = _fit_and_predict(model, X, y, subject.X[some[places]], subject)
        shaped = predicted if subject.classes else predicted[:, 0]
        baselines.append(Baseline(name, some, shaped))
    return Comparison(baselines, min(len(y) for _, y, _ in folds), n_folds)


def _n_columns(subject: Subject) -> int:
    return len(subject.classes) or 1


def _constant(model: Any) -> NDArray[np.float64]:
    """Return what a fit begins with: the constant that costs its rows least."""
    start = np.asarray(model.target_scaling_.mean, dtype=np.float64)[None]
    return np.asarray(invert_link(model._link, start))


def _name_constant(model: Any) -> str:
    if model._link in ("logit", "softmax"):
        return "the share of each class in the fit"
    names = {
        "absolute_error": "median",
        "huber": "median",
        "quantile": f"{model.quantile} quantile" if model.loss == "quantile" else "",
    }
    return f"the {names.get(model.loss, 'mean')} of the fit's target"


def _folds(
    subject: Subject, some: NDArray[np.int64]
) -> tuple[list[tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]], int]:
    """Return rows to fit to with the places of those to predict, and how many folds that is."""
    places = np.arange(len(some))
    if subject.fit_rows is not None:
        X, y = subject.fit_rows
        fitted = np.random.RandomState(1).permutation(len(y))[:_MAX_ROWS]
        return [(X[fitted], y[fitted], places)], 0
    assert subject.X is not None
    assert subject.y is not None
    n_folds = 3 if len(subject.classes) >= _MANY_CLASSES else 5
    # The rows of a class are dealt out one by one, so that each fold has its share.
    order = np.argsort(subject.y[some], kind="stable") if subject.classes else places
    fold_of = np.empty(len(some), dtype=np.int64)
    fold_of[order] = places % n_folds
    X, y = subject.X[some], subject.y[some]
    parts = [fold_of == fold for fold in range(n_folds)]
    return [(X[~part], y[~part], np.flatnonzero(part)) for part in parts], n_folds


def _models(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield what the model is compared with: a linear model, and boosted trees."""
    categories = np.array([n > 0 for n in schema_of(subject.model).inputs.n_levels])
    linear = _linear(subject)
    if linear is not None:
        yield linear[0], _on_columns(categories, linear[1])
    if len(subject.classes) <= _MAX_BOOSTED_CLASSES:
        yield "gradient boosting", _boosting(subject, categories)


def _linear(subject: Subject) -> tuple[str, Any] | None:
    """Return a linear model for the loss of the fit; none for quantiles."""
    from sklearn.linear_model import (
        GammaRegressor,
        LogisticRegression,
        PoissonRegressor,
        RidgeCV,
    )

    if subject.classes:
        return "logistic regression", LogisticRegression(max_iter=1000)
    ridge = ("ridge regression", RidgeCV(np.logspace(-3, 4, 8)))
    others: dict[str, Any] = {
        "poisson": ("linear Poisson regression", PoissonRegressor(alpha=1e-3, max_iter=1000)),
        "gamma": ("linear gamma regression", GammaRegressor(alpha=1e-3, max_iter=1000)),
        "quantile": None,
    }
    found: tuple[str, Any] | None = others.get(subject.model.loss, ridge)
    return found


def _on_columns(categories: NDArray[np.bool_], model: Any) -> Any:
    """Return a linear model on columns of numbers.

    A category is a column for each of its frequent levels, and a gap is the mean, with a column
    that says where gaps are.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rare: Any = {"max_categories": _MAX_LEVELS, "handle_unknown": "infrequent_if_exist"}
    columns = make_column_transformer(
        (SimpleImputer(add_indicator=True, keep_empty_features=True), ~categories),
        (OneHotEncoder(sparse_output=False, **rare), categories),
    )
    return make_pipeline(columns, StandardScaler(), model)


def _boosting(subject: Subject, categories: NDArray[np.bool_]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    # The rarest levels of many are one to it.
    cut = FunctionTransformer(_cut_codes, kw_args={"categories": categories})
    known: Any = {"categorical_features": categories, **BOOSTING}
    if subject.classes:
        return make_pipeline(cut, HistGradientBoostingClassifier(**known))
    loss = subject.model.loss if subject.model.loss != "huber" else "squared_error"
    options = {"loss": loss, "quantile": subject.model.quantile}
    return make_pipeline(cut, HistGradientBoostingRegressor(**known, **options))


def _cut_codes(X: NDArray[np.float64], categories: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(categories, np.minimum(X, _MAX_CODES), X)


def _fit_and_predict(
    model: Any, X: NDArray[Any], y: NDArray[Any], new: NDArray[Any], subject: Subject
) -> NDArray[np.float64]:
    """Fit a model to some rows, and return what it predicts for others, a column each."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # On few rows threads wait for each other longer than they work.
    limit = 1 if len(y) < _FEW_ROWS else None
    with warnings.catch_warnings(), threadpool_limits(limit):
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Levels that only the rows to predict have are told by the encoder; here they are usual.
        warnings.simplefilter("ignore", UserWarning)
        if not subject.classes:
            return np.asarray(model.fit(X, y).predict(new))[:, None]
        p = np.full((len(new), len(subject.classes)), 1 / (len(y) + 1))
        there = np.unique(y).astype(np.intp)
        p[:, there] = model.fit(X, y).predict_proba(new) if len(there) > 1 else 1.0
    return np.asarray(p / p.sum(axis=1, keepdims=True))

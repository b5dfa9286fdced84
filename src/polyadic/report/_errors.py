"""How well a model predicts: errors with intervals, baselines, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._tables import schema_of
from polyadic.report._subject import Subject

_N_RESAMPLES = 500
_MAX_PAIRS = 2000  # for pictures and the bootstrap
_MAX_RIDGE_ROWS = 20_000
_LEAST_RIDGE_ROWS = 20
_MAX_LEVELS = 20  # of a category that a ridge regression has columns for
_MEASURES = ("r2", "rmse", "mae")


@dataclass(frozen=True)
class Measured:
    """Errors of one way to predict; R² is None where the target does not vary."""

    name: str
    rmse: float
    mae: float
    r2: float | None


@dataclass(frozen=True)
class Decile:
    """A tenth of the rows, by their prediction: means, and the standard error of the actual."""

    predicted: float
    actual: float
    standard_error: float
    rows: int


@dataclass(frozen=True)
class Errors:
    """What is known of a model's errors.

    `intervals` are 95 % intervals by the bootstrap over the rows, of which `actual` and
    `predicted` are all or a random part.
    """

    rows: int
    actual: NDArray[np.float64]
    predicted: NDArray[np.float64]
    model: Measured
    intervals: dict[str, tuple[float, float]]
    baselines: list[Measured]
    calibration: list[Decile]
    residual_quartiles: tuple[float, float, float]


def find_errors(subject: Subject) -> Errors | None:
    """Measure the model on the pairs of a subject, where it has any."""
    if subject.actual is None or subject.predicted is None or not len(subject.actual):
        return None
    all_actual, all_predicted = subject.actual, subject.predicted
    metrics = subject.metrics
    if metrics is None:
        metrics = {"rows": len(all_actual), **vars(measure("", all_actual, all_predicted))}
    model = Measured("this model", metrics["rmse"], metrics["mae"], metrics["r2"])
    some = np.random.RandomState(0).permutation(len(all_actual))[:_MAX_PAIRS]
    actual, predicted = all_actual[some], all_predicted[some]
    low, middle, high = np.quantile(actual - predicted, [0.25, 0.5, 0.75]).tolist()
    return Errors(
        rows=int(metrics["rows"]),
        actual=actual,
        predicted=predicted,
        model=model,
        intervals=_find_intervals(model, int(metrics["rows"]), actual, predicted),
        baselines=_find_baselines(subject, all_actual),
        calibration=_find_calibration(all_actual, all_predicted),
        residual_quartiles=(low, middle, high),
    )


def measure(name: str, actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> Measured:
    """Return the errors of predictions."""
    r2, rmse, mae = _measures(actual, predicted)
    return Measured(name, float(rmse), float(mae), float(r2) if np.ptp(actual) > 0 else None)


def _measures(actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> list[Any]:
    """Return R², RMSE and MAE along the last axis."""
    residual = actual - predicted
    square, spread = (residual**2).mean(axis=-1), actual.var(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = 1 - square / spread
    return [r2, np.sqrt(square), np.abs(residual).mean(axis=-1)]


def _find_intervals(
    model: Measured, n_rows: int, actual: NDArray[np.float64], predicted: NDArray[np.float64]
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals; fewer pairs than rows make the bootstrap's too wide by a root."""
    if len(actual) < 10:
        return {}
    drawn = np.random.RandomState(0).randint(len(actual), size=(_N_RESAMPLES, len(actual)))
    centre, resampled = _measures(actual, predicted), _measures(actual[drawn], predicted[drawn])
    narrower = np.sqrt(min(1.0, len(actual) / n_rows))
    found = {}
    for name, middle, values in zip(_MEASURES, centre, resampled, strict=True):
        point = getattr(model, name)
        if point is None or not np.isfinite(values).all():
            continue
        low, high = point + narrower * (np.quantile(values, [0.025, 0.975]) - middle)
        found[name] = (float(low), float(high))
    return found


def _find_baselines(subject: Subject, actual: NDArray[np.float64]) -> list[Measured]:
    mean = float(subject.model.target_scaling_.mean[0])
    baselines = [measure("the mean of the fit's target", actual, np.full(len(actual), mean))]
    if subject.X is not None and subject.y is not None and len(subject.y) >= _LEAST_RIDGE_ROWS:
        categories = [n > 0 for n in schema_of(subject.model).inputs.n_levels]
        baselines.append(_measure_ridge(subject.X, subject.y, np.array(categories)))
    return baselines


def _measure_ridge(
    X: NDArray[np.float64], y: NDArray[np.float64], categories: NDArray[np.bool_]
) -> Measured:
    """Measure a ridge regression on rows that it was not fitted on, five times a fifth.

    A category is a column for each of its frequent levels, and a gap is the mean, with a column
    that says where gaps are.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    some = np.random.RandomState(0).permutation(len(y))[:_MAX_RIDGE_ROWS]
    rare: Any = {"max_categories": _MAX_LEVELS, "handle_unknown": "infrequent_if_exist"}
    columns = make_column_transformer(
        (SimpleImputer(add_indicator=True, keep_empty_features=True), ~categories),
        (OneHotEncoder(sparse_output=False, **rare), categories),
    )
    ridge = make_pipeline(columns, StandardScaler(), RidgeCV(np.logspace(-3, 4, 8)))
    predicted = cross_val_predict(ridge, X[some], y[some], cv=KFold(5))
    return measure("ridge regression, by cross-validation on these rows", y[some], predicted)


def _find_calibration(actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> list[Decile]:
    """Return means of tenths of the rows in the order of their predictions."""
    order = np.argsort(predicted, kind="stable")
    tenths = np.array_split(order, min(10, max(1, len(order) // 5)))
    return [
        Decile(
            float(predicted[rows].mean()),
            float(actual[rows].mean()),
            float(actual[rows].std() / np.sqrt(len(rows))),
            len(rows),
        )
        for rows in tenths
    ]

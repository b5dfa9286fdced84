"""How well a regressor predicts: errors with intervals, beside other models, and calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.inspection._losses import measure_of
from polyadic.report._baselines import compare
from polyadic.report._subject import Subject, Tell, say_nothing

_N_RESAMPLES = 500
_MAX_PAIRS = 2000  # for pictures and the bootstrap
_LEAST_PAIRS = 10  # that a bootstrap makes sense of
_MEASURES = ("r2", "rmse", "mae", "loss")
_WORST = 8
# Losses that a row of the table has anyway.
_PLAIN_LOSSES = ("squared_error", "absolute_error", "huber")


@dataclass(frozen=True)
class Measured:
    """Errors of one way to predict; R² is None where the target does not vary.

    `loss` is the mean loss of the fit where that is none of the others.
    """

    name: str
    rmse: float
    mae: float
    r2: float | None
    loss: float | None = None
    standard_errors: dict[str, float] = field(default_factory=dict)


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
    `predicted` are all or a random part.  `loss_name` is what the loss of the fit is called,
    where it has a line of its own, and `below` the share of rows below their prediction, where a
    quantile is predicted.  Baselines that learn were fitted to `n_fitted` rows: those of the fit,
    or in turn all but one of `n_folds` parts of the rows of the report.  `worst` are the rows of
    the largest errors: their number, what was observed and what was predicted.
    """

    rows: int
    actual: NDArray[np.float64]
    predicted: NDArray[np.float64]
    model: Measured
    intervals: dict[str, tuple[float, float]]
    baselines: list[Measured]
    n_fitted: int
    n_folds: int | None
    calibration: list[Decile]
    residual_quartiles: tuple[float, float, float]
    loss_name: str | None
    below: float | None
    worst: list[tuple[int, float, float]]


def find_errors(subject: Subject, tell: Tell = say_nothing) -> Errors | None:
    """Measure a regressor on the pairs of a subject, where it has any."""
    if subject.actual is None or subject.predicted is None or not len(subject.actual):
        return None
    actual, predicted = subject.actual, subject.predicted
    found = _measure(subject, "this model", actual, predicted)
    metrics = {**vars(found), "rows": len(actual), **(subject.metrics or {})}
    n_rows = int(metrics["rows"])
    drawn = _resample(subject, actual, predicted, n_rows)
    model = Measured(
        "this model",
        metrics["rmse"],
        metrics["mae"],
        metrics["r2"],
        metrics["loss"],
        {name: spread for name, (spread, _) in drawn.items()},
    )
    some = np.random.RandomState(0).permutation(len(actual))[:_MAX_PAIRS]
    residual = actual - predicted
    low, middle, high = np.quantile(residual[some], [0.25, 0.5, 0.75]).tolist()
    comparison = compare(subject, actual, tell)
    own = subject.model.loss not in _PLAIN_LOSSES
    return Errors(
        rows=n_rows,
        actual=actual[some],
        predicted=predicted[some],
        model=model,
        intervals=_find_intervals(model, drawn),
        baselines=[
            _measure(subject, each.name, actual[each.rows], each.predicted, spread=True)
            for each in comparison.baselines
        ],
        n_fitted=comparison.n_fitted,
        n_folds=comparison.n_folds,
        calibration=_find_calibration(actual, predicted),
        residual_quartiles=(low, middle, high),
        loss_name=measure_of(subject.model).name if own else None,
        below=float((residual < 0).mean()) if subject.model.loss == "quantile" else None,
        worst=_find_worst(subject, residual),
    )


def _find_worst(subject: Subject, residual: NDArray[np.float64]) -> list[tuple[int, float, float]]:
    """Return the rows of the largest errors; those of a file that kept some rows have no number."""
    if subject.X is None or len(subject.X) != len(residual):
        return []
    assert subject.actual is not None
    assert subject.predicted is not None
    rows = np.argsort(-np.abs(residual), kind="stable")[:_WORST]
    return [(int(i), float(subject.actual[i]), float(subject.predicted[i])) for i in rows]


def _measure(
    subject: Subject,
    name: str,
    actual: NDArray[np.float64],
    predicted: NDArray[np.float64],
    *,
    spread: bool = False,
) -> Measured:
    """Return the errors of predictions."""
    r2, rmse, mae, loss = (float(each) for each in _measures(subject, actual, predicted))
    drawn = _resample(subject, actual, predicted, len(actual)) if spread else {}
    own = subject.model.loss not in _PLAIN_LOSSES
    return Measured(
        name,
        rmse,
        mae,
        r2 if np.ptp(actual) > 0 else None,
        loss if own else None,
        {each: found for each, (found, _) in drawn.items()},
    )


def _measures(
    subject: Subject, actual: NDArray[np.float64], predicted: NDArray[np.float64]
) -> list[Any]:
    """Return R², RMSE, MAE and the loss of the fit along the last axis."""
    residual = actual - predicted
    square, spread = (residual**2).mean(axis=-1), actual.var(axis=-1)
    measure = measure_of(subject.model)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = 1 - square / spread
        loss = measure.finish(measure.of_rows(actual, predicted[..., None]).mean(axis=-1))
    return [r2, np.sqrt(square), np.abs(residual).mean(axis=-1), loss]


def _resample(
    subject: Subject, actual: NDArray[np.float64], predicted: NDArray[np.float64], n_rows: int
) -> dict[str, tuple[float, NDArray[np.float64]]]:
    """Return, for each measure, how it varies when rows are drawn anew.

    That is its standard error, and the ends of a 95 % interval from where it is.  Fewer pairs than
    rows would make both too wide by a root.
    """
    if len(actual) < _LEAST_PAIRS:
        return {}
    some = np.random.RandomState(0).permutation(len(actual))[:_MAX_PAIRS]
    actual, predicted = actual[some], predicted[some]
    drawn = np.random.RandomState(0).randint(len(actual), size=(_N_RESAMPLES, len(actual)))
    centre = _measures(subject, actual, predicted)
    resampled = _measures(subject, actual[drawn], predicted[drawn])
    narrower = np.sqrt(min(1.0, len(actual) / n_rows))
    found = {}
    for name, middle, values in zip(_MEASURES, centre, resampled, strict=True):
        if np.isfinite(values).all():
            ends = np.quantile(values, [0.025, 0.975]) - middle
            found[name] = (float(narrower * values.std()), narrower * ends)
    return found


def _find_intervals(
    model: Measured, drawn: dict[str, tuple[float, NDArray[np.float64]]]
) -> dict[str, tuple[float, float]]:
    """Return 95 % intervals around what was measured."""
    points: dict[str, float | None] = {name: vars(model)[name] for name in _MEASURES}
    return {
        name: (point + float(ends[0]), point + float(ends[1]))
        for name, (_, ends) in drawn.items()
        if (point := points[name]) is not None
    }


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

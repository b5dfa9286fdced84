"""Whether what a model says of its errors holds: intervals, and how often they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.report._subject import Subject
from polyadic.uncertainty import ErrorPredictor, log_densities

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
USUAL = 0.9
"""Coverage of the intervals that are looked at more closely."""

_MAX_ROWS = 20_000


@dataclass(frozen=True)
class Level:
    """Intervals of one coverage: how many rows they hold, with a 95 % interval, and their width."""

    nominal: float
    observed: float
    low: float
    high: float
    width: float


@dataclass(frozen=True)
class Coverage:
    """Intervals of all coverages, and the mean log density of what was observed."""

    rows: int
    levels: list[Level]
    log_score: float
    log_score_error: float

    @property
    def usual(self) -> Level:
        """The intervals that are looked at more closely."""
        (found,) = [level for level in self.levels if level.nominal == USUAL]
        return found


@dataclass(frozen=True)
class Spread:
    """What a model says of the errors of rows.

    `low` and `high` are the ends of the usual interval.
    """

    predicted: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def has_uncertainty(model: Any) -> bool:
    """Whether a fit says how sure it is; classifiers and fits of earlier versions do not."""
    return hasattr(model, "uncertainty_")


def find_spread(model: Any, X: NDArray[np.float64]) -> Spread:
    """Return what a regressor of one target says of the errors of rows, as it sees them."""
    predictor = model._error_predictor()
    with predictor.open() as predict:
        predicted, scale, _ = np.asarray(predict(X), dtype=np.float64).T
    return Spread(predicted, scale, *_ends(predictor, predicted, scale, USUAL))


def _ends(
    predictor: ErrorPredictor,
    predicted: NDArray[np.float64],
    scale: NDArray[np.float64],
    coverage: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of intervals, as `predict_interval` does for a table."""
    sides = np.array([(1 - coverage) / 2, (1 + coverage) / 2])
    low, high = predictor.quantiles(predicted[:, None], scale[:, None], sides)[:, 0].T
    return low, high


def find_coverage(subject: Subject) -> Coverage | None:
    """Count how many rows of a subject lie in the intervals that the model predicts for them."""
    if subject.X is None or subject.y is None or not len(subject.y):
        return None
    if subject.classes or not has_uncertainty(subject.model):
        return None
    some = np.random.RandomState(0).permutation(len(subject.y))[:_MAX_ROWS]
    y, model = subject.y[some], subject.model
    spread, predictor = find_spread(model, subject.X[some]), model._error_predictor()
    levels = []
    for nominal in LEVELS:
        low, high = _ends(predictor, spread.predicted, spread.scale, nominal)
        inside = float(((low <= y) & (y <= high)).mean())
        levels.append(Level(nominal, inside, *wilson(inside, len(y)), float((high - low).mean())))
    said = spread.predicted[:, None], spread.scale[:, None]
    density = log_densities(y[:, None], *said, model.uncertainty_.errors)[:, 0]
    error = float(density.std() / np.sqrt(len(y)))
    return Coverage(len(y), levels, float(density.mean()), error)


def wilson(share: float, n_rows: int) -> tuple[float, float]:
    """Return a 95 % interval of a share, which is right for few rows too."""
    z = 1.96
    middle = (share + z**2 / (2 * n_rows)) / (1 + z**2 / n_rows)
    half = z * np.sqrt(share * (1 - share) / n_rows + (z / (2 * n_rows)) ** 2)
    half /= 1 + z**2 / n_rows
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))

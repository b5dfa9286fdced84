"""How well a classifier predicts: log-loss, accuracy and AUC, and whether probabilities hold.

Standard errors follow from what each row does to a measure, to first order; for the area under
the ROC curve that is DeLong's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.report._baselines import compare
from polyadic.report._coverage import wilson
from polyadic.report._subject import Subject, Tell, say_nothing
from polyadic.rows.scores import count_below, log_losses

N_BINS = 15
"""Parts of the probabilities from 0 to 1 that calibration is measured in."""

_MAX_PAIRS = 2000  # that are kept for the page
_MAX_POINTS = 200  # of a curve


@dataclass(frozen=True)
class ClassMeasured:
    """Measures of one way to predict classes.

    `auc` is how often a row of a class has a greater probability of it than a row of another, the
    mean over the classes where there are several; None where rows are of one class.
    """

    name: str
    log_loss: float
    accuracy: float
    auc: float | None
    standard_errors: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bin:
    """Rows whose predicted probability lies in one part: means, and a 95 % interval (Wilson's)."""

    predicted: float
    observed: float
    low: float
    high: float
    rows: int


@dataclass(frozen=True)
class ClassFacts:
    """How one class is predicted: precision is None where it is predicted for no row."""

    name: str
    rows: int
    predicted_rows: int
    recall: float | None
    precision: float | None
    auc: float | None


@dataclass(frozen=True)
class ClassErrors:
    """What is known of a classifier's errors.

    `roc` are the shares of false and of true alarms, `precision_recall` those of found rows and of
    right ones among them, both of the second of two classes.  `confusion` counts rows, the actual
    class by the predicted one.  `unknown` rows are of classes that the fit did not see; nothing
    else counts them.
    """

    rows: int
    unknown: int
    actual: NDArray[np.int64]
    predicted: NDArray[np.float64]
    model: ClassMeasured
    baselines: list[ClassMeasured]
    n_fitted: int
    n_folds: int | None
    calibration: list[Bin]
    calibration_error: float
    classes: list[ClassFacts]
    confusion: NDArray[np.int64]
    roc: NDArray[np.float64] | None
    precision_recall: NDArray[np.float64] | None

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals, by the standard errors."""
        points: dict[str, Any] = vars(self.model)
        return {
            name: (points[name] - 1.96 * error, points[name] + 1.96 * error)
            for name, error in self.model.standard_errors.items()
        }


def find_class_errors(subject: Subject, tell: Tell = say_nothing) -> ClassErrors | None:
    """Measure a classifier on the pairs of a subject, where it has any."""
    if subject.actual is None or subject.predicted is None:
        return None
    known = np.asarray(subject.actual) >= 0
    if not known.any():
        return None
    actual = np.asarray(subject.actual)[known].astype(np.int64)
    p = np.asarray(subject.predicted)[known]
    found = measure_classes("this model", actual, p)
    # Measures may be those of more rows than were kept for the page, but for areas of many classes.
    given = {name: value for name, value in (subject.metrics or {}).items() if value is not None}
    metrics = {**vars(found), "rows": len(known), **given}
    n_rows = int(metrics["rows"])
    narrower = float(np.sqrt(min(1.0, len(known) / n_rows)))
    errors = {
        name: narrower * error if name in given else error
        for name, error in found.standard_errors.items()
    }
    comparison = compare(subject, np.asarray(subject.actual), tell)
    two = len(subject.classes) == 2
    some = np.random.RandomState(0).permutation(len(actual))[:_MAX_PAIRS]
    calibration, error = find_calibration(actual, p)
    chosen = p.argmax(axis=1)
    confusion = np.zeros((p.shape[1], p.shape[1]), dtype=np.int64)
    np.add.at(confusion, (actual, chosen), 1)
    return ClassErrors(
        rows=n_rows,
        unknown=int((~known).sum()),
        actual=actual[some],
        predicted=p[some],
        model=ClassMeasured(
            "this model", metrics["log_loss"], metrics["accuracy"], metrics["auc"], errors
        ),
        baselines=[_measure_baseline(subject, each) for each in comparison.baselines],
        n_fitted=comparison.n_fitted,
        n_folds=comparison.n_folds,
        calibration=calibration,
        calibration_error=error,
        classes=_describe_classes(subject.classes, actual, p, confusion),
        confusion=confusion,
        roc=_find_roc(actual, p[:, 1]) if two else None,
        precision_recall=_find_precision(actual, p[:, 1]) if two else None,
    )


def _measure_baseline(subject: Subject, baseline: Any) -> ClassMeasured:
    actual = np.asarray(subject.actual)[baseline.rows]
    known = actual >= 0
    return measure_classes(baseline.name, actual[known].astype(np.int64), baseline.predicted[known])


def measure_classes(name: str, actual: NDArray[np.int64], p: NDArray[np.float64]) -> ClassMeasured:
    """Return the measures of probabilities, with their standard errors."""
    loss, right = log_losses(actual, p), p.argmax(axis=1) == actual
    areas = [_find_area(actual == place, p[:, place]) for place in range(p.shape[1])]
    # The second of two classes has the area of the first.
    there = [each for each in areas[-1 if p.shape[1] == 2 else 0 :] if each is not None]
    errors = {"log_loss": _standard_error(loss), "accuracy": _standard_error(right)}
    auc = None
    if there:
        auc = float(np.mean([area for area, _ in there]))
        errors["auc"] = _standard_error(np.mean([influence for _, influence in there], axis=0))
    return ClassMeasured(name, float(loss.mean()), float(right.mean()), auc, errors)


def _standard_error(values: NDArray[Any]) -> float:
    return float(values.std() / np.sqrt(len(values)))


def _find_area(
    is_class: NDArray[np.bool_], score: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]] | None:
    """Return the area under the ROC curve of a class, and what each row does to it.

    A row of the class counts those of others that it is ahead of, and the other way round.
    """
    n_class, n_other = int(is_class.sum()), int((~is_class).sum())
    if not n_class or not n_other:
        return None
    scores, place = np.unique(score, return_inverse=True)
    own, others = (np.bincount(place[of], minlength=len(scores)) for of in (is_class, ~is_class))
    ahead_of_others = count_below(others)[place] / n_other
    ahead = np.where(is_class, ahead_of_others, 1 - count_below(own)[place] / n_class)
    area = float(ahead[is_class].mean())
    share = np.where(is_class, n_class, n_other) / len(score)
    return area, (ahead - area) / share


def find_calibration(actual: NDArray[np.int64], p: NDArray[np.float64]) -> tuple[list[Bin], float]:
    """Return probabilities beside what was observed, and the expected calibration error.

    Of two classes it is the probability of the second one, of several that of the class that is
    predicted.  The error is the mean distance of both over the rows.
    """
    if p.shape[1] == 2:
        sure, right = p[:, 1], actual == 1
    else:
        sure, right = p.max(axis=1), p.argmax(axis=1) == actual
    places = np.minimum((sure * N_BINS).astype(np.int64), N_BINS - 1)
    bins = []
    for place in np.unique(places):
        part = places == place
        share, n_rows = float(right[part].mean()), int(part.sum())
        low, high = wilson(share, n_rows)
        bins.append(Bin(float(sure[part].mean()), share, low, high, n_rows))
    error = sum(each.rows * abs(each.predicted - each.observed) for each in bins) / len(actual)
    return bins, float(error)


def _describe_classes(
    names: list[str],
    actual: NDArray[np.int64],
    p: NDArray[np.float64],
    confusion: NDArray[np.int64],
) -> list[ClassFacts]:
    found = []
    for place, name in enumerate(names):
        n_rows, n_predicted = int(confusion[place].sum()), int(confusion[:, place].sum())
        hits = int(confusion[place, place])
        area = _find_area(actual == place, p[:, place])
        found.append(
            ClassFacts(
                name,
                n_rows,
                n_predicted,
                hits / n_rows if n_rows else None,
                hits / n_predicted if n_predicted else None,
                None if area is None else area[0],
            )
        )
    return found


def _find_roc(actual: NDArray[np.int64], score: NDArray[np.float64]) -> NDArray[np.float64] | None:
    if len(np.unique(actual)) < 2:
        return None
    from sklearn.metrics import roc_curve

    false, true, _ = roc_curve(actual, score)
    return _thin(np.column_stack([false, true]))


def _find_precision(
    actual: NDArray[np.int64], score: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    if len(np.unique(actual)) < 2:
        return None
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(actual, score)
    return _thin(np.column_stack([recall, precision]))


def _thin(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return some points of a curve, both ends among them."""
    chosen = np.unique(np.linspace(0, len(points) - 1, _MAX_POINTS).astype(np.int64))
    return points[chosen]

"""How far predictions are off, and what should be said of rows they were made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.sure import Sureness
from polyadic.rows.holdout import row_hash
from polyadic.rows.scores import Evaluation, count_below, log_losses

MAX_KEPT = 2000
"""Pairs of target and prediction that a model file keeps for its report."""

COVERAGE = 0.9
"""Of the intervals that are measured."""

FEW_ROWS = 30
_MARGIN = 0.1
_MOST_NUMBERS = 200_000  # of these pairs, where classes are many
# Scores of two classes are counted in bins of their log odds, whose order is all an AUC needs.
_N_BINS, _REACH = 2**20, 40.0


class Comparison(Protocol):
    """How good predictions are, added up as they come."""

    rows: int

    def add(self, actual: NDArray[Any], predicted: NDArray[np.float64]) -> None:
        """Add rows: what was observed, and what was predicted for it."""

    @property
    def warning(self) -> str | None:
        """What must be known to judge it."""

    @property
    def metrics(self) -> dict[str, Any]:
        """What was measured."""

    def notes(self) -> dict[str, Any]:
        """Return what was measured, and a part of the pairs for pictures."""


class NumberComparison:
    """Errors of predicted numbers.

    Parameters
    ----------
    sureness : Sureness, optional
        What the model knows of its errors; predictions have their scales then.
    """

    def __init__(self, sureness: Sureness | None = None) -> None:
        self.rows = 0
        self._sureness, self._inside, self._log_density = sureness, 0, 0.0
        self._evaluation: Evaluation | None = None
        self._pairs = Thinned(MAX_KEPT)

    def add(self, actual: NDArray[Any], predicted: NDArray[np.float64]) -> None:
        """Add rows: vectors of targets, and columns of predictions."""
        if not len(actual):
            return
        if self._sureness is not None:
            ((low, high),) = self._sureness.intervals(predicted, [COVERAGE])
            self._inside += int(((low <= actual) & (actual <= high)).sum())
            self._log_density += self._sureness.log_density(actual, predicted)
        predicted = predicted[:, :1]
        found = Evaluation.of(actual[:, None], predicted)
        self._evaluation = found if self._evaluation is None else self._evaluation + found
        self.rows = self._evaluation.n_rows
        self._pairs.add(np.column_stack([actual, predicted]))

    @property
    def warning(self) -> str | None:
        """Nothing."""
        return None

    @property
    def metrics(self) -> dict[str, Any]:
        """Errors in the target's units, R² where the target varies, and how sure they were."""
        found = self._evaluation
        assert found is not None
        varies = bool(found.targets.high[0] > found.targets.low[0])
        sure = {
            f"coverage_{100 * COVERAGE:g}": self._inside / found.n_rows,
            "log_score": self._log_density / found.n_rows,
        }
        return {
            "rows": found.n_rows,
            "mse": found.mse,
            "rmse": found.mse**0.5,
            "mae": found.mae,
            "r2": found.r2 if varies else None,
            **({} if self._sureness is None else sure),
        }

    def notes(self) -> dict[str, Any]:
        """Return the errors, and a part of the pairs for pictures."""
        actual, predicted = self._pairs.rows.T
        return {"metrics": self.metrics, "actual": actual.copy(), "predicted": predicted.copy()}


class ClassComparison:
    """How good probabilities of classes are.

    Parameters
    ----------
    n_classes : int
        Number of classes of the fit.
    """

    def __init__(self, n_classes: int) -> None:
        self.rows = 0
        self.n_unknown = 0
        self._counts = np.zeros(n_classes, dtype=np.int64)
        self._loss, self._hits = 0.0, 0
        self._scores = np.zeros((2, _N_BINS if n_classes == 2 else 0), dtype=np.int64)
        self._pairs = Thinned(min(MAX_KEPT, max(1, _MOST_NUMBERS // n_classes)))

    def add(self, actual: NDArray[Any], predicted: NDArray[np.float64]) -> None:
        """Add rows: places of their labels among the classes, −1 of others, and probabilities."""
        actual = actual.astype(np.int64)
        self.rows += len(actual)
        self.n_unknown += int((actual < 0).sum())
        predicted, actual = predicted[actual >= 0], actual[actual >= 0]
        self._loss += float(log_losses(actual, predicted).sum())
        self._hits += int((predicted.argmax(axis=1) == actual).sum())
        self._counts += np.bincount(actual, minlength=len(self._counts))
        self._pairs.add(np.column_stack([actual, predicted]))
        if len(self._counts) == 2:
            odds = log_losses(0, predicted) - log_losses(1, predicted)
            place = np.rint((odds / _REACH + 1) / 2 * (_N_BINS - 1)).astype(np.int64)
            for label, bins in enumerate(self._scores):
                bins += np.bincount(place[actual == label], minlength=_N_BINS)

    @property
    def warning(self) -> str | None:
        """How many rows are of no class of the fit."""
        if not self.n_unknown:
            return None
        rows = "1 row has a class" if self.n_unknown == 1 else f"{self.n_unknown} rows have classes"
        return (
            f"{rows} that the fit did not see. Predictions for them count as wrong, and have no "
            "part in the log-loss."
        )

    @property
    def metrics(self) -> dict[str, Any]:
        """Log-loss, accuracy and, of two classes, AUC; beside those of the best constant.

        It predicts for all rows how frequent each class is among them.
        """
        n_known = self.rows - self.n_unknown
        shares = self._counts[self._counts > 0] / max(n_known, 1)
        return {
            "rows": self.rows,
            "log_loss": self._loss / n_known if n_known else None,
            "accuracy": self._hits / self.rows,
            "auc": self._auc(),
            "constant": {
                "log_loss": float(-shares @ np.log(shares)) if n_known else None,
                "accuracy": int(self._counts.max()) / self.rows,
            },
        }

    def _auc(self) -> float | None:
        """Return how often a row of the second class has the greater score; ties are halves."""
        if len(self._counts) != 2 or not self._counts.all():
            return None
        first, second = self._scores
        return float(second @ count_below(first)) / (int(self._counts[0]) * int(self._counts[1]))

    def notes(self) -> dict[str, Any]:
        """Return what was measured, and places and probabilities of some rows for pictures."""
        kept = self._pairs.rows
        return {
            "metrics": self.metrics,
            "actual": kept[:, 0].copy(),
            "predicted": kept[:, 1:].copy(),
        }


class Thinned:
    """Some of many rows that come one after the other, spread evenly over all of them."""

    def __init__(self, most: int) -> None:
        self.rows = np.empty((0, 0))
        self._most, self._stride, self._skip = most, 1, 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Look at more rows."""
        kept = rows[self._skip :: self._stride]
        self._skip = (self._skip - len(rows)) % self._stride
        self.rows = np.concatenate([self.rows.reshape(-1, rows.shape[1]), kept])
        while len(self.rows) > self._most:
            # Every second row of those kept, and of those to come.
            odd = len(self.rows) % 2
            self.rows = self.rows[::2]
            self._skip += self._stride * odd
            self._stride *= 2


def count_rows(count: int, rows: str = "rows") -> str:
    """Return a number of rows in words; `rows` is what many of them are called."""
    return f"{count} {rows.removesuffix('s') if count == 1 else rows}"


def warn_of_few(metrics: dict[str, Any], rows: str = "rows") -> str | None:
    """Return a warning where errors were measured on too few rows to mean much."""
    if metrics["rows"] >= FEW_ROWS:
        return None
    return (
        f"the errors were measured on {count_rows(metrics['rows'], rows)}, which is too few to "
        f"tell how well the model predicts; {FEW_ROWS} or more would."
    )


class Fingerprint:
    """A number that says which rows these are, whatever their order."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Add rows."""
        self._sum += int(row_hash([X, y], 0).sum())

    def __str__(self) -> str:
        return f"{self._sum % 2**64:016x}"


class Outside:
    """Rows that are far outside the range of the rows of the fit."""

    def __init__(self, inputs: Sequence[dict[str, Any]] | None) -> None:
        # A category has no range, and an input without values has none that is known.
        deciles = [entry.get("deciles") or [-np.inf, np.inf] for entry in inputs or []]
        ends = np.array([[each[0], each[-1]] for each in deciles]).reshape(-1, 2)
        self._names = [entry["name"] for entry in inputs or []]
        self._ends, self._rows = ends, 0
        self._width = np.maximum(ends[:, 1] - ends[:, 0], np.finfo(float).tiny)
        self._worst = np.zeros(len(ends))
        self._values = np.zeros(len(ends))

    def add(self, X: NDArray[np.float64]) -> None:
        """Look at more rows."""
        if not len(self._ends) or not len(X):
            return
        least, greatest = self._ends.T
        with np.errstate(over="ignore", invalid="ignore"):
            # A gap is nowhere, and so not outside.
            beyond = np.fmax(np.fmax(least - X, X - greatest), 0) / self._width
        self._rows += int((beyond > _MARGIN).any(axis=1).sum())
        rows = beyond.argmax(axis=0)
        worst = beyond.max(axis=0)
        self._values = np.where(worst > self._worst, X[rows, np.arange(X.shape[1])], self._values)
        self._worst = np.maximum(worst, self._worst)

    @property
    def warning(self) -> str | None:
        """What to say of them."""
        if not self._rows:
            return None
        column = int(self._worst.argmax())
        least, greatest = self._ends[column]
        rows = "1 row is" if self._rows == 1 else f"{self._rows} rows are"
        return (
            f"{rows} far outside the range of the fit, where predictions are not to be trusted; "
            f"farthest is {self._names[column]!r} with {self._values[column]:g}, where the model "
            f"saw {least:g} to {greatest:g}."
        )

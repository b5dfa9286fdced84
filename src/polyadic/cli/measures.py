"""How far predictions are off, and what should be said of rows they were made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.rows.holdout import row_hash
from polyadic.rows.scores import Evaluation

MAX_KEPT = 2000
"""Pairs of target and prediction that a model file keeps for its report."""

FEW_ROWS = 30
_MARGIN = 0.1


class Comparison:
    """Errors of predictions, added up as they come, with some of the pairs."""

    def __init__(self) -> None:
        self._evaluation: Evaluation | None = None
        self._pairs, self._stride, self._skip = np.empty((0, 2)), 1, 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return 0 if self._evaluation is None else self._evaluation.n_rows

    def add(self, y: NDArray[np.float64], predicted: NDArray[np.float64]) -> None:
        """Add rows: vectors of targets and of predictions."""
        if not len(y):
            return
        found = Evaluation.of(y[:, None], predicted[:, None])
        self._evaluation = found if self._evaluation is None else self._evaluation + found
        pairs = np.column_stack([y, predicted])[self._skip :: self._stride]
        self._skip = (self._skip - len(y)) % self._stride
        self._pairs = np.concatenate([self._pairs, pairs])
        while len(self._pairs) > MAX_KEPT:
            # Every second pair of those kept, and of those to come.
            odd = len(self._pairs) % 2
            self._pairs = self._pairs[::2]
            self._skip += self._stride * odd
            self._stride *= 2

    @property
    def metrics(self) -> dict[str, Any]:
        """Errors in the target's units, and R² where the target varies."""
        found = self._evaluation
        assert found is not None
        varies = bool(found.targets.high[0] > found.targets.low[0])
        return {
            "rows": found.n_rows,
            "mse": found.mse,
            "rmse": found.mse**0.5,
            "mae": found.mae,
            "r2": found.r2 if varies else None,
        }

    def notes(self) -> dict[str, Any]:
        """Return the errors, and a part of the pairs for pictures."""
        actual, predicted = self._pairs.T
        return {"metrics": self.metrics, "actual": actual.copy(), "predicted": predicted.copy()}


def warn_of_few(metrics: dict[str, Any], rows: str = "rows") -> str | None:
    """Return a warning where errors were measured on too few rows to mean much."""
    if metrics["rows"] >= FEW_ROWS:
        return None
    count = metrics["rows"]
    return (
        f"the errors were measured on {count} {rows}, which is too few to tell how "
        f"well the model predicts; {FEW_ROWS} or more would."
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

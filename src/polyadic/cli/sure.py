"""How sure a model is of the numbers it predicts, for rows in files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.estimators._sources import file_rows_to_predict
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.sources.files.row_source import Batch, RowSource
from polyadic.sources.files.streamed import FileSource
from polyadic.uncertainty import ErrorPredictor, log_score


@dataclass(frozen=True)
class Sureness:
    """What a model knows of its errors.

    Predictions with it have two columns: the number, and the scale of its error.

    Parameters
    ----------
    predictor : ErrorPredictor
        What gives both.
    errors : ErrorDistribution
        How errors are distributed in units of that scale.
    """

    predictor: ErrorPredictor
    errors: ErrorDistribution

    @classmethod
    def of(cls, model: Any) -> Sureness | None:
        """Return what a regressor knows; nothing, where an earlier version fitted it."""
        try:
            predictor = model._error_predictor()
        except AttributeError:
            return None
        return cls(predictor, model.uncertainty_.errors[0])

    def batches(self, model: Any, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches of rows, and their predictions with scales."""
        rows = FileSource(file_rows_to_predict(model, source))
        for batch, predicted in rows.predict_batches(self.predictor):
            yield batch, predicted[:, :2]

    def std(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standard deviations."""
        return predicted[:, 1] * self.errors.deviation

    def quantiles(
        self, predicted: NDArray[np.float64], alpha: Sequence[float]
    ) -> NDArray[np.float64]:
        """Return quantiles, a column each."""
        found = self.predictor.quantiles(predicted[:, :1], predicted[:, 1:], np.array(alpha))
        return np.asarray(found[:, 0])

    def intervals(
        self, predicted: NDArray[np.float64], coverages: Sequence[float]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return lower and upper ends, for each coverage."""
        sides = [side for each in coverages for side in ((1 - each) / 2, (1 + each) / 2)]
        ends = self.quantiles(predicted, sides).T
        return list(zip(ends[::2], ends[1::2], strict=True))

    def log_density(self, y: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
        """Return the sum of the log densities of observed targets."""
        return log_score(y[:, None], predicted, None, [self.errors]).total

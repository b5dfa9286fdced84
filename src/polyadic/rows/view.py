"""The view that a fit has of rows: scaled inputs, standardised targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyadic.model import trend
from polyadic.rows.holdout import Part
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.statistics import Statistics


@dataclass(frozen=True)
class View:
    """How a fit sees rows: scaled inputs, standardised targets, maybe less a linear trend.

    Parameters
    ----------
    inputs : InputScaling
        What becomes of the inputs.
    targets : TargetScaling
        What becomes of the targets.
    coefficients : ndarray, optional
        A trend in `straight` inputs that is taken out of the targets.
    straight : InputScaling, optional
        The inputs of the trend.
    """

    inputs: InputScaling
    targets: TargetScaling
    coefficients: NDArray[np.float64] | None = None
    straight: InputScaling | None = None

    def rows(self, rows: Rows) -> list[Rows]:
        """Return rows in their own units as a fit sees them, for each target."""
        scaled, standard = self.inputs.apply(rows.X), self.targets.apply(rows.y)
        if self.coefficients is not None and self.straight is not None:
            standard -= trend.evaluate(self.coefficients, self.straight.apply(rows.X))
        return [Rows(scaled, np.ascontiguousarray(column), rows.weight) for column in standard.T]


def part_of(rows: Rows, part: Part | None) -> Rows:
    """Return the rows of a part, of rows in their own units."""
    if part is None or not len(rows):
        return rows
    return rows.take(part.mask(rows.X, rows.y))


def view_of(statistics: Statistics, names: Sequence[str], scale_inputs: bool) -> View:
    """Return the usual view of rows with these statistics."""
    if scale_inputs:
        inputs = InputScaling.between(statistics.low, statistics.high, names)
    else:
        inputs = InputScaling.identity(len(statistics.low))
    return View(inputs, statistics.targets.scaling())

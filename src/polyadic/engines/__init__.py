"""Engines: how ONE chunk of rows is computed.

    rows (X, y, weight) ── start ──► state ── normal_equations ──► NormalEquations
                                       ▲                                  │
                                       └──────────── commit ◄── new core ─┘

An engine knows arrays and the layout of the tensor.  It does not know penalties,
tolerances, estimators, or where the other rows live.  Its state is opaque and can always
be rebuilt by `start`; `restart` does so in memory that is there already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.cpd import Cores
from polyadic.features import TensorLayout
from polyadic.normal import NormalEquations


@dataclass(frozen=True)
class Rows:
    """Some rows; `weight` is None where every row counts once.

    What an engine gets is scaled, and has one target.  Elsewhere rows may be in their own
    units, with targets as columns.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Any) -> Rows:
        """Return the rows of a slice, a mask or an index array."""
        return self.map(lambda array: array[index])

    def map(self, change: Callable[[Any], Any]) -> Rows:
        """Return the rows with each of their arrays changed."""
        weight = None if self.weight is None else change(self.weight)
        return Rows(change(self.X), change(self.y), weight)


class Engine(Protocol):
    """The verbs every engine has."""

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> Any:
        """Return the state of a chunk for these cores."""

    def restart(self, state: Any, cores: Cores) -> Any:
        """Return the state for other cores of the same sizes; the old one may be used up."""

    def normal_equations(
        self, state: Any, core: int, weights: NDArray[np.float64]
    ) -> NormalEquations:
        """Return the sums of B = [Re A, Im A] for one core; maps of weight 0 are skipped."""

    def commit(self, state: Any, core: int, value: NDArray[Any]) -> None:
        """Replace one core in the state."""

    def mixing_equations(self, state: Any) -> NormalEquations:
        """Return the sums of F, the real responses of every map."""

    def predict(
        self,
        X: NDArray[Any],
        cores: Cores,
        weights: NDArray[np.float64],
        layout: TensorLayout,
    ) -> NDArray[Any]:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row."""

"""Engines: how ONE chunk of rows is computed.

    rows (X, y, weight) ── start ──► state ── normal_equations ──► NormalEquations
                                       ▲                                  │
                                       └──────────── commit ◄── new core ─┘

An engine knows arrays and the layout of the tensor.  It does not know penalties,
tolerances, estimators, or where the other rows live.  Its state is opaque and can always
be rebuilt by `start`; `restart` does so in memory that is there already.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.rows import Rows


class Engine(Protocol):
    """The verbs every engine has."""

    keep: bool

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

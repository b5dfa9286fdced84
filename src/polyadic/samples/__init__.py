"""Samples: WHERE rows live.

The driver asks for sums over all rows; a samples object knows the chunks, has an engine
compute each one, and adds the answers in a fixed order, so that the result depends on
neither timing nor the number of workers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyadic.cpd import Cores
from polyadic.normal import NormalEquations


class Samples(Protocol):
    """The verbs of an engine, summed over all chunks of one target's rows."""

    @property
    def memoryless(self) -> bool:
        """Whether sums depend on the cores alone, and not on how they came about.

        State that is brought from one core to the next gathers rounding on its way.
        """

    def start(self, cores: Cores) -> None:
        """Make the state of every chunk anew for these cores."""

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""

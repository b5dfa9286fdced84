"""What users decide about an automatic fit, and what it may spend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polyadic.features import TensorLayout
from polyadic.model.conjugate import MAX_ITER

# Up to so many rows are few: members are many, and evidence and held-out rows are scarce.
FEW_ROWS = 20_000
# Seconds of arithmetic of all members at effort 1, about, on one core: for any fit, and for
# each row.
_SECONDS, _SECONDS_A_ROW = 3.0, 1.6e-3


@dataclass(frozen=True)
class Settings:
    """What users decide about an automatic fit; None leaves a choice to the search.

    Parameters
    ----------
    n_basis : tuple of int, optional
        Basis functions of each input.
    rank : int, optional
        Of the weight tensor.
    alpha : float, optional
        Penalty on the weight tensor.
    n_members : int, optional
        How many members there are.
    scale_inputs : bool
        Whether inputs are scaled.
    effort : float
        Work in units of the default.
    validation_fraction : float
        Fraction of the rows that members hold out.
    """

    n_basis: tuple[int, ...] | None = None
    rank: int | None = None
    alpha: float | None = None
    n_members: int | None = None
    scale_inputs: bool = True
    effort: float = 1.0
    validation_fraction: float = 0.2

    def count_members(self, n_rows: int) -> int:
        """Return how many members a fit has: fewer where rows are many."""
        if self.n_members is not None:
            return self.n_members
        base = 6 if n_rows <= FEW_ROWS else 2 if n_rows <= 1_000_000 else 1
        return max(1, round(base * self.effort))

    def work(self, n_rows: int, most: float) -> float:
        """Return the seconds of arithmetic that the search may take, `most` at effort 1."""
        seconds = min(_SECONDS + _SECONDS_A_ROW * n_rows, most)
        return seconds * self.effort


def epoch_seconds(layout: TensorLayout, rank: int, n_rows: float, n_targets: int = 1) -> float:
    """Return about how long an epoch takes on one core, the same on any machine.

    Choices depend on this figure and not on a clock, so that fits can be repeated.
    """
    passes = MAX_ITER + 3
    a_core = passes * (0.8e-9 * n_rows * rank + 60e-6) + 8 * rank**3 / 5e9
    return n_targets * len(layout.core_sizes) * a_core


def most_rank(n_rows: int, most: int) -> int:
    """Return the greatest rank to try: unknowns of one core against rows."""
    return int(np.clip(2 ** int(np.log2(max(n_rows / 8, 1))), 8, most))

"""What a search is made of: its trials, and who keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from polyadic.model.als import Model

# Of the search: a checkpoint goes on only with the one that began it.  The first drew maps at
# random; raise it whenever trials of a checkpoint would mean something else.
VERSION = 4


@dataclass(frozen=True)
class Trial:
    """One rank and penalty for all members, and what it came to.

    Parameters
    ----------
    rank : int
        Of the weight tensors.
    factor : float
        Penalty, in units of what the evidence asks for.
    models : tuple of Model
        One for each member.
    error : float
        Mean squared error, or loss, of the members' means on the rows that they hold out.
    ways : tuple of int
        The ways to see the inputs whose members make the best mean; the others are left out.
    losses : tuple of float
        Loss of the first member after each epoch so far.
    """

    rank: int
    factor: float
    models: tuple[Model, ...]
    error: float = np.inf
    ways: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()


class Journal(Protocol):
    """Knows the trials of a search that was interrupted."""

    def result(self, compute: Callable[[], Trial]) -> Trial:
        """Return the next trial, known or computed."""


class NoJournal:
    """Keeps nothing."""

    def result(self, compute: Callable[[], Trial]) -> Trial:
        """Compute the next trial."""
        return compute()

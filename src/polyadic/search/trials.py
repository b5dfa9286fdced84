"""What a search is made of: its trials, what it comes to, and who keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from polyadic.model import als
from polyadic.rows.view import Member
from polyadic.search.candidates import Candidate


@dataclass
class Trial:
    """A candidate, its model so far, and its error on the held-out rows."""

    candidate: Candidate
    model: als.Model
    error: float = np.inf
    losses: tuple[float, ...] = ()


@dataclass
class Choice:
    """What one member's search came to.

    Parameters
    ----------
    member : Member
        The model that was chosen.
    candidate : Candidate
        What it is made of.
    trend : Member or None
        The linear trend that was taken out before.
    alpha : float
        The penalty on all rows.
    losses : list of float
        Loss after each epoch.
    log : list of dict
        Every trial.
    seconds : dict
        Time of each stage.
    """

    member: Member
    candidate: Candidate
    trend: Member | None
    alpha: float
    losses: list[float]
    log: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class Journal(Protocol):
    """Knows the trials of a search that was interrupted."""

    def result(self, compute: Callable[[], Trial]) -> Trial:
        """Return the next trial, known or computed."""


class NoJournal:
    """Keeps nothing."""

    def result(self, compute: Callable[[], Trial]) -> Trial:
        """Compute the next trial."""
        return compute()

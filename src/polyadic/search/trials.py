"""What a search is made of: the rows it sees, its trials, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.members import Member
from polyadic.model import als
from polyadic.rows.scaling import InputScaling
from polyadic.search.candidates import Candidate


@dataclass(frozen=True)
class Table:
    """Training rows seen through each scaling, with standardised targets and weights.

    `identity` is what a row is recognised by: its inputs and targets in their own units.
    """

    scaled: dict[float, NDArray[np.float64]]
    scalings: dict[float, InputScaling]
    y: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    identity: tuple[NDArray[Any], NDArray[Any]]

    def total(self, index: NDArray[Any]) -> float:
        """Return the weight of some rows."""
        return float(len(index)) if self.weight is None else float(self.weight[index].sum())


@dataclass
class Trial:
    """A candidate, its model so far, and its error on the held-out rows."""

    candidate: Candidate
    model: als.Model
    error: float = np.inf
    losses: tuple[float, ...] = ()


@dataclass
class Choice:
    """What one member's search came to."""

    member: Member
    candidate: Candidate
    coefficients: NDArray[np.float64] | None
    alpha: float
    losses: list[float]
    straight: InputScaling
    log: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def member_of(table: Table, trial: Trial) -> Member:
    """Return a trial as a member that carries the whole prediction."""
    candidate = trial.candidate
    return Member(table.scalings[candidate.blend], candidate.layout, trial.model)

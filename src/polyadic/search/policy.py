"""What an automatic fit may choose from and spend, given the rows and what users fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polyadic.compute import Compute
from polyadic.rows.arrays import on_host
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member
from polyadic.search.candidates import BLENDS, Space
from polyadic.search.trials import Choice
from polyadic.sources.data import Data

# Arithmetic of the moves of all members at effort 1: for each row, and at least.
_WORK_PER_ROW, _LEAST_WORK = 2e8, 2e12
# Rows from which the distribution of each input is learned.
_SCALING_ROWS = 250_000


# Where each stage usually begins and ends, as fractions of a search, and its trials by half-time.
_STAGES = {
    "screen": (0.0, 0.5, 12),
    "halve": (0.35, 0.45, 2),
    "climb": (0.4, 1.0, 8),
    "polish": (0.9, 1.0, 1),
}


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
    scale_inputs : bool
        Whether inputs are scaled.
    effort : float
        Work in units of the default.
    """

    n_basis: tuple[int, ...] | None = None
    rank: int | None = None
    alpha: float | None = None
    scale_inputs: bool = True
    effort: float = 1.0


def count_members(n_rows: int, effort: float) -> int:
    """Return how many members an automatic fit has: fewer where rows are many."""
    base = 6 if n_rows <= 20_000 else 4 if n_rows <= 1_000_000 else 2
    return max(1, round(base * effort))


def learn_scalings(
    data: Data, names: Sequence[str], scale_inputs: bool
) -> dict[float, InputScaling]:
    """Return how candidates may see the inputs, by the blend of line and distribution."""
    scalings = {0.0: data.view.inputs}
    if scale_inputs:
        rows = data.gather_about(_SCALING_ROWS, seed=0)
        X, weight = on_host(rows.X), None if rows.weight is None else on_host(rows.weight)
        for blend in BLENDS[1:]:
            fitted = InputScaling.fit(X, names, blend=blend, weight=weight)
            scalings[blend] = fitted
    return scalings


def search_space(data: Data, settings: Settings, n_members: int, compute: Compute) -> Space:
    """Return what the search of one member may choose from."""
    n_rows, n_inputs = data.n_distinct, data.n_inputs
    n_basis: tuple[tuple[int, ...], ...] = tuple((size,) * n_inputs for size in (2, 4, 16))
    if settings.n_basis is not None:
        n_basis = (settings.n_basis,)
    alphas: tuple[float, ...] = (1e-5, 3e-4, 1e-2)
    if settings.alpha is not None:
        alphas = (settings.alpha / data.total_weight,)
    work = float(np.clip(_WORK_PER_ROW * n_rows, _LEAST_WORK, compute.limits.work))
    return Space(
        n_basis,
        (4, 16) if settings.rank is None else (settings.rank,),
        alphas,
        blends=BLENDS if settings.scale_inputs else (0.0,),
        n_candidates=_count_candidates(n_inputs, settings.effort),
        max_rank=int(np.clip(2 ** int(np.log2(max(n_rows / 40, 1))), 32, 256)),
        work=work * settings.effort / n_members,
    )


def _count_candidates(n_inputs: int, effort: float) -> int:
    """Return how many candidates a member screens: fewer where there are many inputs."""
    return max(4, round(float(np.clip(640 / n_inputs, 12, 32) * np.sqrt(effort))))


def fraction_done(stage: str, trials: int, spent: float, space: Space) -> float:
    """Return about how much of a search is done, by its stage and by its work."""
    start, end, usual = _STAGES[stage]
    by_stage = start + (end - start) * trials / (trials + usual)
    return float(max(by_stage, min(0.98, spent / max(space.work, 1.0))))


def average(choices: Sequence[Choice]) -> list[Member]:
    """Return the members of the mean of all choices, and one for the linear trends in it."""
    members = [
        replace(choice.member, share=choice.member.share / len(choices)) for choice in choices
    ]
    trends = [choice.trend for choice in choices if choice.trend is not None]
    if trends:
        # All trends were fitted to all rows, so they are the same function.
        members.append(replace(trends[0], share=len(trends) / len(choices)))
    return members

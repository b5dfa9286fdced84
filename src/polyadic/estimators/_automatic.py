"""From an estimator's parameters to a search for every member, and back to its attributes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.estimators._data import input_names, sizes_of
from polyadic.estimators._member import each_member
from polyadic.estimators._progress import Progress
from polyadic.members import Member, map_shares
from polyadic.model import trend
from polyadic.rows.scaling import InputScaling
from polyadic.samples import memory_usage
from polyadic.search.candidates import BLENDS, Space
from polyadic.search.search import Search
from polyadic.search.trials import Choice, Table, Trial
from polyadic.sources.data import ArrayData, Data
from polyadic.sources.files.streamed import StreamedData
from polyadic.storage.checkpoint import Checkpoint, Journal, MemberCheckpoint

# Arithmetic of the moves of all members at effort 1: for each row, and at least.
_WORK_PER_ROW, _LEAST_WORK = 2e8, 2e12
# Compiled code, chunks and the sums of a search on rows from a disk.
_BESIDE_STATE = 150e6
_SHARE_ROWS = 5_000  # for `feature_weights_`
# Rows that a search takes into memory from a disk or a cluster; its last epochs see all.
SEARCH_ROWS = 250_000


def n_members(n_rows: int, effort: float) -> int:
    """Return how many members an automatic fit has: fewer where rows are many."""
    base = 6 if n_rows <= 20_000 else 4 if n_rows <= 1_000_000 else 2
    return max(1, round(base * effort))


def fit_automatically(
    estimator: Any,
    data: Data,
    rows: ArrayData,
    compute: Compute,
    checkpoint: Checkpoint,
    seeds: Sequence[int],
    progress: Progress,
    choices: dict[int, Choice],
) -> None:
    """Search and fit every member; members share the threads where there are enough of them.

    Searches see `rows`, their last epochs all of `data`.  `choices` holds what each has come
    to, also where the fit is interrupted.
    """
    table = _table(estimator, rows)
    if isinstance(data, StreamedData):  # `memory_limit` is about the whole process then
        compute.budget.reserve(memory_usage.resident() + _BESIDE_STATE)
    space = _space(estimator, rows, data.total, len(seeds), compute.pace.work)
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def fit(index: int, compute: Compute) -> None:
        search = Search(
            table,
            space,
            compute,
            estimator.validation_fraction,
            seeds[index],
            data=None if rows.n_rows == data.n_rows else data,
            journal=Journal(checkpoint, f"trials {index}"),
            kept=MemberCheckpoint(checkpoint, f"member {index}"),
            check=check,
        )
        with progress.search(index) as on_stage:

            def tell(stage: str, trial: Trial) -> None:
                choices[index] = search.so_far(trial)
                on_stage(stage, trial, lambda: average([search.so_far(trial)]))

            choices[index] = search.run(tell)

    each_member(fit, len(seeds), compute, stop, together=True)


def average(choices: Sequence[Choice]) -> list[Member]:
    """Return the members of the mean of all choices, and one for the linear trends in it."""
    members = [
        replace(choice.member, share=choice.member.share / len(choices)) for choice in choices
    ]
    trends = [choice.coefficients for choice in choices if choice.coefficients is not None]
    if trends:
        # All trends were fitted to all rows, so they are the same function.
        layout = trend.trend_layout(len(trends[0]) - 1)
        share = len(trends) / len(choices)
        members.append(Member(choices[0].straight, layout, trend.trend_model(trends[0]), share))
    return members


def describe(
    estimator: Any,
    choices: Sequence[Choice],
    members: list[Member],
    compute: Compute,
    X: NDArray[np.float64],
) -> None:
    """Set the attributes that say what was chosen."""
    estimator.alpha_ = np.array([choice.alpha for choice in choices])
    estimator.rank_ = np.array([choice.candidate.rank for choice in choices])
    rows = [{"member": index, **row} for index, choice in enumerate(choices) for row in choice.log]
    estimator.selection_ = {name: [row[name] for row in rows] for name in rows[0]}
    shares = map_shares(members, compute, X[:: max(1, len(X) // _SHARE_ROWS)])
    estimator.feature_maps_ = list(shares)
    estimator.feature_weights_ = np.array(list(shares.values()))
    estimator.loss_curve_ = choices[0].losses
    estimator.n_iter_ = max(len(choice.losses) for choice in choices)


def _table(estimator: Any, data: ArrayData) -> Table:
    """Return the rows through every scaling that takes part."""
    scalings = {0.0: data.view.inputs}
    if estimator.scale_inputs:
        names = input_names(estimator)
        for blend in BLENDS[1:]:
            scalings[blend] = InputScaling.fit(data.X, names, blend=blend, weight=data.weight)
    scaled = {blend: scaling.apply(data.X) for blend, scaling in scalings.items()}
    standard = data.view.targets.apply(data.y)
    return Table(scaled, scalings, standard, data.weight, (data.X, data.y))


def _space(
    estimator: Any, data: ArrayData, total: float, n_members: int, most_work: float
) -> Space:
    """Return what the search may choose from, given what the user fixed."""
    n_rows, n_inputs = data.X.shape
    n_basis: tuple[tuple[int, ...], ...] = tuple((size,) * n_inputs for size in (2, 4, 16))
    if not isinstance(estimator.n_basis, str):
        n_basis = (sizes_of(estimator.n_basis, n_inputs),)
    alphas: tuple[float, ...] = (1e-5, 3e-4, 1e-2)
    ranks: tuple[int, ...] = (4, 16)
    if not isinstance(estimator.alpha, str):
        alphas = (estimator.alpha / total,)
    if not isinstance(estimator.rank, str):
        ranks = (estimator.rank,)
    work = float(np.clip(_WORK_PER_ROW * n_rows, _LEAST_WORK, most_work))
    return Space(
        n_basis,
        ranks,
        alphas,
        blends=BLENDS if estimator.scale_inputs else (0.0,),
        n_candidates=_n_candidates(n_inputs, estimator.effort),
        max_rank=int(np.clip(2 ** int(np.log2(max(n_rows / 40, 1))), 32, 256)),
        work=work * estimator.effort / n_members,
    )


def _n_candidates(n_inputs: int, effort: float) -> int:
    """Return how many candidates a member screens: fewer where there are many inputs."""
    return max(4, round(float(np.clip(640 / n_inputs, 12, 32) * np.sqrt(effort))))

"""The automatic choice of feature map, sizes and penalty on held-out rows, for one member.

    screen ─► halve ─► climb ─► polish ─► finish

A member holds a fifth of its rows out and draws some dozens of candidates: a feature map,
the number of basis functions, the rank, the penalty, the scaling of the inputs, and whether
a linear trend is taken out first.  Screening gives each two epochs on few rows; halving
keeps the better third, again and again, on more rows; climbing then doubles the rank, moves
the penalty, leaves inputs out or sharpens the map, as long as that lowers the held-out error.
The last epochs use all rows.  Every choice compares held-out errors, so it needs sums and
nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.model import als, cpd, trend
from polyadic.model.als import Samples
from polyadic.rows.holdout import held_out, row_hash
from polyadic.rows.rows import Rows
from polyadic.rows.view import View
from polyadic.search import moves
from polyadic.search.candidates import Candidate, Space
from polyadic.search.trials import Choice, Table, Trial, member_of
from polyadic.sources.data import Data
from polyadic.storage.checkpoint import Checkpoint, Journal, MemberCheckpoint

_GAIN = 0.003  # what a move must lower the held-out error by, relatively
_STEP = 4.0  # factor of a move of the penalty
_MOST_BASIS = 256


class Search:
    """The search of one member.

    Parameters
    ----------
    table : Table
        Rows to search with.
    space : Space
        What to choose from.
    compute : Compute
        What to compute with.
    fraction : float
        Share of the rows that is held out.
    seed : int
        Of everything random.
    data : Data, optional
        The rows of the last epochs; by default those of the table.
    journal : Journal, optional
        Knows the trials of a search that was interrupted.
    kept : MemberCheckpoint, optional
        Knows its last epochs.
    check : callable, optional
        Called before each trial; raises to end the search.
    """

    def __init__(
        self,
        table: Table,
        space: Space,
        compute: Compute,
        fraction: float,
        seed: int,
        *,
        data: Data | None = None,
        journal: Journal[Trial] | None = None,
        kept: MemberCheckpoint | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._table, self._space, self._compute = table, space, compute
        nowhere = Checkpoint(None, {})
        self._data, self._check = data, check
        self._journal = journal or Journal(nowhere, "trials")
        self._kept = kept or MemberCheckpoint(nowhere, "fit")
        self._rng = np.random.RandomState(seed)
        self._seed = seed
        out = held_out(*table.identity, fraction, seed)
        if not out.any():  # a single distinct row
            out[:] = True
        order = np.argsort(row_hash(np.column_stack(table.identity), seed + 1), kind="stable")
        self._held = order[out[order]][: compute.pace.held_rows]
        self._train = order[~out[order]] if not out.all() else order
        self._few = self._train[: int(np.clip(len(order) // 10, 4_000, compute.pace.few_rows))]
        self._some = self._train[: 4 * len(self._few)]
        plain = table.scaled[0.0]
        rows, weight = self._train, table.weight
        weights = None if weight is None else weight[rows]
        self._slope = trend.linear_trend(plain[rows], table.y[rows], weights)
        self._targets = {False: table.y, True: table.y - trend.evaluate(self._slope, plain)}
        self._gathered: dict[tuple[float, bool], list[Rows]] = {}
        self._spent = 0.0
        self.log: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}

    def run(self, on_stage: Callable[[str, Trial], None]) -> Choice:
        """Search, and fit the winner to all rows."""
        self._on_stage = on_stage
        trial = self._stage("halve", self._halve, self._stage("screen", self._screen))
        trial = self._stage("climb", self._climb, trial)
        trial = self._stage("polish", self._polish, trial)
        choice: Choice = self._stage("finish", self._finish, trial)
        return choice

    def _stage(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        result = step(*arguments)
        self.seconds[name] = time.perf_counter() - began
        if isinstance(result, Trial):
            self._on_stage(name, result)
        return result

    def _screen(self) -> list[Trial]:
        """Give every candidate two epochs on few rows."""
        trials = [
            self._train_trial("screen", self._new_trial(candidate), self._few, 2)
            for candidate in self._space.draw(self._rng)
        ]
        trials.sort(key=lambda trial: trial.error)
        return trials[: max(1, len(trials) // 5)]

    def _halve(self, trials: list[Trial]) -> Trial:
        """Keep the better third until one is left, on more rows."""
        while True:
            trials = [self._train_trial("halve", trial, self._some, 2) for trial in trials]
            trials.sort(key=lambda trial: trial.error)
            if len(trials) == 1:
                return trials[0]
            trials = trials[: max(1, len(trials) // 3)]

    def _climb(self, trial: Trial) -> Trial:
        """Make the moves that lower the held-out error, first on some rows, then on all."""
        shape = [self._lower, self._raise, self._prune, self._sharpen]
        if len(self._train) == len(self._some):
            return self._moves(trial, self._train, [moves.unchanged, self._grow, *shape])
        trial = self._moves(trial, self._some, [moves.unchanged, *shape])
        trial = self._train_trial("climb", trial, self._train, 2, restart=True)
        growth = [moves.unchanged, self._grow, self._lower, self._raise, self._sharpen]
        return self._moves(trial, self._train, growth)

    def _moves(
        self, trial: Trial, rows: NDArray[Any], turns: Sequence[Callable[[Trial], Trial | None]]
    ) -> Trial:
        failed, turn = 0, 0
        while failed < len(turns):
            moved = turns[turn % len(turns)](trial)
            better = None
            if moved is not None and self._affords(moved, rows):
                better = self._train_trial("climb", moved, rows, 3, restart=True)
            if better is not None and better.error < trial.error * (1 - _GAIN):
                trial, failed = better, 0  # and try the same move again
            else:
                failed, turn = failed + 1, turn + 1
        return trial

    def _polish(self, trial: Trial) -> Trial:
        """Go on until the held-out error rises, for a few epochs at most."""
        for _ in range(4):
            if not self._affords(trial, self._train):
                break
            better = self._train_trial("polish", trial, self._train, 2)
            if better.error >= trial.error:
                break
            trial = better
        return trial

    def so_far(self, trial: Trial) -> Choice:
        """Return what the search would come to if it ended with this trial."""
        candidate = trial.candidate
        return Choice(
            member_of(self._table, trial),
            candidate,
            self._slope if candidate.trend else None,
            candidate.alpha * self._table.total(self._train),
            list(trial.losses),
            self._table.scalings[0.0],
            list(self.log),
            dict(self.seconds),
        )

    def _finish(self, trial: Trial) -> Choice:
        """Fit the winner to all rows, and shrink it as the held-out rows ask for."""
        self._gathered = {}
        table, candidate = self._table, trial.candidate
        share = self._shrinkage(trial)
        coefficients = None
        if candidate.trend:
            coefficients = trend.linear_trend(table.scaled[0.0], table.y, table.weight)
        total = table.total(np.arange(len(table.y))) if self._data is None else self._data.total
        alpha = candidate.alpha * total
        fit = self._fit_to_all(trial, coefficients, alpha)
        found = self.so_far(replace(trial, model=fit.last.model))
        return replace(
            found,
            member=replace(found.member, share=share),
            coefficients=coefficients,
            alpha=alpha,
            losses=[*trial.losses, *(epoch.loss for epoch in fit.history)],
            log=self.log,
            seconds=self.seconds,
        )

    def _fit_to_all(
        self, trial: Trial, coefficients: NDArray[np.float64] | None, alpha: float
    ) -> als.Fit:
        """Run two epochs on all rows, wherever they are."""
        table, candidate, kept = self._table, trial.candidate, self._kept
        if self._data is not None:
            inputs, straight = table.scalings[candidate.blend], table.scalings[0.0]
            view = View(inputs, self._data.view.targets, coefficients, straight)
            samples = self._data.samples(self._compute, candidate.layout, view=view)
        else:
            if coefficients is not None:
                trend_part = trend.evaluate(coefficients, table.scaled[0.0])
                self._targets[True] = table.y - trend_part
            samples = self._samples(candidate, np.arange(len(table.y)))
        return als.fit(
            samples,
            als.Objective(alpha),
            trial.model,
            als.Stopping(max_iter=2),
            mix_first=False,
            so_far=kept.so_far,
            under_way=kept.under_way,
            on_epoch=kept.on_epoch,
            on_step=kept.on_step,
        )

    def _shrinkage(self, trial: Trial) -> float:
        """Return the factor in [0, 1] that fits the held-out rows best; 0 if it gains nothing."""
        held = self._samples(trial.candidate, self._held)
        equations = als.mixing_sums(held, trial.model)
        power = float(equations.gram[0, 0])
        share = float(np.clip(equations.moment[0] / power, 0.0, 1.0)) if power > 0 else 0.0
        error = equations.squared_error(np.array([share]))
        # These rows chose the model, so a gain within their noise is none.
        n_held = max(equations.total_weight, len(self._held))
        least = max(_GAIN, 0.5 / float(np.sqrt(n_held)))
        return share if error < (1 - least) * equations.target_norm2 else 0.0

    def _new_trial(self, candidate: Candidate) -> Trial:
        layout, n_targets = candidate.layout, self._table.y.shape[1]
        cores = tuple(
            cpd.initial_cores(layout.core_sizes, candidate.rank, layout.is_complex, self._rng)
            for _ in range(n_targets)
        )
        return Trial(candidate, als.Model(cores, np.ones(1)))

    def _train_trial(
        self, stage: str, trial: Trial, rows: NDArray[Any], epochs: int, restart: bool = False
    ) -> Trial:
        """Return the best of the next epochs; of them alone if `restart`, or the trial itself."""
        best = self._journal.result(lambda: self._best_of(stage, trial, rows, epochs, restart))
        self._spent += epochs * _work(len(rows), trial.candidate, self._table.y.shape[1])
        self._note(stage, best, len(rows), epochs)
        return best

    def _best_of(
        self, stage: str, trial: Trial, rows: NDArray[Any], epochs: int, restart: bool
    ) -> Trial:
        self._check()
        candidate = trial.candidate
        samples, held = self._samples(candidate, rows), self._samples(candidate, self._held)
        objective = als.Objective(candidate.alpha * self._table.total(rows))
        losses = trial.losses
        best = Trial(candidate, trial.model, np.inf if restart else trial.error, losses)
        steps = als.epochs(samples, objective, trial.model, mix_first=False)
        for epoch in islice(steps, 1, epochs + 1):
            error = als.mean_error(held, epoch.model)
            losses = (*losses, epoch.loss)
            if error < best.error or stage in ("screen", "halve"):
                best = Trial(candidate, epoch.model, error, losses)
        return best

    def _affords(self, trial: Trial, rows: NDArray[Any]) -> bool:
        """Whether one more move, and the last epochs after it, are within bounds."""
        y = self._table.y
        move = 3 * _work(len(rows), trial.candidate, y.shape[1])
        finish = 2 * _work(len(y), trial.candidate, y.shape[1])
        return self._spent + move + finish <= self._space.work

    def _samples(self, candidate: Candidate, rows: NDArray[Any]) -> list[Samples]:
        if rows is self._train:
            # Most trials see these, and of many rows the gathering takes as long as an epoch.
            key = candidate.blend, candidate.trend
            if key not in self._gathered:
                self._gathered = {key: self._gather(*key, rows)}
            gathered = self._gathered[key]
        else:
            gathered = self._gather(candidate.blend, candidate.trend, rows)
        return [self._compute.samples(each, candidate.layout) for each in gathered]

    def _gather(self, blend: float, trend: bool, rows: NDArray[Any]) -> list[Rows]:
        table = self._table
        X = np.ascontiguousarray(table.scaled[blend][rows])
        weight = None if table.weight is None else table.weight[rows]
        return [Rows(X, np.ascontiguousarray(y), weight) for y in self._targets[trend][rows].T]

    def _grow(self, trial: Trial) -> Trial | None:
        rank = 2 * trial.candidate.rank
        if rank > self._space.max_rank or len(self._space.ranks) == 1:
            return None
        if 2 * rank > len(self._train):  # unknowns of one core against rows
            return None
        return moves.grown(trial, rank, self._rng)

    def _lower(self, trial: Trial) -> Trial | None:
        return self._with_alpha(trial, 1 / _STEP)

    def _raise(self, trial: Trial) -> Trial | None:
        return self._with_alpha(trial, _STEP)

    def _with_alpha(self, trial: Trial, factor: float) -> Trial | None:
        alpha = trial.candidate.alpha * factor
        if len(self._space.alphas) == 1 or not 1e-10 <= alpha <= 1e3:
            return None
        return moves.with_alpha(trial, alpha)

    def _sharpen(self, trial: Trial) -> Trial | None:
        if max(trial.candidate.n_basis) >= _MOST_BASIS or len(self._space.n_basis) == 1:
            return None
        return moves.sharpened(trial)

    def _prune(self, trial: Trial) -> Trial | None:
        """Leave out the inputs that matter least: those the held-out error hardly misses."""
        candidate = trial.candidate
        used = [index for index, size in enumerate(candidate.n_basis) if size > 1]
        if len(used) < 2 or len(self._space.n_basis) == 1:
            return None
        without = {d: self._without(trial, [d]) for d in used}
        losses = {
            d: als.mean_error(self._samples(t.candidate, self._held), t.model) - trial.error
            for d, t in without.items()
        }
        least = sorted(used, key=lambda d: losses[d])[: len(used) // 2]
        limit = 0.02 * max(losses.values())
        useless = [d for d in least if losses[d] < limit]
        return self._without(trial, useless) if useless else None

    def _without(self, trial: Trial, inputs: list[int]) -> Trial:
        table = self._table
        X = table.scaled[trial.candidate.blend][self._held]
        weight = None if table.weight is None else table.weight[self._held]
        return moves.without(trial, inputs, X, weight)

    def _note(self, stage: str, trial: Trial, n_rows: int, epochs: int) -> None:
        candidate = trial.candidate
        self.log.append(
            {
                "stage": stage,
                "feature_map": str(candidate.feature_map),
                "n_basis": max(candidate.n_basis),
                "n_inputs": sum(size > 1 for size in candidate.n_basis),
                "rank": candidate.rank,
                "alpha": candidate.alpha * self._table.total(self._train[:n_rows]),
                "blend": candidate.blend,
                "trend": candidate.trend,
                "n_rows": n_rows,
                "epochs": epochs,
                "held_out_mse": trial.error,
            }
        )


def _work(n_rows: int, candidate: Candidate, n_targets: int) -> float:
    """Return about how many operations an epoch takes: assembly, Grams and solves."""
    rank, n_cores = candidate.rank, len(candidate.layout.core_sizes)
    rows = n_rows * (50 * rank + 16 * rank**2)
    return float(n_targets * n_cores * (rows + 21 * rank**3 + 1e6))

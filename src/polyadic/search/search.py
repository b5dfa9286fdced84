"""The automatic choice of feature map, sizes and penalty on held-out rows, for one member.

    screen ─► halve ─► climb ─► polish ─► finish

A member holds a fifth of its rows out and draws some dozens of candidates: a feature map,
the number of basis functions, the rank, the penalty, the scaling of the inputs, and whether
a linear trend is taken out first.  Screening gives each two epochs on few rows; halving
keeps the better third, again and again, on more rows; climbing then doubles the rank, moves
the penalty, leaves inputs out or sharpens the map, as long as that lowers the held-out error.
The last epochs use all rows.  Every choice compares held-out errors, so it needs sums and
nothing else: rows are named by `Data`, `Part` and `View`, and stay where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from polyadic.compute import Compute
from polyadic.model import als, cpd
from polyadic.model.als import Samples
from polyadic.rows.holdout import Part
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member, View
from polyadic.search import moves
from polyadic.search.candidates import Candidate, Space
from polyadic.search.policy import fraction_done
from polyadic.search.trend import linear_trend
from polyadic.search.trials import Choice, Journal, NoJournal, Trial
from polyadic.sources.data import Data

_GAIN = 0.003  # what a move must lower the held-out error by, relatively
_STEP = 4.0  # factor of a move of the penalty
_MOST_BASIS = 256
_LEAST_SCREENED = 4_000  # rows that candidates are screened on, at least

Move = Callable[[Trial], Trial | None]


class Search:
    """The search of one member.

    Parameters
    ----------
    data : Data
        All rows.
    scalings : dict of float to InputScaling
        How candidates may see the inputs, by their blend; 0 is the usual view.
    space : Space
        What to choose from.
    compute : Compute
        What to compute with.
    fraction : float
        Fraction of the rows that is held out.
    seed : int
        Of everything random.
    journal : Journal, optional
        Knows the trials of a search that was interrupted.
    keeper : als.Keeper, optional
        Knows its last epochs.
    check : callable, optional
        Called before each trial; raises to end the search.
    on_trial : callable, optional
        Hears of each trial: its stage, and which fraction of the work is done.
    deadline : float
        When to come to an end with the best that there is, by `time.monotonic`.
    """

    def __init__(
        self,
        data: Data,
        scalings: dict[float, InputScaling],
        space: Space,
        compute: Compute,
        fraction: float,
        seed: int,
        *,
        journal: Journal | None = None,
        keeper: als.Keeper | None = None,
        check: Callable[[], None] = lambda: None,
        on_trial: Callable[[str, float], None] = lambda stage, fraction: None,
        deadline: float = np.inf,
    ) -> None:
        self._data, self._scalings, self._space, self._compute = data, scalings, space, compute
        self._journal, self._keeper = journal or NoJournal(), keeper or als.Keeper()
        self._check, self._on_trial, self._deadline = check, on_trial, deadline
        self._rng = np.random.RandomState(seed)
        self._divide_rows(*data.split(fraction, seed))
        data.store.reserve_memory(compute)
        self._trend = linear_trend(self._train) if True in space.trends else None
        self._views: dict[tuple[float, bool], View] = {}
        self._spent = 0.0
        self.log: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}

    def _divide_rows(self, train: Part, held: Part | None) -> None:
        """Name the rows to train on, few, some or all of them, and those to judge by.

        Small parts, which are read many times, are brought into memory.
        """
        data, limits = self._data, self._compute.limits
        held = held or train  # a single distinct row is all there is
        # Subsets of a part are nested, so few rows are among some rows, and those among all.
        n_held = data.n_rows * held.fraction
        self._held = data.gather(held.subset(min(1.0, limits.held_rows / n_held)))
        n_train = data.n_distinct * train.fraction
        n_few = float(np.clip(data.n_distinct // 10, _LEAST_SCREENED, limits.few_rows))
        self._few = data.gather(train.subset(min(1.0, n_few / n_train)))
        self._some = self._train = self._few
        if n_few < n_train:
            self._some = data.gather(train.subset(min(1.0, 4 * n_few / n_train)))
            self._train = data.restrict(train) if 4 * n_few < n_train else self._some

    def run(self, on_stage: Callable[[str, Trial], None]) -> Choice:
        """Search, and fit the winner to all rows."""
        with self._time_stage("screen"):
            trials = self._screen()
        with self._time_stage("halve"):
            trial = self._halve(trials)
        on_stage("halve", trial)
        for name, improve in (("climb", self._climb), ("polish", self._polish)):
            with self._time_stage(name):
                trial = improve(trial)
            on_stage(name, trial)
        with self._time_stage("finish"):
            return self._finish(trial)

    @contextmanager
    def _time_stage(self, stage: str) -> Iterator[None]:
        """Note how long a stage takes."""
        began = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - began

    def _screen(self) -> list[Trial]:
        """Give every candidate two epochs on few rows."""
        trials: list[Trial] = []
        for candidate in self._space.draw(self._rng):
            trials.append(self._train_trial("screen", self._new_trial(candidate), self._few, 2))
            if self._is_late():
                break
        # Two epochs on few rows tell good from bad, not the best: a fifth goes on.
        trials.sort(key=lambda trial: trial.error)
        return trials[: max(1, len(trials) // 5)]

    def _halve(self, trials: list[Trial]) -> Trial:
        """Keep the better third until one is left, on more rows."""
        while not self._is_late():
            trials = [self._train_trial("halve", trial, self._some, 2) for trial in trials]
            trials.sort(key=lambda trial: trial.error)
            if len(trials) == 1:
                break
            trials = trials[: max(1, len(trials) // 3)]
        return trials[0]

    def _climb(self, trial: Trial) -> Trial:
        """Make the moves that lower the held-out error, first on some rows, then on all."""
        shape: list[Move] = [self._lower, self._raise, self._prune, self._sharpen]
        if self._train is self._some:  # rows are few: all moves can be tried on all of them
            return self._make_moves(trial, self._train, [moves.unchanged, self._grow, *shape])
        # The rank grows on all rows alone: how much of it pays depends on how many they are.
        trial = self._make_moves(trial, self._some, [moves.unchanged, *shape])
        if not self._affords(trial, self._train):
            return trial
        trial = self._train_trial("climb", trial, self._train, 2, restart=True)
        growth = [moves.unchanged, self._grow, self._lower, self._raise, self._sharpen]
        return self._make_moves(trial, self._train, growth)

    def _make_moves(self, trial: Trial, rows: Data, turns: Sequence[Move]) -> Trial:
        """Try one move after the other until none of them gains anything."""
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
        """Return the choice that the search would make if it ended with this trial."""
        candidate = trial.candidate
        return Choice(
            Member(self._scalings[candidate.blend], candidate.layout, trial.model),
            candidate,
            self._trend if candidate.trend else None,
            candidate.alpha * self._train.total_weight,
            list(trial.losses),
            list(self.log),
            dict(self.seconds),
        )

    def _finish(self, trial: Trial) -> Choice:
        """Fit the winner to all rows, shrunk by what fits the held-out rows best."""
        share = self._shrinkage(trial)
        found = self.so_far(trial)
        found.member = replace(found.member, share=share)
        if self._is_late():
            return found
        trend = linear_trend(self._data) if trial.candidate.trend else None
        alpha = trial.candidate.alpha * self._data.total_weight
        fit = self._fit_to_all(trial.candidate, trial.model, trend, alpha)
        return replace(
            found,
            member=replace(found.member, model=fit.last.model),
            trend=trend,
            alpha=alpha,
            losses=[*trial.losses, *(epoch.loss for epoch in fit.history)],
            seconds=self.seconds,
        )

    def _fit_to_all(
        self, candidate: Candidate, model: als.Model, trend: Member | None, alpha: float
    ) -> als.Fit:
        """Run two epochs on all rows, wherever they are."""
        view = self._view_without(candidate.blend, trend)
        return als.fit(
            self._data.samples(self._compute, candidate.layout, view=view),
            als.Objective(alpha),
            model,
            als.Stopping(max_iter=2),
            mix_first=False,
            keeper=self._keeper,
        )

    def _shrinkage(self, trial: Trial) -> float:
        """Return the factor in [0, 1] that fits the held-out rows best; 0 if it gains nothing."""
        equations = als.mixing_sums(self._samples(trial.candidate, self._held), trial.model)
        power = float(equations.gram[0, 0])
        share = float(np.clip(equations.moment[0] / power, 0.0, 1.0)) if power > 0 else 0.0
        error = equations.squared_error(np.array([share]))
        # These rows chose the model, so a gain within their noise is none.
        n_held = max(equations.total_weight, self._held.n_distinct)
        least = max(_GAIN, 0.5 / float(np.sqrt(n_held)))
        return share if error < (1 - least) * equations.target_norm2 else 0.0

    def _new_trial(self, candidate: Candidate) -> Trial:
        layout = candidate.layout
        cores = tuple(
            cpd.initial_cores(layout.core_sizes, candidate.rank, layout.is_complex, self._rng)
            for _ in range(self._data.n_targets)
        )
        return Trial(candidate, als.Model(cores, np.ones(1)))

    def _train_trial(
        self, stage: str, trial: Trial, rows: Data, epochs: int, restart: bool = False
    ) -> Trial:
        """Return the best of the next epochs; of them alone if `restart`, or the trial itself."""
        best = self._journal.result(lambda: self._best_of(stage, trial, rows, epochs, restart))
        self._spent += epochs * self._work(rows, trial.candidate)
        self._note(stage, best, rows, epochs)
        trials = sum(row["stage"] == stage for row in self.log)
        self._on_trial(stage, fraction_done(stage, trials, self._spent, self._space))
        return best

    def _best_of(self, stage: str, trial: Trial, rows: Data, epochs: int, restart: bool) -> Trial:
        self._check()
        candidate = trial.candidate
        samples, held = self._samples(candidate, rows), self._samples(candidate, self._held)
        objective = als.Objective(candidate.alpha * rows.total_weight)
        losses = trial.losses
        best = Trial(candidate, trial.model, np.inf if restart else trial.error, losses)
        steps = als.epochs(samples, objective, trial.model, mix_first=False)
        for epoch in islice(steps, 1, epochs + 1):
            error = als.mean_error(held, epoch.model)
            losses = (*losses, epoch.loss)
            # Early trials are compared after the same number of epochs; later ones keep the best.
            if error < best.error or stage in ("screen", "halve"):
                best = Trial(candidate, epoch.model, error, losses)
        return best

    def _is_late(self) -> bool:
        """Whether the time of the search is over."""
        return time.monotonic() > self._deadline

    def _affords(self, trial: Trial, rows: Data) -> bool:
        """Whether one more move, and the last epochs after it, are within bounds."""
        move = 3 * self._work(rows, trial.candidate)
        finish = 2 * self._work(self._data, trial.candidate)
        return self._spent + move + finish <= self._space.work and not self._is_late()

    def _samples(self, candidate: Candidate, rows: Data) -> list[Samples]:
        view = self._view(candidate.blend, candidate.trend)
        return rows.samples(self._compute, candidate.layout, view=view)

    def _view(self, blend: float, trend: bool) -> View:
        """Return how candidates see rows; always the same object, so that rows are seen once."""
        key = blend, trend
        if key not in self._views:
            self._views[key] = self._view_without(blend, self._trend if trend else None)
        return self._views[key]

    def _view_without(self, blend: float, trend: Member | None) -> View:
        without = () if trend is None else (trend,)
        return View(self._scalings[blend], self._data.view.targets, without)

    def _grow(self, trial: Trial) -> Trial | None:
        rank = 2 * trial.candidate.rank
        if rank > self._space.max_rank or len(self._space.ranks) == 1:
            return None
        if 2 * rank > self._train.n_distinct:  # unknowns of one core against rows
            return None
        return moves.grown(trial, rank, self._rng)

    def _lower(self, trial: Trial) -> Trial | None:
        return self._scale_alpha(trial, 1 / _STEP)

    def _raise(self, trial: Trial) -> Trial | None:
        return self._scale_alpha(trial, _STEP)

    def _scale_alpha(self, trial: Trial, factor: float) -> Trial | None:
        alpha = trial.candidate.alpha * factor
        if len(self._space.alphas) == 1 or not 1e-10 <= alpha <= 1e3:
            return None
        return moves.with_alpha(trial, alpha)

    def _sharpen(self, trial: Trial) -> Trial | None:
        if max(trial.candidate.n_basis) >= _MOST_BASIS or len(self._space.n_basis) == 1:
            return None
        return moves.sharpened(trial)

    def _prune(self, trial: Trial) -> Trial | None:
        """Leave out the inputs without which the held-out error hardly grows."""
        candidate = trial.candidate
        used = [index for index, size in enumerate(candidate.n_basis) if size > 1]
        if len(used) < 2 or len(self._space.n_basis) == 1:
            return None
        means = self._mean_factors(candidate)
        without = {d: moves.without(trial, [d], means) for d in used}
        losses = {
            d: als.mean_error(self._samples(t.candidate, self._held), t.model) - trial.error
            for d, t in without.items()
        }
        # At most half at a time: of two inputs that say the same, each seems useless by itself.
        least = sorted(used, key=lambda d: losses[d])[: len(used) // 2]
        limit = 0.02 * max(losses.values())
        useless = [d for d in least if losses[d] < limit]
        return moves.without(trial, useless, means) if useless else None

    def _mean_factors(self, candidate: Candidate) -> moves.MeanFactors:
        """Return the mean over the held-out rows of what each core meets."""
        scaling = self._scalings[candidate.blend]
        function = partial(
            moves.mean_factors,
            scaling=scaling,
            layout=candidate.layout,
            feature_map=candidate.feature_map,
        )
        return self._held.store.reduce("means", function)

    def _note(self, stage: str, trial: Trial, rows: Data, epochs: int) -> None:
        candidate = trial.candidate
        self.log.append(
            {
                "stage": stage,
                "feature_map": str(candidate.feature_map),
                "n_basis": max(candidate.n_basis),
                "n_inputs": sum(size > 1 for size in candidate.n_basis),
                "rank": candidate.rank,
                "alpha": candidate.alpha * rows.total_weight,
                "blend": candidate.blend,
                "trend": candidate.trend,
                "n_rows": rows.n_rows,
                "epochs": epochs,
                "held_out_mse": trial.error,
            }
        )

    def _work(self, rows: Data, candidate: Candidate) -> float:
        """Return about how many operations an epoch takes: assembly, Grams and solves."""
        rank, n_cores = candidate.rank, len(candidate.layout.core_sizes)
        sums = rows.n_distinct * (50 * rank + 16 * rank**2)
        return float(self._data.n_targets * n_cores * (sums + 21 * rank**3 + 1e6))

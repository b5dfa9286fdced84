"""The search: rank and penalty of all members together, judged on rows that they hold out.

    learned features ─► start ─► go on, grow, move the penalty ─► last epochs on all rows

Members come in groups.  A group holds out a part of the rows of its own; its members see the
inputs in different ways, and what counts is the error of their mean, which is what will
predict.  A trial is one rank and one penalty for all members; it goes on from what the trial
before it has learned.  Rows are named by `Data`, `Part` and `View`, and stay where they are.
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
from polyadic.members import ignore_overflow
from polyadic.model import als, cpd
from polyadic.rows.view import Member, View
from polyadic.samples.workers import Workers
from polyadic.search.groups import Group, Seat
from polyadic.search.learned import LearnedFeatures
from polyadic.search.settings import Settings, epoch_seconds, most_rank
from polyadic.search.trials import Journal, NoJournal, Trial
from polyadic.sources.data import Data

_GAIN = 0.005  # what a trial must lower the held-out error by, relatively
_STEP = 4.0  # factor of a move of the penalty
_LEAST_FACTOR, _MOST_FACTOR = 4.0**-8, 4.0**5
_FIRST_RANK, _FIRST_FACTORS = 8, (1.0, 1 / 16)
_EPOCHS = {"start": 4, "grow": 4, "finish": 2}
_USUAL_EPOCHS = 3
# Up to so many rows there are two groups, and members train side by side, one thread each.
_FEW_ROWS = 20_000


class Search:
    """The search of a fit.

    Parameters
    ----------
    data : Data
        All rows.
    features : sequence of LearnedFeatures
        The ways that members may see the inputs, the best one first.
    settings : Settings
        What users fixed.
    seeds : sequence of int
        One for each member.
    compute : Compute
        What to compute with.
    journal : Journal, optional
        Knows the trials of a search that was interrupted.
    keepers : sequence of als.Keeper, optional
        Know the last epochs of each member.
    on_trial : callable, optional
        Hears of each trial: what it was, the trial, and which fraction of the work is done.
    deadline : float
        When to come to an end with the best that there is, by `time.monotonic`.

    Attributes
    ----------
    best : Trial or None
        The best so far.
    log : list of dict
        Every trial.
    """

    def __init__(
        self,
        data: Data,
        features: Sequence[LearnedFeatures],
        settings: Settings,
        seeds: Sequence[int],
        compute: Compute,
        *,
        journal: Journal | None = None,
        keepers: Sequence[als.Keeper] = (),
        on_trial: Callable[[str, Trial, float], None] = lambda stage, trial, fraction: None,
        deadline: float = np.inf,
    ) -> None:
        self._data, self._settings, self._compute = data, settings, compute
        self._journal, self._keepers = journal or NoJournal(), keepers
        self._on_trial, self._deadline = on_trial, deadline
        self._rngs = [np.random.RandomState(seed) for seed in seeds]
        data.store.reserve_memory(compute)
        n_groups = 2 if len(seeds) > 1 and data.n_distinct <= _FEW_ROWS else 1
        views = [View(each.scaling, data.view.targets) for each in features]
        self._groups = [self._group(seeds[index]) for index in range(n_groups)]
        self.seats = []
        for index, seed in enumerate(seeds):
            way = index // n_groups % len(features)
            self.seats.append(Seat(index % n_groups, features[way], views[way], seed))
        self._side_by_side = (
            data.in_memory
            and data.n_distinct <= _FEW_ROWS
            and not compute.engine.takes_tensors
            and len(seeds) >= compute.workers.n_jobs
        )
        self._budget = settings.work(data.n_distinct, compute.limits.seconds)
        self._spent, self._level = 0.0, 0
        self.best: Trial | None = None
        self.log: list[dict[str, Any]] = []

    def _group(self, seed: int) -> Group:
        train, held = self._data.split(self._settings.validation_fraction, seed)
        # A single distinct row is all there is.
        return Group(self._data, train, held or train, self._compute)

    def run(self) -> list[Member]:
        """Search, and fit the winner to all rows; return the members of the mean."""
        trial = self._start()
        for level in range(len(self._groups[0].levels)):
            self._level = level
            if level and self._affords(trial):
                # Errors after few rows say little about what all of them can teach.
                trial = self._train("all", trial)
            trial = self._climb(trial)
        return self._finish(trial)

    def _start(self) -> Trial:
        """Return the best of a few penalties at a low rank."""
        rank = self._settings.rank or min(_FIRST_RANK, self._most_rank())
        models = []
        for seat, rng in zip(self.seats, self._rngs, strict=True):
            sizes = seat.features.layout.core_sizes
            cores = [cpd.near_constant_cores(sizes, rank, rng) for _ in range(self._data.n_targets)]
            models.append(als.Model(tuple(cores), np.ones(1)))
        factors = _FIRST_FACTORS if self._settings.alpha is None else (1.0,)
        starts = [Trial(rank, factor, tuple(models)) for factor in factors]
        return min((self._train("start", each) for each in starts), key=lambda each: each.error)

    def _climb(self, trial: Trial) -> Trial:
        """Go on, double the rank and move the penalty as long as that pays."""
        moves: dict[str, Callable[[Trial], Trial | None]]
        moves = {"go on": replace, "grow": self._grow, "raise": self._raise, "lower": self._lower}
        names = list(moves)
        turn = idle = 0
        while idle < len(names) and not self._is_late():
            stage = names[turn % len(names)]
            moved = moves[stage](trial)
            tried = None
            if moved is not None and self._affords(moved):
                tried = self._train(stage, moved)
            if tried is not None and tried.error < trial.error * (1 - _GAIN):
                trial, idle = tried, 0  # and try the same move again
                continue
            if tried is not None and stage == "go on" and tried.error < trial.error:
                trial = tried
            turn, idle = turn + 1, idle + 1
        return trial

    def _grow(self, trial: Trial) -> Trial | None:
        """Double the rank: small terms are added to the tensors."""
        rank = 2 * trial.rank
        if self._settings.rank is not None or rank > self._most_rank():
            return None
        models = tuple(
            replace(model, cores=tuple(cpd.grown(cores, rank, rng) for cores in model.cores))
            for model, rng in zip(trial.models, self._rngs, strict=True)
        )
        return replace(trial, rank=rank, models=models)

    def _most_rank(self) -> int:
        """Return the greatest rank to try."""
        own = max(cpd.most_terms(seat.features.layout.core_sizes) for seat in self.seats)
        return min(own, most_rank(self._data.n_distinct, self._compute.limits.rank))

    def _raise(self, trial: Trial) -> Trial | None:
        return self._scale_penalty(trial, _STEP)

    def _lower(self, trial: Trial) -> Trial | None:
        return self._scale_penalty(trial, 1 / _STEP)

    def _scale_penalty(self, trial: Trial, step: float) -> Trial | None:
        factor = trial.factor * step
        if self._settings.alpha is not None or not _LEAST_FACTOR <= factor <= _MOST_FACTOR:
            return None
        return replace(trial, factor=factor)

    def alphas(self, trial: Trial) -> list[float]:
        """Return the penalty of each member."""
        if self._settings.alpha is not None:
            return [self._settings.alpha] * len(self.seats)
        # Weights are relative: a row of the mean weight counts as one.
        unit = self._data.total_weight / self._data.n_rows
        return [seat.features.alpha * trial.factor * unit for seat in self.seats]

    def _train(self, stage: str, trial: Trial) -> Trial:
        """Return the trial after its best next epoch."""
        if time.monotonic() > self._deadline and self.best is not None:
            return trial
        epochs = _EPOCHS.get(stage, _USUAL_EPOCHS)
        done = self._journal.result(lambda: self._best_epoch(trial, epochs))
        self._spent += self._cost(trial, epochs)
        if self.best is None or done.error < self.best.error or stage == "all":
            self.best = done
        self._note(stage, done, epochs)
        return done

    def _best_epoch(self, trial: Trial, epochs: int) -> Trial:
        alphas = self.alphas(trial)

        def train(index: int, compute: Compute) -> list[tuple[als.Epoch, NDArray[np.float64]]]:
            seat, model = self.seats[index], trial.models[index]
            group = self._groups[seat.group]
            samples = group.samples(self._level, compute, seat)
            steps = als.epochs(samples, als.Objective(alphas[index]), model, mix_first=False)
            return [
                (epoch, group.respond(compute, seat, epoch.model))
                for epoch in islice(steps, 1, epochs + 1)
            ]

        members = self._for_each(train)
        errors = [self._error([member[k][1] for member in members]) for k in range(epochs)]
        best = int(np.argmin(errors))
        losses = (epoch.loss for epoch, _ in members[0][: best + 1])
        return replace(
            trial,
            models=tuple(member[best][0].model for member in members),
            error=errors[best],
            losses=(*trial.losses, *losses),
        )

    def _for_each(self, function: Callable[[int, Compute], Any]) -> list[Any]:
        """Call a function for every member: side by side, or one after the other."""

        def call(index: int) -> Any:
            with ignore_overflow():  # in this thread
                return function(index, inner)

        if not self._side_by_side:
            inner = self._compute
            return [call(index) for index in range(len(self.seats))]
        inner = replace(self._compute, workers=Workers(1))
        return self._compute.workers.map(call, range(len(self.seats)))

    def _error(self, responses: Sequence[NDArray[np.float64]]) -> float:
        """Return the error of each group's mean on the rows it holds out, over all groups."""
        return float(np.mean([g.error(self._of_group(responses, i)) for i, g in self._numbered]))

    @property
    def _numbered(self) -> list[tuple[int, Group]]:
        return list(enumerate(self._groups))

    def _of_group(self, values: Sequence[Any], group: int) -> list[Any]:
        return [v for v, seat in zip(values, self.seats, strict=True) if seat.group == group]

    def _finish(self, trial: Trial) -> list[Member]:
        """Fit the winner to all rows, shrunk by what fits the held-out rows best."""
        self.best = trial  # one a little better may have been found too costly for its gain
        share = self._shrinkage(trial)
        models = list(trial.models)
        if not self._is_late():
            alphas = self.alphas(trial)

            def fit(index: int, compute: Compute) -> als.Model:
                seat = self.seats[index]
                return als.fit(
                    self._data.samples(compute, seat.features.layout, view=seat.view),
                    als.Objective(alphas[index]),
                    trial.models[index],
                    als.Stopping(max_iter=_EPOCHS["finish"]),
                    mix_first=False,
                    keeper=self._keepers[index] if self._keepers else None,
                ).last.model

            models = self._for_each(fit)
        self._on_trial("finish", trial, 1.0)
        return self.members(replace(trial, models=tuple(models)), share)

    def members(self, trial: Trial, share: float = 1.0) -> list[Member]:
        """Return the members of the mean."""
        pairs = zip(self.seats, trial.models, strict=True)
        return [seat.member(model, share / len(self.seats)) for seat, model in pairs]

    def _shrinkage(self, trial: Trial) -> float:
        """Return the factor in [0, 1] that fits the held-out rows best; 0 if it gains nothing."""
        responses = [
            self._groups[seat.group].respond(self._compute, seat, model)
            for seat, model in zip(self.seats, trial.models, strict=True)
        ]
        sums = [g.shrinkage(self._of_group(responses, i)) for i, g in self._numbered]
        moment, power, norm2 = np.sum(sums, axis=0).tolist()
        share = float(np.clip(moment / power, 0.0, 1.0)) if power > 0 else 0.0
        error = norm2 - 2 * share * moment + share**2 * power
        # These rows chose the model, so a gain within their noise is none.
        least = max(_GAIN, 0.5 / float(np.sqrt(sum(len(g) for g in self._groups))))
        return share if error < (1 - least) * norm2 else 0.0

    def _is_late(self) -> bool:
        """Whether the time of the search is over."""
        return time.monotonic() > self._deadline

    def _affords(self, trial: Trial) -> bool:
        """Whether a trial is within the budget."""
        return self._spent + self._cost(trial, _USUAL_EPOCHS) <= self._budget

    def _cost(self, trial: Trial, epochs: int) -> float:
        """Return about how many seconds a trial takes on one core."""
        n_rows = self._groups[0].levels[self._level].n_rows
        n_targets = self._data.n_targets
        each = (
            epoch_seconds(seat.features.layout, trial.rank, n_rows, n_targets)
            for seat in self.seats
        )
        return epochs * sum(each)

    def _note(self, stage: str, trial: Trial, epochs: int) -> None:
        self.log.append(
            {
                "stage": stage,
                "rank": trial.rank,
                "penalty": trial.factor,
                "n_rows": self._groups[0].levels[self._level].n_rows,
                "epochs": epochs,
                "held_out_mse": trial.error,
            }
        )
        # A search mostly ends by itself before its budget does.
        by_trials = 1 - 1 / (1 + len(self.log) / 12)
        self._on_trial(stage, trial, min(0.98, max(by_trials, self._spent / self._budget)))

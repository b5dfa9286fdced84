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
from functools import reduce
from itertools import combinations, islice
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from polyadic.compute import Compute
from polyadic.members import Reach, ignore_overflow
from polyadic.model import als, cpd
from polyadic.model.losses import invert_link
from polyadic.rows.view import Member
from polyadic.samples.workers import Workers
from polyadic.search.errors import learn_reach, learn_uncertainty
from polyadic.search.groups import MOST_STRETCH, Group, Seat, to_remember
from polyadic.search.learned import LearnedFeatures
from polyadic.search.loss_trend import loss_trend
from polyadic.search.near import LEAST_NEAR_ROWS, NEAR_ROWS, Beside, NearPart, choose_near_rows
from polyadic.search.process import share_processes
from polyadic.search.settings import FEW_ROWS, Settings, epoch_seconds, most_rank
from polyadic.search.shares import likely_shares, shrunk_shares
from polyadic.search.trend import linear_trend
from polyadic.search.trials import Journal, NoJournal, Trial
from polyadic.sources.data import Data
from polyadic.uncertainty import Uncertainty

_GAIN = 0.005  # what a trial must lower the held-out error by, relatively
_STEP = 4.0  # factor of a move of the penalty
_GROUPS = 2  # of members, where rows are few
_DOUBLINGS = 2  # of the rank before growing is given up
_STEADIER = 1.05  # what a way to see the inputs must lower the error by to be left out
_LEAST_FACTOR, _MOST_FACTOR = 4.0**-8, 4.0**5
_FIRST_RANK, _FIRST_FACTORS = 8, (1.0, 1 / 16)
_FACTORS_OF_MANY_ROWS = 1 / 16, 1 / 256  # few rows make noise seem larger than it is
_EPOCHS = {"start": 4, "grow": 4, "finish": 2}
_USUAL_EPOCHS = 3
_LOSS_WORK = 1.5  # of an epoch under a loss, beside one of least squares

# What held-out rows have judged: a trial, its shares, and what stands beside it in each group.
_Judged = tuple[Trial, tuple[float, float], list[list[Member]]]


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
    targets : TargetScaling
        From what members say to the targets' own units, or to the scale of the link.
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
        few = data.n_distinct <= FEW_ROWS
        n_groups = min(_GROUPS, len(seeds)) if few else 1
        self._groups = [self._group(seed) for seed in seeds[:n_groups]]
        self._seeds = seeds
        usual, self._has_loss = data.view, data.view.loss is not None
        self._ways = [
            (each, replace(usual, inputs=each.scaling, trust=each.trust)) for each in features
        ]
        self.seats: list[Seat] = []
        self._side_by_side = (
            data.in_memory
            and data.n_distinct <= FEW_ROWS
            and not compute.engine.takes_tensors
            and len(seeds) >= compute.workers.n_jobs
        )
        self._budget = settings.work(data.n_distinct, compute.limits.seconds)
        self._spent, self._level, self._step = 0.0, 0, 1 / _STEP
        self.targets = data.view.targets
        self.best: Trial | None = None
        self._judged: _Judged | None = None  # by the held-out rows
        self.log: list[dict[str, Any]] = []

    def _group(self, seed: int) -> Group:
        train, held = self._data.split(self._settings.validation_fraction, seed)
        # A single distinct row is all there is.
        return Group(self._data, train, held or train, self._compute)

    def run(self) -> list[Member]:
        """Search, and fit the winner to all rows; return the members of the mean."""
        self._take_seats()
        trial = self._start()
        for level in range(len(self._groups[0].levels)):
            self._level = level
            if level and self._affords(trial):
                # Errors after few rows say little about what all of them can teach.
                self.best = trial = self._train("all", trial)
            trial = self._climb(trial)
        return self._finish(trial)

    def _take_seats(self) -> None:
        """Give every member a group and a way to see the inputs.

        Where there are more ways than members of a group, those go on that lead after a start.
        """
        n_groups, n_ways = len(self._groups), len(self._ways)
        places = -(-len(self._seeds) // n_groups)
        order = list(range(n_ways))
        if places < n_ways:
            self.seats = [Seat(0, i, *way, self._seeds[0]) for i, way in enumerate(self._ways)]
            trial = self._new_trial(_FACTORS_OF_MANY_ROWS[0])
            done = self._journal.result(lambda: self._best_epoch(trial, _EPOCHS["start"]))
            self._spent += self._cost(trial, _EPOCHS["start"])
            pairs = zip(self.seats, done.models, strict=True)
            errors = [self._groups[0].error_of(self._compute, *pair) for pair in pairs]
            order.sort(key=errors.__getitem__)
        self.seats = []
        for index, seed in enumerate(self._seeds):
            way = order[index // n_groups % n_ways]
            self.seats.append(Seat(index % n_groups, way, *self._ways[way], seed))

    def _start(self) -> Trial:
        """Return the best of a few penalties at a low rank."""
        factors: Sequence[float]
        factors = _FIRST_FACTORS if self._data.n_distinct <= FEW_ROWS else _FACTORS_OF_MANY_ROWS
        factors = factors if self._settings.alpha is None else (1.0,)
        first = self._new_trial(1.0)
        starts = [replace(first, factor=factor) for factor in factors]
        done = [self._train("start", each) for each in starts]
        # A weaker penalty must pay by more than the noise of few labels.
        order = enumerate(done)
        self.best = min(order, key=lambda each: each[1].error + each[0] * self._doubt())[1]
        return self.best

    def _new_trial(self, factor: float) -> Trial:
        """Return a trial of low rank with a random start for every seat."""
        rank = self._settings.rank or min(_FIRST_RANK, self._most_rank())
        models = []
        for seat in self.seats:
            rng, sizes = np.random.RandomState(seat.seed), seat.features.layout.core_sizes
            cores = [cpd.near_constant_cores(sizes, rank, rng) for _ in range(self._data.n_targets)]
            if self._has_loss:  # working responses are first made at the start of the loss
                cores = [[np.zeros_like(first), *others] for first, *others in cores]
            models.append(als.Model(tuple(cores), np.ones(1)))
        return Trial(rank, factor, tuple(models))

    def _climb(self, trial: Trial) -> Trial:
        """Go on, double the rank and move the penalty in turn, as long as any of it pays."""
        turns = [self._go_on, self._grow, self._move_penalty]
        turn = idle = 0
        while idle < len(turns) and not self._is_late():
            moved = turns[turn % len(turns)](trial)
            idle = 0 if self._pays(moved, trial) else idle + 1
            self.best = trial = moved
            turn += 1
        return trial

    def _pays(self, moved: Trial, trial: Trial) -> bool:
        """Whether a trial lowers the held-out error by enough."""
        return moved.error < min(trial.error * (1 - _GAIN), trial.error - self._doubt())

    def _doubt(self) -> float:
        """Return what a choice must lower a held-out log-loss by: a unit over all rows."""
        loss = self._data.view.loss
        if loss is None or not loss.stretches:
            return 0.0
        return 1 / sum(map(len, self._groups))

    def _go_on(self, trial: Trial) -> Trial:
        """Train as before."""
        tried = self._try("go on", trial)
        return trial if tried is None or tried.error >= trial.error else tried

    def _grow(self, trial: Trial) -> Trial:
        """Double the rank, twice if need be: new terms are small and may take time to pay."""
        grown: Trial | None = trial
        for _ in range(_DOUBLINGS):
            assert grown is not None
            rank = 2 * grown.rank
            if self._settings.rank is not None or rank > self._most_rank():
                return trial
            models = tuple(
                replace(model, cores=tuple(self._grown(cores, rank, rng) for cores in model.cores))
                for model, rng in zip(grown.models, self._rngs, strict=True)
            )
            grown = self._try("grow", replace(grown, rank=rank, models=models))
            if grown is None:
                return trial
            if self._pays(grown, trial):
                return grown
        return trial

    def _grown(self, cores: cpd.Cores, rank: int, rng: np.random.RandomState) -> cpd.Cores:
        """Return cores of a greater rank."""
        larger = cpd.grown(cores, rank, rng)
        if self._has_loss:  # squares touch the loss near what was learned, so that must not move
            larger[0][:, cores[0].shape[1] :] = 0.0
        return larger

    def _move_penalty(self, trial: Trial) -> Trial:
        """Move the penalty the way that paid last, or else the other way."""
        for step in (self._step, 1 / self._step):
            factor = trial.factor * step
            if self._settings.alpha is not None or not _LEAST_FACTOR <= factor <= _MOST_FACTOR:
                continue
            moved = self._try("penalty", replace(trial, factor=factor))
            if moved is not None and self._pays(moved, trial):
                self._step = step
                return moved
        return trial

    def _try(self, stage: str, trial: Trial) -> Trial | None:
        """Train a trial if that is within the budget."""
        return self._train(stage, trial) if self._affords(trial) else None

    def _most_rank(self) -> int:
        """Return the greatest rank to try."""
        own = max(cpd.most_terms(seat.features.layout.core_sizes) for seat in self.seats)
        return min(own, most_rank(self._data.n_distinct, self._compute.limits.rank))

    def _alphas(self, trial: Trial) -> list[float]:
        """Return the penalty of each seat."""
        if self._settings.alpha is not None:
            return [self._settings.alpha] * len(self.seats)
        # Weights are relative: a row of the mean weight counts as one.
        unit = self._data.total_weight / self._data.n_rows
        loss = self._data.view.loss
        least = 0.0 if loss is None else loss.least_penalty
        return [max(seat.features.alpha, least) * trial.factor * unit for seat in self.seats]

    def _train(self, stage: str, trial: Trial) -> Trial:
        """Return the trial after its best next epoch."""
        if self._is_late() and self.best is not None:
            return trial
        epochs = _EPOCHS.get(stage, _USUAL_EPOCHS)
        done = self._journal.result(lambda: self._best_epoch(trial, epochs))
        self._spent += self._cost(trial, epochs)
        self.best = self.best or done
        self._note(stage, done, epochs)
        return done

    def _best_epoch(self, trial: Trial, epochs: int) -> Trial:
        alphas = self._alphas(trial)

        def train(index: int, compute: Compute) -> list[tuple[als.Epoch, NDArray[np.float64]]]:
            seat, model = self.seats[index], trial.models[index]
            group = self._groups[seat.group]
            targets = group.targets(self._level, compute, seat)
            objective = als.Objective(alphas[index], has_loss=self._has_loss)
            steps = als.epochs(targets, objective, model, mix_first=False)
            return [
                (epoch, group.respond(compute, seat, epoch.model))
                for epoch in islice(steps, 1, epochs + 1)
            ]

        members = self._for_each(train)
        means = [self._best_mean([member[k][1] for member in members]) for k in range(epochs)]
        best = min(range(epochs), key=lambda k: means[k][0])
        losses = (epoch.loss for epoch, _ in members[0][: best + 1])
        return replace(
            trial,
            models=tuple(member[best][0].model for member in members),
            error=means[best][0],
            ways=means[best][1],
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

    def _best_mean(self, responses: Sequence[NDArray[np.float64]]) -> tuple[float, tuple[int, ...]]:
        """Return the least error of a mean over some of the ways, and which ways these are."""
        ways = sorted({seat.way for seat in self.seats})
        groups = {way: {seat.group for seat in self.seats if seat.way == way} for way in ways}
        some = (chosen for n in range(1, len(ways) + 1) for chosen in combinations(ways, n))
        # Errors on other rows tell nothing: the last members may not reach every group.
        every = set.union(*groups.values())
        fair = (each for each in some if set.union(*(groups[way] for way in each)) == every)
        errors = {chosen: self._error(responses, chosen) for chosen in fair}
        # More members make a steadier mean than their held-out error says.
        best = min(errors, key=lambda chosen: errors[chosen] * _STEADIER ** -len(chosen))
        return errors[best], best

    def _error(self, responses: Sequence[NDArray[np.float64]], ways: tuple[int, ...]) -> float:
        """Return the error of the groups' means on the rows that they hold out."""
        errors = []
        for group, rows in enumerate(self._groups):
            chosen = self._members_of(responses, ways, group)
            if chosen:  # before members have their seats, one group has them all
                errors.append(rows.error(chosen))
        return float(np.mean(errors))

    def _members_of(
        self, values: Sequence[Any], ways: tuple[int, ...], group: int | None = None
    ) -> list[Any]:
        """Return the values of the members that see the inputs in some ways, of a group or all."""
        pairs = zip(values, self.seats, strict=True)
        return [v for v, seat in pairs if seat.way in ways and group in (None, seat.group)]

    def _finish(self, trial: Trial) -> list[Member]:
        """Fit the winner to all rows, shrunk by what fits the held-out rows best."""
        shares = self._shares(trial)
        found: list[tuple[Beside, bool]] = []
        self._judged = trial, shares, [[] for _ in self._judges(trial)]
        for of_rest in (False, True):
            if (each := self._row_sums(of_rest)) is None:
                continue
            sums, parts = each
            found.append((sums, of_rest))
            shares = sums.others * shares[0], sums.others * shares[1]
            groups = zip(self._judged[2], parts, strict=True)
            beside = [[*others, *sums.members(part.known)] for others, part in groups]
            self._judged = trial, shares, beside
        if not self._is_late():
            alphas = self._alphas(trial)

            def fit(index: int, compute: Compute) -> als.Fit | None:
                seat = self.seats[index]
                if seat.way not in trial.ways:
                    return None
                return als.fit(
                    self._data.targets(compute, seat.features.layout, view=seat.view),
                    als.Objective(alphas[index], has_loss=self._has_loss),
                    trial.models[index],
                    als.Stopping(max_iter=_EPOCHS["finish"]),
                    mix_first=False,
                    keeper=self._keepers[index] if self._keepers else None,
                )

            fits = self._for_each(fit)
            pairs = zip(fits, trial.models, strict=True)
            models = tuple(model if fit is None else fit.last.model for fit, model in pairs)
            first = next(fit for fit in fits if fit is not None)
            losses = (*trial.losses, *(epoch.loss for epoch in first.history))
            trial = replace(trial, models=models, losses=losses)
        self.best = trial
        self._on_trial("finish", trial, 1.0)
        members = self.members(trial, shares[0])
        if shares[1]:
            trend = loss_trend(self._data) if self._has_loss else linear_trend(self._data)
            members.append(replace(trend, share=shares[1]))
        for sums, of_rest in found:
            rows = self._data.gather_about(self._most_remembered, seed=3)
            view = self._data.view
            if of_rest and not self._has_loss:
                view = replace(view, without=tuple(members))
            members += sums.members(to_remember(rows, view, self._compute.predict))
        return members

    @property
    def _most_remembered(self) -> int:
        return int(NEAR_ROWS * min(1.0, self._settings.effort))

    def _row_sums(self, of_rest: bool) -> tuple[Beside, list[NearPart]] | None:
        """Return sums over remembered rows, and what these are in each group.

        That is the exact processes, where all rows can be remembered, or what rows nearby say of
        what is left over.  Nothing where users fixed the model, nor where rows are so many that
        few are near to any.
        """
        assert self._judged is not None
        trial, shares, groups = self._judged
        loss = self._data.view.loss
        fixed = self._settings.rank, self._settings.alpha, self._settings.n_basis
        suits = (
            (loss is None or (of_rest and loss.stretches))
            and shares[0] > 0
            and fixed == (None, None, None)
            and min(self._most_remembered, self._data.n_distinct) >= LEAST_NEAR_ROWS
            and self._data.n_distinct <= FEW_ROWS
            and (of_rest or self._data.n_rows <= self._most_remembered)
        )
        if not suits or self._is_late():
            return None
        parts = [
            group.near_part(self._compute, some, shares, self._most_remembered, beside, of_rest)
            for (group, some), beside in zip(self._judges(trial), groups, strict=True)
        ]
        if of_rest:
            features = self._first_features(trial)
            found = choose_near_rows(parts, features, self._data.inputs, self._has_loss)
        else:
            found = share_processes(parts, [features for features, _ in self._ways])
        return None if found is None else (found, parts)

    def _judges(self, trial: Trial) -> list[tuple[Group, list[tuple[Seat, als.Model]]]]:
        """Return the groups that judge a trial, and the members of its mean in each."""
        pairs = list(zip(self.seats, trial.models, strict=True))
        chosen = (self._members_of(pairs, trial.ways, g) for g in range(len(self._groups)))
        return [(group, some) for group, some in zip(self._groups, chosen, strict=True) if some]

    def _first_features(self, trial: Trial) -> LearnedFeatures:
        """Return the best way to see the inputs that a trial predicts with."""
        return next(seat.features for seat in self.seats if seat.way in trial.ways)

    def uncertainty(self, members: Sequence[Member]) -> Uncertainty | None:
        """Return how sure the members that the search has returned are; None for classes.

        What tells is what members that have not seen them say of the held-out rows.
        """
        loss = self._data.view.loss
        if self._judged is None or (loss is not None and loss.stretches):
            return None
        trial, shares, groups = self._judged

        def predict(response: NDArray[np.float64]) -> NDArray[np.float64]:
            y = self.targets.undo(response)
            return np.asarray(y if loss is None else invert_link(loss.link, y))

        units = self._data.statistics.targets.scaling().scale
        held = [
            group.held_out(self._compute, some, shares, predict, units, beside)
            for (group, some), beside in zip(self._judges(trial), groups, strict=True)
        ]
        features = self._first_features(trial)
        return learn_uncertainty(held, self._data, features, members, units, self._compute)

    def reach(self, members: Sequence[Member]) -> Reach | None:
        """Return how far the members that the search has returned are believed; for classes."""
        loss = self._data.view.loss
        if self._judged is None or loss is None or not loss.stretches:
            return None
        return learn_reach(self._data, members, [group.apart() for group in self._groups])

    def members(self, trial: Trial, share: float = 1.0) -> list[Member]:
        """Return the members of the mean, those of the ways that held-out rows prefer."""
        chosen = [
            (seat, model)
            for seat, model in zip(self.seats, trial.models, strict=True)
            if seat.way in trial.ways
        ]
        return [seat.member(model, share / len(chosen)) for seat, model in chosen]

    def alphas_of_members(self, trial: Trial) -> list[float]:
        """Return the penalty of each member of the mean."""
        return self._members_of(self._alphas(trial), trial.ways)

    def _shares(self, trial: Trial) -> tuple[float, float]:
        """Return the shares of the mean and of a linear trend that fit the held-out rows best.

        Neither is negative and their sum is one at most.  These rows chose the model, so a gain
        within their noise is none: then there is no trend, or nothing but the mean target.
        """
        pairs = list(zip(self.seats, trial.models, strict=True))
        responses = [self._groups[s.group].respond(self._compute, s, m) for s, m in pairs]
        chosen = [self._members_of(responses, trial.ways, g) for g in range(len(self._groups))]
        if self._has_loss:
            judged = [pair for pair in zip(self._groups, chosen, strict=True) if pair[1]]
            return self._shares_under_loss(judged)
        sums = [
            g.blend_sums(c, self._compute) for g, c in zip(self._groups, chosen, strict=True) if c
        ]
        equations = reduce(add, sums)
        noise = max(_GAIN, 0.5 / float(np.sqrt(sum(map(len, self._groups)))))
        best, least = (0.0, 0.0), (1 - noise) * equations.target_norm2
        for shares in shrunk_shares(equations):
            error = equations.squared_error(np.array(shares))
            if error < least:
                best, least = shares, error * (1 - noise)
        return best

    def _shares_under_loss(
        self, judged: Sequence[tuple[Group, list[NDArray[np.float64]]]]
    ) -> tuple[float, float]:
        """Return the shares of the mean and of a linear trend with the least held-out loss.

        Log odds may be stretched too, which is known as temperature; their shares are the mean of
        those that the held-out rows find likely.  The start of the loss moves to where these rows
        want it.
        """
        loss, targets = self._data.view.loss, self._data.view.targets
        assert loss is not None
        parts = [
            (group, np.mean(said, axis=0), group.line(self._compute)) for group, said in judged
        ]
        most = MOST_STRETCH if loss.stretches else 1.0

        def error(shares: Sequence[float]) -> float:
            each = [
                group.mean_loss(shares[0] * mean + shares[1] * line) for group, mean, line in parts
            ]
            return float(np.mean(each))

        n_rows = sum(len(group) for group, _, _ in parts)
        has_line = any(line.any() for _, _, line in parts)
        best, least = (0.0, 0.0), error((0.0, 0.0))
        for ends in ((most, 0.0), (most, most)):
            if ends[1] and not has_line:
                continue
            first = (min(1.0, most), 0.0) if not ends[1] else (0.7 * best[0], 0.3)
            found = minimize(
                error, first, bounds=[(0.0, end) for end in ends], method="L-BFGS-B", tol=1e-8
            )
            # These rows chose the model, so a gain within their noise is none.  A log-loss is in
            # units of its own: by Akaike's rule it must gain one of them.
            noise = least * max(_GAIN, 0.5 / float(np.sqrt(n_rows)))
            if found.fun < least - (1 / n_rows if loss.stretches else noise):
                best, least = (float(found.x[0]), float(found.x[1])), float(found.fun)
        if loss.stretches and any(best):
            best = likely_shares(error, best, n_rows, most, has_line)
        rows = (g.judged_rows(best[0] * mean + best[1] * line) for g, mean, line in parts)
        shift = loss.shift(*(np.concatenate(part) for part in zip(*rows, strict=True)))
        self.targets = replace(targets, mean=targets.mean + shift * targets.scale)
        return best

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
        return epochs * sum(each) * (_LOSS_WORK if self._has_loss else 1.0)

    def _note(self, stage: str, trial: Trial, epochs: int) -> None:
        self.log.append(
            {
                "stage": stage,
                "rank": trial.rank,
                "penalty": trial.factor,
                "n_rows": self._groups[0].levels[self._level].n_rows,
                "epochs": epochs,
                "held_out_loss" if self._has_loss else "held_out_mse": trial.error,
            }
        )
        # A search mostly ends by itself before its budget does.
        by_trials = 1 - 1 / (1 + len(self.log) / 12)
        self._on_trial(stage, trial, min(0.98, max(by_trials, self._spent / self._budget)))

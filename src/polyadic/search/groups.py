"""Groups of members: they train on the same rows and are judged, as a mean, by the same others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from polyadic.compute import Compute
from polyadic.members import respond_on_host
from polyadic.model.als import Model, Targets
from polyadic.model.normal import NormalEquations
from polyadic.rows.arrays import on_host
from polyadic.rows.holdout import Part, hash_rows
from polyadic.rows.rows import Rows
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import Member, Respond, View, standard_prediction
from polyadic.search.errors import HeldOut
from polyadic.search.learned import LearnedFeatures
from polyadic.search.loss_trend import MOST_OUTPUTS, loss_trend
from polyadic.search.near import Known, NearPart
from polyadic.search.trend import linear_trend
from polyadic.sources.data import Data

MOST_STRETCH, _STRETCH_ROWS = 3.0, 20_000
# What a row may cost under a robust loss, in median losses: those of squares, five spreads out.
_MOST_LOSS = 50.0
_FOLD_SEED = 7  # of the folds of held-out rows
_TRAINING_ROWS = 2_000  # that held-out rows are compared with
_NEAR_JUDGES = 3_000  # held-out rows that judge what rows nearby say, about


@dataclass(frozen=True, eq=False)
class Seat:
    """One member's place in a fit: its group, its way to see the inputs, and its seed."""

    group: int
    way: int
    features: LearnedFeatures
    view: View
    seed: int

    def member(self, model: Model, share: float) -> Member:
        """Return the member that has this model."""
        return Member(self.features.scaling, self.features.layout, model, share)


def _respond_to(
    X: Any, compute: Compute, pairs: Sequence[tuple[Seat, Model]]
) -> list[NDArray[np.float64]]:
    """Return what members say of rows in their own units."""
    return [
        respond_on_host(compute, seat.view.inputs.apply(X), model, seat.features.layout)
        for seat, model in pairs
    ]


def to_remember(rows: Rows, view: View, respond: Respond) -> Known:
    """Return what rows may tell: what a view leaves over of their targets, or their labels."""
    weight = np.ones(len(rows)) if rows.weight is None else on_host(rows.weight)
    has_labels = view.loss is not None
    y = view.label_contrasts(rows.y) if has_labels else view.left_over(rows, respond)
    return Known(on_host(rows.X), y, weight / weight.mean())


class Group:
    """Rows to train on, few and all of them, and those to judge by.

    Parameters
    ----------
    data : Data
        All rows.
    train : Part
        Those to train on.
    held : Part
        Those to judge by.
    compute : Compute
        How many rows may be brought together.
    """

    def __init__(self, data: Data, train: Part, held: Part, compute: Compute) -> None:
        limits = compute.limits
        rows = data.gather_rows(held, limits.held_rows)
        self._X, view = rows.X, data.view
        self._own_y = on_host(rows.y).astype(np.float64)
        self._own_weight = None if rows.weight is None else on_host(rows.weight)
        self._loss, self._start = view.loss, np.zeros(data.n_targets)
        if view.loss is None:
            self._y = view.standard_targets(rows.y)
        else:
            self._y = on_host(view.loss_targets(rows.y))
            self._start = self._start if view.loss.is_relative else view.targets.mean
        weight = view.count(rows, compute.predict).weight
        self._weight = None if weight is None else on_host(weight)
        self._keys = on_host(hash_rows(rows.X, rows.y, rows.groups, _FOLD_SEED))
        self._scaled: dict[View, Any] = {}
        self._fitted_trend: Member | None = None
        # Rows that are read many times are brought into memory, unless they are too many.
        self.levels = [data.gather(train, limits.few_rows)]
        if data.expect(train) > limits.few_rows:
            self.levels.append(data.restrict(train))

    def __len__(self) -> int:
        """Return how many rows are held out."""
        return len(self._y)

    def targets(self, level: int, compute: Compute, seat: Seat) -> Targets:
        """Return the rows of each target that a member trains on."""
        return self.levels[level].targets(compute, seat.features.layout, view=seat.view)

    def respond(self, compute: Compute, seat: Seat, model: Model) -> NDArray[np.float64]:
        """Return what a member says of the held-out rows, a column a target."""
        if seat.view not in self._scaled:
            self._scaled[seat.view] = seat.view.inputs.apply(self._X)
        return respond_on_host(compute, self._scaled[seat.view], model, seat.features.layout)

    def held_out(
        self,
        compute: Compute,
        pairs: Sequence[tuple[Seat, Model]],
        shares: tuple[float, float],
        predict: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        units: NDArray[np.float64],
        beside: Sequence[Member],
    ) -> HeldOut:
        """Return what some members say of the held-out rows, and how wrong they are there.

        `predict` makes predictions in the targets' own units of responses, and `beside` are what
        adds to these.
        """
        known = self.levels[0]
        rows = known.gather_about(_TRAINING_ROWS, seed=3)
        held = [self.respond(compute, *pair) for pair in pairs]
        said, total = self._say(compute, self._X, held, shares, beside)
        trained = on_host(rows.y) - predict(
            self._say(compute, rows.X, _respond_to(rows.X, compute, pairs), shares, beside)[1]
        )
        weight = None if rows.weight is None else on_host(rows.weight)
        return HeldOut(
            self._X,
            (self._own_y - predict(total)) / units,
            said,
            total,
            self._own_weight,
            self._keys,
            known,
            np.average((trained / units) ** 2, axis=0, weights=weight),
        )

    def near_part(
        self,
        compute: Compute,
        pairs: Sequence[tuple[Seat, Model]],
        shares: tuple[float, float],
        most: int,
        beside: Sequence[Member],
        of_rest: bool,
    ) -> NearPart:
        """Return `most` rows to train on, to be remembered, and rows held out, to judge by.

        Of numbers what is left over is remembered, or else the targets.
        """
        known: Data = self.levels[0]
        rows, view = known.gather_about(most, seed=3), known.view
        if of_rest and self._loss is None:
            mean = [seat.member(model, shares[0] / len(pairs)) for seat, model in pairs]
            line = replace(self._trend(), share=shares[1])
            view = replace(view, without=(*mean, line, *beside))
        held = [self.respond(compute, *pair) for pair in pairs]
        total = self._say(compute, self._X, held, shares, beside)[1]
        step = -(-len(self) // _NEAR_JUDGES)
        weight = np.ones(len(self)) if self._weight is None else self._weight
        y = self._y[::step]
        return NearPart(
            to_remember(rows, view, compute.predict),
            on_host(self._X)[::step],
            weight[::step] / weight[::step].mean(),
            total[::step],
            (lambda f: y - f) if self._loss is None else partial(self._losses, step=step),
        )

    def _say(
        self,
        compute: Compute,
        X: Any,
        responses: list[NDArray[np.float64]],
        shares: tuple[float, float],
        beside: Sequence[Member],
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Return what members say, their shares included, and all that is said of some rows."""
        said = [shares[0] / len(responses) * each for each in responses if shares[0]]
        total = np.zeros_like(responses[0]) + sum(said)
        if shares[1]:
            line = standard_prediction([self._trend()], X, compute.predict)
            total = total + shares[1] * on_host(line)
        if beside:
            total = total + on_host(standard_prediction(beside, X, compute.predict))
        return said, total

    def apart(self) -> tuple[Any, Statistics]:
        """Return the inputs that are held out, and what is known of the rows to train on."""
        return self._X, self.levels[-1].statistics

    def error_of(self, compute: Compute, seat: Seat, model: Model) -> float:
        """Return the error of one member."""
        return self.error([self.respond(compute, seat, model)])

    def error(self, responses: Sequence[NDArray[np.float64]]) -> float:
        """Return the error of the mean of some members.

        That is the mean squared error over all targets, or the mean loss; where responses will be
        stretched, after the stretch that suits these rows best.
        """
        mean = np.mean(responses, axis=0)
        if self._loss is not None:
            return self._stretched_loss(mean) if self._loss.stretches else self.mean_loss(mean)
        residual = self._y - mean
        return float(np.average((residual**2).mean(axis=1), weights=self._weight))

    def mean_loss(self, response: NDArray[np.float64], step: int = 1) -> float:
        """Return the mean loss of responses, a column each; of every so many rows alone."""
        losses = self._losses(response[::step], step)
        return float(
            np.average(losses, weights=None if self._weight is None else self._weight[::step])
        )

    def _losses(self, response: NDArray[np.float64], step: int) -> NDArray[np.float64]:
        """Return the loss of every so many rows for their responses.

        Classes of few rows are doubted, and under a robust loss no row costs more than many.
        """
        assert self._loss is not None
        f, y = response + self._start, self._y[::step]
        losses = self._loss.total(y, iter(f.T))
        losses = losses + self._loss.doubt(iter(f.T), self._start) / len(losses)
        if self._loss.is_robust and np.median(losses) > 0:
            # What far rows cost says nothing of a model, and would drown what it gains on others.
            losses = np.minimum(losses, _MOST_LOSS * np.median(losses))
        return np.asarray(losses)

    def _stretched_loss(self, response: NDArray[np.float64]) -> float:
        """Return the least mean loss of responses times a number, which some rows tell."""
        step = -(-len(self) // _STRETCH_ROWS)
        found = minimize_scalar(
            lambda stretch: self.mean_loss(stretch * response, step),
            bounds=(0.0, MOST_STRETCH),
            method="bounded",
            options={"xatol": 0.01},
        )
        return self.mean_loss(found.x * response) if step > 1 else float(found.fun)

    def judged_rows(
        self, response: NDArray[np.float64]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return targets as the loss takes them, responses from its start, and weights."""
        weight = np.ones(len(self._y)) if self._weight is None else self._weight
        return self._y, response + self._start, weight

    def _trend(self) -> Member:
        """Return the linear trend of the rows to train on, which is fitted once."""
        if self._fitted_trend is None:
            known = self.levels[0]
            self._fitted_trend = linear_trend(known) if self._loss is None else loss_trend(known)
        return self._fitted_trend

    def line(self, compute: Compute) -> NDArray[np.float64]:
        """Return what a linear trend says of these rows under the loss, or zeros without one."""
        assert self._loss is not None
        level = self.levels[0]
        if self._loss.is_location or level.n_targets > MOST_OUTPUTS:
            return np.zeros((len(self._y), level.n_targets))
        member = self._trend()
        return on_host(standard_prediction([member], self._X, compute.predict))

    def blend_sums(
        self, responses: Sequence[NDArray[np.float64]], compute: Compute
    ) -> NormalEquations:
        """Return the sums that say which shares of the mean and of a line fit these rows best."""
        line = standard_prediction([self._trend()], self._X, compute.predict)
        columns = np.stack([np.mean(responses, axis=0), on_host(line)], axis=2)
        n_targets = self._y.shape[1]
        weight = None if self._weight is None else np.repeat(self._weight, n_targets)
        return NormalEquations.of(columns.reshape(-1, 2), self._y.ravel(), weight)

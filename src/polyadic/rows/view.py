"""The view that a fit has of rows, and the members that a view can take out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features.layout import TensorLayout
from polyadic.model.als import Model
from polyadic.model.losses import Loss, LossSum
from polyadic.rows.arrays import array_namespace, as_double, on_host, place_like, to_device
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.statistics import Statistics

# Returns the response of a model at scaled rows: (X, cores, map_weights, layout) ─► n numbers, or
# n × T where the first core has a third axis, of T targets.
Respond = Callable[..., Any]


@dataclass(frozen=True)
class Member:
    """One fitted model, how it sees the inputs, and its share of the prediction."""

    inputs: InputScaling
    layout: TensorLayout
    model: Model
    share: float = 1.0

    def respond(self, X: Any, target: int, respond: Respond) -> Any:
        """Return the member's share of the standardised prediction for rows in own units."""
        scaled, model = self._see(X), self.model
        response = respond(scaled, model.cores[target], model.map_weights, self.layout)
        return self.share * to_device(response, X.device)  # rows may wait on the host

    def _see(self, X: Any, filled: Any = None) -> Any:
        """Return rows scaled as far as they take part."""
        return self.inputs.apply(X, filled=filled, used=frozenset(self.layout.core_inputs))

    def respond_all(self, X: Any, respond: Respond, filled: Any = None) -> Any:
        """Return the member's share of all standardised predictions, a column a target.

        `filled` are the rows with their gaps filled in, where that is known.
        """
        scaled = self._see(X, filled)
        response = respond_all(scaled, self.model, self.layout, respond)
        return self.share * to_device(response, X.device)


def respond_all(X: Any, model: Model, layout: TensorLayout, respond: Respond) -> Any:
    """Return the responses of a model at scaled rows, a column a target."""
    first = model.first_cores
    if first is not None:
        return respond(X, [first, *model.cores[0][1:]], model.map_weights, layout)
    columns = [respond(X, cores, model.map_weights, layout) for cores in model.cores]
    return array_namespace(columns[0]).stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Fade:
    """How far out a target may be for its row to count in full, from what some members say.

    Parameters
    ----------
    members : tuple of Member
        Those of a first fit that outliers did not move much.
    targets : TargetScaling
        To the targets' own units.
    middle, distance : ndarray of shape (n_targets,)
        Where targets are around what the members say, and how far from there they may be.
    """

    members: tuple[Member, ...]
    targets: TargetScaling
    middle: NDArray[np.float64]
    distance: NDArray[np.float64]

    def count(self, rows: Rows, respond: Respond) -> Rows:
        """Return rows with less weight, the farther out a target is: its influence fades."""
        xp = array_namespace(rows.X)
        said = self.targets.undo(standard_prediction(self.members, rows.X, respond))
        distance = place_like(self.distance, said)
        away = xp.abs(as_double(rows.y) - said - place_like(self.middle, said))
        weight = xp.min((distance / xp.maximum(away, distance)) ** 4, axis=1)
        return replace(rows, weight=weight if rows.weight is None else weight * rows.weight)


@dataclass(frozen=True, eq=False)
class Trust:
    """How much rows with gaps tell, whose targets hang on what is hidden there.

    Parameters
    ----------
    member : Member
        Says of each row, by how much of the signal its gaps do not touch it.
    ratio : float
        Signal over noise.
    """

    member: Member
    ratio: float

    def count(self, rows: Rows, respond: Respond) -> Rows:
        """Return rows with less weight, the more of a target hangs on hidden values."""
        share = self.member.respond(rows.X, 0, respond)
        weight = 1 / (1 + self.ratio * array_namespace(share).clip(1 - share, min=0.0))
        return replace(rows, weight=weight if rows.weight is None else weight * rows.weight)


@dataclass(frozen=True, eq=False)
class View:
    """How a fit sees rows: scaled inputs, and what is left of standardised targets.

    Parameters
    ----------
    inputs : InputScaling
        What becomes of the inputs.
    targets : TargetScaling
        What becomes of the targets; with a loss that has a link, the start of each response.
    without : tuple of Member
        Members whose predictions are taken out of the standardised targets, so that a fit sees
        what they left over.
    loss : Loss, optional
        What a fit minimises, unless that is the squared error.
    trust : Trust, optional
        Without a loss: how much rows with gaps count.
    fade : Fade, optional
        With a robust loss: which rows count for little.
    around : Member, optional
        With a loss: the model whose responses the working responses and weights are made at.
    caution : int
        How cautious these are.
    """

    inputs: InputScaling
    targets: TargetScaling
    without: tuple[Member, ...] = ()
    loss: Loss | None = None
    trust: Trust | None = None
    fade: Fade | None = None
    around: Member | None = None
    caution: int = 0

    def n_outputs(self, n_targets: int) -> int:
        """Return how many weight tensors a fit to so many targets has."""
        return n_targets if self.loss is None else self.loss.n_outputs(n_targets)

    def see(
        self, rows: Rows, target: int, respond: Respond, scaled: Any = None, context: Any = None
    ) -> Rows:
        """Return rows in their own units as the fit of one target sees them.

        `scaled` are the scaled inputs and `context` what `context` returns, where they are known
        from another target.
        """
        X = self.inputs.apply(rows.X) if scaled is None else scaled
        if self.loss is not None:
            return self._linearise(rows, X, target, respond, context)
        y = self.targets.apply(rows.y[:, target], target)
        for member in self.without:
            y = y - member.respond(rows.X, target, respond)
        counted = rows if self.trust is None else self.trust.count(rows, respond)
        return Rows(X, y, counted.weight)

    def _linearise(self, rows: Rows, X: Any, target: int, respond: Respond, context: Any) -> Rows:
        """Return rows with the working responses and weights of the loss at the model `around`."""
        assert self.loss is not None
        if context is None:
            context = self.context(rows, X, respond)
        rows = self.count(rows, respond)
        offset, f = self._response(rows.X, X, target, respond)
        y, weight = self.loss.linearise(
            self.loss_targets(rows.y), f, target, context, caution=self.caution
        )
        if rows.weight is not None:
            weight = weight * as_double(rows.weight)
        return Rows(X, y - offset, weight)

    def standard_targets(self, y: Any) -> NDArray[np.float64]:
        """Return standardised targets on the host, a column each."""
        columns = [on_host(self.targets.apply(y[:, t], t)) for t in range(y.shape[1])]
        return np.column_stack(columns)

    def left_over(self, rows: Rows, respond: Respond) -> NDArray[np.float64]:
        """Return what members that are taken out leave of standardised targets, on the host."""
        y = self.standard_targets(rows.y)
        if not self.without:
            return y
        return np.asarray(y - on_host(standard_prediction(self.without, rows.X, respond)))

    def label_contrasts(self, y: Any) -> NDArray[np.float64]:
        """Return labels less the shares of their classes on the host, a column a response.

        That is where the loss pulls each response from its start.
        """
        assert self.loss is not None
        y = on_host(self.loss_targets(y))
        starts = [np.full(len(y), float(start)) for start in self.targets.mean]
        context = self.loss.context(starts)
        columns = []
        for target, f in enumerate(starts):
            goal, curvature = self.loss.linearise(y, f, target, context)
            columns.append(curvature * (goal - f))
        return np.column_stack(columns)

    def context(self, rows: Rows, X: Any, respond: Respond) -> Any:
        """Return what working responses need to know of all responses of a row, if anything."""
        if self.loss is None or not self.loss.couples:
            return None
        return self.loss.context(self._responses(rows, X, respond))

    def loss_sum(self, rows: Rows, first_row: int, respond: Respond, scaled: Any = None) -> LossSum:
        """Return the loss of the model `around` on rows in their own units.

        `scaled` are the scaled inputs, where they are known.
        """
        assert self.loss is not None
        X, rows = (
            self.inputs.apply(rows.X) if scaled is None else scaled,
            self.count(rows, respond),
        )
        losses = self.loss.total(self.loss_targets(rows.y), self._responses(rows, X, respond))
        if rows.weight is not None:
            losses = losses * as_double(rows.weight)
        return LossSum(float(on_host(losses).sum()), rows.total_weight)

    def count(self, rows: Rows, respond: Respond) -> Rows:
        """Return rows with the weights that they have under the loss."""
        return rows if self.fade is None else self.fade.count(rows, respond)

    def _responses(self, rows: Rows, X: Any, respond: Respond) -> Iterator[Any]:
        """Yield the responses of each target, one at a time."""
        for target in range(self.n_outputs(rows.y.shape[1])):
            yield self._response(rows.X, X, target, respond)[1]

    def _response(self, own: Any, X: Any, target: int, respond: Respond) -> tuple[Any, Any]:
        """Return what is beside the fit's own response of each row, and their sum."""
        assert self.loss is not None
        assert self.around is not None
        model = self.around.model
        f = respond(X, model.cores[target], model.map_weights, self.around.layout)
        f = as_double(to_device(f, own.device))
        offset = 0.0 if self.loss.is_relative else float(self.targets.mean[target])
        for member in self.without:
            offset = offset + member.respond(own, target, respond)
        return offset, f + offset

    def loss_targets(self, y: Any) -> Any:
        """Return targets as the loss takes them."""
        assert self.loss is not None
        if not self.loss.is_relative:
            return as_double(y)
        starts = zip(as_double(y).T, self.targets.mean, self.targets.scale, strict=True)
        columns = [self.loss.relative(each, *map(float, start)) for each, *start in starts]
        return array_namespace(y).stack(columns, axis=1)


def member_responses(members: Sequence[Member], X: Any, respond: Respond) -> Iterator[Any]:
    """Yield the share of each member that has one, for rows in their own units, column a target."""
    filling, filled = None, None
    for member in members:
        if not member.share:
            continue
        own = member.inputs.filling
        if own is not None and not own.is_same(filling):
            filling, filled = own, own.fill(X)
        yield member.respond_all(X, respond, filled)


def standard_prediction(members: Sequence[Member], X: Any, respond: Respond) -> Any:
    """Return the sum of the members' shares for rows in their own units, a column a target."""
    return add_responses(member_responses(members, X, respond), members, X)


def add_responses(responses: Iterable[Any], members: Sequence[Member], X: Any) -> Any:
    """Return the sum of what members say, zero where none has a share."""
    xp = array_namespace(X)
    n_targets = len(members[0].model.cores)
    total = xp.zeros((len(X), n_targets), dtype=xp.float64, device=X.device)
    for response in responses:
        total += response
    return total


def usual_view(statistics: Statistics, inputs: Inputs, scale_inputs: bool) -> View:
    """Return the usual view of rows with these statistics: inputs in [0, 1], no member out."""
    if scale_inputs:
        scaling = InputScaling.between(statistics.low, statistics.high, inputs)
    else:
        scaling = InputScaling.identity(len(inputs))
    return View(scaling, statistics.targets.scaling())

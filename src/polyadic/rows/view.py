"""The view that a fit has of rows, and the members that a view can take out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyadic.features.layout import TensorLayout
from polyadic.model.als import Model
from polyadic.rows.arrays import array_namespace, to_device
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.statistics import Statistics

# Returns the response of a model at scaled rows: (X, cores, map_weights, layout) ─► n numbers.
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
        scaled, model = self.inputs.apply(X), self.model
        response = respond(scaled, model.cores[target], model.map_weights, self.layout)
        return self.share * to_device(response, X.device)  # rows may wait on the host


@dataclass(frozen=True, eq=False)
class View:
    """How a fit sees rows: scaled inputs, and what is left of standardised targets.

    Parameters
    ----------
    inputs : InputScaling
        What becomes of the inputs.
    targets : TargetScaling
        What becomes of the targets.
    without : tuple of Member
        Members whose predictions are taken out of the standardised targets, so that a fit sees
        what they left over.
    """

    inputs: InputScaling
    targets: TargetScaling
    without: tuple[Member, ...] = ()

    def see(self, rows: Rows, target: int, respond: Respond, scaled: Any = None) -> Rows:
        """Return rows in their own units as the fit of one target sees them.

        `scaled` are the scaled inputs, where they are known from another target.
        """
        y = self.targets.apply(rows.y[:, target], target)
        for member in self.without:
            y = y - member.respond(rows.X, target, respond)
        X = self.inputs.apply(rows.X) if scaled is None else scaled
        return Rows(X, y, rows.weight)


def standard_prediction(members: Sequence[Member], X: Any, respond: Respond) -> Any:
    """Return the sum of the members' shares for rows in their own units, a column a target."""
    xp = array_namespace(X)
    n_targets = len(members[0].model.cores)
    total = xp.zeros((len(X), n_targets), dtype=xp.float64, device=X.device)
    for member in members:
        if member.share:
            for target in range(n_targets):
                total[:, target] += member.respond(X, target, respond)
    return total


def usual_view(statistics: Statistics, inputs: Inputs, scale_inputs: bool) -> View:
    """Return the usual view of rows with these statistics: inputs in [0, 1], no member out."""
    if scale_inputs:
        scaling = InputScaling.between(statistics.low, statistics.high, inputs)
    else:
        scaling = InputScaling.identity(len(inputs))
    return View(scaling, statistics.targets.scaling())

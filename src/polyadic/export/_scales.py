"""How sure predictions are: `uncertainty.py` as a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.export._factors import factors_of, product_of
from polyadic.export._graph import Graph
from polyadic.export._members import respond, used_inputs
from polyadic.export._rows import Rows, scale
from polyadic.members import Member, Reach
from polyadic.model.cpd import Cores
from polyadic.model.posterior import CorePosterior
from polyadic.uncertainty import (
    LEAST_FAMILIAR,
    LEAST_SCALE,
    LEAST_SPREAD,
    N_BESIDE,
    LearnedScale,
    PosteriorScale,
    Uncertainty,
)


@dataclass(frozen=True)
class Said:
    """What members say of rows.

    Parameters
    ----------
    each : str
        n × members · targets.
    total : str
        Their sum, n × targets.
    n_members, n_targets : int
        How many there are.
    """

    each: str
    total: str
    n_members: int
    n_targets: int

    def spread(self, graph: Graph, n_members: int) -> str:
        """Return the deviation of what the first members say, as `spread_of` does."""
        count = min(n_members, self.n_members)
        if count < 2:
            return graph.add("Mul", self.total, 0.0)
        first = graph.add("Slice", self.each, [0], [count * self.n_targets], [1])
        apart = graph.add("Reshape", first, [-1, count, self.n_targets])
        mean = graph.add("Div", graph.add("ReduceSum", apart, [1], keepdims=1), float(count))
        rest = graph.add("Sub", apart, mean)
        squares = graph.add("ReduceSum", graph.add("Mul", rest, rest), [1], keepdims=0)
        return graph.add("Sqrt", graph.add("Mul", squares, count**2 / (count - 1)))

    def column(self, graph: Graph, value: str, target: int) -> str:
        """Return what a value has for a target, 1 × n."""
        return graph.add("Transpose", graph.add("Gather", value, [target], axis=1), perm=[1, 0])


def scale_inputs(uncertainty: Uncertainty) -> list[int]:
    """Return the inputs that scales need to know."""
    return _INPUTS[type(uncertainty.scale)](uncertainty.scale)


def write_std(graph: Graph, X: Rows | None, uncertainty: Uncertainty, said: Said) -> str:
    """Return the standard deviation of each target, n × targets."""
    found = _SCALES[type(uncertainty.scale)](graph, X, uncertainty.scale, said)
    units = uncertainty.units * uncertainty.deviations
    return graph.add("Mul", graph.add("Max", found, LEAST_SCALE), units)


def _learned_inputs(known: LearnedScale) -> list[int]:
    own = used_inputs([known.familiarity, *known.models])
    return sorted({d for d in [*own, *ranged_inputs(known.low)] if d < len(known.low)})


def _learned_scale(graph: Graph, X: Rows | None, known: LearnedScale, said: Said) -> str:
    """Return scales as `LearnedScale.of` does, those with what is not known of strange rows."""
    assert X is not None  # familiarity knows of inputs
    familiar = respond(graph, X, [known.familiarity], np.ones((1, 1, 1)))
    spread = said.spread(graph, known.n_members)
    sure = graph.add("Log", graph.add("Max", familiar, LEAST_FAMILIAR))
    apart = graph.add("Log", graph.add("Max", spread, LEAST_SPREAD))
    variances = []
    for t, (model, (low, high)) in enumerate(zip(known.models, known.bounds, strict=True)):
        beside = [
            said.column(graph, said.total, t),
            graph.add("Transpose", sure, perm=[1, 0]),
            said.column(graph, apart, t),
        ]
        extended = Rows(
            graph.add("Concat", X.name, *beside, axis=0),
            (*X.columns, *(len(known.low) + place for place in range(N_BESIDE))),
        )
        log_variance = respond(graph, extended, [model], np.ones((1, 1, 1)))
        variances.append(graph.add("Exp", graph.add("Clip", log_variance, low, high)))
    variance = variances[0] if len(variances) == 1 else graph.add("Concat", *variances, axis=1)
    strange = _strangeness(graph, X, known, familiar)
    return graph.add("Sqrt", graph.add("Add", variance, graph.add("Mul", strange, strange)))


def _strangeness(graph: Graph, X: Rows, known: LearnedScale, familiar: str) -> str:
    """Return 0 for rows like those held out, and up to 1 for others, n × 1."""
    share: list[str] = []
    if ranged_inputs(known.low):
        beyond = _beyond_range(graph, X, known.low, known.high)
        share.append(graph.add("Exp", graph.add("Neg", beyond)))
    if known.least:
        share.append(graph.add("Clip", graph.add("Div", familiar, known.least), 0.0, 1.0))
    if not share:
        return graph.add("Mul", familiar, 0.0)
    found = share[0] if len(share) == 1 else graph.add("Mul", *share)
    return graph.add("Sub", 1.0, found)


def ranged_inputs(low: NDArray[np.float64]) -> list[int]:
    """Return the inputs that have a range."""
    return np.flatnonzero(np.isfinite(low)).tolist()


def _beyond_range(
    graph: Graph, X: Rows, low: NDArray[np.float64], high: NDArray[np.float64]
) -> str:
    """Return how far rows lie beyond a range, n × 1, as `polyadic.members.beyond_range` does."""
    ranged = ranged_inputs(low)
    x, low, high = X.take(graph, ranged), low[ranged, None], high[ranged, None]
    inside = graph.add("Max", graph.add("Min", x, high), low)
    outside = graph.add("Div", graph.add("Abs", graph.add("Sub", x, inside)), high - low)
    outside = graph.add("Where", graph.add("IsNaN", x), 0.0, outside)
    beyond = graph.add("ReduceSum", outside, [0], keepdims=1)
    return graph.add("Transpose", beyond, perm=[1, 0])


def write_share(graph: Graph, X: Rows, reach: Reach) -> str:
    """Return which part of its log odds each row keeps, n × 1."""
    beyond = graph.add("Sub", _beyond_range(graph, X, reach.low, reach.high), reach.slack)
    return graph.add("Exp", graph.add("Neg", graph.add("Max", beyond, 0.0)))


def _posterior_inputs(known: PosteriorScale) -> list[int]:
    return used_inputs(known.members)


def _posterior_scale(graph: Graph, X: Rows | None, known: PosteriorScale, said: Said) -> str:
    """Return scales as `PosteriorScale.of` does, those of all there is."""
    assert X is not None
    columns = []
    for t, noise in enumerate(known.noise.tolist()):
        parts = [
            part
            for member, posteriors in zip(known.members, known.posteriors, strict=True)
            if (part := _leverage(graph, X, member, posteriors[t], t)) is not None
        ]
        zero = graph.add("Mul", graph.add("Gather", said.total, [t], axis=1), 0.0)
        open_part = graph.add("Sum", zero, *parts)
        weight = noise / len(known.members)
        columns.append(graph.add("Add", graph.add("Mul", open_part, weight), noise))
    spread = said.spread(graph, said.n_members)
    variance = columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)
    return graph.add("Sqrt", graph.add("Add", variance, graph.add("Mul", spread, spread)))


def _leverage(
    graph: Graph, X: Rows, member: Member, posterior: CorePosterior, target: int
) -> str | None:
    """Return what a posterior leaves open of each row, n × 1, in units of the noise."""
    layout, model, root = member.layout, member.model, posterior.root
    scaled = scale(graph, X, member.inputs, sorted(set(layout.core_inputs)))
    found: list[str] = []
    for p in np.flatnonzero(model.map_weights).tolist() if root.size else ():
        cores = _widen(model.cores[target], posterior.core)
        product = product_of(graph, scaled, factors_of(layout, layout.maps[p], cores))
        roots = [model.map_weights[p] * root]
        if len(product) > 1:  # of a complex model, [Re A, −Im A]
            real, imaginary = np.split(roots[0], 2)
            roots = [real, -imaginary]
        found += [
            graph.add("MatMul", part, each) for part, each in zip(product, roots, strict=True)
        ]
    if not found:
        return None
    whole = graph.add("Sum", *found)
    squares = graph.add("ReduceSum", graph.add("Mul", whole, whole), [2], keepdims=1)
    return graph.add("Squeeze", squares, [0])


def _widen(cores: Cores, core: int) -> Cores:
    """Return cores whose product is A, the matrix that meets one core: a column for each entry."""
    size, rank = cores[core].shape
    found = [np.tile(each, (1, size)) for each in cores]
    found[core] = np.repeat(np.eye(size), rank, axis=1)
    return found


_INPUTS: dict[type[Any], Callable[[Any], list[int]]] = {
    LearnedScale: _learned_inputs,
    PosteriorScale: _posterior_inputs,
}
_SCALES: dict[type[Any], Callable[[Graph, Rows | None, Any, Said], str]] = {
    LearnedScale: _learned_scale,
    PosteriorScale: _posterior_scale,
}

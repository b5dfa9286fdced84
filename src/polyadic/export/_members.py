"""Members as a graph: `Predictor` in `members.py`, with all that is known beforehand computed.

A prediction is a sum of terms.  A term is a product of factors, n × rank, times a matrix that
has a column for each target, in which weights of maps, shares of members and the targets' units
are one.  Terms whose factors have the same bases are one term of a greater rank: those of several
targets, and of members that see the inputs alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.export._factors import Basis, Lookup, factors_of, product_of, sum_of
from polyadic.export._graph import Graph
from polyadic.export._rows import Rows, inputs_of, scale
from polyadic.members import Member, Predictor


@dataclass(frozen=True)
class Term:
    """Part of a prediction.

    Parameters
    ----------
    X : Rows
        Scaled rows.
    bases : tuple of Basis
        Of each factor.
    matrices : list of ndarray
        Of each factor, a row for each function of its basis.
    weights : ndarray of shape (rank, n_targets)
        What the product counts.
    """

    X: Rows
    bases: tuple[Basis, ...]
    matrices: list[NDArray[Any]]
    weights: NDArray[np.float64]

    def __add__(self, other: Term) -> Term:
        pairs = zip(self.matrices, other.matrices, strict=True)
        matrices = [np.hstack(pair) for pair in pairs]
        return Term(self.X, self.bases, matrices, np.vstack([self.weights, other.weights]))


def used_members(predictor: Predictor) -> list[Member]:
    """Return the members that have a say."""
    return [each for each in predictor.members if each.share and each.model.map_weights.any()]


def used_inputs(members: Sequence[Member]) -> list[int]:
    """Return the inputs that members need to know."""
    found = {
        d for each in members for d in inputs_of(each.inputs, sorted(set(each.layout.core_inputs)))
    }
    return sorted(found)


def respond(graph: Graph, X: Rows, members: Sequence[Member], scales: NDArray[np.float64]) -> str:
    """Return the sum of the members' shares, n × targets, each target times its scale."""
    merged: dict[Any, Term] = {}
    for member in members:
        for term in _terms(graph, X, member, scales):
            key = term.X, term.bases
            merged[key] = merged[key] + term if key in merged else term
    found = [_compute(graph, term) for term in merged.values()]
    while len(found) > 1:
        found[:2] = [graph.add("Add", *found[:2])]
    return found[0]


def _terms(graph: Graph, X: Rows, member: Member, scales: NDArray[np.float64]) -> list[Term]:
    """Return a term for each map and target of a member."""
    layout, model = member.layout, member.model
    scaled = scale(graph, X, member.inputs, sorted(set(layout.core_inputs)))
    found = []
    for p in np.flatnonzero(model.map_weights).tolist():
        for target, cores in enumerate(model.cores):
            bases, matrices = zip(*factors_of(layout, layout.maps[p], cores), strict=True)
            weights = np.zeros((cores[0].shape[1], len(scales)))
            weights[:, target] = member.share * model.map_weights[p] * scales[target]
            found.append(Term(scaled, bases, list(matrices), weights))
    return found


def _compute(graph: Graph, term: Term) -> str:
    """Return what a term says, n × targets."""
    sums = _as_sum(term)
    if sums is not None:
        return sum_of(graph, term.X, sums)
    factors = list(zip(term.bases, term.matrices, strict=True))
    product = product_of(graph, term.X, factors)[0]  # of a complex one, the real part
    response = graph.add("MatMul", product, term.weights)
    return graph.add("Squeeze", response, [0])


def _as_sum(term: Term) -> list[tuple[Basis, NDArray[np.float64]]] | None:
    """Return a term as a sum over tables, if every column has one factor that is not one.

    A linear trend is such a term, of a rank as great as the number of inputs.
    """
    if not all(type(basis) is Lookup for basis in term.bases):
        return None
    varies = np.array([(matrix != 1).any(axis=0) for matrix in term.matrices])
    if (varies.sum(axis=0) > 1).any():
        return None
    owner = varies.argmax(axis=0)
    return [
        (basis, matrix[:, owner == place] @ term.weights[owner == place])
        for place, (basis, matrix) in enumerate(zip(term.bases, term.matrices, strict=True))
        if (owner == place).any()
    ]

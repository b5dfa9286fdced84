"""Members as a graph: `Predictor` in `members.py`, with all that is known beforehand computed.

A prediction is a sum of terms.  A term is a product of factors, n × rank, times a matrix that
has a column for each target, in which weights of maps, shares of members and units are one.
Terms whose factors have the same bases are one term of a greater rank: those of several targets,
and of members that see the inputs alike.  A member that remembers rows has a term for each, and is
computed for all targets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.export._factors import Basis, Factor, Lookup, factors_of, product_of, sum_of
from polyadic.export._graph import Graph
from polyadic.export._rows import Rows, inputs_of, scale
from polyadic.features.tables import N_KNOTS
from polyadic.members import Member


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
    weights : ndarray of shape (rank, n_columns)
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


def used_inputs(members: Sequence[Member]) -> list[int]:
    """Return the inputs that members need to know."""
    found = {
        d for each in members for d in inputs_of(each.inputs, sorted(set(each.layout.core_inputs)))
    }
    return sorted(found)


def respond(graph: Graph, X: Rows, members: Sequence[Member], columns: NDArray[np.float64]) -> str:
    """Return what members say, each its share, n × columns.

    `columns` says which column each target of each member is added to, and how often: an array
    of members × targets × columns.
    """
    merged: dict[Any, Term] = {}
    found: list[str] = []
    for member, of_member in zip(members, columns, strict=True):
        if _remembers_rows(member):
            found.append(_sum_over_rows(graph, X, member, of_member))
            continue
        for term in _terms(graph, X, member, of_member):
            key = term.X, term.bases
            merged[key] = merged[key] + term if key in merged else term
    found += [_compute(graph, term) for term in merged.values()]
    if not found:  # maps that have no weight
        return repeat_row(graph, np.zeros(columns.shape[2]), X.name, 1)
    while len(found) > 1:
        found[:2] = [graph.add("Add", *found[:2])]
    return found[0]


def repeat_row(graph: Graph, row: NDArray[np.float64], rows: str, axis: int) -> str:
    """Return as many copies of a row as there are rows along an axis of a value."""
    n_rows = graph.add("Slice", graph.add("Shape", rows), [axis], [axis + 1])
    shape = graph.add("Concat", n_rows, [len(row)], axis=0)
    return graph.add("Expand", row[None], shape)


def _remembers_rows(member: Member) -> bool:
    """Whether terms outnumber the points of tables, which times a core are larger than both then.

    Targets of such a member must have all cores but the first in common.
    """
    cores = member.model.cores
    shares = len(cores) == 1 or member.model.first_cores is not None
    return shares and member.layout.is_tabled and cores[0][0].shape[1] > N_KNOTS


def _sum_over_rows(graph: Graph, X: Rows, member: Member, columns: NDArray[np.float64]) -> str:
    """Return Σᵢ ψᵢ Σᵣ zᵣ aᵢᵣ, n × columns, with ψ the features of the first input.

    Those of the others times their cores are multiplied into z.
    """
    layout, cores = member.layout, member.model.cores
    scaled = scale(graph, X, member.inputs, sorted(set(layout.core_inputs)))
    bases = factors_of(layout, layout.maps[0], [np.eye(size) for size in layout.core_sizes])
    own, *others = (product_of(graph, scaled, [each])[0] for each in bases)
    first = np.stack([each[0] for each in cores], axis=2)
    first = first @ (member.share * member.model.map_weights[0] * columns)
    parts = [
        graph.add("MatMul", each, core) for each, core in zip(others, cores[0][1:], strict=True)
    ]
    if not parts:
        return graph.add("Squeeze", graph.add("MatMul", own, first.sum(axis=1)), [0])
    while len(parts) > 1:
        parts[:2] = [graph.add("Mul", *parts[:2])]
    total = ""
    for i, of_function in enumerate(first):
        psi = graph.add("Slice", own, [i], [i + 1], [2])
        said = graph.add("Mul", psi, graph.add("MatMul", parts[0], of_function))
        total = graph.add("Add", total, said) if total else said
    return graph.add("Squeeze", total, [0])


def _terms(graph: Graph, X: Rows, member: Member, columns: NDArray[np.float64]) -> list[Term]:
    """Return a term for each map and target of a member."""
    layout, model = member.layout, member.model
    scaled = scale(graph, X, member.inputs, sorted(set(layout.core_inputs)))
    found = []
    for p in np.flatnonzero(model.map_weights).tolist():
        for cores, column in zip(model.cores, columns, strict=True):
            bases, matrices = zip(*factors_of(layout, layout.maps[p], cores), strict=True)
            share = member.share * model.map_weights[p]
            weights = np.tile(share * column, (cores[0].shape[1], 1))
            found.append(Term(scaled, bases, list(matrices), weights))
    return found


def _compute(graph: Graph, term: Term) -> str:
    """Return what a term says, n × columns."""
    # Most terms are in few of the columns, which need not be computed for the others.
    used = np.flatnonzero(term.weights.any(axis=0))
    weights, places = term.weights[:, used], np.eye(term.weights.shape[1])[used]
    factors = list(zip(term.bases, term.matrices, strict=True))
    sums = _as_sum(factors, weights)
    if sums is not None:
        response = sum_of(graph, term.X, sums)
    else:
        product = product_of(graph, term.X, factors)[0]  # of a complex one, the real part
        response = graph.add("Squeeze", graph.add("MatMul", product, weights), [0])
    return response if len(used) == len(places.T) else graph.add("MatMul", response, places)


def _as_sum(
    factors: Sequence[Factor], weights: NDArray[np.float64]
) -> list[tuple[Basis, NDArray[np.float64]]] | None:
    """Return a product as a sum over tables, if every column has one factor that is not one.

    A linear trend is such a product, of a rank as great as the number of inputs.
    """
    if not all(type(basis) is Lookup for basis, _ in factors):
        return None
    varies = np.array([(matrix != 1).any(axis=0) for _, matrix in factors])
    if (varies.sum(axis=0) > 1).any():
        return None
    owner = varies.argmax(axis=0)
    return [
        (basis, matrix[:, owner == place] @ weights[owner == place])
        for place, (basis, matrix) in enumerate(factors)
        if (owner == place).any()
    ]

"""Rows as a member sees them: `rows/scaling.py` and `rows/filling.py` as graphs.

Rows lie on their sides: an input is a row of the tensor, and NaN is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, TensorProto

from polyadic.export._graph import Graph
from polyadic.export._search import search_sorted
from polyadic.features.tables import APART
from polyadic.rows.filling import FAR, STEPS, Bumps, Filling
from polyadic.rows.scaling import InputScaling


@dataclass(frozen=True)
class Rows:
    """Some columns of a table, by the name of the tensor whose rows they are."""

    name: str
    columns: tuple[int, ...]

    def take(self, graph: Graph, columns: Sequence[int]) -> str:
        """Return some of the columns, in this order."""
        if tuple(columns) == self.columns:
            return self.name
        return graph.add("Gather", self.name, [self.columns.index(each) for each in columns])


def inputs_of(scaling: InputScaling, columns: Sequence[int]) -> list[int]:
    """Return the inputs that some columns of scaled rows are made of."""
    own = {each for each in columns if each < len(scaling.knots)}
    # What is filled in, and where, follows from all numbers.
    others = [] if scaling.filling is None else scaling.filling.columns.tolist()
    if scaling.directions is not None and len(own) < len(set(columns)):
        others = np.flatnonzero(scaling.directions.any(axis=1)).tolist()
    return sorted(own | set(others))


def scale(graph: Graph, X: Rows, scaling: InputScaling, columns: Sequence[int]) -> Rows:
    """Return scaled rows that have some columns, and maybe others."""
    wanted, own, filling = inputs_of(scaling, columns), X, scaling.filling
    if filling is not None:
        numbers = filling.columns.tolist()
        others = [d for d in wanted if d not in numbers]
        parts = [fill(graph, X.take(graph, numbers), filling)]
        parts += [X.take(graph, others)] if others else []
        X = Rows(_stack(graph, parts), (*numbers, *others))
    is_straight = scaling.is_straight
    straight = [d for d in wanted if len(scaling.knots[d]) == 1 or is_straight[d]]
    bent = [d for d in wanted if d not in straight]
    parts = [
        function(graph, X.take(graph, some), scaling, some)
        for function, some in ((_scale_straight, straight), (_scale_bent, bent))
        if some
    ]
    scaled = Rows(_stack(graph, parts), (*straight, *bent))
    if scaling.directions is not None:
        return _add_directions(graph, scaled, scaling.directions)
    if filling is None:
        return scaled
    parts = [scaled.take(graph, numbers)]
    if scaling.ends:
        parts = [_move_apart(graph, parts[0], own.take(graph, numbers), scaling)]
    flags = graph.add("IsNaN", own.take(graph, scaling.flagged))
    parts += [scaled.take(graph, others)] if others else []
    parts += [graph.add("Cast", flags, to=TensorProto.DOUBLE)]
    flag_columns = [scaling.columns_of(d)[1] for d in scaling.flagged]
    return Rows(_stack(graph, parts), (*numbers, *others, *flag_columns))


def _add_directions(graph: Graph, scaled: Rows, directions: NDArray[np.float64]) -> Rows:
    """Return scaled rows and their places along each direction, if all it takes is there."""
    part = np.flatnonzero(directions.any(axis=1)).tolist()
    if not set(part) <= set(scaled.columns):
        return scaled
    turned = graph.add("MatMul", directions[part].T, scaled.take(graph, part))
    places = range(len(directions), len(directions) + directions.shape[1])
    return Rows(_stack(graph, [scaled.name, turned]), (*scaled.columns, *places))


def _stack(graph: Graph, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=0)


def _scale_straight(graph: Graph, X: str, scaling: InputScaling, columns: Sequence[int]) -> str:
    """Return columns whose map is one line."""
    first = np.array([scaling.knots[d][0] for d in columns])
    # Division by the span is exact at both ends.
    span = [
        np.ptp(scaling.knots[d]) if len(scaling.knots[d]) > 1 else 1 / scaling.slopes[d]
        for d in columns
    ]
    return graph.add("Div", graph.add("Sub", X, first[:, None]), np.array(span)[:, None])


def _scale_bent(graph: Graph, X: str, scaling: InputScaling, columns: Sequence[int]) -> str:
    """Return columns whose map has corners, and beyond the first and the last goes on straight."""
    size = max(len(scaling.knots[d]) for d in columns)
    corners, heights = np.full((2, len(columns), size), np.nan)
    for row, d in enumerate(columns):
        corners[row, : len(scaling.knots[d])] = scaling.knots[d]
        heights[row, : len(scaling.knots[d])] = scaling.values[d]
    first, last = (np.array([[scaling.knots[d][end]] for d in columns]) for end in (0, -1))
    inside = graph.add("Max", graph.add("Min", X, last), first)
    # The last corner begins no line; without it a value there ends the one before.
    starts, widths = corners[:, :-1], np.diff(corners, axis=1)
    place = search_sorted(graph, inside, np.where(np.isnan(widths), np.nan, starts))
    start, width, height, rise = (
        graph.add("Gather", each.ravel(), place)
        for each in (starts, widths, heights[:, :-1], np.diff(heights, axis=1))
    )
    part = graph.add("Div", graph.add("Sub", inside, start), width)
    found = graph.add("Add", height, graph.add("Mul", part, rise))
    slopes = scaling.slopes[list(columns)][:, None]
    beyond = graph.add("Mul", graph.add("Sub", X, inside), slopes)
    # What the least and the greatest of NaN and a number is, ONNX leaves open.
    return graph.add("Where", graph.add("IsNaN", X), np.nan, graph.add("Add", found, beyond))


def fill(graph: Graph, X: str, filling: Filling) -> str:
    """Return numbers, of which the missing ones are such as the others make likely."""
    mean, spread = filling.mean[:, None], filling.scale[:, None]
    root = np.sqrt(np.diagonal(filling.precision))
    P = filling.precision / np.outer(root, root)
    known = _stack(graph, [X, *_bumps(graph, X, filling.bumps)])
    missing = graph.add("IsNaN", known)
    gaps = graph.add("Cast", missing, to=TensorProto.DOUBLE)
    unit = graph.add("Div", graph.add("Sub", known, mean), spread / root[:, None])
    unit = graph.add("Where", missing, 0.0, unit)
    residual = graph.add("Mul", graph.add("Neg", graph.add("MatMul", P, unit)), gaps)
    size = _sum_squares(graph, residual, residual)
    any_gap = graph.add("Greater", graph.add("ReduceSum", gaps, keepdims=0), 0.0)
    # Without a gap there is nothing to solve, and the loop is not entered.
    found = graph.add_many(
        "Loop", np.array(STEPS), any_gap, unit, residual, residual, size,
        count=4, body=_step(graph, P, gaps),
    )[0]  # fmt: skip
    found = graph.add("Clip", graph.add("Div", found, root[:, None]), -FAR, FAR)
    likely = graph.add("Add", graph.add("Mul", found, spread), mean)
    if filling.bumps is not None:
        likely = graph.add("Gather", likely, np.arange(len(filling.columns)))
    return graph.add("Where", graph.add("IsNaN", X), likely, X)


def _bumps(graph: Graph, X: str, bumps: Bumps | None) -> list[str]:
    """Return what the bumps are of some numbers, if there are any."""
    if bumps is None:
        return []
    left, middle, right = bumps.corners[:, :, None]
    own = graph.add("Gather", X, bumps.places)
    inside = graph.add("Max", graph.add("Min", own, right), left)
    rise = graph.add("Div", graph.add("Sub", inside, left), middle - left)
    fall = graph.add("Div", graph.add("Sub", right, inside), right - middle)
    found = graph.add("Where", graph.add("Less", inside, middle), rise, fall)
    # What the least and the greatest of NaN and a number is, ONNX leaves open.
    return [graph.add("Where", graph.add("IsNaN", own), np.nan, found)]


def _move_apart(graph: Graph, filled: str, own: str, scaling: InputScaling) -> str:
    """Return numbers, those that were filled in above all known ones where these have flags."""
    assert scaling.filling is not None
    flagged = np.isin(scaling.filling.columns, scaling.flagged)
    low, high = np.full((2, len(flagged), 1), [[[-np.inf]], [[np.inf]]])
    apart = np.zeros((len(flagged), 1))
    # Both are in the order of the inputs.
    low[flagged, 0], high[flagged, 0] = np.array(scaling.ends).T
    span = np.where(flagged[:, None], high - low, 0.0)
    apart[flagged] = APART * span[flagged]

    def end(values: str, spans: float) -> str:
        least = graph.add("Max", values, low - spans * span)
        return graph.add("Min", least, high + spans * span)

    moved = graph.add("Add", end(filled, 1.0), apart)
    return graph.add("Where", graph.add("IsNaN", own), moved, end(filled, 2.0))


def _sum_squares(graph: Graph, one: str, other: str) -> str:
    """Return the sum over the columns of the product of two rows."""
    return graph.add("ReduceSum", graph.add("Mul", one, other), [0], keepdims=1)


def _step(graph: Graph, P: NDArray[np.float64], gaps: str) -> GraphProto:
    """Return a step of conjugate gradients, which brings x, residual, direction and size on."""
    body = graph.body(f"step_{gaps}")
    names = [f"{body.prefix}{each}" for each in ("i", "goes_on", "x", "residual", "to", "size")]
    _, goes_on, x, residual, direction, size = names
    product = body.add("Mul", body.add("MatMul", P, direction), gaps)
    length = _quotient(body, size, _sum_squares(body, direction, product))
    x = body.add("Add", x, body.add("Mul", direction, length))
    residual = body.add("Sub", residual, body.add("Mul", product, length))
    now = _sum_squares(body, residual, residual)
    turn = body.add("Mul", direction, _quotient(body, now, size))
    outputs = [
        body.add("Identity", goes_on), x, residual, body.add("Add", residual, turn), now
    ]  # fmt: skip
    kinds = [(TensorProto.INT64, 0), (TensorProto.BOOL, 0), *[(TensorProto.DOUBLE, 2)] * 4]
    return body.pack_body(
        dict(zip(names, kinds, strict=True)), dict(zip(outputs, kinds[1:], strict=True))
    )


def _quotient(graph: Graph, value: str, by: str) -> str:
    """Return a quotient that is zero where the divisor is not positive."""
    divisor = graph.add("Where", graph.add("Greater", by, 0.0), by, np.inf)
    return graph.add("Div", value, divisor)

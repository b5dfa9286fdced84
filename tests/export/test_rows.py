"""Scaling and filling as graphs, held to the functions on arrays that they copy."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling
from tests.export.graphs import run_function

pytest.importorskip("onnx")
from polyadic.export._rows import Rows, inputs_of, scale
from polyadic.export._search import search_sorted


@pytest.fixture
def table(rng):
    """Two crowded numbers, a constant, one of few values, and the codes of a category."""
    return np.column_stack(
        [
            rng.lognormal(size=120),
            rng.standard_normal(120),
            np.full(120, 3.0),
            rng.randint(4, size=120) ** 3,
            rng.randint(5, size=120),
        ]
    )


INPUTS = Inputs(tuple("abcde"), (0, 0, 0, 0, 5))


def scaled_by_graph(scaling, X, columns):
    def write(graph, name):
        rows = Rows(graph.add("Transpose", name, perm=[1, 0]), tuple(range(X.shape[1])))
        return scale(graph, rows, scaling, columns).take(graph, columns)

    return run_function(write, X=X).T


@pytest.mark.parametrize("blend", [0.0, 0.5, 1.0])
def test_scaled_rows_inside_and_outside_of_the_range(table, rng, blend):
    scaling = InputScaling.fit(table, INPUTS, blend=blend, max_knots=20)
    far = np.vstack(
        [
            table,
            table.min(axis=0),
            table.max(axis=0),
            3 * table - 5,
            table + rng.uniform(size=table.shape),
        ]
    )
    far[5, 0] = far[6, 3] = np.nan
    found = scaled_by_graph(scaling, far, [0, 1, 2, 3, 4])
    np.testing.assert_allclose(found, scaling.apply(far), rtol=0, atol=1e-12)


def test_inputs_as_they_are_stay_so(table):
    found = scaled_by_graph(InputScaling.identity(5), table, [4, 1])
    np.testing.assert_array_equal(found, table[:, [4, 1]])


@pytest.mark.parametrize("blend", [0.0, 1.0])
def test_gaps_are_filled_in_and_flagged(table, rng, blend):
    table[rng.uniform(size=table.shape) < 0.3] = np.nan
    table[7, :4] = np.nan  # nothing is known of the numbers of this row
    scaling = InputScaling.fit(table, INPUTS, blend=blend).with_filling(table, INPUTS)
    assert len(scaling.flagged) == 3
    wanted = scaling.apply(table)
    found = scaled_by_graph(scaling, table, list(range(wanted.shape[1])))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    # A batch in which nothing is missing does not enter the loop.
    whole = table[~np.isnan(table).any(axis=1)]
    found = scaled_by_graph(scaling, whole, list(range(wanted.shape[1])))
    np.testing.assert_allclose(found, scaling.apply(whole), rtol=0, atol=1e-12)


def test_a_column_needs_its_own_input_and_what_is_filled_in_all_numbers(table):
    scaling = InputScaling.fit(table, INPUTS)
    assert inputs_of(scaling, [1, 4]) == [1, 4]
    table[3, 0] = np.nan
    assert inputs_of(scaling.with_filling(table, INPUTS), [4]) == [0, 1, 3, 4]


def test_what_is_filled_in_takes_many_steps_and_ends_three_deviations_out(rng):
    """Numbers that follow from each other closely, and rows far from all others."""
    walk = np.cumsum(rng.standard_normal((300, 12)), axis=1)
    inputs = Inputs.of_numbers([f"x{d}" for d in range(12)])
    rows = np.vstack([walk, 6 * walk[:40]])
    holes = np.where(rng.uniform(size=rows.shape) < 0.4, np.nan, rows)
    scaling = InputScaling.fit(holes, inputs).with_filling(holes[:300], inputs)
    wanted = scaling.apply(holes)
    unit = (scaling.filling.fill(holes) - scaling.filling.mean) / scaling.filling.scale
    assert (np.abs(np.abs(unit[np.isnan(holes)]) - 3) < 1e-9).any()
    found = scaled_by_graph(scaling, holes, list(range(wanted.shape[1])))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("blend", [0.0, 1.0])
def test_what_follows_from_curves_is_filled_in(rng, blend):
    x = rng.standard_normal(400)
    X = np.column_stack([x, x**2 + 0.1 * rng.standard_normal(400), np.exp(x), np.arange(400) % 3])
    inputs = Inputs(tuple("abcd"), (0, 0, 0, 3))
    holes = np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)
    scaling = InputScaling.fit(holes, inputs, blend=blend).with_filling(holes, inputs)
    assert scaling.filling.bumps is not None
    far = np.vstack([holes, 20 * holes])
    wanted = scaling.apply(far)
    found = scaled_by_graph(scaling, far, list(range(wanted.shape[1])))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_search_among_corners_is_that_of_numpy(rng, size):
    corners = np.sort(rng.standard_normal((3, size)), axis=1)
    values = np.concatenate([corners, rng.standard_normal((3, 40)) * 2], axis=1)

    def write(graph, name):
        found = search_sorted(graph, name, corners)
        return graph.add("Cast", graph.add("Add", found, graph.add("Cast",
            graph.add("Mul", name, 0.0), to=7)), to=11)  # fmt: skip

    found = run_function(write, x=values)
    for row in range(3):
        places = np.searchsorted(corners[row], values[row], side="right") - 1
        np.testing.assert_array_equal(found[row] - row * size, np.maximum(places, 0))

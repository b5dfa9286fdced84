"""Members as graphs, held to the reference engine."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic.features import (
    DampedFourierFeatures,
    FeatureMap,
    FourierFeatures,
    GaussianFeatures,
    MercerFeatures,
    Plain,
    PurePowerFeatures,
    Quantized,
    Table,
    Tabled,
    TensorLayout,
    Unused,
)
from polyadic.model.als import Model
from polyadic.rows.scaling import InputScaling
from polyadic.rows.view import Member, standard_prediction
from tests.export.graphs import run_function
from tests.small import respond_reference

pytest.importorskip("onnx")
from polyadic.export._graph import Graph
from polyadic.export._members import respond, used_inputs
from polyadic.export._rows import Rows


def member_of(layout, rng, *, rank=3, n_targets=1, share=1.0):
    """Return a member with random cores."""

    def core(size):
        value = rng.standard_normal((size, rank))
        return value + 1j * rng.standard_normal((size, rank)) if layout.is_complex else value

    cores = tuple([core(size) for size in layout.core_sizes] for _ in range(n_targets))
    weights = rng.uniform(size=len(layout.maps))
    scaling = InputScaling.identity(len(layout.inputs))
    return Member(scaling, layout, Model(cores, weights), share)


def graph_and_reference(members, X):
    columns = np.tile(
        np.diag(np.arange(1.0, 1 + len(members[0].model.cores))), (len(members), 1, 1)
    )
    wanted = standard_prediction(members, X, respond_reference) * np.diagonal(columns[0])
    inputs = used_inputs(members)

    def write(graph, name):
        rows = graph.add("Gather", graph.add("Transpose", name, perm=[1, 0]), inputs)
        return respond(graph, Rows(rows, tuple(inputs)), members, columns)

    return run_function(write, X=X), wanted


def assert_alike(members, X):
    found, wanted = graph_and_reference(members, X)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


QUANTIZED = [FourierFeatures(1.5), DampedFourierFeatures(2.0, 0.6), PurePowerFeatures()]
PLAIN = [*QUANTIZED, GaussianFeatures(0.3, 1.2), MercerFeatures("rbf", 0.4)]


@pytest.mark.parametrize("feature_map", QUANTIZED, ids=repr)
def test_quantized_inputs_of_any_number_of_cores(feature_map, rng):
    layout = TensorLayout((feature_map,), tuple(Quantized(n) for n in (2, 16, 1, 128)))
    assert_alike([member_of(layout, rng)], rng.uniform(-0.3, 1.2, (40, 4)))


@pytest.mark.parametrize("feature_map", PLAIN, ids=repr)
def test_plain_inputs(feature_map, rng):
    layout = TensorLayout((feature_map,), tuple(Plain(n) for n in (5, 1, 12)))
    assert_alike([member_of(layout, rng)], rng.uniform(-0.3, 1.2, (40, 3)))


def test_several_maps_and_targets(rng):
    layout = TensorLayout(tuple(PLAIN), (Plain(4),) * 3)
    assert_alike([member_of(layout, rng, n_targets=2)], rng.uniform(size=(40, 3)))


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 7, 8, 9, 21])
def test_any_number_of_tables(n_inputs, rng):
    assert_alike([member_of(tables(n_inputs), rng)], rows_of_tables(n_inputs, rng))


def tables(n_inputs, n_levels=4):
    """Return a layout of numbers, categories and inputs that take no part."""
    kinds = (
        Tabled(Table.mercer("matern32", 0.4, low=0.1, high=0.8, n_basis=5, middle=0.3)),
        Tabled(Table.of_levels(0.7, np.arange(1.0, 2 + n_levels), has_gaps=True, n_basis=3)),
        Unused(),
        Tabled(Table.mercer("rbf", 0.2, n_basis=7, middle=0.5)),
    )
    inputs = tuple(kinds[place % 4] for place in range(n_inputs))
    return TensorLayout((PurePowerFeatures(),), inputs)


def rows_of_tables(n_inputs, rng, n_levels=4):
    """Return rows with gaps, numbers out of range and levels that were not there."""
    X = rng.uniform(-0.5, 1.5, (60, n_inputs))
    X[:, 1::4] = rng.randint(n_levels + 1, size=X[:, 1::4].shape)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    return X


def test_what_is_not_a_number_has_no_prediction_where_a_table_has_no_place_for_it(rng):
    layout = TensorLayout((PurePowerFeatures(),), (Tabled(Table.mercer("rbf", 0.3, n_basis=4)),))
    found, _ = graph_and_reference([member_of(layout, rng)], np.array([[0.3], [np.nan], [0.9]]))
    assert np.isnan(found[:, 0]).tolist() == [False, True, False]


def test_members_that_see_the_inputs_alike_are_one_term(rng):
    members = [member_of(tables(6), rng, share=share) for share in (0.3, 0.5)]
    X = rows_of_tables(6, rng)
    assert_alike(members, X)
    assert n_nodes(members, 6) == n_nodes(members[:1], 6)


def test_what_each_member_says_is_asked_for_apart(rng):
    members = [member_of(tables(n), rng, n_targets=2, share=share) for n, share in ((6, 1), (6, 2))]
    columns = np.zeros((2, 2, 4))
    columns[0, [0, 1], [0, 1]] = columns[1, [0, 1], [2, 3]] = 1.0
    X = rows_of_tables(6, rng)

    def write(graph, name):
        rows = Rows(graph.add("Transpose", name, perm=[1, 0]), tuple(range(6)))
        return respond(graph, rows, members, columns)

    wanted = np.hstack([standard_prediction([each], X, respond_reference) for each in members])
    np.testing.assert_allclose(run_function(write, X=X), wanted, rtol=0, atol=1e-10)


def n_nodes(members, n_inputs):
    graph = Graph("g_")
    respond(graph, Rows("X", tuple(range(n_inputs))), members, np.ones((len(members), 1, 1)))
    return len(graph.nodes)


def test_a_sum_over_inputs_is_written_as_one(rng):
    """A term of great rank in which every column has one factor that is not one."""
    layout, n_inputs = tables(13), 13
    used = [d for d, each in enumerate(layout.inputs) if each.core_sizes]
    ones = [
        Tabled(Table(t.low, t.high, np.hstack([np.ones((len(t.values), 1)), t.values]), None, None,
                     t.n_levels, t.gap)) if (t := each.table) else each
        for each in layout.inputs
    ]  # fmt: skip
    layout = TensorLayout(layout.maps, tuple(ones))
    cores = []
    for place, d in enumerate(used):
        core = np.zeros((layout.n_basis[d], len(used)))
        core[0] = 1.0
        core[0, place], core[1:, place] = 0.0, rng.standard_normal(layout.n_basis[d] - 1)
        cores.append(core)
    member = Member(InputScaling.identity(n_inputs), layout, Model((cores,), np.ones(1)))
    assert_alike([member], rows_of_tables(n_inputs, rng))
    graph = Graph("g_")
    respond(graph, Rows("X", tuple(range(n_inputs))), [member], np.ones((1, 1, 1)))
    assert "MatMul" not in {node.op_type for node in graph.nodes}


def test_a_map_of_ones_own_needs_numbers_of_its_wave(rng):
    class Cosines(FeatureMap):
        is_complex = False

        def plain(self, x, n_basis):
            return np.cos(np.pi * np.outer(x, np.arange(n_basis)))

    class Tones(FourierFeatures):
        """Computes otherwise, but says that it is a wave."""

        def plain(self, x, n_basis):
            return super().plain(x, n_basis)

        def wave(self):
            return 1 / self.period, 1.0, True

    X = rng.uniform(size=(20, 2))
    layout = TensorLayout((Cosines(),), (Plain(3),) * 2)
    with pytest.raises(ValueError, match=r"feature map Cosines\(\), which ONNX cannot be told of"):
        graph_and_reference([member_of(layout, rng)], X)
    assert_alike([member_of(TensorLayout((Tones(2.0),), (Plain(3),) * 2), rng)], X)


@pytest.mark.parametrize("sizes", [(4, 3, 5), (4,)])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_terms_that_outnumber_the_points_of_tables(n_targets, sizes):
    rng = np.random.default_rng(0)
    tables = [Tabled(Table.mercer("matern12", 0.5, n_basis=size)) for size in sizes]
    layout = TensorLayout((MercerFeatures("matern12", 0.5),), (*tables[:1], Unused(), *tables[1:]))
    member = member_of(layout, rng, rank=200, n_targets=n_targets, share=0.7)
    first, others = member.model.cores[0][0], member.model.cores[0][1:]
    cores = tuple([first * rng.standard_normal(200), *others] for _ in range(n_targets))
    shared = Member(member.inputs, layout, Model(cores, member.model.map_weights), 0.7)
    found, wanted = graph_and_reference(
        [shared, member], rng.uniform(-0.2, 1.2, (40, len(layout.inputs)))
    )
    np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max())

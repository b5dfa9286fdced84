"""Which way to solve a core is cheaper, by what it costs where the rows are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from polyadic.engines.compiled.engine import CompiledEngine
from polyadic.features import MercerFeatures, PurePowerFeatures, Table, Tabled, TensorLayout
from polyadic.samples.placement import iterating_is_cheaper
from polyadic.samples.workers import Workers
from tests.contract.problems import Problem
from tests.contract.test_engines import (
    in_memory,
    on_a_cluster,
    on_a_device,
    on_disk,
    torch_engine,
)


@cache
def layout(n_basis):
    return TensorLayout((MercerFeatures(),), (Tabled(Table.mercer("rbf", 0.1, n_basis=n_basis)),))


@pytest.mark.parametrize("rank", [1, 10, 1000])
def test_only_tables_are_solved_so(rank):
    powers = TensorLayout.of((PurePowerFeatures(),), (64,), False)
    assert not iterating_is_cheaper(powers, 0, rank, 10**6)


def test_large_systems_are_never_formed_and_small_ones_are():
    assert iterating_is_cheaper(layout(32), 0, 512, 2_000_000)
    assert iterating_is_cheaper(layout(32), 0, 64, 1000)
    assert not iterating_is_cheaper(layout(3), 0, 4, 1000)
    assert not iterating_is_cheaper(layout(3), 0, 4, 10**7)


@pytest.mark.parametrize("n_rows", [1000, 100_000])
def test_where_a_pass_is_dear_more_systems_are_formed(n_rows):
    ranks = np.unique(np.geomspace(1, 2000, 40).astype(int))

    def first(**costs):
        """Return the least rank that iterates, after which all do."""
        choices = [iterating_is_cheaper(layout(8), 0, rank, n_rows, **costs) for rank in ranks]
        assert sorted(choices) == choices
        return ranks[choices.index(True)]

    assert first() < first(round_trip=1.0)
    assert first() <= first(stateless=True)
    # The driver solves at its own speed, so fast rows leave the large system as the reason.
    assert first(round_trip=1e-3) <= first(round_trip=1e-3, speed=500.0)


def test_a_gram_matrix_takes_longer_to_send_than_a_core():
    problem = (layout(8), 0, 200, 1000, 0.02)
    assert not iterating_is_cheaper(*problem)
    assert iterating_is_cheaper(*problem, sending=1e-7)


def test_every_place_decides_by_its_own_costs(request):
    problem = Problem("tables", (MercerFeatures(),), tables=("rbf", ""), n_basis=(9, 1), rank=60)
    choices = {}
    with Workers(1).open() as workers:
        for make, engine in [
            (on_a_device, torch_engine()),
            (in_memory, CompiledEngine()),
            (on_disk, CompiledEngine()),
        ]:
            samples = make(request, engine, problem, None, workers)
            samples.start(problem.cores)
            choices[make.__name__] = samples.iterates(0)
    assert choices.pop("in_memory")
    assert not choices.pop("on_disk")  # the system is small beside passes over a file
    assert choices.pop("on_a_device")


@pytest.mark.cluster
def test_a_cluster_asks_once_where_the_system_is_small(request):
    answers = []
    for rank in (100, 700):
        problem = Problem("tables", (MercerFeatures(),), tables=("rbf",), n_basis=(9,), rank=rank)
        with Workers(1).open() as workers:
            samples = on_a_cluster(request, CompiledEngine(), problem, None, workers)
            samples.start(problem.cores)
            answers.append(samples.iterates(0))
    assert answers == [False, True]

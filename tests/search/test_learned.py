"""Features learned from few rows: which inputs take part, and what their tables follow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from polyadic.compute import ComputeSpec
from polyadic.features import MercerFeatures, Table, Tabled, Unused
from polyadic.features.tables import N_KNOTS, positions
from polyadic.search.learned import BLENDS, has_heavy_tails, learn_features, normal_scores
from polyadic.search.settings import Settings
from tests.search.ways import learn
from tests.small import data_of


def wavy(n=150, n_inputs=5, noise=0.1, seed=0):
    """Return rows whose target depends on the first two inputs, the first of them clumped."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs))
    X[:, 0] = np.where(rng.uniform(size=n) < 0.8, 0.1 * X[:, 0], X[:, 0])
    y = np.sin(9 * X[:, 0]) + X[:, 1] ** 2
    return X, y + noise * rng.standard_normal(n)


@pytest.fixture(scope="module")
def ways():
    return learn(*wavy())


def mass_of(scaled, low, high, weight=None):
    """Return the mass at each knot by hats, row by row."""
    place = positions(scaled, low, high)
    hats = np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(N_KNOTS)))
    return np.average(hats, axis=0, weights=weight)


def eigenvalues(table, scaled, weight=None):
    """Return the mean square of each function over the rows, and over the floor of mass."""
    mass = mass_of(scaled, table.low, table.high, weight)
    return (mass + 1e-5) @ table.values**2


def test_inputs_that_do_not_matter_take_no_part(ways):
    for way in ways:
        kinds = [type(each) for each in way.layout.inputs]
        assert kinds == [Tabled, Tabled, Unused, Unused, Unused]
        assert way.evidence.length_scales[2:].min() > 3 * way.evidence.length_scales[:2].max()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 4])  # of which length scales follow the noise
def test_of_noise_nothing_is_learned_from(seed):
    rng = np.random.RandomState(seed)
    ways = learn(rng.uniform(size=(300, 6)), rng.standard_normal(300))
    assert any(way.evidence.length_scales.min() < 0.5 for way in ways)
    for way in ways:
        assert way.layout.core_sizes == (1,)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_little_that_is_not_noise_is_learned_from(seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(300, 6))
    y = 0.5 * np.sin(6 * X[:, 0]) + rng.standard_normal(300)  # a tenth of the variance
    best, *_ = learn(X, y)
    assert type(best.layout.inputs[0]) is Tabled
    assert best.layout.inputs[0].table.n_basis > 1


def test_a_constant_target_leaves_one_constant_function():
    X, _ = wavy(40)
    way, *_ = learn(X, np.full(40, 3.0))
    assert way.layout.core_sizes == (1,)
    (table,) = way.layout.tables
    assert np.ptp(table.values) < 1e-6 * np.abs(table.values).max()


def test_ways_differ_in_scaling_or_kernel(ways):
    assert len(ways) == 3
    seen = {(way.evidence.kernel, way.scaling.knots[0].tobytes()) for way in ways}
    assert len(seen) == 3
    for way in ways:
        assert way.layout.maps[0] == MercerFeatures(
            way.evidence.kernel, way.layout.maps[0].length_scale
        )
        assert all(table.kernel == way.evidence.kernel for table in way.layout.tables)
        assert way.alpha == pytest.approx(way.evidence.noise / way.evidence.signal)


def test_the_mass_of_a_table_is_that_of_the_rows(ways):
    X, _ = wavy()
    for way in ways:
        scaled = way.scaling.apply(X)
        for column in (0, 1):
            table = way.layout.inputs[column].table
            assert (table.low, table.high) == (0.0, 1.0)
            assert scaled[:, column].min() == 0.0
            assert scaled[:, column].max() == 1.0
            length = way.evidence.length_scales[column]
            mass = mass_of(scaled[:, column], 0.0, 1.0)
            expected = Table.mercer(table.kernel, length, mass=mass, n_basis=table.n_basis)
            np.testing.assert_allclose(table.values, expected.values, rtol=1e-6, atol=1e-9)
            # Functions are orthogonal over the rows, but for the floor of the mass.
            psi = table.features(scaled[:, column])
            gram = psi.T @ psi / len(X)
            size = np.sqrt(np.diag(gram))
            assert np.abs(gram / np.outer(size, size) - np.eye(len(gram)))[0].max() < 0.02


def test_functions_are_cut_where_noise_drowns_them(ways):
    X, _ = wavy()
    for way in ways:
        least = max(way.alpha / len(X), 1e-7)
        for column in (0, 1):
            table, scaled = way.layout.inputs[column].table, way.scaling.apply(X)[:, column]
            assert eigenvalues(table, scaled).min() > least * (1 - 1e-6)
            more = Table.mercer(
                table.kernel,
                table.length_scale,
                mass=mass_of(scaled, 0.0, 1.0),
                n_basis=table.n_basis + 1,
            )
            assert eigenvalues(more, scaled).min() < least * (1 + 1e-6)


def test_inputs_along_which_the_kernel_hardly_varies_take_no_part():
    """The fourth input has nothing of what the first one has, or a part of it."""
    X, _ = wavy(150)
    X[:, 0] = np.random.RandomState(1).uniform(size=150)
    n_used = []
    for size in (0.0, 0.3):
        for way in learn(X, np.sin(9 * X[:, 0]) + X[:, 1] ** 2 + size * X[:, 3]):
            second = []
            for column, length in enumerate(way.evidence.length_scales):
                mass = mass_of(way.scaling.apply(X)[:, column], 0.0, 1.0)
                table = Table.mercer(way.evidence.kernel, length, mass=mass, n_basis=2)
                second.append(eigenvalues(table, way.scaling.apply(X)[:, column])[1])
            used = np.array([type(each) is Tabled for each in way.layout.inputs])
            second = np.array(second)
            # The sum of all but the first, which decides, is seldom twice the second.
            assert second[~used].max(initial=0.0) < 1e-3
            # That of a smooth kernel falls with the square of its length scale.
            least = 1e-4 if way.evidence.kernel == "matern12" else 1e-7
            assert second[used].min() > least * second.max()
            n_used.append(used.sum())
    assert min(n_used) == 2
    assert max(n_used) > 2


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter():
    X, y = wavy(400)  # more than all kernels are compared on
    order = np.random.RandomState(1).permutation(400)
    found = []
    for rows in (np.arange(400), order):
        data = data_of(X[rows], y[rows, None])
        with ComputeSpec(n_jobs=1).open() as compute:
            found.append(learn_features(data, Settings(), compute.workers))
    for one, other in zip(*found, strict=True):
        assert one.evidence.kernel == other.evidence.kernel
        lengths = one.evidence.length_scales, other.evidence.length_scales
        np.testing.assert_allclose(*(each[:2] for each in lengths), rtol=1e-3)
        assert one.layout.n_basis == other.layout.n_basis


def test_the_sizes_that_users_fix_are_those_of_the_tables():
    sizes = (3, 7, 2, 1, 4)
    for way in learn(*wavy(), n_basis=sizes):
        assert way.layout.n_basis == sizes
        assert type(way.layout.inputs[3]) is Unused


def test_a_weight_is_a_count():
    X, y = wavy(80)
    count = np.random.RandomState(1).randint(1, 4, size=80)
    weighted = learn(X, y, count.astype(float))
    repeated = learn(np.repeat(X, count, axis=0), np.repeat(y, count))
    for one, other in zip(weighted, repeated, strict=True):
        assert one.layout == other.layout
        assert one.alpha == other.alpha
    plain = learn(X, y)
    assert plain[0].layout != weighted[0].layout


def test_tables_follow_weights():
    X, y = wavy(80)
    weight = np.where(X[:, 1] < 0.5, 10.0, 0.1)
    way, *_ = learn(X, y, weight)
    table, scaled = way.layout.inputs[1].table, way.scaling.apply(X)[:, 1]
    mass = mass_of(scaled, 0.0, 1.0, weight)
    expected = Table.mercer(table.kernel, table.length_scale, mass=mass, n_basis=table.n_basis)
    np.testing.assert_allclose(table.values, expected.values, rtol=1e-6, atol=1e-9)


def test_inputs_in_their_own_units_keep_them():
    X, y = wavy()
    X = X * [2.0, 10.0, 1.0, 1.0, 1.0] + 3.0
    for way in learn(X, y, scale_inputs=False):
        np.testing.assert_array_equal(way.scaling.apply(X), X)
        for column in (0, 1):
            table = way.layout.inputs[column].table
            assert (table.low, table.high) == (X[:, column].min(), X[:, column].max())


def test_a_constant_column_takes_no_part():
    X, y = wavy()
    X[:, 1] = 4.0
    for way in learn(X, y):
        assert type(way.layout.inputs[1]) is Unused
        assert type(way.layout.inputs[0]) is Tabled


def test_a_constant_column_does_not_narrow_the_range_of_others(monkeypatch):
    X, y = wavy(400)
    X[:, 4] = 4.0
    monkeypatch.setattr("polyadic.search.learned._SCALING_ROWS", 100)  # of which ends are not
    for way in learn(X, y):
        straight = way.scaling.is_straight
        for column in (0, 1):
            table = way.layout.inputs[column].table
            assert (table.low, table.high) == (0.0, 1.0)
            if straight[column]:
                assert np.ptp(way.scaling.apply(X)[:, column]) == 1.0


def test_several_targets_are_explained_together():
    X, y = wavy()
    both = np.column_stack([y, X[:, 2] * 100])
    way, *_ = learn(X, both)
    assert {type(way.layout.inputs[d]) for d in (0, 1, 2)} == {Tabled}


def test_the_first_blend_is_the_usual_scaling():
    X, y = wavy()
    assert 0.0 in BLENDS
    straight = data_of(X, y[:, None], merge=True).view.inputs
    for way in learn(X, y):
        np.testing.assert_allclose(way.scaling.apply(X).min(axis=0), 0.0)
        if all(way.scaling.is_straight):
            np.testing.assert_array_equal(way.scaling.apply(X), straight.apply(X))


def test_rows_far_out_do_not_hide_what_the_others_say():
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(300, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_cauchy(300)
    best, *_ = learn(X, y)
    assert best.alpha < 1  # by their own numbers there is nothing but noise
    assert 0.1 < best.evidence.length_scales[0] < 0.2 * best.evidence.length_scales[1]


@pytest.mark.parametrize("weight", [None, np.arange(1.0, 201.0)])
def test_normal_scores_are_ranks_as_normal_numbers(weight):
    y = np.random.RandomState(0).standard_cauchy(200)
    scores = normal_scores(y, weight)
    np.testing.assert_array_equal(np.argsort(scores), np.argsort(y))
    assert scores.std() == pytest.approx(1)
    if weight is None:
        expected = norm.ppf((rankdata(y) - 0.5) / 200)
        np.testing.assert_allclose(scores, expected / expected.std(), rtol=1e-12)


def test_equal_targets_have_equal_scores_and_a_constant_none():
    scores = normal_scores(np.array([0.0, 0, 0, 5, 1, 1]), None)
    assert len(np.unique(scores)) == 3
    assert not normal_scores(np.full(5, 3.0), None).any()


def test_tails_are_heavy_well_beyond_those_of_normal_numbers():
    rng = np.random.RandomState(0)
    y = np.column_stack(
        [rng.standard_normal(5000), rng.uniform(size=5000), rng.standard_t(3, 5000)]
    )
    assert has_heavy_tails(1e200 * y, None).tolist() == [False, False, True]
    assert not has_heavy_tails(np.ones((5, 1)), None)[0]

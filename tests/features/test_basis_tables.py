"""Tables: their functions are those of a kernel, and their positions are tame everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic.features import (
    FourierFeatures,
    MercerFeatures,
    Plain,
    PurePowerFeatures,
    Quantized,
    Table,
    Tabled,
    TensorLayout,
    Unused,
)
from polyadic.features.tables import (
    MARGIN,
    N_KNOTS,
    knots,
    number_kernel,
    point_mass,
    positions,
    variation,
)
from tests.oracle import table_features

KERNELS = {
    "matern12": lambda d: np.exp(-d),
    "matern32": lambda d: (1 + np.sqrt(3) * d) * np.exp(-np.sqrt(3) * d),
    "rbf": lambda d: np.exp(-(d**2) / 2),
}
# Between the knots a kernel with a kink is off by half a knot: 1.2/192 of the range.
BETWEEN = {"matern12": 0.6 / 192, "matern32": 1e-4, "rbf": 1e-4}
TABLE = Table.mercer("matern32", 0.3, n_basis=4)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture(params=[0, 1, 2])
def mass(request):
    """Return the mass of clumped rows."""
    rng = np.random.RandomState(request.param)
    x = np.concatenate([rng.beta(0.3, 0.5, size=200), np.full(rng.randint(50), rng.uniform())])
    return point_mass(positions(x, 0.0, 1.0), N_KNOTS, rng.uniform(0.1, 3, size=len(x)))


@every_kernel
@pytest.mark.parametrize("length_scale", [0.15, 0.5, 3.0])
def test_inner_products_are_the_kernel(kernel, length_scale, mass):
    table = Table.mercer(kernel, length_scale, mass=mass)
    u = knots()
    at_knots = KERNELS[kernel](np.abs(u[:, None] - u) / length_scale)
    np.testing.assert_allclose(table.values @ table.values.T, at_knots, atol=1e-6)
    x = np.random.RandomState(0).uniform(size=50)
    psi = table.features(x)
    expected = KERNELS[kernel](np.abs(x[:, None] - x) / length_scale)
    atol = BETWEEN[kernel] / min(length_scale, 1) ** 2
    np.testing.assert_allclose(psi @ psi.T, expected, atol=atol)


def test_a_table_has_no_more_functions_than_knots():
    assert Table.mercer("rbf", 0.5, n_basis=N_KNOTS).n_basis == N_KNOTS
    with pytest.raises(ValueError, match=r"`n_basis` must be at most 193 .* got 194. Use fewer"):
        Table.mercer("rbf", 0.5, n_basis=N_KNOTS + 1)


@every_kernel
def test_functions_are_orthogonal_under_the_mass_and_the_largest_come_first(kernel, mass):
    table = Table.mercer(kernel, 0.3, mass=mass, n_basis=12)
    gram = table.values.T @ ((mass + 1e-5)[:, None] * table.values)
    eigenvalues = gram.diagonal()
    np.testing.assert_allclose(gram, np.diag(eigenvalues), atol=1e-9)
    assert (np.diff(eigenvalues) <= 1e-12).all()


@every_kernel
@pytest.mark.parametrize("least", [1e-1, 1e-3, 1e-5])
def test_functions_are_cut_where_their_eigenvalues_are_small(kernel, least):
    everything = Table.mercer(kernel, 0.4)
    mass = ((knots() > -1e-9) & (knots() < 1 + 1e-9)).astype(float)
    gram = everything.values.T @ ((mass / mass.sum() + 1e-5)[:, None] * everything.values)
    cut = Table.mercer(kernel, 0.4, least=least)
    assert cut.n_basis == (gram.diagonal() > least).sum()
    np.testing.assert_allclose(cut.values, everything.values[:, : cut.n_basis], atol=1e-12)
    assert Table.mercer(kernel, 0.4, least=least, most=3).n_basis == min(3, cut.n_basis)
    assert Table.mercer(kernel, 0.4, least=2.0).n_basis == 1


@given(
    x=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20).map(np.array),
    low=st.floats(-10, 10),
    width=st.floats(1e-3, 1e3),
)
def test_values_are_interpolated_and_bounded_beyond_the_range(x, low, width):
    table = replace(TABLE, low=low, high=low + width)
    expected = table_features(table, x)
    np.testing.assert_allclose(table.features(x), expected, atol=1e-4)  # of the last knot
    inside = (x >= low) & (x <= low + width)
    np.testing.assert_allclose(table.features(x[inside]), expected[inside], atol=1e-9)
    assert np.abs(table.features(x)).max() <= np.abs(table.values).max() * (1 + 1e-12)


@pytest.mark.parametrize("x", [-1e300, -1e10, 1e10, 1e300])
def test_no_number_is_too_far_away(x):
    position = positions(np.array([x]), 0.0, 1.0)
    assert 0 <= position[0] < N_KNOTS - 1
    assert np.isfinite(Table.mercer("rbf", 0.3, n_basis=3).features(np.array([x]))).all()


def test_what_is_not_a_number_stays_so():
    psi = TABLE.features(np.array([0.3, np.nan]))
    assert np.isfinite(psi[0]).all()
    assert np.isnan(psi[1]).all()


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_positions_are_smooth_where_the_range_ends(end):
    low, width, step = -3.0, 8.0, 1e-4
    x = low + width * (end + step * np.array([-2, -1, 0, 1, 2]))
    position = positions(x, low, low + width)
    slopes = np.diff(position) / step
    np.testing.assert_allclose(slopes, 192 / 1.2, rtol=1e-3)  # one slope, on both sides
    u = np.linspace(-2, 3, 2001)
    assert (np.diff(positions(u, 0.0, 1.0)) >= 0).all()
    np.testing.assert_allclose(positions(knots()[20:-20], 0.0, 1.0), np.arange(20, 173), atol=1e-9)


def test_beyond_the_range_a_position_comes_to_rest_at_the_margin():
    far = positions(np.array([-5.0, 6.0]), 0.0, 1.0)
    np.testing.assert_allclose(far, [0.0, N_KNOTS - 1], atol=1e-3)
    half = positions(np.array([1 + MARGIN / 2]), 0.0, 1.0)
    np.testing.assert_allclose(half, (1.1 + 0.1 * np.tanh(0.5)) * 160, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_positions_of_tensors_are_those_of_arrays(dtype, rng):
    torch = pytest.importorskip("torch", reason="needs torch")
    x = rng.uniform(-1, 2, size=500).astype(dtype)
    found = positions(torch.from_numpy(x), 0.1, 0.8)
    expected = positions(x, 0.1, 0.8)
    assert found.dtype == getattr(torch, dtype)
    atol = {"float64": 1e-12, "float32": 1e-4}[dtype]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=atol)


def test_an_input_of_one_value_has_a_position():
    assert np.isfinite(positions(np.array([2.0, 3.0]), 2.0, 2.0)).all()


@given(seed=st.integers(0, 10**6))
def test_the_mass_of_the_knots_has_the_mean_of_the_positions(seed):
    rng = np.random.RandomState(seed)
    position, weight = rng.uniform(0, N_KNOTS - 1.001, size=30), rng.uniform(0.1, 3, size=30)
    mass = point_mass(position, N_KNOTS, weight)
    assert mass.sum() == pytest.approx(1)
    assert (mass >= 0).all()
    assert mass @ np.arange(N_KNOTS) == pytest.approx(np.average(position, weights=weight))


@every_kernel
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1e4), st.floats(0.0, 1.0))
def test_the_variation_bounds_all_eigenvalues_but_the_first(kernel, seed, length_scale, spread):
    rng = np.random.RandomState(seed)
    rows = rng.uniform() + spread * rng.standard_normal(30) ** 3
    place = positions(np.clip(rows, 0, 1), 0.0, 1.0)
    mass = point_mass(place, N_KNOTS, rng.uniform(0.1, 5.0, size=30))
    root = np.sqrt(mass)
    distance = np.abs(knots()[:, None] - knots()) / length_scale
    *others, _ = np.linalg.eigvalsh(root[:, None] * KERNELS[kernel](distance) * root)
    K = number_kernel(kernel, length_scale)
    found = variation(K, mass)
    assert others[-1] <= np.sum(others) + 1e-9 <= found + 2e-9
    # Of a kernel that reaches far they are small, and the bound is what they sum to.
    if length_scale > 10:
        assert found <= 1.1 * np.sum(others) + 1e-9
    assert found == pytest.approx(variation(K, 7 * mass), abs=1e-12)


def test_tables_are_equal_by_what_they_hold():
    table, twin = (Table.mercer("rbf", 0.3, n_basis=4) for _ in range(2))
    assert table == twin
    assert hash(table) == hash(twin)
    for other in (replace(table, high=2.0), Table.mercer("rbf", 0.31, n_basis=4)):
        assert table != other
    assert table != table.values.tobytes()


@pytest.mark.parametrize(
    "inputs",
    [
        (Tabled(TABLE), Unused()),
        (Quantized(4), Plain(3)),
        (Plain(3), Plain(2)),
        (Unused(), Plain(3)),
    ],
)
def test_layouts_are_made_from_their_fields(inputs):
    layout = TensorLayout((PurePowerFeatures(),), inputs)
    assert TensorLayout.from_fields(layout.to_fields()) == layout


def test_an_unused_input_has_no_core():
    layout = TensorLayout((MercerFeatures(),), (Unused(), Tabled(TABLE), Unused()))
    assert (layout.core_sizes, layout.core_inputs) == ((4,), (1,))
    assert layout.is_tabled
    assert layout.tables == (TABLE,)
    assert not TensorLayout((PurePowerFeatures(),), (Tabled(TABLE), Plain(3))).is_tabled
    with pytest.raises(ValueError, match="leaves every input out"):
        TensorLayout((MercerFeatures(),), (Unused(), Unused()))


@pytest.mark.parametrize(
    "maps", [(MercerFeatures(), PurePowerFeatures()), (FourierFeatures(2.0),)], ids=repr
)
def test_tables_go_with_one_real_map(maps):
    with pytest.raises(ValueError, match="A layout of tables must have one real map"):
        TensorLayout(maps, (Tabled(TABLE), Unused()))


@every_kernel
def test_mercer_features_are_a_table_of_even_values(kernel, rng):
    x = rng.uniform(-0.1, 1.1, size=40)
    expected = table_features(Table.mercer(kernel, 0.3, n_basis=7), x)
    np.testing.assert_allclose(MercerFeatures(kernel, 0.3).plain(x, 7), expected, atol=1e-9)


def test_more_functions_than_knots_are_too_many():
    with pytest.raises(ValueError, match="`n_basis` must be 193 or less for MercerFeatures"):
        MercerFeatures().plain(np.zeros(2), 194)


def level_mass(n=6):
    """Return the mass of levels, the most frequent first."""
    mass = np.sort(np.random.RandomState(0).uniform(0.05, 1, n))[::-1]
    return mass / mass.sum()


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("length_scale", [0.1, 1.0, 50.0])
def test_the_table_of_levels_gives_their_kernel(length_scale, has_gaps):
    table = Table.of_levels(length_scale, level_mass(), has_gaps=has_gaps)
    psi = table.features(np.array([0.0, 1, 2, 3, 4, np.nan if has_gaps else 5.0]))
    other = np.exp(-1 / length_scale)
    np.testing.assert_allclose(psi @ psi.T, other + (1 - other) * np.eye(6), atol=1e-9)


def test_the_functions_of_levels_are_orthogonal_under_their_mass():
    mass = level_mass()
    psi = Table.of_levels(0.7, mass).features(np.arange(6.0))
    gram = psi.T @ (mass[:, None] * psi)
    np.testing.assert_allclose(gram - np.diag(np.diagonal(gram)), 0, atol=1e-4)  # but for a floor


@pytest.mark.parametrize("codes", [[6.0], [7.0], [1e6]])
def test_an_unseen_level_is_as_far_from_each_level_as_any_other(codes):
    table = Table.of_levels(0.7, level_mass())
    unseen, known = table.features(np.array(codes)), table.features(np.arange(6.0))
    np.testing.assert_allclose(unseen @ known.T, np.exp(-1 / 0.7), atol=1e-9)
    gap = table.features(np.array([np.nan]))  # where training rows had none
    np.testing.assert_array_equal(gap, unseen)


def test_rare_levels_without_a_row_are_unseen_ones():
    table = Table.of_levels(0.7, level_mass(3))
    np.testing.assert_array_equal(*(table.features(np.array([code])) for code in (3.0, 200.0)))


def test_a_gap_that_training_rows_did_not_have_is_the_middle():
    table = Table.mercer("rbf", 0.4, middle=0.25)
    np.testing.assert_allclose(*(table.features(np.array([x])) for x in (np.nan, 0.25)), atol=1e-12)


@pytest.mark.parametrize(
    "table",
    [
        Table.mercer("rbf", 0.4),
        Table.mercer("rbf", 0.4, middle=0.2),
        Table.of_levels(1.0, level_mass()),
        Table.of_levels(1.0, level_mass(), has_gaps=True),
        Table.of_levels(1.0, np.ones(1)),
    ],
    ids=["number", "middle", "levels", "levels and gaps", "one level"],
)
def test_a_table_has_as_many_points_as_positions_ask_for(table):
    assert len(table.values) == table.n_points
    x = np.array([-1e9, -1.0, 0.0, 0.5, 1.0, 3.0, 1e9])
    if table.n_levels:
        x = np.arange(20.0)
    if table.gap is not None:
        x = np.append(x, np.nan)
    assert int(table.positions(x).max()) + 1 < table.n_points
    assert np.isfinite(table.features(x)).all()

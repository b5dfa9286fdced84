"""Feature maps: their formulas, their two forms, and how they behave as parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from polyadic.features import (
    DampedFourierFeatures,
    FeatureMap,
    FourierFeatures,
    GaussianFeatures,
    MercerFeatures,
    PurePowerFeatures,
    TensorLayout,
)
from tests.oracle import Bits, Cosines, column_features, row_kron

MAPS = [
    FourierFeatures(1.7),
    DampedFourierFeatures(3.0, 0.6),
    PurePowerFeatures(),
    GaussianFeatures(0.4, 1.5),
    Cosines(),
    Bits(),
]
every_map = pytest.mark.parametrize("feature_map", MAPS, ids=repr)
inputs = st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=5).map(np.array)


@every_map
@given(x=inputs, n_bits=st.integers(1, 5))
def test_plain_features_are_their_formula(feature_map, x, n_bits):
    expected = column_features(feature_map, x, 2**n_bits)
    features = feature_map.plain(x, 2**n_bits)
    np.testing.assert_allclose(features, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())
    assert np.iscomplexobj(features) == feature_map.is_complex


@pytest.mark.parametrize("feature_map", [m for m in MAPS if m.factorises], ids=repr)
@given(x=inputs, n_bits=st.integers(1, 5))
def test_quantized_factors_multiply_to_the_plain_features(feature_map, x, n_bits):
    factors = feature_map.quantized(x, 2**n_bits)
    assert factors.shape == (len(x), n_bits, 2)
    plain = feature_map.plain(x, 2**n_bits)
    product = row_kron(np.moveaxis(factors, 1, 0))
    np.testing.assert_allclose(product, plain, rtol=1e-11, atol=1e-11 * np.abs(plain).max())


@pytest.mark.parametrize("n_basis", [1, 2, 3, 8])
def test_fourier_frequencies_run_from_minus_half(n_basis):
    x, step = np.array([0.2]), 1e-6
    features = FourierFeatures(period=4.0)
    slope = (features.plain(x + step, n_basis) - features.plain(x, n_basis)) / step
    frequency = (slope / features.plain(x, n_basis)).imag * 4.0 / (2 * np.pi)
    expected = np.arange(n_basis) - n_basis // 2
    np.testing.assert_allclose(frequency[0], expected, atol=1e-3)


@given(
    x=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6).map(np.array),
    length_scale=st.floats(0.1, 0.5),
)
def test_gaussian_features_approximate_the_squared_exponential_kernel(x, length_scale):
    # The interval must reach some length scales beyond the inputs, and the sines must
    # reach frequencies where the kernel's spectral density has died out.
    bound = 0.5 + 5 * length_scale
    psi = GaussianFeatures(length_scale, bound).plain(x, 80)
    kernel = np.exp(-0.5 * (x[:, None] - x[None, :]) ** 2 / length_scale**2)
    np.testing.assert_allclose(psi @ psi.T, kernel, atol=1e-4)


@pytest.mark.parametrize("feature_map", [*MAPS, MercerFeatures("rbf", 0.3)], ids=repr)
def test_maps_are_parameters_in_scikit_learns_manner(feature_map):
    twin = clone(feature_map)
    assert twin is not feature_map
    assert twin == feature_map
    assert hash(twin) == hash(feature_map)
    assert repr(twin).startswith(type(feature_map).__name__)


def test_maps_of_other_kinds_or_parameters_are_unequal():
    assert FourierFeatures(2.0) != FourierFeatures(3.0)
    assert FourierFeatures(2.0) != DampedFourierFeatures(2.0, 1.0)
    assert FourierFeatures(2.0).set_params(period=3.0) == FourierFeatures(3.0)
    assert PurePowerFeatures() != "PurePowerFeatures()"


@pytest.mark.parametrize(
    ("feature_map", "name"),
    [
        (FourierFeatures(0.0), "period"),
        (FourierFeatures(-1.0), "period"),
        (FourierFeatures(np.nan), "period"),
        (FourierFeatures(np.inf), "period"),
        (FourierFeatures("2"), "period"),
        (DampedFourierFeatures(1.0, 0.0), "decay"),
        (DampedFourierFeatures(1.0, 1.5), "decay"),
        (GaussianFeatures(0.0, 1.0), "length_scale"),
        (GaussianFeatures(1.0, -1.0), "bound"),
        (GaussianFeatures(1.0, np.inf), "bound"),
        (MercerFeatures("cosine"), "kernel"),
        (MercerFeatures("rbf", 0.0), "length_scale"),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_named(feature_map, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter .* must be .* Got"):
        feature_map.validate()


def test_an_unfinished_map_says_what_is_missing():
    class Empty(FeatureMap):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must implement plain\(\)"):
        Empty().plain(np.zeros(1), 2)
    assert not Empty().factorises


@pytest.mark.parametrize(("n_basis", "remedy"), [(12, "Use 8 or 16"), (3, "Use 2 or 4")])
def test_only_powers_of_two_are_quantized(n_basis, remedy):
    with pytest.raises(ValueError, match=f"`n_basis={n_basis}` cannot be quantized.*{remedy}"):
        TensorLayout.of((FourierFeatures(1.0),), (2, n_basis), True)


def test_an_input_with_one_basis_function_has_no_core():
    layout = TensorLayout.of((FourierFeatures(1.0),), (4, 1, 2), True)
    assert layout.core_sizes == (2, 2, 2)
    assert layout.core_places == ((0, 0), (0, 1), (2, 0))
    with pytest.raises(ValueError, match="`n_basis` must be 2 or more for at least one input"):
        TensorLayout.of((FourierFeatures(1.0),), (1, 1), True)


def test_a_map_without_factors_is_not_quantized():
    with pytest.raises(ValueError, match=r"Cosines\(\).*quantized=False"):
        TensorLayout.of((FourierFeatures(1.0), Cosines()), (2, 2), True)


def test_the_layout_orders_cores_by_input_then_bit():
    assert TensorLayout.of((Bits(),), (8, 2), True).core_sizes == (2, 2, 2, 2)
    assert TensorLayout.of((Bits(),), (8, 2), False).core_sizes == (8, 2)

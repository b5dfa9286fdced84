import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skewnorm, t

from polyadic.model.error_distribution import ErrorDistribution


def draw(n, seed=0):
    return np.random.RandomState(seed).standard_t(4, size=n)


def test_quantiles_are_the_order_statistics_of_split_conformal_prediction():
    z = draw(99)
    found = ErrorDistribution.learn(z)
    assert found.quantiles([0.1, 0.9]).tolist() == [np.sort(z)[9], np.sort(z)[89]]
    # Between two of them the one further out is taken.
    assert found.quantiles([0.105, 0.895]).tolist() == [np.sort(z)[9], np.sort(z)[89]]


@given(st.integers(20, 200), st.floats(0.5, 0.97))
def test_new_errors_are_covered_as_often_as_said(n, coverage):
    # The chance that a new error is inside follows from ranks alone: it is counted exactly.
    z = np.arange(n, dtype=float)
    low, high = ErrorDistribution.learn(z).quantiles([(1 - coverage) / 2, (1 + coverage) / 2])
    ranks_inside = np.searchsorted(z, high, "left") - np.searchsorted(z, low, "left")
    assert ranks_inside / (n + 1) >= coverage - 1e-9 or low < z[0] or high > z[-1]


def test_a_weight_is_a_count():
    z, weight = draw(60), np.tile([1, 2, 3], 20)
    weighted = ErrorDistribution.learn(z, weight)
    repeated = ErrorDistribution.learn(np.repeat(z, weight))
    levels = np.array([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
    assert weighted.quantiles(levels).tolist() == repeated.quantiles(levels).tolist()
    assert (weighted.deviation, weighted.below) == (repeated.deviation, repeated.below)
    # What counts for nothing is not there, and shares are not counts.
    far = ErrorDistribution.learn(np.r_[z, 1e6, -1e6], np.r_[weight, 0, 0])
    assert far.quantiles(levels).tolist() == repeated.quantiles(levels).tolist()
    shares = ErrorDistribution.learn(z, np.full(60, 1e-3))
    assert (
        shares.quantiles(levels).tolist() == ErrorDistribution.learn(z).quantiles(levels).tolist()
    )


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_few_errors_lie_below_a_quantile_as_often_as_it_says(quantile):
    few = ErrorDistribution.of_few(quantile)
    assert few.quantiles([quantile])[0] == pytest.approx(0, abs=1e-12)
    z = np.linspace(-400, 400, 400_001)
    density = np.exp(few.log_density(z)) * (z[1] - z[0])
    assert density.sum() == pytest.approx(1, abs=1e-6)
    assert density @ z**2 == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize(("freedom", "below", "above"), [(1e9, 1, 1), (3, 2, 2), (5, 0.5, 3)])
def test_the_density_is_near_the_true_one(freedom, below, above):
    rng = np.random.RandomState(0)
    unit = np.where(rng.uniform(size=20_000) < below / (below + above), -below, above)
    z = unit * np.abs(t(freedom).rvs(20_000, random_state=rng))
    found = ErrorDistribution.learn(z[:10_000])
    true = np.log(2 / (below + above)) + t(freedom).logpdf(z / np.abs(unit))
    assert abs((true - found.log_density(z))[10_000:].mean()) < 0.003


def test_the_density_integrates_to_one_and_agrees_with_far_quantiles():
    found = ErrorDistribution.learn(skewnorm(4).rvs(2_000, random_state=0))
    x = np.linspace(-30, 60, 200_001)
    p = np.exp(found.log_density(x))
    assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-3)
    parametric = ErrorDistribution(
        np.empty(0), np.empty(0), found.freedom, found.below, found.above, 1.0
    )
    mass = np.cumsum(p) * (x[1] - x[0])
    for level, quantile in zip(
        [0.01, 0.3, 0.9], parametric.quantiles([0.01, 0.3, 0.9]), strict=True
    ):
        assert np.interp(quantile, x, mass) == pytest.approx(level, abs=2e-3)


@given(st.integers(1, 40), st.sampled_from([0.0, 1e-300, 1.0, 1e9]))
def test_any_errors_give_finite_numbers_that_do_not_cross(n, size):
    found = ErrorDistribution.learn(size * draw(n))
    levels = np.array([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6])
    quantiles = found.quantiles(levels)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles) >= 0).all()
    assert np.isfinite(found.log_density(np.array([-1e6, 0.0, 1e6]))).all()
    assert found.deviation > 0


def test_few_errors_are_assumed_to_have_variance_one_and_heavy_tails():
    assert ErrorDistribution.of_few().quantiles([0.9])[0] == pytest.approx(t(4).ppf(0.9) * 0.5**0.5)
    assert ErrorDistribution.normal().quantiles([0.975])[0] == pytest.approx(1.959964, abs=1e-6)

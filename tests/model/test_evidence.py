"""Evidence: the compiled way equals the definition, and its maximum tells inputs that matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from polyadic.model.evidence import (
    KERNELS,
    LONGEST,
    _invert_triangle,
    _Process,
    _rows,
    _sparse_prior,
    _wide_prior,
    log_evidence,
    maximise_evidence,
    noise_evidence,
    screen,
)

kernels = pytest.mark.parametrize("kernel", KERNELS)
seeds = st.integers(0, 10**6)


@pytest.fixture(scope="module", autouse=True)
def single_threaded_blas():
    """Hold BLAS to one thread, as fits do; on busy cores several wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


def table(seed=0, n=30, inputs=5, targets=1):
    """Return inputs, targets and weights of mean 1."""
    rng = np.random.RandomState(seed)
    weight = rng.uniform(0.1, 2, n)
    X, y = rng.uniform(size=(n, inputs)), rng.standard_normal((n, targets))
    return X, y, weight / weight.mean()


def wave(seed=0, n=60, inputs=3, noise=0.1):
    """Return inputs and a standardised target that depends on the second input alone."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, inputs))
    y = np.sin(6 * X[:, 1]) + noise * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def process(X, y, weight, kernel, levels=None):
    return _Process(_rows(X, y, weight, levels), kernel)


def slopes_by_differences(function, point, step=1e-5):
    return np.array(
        [
            (function(point + e) - function(point - e)) / (2 * step)
            for e in step * np.eye(len(point))
        ]
    )


def is_sound(found, inputs):
    numbers = [*found.length_scales, found.signal, found.noise, found.value]
    return (
        np.isfinite(numbers).all()
        and found.length_scales.shape == (inputs,)
        and (found.length_scales > 0).all()
        and found.signal > 0
        and found.noise > 0
    )


@kernels
def test_the_definition_is_the_density_of_a_normal_distribution(kernel):
    X, y, weight = table(n=6, inputs=2)
    lengths, signal, noise = np.array([0.3, 0.8]), 1.7, 0.2
    kernel_of = {
        "matern12": lambda s: np.exp(-s),
        "matern32": lambda s: (1 + np.sqrt(3) * s) * np.exp(-np.sqrt(3) * s),
        "rbf": lambda s: np.exp(-0.5 * s**2),
    }[kernel]
    K = np.array([[np.prod([kernel_of(abs(s)) for s in (a - b) / lengths]) for a in X] for b in X])
    covariance = signal * K + np.diag(noise / weight)
    expected = multivariate_normal(np.zeros(6), covariance).logpdf(y[:, 0]) / 6
    value, _ = log_evidence(X, y, kernel, lengths, signal, noise, weight)
    assert value == pytest.approx(expected, rel=1e-6)  # the jitter is in one of them alone


@kernels
def test_the_gradient_of_the_definition_is_that_of_differences(kernel):
    X, y, weight = table(targets=2)
    point = np.log([0.3, 0.8, 1.5, 3.0, 0.5, 1.7, 0.2])

    def value(p):
        return log_evidence(X, y, kernel, np.exp(p[:-2]), np.exp(p[-2]), np.exp(p[-1]), weight)

    slopes = slopes_by_differences(lambda p: value(p)[0], point)
    np.testing.assert_allclose(value(point)[1], slopes, rtol=1e-6, atol=1e-9)


@kernels
@pytest.mark.parametrize("inputs", [1, 5, 16, 40])  # more than are multiplied at once
@pytest.mark.parametrize("targets", [1, 3])
def test_the_compiled_evidence_equals_the_definition(kernel, inputs, targets):
    X, y, weight = table(inputs=inputs, targets=targets)
    lengths = np.random.RandomState(1).uniform(0.5, 3, inputs) * np.sqrt(inputs)
    value, slopes, by_ratio, signal = process(X, y, weight, kernel)(np.log(lengths), np.log(0.3))
    expected, gradient = log_evidence(X, y, kernel, lengths, signal, 0.3 * signal, weight)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slopes, gradient[:-2], rtol=1e-9, atol=1e-13)
    assert by_ratio == pytest.approx(gradient[-1], rel=1e-9)
    # The signal is at its best: along signal and noise together there is nothing to gain.
    assert gradient[-2] + gradient[-1] == pytest.approx(0, abs=1e-12)


@kernels
@pytest.mark.parametrize("levels", [[1], [0, 3], [0, 1, 2, 3]])
def test_the_evidence_of_levels_equals_the_definition(kernel, levels):
    X, y, weight = table(inputs=4)
    chosen = np.isin(np.arange(4), levels)
    X[:, chosen] = np.floor(3 * X[:, chosen]) - 1
    lengths = np.array([0.5, 0.9, 1.4, 2.0])
    order = np.argsort(chosen, kind="stable")  # numbers come first
    compute = process(X, y, weight, kernel, chosen)
    value, slopes, _, signal = compute(np.log(lengths[order]), np.log(0.3))
    expected, gradient = log_evidence(X, y, kernel, lengths, signal, 0.3 * signal, weight, chosen)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slopes, gradient[:-2][order], rtol=1e-9, atol=1e-13)


def test_levels_are_alike_or_not_whatever_their_codes():
    X, y, _ = table(inputs=2)
    X[:, 1] = np.floor(4 * X[:, 1])
    levels = np.array([False, True])
    renamed = X.copy()
    renamed[:, 1] = np.array([17.0, -1.0, 3.0, 2.0])[X[:, 1].astype(int)]
    one, two = (maximise_evidence(each, y, "rbf", levels=levels) for each in (X, renamed))
    np.testing.assert_array_equal(one.length_scales, two.length_scales)


def test_levels_that_matter_have_the_shorter_length_scale():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 5, size=(150, 3)).astype(float)
    y = np.array([3.0, -1.0, 0.0, 1.0, -2.0])[X[:, 1].astype(int)] + 0.1 * rng.standard_normal(150)
    found = maximise_evidence(X, (y - y.mean()) / y.std(), "rbf", levels=np.ones(3, dtype=bool))
    assert found.length_scales[1] < 0.05 * found.length_scales[[0, 2]].min()


@kernels
def test_the_compiled_evidence_of_many_rows_equals_the_definition(kernel):
    X, y, weight = table(n=300, inputs=2)  # a factor that is inverted by halves
    lengths = np.array([0.2, 0.5])
    value, slopes, _, signal = process(X, y, weight, kernel)(np.log(lengths), np.log(0.3))
    expected, gradient = log_evidence(X, y, kernel, lengths, signal, 0.3 * signal, weight)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slopes, gradient[:-2], rtol=1e-9)


@kernels
def test_the_compiled_gradient_is_that_of_differences(kernel):
    X, y, weight = table(inputs=20, targets=2)
    p = process(X, y, weight, kernel)
    point = np.append(np.random.RandomState(2).uniform(0, 2, 20), -1.5)
    slopes = slopes_by_differences(lambda at: p(at[:-1], at[-1])[0], point)
    _, found, by_ratio, _ = p(point[:-1], point[-1])
    np.testing.assert_allclose(np.append(found, by_ratio), slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [1, 128, 129, 300])  # in one go, and by halves
def test_a_triangle_is_inverted_in_place_whatever_is_above_it(n):
    full = np.asfortranarray(np.random.RandomState(0).standard_normal((n, n)) + 2 * n * np.eye(n))
    inverse = full.copy(order="F")
    _invert_triangle(inverse)
    np.testing.assert_allclose(np.tril(inverse) @ np.tril(full), np.eye(n), atol=1e-13)


@pytest.mark.parametrize("prior", [_wide_prior, _sparse_prior])
def test_the_slopes_of_a_prior_are_those_of_differences(prior):
    point = np.linspace(-3, 6, 7)
    slopes = slopes_by_differences(lambda p: prior(p)[0], point)
    np.testing.assert_allclose(prior(point)[1], slopes, rtol=1e-7)


@kernels
def test_short_length_scales_of_many_inputs_neither_overflow_nor_vanish(kernel):
    X, y, weight = table(inputs=300)
    value, slopes, by_ratio, _ = process(X, y, weight, kernel)(np.full(300, np.log(1e-2)), 0.0)
    # All rows are strangers, so the covariance is a multiple of 1 + 1/weight.
    variance = 1 + 1 / weight
    signal = np.mean(y[:, 0] ** 2 / variance)
    expected = -0.5 * (1 + np.log(2 * np.pi * signal) + np.mean(np.log(variance)))
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(slopes, 0, atol=1e-12)
    assert np.isfinite(by_ratio)


@kernels
def test_the_maximum_is_one_within_the_bounds(kernel):
    X, y = wave(inputs=2)
    y = y + 3 * X[:, 0] ** 2  # both matter, so that no length scale is the longest one
    found = maximise_evidence(X, y, kernel, max_evaluations=300, tol=0.0)

    def value(p):
        lengths, noise = np.exp(p[:-1]), np.exp(p[-1]) * found.signal
        likelihood, _ = log_evidence(X, y, kernel, lengths, found.signal, noise)
        return likelihood + _sparse_prior(p[:-1])[0] / len(y)

    best = np.log(np.append(found.length_scales, found.noise / found.signal))
    assert found.value == pytest.approx(value(best), rel=1e-9)
    for e in 0.05 * np.vstack([np.eye(3), -np.eye(3)]):
        assert value(best + e) < found.value


@kernels
def test_the_input_that_matters_has_the_short_length_scale(kernel):
    X, y = wave(inputs=6)
    lengths = maximise_evidence(X, y, kernel).length_scales
    assert np.argmin(lengths) == 1
    assert np.sort(lengths)[1] > 10 * lengths[1]


@pytest.mark.slow
@kernels
def test_three_inputs_of_two_hundred_are_found_in_three_hundred_rows(kernel):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 200))
    y = np.sin(6 * X[:, 3]) + 2 * X[:, 50] * X[:, 120] + X[:, 50]
    y += 0.1 * y.std() * rng.standard_normal(300)
    lengths = maximise_evidence(X, (y - y.mean()) / y.std(), kernel).length_scales
    assert set(np.argsort(lengths)[:3]) == {3, 50, 120}
    assert np.sort(lengths)[3] > 2 * np.sort(lengths)[2]


def test_the_noise_is_found():
    X, y = wave(n=300, noise=0.3)
    found = maximise_evidence(X, y, "rbf")
    assert found.noise == pytest.approx(0.09 / (0.09 + np.var(np.sin(6 * X[:, 1]))), rel=0.25)


def test_weights_tell_noisy_rows_from_exact_ones():
    X, y = wave(n=120, inputs=1 + 1, noise=0.05)
    rng = np.random.RandomState(3)
    y[::2] += rng.standard_normal(60)
    weight = np.where(np.arange(120) % 2, 100.0, 1.0)
    told = maximise_evidence(X, y, "rbf", weight=weight)
    assert told.value > maximise_evidence(X, y, "rbf").value + 0.2


def test_only_the_proportions_of_weights_count():
    X, y = wave()
    weight = np.random.RandomState(0).uniform(0.5, 2, len(y))
    one = maximise_evidence(X, y, "rbf", weight=weight)
    other = maximise_evidence(X, y, "rbf", weight=2.0**30 * weight)
    assert other.value == one.value
    np.testing.assert_array_equal(other.length_scales, one.length_scales)


def test_rows_of_no_weight_do_not_count():
    X, y = wave()
    weight = np.repeat([1.0, 0.0], [40, 20])
    found = maximise_evidence(X, y, "matern32", weight=weight)
    alone = maximise_evidence(X[:40], y[:40], "matern32")
    np.testing.assert_array_equal(found.length_scales, alone.length_scales)


def test_targets_share_one_kernel_and_their_evidence_is_averaged():
    X, y = wave()
    both = np.column_stack([y, -y])  # as likely as each other
    one, two = (maximise_evidence(X, t, "rbf", max_evaluations=200, tol=0.0) for t in (y, both))
    likelihood = [
        each.value - _sparse_prior(np.log(each.length_scales))[0] / size
        for each, size in ((one, len(y)), (two, 2 * len(y)))
    ]
    assert likelihood[1] == pytest.approx(likelihood[0], abs=0.05)
    assert likelihood[1] >= likelihood[0]  # the prior weighs half as much


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_noise_alone_is_what_no_signal_leaves(weighted, targets):
    X, y = table(targets=targets)[:2]
    y = y.reshape(len(y), -1)
    weight = np.random.RandomState(1).uniform(0.2, 3.0, size=len(X))
    weight = weight / weight.mean() if weighted else None

    def density(noise):
        return log_evidence(X, y, "rbf", np.ones(X.shape[1]), 1e-13, noise, weight)[0]

    # No noise does better than the best of many, and it is that good.
    best = max(density(noise) for noise in y.var() * np.logspace(-1, 1, 2001))
    found = noise_evidence(y, None if weight is None else 5 * weight)
    assert best - 1e-12 <= found <= best + 1e-5
    assert noise_evidence(y * 0) > 10  # a constant is certain


def test_the_search_is_the_same_each_time():
    X, y = wave()
    one, two = (maximise_evidence(X, y, "matern32") for _ in range(2))
    assert one.value == two.value
    np.testing.assert_array_equal(one.length_scales, two.length_scales)


def test_no_more_evaluations_than_allowed():
    X, y = wave()
    for most in (1, 2, 6, 11):
        assert maximise_evidence(X, y, "rbf", max_evaluations=most, tol=0.0).evaluations == most


def test_a_start_at_the_maximum_is_kept_and_saves_evaluations():
    X, y = wave(inputs=2)
    y = y + 3 * X[:, 0] ** 2  # both matter; a very long length scale is not taken over
    first = maximise_evidence(X, y, "rbf", max_evaluations=200, tol=1e-9)
    again = maximise_evidence(X, y, "rbf", start=first)
    assert again.value >= first.value
    assert again.evaluations < first.evaluations / 3


@kernels
@given(
    seed=seeds,
    n=st.integers(1, 10),
    inputs=st.integers(0, 12),
    targets=st.integers(1, 2),
    kind=st.sampled_from(["noise", "constant", "step", "copies", "one row"]),
    weighting=st.sampled_from(["none", "tiny", "huge", "one"]),
)
@settings(max_examples=25, deadline=None)
def test_few_and_odd_rows_give_a_sound_answer(kernel, seed, n, inputs, targets, kind, weighting):
    rng = np.random.RandomState(seed)
    X, y = rng.uniform(size=(n, inputs)), rng.standard_normal((n, targets))
    if kind == "constant":
        y[:] = 0
    elif kind == "step":
        X, y = np.round(X), np.round(y)
    elif kind == "copies":
        X, y = X[rng.randint(n, size=n)], y[rng.randint(n, size=n)]
    elif kind == "one row":
        X[:], y[:] = X[:1], y[:1]
    weight = {
        "none": None,
        "tiny": np.full(n, 1e-310),
        "huge": np.full(n, 1e308),
        "one": np.where(np.arange(n) == 0, 1e300, 1e-300),
    }[weighting]
    assert is_sound(maximise_evidence(X, y, kernel, weight=weight), inputs)


@kernels
def test_targets_without_noise_keep_a_sound_system(kernel):
    X = np.linspace(0, 1, 80)[:, None]
    y = X[:, 0] - 0.5
    found = maximise_evidence(X, y / y.std(), kernel)
    assert is_sound(found, 1)
    assert found.noise < 1e-3


@kernels
def test_the_same_rows_twice_with_other_targets_are_noise(kernel):
    rng = np.random.RandomState(0)
    X = np.repeat(rng.uniform(size=(40, 2)), 2, axis=0)
    found = maximise_evidence(X, np.tile([-1.0, 1.0], 40), kernel)
    assert is_sound(found, 2)
    assert found.noise == pytest.approx(1, rel=0.1)


@kernels
def test_more_inputs_than_rows(kernel):
    X, y, _ = table(n=20, inputs=300)
    assert is_sound(maximise_evidence(X, y, kernel), 300)


def test_a_constant_input_has_the_longest_length_scale():
    X, y = wave()
    found = maximise_evidence(np.insert(X, 1, 0.7, axis=1), y, "rbf")
    alone = maximise_evidence(X, y, "rbf")
    assert found.length_scales[1] == LONGEST
    np.testing.assert_array_equal(np.delete(found.length_scales, 1), alone.length_scales)


def test_a_screening_of_one_is_one_search():
    X, y = wave()
    ((key, kernel, found),) = screen({"only": X}, y, ["matern32"])
    alone = maximise_evidence(X, y, "matern32")
    assert (key, kernel, found.value) == ("only", "matern32", alone.value)
    np.testing.assert_array_equal(found.length_scales, alone.length_scales)


def test_a_screening_puts_the_best_first_and_finds_what_searches_apart_find():
    X, y = wave()
    views = {1: X, 2: X**2, 6: X**6}
    found = screen(views, y)
    apart = {
        (key, kernel): maximise_evidence(view, y, kernel)
        for key, view in views.items()
        for kernel in KERNELS
    }
    best = max(apart, key=lambda pair: apart[pair].value)
    values = [evidence.value for _, _, evidence in found]
    assert values == sorted(values, reverse=True)
    assert {(key, kernel) for key, kernel, _ in found} == set(apart)
    assert found[0][:2] == best
    assert values[0] == pytest.approx(apart[best].value, abs=1e-3)


def test_a_screening_soon_gives_up_what_is_far_behind():
    X, y = wave(n=100)
    chance = np.random.RandomState(5).uniform(size=X.shape)
    found = screen({"true": X, "chance": chance}, y, ["rbf"])
    assert [key for key, _, _ in found] == ["true", "chance"]
    start = found[0][2]
    patient = maximise_evidence(chance, y, "rbf", start=start)
    assert found[1][2].evaluations < patient.evaluations


def test_the_evidence_prefers_rough_kernels_for_rough_targets_and_smooth_for_smooth():
    rng = np.random.RandomState(0)
    X = np.sort(rng.uniform(size=(150, 1)), axis=0)
    rough = np.cumsum(np.sqrt(np.diff(X[:, 0], prepend=0)) * rng.standard_normal(150))
    smooth = np.sin(9 * X[:, 0]) + 0.01 * rng.standard_normal(150)
    for y, kernel in ((rough, "matern12"), (smooth, "rbf")):
        assert screen({0: X}, (y - y.mean()) / y.std())[0][1] == kernel


def test_a_wrong_kernel_is_named():
    X, y = wave()
    with pytest.raises(ValueError, match=r"kernel must be one of matern12.*got 'cosine'"):
        maximise_evidence(X, y, "cosine")


def test_rows_must_agree():
    X, y = wave()
    with pytest.raises(ValueError, match="as many rows as each other, got 60, 59 and 60"):
        maximise_evidence(X, y[1:], "rbf")


@pytest.mark.parametrize("weight", [0.0, np.inf, np.nan])
def test_some_row_must_count(weight):
    X, y = wave()
    with pytest.raises(ValueError, match="finite, and positive for at least one of 60 rows"):
        maximise_evidence(X, y, "rbf", weight=np.full(60, weight))


def test_a_search_needs_an_evaluation():
    X, y = wave()
    with pytest.raises(ValueError, match="max_evaluations must be at least 1, got 0"):
        maximise_evidence(X, y, "rbf", max_evaluations=0)


def test_a_start_must_be_of_the_same_inputs():
    X, y = wave(inputs=3)
    start = maximise_evidence(X, y, "rbf", max_evaluations=1)
    with pytest.raises(ValueError, match="length scale for each of 2 inputs, got 3"):
        maximise_evidence(X[:, :2], y, "rbf", start=start)

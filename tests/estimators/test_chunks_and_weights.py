"""What a fit must not depend on: chunks, threads, and how a row's count is written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from polyadic import KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import FourierFeatures
from polyadic.rows.holdout import row_hash, split_exactly
from tests import small

MAPS = [*small.MAPS, FourierFeatures(3.0)]


def data(seed=0, n=60, n_targets=None):
    X, y = small.smooth_rows(n, noise=0.1, seed=seed)
    return X, y if n_targets is None else np.stack([y, np.cos(X[:, 0] * 5)], axis=1)


def regressor(**parameters):
    return small.regressor(MAPS, **parameters)


def same_fit(first, second, X, rtol=1e-7):
    np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(
        first.feature_weights_, second.feature_weights_, rtol=rtol, atol=rtol
    )


def identical_fit(first, second, X):
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    np.testing.assert_array_equal(first.feature_weights_, second.feature_weights_)
    for mine, yours in zip(first.cores_, second.cores_, strict=True):
        np.testing.assert_array_equal(mine, yours)
    assert first.loss_curve_ == second.loss_curve_


@pytest.mark.parametrize("parameters", [{}, {"mixing": "l1", "objective": "complex"}])
@pytest.mark.parametrize("n_targets", [None, 2])
@pytest.mark.parametrize("chunk_size", [7, 30, 59, 1000])
def test_the_number_of_chunks_changes_nothing_but_rounding(parameters, n_targets, chunk_size):
    X, y = data(n_targets=n_targets)
    whole = regressor(chunk_size=60, **parameters).fit(X, y)
    same_fit(whole, regressor(chunk_size=chunk_size, **parameters).fit(X, y), X)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_number_of_threads_changes_no_bit(early_stopping):
    X, y = data()
    parameters = {"chunk_size": 11, "early_stopping": early_stopping}
    one = regressor(n_jobs=1, **parameters).fit(X, y)
    for n_jobs in (2, 5):
        identical_fit(one, regressor(n_jobs=n_jobs, **parameters).fit(X, y), X)


def test_threads_change_no_bit_of_a_cross_validation_either():
    X, y = data()
    fits = [
        KernelMachineRegressorCV(
            MAPS, cv=3, n_basis=4, rank=2, max_iter=2, chunk_size=11, n_jobs=n, random_state=0
        ).fit(X, y)
        for n in (1, 3)
    ]
    identical_fit(*fits, X)
    np.testing.assert_array_equal(*(fit.cv_results_["mean_test_mse"] for fit in fits))


def test_a_random_state_fixes_the_fit():
    X, y = data()
    identical_fit(regressor().fit(X, y), regressor().fit(X, y), X)
    other = regressor(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict(X), regressor().fit(X, y).predict(X))


def test_a_random_state_fixes_the_folds_of_a_splitter_without_its_own():
    X, y = data()
    splitters = [KFold(3, shuffle=True, random_state=seed) for seed in (None, None, 1)]
    errors = [
        KernelMachineRegressorCV(MAPS, cv=splitter, n_basis=4, rank=2, max_iter=2, random_state=0)
        .fit(X, y)
        .cv_results_["mean_test_mse"]
        for splitter in splitters
    ]
    np.testing.assert_array_equal(errors[0], errors[1])
    assert not np.array_equal(errors[0], errors[2])
    assert splitters[0].random_state is None, "the splitter is the caller's"


FORMS = {
    "simplex": {},
    "complex": {"mixing": "l1", "objective": "complex"},
    "held-out rows": {"early_stopping": True, "max_iter": 6, "n_iter_no_change": 2},
    "two members": {"n_estimators": 2, "mixing": "fixed_norm"},
}
every_form = pytest.mark.parametrize("parameters", FORMS.values(), ids=FORMS.keys())


@every_form
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), n_targets=st.sampled_from([None, 2]))
def test_an_integer_weight_is_a_repeated_row(parameters, seed, n_targets):
    X, y = data(seed, n_targets=n_targets)
    rng = np.random.RandomState(seed)
    count = rng.randint(0, 4, size=len(X))
    count[0] = 1
    order = rng.permutation(count.sum())
    weighted = regressor(**parameters).fit(X, y, sample_weight=count)
    repeated = regressor(**parameters).fit(
        np.repeat(X, count, axis=0)[order], np.repeat(y, count, axis=0)[order]
    )
    assert weighted.n_iter_ == repeated.n_iter_
    same_fit(weighted, repeated, X, rtol=1e-6)
    np.testing.assert_allclose(weighted.loss_curve_, repeated.loss_curve_, rtol=1e-7)


@every_form
def test_a_zero_weight_is_a_dropped_row(parameters):
    X, y = data()
    X[:5] *= 1e6  # would ruin the scaling of the inputs if it counted
    y[:5] *= 1e6
    weight = np.r_[np.zeros(5), np.ones(55)]
    kept = regressor(**parameters).fit(X[5:], y[5:], sample_weight=np.ones(55))
    identical_fit(regressor(**parameters).fit(X, y, sample_weight=weight), kept, X[5:])


def test_equal_weights_scale_the_penalty_alone():
    X, y = data()
    double = KernelMachineRegressor(MAPS[0], n_basis=4, rank=3, alpha=0.2, random_state=0)
    single = KernelMachineRegressor(MAPS[0], n_basis=4, rank=3, alpha=0.1, random_state=0)
    same_fit(double.fit(X, y, sample_weight=np.full(60, 2.0)), single.fit(X, y), X, rtol=1e-6)


@given(seed=st.integers(0, 10**6), fraction=st.floats(0.01, 0.99), n=st.integers(1, 30))
def test_held_out_rows_depend_on_what_they_say_alone(seed, fraction, n):
    rng = np.random.RandomState(seed)
    X, y = rng.randint(3, size=(n, 2)).astype(float), rng.randint(2, size=(n, 1)).astype(float)

    def held_out(X, y):
        hashes = np.unique(row_hash([X, y], seed).view(np.uint64))
        _, held = split_exactly(hashes, fraction, seed)
        return np.zeros(len(X), dtype=bool) if held is None else held.mask(X, y)

    out = held_out(X, y)
    order = rng.permutation(n)
    np.testing.assert_array_equal(held_out(X[order], y[order]), out[order])
    table = np.column_stack([X, y])
    distinct, index = np.unique(table, axis=0, return_inverse=True)
    for row in range(len(distinct)):
        assert len(set(out[index.ravel() == row])) == 1
    share = len(np.unique(table[out], axis=0))
    assert share == min(np.ceil(fraction * len(distinct)), len(distinct) - 1)


def test_a_hash_tells_values_apart_but_not_the_signs_of_zero():
    zeros = row_hash([np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])], seed=3)
    assert zeros[0] == zeros[1] != zeros[2]
    table = np.random.RandomState(0).standard_normal((5000, 2))
    assert len(np.unique(row_hash([table], 0))) == 5000
    # The share held out is that asked for, for structured values too.
    grid = np.column_stack([np.arange(5000.0), np.zeros(5000)])
    low = row_hash([grid], 1) >= 0
    assert abs(low.mean() - 0.5) < 0.03

"""Statistics that add up, parts of rows by hash, and R² from sums."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from polyadic import FeatureLearningRegressor
from polyadic.features import DampedFourierFeatures
from polyadic.rows.holdout import Part, row_hash, split_by_chance, split_exactly
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import Moments
from polyadic.rows.scores import Evaluation
from polyadic.rows.statistics import Statistics, fingerprint


def rows(n_rows, seed=0, scale=1.0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n_rows, 3))
    y = scale * (rng.standard_normal((n_rows, 2)) + np.array([0.0, 100.0]))
    return X, y, rng.uniform(0.1, 3.0, size=n_rows)


def pieces(cuts, *arrays):
    return zip(*(np.split(array, cuts) for array in arrays), strict=True)


@given(
    cuts=st.lists(st.integers(1, 49), min_size=1, max_size=6, unique=True).map(sorted),
    scale=st.sampled_from([1e-150, 1e-3, 1.0, 1e5, 1e300]),
    weighted=st.booleans(),
)
def test_moments_of_pieces_add_up_to_those_of_the_whole(cuts, scale, weighted):
    _, y, weight = rows(50, scale=scale)
    parts = [Moments.of(y, w if weighted else None) for y, w in pieces(cuts, y, weight)]
    found = reduce(add, parts).scaling()
    weights = weight if weighted else np.ones(50)
    unit = y / scale
    mean = np.average(unit, axis=0, weights=weights)
    deviation = np.sqrt(np.average((unit - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(found.mean / scale, mean, rtol=1e-12)
    np.testing.assert_allclose(found.scale / scale, deviation, rtol=1e-12)


def test_a_constant_target_in_pieces_has_the_scale_of_its_size():
    y = np.full((30, 2), [-0.1, 0.0])
    parts = [Moments.of(part, None) for part in np.split(y, [7, 20])]
    found = reduce(add, parts).scaling()
    np.testing.assert_allclose([found.mean, found.scale], [y[0], [0.1, 1.0]])


def test_statistics_of_pieces_are_those_of_the_whole():
    X, y, weight = rows(60)
    whole = Statistics.of(X, y, weight)
    parts, first = [], 0
    prints = []
    for part in pieces([5, 6, 40], X, y, weight):
        parts.append(Statistics.of(*part))
        prints.append(fingerprint(Rows(*part), first))
        first += len(part[0])
    found = reduce(add, parts)
    assert found.n_rows == whole.n_rows == 60
    assert sum(prints) % 2**64 == fingerprint(Rows(X, y, weight), 0)
    np.testing.assert_array_equal(found.low, X.min(axis=0))
    np.testing.assert_array_equal(found.high, X.max(axis=0))


def test_the_fingerprint_of_rows_tells_values_order_and_weights():
    X, y, weight = rows(20)
    swapped = np.arange(20)
    swapped[[3, 4]] = 4, 3
    nudged = X.copy()
    nudged[11, 2] = np.nextafter(nudged[11, 2], 9.0)
    prints = [
        fingerprint(Rows(*arrays), 0)
        for arrays in (
            (X, y, None),
            (X, y, weight),
            (X, y, np.ones(20)),
            (nudged, y, None),
            (X[swapped], y[swapped], None),
            (X[:-1], y[:-1], None),
        )
    ]
    assert len(set(prints)) == len(prints)


def hashes_of(X, y, seed):
    return np.unique(row_hash([X, y], seed).view(np.uint64))


@pytest.mark.parametrize("n_rows", [1, 2, 10, 500, 30_000])
def test_a_split_parts_the_rows(n_rows):
    X, y, _ = rows(n_rows)
    if n_rows > 10_000:
        kept, held = split_by_chance(0.2, seed=5)
    else:
        kept, held = split_exactly(hashes_of(X, y, 5), 0.2, seed=5)
    if n_rows == 1:
        assert held is None
        assert kept.mask(X, y).all()
        return
    inside, outside = kept.mask(X, y), held.mask(X, y)
    np.testing.assert_array_equal(inside, ~outside)
    expected = np.ceil(0.2 * n_rows) if n_rows <= 10_000 else 0.2 * n_rows
    # Beyond ten thousand rows their number is left to chance: five standard deviations of it.
    assert abs(outside.sum() - expected) <= (0 if n_rows <= 10_000 else 5 * 0.4 * n_rows**0.5)


def test_the_whole_of_a_part_has_its_last_row():
    """A part ends at the hash of a row, 64 bits of which a float holds 53."""
    X, y, _ = rows(40)
    for seed in range(20):
        _, held = split_exactly(hashes_of(X, y, seed), 0.02, seed)
        assert held.mask(X, y).sum() == 1
        assert held.subset(1.0).mask(X, y).sum() == 1


def test_shares_of_a_part_grow_into_it():
    X, y, _ = rows(5_000)
    part = Part(3, above=2**62)
    before = np.zeros(5_000, dtype=bool)
    for share in (0.1, 0.2, 0.4, 0.8, 1.0):
        mask = part.subset(share).mask(X, y)
        assert (mask >= before).all()
        assert abs(mask.sum() - share * 0.75 * 5_000) < 5 * 36
        before = mask
    np.testing.assert_array_equal(before, part.mask(X, y))


@pytest.mark.parametrize("weighted", [True, False])
def test_r2_of_pieces_is_that_of_scikit_learn(weighted):
    X, y, weight = rows(90)
    prediction = y + X[:, :2]
    parts = [
        Evaluation.of(y, p, w if weighted else None)
        for y, p, w in pieces([10, 11, 70], y, prediction, weight)
    ]
    options = {"sample_weight": weight if weighted else None}
    found = reduce(add, parts)
    assert found.r2 == pytest.approx(r2_score(y, prediction, **options), rel=1e-12)
    assert found.mse == pytest.approx(mean_squared_error(y, prediction, **options), rel=1e-12)
    assert found.mae == pytest.approx(mean_absolute_error(y, prediction, **options), rel=1e-12)
    assert found.n_rows == 90


@pytest.mark.parametrize("shape", [(1, 2), (90, 1), (90, 0), (89, 2)])
def test_targets_of_another_shape_are_not_broadcast(shape):
    _, y, _ = rows(90)
    with pytest.raises(ValueError, match=r"`y` must have the shape of the predictions, \(90, 2\)"):
        Evaluation.of(np.zeros(shape), y)


def test_r2_of_a_constant_target():
    y = np.ones((5, 1))
    assert Evaluation.of(y, y, None).r2 == r2_score(y, y) == 1.0
    assert Evaluation.of(y, y + 1, None).r2 == r2_score(y, y + 1) == 0.0


class TestSubsample:
    MAPS = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.6))

    def fit(self, **settings):
        rng = np.random.RandomState(0)
        X = rng.uniform(size=(4_000, 3))
        y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(4_000)
        model = FeatureLearningRegressor(
            list(self.MAPS), n_basis=8, rank=6, max_iter=8, tol=0.0, random_state=0, **settings
        )
        return model.fit(X[:3_000], y[:3_000]), np.mean((model.predict(X[3_000:]) - y[3_000:]) ** 2)

    def test_the_error_is_that_of_a_fit_to_all_rows(self):
        _, error = self.fit()
        model, subsampled = self.fit(subsample=0.1)
        assert subsampled < 1.1 * error
        assert model.n_iter_ == 8

    def test_early_epochs_see_few_rows_and_the_last_half_sees_all(self, monkeypatch):
        from polyadic.model import als

        seen = []
        sweep = als.sweep

        def spied(targets, *arguments):
            seen.append(len(targets[0]))
            return sweep(targets, *arguments)

        monkeypatch.setattr(als, "sweep", spied)
        self.fit(subsample=0.1)
        expected = [300, 600, 1200, 2400, *[3000] * 4]
        assert len(seen) == 8
        assert all(abs(n - e) <= 5 * e**0.5 for n, e in zip(seen, expected, strict=True))
        assert seen[4:] == [3000] * 4

    def test_a_share_must_be_one(self):
        with pytest.raises(ValueError, match="subsample"):
            self.fit(subsample=1.5)

    def test_a_share_must_leave_some_rows(self):
        with pytest.raises(
            ValueError, match=r"`subsample` must leave at least 50 rows .* 0\.001 of"
        ):
            self.fit(subsample=0.001)

"""Log odds beyond the rows of a fit: as they are within reach, those of the classes far away."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

import polyadic
from polyadic import FeatureLearningClassifier, KernelMachineClassifier
from polyadic.features import PurePowerFeatures
from polyadic.members import Reach
from polyadic.storage.values import ModelFileError


def rows(n, seed=0):
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.uniform(size=n), np.exp(1.5 * rng.standard_normal(n))])
    y = np.digitize(3 * X[:, 0] + 0.2 * np.log(X[:, 1]) + 0.3 * rng.standard_normal(n), [1, 2.2])
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def fitted():
    model = FeatureLearningClassifier(n_estimators=1, effort=0.1, random_state=0, verbose=0)
    return model.fit(*rows(300))


@pytest.fixture
def without(fitted, tmp_path):
    """Return the same model as a file of before has it."""
    path = tmp_path / "model.polyadic"
    polyadic.save(fitted, path)
    model = polyadic.load(path)
    del model.reach_
    polyadic.save(model, path)
    return polyadic.load(path)


def ray(*steps):
    """Return rows ever farther from those of the fit."""
    return np.array([[0.9 + step, 1.0] for step in steps])


def test_how_far_a_row_lies_beyond_the_others():
    reach = Reach(np.array([0.0, -np.inf, 2.0]), np.array([2.0, np.inf, 3.0]), slack=0.5)
    X = np.array([[1.0, 9e9, 2.5], [3.0, 0.0, 2.0], [-1.0, 0.0, 5.0], [np.nan, np.nan, 3.75]])
    beyond = np.array([0.0, 0.5, 0.5 + 2.0, 0.75])  # in ranges, which are 2 and 1
    np.testing.assert_allclose(reach.share(X), np.exp(-(beyond - 0.5).clip(0)))


def test_within_reach_nothing_moves_by_a_bit(fitted, without):
    X, y = rows(300)
    assert (fitted.predict_proba(X) == without.predict_proba(X)).all()
    assert (fitted.decision_function(X) == without.decision_function(X)).all()
    assert fitted.score(X, y) == without.score(X, y)


def test_new_rows_of_the_same_kind_are_within_reach(fitted):
    # Of an input with a heavy tail the greatest of 300 values says little of new ones.
    X, reach = rows(20_000, seed=1)[0], fitted.reach_
    assert reach.slack > 0
    beyond, at_once = reach.share(X) < 1, replace(reach, slack=0.0).share(X) < 1
    assert beyond.mean() < 5 / 300
    assert beyond.sum() < at_once.sum()


def test_far_away_probabilities_are_the_shares_of_the_classes(fitted, without):
    _, y = rows(300)
    X = ray(0.0, 0.5, 1.0, 2.0, 5.0, 1e6)
    p, shares = fitted.predict_proba(X), np.unique(y, return_counts=True)[1] / 300
    apart = np.abs(p - softmax(fitted.target_scaling_.mean)).sum(axis=1)
    assert (np.diff(apart) < 0).all()
    np.testing.assert_allclose(p[-1], softmax(fitted.target_scaling_.mean), rtol=1e-12)
    np.testing.assert_allclose(p[-1], shares, atol=0.06)
    assert np.abs(without.predict_proba(X)[-1] - shares).max() > 0.3
    np.testing.assert_allclose(p, softmax(fitted.decision_function(X), axis=1), rtol=1e-12)
    assert (fitted.predict(X) == fitted.classes_[p.argmax(axis=1)]).all()


def test_ignorance_grows_away_from_the_rows(fitted):
    X = ray(0.0, 0.5, 1.0, 2.0, 5.0)
    total, noise, ignorance = fitted.predict_uncertainty(X)
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(total, -(p * np.log(p)).sum(axis=1))
    np.testing.assert_allclose(total, noise + ignorance)
    assert (np.diff(ignorance) > 0).all()


def test_named_maps_know_their_range_too(tmp_path):
    X, y = rows(300)
    maps = PurePowerFeatures()  # powers, which take log odds to any size
    model = KernelMachineClassifier(maps, n_basis=4, rank=3, random_state=0).fit(X, y)
    assert model.reach_.slack == 0  # no row was held out
    assert (model.reach_.low == X.min(axis=0)).all()
    assert (model.reach_.high == X.max(axis=0)).all()
    far = ray(0.0, 20.0, 50.0)
    p, shares = model.predict_proba(far), np.unique(y, return_counts=True)[1] / 300
    np.testing.assert_allclose(p[-1], shares, atol=0.01)
    near, *beyond = model.predict_uncertainty(far).ignorance
    assert near == 0  # a single member agrees with itself
    assert min(beyond) > 1  # of at most log 3
    path = tmp_path / "model.polyadic"
    polyadic.save(model, path)
    assert (polyadic.load(path).predict_proba(far) == p).all()
    del model.reach_  # as a file of before
    assert model.predict_proba(far)[-1].max() > 0.99
    assert (model.predict_proba(X) == polyadic.load(path).predict_proba(X)).all()


def test_files_keep_the_reach(fitted, tmp_path):
    path, X = tmp_path / "model.polyadic", ray(0.0, 1.0, 5.0)
    polyadic.save(fitted, path)
    model = polyadic.load(path)
    assert (model.predict_proba(X) == fitted.predict_proba(X)).all()
    model.reach_ = replace(model.reach_, low=model.reach_.high)
    polyadic.save(model, path)
    with pytest.raises(ModelFileError, match="its reach does not fit its inputs"):
        polyadic.load(path)


def test_rows_from_anywhere(fitted, tmp_path):
    X = ray(0.0, 1.0, 5.0)
    p = fitted.predict_proba(X)
    np.savez(tmp_path / "rows.npz", X=X)
    source = polyadic.open_rows(tmp_path / "rows.npz")
    np.testing.assert_array_equal(fitted.predict_proba(source), p)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(fitted.predict_proba(torch.tensor(X)).numpy(), p, rtol=1e-12)
    da = pytest.importorskip("dask.array")
    lazy = fitted.predict_proba(da.from_array(X, chunks=(1, 2)))
    np.testing.assert_allclose(lazy.compute(), p, rtol=1e-12)


def test_graphs_shrink_log_odds_too(fitted):
    pytest.importorskip("onnxruntime")
    from tests.export.graphs import assert_predicts_alike

    assert_predicts_alike(fitted, np.vstack([rows(20)[0], ray(0.0, 0.5, 1.0, 5.0, 1e6)]))


def test_inspection_sees_what_is_predicted(fitted):
    from polyadic.inspection import input_effects, permutation_importance

    X, y = rows(40, seed=2)
    X[::3, 0] += 1.5  # far away, by themselves or once they are shuffled

    def loss(X):
        p = fitted.predict_proba(X)
        return -np.log(p[np.arange(len(X)), np.searchsorted(fitted.classes_, y)]).mean()

    effects = input_effects(fitted, X, points=[[[0.5], [3.0]]])
    np.testing.assert_allclose(effects.predicted, fitted.predict_proba(X), rtol=1e-9)
    for curve, value in zip(effects.curves[0], [0.5, 3.0], strict=True):
        p = fitted.predict_proba(np.column_stack([np.full(40, value), X[:, 1]]))
        np.testing.assert_allclose(curve, p.mean(axis=0), rtol=1e-9)
    order = np.random.RandomState(0).permutation(40)
    shuffled = np.column_stack([X[order, 0], X[:, 1]])
    (growth,), _ = permutation_importance(fitted, X, y, n_repeats=1)
    assert growth == pytest.approx(loss(shuffled) - loss(X), rel=1e-9)

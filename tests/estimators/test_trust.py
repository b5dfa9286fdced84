"""What a user may rely on when a fit fails, is bounded in time, or has groups."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GroupKFold, KFold

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.estimators import _automatic, _base, _members
from polyadic.model import als
from polyadic.search import search
from polyadic.search.search import Search
from tests.small import MAPS, data_of

SMALL = {"n_basis": 4, "rank": 3, "max_iter": 4, "random_state": 0}


def problem(n=120, n_inputs=3, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


KINDS = {
    "named": lambda: FeatureLearningRegressor(MAPS, **SMALL),
    "one map": lambda: KernelMachineRegressor(MAPS[0], **SMALL),
    "folds": lambda: KernelMachineRegressorCV(MAPS, cv=2, **SMALL),
    "automatic": lambda: FeatureLearningRegressor(n_estimators=1, effort=0.02, random_state=0),
}


def state_of(model, X):
    names = [name for name in vars(model) if name.endswith("_")]
    return model.predict(X), sorted(names), model.n_features_in_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mistake", ["text", "parameter", "interruption"])
def test_a_refit_that_fails_leaves_the_old_model_whole(kind, mistake, monkeypatch):
    X, y = problem()
    model = KINDS[kind]().fit(X, y)
    before = state_of(model, X)
    wider, _ = problem(n_inputs=5)
    if mistake == "text":
        with pytest.raises(ValueError, match="could not convert"):
            model.fit(wider, np.array(["a"] * len(wider)))
    elif mistake == "parameter":
        with pytest.raises(ValueError, match="n_basis"):
            model.set_params(n_basis=[4, 4]).fit(wider, y)  # one for each input, or one for all
    else:
        with monkeypatch.context() as patch:
            patch.setattr(als, "mixing_sums", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.fit(wider, y)
    after = state_of(model, X)
    np.testing.assert_array_equal(after[0], before[0])
    assert after[1:] == before[1:]


def _interrupt(*_):
    raise KeyboardInterrupt


def test_a_fit_of_another_kind_leaves_nothing_of_the_old_one():
    X, y = problem()
    model = KINDS["automatic"]().fit(X, y)
    assert hasattr(model, "selection_")
    model.set_params(feature_maps=MAPS, n_basis=4, rank=3, max_iter=2).fit(X, y)
    assert not hasattr(model, "selection_")


# Time.


def follow(clock, monkeypatch):
    """Let fits read a clock; whatever else is running in this process keeps its own."""
    own = SimpleNamespace(**{**vars(time), "monotonic": lambda: clock[0]})
    for module in (_automatic, _base, _members, search):
        monkeypatch.setattr(module, "time", own)


def test_a_fit_comes_to_an_end_when_its_time_is_over(monkeypatch):
    X, y = problem()
    clock = [0.0]
    train = Search._best_epoch

    def tick(self, *arguments):
        clock[0] += 1.0
        return train(self, *arguments)

    monkeypatch.setattr(Search, "_best_epoch", tick)
    follow(clock, monkeypatch)
    options = {"n_estimators": 2, "n_jobs": 1, "random_state": 0}
    counts = []
    for max_time in (None, 3.5, 1e-9):
        clock[0] = 0.0
        model = FeatureLearningRegressor(**options, max_time=max_time).fit(X, y)
        counts.append(len(model.selection_["stage"]))
        assert len(model.rank_) == 2
        assert model.score(X, y) > 0.5
    assert counts[0] > 4
    # The first is the ways' to show which of them goes on.  The trial under way is finished, and
    # one is always done.
    assert counts[1:] == [3, 1]


def test_named_maps_stop_at_their_time_too(monkeypatch):
    X, y = problem()
    clock = [0.0]
    epochs = als._add_epoch

    def tick(*arguments):
        clock[0] += 1.0
        return epochs(*arguments)

    monkeypatch.setattr(als, "_add_epoch", tick)
    follow(clock, monkeypatch)
    settings = {**SMALL, "max_iter": 50, "tol": 0.0, "n_jobs": 1}
    model = FeatureLearningRegressor(MAPS, **settings, max_time=5).fit(X, y)
    assert model.n_iter_ == 6
    assert FeatureLearningRegressor(MAPS, **settings).fit(X, y).n_iter_ == 50


def test_time_must_be_positive():
    with pytest.raises(ValueError, match="max_time"):
        FeatureLearningRegressor(max_time=0).fit(*problem(20))


# Groups.


def test_rows_of_a_group_are_held_out_together():
    X, y = problem(400)
    groups = np.arange(400) // 8
    data = data_of(X, y[:, None], groups=groups)
    train, held = data.split(0.2, seed=3)
    out = held.mask(X, y[:, None], groups)
    assert out.sum() == 80
    assert len(np.unique(groups[out])) == 10
    np.testing.assert_array_equal(train.mask(X, y[:, None], groups), ~out)
    assert data.n_distinct == 400


@pytest.mark.slow
def test_an_automatic_fit_with_groups_is_not_fooled_by_copies_with_noise():
    """Four noisy copies of each row of pure noise: held-out copies would tell the answer."""
    rng = np.random.RandomState(0)
    X, y = rng.uniform(size=(200, 3)), rng.standard_normal(200)
    X = np.repeat(X, 4, axis=0) + 1e-3 * rng.standard_normal((800, 3))
    y, groups = np.repeat(y, 4), np.repeat(np.arange(200), 4).astype(str)
    options = {"n_estimators": 2, "effort": 0.1, "random_state": 0}
    fooled = FeatureLearningRegressor(**options).fit(X, y)
    aware = FeatureLearningRegressor(**options).fit(X, y, groups=groups)
    # The variance of the noise is 1: of 40 held-out groups the least of dozens of errors is not
    # far below, where copies of the answers leave next to nothing.
    assert min(fooled.selection_["held_out_mse"]) < 0.1
    assert min(aware.selection_["held_out_mse"]) > 0.5


def test_folds_by_group():
    X, y = problem(60)
    groups = np.arange(60) // 6
    search = KernelMachineRegressorCV(MAPS, cv=GroupKFold(5), **SMALL)
    assert search.fit(X, y, groups=groups).n_splits_ == 5
    with pytest.raises(ValueError, match="groups"):
        search.fit(X, y)


def test_wrong_groups_are_named():
    X, y = problem(60)
    with pytest.raises(ValueError, match="`groups` must have one label for each row"):
        KINDS["automatic"]().fit(X, y, groups=np.arange(59))
    with pytest.raises(ValueError, match=r"at least two groups, .* got 'a' for all 60 rows"):
        KINDS["automatic"]().fit(X, y, groups=np.full(60, "a"))
    weight = np.repeat([1.0, 0.0], 30)  # of what is left over
    with pytest.raises(ValueError, match=r"got 0 for all 30 rows. Leave `groups` out\."):
        KINDS["automatic"]().fit(X, y, sample_weight=weight, groups=np.arange(60) // 30)


# Folds, frames, scores.


def test_folds_that_were_used_up_are_an_error():
    X, y = problem(60)
    search = KernelMachineRegressorCV(MAPS, cv=KFold(3).split(X), **SMALL)
    search.fit(X, y)
    with pytest.raises(ValueError, match="gave no folds: an iterator can be used once only"):
        search.fit(X, y)
    assert np.isfinite(search.best_score_)


def test_a_lazy_frame_is_named():
    X, y = problem(60)
    lazy = pl.DataFrame(X, schema=list("abc")).lazy()
    model = KINDS["named"]()
    with pytest.raises(TypeError, match=r"Polars LazyFrame. Pass X.collect\(\)"):
        model.fit(lazy, y)
    model.fit(lazy.collect(), y)
    with pytest.raises(TypeError, match="Polars LazyFrame"):
        model.predict(lazy)


def test_r2_of_a_row_or_two_is_said_to_mean_nothing():
    X, y = problem(60)
    model = KINDS["named"]().fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match="measured on 2 rows"):
        model.score(X[:2], y[:2])


@pytest.mark.parametrize("wrong", [None, [1.0], np.ones(59), np.ones((60, 2))])
def test_a_score_needs_the_targets_of_its_rows(wrong):
    X, y = problem(60)
    model = KINDS["named"]().fit(X, y)
    with pytest.raises(ValueError, match="`y` must have the shape of the predictions"):
        model.score(X, wrong)


def test_weighted_repeated_and_shuffled_rows_give_one_automatic_fit():
    X, y = problem(40, n_inputs=12)
    count = np.random.RandomState(1).randint(0, 4, size=len(X))
    weighted = KINDS["automatic"]().fit(X, y, sample_weight=count)
    order = np.random.RandomState(2).permutation(count.sum())
    copies = np.repeat(X, count, axis=0)[order], np.repeat(y, count)[order]
    repeated = KINDS["automatic"]().fit(*copies)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.n_samples_fit_ == np.count_nonzero(count)
    assert repeated.n_samples_fit_ == count.sum()


def test_threads_of_a_fit_end_with_it():
    before = threading.active_count()
    KINDS["automatic"]().fit(*problem(60))
    assert threading.active_count() == before

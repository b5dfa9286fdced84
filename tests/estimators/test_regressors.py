"""What users rely on: units, shapes, names, attributes, stopping, and going on."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from polyadic import KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import (
    FourierFeatures,
    GaussianFeatures,
    MercerFeatures,
    PurePowerFeatures,
)
from tests import small
from tests.small import MAPS

X, Y = small.smooth_rows(60)


def regressor(**parameters):
    return small.regressor(**{"max_iter": 5, "alpha": 0.01, "tol": 0.0, **parameters})


@pytest.mark.parametrize(
    "feature_maps",
    [
        MAPS,
        [FourierFeatures(2.0), PurePowerFeatures()],
        [GaussianFeatures(0.5, 2.0), GaussianFeatures(1.0, 2.0)],
        [MercerFeatures("rbf", 0.5), MercerFeatures("matern32", 1.0)],
    ],
    ids=["damped", "mixed", "gaussian", "mercer"],
)
@pytest.mark.parametrize("objective", ["real", "complex"])
@pytest.mark.parametrize(
    ("mixing", "nonnegative"),
    [("simplex", False), ("l1", True), ("l2", False), ("fixed_norm", False)],
)
def test_a_curve_is_learned_better_than_by_a_line(feature_maps, objective, mixing, nonnegative):
    model = regressor(
        feature_maps=feature_maps,
        quantized=all(feature_map.factorises for feature_map in feature_maps),
        objective=objective,
        mixing=mixing,
        nonnegative=nonnegative,
    ).fit(X, Y)
    assert model.score(X, Y) > LinearRegression().fit(X, Y).score(X, Y)
    assert model.feature_weights_.shape == (2,)
    assert model.feature_maps_ == feature_maps


def test_inputs_and_target_may_be_in_any_units():
    plain = regressor().fit(X, Y).predict(X)
    moved = regressor().fit(X * [1e6, 1e-6, 3.0] + [5.0, 0.0, -7.0], 1e4 * Y - 1e5)
    prediction = moved.predict(X * [1e6, 1e-6, 3.0] + [5.0, 0.0, -7.0])
    np.testing.assert_allclose((prediction + 1e5) / 1e4, plain, rtol=1e-5, atol=1e-6)


def test_unscaled_inputs_are_what_a_scaler_before_makes_of_them():
    inside = regressor().fit(10 * X, Y)
    before = make_pipeline(MinMaxScaler(), regressor(scale_inputs=False)).fit(10 * X, Y)
    np.testing.assert_allclose(inside.predict(10 * X), before.predict(10 * X), rtol=1e-6)


def test_each_input_may_have_its_own_number_of_basis_functions():
    model = regressor(n_basis=[8, 2, 4]).fit(X, Y)
    assert [core.shape for core in model.cores_] == [(2, 3)] * 6
    plain = regressor(n_basis=np.array([5, 1, 3]), quantized=False).fit(X, Y)
    assert [core.shape for core in plain.cores_] == [(5, 3), (1, 3), (3, 3)]


def test_the_kernel_machine_is_the_model_with_one_map():
    machine = KernelMachineRegressor(
        MAPS[0], n_basis=4, rank=3, max_iter=5, alpha=0.01, tol=0.0, random_state=0
    ).fit(X, Y)
    single = regressor(feature_maps=MAPS[:1]).fit(X, Y)
    np.testing.assert_array_equal(machine.predict(X), single.predict(X))
    np.testing.assert_array_equal(machine.feature_weights_, [1.0])


def test_the_smooth_kernel_of_several_is_learned_for_a_smooth_target():
    maps = [MercerFeatures("rbf", 0.5), MercerFeatures("matern12", 0.02)]
    model = regressor(
        feature_maps=maps, quantized=False, n_basis=6, mixing="simplex", alpha=0.1, max_iter=20
    ).fit(X, Y)
    assert model.feature_weights_[0] > 0.9
    single = KernelMachineRegressor(maps[0], n_basis=6, rank=3, quantized=False, random_state=0)
    assert single.fit(X, Y).score(X, Y) > 0.95
    assert np.isfinite(single.predict(1e9 * X)).all()


def test_eigenfunctions_are_not_quantized():
    model = KernelMachineRegressor(MercerFeatures(), quantized=True)
    with pytest.raises(
        ValueError, match=r"MercerFeatures\(\)` cannot be quantized.*quantized=False"
    ):
        model.fit(X, Y)


def test_cross_validation_chooses_what_a_grid_search_chooses():
    groups = np.arange(60) % 4
    folds = list(LeaveOneGroupOut().split(X, Y, groups))
    maps = [FourierFeatures(0.3), *MAPS]
    small = {"n_basis": 4, "rank": 2, "max_iter": 3, "alpha": 0.01}
    ours = KernelMachineRegressorCV(maps, cv=folds, random_state=0, **small).fit(X, Y)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    machine = KernelMachineRegressor(random_state=seed, **small)
    search = GridSearchCV(
        machine, {"feature_map": maps}, cv=folds, scoring="neg_mean_squared_error"
    ).fit(X, Y)
    errors = -search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours.cv_results_["mean_test_mse"], errors, rtol=1e-9)
    assert ours.feature_map_ == search.best_params_["feature_map"] == maps[ours.best_index_]
    assert ours.feature_maps_ == [ours.feature_map_]
    assert ours.n_splits_ == 4


def test_several_targets_share_the_feature_weights():
    both = np.stack([Y, 1e3 * np.cos(5 * X[:, 1])], axis=1)
    model = regressor(n_basis=8, rank=4).fit(X, both)
    assert model.predict(X).shape == (60, 2)
    assert model.score(X, both) > 0.95
    assert model.feature_weights_.shape == (2,)
    assert model.cores_[0].shape == (2, 2, 4)
    column = regressor().fit(X, Y[:, None])
    assert column.predict(X).shape == (60, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], regressor().fit(X, Y).predict(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_names_of_a_frames_columns_are_remembered(frame):
    table = frame({"width": X[:, 0], "height": X[:, 1], "depth": X[:, 2]})
    model = regressor().fit(table, Y)
    assert list(model.feature_names_in_) == ["width", "height", "depth"]
    np.testing.assert_array_equal(model.predict(table), regressor().fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["height", "width", "depth"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # scikit-learn's check
def test_errors_name_the_column_of_a_frame():
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, 1.7e308, -1.7e308)})
    with pytest.raises(ValueError, match="Input 'b' spans"):
        regressor().fit(table, Y)


EDGES = {
    "one row": (X[:1], Y[:1]),
    "two rows": (X[:2], Y[:2]),
    "one column": (X[:, :1], Y),
    "constant column": (np.column_stack([X[:, 0], np.full(60, 5.0)]), Y),
    "all columns constant": (np.ones((60, 2)), Y),
    "constant target": (X, np.full(60, 7.0)),
    "twin rows": (np.repeat(X[:3], 20, axis=0), np.repeat(Y[:3], 20)),
}


@pytest.mark.parametrize(("X", "y"), EDGES.values(), ids=EDGES.keys())
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_edge_cases_predict_no_worse_than_the_mean(X, y, early_stopping):
    model = regressor(early_stopping=early_stopping).fit(X, y)
    error = np.mean((model.predict(X) - y) ** 2)
    assert error <= 1.2 * np.var(y) + 1e-12


def test_inputs_outside_the_training_range_are_extrapolated():
    model = regressor(feature_maps=[FourierFeatures(2.0)]).fit(X, Y)
    span = np.ptp(X, axis=0)
    # Features of period 2 on inputs scaled to [0, 1] repeat after twice the range.
    np.testing.assert_allclose(model.predict(X + 2 * span), model.predict(X), rtol=1e-8)
    assert np.isfinite(model.predict(1e6 * X)).all()


def test_the_loss_curve_has_one_falling_entry_an_epoch():
    model = regressor(max_iter=7).fit(X, Y)
    assert len(model.loss_curve_) == model.n_iter_ == 7
    assert (np.diff(model.loss_curve_) <= 1e-12).all()


def test_tol_ends_a_fit_that_has_converged():
    model = regressor(max_iter=200, tol=1e-3, n_iter_no_change=2).fit(X, Y)
    assert 2 < model.n_iter_ < 200
    gains = -np.diff(model.loss_curve_) / model.loss_curve_[:-1]
    assert (gains[-2:] <= 1e-3).all()


def test_early_stopping_keeps_the_best_epoch():
    noise = 0.5 * np.random.RandomState(1).standard_normal(60)
    parameters = {"rank": 10, "n_basis": 8, "early_stopping": True, "alpha": 1e-4}
    stopped = regressor(**parameters, max_iter=30, n_iter_no_change=3).fit(X, Y + noise)
    best = int(np.argmin(stopped.validation_curve_))
    assert best + 1 < stopped.n_iter_ < 30
    to_best = regressor(**parameters, max_iter=best + 1).fit(X, Y + noise)
    np.testing.assert_array_equal(stopped.predict(X), to_best.predict(X))


def test_a_warm_start_goes_on_where_the_fit_ended():
    halves = regressor(max_iter=3, warm_start=True).fit(X, Y)
    first = halves.loss_curve_
    halves.fit(X, Y)
    whole = regressor(max_iter=6).fit(X, Y)
    np.testing.assert_allclose([*first, *halves.loss_curve_], whole.loss_curve_, rtol=1e-9)
    np.testing.assert_allclose(halves.predict(X), whole.predict(X), rtol=1e-8)


def test_members_start_apart_and_are_averaged():
    model = regressor(n_estimators=3).fit(X, Y)
    average = model.predict(X)
    members, alone = model.members_, []
    assert sum(member.share for member in members) == pytest.approx(1.0)
    for member in members:
        model.members_ = [replace(member, share=1.0)]
        alone.append(model.predict(X))
    assert not np.array_equal(alone[0], alone[1])
    np.testing.assert_allclose(np.mean(alone, axis=0), average, rtol=1e-10)


def test_a_fitted_model_pickles_and_clones():
    model = regressor().fit(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_it_works_inside_scikit_learns_tools():
    wrapped = TransformedTargetRegressor(regressor(), func=np.exp, inverse_func=np.log)
    assert cross_val_score(make_pipeline(StandardScaler(), wrapped), X, Y, cv=3).min() > 0.5


def test_members_fitted_together_are_those_fitted_one_by_one():
    X, y = small.smooth_rows()
    alone, together = (
        small.regressor(n_estimators=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3)
    )
    np.testing.assert_array_equal(alone.predict(X), together.predict(X))
    assert alone.loss_curve_ == together.loss_curve_

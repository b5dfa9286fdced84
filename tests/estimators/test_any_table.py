"""Any table goes straight into a fit, and a fitted model takes tables like it."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

import polyadic
from polyadic import (
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.inspection import partial_dependence
from polyadic.model import als
from polyadic.sources.schema import TableWarning
from polyadic.storage.checkpoint import CheckpointError
from tests.small import MAPS, regressor, slow_but

NAN = np.nan
EFFECTS = {"red": 0.0, "green": 2.0, "blue": -1.0}


def automatic(**parameters):
    quick = {"n_estimators": 1, "effort": 0.02, "random_state": 0, "n_jobs": 1}
    return FeatureLearningRegressor(**{**quick, **parameters})


def table(n_rows=150, seed=0):
    """Return a messy table and a target that depends on all of its columns but one."""
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "size": rng.uniform(size=n_rows),
            "colour": rng.choice(list(EFFECTS), n_rows),
            "new": rng.uniform(size=n_rows) < 0.5,
            "sold": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.randint(0, 800, n_rows), "D"),
            "grade": pd.Categorical(
                rng.choice(list("ABC"), n_rows), categories=list("CBA"), ordered=True
            ),
        }
    )
    y = frame["size"] * 2 + frame["colour"].map(EFFECTS) + frame["grade"].cat.codes
    frame.loc[rng.uniform(size=n_rows) < 0.1, "size"] = NAN
    frame.loc[rng.uniform(size=n_rows) < 0.1, "colour"] = None
    return frame, y.to_numpy() + 0.05 * rng.standard_normal(n_rows)


def as_polars(frame):
    # Polars has no ordered category: the place of a level is a number.
    return pl.from_pandas(frame.astype({"grade": str}))


CONTAINERS = {
    "pandas": lambda frame: frame,
    "pandas, nullable": lambda frame: frame.convert_dtypes(),
    "polars": as_polars,
    "arrow": lambda frame: as_polars(frame).to_arrow(),
    "objects": lambda frame: frame.astype(object).to_numpy(),
    "lists": lambda frame: frame.astype(object).to_numpy().tolist(),
}


@pytest.fixture(scope="module")
def fitted():
    frame, y = table()
    return automatic().fit(frame, y), frame, y


def test_a_messy_table_is_learned(fitted):
    model, frame, _ = fitted
    later, target = table(seed=1)
    assert model.score(later, target) > 0.75
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(frame.columns)
    names = ["size", "colour", "new", "sold", "sold: day of year", "sold: weekday", "grade"]
    assert [each.name for each in model.inputs_] == names
    assert list(model.schema_.inputs.names) == names
    # What the target depends on matters, and what it does not depend on does not.
    relevance = {each.name: each.relevance for each in model.inputs_}
    assert min(relevance[name] for name in ("size", "colour", "grade")) > 0.02
    assert relevance["sold: weekday"] < 0.02


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_is_predicted_alike(container, fitted):
    model, frame, y = fitted
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        given = CONTAINERS[container](frame)
        np.testing.assert_array_equal(model.predict(given), model.predict(frame))
        assert model.score(given, pd.Series(y)) == model.score(frame, y)


@pytest.mark.parametrize("container", slow_but({"polars"}, list(CONTAINERS)[1:]))
def test_every_container_is_fitted_alike(container):
    frame, y = table(80)
    columns = frame[["size", "colour", "new", "sold"]]
    expected = automatic().fit(columns, y).predict(columns)
    given = CONTAINERS[container](frame)
    if isinstance(given, list):
        given = [row[:4] for row in given]
    elif isinstance(given, np.ndarray):
        given = given[:, :4]
    else:
        given = (
            given.select(columns.columns) if hasattr(given, "select") else given[columns.columns]
        )
    np.testing.assert_array_equal(automatic().fit(given, y).predict(given), expected)


def test_a_level_that_the_fit_did_not_see_is_an_average_one(fitted):
    model, frame, _ = fitted
    one = frame[:1]
    by_level = [model.predict(one.assign(colour=colour))[0] for colour in EFFECTS]
    with pytest.warns(TableWarning, match=r"did not see \(1 in 'colour'\).*average") as told:
        (unseen,) = model.predict(one.assign(colour="purple"))
    assert len(told) == 1
    assert told[0].filename == __file__
    assert min(by_level) < unseen < max(by_level)


def test_a_gap_that_the_fit_did_not_see_is_told(fitted):
    model, frame, y = fitted
    later = frame.astype({"new": "boolean"})
    later.loc[:4, "new"] = pd.NA
    with pytest.warns(TableWarning, match=r"gaps where it had none \(5 in 'new'\)"):
        model.score(later, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


def test_a_table_that_differs_is_an_error(fitted):
    model, frame, _ = fitted
    with pytest.raises(ValueError, match=r"(?s)same order.*column 0 is 'colour' and was 'size'"):
        model.predict(frame[["colour", "size", "new", "sold", "grade"]])
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*'sold' is missing"):
        model.predict(frame.drop(columns="sold"))
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*has 'id'. Leave"):
        model.predict(frame.assign(id=1))
    with pytest.raises(TypeError, match=r"column 'size' held numbers and now holds text"):
        model.predict(frame.assign(size="big"))
    with pytest.raises(ValueError, match="at least one row"):
        model.predict(frame[:0])


def test_rows_without_a_target_are_named():
    frame, y = table(40)
    y[[3, 7]] = NAN
    says = r"Input y contains NaN: .* in 2 of 40 rows, rows 3, 7 \(the first row is 0\)"
    for target in (y, pd.Series(y), pl.Series(y), pd.Series(y).convert_dtypes(), y.tolist()):
        with pytest.raises(ValueError, match=says):
            automatic().fit(frame, target)
    with pytest.raises(ValueError, match=says):
        regressor().fit(np.ones((40, 2)), np.column_stack([y, np.ones(40)]))
    model = regressor().fit(np.ones((40, 2)), np.ones(40))
    with pytest.raises(ValueError, match=says):
        model.score(np.ones((40, 2)), y)


# --------------------------------------------------------------------- arrays


def test_an_array_may_have_gaps():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(150, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    X[rng.uniform(size=X.shape) < 0.1] = NAN
    model = automatic().fit(X, y)
    assert [column.n_gaps for column in model.schema_.columns] == np.isnan(X).sum(axis=0).tolist()
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, y) > 0.5
    assert np.isfinite(model.predict(np.full((1, 3), NAN))).all()


def test_infinity_is_an_error_that_names_the_column():
    X, y = np.random.RandomState(0).uniform(size=(30, 3)), np.arange(30.0)
    X[4, 1] = -np.inf
    with pytest.raises(ValueError, match="contains infinity: column 1 is -inf in row 4"):
        automatic().fit(X, y)
    with pytest.raises(ValueError, match="contains infinity: column 'b' is -inf in row 4"):
        automatic().fit(pd.DataFrame(X, columns=list("abc")), y)


def test_numbers_can_be_named_as_categories():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randint(0, 4, 120), rng.uniform(size=120)])
    y = np.array([0.0, 3.0, -1.0, 1.0])[X[:, 0].astype(int)] + 0.05 * rng.standard_normal(120)
    model = automatic(categorical_features=[0]).fit(X, y)
    assert model.schema_.inputs.n_levels == (4, 0)
    assert model.inputs_[0].kind == "category"
    assert model.score(X, y) > 0.9
    with pytest.warns(TableWarning, match=r"1 in 'x0'"):
        model.predict([[7.0, 0.5]])
    with pytest.raises(ValueError, match=r"`categorical_features` .*got 5"):
        automatic(categorical_features=[5]).fit(X, y)
    with pytest.raises(ValueError, match=r"'categorical_features' .*Got 'colour'"):
        automatic(categorical_features="colour").fit(X, y)


@pytest.mark.slow
@pytest.mark.skipif(not pytest.importorskip("torch"), reason="needs torch")
def test_tensors_may_have_gaps():
    import torch

    rng = np.random.RandomState(0)
    X = rng.uniform(size=(100, 2))
    y = np.sin(4 * X[:, 0])
    X[rng.uniform(size=X.shape) < 0.1] = NAN
    model = automatic(engine="torch").fit(torch.tensor(X), torch.tensor(y))
    np.testing.assert_allclose(model.predict(torch.tensor(X)), model.predict(X))
    with pytest.raises(ValueError, match="row 0 holds infinity"):
        model.predict(torch.full((1, 2), torch.inf))
    with pytest.raises(ValueError, match="NaN or infinity"):
        regressor(engine="torch").fit(torch.tensor(X), torch.tensor(y))


# ----------------------------------------------------------------- named maps


@pytest.mark.parametrize(
    "model",
    [regressor(), KernelMachineRegressor(MAPS[0], n_basis=4), KernelMachineRegressorCV(MAPS, cv=2)],
    ids=["maps", "one map", "folds"],
)
def test_named_maps_take_numbers_only(model):
    frame, y = table(40)
    with pytest.raises(ValueError, match=r'column \'colour\' holds categories.*maps="auto"'):
        model.fit(frame, y)
    with pytest.raises(ValueError, match=r'contains NaN: column \'size\' has .*maps="auto"'):
        model.fit(frame[["new", "size"]], y)
    with pytest.raises(ValueError, match=r"column 'sold' holds dates"):
        model.fit(frame[["new", "sold"]], y)
    assert not get_tags(model).input_tags.allow_nan


def test_a_frame_of_numbers_is_an_array_to_named_maps():
    rng = np.random.RandomState(0)
    X, y = rng.uniform(size=(60, 3)), rng.uniform(size=60)
    expected = regressor().fit(X, y).predict(X)
    for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        model = regressor().fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame), expected)
        assert model.schema_.is_whole


def test_tags_say_what_a_fit_takes():
    assert get_tags(automatic()).input_tags.allow_nan
    assert get_tags(automatic()).input_tags.categorical
    assert not get_tags(automatic(mixing="l1")).input_tags.allow_nan


# ----------------------------------------------------------- what must not matter


def test_weighted_and_repeated_rows_give_one_fit():
    frame, y = table(80)
    frame = frame[["size", "colour"]]
    weight = np.random.RandomState(0).randint(0, 4, 80).astype(float)
    frame.loc[weight == 0, "colour"] = "never"  # rows that do not count have no say
    model = automatic().fit(frame, y, sample_weight=weight)
    assert "never" not in model.schema_.columns[1].levels
    repeated = np.repeat(np.arange(80), weight.astype(int))
    again = automatic().fit(frame.iloc[repeated], y[repeated])
    assert again.schema_.columns[1].levels == model.schema_.columns[1].levels
    used = frame[weight > 0]
    np.testing.assert_array_equal(again.predict(used), model.predict(used))


def test_the_names_of_levels_do_not_matter():
    frame, y = table(80)
    columns = frame[["size", "colour"]]
    renamed = columns.assign(colour=columns["colour"].map("level {}".format, na_action="ignore"))
    model, again = automatic().fit(columns, y), automatic().fit(renamed, y)
    np.testing.assert_array_equal(model.predict(columns), again.predict(renamed))


# ---------------------------------------------------------------------- files


def test_a_loaded_model_takes_the_raw_table(fitted, tmp_path):
    model, frame, _ = fitted
    polyadic.save(model, tmp_path / "model")
    loaded = polyadic.load(tmp_path / "model")
    assert loaded.schema_ == model.schema_
    for again in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        with pytest.warns(TableWarning, match="1 in 'colour'"):
            again.predict(frame[:1].assign(colour="purple"))


def test_parameters_survive_a_clone_and_a_file(tmp_path):
    frame, y = table(40)
    model = automatic(categorical_features=["new"]).fit(frame[["new", "size"]], y)
    assert clone(model).categorical_features == ["new"]
    polyadic.save(model, tmp_path / "model")
    assert polyadic.load(tmp_path / "model").categorical_features == ["new"]


def test_a_refit_forgets_the_old_table(fitted):
    frame, y = table(40)
    model = automatic().fit(frame, y)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.full((40, 2), np.inf), y)
    assert np.isfinite(model.predict(frame)).all()  # a fit that fails changes nothing
    model.fit(np.random.RandomState(0).uniform(size=(40, 2)), y)
    assert model.schema_.inputs.names == ("x0", "x1")
    assert not hasattr(model, "feature_names_in_")


def test_a_fit_does_not_go_on_with_other_levels(tmp_path, monkeypatch):
    frame, y = table(80)
    columns, path = frame[["size", "colour"]], tmp_path / "fit.checkpoint"
    solve, steps = als.solve_core, []

    def interrupt(*arguments):
        steps.append(1)
        if len(steps) > 20:
            raise KeyboardInterrupt
        return solve(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(als, "solve_core", interrupt)
        with pytest.raises(KeyboardInterrupt):
            automatic(checkpoint=path).fit(columns, y)
    assert path.exists()
    renamed = columns.assign(colour=columns["colour"].map("level {}".format, na_action="ignore"))
    with pytest.raises(CheckpointError, match="its columns differ"):
        automatic(checkpoint=path).fit(renamed, y)
    model = automatic(checkpoint=path).fit(columns, y)
    np.testing.assert_array_equal(
        model.predict(columns), automatic().fit(columns, y).predict(columns)
    )


def design(seed=0, n=1_000, columns=2):
    """Return a few combinations of levels, and the chance of a label at each."""
    rng = np.random.RandomState(seed)
    levels = rng.randint(0, 3, size=(n, columns))
    frame = pd.DataFrame({f"c{d}": np.array(list("xyz"))[levels[:, d]] for d in range(columns)})
    chance = 1 / (1 + np.exp(2.0 - 1.3 * levels.sum(axis=1)))
    return frame, chance, rng


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3])
def test_a_few_combinations_of_levels_are_learned_though_rows_repeat(columns):
    frame, chance, rng = design(columns=columns)
    labels = rng.uniform(size=len(chance)) < chance
    model = FeatureLearningClassifier(random_state=0, effort=0.3).fit(frame, labels)
    found = model.predict_proba(frame)[:, 1]
    assert np.abs(found - chance).mean() < 0.06  # that of the mean is 0.2 or more
    regressor = FeatureLearningRegressor(random_state=0, effort=0.3)
    assert np.abs(regressor.fit(frame, labels.astype(float)).predict(frame) - chance).mean() < 0.06


@pytest.fixture
def many(monkeypatch):
    """Have a thousand rows count as many."""
    monkeypatch.setattr("polyadic.sources.arrays.EXACT_ROWS", 900)
    monkeypatch.setattr("polyadic.rows.copies._LOOKED_AT", 300)


@pytest.mark.slow
def test_many_rows_of_a_few_combinations_are_learned_from_files(tmp_path, many):
    frame, chance, rng = design()
    frame["y"] = np.where(rng.uniform(size=len(chance)) < chance, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = polyadic.open_rows(tmp_path / "t.csv", "y")
    model = FeatureLearningClassifier(random_state=0, effort=0.1, n_estimators=1).fit(source)
    assert np.abs(model.predict_proba(source)[:, 1] - chance).mean() < 0.06


@pytest.mark.cluster
@pytest.mark.slow
def test_many_rows_of_a_few_combinations_are_learned_on_a_cluster(many):
    dd = pytest.importorskip("dask.dataframe")
    from tests.contract.clusters import client

    frame, chance, rng = design()
    y = (rng.uniform(size=len(chance)) < chance).astype(float)
    with client().as_current():
        rows = dd.from_pandas(frame.assign(y=y), npartitions=3)
        model = FeatureLearningRegressor(random_state=0, effort=0.1, n_estimators=1)
        model.fit(rows[["c0", "c1"]], rows["y"])
    assert np.abs(model.predict(frame) - chance).mean() < 0.06


def test_a_group_must_be_there():
    X, groups = np.arange(40.0)[:, None], np.array(["a", "b", None, "c"] * 10, dtype=object)
    with pytest.raises(ValueError, match=r"`groups` must have .* 10 have none, the first in row 2"):
        FeatureLearningRegressor().fit(X, X[:, 0], groups=groups)


def test_text_may_come_where_there_were_gaps(tmp_path):
    X = pd.DataFrame({"x": np.arange(60.0), "z": [None] * 60})
    model = FeatureLearningRegressor(random_state=0, effort=0.1, n_estimators=1).fit(X, X["x"])
    assert [column.kind for column in model.schema_.columns] == ["number", "gaps"]
    polyadic.save(model, tmp_path / "model.polyadic")
    again, expected = polyadic.load(tmp_path / "model.polyadic"), model.predict(X)
    later = X.assign(z="text")
    with pytest.warns(TableWarning, match=r"values where it had none \(60 in 'z'\)"):
        np.testing.assert_array_equal(again.predict(later), expected)
    later.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(TableWarning, match=r"values where it had none \(60 in 'z'\)"):
        found = again.predict(polyadic.open_rows(tmp_path / "t.csv"))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="'z' had nothing but gaps in the training rows"):
        partial_dependence(model, X, "z")


def test_what_a_level_says_exactly_is_learned_exactly():
    frame, _, _ = design(columns=1)
    y = frame["c0"].map({"x": 1.0, "y": 5.0, "z": 9.0})
    model = FeatureLearningRegressor(random_state=0, effort=0.3).fit(frame, y)
    assert model.score(frame, y) > 0.999


def test_weights_and_order_of_combinations_do_not_matter():
    frame, chance, rng = design(n=200)
    y, count = (rng.uniform(size=200) < chance).astype(float), rng.randint(1, 4, 200)
    options = {"random_state": 0, "effort": 0.2}
    weighted = FeatureLearningRegressor(**options).fit(frame, y, sample_weight=count)
    rows = rng.permutation(np.repeat(np.arange(200), count))
    repeated = FeatureLearningRegressor(**options).fit(frame.iloc[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict(frame), repeated.predict(frame))


def test_a_table_that_is_there_several_times_is_judged_as_once(rng):
    X = rng.uniform(size=(60, 2))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    options = {"random_state": 0, "effort": 0.2}
    once = FeatureLearningRegressor(**options).fit(X, y)
    often = FeatureLearningRegressor(**options).fit(np.tile(X, (8, 1)), np.tile(y, 8))
    np.testing.assert_allclose(often.predict(X), once.predict(X), rtol=1e-6)


def test_a_target_of_dates_is_an_error():
    X = np.arange(40.0)[:, None]
    with pytest.raises(TypeError, match="`y` must hold numbers, got datetime64"):
        FeatureLearningRegressor().fit(X, pd.Series(pd.date_range("2020", periods=40)))


def test_categories_of_intervals_and_of_times_are_levels_like_others(rng):
    x = pd.Series(rng.uniform(size=60))
    days = pd.to_datetime(pd.Series(["2020-01-01", "2020-02-01", "2020-03-01"] * 20))
    frame = pd.DataFrame({"band": pd.cut(x, 3).cat.as_unordered(), "day": days.astype("category")})
    model = FeatureLearningRegressor(random_state=0, effort=0.2).fit(frame, x)
    assert [each.n_levels for each in model.schema_.columns] == [3, 3]
    assert model.score(frame, x) > 0.8


def test_a_target_of_text_names_the_classifier():
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match=r"`y` must hold numbers.*FeatureLearningClassifier"):
        FeatureLearningRegressor().fit(X, list("ababab"))

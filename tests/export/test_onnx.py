"""Whole estimators as models of ONNX, held to their own predictions."""

from __future__ import annotations

import builtins

import numpy as np
import onnx
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import polyadic
from polyadic.features import FourierFeatures, PurePowerFeatures
from tests.export.graphs import assert_predicts_alike, predict, run
from tests.small import MAPS, regressor, smooth_rows, turned_rows

pytest.importorskip("onnxruntime")
QUICK = {"effort": 0.1, "n_estimators": 2, "random_state": 0}
X, Y = smooth_rows(200, noise=0.1)
FAR = np.vstack([X, 3 * X - 1])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_estimators": 2, "mixing": "l1"},
        {"feature_maps": [FourierFeatures(2.0), PurePowerFeatures()], "quantized": False},
        {"scale_inputs": False},
        {"loss": "poisson"},
    ],
    ids=str,
)
def test_named_maps(parameters):
    assert_predicts_alike(regressor(**parameters).fit(X, np.exp(Y)), FAR)


def test_several_targets():
    assert_predicts_alike(regressor().fit(X, np.column_stack([Y, Y**2, X[:, 0]])), FAR)


def test_kernel_machines():
    model = polyadic.KernelMachineClassifier(rank=3, n_basis=4, max_iter=3, random_state=0)
    assert_predicts_alike(model.fit(X, np.digitize(Y, [0, 1]) - 5), FAR)
    search = polyadic.KernelMachineRegressorCV(MAPS, cv=2, n_basis=4, rank=2, max_iter=2)
    assert_predicts_alike(search.fit(X, Y), FAR)


@pytest.fixture(scope="module")
def automatic():
    """An automatic fit whose members see the inputs in different ways, and with a trend."""
    return polyadic.FeatureLearningRegressor(**{**QUICK, "n_estimators": 3}).fit(X, Y)


def test_learned_features(automatic):
    assert_predicts_alike(automatic, FAR)


def test_directions():
    rows, y = turned_rows()
    rows[:40, 0] = rows[:40, 1]  # ties
    model = polyadic.FeatureLearningRegressor(**QUICK).fit(rows, y)
    assert any(member.inputs.directions is not None for member in model.members_)
    assert_predicts_alike(model, np.vstack([rows, 3 * rows - 1]))


@pytest.mark.slow
def test_learned_features_of_several_targets():
    model = polyadic.FeatureLearningRegressor(**QUICK).fit(X, np.column_stack([Y, X[:, 1]]))
    assert_predicts_alike(model, FAR)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["absolute_error", "gamma"])
def test_learned_features_under_a_loss(loss):
    model = polyadic.FeatureLearningRegressor(**QUICK, loss=loss).fit(X, np.exp(Y))
    assert_predicts_alike(model, FAR)


def messy(n_rows=240):
    """Return a table with everything in it, and a target."""
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "size": rng.lognormal(size=n_rows),
            "age": rng.uniform(0, 90, n_rows),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "rooms": pd.Categorical(rng.choice([1, 2, 5], n_rows)),
            "grade": pd.Categorical(rng.choice(list("abc"), n_rows), list("cba"), ordered=True),
            "sold": pd.Timestamp("2019-05-01")
            + pd.to_timedelta(rng.randint(900, size=n_rows), "D"),
            "label": rng.choice(["north", "süd"], n_rows),
        }
    )
    y = np.log(frame["size"]) + (frame["colour"] == "red") + frame["sold"].dt.day_of_year / 300
    y = (
        y
        + 0.02 * frame["age"] * (frame["rooms"].astype(int) > 1)
        + 0.1 * rng.standard_normal(n_rows)
    )
    for name in ("size", "age", "colour", "sold", "grade"):
        frame.loc[rng.uniform(size=n_rows) < 0.15, name] = None
    return frame, y


@pytest.fixture(scope="module")
def messy_model():
    return polyadic.FeatureLearningRegressor(**QUICK).fit(*messy())


@pytest.fixture
def messy_rows():
    """Rows that have levels and gaps which the fit did not see, and numbers out of range."""
    rows = messy()[0]
    rows.loc[:9, "colour"] = "violet"
    rows.loc[5:20, "label"] = None
    rows.loc[15:30, "size"] = 1e6
    rows["rooms"] = pd.Categorical(rows["rooms"].astype(int).where(rows.index % 7 > 0, 4))
    return rows


@pytest.mark.filterwarnings("ignore::polyadic.sources.schema.TableWarning")
def test_tables_with_categories_gaps_and_dates(messy_model, messy_rows):
    assert_predicts_alike(messy_model, messy_rows)


def test_inputs_are_named_and_say_what_they_hold(messy_model):
    inputs = {each.name: each for each in polyadic.to_onnx(messy_model).graph.input}
    assert list(inputs) == ["size", "age", "colour", "rooms", "grade", "sold", "label_"]
    kinds = {name: each.type.tensor_type.elem_type for name, each in inputs.items()}
    assert kinds["size"] == kinds["rooms"] == onnx.TensorProto.DOUBLE
    assert kinds["colour"] == kinds["grade"] == onnx.TensorProto.STRING
    assert kinds["sold"] == onnx.TensorProto.INT64
    assert "empty text is a gap" in inputs["colour"].doc_string
    assert "Microseconds of wall time since 1970" in inputs["sold"].doc_string


@pytest.mark.slow
def test_classes_of_tables():
    frame, y = messy(150)
    labels = np.array(["a", "b", "c", "ü"])[pd.qcut(y, 4, labels=False)]
    model = polyadic.FeatureLearningClassifier(**QUICK).fit(frame, labels)
    assert_predicts_alike(model, frame)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([3, 7], np.int64), (["no", "yes"], object), ([False, True], bool), ([1.0, 2.0], float)],
)
def test_labels_keep_their_kind(labels, kind):
    model = polyadic.KernelMachineClassifier(rank=2, n_basis=2, max_iter=1, random_state=0)
    model.fit(X, np.array(labels)[(Y > 1).astype(int)])
    found, _ = predict(model, X)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, model.predict(X))


def test_a_deviation_that_nobody_knows_is_no_output():
    model = regressor(loss="absolute_error").fit(X, Y)
    assert [each.name for each in polyadic.to_onnx(model).graph.output] == ["prediction"]


def test_deviations_after_a_calibration(automatic):
    model = clone(automatic)
    vars(model).update(vars(automatic))
    model.calibrate(X[:100], 2 * Y[:100])
    np.testing.assert_allclose(predict(model, FAR), model.predict(FAR, return_std=True), rtol=1e-7)
    assert not np.allclose(predict(model, FAR)[1], predict(automatic, FAR)[1])


def test_intervals_follow_from_deviations(automatic):
    found, std = predict(automatic, FAR)
    errors = automatic.uncertainty_.errors[0]
    factors = errors.quantiles([0.05, 0.95]) / errors.deviation
    wanted = automatic.predict_interval(FAR, coverage=0.9)
    np.testing.assert_allclose(found[:, None] + std[:, None] * factors, wanted, rtol=1e-9)


def test_noise_is_predicted_by_its_mean():
    noise = np.random.RandomState(1).standard_normal((120, 4))
    model = polyadic.FeatureLearningRegressor(**QUICK).fit(noise[:, :3], noise[:, 3])
    assert not any(member.share for member in model.members_)
    found, std = predict(model, noise[:7, :3])
    np.testing.assert_array_equal(found, np.full(7, model.predict(noise[:1, :3])[0]))
    np.testing.assert_allclose(std, model.predict(noise[:7, :3], return_std=True)[1], rtol=1e-5)


def test_maps_of_no_weight_predict_the_mean():
    with pytest.warns(UserWarning, match="All feature weights became zero"):
        model = regressor(mixing="l1", beta=1e9).fit(X, Y)
    found = predict(model, X[:5])
    np.testing.assert_allclose(found, model.predict(X[:5], return_std=True))


def test_a_gap_that_a_named_map_cannot_take_has_no_prediction():
    rows = X[:4].copy()
    rows[2, 1] = np.nan
    for found in run(polyadic.to_onnx(regressor().fit(X, Y)), {"X": rows}):
        assert np.isnan(found).tolist() == [False, False, True, False]


def test_single_precision_at_the_door(automatic):
    found, std = predict(automatic, X, dtype="float32")
    assert found.dtype == std.dtype == np.float32
    wanted = automatic.predict(X.astype(np.float32))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * Y.std())


def test_any_number_of_rows(automatic):
    model = polyadic.to_onnx(automatic)
    whole = run(model, {"X": X})[0]
    for n_rows in (0, 1, 3):
        found = run(model, {"X": X[:n_rows]})[0]
        np.testing.assert_allclose(found, whole[:n_rows], rtol=1e-12)


def test_a_graph_is_the_same_after_a_file(automatic, tmp_path):
    polyadic.save(automatic, tmp_path / "m.polyadic")
    again = polyadic.load(tmp_path / "m.polyadic")
    assert polyadic.to_onnx(again) == polyadic.to_onnx(automatic)


def test_the_file_holds_what_is_returned(automatic, tmp_path):
    found = polyadic.to_onnx(automatic, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == found
    assert found.producer_name == "polyadic"


def test_operators_are_those_of_the_standard(automatic, messy_model):
    for model in (automatic, messy_model):
        found = polyadic.to_onnx(model)
        domains = {node.domain for node in found.graph.node}
        assert domains <= {"", "ai.onnx.ml"}
        assert {each.domain for each in found.opset_import} == {"", "ai.onnx.ml"}


def test_wrong_arguments_are_explained(automatic):
    with pytest.raises(TypeError, match=r"must be an estimator of polyadic, got Ridge.*skl2onnx"):
        polyadic.to_onnx(Ridge())
    with pytest.raises(NotFittedError):
        polyadic.to_onnx(clone(automatic))
    with pytest.raises(ValueError, match="`dtype` must be 'float64' or 'float32', got 'int8'"):
        polyadic.to_onnx(automatic, dtype="int8")
    with pytest.raises(ValueError, match="must have the 3 columns of the fit, got 2"):
        polyadic.onnx_inputs(automatic, X[:, :2])


def test_what_to_install_is_told(automatic, monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'polyadic\[onnx\]'"):
        polyadic.to_onnx(automatic)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["titanic", "pbc"])
@pytest.mark.filterwarnings("ignore::polyadic.sources.schema.TableWarning")
def test_public_tables(name, data_folder):
    frame = pd.read_csv(data_folder / "tables" / f"{name}.csv.gz")
    y = frame.pop(frame.columns[-1])
    kind = (
        polyadic.FeatureLearningClassifier if y.nunique() < 5 else polyadic.FeatureLearningRegressor
    )
    model = kind(effort=0.1, n_estimators=1, random_state=0).fit(frame[::2], y[::2])
    assert_predicts_alike(model, frame)

"""Pipelines of scikit-learn that skl2onnx exports."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import polyadic
from tests.export.graphs import run
from tests.small import regressor, smooth_rows

skl2onnx = pytest.importorskip("skl2onnx")
from skl2onnx.common.data_types import (  # noqa: E402
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)

X, Y = smooth_rows(150, noise=0.1)
NUMBERS = [("X", DoubleTensorType([None, 3]))]


@pytest.fixture(autouse=True, scope="module")
def _register():
    polyadic.export.register_skl2onnx()
    polyadic.export.register_skl2onnx()  # twice does no harm


def classifier():
    return polyadic.KernelMachineClassifier(rank=2, n_basis=4, max_iter=2, random_state=0)


def test_a_scaler_and_a_regressor():
    model = make_pipeline(StandardScaler(), regressor()).fit(X, Y)
    (found,) = run(skl2onnx.to_onnx(model, initial_types=NUMBERS), {"X": X})
    np.testing.assert_allclose(found[:, 0], model.predict(X), atol=1e-10)


def test_single_precision():
    model = make_pipeline(StandardScaler(), regressor()).fit(X, Y)
    graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    (found,) = run(graph, {"X": X.astype(np.float32)})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], model.predict(X), atol=1e-5)


def test_several_targets_and_the_newest_operators():
    model = make_pipeline(StandardScaler(), regressor()).fit(X, np.column_stack([Y, X[:, 0]]))
    newest = skl2onnx.__max_supported_opset__
    graph = skl2onnx.to_onnx(model, initial_types=NUMBERS, target_opset=newest)
    (found,) = run(graph, {"X": X})
    np.testing.assert_allclose(found, model.predict(X), atol=1e-10)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_standard_deviations(n_targets):
    model = make_pipeline(StandardScaler(), regressor())
    model.fit(X, np.column_stack([Y, X[:, 0]])[:, :n_targets])
    options = {id(model[-1]): {"return_std": True}}
    graph = skl2onnx.to_onnx(model, initial_types=NUMBERS, options=options)
    assert [each.name for each in graph.graph.output] == ["variable", "std"]
    found, wanted = run(graph, {"X": X}), model.predict(X, return_std=True)
    for each, of_python in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, of_python.reshape(len(X), -1), rtol=1e-9, atol=1e-12)
    of_kind = {type(model[-1]): {"return_std": True}}
    graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32), options=of_kind)
    _, single = run(graph, {"X": X.astype(np.float32)})
    np.testing.assert_allclose(single, found[1], rtol=1e-5)


def test_deviations_of_a_model_that_knows_none_are_refused():
    model = regressor(loss="huber").fit(X, Y)
    options = {id(model): {"return_std": True}}
    with pytest.raises(AttributeError, match="has no uncertainty"):
        skl2onnx.to_onnx(model, initial_types=NUMBERS, options=options)


@pytest.mark.parametrize("labels", [["high", "low"], [4, 2], [False, True]])
def test_classifiers(labels):
    model = make_pipeline(StandardScaler(), classifier())
    model.fit(X, np.array(labels)[(Y > 1).astype(int)])
    options = {id(model): {"zipmap": False}}
    label, p = run(skl2onnx.to_onnx(model, initial_types=NUMBERS, options=options), {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-12)


def test_maps_from_labels_and_labels_by_their_places():
    model = make_pipeline(StandardScaler(), classifier()).fit(X, np.where(Y > 1, "high", "low"))
    label, maps = run(skl2onnx.to_onnx(model, initial_types=NUMBERS), {"X": X})
    assert set(maps[0]) == {"high", "low"}
    assert abs(maps[0]["high"] - model.predict_proba(X)[0, 0]) < 1e-6
    options = {id(model): {"nocl": True, "zipmap": False}}
    place, _ = run(skl2onnx.to_onnx(model, initial_types=NUMBERS, options=options), {"X": X})
    np.testing.assert_array_equal(model.classes_[place], label)


def test_two_of_them_in_a_stack():
    model = StackingRegressor([("a", regressor()), ("b", regressor(rank=2)), ("c", Ridge())], cv=2)
    model.fit(X, Y)
    (found,) = run(skl2onnx.to_onnx(model, initial_types=NUMBERS), {"X": X})
    np.testing.assert_allclose(found[:, 0], model.predict(X), atol=1e-9)


def table():
    frame = pd.DataFrame(X, columns=list("abc"))
    return frame.assign(k=np.where(X[:, 2] > 0.6, "u", "v"))


TABLE = [("a", DoubleTensorType([None, 1])), ("b", DoubleTensorType([None, 1])),
         ("c", FloatTensorType([None, 1])), ("k", StringTensorType([None, 1]))]  # fmt: skip


def test_a_transformer_of_columns():
    some = make_column_transformer((StandardScaler(), list("ab")), (OneHotEncoder(), ["k"]))
    model = make_pipeline(some, regressor()).fit(table(), Y)
    types = [each for each in TABLE if each[0] != "c"]
    inputs = {name: table()[[name]].to_numpy() for name, _ in types}
    (found,) = run(skl2onnx.to_onnx(model, initial_types=types), inputs)
    np.testing.assert_allclose(found[:, 0], model.predict(table()), atol=1e-10)


@pytest.mark.slow
def test_a_table_without_other_steps():
    frame = table()
    frame["a"] = (frame["a"] * 10).round()
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0)
    model.fit(frame, Y)
    frame["c"] = frame["c"].astype(np.float32)
    types = [("a", Int64TensorType([None, 1])), *TABLE[1:]]
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    inputs["a"] = inputs["a"].astype(np.int64)
    options = {id(model): {"return_std": True}}
    found = run(skl2onnx.to_onnx(model, initial_types=types, options=options), inputs)
    wanted = model.predict(frame, return_std=True)
    np.testing.assert_allclose(np.column_stack(found), np.column_stack(wanted), atol=1e-10)


def test_columns_in_lots():
    model = regressor().fit(X, Y)
    types = [("one", DoubleTensorType([None, 2])), ("two", DoubleTensorType([None, 1]))]
    (found,) = run(skl2onnx.to_onnx(model, initial_types=types), {"one": X[:, :2], "two": X[:, 2:]})
    np.testing.assert_allclose(found[:, 0], model.predict(X), atol=1e-10)


def test_columns_that_are_missing_are_told():
    types = [("one", DoubleTensorType([None, 1])), ("two", DoubleTensorType([None, 1]))]
    with pytest.raises(ValueError, match=r"3 columns of its fit, got inputs of \[1, 1\] columns"):
        skl2onnx.to_onnx(regressor().fit(X, Y), initial_types=types)

"""Graphs that are run: small ones of a function under test, and those of estimators."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

onnxruntime = pytest.importorskip("onnxruntime")


def run_function(write, **inputs):
    """Return what a function that writes one value into a graph computes from arrays."""
    from polyadic.export._graph import OPSETS, Graph

    graph = Graph("g_")
    value = write(graph, *inputs)
    infos = [
        helper.make_tensor_value_info(name, _type_of(array), [None] * array.ndim)
        for name, array in inputs.items()
    ]
    graph.name(value, "found")
    packed = graph.pack(
        "test", infos, [helper.make_tensor_value_info("found", TensorProto.DOUBLE, [None] * 2)]
    )
    opsets = [helper.make_opsetid(*each) for each in OPSETS.items()]
    (found,) = run(helper.make_model(packed, opset_imports=opsets, ir_version=8), inputs)
    return found


def _type_of(array):
    return (
        TensorProto.STRING
        if array.dtype.kind in "OU"
        else helper.np_dtype_to_tensor_dtype(array.dtype)
    )


def run(model, inputs):
    """Return the outputs of a model that ONNX takes for sound."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, inputs)


def predict(estimator, X, dtype="float64", return_std=True):
    """Return what the graph of an estimator says of rows."""
    import polyadic

    inputs = polyadic.onnx_inputs(estimator, X, dtype=dtype)
    return run(polyadic.to_onnx(estimator, dtype=dtype, return_std=return_std), inputs)


def assert_predicts_alike(estimator, X, tolerance=1e-10):
    """Compare the graph of an estimator with its own predictions, in units of their spread."""
    if hasattr(estimator, "predict_proba"):
        labels, found = predict(estimator, X)
        wanted = estimator.predict_proba(X)
        np.testing.assert_array_equal(labels, estimator.predict(X))
        unit = 1.0
    else:
        (found,) = predict(estimator, X, return_std=False)
        wanted = estimator.predict(X)
        unit = wanted.std(axis=0).max()
        if "uncertainty_" in vars(estimator):
            same, std = predict(estimator, X)
            np.testing.assert_allclose(same, wanted, rtol=0, atol=tolerance * unit)
            np.testing.assert_allclose(std, estimator.predict(X, return_std=True)[1], rtol=1e-7)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * unit)

"""Estimators inside pipelines of scikit-learn, which skl2onnx turns into graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from polyadic.estimators import (
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.export._files import import_onnx

_REGRESSORS = (FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV)
_CLASSIFIERS = (FeatureLearningClassifier, KernelMachineClassifier)
# The one that Gaussian processes of scikit-learn have.
_STD = "return_std"
# Those of classifiers of scikit-learn that do not depend on how a classifier computes.
_CLASS_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [False, True],
}


def register_skl2onnx() -> None:
    """Tell skl2onnx how the estimators of this package become graphs.

    Afterwards ``skl2onnx.to_onnx`` takes pipelines and stacks that have them as steps.  As of a
    Gaussian process, the option `return_std` of a regressor that is the last step adds an output,
    the standard deviations that ``predict(X, return_std=True)`` returns.

    Examples
    --------
    >>> import numpy as np
    >>> import polyadic
    >>> import skl2onnx
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> polyadic.export.register_skl2onnx()
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    >>> graph = skl2onnx.to_onnx(pipeline, X[:1].astype(np.float32))
    >>> [each.name for each in graph.graph.output]
    ['variable']
    >>> options = {id(model): {"return_std": True}}
    >>> graph = skl2onnx.to_onnx(pipeline, X[:1].astype(np.float32), options=options)
    >>> [each.name for each in graph.graph.output]
    ['variable', 'std']
    """
    import_onnx()
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "Pipelines need the package skl2onnx, which is not installed. Install it with "
            "pip install skl2onnx."
        ) from error
    for kind in _CLASSIFIERS:
        update_registered_converter(kind, _alias(kind), set_shapes, convert, options=_CLASS_OPTIONS)
    std: Any = {"parser": parse, "options": {_STD: [False, True]}}
    for regressor in _REGRESSORS:
        update_registered_converter(regressor, _alias(regressor), set_shapes, convert, **std)


def _alias(kind: type) -> str:
    return f"Polyadic{kind.__name__}"


def parse(scope: Any, estimator: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Say how many outputs a regressor has in a pipeline: with `return_std` there are two."""
    operator = scope.declare_local_operator(_alias(type(estimator)), estimator)
    operator.inputs = inputs
    names = ["variable"]
    if scope.get_options(estimator, {_STD: False})[_STD]:
        estimator._error_predictor()  # raises an error that says why where there is none
        names.append("std")
    number = _number_type(operator)
    operator.outputs.extend(scope.declare_local_variable(name, number()) for name in names)
    return operator.outputs


def set_shapes(operator: Any) -> None:
    """Say which outputs an estimator has in a pipeline."""
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )

    estimator, scope = operator.raw_operator, operator.scope_inst
    number = _number_type(operator)
    if not is_classifier(estimator):
        for output in operator.outputs:
            output.type = number([None, estimator._predictor().n_targets])
        return
    kind = _labels(scope, estimator).dtype.kind
    label = {"U": StringTensorType, "f": DoubleTensorType}.get(kind, Int64TensorType)
    operator.outputs[0].type = label([None])
    if scope.get_options(estimator, {"zipmap": True})["zipmap"]:
        number = FloatTensorType  # a map from labels has no doubles
    operator.outputs[1].type = number([None, len(estimator.classes_)])


def _labels(scope: Any, estimator: Any) -> NDArray[Any]:
    """Return the labels of a classifier; with the option nocl they are their places."""
    from polyadic.export._onnx import plain_labels

    if scope.get_options(estimator, {"nocl": False})["nocl"]:
        return np.arange(len(estimator.classes_))
    return plain_labels(estimator)


def _number_type(operator: Any) -> Any:
    """Return the type of numbers that come out: doubles where some that go in are."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kinds = {type(each.type) for each in operator.inputs}
    return DoubleTensorType if DoubleTensorType in kinds else FloatTensorType


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Write an estimator into the graph of a pipeline."""
    from polyadic.export._graph import OPSETS, Graph
    from polyadic.export._onnx import door_of, write_outputs

    estimator = operator.raw_operator
    graph = Graph(f"{scope.get_unique_operator_name('polyadic')}_")
    names = _columns(graph, operator, estimator.n_features_in_)
    door = door_of(estimator, "float64")
    labels = _labels(scope, estimator) if is_classifier(estimator) else None
    # A classifier has two outputs too, and no deviations.
    with_std = labels is None and len(operator.outputs) > 1
    uncertainty = estimator.uncertainty_ if with_std else None
    found = write_outputs(graph, estimator, door, names, labels, uncertainty)
    for (value, _), output in zip(found.values(), operator.outputs, strict=True):
        kind, shape = output.type.to_onnx_type().tensor_type.elem_type, output.type.shape
        value = graph.add("Cast", value, to=kind)
        if len(shape) > 1:
            value = graph.add("Reshape", value, [-1, shape[1]])
        graph.name(value, output.onnx_name)
    container.nodes.extend(graph.nodes)
    container.initializers.extend(graph.constants)
    container.node_domain_version_pair_sets.update(OPSETS.items())


def _columns(graph: Any, operator: Any, n_columns: int) -> list[str]:
    """Return the value that all columns are in, or that of each column."""
    names = [each.onnx_name for each in operator.inputs]
    if len(names) == 1:
        return names
    widths = [each.type.shape[1] for each in operator.inputs]
    if not all(widths) or sum(widths) != n_columns:
        raise ValueError(
            f"The step before {type(operator.raw_operator).__name__} must give it the {n_columns} "
            f"columns of its fit, got inputs of {widths} columns. Pass initial_types that say how "
            "many columns each has."
        )
    found: list[str] = []
    for name, width in zip(names, widths, strict=True):
        parts = (name,)
        if width > 1:
            parts = graph.add_many("Split", name, [1] * width, count=width, axis=1)
        found += parts
    return found

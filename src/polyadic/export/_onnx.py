"""A fitted estimator as a model of ONNX: columns ─► rows ─► members ─► what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper
from sklearn.base import is_classifier

from polyadic._version import __version__
from polyadic.estimators._tables import schema_of
from polyadic.export._columns import Door
from polyadic.export._files import plain_labels
from polyadic.export._graph import OPSETS, Graph
from polyadic.export._members import respond, used_inputs, used_members
from polyadic.export._rows import Rows
from polyadic.members import Predictor
from polyadic.model.losses import MOST_LOG

_IR_VERSION = 8  # the one of the oldest operators that are used
_NUMBERS = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}
_LABELS = {"U": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}
PREDICTION, LABEL, PROBABILITIES = "prediction", "label", "probabilities"


def door_of(estimator: Any, dtype: str) -> Door:
    """Return the inputs of the graph of an estimator."""
    outputs = (PREDICTION, LABEL, PROBABILITIES)
    return Door.of(schema_of(estimator), _NUMBERS[dtype], outputs)


def write_model(estimator: Any, dtype: str) -> ModelProto:
    """Return a fitted estimator as a model, numbers at its door of some precision."""
    door, graph = door_of(estimator, dtype), Graph("polyadic_")
    labels = plain_labels(estimator) if is_classifier(estimator) else None
    outputs = []
    for name, (value, info) in write_outputs(graph, estimator, door, door.names, labels).items():
        if info.type.tensor_type.elem_type == TensorProto.DOUBLE:
            info.type.tensor_type.elem_type = _NUMBERS[dtype]
            value = graph.add("Cast", value, to=_NUMBERS[dtype])
        graph.name(value, name)
        outputs.append(info)
    return helper.make_model(
        graph.pack(type(estimator).__name__, door.describe(), outputs),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        ir_version=_IR_VERSION,
        producer_name="polyadic",
        producer_version=__version__,
    )


def write_outputs(
    graph: Graph,
    estimator: Any,
    door: Door,
    names: Sequence[str],
    labels: NDArray[Any] | None,
) -> dict[str, tuple[str, ValueInfoProto]]:
    """Write a fitted estimator; return the value of each output, numbers as doubles.

    `names` are those of the values that columns are in, one for each or one for all; `labels` are
    those of a classifier.
    """
    predictor = estimator._predictor()
    y = invert_link(graph, predictor.link, _respond(graph, predictor, door, names))
    if labels is None:
        shape: list[Any] = ["rows"]
        if predictor.single_target:
            y = graph.add("Squeeze", y, [1])
        else:
            shape.append(predictor.n_targets)
        return {PREDICTION: (y, _info(PREDICTION, TensorProto.DOUBLE, shape))}
    label = graph.add("Gather", labels, graph.add("ArgMax", y, axis=1, keepdims=0))
    kind = _LABELS.get(labels.dtype.kind, TensorProto.DOUBLE)
    return {
        LABEL: (label, _info(LABEL, kind, ["rows"])),
        PROBABILITIES: (y, _info(PROBABILITIES, TensorProto.DOUBLE, ["rows", len(labels)])),
    }


def _info(name: str, kind: int, shape: Sequence[Any]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _respond(graph: Graph, predictor: Predictor, door: Door, names: Sequence[str]) -> str:
    """Return the members' sum in the targets' own units, or on the scale of the link."""
    members, targets = used_members(predictor), predictor.targets
    if not members:  # nothing was learned: every row gets the mean
        n_rows = graph.add("Slice", graph.add("Shape", names[0]), [0], [1])
        shape = graph.add("Concat", n_rows, [len(targets.mean)], axis=0)
        return graph.add("Expand", targets.mean[None], shape)
    wanted = used_inputs(members)
    X = Rows(door.encode(graph, names, wanted), tuple(wanted))
    return graph.add("Add", respond(graph, X, members, targets.scale), targets.mean[None])


def invert_link(graph: Graph, link: str, f: str) -> str:
    """Return what responses predict, as `polyadic.model.losses.invert_link` does."""
    if link == "log":
        return graph.add("Exp", graph.add("Clip", f, -MOST_LOG, MOST_LOG))
    if link == "logit":
        sides = graph.add("Neg", f), f
        return graph.add("Concat", *(graph.add("Sigmoid", each) for each in sides), axis=1)
    return graph.add("Softmax", f, axis=1) if link == "softmax" else f

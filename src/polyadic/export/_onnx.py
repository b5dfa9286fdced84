"""A fitted estimator as a model of ONNX: columns ─► rows ─► members ─► what they predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper
from sklearn.base import is_classifier

from polyadic._version import __version__
from polyadic.estimators._tables import schema_of
from polyadic.export._columns import Door
from polyadic.export._graph import OPSETS, Graph
from polyadic.export._members import repeat_row, respond, used_inputs
from polyadic.export._rows import Rows
from polyadic.export._scales import Said, ranged_inputs, scale_inputs, write_share, write_std
from polyadic.members import Member
from polyadic.model.losses import MOST_LOG
from polyadic.uncertainty import Uncertainty

_IR_VERSION = 8  # the one of the oldest operators that are used
_NUMBERS = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}
_LABELS = {"U": TensorProto.STRING, "i": TensorProto.INT64, "b": TensorProto.BOOL}
PREDICTION, STD, LABEL, PROBABILITIES = "prediction", "std", "label", "probabilities"


def door_of(estimator: Any, dtype: str) -> Door:
    """Return the inputs of the graph of an estimator."""
    outputs = (PREDICTION, STD, LABEL, PROBABILITIES)
    return Door.of(schema_of(estimator), _NUMBERS[dtype], outputs)


def write_model(estimator: Any, dtype: str, *, with_std: bool) -> ModelProto:
    """Return a fitted estimator as a model, numbers at its door of some precision.

    Standard deviations are one of its outputs if they are asked for, and known.
    """
    door, graph = door_of(estimator, dtype), Graph("polyadic_")
    labels = plain_labels(estimator) if is_classifier(estimator) else None
    outputs = []
    knows = with_std and labels is None
    uncertainty = vars(estimator).get("uncertainty_") if knows else None
    written = write_outputs(graph, estimator, door, door.names, labels, uncertainty)
    for name, (value, info) in written.items():
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
    uncertainty: Uncertainty | None = None,
) -> dict[str, tuple[str, ValueInfoProto]]:
    """Write a fitted estimator; return the value of each output, numbers as doubles.

    `names` are those of the values that columns are in, one for each or one for all; `labels` are
    those of a classifier.
    """
    predictor = estimator._predictor()
    targets, members = predictor.targets, [each for each in predictor.members if each.share]
    n_targets = len(targets.mean)
    wanted = used_inputs(members)
    if uncertainty is not None:
        wanted = sorted({*wanted, *scale_inputs(uncertainty)})
    reach = predictor.reach
    ranged = [] if reach is None else ranged_inputs(reach.low)
    wanted = sorted({*wanted, *ranged})
    X = Rows(door.encode(graph, names, wanted), tuple(wanted)) if wanted else None
    # What each member says is asked for only where their spread is.
    n_parts = 1 if uncertainty is None else max(len(members), 1)
    said = _say(graph, X, members, n_targets, n_parts, names[0])
    total = said
    if n_parts > 1:
        total = graph.add("MatMul", said, np.tile(np.eye(n_targets), (n_parts, 1)))
    if reach is not None and X is not None and ranged:
        total = graph.add("Mul", total, write_share(graph, X, reach))
    f = graph.add("Add", graph.add("Mul", total, targets.scale[None]), targets.mean[None])
    y = invert_link(graph, predictor.link, f)
    if labels is not None:
        label = graph.add("Gather", labels, graph.add("ArgMax", y, axis=1, keepdims=0))
        kind = _LABELS.get(labels.dtype.kind, TensorProto.DOUBLE)
        return {
            LABEL: (label, _info(LABEL, kind, ["rows"])),
            PROBABILITIES: (y, _info(PROBABILITIES, TensorProto.DOUBLE, ["rows", len(labels)])),
        }
    found = {PREDICTION: y}
    if uncertainty is not None:
        found[STD] = write_std(graph, X, uncertainty, Said(said, total, len(members), n_targets))
    shape: list[Any] = ["rows"] if predictor.single_target else ["rows", n_targets]
    if predictor.single_target:
        found = {name: graph.add("Squeeze", each, [1]) for name, each in found.items()}
    return {name: (each, _info(name, TensorProto.DOUBLE, shape)) for name, each in found.items()}


def _info(name: str, kind: int, shape: Sequence[Any]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _say(
    graph: Graph, X: Rows | None, members: Sequence[Member], n_targets: int, n_parts: int, rows: str
) -> str:
    """Return what members say, in sum or one beside the other, n × parts · targets."""
    if X is None or not members:  # nothing was learned, and every row gets the mean
        return repeat_row(graph, np.zeros(n_targets), rows, 0)
    columns = np.zeros((len(members), n_targets, n_parts * n_targets))
    for place, of_member in enumerate(columns):
        of_member[:, (place % n_parts) * n_targets :][:, :n_targets] = np.eye(n_targets)
    return respond(graph, X, members, columns)


def invert_link(graph: Graph, link: str, f: str) -> str:
    """Return what responses predict, as `polyadic.model.losses.invert_link` does."""
    if link == "log":
        return graph.add("Exp", graph.add("Clip", f, -MOST_LOG, MOST_LOG))
    if link == "logit":
        sides = graph.add("Neg", f), f
        return graph.add("Concat", *(graph.add("Sigmoid", each) for each in sides), axis=1)
    return graph.add("Softmax", f, axis=1) if link == "softmax" else f


def plain_labels(classifier: Any) -> NDArray[Any]:
    """Return the labels of a classifier as text, or as numbers."""
    return np.array(classifier.classes_.tolist())

"""A graph of ONNX that is written node by node, and never the same node twice.

Values go by their names.  Arrays and numbers may stand where a name may, and become constants:
floats are doubles, whole numbers are 64 bits wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

LEARNING = "ai.onnx.ml"  # the domain of operators for text
# All operators that are used have meant the same ever since these.
OPSETS = {"": 15, LEARNING: 2}

Kind = tuple[int, int]  # type, and number of axes
Value = str | float | Sequence[int] | NDArray[Any]


class Graph:
    """Nodes and constants so far.

    Parameters
    ----------
    prefix : str
        What all names begin with, so that graphs can be put into one another.
    outer : Graph, optional
        The graph that this one is the body of a node of; it has the constants of both.
    """

    def __init__(self, prefix: str, outer: Graph | None = None) -> None:
        self.prefix = prefix
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = [] if outer is None else outer.constants
        self._known: dict[Any, str] = {} if outer is None else outer._known
        self._added: dict[Any, tuple[str, ...]] = {}

    def constant(self, value: Value) -> str:
        """Return the name of a constant."""
        array = np.asarray(value)
        array = np.asarray(array, dtype={"f": np.float64, "i": np.int64}.get(array.dtype.kind))
        content = tuple(array.tolist()) if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.kind, array.shape, content)
        if key not in self._known:
            self._known[key] = f"{self.prefix}constant_{len(self._known)}"
            self.constants.append(_tensor(array, self._known[key]))
        return self._known[key]

    def add(self, operator: str, *inputs: Value, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return its name; one that is there already is used."""
        return self.add_many(operator, *inputs, count=1, domain=domain, **attributes)[0]

    def add_many(
        self, operator: str, *inputs: Value, count: int, domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node with some outputs and return their names."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        key = (operator, tuple(names), count, domain, repr(sorted(attributes.items())))
        if key not in self._added:
            first = f"{self.prefix}{operator}_{len(self.nodes)}"
            found = tuple(f"{first}_{i}" if i else first for i in range(count))
            node = helper.make_node(operator, names, found, first, domain=domain, **attributes)
            self.nodes.append(node)
            self._added[key] = found
        return self._added[key]

    def name(self, value: str, name: str) -> None:
        """Give a value the name that it goes by outside of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], f"{self.prefix}{name}"))

    def body(self, title: str) -> Graph:
        """Return a graph to be the body of a node of this one; each needs a title of its own."""
        return Graph(f"{self.prefix}{title}_", self)

    def pack(
        self, title: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]
    ) -> GraphProto:
        """Return all of it with its constants."""
        return helper.make_graph(self.nodes, title, inputs, outputs, self.constants)

    def pack_body(self, inputs: dict[str, Kind], outputs: dict[str, Kind]) -> GraphProto:
        """Return the body of a node, given of what kind is what goes in and out."""
        infos = [
            [
                helper.make_tensor_value_info(name, kind, [None] * n_axes)
                for name, (kind, n_axes) in each.items()
            ]
            for each in (inputs, outputs)
        ]
        return helper.make_graph(self.nodes, f"{self.prefix}graph", infos[0], infos[1])


def _tensor(array: NDArray[Any], name: str) -> TensorProto:
    if array.dtype.kind in "OU":
        texts: Any = [str(each).encode() for each in array.ravel()]
        return helper.make_tensor(name, TensorProto.STRING, array.shape, texts)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)

"""Writer: collects the nodes and initializers of an ONNX graph.

A graph is traced once, or for several sizes of the batch. An integer that differs between the traces is a linear function of the
size, and becomes a tensor that is computed from the size when the model runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.errors import TraceError
from weft.graph.node import Node, frozen
from weft.graph.primitives.table import CONSTANT
from weft.graph.source_lines import user_line
from weft.io.onnx.package import onnx
from weft.io.onnx.tensors import code_of_dtype

OPSET = 18  # of March 2023: newer operators would exclude older runtimes
BATCH = "batch"


class Traced:
    """A node in the traces of all batch sizes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.node = self.nodes[0]
        self.params, self.shape, self.dtype = self.node.params, self.node.shape, self.node.dtype

    @property
    def inputs(self) -> list[Traced]:
        return [Traced(parts) for parts in zip(*(n.inputs for n in self.nodes), strict=True)]

    def check_params(self, *but: str) -> None:
        """Raise TraceError if a parameter depends on the batch size, other than those named in ``but``."""
        for name in self.params.keys() - {*but}:
            if any(frozen({name: node.params[name]}) != frozen({name: self.params[name]}) for node in self.nodes[1:]):
                raise _batch_error(self)

    @property
    def line(self) -> str:
        """The user's line that made the node."""
        return user_line(self.node.source_line)


class Names:
    """Names that are in use in a model, and its initializers, which all graphs of the model share."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.initializers: list[Any] = []
        self.numbers: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def new(self, stem: str) -> str:
        """Return a name that is not in use."""
        name, k = stem, 0
        while name in self.taken:
            k += 1
            name = f"{stem}_{k}"
        self.taken.add(name)
        return name


class Writer:
    """Collects the nodes of one graph.

    sizes : the batch sizes of the traces; one if all shapes are fixed
    """

    def __init__(self, names: Names, sizes: tuple[int, ...]) -> None:
        self.names, self.sizes = names, sizes
        self.nodes: list[Any] = []
        self.value_of: dict[Node, str] = {}  # of the first trace

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.add_many(op_type, inputs, 1, **attributes)[0]

    def add_many(self, op_type: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Add a node and return the names of its outputs."""
        name = self.names.new(f"{op_type}_{len(self.names.taken)}")
        outputs = [name if count == 1 else self.names.new(f"{name}_{k}") for k in range(count)]
        self.nodes.append(onnx().helper.make_node(op_type, list(inputs), outputs, name=name, **attributes))
        return outputs

    def tensor(self, value: Any, name: str = "") -> str:
        """Return the name of an initializer; equal ones without a name of their own are one."""
        array = np.asarray(value)
        key = (array.dtype.name, array.shape, array.tobytes()) if not name else None
        if key is not None and key in self.names.numbers:
            return self.names.numbers[key]
        code_of_dtype(array.dtype)
        made = self.names.new(name or "constant")
        self.names.initializers.append(onnx().numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), made))
        if key is not None:
            self.names.numbers[key] = made
        return made

    def number(self, value: Any, like: Traced | Node) -> str:
        """Return the name of a number in the dtype of a node."""
        return self.tensor(np.asarray(value).astype(like.dtype.numpy))

    def cast(self, name: str, dtype: Any) -> str:
        """Return a value in another dtype."""
        return self.add("Cast", name, to=code_of_dtype(dtype))

    def ints(self, n: Traced, of: Callable[[Node], Sequence[int]]) -> str:
        """Return the name of a vector of integers, such as a shape, computed from the batch size where it depends on it."""
        rows = [tuple(int(i) for i in of(node)) for node in n.nodes]
        if len(set(rows)) == 1:
            return self.tensor(np.array(rows[0], np.int64))
        if len({len(row) for row in rows}) != 1:
            raise _batch_error(n)
        parts: list[str] = []
        for values in zip(*rows, strict=True):
            if len(set(values)) == 1:
                parts.append(self.tensor(np.array(values[:1], np.int64)))
                continue
            slope, offset = self._line(values, n)
            part = BATCH
            part = part if slope == 1 else self.add("Mul", part, self.tensor(np.array([slope], np.int64)))
            parts.append(part if not offset else self.add("Add", part, self.tensor(np.array([offset], np.int64))))
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)

    def _line(self, values: Sequence[int], n: Traced) -> tuple[int, int]:
        """Return slope and offset of a linear function of the batch size."""
        slope, rest = divmod(values[1] - values[0], self.sizes[1] - self.sizes[0])
        offset = values[0] - slope * self.sizes[0]
        if rest or any(v != slope * size + offset for v, size in zip(values, self.sizes, strict=True)):
            raise _batch_error(n)
        return slope, offset

    def same_ints(self, n: Traced, of: Callable[[Node], Any]) -> Any:
        """Return a value that ONNX stores as an attribute; raise if it depends on the batch size."""
        found = [of(node) for node in n.nodes]
        if any(f != found[0] for f in found):
            raise _batch_error(n)
        return found[0]

    def value(self, n: Traced) -> str:
        """Return the name of a node's value: one that was added, or a constant."""
        return self.constant(n) if n.node.op is CONSTANT else self.value_of[n.node]

    def constant(self, n: Traced) -> str:
        """Return the name of a constant, which may be proportional to the batch size or its inverse."""
        values = [node.params["value"] for node in n.nodes]
        if all(np.array_equal(v, values[0], equal_nan=n.dtype.kind == "float") for v in values):
            return self.tensor(np.asarray(values[0]).astype(n.dtype.numpy))
        size = self.cast(self.add("Reshape", BATCH, self.tensor(np.zeros(0, np.int64))), n.dtype.numpy)
        wide = [float(v) for v in values]
        pairs = list(zip(wide, self.sizes, strict=True))
        for op_type, ratios in (("Mul", [v / s for v, s in pairs]), ("Div", [v * s for v, s in pairs])):
            if np.allclose(ratios, ratios[0], rtol=1e-6, atol=0):
                factor = self.number(ratios[0], n)
                return self.add(op_type, *((factor, size) if op_type == "Div" else (size, factor)))
        raise _batch_error(n)


def _batch_error(n: Traced) -> TraceError:
    return TraceError(
        f"save_onnx: {n.line}: the operation depends on the batch size, and not as a multiple of it plus a number: give a sample "
        "with a fixed batch"
    )

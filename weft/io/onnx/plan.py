"""A graph of an ONNX file as a list of steps, each an operator of the table or the function body of its definition.

Values that do not depend on the model's inputs, and those computed from shapes, are NumPy arrays: their steps run outside of any
trace, so that they can be shapes and axes of other steps inside of ``jit`` and ``grad`` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft as wf
from weft.array import Array
from weft.errors import AxisError, DataError, DTypeError, LabelError, ShapeError, TraceError
from weft.io.onnx.operators import OPERATORS, Attributes, Operator
from weft.io.onnx.package import onnx
from weft.io.onnx.tensors import to_numpy
from weft.runtime.cell import inside_trace

MAX_FOLDED = 1 << 16  # elements: larger results of constants are Arrays
_DOMAINS = ("", "ai.onnx")
_TOLD = (ShapeError, DTypeError, AxisError, LabelError, TraceError, DataError)
Values = dict[str, Any]


class Source:
    """What the steps of a file share.

    name : the file's name in messages; folder : where its external data lie
    opsets : versions of the operator sets by domain; functions : the model's own by (domain, name)
    """

    def __init__(self, name: str, folder: str, opsets: dict[str, int], functions: dict[tuple[str, str], Any]) -> None:
        self.name, self.folder, self.opsets, self.functions = name, folder, opsets, functions


class Subgraph:
    """A graph that is an attribute of a node. A call runs it with values for its inputs."""

    def __init__(self, plan: Plan, outer: Values) -> None:
        self._plan, self._outer = plan, outer

    def __call__(self, *inputs: Any) -> list[Any]:
        return self._plan.run({**self._outer, **dict(zip(self._plan.inputs, inputs, strict=True))})

    def count_stacked(self, carried: int) -> int:
        """Return the number of outputs of a loop's body that are stacked."""
        return len(self._plan.outputs) - 1 - carried


class Step:
    """One node. ``where``: its name, operator and opset for messages."""

    def __init__(self, node: Any, source: Source, outer: dict[str, Any]) -> None:
        domain = "" if node.domain in _DOMAINS else node.domain
        self.opset = source.opsets.get(domain, 1)
        own = f" of domain {domain!r}" if domain else ""
        self.where = f"node {node.name or (node.output and node.output[0]) or '?'!r} ({node.op_type}{own}, opset {self.opset})"
        self.inputs, self.outputs = tuple(node.input), tuple(node.output)
        self.node, self.source, self.domain = node, source, domain
        self.bodies: dict[Any, Plan] = {}
        self.function = source.functions.get((node.domain, node.op_type))
        self.values = self._read_attributes(outer)
        self.has_graph = any(isinstance(v, Plan) for v in self.values.values())
        if self.function is None and self.entry is None:
            schema = self.schema
            if schema is None or not (schema.has_function or schema.has_context_dependent_function):
                raise DataError(f"{source.name}: weft has no operator for {self.where}")

    @property
    def entry(self) -> Operator | None:
        """The operator of the table, or None if the node is computed by a function body."""
        return OPERATORS.get(self.node.op_type) if not self.domain and self.function is None else None

    @property
    def schema(self) -> Any:
        """The definition of the operator, or None if the onnx package has none. It cannot be copied, so it is not kept."""
        try:
            return onnx().defs.get_schema(self.node.op_type, self.opset, self.node.domain)
        except onnx().defs.SchemaError:
            return None

    def _read_attributes(self, outer: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes as Python values. outer : attributes of the function that the node is part of"""
        values = {}
        schema = self.schema if self.function is None else None
        for name, attribute in (schema.attributes.items() if schema is not None else ()):
            if attribute.default_value.type:
                values[name] = self._read_attribute(attribute.default_value)
        if self.function is not None:
            values.update((a.name, self._read_attribute(a)) for a in self.function.attribute_proto)
        for attribute in self.node.attribute:
            if not attribute.ref_attr_name:
                values[attribute.name] = self._read_attribute(attribute)
            elif outer.get(attribute.ref_attr_name) is not None:
                values[attribute.name] = outer[attribute.ref_attr_name]
        return values

    def _read_attribute(self, attribute: Any) -> Any:
        kinds = onnx().AttributeProto
        if attribute.type == kinds.TENSOR:
            return to_numpy(attribute.t, self.source.folder, f"{self.source.name}: {self.where}")
        if attribute.type == kinds.GRAPH:
            return Plan(attribute.g, self.source)
        value = onnx().helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        return [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value

    def run(self, values: Values) -> list[Any]:
        """Return the outputs."""
        inputs = [values[name] if name else None for name in self.inputs]
        try:
            entry = self.entry
            if entry is None:
                return self._run_body(inputs)
            is_known = not self.has_graph and all(x is None or isinstance(x, np.ndarray) for x in inputs)
            if is_known and entry.pure:
                with inside_trace(None):
                    return [_fold(x) for x in self._call(inputs, values)]
            return self._call(inputs, values)
        except _TOLD as error:
            if "_onnx_node" not in error.__dict__:  # the innermost node is named
                error.__dict__["_onnx_node"] = self.where
                error.args = (f"{self.source.name}: {self.where}: {error}",)
            raise

    def _call(self, inputs: list[Any], values: Values) -> list[Any]:
        entry = self.entry
        assert entry is not None
        attributes = self._bind_graphs(values)
        result = entry.call(Attributes(attributes, self.opset, len(self.outputs)), *inputs)
        return list(result) if isinstance(result, tuple) else [result]  # a list is a sequence

    def _bind_graphs(self, values: Values) -> Values:
        return {k: Subgraph(v, values) if isinstance(v, Plan) else v for k, v in self.values.items()}

    def _run_body(self, inputs: list[Any]) -> list[Any]:
        """Run the function body of the node's definition, which may depend on shapes and dtypes."""
        is_fixed = self.function is not None or self.schema.has_function
        key = None if is_fixed else tuple(map(_serialise_type, inputs))
        if key not in self.bodies:
            self.bodies[key] = self._make_body(inputs)
        body = self.bodies[key]
        known = dict.fromkeys(body.inputs)
        known.update(zip(body.inputs, inputs, strict=False))
        return body.run(known)

    def _make_body(self, inputs: list[Any]) -> Plan:
        function = self.function
        if function is None:
            function = onnx().FunctionProto()
            if self.schema.has_function:
                function.ParseFromString(self._read_fixed_body())
            else:
                function.ParseFromString(self._derive_body(list(map(_serialise_type, inputs))))
        opsets = {("" if o.domain in _DOMAINS else o.domain): o.version for o in function.opset_import}
        source = Source(self.source.name, self.source.folder, {**self.source.opsets, **opsets}, self.source.functions)
        return Plan(function, source, self.values)

    def _read_fixed_body(self) -> bytes:
        versions = [v for v in self.schema.function_opset_versions if v <= self.opset]
        return self.schema.get_function_with_opset_version(max(versions, default=self.opset))

    def _derive_body(self, types: list[bytes]) -> bytes:
        schema = self.schema
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= self.opset]
        node = onnx().NodeProto()
        node.CopyFrom(self.node)
        given = [a for a in node.attribute if not a.ref_attr_name]
        given += [
            onnx().helper.make_attribute(a.name, self.values[a.name])
            for a in node.attribute if a.ref_attr_name and a.name in self.values
        ]
        present = {a.name for a in given}
        given += [a.default_value for name, a in schema.attributes.items() if name not in present and a.default_value.type]
        del node.attribute[:]
        node.attribute.extend(given)
        version = max(versions, default=self.opset)
        return schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)


def _serialise_type(value: Any) -> bytes:
    """Return the serialised TypeProto of an input."""
    helper = onnx().helper
    if value is None:
        return onnx().TypeProto().SerializeToString()
    if isinstance(value, list):
        inner = onnx().TypeProto()
        if value:
            inner = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
        return helper.make_sequence_type_proto(inner).SerializeToString()
    code = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_type_proto(code, wf.shape(value)).SerializeToString()


def _fold(value: Any) -> Any:
    """Return a value computed from constants as a NumPy array if it is small."""
    if isinstance(value, list):
        return [_fold(v) for v in value]
    if isinstance(value, Array) and value.size <= MAX_FOLDED:
        return value.numpy()
    return np.asarray(value) if isinstance(value, np.generic) else value


class Plan:
    """The steps of a graph or function, with constants computed once.

    inputs, outputs : names; constants : values by name
    """

    def __init__(self, graph: Any, source: Source, attributes: dict[str, Any] | None = None) -> None:
        is_function = isinstance(graph, onnx().FunctionProto)
        self.initializers = [] if is_function else list(graph.initializer)
        if not is_function and graph.sparse_initializer:
            raise DataError(f"{source.name}: sparse initializers are not supported")
        given = {t.name for t in self.initializers}
        self.inputs = tuple(i if is_function else i.name for i in graph.input)
        if not is_function:
            self.inputs = tuple(name for name in self.inputs if name not in given)
        self.outputs = tuple(o if is_function else o.name for o in graph.output)
        self.source = source
        self.steps = [Step(node, source, attributes or {}) for node in graph.node]
        self.constants: Values = {}
        self.tensors: dict[str, np.ndarray] = {}  # initializers that are not constants: the weights of the main graph
        for tensor in self.initializers:
            self.tensors[tensor.name] = to_numpy(tensor, source.folder, source.name)

    def keep_constants(self, names: Sequence[str]) -> None:
        """Turn initializers into constants, and run the steps that depend on constants alone."""
        for name in names:
            self.constants[name] = self.tensors.pop(name)
        left = []
        for step in self.steps:
            entry = step.entry
            is_known = entry is not None and entry.pure and not step.has_graph
            if is_known and all(not name or name in self.constants for name in step.inputs):
                self.constants.update(zip(step.outputs, step.run(self.constants), strict=False))
            else:
                left.append(step)
        self.steps = left

    def find_static_names(self) -> set[str]:
        """Return the names of the values that steps need as constants, in subgraphs too."""
        found: set[str] = set()
        for step in self.steps:
            entry = step.entry
            if entry is not None:
                found.update(step.inputs[k] for k in entry.static if k < len(step.inputs))
            for value in step.values.values():
                if isinstance(value, Plan):
                    found |= value.find_static_names()
        return found

    def run(self, values: Values) -> list[Any]:
        """Return the outputs. values : by name, at least those of the inputs"""
        known = {**self.constants, **self.tensors, **values}
        for step in self.steps:
            known.update(zip(step.outputs, step.run(known), strict=False))
        return [known.get(name) for name in self.outputs]  # a function body omits results that are not read

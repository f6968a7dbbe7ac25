"""load_onnx: read an ONNX file as a Module whose parameters are the file's weights."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_float
from weft.errors import AxisError, DataError, DTypeError, ShapeError, TraceError
from weft.functions.creation.fill import asarray
from weft.io.onnx.package import onnx
from weft.io.onnx.plan import Plan, Source
from weft.io.onnx.tensors import dtype_of_code
from weft.nn.module import Module
from weft.process.files import read

MAX_CONSTANT = 1024  # elements: larger integers of a file are arrays of the module, not part of the plan


class OnnxModel(Module):
    """A model read by :func:`load_onnx`: ``model(*inputs)`` returns its output, or a tuple of several.

    Attributes
    ----------
    input_names, output_names : tuples of str
    weights : dict of Arrays by their names in the file; those of floats are parameters
    """

    def __init__(self, plan: Plan, graph: Any) -> None:
        super().__init__()
        self._plan = plan
        self._expected = {v.name: _read_type(v.type, v.name) for v in graph.input}
        self.input_names, self.output_names = plan.inputs, plan.outputs
        needed = plan.find_static_names()
        plan.keep_constants([
            name for name, x in plan.tensors.items()
            if not x.ndim or name in needed or (not is_float(x.dtype) and x.size <= MAX_CONSTANT)
        ])
        self.weights = {name: asarray(x) for name, x in plan.tensors.items()}
        plan.tensors = {}

    def extra_repr(self) -> str:
        """Return the names of inputs and outputs."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the output, or a tuple of several. Inputs are given in the file's order or by name."""
        if len(inputs) > len(self.input_names):
            raise TypeError(f"the model takes {len(self.input_names)} inputs, {', '.join(self.input_names)}, not {len(inputs)}")
        values = dict(zip(self.input_names, inputs, strict=False))
        for name, value in named.items():
            if name not in self.input_names or name in values:
                raise TypeError(f"input {name!r} is given twice or is none of {', '.join(self.input_names)}")
            values[name] = value
        missing = [name for name in self.input_names if name not in values]
        if missing:
            raise TypeError(f"the model needs the input {missing[0]!r}; its inputs are {', '.join(self.input_names)}")
        values = {name: _check_input(name, value, self._expected[name]) for name, value in values.items()}
        arrays = [_to_arrays(x) for x in self._plan.run({**self.weights, **values})]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _to_arrays(value: Any) -> Any:
    """Return an output with Arrays in place of NumPy arrays."""
    if isinstance(value, list):
        return [_to_arrays(v) for v in value]
    return asarray(value) if isinstance(value, np.ndarray) else value


class InputType(NamedTuple):
    """What an input of a file must be. shape : ints, names of open dimensions, or None; None as a whole for any shape"""

    kind: str  # "tensor_type", "sequence_type" or "optional_type"
    dtype: np.dtype | None = None
    shape: tuple[int | str | None, ...] | None = None
    element: InputType | None = None  # of an optional value


def _read_type(proto: Any, name: str) -> InputType:
    """Return the type of an input from its TypeProto."""
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        return InputType(kind, element=_read_type(proto.optional_type.elem_type, name))
    if kind == "sequence_type":
        return InputType(kind)
    if kind != "tensor_type":
        raise DTypeError(f"input {name!r} is a {kind}, which weft does not have")
    tensor = proto.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = tuple([d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim])
    return InputType(kind, dtype_of_code(tensor.elem_type), shape)


def _check_input(name: str, value: Any, expected: InputType) -> Any:
    """Return an input as an Array (or list of Arrays); raise if it is not what the file says."""
    if expected.element is not None:
        return None if value is None else _check_input(name, value, expected.element)
    if expected.dtype is None:
        return [asarray(x) for x in value]
    dtype = expected.dtype
    array = value if isinstance(value, Array) else asarray(value, dtype=None if isinstance(value, np.ndarray) else dtype)
    if array.dtype != dtype:
        raise DTypeError(f"input {name!r} is {array.dtype}, and the model takes {dtype}: cast it with .astype('{dtype}')")
    shape = expected.shape
    if shape is not None:
        fits = len(shape) == array.ndim and all(not isinstance(n, int) or n == m for n, m in zip(shape, array.shape, strict=True))
        if not fits:
            text = ", ".join("?" if n is None else str(n) for n in shape)
            raise ShapeError(f"input {name!r} has shape {array.shape}, and the model takes ({text})")
    return array


def load_onnx(path: str | os.PathLike) -> OnnxModel:
    """Read an ONNX file (``pip install 'weft-array[onnx]'``) as a Module that can be called, jitted and trained.

    Arrays of floats in the file become parameters. Scalars, small arrays of integers, and what shapes and axes are read from, are
    constants. Files with external data are read from the same folder.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Module
        ``model(*inputs)`` returns the output, or a tuple of several. ``input_names``, ``output_names`` and ``weights`` are those
        of the file.

    Raises
    ------
    ImportError
        The onnx package is not installed.
    DataError
        The file is missing or damaged, its external data are missing, or an operator is unknown: the message names the node, the
        operator and its opset.
    DTypeError
        A tensor has a dtype that weft does not have, such as strings.

    Examples
    --------
    >>> import weft as wf, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.ReLU())
    >>> wf.io.save_onnx(net, wf.ones((2, 3)), path)
    >>> again = wf.io.load_onnx(path)
    >>> bool(wf.allclose(again(wf.ones((2, 3))), net(wf.ones((2, 3)))))
    True
    >>> sorted(again.weights)
    ['0.bias', '0.weight']
    """
    onnx()
    name = os.fspath(path)
    content = read(path, "ONNX file")
    model = onnx().ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, whose class depends on its implementation
        raise DataError(f"{name} is damaged or no ONNX file: {error}") from None
    try:
        return build(model, name, os.path.dirname(os.path.abspath(name)))
    except (DataError, DTypeError, ShapeError, AxisError, TraceError):
        raise
    except Exception as error:  # whatever a damaged node makes of the onnx package and of operators
        raise DataError(f"{name} is damaged: {type(error).__name__}: {error}") from error


def build(model: Any, name: str, folder: str = "") -> OnnxModel:
    """Return the Module of a ModelProto. name : of the file, in messages; folder : of external data"""
    if not model.opset_import or not (model.graph.node or model.graph.output):
        raise DataError(f"{name} is damaged or no ONNX file: it has no graph")
    opsets = {("" if o.domain in ("", "ai.onnx") else o.domain): o.version for o in model.opset_import}
    functions = {(f.domain, f.name): f for f in model.functions}
    plan = Plan(model.graph, Source(name, folder, opsets, functions))
    known = {*plan.inputs, *plan.tensors}
    for step in plan.steps:
        unknown = [i for i in step.inputs if i and i not in known]
        if unknown:
            raise DataError(f"{name} is damaged: {step.where} reads {unknown[0]!r}, which no earlier node computes")
        known.update(step.outputs)
    if missing := [o for o in plan.outputs if o not in known]:
        raise DataError(f"{name} is damaged: no node computes the output {missing[0]!r}")
    return OnnxModel(plan, model.graph)

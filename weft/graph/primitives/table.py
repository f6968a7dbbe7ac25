"""The primitive table: one entry defines everything about one operation.

An entry (``weft.graph.node.Primitive``) contains shape and dtype rule, NumPy reference, formula in machine operations,
derivative, batching rule, cost, and samples for tests. To add a primitive, add one entry (see CONTRIBUTING.md).
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from typing import Any
from weakref import WeakSet

import numpy as np

from weft.dtypes.formats import COMPLEX, Format
from weft.dtypes.rounding import rounded_number, scalar
from weft.errors import ShapeError, format_bytes
from weft.graph.node import Node, Primitive, Shape
from weft.graph.source_lines import find_user_function, user_frame

LAZY_ENTRIES = {  # files whose entries few programs need, loaded when one of them is looked up
    "attention": "attention attention_gradient",
    "complexes": "complex complex_constant conj imag real",
    "linear_algebra": "cholesky cofactors det eig eigh eigvals eigvalsh expm inv pinv qr slogdet solve svd svdvals",
    "spectrum": "fft irfft rfft",
}
_MODULE_OF = {name: module for module, names in LAZY_ENTRIES.items() for name in names.split()}


class _Table(dict[str, Primitive]):
    __slots__ = ()

    def __missing__(self, name: str) -> Primitive:
        if name not in _MODULE_OF:
            raise KeyError(name)
        import_module(f"weft.graph.primitives.{_MODULE_OF[name]}")
        return self[name]


TABLE: dict[str, Primitive] = _Table()
MAX_ELEMENTS = 1 << 57  # elements: no machine has more address bits, and the size in bytes fits 64 bits for every dtype


# pending nodes whose computation may raise, see ``materialise.compute_fallible``
NODES_THAT_MAY_RAISE: WeakSet[Node] = WeakSet()


def register(primitive: Primitive) -> Primitive:
    """Add a primitive to the table and return it."""
    if primitive.name in TABLE:
        raise ValueError(f"primitive {primitive.name!r} is in the table already")
    TABLE[primitive.name] = primitive
    return primitive


def bind(op: Primitive, *inputs: Node, **params: Any) -> Node:
    """Return a pending node for one operation after checking shapes and dtypes."""
    for i in inputs:
        if i.dtype in COMPLEX:
            op = _load_complexes().twin(op, *inputs, **params)
            break
    else:
        if params and params.get("dtype") in COMPLEX:
            op = _load_complexes().twin(op, *inputs, **params)
    shape, dtype = op.rule(*inputs, **params)
    if (not inputs or shape is not inputs[0].shape) and not 0 < prod(shape) <= MAX_ELEMENTS:
        check_addressable(op.name, shape, dtype)
    node = Node(op, inputs, params, shape, dtype, user_frame())
    if op.raises:
        NODES_THAT_MAY_RAISE.add(node)
    return node


def _load_complexes() -> Any:
    """Return the module for complex numbers, loaded with the first of them."""
    return import_module("weft.graph.primitives.complexes")


def check_addressable(name: str, shape: Shape, dtype: Format) -> None:
    """Raise ShapeError, in the name of the user's call, if no machine can address an array of this shape."""
    size = prod(n for n in shape if n)  # as NumPy counts, which refuses some empty arrays
    if size > MAX_ELEMENTS:
        raise ShapeError(
            f"{find_user_function(name)}: an array of shape {shape} and dtype {dtype.name} would have "
            f"{format_bytes(size * dtype.bytes)}, "
            f"more than a machine can address"
        )


def _leaf_rule(*inputs: Node, **params: Any) -> tuple[Shape, Format]:
    raise TypeError("leaves are made by input_leaf, scalar_leaf and constant")


INPUT = register(Primitive("input", "leaf", _leaf_rule))
SCALAR = register(Primitive("scalar", "leaf", _leaf_rule))
CONSTANT = register(Primitive("constant", "leaf", _leaf_rule))


def input_leaf(shape: Shape, dtype: Format, value: Any = None) -> Node:
    """Return a leaf for contents that a run receives: a placeholder, or (with a value) a buffer that exists."""
    return Node(INPUT, (), {}, shape, dtype, None, value)


def is_placeholder(node: Node) -> bool:
    """Return whether a node is a leaf without a value, which a run must supply."""
    return node.value is None and node.op.kind == "leaf" and node.op is not CONSTANT


def scalar_leaf(value: float | int | bool | None, dtype: Format) -> Node:
    """Return a leaf for a Python number: an argument of the Program, so that a new number compiles nothing."""
    return Node(SCALAR, (), {}, (), dtype, None, value)


def _numpy_number(value: Any, dtype: Format) -> Any:
    """Return a number as a NumPy scalar of its format; of users' formats and small integers, of the format that computes it."""
    wide = dtype.custom or dtype.narrow and dtype.kind != "float"
    return dtype.computed.numpy.type(rounded_number(value, dtype)) if wide else scalar(value, dtype)


def constant(value: Any, dtype: Format) -> Node:
    """Return a leaf for a number that is part of the graph's key. ``params['value']`` is a NumPy scalar of ``dtype``."""
    if dtype in COMPLEX:
        return _load_complexes().constant(value, dtype)
    if -65504 <= value <= 65504:  # float16's largest
        return Node(CONSTANT, (), {"value": _numpy_number(value, dtype)}, (), dtype)
    if dtype.kind == "float":
        value = float(value)  # bfloat16 accepts no int of more than 64 bits
    with np.errstate(over="ignore"):  # callers warn about numbers of users
        return Node(CONSTANT, (), {"value": _numpy_number(value, dtype)}, (), dtype)

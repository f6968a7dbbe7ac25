"""Complex numbers: the same primitives, run by NumPy on the host, and the primitives between complex numbers and their parts.

A node with a complex operand or result is bound to the *twin* of its primitive, of kind ``host``: its reference, batching and,
unless another is defined here, derivative. No pass of the scheduler meets complex numbers in a kernel, and primitives without a
twin raise. Derivatives follow JAX's convention: the cotangent of z = x + iy stands for df/dx - i df/dy, so rules of holomorphic
functions are the same as for reals, without a conjugate.

A complex number of the program's text is a node (``complex_constant``), because kernels read constants and run-time scalars. A
cast that would lose imaginary parts is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, FROM_NUMPY, INEXACT, Format, complex_format
from weft.errors import DTypeError
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.call import call, cast, number
from weft.graph.primitives.common import batch_elementwise, elementwise_cost, zero_vjp
from weft.graph.primitives.derivatives import without_zeros
from weft.graph.primitives.kinds import words
from weft.graph.primitives.rules import broadcast, dtype_error, shapes_error
from weft.graph.primitives.table import INPUT, register

mul, div, neg, sub = call.multiply, call.divide, call.negative, call.subtract


# ---- derivatives that differ from those of reals


def _abs_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    return (mul(cast(div(g, without_zeros(out)), x.dtype), call.conj(x)),)


def _sign_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Only the direction changes: along i times the sign."""
    turn = div(call.imag(mul(g, out)), without_zeros(call.abs(x)))
    return (mul(call.complex(number(0, turn), turn), call.conj(out)),)


def _acosh_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    one = number(1, x)
    return (div(g, mul(call.sqrt(sub(x, one)), call.sqrt(call.add(x, one)))),)


def _pow_vjp(g: Node, out: Node, x: Node, y: Node) -> tuple[Node, Node]:
    zero, one = number(0, x), number(1, x)
    at_zero, flat = call.equal(x, zero), call.equal(y, zero)
    dx = mul(g, mul(y, call.pow(call.where(flat, one, x), sub(y, one))))
    return dx, mul(g, call.where(at_zero, zero, mul(out, call.log(call.where(at_zero, one, x)))))


def _cast_vjp(g: Node, out: Node, x: Node, dtype: Format) -> tuple[Node | None]:
    if x.dtype in COMPLEX:
        return (cast(g, x.dtype) if dtype in COMPLEX else None,)
    return (cast(call.real(g), x.dtype) if x.dtype in FLOATS else None,)


# ---- twins

_UNARY = """
    negative square sqrt reciprocal exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh atanh identity
    stop_gradient logical_not isnan isinf isfinite round""".split()
_BINARY = """
    add subtract multiply divide maximum minimum equal not_equal less less_equal greater greater_equal logical_and logical_or
    logical_xor""".split()
_REST = """
    where guard recompute reshape permute broadcast_to slice pad concat slice_set gather scatter reduce_sum reduce_prod reduce_max
    reduce_min argmax argmin cumulative_sum cumulative_prod cumulative_max cumulative_min
    dot_general sort argsort""".split()
_OWN_VJPS: dict[str, Callable[..., Any]] = {
    "abs": _abs_vjp, "sign": _sign_vjp, "acosh": _acosh_vjp, "pow": _pow_vjp, "cast": _cast_vjp,
}
HAS_TWIN = frozenset((*_UNARY, *_BINARY, *_REST, *_OWN_VJPS))
_TWINS: dict[Primitive, Primitive] = {}


def twin(op: Primitive, *inputs: Node, **params: Any) -> Primitive:
    """Return the primitive for complex operands or results: its twin, or the primitive itself if it runs on the host.

    Raises
    ------
    DTypeError
        the primitive has no twin.
    """
    result = _TWINS.get(op)
    if result is None:
        if op.kind in ("loop", "result") or (op.kind == "host" and op.name not in HAS_TWIN):  # their rules check dtypes
            result = op
        elif op.name in HAS_TWIN:
            result = replace(
                op, name=f"complex_{op.name}", kind="host", rule=_rule(op), formula=None, at=None, axis_maps=None, monoid="",
                view=False, same_memory=False, moves=False, ends_kernel=False, cheap=False, heavy=False,
                vjp=_OWN_VJPS.get(op.name, op.vjp),
            )
        else:
            dtype = next((i.dtype for i in inputs if i.dtype in COMPLEX), params.get("dtype"))
            raise DTypeError(
                f"{op.name}: x is {dtype}, but {op.name} takes no complex numbers: take wf.real(x), wf.imag(x) or wf.abs(x)."
            )
        _TWINS[op] = result
    return result


def _rule(op: Primitive) -> Callable[..., tuple[Shape, Format]]:
    """Return the primitive's own rule, applied to the format of the parts in place of the complex format."""
    if op.name == "cast":
        return _cast_rule

    def rule(*inputs: Node, **params: Any) -> tuple[Shape, Format]:
        own = next(i.dtype for i in inputs if i.dtype in COMPLEX)
        mixed = [i for i in inputs if i.dtype in INEXACT and i.dtype is not own]
        if mixed:
            names = [f"x{k + 1}" for k in range(len(inputs))]
            raise dtype_error(op.name, inputs, names, frozenset(i.dtype for i in inputs))
        shape, dtype = op.rule(*[Node(INPUT, (), {}, i.shape, i.dtype.part) for i in inputs], **params)
        return shape, own if dtype is own.part and op.name != "abs" else dtype

    return rule


def _cast_rule(x: Node, dtype: Format) -> tuple[Shape, Format]:
    if dtype not in COMPLEX and dtype is not BOOL:
        raise DTypeError(
            f"cast: x is {x.dtype}, and {dtype} would lose its imaginary part: take wf.real(x), wf.imag(x) or wf.abs(x)."
        )
    return x.shape, dtype


# ---- complex numbers and their parts


def _part_rule(name: str, out: Callable[[Format], Format]) -> Callable[..., tuple[Shape, Format]]:
    """Return the rule of a primitive that takes complex numbers apart."""
    def rule(x: Node) -> tuple[Shape, Format]:
        if x.dtype not in COMPLEX:
            raise DTypeError(f"{name}: x is {x.dtype}, but must be {words(COMPLEX)}: cast it with astype.")
        return x.shape, out(x.dtype)

    return rule


def _complex_rule(x1: Node, x2: Node) -> tuple[Shape, Format]:
    parts = {f.part for f in COMPLEX}
    if x1.dtype not in parts or x1.dtype is not x2.dtype:
        raise dtype_error("complex", (x1, x2), ("x1", "x2"), frozenset(parts))
    shape = broadcast(x1.shape, x2.shape)
    if shape is None:
        raise shapes_error("complex", (x1, x2), ("x1", "x2"))
    return shape, complex_format(x1.dtype)


def _complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


def _constant_rule(value: Any) -> tuple[Shape, Format]:
    if not isinstance(value, np.complexfloating):
        raise DTypeError(f"complex_constant: value {value!r} must be a complex number of NumPy.")
    return (), FROM_NUMPY[value.dtype]


def constant(value: Any, dtype: Format) -> Node:
    """Return a leaf for a complex number that is part of the graph's key."""
    with np.errstate(over="ignore"):
        return Node(_CONSTANT, (), {"value": dtype.numpy.type(value)}, (), dtype)


def _entry(name: str, rule: Any, reference: Any, vjp: Any) -> None:
    register(Primitive(name, "host", rule, reference, None, vjp, batch_elementwise(name), elementwise_cost(1), True))


_entry("real", _part_rule("real", lambda f: f.part), lambda x: x.real, lambda g, out, x: (call.complex(g, number(0, g)),))
_entry("imag", _part_rule("imag", lambda f: f.part), lambda x: x.imag, lambda g, out, x: (call.complex(number(0, g), neg(g)),))
_entry("conj", _part_rule("conj", lambda f: f), np.conj, lambda g, out, x: (call.conj(g),))
_entry("complex", _complex_rule, _complex, lambda g, out, x, y: (call.real(g), neg(call.imag(g))))
_CONSTANT = register(Primitive(
    "complex_constant", "host", _constant_rule, lambda value: np.asarray(value), None, zero_vjp,
    lambda inputs, dims, value: (constant(value, FROM_NUMPY[value.dtype]), None), elementwise_cost(0), True,
))

"""The operators of Array: names and dtype rules; ``operators.py`` hangs them on the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.convert import cast, operands
from weft.dtypes import bool as BOOL
from weft.dtypes import floating, int8
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, bind


def apply(name: str, a: Any, b: Any) -> Node:
    """The node of a binary operator on operands of any kind."""
    x, y = operands(a, b)
    dtype = x.dtype
    if name == "divide":
        dtype = floating(dtype)
        x, y = cast(x, dtype), cast(y, dtype)
    elif dtype == BOOL and name in _BOOLS:
        other = _BOOLS[name]
        if other is None:
            raise DTypeError(f"{name}: bool arrays cannot be subtracted: use ^, or cast with .astype('int8')")
        if other == "int8":
            x, y = cast(x, int8), cast(y, int8)
        else:
            name = other
    return bind(TABLE[name], x, y)


_BOOLS: dict[str, str | None] = {
    "add": "logical_or", "multiply": "logical_and", "subtract": None, "floor_divide": "int8", "remainder": "int8",
    "pow": "int8", "bitwise_left_shift": "int8", "bitwise_right_shift": "int8", "maximum": "logical_or", "minimum": "logical_and",
    "less": "int8", "less_equal": "int8", "greater": "int8", "greater_equal": "int8", "equal": "int8", "not_equal": "int8",
}


def unary(name: str) -> Callable[..., Node]:
    """The node of a unary operator."""

    def node_of(x: Node) -> Node:
        if x.dtype == BOOL and name in ("negative", "abs"):
            if name == "abs":
                return x
            raise DTypeError("negative: bool arrays cannot be negated: use ~, or cast with .astype('int8')")
        return bind(TABLE[name], x)

    return node_of


def matmul(a: Node, b: Node) -> Node:
    """``a @ b`` with NumPy's rules: vectors, matrices, and stacks of matrices whose leading dimensions broadcast."""
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a number has no matrix product, use *")
    inner = max(len(b.shape) - 2, 0)
    if a.shape[-1] != b.shape[inner]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: the last extent of the first ({a.shape[-1]}) must be "
            f"the {'last but one' if inner or len(b.shape) == 2 else 'only'} of the second ({b.shape[inner]})"
        )
    if a.dtype == BOOL:
        return bind(TABLE["not_equal"], *operands(matmul(cast(a, int8), cast(b, int8)), 0))
    if len(b.shape) <= 2:
        return bind(TABLE["dot_general"], a, b, contract=((len(a.shape) - 1,), (inner,)), batch=((), ()))
    vector = len(a.shape) == 1
    if vector:
        a = bind(TABLE["reshape"], a, shape=(1, *a.shape))
    lead = _lead(a, b)
    a, b = (x if x.shape[:-2] == lead else bind(TABLE["broadcast_to"], x, shape=(*lead, *x.shape[-2:])) for x in (a, b))
    n = len(lead)
    axes = tuple(range(n))
    out = bind(TABLE["dot_general"], a, b, contract=((n + 1,), (n,)), batch=(axes, axes))
    return bind(TABLE["reshape"], out, shape=(*lead, out.shape[-1])) if vector else out


def _lead(a: Node, b: Node) -> tuple[int, ...]:
    from weft.graph.primitives.rules import broadcast

    lead = broadcast(a.shape[:-2], b.shape[:-2])
    if lead is None:
        raise ShapeError(f"matmul: the leading dimensions of {a.shape} and {b.shape} do not broadcast")
    return lead



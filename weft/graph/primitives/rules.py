"""Shape and dtype rules that many primitives share, and their error messages.

Rules run once for every operation a user writes: the common case (equal shapes, a valid dtype) creates no tuple and formats no
string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache

from weft.dtypes.formats import BOOL, Format
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.kinds import words

Rule = Callable[..., tuple[Shape, Format]]


memoise = lru_cache(maxsize=4096)  # for functions of shapes and parameters; exceptions are not cached


@memoise
def broadcast(a: Shape, b: Shape) -> Shape | None:
    """Return the shape to which two shapes broadcast, or None."""
    if len(a) < len(b):
        a, b = b, a
    head = len(a) - len(b)
    out = list(a[:head])
    for m, n in zip(a[head:], b, strict=True):
        if m == n or n == 1:
            out.append(m)
        elif m == 1:
            out.append(n)
        else:
            return None
    return tuple(out)


def find_reduction(node: Node) -> tuple[tuple[int, ...], Shape] | None:
    """Return the axes of the reduction that determined a node's shape, and the shape before it, or None.

    Element-wise nodes are looked through (a mean is a sum and a division). Nodes computed immediately store the pair in
    ``params["reduced"]``.
    """
    for _ in range(16):
        if "reduced" in node.params:
            return node.params["reduced"]
        if node.op.kind == "reduce" and "axes" in node.params:
            return (node.params["axes"], node.inputs[0].shape) if not node.params["keepdims"] and node.inputs else None
        if node.op.kind != "elementwise":
            return None
        following = next((i for i in node.inputs if i.shape == node.shape and (i.inputs or "reduced" in i.params)), None)
        if following is None:
            return None
        node = following
    return None


def _keepdims_hint(nodes: Sequence[Node], names: Sequence[str]) -> str:
    """Return a hint for the case that keepdims=True in an earlier reduction would make the shapes broadcast, else ""."""
    for k, node in enumerate(nodes):
        reduction = find_reduction(node)
        if reduction is None:
            continue
        axes, shape = reduction
        kept: Shape | None = tuple(1 if d in axes else n for d, n in enumerate(shape))
        for j, other in enumerate(nodes):
            if j != k and kept is not None:
                kept = broadcast(kept, other.shape)
        if kept is not None:
            axis = axes[0] if len(axes) == 1 else axes
            return f" {names[k]} is a reduction over axis {axis}: write keepdims=True there."
    return ""


def shapes_error(name: str, nodes: Sequence[Node], names: Sequence[str]) -> ShapeError:
    """Return the error for shapes that do not broadcast."""
    shapes = ", ".join(f"{n} {node.shape}" for n, node in zip(names, nodes, strict=True))
    hint = _keepdims_hint(nodes, names)
    if not hint:
        hint = " Dimensions are matched from the last and must be equal or 1: reshape or transpose an operand."
    return ShapeError(f"{name}: shapes do not broadcast: {shapes}.{hint}")


def dtype_error(name: str, nodes: Sequence[Node], names: Sequence[str], allowed: Set[Format]) -> DTypeError:
    """Return the error for operands of a dtype that is not allowed, or of different dtypes."""
    bad = next((k for k, node in enumerate(nodes) if node.dtype not in allowed), None)
    if bad is not None:
        return DTypeError(f"{name}: {names[bad]} is {nodes[bad].dtype.name}, but must be {words(allowed)}: cast it with astype.")
    pairs = ", ".join(f"{n} {node.dtype.name}" for n, node in zip(names, nodes, strict=True))
    return DTypeError(f"{name}: dtypes differ: {pairs}. Cast with astype('{nodes[0].dtype.name}').")


def check_dtype(name: str, x: Node, allowed: Set[Format]) -> None:
    if x.dtype not in allowed:
        raise dtype_error(name, (x,), ("x",), allowed)


def unary(name: str, allowed: Set[Format], out: Format | None) -> Rule:
    """Return the rule of a unary element-wise primitive. ``out``: the result's dtype, if it differs."""
    def rule(x: Node) -> tuple[Shape, Format]:
        check_dtype(name, x, allowed)
        return x.shape, out or x.dtype

    return rule


def binary(name: str, allowed: Set[Format], out: Format | None) -> Rule:
    """Return the rule of a binary element-wise primitive. ``out``: the result's dtype, if it differs."""
    def rule(x1: Node, x2: Node) -> tuple[Shape, Format]:
        dtype = x1.dtype
        if dtype not in allowed or dtype is not x2.dtype:
            raise dtype_error(name, (x1, x2), ("x1", "x2"), allowed)
        shape: Shape | None = x1.shape
        if shape != x2.shape:
            shape = broadcast(x1.shape, x2.shape)
            if shape is None:
                raise shapes_error(name, (x1, x2), ("x1", "x2"))
        return shape, out or dtype  # type: ignore[return-value]

    return rule


def where_rule(condition: Node, x1: Node, x2: Node) -> tuple[Shape, Format]:
    if condition.dtype != BOOL:
        raise dtype_error("where", (condition,), ("condition",), frozenset((BOOL,)))
    if x1.dtype != x2.dtype:
        raise dtype_error("where", (x1, x2), ("x1", "x2"), frozenset((x1.dtype, x2.dtype)))
    shape: Shape | None = x1.shape
    if shape != x2.shape or shape != condition.shape:
        shape = broadcast(x1.shape, x2.shape)
        if shape is not None:
            shape = broadcast(shape, condition.shape)
        if shape is None:
            raise shapes_error("where", (condition, x1, x2), ("condition", "x1", "x2"))
    return shape, x1.dtype


def check_axis(name: str, axis: int, ndim: int, label: str = "axis") -> None:
    if not 0 <= axis < ndim:
        raise AxisError(f"{name}: {label} {axis} is out of range for an array of {ndim} dimensions.")


def check_axes(name: str, axes: tuple[int, ...], ndim: int, label: str = "axes") -> None:
    """Raise AxisError unless the axes exist and differ from each other. Their order is free."""
    for axis in axes:
        if not 0 <= axis < ndim:
            raise AxisError(f"{name}: {label} {axes} is out of range for an array of {ndim} dimensions.")
    if len(axes) > 1 and len(set(axes)) != len(axes):
        raise AxisError(f"{name}: {label} {axes} names an axis twice.")

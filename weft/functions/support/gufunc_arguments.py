"""The arguments of NumPy's functions of vectors and matrices: ``dtype``, ``casting``, ``axes``, ``axis`` and ``keepdims``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import array_operands, operands
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes.formats import Format
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.functions.support.arguments import Node, axis_index, cast, finish, flag, may_cast, node, permuted, several

Core = Callable[[Node, Node], Node]
DIMENSIONS = {"matmul": (2, 2, 2), "vecdot": (1, 1, 0), "matvec": (2, 1, 1), "vecmat": (1, 2, 1)}  # of operands and result


def asked(
    function: str, core: Core, x1: Any, x2: Any, out: Any, dtype: Any = None, casting: str = "same_kind", axes: Any = None,
    axis: Any = None, keepdims: bool = False,
) -> Array:
    """Apply ``core``, whose vector or matrix dimensions come last, to operands whose dimensions are given by ``axes`` or
    ``axis``."""
    if dtype is None:
        a, b = (array_operands if function == "vecdot" else operands)(x1, x2)
    else:
        a, b = (_cast_operand(function, name, x, parse_dtype(dtype), casting) for name, x in (("x1", x1), ("x2", x2)))
    if axis is not None:
        if axes is not None:
            raise TypeError(f"{function}: axis={axis} and axes={axes} exclude each other; give one of them")
        axes = [(axis,), (axis,), ()]
    if axes is None:
        result = core(a, b)
        kept_axis = -1
    else:
        *inner, outer = _axes(function, axes)
        a, b = (_move_to_end(function, n, at) for n, at in zip((a, b), inner, strict=True))
        result, kept_axis = core(a, b), -1
        if outer:
            result = _move_from_end(function, result, outer)
        elif inner[0]:
            kept_axis = inner[0][0]
    if flag(keepdims, function):
        ndim = len(result.shape) + 1
        place = axis_index(kept_axis, ndim, function, "axis")
        return finish(wrap(result).reshape(*result.shape[:place], 1, *result.shape[place:]).node, out, function)
    return finish(result, out, function)


def _cast_operand(function: str, name: str, x: Any, form: Format, casting: str) -> Node:
    """Return an operand cast to ``wanted`` if ``casting`` allows it."""
    value = node(x, function, name)
    if not may_cast(value.dtype, form, casting, function):
        raise DTypeError(
            f"{function}: {name} is {value.dtype}, which dtype={form} cannot hold: cast it with astype first, "
            "or use casting='unsafe'"
        )
    return cast(value, form)


def _axes(function: str, axes: Any) -> list[tuple[int, ...]]:
    """Return the axes of the operands and of the result, each as a tuple."""
    listed = map(resolve_scalar_indices, several(axes, function, "axes"))
    axes_of_each = [(a,) if isinstance(a, int) else tuple(several(a, function, "axes")) for a in listed]
    want = DIMENSIONS[function]
    if len(axes_of_each) == 2 and not want[2]:
        axes_of_each.append(())
    if [len(g) for g in axes_of_each] != list(want):
        raise ValueError(f"{function}: axes={axes!r} must hold tuples of {want[0]}, {want[1]} and {want[2]} (the result's) axes")
    return axes_of_each


def _move_to_end(function: str, n: Node, at: Sequence[int]) -> Node:
    """Move the axes ``at`` to the end."""
    ndim = len(n.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    return permuted(n, (*(d for d in range(ndim) if d not in places), *places))


def _move_from_end(function: str, result: Node, at: Sequence[int]) -> Node:
    """Move the last dimensions to the axes ``at``."""
    ndim = len(result.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    rest = iter(range(ndim - len(places)))
    last_at = dict(zip(places, range(ndim - len(places), ndim), strict=True))
    return permuted(result, [last_at[d] if d in last_at else next(rest) for d in range(ndim)])

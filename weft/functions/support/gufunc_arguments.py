"""What NumPy's functions of vectors and matrices take beside their operands: dtype=, casting=, axes=, axis=, keepdims=."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import array_operands, operands
from weft.array.indexing import as_ints
from weft.dtypes.formats import Format
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.functions.support.arguments import Node, axis_index, cast, finish, flag, may_cast, node, permuted, several

Core = Callable[[Node, Node], Node]
DIMENSIONS = {"matmul": (2, 2, 2), "vecdot": (1, 1, 0), "matvec": (2, 1, 1), "vecmat": (1, 2, 1)}  # of operands and result


def asked(
    function: str, core: Core, x1: Any, x2: Any, out: Any, dtype: Any = None, casting: str = "same_kind", axes: Any = None,
    axis: Any = None, keepdims: bool = False,
) -> Array:
    """``core`` of two nodes whose own dimensions come last, for operands that have them elsewhere."""
    if dtype is None:
        a, b = (array_operands if function == "vecdot" else operands)(x1, x2)
    else:
        a, b = (_read(function, name, x, spelled(dtype), casting) for name, x in (("x1", x1), ("x2", x2)))
    if axis is not None:
        if axes is not None:
            raise TypeError(f"{function}: axis={axis} and axes={axes} say the same; give one of them")
        axes = [(axis,), (axis,), ()]
    if axes is None:
        found = core(a, b)
        kept = -1
    else:
        *inner, outer = _axes(function, axes)
        a, b = (_last(function, n, at) for n, at in zip((a, b), inner, strict=True))
        found, kept = core(a, b), -1
        if outer:
            found = _back(function, found, outer)
        elif inner[0]:
            kept = inner[0][0]
    if flag(keepdims, function):
        ndim = len(found.shape) + 1
        place = axis_index(kept, ndim, function, "axis")
        return finish(wrap(found).reshape(*found.shape[:place], 1, *found.shape[place:]).node, out, function)
    return finish(found, out, function)


def _read(function: str, name: str, x: Any, wanted: Format, casting: str) -> Node:
    found = node(x, function, name)
    if not may_cast(found.dtype, wanted, casting, function):
        raise DTypeError(
            f"{function}: {name} is {found.dtype}, which dtype={wanted} cannot hold: cast it with astype first, "
            "or use casting='unsafe'"
        )
    return cast(found, wanted)


def _axes(function: str, axes: Any) -> list[tuple[int, ...]]:
    """The axes of the operands and of the result, each as a tuple."""
    listed = map(as_ints, several(axes, function, "axes"))
    given = [(a,) if isinstance(a, int) else tuple(several(a, function, "axes")) for a in listed]
    want = DIMENSIONS[function]
    if len(given) == 2 and not want[2]:
        given.append(())
    if [len(g) for g in given] != list(want):
        raise ValueError(f"{function}: axes={axes!r} must hold tuples of {want[0]}, {want[1]} and {want[2]} (the result's) axes")
    return given


def _last(function: str, n: Node, at: Sequence[int]) -> Node:
    ndim = len(n.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    return permuted(n, (*(d for d in range(ndim) if d not in places), *places))


def _back(function: str, found: Node, at: Sequence[int]) -> Node:
    """The last dimensions moved to where they were asked for."""
    ndim = len(found.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    rest = iter(range(ndim - len(places)))
    own = dict(zip(places, range(ndim - len(places), ndim), strict=True))
    return permuted(found, [own[d] if d in own else next(rest) for d in range(ndim)])

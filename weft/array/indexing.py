"""Indices: parsing and bounds checks, selection from nodes, and eager reads and writes of small selections with NumPy.

Two kinds of small selections run eagerly. A mask must be computed in any case, because the shape of the result depends on its
values; and in a loop whose shapes differ in every iteration, each iteration would compile a kernel. The functions for eager reads
return None if they do not cover a case; the caller then makes a node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.array.convert import as_node, cast, is_foreign, iterate_items, numpy_node, read_foreign, refuse_subclass
from weft.array.views import (
    TracedStart,
    ViewLayout,
    ViewPath,
    reshape_step,
    row_path,
    view_dtype,
    view_layout,
    view_memory,
    view_node,
    write_along_path,
)
from weft.dtypes.api import is_integer
from weft.dtypes.formats import BOOL, FLOATS, FROM_NUMPY, INT64, INTEGERS, UINT64, Format
from weft.dtypes.rounding import array_in
from weft.eager import apply, policy, tiers
from weft.eager.apply import bind
from weft.eager.in_place import write_if_unshared
from weft.eager.materialise import materialise, read_array, read_number
from weft.eager.native import NATIVE_ELEMENTS
from weft.eager.policy import can_run_now
from weft.eager.tiers import content
from weft.errors import ShapeError, index_error, name_argument, name_called_function
from weft.graph.node import Node, Shape, topological_order
from weft.graph.primitives.common import inverse
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.rules import broadcast, memoise
from weft.graph.primitives.shape import BROADCAST
from weft.graph.primitives.table import CONSTANT, SCALAR, TABLE, constant, input_leaf
from weft.runtime import execute
from weft.runtime.cell import WRITE_LOCK, Cell
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, TracedScalar, compute_traced, is_int, make_static

SCATTER_RATIO = 4  # a value this many times smaller than the array is scattered into the whole array, not into the sliced part
_SLICE_BOUND_TYPES = frozenset((int, type(None)))
_MAX_CACHED_ROWS = 256  # the selection of each row is cached for arrays of up to this many rows
_BASIC_TYPES = frozenset((int, bool, slice, type(None), type(Ellipsis)))


class Selection:
    """``path`` leads to a view; if there are ``indices``, elements are gathered from the view along ``axes``.

    The gathered dimensions come first; ``order`` is the permutation that moves them to NumPy's position, None if they stay.
    ``is_element``: integers for all dimensions select one element, which is not a view. ``is_copy``: the path has a slice with a
    traced start, so it leads to a copy.
    """

    __slots__ = ("_layouts", "axes", "indices", "is_copy", "is_element", "order", "path")

    def __init__(
        self, path: ViewPath, axes: tuple[int, ...] = (), indices: tuple[Node, ...] = (), order: tuple[int, ...] | None = None,
        is_element: bool = False, is_copy: bool = False,
    ) -> None:
        self.path, self.axes, self.indices, self.order = path, axes, indices, order
        self.is_element, self.is_copy = is_element, is_copy
        self._layouts: dict[Format, ViewLayout | None] = {}

    def find_layout(self, node: Node) -> ViewLayout | None:
        """Return where the selected elements of a node lie. The selection is for nodes of one shape, so it is computed once for
        each dtype."""
        dtype = node.dtype
        if dtype not in self._layouts:
            self._layouts[dtype] = view_layout(node.shape, dtype, self.path)
        return self._layouts[dtype]


def select(index: Any, shape: Shape) -> Selection:
    """Interpret an index as NumPy does.

    Raises
    ------
    IndexError
        There are too many indices, positions out of range, or objects that are not an index.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    items = parts = [_read_item(i) for i in items]
    items = _expand_items(items, shape)
    basic = all(isinstance(i, int | slice) or i is None or i is _EMPTY_ELLIPSIS for i in items)
    cuts: list[tuple[Any, int, int]] = []  # start, step, extent
    final: list[int] = []
    advanced: list[tuple[int, Any]] = []  # (axis of the view, index)
    apart, last = False, -2
    dim = 0
    for place, item in enumerate(items):
        if item is _EMPTY_ELLIPSIS:
            continue
        if item is None:
            final.append(1)
            continue
        if type(item) is _ScalarMask:
            apart, last = apart or bool(advanced and place != last + 1), place
            advanced.append((len(final), item.index))
            final.append(1)
            continue
        n = shape[dim]
        if isinstance(item, slice):
            first, count, by = _resolve_slice(item, n, dim)
            cuts.append((first, by, count))
            final.append(count)
        elif basic:
            cuts.append((_check_position(item, n, dim, shape), 1, 1))
        else:
            if advanced and place != last + 1:
                apart = True
            last = place
            advanced.append((len(final), _check_index(item, n, dim, shape)))
            cuts.append((0, 1, n))
            final.append(n)
        dim += 1
    path: ViewPath = ()
    start, step, extent = zip(*cuts, strict=True) if cuts else ((), (), ())
    if extent != shape or any(b != 1 for b in step):
        path = (("slice", {"start": start, "step": step, "shape": extent}),)
    if tuple(final) != extent:
        path += (reshape_step(tuple(final)),)
    if basic:
        return Selection(
            path, is_element=not final and all(map(is_int, parts)), is_copy=any([type(first) is TracedStart for first in start])
        )
    axes = tuple(a for a, _ in advanced)
    indices = tuple(i for _, i in advanced)
    common: Shape | None = ()
    for i in indices:
        common = None if common is None else broadcast(common, i.shape)
    if common is None:
        raise IndexError(f"index arrays of shapes {', '.join(str(i.shape) for i in indices)} do not broadcast to one shape")
    lead = max(len(i.shape) for i in indices)
    first = axes[0]
    order = None
    if not apart and first > 0:
        rest = len(final) - len(axes)
        order = (*range(lead, lead + first), *range(lead), *range(lead + first, lead + rest))
    return Selection(path, axes, indices, order)


def _slice_start(a: Any, by: Any, n: int) -> int:
    return slice(a, None, by).indices(n)[0]


def _slice_length(a: Any, b: Any, by: Any, n: int) -> int:
    return len(range(*slice(a, b, by).indices(n)))


def _resolve_slice(item: slice, n: int, dim: int = 0) -> tuple[Any, int, int]:
    """Return start, length and step of a slice of ``n`` elements. The start may be a run-time number, or a TracedStart."""
    a, b, by = item.start, item.stop, make_static(item.step)
    if isinstance(a, Cell) or isinstance(b, Cell) or isinstance(by, Cell):
        return _resolve_traced_slice(a, b, by, n, dim)
    if type(a) is TracedInt or type(b) is TracedInt:
        count: Any = compute_traced(_slice_length, a, b, by, n)
        count = count.fix_value() if type(count) is TracedInt else count
        return compute_traced(_slice_start, a, by, n) if count else 0, count, 1 if by is None else by
    first, stop, by = slice(a, b, by).indices(n)
    count = len(range(first, stop, by))
    return first if count else 0, count, by


def _resolve_traced_slice(a: Any, b: Any, by: Any, n: int, dim: int) -> tuple[Any, int, int]:
    """Return start, length and step of a slice such as ``i:i + 3`` whose length is constant, for a traced ``i``.

    The slice must lie within the axis, where NumPy would shorten it. This is checked when the elements are read.
    """
    by = 1 if by is None else by
    if isinstance(a, Cell) and isinstance(b, Cell) and is_int(by) and by > 0:
        start: Node = a.node  # type: ignore[attr-defined]
        (base, first), (other, stop) = _split_offset(start), _split_offset(b.node)  # type: ignore[attr-defined]
        if _is_same(base, other):
            count = len(range(first, stop, by))
            extent = n - (count - 1) * by
            if not count:
                return 0, 0, by
            if extent < 1:
                raise IndexError(f"a slice of {count} elements, {by} apart, does not fit into axis {dim} with size {n}")
            return TracedStart(bind(TABLE["in_bounds"], start, extent=extent, axis=dim, from_end=False)), count, by
    unknown = next(x for x in (a, b, by) if isinstance(x, Cell))
    raise TypeError(
        f"the bounds of a slice must be integers or None, not {unknown!r}, unless its length is constant, as in x[i:i + 3]. "
        "Index with x[i + wf.arange(3)], or choose elements with wf.where and a mask"
    )


def _split_offset(node: Node) -> tuple[Node, int]:
    """Return a node and an integer whose sum is ``node``."""
    offset = 0
    while node.op.name in ("add", "subtract"):
        x, y = node.inputs
        if y.op is CONSTANT:
            node, offset = x, offset + int(y.params["value"]) * (1 if node.op.name == "add" else -1)
        elif x.op is CONSTANT and node.op.name == "add":
            node, offset = y, offset + int(x.params["value"])
        else:
            break
    return node, offset


def _is_same(a: Node, b: Node, depth: int = 4) -> bool:
    """Return whether two nodes certainly have one value: they are one node, or one operation on such nodes."""
    if a is b:
        return True
    if a.op is CONSTANT and b.op is CONSTANT:
        return a.dtype is b.dtype and a.shape == b.shape == () and a.params["value"] == b.params["value"]
    if not depth or a.op is not b.op or not a.inputs or a.params or b.params or len(a.inputs) != len(b.inputs):
        return False
    return all([_is_same(x, y, depth - 1) for x, y in zip(a.inputs, b.inputs, strict=True)])


def _count_from_front(k: int, n: int) -> int:
    """Return the position ``k`` among ``n`` elements, which may be negative, counted from the front.

    If a run-time number is out of range, the IndexError makes jit trace the call again, which fails at the user's line.
    """
    if not -n <= k < n:
        raise IndexError
    return k % n


def resolve_scalar_indices(index: Any) -> Any:
    """Replace integer Scalars and NumPy integers in an index by Python ints, so that it selects a view. Return the same object if
    there are none.

    NumPy's scalars are values, unlike arrays without dimensions. A Scalar whose value is only known when a trace or a gradient
    ends stays, and selects a copy; a list that contains one becomes a node. Bounds of slices are converted with the slice.
    """
    kind = type(index)
    if kind in _BASIC_TYPES:
        return index
    if kind is not tuple:
        if not isinstance(index, tuple):
            return _as_int(index)
        index = tuple(index)  # a namedtuple
    for part in index:
        if type(part) not in _BASIC_TYPES and getattr(part, "is_value", None) is not False:
            break
    else:
        return index
    parts = tuple([_as_int(part) for part in index])
    return index if all([a is b for a, b in zip(parts, index, strict=True)]) else parts


def _as_int(part: Any) -> Any:
    value = getattr(part, "is_value", None)
    if value is False:  # an array
        return part
    if value is None:
        in_trace = CONTEXT.trace is not None and type(part) in (list, tuple)
        if in_trace and any(isinstance(leaf, Cell) or type(leaf) in TRACED_TYPES for leaf in iterate_items(part)):
            number = as_node(part)
            return part if number.dtype is BOOL else number  # a mask is computed, since its values determine the shape
        if type(part) is TracedScalar:
            return compute_traced(operator.index, part) if isinstance(part, np.integer) else part
        return int(part) if isinstance(part, np.integer) else part
    if (number := NATIVE_ELEMENTS.number(part)) is None:
        number = _concrete_int(part.node)
    return int(number) if isinstance(number, int | np.integer) and type(number) is not bool else part


def _concrete_int(node: Node) -> Any:
    """Return the integer of a Scalar, computing it if it is pending. Return None if it is not an integer, depends on a trace, or
    depends on the variables of a gradient, which would compute it again at every read."""
    if node.dtype not in INTEGERS:
        return None
    if node.op is CONSTANT:
        return node.params["value"]
    if CONTEXT.trace is not None or (node.value is None and CONTEXT.variables.intersection(topological_order((node,)))):
        return None
    return read_number(node, free=True)


def select_basic(index: Any, shape: Shape) -> Selection | None:
    """Return the Selection of an index of integers and slices, cached per shape; None for other indices."""
    if type(index) is int and shape and shape[0] > _MAX_CACHED_ROWS and -shape[0] <= index < shape[0]:  # loops read every row
        return Selection(row_path(index % shape[0], shape), is_element=len(shape) == 1)
    if (parts := _index_key(index)) is not None:
        return _select_key(parts, shape)
    if CONTEXT.trace is None or not _has_run_time_numbers(index):
        return None
    selection = select(index, shape)
    return None if selection.axes else selection


def _has_run_time_numbers(index: Any) -> bool:
    items = index if type(index) is tuple else (index,)
    return any([not TRACED_TYPES.isdisjoint(map(type, (x.start, x.stop) if type(x) is slice else (x,))) for x in items])


def _index_key(index: Any) -> tuple | None:
    """Return an index of integers and slices of integers in hashable form; None for other indices."""
    parts = []
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            part = (item.start, item.stop, item.step)
            if not _SLICE_BOUND_TYPES.issuperset(map(type, part)):
                part = tuple(map(_as_int, part))
                if not _SLICE_BOUND_TYPES.issuperset(map(type, part)):
                    return None
            item = part
        elif kind is not int and item is not None and item is not Ellipsis:
            item = _as_int(item)
            if type(item) is not int:
                return None
        parts.append(item)
    return tuple(parts)


@memoise
def _select_key(parts: tuple, shape: Shape) -> Selection:
    return select(tuple([slice(*part) if type(part) is tuple else part for part in parts]), shape)


def gather_selection(view: Node, selection: Selection) -> Node:
    """Return the elements that the selection takes from the view."""
    out = bind(TABLE["gather"], view, *selection.indices, axes=selection.axes)
    return out if selection.order is None else bind(TABLE["permute"], out, axes=selection.order)


def check_pending_indices(indices: Sequence[Node]) -> None:
    """Compute the pending bounds checks of indices, so that IndexError is raised before an array is written, or if nothing will
    be read.

    Inside traces, gradients and loops the values are unknown: there, checks run before any write takes effect.
    """
    if CONTEXT.trace is None and not CONTEXT.transform_depth:
        checks = [n.inputs[0] if n.op is BROADCAST else n for n in indices]
        pending = [n for n in checks if n.value is None and n.op is IN_BOUNDS]
        if pending:
            materialise(pending)


def read_element_value(value: Any, array: Any) -> Any:
    """Return the value that is assigned to an element of ``array``. Raise ValueError if it has dimensions.

    As in NumPy, an element of a bool array takes an array of one element.
    """
    if isinstance(value, list | tuple) or getattr(value, "shape", None):
        if hasattr(value, "shape") and prod(value.shape) == 1 and array.dtype == np.bool_:
            return value.reshape(())
        description = f"a {type(value).__name__}" if isinstance(value, list | tuple) else f"an array of shape {value.shape}"
        raise ValueError(f"an element is set with one number, not with {description}; array[index, ...] = value takes it")
    return value


def scatter_selection(node: Node, selection: Selection, value: Node, mode: str = "set") -> Node:
    """Return ``node`` with ``value`` (broadcast) written at the selection."""
    view = view_node(node, selection.path)
    target = bind(TABLE["gather"], view, *selection.indices, axes=selection.axes).shape
    shown = target if selection.order is None else tuple(target[a] for a in selection.order)
    value = broadcast_value(value, shown)
    if selection.order is not None:
        value = bind(TABLE["permute"], value, axes=inverse(selection.order))
    if len(selection.path) == 1 and selection.path[0][0] == "slice" and SCATTER_RATIO * value.size <= node.size:
        indices, rest = _slice_indices(node.shape, selection)
        return bind(TABLE["scatter"], node, value, *indices, axes=(*selection.axes, *rest), mode=mode)
    fresh = bind(TABLE["scatter"], view, value, *selection.indices, axes=selection.axes, mode=mode)
    return write_along_path(node, selection.path, fresh) if selection.path else fresh


def _slice_indices(shape: Shape, selection: Selection) -> tuple[list[Node], list[int]]:
    """Return indices for all axes of an array, where index arrays select along some axes and slices along the rest; and the
    latter axes.

    Part of a row is then one write into the array. Writing through the slice would rewrite all rows of the slice.
    """
    cut = selection.path[0][1]
    rest = [d for d in range(len(shape)) if d not in selection.axes]
    lead = max([len(i.shape) for i in selection.indices])
    indices = [
        bind(TABLE["reshape"], i, shape=(*(1,) * (lead - len(i.shape)), *i.shape, *(1,) * len(rest))) for i in selection.indices
    ]
    for k, d in enumerate(rest):
        positions = bind(TABLE["iota"], shape=(shape[d],), dtype=INT64, axis=0)
        positions = bind(TABLE["slice"], positions, start=(cut["start"][d],), step=(cut["step"][d],), shape=(cut["shape"][d],))
        extents = tuple([cut["shape"][d] if j == lead + k else 1 for j in range(lead + len(rest))])
        indices.append(bind(TABLE["reshape"], positions, shape=extents))
    return indices, rest


def broadcast_value(value: Node, shape: Shape) -> Node:
    """Return ``value`` broadcast to the shape it is written to. Extra leading extents of 1 are dropped, as in NumPy."""
    if value.shape == shape:
        return value
    extents = value.shape
    while len(extents) > len(shape) and extents[0] == 1:
        extents = extents[1:]
    fits = len(extents) <= len(shape) and all(m in (1, n) for m, n in zip(extents[::-1], shape[::-1], strict=False))
    if not fits:
        raise ShapeError(f"an array of shape {value.shape} does not fit where it is written: shape {shape}")
    if extents != value.shape:
        value = bind(TABLE["reshape"], value, shape=extents)
    return bind(TABLE["broadcast_to"], value, shape=shape) if extents != shape else value


def single_mask(index: Any, shape: Shape) -> Node | None:
    """Return the mask as a node if the index is a single boolean mask over leading dimensions."""
    refuse_subclass(index)
    if isinstance(index, np.ndarray | list) and np.asarray(index).dtype == np.bool_:
        index = np.asarray(index)
    elif not (isinstance(index, Cell) and index.dtype == np.bool_):  # type: ignore[attr-defined]
        return None
    if index.shape != shape[: index.ndim]:  # type: ignore[union-attr]
        return None
    node = as_node(index)
    return bind(TABLE["reshape"], node, shape=node.shape + (1,) * (len(shape) - len(node.shape)))


def _read_item(item: Any) -> Any:
    """Return one part of an index as None, Ellipsis, slice, int, or an integer or boolean array."""
    if item is None or item is Ellipsis or is_int(item) or isinstance(item, Cell | Node):
        return item
    if isinstance(item, slice):
        return slice(*(None if p is None else _read_bound(p) for p in (item.start, item.stop, item.step)))
    if isinstance(item, bool | np.bool_):
        return np.asarray(item)
    if isinstance(item, list | tuple | range | np.ndarray):
        refuse_subclass(item)
        array = np.asarray(item)
        if array.size == 0 and not isinstance(item, np.ndarray):
            array = array.astype(np.int64)
        return array
    try:
        return compute_traced(operator.index, item)
    except TypeError:
        if is_foreign(item):
            return _read_item(read_foreign(item))
        raise IndexError(
            f"{item!r} is not an index: use integers, slices, ranges, None, ..., integer arrays or boolean masks"
        ) from None


def _read_bound(part: Any) -> Any:
    if is_int(part):
        return part
    try:
        return compute_traced(operator.index, part)
    except TypeError:
        if isinstance(part, Cell) and not part.shape and is_integer(part.dtype):  # type: ignore[attr-defined]
            return part  # a traced integer
        raise TypeError(f"the bounds of a slice must be integers or None, not {part!r}") from None


def _expand_items(items: list[Any], shape: Shape) -> list[Any]:
    """Return one item per dimension: the ellipsis expanded, masks replaced by integer arrays."""
    out: list[Any] = []
    ellipsis = -1
    for item in items:
        if item is Ellipsis:
            if ellipsis >= 0:
                raise IndexError("an index can have only one ellipsis (...)")
            ellipsis = len(out)
        else:
            out.append(item)
    used = sum(0 if i is None else (i.ndim if _is_mask(i) else 1) for i in out)
    if used > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} dimensions (shape {shape}), {used} were indexed")
    place = len(out) if ellipsis < 0 else ellipsis
    filled: list[Any] = [slice(None)] * (len(shape) - used)
    out[place:place] = filled if filled or ellipsis < 0 else [_EMPTY_ELLIPSIS]
    full: list[Any] = []
    for item in out:
        if _is_mask(item):
            dim = sum(1 for i in full if i is not None and i is not _EMPTY_ELLIPSIS and type(i) is not _ScalarMask)
            full.extend(_mask_positions(item, shape, dim) if item.ndim else (_ScalarMask(item),))
        else:
            full.append(item)
    return full


_EMPTY_ELLIPSIS = object()  # an ellipsis for no dimension; it still separates index arrays


class _ScalarMask:
    """A mask without dimensions: it adds an axis of extent 1 or 0 before the other dimensions."""

    def __init__(self, mask: Any) -> None:
        is_true = bool(read_array(mask.node) if isinstance(mask, Cell) else mask)  # type: ignore[attr-defined]
        self.index = numpy_node(np.zeros(int(is_true), np.int64))


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray | Cell) and item.dtype == np.bool_  # type: ignore[union-attr]


def _mask_positions(mask: Any, shape: Shape, dim: int) -> tuple[np.ndarray, ...]:
    """Return a mask as integer arrays. Its content must be known, since the number of selected elements is the shape of the
    result."""
    if mask.shape != shape[dim : dim + mask.ndim]:
        raise IndexError(f"the boolean mask has shape {mask.shape}, the dimensions it masks are {shape[dim : dim + mask.ndim]}")
    return np.nonzero(read_array(mask.node) if isinstance(mask, Cell) else mask)  # type: ignore[attr-defined]


def _check_position(item: Any, n: int, dim: int, shape: Shape) -> Any:
    """Return the position of an integer among ``n``; a run-time number if the integer is one."""
    if not -n <= (item.value if type(item) is TracedInt else item) < n:
        raise IndexError(f"index {make_static(item)} is out of bounds for axis {dim} with size {n} (array of shape {shape})")
    return compute_traced(_count_from_front, item, n)


def _check_index(item: Any, n: int, dim: int, shape: Shape) -> Node:
    """Return an index array as a node. Positions are checked now if they are materialised, else when they are read."""
    if isinstance(item, int):
        place = _check_position(item, n, dim, shape)
        return place.node(INT64) if type(place) is TracedInt else constant(place, INT64)
    if isinstance(item, Cell | Node):
        node = item if isinstance(item, Node) else item.node  # type: ignore[attr-defined]
        if node.dtype not in INTEGERS:
            raise IndexError(f"index arrays must hold integers or bools, not {node.dtype.name}: cast with .astype('int64')")
        return bind(TABLE["in_bounds"], node, extent=n, axis=dim, from_end=True)
    if not is_integer(item.dtype):
        raise IndexError(f"index arrays must hold integers or bools, not {item.dtype}")
    if item.size and not (-n <= item.min() and item.max() < n):
        bad = item.min() if item.min() < -n else item.max()
        raise IndexError(f"index {bad} is out of bounds for axis {dim} with size {n} (array of shape {shape})")
    return numpy_node(item)


def check_bounds(
    function: str, given: Any, index: Node, size: int, axis: int, mode: str = "raise", from_end: bool = True,
) -> Node:
    """Return indices into an axis of ``size`` elements with their bounds handled.

    given : the indices as the user wrote them, for messages
    mode : what happens to indices out of range, as in ``numpy.take``: "raise" IndexError (now if ``given`` is not an Array, else
    when they are read), "clip" to the first and the last (negative ones to 0), or "wrap" around
    from_end : whether negative indices count from the end; otherwise they are out of range
    """
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"{function}: mode={mode!r} must be 'raise', 'clip' or 'wrap'")
    if size == 0 and 0 not in index.shape:
        raise IndexError(name_called_function(f"{function}: every index is out of bounds for axis {axis} with size 0"))
    unsigned = index.dtype.kind == "unsigned"
    if mode == "raise":
        is_constant = index.op is CONSTANT
        if isinstance(given, Cell) or not (is_constant or index.value is not None):
            return bind(TABLE["in_bounds"], index, extent=size, axis=axis, from_end=from_end)
        positions = np.asarray(index.params["value"]) if is_constant else read_array(index)
        least = -size if from_end else 0
        bad = positions[positions >= size] if unsigned else positions[(positions < least) | (positions >= size)]
        if bad.size:
            raise index_error(int(bad.flat[0]), axis, size, function=name_argument(given).partition(":")[0] or function)
        return index
    if size == 0:
        return cast(index, INT64)
    if unsigned:  # its largest numbers exceed int64
        if index.dtype.greatest >= size:
            name, limit = ("minimum", size - 1) if mode == "clip" else ("remainder", size)
            index = bind(TABLE[name], index, constant(limit, index.dtype))
        return cast(index, INT64)
    wide = cast(index, INT64)
    if mode == "wrap":
        return bind(TABLE["remainder"], wide, constant(size, INT64))
    return bind(TABLE["minimum"], bind(TABLE["maximum"], wide, constant(0, INT64)), constant(size - 1, INT64))


_NUMBERS = frozenset((float, int, bool))


def read_element(array: Any, index: Any) -> Node | None:
    """Return the element of an array at integers, as a leaf; None if the content is not materialised."""
    view = array._peek()
    return None if view is None else input_leaf((), viewed_dtype(array), execute.to_buffer(view[index]))


def write_view(cell: Any, path: ViewPath, value: Node) -> bool:
    """Write a small value along a path into a cell's buffer, if nothing else refers to the buffer. Return whether it was done."""
    new = _compute_content(value)
    return new is not None and _put_if_unshared(cell, lambda memory: view_memory(memory, path), ..., new)


def write_part(array: Any, index: Any, value: Any) -> bool:
    """Write a number or an array of this dtype at an index of integers and slices, if nothing else refers to the buffer. Return
    whether it was done. NumPy broadcasts the value. The caller holds ``WRITE_LOCK``."""
    new = castless_value(value, viewed_dtype(array))
    return new is not None and _put_if_unshared(array.cell, array._view_memory, index, new)


def _put_if_unshared(
    cell: Any, show: Callable[[np.ndarray], np.ndarray | None], index: Any, new: Any, put: Callable[..., None] = operator.setitem,
) -> bool:
    """Put ``new`` into the view that ``show`` returns of a cell's buffer, if nothing else refers to the buffer. Return whether it
    was done.

    It is not done if ``show`` returns None or NumPy raises an error. The caller then writes by a node, which raises the error
    with the user's line.
    """

    def write(memory: np.ndarray) -> bool:
        if (view := show(memory)) is None:
            return False
        put(view, index, new)
        return True

    try:
        return write_if_unshared(cell, write)
    except (IndexError, TypeError, ValueError):
        return False


def viewed_dtype(array: Any) -> Format:
    """Return the dtype of an array, without following its view."""
    dtype = array.cell._node.dtype
    return dtype if array._base is None else view_dtype(dtype, array._path)


def castless_value(value: Any, dtype: Format) -> Any:
    """Return the value to write if NumPy stores it in ``dtype`` without a cast; else None."""
    if number_fits(value, dtype):
        return array_in(value, dtype) if dtype.custom else value
    if not isinstance(value, Cell):
        return None
    node = value.node  # type: ignore[attr-defined]
    return None if node.dtype is not dtype else _compute_content(node)


def _compute_content(node: Node) -> np.ndarray | None:
    """Return the content of a node, which is computed if it is small work; None if it stays pending, or is large."""
    if node.value is None and node.op is not CONSTANT:
        apply.compute_if_small(node)
    return content(node) if can_run_now(node.nbytes, node) else None


def number_fits(value: Any, dtype: Format) -> bool:
    """Return whether this is a Python number that ``dtype`` holds without a warning or a change of kind."""
    kind = type(value)
    if kind not in _NUMBERS:
        return False
    if dtype in FLOATS:
        return kind is float and not dtype.largest < abs(value) < math.inf or kind is not float and abs(value) <= dtype.reach
    return kind is bool if dtype is BOOL else kind is int and dtype in INTEGERS and dtype.least <= value <= dtype.greatest


_NUMPY_BASIC_TYPES = frozenset((int, slice, type(None), type(Ellipsis)))
_INDEX_FORMATS = frozenset((BOOL, *(form for form in INTEGERS if form is not UINT64)))  # NumPy reads the largest uint64 as -1
_INDEX_DTYPES = frozenset(form.numpy for form in _INDEX_FORMATS)
_MASK_FACTOR = 16  # masks may select from arrays this much larger than the eager limit


def _native_key(index: Any, memory: np.ndarray) -> tuple | None:
    """Return an index with index arrays and masks as NumPy takes it. Return None for other parts, and if the index may select
    more than small work does.

    memory : the indexed array
    """
    show = NATIVE_ELEMENTS.show
    key, count = [], memory.nbytes
    for part in index if type(index) is tuple else (index,):
        if type(part) is slice:
            key.append(part)
        elif isinstance(part, Cell) and (view := show(part)) is not None and view.dtype in _INDEX_DTYPES:
            key.append(view)
            if part is not index or view.dtype != np.bool_:  # a mask alone selects no more than there is
                count *= view.size
        else:
            return None
    return tuple(key) if count <= CONTEXT.eager_limit else None


def read_natively(array: Any, index: Any) -> Any:
    """Return the elements that index arrays and masks select of a small array, as an array: NumPy reads them from its memory.
    Return None for every case that is not plain."""
    if (memory := NATIVE_ELEMENTS.show(array)) is None or (key := _native_key(index, memory)) is None:
        return None
    try:
        return NATIVE_ELEMENTS.take(memory[key], viewed_dtype(array))
    except IndexError:  # the caller makes a node, which raises it with the user's line
        return None


def write_natively(array: Any, index: Any, value: Any, put: Callable[..., None] = operator.setitem) -> bool:
    """Write or accumulate where index arrays and masks select in a small array that is no view. Return whether it was done."""
    node = array._node
    if (memory := NATIVE_ELEMENTS.show(array)) is None or (key := _native_key(index, memory)) is None:
        return False
    del memory  # it refers to the buffer
    if not number_fits(value, node.dtype):
        value = NATIVE_ELEMENTS.show(value) if isinstance(value, Cell) and viewed_dtype(value) is node.dtype else None
        if value is None:
            return False

    def write(memory: np.ndarray) -> bool:
        put(memory, key, value)
        return True

    del node  # it must have no other reference, to be written in place
    try:
        with WRITE_LOCK:
            return write_if_unshared(array, write)
    except (IndexError, TypeError, ValueError):  # the caller writes by a node, which raises it with the user's line
        return False


def read_eagerly(array: Any, index: Any) -> Node | None:
    """Return the elements that an index with arrays selects, as a leaf. Return None if an index array is pending, the
    selection is large, or NumPy raises an error."""
    if (key := _numpy_key(index, compute_masks=True)) is None:
        return None
    view = array._peek()
    try:
        if view is None or _count_bytes(key, view) > CONTEXT.max_eager_bytes:
            return None
        result = np.asarray(view[key])
    except (IndexError, ValueError):  # the caller makes a node, which raises it with the user's line
        return None
    return input_leaf(result.shape, viewed_dtype(array), execute.to_buffer(result))


def write_eagerly(array: Any, index: Any, value: Any, put: Callable[..., None] = operator.setitem) -> bool:
    """Write or accumulate where an index with arrays selects. Return whether it was done; if not, nothing was written.

    The caller holds ``WRITE_LOCK``.

    put : called with NumPy's array, index and value
    """
    if (key := _numpy_key(index, compute_masks=False)) is None:
        return False
    cell = array.cell
    if (content := None if cell._node.value is None else castless_value(value, viewed_dtype(array))) is None:
        return False

    def show(memory: np.ndarray) -> np.ndarray | None:
        view = array._view_memory(memory)
        return None if view is None or _count_bytes(key, view) > CONTEXT.max_eager_bytes else view

    return _put_if_unshared(cell, show, key, content, put)


def _numpy_key(index: Any, compute_masks: bool) -> tuple | None:
    """Return the index as NumPy takes it, if it contains arrays and all of them are materialised; else None.

    compute_masks : whether pending masks are computed, as a read needs them
    """
    if not policy.is_enabled():
        return None
    key, arrays = [], False
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind in _NUMPY_BASIC_TYPES:
            key.append(part)
            continue
        if isinstance(part, Cell):
            node = part.node  # type: ignore[attr-defined]
            array = tiers.content(node) if node.dtype in _INDEX_FORMATS and _has_value(node, compute_masks) else None
        else:
            array = np.asarray(part) if kind in (list, np.ndarray) else None
            if array is not None and FROM_NUMPY.get(array.dtype) not in _INDEX_FORMATS:
                return None
        if array is None:
            return None
        arrays = True
        key.append(array)
    return tuple(key) if arrays else None


def _has_value(node: Node, compute_masks: bool) -> bool:
    if node.value is None and not apply.compute_if_small(node) and compute_masks and node.dtype is BOOL:
        materialise((node,))
    return node.value is not None and node.op is not SCALAR


def _count_bytes(key: tuple, view: np.ndarray) -> int:
    """Return the bytes that are read or written, at most; an estimate if there is a mask.

    Raises
    ------
    ValueError
        The index arrays do not broadcast.
    """
    shape: tuple[int, ...] | None = None
    for part in key:
        if type(part) is np.ndarray:
            if part.dtype == np.bool_:
                return view.nbytes // _MASK_FACTOR
            if shape is None or shape == part.shape:
                shape = part.shape
            else:
                shape = np.broadcast_shapes(shape, part.shape)
    count, dim = prod(shape or ()), 0
    if count * view.nbytes <= CONTEXT.max_eager_bytes:  # small for every selection
        return 0
    for part in key:
        if part is Ellipsis:
            dims = view.ndim - sum([p is not None and p is not Ellipsis for p in key])
            count *= prod(view.shape[dim : dim + dims])
            dim += dims
        elif part is not None:
            count *= prod(view.shape[dim : dim + 1]) if isinstance(part, slice) else 1
            dim += 1
    return count * prod(view.shape[dim:]) * view.itemsize

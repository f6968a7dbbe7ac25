"""What ``a[index]`` means: a path (basic indexing, a view) and, for integer arrays and masks, a gather behind it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array.convert import as_node, cast, foreign, is_foreign, leaves, numpy_node, refuse_subclass
from weft.array.views import Path, ViewStep, follow, inverse, put, reshape_step
from weft.dtypes.formats import BOOL, INT64, INTEGERS
from weft.eager.apply import bind
from weft.eager.materialise import look, materialise, one
from weft.eager.native import ELEMENTS
from weft.errors import ShapeError, as_called, out_of_bounds, told
from weft.graph.node import Node, Shape, topological
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.rules import broadcast, memoised
from weft.graph.primitives.shape import BROADCAST
from weft.graph.primitives.table import CONSTANT, TABLE, constant
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import GIVEN, Given, GivenScalar, asked, computed, is_int

SMALLER = 4  # times smaller than the array, at least, is what is written into it by itself and not with its slice
_PLAIN = frozenset((int, type(None)))
_MANY = 256  # rows: paths to fewer are remembered
_BASIC = frozenset((int, bool, slice, type(None), type(Ellipsis)))


class Selection:
    """``path`` leads to a view; where ``indices`` are given, elements are gathered from it along ``axes``.

    The gathered dimensions stand in front; ``order`` is the permutation that puts them where NumPy has them
    (None: they stay). ``element``: what is chosen is one element and no view, as integers for all dimensions choose it.
    """

    __slots__ = ("axes", "element", "indices", "order", "path")

    def __init__(
        self, path: Path, axes: tuple[int, ...] = (), indices: tuple[Node, ...] = (), order: tuple[int, ...] | None = None,
        element: bool = False,
    ) -> None:
        self.path, self.axes, self.indices, self.order, self.element = path, axes, indices, order, element


def select(index: Any, shape: Shape) -> Selection:
    """Read an index as NumPy does.

    Raises
    ------
    IndexError
        for too many indices, positions out of range and things that are no index.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    items = given = [_item(i) for i in items]
    items = _whole(items, shape)
    plain = all(isinstance(i, int | slice) or i is None or i is _NOTHING for i in items)
    start: list[int] = []
    step: list[int] = []
    extent: list[int] = []
    final: list[int] = []
    advanced: list[tuple[int, Any]] = []  # (axis of the view, index)
    apart, last = False, -2
    dim = 0
    for place, item in enumerate(items):
        if item is _NOTHING:
            continue
        if item is None:
            final.append(1)
            continue
        if type(item) is _Flag:
            apart, last = apart or bool(advanced and place != last + 1), place
            advanced.append((len(final), item.index))
            final.append(1)
            continue
        n = shape[dim]
        if isinstance(item, slice):
            first, count, by = _span(item, n)
            start.append(first)
            step.append(by)
            extent.append(count)
            final.append(count)
        elif plain:
            start.append(_position(item, n, dim, shape))
            step.append(1)
            extent.append(1)
        else:
            if advanced and place != last + 1:
                apart = True
            last = place
            advanced.append((len(final), _checked(item, n, dim, shape)))
            start.append(0)
            step.append(1)
            extent.append(n)
            final.append(n)
        dim += 1
    path: Path = ()
    if tuple(extent) != shape or any(b != 1 for b in step):
        path = (("slice", {"start": tuple(start), "step": tuple(step), "shape": tuple(extent)}),)
    if tuple(final) != tuple(extent):
        path += (reshape_step(tuple(final)),)
    if plain:
        return Selection(path, element=not final and all(map(is_int, given)))
    axes = tuple(a for a, _ in advanced)
    indices = tuple(i for _, i in advanced)
    together: Shape | None = ()
    for i in indices:
        together = None if together is None else broadcast(together, i.shape)
    if together is None:
        raise IndexError(f"index arrays of shapes {', '.join(str(i.shape) for i in indices)} do not broadcast to one shape")
    lead = max(len(i.shape) for i in indices)
    first = axes[0]
    order = None
    if not apart and first > 0:
        rest = len(final) - len(axes)
        order = (*range(lead, lead + first), *range(lead), *range(lead + first, lead + rest))
    return Selection(path, axes, indices, order)


def _begin(a: Any, by: Any, n: int) -> int:
    return slice(a, None, by).indices(n)[0]


def _count(a: Any, b: Any, by: Any, n: int) -> int:
    return len(range(*slice(a, b, by).indices(n)))


def _span(item: slice, n: int) -> tuple[int, int, int]:
    """Where a slice of ``n`` elements begins, how many it has, and its step. The beginning may be a run-time number."""
    a, b, by = item.start, item.stop, asked(item.step)
    if type(a) is Given or type(b) is Given:
        count: Any = computed(_count, a, b, by, n)
        count = count.here() if type(count) is Given else count
        return computed(_begin, a, by, n) if count else 0, count, 1 if by is None else by
    first, stop, by = slice(a, b, by).indices(n)
    count = len(range(first, stop, by))
    return first if count else 0, count, by


def _place(k: int, n: int) -> int:
    """A position counted from the front; where there is none, a call is traced again, and refused at the user's line."""
    if not -n <= k < n:
        raise IndexError
    return k % n


def as_ints(index: Any) -> Any:
    """An index with Python's ints for integer Scalars and NumPy's integers, so that it chooses a view; itself where it has none.

    NumPy's scalars are values, unlike arrays without dimensions. What only a trace or a gradient will know stays as it is, and
    chooses a copy; lists of such are nodes. Bounds of slices are read with the slice.
    """
    kind = type(index)
    if kind in _BASIC:
        return index
    if kind is not tuple:
        if not isinstance(index, tuple):
            return _as_int(index)
        index = tuple(index)  # a namedtuple
    for part in index:
        if type(part) not in _BASIC and getattr(part, "is_value", None) is not False:
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
        varies = LOCAL.trace is not None and type(part) in (list, tuple)
        if varies and any(isinstance(leaf, Cell) or type(leaf) in GIVEN for leaf in leaves(part)):
            found = as_node(part)
            return part if found.dtype is BOOL else found  # what masks choose has to be known
        if type(part) is GivenScalar:
            return computed(operator.index, part) if isinstance(part, np.integer) else part
        return int(part) if isinstance(part, np.integer) else part
    found = ELEMENTS.number(part)
    if found is None:
        found = _known(part.node)
    return int(found) if isinstance(found, int | np.integer) and type(found) is not bool else part


def _known(node: Node) -> Any:
    """The integer of a Scalar, computed where it is pending; None of one that is none, that a trace will know, or that rests on
    the variables of a gradient, which would compute it at every look."""
    if node.dtype not in INTEGERS:
        return None
    if node.op is CONSTANT:
        return node.params["value"]
    if LOCAL.trace is not None or (node.value is None and LOCAL.variables.intersection(topological((node,)))):
        return None
    return one(node, free=True)


def plain(index: Any, shape: Shape) -> Selection | None:
    """As :func:`select`, of an index of integers and slices, which is read once for each shape; None of another one."""
    if type(index) is int and shape and shape[0] > _MANY and -shape[0] <= index < shape[0]:  # loops read all of them
        behind, steps, extents, rest = _rows(shape)
        step = ("slice", {"start": (index % shape[0], *behind), "step": steps, "shape": extents})
        return Selection((step, rest), element=len(shape) == 1)
    parts = _parts(index)
    if parts is not None:
        return _at(parts, shape)
    if LOCAL.trace is None or not _has_run_time_numbers(index):
        return None
    chosen = select(index, shape)
    return None if chosen.axes else chosen


def _has_run_time_numbers(index: Any) -> bool:
    items = index if type(index) is tuple else (index,)
    return any([not GIVEN.isdisjoint(map(type, (x.start, x.stop) if type(x) is slice else (x,))) for x in items])


@memoised
def _rows(shape: Shape) -> tuple[Shape, Shape, Shape, ViewStep]:
    """What the paths to all rows, or elements, have in common: beginnings along other axes, steps, extents and the last step."""
    return (0,) * (len(shape) - 1), (1,) * len(shape), (1, *shape[1:]), reshape_step(shape[1:])


def _parts(index: Any) -> tuple | None:
    """An index of integers and slices of them, as something that can be a key; None of another one."""
    parts = []
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            part = (item.start, item.stop, item.step)
            if not _PLAIN.issuperset(map(type, part)):
                part = tuple(map(_as_int, part))
                if not _PLAIN.issuperset(map(type, part)):
                    return None
            item = part
        elif kind is not int and item is not None and item is not Ellipsis:
            item = _as_int(item)
            if type(item) is not int:
                return None
        parts.append(item)
    return tuple(parts)


@memoised
def _at(parts: tuple, shape: Shape) -> Selection:
    return select(tuple([slice(*part) if type(part) is tuple else part for part in parts]), shape)


def gathered(view: Node, chosen: Selection) -> Node:
    """The elements that the selection takes from the view."""
    out = bind(TABLE["gather"], view, *chosen.indices, axes=chosen.axes)
    return out if chosen.order is None else bind(TABLE["permute"], out, axes=chosen.order)


def refuse_at_once(indices: Sequence[Node]) -> None:
    """Look at indices through which an array is about to be written, while it still has its content, or through which nothing
    will be read: IndexError now.

    While tracing, and inside of gradients and loops, they are not known: there nothing is written before they are checked.
    """
    if LOCAL.trace is None and not LOCAL.inside:
        given = [n.inputs[0] if n.op is BROADCAST else n for n in indices]
        pending = [n for n in given if n.value is None and n.op is IN_BOUNDS]
        if pending:
            materialise(pending)


def refuse_rows(value: Any) -> None:
    """Refuse what has dimensions where an element is set."""
    if isinstance(value, list | tuple) or getattr(value, "shape", None):
        what = f"a {type(value).__name__}" if isinstance(value, list | tuple) else f"an array of shape {value.shape}"
        raise ValueError(f"an element is set with one number, not with {what}; array[index, ...] = value takes it")


def scattered(node: Node, chosen: Selection, value: Node, mode: str = "set") -> Node:
    """Return ``node`` with ``value`` (broadcast) where the selection leads."""
    view = follow(node, chosen.path)
    target = bind(TABLE["gather"], view, *chosen.indices, axes=chosen.axes).shape
    shown = target if chosen.order is None else tuple(target[a] for a in chosen.order)
    value = fitted(value, shown)
    if chosen.order is not None:
        value = bind(TABLE["permute"], value, axes=inverse(chosen.order))
    if len(chosen.path) == 1 and chosen.path[0][0] == "slice" and SMALLER * value.size <= node.size:
        indices, rest = _sliced(node.shape, chosen)
        return bind(TABLE["scatter"], node, value, *indices, axes=(*chosen.axes, *rest), mode=mode)
    fresh = bind(TABLE["scatter"], view, value, *chosen.indices, axes=chosen.axes, mode=mode)
    return put(node, chosen.path, fresh) if chosen.path else fresh


def _sliced(shape: Shape, chosen: Selection) -> tuple[list[Node], list[int]]:
    """Return indices for all axes of an array of which index arrays choose some and slices the rest, and these other axes.

    So a part of a row is one write into the array. Through the slice it would be a write into all rows of the slice.
    """
    cut = chosen.path[0][1]
    rest = [d for d in range(len(shape)) if d not in chosen.axes]
    lead = max([len(i.shape) for i in chosen.indices])
    indices = [
        bind(TABLE["reshape"], i, shape=(*(1,) * (lead - len(i.shape)), *i.shape, *(1,) * len(rest))) for i in chosen.indices
    ]
    for k, d in enumerate(rest):
        line = bind(TABLE["iota"], shape=(shape[d],), dtype=INT64, axis=0)
        line = bind(TABLE["slice"], line, start=(cut["start"][d],), step=(cut["step"][d],), shape=(cut["shape"][d],))
        along = tuple([cut["shape"][d] if j == lead + k else 1 for j in range(lead + len(rest))])
        indices.append(bind(TABLE["reshape"], line, shape=along))
    return indices, rest


def fitted(value: Node, shape: Shape) -> Node:
    """``value`` broadcast to the shape it is written to; leading ones may be too many, as in NumPy."""
    if value.shape == shape:
        return value
    have = value.shape
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    fits = len(have) <= len(shape) and all(m in (1, n) for m, n in zip(have[::-1], shape[::-1], strict=False))
    if not fits:
        raise ShapeError(f"an array of shape {value.shape} does not fit where it is written: shape {shape}")
    if have != value.shape:
        value = bind(TABLE["reshape"], value, shape=have)
    return bind(TABLE["broadcast_to"], value, shape=shape) if have != shape else value


def mask_of(index: Any, shape: Shape) -> Node | None:
    """The mask as a node, where the index is one boolean mask over leading dimensions."""
    refuse_subclass(index)
    if isinstance(index, np.ndarray | list) and np.asarray(index).dtype == np.bool_:
        index = np.asarray(index)
    elif not (isinstance(index, Cell) and index.dtype == np.bool_):  # type: ignore[attr-defined]
        return None
    if index.shape != shape[: index.ndim]:  # type: ignore[union-attr]
        return None
    node = as_node(index)
    return bind(TABLE["reshape"], node, shape=node.shape + (1,) * (len(shape) - len(node.shape)))


def _item(item: Any) -> Any:
    """One part of an index: None, Ellipsis, slice, int, or an integer or boolean array."""
    if item is None or item is Ellipsis or is_int(item) or isinstance(item, Cell | Node):
        return item
    if isinstance(item, slice):
        return slice(*(None if p is None else _bound(p) for p in (item.start, item.stop, item.step)))
    if isinstance(item, bool | np.bool_):
        return np.asarray(item)
    if isinstance(item, list | tuple | range | np.ndarray):
        refuse_subclass(item)
        found = np.asarray(item)
        if found.size == 0 and not isinstance(item, np.ndarray):
            found = found.astype(np.int64)
        return found
    try:
        return computed(operator.index, item)
    except TypeError:
        if is_foreign(item):
            return _item(foreign(item))
        raise IndexError(
            f"{item!r} is no index: integers, slices, ranges, None, ..., integer arrays and boolean masks are"
        ) from None


def _bound(part: Any) -> int:
    if is_int(part):
        return part
    try:
        return computed(operator.index, part)
    except TypeError:
        raise TypeError(f"the bounds of a slice must be integers or None, not {part!r}") from None


def _whole(items: list[Any], shape: Shape) -> list[Any]:
    """One item a dimension: the ellipsis filled in, masks as the integer arrays they mean."""
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
    out[place:place] = filled if filled or ellipsis < 0 else [_NOTHING]
    full: list[Any] = []
    for item in out:
        if _is_mask(item):
            dim = sum(1 for i in full if i is not None and i is not _NOTHING and type(i) is not _Flag)
            full.extend(_positions(item, shape, dim) if item.ndim else (_Flag(item),))
        else:
            full.append(item)
    return full


_NOTHING = object()  # an ellipsis that stands for no dimension; it keeps index arrays apart all the same


class _Flag:
    """A mask without dimensions: a new axis in front of what is not masked, of which the element stays or goes."""

    def __init__(self, mask: Any) -> None:
        holds = bool(look(mask.node) if isinstance(mask, Cell) else mask)  # type: ignore[attr-defined]
        self.index = numpy_node(np.zeros(int(holds), np.int64))


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray | Cell) and item.dtype == np.bool_  # type: ignore[union-attr]


def _positions(mask: Any, shape: Shape, dim: int) -> tuple[np.ndarray, ...]:
    """A mask as integer arrays. Its content must be known: how many elements it takes is the shape of the result."""
    if mask.shape != shape[dim : dim + mask.ndim]:
        raise IndexError(f"the boolean mask has shape {mask.shape}, the dimensions it masks are {shape[dim : dim + mask.ndim]}")
    return np.nonzero(look(mask.node) if isinstance(mask, Cell) else mask)  # type: ignore[attr-defined]


def _position(item: Any, n: int, dim: int, shape: Shape) -> Any:
    """The place of an integer among ``n``, a run-time number of one that is such."""
    if not -n <= (item.value if type(item) is Given else item) < n:
        raise IndexError(f"index {asked(item)} is out of bounds for axis {dim} with size {n} (array of shape {shape})")
    return computed(_place, item, n)


def _checked(item: Any, n: int, dim: int, shape: Shape) -> Node:
    """An index array as a node; positions out of range are refused: at once where they are at hand, else by who reads them."""
    if isinstance(item, int):
        place = _position(item, n, dim, shape)
        return place.node(INT64) if type(place) is Given else constant(place, INT64)
    if isinstance(item, Cell | Node):
        node = item if isinstance(item, Node) else item.node  # type: ignore[attr-defined]
        if node.dtype not in INTEGERS:
            raise IndexError(f"index arrays must hold integers or bools, not {node.dtype.name}: cast with .astype('int64')")
        return bind(TABLE["in_bounds"], node, extent=n, axis=dim, from_end=True)
    if item.dtype.kind not in "iu":
        raise IndexError(f"index arrays must hold integers or bools, not {item.dtype}")
    if item.size and not (-n <= item.min() and item.max() < n):
        bad = item.min() if item.min() < -n else item.max()
        raise IndexError(f"index {bad} is out of bounds for axis {dim} with size {n} (array of shape {shape})")
    return numpy_node(item)


def bounded(
    function: str, given: Any, index: Node, size: int, axis: int, mode: str = "raise", from_end: bool = True,
) -> Node:
    """Indices into an axis of ``size`` elements, made of what the user has given.

    mode: what becomes of those out of range, as in ``numpy.take``: "raise" IndexError, at once where ``given`` is no Array, else
    by who reads them; "clip" to the first and the last (negative ones are 0), or "wrap" around.
    from_end: whether negative indices count from the end; otherwise they are out of range.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"{function}: mode={mode!r} must be 'raise', 'clip' or 'wrap'")
    if size == 0 and 0 not in index.shape:
        raise IndexError(as_called(f"{function}: every index is out of bounds for axis {axis} with size 0"))
    unsigned = index.dtype.kind == "unsigned"
    if mode == "raise":
        plain = index.op is CONSTANT
        if isinstance(given, Cell) or not (plain or index.value is not None):
            return bind(TABLE["in_bounds"], index, extent=size, axis=axis, from_end=from_end)
        known = np.asarray(index.params["value"]) if plain else look(index)
        least = -size if from_end else 0
        bad = known[known >= size] if unsigned else known[(known < least) | (known >= size)]
        if bad.size:
            raise out_of_bounds(int(bad.flat[0]), axis, size, function=told(given).partition(":")[0] or function)
        return index
    if size == 0:
        return cast(index, INT64)
    if unsigned:  # its largest numbers are no int64
        if index.dtype.greatest >= size:
            name, limit = ("minimum", size - 1) if mode == "clip" else ("remainder", size)
            index = bind(TABLE[name], index, constant(limit, index.dtype))
        return cast(index, INT64)
    wide = cast(index, INT64)
    if mode == "wrap":
        return bind(TABLE["remainder"], wide, constant(size, INT64))
    return bind(TABLE["minimum"], bind(TABLE["maximum"], wide, constant(0, INT64)), constant(size - 1, INT64))

"""The methods of Array that NumPy users expect: reductions, shapes, copies. They bind primitives directly."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cell import Cell
from weft.convert import as_node, cast, operands
from weft.dtypes import as_dtype, floating, int64, is_float, summed
from weft.dtypes import bool as BOOL
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import TABLE, bind, constant
from weft.indexing import bounded
from weft.views import permute_step, reshape_step

if TYPE_CHECKING:
    from weft.array import Array

Axis = int | Sequence[int] | None


def axes_of(axis: Axis, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """``axis`` as a sorted tuple of numbers from 0; None is all of them."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = []
    for a in given:
        number = operator.index(a)  # type: ignore[arg-type]
        if not -ndim <= number < ndim:
            raise AxisError(f"{name}: axis {number} is out of range for an array of {ndim} dimensions")
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise AxisError(f"{name}: axis {axis} names an axis twice")
    return tuple(sorted(found))


def shape_for(shape: Any, size: int, have: Shape) -> Shape:
    """A shape to reshape to, its one -1 worked out."""
    given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
    want = [operator.index(n) for n in given]
    if want.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent can be -1, not {tuple(want)}")
    known = 1
    for n in want:
        known *= n if n != -1 else 1
    if -1 in want:
        if known == 0 or size % known:
            raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
        want[want.index(-1)] = size // known
    elif known != size or any(n < 0 for n in want):
        raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
    return tuple(want)


def reduce(name: str, node: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """A reduction; over no axes it is the array itself."""
    return bind(TABLE[name], node, axes=axes, keepdims=bool(keepdims)) if axes else node


def mean_of(node: Node, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> Node:
    node = cast(node, as_dtype(dtype) if dtype is not None else floating(node.dtype))
    count = 1
    for a in axes:
        count *= node.shape[a]
    total = reduce("reduce_sum", node, axes, keepdims)
    return bind(TABLE["divide"], total, constant(count, total.dtype))


class Methods(Cell):
    """Base of Array."""

    __slots__ = ()

    if TYPE_CHECKING:
        node = property(lambda self: self._node)
        shape: property
        ndim: property
        size: property
        dtype: property
        _view: Callable[..., Array]
        _new: Callable[[Node], Array]
        numpy: Callable[[], np.ndarray]

    # ---- reductions

    def sum(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Sum over ``axis`` (all axes by default); small integers and bools become int64 or uint64."""
        node = self.node
        node = cast(node, as_dtype(dtype) if dtype is not None else summed(node.dtype))
        return self._new(reduce("reduce_sum", node, axes_of(axis, self.ndim, "sum"), keepdims))

    def prod(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Product over ``axis``; dtypes as for :meth:`sum`."""
        node = self.node
        node = cast(node, as_dtype(dtype) if dtype is not None else summed(node.dtype))
        return self._new(reduce("reduce_prod", node, axes_of(axis, self.ndim, "prod"), keepdims))

    def mean(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Mean over ``axis``; integers become float32."""
        return self._new(mean_of(self.node, axes_of(axis, self.ndim, "mean"), keepdims, dtype))

    def var(self, axis: Axis = None, ddof: float = 0, keepdims: bool = False, *, correction: float | None = None) -> Array:
        """Variance over ``axis``; divides by the count less ``ddof`` (``correction`` is the array API's name)."""
        axes = axes_of(axis, self.ndim, "var")
        node = cast(self.node, floating(self.dtype))
        centred = bind(TABLE["subtract"], node, mean_of(node, axes, True))
        total = reduce("reduce_sum", bind(TABLE["square"], centred), axes, keepdims)
        count = 1
        for a in axes:
            count *= node.shape[a]
        less = ddof if correction is None else correction
        return self._new(bind(TABLE["divide"], total, constant(max(count - less, 0), total.dtype)))

    def std(self, axis: Axis = None, ddof: float = 0, keepdims: bool = False, *, correction: float | None = None) -> Array:
        """Standard deviation: the root of :meth:`var`."""
        return self._new(bind(TABLE["sqrt"], self.var(axis, ddof, keepdims, correction=correction).node))

    def max(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Largest element over ``axis``; NaN wins."""
        return self._extreme("max", axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Smallest element over ``axis``; NaN wins."""
        return self._extreme("min", axis, keepdims)

    def _extreme(self, name: str, axis: Axis, keepdims: bool) -> Array:
        axes = axes_of(axis, self.ndim, name)
        if any(self.shape[a] == 0 for a in axes):
            raise ShapeError(f"{name}: the array of shape {self.shape} is empty along axis {axis}: there is no {name} of nothing")
        return self._new(reduce(f"reduce_{name}", self.node, axes, keepdims))

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position (int64) of the first largest element, in the flattened array without ``axis``."""
        return self._position("argmax", axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Array:
        """Position (int64) of the first smallest element."""
        return self._position("argmin", axis, keepdims)

    def _position(self, name: str, axis: int | None, keepdims: bool) -> Array:
        node = self.node
        if node.dtype == BOOL:
            node = cast(node, as_dtype("uint8"))
        axes = axes_of(axis, self.ndim, name)
        if any(self.shape[a] == 0 for a in axes):
            raise ShapeError(f"{name}: the array of shape {self.shape} is empty along axis {axis}")
        if not axes:
            return self._new(constant(0, int64))
        return self._new(bind(TABLE[name], node, axes=axes, keepdims=bool(keepdims)))

    def any(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Whether any element over ``axis`` is true (not zero)."""
        return self._new(reduce("reduce_max", truth(self.node), axes_of(axis, self.ndim, "any"), keepdims))

    def all(self, axis: Axis = None, keepdims: bool = False) -> Array:
        """Whether all elements over ``axis`` are true (not zero)."""
        return self._new(reduce("reduce_min", truth(self.node), axes_of(axis, self.ndim, "all"), keepdims))

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Array:
        """Running sum along ``axis`` (of the flattened array where it is None)."""
        node = self.node
        node = cast(node, as_dtype(dtype) if dtype is not None else summed(node.dtype))
        if axis is None:
            node, axis = bind(TABLE["reshape"], node, shape=(self.size,)), 0
        (number,) = axes_of(axis, len(node.shape), "cumsum")
        return self._new(bind(TABLE["cumulative_sum"], node, axis=number))

    # ---- shapes: views

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape: a view. One extent may be -1."""
        want = shape_for(shape, self.size, self.shape)
        return self._view((reshape_step(want),)) if want != self.shape else self._view(())

    def transpose(self, *axes: Any) -> Array:
        """The axes in another order (reversed by default): a view."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        if given is None or given == ():
            order = tuple(reversed(range(self.ndim)))
        else:
            order = tuple(a % self.ndim if -self.ndim <= a < self.ndim else a for a in given)
            if sorted(order) != list(range(self.ndim)):
                raise AxisError(f"transpose: axes {tuple(given)} must name each of the {self.ndim} axes once")
        return self._view((permute_step(order),)) if order != tuple(range(self.ndim)) else self._view(())

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes exchanged: a view."""
        (a,), (b,) = axes_of(axis1, self.ndim, "swapaxes"), axes_of(axis2, self.ndim, "swapaxes")
        order = list(range(self.ndim))
        order[a], order[b] = b, a
        return self.transpose(tuple(order))

    def squeeze(self, axis: Axis = None) -> Array:
        """Without its axes of extent 1: a view."""
        axes = tuple(a for a, n in enumerate(self.shape) if n == 1) if axis is None else axes_of(axis, self.ndim, "squeeze")
        wrong = [a for a in axes if self.shape[a] != 1]
        if wrong:
            raise ShapeError(f"squeeze: axis {wrong[0]} has extent {self.shape[wrong[0]]}, not 1 (shape {self.shape})")
        return self.reshape(tuple(n for a, n in enumerate(self.shape) if a not in axes))

    def ravel(self) -> Array:
        """All elements in one dimension: a view."""
        return self.reshape(-1) if self.size else self.reshape((0,))

    def flatten(self) -> Array:
        """All elements in one dimension: a copy."""
        return self._new(bind(TABLE["reshape"], self.node, shape=(self.size,)))

    # ---- copies and casts

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        """In another dtype; floats to integers are cut towards zero."""
        want = as_dtype(dtype)
        if want == self.dtype and not copy:
            return self  # type: ignore[return-value]
        return self._new(cast(self.node, want))

    def copy(self) -> Array:
        """An Array of its own: writes to it do not reach this one."""
        return self._new(self.node)

    def fill(self, value: Any) -> None:
        """Write ``value`` everywhere."""
        self[...] = value  # type: ignore[index]

    def item(self, *index: int) -> Any:
        """The one element (or the one at ``index``) as a Python number."""
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    # ---- element-wise

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Each element brought into [min, max]."""
        node = self.node
        for name, bound in (("maximum", min), ("minimum", max)):
            if bound is not None:
                node = bind(TABLE[name], *operands(node, bound))
        return self._new(node)

    def round(self, decimals: int = 0) -> Array:
        """To the nearest whole number (halves to even), or to ``decimals`` places."""
        node = self.node
        if not is_float(node.dtype):
            return self._new(node)
        if not decimals:
            return self._new(bind(TABLE["round"], node))
        scale = constant(10.0 ** abs(decimals), node.dtype)
        there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        return self._new(bind(TABLE[back], bind(TABLE["round"], bind(TABLE[there], node, scale)), scale))

    def dot(self, other: Any) -> Array:
        """Matrix product as ``numpy.dot``: the last axis of this with the last but one of ``other``."""
        a, b = operands(self, other)
        if not a.shape or not b.shape:
            return self._new(bind(TABLE["multiply"], a, b))
        inner = max(len(b.shape) - 2, 0)
        if a.shape[-1] != b.shape[inner]:
            raise ShapeError(f"dot: shapes {a.shape} and {b.shape} do not fit: {a.shape[-1]} is not {b.shape[inner]}")
        return self._new(bind(TABLE["dot_general"], a, b, contract=((len(a.shape) - 1,), (inner,)), batch=((), ())))

    def take(self, indices: Any, axis: int | None = None, *, mode: str = "raise") -> Array:
        """Elements at integer ``indices`` along ``axis`` (of the flattened array where it is None); ``mode`` as in ``take``."""
        node = self.node if axis is not None else bind(TABLE["reshape"], self.node, shape=(self.size,))
        (number,) = axes_of(0 if axis is None else axis, len(node.shape), "take")
        index = as_node(indices)
        if index.dtype == BOOL or is_float(index.dtype):
            raise DTypeError(f"take: indices must hold integers, not {index.dtype.name}")
        index = bounded("take", indices, index, node.shape[number], number, mode)
        out = bind(TABLE["gather"], node, index, axes=(number,))
        lead = len(index.shape)
        if number:
            rest = len(out.shape)
            order = (*range(lead, lead + number), *range(lead), *range(lead + number, rest))
            out = bind(TABLE["permute"], out, axes=order)
        return self._new(out)


def truth(node: Node) -> Node:
    """Whether each element is not zero."""
    if node.dtype == BOOL:
        return node
    return bind(TABLE["not_equal"], node, constant(0, node.dtype))



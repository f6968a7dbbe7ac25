"""Reshaping of Arrays: views where NumPy has views, else copies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.array.looks import ReadMethods
from weft.array.views import ViewPath, permute_step, reshape_step, reshape_strides, row_major, view_strides
from weft.dtypes.parse import layout, read_integers
from weft.eager.apply import bind
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Shape
from weft.graph.primitives.table import TABLE, check_addressable


def shape_for(shape: Any, size: int, have: Shape) -> Shape:
    """Return the shape to reshape to, with a -1 replaced by the extent that fits."""
    want = list(read_integers(shape[0] if len(shape) == 1 else shape, "reshape: the shape"))
    if want.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent can be -1, not {tuple(want)}")
    product = 1
    for n in want:
        product *= n if n != -1 else 1
    if -1 in want:
        if product == 0 or size % product:
            raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
        want[want.index(-1)] = size // product
    elif product != size or any([n < 0 for n in want]):
        raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
    return tuple(want)


def lies(x: Any, without: int = -1) -> tuple[int, ...] | None:
    """Return the strides of an array of weft or NumPy, in elements; None if it is contiguous.

    without : an axis to leave out
    """
    is_weft = isinstance(x, Shapes)
    if not is_weft and not isinstance(x, np.ndarray):
        return None
    if without < 0 and (x._plain() if is_weft else x.flags.c_contiguous):
        return None
    strides = x._strides() if is_weft else [s // x.itemsize for s in x.strides]
    axes = [(n, s) for axis, (n, s) in enumerate(zip(x.shape, strides, strict=True)) if axis != without]
    shape = tuple([n for n, _ in axes])
    if 0 in shape or all([n == 1 or s == plain for (n, s), plain in zip(axes, row_major(shape), strict=True)]):
        return None
    return tuple([s for _, s in axes])


class Shapes(ReadMethods):
    """Base of Array."""

    __slots__ = ()

    if TYPE_CHECKING:
        _base: Any
        _path: ViewPath
        _lies: tuple[int, ...]
        _view: Callable[[ViewPath], Any]
        _own: Callable[..., Any]

        @property
        def flags(self) -> Any: ...

    def _turned(self, order: str, function: str, known: str = "CFA") -> Self | None:
        """Return a transposed view whose row-major order is ``order``; None if no transposition is needed."""
        order = layout(order, function, known)
        strides, shape = self._strides(), self.node.shape
        if order == "K":
            permutation = sorted(range(len(shape)), key=lambda a: -abs(strides[a]))
            return None if permutation == list(range(len(shape))) else self.transpose(permutation)
        columns = order == "F" or (order == "A" and self.flags.f_contiguous and not self.flags.c_contiguous)
        return self.transpose() if columns else None

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Return the same elements in another shape; one extent may be -1. The result is a view if the strides allow it, unless
        ``copy`` is True; with ``copy=False`` a necessary copy is an error."""
        if copy is not None:
            import weft

            return weft.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)  # type: ignore[return-value]
        node = self.node
        if order != "C" and (turned := self._turned(order, "reshape")) is not None:
            return turned.reshape(shape_for(shape, node.size, node.shape)[::-1]).transpose()
        want = shape_for(shape, node.size, node.shape)
        if want == node.shape:
            return self._view(())
        if not node.size:
            check_addressable("reshape", want, node.dtype)
        if not self._plain() and reshape_strides(self._strides(), node.shape, want) is None:
            return self._own(bind(TABLE["reshape"], node, shape=want))
        return self._view((reshape_step(want),))

    def flatten(self, order: str = "C") -> Self:
        """Return a copy of all elements in one dimension, row by row ("C") or column by column ("F")."""
        turned = self._turned(order, "flatten", "CFAK") if order != "C" else None
        node = self.node if turned is None else turned.node
        return self._own(bind(TABLE["reshape"], node, shape=(node.size,)))

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes in another order (reversed by default)."""
        axes_argument = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        ndim = len(self.node.shape)
        if axes_argument is None or axes_argument == ():
            order = tuple(reversed(range(ndim)))
        else:
            try:
                order = tuple(a % ndim if -ndim <= a < ndim else a for a in map(operator.index, axes_argument))
            except TypeError:
                raise DTypeError(f"transpose: axes must be integers, not {axes_argument!r}") from None
            if sorted(order) != list(range(ndim)):
                raise AxisError(f"transpose: axes {tuple(axes_argument)} must name each of the {ndim} axes once")
        return self._view((permute_step(order),)) if order != tuple(range(ndim)) else self._view(())

    @property
    def T(self) -> Self:  # noqa: N802
        """A view with the axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802
        """A view with the last two axes exchanged."""
        ndim = len(self.node.shape)
        if ndim < 2:
            raise AxisError(f"mT: an array of {ndim} dimensions has no matrix to transpose")
        return self.transpose((*range(ndim - 2), ndim - 1, ndim - 2))

    def _plain(self) -> bool:
        """Return whether this is a contiguous cell, not a view."""
        return self._base is None and getattr(self, "_lies", None) is None

    def _strides(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        cell = self if self._base is None else self._base
        shape = cell.node.shape
        strides = getattr(cell, "_lies", None) or row_major(shape)
        return strides if self._base is None else view_strides(shape, strides, self._path)

    def _in_order(self) -> bool:
        """Return whether the elements are contiguous."""
        return lies(self) is None

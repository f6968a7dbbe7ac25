"""Other shapes of an Array's elements: views where NumPy has views, else copies."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.array.looks import Looks
from weft.array.views import Path, permute_step, reshape_step, row_major, strides_behind, strides_for
from weft.dtypes.parse import layout, read_integers
from weft.eager.apply import bind
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Shape
from weft.graph.primitives.table import TABLE, refuse_too_large


def shape_for(shape: Any, size: int, have: Shape) -> Shape:
    """A shape to reshape to, its one -1 worked out."""
    want = list(read_integers(shape[0] if len(shape) == 1 else shape, "reshape: the shape"))
    if want.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent can be -1, not {tuple(want)}")
    known = 1
    for n in want:
        known *= n if n != -1 else 1
    if -1 in want:
        if known == 0 or size % known:
            raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
        want[want.index(-1)] = size // known
    elif known != size or any([n < 0 for n in want]):
        raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
    return tuple(want)


def lies(x: Any, without: int = -1) -> tuple[int, ...] | None:
    """How far apart the elements of an array, weft's or NumPy's, lie along its axes; None where one lies after the other.

    without : an axis that is left out
    """
    ours = isinstance(x, Shapes)
    if not ours and not isinstance(x, np.ndarray):
        return None
    if without < 0 and (x._plain() if ours else x.flags.c_contiguous):
        return None
    strides = x._strides() if ours else [s // x.itemsize for s in x.strides]
    left = [(n, s) for axis, (n, s) in enumerate(zip(x.shape, strides, strict=True)) if axis != without]
    shape = tuple([n for n, _ in left])
    if 0 in shape or all([n == 1 or s == plain for (n, s), plain in zip(left, row_major(shape), strict=True)]):
        return None
    return tuple([s for _, s in left])


class Shapes(Looks):
    """Base of Array."""

    __slots__ = ()

    if TYPE_CHECKING:
        _base: Any
        _path: Path
        _lies: tuple[int, ...]
        _view: Callable[[Path], Any]
        _own: Callable[..., Any]

        @property
        def flags(self) -> Any: ...

    def _turned(self, order: str, function: str, known: str = "CFA") -> Self | None:
        """The axes so turned that their elements, row by row, come as ``order`` says; None where they do so already."""
        order = layout(order, function, known)
        strides, shape = self._strides(), self.node.shape
        if order == "K":
            by = sorted(range(len(shape)), key=lambda a: -abs(strides[a]))
            return None if by == list(range(len(shape))) else self.transpose(by)
        columns = order == "F" or (order == "A" and self.flags.f_contiguous and not self.flags.c_contiguous)
        return self.transpose() if columns else None

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """The same elements in another shape; one extent may be -1. A view where the elements lie so that it can be one, unless
        ``copy`` is True; with ``copy=False`` what would be a copy is refused."""
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
            refuse_too_large("reshape", want, node.dtype)
        if not self._plain() and strides_for(self._strides(), node.shape, want) is None:
            return self._own(bind(TABLE["reshape"], node, shape=want))
        return self._view((reshape_step(want),))

    def flatten(self, order: str = "C") -> Self:
        """All elements in one dimension, row by row ("C") or column by column ("F"): a copy."""
        turned = self._turned(order, "flatten", "CFAK") if order != "C" else None
        node = self.node if turned is None else turned.node
        return self._own(bind(TABLE["reshape"], node, shape=(node.size,)))

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order (reversed by default): a view."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        ndim = len(self.node.shape)
        if given is None or given == ():
            order = tuple(reversed(range(ndim)))
        else:
            try:
                order = tuple(a % ndim if -ndim <= a < ndim else a for a in map(operator.index, given))
            except TypeError:
                raise DTypeError(f"transpose: axes must be integers, not {given!r}") from None
            if sorted(order) != list(range(ndim)):
                raise AxisError(f"transpose: axes {tuple(given)} must name each of the {ndim} axes once")
        return self._view((permute_step(order),)) if order != tuple(range(ndim)) else self._view(())

    @property
    def T(self) -> Self:  # noqa: N802
        """The axes reversed: a view."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802
        """The last two axes exchanged: a view."""
        ndim = len(self.node.shape)
        if ndim < 2:
            raise AxisError(f"mT: an array of {ndim} dimensions has no matrix to transpose")
        return self.transpose((*range(ndim - 2), ndim - 1, ndim - 2))

    def _plain(self) -> bool:
        """Whether this is a cell of its own, whose elements lie one after the other."""
        return self._base is None and getattr(self, "_lies", None) is None

    def _strides(self) -> tuple[int, ...]:
        """How far apart elements lie along each axis, in elements."""
        cell = self if self._base is None else self._base
        shape = cell.node.shape
        strides = getattr(cell, "_lies", None) or row_major(shape)
        return strides if self._base is None else strides_behind(shape, strides, self._path)

    def _in_order(self) -> bool:
        """Whether the elements lie one after the other."""
        return lies(self) is None

"""Objects that are indexed to make arrays: grids from slices, rows and columns joined, and indices kept for later."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, Scalar, own, wrap
from weft.array.convert import exact_operands, number_node
from weft.dtypes.api import result_type
from weft.dtypes.formats import DEFAULT
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.functions.creation.ranges import arange, linspace
from weft.functions.shape.axes import moveaxis
from weft.functions.shape.broadcasting import broadcast_to
from weft.functions.shape.join_split import concat, stack
from weft.functions.support.arguments import node

_NUMBERS = (Scalar, int, float, np.generic)


def _line(part: slice) -> Array:
    """The numbers of a slice: a step of ``5j`` says how many there are."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """Coordinates of a grid, written as slices: :func:`meshgrid` of :func:`arange`.

    ``wf.mgrid[0:2, 0:3]`` is one array, ``wf.ogrid[0:2, 0:3]`` are vectors that broadcast; a step of ``5j`` asks for 5 numbers
    from start to stop, both ends among them.

    Examples
    --------
    >>> import weft as wf
    >>> wf.mgrid[0:2, 0:2].tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    >>> [x.tolist() for x in wf.ogrid[0:2, 0:2]]
    [[[0], [1]], [[0, 1]]]
    >>> wf.mgrid[0:1:3j].tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return _line(index)
        lines = [_line(part) for part in index]
        if any(x.dtype.kind == "f" for x in lines):
            lines = [x.astype(DEFAULT.real.name) for x in lines]
        thin = [x.reshape(tuple(x.size if a == k else 1 for a in range(len(lines)))) for k, x in enumerate(lines)]
        if self._sparse:
            return tuple(thin)
        shape = tuple(x.size for x in lines)
        return stack([broadcast_to(x, shape) for x in thin])


class _Joined:
    """Arrays, numbers and slices joined by an index: ``wf.r_`` along the first axis, ``wf.c_`` as columns.

    A first string says more, as in NumPy: ``"1,2"`` joins along axis 1 with two dimensions at least, ``"1,2,0"`` also where a
    vector's axis stands. Strings for matrices (``"r"``, ``"c"``) are refused.

    Examples
    --------
    >>> import weft as wf
    >>> wf.r_[1, 2:4, wf.array([7, 8])].tolist()
    [1, 2, 3, 7, 8]
    >>> wf.c_[wf.array([1, 2]), wf.array([3, 4])].tolist()
    [[1, 3], [2, 4]]
    """

    def __init__(self, axis: int, ndmin: int, begin: int) -> None:
        self._how = axis, ndmin, begin

    def __getitem__(self, index: Any) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        axis, ndmin, begin = self._how
        if isinstance(parts[0], str):
            try:
                given = [int(n) for n in parts[0].split(",")]
            except ValueError:
                raise DTypeError(f"r_: {parts[0]!r} must be up to three integers; matrices are not offered") from None
            axis, ndmin, begin = (given + [ndmin, begin][len(given) - 1 :])[:3]
            parts = parts[1:]
        lines = [_line(part) if isinstance(part, slice) else part for part in parts]
        read = iter(exact_operands(*(x for x in lines if not isinstance(x, _NUMBERS))))
        found: list[Any] = [x if isinstance(x, _NUMBERS) else self._placed(wrap(next(read)), ndmin, begin) for x in lines]
        return concat([self._placed(self._one(x, found), ndmin, begin) if not isinstance(x, Array) or not x.ndim else x
                       for x in found], axis)

    @staticmethod
    def _one(x: Any, others: list[Any]) -> Array:
        """A number in the dtype of the arrays beside it, where it has none of its own."""
        arrays = [o for o in others if isinstance(o, Array | np.generic)]
        if type(x) in (int, float, bool) and arrays:
            return own(number_node(x, spelled(result_type(x, *(a.dtype for a in arrays))))).reshape(1)
        return own(node(x, "r_")).reshape(1)

    @staticmethod
    def _placed(x: Array, ndmin: int, begin: int) -> Array:
        have = x.ndim
        if have >= ndmin:
            return x
        wide = x.reshape((1,) * (ndmin - have) + x.shape)
        if begin == -1 or not have:
            return wide
        first = begin if begin >= 0 else begin + ndmin - have + 1
        return moveaxis(wide, tuple(range(ndmin - have, ndmin)), tuple(range(first, first + have)))


class _Kept:
    """The index that it is given: ``wf.s_[1:3, ...]`` is what stands between the brackets.

    Examples
    --------
    >>> import weft as wf
    >>> wf.s_[1:3, ...]
    (slice(1, 3, None), Ellipsis)
    >>> wf.index_exp[2]
    (2,)
    """

    def __init__(self, always: bool) -> None:
        self._always = always

    def __getitem__(self, index: Any) -> Any:
        return (index,) if self._always and not isinstance(index, tuple) else index


mgrid, ogrid = _Grid(False), _Grid(True)
r_, c_ = _Joined(0, 1, -1), _Joined(-1, 2, 0)
s_, index_exp = _Kept(False), _Kept(True)

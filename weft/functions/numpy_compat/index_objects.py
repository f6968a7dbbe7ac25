"""NumPy's index objects: ``mgrid``, ``ogrid``, ``r_``, ``c_``, ``s_`` and ``index_exp``."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, Scalar, own, wrap
from weft.array.convert import exact_operands, number_node
from weft.dtypes.api import result_type
from weft.dtypes.formats import DEFAULT
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.functions.creation.ranges import arange, linspace
from weft.functions.shape.axes import moveaxis
from weft.functions.shape.broadcasting import broadcast_to
from weft.functions.shape.join_split import concat, stack
from weft.functions.support.arguments import node

_NUMBERS = (Scalar, int, float, np.generic)


def _slice_numbers(part: slice) -> Array:
    """Return the numbers of a slice. A complex step such as ``5j`` is a number of samples."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


class _Grid:
    """Coordinates of a grid that slices describe: :func:`meshgrid` of :func:`arange`.

    ``wf.mgrid[0:2, 0:3]`` is one array, ``wf.ogrid[0:2, 0:3]`` are vectors that broadcast. A step of ``5j`` makes 5 samples
    from start to stop, both included.

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
            return _slice_numbers(index)
        lines = [_slice_numbers(part) for part in index]
        if any(x.dtype.kind == "f" for x in lines):
            lines = [x.astype(DEFAULT.real.name) for x in lines]
        thin = [x.reshape(tuple(x.size if a == k else 1 for a in range(len(lines)))) for k, x in enumerate(lines)]
        if self._sparse:
            return tuple(thin)
        shape = tuple(x.size for x in lines)
        return stack([broadcast_to(x, shape) for x in thin])


class _Joiner:
    """Join arrays, numbers and slices: ``wf.r_[...]`` along the first axis, ``wf.c_[...]`` as columns.

    An initial string sets the axis, as in NumPy: ``"1,2"`` joins along axis 1 with at least two dimensions, and ``"1,2,0"``
    also sets the axis of a vector's elements. Strings for matrices (``"r"``, ``"c"``) are refused.

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
                numbers = [int(n) for n in parts[0].split(",")]
            except ValueError:
                raise DTypeError(f"r_: {parts[0]!r} must be up to three integers; matrices are not offered") from None
            axis, ndmin, begin = (numbers + [ndmin, begin][len(numbers) - 1 :])[:3]
            parts = parts[1:]
        lines = [_slice_numbers(part) if isinstance(part, slice) else part for part in parts]
        operands = iter(exact_operands(*(x for x in lines if not isinstance(x, _NUMBERS))))
        items: list[Any] = [x if isinstance(x, _NUMBERS) else self._expand(wrap(next(operands)), ndmin, begin) for x in lines]
        return concat([self._expand(self._as_vector(x, items), ndmin, begin) if not isinstance(x, Array) or not x.ndim else x
                       for x in items], axis)

    @staticmethod
    def _as_vector(x: Any, neighbours: list[Any]) -> Array:
        """Return a number as a vector, in the dtype of the arrays beside it unless it has its own."""
        arrays = [o for o in neighbours if isinstance(o, Array | np.generic)]
        if type(x) in (int, float, bool) and arrays:
            return own(number_node(x, parse_dtype(result_type(x, *(a.dtype for a in arrays))))).reshape(1)
        return own(node(x, "r_")).reshape(1)

    @staticmethod
    def _expand(x: Array, ndmin: int, begin: int) -> Array:
        """Return ``x`` with at least ``ndmin`` dimensions, its own ones from position ``begin``."""
        ndim = x.ndim
        if ndim >= ndmin:
            return x
        wide = x.reshape((1,) * (ndmin - ndim) + x.shape)
        if begin == -1 or not ndim:
            return wide
        first = begin if begin >= 0 else begin + ndmin - ndim + 1
        return moveaxis(wide, tuple(range(ndmin - ndim, ndmin)), tuple(range(first, first + ndim)))


class _IndexExpression:
    """Return the index itself: ``wf.s_[1:3, ...]`` is a tuple of a slice and an Ellipsis.

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
r_, c_ = _Joiner(0, 1, -1), _Joiner(-1, 2, 0)
s_, index_exp = _IndexExpression(False), _IndexExpression(True)

"""Walking over arrays element by element, as NumPy's ``nditer`` does: in Python, one at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import result_type
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.functions.broadcasting import broadcast_to
from weft.functions.common import arrays, broadcast_shapes, of_numpy, shape_tuple
from weft.functions.creation import zeros

_FLAGS = ("multi_index", "c_index", "refs_ok", "zerosize_ok", "external_loop", "buffered", "copy_if_overlap", "common_dtype")


class nditer:  # noqa: N801  NumPy's name
    """The elements of one array, or of several that broadcast, one after the other, as arrays without dimensions.

    Those of an Array that is "readwrite" are views: writing ``x[...] = v`` writes to it. Whole arrays are faster by far.

    Parameters
    ----------
    op : array, or sequence of arrays
        For each None an array of the common shape and dtype is made; ``operands`` has it.
    flags : sequence of str
        "multi_index" and "c_index" keep the place; "external_loop" is not offered, the others change nothing.
    op_flags : any
        Does nothing: arrays of weft may be written to.
    op_dtypes : dtype, or sequence of dtypes and None, optional
        Of the arrays that are made. Arrays that are given have their own: nothing is cast.
    order : "C" or "K"
        Row by row.

    Raises
    ------
    ValueError, ShapeError, DTypeError
        Another flag or order; only None; shapes that do not broadcast; another dtype for an array that is given.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4).reshape(2, 2)
    >>> for v in wf.nditer(x, op_flags=["readwrite"]):
    ...     v[...] = 2 * v
    >>> x.tolist()
    [[0, 2], [4, 6]]
    """

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = None, op_dtypes: Any = None, order: str = "K") -> None:
        unknown = [f for f in flags or () if f not in _FLAGS or f == "external_loop"]
        if unknown:
            raise ValueError(f"nditer: the flag {unknown[0]!r} is not offered; known are {', '.join(map(repr, _FLAGS))}")
        if order not in ("C", "K"):
            raise ValueError(f"nditer: order={order!r} must be 'C' or 'K': arrays of weft lie row by row")
        given = list(op) if isinstance(op, tuple | list) else [op]
        found = _operands(given, op_dtypes)
        self.shape = broadcast_shapes("nditer", *(x.shape for x in found))
        self.operands = tuple(found)
        self._lines = [x if x.shape == self.shape else broadcast_to(x, self.shape) for x in found]
        self.nop, self.ndim, self.itersize = len(found), len(self.shape), math.prod(self.shape)
        self.iterindex, self._fresh = 0, True

    @property
    def finished(self) -> bool:
        """Whether all elements have been."""
        return self.iterindex >= self.itersize

    @property
    def multi_index(self) -> tuple[int, ...]:
        """The place as one index for each dimension."""
        if self.finished:
            raise ValueError("nditer: all elements have been, there is no index")
        return tuple(int(i) for i in np.unravel_index(self.iterindex, self.shape)) if self.shape else ()

    @property
    def index(self) -> int:
        """The place in the flattened array."""
        return self.iterindex

    @property
    def value(self) -> Any:
        """The element at the place; a tuple of several arrays'."""
        place = self.multi_index
        if not place:
            return self._lines[0] if self.nop == 1 else tuple(self._lines)
        parts = tuple(_element(x, place) for x in self._lines)
        return parts[0] if self.nop == 1 else parts

    def __getitem__(self, k: int) -> Array:
        return self.value if self.nop == 1 and k == 0 else self.value[k]

    def __setitem__(self, k: int, value: Any) -> None:
        self[k][...] = value

    def iternext(self) -> bool:
        """Go on to the next element; whether there is one."""
        self.iterindex += 1
        return not self.finished

    def reset(self) -> None:
        """Begin anew."""
        self.iterindex, self._fresh = 0, True

    def close(self) -> None:
        """Nothing is held back, so nothing is left to do."""

    def __len__(self) -> int:
        return self.itersize

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._fresh:
            self.iterindex += 1
        self._fresh = False
        if self.finished:
            raise StopIteration
        return self.value

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def _operands(given: list[Any], op_dtypes: Any) -> list[Array]:
    """The arrays to walk over; those for None are made."""
    there = {k: arrays("nditer", op=x)[0] for k, x in enumerate(given) if x is not None}
    if not there:
        raise DTypeError("nditer: op[0] is None; an array beside it is needed, whose shape the new one gets")
    wanted = list(op_dtypes) if isinstance(op_dtypes, tuple | list) else [op_dtypes] * len(given)
    if len(wanted) != len(given):
        raise ValueError(f"nditer: op_dtypes has {len(wanted)} dtypes for {len(given)} arrays")
    for k, x in there.items():
        if wanted[k] is not None and spelled(wanted[k]) is not x.node.dtype:
            raise DTypeError(f"nditer: op_dtypes[{k}] is {wanted[k]}, op[{k}] has dtype {x.dtype}: cast it with .astype first")
    if len(there) == len(given):
        return [*there.values()]
    shape = broadcast_shapes("nditer", *(x.shape for x in there.values()))
    common = result_type(*there.values())
    return [there[k] if k in there else zeros(shape, wanted[k] or common) for k in range(len(given))]


def _element(x: Array, place: tuple[int, ...]) -> Array:
    """One element as a view without dimensions."""
    return x[tuple(slice(i, i + 1) for i in place)].reshape(())


def _count(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the indices of an array, the last one fastest."""
    if not extents:
        yield ()
        return
    for first in range(extents[0]):
        for rest in _count(extents[1:]):
            yield (first, *rest)


MAX_LISTED = 1 << 20


class ndindex:  # noqa: N801  NumPy's name
    """Counts through the indices of an array, the last one fastest.

    Parameters
    ----------
    shape : int
        The extents, one an argument, or a tuple of them.

    Raises
    ------
    ShapeError, DTypeError
        A negative extent; no integers.

    Examples
    --------
    >>> import weft as wf
    >>> list(wf.ndindex(2, 2))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """

    def __init__(self, *shape: Any) -> None:
        given = shape[0] if len(shape) == 1 else shape
        extents = shape_tuple(given, "ndindex")
        short = sum(extents) < MAX_LISTED  # product lists each range before it begins
        self._places = itertools.product(*map(range, extents)) if short else _count(extents)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self

    def __next__(self) -> tuple[int, ...]:
        return next(self._places)


class ndenumerate:  # noqa: N801  NumPy's name
    """Indices and elements of an array, in order; computes at once.

    Parameters
    ----------
    arr : array

    Examples
    --------
    >>> import weft as wf
    >>> [(place, int(x)) for place, x in wf.ndenumerate(wf.array([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """

    def __init__(self, arr: Any) -> None:
        (self._array,) = arrays("ndenumerate", arr=arr)
        self._elements = np.ndenumerate(self._array.numpy())

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Array]]:
        return self

    def __next__(self) -> tuple[tuple[int, ...], Array]:
        place, element = next(self._elements)
        return place, of_numpy(element)

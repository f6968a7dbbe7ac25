"""What form things have, scalars, lists or arrays: asked of what is no array yet, or made so."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.array.views import shown, unused_memory
from weft.dtypes.formats import COMPLEX, FLOATS
from weft.dtypes.parse import layout, liked
from weft.errors import said_by
from weft.functions.creation.fill import array, asarray
from weft.functions.elementwise.ufuncs import isfinite
from weft.functions.reductions.folds import all
from weft.functions.support.arguments import axis_tuple, looked, node, several, whole
from weft.functions.support.unbound import unbound
from weft.runtime import execute


def isscalar(element: Any) -> bool:
    """Whether something is a number: Python's, NumPy's or weft's, and no array of no dimensions.

    Parameters
    ----------
    element : any

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.isscalar(3.0), wf.isscalar(wf.ones(2).sum()), wf.isscalar(wf.ones(2))
    (True, True, False)
    """
    return isinstance(element, Scalar) or bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Whether something can be iterated over.

    Parameters
    ----------
    y : any

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.iterable(wf.ones(2)), wf.iterable(2)
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def shape(a: Any) -> tuple[int, ...]:
    """The extents of an array, or of what can be one.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> import weft as wf
    >>> wf.shape([[1, 2]])
    (1, 2)
    """
    return node(a, "shape", "a").shape


def ndim(a: Any) -> int:
    """The number of dimensions of an array, or of what can be one.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    int

    Examples
    --------
    >>> import weft as wf
    >>> wf.ndim([[1, 2]])
    2
    """
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """How many elements there are, in all or along axes.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional

    Returns
    -------
    int

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.size(wf.ones((2, 3))), wf.size(wf.ones((2, 3)), 1)
    (6, 3)
    """
    extents, count = shape(a), 1
    for k in axis_tuple(axis, len(extents), "size"):
        count *= extents[k]
    return count


def isfortran(a: Any) -> bool:
    """Whether an array lies column by column: none of weft's does.

    Parameters
    ----------
    a : array

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> wf.isfortran(wf.ones((2, 3)))
    False
    """
    return isinstance(a, np.ndarray) and bool(np.isfortran(a))


def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether two arrays show an element in common: views of one array, or an array and what ``numpy.asarray`` gives of it.

    Parameters
    ----------
    a, b : array
        Of weft or of NumPy.
    max_work : int, optional
        How long is searched, as in NumPy; by default until it is known.

    Returns
    -------
    bool

    Raises
    ------
    DTypeError, ValueError, RuntimeError
        ``max_work`` is no integer from -1 on; it is not enough to know the answer.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones(4)
    >>> wf.shares_memory(x, x[1:]), wf.shares_memory(x[:2], x[2:]), wf.shares_memory(x, x.numpy())
    (True, False, True)
    """
    most: Any = -1 if max_work is None else whole(max_work, "shares_memory", "max_work")
    with said_by("shares_memory"):
        return bool(builtins.any([np.shares_memory(*pair, most) for pair in _memories(a, b)]))


def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether the memory of one array begins before that of another ends, and ends after it begins.

    Parameters
    ----------
    a, b : array
        Of weft or of NumPy.
    max_work : int, optional
        As in :func:`shares_memory`; by default nothing is searched.

    Returns
    -------
    bool

    Raises
    ------
    DTypeError, ValueError, RuntimeError
        ``max_work`` is no integer from -1 on; it is not enough to know the answer.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones(4)
    >>> wf.may_share_memory(x[::2], x[1::2]), wf.may_share_memory(x[:2], x[2:])
    (True, False)
    """
    most: Any = 0 if max_work is None else whole(max_work, "may_share_memory", "max_work")
    with said_by("may_share_memory"):
        return bool(builtins.any([np.may_share_memory(*pair, most) for pair in _memories(a, b)]))


def _memories(a: Any, b: Any) -> list[tuple[Any, Any]]:
    """Return pairs of NumPy's arrays of which one pair overlaps if the given arrays do. Nothing is computed for that."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return []
    if isinstance(a, Array) and isinstance(b, Array):
        memory = unused_memory(a.cell.shape, a.cell.node.dtype)
        return [(_shown(memory, a), _shown(memory, b))] if a.cell is b.cell else []
    return [(x, y) for x in _seen(a) for y in _seen(b)]


def _shown(memory: np.ndarray, x: Array) -> np.ndarray:
    """Return the view of its cell's memory that an Array is; all of it for what NumPy would copy, which may lie anywhere."""
    seen = memory if x.cell is x else shown(memory, x._path)
    return memory if seen is None else seen


def _seen(x: Any) -> list[Any]:
    """Return what ``numpy.asarray`` has given of an Array if it was called: its cell's memory, or what a view was copied to."""
    if not isinstance(x, Array):
        return [x] if isinstance(x, np.ndarray) else []
    there = [n for n in {x.cell._node, x.node} if n.value is not None and execute.owner(n.value).name == "cpu"]
    memory = {n: execute.memory(n.value, n.shape, n.dtype) for n in there}
    return [_shown(m, x) if n is x.cell._node else m for n, m in memory.items()]


@unbound
def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None,
) -> Array:
    """:func:`asarray`: weft has no other classes of arrays.

    Parameters
    ----------
    a, dtype, order, device, copy, like : as in :func:`asarray`

    Returns
    -------
    Array

    Raises
    ------
    DTypeError, ValueError
        As :func:`asarray`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    liked(like, "asanyarray")
    layout(order, "asanyarray")
    return asarray(a, dtype, order, device=device, copy=copy)


@unbound
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """``a`` as an array of one dimension at least, whose elements lie row by row: a view is copied.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    like : as in :func:`array`

    Returns
    -------
    Array

    Raises
    ------
    DTypeError
        As :func:`array`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ascontiguousarray(wf.ones((2, 3)).T).shape
    (3, 2)
    """
    liked(like, "ascontiguousarray")
    found = asarray(a, dtype)
    if not found.ndim:
        return own(found.node).reshape(1)
    return found if found._in_order() else own(found.node)


@unbound
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """``a`` as an array. Its elements lie row by row all the same: how they lie shows nowhere but in time.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    like : as in :func:`array`

    Returns
    -------
    Array

    Raises
    ------
    DTypeError
        As :func:`array`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.asfortranarray([1, 2]).tolist()
    [1, 2]
    """
    liked(like, "asfortranarray")
    return ascontiguousarray(a, dtype)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """:func:`asarray` of what holds neither NaN nor infinities; looks whether that is so.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    order : any
        Does nothing.

    Returns
    -------
    Array

    Raises
    ------
    ValueError, DTypeError, TraceError
        A NaN or an infinity; as :func:`array`; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.asarray_chkfinite([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    layout(order, "asarray_chkfinite")
    found = asarray(a, dtype)
    if found.node.dtype in (*FLOATS, *COMPLEX) and not looked(all(isfinite(found)), "asarray_chkfinite"):
        raise ValueError("asarray_chkfinite: a holds NaN or infinities")
    return found


def asnumpy(a: Any) -> np.ndarray:
    """The content as a NumPy array of its own, wherever it lies: CuPy's name for what ``a.get()`` does, for anything.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    numpy.ndarray
        Which may be written to. ``a.numpy()`` copies nothing, and may not.

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.asnumpy(wf.arange(3) * 2)
    array([0, 2, 4])
    """
    return np.array(asarray(a).numpy())


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    """``a`` as an array that fulfils what is required of memory: "C", "A", "W", "O" and "E" always hold.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    requirements : str or sequence of str, optional
        As in NumPy; "F" is refused.
    like : as in :func:`array`

    Returns
    -------
    Array

    Raises
    ------
    ValueError, DTypeError
        Memory in Fortran's order, or an unknown requirement; as :func:`array`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.require([1, 2], requirements=["C", "W"]).tolist()
    [1, 2]
    """
    liked(like, "require")
    words = [requirements] if isinstance(requirements, str) else several(requirements or (), "require", "requirements")
    asked = [str(r).upper()[:1] for r in words]
    if "F" in asked:
        raise ValueError("require: arrays of weft lie row by row; 'F' cannot be had")
    unknown = [r for r in asked if r not in "CAWOE"]
    if unknown:
        raise ValueError(f"require: requirements={requirements!r} must be of 'C', 'A', 'W', 'O' and 'E'")
    return ascontiguousarray(a, dtype) if "C" in asked else array(a, dtype, copy=None)

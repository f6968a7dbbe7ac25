"""Queries about arrays and array-likes, and NumPy's other names for ``asarray``."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.array.views import shown, unused_memory
from weft.dtypes.formats import COMPLEX, FLOATS
from weft.dtypes.parse import check_like, layout
from weft.errors import name_numpy_errors
from weft.functions.creation.fill import array, asarray
from weft.functions.elementwise.ufuncs import isfinite
from weft.functions.reductions.folds import all
from weft.functions.support.arguments import axis_tuple, looked, node, several, whole
from weft.functions.support.unbound import unbound
from weft.process.docstrings import complete_module
from weft.runtime import execute


def isscalar(element: Any) -> bool:
    """Return whether ``element`` is a number of Python, NumPy or weft. An array without dimensions is not.

    Parameters
    ----------
    element : any

    >>> wf.isscalar(3.0), wf.isscalar(wf.ones(2).sum()), wf.isscalar(wf.ones(2))
    (True, True, False)
    """
    return isinstance(element, Scalar) or bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Return whether ``y`` can be iterated over.

    Parameters
    ----------
    y : any

    >>> wf.iterable(wf.ones(2)), wf.iterable(2)
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of an array or array-like.

    Returns
    -------
    tuple of int

    >>> wf.shape([[1, 2]])
    (1, 2)
    """
    return node(a, "shape", "a").shape


def ndim(a: Any) -> int:
    """Return the number of dimensions of an array or array-like.

    Returns
    -------
    int

    >>> wf.ndim([[1, 2]])
    2
    """
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements, in total or along axes.

    Parameters
    ----------
    axis : int or tuple of int, optional

    Returns
    -------
    int

    Raises
    ------
    AxisError
        The axis does not exist.

    >>> wf.size(wf.ones((2, 3))), wf.size(wf.ones((2, 3)), 1)
    (6, 3)
    """
    extents, count = shape(a), 1
    for k in axis_tuple(axis, len(extents), "size"):
        count *= extents[k]
    return count


def isfortran(a: Any) -> bool:
    """Return whether an array is stored in column-major order only; always False for weft's arrays.

    >>> wf.isfortran(wf.ones((2, 3)))
    False
    """
    return isinstance(a, np.ndarray) and bool(np.isfortran(a))


def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Return whether two arrays have an element in common.

    Views of one array can, and so can an array and the result of ``numpy.asarray`` for it.

    Parameters
    ----------
    a, b : array
        Of weft or NumPy.
    max_work : int, optional
        The effort of the search, as in NumPy; unlimited by default.

    Raises
    ------
    DTypeError, ValueError, RuntimeError
        ``max_work`` is no integer; it is below -1; it does not suffice to find the answer.

    >>> x = wf.ones(4)
    >>> wf.shares_memory(x, x[1:]), wf.shares_memory(x[:2], x[2:]), wf.shares_memory(x, x.numpy())
    (True, False, True)
    """
    most: Any = -1 if max_work is None else whole(max_work, "shares_memory", "max_work")
    with name_numpy_errors("shares_memory"):
        return bool(builtins.any([np.shares_memory(*pair, most) for pair in _overlap_candidates(a, b)]))


def may_share_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Return whether the memory ranges of two arrays overlap.

    Parameters
    ----------
    max_work : int, optional
        As in :func:`shares_memory`; by default there is no search, only the bounds are compared.

    >>> x = wf.ones(4)
    >>> wf.may_share_memory(x[::2], x[1::2]), wf.may_share_memory(x[:2], x[2:])
    (True, False)
    """
    most: Any = 0 if max_work is None else whole(max_work, "may_share_memory", "max_work")
    with name_numpy_errors("may_share_memory"):
        return bool(builtins.any([np.may_share_memory(*pair, most) for pair in _overlap_candidates(a, b)]))


def _overlap_candidates(a: Any, b: Any) -> list[tuple[Any, Any]]:
    """Return pairs of NumPy arrays, one of which overlaps if the given arrays do. Nothing is computed."""
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        return []
    if isinstance(a, Array) and isinstance(b, Array):
        memory = unused_memory(a.cell.shape, a.cell.node.dtype)
        return [(_view_of_memory(memory, a), _view_of_memory(memory, b))] if a.cell is b.cell else []
    return [(x, y) for x in _numpy_memories(a) for y in _numpy_memories(b)]


def _view_of_memory(memory: np.ndarray, x: Array) -> np.ndarray:
    """Return the view of its cell's memory that an Array is; all of the memory if NumPy would have copied the view."""
    view = memory if x.cell is x else shown(memory, x._path)
    return memory if view is None else view


def _numpy_memories(x: Any) -> list[Any]:
    """Return the arrays that ``numpy.asarray`` may have returned for ``x``: its cell's memory, or the copy of a view."""
    if not isinstance(x, Array):
        return [x] if isinstance(x, np.ndarray) else []
    cpu_nodes = [n for n in {x.cell._node, x.node} if n.value is not None and execute.owner(n.value).name == "cpu"]
    memory = {n: execute.memory(n.value, n.shape, n.dtype) for n in cpu_nodes}
    return [_view_of_memory(m, x) if n is x.cell._node else m for n, m in memory.items()]


@unbound
def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None, like: Any = None,
) -> Array:
    """Return :func:`asarray` of ``a``: weft's arrays have no subclasses.

    >>> wf.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    check_like(like, "asanyarray")
    layout(order, "asanyarray")
    return asarray(a, dtype, order, device=device, copy=copy)


@unbound
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as a contiguous array of at least one dimension; a strided view is copied.

    Returns
    -------
    Array with one or more dimensions

    Raises
    ------
    DTypeError
        ``a`` cannot become an array, or ``dtype`` is unknown.

    >>> wf.ascontiguousarray(wf.ones((2, 3)).T).shape
    (3, 2)
    """
    check_like(like, "ascontiguousarray")
    result = asarray(a, dtype)
    if not result.ndim:
        return own(result.node).reshape(1)
    return result if result._in_order() else own(result.node)


@unbound
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as an array, in row-major order all the same: the order of elements in memory affects speed only.

    Returns
    -------
    Array with one or more dimensions

    Raises
    ------
    DTypeError
        ``a`` cannot become an array, or ``dtype`` is unknown.

    >>> wf.asfortranarray([1, 2]).tolist()
    [1, 2]
    """
    check_like(like, "asfortranarray")
    return ascontiguousarray(a, dtype)


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """Return :func:`asarray` of ``a`` after checking that it holds no NaN and no infinity. Computes at once.

    Raises
    ------
    ValueError, DTypeError, TraceError
        ``a`` holds a NaN or an infinity; it cannot become an array, or ``dtype`` is unknown; called inside a traced function.

    >>> wf.asarray_chkfinite([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    layout(order, "asarray_chkfinite")
    result = asarray(a, dtype)
    if result.node.dtype in (*FLOATS, *COMPLEX) and not looked(all(isfinite(result)), "asarray_chkfinite"):
        raise ValueError("asarray_chkfinite: a holds NaN or infinities")
    return result


def asnumpy(a: Any) -> np.ndarray:
    """Return the content as a new NumPy array, from any device. The name is CuPy's, whose ``a.get()`` does the same.

    Returns
    -------
    numpy.ndarray
        Writable. ``a.numpy()`` makes no copy and is read-only.

    Raises
    ------
    TraceError
        Called inside a traced function.

    >>> wf.asnumpy(wf.arange(3) * 2)
    array([0, 2, 4])
    """
    return np.array(asarray(a).numpy())


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    """Return ``a`` as an array whose memory fulfils requirements; "C", "A", "W", "O" and "E" always hold.

    Parameters
    ----------
    requirements : str or sequence of str, optional
        As in NumPy; "F" is refused.

    Raises
    ------
    ValueError, DTypeError
        "F" or an unknown requirement; ``a`` cannot become an array, or ``dtype`` is unknown.

    >>> wf.require([1, 2], requirements=["C", "W"]).tolist()
    [1, 2]
    """
    check_like(like, "require")
    words = [requirements] if isinstance(requirements, str) else several(requirements or (), "require", "requirements")
    letters = [str(r).upper()[:1] for r in words]
    if "F" in letters:
        raise ValueError("require: weft's arrays are stored in row-major order; requirements must not contain 'F'")
    unknown = [r for r in letters if r not in "CAWOE"]
    if unknown:
        raise ValueError(f"require: requirements={requirements!r} must be of 'C', 'A', 'W', 'O' and 'E'")
    return ascontiguousarray(a, dtype) if "C" in letters else array(a, dtype, copy=None)


complete_module(
    globals(), (isscalar, iterable), (shape, ndim, size), (shares_memory, may_share_memory), (asarray, asanyarray,
    ascontiguousarray, asfortranarray, asarray_chkfinite, require), (isscalar, isfortran),
)

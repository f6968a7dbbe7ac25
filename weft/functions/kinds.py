"""What things are: dtypes of a kind, scalars and arrays, shapes of what is no array yet, and arrays that must be of some form."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own
from weft.dtypes import result_type
from weft.errors import DTypeError
from weft.formats import BFLOAT16, FLOATS
from weft.functions.common import axis_tuple, broadcast_shapes, looked, node
from weft.functions.creation import array, asarray
from weft.functions.elementwise import equal, isfinite
from weft.functions.statistics import all
from weft.spelling import spelled

# ---- kinds of dtypes

_BFLOAT16 = BFLOAT16.numpy.type


class Kind(type):
    """The class of the kinds: ``isinstance(x, wf.integer)`` asks for scalars, weft's and NumPy's."""

    numpys: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Scalar | np.generic) and cls._holds(x.dtype.type)

    def __subclasscheck__(cls, other: Any) -> bool:
        return cls._holds(other.numpys if isinstance(other, Kind) else other)

    def _holds(cls, scalar: Any) -> bool:
        if scalar is _BFLOAT16:  # NumPy knows it as a generic only
            scalar = np.floating
        return isinstance(scalar, type) and builtins.issubclass(scalar, cls.numpys)


def _kind(name: str, about: str, example: str) -> Any:
    doc = f"""{about}, for :func:`issubdtype` and ``isinstance``; no dtype itself.

    Examples
    --------
    >>> import weft as wf
    >>> wf.issubdtype({example}, wf.{name})
    True
    """
    return Kind(name, (), {"numpys": getattr(np, name), "__doc__": doc, "__module__": __name__})


generic = _kind("generic", "Any dtype", "wf.bool")
number = _kind("number", "Integers and floats", "wf.int8")
integer = _kind("integer", "Integers", "wf.uint8")
signedinteger = _kind("signedinteger", "Integers with a sign", "wf.int8")
unsignedinteger = _kind("unsignedinteger", "Integers without a sign", "wf.uint8")
inexact = _kind("inexact", "Floats, and what is complex", "wf.bfloat16")
floating = _kind("floating", "Floats", "wf.bfloat16")


def _scalar_type(given: Any, argument: str) -> Any:
    """NumPy's class of scalars for what the user means by a dtype."""
    if isinstance(given, Kind):
        return given.numpys
    if isinstance(given, type) and builtins.issubclass(given, np.generic):
        return given
    try:
        return {float: np.float64, int: np.int64}.get(given) or spelled(given).numpy.type
    except DTypeError:
        try:
            return np.dtype(given).type
        except TypeError:
            raise DTypeError(f"issubdtype: {argument}={given!r} is no dtype") from None


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is another one, or of a kind such as ``wf.integer``.

    Parameters
    ----------
    arg1, arg2 : dtype, or a kind: wf.number, wf.integer, wf.floating, ...

    Returns
    -------
    bool

    Raises
    ------
    DTypeError
        No dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.issubdtype(wf.float32, wf.floating), wf.issubdtype(wf.float32, wf.integer)
    (True, False)
    """
    one, other = _scalar_type(arg1, "arg1"), _scalar_type(arg2, "arg2")
    if one is _BFLOAT16 and other is not _BFLOAT16:
        one = np.floating
    return builtins.issubclass(one, other)


def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The dtype that both become together.

    Parameters
    ----------
    type1, type2 : dtype

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        An unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.promote_types(wf.int8, wf.float16)
    dtype('float16')
    """
    return result_type(spelled(type1).numpy, spelled(type2).numpy)


def min_scalar_type(a: Any) -> np.dtype:
    """The smallest dtype that holds a number; the dtype of an array.

    Parameters
    ----------
    a : number or array

    Returns
    -------
    numpy.dtype

    Raises
    ------
    DTypeError
        A number that no dtype of weft holds.

    Examples
    --------
    >>> import weft as wf
    >>> wf.min_scalar_type(300)
    dtype('uint16')
    """
    if isinstance(a, Array):
        return a.dtype if a.ndim else np.min_scalar_type(a.numpy())
    return spelled(np.min_scalar_type(a)).numpy


# ---- scalars and arrays

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


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two arrays broadcast and are equal then; computes at once.

    Parameters
    ----------
    a1, a2 : array

    Returns
    -------
    bool

    Raises
    ------
    TraceError
        Inside a traced function, where values are not known.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array_equiv(wf.array([1, 2]), [[1, 2], [1, 2]])
    True
    """
    try:
        broadcast_shapes("array_equiv", shape(a1), shape(a2))
    except ValueError:
        return False
    return bool(all(equal(a1, a2)))


def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """Whether writing to one of two arrays can show in the other: whether they are views of one array.

    Parameters
    ----------
    a, b : array
    max_work : any
        Does nothing: parts of an array that do not overlap count too.

    Returns
    -------
    bool

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones(4)
    >>> wf.shares_memory(x, x[1:]), wf.shares_memory(x, x + 1)
    (True, False)
    """
    ours = isinstance(a, Array) and isinstance(b, Array)
    return ours and a.cell is b.cell and not isinstance(a, Scalar)


may_share_memory = shares_memory


# ---- arrays that must be of some form

def asanyarray(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """:func:`asarray`: weft has no other classes of arrays.

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
    DTypeError
        As :func:`array`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    return asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    """``a`` as an array of one dimension at least, whose elements lie row by row: a view is copied.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional

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
    found = asarray(a, dtype)
    if not found.ndim:
        return own(found.node).reshape(1)
    return found if found._in_order() else own(found.node)


def asfortranarray(a: Any, dtype: Any = None) -> Array:
    """``a`` as an array. Its elements lie row by row all the same: how they lie shows nowhere but in time.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional

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
    found = asarray(a, dtype)
    if found.node.dtype in FLOATS and not looked(all(isfinite(found)), "asarray_chkfinite"):
        raise ValueError("asarray_chkfinite: a holds NaN or infinities")
    return found


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Array:
    """``a`` as an array that fulfils what is required of memory: "C", "A", "W", "O" and "E" always hold.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    requirements : str or sequence of str, optional
        As in NumPy; "F" is refused.

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
    asked = [str(r).upper()[:1] for r in ([requirements] if isinstance(requirements, str) else requirements or ())]
    if "F" in asked:
        raise ValueError("require: arrays of weft lie row by row; 'F' cannot be had")
    unknown = [r for r in asked if r not in "CAWOE"]
    if unknown:
        raise ValueError(f"require: requirements={requirements!r} must be of 'C', 'A', 'W', 'O' and 'E'")
    return ascontiguousarray(a, dtype) if "C" in asked else array(a, dtype, copy=False)

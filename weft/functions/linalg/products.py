"""Products of vectors and matrices: matmul, dot, inner, outer, tensordot, vdot, kron, cross and their variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, matrix_products, ndarray, wrap
from weft.array.convert import array_operands, operands
from weft.array.indexing import as_ints
from weft.array.matrix_products import contracted
from weft.dtypes.formats import BOOL, FLOATS, INT64, INTEGERS
from weft.dtypes.parse import layout, to_tuple
from weft.eager.peek import at_hand
from weft.errors import AxisError, ShapeError
from weft.functions.elementwise.ufuncs import describe
from weft.functions.linalg.diagonals import line_of, sum_of
from weft.functions.shape.join_split import concat
from weft.functions.support import gufunc_arguments
from weft.functions.support.arguments import (
    Node,
    axis_index,
    axis_tuple,
    broadcast,
    broadcast_shapes,
    cast,
    conjugated,
    finish,
    of_numpy,
    op,
    permuted,
    reshaped,
    several,
    sliced,
    whole,
)
from weft.functions.support.try_numpy import by_numpy
from weft.functions.support.unbound import unbound


@unbound
def matmul(
    x1: Any, x2: Any, /, out: Array | None = None, *, casting: str = "same_kind", order: str = "K", dtype: Any = None,
    subok: bool = True, axes: Any = None,
) -> Array:
    """Matrix product, as the operator ``@``.

    Parameters
    ----------
    x1, x2 : array
        Matrices, stacks of matrices whose leading dimensions broadcast, or vectors: a row in front, a column behind.
    out : Array, optional
    dtype : dtype, optional
        What both operands become as they are read, and what is added up: ``int32`` for products of 8-bit integers, which would
        wrap, ``float32`` for those of 8-bit floats, be they of both kinds. No array of that dtype is made.
    casting : str
        Which casts that may be.
    axes : list of tuples of int, optional
        Where the dimensions of matrices and vectors are: of the operands, then of the result; by default the last ones.
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.

    Returns
    -------
    Array
        (..., M, N) for matrices; a vector's dimension is missing.

    Raises
    ------
    ShapeError
        The inner extents differ, or an operand has no dimensions.
    DTypeError
        ``dtype`` cannot hold an operand: floats where integers are asked for.

    Examples
    --------
    >>> import weft as wf
    >>> wf.matmul(wf.array([[1.0, 2.0], [3.0, 4.0]]), wf.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    >>> wf.matmul(wf.full((2, 3), 100, dtype="int8"), wf.full((3,), 100, dtype="int8"), dtype="int32").tolist()
    [30000, 30000]
    """
    if order != "K":
        layout(order, "matmul")
    if dtype is not None or axes is not None or casting != "same_kind":
        return gufunc_arguments.asked("matmul", matrix_products.matmul, x1, x2, out, dtype, casting, axes)
    return finish(matrix_products.matmul(*operands(x1, x2)), out, "matmul")


def _is_matmul(a: Any, b: Any, most: int) -> bool:
    """Whether two arrays of at most so many dimensions are what ``a @ b`` takes: it costs less to ask."""
    if type(a) is not ndarray or type(b) is not ndarray:
        return False
    x, y = a.node.shape, b.node.shape
    return 0 < len(x) <= most and 0 < len(y) <= most and x[-1] == y[0 if len(y) == 1 else -2]


def dot(a: Any, b: Any, out: Array | None = None) -> Array:
    """NumPy's dot: the last axis of ``a`` with the last but one of ``b``; with a number, the plain product.

    Parameters
    ----------
    a, b : array_like
    out : Array, optional

    Returns
    -------
    Array : () for two vectors

    Raises
    ------
    ShapeError
        The summed axes differ in length.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dot(wf.array([1.0, 2.0]), wf.array([3.0, 4.0])).tolist()
    11.0
    """
    if out is None and _is_matmul(a, b, 2):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return finish(op("multiply", a, b), out, "dot")
    inside = max(len(b.shape) - 2, 0)
    _same_extent("dot", a, b, (len(a.shape) - 1,), (inside,))
    return finish(contracted(a, b, (len(a.shape) - 1,), (inside,)), out, "dot")


def _same_extent(function: str, a: Node, b: Node, a_axes: Sequence[int], b_axes: Sequence[int]) -> None:
    for i, j in zip(a_axes, b_axes, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"{function}: x1 {a.shape} and x2 {b.shape} do not fit: axis {i} of x1 has extent {a.shape[i]}, "
                f"axis {j} of x2 {b.shape[j]}"
            )


def vdot(x1: Any, x2: Any, /) -> Array:
    """Sum of the products of all elements, both flattened; complex ones of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like of one number of elements

    Returns
    -------
    () Array

    Raises
    ------
    ShapeError
        The numbers of elements differ.

    Examples
    --------
    >>> import weft as wf
    >>> wf.vdot(wf.ones((2, 2)), wf.ones((2, 2))).tolist()
    4.0
    """
    a, b = array_operands(x1, x2)
    if a.size != b.size:
        raise ShapeError(f"vdot: x1 {a.shape} and x2 {b.shape} have different numbers of elements")
    return wrap(contracted(reshaped(conjugated(a), (a.size,)), reshaped(b, (b.size,)), (0,), (0,)))


def inner(a: Any, b: Any) -> Array:
    """Sum of the products along the last axis of both; with a number, the plain product.

    Parameters
    ----------
    a, b : (..., K)

    Returns
    -------
    Array : the other axes of ``a``, then those of ``b``

    Raises
    ------
    ShapeError
        The last axes differ in length.

    Examples
    --------
    >>> import weft as wf
    >>> wf.inner(wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if _is_matmul(a, b, 1):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return wrap(op("multiply", a, b))
    last = (len(a.shape) - 1,), (len(b.shape) - 1,)
    _same_extent("inner", a, b, *last)
    return wrap(contracted(a, b, *last))


def outer(a: Any, b: Any, out: Array | None = None) -> Array:
    """All products of an element of ``a`` with one of ``b``, both flattened: a matrix.

    Parameters
    ----------
    a, b : array_like
    out : Array, optional

    Returns
    -------
    (a.size, b.size) Array

    Raises
    ------
    DTypeError, ShapeError
        What cannot be an array; an ``out`` that does not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.outer(wf.array([1, 2]), wf.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    if out is None and type(a) is type(b) is ndarray and a.dtype == b.dtype:
        found = by_numpy(np.outer, a, b, most=a.size * b.size)
        if found is not None:
            return found
    a, b = array_operands(a, b)
    return finish(op("multiply", reshaped(a, (a.size, 1)), reshaped(b, (1, b.size))), out, "outer")


def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """Sum of products over several axes.

    Parameters
    ----------
    a, b : array
    axes : int or (axes of a, axes of b)
        A number n: the last n of ``a`` with the first n of ``b``.

    Returns
    -------
    Array
        The other axes of ``a``, then those of ``b``.

    Raises
    ------
    ShapeError, AxisError
        Extents or numbers of axes differ; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.tensordot(wf.ones((2, 3)), wf.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    a, b = array_operands(a, b)
    axes = as_ints(axes)
    if isinstance(axes, int) or getattr(axes, "shape", None) == ():
        axes = whole(axes, "tensordot", "axes")
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: axes={axes}, but a has {len(a.shape)} dimensions and b {len(b.shape)}")
        pair = tuple(range(len(a.shape) - axes, len(a.shape))), tuple(range(axes))
    else:
        given = [to_tuple(g) for g in several(axes, "tensordot", "axes")]
        if len(given) != 2 or len(given[0]) != len(given[1]):
            raise ShapeError(f"tensordot: axes={axes!r} must be a number, or as many axes of a as of b")
        for g, n, name in zip(given, (a, b), ("axes of a", "axes of b"), strict=True):
            axis_tuple(g, len(n.shape), "tensordot", name)
        pair = tuple(tuple(axis_index(i, len(n.shape)) for i in g) for g, n in zip(given, (a, b), strict=True))  # type: ignore
    _same_extent("tensordot", a, b, *pair)
    return wrap(contracted(a, b, *pair))


@unbound
def vecdot(
    x1: Any, x2: Any, /, out: Array | None = None, *, axis: int | None = None, axes: Any = None, keepdims: bool = False,
    casting: str = "same_kind", order: str = "K", dtype: Any = None, subok: bool = True,
) -> Array:
    """Sum of products along one axis; the others broadcast. Complex numbers of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like, of one length along ``axis``
    out : Array, optional
    axis : int, optional
        None: the last.
    keepdims : bool
        Keep the axis with extent 1.
    axes, casting, order, dtype, subok : as in :func:`matmul`

    Returns
    -------
    Array without that axis

    Raises
    ------
    ShapeError, AxisError
        The lengths differ, or the other axes do not broadcast; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.vecdot(wf.ones((2, 3)), wf.ones(3)).tolist()
    [3.0, 3.0]
    """
    if order != "K":
        layout(order, "vecdot")
    return gufunc_arguments.asked("vecdot", _vecdot, x1, x2, out, dtype, casting, axes, axis, keepdims)


def _vecdot(a: Node, b: Node) -> Node:
    if not a.shape or not b.shape:
        raise AxisError(f"vecdot: x1 {a.shape} and x2 {b.shape} must have one axis at least")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: x1 {a.shape} and x2 {b.shape} have different extents along the axis, the last of these")
    product = op("multiply", conjugated(a), b)
    terms = cast(product, INT64) if a.dtype == BOOL else product  # of bools: whether one product is true
    return cast(op("reduce_sum", terms, axes=(len(product.shape) - 1,), keepdims=False), product.dtype)


# ---- diagonals, of the last two axes as everywhere in numpy.linalg


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes.

    Parameters
    ----------
    x : (..., M, N)
    offset : int
        Above 0 to the right of the main diagonal.

    Returns
    -------
    Array, the diagonal along its last axis

    Raises
    ------
    ShapeError
        ``x`` holds no matrix.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.diagonal(wf.array([[[1, 2], [3, 4]]])).tolist()
    [[1, 4]]
    """
    return wrap(line_of("diagonal", x, offset, -2, -1))


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sums of the diagonals of the matrices in the last two axes.

    Parameters
    ----------
    x, offset : as in :func:`diagonal`
    dtype : dtype, optional
        Of the sum; by default as in :func:`weft.sum`.

    Returns
    -------
    (...) Array

    Raises
    ------
    ShapeError, DTypeError
        ``x`` holds no matrix; an unknown dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.trace(wf.array([[[1, 2], [3, 4]]])).tolist()
    [5]
    """
    return wrap(sum_of("trace", x, offset, -2, -1, dtype))


for _function in (matmul, vecdot):
    describe(_function, _function.__name__)


def kron(a: Any, b: Any) -> Array:
    """The product of Kronecker: blocks of ``b``, each times an element of ``a``.

    Parameters
    ----------
    a, b : array

    Returns
    -------
    Array, along each axis as long as both extents multiplied

    Examples
    --------
    >>> import weft as wf
    >>> wf.kron(wf.array([1, 10]), [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    x, y = array_operands(a, b)
    ndim = max(len(x.shape), len(y.shape))
    first, second = ((1,) * (ndim - len(n.shape)) + n.shape for n in (x, y))
    wide = reshaped(x, tuple(n for extent in first for n in (extent, 1)))
    deep = reshaped(y, tuple(n for extent in second for n in (1, extent)))
    both = wrap(wide) * wrap(deep)
    return wrap(reshaped(both.node, tuple(n * m for n, m in zip(first, second, strict=True))))


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The cross product of vectors of three, or of two, elements.

    Parameters
    ----------
    a, b : array
    axisa, axisb, axisc : int
        Along which axes the vectors lie in both, and in the result.
    axis : int, optional
        For all three.

    Returns
    -------
    Array; of two vectors of two elements only the third component, without the axis

    Raises
    ------
    ShapeError, AxisError
        Vectors of other lengths, or shapes that do not broadcast; no such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cross(wf.array([1, 0, 0]), [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = array_operands(a, b)
    sides = []
    for n, at, name in ((x, axisa, "axisa"), (y, axisb, "axisb")):
        place = axis_index(at, len(n.shape), "cross", name)
        n = permuted(n, (*(d for d in range(len(n.shape)) if d != place), place))
        if n.shape[-1] not in (2, 3):
            raise ShapeError(f"cross: shapes {x.shape} and {y.shape}; vectors of 2 or 3 elements are needed")
        sides.append(n)
    lead = broadcast_shapes("cross", *(n.shape[:-1] for n in sides))
    flat = all([n.shape[-1] == 2 for n in sides])
    place = 0 if flat else axis_index(axisc, len(lead) + 1, "cross", "axisc")
    known = None if x.dtype.narrow or x.dtype not in FLOATS | INTEGERS else at_hand(*sides)
    if known is not None:
        with np.errstate(all="ignore"):
            parts = _crossed(*[[side[..., k] for k in range(side.shape[-1])] for side in known])
        return of_numpy(parts[0] if flat else np.stack(np.broadcast_arrays(*parts), place))
    u, v = ([wrap(broadcast(reshaped(sliced(n, len(n.shape) - 1, k, k + 1), n.shape[:-1]), lead))
             for k in range(n.shape[-1])] for n in sides)
    parts = _crossed(u, v)
    return parts[0] if flat else concat([p.reshape(*lead[:place], 1, *lead[place:]) for p in parts], place)


def _crossed(u: list[Any], v: list[Any]) -> list[Any]:
    """The components of a cross product of components, arrays of weft or of NumPy; one where both have two."""
    third = u[0] * v[1] - u[1] * v[0]
    if len(u) == len(v) == 2:
        return [third]
    zero = third * 0 if 2 in (len(u), len(v)) else third
    u, v = ([*w, zero] if len(w) == 2 else w for w in (u, v))
    return [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], third]


@unbound
def matvec(
    x1: Any, x2: Any, /, out: Array | None = None, *, axes: Any = None, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True,
) -> Array:
    """Matrices times vectors.

    Parameters
    ----------
    x1 : (..., M, N) array
    x2 : (..., N) array
    out : Array, optional
    axes, casting, order, dtype, subok : as in :func:`matmul`

    Returns
    -------
    (..., M) Array

    Raises
    ------
    ShapeError
        Shapes that do not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.matvec(wf.array([[1, 2], [3, 4]]), [1, 1]).tolist()
    [3, 7]
    """
    if order != "K":
        layout(order, "matvec")
    return gufunc_arguments.asked("matvec", _matvec, x1, x2, out, dtype, casting, axes)


def _matvec(a: Node, b: Node) -> Node:
    if len(a.shape) < 2 or not b.shape or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"matvec: shapes {a.shape} and {b.shape} do not fit: (..., M, N) and (..., N) are needed")
    found = matmul(wrap(a), wrap(op("reshape", b, shape=(*b.shape, 1))))
    return found.reshape(found.shape[:-1]).node


@unbound
def vecmat(
    x1: Any, x2: Any, /, out: Array | None = None, *, axes: Any = None, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True,
) -> Array:
    """Vectors times matrices. Complex numbers of ``x1`` are conjugated, as in :func:`vecdot`.

    Parameters
    ----------
    x1 : (..., M) array
    x2 : (..., M, N) array
    out : Array, optional
    axes, casting, order, dtype, subok : as in :func:`matmul`

    Returns
    -------
    (..., N) Array

    Raises
    ------
    ShapeError
        Shapes that do not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.vecmat(wf.array([1, 1]), [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    if order != "K":
        layout(order, "vecmat")
    return gufunc_arguments.asked("vecmat", _vecmat, x1, x2, out, dtype, casting, axes)


def _vecmat(a: Node, b: Node) -> Node:
    if len(b.shape) < 2 or not a.shape or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"vecmat: shapes {a.shape} and {b.shape} do not fit: (..., M) and (..., M, N) are needed")
    found = matmul(wrap(op("reshape", conjugated(a), shape=(*a.shape[:-1], 1, a.shape[-1]))), wrap(b))
    return found.reshape((*found.shape[:-2], found.shape[-1])).node


for _product in (matvec, vecmat):
    describe(_product, _product.__name__)

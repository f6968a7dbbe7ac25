"""Products of vectors and matrices, and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array, ndarray, operations, wrap
from weft.array.convert import array_operands, operands
from weft.array.indexing import resolve_scalar_indices
from weft.array.operations import contracted
from weft.dtypes.formats import BOOL, FLOATS, INT64, INTEGERS, summed
from weft.dtypes.parse import layout, parse_dtype, to_tuple
from weft.eager.peek import peek
from weft.errors import AxisError, ShapeError
from weft.functions.creation.fill import diagonal_number
from weft.functions.elementwise.ufuncs import describe
from weft.functions.shape.join_split import concat
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, finish, node, number, op, permuted, reshaped, sliced, try_numpy, whole
from weft.functions.support.unbound import unbound
from weft.process.docstrings import complete_module


def line_of(function: str, x: Any, offset: int, axis1: int, axis2: int) -> Node:
    """Return the diagonals of the matrices in two axes, along a new last axis."""
    value = node(x, function, "a")
    ndim = len(value.shape)
    if ndim < 2:
        raise ShapeError(f"{function}: the array has shape {value.shape}; a matrix or a stack of matrices is needed")
    first, second = arguments.axis_index(axis1, ndim, function, "axis1"), arguments.axis_index(axis2, ndim, function, "axis2")
    if first == second:
        raise ShapeError(f"{function}: axis1={axis1} and axis2={axis2} are the same axis")
    value = permuted(value, (*(a for a in range(ndim) if a not in (first, second)), first, second))
    rows, columns = value.shape[-2:]
    lead, k = value.shape[:-2], whole(offset, function, "offset")
    count = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    if count == 0:
        return sliced(reshaped(value, (*lead, rows * columns)), ndim - 2, 0, 0)
    flat = reshaped(value, (*lead, rows * columns))  # neighbours on the diagonal are columns + 1 apart
    begin = k if k >= 0 else -k * columns
    zeros = (0,) * len(lead)
    return op("slice", flat, start=(*zeros, begin), step=(*(1 for _ in lead), columns + 1), shape=(*lead, count))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of matrices, along a new last axis.

    Parameters
    ----------
    a : array_like with two or more dimensions
    offset : int
        Positive: a diagonal to the right of the main one.
    axis1, axis2 : int
        The axes of the matrices.

    Returns
    -------
    Array with the diagonal along its last axis

    Raises
    ------
    ShapeError, AxisError
        ``a`` has fewer than two dimensions, or both axes are the same; ``a`` has no such axis.

    >>> wf.diagonal(wf.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return wrap(line_of("diagonal", a, offset, axis1, axis2))


def diag(v: Any, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Parameters
    ----------
    v : (N,) or (M, N)
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (N + abs(k), N + abs(k)) Array for a vector, the diagonal for a matrix

    Raises
    ------
    ShapeError
        ``v`` is neither a vector nor a matrix.

    >>> wf.diag(wf.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    if type(v) is ndarray and type(k) is int:
        if (result := try_numpy(np.diag, v, k, most=v.size if v.ndim > 1 else (v.size + abs(k)) ** 2)) is not None:
            return result
    value = node(v, "diag", "v")
    if len(value.shape) == 2:
        return wrap(line_of("diag", v, k, 0, 1))
    if len(value.shape) != 1:
        raise ShapeError(f"diag: v has shape {value.shape}; a vector or a matrix is needed")
    k = whole(k, "diag", "k")
    extent = value.size + abs(k)
    line = op("pad", value, low=(0,), high=(abs(k),), value=0)
    line = reshaped(line, (extent, 1) if k >= 0 else (1, extent))
    return wrap(op("where", op("equal", diagonal_number(extent, extent), number(k, INT64)), line, number(0, value.dtype)))


def diagflat(v: Any, k: int = 0) -> Array:
    """Return the matrix with the elements of a flattened array on its k-th diagonal.

    Parameters
    ----------
    k : int
        Positive: a diagonal to the right of the main one.

    Returns
    -------
    (v.size + abs(k), v.size + abs(k)) Array

    >>> wf.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    value = node(v, "diagflat", "v")
    return diag(wrap(reshaped(value, (value.size,))), k)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Array | None = None,
) -> Array:
    """Sum the diagonal of matrices.

    Parameters
    ----------
    dtype : dtype, optional
        The dtype of the result; by default as for :func:`weft.sum`.

    Returns
    -------
    Array without the two axes

    Raises
    ------
    ShapeError, AxisError, DTypeError
        As :func:`diagonal`; ``dtype`` is unknown.

    >>> wf.trace(wf.array([[1, 2], [3, 4]])).tolist()
    5
    """
    return finish(sum_of("trace", a, offset, axis1, axis2, dtype), out, "trace")


def sum_of(function: str, x: Any, offset: int, axis1: int, axis2: int, dtype: Any) -> Node:
    """Return the sums of the diagonals of the matrices in two axes."""
    line = line_of(function, x, offset, axis1, axis2)
    line = cast(line, summed(line.dtype) if dtype is None else parse_dtype(dtype))
    return op("reduce_sum", line, axes=(len(line.shape) - 1,), keepdims=False)


@unbound
def matmul(
    x1: Any, x2: Any, /, out: Array | None = None, *, casting: str = "same_kind", order: str = "K", dtype: Any = None,
    subok: bool = True, axes: Any = None,
) -> Array:
    """Compute the matrix product, as the operator ``@``.

    Parameters
    ----------
    x1, x2 : array
        Matrices, stacks of matrices whose leading dimensions broadcast, or vectors: ``x1`` as a row, ``x2`` as a column.
    dtype : dtype, optional
        The dtype to which the operands are cast as they are read, and in which products are summed: ``int32`` for 8-bit integers,
        which would wrap, ``float32`` for 8-bit floats, also of two different formats. No cast array is stored.
    casting : str
        The casts that ``dtype`` may imply.
    axes : list of tuples of int, optional
        The axes of the matrices and vectors, of the operands, then of the result; the last ones by default.

    Returns
    -------
    Array
        (..., M, N) for matrices; without the dimension of a vector.

    Raises
    ------
    ShapeError
        The inner extents differ, or an operand has no dimensions.
    DTypeError
        ``dtype`` cannot hold an operand, such as an integer dtype for floats.

    >>> wf.matmul(wf.array([[1.0, 2.0], [3.0, 4.0]]), wf.array([1.0, 1.0])).tolist()
    [3.0, 7.0]
    >>> wf.matmul(wf.full((2, 3), 100, dtype="int8"), wf.full((3,), 100, dtype="int8"), dtype="int32").tolist()
    [30000, 30000]
    """
    if order != "K":
        layout(order, "matmul")
    if dtype is not None or axes is not None or casting != "same_kind":
        return arguments.call_gufunc("matmul", operations.matmul, x1, x2, out, dtype, casting, axes)
    return finish(operations.matmul(*operands(x1, x2)), out, "matmul")


def _is_matmul(a: Any, b: Any, most: int) -> bool:
    """Return whether ``a @ b`` computes the result: the operands are arrays of at most ``most`` dimensions that fit."""
    if type(a) is not ndarray or type(b) is not ndarray:
        return False
    x, y = a.node.shape, b.node.shape
    return 0 < len(x) <= most and 0 < len(y) <= most and x[-1] == y[0 if len(y) == 1 else -2]


def dot(a: Any, b: Any, out: Array | None = None) -> Array:
    """Compute NumPy's dot: sum over the last axis of ``a`` and the second to last of ``b``; with a number, multiply.

    Parameters
    ----------
    a, b : array_like

    Returns
    -------
    Array : () for two vectors

    Raises
    ------
    ShapeError
        The summed axes differ in length.

    >>> wf.dot(wf.array([1.0, 2.0]), wf.array([3.0, 4.0])).tolist()
    11.0
    """
    if out is None and _is_matmul(a, b, 2):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return finish(op("multiply", a, b), out, "dot")
    inside = max(len(b.shape) - 2, 0)
    _check_extents("dot", a, b, (len(a.shape) - 1,), (inside,))
    return finish(contracted(a, b, (len(a.shape) - 1,), (inside,)), out, "dot")


def _check_extents(function: str, a: Node, b: Node, a_axes: Sequence[int], b_axes: Sequence[int]) -> None:
    for i, j in zip(a_axes, b_axes, strict=True):
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"{function}: x1 {a.shape} and x2 {b.shape} do not fit: axis {i} of x1 has extent {a.shape[i]}, "
                f"axis {j} of x2 {b.shape[j]}"
            )


def vdot(x1: Any, x2: Any, /) -> Array:
    """Sum the products of all elements of two flattened arrays; complex elements of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like with the same number of elements

    Returns
    -------
    () Array

    Raises
    ------
    ShapeError
        The numbers of elements differ.

    >>> wf.vdot(wf.ones((2, 2)), wf.ones((2, 2))).tolist()
    4.0
    """
    a, b = array_operands(x1, x2)
    if a.size != b.size:
        raise ShapeError(f"vdot: x1 {a.shape} and x2 {b.shape} have different numbers of elements")
    return wrap(contracted(reshaped(arguments.conjugate(a), (a.size,)), reshaped(b, (b.size,)), (0,), (0,)))


def inner(a: Any, b: Any) -> Array:
    """Sum the products along the last axis of both arrays; with a number, multiply.

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

    >>> wf.inner(wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if _is_matmul(a, b, 1):
        return a @ b
    a, b = array_operands(a, b)
    if not a.shape or not b.shape:
        return wrap(op("multiply", a, b))
    last = (len(a.shape) - 1,), (len(b.shape) - 1,)
    _check_extents("inner", a, b, *last)
    return wrap(contracted(a, b, *last))


def outer(a: Any, b: Any, out: Array | None = None) -> Array:
    """Multiply each element of ``a`` by each of ``b``; both are flattened.

    Returns
    -------
    (a.size, b.size) Array

    Raises
    ------
    DTypeError, ShapeError
        An operand is not an array; ``out`` does not fit.

    >>> wf.outer(wf.array([1, 2]), wf.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    if out is None and type(a) is type(b) is ndarray and a.dtype == b.dtype:
        if (result := try_numpy(np.outer, a, b, most=a.size * b.size)) is not None:
            return result
    a, b = array_operands(a, b)
    return finish(op("multiply", reshaped(a, (a.size, 1)), reshaped(b, (1, b.size))), out, "outer")


def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """Sum products over several axes.

    Parameters
    ----------
    a, b : array
    axes : int or (axes of a, axes of b)
        A number n stands for the last n axes of ``a`` and the first n of ``b``.

    Returns
    -------
    Array
        The other axes of ``a``, then those of ``b``.

    Raises
    ------
    ShapeError, AxisError
        Extents or the numbers of axes differ; an array has no such axis.

    >>> wf.tensordot(wf.ones((2, 3)), wf.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    a, b = array_operands(a, b)
    axes = resolve_scalar_indices(axes)
    if isinstance(axes, int) or getattr(axes, "shape", None) == ():
        axes = arguments.whole(axes, "tensordot", "axes")
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: axes={axes}, but a has {len(a.shape)} dimensions and b {len(b.shape)}")
        pair = tuple(range(len(a.shape) - axes, len(a.shape))), tuple(range(axes))
    else:
        lists = [to_tuple(g) for g in arguments.several(axes, "tensordot", "axes")]
        if len(lists) != 2 or len(lists[0]) != len(lists[1]):
            raise ShapeError(f"tensordot: axes={axes!r} must be a number, or as many axes of a as of b")
        for g, n, name in zip(lists, (a, b), ("axes of a", "axes of b"), strict=True):
            arguments.axis_tuple(g, len(n.shape), "tensordot", name)
        pair = tuple(tuple(arguments.axis_index(i, len(n.shape)) for i in g) for g, n in zip(lists, (a, b), strict=True))  # type: ignore
    _check_extents("tensordot", a, b, *pair)
    return wrap(contracted(a, b, *pair))


@unbound
def vecdot(
    x1: Any, x2: Any, /, out: Array | None = None, *, axis: int | None = None, axes: Any = None, keepdims: bool = False,
    casting: str = "same_kind", order: str = "K", dtype: Any = None, subok: bool = True,
) -> Array:
    """Sum products along one axis; the others broadcast. Complex elements of ``x1`` are conjugated.

    Parameters
    ----------
    x1, x2 : array_like of the same length along ``axis``
    axis : int, optional
        None for the last.
    keepdims : bool
        Keep the axis with extent 1.

    Returns
    -------
    Array without that axis

    Raises
    ------
    ShapeError, AxisError
        The lengths differ, or the other axes do not broadcast; an operand has no such axis.

    >>> wf.vecdot(wf.ones((2, 3)), wf.ones(3)).tolist()
    [3.0, 3.0]
    """
    if order != "K":
        layout(order, "vecdot")
    return arguments.call_gufunc("vecdot", _vecdot, x1, x2, out, dtype, casting, axes, axis, keepdims)


def _vecdot(a: Node, b: Node) -> Node:
    if not a.shape or not b.shape:
        raise AxisError(f"vecdot: x1 {a.shape} and x2 {b.shape} must have one axis at least")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: x1 {a.shape} and x2 {b.shape} have different extents along the axis, the last of these")
    product = op("multiply", arguments.conjugate(a), b)
    terms = cast(product, INT64) if a.dtype == BOOL else product  # bools: the result is true if a product is
    return cast(op("reduce_sum", terms, axes=(len(product.shape) - 1,), keepdims=False), product.dtype)


for _function in (matmul, vecdot):
    describe(_function, _function.__name__)


def kron(a: Any, b: Any) -> Array:
    """Compute the Kronecker product: blocks of ``b``, each multiplied by an element of ``a``.

    Parameters
    ----------
    a, b : array

    Returns
    -------
    Array whose extents are the products of those of ``a`` and ``b``

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
    """Compute cross products of vectors of three, or two, elements.

    Parameters
    ----------
    a, b : array
    axisa, axisb, axisc : int
        The axes of the vectors in ``a``, in ``b`` and in the result.
    axis : int, optional
        Replaces all three.

    Returns
    -------
    Array; for vectors of two elements only the third component, without the axis

    Raises
    ------
    ShapeError, AxisError
        Vectors have another length, or shapes do not broadcast; an operand has no such axis.

    >>> wf.cross(wf.array([1, 0, 0]), [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = array_operands(a, b)
    sides = []
    for n, at, name in ((x, axisa, "axisa"), (y, axisb, "axisb")):
        place = arguments.axis_index(at, len(n.shape), "cross", name)
        n = permuted(n, (*(d for d in range(len(n.shape)) if d != place), place))
        if n.shape[-1] not in (2, 3):
            raise ShapeError(f"cross: shapes {x.shape} and {y.shape}; vectors of 2 or 3 elements are needed")
        sides.append(n)
    lead = arguments.broadcast_shapes("cross", *(n.shape[:-1] for n in sides))
    flat = all([n.shape[-1] == 2 for n in sides])
    place = 0 if flat else arguments.axis_index(axisc, len(lead) + 1, "cross", "axisc")
    components = None if x.dtype.narrow or x.dtype not in FLOATS | INTEGERS else peek(*sides)
    if components is not None:
        with np.errstate(all="ignore"):
            parts = _cross_components(*[[side[..., k] for k in range(side.shape[-1])] for side in components])
        return arguments.from_numpy(parts[0] if flat else np.stack(np.broadcast_arrays(*parts), place))
    u, v = ([wrap(arguments.broadcast(reshaped(sliced(n, len(n.shape) - 1, k, k + 1), n.shape[:-1]), lead))
             for k in range(n.shape[-1])] for n in sides)
    parts = _cross_components(u, v)
    return parts[0] if flat else concat([p.reshape(*lead[:place], 1, *lead[place:]) for p in parts], place)


def _cross_components(u: list[Any], v: list[Any]) -> list[Any]:
    """Return the components of a cross product, from arrays of weft or NumPy; one component if both vectors have two."""
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
    """Multiply matrices by vectors.

    Parameters
    ----------
    x1 : (..., M, N) array
    x2 : (..., N) array

    Returns
    -------
    (..., M) Array

    Raises
    ------
    ShapeError
        The shapes do not fit.

    >>> wf.matvec(wf.array([[1, 2], [3, 4]]), [1, 1]).tolist()
    [3, 7]
    """
    if order != "K":
        layout(order, "matvec")
    return arguments.call_gufunc("matvec", _matvec, x1, x2, out, dtype, casting, axes)


def _matvec(a: Node, b: Node) -> Node:
    if len(a.shape) < 2 or not b.shape or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"matvec: shapes {a.shape} and {b.shape} do not fit: (..., M, N) and (..., N) are needed")
    column = matmul(wrap(a), wrap(op("reshape", b, shape=(*b.shape, 1))))
    return column.reshape(column.shape[:-1]).node


@unbound
def vecmat(
    x1: Any, x2: Any, /, out: Array | None = None, *, axes: Any = None, casting: str = "same_kind", order: str = "K",
    dtype: Any = None, subok: bool = True,
) -> Array:
    """Multiply vectors by matrices. Complex elements of ``x1`` are conjugated, as in :func:`vecdot`.

    Parameters
    ----------
    x1 : (..., M) array
    x2 : (..., M, N) array

    Returns
    -------
    (..., N) Array

    >>> wf.vecmat(wf.array([1, 1]), [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    if order != "K":
        layout(order, "vecmat")
    return arguments.call_gufunc("vecmat", _vecmat, x1, x2, out, dtype, casting, axes)


def _vecmat(a: Node, b: Node) -> Node:
    if len(b.shape) < 2 or not a.shape or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"vecmat: shapes {a.shape} and {b.shape} do not fit: (..., M) and (..., M, N) are needed")
    row = matmul(wrap(op("reshape", arguments.conjugate(a), shape=(*a.shape[:-1], 1, a.shape[-1]))), wrap(b))
    return row.reshape((*row.shape[:-2], row.shape[-1])).node


for _product in (matvec, vecmat):
    describe(_product, _product.__name__)


complete_module(globals(), (diagonal, trace), (dot, outer), (matmul, vecdot, matvec), (matvec, vecmat))

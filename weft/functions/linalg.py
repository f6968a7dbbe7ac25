"""Products of vectors and matrices; and ``wf.linalg``: these, norms, and what needs LAPACK, loaded when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from weft.array import Array, matrix_products, ndarray, wrap
from weft.array.convert import array_operands, operands
from weft.array.indexing import as_ints
from weft.array.matrix_products import contracted
from weft.dtypes.formats import BOOL, INT64
from weft.dtypes.parse import layout, to_tuple
from weft.errors import AxisError, ShapeError
from weft.functions import gufuncs
from weft.functions.common import (
    Node,
    axis_index,
    axis_tuple,
    cast,
    conjugated,
    finish,
    op,
    reshaped,
    several,
    whole,
)
from weft.functions.diagonals import diag, line_of, sum_of
from weft.functions.einsum import einsum
from weft.functions.norms import matrix_norm, norm, vector_norm
from weft.functions.support.try_numpy import by_numpy
from weft.functions.ufunc import describe
from weft.functions.unbound import unbound

_LAPACK = {
    "weft.functions.solving": """
        det expm inv lstsq pinv slogdet solve tensorinv tensorsolve""",
    "weft.functions.factors": """
        cholesky cond eig eigh eigvals eigvalsh matrix_rank qr svd svdvals""",
    "weft.functions.powers": "cross matrix_power multi_dot",
    "weft.functions.manipulation": "matrix_transpose",
}
_HOME = {name: module for module, names in _LAPACK.items() for name in names.split()}

__all__ = [
    "LinAlgError", "diag", "diagonal", "dot", "einsum", "inner", "matmul", "matrix_norm", "norm", "outer", "tensordot", "trace",
    "vdot", "vecdot", "vector_norm",
]
__all__ += _HOME


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return found


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
        return gufuncs.asked("matmul", matrix_products.matmul, x1, x2, out, dtype, casting, axes)
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
    return gufuncs.asked("vecdot", _vecdot, x1, x2, out, dtype, casting, axes, axis, keepdims)


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

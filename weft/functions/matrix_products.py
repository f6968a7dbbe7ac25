"""Products of vectors and matrices beside ``matmul``: kron, cross, matvec, vecmat."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands
from weft.dtypes.formats import FLOATS, INTEGERS
from weft.dtypes.parse import layout
from weft.eager.peek import at_hand
from weft.errors import ShapeError
from weft.functions import gufuncs
from weft.functions.common import (
    Node,
    axis_index,
    broadcast,
    broadcast_shapes,
    conjugated,
    of_numpy,
    op,
    permuted,
    reshaped,
    sliced,
)
from weft.functions.joining import concat
from weft.functions.linalg import matmul
from weft.functions.ufunc import describe
from weft.functions.unbound import unbound


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
    return gufuncs.asked("matvec", _matvec, x1, x2, out, dtype, casting, axes)


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
    return gufuncs.asked("vecmat", _vecmat, x1, x2, out, dtype, casting, axes)


def _vecmat(a: Node, b: Node) -> Node:
    if len(b.shape) < 2 or not a.shape or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"vecmat: shapes {a.shape} and {b.shape} do not fit: (..., M) and (..., M, N) are needed")
    found = matmul(wrap(op("reshape", conjugated(a), shape=(*a.shape[:-1], 1, a.shape[-1]))), wrap(b))
    return found.reshape((*found.shape[:-2], found.shape[-1])).node


for _function in (matvec, vecmat):
    describe(_function, _function.__name__)

"""How variables vary together."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import exact_operands, operands
from weft.dtypes.formats import COMPLEX, DEFAULT, INEXACT, promote
from weft.dtypes.parse import spelled
from weft.errors import ShapeError
from weft.functions.elementwise.clip_compare import clip
from weft.functions.elementwise.complex import real
from weft.functions.elementwise.ufuncs import conj, sqrt
from weft.functions.linalg.diagonals import diagonal
from weft.functions.linalg.products import matmul
from weft.functions.reductions.folds import sum
from weft.functions.support.arguments import (
    Node,
    cast,
    floating,
    held,
    node,
    op,
    parts_of,
    real_number,
    reshaped,
    warn_of_freedom,
)


def _variables(function: str, x: Any, argument: str, rowvar: bool) -> Node:
    value = node(x, function, argument)
    if len(value.shape) > 2:
        raise ShapeError(f"{function}: {argument} has shape {value.shape}; a vector or a matrix is needed")
    if len(value.shape) < 2:
        return reshaped(value, (1, value.size))
    return value if rowvar or value.shape[0] == 1 and argument == "y" else op("permute", value, axes=(1, 0))


def _weights(x: Any, argument: str, count: int, dtype: Any) -> Array:
    found = held(x, dtype, "cov", argument)
    if found.shape != (count,):
        raise ShapeError(f"cov: {argument} has shape {found.shape}; ({count},) is needed, one weight an observation")
    return wrap(found)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Array:
    """The covariances of variables.

    Parameters
    ----------
    m : (variables, observations) or (observations,) array
    y : array, optional
        More variables.
    rowvar : bool
        False: the variables are columns.
    bias : bool
        Divide by the number of observations, and not by one less.
    ddof : int, optional
        Divide by the number of observations less this.
    fweights, aweights : (observations,) array, optional
        How often each was observed; how much each counts.
    dtype : dtype, optional

    Returns
    -------
    (variables, variables) Array, of no dimensions for one variable

    Raises
    ------
    ShapeError
        More than two dimensions, or weights that do not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.cov(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if y is not None:
        m, y = exact_operands(m, y)
    rows = _variables("cov", m, "m", rowvar)
    if y is not None:
        more = _variables("cov", y, "y", rowvar)
        rows, more = operands(wrap(rows), wrap(more))
        if rows.shape[1] != more.shape[1]:
            raise ShapeError(f"cov: m has {rows.shape[1]} observations and y {more.shape[1]}")
        rows = op("concat", rows, more, axis=0)
    kept = rows.dtype in INEXACT and not DEFAULT.wide
    wanted = spelled(dtype) if dtype is not None else rows.dtype if kept else promote(rows.dtype, DEFAULT.real)
    x = wrap(cast(floating(rows), wanted.computed))
    count = x.shape[1]
    weights: Any = None
    if fweights is not None:
        weights = _weights(fweights, "fweights", count, x.node.dtype.part)
    if aweights is not None:
        more_weights = _weights(aweights, "aweights", count, x.node.dtype.part)
        weights = more_weights if weights is None else weights * more_weights
    less = real_number(ddof, "cov", "ddof") if ddof is not None else 0 if bias else 1
    total: Any = float(count) if weights is None else sum(weights)
    centre = (sum(x, axis=1, keepdims=True) if weights is None else sum(x * weights, axis=1, keepdims=True)) / total
    freedom = total - less if aweights is None else total - less * sum(weights * more_weights) / total
    if weights is None and freedom <= 0:
        warn_of_freedom("cov", count, less)
        freedom = 0.0
    far = x - centre
    found = matmul(far if weights is None else far * weights, conj(far).T) / freedom
    return wrap(cast(found.node if found.size != 1 else reshaped(found.node, ()), wanted))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """The correlations of variables: covariances divided by deviations.

    Parameters
    ----------
    x, y, rowvar, dtype : as in :func:`cov`

    Returns
    -------
    (variables, variables) Array, of no dimensions for one variable

    Raises
    ------
    ShapeError
        More than two dimensions.

    Examples
    --------
    >>> import weft as wf
    >>> wf.corrcoef(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    both = cov(x, y, rowvar, dtype=dtype)
    if not both.ndim:
        return both / both
    size = sqrt(real(diagonal(both)))
    found = both / size[:, None] / size[None, :]
    if found.node.dtype in COMPLEX:
        return wrap(op("complex", *[clip(wrap(part), -1.0, 1.0).node for part in parts_of(found.node)]))
    return clip(found, -1.0, 1.0)

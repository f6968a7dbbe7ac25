"""Covariances and correlations of variables."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import exact_operands, operands
from weft.dtypes.formats import COMPLEX, DEFAULT, INEXACT, promote
from weft.dtypes.parse import parse_dtype
from weft.errors import ShapeError
from weft.functions.elementwise.clip_compare import clip
from weft.functions.elementwise.complex import real
from weft.functions.elementwise.ufuncs import conj, sqrt
from weft.functions.linalg.diagonals import diagonal
from weft.functions.linalg.products import matmul
from weft.functions.reductions.folds import sum
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, floating, node, op, reshaped
from weft.process.docstrings import complete_docs


def _as_rows(function: str, x: Any, argument: str, rowvar: bool) -> Node:
    value = node(x, function, argument)
    if len(value.shape) > 2:
        raise ShapeError(f"{function}: {argument} has shape {value.shape}; a vector or a matrix is needed")
    if len(value.shape) < 2:
        return reshaped(value, (1, value.size))
    return value if rowvar or value.shape[0] == 1 and argument == "y" else op("permute", value, axes=(1, 0))


def _read_weights(x: Any, argument: str, count: int, dtype: Any) -> Array:
    weights = arguments.held(x, dtype, "cov", argument)
    if weights.shape != (count,):
        raise ShapeError(f"cov: {argument} has shape {weights.shape}; ({count},) is needed, one weight per observation")
    return wrap(weights)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Array:
    """Compute the covariance matrix of variables.

    Parameters
    ----------
    m : (variables, observations) or (observations,) array
    y : array, optional
        Further variables.
    rowvar : bool
        False: the variables are columns.
    bias : bool
        Divide by the number of observations instead of one less.
    ddof : int, optional
        Divide by the number of observations minus ``ddof``.
    fweights, aweights : (observations,) array, optional
        The frequency and the weight of each observation.
    dtype : dtype, optional
        The dtype of the result.

    Returns
    -------
    (variables, variables) Array, without dimensions for one variable

    Raises
    ------
    ShapeError
        An argument has more than two dimensions; weights or observations do not fit.

    Examples
    --------
    >>> wf.cov(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if y is not None:
        m, y = exact_operands(m, y)
    rows = _as_rows("cov", m, "m", rowvar)
    if y is not None:
        more_rows = _as_rows("cov", y, "y", rowvar)
        rows, more_rows = operands(wrap(rows), wrap(more_rows))
        if rows.shape[1] != more_rows.shape[1]:
            raise ShapeError(f"cov: m has {rows.shape[1]} observations and y {more_rows.shape[1]}")
        rows = op("concat", rows, more_rows, axis=0)
    keeps_dtype = rows.dtype in INEXACT and not DEFAULT.wide
    form = parse_dtype(dtype) if dtype is not None else rows.dtype if keeps_dtype else promote(rows.dtype, DEFAULT.real)
    x = wrap(cast(floating(rows), form.computed))
    count = x.shape[1]
    weights: Any = None
    if fweights is not None:
        weights = _read_weights(fweights, "fweights", count, x.node.dtype.part)
    if aweights is not None:
        more_weights = _read_weights(aweights, "aweights", count, x.node.dtype.part)
        weights = more_weights if weights is None else weights * more_weights
    less = arguments.check_real(ddof, "cov", "ddof") if ddof is not None else 0 if bias else 1
    total: Any = float(count) if weights is None else sum(weights)
    centre = (sum(x, axis=1, keepdims=True) if weights is None else sum(x * weights, axis=1, keepdims=True)) / total
    freedom = total - less if aweights is None else total - less * sum(weights * more_weights) / total
    if weights is None and freedom <= 0:
        arguments.warn_of_freedom("cov", count, less)
        freedom = 0.0
    distance = x - centre
    result = matmul(distance if weights is None else distance * weights, conj(distance).T) / freedom
    return wrap(cast(result.node if result.size != 1 else reshaped(result.node, ()), form))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """Compute the correlation matrix of variables: covariances divided by standard deviations.

    Parameters
    ----------
    x : (variables, observations) or (observations,) array

    Examples
    --------
    >>> wf.corrcoef(wf.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    both = cov(x, y, rowvar, dtype=dtype)
    if not both.ndim:
        return both / both
    deviation = sqrt(real(diagonal(both)))
    result = both / deviation[:, None] / deviation[None, :]
    if result.node.dtype in COMPLEX:
        return wrap(op("complex", *[clip(wrap(part), -1.0, 1.0).node for part in arguments.split_complex(result.node)]))
    return clip(result, -1.0, 1.0)


complete_docs(cov, corrcoef)

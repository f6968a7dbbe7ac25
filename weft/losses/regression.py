"""Losses of numbers and distributions: predictions and targets in, one number out."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.dtype_info.half_precision import narrowed
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, log, sqrt
from weft.functions.indexing.where import where
from weft.losses.reduction import pair, reduced


def mse(prediction: Array, target: Any, reduction: str = "mean") -> Array:
    """Mean of the squared differences.

    Parameters
    ----------
    prediction, target : of one shape
    reduction : "mean", "sum" or "none"

    Returns
    -------
    (), or the shape of ``prediction`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ (they are not broadcast: a (N,) target against (N, 1) predictions is a usual slip); another
        ``reduction``.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.mse(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    2.0
    """
    p, t, given = pair("mse", prediction, target)
    difference = p - t
    return reduced("mse", difference * difference, reduction, given)


def l1(prediction: Array, target: Any, reduction: str = "mean") -> Array:
    """Mean of the absolute differences.

    Parameters
    ----------
    prediction, target, reduction : as in :func:`mse`

    Returns
    -------
    (), or the shape of ``prediction`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        As :func:`mse`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.l1(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    1.0
    """
    p, t, given = pair("l1", prediction, target)
    return reduced("l1", absolute(p - t), reduction, given)


def huber(prediction: Array, target: Any, delta: float = 1.0, reduction: str = "mean") -> Array:
    """Mean of half the squared differences, and beyond ``delta`` of ``delta * (abs(difference) - delta / 2)``.

    Huber: Robust estimation of a location parameter. 1964.

    Parameters
    ----------
    prediction, target, reduction : as in :func:`mse`
    delta : float, positive

    Returns
    -------
    (), or the shape of ``prediction`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        As :func:`mse`; ``delta`` is not positive.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.huber(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    0.75
    """
    if isinstance(delta, float | int) and not delta > 0:
        raise ValueError(f"huber: delta must be positive, not {delta}")
    p, t, given = pair("huber", prediction, target)
    difference = p - t
    size = absolute(difference)
    far = (size - 0.5 * delta) * delta
    return reduced("huber", where(size <= delta, difference * difference * 0.5, far), reduction, given)


def kl_div(input: Array, target: Any, reduction: str = "batchmean", log_target: bool = False) -> Array:
    """``target * (log(target) - input)``, summed and divided by the number of rows: the Kullback-Leibler divergence.

    Kullback, Leibler: On information and sufficiency. 1951.

    Parameters
    ----------
    input : (N, ...), logarithms of probabilities, as ``wf.nn.log_softmax`` gives them
    target : of the same shape, probabilities, or their logarithms with ``log_target``
    reduction : "batchmean", "mean", "sum" or "none"
    log_target : bool

    Returns
    -------
    (), or the shape of ``input`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ, or have no rows; another ``reduction``.

    Examples
    --------
    >>> import weft as wf
    >>> p = wf.array([[0.5, 0.5]])
    >>> float(wf.losses.kl_div(wf.log(p), p))
    0.0
    """
    q, p, given = pair("kl_div", input, target)
    if log_target:
        terms = exp(p) * (p - q)
    else:  # what has no probability counts nothing
        some = p > 0
        terms = where(some, p * (log(where(some, p, 1)) - q), p * 0)
    if reduction != "batchmean":
        return reduced("kl_div", terms, reduction, given)
    if q.ndim < 1:
        raise ShapeError('kl_div: reduction "batchmean" needs rows, input has shape ()')
    return narrowed(terms.sum() / float(max(q.shape[0], 1)), given)


def cosine(prediction: Array, target: Any, dim: int = -1, eps: float = 1e-8, reduction: str = "mean") -> Array:
    """Mean of 1 - the cosine between the vectors along ``dim``.

    Parameters
    ----------
    prediction, target : of one shape
    dim : int, the axis of the vectors
    eps : float, the least length
    reduction : "mean", "sum" or "none"

    Returns
    -------
    (), or the shape without ``dim`` with reduction "none"

    Raises
    ------
    ShapeError, AxisError, ValueError
        The shapes differ; no such axis; another ``reduction``.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.cosine(wf.array([[1.0, 0.0]]), wf.array([[0.0, 2.0]])))
    1.0
    """
    p, t, given = pair("cosine", prediction, target)
    lengths = _length(p, dim, eps) * _length(t, dim, eps)
    return reduced("cosine", 1.0 - (p * t).sum(axis=dim) / lengths, reduction, given)


def _length(x: Array, dim: int, eps: float) -> Array:
    """At least ``eps``; the root never sees zero, where it has no slope."""
    square = (x * x).sum(axis=dim)
    return sqrt(where(square <= eps * eps, eps * eps, square))

"""Loss functions for classes, numbers and distributions."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, log, log1p, sqrt, stop_gradient
from weft.functions.indexing.where import where
from weft.graph import source_lines
from weft.losses.alignments import ctc
from weft.losses.arguments import (
    check_labels,
    mark_targets,
    prepare_pair,
    read_class_weight,
    read_target,
    reduce_loss,
    reduce_rows,
)
from weft.losses.distances import contrastive, triplet
from weft.losses.likelihoods import binary_cross_entropy, focal, gaussian_nll, nll_loss
from weft.process.docstrings import complete_docs, complete_module

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "check_labels", "contrastive", "cosine", "cross_entropy", "ctc",
    "focal", "gaussian_nll", "hinge", "huber", "kl_div", "l1", "mse", "nll_loss", "triplet",
]

source_lines.part(__file__, "loss")


def cross_entropy(
    logits: Array, target: Any, weight: Any = None, ignore_index: int | None = None, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """Return the mean of ``-log softmax(logits)[target]``.

    Label smoothing: Szegedy et al.: Rethinking the inception architecture. 2015.

    Parameters
    ----------
    logits : (N, C), (N, C, ...) or (C,), scores before the softmax
    target : integer labels in 0..C-1, of the shape of ``logits`` without C; or probabilities (one-hot rows) of its shape
    weight : (C,), optional; the weight of each class. The mean over labels is then weighted by those of the labels
    ignore_index : int, optional; samples with this label are excluded from sum and mean
    label_smoothing : float in [0, 1], the share of the target that is spread evenly over all classes
    reduction : "mean", "sum" or "none"

    Returns
    -------
    () of the dtype of ``logits``, or the shape of ``logits`` without C with reduction "none"

    Raises
    ------
    ShapeError, DTypeError
        Shapes or the labels' dtype do not fit.
    ValueError
        ``label_smoothing`` is outside [0, 1]; ``ignore_index`` with one-hot rows; ``reduction`` is unknown.
    LabelError
        A label of computed labels is not a class. It is an IndexError and a ValueError.
    IndexError
        A label of pending labels, or of labels inside a jitted function, is not a class: raised when the loss is computed.

    >>> loss = wf.losses.cross_entropy(wf.array([[0.0, 0.0]]), wf.array([1]))
    >>> round(float(loss), 4)
    0.6931
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must lie between 0 and 1, not {label_smoothing}")
    scores, target = asarray(logits), read_target("cross_entropy", logits, target, ignore_index)
    axis = 0 if scores.ndim == 1 else 1
    x = to_compute_dtype(scores)
    weight = read_class_weight("cross_entropy", weight, scores, axis, x.dtype)
    if scores.shape[axis]:
        shifted = x - stop_gradient(x.max(axis=axis, keepdims=True))  # the shift cancels, so it needs no derivative
        total = log(exp(shifted).sum(axis=axis))
    else:  # without classes there is no maximum, and every sum is 0
        shifted, total = x, x.sum(axis=axis)
    mass: Any = None  # sum of a sample's target probabilities; None for labels, whose sum is 1
    if target.ndim == scores.ndim:
        share = target if target.dtype == x.dtype else target.astype(x.dtype)
        weighted, mass = share if weight is None else share * weight, share.sum(axis=axis)
        rows = total * (mass if weight is None else weighted.sum(axis=axis)) - (shifted * weighted).sum(axis=axis)
        counted: Any = None
    else:
        is_target = mark_targets(scores, target, axis)
        rows = total - where(is_target, shifted, 0).sum(axis=axis)
        counted = None if weight is None else where(is_target, weight, 0).sum(axis=axis)
        rows = rows if weight is None else rows * counted
    if label_smoothing:
        # the loss of a target spread evenly over all classes
        even = total - shifted.mean(axis=axis) if weight is None else total * weight.mean() - (shifted * weight).mean(axis=axis)
        rows = rows * (1.0 - label_smoothing) + (even if mass is None else even * mass) * label_smoothing
    return reduce_rows("cross_entropy", rows, counted, target, ignore_index, reduction, scores)


def binary_cross_entropy_with_logits(logits: Array, target: Any, pos_weight: Any = None, reduction: str = "mean") -> Array:
    """Return the mean of ``-target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits))``, without overflow.

    Parameters
    ----------
    logits, target : of one shape; targets in 0..1
    pos_weight : number or array that broadcasts, optional; the weight of the first term

    Returns
    -------
    (), or the shape of ``logits`` with reduction "none"

    >>> round(float(wf.losses.binary_cross_entropy_with_logits(wf.array([0.0, 9.0]), wf.array([0.0, 1.0]))), 4)
    0.3466
    """
    x, z, like = prepare_pair("binary_cross_entropy_with_logits", logits, target)
    is_positive = x >= 0
    softplus = log1p(exp(where(is_positive, -x, x)))
    positive = z * (where(is_positive, 0, -x) + softplus)
    negative = (1.0 - z) * (where(is_positive, x, 0) + softplus)
    total = negative + (positive if pos_weight is None else positive * pos_weight)
    return reduce_loss("binary_cross_entropy_with_logits", total, reduction, like)


def hinge(prediction: Array, target: Any, margin: float = 1.0, squared: bool = False, reduction: str = "mean") -> Array:
    """Return the mean of ``max(0, margin - target * prediction)``, or of its square.

    Cortes, Vapnik: Support-vector networks. 1995.

    Parameters
    ----------
    prediction, target : of one shape; targets are -1 and 1
    margin : float
    squared : bool

    >>> float(wf.losses.hinge(wf.array([0.5, 2.0]), wf.array([1.0, 1.0])))
    0.25
    """
    x, y, like = prepare_pair("hinge", prediction, target)
    loss = margin - y * x
    loss = where(loss <= 0, 0, loss)
    return reduce_loss("hinge", loss * loss if squared else loss, reduction, like)


def mse(prediction: Array, target: Any, reduction: str = "mean") -> Array:
    """Return the mean of the squared differences.

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
        The shapes differ (they are not broadcast: a (N,) target with (N, 1) predictions is a common mistake); ``reduction``
        is unknown.

    >>> float(wf.losses.mse(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    2.0
    """
    p, t, like = prepare_pair("mse", prediction, target)
    difference = p - t
    return reduce_loss("mse", difference * difference, reduction, like)


def l1(prediction: Array, target: Any, reduction: str = "mean") -> Array:
    """Return the mean of the absolute differences.

    >>> float(wf.losses.l1(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    1.0
    """
    p, t, like = prepare_pair("l1", prediction, target)
    return reduce_loss("l1", absolute(p - t), reduction, like)


def huber(prediction: Array, target: Any, delta: float = 1.0, reduction: str = "mean") -> Array:
    """Return the mean of half the squared differences; beyond ``delta``, of ``delta * (abs(difference) - delta / 2)``.

    Huber: Robust estimation of a location parameter. 1964.

    Parameters
    ----------
    delta : float, positive

    Raises
    ------
    ShapeError, ValueError
        The shapes differ; ``reduction`` is unknown; ``delta`` is not positive.

    >>> float(wf.losses.huber(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    0.75
    """
    if isinstance(delta, float | int) and not delta > 0:
        raise ValueError(f"huber: delta must be positive, not {delta}")
    p, t, like = prepare_pair("huber", prediction, target)
    difference = p - t
    size = absolute(difference)
    far = (size - 0.5 * delta) * delta
    return reduce_loss("huber", where(size <= delta, difference * difference * 0.5, far), reduction, like)


def kl_div(input: Array, target: Any, reduction: str = "batchmean", log_target: bool = False) -> Array:
    """Return the Kullback-Leibler divergence: ``target * (log(target) - input)``, summed and divided by the number of rows.

    Kullback, Leibler: On information and sufficiency. 1951.

    Parameters
    ----------
    input : (N, ...), logarithms of probabilities, such as the result of ``wf.nn.log_softmax``
    target : of the same shape, probabilities, or their logarithms with ``log_target``
    reduction : "batchmean", "mean", "sum" or "none"
    log_target : bool

    Returns
    -------
    (), or the shape of ``input`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ, or have no rows; ``reduction`` is unknown.

    >>> p = wf.array([[0.5, 0.5]])
    >>> float(wf.losses.kl_div(wf.log(p), p))
    0.0
    """
    q, p, like = prepare_pair("kl_div", input, target)
    if log_target:
        terms = exp(p) * (p - q)
    else:  # elements of probability 0 contribute 0
        is_positive = p > 0
        terms = where(is_positive, p * (log(where(is_positive, p, 1)) - q), p * 0)
    if reduction != "batchmean":
        return reduce_loss("kl_div", terms, reduction, like)
    if q.ndim < 1:
        raise ShapeError('kl_div: reduction "batchmean" needs rows, input has shape ()')
    return to_storage_dtype(terms.sum() / float(max(q.shape[0], 1)), like)


def cosine(prediction: Array, target: Any, dim: int = -1, eps: float = 1e-8, reduction: str = "mean") -> Array:
    """Return the mean of 1 minus the cosine between the vectors along ``dim``.

    Parameters
    ----------
    dim : int, the axis of the vectors
    eps : float, the smallest length

    Returns
    -------
    (), or the shape without ``dim`` with reduction "none"

    Raises
    ------
    ShapeError, AxisError, ValueError
        The shapes differ; there is no such axis; ``reduction`` is unknown.

    >>> float(wf.losses.cosine(wf.array([[1.0, 0.0]]), wf.array([[0.0, 2.0]])))
    1.0
    """
    p, t, like = prepare_pair("cosine", prediction, target)
    lengths = _length(p, dim, eps) * _length(t, dim, eps)
    return reduce_loss("cosine", 1.0 - (p * t).sum(axis=dim) / lengths, reduction, like)


def _length(x: Array, dim: int, eps: float) -> Array:
    """Return the length along ``dim``, at least ``eps``; the bound also avoids the root's infinite derivative at 0."""
    square = (x * x).sum(axis=dim)
    return sqrt(where(square <= eps * eps, eps * eps, square))


complete_docs(cross_entropy, nll_loss)
complete_docs(mse, binary_cross_entropy, gaussian_nll, focal, contrastive, triplet, ctc)
complete_module(globals(), (mse, l1, huber, cosine, hinge, kl_div, binary_cross_entropy_with_logits))

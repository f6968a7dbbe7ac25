"""Loss functions for classes, numbers and distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import cast, refuse_subclass
from weft.dtypes.api import is_integer
from weft.eager.apply import bind
from weft.errors import DTypeError, LabelError, ShapeError
from weft.functions.creation.fill import arange, asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, log, log1p, sqrt, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.shape.axes import expand_dims
from weft.graph import source_lines
from weft.graph.primitives.table import TABLE
from weft.process.docstrings import complete_module

__all__ = [
    "binary_cross_entropy_with_logits", "check_labels", "cosine", "cross_entropy", "hinge", "huber", "kl_div", "l1", "mse",
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
    scores, target = asarray(logits), _check_target(logits, target, ignore_index)
    axis = 0 if scores.ndim == 1 else 1
    class_shape = (-1,) + (1,) * (scores.ndim - axis - 1)  # in which an array of classes broadcasts against the logits
    x = to_compute_dtype(scores)
    if weight is not None:
        weight = asarray(weight)
        if weight.shape != (scores.shape[axis],):
            raise ShapeError(f"cross_entropy: weight must be ({scores.shape[axis]},), one per class, not {weight.shape}")
        weight = weight.astype(x.dtype).reshape(class_shape)
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
        is_target = arange(scores.shape[axis], dtype=target.dtype).reshape(class_shape) == expand_dims(target, axis)
        rows = total - where(is_target, shifted, 0).sum(axis=axis)
        counted = None if weight is None else where(is_target, weight, 0).sum(axis=axis)
        rows = rows if weight is None else rows * counted
    if label_smoothing:
        # the loss of a target spread evenly over all classes
        even = total - shifted.mean(axis=axis) if weight is None else total * weight.mean() - (shifted * weight).mean(axis=axis)
        rows = rows * (1.0 - label_smoothing) + (even if mass is None else even * mass) * label_smoothing
    if ignore_index is not None:
        is_counted = target != ignore_index
        rows = where(is_counted, rows, 0)
        counted = is_counted.astype(rows.dtype) if counted is None else where(is_counted, counted, 0)
    if counted is None or reduction != "mean":
        return reduce_loss("cross_entropy", rows, reduction, scores)
    return to_storage_dtype(rows.sum() / counted.sum(), scores)


def _check_target(logits: Any, target: Any, ignore_index: int | None) -> Array:
    """Return labels or probabilities. Labels with values are checked here, pending ones by a node when they are computed."""
    shape = tuple(logits.shape)
    if not shape:
        raise ShapeError("cross_entropy: logits must be (N, C), (N, C, ...) or (C,), not ()")
    axis = 0 if len(shape) == 1 else 1
    labels = shape[:axis] + shape[axis + 1 :]
    refuse_subclass(target)
    operand = target if isinstance(target, Array) else np.asarray(target)
    if (given := tuple(operand.shape)) not in (labels, shape):
        fix = f": give target.reshape({labels})" if given in ((*labels, 1), (*labels[:1], 1, *labels[1:])) else ""
        if is_integer(logits.dtype) and not is_integer(operand.dtype):
            fix = ": the order is cross_entropy(logits, target)"
        raise ShapeError(f"cross_entropy: target must be {labels} labels or {shape} one-hot rows, not {given}{fix}")
    if operand.ndim == len(shape):
        if ignore_index is not None:
            raise ValueError("cross_entropy: ignore_index is for labels; give rows of zeros to leave rows out")
        return asarray(operand)
    if not is_integer(operand.dtype):
        problem = f"labels must be integers, not {operand.dtype}: cast with .astype('int32')"
        raise DTypeError(f"cross_entropy: {problem}; one-hot rows have shape {shape}")
    if not isinstance(operand, Array):
        check_labels(operand, shape[axis], ignore_index)
        return _widen_labels(asarray(operand))
    wide = _widen_labels(operand)
    if operand.node.value is not None:  # the labels are computed already
        check_labels(operand.numpy(), shape[axis], ignore_index)
        return wide
    checked = wide if ignore_index is None else where(wide == ignore_index, 0, wide)
    inside = bind(TABLE["in_bounds"], checked.node, extent=shape[axis], axis=axis, from_end=False)
    checked = wrap(cast(inside, wide.node.dtype))
    return checked if ignore_index is None else where(wide == ignore_index, ignore_index, checked)


def _widen_labels(labels: Array) -> Array:
    """Convert labels to int32 or int64, so that class numbers and ``ignore_index`` fit."""
    name = labels.dtype.name
    return labels if name in ("int32", "int64") else labels.astype("int32" if labels.dtype.itemsize < 4 else "int64")


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


def check_labels(labels: np.ndarray, classes: int, ignore_index: int | None = None) -> None:
    """Raise LabelError, a ValueError, if a label is neither in 0..classes-1 nor ``ignore_index``.

    Parameters
    ----------
    labels : integer array
    classes : int
    ignore_index : int, optional
        An additional label that is allowed.

    Raises
    ------
    LabelError
        A label is not in 0..classes-1.

    >>> import numpy as np, weft as wf
    >>> wf.losses.check_labels(np.array([0, 2]), 3)
    """
    if labels.dtype.kind == "V":  # NumPy compares integers of 2 and 4 bits with their own kind only
        labels = labels.astype(np.int8)
    if ignore_index is not None:
        labels = np.where(labels == ignore_index, 0, labels)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        bad = tuple(int(i) for i in np.argwhere((labels < 0) | (labels >= classes))[0])
        at = bad[0] if len(bad) == 1 else bad
        limits = f"there are {classes} classes (0 to {classes - 1})" if classes > 1 else (
            "there is one class; binary_cross_entropy_with_logits is for one logit"
        )
        raise LabelError(f"labels out of range: label {labels[bad]} at position {at}, but {limits}")


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


def _fix_shape(prediction: tuple[int, ...], target: tuple[int, ...]) -> str:
    """Return what makes two shapes equal that differ by an axis of extent 1."""
    if [n for n in prediction if n != 1] == [n for n in target if n != 1]:
        return f": give target.reshape({prediction})"
    return ""


def prepare_pair(name: str, prediction: Any, target: Any) -> tuple[Array, Array, Array]:
    """Return (prediction, target, prediction as an array): the first two in one dtype, float32 for 16-bit floats.

    Shapes must be equal: a (N,) target with (N, 1) predictions is a common mistake.
    """
    like, target = asarray(prediction), asarray(target)
    if like.shape != target.shape:
        fix = _fix_shape(like.shape, target.shape)
        raise ShapeError(f"{name}: prediction {like.shape} and target {target.shape} differ in shape{fix}")
    wide = to_compute_dtype(like)
    return wide, target if target.dtype == wide.dtype else target.astype(wide.dtype), like


def reduce_loss(name: str, x: Array, reduction: str, like: Array) -> Array:
    """Return ``x``, its sum or its mean, in the dtype of ``like`` if that has 16 bits."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
    return to_storage_dtype(x if reduction == "none" else x.mean() if reduction == "mean" else x.sum(), like)


complete_module(globals(), (mse, l1, huber, cosine, hinge, kl_div, binary_cross_entropy_with_logits))

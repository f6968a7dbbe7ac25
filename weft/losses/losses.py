"""Loss functions of classes, numbers and distributions: predictions and targets in, one number out."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import cast, refuse_subclass
from weft.eager.apply import bind
from weft.errors import DTypeError, LabelError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.creation.ranges import arange
from weft.functions.dtype_info.half_precision import narrowed, widened
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, log, log1p, sqrt, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.shape.axes import expand_dims
from weft.graph.primitives.table import TABLE


def cross_entropy(
    logits: Array, target: Any, weight: Any = None, ignore_index: int | None = None, label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """Mean of ``-log softmax(logits)[target]``.

    Label smoothing: Szegedy et al.: Rethinking the inception architecture. 2015.

    Parameters
    ----------
    logits : (N, C), (N, C, ...) or (C,), scores before the softmax
    target : integer labels in 0..C-1, of the shape of ``logits`` without C; or probabilities (one-hot rows) of its shape
    weight : (C,), optional; how much each class counts. The mean over labels is then one by the weights of the labels
    ignore_index : int, optional; samples with this label count nothing, and the mean is over the others
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
        ``label_smoothing`` is no share; ``ignore_index`` with one-hot rows.
    LabelError
        A label is none of the classes, and labels can be looked at. It is an IndexError and a ValueError.
    IndexError
        The same of labels that are not computed yet, and of those inside a jitted function: when the loss is computed.

    Examples
    --------
    >>> import weft as wf
    >>> loss = wf.losses.cross_entropy(wf.array([[0.0, 0.0]]), wf.array([1]))
    >>> round(float(loss), 4)
    0.6931
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must lie between 0 and 1, not {label_smoothing}")
    given, target = asarray(logits), _target(logits, target, ignore_index)
    axis = 0 if given.ndim == 1 else 1
    across = (-1,) + (1,) * (given.ndim - axis - 1)  # what goes along the classes, against the shape of the logits
    weight = None if weight is None else _class_weights(weight, given, axis).reshape(across)
    x = widened(given)
    if given.shape[axis]:
        shifted = x - stop_gradient(x.max(axis=axis, keepdims=True))  # without a derivative: the shift cancels
        total = log(exp(shifted).sum(axis=axis))
    else:  # no classes: there is no largest, and every sum is 0
        shifted, total = x, x.sum(axis=axis)
    mass: Any = None  # what the target of a sample sums to, where it is not one
    if target.ndim == given.ndim:
        share = target if target.dtype == x.dtype else target.astype(x.dtype)
        own, mass = share if weight is None else share * weight, share.sum(axis=axis)
        rows = total * (mass if weight is None else own.sum(axis=axis)) - (shifted * own).sum(axis=axis)
        counted: Any = None
    else:
        here = arange(given.shape[axis], dtype=target.dtype).reshape(across) == expand_dims(target, axis)
        rows = total - where(here, shifted, 0).sum(axis=axis)
        counted = None if weight is None else where(here, weight, 0).sum(axis=axis)
        rows = rows if weight is None else rows * counted
    if label_smoothing:
        even = total - shifted.mean(axis=axis) if weight is None else _even(total, shifted, weight, axis)
        rows = rows * (1.0 - label_smoothing) + (even if mass is None else even * mass) * label_smoothing
    if ignore_index is not None:
        kept = target != ignore_index
        rows = where(kept, rows, 0)
        counted = kept.astype(rows.dtype) if counted is None else where(kept, counted, 0)
    if counted is None or reduction != "mean":
        return reduced("cross_entropy", rows, reduction, given)
    return narrowed(rows.sum() / counted.sum(), given)


def _target(logits: Any, target: Any, ignore_index: int | None) -> Array:
    """Labels or probabilities, checked as far as they can be looked at."""
    shape = tuple(logits.shape)
    if not shape:
        raise ShapeError("cross_entropy: logits must be (N, C), (N, C, ...) or (C,), not ()")
    axis = 0 if len(shape) == 1 else 1
    labels = shape[:axis] + shape[axis + 1 :]
    refuse_subclass(target)
    found = target if isinstance(target, Array) else np.asarray(target)
    if tuple(found.shape) not in (labels, shape):
        raise ShapeError(f"cross_entropy: target must be {labels} labels or {shape} one-hot rows, not {tuple(found.shape)}")
    if found.ndim == len(shape):
        if ignore_index is not None:
            raise ValueError("cross_entropy: ignore_index is for labels; give rows of zeros to leave rows out")
        return asarray(found)
    if found.dtype.kind not in "iu":
        raise DTypeError(f"cross_entropy: labels must be integers, not {found.dtype}; one-hot rows have shape {shape}")
    if not isinstance(found, Array):
        check_labels(found, shape[axis], ignore_index)
        return _wide(asarray(found))
    wide = _wide(found)
    if found.node.value is not None:  # known already: looking costs no run
        check_labels(found.numpy(), shape[axis], ignore_index)
        return wide
    checked = wide if ignore_index is None else where(wide == ignore_index, 0, wide)
    inside = bind(TABLE["in_bounds"], checked.node, extent=shape[axis], axis=axis, from_end=False)
    checked = wrap(cast(inside, wide.node.dtype))
    return checked if ignore_index is None else where(wide == ignore_index, ignore_index, checked)


def _wide(labels: Array) -> Array:
    """Numbers of classes, and ignore_index, need not fit small or unsigned integers."""
    name = labels.dtype.name
    return labels if name in ("int32", "int64") else labels.astype("int32" if labels.dtype.itemsize < 4 else "int64")


def _class_weights(weight: Any, logits: Array, axis: int) -> Array:
    found = asarray(weight)
    if found.shape != (logits.shape[axis],):
        raise ShapeError(f"cross_entropy: weight must be ({logits.shape[axis]},), one a class, not {found.shape}")
    wanted = widened(logits).dtype
    return found if found.dtype == wanted else found.astype(wanted)


def _even(total: Array, shifted: Array, weight: Array, axis: int) -> Array:
    """The loss of a target spread evenly over classes that count differently."""
    return total * weight.mean() - (shifted * weight).mean(axis=axis)


def binary_cross_entropy_with_logits(
    logits: Array, target: Any, pos_weight: Any = None, reduction: str = "mean",
) -> Array:
    """Mean of ``-target * log(sigmoid(logits)) - (1 - target) * log(1 - sigmoid(logits))``, without overflow.

    Parameters
    ----------
    logits, target : of one shape; targets in 0..1
    pos_weight : number or array that broadcasts, optional; the weight of the first term
    reduction : "mean", "sum" or "none"

    Returns
    -------
    (), or the shape of ``logits`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ; another ``reduction``.

    Examples
    --------
    >>> import weft as wf
    >>> round(float(wf.losses.binary_cross_entropy_with_logits(wf.array([0.0, 9.0]), wf.array([0.0, 1.0]))), 4)
    0.3466
    """
    x, z, given = pair("binary_cross_entropy_with_logits", logits, target)
    right = x >= 0
    near = log1p(exp(where(right, -x, x)))
    one = z * (where(right, 0, -x) + near)
    zero = (1.0 - z) * (where(right, x, 0) + near)
    both = zero + (one if pos_weight is None else one * pos_weight)
    return reduced("binary_cross_entropy_with_logits", both, reduction, given)


def hinge(prediction: Array, target: Any, margin: float = 1.0, squared: bool = False, reduction: str = "mean") -> Array:
    """Mean of ``max(0, margin - target * prediction)``, or of its square.

    Cortes, Vapnik: Support-vector networks. 1995.

    Parameters
    ----------
    prediction, target : of one shape; targets are -1 and 1
    margin : float
    squared : bool
    reduction : "mean", "sum" or "none"

    Returns
    -------
    (), or the shape of ``prediction`` with reduction "none"

    Raises
    ------
    ShapeError, ValueError
        The shapes differ; another ``reduction``.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.hinge(wf.array([0.5, 2.0]), wf.array([1.0, 1.0])))
    0.25
    """
    x, y, given = pair("hinge", prediction, target)
    short = margin - y * x
    short = where(short <= 0, 0, short)
    return reduced("hinge", short * short if squared else short, reduction, given)


def check_labels(labels: np.ndarray, classes: int, ignore_index: int | None = None) -> None:
    """Raise LabelError, a ValueError, where a label is not in 0..classes-1 and not ``ignore_index``.

    Parameters
    ----------
    labels : integer array
    classes : int
    ignore_index : int, optional
        A label that is allowed besides.

    Raises
    ------
    LabelError
        A label is not in 0..classes-1.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> wf.losses.check_labels(np.array([0, 2]), 3)
    """
    if ignore_index is not None:
        labels = np.where(labels == ignore_index, 0, labels)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        bad = tuple(int(i) for i in np.argwhere((labels < 0) | (labels >= classes))[0])
        raise LabelError(
            f"labels out of range: label {labels[bad]} at position {bad[0] if len(bad) == 1 else bad}, "
            f"but there are {classes} classes (0 to {classes - 1})"
        )



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


def pair(name: str, prediction: Any, target: Any) -> tuple[Array, Array, Array]:
    """(prediction, target, prediction as given): the first two of one dtype, float32 for 16-bit floats.

    Shapes must be equal (a (N,) target against (N, 1) is a usual slip).
    """
    given, target = asarray(prediction), asarray(target)
    if given.shape != target.shape:
        raise ShapeError(f"{name}: prediction {given.shape} and target {target.shape} differ in shape")
    wide = widened(given)
    return wide, target if target.dtype == wide.dtype else target.astype(wide.dtype), given


def reduced(name: str, x: Array, reduction: str, like: Array) -> Array:
    """``x`` itself, its sum or its mean, in the dtype of ``like`` where that has 16 bits."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
    return narrowed(x if reduction == "none" else x.mean() if reduction == "mean" else x.sum(), like)

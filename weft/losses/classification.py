"""Losses of classes: scores and labels in, one number out."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, as_node, wrap
from weft.errors import DTypeError, ShapeError
from weft.functions.choosing import where
from weft.functions.creation import asarray
from weft.functions.elementwise import exp, log, log1p
from weft.functions.ranges import arange
from weft.graph.primitives import TABLE, bind
from weft.losses.reduction import pair, reduced


def cross_entropy(
    logits: Array, target: Any, ignore_index: int | None = None, label_smoothing: float = 0.0, reduction: str = "mean",
) -> Array:
    """Mean of ``-log softmax(logits)[target]``.

    Label smoothing: Szegedy et al.: Rethinking the inception architecture. 2015.

    Parameters
    ----------
    logits : (N, C), scores before the softmax
    target : (N,) integer labels in 0..C-1, or (N, C) probabilities (one-hot rows)
    ignore_index : int, optional; rows with this label count nothing, and the mean is over the others
    label_smoothing : float in [0, 1], the share of the target that is spread evenly over all classes
    reduction : "mean", "sum" or "none"

    Returns
    -------
    () of the dtype of ``logits``, or (N,) with reduction "none"

    Raises
    ------
    ShapeError, DTypeError
        Shapes or the labels' dtype do not fit.
    ValueError
        Labels are out of range; labels that are not computed yet, and those inside a jitted function, cannot be looked at:
        `weft.train.fit` checks them before it starts.

    Examples
    --------
    >>> import weft as wf
    >>> loss = wf.losses.cross_entropy(wf.array([[0.0, 0.0]]), wf.array([1]))
    >>> round(float(loss), 4)
    0.6931
    """
    if logits.ndim != 2:
        raise ShapeError(f"cross_entropy: logits must be (N, C), not {logits.shape}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must lie between 0 and 1, not {label_smoothing}")
    n, classes = logits.shape
    if not isinstance(target, Array):
        target = np.asarray(target)
        if target.dtype.kind in "iu":
            check_labels(target, classes, ignore_index)
        target = asarray(target)
    elif target.dtype.kind in "iu" and target.node.value is not None:  # known already: looking costs no run
        check_labels(target.numpy(), classes, ignore_index)
    if target.shape not in ((n,), (n, classes)):
        raise ShapeError(f"cross_entropy: target must be ({n},) labels or ({n}, {classes}) one-hot rows, not {target.shape}")
    shifted = logits - _constant(logits.max(axis=1, keepdims=True))
    total = log(exp(shifted).sum(axis=1))
    if target.ndim == 2:
        if ignore_index is not None:
            raise ValueError("cross_entropy: ignore_index is for labels; give rows of zeros to leave rows out")
        mass = target.sum(axis=1)
        rows = total * mass - (shifted * target).sum(axis=1)
    else:
        if target.dtype.kind not in "iu":
            raise DTypeError(
                f"cross_entropy: labels must be integers, not {target.dtype}; one-hot rows have shape ({n}, {classes})"
            )
        here = arange(classes, dtype=target.dtype) == target.reshape((-1, 1))
        mass = None
        rows = total - where(here, shifted, 0).sum(axis=1)
    if label_smoothing:
        even = total - shifted.mean(axis=1)
        rows = rows * (1.0 - label_smoothing) + (even if mass is None else even * mass) * label_smoothing
    if ignore_index is None:
        return reduced("cross_entropy", rows, reduction)
    kept = target != ignore_index
    rows = where(kept, rows, 0)
    return rows.sum() / kept.sum().astype(rows.dtype) if reduction == "mean" else reduced("cross_entropy", rows, reduction)


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
    x, z = pair("binary_cross_entropy_with_logits", logits, target)
    right = x >= 0
    near = log1p(exp(where(right, -x, x)))
    one = z * (where(right, 0, -x) + near)
    zero = (1.0 - z) * (where(right, x, 0) + near)
    return reduced("binary_cross_entropy_with_logits", zero + (one if pos_weight is None else one * pos_weight), reduction)


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
    x, y = pair("hinge", prediction, target)
    short = margin - y * x
    short = where(short <= 0, 0, short)
    return reduced("hinge", short * short if squared else short, reduction)


def check_labels(labels: np.ndarray, classes: int, ignore_index: int | None = None) -> None:
    """Raise ValueError where a label is not in 0..classes-1 and not ``ignore_index``.

    Parameters
    ----------
    labels : integer array
    classes : int
    ignore_index : int, optional
        A label that is allowed besides.

    Raises
    ------
    ValueError
        A label is not in 0..classes-1.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> wf.losses.check_labels(np.array([0, 2]), 3)
    """
    if ignore_index is not None:
        labels = np.where(labels == ignore_index, 0, labels)
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        bad = int(np.flatnonzero((labels < 0) | (labels >= classes))[0])
        raise ValueError(
            f"labels out of range: label {labels.flat[bad]} at position {bad}, "
            f"but there are {classes} classes (0 to {classes - 1})"
        )


def _constant(x: Array) -> Array:
    """``x`` without a derivative: the shift cancels."""
    return wrap(bind(TABLE["stop_gradient"], as_node(x)))

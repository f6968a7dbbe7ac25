"""Losses: predictions and targets in, one number out."""

from __future__ import annotations

import numpy as np

from weft.array import Array, as_node, wrap
from weft.errors import DTypeError, ShapeError
from weft.functions.choosing import where
from weft.functions.creation import arange, asarray
from weft.functions.elementwise import exp, log
from weft.graph.primitives import TABLE, bind


def cross_entropy(logits: Array, target: Array) -> Array:
    """Mean of ``-log softmax(logits)[target]``.

    Parameters
    ----------
    logits : (N, C), scores before the softmax
    target : (N,) integer labels in 0..C-1, or (N, C) probabilities (one-hot rows)

    Returns
    -------
    () of the dtype of ``logits``

    Raises
    ------
    ShapeError, DTypeError
        when shapes or the labels' dtype do not fit.
    ValueError
        when labels are out of range; labels that are not computed yet, and those inside a jitted function, cannot
        be looked at: `weft.train.fit` checks them before it starts.

    Examples
    --------
    >>> import weft as wf
    >>> loss = wf.losses.cross_entropy(wf.array([[0.0, 0.0]]), wf.array([1]))
    >>> round(float(loss), 4)
    0.6931
    """
    if logits.ndim != 2:
        raise ShapeError(f"cross_entropy: logits must be (N, C), not {logits.shape}")
    n, classes = logits.shape
    if not isinstance(target, Array):
        target = np.asarray(target)
        if target.dtype.kind in "iu":
            check_labels(target, classes)
        target = asarray(target)
    elif target.dtype.kind in "iu" and target.node.value is not None:  # known already: looking costs no run
        check_labels(target.numpy(), classes)
    if target.shape not in ((n,), (n, classes)):
        raise ShapeError(f"cross_entropy: target must be ({n},) labels or ({n}, {classes}) one-hot rows, not {target.shape}")
    shifted = logits - _constant(logits.max(axis=1, keepdims=True))
    if target.ndim == 2:
        picked = (shifted * target).sum(axis=1)
        mass = target.sum(axis=1)
        return (log(exp(shifted).sum(axis=1)) * mass - picked).mean()
    if target.dtype.kind not in "iu":
        raise DTypeError(f"cross_entropy: labels must be integers, not {target.dtype}; one-hot rows have shape ({n}, {classes})")
    here = arange(classes, dtype=target.dtype) == target.reshape((-1, 1))
    return (log(exp(shifted).sum(axis=1)) - where(here, shifted, 0).sum(axis=1)).mean()


def mse(prediction: Array, target: Array) -> Array:
    """Mean of the squared differences.

    Parameters
    ----------
    prediction, target : of one shape

    Returns
    -------
    ()

    Raises
    ------
    ShapeError
        when the shapes differ (they are not broadcast: a (N,) target against (N, 1) predictions is a usual slip).

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.losses.mse(wf.array([1.0, 2.0]), wf.array([1.0, 4.0])))
    2.0
    """
    if tuple(prediction.shape) != tuple(target.shape):
        raise ShapeError(f"mse: prediction {tuple(prediction.shape)} and target {tuple(target.shape)} differ in shape")
    difference = prediction - target
    return (difference * difference).mean()


def check_labels(labels: np.ndarray, classes: int) -> None:
    """Raise ValueError where a label is not in 0..classes-1.

    Examples
    --------
    >>> import numpy as np, weft as wf
    >>> wf.losses.check_labels(np.array([0, 2]), 3)
    """
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        bad = int(np.flatnonzero((labels < 0) | (labels >= classes))[0])
        raise ValueError(
            f"labels out of range: label {labels.flat[bad]} at position {bad}, "
            f"but there are {classes} classes (0 to {classes - 1})"
        )


def _constant(x: Array) -> Array:
    """``x`` without a derivative: the shift cancels."""
    return wrap(bind(TABLE["stop_gradient"], as_node(x)))

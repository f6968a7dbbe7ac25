"""Losses that are negative log-likelihoods: of classes, of probabilities, of normal distributions; and the focal loss."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype
from weft.functions.elementwise.ufuncs import exp, log, log1p, maximum, stop_gradient
from weft.functions.indexing.where import where
from weft.losses.arguments import mark_targets, prepare_pair, read_class_weight, read_target, reduce_loss, reduce_rows

LEAST_LOG = -100.0  # PyTorch's bound of the logarithms in binary_cross_entropy
LEAST_POWER_BASE = 1e-30  # powers below 1 have an infinite derivative at 0


def nll_loss(
    log_probs: Array, target: Any, weight: Any = None, ignore_index: int | None = None, reduction: str = "mean",
) -> Array:
    """Return the mean of ``-log_probs[target]``, the negative log-likelihood of labels.

    ``nll_loss(wf.nn.log_softmax(x, 1), y)`` is ``cross_entropy(x, y)``.

    Parameters
    ----------
    log_probs : (N, C), (N, C, ...) or (C,), logarithms of probabilities
    target : integer labels in 0..C-1, of the shape of ``log_probs`` without C

    Returns
    -------
    () of the dtype of ``log_probs``, or the shape of ``log_probs`` without C with reduction "none"

    Raises
    ------
    ShapeError, DTypeError
        Shapes or the labels' dtype do not fit.
    ValueError
        ``reduction`` is unknown.
    LabelError
        A label of computed labels is not a class. It is an IndexError and a ValueError.
    IndexError
        A label of pending labels, or of labels inside a jitted function, is not a class: raised when the loss is computed.

    >>> float(wf.losses.nll_loss(wf.array([[-1.0, -2.0], [-3.0, -4.0]]), wf.array([1, 0])))
    2.5
    """
    scores = asarray(log_probs)
    target = read_target("nll_loss", scores, target, ignore_index, "log_probs", takes_rows=False)
    axis = 0 if scores.ndim == 1 else 1
    x = to_compute_dtype(scores)
    weight = read_class_weight("nll_loss", weight, scores, axis, x.dtype)
    is_target = mark_targets(scores, target, axis)
    rows = -where(is_target, x, 0).sum(axis=axis)
    counted = None if weight is None else where(is_target, weight, 0).sum(axis=axis)
    rows = rows if counted is None else rows * counted
    return reduce_rows("nll_loss", rows, counted, target, ignore_index, reduction, scores)


def binary_cross_entropy(prediction: Array, target: Any, weight: Any = None, reduction: str = "mean") -> Array:
    """Return the mean of ``-target * log(prediction) - (1 - target) * log(1 - prediction)``, of probabilities.

    As in PyTorch, the logarithms are at least -100. :func:`binary_cross_entropy_with_logits` takes scores instead, and has a
    gradient where the probabilities round to 0 or 1.

    Parameters
    ----------
    prediction, target : of one shape, in 0..1
    weight : number or array that broadcasts, optional; the weight of each element

    >>> round(float(wf.losses.binary_cross_entropy(wf.array([0.5, 0.9]), wf.array([0.0, 1.0]))), 4)
    0.3993
    """
    p, z, like = prepare_pair("binary_cross_entropy", prediction, target)
    is_zero, is_one = p <= 0, p >= 1  # where the logarithms have no derivative
    positive = where(is_zero, LEAST_LOG, maximum(log(where(is_zero, 1, p)), LEAST_LOG))
    negative = where(is_one, LEAST_LOG, maximum(log1p(where(is_one, 0, -p)), LEAST_LOG))
    loss = -(z * positive + (1.0 - z) * negative)
    return reduce_loss("binary_cross_entropy", loss if weight is None else loss * weight, reduction, like)


def gaussian_nll(
    prediction: Array, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean",
) -> Array:
    """Return the mean negative log-likelihood of normal distributions, ``(log(var) + (prediction - target)**2 / var) / 2``.

    Nix, Weigend: Estimating the mean and variance of the target probability distribution. 1994.

    Parameters
    ----------
    prediction, target : of one shape; predictions are the means
    var : number or array that broadcasts to the shape of ``prediction``, the variances
    full : bool, add the constant ``log(2 * pi) / 2``
    eps : float, positive
        The smallest variance: smaller ones count as ``eps``, with the gradient that ``eps`` has.

    Raises
    ------
    ShapeError, ValueError
        The shapes differ, or that of ``var`` does not broadcast; ``eps`` is not positive; ``reduction`` is unknown.

    >>> float(wf.losses.gaussian_nll(wf.array([1.0, 2.0]), wf.array([1.0, 4.0]), 1.0))
    1.0
    """
    if isinstance(eps, float | int) and not eps > 0:
        raise ValueError(f"gaussian_nll: eps must be positive, not {eps}")
    p, t, like = prepare_pair("gaussian_nll", prediction, target)
    v = asarray(var)
    pairs = zip(reversed(v.shape), reversed(p.shape), strict=False)
    if v.ndim > p.ndim or any(m not in (1, n) for m, n in pairs):
        raise ShapeError(f"gaussian_nll: var {v.shape} does not broadcast to prediction {p.shape}; a variance of a row is (N, 1)")
    v = v.astype(p.dtype)
    v = where(v < eps, v + stop_gradient(eps - v), v)
    difference = p - t
    loss = (log(v) + difference * difference / v) * 0.5
    return reduce_loss("gaussian_nll", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, like)


def focal(
    logits: Array, target: Any, alpha: float | None = 0.25, gamma: float = 2.0, reduction: str = "mean",
) -> Array:
    """Return the mean binary cross entropy, times ``(1 - p) ** gamma`` for the probability p that is given to the target.

    Elements that are classified well count little. Lin et al.: Focal loss for dense object detection. 2017.

    Parameters
    ----------
    logits, target : of one shape; scores before the sigmoid, targets in 0..1
    alpha : float in [0, 1], the weight of targets of 1; those of 0 have ``1 - alpha``. None for no weights
    gamma : float, at least 0

    Raises
    ------
    ShapeError, ValueError
        The shapes differ; ``alpha`` or ``gamma`` is out of range; ``reduction`` is unknown.

    >>> round(float(wf.losses.focal(wf.array([0.0, 9.0]), wf.array([0.0, 1.0]))), 4)
    0.065
    """
    if isinstance(alpha, float | int) and not 0.0 <= alpha <= 1.0:
        raise ValueError(f"focal: alpha must lie between 0 and 1, or be None, not {alpha}")
    if isinstance(gamma, float | int) and not gamma >= 0:
        raise ValueError(f"focal: gamma must be at least 0, not {gamma}")
    x, z, like = prepare_pair("focal", logits, target)
    is_positive = x >= 0
    small = exp(where(is_positive, -x, x))
    softplus = log1p(small)
    entropy = z * (where(is_positive, 0, -x) + softplus) + (1.0 - z) * (where(is_positive, x, 0) + softplus)
    share = 1.0 / (1.0 + small)
    probability = where(is_positive, share, small * share)  # of 1, and then of 0: neither is rounded to 1 minus the other
    complement = where(is_positive, small * share, share)
    wrong = maximum(z * complement + (1.0 - z) * probability, LEAST_POWER_BASE)
    loss = entropy * wrong**gamma
    if alpha is not None:
        loss = loss * (alpha * z + (1.0 - alpha) * (1.0 - z))
    return reduce_loss("focal", loss, reduction, like)

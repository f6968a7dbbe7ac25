"""Connectionist temporal classification: the loss of all alignments of labels to a longer sequence, by one native loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, LabelError, ShapeError
from weft.functions.creation.fill import arange, asarray, full
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import exp, log, maximum
from weft.functions.indexing.take_scatter import take_along_axis
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import logsumexp
from weft.functions.shape.axes import broadcast_to, concatenate, stack
from weft.functions.support.arguments import check_int, check_range
from weft.losses.arguments import check_labels
from weft.transforms.control import scan

LOG_ZERO = -1e30  # the logarithm of an impossible alignment: sums and differences of it are finite, so gradients are no NaN
IMPOSSIBLE = 1e29  # a loss from here on has no possible alignment


def ctc(
    log_probs: Array, targets: Any, input_lengths: Any = None, target_lengths: Any = None, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Array:
    """Return the mean negative log-likelihood of label sequences that are not aligned to the inputs.

    The probabilities of all alignments are added in log space, by one native loop over the steps; its gradient is another one.
    Graves et al.: Connectionist temporal classification. 2006.

    Parameters
    ----------
    log_probs : (T, N, C), or (T, C) without a batch; logarithms of probabilities, such as the result of ``wf.nn.log_softmax``
    targets : (N, S) or (S,), integer labels in 0..C-1 without ``blank``; what lies beyond ``target_lengths`` is not read
    input_lengths, target_lengths : (N,) or () integers, optional
        The lengths of the sequences; T and S by default.
    blank : int, the class between labels
    reduction : "mean", "sum" or "none"
        As in PyTorch, "mean" divides each loss by the length of its target, at least 1, first.
    zero_infinity : bool, targets that do not fit into their inputs have the loss 0 instead of infinity; their gradient is 0

    Returns
    -------
    () of the dtype of ``log_probs``, or (N,) with reduction "none"

    Raises
    ------
    ShapeError, DTypeError
        Shapes do not fit; labels or lengths are no integers.
    ValueError
        ``blank`` is no class; a length of computed lengths is out of range; ``reduction`` is unknown.
    LabelError
        A label of computed labels is not a class, or is ``blank``. It is an IndexError and a ValueError.
    IndexError
        A pending length or label, or one inside a jitted function, is out of range: raised when the loss is computed. A label
        that is ``blank`` is not found there.

    >>> x = wf.nn.log_softmax(wf.zeros((4, 1, 3)))
    >>> round(float(wf.losses.ctc(x, wf.array([[1, 2]]))), 4)
    0.8432
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'ctc: reduction must be "mean", "sum" or "none", not {reduction!r}')
    given, labels = asarray(log_probs), asarray(targets)
    is_single = given.ndim == 2
    if given.ndim not in (2, 3) or labels.ndim != given.ndim - 1 or (not is_single and len(labels) != given.shape[1]):
        raise ShapeError(
            f"ctc: log_probs {given.shape} and targets {labels.shape} must be (T, N, C) and (N, S), or (T, C) and (S,)"
        )
    x = to_compute_dtype(given)
    if is_single:
        x, labels = x[:, None], labels[None]
    steps, batch, classes = x.shape
    blank = check_int(blank, "ctc", "blank")
    if not 0 <= blank < classes:
        raise ValueError(f"ctc: blank={blank!r} must be a class, from 0 to {classes - 1}")
    if not is_integer(labels.dtype):
        raise DTypeError(f"ctc: targets must be integers, not {labels.dtype}")
    ends = _read_lengths("input_lengths", input_lengths, batch, steps)
    lengths = _read_lengths("target_lengths", target_lengths, batch, labels.shape[1])
    labels = where(arange(labels.shape[1]) < lengths[:, None], labels.astype("int64"), blank)
    labels = _check_labels(labels, lengths, classes, blank)
    losses = _compute_losses(x, labels, ends, lengths, blank)
    is_possible = losses < IMPOSSIBLE
    losses = where(is_possible, losses, 0.0 if zero_infinity else float("inf"))
    if reduction == "none":
        return to_storage_dtype(losses[0] if is_single else losses, given)
    if reduction == "mean":
        return to_storage_dtype((losses / maximum(lengths, 1).astype(losses.dtype)).mean(), given)
    return to_storage_dtype(losses.sum(), given)


def _compute_losses(x: Array, labels: Array, ends: Array, lengths: Array, blank: int) -> Array:
    """Return the loss of each sequence, above ``IMPOSSIBLE`` if it has no alignment.

    Places are blank, label 1, blank, label 2, ..., blank. The carry is the log-probability of all alignments of the steps so far
    that end at a place; a step stays, moves one place, or skips a blank between different labels.
    """
    batch, count = labels.shape
    pairs = stack([full((batch, count), blank, dtype=labels.dtype), labels], axis=2).reshape((batch, 2 * count))
    row = concatenate([pairs, full((batch, 1), blank, dtype=labels.dtype)], 1)
    places = arange(2 * count + 1)
    emitted = maximum(take_along_axis(x, row[None], axis=2), LOG_ZERO)
    before = concatenate([full((batch, 2), blank, dtype=labels.dtype), row[:, :-2]], 1) if count else row
    may_skip = (row != blank) & (row != before)
    start = broadcast_to(where(places == 0, 0.0, LOG_ZERO).astype(x.dtype), row.shape)
    gap = full((batch, 2), LOG_ZERO, dtype=x.dtype)

    def step(carry: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        emission, t = at
        padded = concatenate([gap, carry], 1)
        moved, skipped = padded[:, 1:-1], where(may_skip, padded[:, :-2], LOG_ZERO)
        top = maximum(maximum(carry, moved), skipped)
        total = log(exp(carry - top) + exp(moved - top) + exp(skipped - top)) + top + emission
        return where(t < ends[:, None], total, carry), None

    last = scan(step, start, (emitted, arange(len(x))))[0]
    is_end = (places == 2 * lengths[:, None]) | (places == 2 * lengths[:, None] - 1)
    return -logsumexp(where(is_end, last, LOG_ZERO), axis=1)


def _read_lengths(argument: str, value: Any, batch: int, extent: int) -> Array:
    """Return lengths as an int64 array of the batch. One outside of 0..extent raises: here, or a pending one when computed."""
    if value is None:
        return full((batch,), extent, dtype="int64")
    lengths = asarray(value)
    if not is_integer(lengths.dtype):
        raise DTypeError(f"ctc: {argument} must be integers, not {lengths.dtype}")
    if lengths.shape != (batch,) and not (lengths.shape == () and batch == 1):
        raise ShapeError(f"ctc: {argument} has shape {lengths.shape}, but must be ({batch},), one per sequence")
    lengths = lengths.astype("int64").reshape((batch,))
    if lengths.node.value is not None:
        held = lengths.numpy()
        if ((held < 0) | (held > extent)).any():
            raise ValueError(f"ctc: {argument} must be from 0 to {extent}, not {held.tolist()}")
        return lengths
    return check_range(lengths, extent + 1, f"ctc: {argument}")


def _check_labels(labels: Array, lengths: Array, classes: int, blank: int) -> Array:
    """Return the labels. Raise if one is no class or is ``blank``; pending ones are checked when they are computed, for their
    range only."""
    if labels.node.value is None or lengths.node.value is None:
        return check_range(labels, classes, "ctc: targets")
    held = labels.numpy()
    check_labels(held, classes)
    inside = np.arange(held.shape[1]) < lengths.numpy()[:, None]
    if (inside & (held == blank)).any():
        position = tuple(int(i) for i in np.argwhere(inside & (held == blank))[0])
        raise LabelError(f"ctc: the label at position {position} of targets is {blank}, the blank")
    return labels

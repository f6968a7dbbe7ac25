"""What losses share: operands in one dtype and shape, labels that are checked, class weights, reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import cast, refuse_subclass
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, LabelError, ShapeError
from weft.functions.creation.fill import arange, asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.indexing.where import where
from weft.functions.shape.axes import expand_dims
from weft.functions.support.arguments import check_range
from weft.process.docstrings import complete_each

IGNORED_MARKS = (-100, -1, 255)  # labels that data sets and other libraries give to rows without a class


def _fix_shape(prediction: tuple[int, ...], target: tuple[int, ...], argument: str) -> str:
    """Return what makes two shapes equal that differ by axes of extent 1 or by flattened ones, or what labels need."""
    if len(prediction) == 2 and target == prediction[:1] and prediction[1] > 1:
        return f": for labels of classes take cross_entropy, or give wf.one_hot({argument}, {prediction[1]})"
    is_flattened = prediction[:1] == target[:1] and math.prod(prediction) == math.prod(target)
    if is_flattened or [n for n in prediction if n != 1] == [n for n in target if n != 1]:
        return f": give {argument}.reshape({prediction})"
    return ""


def prepare_pair(
    name: str, prediction: Any, target: Any, arguments: tuple[str, str] = ("prediction", "target"),
) -> tuple[Array, Array, Array]:
    """Return (prediction, target, prediction as an array): the first two in one dtype, float32 for 16-bit floats.

    Shapes must be equal: a (N,) target with (N, 1) predictions is a common mistake. ``arguments`` : their names in messages
    """
    like, target = asarray(prediction), asarray(target)
    if like.shape != target.shape:
        fix = _fix_shape(like.shape, target.shape, arguments[1])
        raise ShapeError(f"{name}: {arguments[0]} {like.shape} and {arguments[1]} {target.shape} differ in shape{fix}")
    wide = to_compute_dtype(like)
    return wide, target if target.dtype == wide.dtype else target.astype(wide.dtype), like


def reduce_loss(name: str, x: Array, reduction: str, like: Array) -> Array:
    """Return ``x``, its sum or its mean, in the dtype of ``like`` if that has 16 bits."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'{name}: reduction must be "mean", "sum" or "none", not {reduction!r}')
    return to_storage_dtype(x if reduction == "none" else x.mean() if reduction == "mean" else x.sum(), like)


def read_target(
    name: str, logits: Any, target: Any, ignore_index: int | None, argument: str = "logits", takes_rows: bool = True,
) -> Array:
    """Return labels or probabilities. Labels with values are checked here, pending ones by a node when they are computed.

    takes_rows : whether one-hot rows are allowed; otherwise they raise DTypeError
    """
    shape = tuple(logits.shape)
    if not shape:
        raise ShapeError(f"{name}: {argument} must be (N, C), (N, C, ...) or (C,), not ()")
    axis = 0 if len(shape) == 1 else 1
    labels = shape[:axis] + shape[axis + 1 :]
    refuse_subclass(target)
    operand = target if isinstance(target, Array) else np.asarray(target)
    if (given := tuple(operand.shape)) not in (labels, shape):
        fix = f": give target.reshape({labels})" if given in ((*labels, 1), (*labels[:1], 1, *labels[1:])) else ""
        if is_integer(logits.dtype) and not is_integer(operand.dtype):
            fix = f": the order is {name}({argument}, target)"
        rows = f" or {shape} one-hot rows" if takes_rows else f" for {argument} {shape}"
        raise ShapeError(f"{name}: target must be {labels} labels{rows}, not {given}{fix}")
    if operand.ndim == len(shape):
        if not takes_rows:
            raise DTypeError(f"{name}: target must be labels; for probabilities use kl_div, or cross_entropy of logits")
        if ignore_index is not None:
            raise ValueError(f"{name}: ignore_index is for labels; give rows of zeros to leave rows out")
        return asarray(operand)
    if not is_integer(operand.dtype):
        problem = f"labels must be integers, not {operand.dtype}: cast with .astype('int32')"
        raise DTypeError(f"{name}: {problem}" + (f"; one-hot rows have shape {shape}" if takes_rows else ""))
    if not isinstance(operand, Array):
        if problem := describe_bad_label(operand, shape[axis], ignore_index, can_ignore=True):
            raise LabelError(f"{name}: {problem}")
        return widen_labels(asarray(operand))
    return ensure_labels(name, operand, shape[axis], ignore_index, can_ignore=True)


def ensure_labels(
    name: str, labels: Array, classes: int, ignore_index: int | None = None, can_ignore: bool = False,
) -> Array:
    """Return labels as int32 or int64. Computed labels are checked here, pending ones by a node.

    name : the function, which begins the message. can_ignore : see :func:`describe_bad_label`
    """
    wide = widen_labels(labels)
    if labels.node.value is not None:
        if problem := describe_bad_label(labels.numpy(), classes, ignore_index, can_ignore):
            raise LabelError(f"{name}: {problem}")
        return wide
    checked = wide if ignore_index is None else where(wide == ignore_index, 0, wide)
    checked = wrap(cast(check_range(checked, classes, f"{name}: labels").node, wide.node.dtype))
    return checked if ignore_index is None else where(wide == ignore_index, ignore_index, checked)


def read_class_weight(name: str, weight: Any, scores: Array, axis: int, dtype: Any) -> Array | None:
    """Return the weight of each class with a shape that broadcasts against ``scores``, whose axis ``axis`` has the classes."""
    if weight is None:
        return None
    weight = asarray(weight)
    if weight.shape != (scores.shape[axis],):
        raise ShapeError(f"{name}: weight must be ({scores.shape[axis]},), one per class, not {weight.shape}")
    return weight.astype(dtype).reshape(class_shape(scores, axis))


def class_shape(scores: Array, axis: int) -> tuple[int, ...]:
    """Return the shape in which a vector of classes broadcasts against ``scores``."""
    return (-1,) + (1,) * (scores.ndim - axis - 1)


def mark_targets(scores: Array, target: Array, axis: int) -> Any:
    """Return a bool array of the shape of ``scores``: whether the class is that of the label."""
    return arange(scores.shape[axis], dtype=target.dtype).reshape(class_shape(scores, axis)) == expand_dims(target, axis)


def reduce_rows(
    name: str, rows: Array, counted: Array | None, target: Array, ignore_index: int | None, reduction: str, scores: Array,
) -> Array:
    """Return the reduction of the losses of labels: ignored labels count 0, others their weights ``counted``, 1 if None."""
    if ignore_index is not None:
        is_counted: Any = target != ignore_index
        rows = where(is_counted, rows, 0)
        counted = is_counted.astype(rows.dtype) if counted is None else where(is_counted, counted, 0)
    if counted is None or reduction != "mean":
        return reduce_loss(name, rows, reduction, scores)
    return to_storage_dtype(rows.sum() / counted.sum(), scores)


def widen_labels(labels: Array) -> Array:
    """Convert labels to int32 or int64, so that class numbers and ``ignore_index`` fit."""
    name = labels.dtype.name
    return labels if name in ("int32", "int64") else labels.astype("int32" if labels.dtype.itemsize < 4 else "int64")


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
    if problem := describe_bad_label(labels, classes, ignore_index):
        raise LabelError(problem)


def describe_bad_label(labels: np.ndarray, classes: int, ignore_index: int | None = None, can_ignore: bool = False) -> str:
    """Describe the first label that is neither in 0..classes-1 nor ``ignore_index``. Return "" if all labels are valid.

    can_ignore : whether the loss has the argument ``ignore_index``; the text then proposes it for a label of ``IGNORED_MARKS``
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
        label = labels[bad]
        is_mark = can_ignore and label in IGNORED_MARKS
        fix = f"; a loss with ignore_index={label} leaves rows with this label out" if is_mark else ""
        return f"labels out of range: label {label} at position {at}, but {limits}{fix}"
    return ""


complete_each(check_labels)

"""Normalisations as functions. Statistics of float16 and bfloat16 arrays are computed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.dtype_info.half_precision import narrowed, widened
from weft.functions.elementwise.ufuncs import sqrt, stop_gradient
from weft.functions.statistics.pad import pad
from weft.nn.size_arguments import extents, whole


def _standard(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Mean 0 and variance 1 along ``axes``."""
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / sqrt((centred * centred).mean(axis=axes, keepdims=True) + eps)


def _affine(y: Array, weight: Array | None, bias: Array | None, shape: tuple[int, ...]) -> Array:
    if weight is not None:
        y = y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _channels(name: str, x: Array, *parameters: Array | None) -> tuple[int, ...]:
    """The shape that makes a parameter a channel broadcast against ``x``."""
    if x.ndim < 2:
        raise ShapeError(f"{name}: x must be (N, C, ...), not {x.shape}")
    for p in parameters:
        if p is not None and p.shape != (x.shape[1],):
            raise ShapeError(f"{name}: x {x.shape} has {x.shape[1]} channels, the parameters have shape {p.shape}")
    return (1, -1) + (1,) * (x.ndim - 2)


def batch_norm(
    x: Any, running_mean: Array | None, running_var: Array | None, weight: Array | None = None, bias: Array | None = None,
    training: bool = False, momentum: float | Array = 0.1, eps: float = 1e-5,
) -> Array:
    """Each channel at mean 0 and variance 1 over the batch; outside of training by the running statistics.

    Ioffe, Szegedy: Batch normalization. 2015.

    Parameters
    ----------
    x : (N, C, ...)
    running_mean, running_var : (C,) or None. In training they are written: ``(1 - momentum) * old + momentum * new``,
        the new variance without bias (divided by n - 1), as in PyTorch. Without them the batch's statistics are used
        always
    weight, bias : (C,), optional
    training : bool
    momentum, eps : float

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        when channels do not fit, or in training there is one value a channel only.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.array([[1.0], [3.0]])
    >>> wf.nn.batch_norm(x, None, None, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    x = asarray(x)
    shape = _channels("batch_norm", x, running_mean, running_var, weight, bias)
    wide = widened(x)
    if not training and running_mean is not None and running_var is not None:
        scale = 1.0 / sqrt(running_var + eps)
        return narrowed(_affine((wide - running_mean.reshape(shape)) * scale.reshape(shape), weight, bias, shape), x)
    count = x.size // x.shape[1] if x.shape[1] else 0
    if count < 2:
        raise ShapeError(f"batch_norm: x {x.shape} has {count} value a channel; the variance needs two or more")
    axes = (0, *range(2, x.ndim))
    mean = wide.mean(axis=axes)
    centred = wide - mean.reshape(shape)
    var = (centred * centred).mean(axis=axes)
    if training and running_mean is not None and running_var is not None:
        for running, new in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
            running[...] = running * (1.0 - momentum) + stop_gradient(new) * momentum
    return narrowed(_affine(centred / sqrt(var + eps).reshape(shape), weight, bias, shape), x)


def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5,
) -> Array:
    """The last dimensions at mean 0 and variance 1.

    Ba et al.: Layer normalization. 2016.

    Parameters
    ----------
    x : (..., *normalized_shape)
    normalized_shape : int or tuple
    weight, bias : of shape normalized_shape, optional
    eps : float

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        ``x`` does not end in ``normalized_shape``, or the parameters have another shape.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.layer_norm(wf.array([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = asarray(x)
    shape = _last("layer_norm", x, normalized_shape, weight, bias)
    y = _standard(widened(x), tuple(range(x.ndim - len(shape), x.ndim)), eps)
    return narrowed(_affine(y, weight, bias, shape), x)


def rms_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float = 1e-6,
) -> Array:
    """The last dimensions divided by their root mean square.

    Zhang, Sennrich: Root mean square layer normalization. 2019.

    Parameters
    ----------
    x, normalized_shape, weight, eps : as in :func:`layer_norm`

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        As :func:`layer_norm`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.rms_norm(wf.array([[3.0, -3.0]]), 2, eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    x = asarray(x)
    shape = _last("rms_norm", x, normalized_shape, weight)
    wide = widened(x)
    square = (wide * wide).mean(axis=tuple(range(x.ndim - len(shape), x.ndim)), keepdims=True)
    return narrowed(_affine(wide / sqrt(square + eps), weight, None, shape), x)


def _last(name: str, x: Array, normalized_shape: Any, *parameters: Array | None) -> tuple[int, ...]:
    width = whole(normalized_shape)
    shape = tuple(normalized_shape) if width is None else (width,)
    if not shape or x.shape[-len(shape):] != shape:
        raise ShapeError(f"{name}: x {x.shape} must end in normalized_shape {shape}")
    for p in parameters:
        if p is not None and p.shape != shape:
            raise ShapeError(f"{name}: parameters must have normalized_shape {shape}, not {p.shape}")
    return shape


def group_norm(
    x: Any, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5,
) -> Array:
    """Each group of channels of each sample at mean 0 and variance 1.

    Wu, He: Group normalization. 2018.

    Parameters
    ----------
    x : (N, C, ...); num_groups divides C
    num_groups : int
    weight, bias : (C,), optional
    eps : float

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        ``num_groups`` does not divide the channels, or the parameters do not fit them.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.group_norm(wf.array([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    x, groups = asarray(x), whole(num_groups) or 0
    shape = _channels("group_norm", x, weight, bias)
    if groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm: num_groups={num_groups!r} must divide the {x.shape[1]} channels of x {x.shape}")
    grouped = widened(x).reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    y = _standard(grouped, tuple(range(2, grouped.ndim)), eps).reshape(x.shape)
    return narrowed(_affine(y, weight, bias, shape), x)


def instance_norm(x: Any, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Each channel of each sample at mean 0 and variance 1.

    Ulyanov et al.: Instance normalization. 2016.

    Parameters
    ----------
    x : (N, C, ...) with at least one dimension after the channels
    weight, bias : (C,), optional
    eps : float

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        No dimension after the channels, or the parameters do not fit them.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.instance_norm(wf.array([[[1.0, 3.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    x = asarray(x)
    shape = _channels("instance_norm", x, weight, bias)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x must be (N, C, ...) with a spatial dimension, not {x.shape}")
    return narrowed(_affine(_standard(widened(x), tuple(range(2, x.ndim)), eps), weight, bias, shape), x)


def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """Each element divided by ``(k + alpha * mean of the squares of size neighbouring channels) ** beta``.

    Krizhevsky et al.: ImageNet classification with deep convolutional neural networks. 2012. Channels outside
    count as zeros; ``alpha`` is divided by ``size``, as in PyTorch.

    Parameters
    ----------
    x : (N, C, ...)
    size : int, the number of channels
    alpha, beta, k : float

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        ``x`` has no channels, or ``size`` is not positive.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.local_response_norm(wf.array([[1.0, 2.0]]), 1, alpha=1.0, beta=1.0).tolist()
    [[0.5, 0.4000000059604645]]
    """
    x = asarray(x)
    _channels("local_response_norm", x)
    (size,) = extents("local_response_norm", size=size)
    wide = widened(x)
    square = pad(wide * wide, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    total = square[:, : x.shape[1]]
    for first in range(1, size):
        total = total + square[:, first : first + x.shape[1]]
    return narrowed(wide / (total * (alpha / size) + k) ** beta, x)

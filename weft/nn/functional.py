"""Layers as functions: arrays in, array out. Images are (N, C, H, W)."""

from __future__ import annotations

from weft.array import Array, as_node, operands, wrap
from weft.errors import ShapeError
from weft.functions import random
from weft.functions.choosing import where
from weft.functions.elementwise import tanh as tanh
from weft.graph.primitives import TABLE, bind

_NCHW = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))


def _pair(value: int | tuple[int, int], name: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or not all(isinstance(v, int) for v in pair):
        raise ShapeError(f"{name} must be an int or a pair of ints, not {value!r}")
    return pair


def _extents(layer: str, **extents: int) -> None:
    for name, value in extents.items():
        if not isinstance(value, int) or value < 1:
            raise ShapeError(f"{layer}: {name} must be a positive int, not {value!r}")


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias``.

    Parameters
    ----------
    x : (..., in_features)
    weight : (out_features, in_features)
    bias : (out_features,), optional

    Returns
    -------
    (..., out_features)

    Raises
    ------
    ShapeError
        when the last dimension of ``x`` is not ``in_features``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.linear(wf.ones((2, 3)), wf.ones((4, 3))).shape
    (2, 4)
    """
    if x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear: x has shape {x.shape}, its last dimension must be in_features = {weight.shape[1]} "
            f"(weight is {weight.shape})" + ("; flatten images first" if x.ndim == 4 else "")
        )
    a, w = operands(x, weight)
    y = wrap(bind(TABLE["dot_general"], a, w, contract=((x.ndim - 1,), (1,)), batch=((), ())))
    return y if bias is None else y + bias


def conv2d(
    x: Array, w: Array, bias: Array | None = None, stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0,
) -> Array:
    """Two-dimensional convolution (cross-correlation, as in PyTorch).

    Parameters
    ----------
    x : (N, in_channels, H, W)
    w : (out_channels, in_channels, kernel height, kernel width)
    bias : (out_channels,), optional
    stride, padding : int or pair, for height and width

    Returns
    -------
    (N, out_channels, (H + 2 * padding - kh) // stride + 1, ...)

    Raises
    ------
    ShapeError
        when ranks or channels do not fit, or the window is larger than the padded image.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.conv2d(wf.ones((2, 1, 8, 8)), wf.ones((10, 1, 3, 3)), padding=1).shape
    (2, 10, 8, 8)
    """
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"conv2d: x must be (N, C, H, W) and w (O, I, kh, kw), not {x.shape} and {w.shape}")
    if x.shape[1] != w.shape[1]:
        raise ShapeError(f"conv2d: x {x.shape} has {x.shape[1]} channels, w {w.shape} takes {w.shape[1]}")
    s, p = _pair(stride, "stride"), _pair(padding, "padding")
    a, b = operands(x, w)
    y = wrap(bind(
        TABLE["conv_general"], a, b, stride=s, padding=((p[0], p[0]), (p[1], p[1])),
        lhs_dilation=(1, 1), rhs_dilation=(1, 1), groups=1, dims=_NCHW,
    ))
    return y if bias is None else y + bias.reshape((1, -1, 1, 1))


def _window(x: Array, kind: str, kernel_size, stride, padding) -> Array:
    if x.ndim != 4:
        raise ShapeError(f"pooling: x must be (N, C, H, W), not {x.shape}")
    k = _pair(kernel_size, "kernel_size")
    s = k if stride is None else _pair(stride, "stride")
    p = _pair(padding, "padding")
    if 2 * p[0] > k[0] or 2 * p[1] > k[1]:
        raise ShapeError(f"pooling: padding {p} is more than half the window {k}")
    return wrap(bind(
        TABLE["reduce_window"], as_node(x), kind=kind, window=k, stride=s, padding=((p[0], p[0]), (p[1], p[1])),
    ))


def max_pool2d(x: Array, kernel_size, stride=None, padding=0) -> Array:
    """The largest element of each window; the gradient goes to the first of equals.

    Parameters
    ----------
    x : (N, C, H, W)
    kernel_size, stride, padding : int or pair; stride defaults to kernel_size

    Returns
    -------
    (N, C, (H + 2 * padding - kernel_size) // stride + 1, ...)

    Raises
    ------
    ShapeError

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.max_pool2d(wf.ones((2, 3, 8, 8)), 2).shape
    (2, 3, 4, 4)
    """
    return _window(x, "max", kernel_size, stride, padding)


def avg_pool2d(x: Array, kernel_size, stride=None, padding=0) -> Array:
    """The mean of each window, padding counted as zeros; shapes and errors as :func:`max_pool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.nn.avg_pool2d(wf.ones((1, 1, 2, 2)), 2).sum())
    1.0
    """
    k = _pair(kernel_size, "kernel_size")
    return _window(x, "sum", k, stride, padding) / float(k[0] * k[1])


def relu(x: Array) -> Array:
    """max(x, 0); NaN stays NaN, the slope at 0 is 0. Any shape.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.relu(wf.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return where(x <= 0, 0, x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow. Any shape.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.nn.sigmoid(wf.array(0.0)))
    0.5
    """
    return 0.5 * tanh(0.5 * x) + 0.5


def dropout(x: Array, p: float = 0.5, training: bool = True) -> Array:
    """Zero each element with probability ``p`` and scale the rest by 1 / (1 - p); nothing when not training.

    Raises
    ------
    ValueError
        when ``p`` is not in [0, 1].

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.dropout(wf.ones(4), p=0.5, training=False).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p must lie between 0 and 1, not {p}")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0
    keep = random.bernoulli(1.0 - p, x.shape)
    return where(keep, x * (1.0 / (1.0 - p)), 0)


def flatten(x: Array, start_dim: int = 1, end_dim: int = -1) -> Array:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.flatten(wf.ones((2, 3, 4))).shape
    (2, 12)
    """
    start, end = start_dim % x.ndim, end_dim % x.ndim
    size = 1
    for extent in x.shape[start : end + 1]:
        size *= extent
    return x.reshape(x.shape[:start] + (size,) + x.shape[end + 1 :])

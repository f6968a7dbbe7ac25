"""Random changes of batches of images on the device: crops, flips, erased rectangles, mixtures of samples.

All of them are array code, so that they fuse into the training step and are drawn anew by each call of a jitted function.
"""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array, wrap
from weft.dtypes.api import is_float, is_integer
from weft.errors import DTypeError, ShapeError, short
from weft.functions import random
from weft.functions.creation.fill import arange, asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import exp, floor, log, minimum, rint, sqrt
from weft.functions.indexing.take_scatter import gather, one_hot, take, take_along_axis
from weft.functions.indexing.where import where
from weft.functions.random.state import key_node
from weft.functions.reductions.folds import argmax
from weft.functions.shape.axes import flip, moveaxis
from weft.functions.statistics.pad import pad
from weft.functions.support.arguments import axis_index, check_int
from weft.losses.arguments import ensure_labels
from weft.process.docstrings import complete_module

CANDIDATES = 16  # of a gamma variate by Marsaglia's and Tsang's method, which accepts each with a probability of 0.95 at least


def random_crop(x: Any, size: Any, padding: Any = 0, *, key: Any = None) -> Array:
    """Cut a random window out of each image.

    Parameters
    ----------
    x : (N, C, H, W)
    size : int, or (height, width)
    padding : int, or (vertical, horizontal); zeros around the images, from which windows may be cut, too

    Returns
    -------
    Array of shape (N, C, height, width) and the dtype of ``x``

    Raises
    ------
    ShapeError, DTypeError
        ``x`` is no batch of images; sizes are no ints, negative, or larger than the padded images.

    >>> wf.data.random_crop(wf.ones((2, 3, 32, 32)), 32, padding=4).shape
    (2, 3, 32, 32)
    """
    x = _read_images("random_crop", x)
    (height, width), (v, h) = _read_pair("random_crop", "size", size, 1), _read_pair("random_crop", "padding", padding, 0)
    n, _, rows, columns = x.shape
    if height > rows + 2 * v or width > columns + 2 * h:
        raise ShapeError(f"random_crop: size {(height, width)} is larger than the images {x.shape} with padding {(v, h)}")
    keys = _split_key("random_crop", key, 2)
    top = random.integers(0, rows + 2 * v - height + 1, (n, 1, 1), key=keys[0])
    left = random.integers(0, columns + 2 * h - width + 1, (n, 1, 1), key=keys[1])
    wide = pad(x, [(0, 0), (0, 0), (v, v), (h, h)])
    cut = gather(
        wide, arange(n)[:, None, None], top + arange(height)[:, None], left + arange(width), axes=(0, 2, 3)
    )
    return moveaxis(cut, -1, 1)


def random_flip(x: Any, p: float = 0.5, axis: int = -1, *, key: Any = None) -> Array:
    """Mirror each sample with probability ``p``.

    Parameters
    ----------
    x : (N, ...)
    p : float in [0, 1]
    axis : int, the axis that is reversed, not 0; -1 mirrors images (N, C, H, W) left to right, -2 upside down

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError, AxisError, ValueError
        ``x`` has no such axis, or it is that of the samples; ``p`` is outside [0, 1].

    >>> wf.data.random_flip(wf.array([[1, 2, 3]]), p=1.0).tolist()
    [[3, 2, 1]]
    """
    x = asarray(x)
    _check_share("random_flip", p)
    if axis_index(axis, x.ndim, "random_flip") == 0:
        raise ShapeError(f"random_flip: axis {axis} of x {x.shape} is that of the samples")
    is_flipped = random.bernoulli(p, (len(x),) + (1,) * (x.ndim - 1), key=_read_key("random_flip", key))
    return where(is_flipped, flip(x, axis=axis), x)


def random_erasing(
    x: Any, p: float = 0.5, scale: tuple[float, float] = (0.02, 0.33), ratio: tuple[float, float] = (0.3, 3.3), value: float = 0,
    *, key: Any = None,
) -> Array:
    """Overwrite a random rectangle of each image with probability ``p``.

    Zhong et al.: Random erasing data augmentation. 2020.

    Parameters
    ----------
    x : (N, C, H, W)
    p : float in [0, 1]
    scale : (low, high), the rectangle's share of the image's area
    ratio : (low, high), height / width of the rectangle; sides that are longer than the image's are cut
    value : number, what the rectangle has afterwards

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError, ValueError
        ``x`` is no batch of images; ``p`` is outside [0, 1], or ``scale`` or ``ratio`` is not positive and ascending.

    >>> float(wf.data.random_erasing(wf.ones((1, 1, 8, 8)), p=1.0).min())
    0.0
    """
    x = _read_images("random_erasing", x)
    _check_share("random_erasing", p)
    for name, pair in (("scale", scale), ("ratio", ratio)):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not 0 < pair[0] <= pair[1]:
            raise ValueError(f"random_erasing: {name} must be (low, high) with 0 < low <= high, not {short(pair)}")
    n, _, rows, columns = x.shape
    keys, shape = _split_key("random_erasing", key, 5), (n, 1, 1, 1)
    area = random.uniform(scale[0], scale[1], shape, key=keys[0]) * float(rows * columns)
    aspect = exp(random.uniform(math.log(ratio[0]), math.log(ratio[1]), shape, key=keys[1]))
    height, width = minimum(rint(sqrt(area * aspect)), rows), minimum(rint(sqrt(area / aspect)), columns)
    top = floor(random.uniform(size=shape, key=keys[2]) * (rows - height + 1.0))
    left = floor(random.uniform(size=shape, key=keys[3]) * (columns - width + 1.0))
    row, column = arange(rows)[:, None], arange(columns)
    inside = (row >= top) & (row < top + height) & (column >= left) & (column < left + width)
    return where(inside & random.bernoulli(p, shape, key=keys[4]), asarray(value, dtype=x.dtype), x)


def mixup(x: Any, y: Any, num_classes: int | None = None, alpha: float = 0.2, *, key: Any = None) -> tuple[Array, Array]:
    """Return weighted means of each sample and another one of the batch, and of their targets.

    The weight is drawn once for a batch, from a beta distribution. Zhang et al.: mixup: beyond empirical risk minimization. 2018.

    Parameters
    ----------
    x : (N, ...), float
    y : (N,) integer labels with ``num_classes``; or (N, ...) floats, such as one-hot rows or numbers
    num_classes : int, for labels
    alpha : float, positive: both parameters of the beta distribution

    Returns
    -------
    tuple of two Arrays
        The samples, of the shape of ``x``, and the targets: (N, num_classes) probabilities for labels, which
        :func:`weft.losses.cross_entropy` takes.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Lengths differ; ``x`` is not float; labels without ``num_classes``; ``alpha`` is not positive.
    LabelError
        A label of computed labels is not in 0..num_classes-1. It is an IndexError and a ValueError.
    IndexError
        A label of pending labels, or of labels inside a jitted function, is not: raised when the targets are computed.

    >>> x, y = wf.data.mixup(wf.ones((4, 3)), wf.array([0, 1, 2, 1]), num_classes=3)
    >>> x.shape, y.shape
    ((4, 3), (4, 3))
    """
    x, y = asarray(x), asarray(y)
    if not x.ndim or not y.ndim or len(x) != len(y):
        raise ShapeError(f"mixup: x {x.shape} and y {y.shape} must have one length")
    if not is_float(x.dtype):
        raise DTypeError(f"mixup: x must be float, not {x.dtype}: means of integers are rounded")
    if isinstance(alpha, str) or not alpha > 0:
        raise ValueError(f"mixup: alpha must be positive, not {short(alpha)}")
    if is_integer(y.dtype) or y.dtype.kind == "b":
        if num_classes is None:
            raise ValueError("mixup: y has labels, which are mixed as probabilities: give num_classes")
        num_classes = check_int(num_classes, "mixup", "num_classes")
        labels = ensure_labels("mixup", y if is_integer(y.dtype) else y.astype("int32"), num_classes)
        y = one_hot(labels, num_classes, dtype="float32")
    keys = _split_key("mixup", key, 2)
    order, weight = random.permutation(len(x), key=keys[0]), _draw_beta(float(alpha), keys[1])
    mixed = []
    for a in (x, y):
        wide = to_compute_dtype(a)
        share = weight.astype(wide.dtype)
        mixed.append(to_storage_dtype(wide * share + take(wide, order, axis=0) * (1.0 - share), a))
    return mixed[0], mixed[1]


def _draw_beta(alpha: float, key: Any) -> Array:
    """Draw a number of the beta distribution with two equal parameters, as a function of two gamma variates' logarithms."""
    keys, d = _split_key("mixup", key, 3), alpha + 1.0 - 1.0 / 3.0
    z = random.normal(size=(2, CANDIDATES), key=keys[0])
    base = 1.0 + z / math.sqrt(9.0 * d)
    is_positive = base > 0
    logs = log(where(is_positive, base, 1.0)) * 3.0  # of v; d * v has the parameter alpha + 1
    chance = log(1.0 - random.uniform(size=(2, CANDIDATES), key=keys[1]))
    is_accepted = is_positive & (chance < z * z * 0.5 + d * (1.0 - exp(logs) + logs))
    first = argmax(is_accepted, axis=1, keepdims=True)
    gamma = take_along_axis(logs, first, axis=1)[:, 0] + log(1.0 - random.uniform(size=2, key=keys[2])) / alpha
    return 1.0 / (1.0 + exp(gamma[1] - gamma[0]))


def _split_key(name: str, key: Any, count: int) -> Any:
    """Return ``count`` keys, or Nones for the hidden state."""
    return (None,) * count if key is None else random.split(_read_key(name, key), count)


def _read_key(name: str, key: Any) -> Array | None:
    """Return the key of function ``name``, or None for the hidden state."""
    return None if key is None else wrap(key_node(key, name))


def _check_share(name: str, p: Any) -> None:
    if isinstance(p, float | int) and not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: p must lie between 0 and 1, not {p}")


def _read_images(name: str, x: Any) -> Array:
    x = asarray(x)
    if x.ndim != 4:
        raise ShapeError(f"{name}: x must be (N, C, H, W), not {x.shape}")
    return x


def _read_pair(name: str, argument: str, value: Any, least: int) -> tuple[int, int]:
    """Return two ints, each at least ``least``; an int is repeated."""
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2:
        raise ShapeError(f"{name}: {argument} must be an int or a pair of ints, not {short(value)}")
    first, second = (check_int(n, name, argument) for n in pair)
    if min(first, second) < least:
        raise ShapeError(f"{name}: {argument} must be at least {least}, not {short(value)}")
    return first, second


complete_module(globals())

"""Normalisation functions. Statistics of float16 and bfloat16 arrays are computed in float32."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray, full, ones, zeros
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import maximum, sqrt, stop_gradient
from weft.functions.shape.axes import concat
from weft.functions.statistics.pad import pad
from weft.functions.support.arguments import check_real_scalar
from weft.nn.module import Module, derive_variants
from weft.nn.size_arguments import IMAGE_LAYOUTS, check_can_infer, extents, int_or_none
from weft.process.docstrings import complete_docs


def _standardise(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Scale to mean 0 and variance 1 along ``axes``."""
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / sqrt((centred * centred).mean(axis=axes, keepdims=True) + eps)


def _affine(y: Array, weight: Array | None, bias: Array | None, shape: tuple[int, ...]) -> Array:
    if weight is not None:
        y = y * to_compute_dtype(weight).reshape(shape)
    return y if bias is None else y + to_compute_dtype(bias).reshape(shape)


def _channel_shape(name: str, x: Array, *parameters: Array | None) -> tuple[int, ...]:
    """Return the shape in which a parameter of shape (C,) broadcasts against ``x``."""
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
    """Normalise each channel over the batch to mean 0 and variance 1; outside of training by the running statistics.

    Ioffe, Szegedy: Batch normalization. 2015.

    Parameters
    ----------
    x : (N, C, ...)
    running_mean, running_var : (C,) or None
        In training they are updated to ``(1 - momentum) * old + momentum * new``, with the unbiased variance (divided by
        n - 1), as in PyTorch. If they are None, the batch's statistics are always used.
    weight, bias : (C,), optional
        Scale and offset of the normalised elements.
    training : bool
    momentum : float
    eps : float, added to the variance

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    ShapeError
        ``x`` has no channels, the parameters do not fit them, or there is only one value per channel to normalise.

    >>> x = wf.array([[1.0], [3.0]])
    >>> wf.nn.batch_norm(x, None, None, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    check_real_scalar(momentum, "batch_norm", "momentum")
    check_real_scalar(eps, "batch_norm", "eps")
    x = asarray(x)
    shape = _channel_shape("batch_norm", x, running_mean, running_var, weight, bias)
    wide = to_compute_dtype(x)
    if not training and running_mean is not None and running_var is not None:
        scale = 1.0 / sqrt(to_compute_dtype(running_var) + eps)
        centred = wide - to_compute_dtype(running_mean).reshape(shape)
        return to_storage_dtype(_affine(centred * scale.reshape(shape), weight, bias, shape), x)
    count = x.size // x.shape[1] if x.shape[1] else 0
    if count < 2:
        fix = "" if training and running_mean is not None else ": give batches of more samples, or track_running_stats=True"
        raise ShapeError(f"batch_norm: x {x.shape} has {count} value per channel; the variance needs two or more{fix}")
    axes = (0, *range(2, x.ndim))
    mean = wide.mean(axis=axes)
    centred = wide - mean.reshape(shape)
    var = (centred * centred).mean(axis=axes)
    if training and running_mean is not None and running_var is not None:
        for running, new in ((running_mean, mean), (running_var, var * (count / (count - 1)))):
            running[...] = to_compute_dtype(running) * (1.0 - momentum) + stop_gradient(new) * momentum
    return to_storage_dtype(_affine(centred / sqrt(var + eps).reshape(shape), weight, bias, shape), x)


def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5,
) -> Array:
    """Normalise the last dimensions to mean 0 and variance 1.

    Ba et al.: Layer normalization. 2016.

    Parameters
    ----------
    x : (..., *normalized_shape)
    normalized_shape : int or tuple
    weight, bias : of shape ``normalized_shape``, optional
        Scale and offset of the normalised elements.

    Raises
    ------
    ShapeError
        ``x`` does not end in ``normalized_shape``, or the parameters have another shape.

    >>> wf.nn.layer_norm(wf.array([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    check_real_scalar(eps, "layer_norm", "eps")
    x = asarray(x)
    shape = _trailing_shape("layer_norm", x, normalized_shape, weight, bias)
    y = _standardise(to_compute_dtype(x), tuple(range(x.ndim - len(shape), x.ndim)), eps)
    return to_storage_dtype(_affine(y, weight, bias, shape), x)


def rms_norm(x: Any, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float = 1e-6) -> Array:
    """Divide the last dimensions by their root mean square.

    Zhang, Sennrich: Root mean square layer normalization. 2019.

    Parameters
    ----------
    weight : of shape ``normalized_shape``, optional
    eps : float, added to the mean square

    >>> wf.nn.rms_norm(wf.array([[3.0, -3.0]]), 2, eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    check_real_scalar(eps, "rms_norm", "eps")
    x = asarray(x)
    shape = _trailing_shape("rms_norm", x, normalized_shape, weight)
    wide = to_compute_dtype(x)
    square = (wide * wide).mean(axis=tuple(range(x.ndim - len(shape), x.ndim)), keepdims=True)
    return to_storage_dtype(_affine(wide / sqrt(square + eps), weight, None, shape), x)


def _trailing_shape(name: str, x: Array, normalized_shape: Any, *parameters: Array | None) -> tuple[int, ...]:
    """Return ``normalized_shape`` as a tuple; raise if ``x`` does not end in it or a parameter has another shape."""
    width = int_or_none(normalized_shape)
    shape = tuple(normalized_shape) if width is None else (width,)
    if not shape or x.shape[-len(shape):] != shape:
        raise ShapeError(f"{name}: x {x.shape} must end in normalized_shape {shape}")
    for p in parameters:
        if p is not None and p.shape != shape:
            raise ShapeError(f"{name}: parameters must have normalized_shape {shape}, not {p.shape}")
    return shape


def group_norm(x: Any, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Normalise each group of channels of each sample to mean 0 and variance 1.

    Wu, He: Group normalization. 2018.

    Parameters
    ----------
    num_groups : int, a divisor of C

    Raises
    ------
    ShapeError
        ``num_groups`` does not divide the channels, or the parameters do not fit them.

    >>> wf.nn.group_norm(wf.array([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    check_real_scalar(eps, "group_norm", "eps")
    x, groups = asarray(x), int_or_none(num_groups) or 0
    shape = _channel_shape("group_norm", x, weight, bias)
    if groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm: num_groups={num_groups!r} must divide the {x.shape[1]} channels of x {x.shape}")
    grouped = to_compute_dtype(x).reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    y = _standardise(grouped, tuple(range(2, grouped.ndim)), eps).reshape(x.shape)
    return to_storage_dtype(_affine(y, weight, bias, shape), x)


def instance_norm(x: Any, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Normalise each channel of each sample to mean 0 and variance 1.

    Ulyanov et al.: Instance normalization. 2016.

    Parameters
    ----------
    x : (N, C, ...) with at least one dimension after the channels

    Raises
    ------
    ShapeError
        ``x`` has no dimension after the channels, or the parameters do not fit the channels.

    >>> wf.nn.instance_norm(wf.array([[[1.0, 3.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    check_real_scalar(eps, "instance_norm", "eps")
    x = asarray(x)
    shape = _channel_shape("instance_norm", x, weight, bias)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x must be (N, C, ...) with a spatial dimension, not {x.shape}")
    return to_storage_dtype(_affine(_standardise(to_compute_dtype(x), tuple(range(2, x.ndim)), eps), weight, bias, shape), x)


def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """Divide each element by ``(k + alpha * mean of the squares of size neighbouring channels) ** beta``.

    Krizhevsky et al.: ImageNet classification with deep convolutional neural networks. 2012. Channels outside
    count as zeros; ``alpha`` is divided by ``size``, as in PyTorch.

    Parameters
    ----------
    size : int, the number of channels
    alpha, beta, k : float

    Raises
    ------
    ShapeError
        ``x`` has no channels, or ``size`` is not positive.

    >>> wf.nn.local_response_norm(wf.array([[1.0, 2.0]]), 1, alpha=1.0, beta=1.0).tolist()
    [[0.5, 0.4000000059604645]]
    """
    x = asarray(x)
    _channel_shape("local_response_norm", x)
    (size,) = extents("local_response_norm", size=size)
    wide = to_compute_dtype(x)
    square = pad(wide * wide, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    total = square[:, : x.shape[1]]
    for first in range(1, size):
        total = total + square[:, first : first + x.shape[1]]
    return to_storage_dtype(wide / (total * (alpha / size) + k) ** beta, x)


complete_docs(batch_norm, layer_norm, group_norm, instance_norm, local_response_norm)
complete_docs(layer_norm, rms_norm)


class _ChannelNorm(Module):
    """Base class: a weight and a bias for each channel, created by the first batch if the number of channels was left out."""

    width = "num_features"  # the argument that may be left out
    spatial = 2
    ranks: tuple[int, ...] | None = None  # of the arrays that the layer accepts; None for those of images, () for any above 1

    def _start(self, channels: int | None, eps: float, affine: bool) -> None:
        self.eps, self.affine = check_real_scalar(eps, type(self).__name__, "eps"), affine
        self.weight: Array | None = None
        self.bias: Array | None = None
        setattr(self, self.width, None)
        if channels is not None:
            self._make(channels)

    def _make(self, channels: int) -> None:
        (count,) = extents(type(self).__name__, **{self.width: channels})
        setattr(self, self.width, count)
        if self.affine:
            self.weight, self.bias = ones((count,)), zeros((count,))

    def _check(self, x: Array) -> None:
        """Raise if ``x`` does not fit; create the parameters if their size was left out."""
        ranks = (self.spatial + 2,) if self.ranks is None else self.ranks
        has_rank = x.ndim in ranks if ranks else x.ndim > 1
        if has_rank and getattr(self, self.width) is None:
            check_can_infer(self, self.width)
            self._make(x.shape[1])
        channels = getattr(self, self.width)
        if not has_rank or x.shape[1] != channels:
            layout = " or ".join("(N, C)" if r == 2 else IMAGE_LAYOUTS[r - 2] for r in ranks) or "(N, C, ...)"
            count = "" if channels is None else f" with C = {channels}"
            fix = "; BatchNorm1d takes (N, C)" if not has_rank and x.ndim == 2 and isinstance(self, BatchNorm2d) else ""
            raise ShapeError(f"{type(self).__name__}: x must be {layout}{count}, not {x.shape}{fix}")


class BatchNorm2d(_ChannelNorm):
    """Apply :func:`weft.nn.batch_norm` to images (N, C, H, W), with weights and running statistics.

    Ioffe, Szegedy: Batch normalization. 2015.

    In training (``train()``) the layer uses the batch's statistics and updates the running ones; in evaluation (``eval()``)
    it uses the running ones. They are buffers: saved with the weights, not trained.

    Parameters
    ----------
    num_features : int, or None (the default) to infer it from the first batch
    eps : float, added to the variance
    momentum : float, the share of the new statistics; None for the mean over all batches so far
    affine : bool, whether there are a weight and a bias
    track_running_stats : bool; if False, the batch's statistics are always used

    Raises
    ------
    ShapeError, ValueError
        A size is not positive, or ``x`` does not fit; ``momentum`` is outside [0, 1].
    TraceError
        The first batch is inside jit or grad, and ``num_features`` was left out.

    >>> wf.nn.BatchNorm2d(3)(wf.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    buffers = ("running_mean", "running_var", "num_batches_tracked")

    def __init__(
        self, num_features: int | None = None, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        if momentum is not None and not 0.0 <= check_real_scalar(momentum, type(self).__name__, "momentum") <= 1.0:
            raise ValueError(f"{type(self).__name__}: momentum must lie between 0 and 1, not {momentum}")
        self.momentum, self.track_running_stats = momentum, track_running_stats
        self.running_mean: Array | None = None
        self.running_var: Array | None = None
        self.num_batches_tracked: Array | None = None  # used if ``momentum`` is None
        self._start(num_features, eps, affine)

    def _make(self, channels: int) -> None:
        super()._make(channels)
        if self.track_running_stats:
            self.running_mean, self.running_var = zeros((channels,)), ones((channels,))
            self.num_batches_tracked = zeros((), dtype="int64") if self.momentum is None else None

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        self._check(x)
        count = self.num_batches_tracked
        new_count = count + 1 if count is not None and self.training else count
        share: Any = self.momentum or 0.0  # of the batch in the running statistics
        if new_count is not None:
            share = 1.0 / new_count.astype(to_compute_dtype(self.running_var).dtype)
        out = self._normalise(x, share)
        if count is not None and new_count is not count:
            count[...] = new_count  # after the statistics: a batch that fails is not counted
        return out

    def _normalise(self, x: Array, share: Any) -> Array:
        return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, share, self.eps)


class BatchNorm1d(BatchNorm2d):
    """Variant of :class:`BatchNorm2d` for (N, C) or (N, C, L).

    >>> wf.nn.BatchNorm1d(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    ranks = (2, 3)


class SyncBatchNorm(BatchNorm2d):
    """Batch norm over the whole batch of a job, for (N, C) or (N, C, ...).

    In ``wf.train.fit(..., shards=S)`` the statistics are those of all shards of all ranks, each counted by its values, and are
    added up in one order: any number of ranks gives the same bits. Everywhere else the layer is batch norm. Weights and buffers
    have the names of :class:`BatchNorm2d`'s, so that weights can be loaded from one into the other.

    Each layer exchanges four sums of a number a channel in a step, and the activations of all shards of a rank are in memory
    together.

    >>> wf.nn.SyncBatchNorm(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    ranks = ()

    def _normalise(self, x: Array, share: Any) -> Array:
        from weft.dist.lockstep import is_shard, sum_over_shards  # loads what exchanges messages

        if not is_shard() or not self.training:
            return super()._normalise(x, share)
        shape, wide, axes = _channel_shape("SyncBatchNorm", x), to_compute_dtype(x), (0, *range(2, x.ndim))
        own = full((1,), x.size // x.shape[1] if x.shape[1] else 0, dtype=wide.dtype)
        sums = sum_over_shards(concat([wide.sum(axis=axes), own]))
        count, mean = stop_gradient(sums[-1]), sums[:-1] / sums[-1]
        centred = wide - mean.reshape(shape)
        var = sum_over_shards((centred * centred).sum(axis=axes)) / count
        if self.running_mean is not None and self.running_var is not None:
            for running, new in ((self.running_mean, mean), (self.running_var, var * (count / maximum(count - 1, 1)))):
                running[...] = to_compute_dtype(running) * (1.0 - share) + stop_gradient(new) * share
        return to_storage_dtype(_affine(centred / sqrt(var + self.eps).reshape(shape), self.weight, self.bias, shape), x)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any) -> Any:
        """Return a copy of a model with a SyncBatchNorm of the same weights for each BatchNorm1d, BatchNorm2d and BatchNorm3d.

        Parameters
        ----------
        module : Module
            It does not change.

        Returns
        -------
        Module

        Raises
        ------
        TypeError
            ``module`` is not a Module.

        Examples
        --------
        >>> import weft as wf
        >>> net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.BatchNorm1d(4))
        >>> wf.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
        SyncBatchNorm(4)
        """
        if not isinstance(module, Module):
            raise TypeError(f"convert_sync_batchnorm: module must be a Module, not {type(module).__name__}")
        memo: dict[int, Any] = {}
        for _, layer in module.modules():
            if type(layer) in (BatchNorm1d, BatchNorm2d, BatchNorm3d):
                synchronised = cls.__new__(cls)
                vars(synchronised).update(vars(copy.deepcopy(layer, memo)))
                memo[id(layer)] = synchronised
        return copy.deepcopy(module, memo)


class LayerNorm(Module):
    """Apply :func:`weft.nn.layer_norm` with a weight and a bias.

    Ba et al.: Layer normalization. 2016.

    Parameters
    ----------
    normalized_shape : int or tuple, the last dimensions
    eps : float, added to the variance
    elementwise_affine, bias : bool, whether there are a weight and a bias

    Raises
    ------
    ShapeError
        A size is not positive, or ``x`` does not end in ``normalized_shape``.

    >>> wf.nn.LayerNorm(4)(wf.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(type(self).__name__, normalized_shape)
        self.eps = check_real_scalar(eps, type(self).__name__, "eps")
        self.weight = ones(self.normalized_shape) if elementwise_affine else None
        self.bias = zeros(self.normalized_shape) if elementwise_affine and bias else None

    def forward(self, x: Any) -> Array:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Apply :func:`weft.nn.rms_norm` with a weight.

    Zhang, Sennrich: Root mean square layer normalization. 2019.

    Parameters
    ----------
    eps : float, added to the mean square; 1e-6 for all dtypes, PyTorch's default is that of the dtype, 1.2e-7 for float32
    elementwise_affine : bool, whether there is a weight

    >>> wf.nn.RMSNorm(4)(wf.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(type(self).__name__, normalized_shape)
        self.eps = check_real_scalar(eps, type(self).__name__, "eps")
        self.weight = ones(self.normalized_shape) if elementwise_affine else None

    def forward(self, x: Any) -> Array:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_ChannelNorm):
    """Apply :func:`weft.nn.group_norm` with a weight and a bias.

    Wu, He: Group normalization. 2018.

    Parameters
    ----------
    num_groups : int, a divisor of ``num_channels``
    num_channels : int, or None (the default) to infer it from the first batch

    Raises
    ------
    ShapeError
        ``num_groups`` does not divide ``num_channels``, or ``x`` has other channels.
    TraceError
        The first batch is inside jit or grad, and ``num_channels`` was left out.

    >>> wf.nn.GroupNorm(2, 4)(wf.ones((2, 4, 5))).shape
    (2, 4, 5)
    """

    width, ranks = "num_channels", ()

    def __init__(self, num_groups: int, num_channels: int | None = None, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__()
        (self.num_groups,) = extents("GroupNorm", num_groups=num_groups)
        self._start(num_channels, eps, affine)

    def _make(self, channels: int) -> None:
        extents("GroupNorm", num_channels=channels)
        if channels % self.num_groups:
            raise ShapeError(f"GroupNorm: num_groups={self.num_groups} must divide num_channels={channels}")
        super()._make(channels)

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        self._check(x)
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm2d(_ChannelNorm):
    """Apply :func:`weft.nn.instance_norm` to images (N, C, H, W).

    Ulyanov et al.: Instance normalization. 2016.

    Raises
    ------
    ShapeError
        ``num_features`` is not positive, or ``x`` does not fit.
    TraceError
        The first batch is inside jit or grad, and ``num_features`` was left out.

    >>> wf.nn.InstanceNorm2d(3)(wf.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    def __init__(self, num_features: int | None = None, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        self._start(num_features, eps, affine)

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        self._check(x)
        return instance_norm(x, self.weight, self.bias, self.eps)


class LocalResponseNorm(Module):
    """Apply :func:`weft.nn.local_response_norm`.

    Krizhevsky et al.: ImageNet classification with deep convolutional neural networks. 2012.

    >>> wf.nn.LocalResponseNorm(5)(wf.ones((1, 8, 4, 4))).shape
    (1, 8, 4, 4)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        (self.size,) = extents("LocalResponseNorm", size=size)
        self.alpha, self.beta, self.k = alpha, beta, k

    def forward(self, x: Any) -> Array:
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)


def _as_shape(layer: str, shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple(extents(layer, normalized_shape=n)[0] for n in sizes)


complete_docs(BatchNorm2d, BatchNorm1d, SyncBatchNorm, GroupNorm, InstanceNorm2d)
_, BatchNorm3d = derive_variants(BatchNorm2d, "2", "(1, 2, {4})")
InstanceNorm1d, InstanceNorm3d = derive_variants(InstanceNorm2d, "2", "(1, 2, {4})")
complete_docs(LayerNorm, RMSNorm)
complete_docs(local_response_norm, LocalResponseNorm)

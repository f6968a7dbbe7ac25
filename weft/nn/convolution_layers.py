"""Convolution layers: the functions of ``convolution`` with weights."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.nn.convolution import PADDING, convolve, padded, transposed
from weft.nn.module import Module, uniform_parameter
from weft.nn.size_arguments import check_can_infer, each, extents, images
from weft.process.docstrings import complete_docs


class _Conv(Module):
    spatial = 2
    is_transposed = False  # if True, the weight is (in, out / groups, ...)

    def _start(
        self, in_channels: int | None, out_channels: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int,
        bias: bool,
    ) -> None:
        n, name = self.spatial, type(self).__name__
        self.out_channels, self.groups = extents(name, out_channels=out_channels, groups=groups)
        self.kernel_size = each(kernel_size, n, f"{name}: kernel_size", 1)
        self.stride, self.dilation = each(stride, n, f"{name}: stride", 1), each(dilation, n, f"{name}: dilation", 1)
        is_named = isinstance(padding, str) and not self.is_transposed
        self.padding = padding if is_named else each(padding, n, f"{name}: padding")
        self.has_bias = bool(bias)
        self.in_channels: int | None = None
        self.weight: Array | None = None
        self.bias: Array | None = None
        if in_channels is not None:
            self._make(in_channels)

    def _make(self, channels: int) -> None:
        name = type(self).__name__
        (in_channels,) = extents(name, in_channels=channels)
        if in_channels % self.groups or self.out_channels % self.groups:
            raise ShapeError(
                f"{name}: groups={self.groups} must divide in_channels={in_channels} and out_channels={self.out_channels}"
            )
        first, second = (in_channels, self.out_channels) if self.is_transposed else (self.out_channels, in_channels)
        limit = (second // self.groups * math.prod(self.kernel_size)) ** -0.5
        self.in_channels = in_channels
        self.weight = uniform_parameter((first, second // self.groups, *self.kernel_size), limit)
        self.bias = uniform_parameter((self.out_channels,), limit) if self.has_bias else None

    def weights(self, x: Any) -> Array:
        """Return the weight; create it first if ``in_channels`` was left out."""
        if self.weight is None:
            check_can_infer(self, "in_channels")
            shape = asarray(x).shape
            images(type(self).__name__, shape, self.spatial)
            self._make(shape[1])
        assert self.weight is not None
        return self.weight

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}, padding={self.padding}"
        text += f", dilation={self.dilation}" if max(self.dilation) > 1 else ""
        text += f", groups={self.groups}" if self.groups > 1 else ""
        return text + ("" if self.has_bias else ", bias=False")


class Conv2d(_Conv):
    """Apply :func:`weft.nn.conv2d`; the weights start uniform in +-1/sqrt(fan_in), as in PyTorch.

    Parameters
    ----------
    in_channels : int, or None (the default) to infer it from the first batch
    out_channels : int
    kernel_size, stride, padding, dilation : int, or one int per spatial dimension; padding also "same" or "valid"
    groups : int; each group of output channels reads its own group of input channels
    bias : bool
    padding_mode : str
        How padding is filled: "zeros", "reflect" (the mirrored image, its edge not repeated), "replicate" (the edge) or
        "circular" (the opposite side).

    Raises
    ------
    ShapeError
        A size is not positive, ``groups`` does not divide the channels, or ``x`` does not fit.
    TraceError
        The first batch is inside jit or grad, and ``in_channels`` was left out.
    ValueError
        ``padding_mode`` is unknown.

    Examples
    --------
    >>> wf.nn.Conv2d(1, 10, 3, padding=1)(wf.ones((2, 1, 8, 8))).shape
    (2, 10, 8, 8)
    """

    def __init__(
        self, in_channels: int | None = None, out_channels: int | None = None, kernel_size: Any = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
    ) -> None:
        super().__init__()
        if padding_mode not in PADDING:
            modes = ", ".join(map(repr, PADDING))
            raise ValueError(f"{type(self).__name__}: padding_mode must be one of {modes}, not {padding_mode!r}")
        self.padding_mode = padding_mode
        self._start(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def forward(self, x: Any) -> Array:
        name, n, weight, padding = f"conv{self.spatial}d", self.spatial, self.weights(x), self.padding
        if self.padding_mode != "zeros":
            x, padding = padded(x, n, weight, padding, self.stride, self.dilation, self.padding_mode, name), 0
        return convolve(name, n, x, weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode!r}")


class Conv1d(Conv2d):
    """Apply :func:`weft.nn.conv1d` to (N, C, L); see :class:`Conv2d`.

    Examples
    --------
    >>> wf.nn.Conv1d(4, 6, 3, dilation=2)(wf.ones((2, 4, 10))).shape
    (2, 6, 6)
    """

    spatial = 1


class Conv3d(Conv2d):
    """Apply :func:`weft.nn.conv3d` to (N, C, D, H, W); see :class:`Conv2d`.

    Examples
    --------
    >>> wf.nn.Conv3d(None, 3, 3, padding=1)(wf.ones((1, 2, 4, 4, 4))).shape
    (1, 3, 4, 4, 4)
    """

    spatial = 3


class ConvTranspose2d(_Conv):
    """Apply :func:`weft.nn.conv_transpose2d`; the weights start uniform in +-1/sqrt(fan_in), as in PyTorch.

    Parameters
    ----------
    kernel_size, stride, padding, output_padding, dilation : int, or one int per spatial dimension

    Raises
    ------
    ShapeError
        A size is not positive, ``groups`` does not divide the channels, or ``x`` does not fit.
    TraceError
        The first batch is inside jit or grad, and ``in_channels`` was left out.

    Examples
    --------
    >>> wf.nn.ConvTranspose2d(4, 2, 2, stride=2)(wf.ones((1, 4, 5, 5))).shape
    (1, 2, 10, 10)
    """

    is_transposed = True

    def __init__(
        self, in_channels: int | None = None, out_channels: int | None = None, kernel_size: Any = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
    ) -> None:
        super().__init__()
        self.output_padding = each(output_padding, self.spatial, f"{type(self).__name__}: output_padding")
        self._start(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def forward(self, x: Any) -> Array:
        return transposed(
            f"conv_transpose{self.spatial}d", self.spatial, x, self.weights(x), self.bias, self.stride, self.padding,
            self.output_padding, self.groups, self.dilation,
        )


class ConvTranspose1d(ConvTranspose2d):
    """Apply :func:`weft.nn.conv_transpose1d` to (N, C, L); see :class:`ConvTranspose2d`.

    Examples
    --------
    >>> wf.nn.ConvTranspose1d(4, 2, 3, stride=2)(wf.ones((1, 4, 5))).shape
    (1, 2, 11)
    """

    spatial = 1


class ConvTranspose3d(ConvTranspose2d):
    """Apply :func:`weft.nn.conv_transpose3d` to (N, C, D, H, W); see :class:`ConvTranspose2d`.

    Examples
    --------
    >>> wf.nn.ConvTranspose3d(2, 1, 2, stride=2)(wf.ones((1, 2, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    spatial = 3


complete_docs(Conv2d, Conv1d, Conv3d, ConvTranspose2d)
complete_docs(ConvTranspose2d, ConvTranspose1d, ConvTranspose3d)

"""Functions for convolutions of 1 to 3 spatial dimensions and their transposes. Images are (N, C, *spatial)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from weft.array import Array, wrap
from weft.array.convert import promote_operands
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, rename_error
from weft.functions.creation.fill import asarray, zeros
from weft.functions.linalg.product_formats import prepare_product
from weft.functions.shape.axes import flip, permute_dims
from weft.functions.statistics.pad import pad
from weft.graph.node import Node
from weft.graph.primitives import TABLE
from weft.graph.primitives.settings import convolution_params
from weft.nn.module import Module, derive_variants, describe_variants, uniform_parameter
from weft.nn.precision import LayerPrecision, Rounding, current_precision, product_settings
from weft.nn.size_arguments import check_can_infer, check_pads, check_sizes, extents, images, int_or_none
from weft.process.docstrings import complete_docs

PADDING = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # PyTorch's name -> wf.pad's


def _add_bias(y: Array, bias: Array | None, spatial: int, name: str) -> Array:
    if bias is None:
        return y
    if bias.shape != (y.shape[1],):
        raise ShapeError(f"{name}: bias must be ({y.shape[1]},), one per channel of the result, not {bias.shape}")
    return y + bias.reshape((1, -1) + (1,) * spatial)


def pad_images(x: Any, spatial: int, weight: Array, padding: Any, stride: Any, dilation: Any, mode: str, name: str) -> Array:
    """Return ``x`` with the convolution's ``padding`` added, filled by a mode of :data:`PADDING` other than zeros."""
    x = asarray(x)
    images(name, x.shape, spatial)
    pads = _pads(padding, weight.shape[2:], stride, dilation, name)
    return pad(x, [(0, 0), (0, 0), *pads], mode=PADDING[mode])


def _pads(padding: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], name: str):
    """Return the padding (low, high) of each spatial dimension."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if set(stride) != {1}:
            raise ShapeError(f'{name}: padding="same" needs stride 1, not {stride}')
        return tuple((d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for k, d in zip(kernel, dilation, strict=True))
    if isinstance(padding, str):
        raise ShapeError(f'{name}: padding must be "same", "valid" or ints, not {padding!r}')
    return check_pads(padding, len(kernel), f"{name}: padding")


def _check(name: str, x: Array, w: Array, spatial: int, channels: int, groups: int) -> None:
    images(name, x.shape, spatial)
    if w.ndim != spatial + 2:
        raise ShapeError(f"{name}: w must have {spatial + 2} dimensions, not shape {w.shape}")
    if groups < 1 or w.shape[0] % groups:
        raise ShapeError(f"{name}: groups={groups} must be a positive int that divides axis 0 of w {w.shape}")
    if x.shape[1] != channels:
        in_groups = f" in {groups} groups" if groups > 1 else ""
        last = f"{', '.join(map(str, (0, spatial + 1, *range(1, spatial + 1))))}"
        fix = f"; channels come before the image: x.transpose({last})" if x.shape[-1] == channels else ""
        raise ShapeError(f"{name}: x {x.shape} has {x.shape[1]} channels, w {w.shape} takes {channels}{in_groups}{fix}")


class Formats(NamedTuple):
    """The arguments of a convolution that choose formats: see :func:`weft.matmul`."""

    operands: Any = None
    accumulate: Any = None
    every: Any = None


_NO_FORMATS = Formats()


def _bind(name: str, x: Node, w: Node, formats: Formats, **params: Any) -> Array:
    chosen = current_precision()
    if chosen is not None:
        x, w = chosen.round_operands(x, w, axes=(1, params["dims"][1][1]))
    x, w, own = prepare_product(name, x, w, *formats)
    if "operands" in own and "accumulator" not in own:  # rounded by kernels of their own, after which the convolution is faster
        roundings = [None if form is None else Rounding(form) for form in own.pop("operands")]
        x, w = LayerPrecision(activations=roundings[0], weights=roundings[1]).round_operands(x, w)
    settings = {**product_settings(chosen, x.dtype), **convolution_params(x.dtype), **own}
    try:
        y = wrap(bind(TABLE["conv_general"], x, w, **params, **settings))
    except (ShapeError, DTypeError) as error:
        raise rename_error(error, name) from None
    return y if chosen is None else chosen.round_gradient(y)


def convolve(
    name: str, spatial: int, x: Any, w: Array, bias: Array | None, stride: Any, padding: Any, dilation: Any, groups: int,
    formats: Formats = _NO_FORMATS,
) -> Array:
    """Compute the convolution over any number of spatial dimensions; see :func:`conv2d`."""
    x, groups = asarray(x), int_or_none(groups) or 0
    _check(name, x, w, spatial, w.shape[1] * groups if w.ndim > 1 else 0, groups)
    s, d = check_sizes(stride, spatial, f"{name}: stride", 1), check_sizes(dilation, spatial, f"{name}: dilation", 1)
    a, b = promote_operands(x, w)
    axes = tuple(range(spatial + 2))
    y = _bind(
        name, a, b, formats, stride=s, padding=_pads(padding, w.shape[2:], s, d, name), lhs_dilation=(1,) * spatial,
        rhs_dilation=d, groups=groups, dims=(axes, axes, axes),
    )
    return _add_bias(y, bias, spatial, name)


def transpose_convolution(
    name: str, spatial: int, x: Any, w: Array, bias: Array | None, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any, formats: Formats = _NO_FORMATS,
) -> Array:
    """Compute the transpose of :func:`convolve` as a linear map.

    It is a convolution of ``x``, with zeros between its elements, with the flipped window.
    """
    x, groups = asarray(x), int_or_none(groups) or 0
    _check(name, x, w, spatial, w.shape[0], groups)
    s, d = check_sizes(stride, spatial, f"{name}: stride", 1), check_sizes(dilation, spatial, f"{name}: dilation", 1)
    p, extra = check_sizes(padding, spatial, f"{name}: padding"), check_sizes(output_padding, spatial, f"{name}: output_padding")
    if any(e >= max(a, b) for e, a, b in zip(extra, s, d, strict=True)):
        raise ShapeError(f"{name}: output_padding {extra} must be smaller than stride {s} or dilation {d}")
    kernel = w.shape[2:]
    flipped = flip(w, axis=tuple(range(2, spatial + 2)))
    if groups > 1:  # (I, O / groups) -> (I / groups, O)
        flipped = flipped.reshape((groups, w.shape[0] // groups, w.shape[1], *kernel))
        flipped = permute_dims(flipped, (1, 0, *range(2, spatial + 3))).reshape((w.shape[0] // groups, -1, *kernel))
    pads = tuple((e * (k - 1) - q, e * (k - 1) - q + o) for k, e, q, o in zip(kernel, d, p, extra, strict=True))
    a, b = promote_operands(x, flipped)
    extents = [
        (n - 1) * step + low + high - e * (k - 1) + 1
        for n, step, (low, high), e, k in zip(x.shape[2:], s, pads, d, kernel, strict=True)
    ]
    if min(extents) < 0 and 0 not in x.shape[2:]:
        raise ShapeError(
            f"{name}: padding {p} is larger than the result of x {x.shape} and w {w.shape} with stride {s}, dilation {d} and "
            f"output_padding {extra}: its extents would be {tuple(extents)}"
        )
    if 0 in extents:
        empty = zeros((x.shape[0], w.shape[1] * groups, *extents), a.dtype.numpy)
        return _add_bias(empty, bias, spatial, name)
    axes = tuple(range(spatial + 2))
    y = _bind(
        name, a, b, formats, stride=(1,) * spatial, padding=pads, lhs_dilation=s, rhs_dilation=d, groups=groups,
        dims=(axes, (1, 0, *axes[2:]), axes),
    )
    return _add_bias(y, bias, spatial, name)


def conv2d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    """Compute a two-dimensional convolution (cross-correlation, as in PyTorch).

    LeCun et al.: Backpropagation applied to handwritten zip code recognition. 1989.

    Parameters
    ----------
    x : array
        Of shape (N, in_channels, H, W); (N, in_channels, L) for one spatial dimension, (N, in_channels, D, H, W) for three.
    w : (out_channels, in_channels / groups, *kernel_size)
    bias : (out_channels,), optional
    stride, padding, dilation : int, or one int per spatial dimension
        ``padding`` may also be "same" (stride 1), "valid", or a pair (before, after) for each dimension, as ``((0, 2), (1, 1))``.
    groups : int; each group of output channels reads its own group of input channels
    operands, accumulate, every : formats of the products, as in :func:`weft.matmul`. Their order is channels, then the window;
        padding counts. With ``accumulate`` the windows are copied, which takes the memory of x times the size of the window, or
        256 MB if that is less

    Returns
    -------
    Array
        Of shape (N, out_channels, ...), where a spatial dimension of length n becomes
        ``(n + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Raises
    ------
    ShapeError
        Ranks or channels do not fit, or the window is larger than the padded image.

    >>> wf.nn.conv2d(wf.ones((2, 1, 8, 8)), wf.ones((10, 1, 3, 3)), padding=1).shape
    (2, 10, 8, 8)
    """
    return convolve("conv2d", 2, x, w, bias, stride, padding, dilation, groups, Formats(operands, accumulate, every))


def conv1d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    return convolve("conv1d", 1, x, w, bias, stride, padding, dilation, groups, Formats(operands, accumulate, every))


def conv3d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    return convolve("conv3d", 3, x, w, bias, stride, padding, dilation, groups, Formats(operands, accumulate, every))


def conv_transpose2d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    """Compute a transposed convolution: the gradient of :func:`conv2d` with respect to its image, used to enlarge images.

    Zeiler et al.: Deconvolutional networks. 2010.

    Parameters
    ----------
    w : (in_channels, out_channels / groups, *kernel_size)
    stride, padding, dilation : int, or one int per spatial dimension: those of the convolution that is transposed
    output_padding : int, or one int per spatial dimension
        Elements added at the end of each dimension: sizes that a strided convolution maps to the same size differ in it.
    groups : int
    operands, accumulate, every : formats of the products, as in :func:`weft.nn.conv2d`

    Returns
    -------
    Array
        Of shape (N, out_channels, ...), where a spatial dimension of length n becomes
        ``(n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Raises
    ------
    ShapeError
        Ranks or channels do not fit, or ``output_padding`` is not below stride or dilation.

    >>> wf.nn.conv_transpose2d(wf.ones((1, 4, 5, 5)), wf.ones((4, 2, 2, 2)), stride=2).shape
    (1, 2, 10, 10)
    """
    formats = Formats(operands, accumulate, every)
    return transpose_convolution("conv_transpose2d", 2, x, w, bias, stride, padding, output_padding, groups, dilation, formats)


def conv_transpose1d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    formats = Formats(operands, accumulate, every)
    return transpose_convolution("conv_transpose1d", 1, x, w, bias, stride, padding, output_padding, groups, dilation, formats)


def conv_transpose3d(
    x: Array, w: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1, operands: Any = None, accumulate: Any = None, every: Any = None,
) -> Array:
    formats = Formats(operands, accumulate, every)
    return transpose_convolution("conv_transpose3d", 3, x, w, bias, stride, padding, output_padding, groups, dilation, formats)


complete_docs(conv2d, conv_transpose2d)
describe_variants(
    conv2d, conv1d, conv3d, example="(wf.ones((1, 2, {4})), wf.ones((3, 2, {3})), padding=1)", shape="(1, 3, {4})"
)
describe_variants(
    conv_transpose2d, conv_transpose1d, conv_transpose3d,
    example="(wf.ones((1, 2, {4})), wf.ones((2, 3, {2})), stride=2)", shape="(1, 3, {8})",
)


class _Conv(Module):
    spatial = 2
    is_transposed = False  # if True, the weight is (in, out / groups, ...)

    def _start(
        self, in_channels: int | None, out_channels: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int,
        bias: bool,
    ) -> None:
        n, name = self.spatial, type(self).__name__
        self.out_channels, self.groups = extents(name, out_channels=out_channels, groups=groups)
        self.kernel_size = check_sizes(kernel_size, n, f"{name}: kernel_size", 1)
        self.stride = check_sizes(stride, n, f"{name}: stride", 1)
        self.dilation = check_sizes(dilation, n, f"{name}: dilation", 1)
        is_named = isinstance(padding, str) and not self.is_transposed
        if is_named:
            self.padding = padding
        elif self.is_transposed:
            self.padding = check_sizes(padding, n, f"{name}: padding")
        else:  # ints where both sides of every dimension have the same
            pairs = check_pads(padding, n, f"{name}: padding")
            self.padding = tuple(low for low, _ in pairs) if all(low == high for low, high in pairs) else pairs
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
            channels_text = f"in_channels={in_channels} and out_channels={self.out_channels}"
            raise ShapeError(f"{name}: groups={self.groups} must divide {channels_text}")
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


class Conv2d(_Conv):
    """Apply :func:`weft.nn.conv2d`; the weights start uniform in +-1/sqrt(fan_in), as in PyTorch.

    Parameters
    ----------
    in_channels : int, or None (the default) to infer it from the first batch
    out_channels : int
    kernel_size, stride, padding, dilation : int, or one int per spatial dimension; padding also as in :func:`weft.nn.conv2d`
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
            x, padding = pad_images(x, n, weight, padding, self.stride, self.dilation, self.padding_mode, name), 0
        return convolve(name, n, x, weight, self.bias, self.stride, padding, self.dilation, self.groups)


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

    >>> wf.nn.ConvTranspose2d(4, 2, 2, stride=2)(wf.ones((1, 4, 5, 5))).shape
    (1, 2, 10, 10)
    """

    is_transposed = True

    def __init__(
        self, in_channels: int | None = None, out_channels: int | None = None, kernel_size: Any = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1,
    ) -> None:
        super().__init__()
        self.output_padding = check_sizes(output_padding, self.spatial, f"{type(self).__name__}: output_padding")
        self._start(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def forward(self, x: Any) -> Array:
        return transpose_convolution(
            f"conv_transpose{self.spatial}d", self.spatial, x, self.weights(x), self.bias, self.stride, self.padding,
            self.output_padding, self.groups, self.dilation,
        )


complete_docs(Conv2d, ConvTranspose2d)
Conv1d, Conv3d = derive_variants(Conv2d, "2, 3, 3, padding=1", "(1, 3, {4})")
ConvTranspose1d, ConvTranspose3d = derive_variants(ConvTranspose2d, "2, 3, 2, stride=2", "(1, 3, {8})")

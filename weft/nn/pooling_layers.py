"""Pooling layers. Those of one and three dimensions are derived from the two-dimensional ones."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.creation.fill import asarray
from weft.nn import pooling as P
from weft.nn.module import Module
from weft.nn.size_arguments import IMAGE_LAYOUTS, extents, images
from weft.process.docstrings import complete_docs


class _Pool(Module):
    spatial = 2

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size, self.stride, self.padding = P.window_sizes(name, self.spatial, kernel_size, stride, padding)
        self.ceil_mode = bool(ceil_mode)

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return text + (", ceil_mode=True" if self.ceil_mode else "")


class MaxPool2d(_Pool):
    """Apply :func:`weft.nn.max_pool2d`.

    Examples
    --------
    >>> wf.nn.MaxPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, x: Any) -> Array:
        return P.max_pool(self.spatial, x, self.kernel_size, self.stride, self.padding, self.ceil_mode)


class AvgPool2d(_Pool):
    """Apply :func:`weft.nn.avg_pool2d`.

    Examples
    --------
    >>> wf.nn.AvgPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True, ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = bool(count_include_pad)

    def forward(self, x: Any) -> Array:
        settings = self.kernel_size, self.stride, self.padding, self.count_include_pad, self.ceil_mode
        return P.avg_pool(self.spatial, x, *settings)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.count_include_pad else ", count_include_pad=False")


class LPPool2d(_Pool):
    """Apply :func:`weft.nn.lp_pool2d`.

    Examples
    --------
    >>> wf.nn.LPPool2d(2, 2)(wf.ones((1, 1, 4, 4))).tolist()
    [[[[2.0, 2.0], [2.0, 2.0]]]]
    """

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.norm_type = norm_type

    def forward(self, x: Any) -> Array:
        return P.lp_pool(self.spatial, x, self.norm_type, self.kernel_size, self.stride, self.padding, self.ceil_mode)

    def extra_repr(self) -> str:
        return f"{self.norm_type}, " + super().extra_repr()


class AdaptiveAvgPool2d(Module):
    """Compute the mean of each region of the image, for a result with spatial shape ``output_size``.

    Region i of o spans floor(i * n / o) to ceil((i + 1) * n / o), as in PyTorch.

    Parameters
    ----------
    output_size : int or tuple; None as an entry keeps the extent

    Raises
    ------
    ShapeError
        Called: ``x`` is not a batch of images, or ``output_size`` has entries that are not positive ints.

    Examples
    --------
    >>> wf.nn.AdaptiveAvgPool2d((2, 3))(wf.ones((1, 4, 7, 9))).shape
    (1, 4, 2, 3)
    """

    spatial = 2

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = tuple(output_size) if isinstance(output_size, list) else output_size

    def forward(self, x: Any) -> Array:
        return P.adaptive_avg_pool(self.spatial, x, self.output_size)

    def extra_repr(self) -> str:
        return f"{self.output_size}"


class AdaptiveMaxPool2d(AdaptiveAvgPool2d):
    """Return the largest element of each region; regions as in :class:`AdaptiveAvgPool2d`.

    Examples
    --------
    >>> wf.nn.AdaptiveMaxPool2d(2)(wf.ones((1, 4, 7, 9))).shape
    (1, 4, 2, 2)
    """

    def forward(self, x: Any) -> Array:
        return P.adaptive_max_pool(self.spatial, x, self.output_size)


class GlobalAvgPool2d(Module):
    """Compute the mean of each channel: (N, C, H, W) -> (N, C), or (N, C, 1, 1) with ``keepdims``.

    Lin et al.: Network in network. 2013.

    Parameters
    ----------
    keepdims : bool

    Raises
    ------
    ShapeError
        Called: ``x`` is not a batch of images.

    Examples
    --------
    >>> wf.nn.GlobalAvgPool2d()(wf.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    spatial = 2

    def __init__(self, keepdims: bool = False) -> None:
        super().__init__()
        self.keepdims = keepdims

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        images(type(self).__name__, x.shape, self.spatial)
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=self.keepdims)


class GlobalMaxPool2d(GlobalAvgPool2d):
    """Return the largest element of each channel; shapes as in :class:`GlobalAvgPool2d`.

    Examples
    --------
    >>> wf.nn.GlobalMaxPool2d()(wf.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        images(type(self).__name__, x.shape, self.spatial)
        return x.max(axis=tuple(range(2, x.ndim)), keepdims=self.keepdims)


def _derive(cls: type, spatial: int, settings: str, shape: str) -> Any:
    """Return the layer for another number of dimensions; its example is a batch of images with sides of 4."""
    name = cls.__name__.replace("2d", f"{spatial}d")
    sides = ", ".join(["4"] * spatial)
    document = f"""Variant of :class:`{cls.__name__}` for x of shape {IMAGE_LAYOUTS[spatial]}.

Examples
--------
>>> wf.nn.{name}({settings})(wf.ones((1, 2, {sides}))).shape
{shape}
"""
    layer = type(name, (cls,), {"spatial": spatial, "__doc__": document, "__module__": __name__, "__qualname__": name})
    complete_docs(cls, layer)
    return layer


def _derive_1d_3d(cls: type, settings: str, side: str = "2") -> tuple[Any, Any]:
    """Return the layers for one and for three dimensions; ``side`` is that of the example's result."""
    short, long = (f"(1, 2, {', '.join([side] * n)})" if side else "(1, 2)" for n in (1, 3))
    return _derive(cls, 1, settings, short), _derive(cls, 3, settings, long)


complete_docs(P.max_pool2d, MaxPool2d)
complete_docs(P.avg_pool2d, AvgPool2d)
complete_docs(P.lp_pool2d, LPPool2d)
complete_docs(AdaptiveAvgPool2d, AdaptiveMaxPool2d)
complete_docs(GlobalAvgPool2d, GlobalMaxPool2d)
MaxPool1d, MaxPool3d = _derive_1d_3d(MaxPool2d, "2")
AvgPool1d, AvgPool3d = _derive_1d_3d(AvgPool2d, "2")
LPPool1d, LPPool3d = _derive_1d_3d(LPPool2d, "2, 2")
AdaptiveAvgPool1d, AdaptiveAvgPool3d = _derive_1d_3d(AdaptiveAvgPool2d, "3", "3")
AdaptiveMaxPool1d, AdaptiveMaxPool3d = _derive_1d_3d(AdaptiveMaxPool2d, "3", "3")
GlobalAvgPool1d, GlobalAvgPool3d = _derive_1d_3d(GlobalAvgPool2d, "", "")
GlobalMaxPool1d, GlobalMaxPool3d = _derive_1d_3d(GlobalMaxPool2d, "", "")


class MaxOut(Module):
    """Apply :func:`weft.nn.maxout`: return the largest of each ``kernel_size`` neighbouring channels.

    Goodfellow et al.: Maxout networks. 2013.

    Examples
    --------
    >>> wf.nn.MaxOut(2)(wf.ones((1, 6, 4, 4))).shape
    (1, 3, 4, 4)
    """

    def __init__(self, kernel_size: int) -> None:
        super().__init__()
        (self.kernel_size,) = extents("MaxOut", kernel_size=kernel_size)

    def forward(self, x: Any) -> Array:
        return P.maxout(x, self.kernel_size)

    def extra_repr(self) -> str:
        return f"{self.kernel_size}"


complete_docs(P.maxout, MaxOut)

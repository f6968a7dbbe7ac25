"""Pooling as layers, one to three dimensions from one class each."""

from __future__ import annotations

import inspect
from typing import Any

from weft.array import Array
from weft.functions.creation.fill import asarray
from weft.nn import pooling as P
from weft.nn.module import Module
from weft.nn.size_arguments import NAMES, extents, images


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
    """:func:`weft.nn.max_pool2d` as a layer.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode : as in :func:`weft.nn.max_pool2d`

    Raises
    ------
    ShapeError
        Sizes that are no ints or too small; called: as the function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.MaxPool2d(2)(wf.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, x: Any) -> Array:
        return P.max_pool(self.spatial, x, self.kernel_size, self.stride, self.padding, self.ceil_mode)


class AvgPool2d(_Pool):
    """:func:`weft.nn.avg_pool2d` as a layer.

    Parameters
    ----------
    kernel_size, stride, padding, count_include_pad, ceil_mode : as in :func:`weft.nn.avg_pool2d`

    Raises
    ------
    ShapeError
        Sizes that are no ints or too small; called: as the function.

    Examples
    --------
    >>> import weft as wf
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
    """:func:`weft.nn.lp_pool2d` as a layer.

    Parameters
    ----------
    norm_type, kernel_size, stride, padding, ceil_mode : as in :func:`weft.nn.lp_pool2d`

    Raises
    ------
    ShapeError, ValueError
        Sizes that are no ints or too small; called: as the function.

    Examples
    --------
    >>> import weft as wf
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
    """The mean of each region of the image, such that the result has ``output_size``.

    Region i of o reaches from floor(i * n / o) to ceil((i + 1) * n / o), as in PyTorch.

    Parameters
    ----------
    output_size : int or tuple; None in it keeps the extent

    Raises
    ------
    ShapeError
        Called: ``x`` is no batch of images, or ``output_size`` holds no positive ints.

    Examples
    --------
    >>> import weft as wf
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
    """The largest element of each region; regions as :class:`AdaptiveAvgPool2d`.

    Parameters
    ----------
    output_size : int or tuple; None in it keeps the extent

    Raises
    ------
    ShapeError
        As :class:`AdaptiveAvgPool2d`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.AdaptiveMaxPool2d(2)(wf.ones((1, 4, 7, 9))).shape
    (1, 4, 2, 2)
    """

    def forward(self, x: Any) -> Array:
        return P.adaptive_max_pool(self.spatial, x, self.output_size)


class GlobalAvgPool2d(Module):
    """The mean of each channel: (N, C, H, W) -> (N, C), or (N, C, 1, 1) with ``keepdims``.

    Lin et al.: Network in network. 2013.

    Parameters
    ----------
    keepdims : bool

    Raises
    ------
    ShapeError
        Called with what is no batch of images.

    Examples
    --------
    >>> import weft as wf
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
    """The largest element of each channel; shapes as :class:`GlobalAvgPool2d`.

    Parameters
    ----------
    keepdims : bool

    Raises
    ------
    ShapeError
        Called with what is no batch of images.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.GlobalMaxPool2d()(wf.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        images(type(self).__name__, x.shape, self.spatial)
        return x.max(axis=tuple(range(2, x.ndim)), keepdims=self.keepdims)


def _other(cls: type, spatial: int, settings: str, shape: str) -> Any:
    """The same layer for another number of dimensions; the example is a batch of side 4."""
    name = cls.__name__.replace("2d", f"{spatial}d")
    sides = ", ".join(["4"] * spatial)
    _, title, rest = (inspect.getdoc(cls) or "").partition("Parameters\n")
    sections = title + rest.partition("Examples\n")[0]
    document = f""":class:`{cls.__name__}` for x {NAMES[spatial]}.

{sections}Examples
--------
>>> import weft as wf
>>> wf.nn.{name}({settings})(wf.ones((1, 2, {sides}))).shape
{shape}
"""
    return type(name, (cls,), {"spatial": spatial, "__doc__": document, "__module__": __name__, "__qualname__": name})


def _others(cls: type, settings: str, side: str = "2") -> tuple[Any, Any]:
    """The layer for one and for three dimensions."""
    short, long = (f"(1, 2, {', '.join([side] * n)})" if side else "(1, 2)" for n in (1, 3))
    return _other(cls, 1, settings, short), _other(cls, 3, settings, long)


MaxPool1d, MaxPool3d = _others(MaxPool2d, "2")
AvgPool1d, AvgPool3d = _others(AvgPool2d, "2")
LPPool1d, LPPool3d = _others(LPPool2d, "2, 2")
AdaptiveAvgPool1d, AdaptiveAvgPool3d = _others(AdaptiveAvgPool2d, "3", "3")
AdaptiveMaxPool1d, AdaptiveMaxPool3d = _others(AdaptiveMaxPool2d, "3", "3")
GlobalAvgPool1d, GlobalAvgPool3d = _others(GlobalAvgPool2d, "", "")
GlobalMaxPool1d, GlobalMaxPool3d = _others(GlobalMaxPool2d, "", "")


class MaxOut(Module):
    """:func:`weft.nn.maxout` as a layer: the largest of each ``kernel_size`` neighbouring channels.

    Goodfellow et al.: Maxout networks. 2013.

    Parameters
    ----------
    kernel_size : int

    Raises
    ------
    ShapeError
        Called: as :func:`weft.nn.maxout`.

    Examples
    --------
    >>> import weft as wf
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

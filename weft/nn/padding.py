"""Layers that pad images: with a number, by reflection, by the edge, or from the opposite side."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError, short
from weft.functions.creation.fill import asarray
from weft.functions.statistics.pad import pad
from weft.nn.module import Module, derive_variants
from weft.nn.size_arguments import check_sizes, images
from weft.process.docstrings import complete_docs


class _Pad(Module):
    spatial = 2
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        name, count = type(self).__name__, 2 * self.spatial
        if isinstance(padding, tuple | list) and len(padding) != count:
            sides = ("left, right", "top, bottom", "front, back")[: self.spatial]
            raise ShapeError(f"{name}: padding must be an int or {count} ints ({', '.join(sides)}), not {short(padding)}")
        self.padding = check_sizes(padding, count, f"{name}: padding")

    def forward(self, x: Any) -> Array:
        x, p = asarray(x), self.padding
        images(type(self).__name__, x.shape, self.spatial)
        pairs = [(p[2 * d], p[2 * d + 1]) for d in reversed(range(self.spatial))]
        return self._pad(x, [(0, 0), (0, 0), *pairs])

    def _pad(self, x: Array, widths: list[tuple[int, int]]) -> Array:
        return pad(x, widths, mode=self.mode)


class ConstantPad2d(_Pad):
    """Pad images (N, C, H, W) with a number.

    Parameters
    ----------
    padding : int, or (left, right, top, bottom)
        As in PyTorch the last dimension comes first: (left, right) for one dimension, (left, right, top, bottom, front, back)
        for three.
    value : number

    Raises
    ------
    ShapeError
        ``padding`` has another form, or negative ints; called: ``x`` is not a batch of images, or has no element to repeat.

    >>> wf.nn.ConstantPad2d((1, 0, 0, 0), 7.0)(wf.ones((1, 1, 1, 2))).tolist()
    [[[[7.0, 1.0, 1.0]]]]
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def _pad(self, x: Array, widths: list[tuple[int, int]]) -> Array:
        return pad(x, widths, constant_values=self.value)


class ZeroPad2d(_Pad):
    """Pad images with zeros.

    >>> wf.nn.ZeroPad2d(1)(wf.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """


class ReflectionPad2d(_Pad):
    """Pad images with their mirror image, in which the edge is not repeated.

    >>> wf.nn.ReflectionPad2d((2, 0, 0, 0))(wf.array([[[[1.0, 2.0, 3.0]]]])).tolist()
    [[[[3.0, 2.0, 1.0, 2.0, 3.0]]]]
    """

    mode = "reflect"


class ReplicationPad2d(_Pad):
    """Pad images with the pixels of their edges.

    >>> wf.nn.ReplicationPad2d((2, 0, 0, 0))(wf.array([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.0, 1.0, 2.0]]]]
    """

    mode = "edge"


class CircularPad2d(_Pad):
    """Pad images with the pixels of their opposite sides.

    >>> wf.nn.CircularPad2d((1, 0, 0, 0))(wf.array([[[[1.0, 2.0, 3.0]]]])).tolist()
    [[[[3.0, 1.0, 2.0, 3.0]]]]
    """

    mode = "wrap"


complete_docs(ConstantPad2d, ZeroPad2d, ReflectionPad2d, ReplicationPad2d, CircularPad2d)
ConstantPad1d, ConstantPad3d = derive_variants(ConstantPad2d, "1, 0.5", "(1, 2, {6})")
ZeroPad1d, ZeroPad3d = derive_variants(ZeroPad2d, "1", "(1, 2, {6})")
ReflectionPad1d, ReflectionPad3d = derive_variants(ReflectionPad2d, "1", "(1, 2, {6})")
ReplicationPad1d, ReplicationPad3d = derive_variants(ReplicationPad2d, "1", "(1, 2, {6})")
CircularPad1d, CircularPad3d = derive_variants(CircularPad2d, "1", "(1, 2, {6})")

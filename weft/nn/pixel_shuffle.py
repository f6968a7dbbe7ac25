"""Move channels into space and back: PixelShuffle and PixelUnshuffle."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.shape.axes import permute_dims
from weft.nn.module import Module
from weft.nn.size_arguments import extents, images
from weft.process.docstrings import complete_docs


def pixel_shuffle(x: Any, upscale_factor: int) -> Array:
    """Move channels into space: (N, C * r * r, H, W) -> (N, C, H * r, W * r).

    Shi et al.: Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural network. 2016.

    Parameters
    ----------
    x : (N, C * r * r, H, W)
    upscale_factor : int, r

    Returns
    -------
    Array of shape (N, C, H * r, W * r)

    Raises
    ------
    ShapeError
        ``x`` is not a batch of images, or its channels are not a multiple of r * r.

    >>> wf.nn.pixel_shuffle(wf.arange(4).reshape((1, 4, 1, 1)), 2).tolist()
    [[[[0, 1], [2, 3]]]]
    """
    x, (r,) = asarray(x), extents("pixel_shuffle", upscale_factor=upscale_factor)
    images("pixel_shuffle", x.shape, 2)
    n, channels, height, width = x.shape
    if channels % (r * r):
        raise ShapeError(f"pixel_shuffle: the channels (axis 1) of x {x.shape} must be a multiple of upscale_factor**2 = {r * r}")
    parts = x.reshape((n, channels // (r * r), r, r, height, width))
    return permute_dims(parts, (0, 1, 4, 2, 5, 3)).reshape((n, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Array:
    """Move space into channels, the inverse of :func:`pixel_shuffle`: (N, C, H * r, W * r) -> (N, C * r * r, H, W).

    Parameters
    ----------
    x : (N, C, H * r, W * r)
    downscale_factor : int, r

    Returns
    -------
    Array of shape (N, C * r * r, H, W)

    Raises
    ------
    ShapeError
        ``x`` is not a batch of images, or its sides are not multiples of r.

    >>> wf.nn.pixel_unshuffle(wf.arange(4).reshape((1, 1, 2, 2)), 2).shape
    (1, 4, 1, 1)
    """
    x, (r,) = asarray(x), extents("pixel_unshuffle", downscale_factor=downscale_factor)
    images("pixel_unshuffle", x.shape, 2)
    n, channels, height, width = x.shape
    if height % r or width % r:
        raise ShapeError(f"pixel_unshuffle: the sides of x {x.shape} must be multiples of downscale_factor = {r}")
    parts = x.reshape((n, channels, height // r, r, width // r, r))
    return permute_dims(parts, (0, 1, 3, 5, 2, 4)).reshape((n, channels * r * r, height // r, width // r))


class PixelShuffle(Module):
    """Apply :func:`weft.nn.pixel_shuffle`.

    >>> wf.nn.PixelShuffle(2)(wf.ones((1, 8, 3, 3))).shape
    (1, 2, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        (self.upscale_factor,) = extents("PixelShuffle", upscale_factor=upscale_factor)

    def forward(self, x: Any) -> Array:
        return pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """Apply :func:`weft.nn.pixel_unshuffle`.

    >>> wf.nn.PixelUnshuffle(2)(wf.ones((1, 2, 6, 6))).shape
    (1, 8, 3, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        (self.downscale_factor,) = extents("PixelUnshuffle", downscale_factor=downscale_factor)

    def forward(self, x: Any) -> Array:
        return pixel_unshuffle(x, self.downscale_factor)


complete_docs(pixel_shuffle, PixelShuffle)
complete_docs(pixel_unshuffle, PixelUnshuffle)

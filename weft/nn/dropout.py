"""Dropout, as a function and as layers."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.errors import short
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.functions.indexing.where import where
from weft.nn.module import Module, derive_variants
from weft.nn.size_arguments import images
from weft.process.docstrings import complete_docs


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Array:
    """Zero each element with probability ``p`` and scale the rest by 1 / (1 - p); return ``x`` when not training.

    Srivastava et al.: Dropout. 2014.

    Parameters
    ----------
    x : array
    p : float in [0, 1]
    training : bool

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    ValueError, TypeError
        ``p`` is not in [0, 1], or no number.

    >>> wf.nn.dropout(wf.ones(4), p=0.5, training=False).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    check_probability("dropout", p)
    x = asarray(x)
    return _drop(x, p, x.shape) if training else x


def check_probability(function: str, p: Any, argument: str = "p") -> None:
    if isinstance(p, str) or not hasattr(type(p), "__float__"):
        raise TypeError(f"{function}: {argument} must be a number between 0 and 1, not {short(p)}")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{function}: {argument} must lie between 0 and 1, not {p}")


def _drop(x: Array, p: float, shape: tuple[int, ...]) -> Array:
    """Apply a dropout mask of shape ``shape``, which broadcasts against ``x``."""
    if p == 0.0:
        return x
    if p == 1.0:
        return x * 0
    keep = random.bernoulli(1.0 - p, shape)
    return where(keep, x * (1.0 / (1.0 - p)), 0)


class Dropout(Module):
    """Apply :func:`weft.nn.dropout` in training mode (``train()``); return ``x`` in evaluation mode (``eval()``).

    >>> wf.nn.Dropout(0.5).eval()(wf.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = p

    def forward(self, x: Any) -> Array:
        return dropout(x, self.p, self.training)


class Dropout2d(Dropout):
    """Dropout of whole channels of images (N, C, H, W), whose neighbouring pixels are too similar to be dropped one by one.

    Tompson et al.: Efficient object localization using convolutional networks. 2015.

    Parameters
    ----------
    p : float in [0, 1], the probability that a channel of an image is zeroed

    Raises
    ------
    ValueError, TypeError, ShapeError
        ``p`` is not in [0, 1], or no number; called: ``x`` is not a batch of images.

    >>> wf.nn.Dropout2d(0.5).eval()(wf.ones((1, 2, 1, 1))).tolist()
    [[[[1.0]], [[1.0]]]]
    """

    spatial = 2

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        images(type(self).__name__, x.shape, self.spatial)
        return _drop(x, self.p, (*x.shape[:2], *(1,) * self.spatial)) if self.training else x


complete_docs(dropout, Dropout, Dropout2d)
Dropout1d, Dropout3d = derive_variants(Dropout2d, "0.5", "(1, 2, {4})")

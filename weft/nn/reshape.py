"""Flatten, as a function and as a layer, and the Reshape layer."""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array
from weft.errors import AxisError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.nn.module import Module
from weft.nn.size_arguments import int_or_none
from weft.process.docstrings import complete_module


def flatten(x: Any, start_dim: int = 1, end_dim: int = -1) -> Array:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one.

    Parameters
    ----------
    x : array with one dimension or more
    start_dim, end_dim : int

    Returns
    -------
    Array, a view

    Raises
    ------
    AxisError, TypeError
        ``x`` has no such dimensions, or one is no integer.

    >>> wf.nn.flatten(wf.ones((2, 3, 4))).shape
    (2, 12)
    """
    x = asarray(x)
    for name, dim in (("start_dim", start_dim), ("end_dim", end_dim)):
        if int_or_none(dim) is None:
            raise TypeError(f"flatten: {name} must be an int, not {short(dim)}")
        if not -x.ndim <= dim < x.ndim:
            raise AxisError(f"flatten: {name}={dim}, but x has shape {x.shape}")
    start, end = start_dim % x.ndim, end_dim % x.ndim
    if start > end:
        raise AxisError(f"flatten: start_dim={start_dim} lies behind end_dim={end_dim} for x {x.shape}")
    return x.reshape((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


class Flatten(Module):
    """Apply :func:`weft.nn.flatten`.

    >>> wf.nn.Flatten()(wf.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Array:
        return flatten(x, self.start_dim, self.end_dim)


class Reshape(Module):
    """Reshape each sample: (N, ...) -> (N, *shape).

    Parameters
    ----------
    shape : ints, or one tuple; one of them may be -1 and is computed from the others

    Raises
    ------
    ShapeError
        ``shape`` contains other values than ints, or more than one -1; called: a sample has another number of elements.

    >>> wf.nn.Reshape(3, 2, -1)(wf.ones((5, 24))).shape
    (5, 3, 2, 4)
    """

    def __init__(self, *shape: int | tuple[int, ...]) -> None:
        super().__init__()
        sizes: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        self.shape = tuple(n for n in map(int_or_none, sizes) if n is not None)
        if len(self.shape) < len(sizes) or min(self.shape, default=0) < -1 or self.shape.count(-1) > 1:
            raise ShapeError(f"Reshape: shape must be ints, at most one of them -1, not {tuple(sizes)}")

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        count = math.prod(x.shape[1:])
        fixed = math.prod(n for n in self.shape if n != -1)
        if x.ndim < 1 or (count != fixed if -1 not in self.shape else not fixed or count % fixed):
            raise ShapeError(f"Reshape: a sample of x {x.shape} has {count} elements, they do not fit {self.shape}")
        return x.reshape((x.shape[0], *(count // fixed if n == -1 else n for n in self.shape)))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


complete_module(globals(), (flatten, Flatten))

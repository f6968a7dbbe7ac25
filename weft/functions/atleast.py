"""Arrays with at least so many dimensions."""

from __future__ import annotations

from typing import Any

from weft.array import Array, own
from weft.functions.common import node


def _array(x: Any, function: str) -> Array:
    return x if isinstance(x, Array) else own(node(x, function))


def atleast_1d(*arrays: Any) -> Any:
    """With at least one dimension.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    Array : what was given where it has a dimension, else of shape (1,); for several arrays a tuple of them

    Examples
    --------
    >>> import weft as wf
    >>> wf.atleast_1d(3.0).shape
    (1,)
    """
    if len(arrays) != 1:
        return tuple([atleast_1d(x) for x in arrays])
    value = _array(arrays[0], "atleast_1d")
    return value if value.ndim else value.reshape((1,))


def atleast_2d(*arrays: Any) -> Any:
    """With at least two dimensions; new ones in front.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    Array with two or more dimensions; for several arrays a tuple of them

    Examples
    --------
    >>> import weft as wf
    >>> wf.atleast_2d(wf.ones(3)).shape
    (1, 3)
    """
    if len(arrays) != 1:
        return tuple([atleast_2d(x) for x in arrays])
    value = _array(arrays[0], "atleast_2d")
    return value if value.ndim >= 2 else value.reshape((1,) * (2 - value.ndim) + value.shape)


def atleast_3d(*arrays: Any) -> Any:
    """With at least three dimensions, as NumPy places them: N becomes 1, N, 1 and M, N becomes M, N, 1.

    Parameters
    ----------
    arrays : array_like

    Returns
    -------
    Array with three or more dimensions; for several arrays a tuple of them

    Examples
    --------
    >>> import weft as wf
    >>> wf.atleast_3d(wf.ones(3)).shape
    (1, 3, 1)
    """
    if len(arrays) != 1:
        return tuple([atleast_3d(x) for x in arrays])
    value = _array(arrays[0], "atleast_3d")
    shape = {0: (1, 1, 1), 1: (1, *value.shape, 1), 2: (*value.shape, 1)}
    return value if value.ndim >= 3 else value.reshape(shape[value.ndim])

"""Arrays as sets. What a result holds depends on values, and so does its shape: all of it computes at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.convert import array_operands, operands
from weft.functions.common import looked, of_numpy


def _pair(function: str, a: Any, b: Any) -> tuple[Any, Any]:
    x, y = array_operands(a, b)
    return wrap(x).numpy().reshape(-1), wrap(y).numpy().reshape(-1)


def union1d(ar1: Any, ar2: Any) -> Array:
    """What is in one of the two, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2 : array
        Flattened.

    Returns
    -------
    (K,) Array

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.union1d(wf.array([3, 1]), [1, 2]).tolist()
    [1, 2, 3]
    """
    x, y = operands(ar1, ar2)
    return of_numpy(np.union1d(wrap(x).numpy(), wrap(y).numpy()))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """What is in both, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2 : array
        Flattened.
    assume_unique : bool
        That none of them holds anything twice.
    return_indices : bool
        Also where each stands first in both.

    Returns
    -------
    (K,) Array, or a tuple of it and two of int64

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.intersect1d(wf.array([3, 1, 2]), [1, 3]).tolist()
    [1, 3]
    """
    found = np.intersect1d(*_pair("intersect1d", ar1, ar2), assume_unique, return_indices)  # type: ignore[call-overload]
    return tuple(of_numpy(f) for f in found) if return_indices else of_numpy(found)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """What is in the first and not in the second, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2, assume_unique : as in :func:`intersect1d`

    Returns
    -------
    (K,) Array of the dtype of ``ar1``

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.setdiff1d(wf.array([3, 1, 2]), [1]).tolist()
    [2, 3]
    """
    x, y = (looked(x, "setdiff1d", name) for x, name in ((ar1, "ar1"), (ar2, "ar2")))
    return of_numpy(np.setdiff1d(x, y, assume_unique))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """What is in just one of the two, sorted; computes at once.

    Parameters
    ----------
    ar1, ar2, assume_unique : as in :func:`intersect1d`

    Returns
    -------
    (K,) Array

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.setxor1d(wf.array([3, 1]), [1, 2]).tolist()
    [2, 3]
    """
    return of_numpy(np.setxor1d(*_pair("setxor1d", ar1, ar2), assume_unique))

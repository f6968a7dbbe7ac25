"""Arrays as sets. What a result holds depends on values, and so does its shape: all of it computes at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import as_node, common, operands
from weft.dtypes.formats import INT64, promote, weak
from weft.dtypes.parse import spelled
from weft.functions.by_value import by_value
from weft.functions.common import cast, looked, of_numpy
from weft.runtime.traced_int import is_int


def _to_compare(function: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Both flattened, with the digits that they are compared by."""
    x, y = (looked(n, function, name).reshape(-1) for n, name in zip(by_value(a, b), ("ar1", "ar2"), strict=True))
    return x, y


def _in_both(x: Any, a: Any, b: Any) -> Array:
    """Elements of one of two arrays, or of both, in the dtype for both."""
    given = [as_node(n) if is_int(n) and n > INT64.greatest else n for n in (a, b)]
    dtype = common(given, promote, lambda kind, form: promote(form, spelled(kind)))[1]
    return wrap(cast(of_numpy(x).node, dtype))


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
    x, y = _to_compare("intersect1d", ar1, ar2)
    if not return_indices:
        return _in_both(np.intersect1d(x, y, assume_unique), ar1, ar2)
    nothing = np.zeros(0, np.int64)
    found, *places = np.intersect1d(x, y, assume_unique, True) if x.size and y.size else (x[:0], nothing, nothing)
    return _in_both(found, ar1, ar2), *map(of_numpy, places)


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
    found = of_numpy(np.setdiff1d(*_to_compare("setdiff1d", ar1, ar2), assume_unique))
    return wrap(cast(found.node, common((ar1,), promote, weak)[1]))


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
    return _in_both(np.setxor1d(*_to_compare("setxor1d", ar1, ar2), assume_unique), ar1, ar2)

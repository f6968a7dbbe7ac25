"""Arrays and numbers as text, and how text is set: NumPy's options are weft's."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Scalar
from weft.errors import said_by
from weft.functions.support.arguments import looked, whole


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """An array as text; computes at once.

    Parameters
    ----------
    a : array
    args, kwargs
        As in NumPy: ``precision=``, ``separator=``, ``formatter=``, ``max_line_width=``, ...

    Returns
    -------
    str

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array2string(wf.array([1, 2]), separator=",")
    '[1,2]'
    """
    return np.array2string(looked(a, "array2string", "a"), *args, **kwargs)


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """What ``repr`` gives of an array; computes at once.

    Parameters
    ----------
    arr : array
    max_line_width, precision : int, optional
    suppress_small : bool, optional

    Returns
    -------
    str

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array_repr(wf.array([1, 2]))
    'array([1, 2])'
    """
    known = looked(arr, "array_repr", "arr")
    with said_by("array_repr"):
        return np.array_repr(known[()] if isinstance(arr, Scalar) else known, max_line_width, precision, suppress_small)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """What ``str`` gives of an array; computes at once.

    Parameters
    ----------
    a : array
    max_line_width, precision : int, optional
    suppress_small : bool, optional

    Returns
    -------
    str

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.array_str(wf.array([1.25, 2.0]), precision=1)
    '[1.2 2. ]'
    """
    known = looked(a, "array_str", "a")
    with said_by("array_str"):
        return np.array_str(known, max_line_width, precision, suppress_small)


def format_float_positional(x: Any, *args: Any, **kwargs: Any) -> str:
    """A float in digits, without an exponent.

    Parameters
    ----------
    x : number
    args, kwargs
        As in NumPy: ``precision=``, ``trim=``, ...

    Returns
    -------
    str

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.format_float_positional(wf.array(0.1)[()])
    '0.1'
    """
    known = looked(x, "format_float_positional")[()]
    with said_by("format_float_positional"):
        return np.format_float_positional(known, *args, **kwargs)


def format_float_scientific(x: Any, *args: Any, **kwargs: Any) -> str:
    """A float in digits, with an exponent.

    Parameters
    ----------
    x : number
    args, kwargs
        As in NumPy: ``precision=``, ``exp_digits=``, ...

    Returns
    -------
    str

    Raises
    ------
    TraceError
        Inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.format_float_scientific(wf.array(1500.0)[()])
    '1.5e+03'
    """
    known = looked(x, "format_float_scientific")[()]
    with said_by("format_float_scientific"):
        return np.format_float_scientific(known, *args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """How arrays are printed.

    Returns
    -------
    dict

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()  # type: ignore[return-value]


def set_printoptions(**options: Any) -> None:
    """Say how arrays are printed, weft's and NumPy's.

    Parameters
    ----------
    options
        As in NumPy: ``precision=``, ``suppress=``, ``linewidth=``, ``threshold=``, ``formatter=``, ...

    Raises
    ------
    TypeError, ValueError
        An unknown option, or value.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_printoptions(precision=8)
    """
    np.set_printoptions(**options)


def printoptions(**options: Any) -> Any:
    """:func:`set_printoptions` for as long as a ``with`` lasts.

    Parameters
    ----------
    options
        As in :func:`set_printoptions`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import weft as wf
    >>> with wf.printoptions(precision=2):
    ...     print(wf.array([1 / 3]))
    [0.33]
    """
    return np.printoptions(**options)


# ---- NumPy's checks of floats

def geterr() -> dict[str, Any]:
    """What NumPy does at division by zero and the like; weft's own functions never warn.

    Returns
    -------
    dict

    Examples
    --------
    >>> import weft as wf
    >>> sorted(wf.geterr())
    ['divide', 'invalid', 'over', 'under']
    """
    return dict(np.geterr())


def seterr(**options: Any) -> dict[str, Any]:
    """Say what NumPy does at division by zero and the like: for NumPy's functions, as weft's own neither warn nor raise.

    ``divide="raise"`` is taken, and raises nothing where weft divides: what is computed later, in a fused kernel, has no line at
    which to raise. ``wf.isfinite(x).all()`` asks, and ``fit`` names the operation that made the first NaN.

    Parameters
    ----------
    options
        As in NumPy: ``all=``, ``divide=``, ``over=``, ``under=``, ``invalid=``.

    Returns
    -------
    dict : what held before

    Raises
    ------
    TypeError, ValueError
        An unknown option, or value.

    Examples
    --------
    >>> import weft as wf
    >>> before = wf.seterr(all="ignore")
    >>> after = wf.seterr(**before)
    """
    return dict(np.seterr(**options))


def errstate(**options: Any) -> Any:
    """:func:`seterr` for as long as a ``with`` lasts, or around a function as a decorator: weft itself raises nothing within.

    Parameters
    ----------
    options
        As in :func:`seterr`.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import weft as wf
    >>> with wf.errstate(divide="ignore"):
    ...     print(wf.array([1.0]) / 0.0)
    [inf]
    """
    return np.errstate(**options)


def base_repr(number: int, base: int = 2, padding: int = 0) -> str:
    """An integer in digits to a base.

    Parameters
    ----------
    number : int
    base : int
        From 2 to 36.
    padding : int
        How many zeros stand in front.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        Another base.

    Examples
    --------
    >>> import weft as wf
    >>> wf.base_repr(10, 3)
    '101'
    """
    return np.base_repr(whole(number, "base_repr", "number"), base, padding)


def binary_repr(num: int, width: int | None = None) -> str:
    """An integer in bits; of a negative one with a width, the two's complement.

    Parameters
    ----------
    num : int
    width : int, optional

    Returns
    -------
    str

    Raises
    ------
    ValueError
        A width that is too small.

    Examples
    --------
    >>> import weft as wf
    >>> wf.binary_repr(-3, width=5)
    '11101'
    """
    return np.binary_repr(whole(num, "binary_repr", "num"), width)

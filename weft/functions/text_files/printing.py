"""Arrays and numbers as text, and print options, which weft shares with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Scalar
from weft.errors import name_numpy_errors
from weft.functions.support.arguments import looked, whole
from weft.process.docstrings import complete_docs, complete_each


def array2string(a: Any, *args: Any, **kwargs: Any) -> str:
    """Return an array as text. Computes at once.

    Parameters
    ----------
    a : array
    args, kwargs
        Passed to NumPy: ``precision=``, ``separator=``, ``formatter=``, ``max_line_width=``, ...

    Raises
    ------
    TraceError
        Called inside a traced function.

    Examples
    --------
    >>> wf.array2string(wf.array([1, 2]), separator=",")
    '[1,2]'
    """
    return np.array2string(looked(a, "array2string", "a"), *args, **kwargs)


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """Return the ``repr`` of an array. Computes at once.

    Parameters
    ----------
    arr : array
    max_line_width, precision : int, optional
    suppress_small : bool, optional

    Examples
    --------
    >>> wf.array_repr(wf.array([1, 2]))
    'array([1, 2])'
    """
    content = looked(arr, "array_repr", "arr")
    with name_numpy_errors("array_repr"):
        return np.array_repr(content[()] if isinstance(arr, Scalar) else content, max_line_width, precision, suppress_small)


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None,
) -> str:
    """Return the ``str`` of an array. Computes at once.

    Parameters
    ----------
    a : array

    Examples
    --------
    >>> wf.array_str(wf.array([1.25, 2.0]), precision=1)
    '[1.2 2. ]'
    """
    content = looked(a, "array_str", "a")
    with name_numpy_errors("array_str"):
        return np.array_str(content, max_line_width, precision, suppress_small)


def format_float_positional(x: Any, *args: Any, **kwargs: Any) -> str:
    """Return a float as decimal digits without an exponent.

    Parameters
    ----------
    x : number
    args, kwargs
        Passed to NumPy: ``precision=``, ``trim=``, ``exp_digits=``, ...

    Examples
    --------
    >>> wf.format_float_positional(wf.array(0.1)[()])
    '0.1'
    """
    content = looked(x, "format_float_positional")[()]
    with name_numpy_errors("format_float_positional"):
        return np.format_float_positional(content, *args, **kwargs)


def format_float_scientific(x: Any, *args: Any, **kwargs: Any) -> str:
    """Return a float as decimal digits with an exponent.

    Examples
    --------
    >>> wf.format_float_scientific(wf.array(1500.0)[()])
    '1.5e+03'
    """
    content = looked(x, "format_float_scientific")[()]
    with name_numpy_errors("format_float_scientific"):
        return np.format_float_scientific(content, *args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """Return the print options.

    Returns
    -------
    dict

    Examples
    --------
    >>> wf.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()  # type: ignore[return-value]


def set_printoptions(**options: Any) -> None:
    """Set how arrays are printed, weft's and NumPy's.

    Parameters
    ----------
    options
        As in NumPy: ``precision=``, ``suppress=``, ``linewidth=``, ``threshold=``, ``formatter=``, ...

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value.

    Examples
    --------
    >>> wf.set_printoptions(precision=8)
    """
    np.set_printoptions(**options)


def printoptions(**options: Any) -> Any:
    """Return a context manager that sets print options and restores them at its end.

    Returns
    -------
    context manager

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value; when the context is entered.

    Examples
    --------
    >>> with wf.printoptions(precision=2):
    ...     print(wf.array([1 / 3]))
    [0.33]
    """
    return np.printoptions(**options)


# ---- NumPy's checks of floats

def geterr() -> dict[str, Any]:
    """Return how NumPy reacts to division by zero, overflow and so on. weft's own functions never warn.

    Returns
    -------
    dict

    Examples
    --------
    >>> sorted(wf.geterr())
    ['divide', 'invalid', 'over', 'under']
    """
    return dict(np.geterr())


def seterr(**options: Any) -> dict[str, Any]:
    """Set how NumPy reacts to division by zero, overflow and so on. weft's own functions neither warn nor raise.

    ``divide="raise"`` is accepted but has no effect on weft's divisions: they run later, in a fused kernel.
    ``wf.isfinite(x).all()`` checks an array, and ``fit`` names the operation that produced the first NaN.

    Parameters
    ----------
    options
        As in NumPy: ``all=``, ``divide=``, ``over=``, ``under=``, ``invalid=``.

    Returns
    -------
    dict
        The previous settings.

    Raises
    ------
    TypeError, ValueError
        An unknown option, or an invalid value.

    Examples
    --------
    >>> before = wf.seterr(all="ignore")
    >>> after = wf.seterr(**before)
    """
    return dict(np.seterr(**options))


def errstate(**options: Any) -> Any:
    """Return a context manager and decorator that calls :func:`seterr` and restores the settings at its end.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with wf.errstate(divide="ignore"):
    ...     print(wf.array([1.0]) / 0.0)
    [inf]
    """
    return np.errstate(**options)


def base_repr(number: int, base: int = 2, padding: int = 0) -> str:
    """Return the digits of an integer in a number system.

    Parameters
    ----------
    number : int
    base : int
        From 2 to 36.
    padding : int
        The number of leading zeros to add.

    Raises
    ------
    ValueError
        Another base.

    Examples
    --------
    >>> wf.base_repr(10, 3)
    '101'
    """
    return np.base_repr(whole(number, "base_repr", "number"), base, padding)


def binary_repr(num: int, width: int | None = None) -> str:
    """Return the bits of an integer; for a negative one with a width, those of the two's complement.

    Parameters
    ----------
    num : int
    width : int, optional

    Raises
    ------
    ValueError
        ``width`` is too small.

    Examples
    --------
    >>> wf.binary_repr(-3, width=5)
    '11101'
    """
    return np.binary_repr(whole(num, "binary_repr", "num"), width)


complete_each(get_printoptions, geterr, base_repr, binary_repr)
complete_docs(array2string, array_repr, format_float_positional)
complete_docs(array_repr, array_str)
complete_docs(format_float_positional, format_float_scientific)
complete_docs(set_printoptions, printoptions)
complete_docs(seterr, errstate)

"""``astype``, ``copy``, and the scalars that calls such as ``wf.float32(x)`` make."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, like, wrap
from weft.array.convert import is_argument
from weft.dtypes.formats import FLOATS, FROM_NUMPY
from weft.dtypes.parse import layout, parse_dtype
from weft.eager import implementations
from weft.eager.policy import is_enabled
from weft.errors import DTypeError
from weft.functions.creation.fill import array, asarray
from weft.functions.support.arguments import cast, create_on_device, held, may_cast, node
from weft.graph.primitives.table import input_leaf


def astype(
    x: Any, /, dtype: Any, order: Any = None, casting: str = "unsafe", subok: bool = True, copy: bool = True, *,
    device: Any = None, rounding: str = "nearest", key: Any = None,
) -> Array:
    """Return ``x`` converted to another dtype.

    Parameters
    ----------
    x : array_like
    dtype : dtype
    order, subok
        Ignored: weft's arrays are stored in row-major order and have no subclasses.
    casting : str
        The conversions that are allowed: "no", "equiv", "safe", "same_kind", or "unsafe" for all.
    copy : bool
        False: return an Array unchanged if it already has the dtype.
    device : str, optional
        The device of the result, such as "cpu" or "gpu"; by default the current one.
    rounding : str
        For float dtypes: "nearest" (ties to even), "toward zero", "up", "down", or "stochastic": up or down at random so that the
        expected value is the number itself, even below the smallest number of the dtype.
    key : key, optional
        For "stochastic": a key as for the functions of ``wf.random``. By default the hidden state of ``wf.random`` is used.

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    DTypeError, ValueError
        The dtype is unknown, or ``casting`` forbids it; complex numbers would lose their imaginary parts (use ``wf.real(x)``);
        the device or the rounding is unknown, or a rounding is given for a dtype that is no float.

    Examples
    --------
    >>> import weft as wf
    >>> wf.astype(wf.array([1.9, -1.9]), wf.int32).tolist()
    [1, -1]
    """
    layout(order, "astype")
    if device is not None:
        return create_on_device(
            "astype", device, partial(astype, rounding=rounding, key=key), x, dtype, order, casting, subok, copy
        )
    form = parse_dtype(dtype)
    if casting != "unsafe":
        source = node(x, "astype").dtype
        if not may_cast(source, form, casting, "astype"):
            raise DTypeError(f"astype: x is {source}, not cast to {form} by casting={casting!r}; use 'unsafe'")
    if rounding != "nearest":
        from weft.functions.random.stochastic_rounding import rounded

        return like(x, rounded(node(x, "astype"), form, rounding, key))
    if not isinstance(x, Array) or x.weak:
        return like(x, held(x, form, "astype", "x"))
    value = x.node
    return like(x, cast(value, form)) if copy or value.dtype != form else x


def copy(a: Any, order: Any = None, subok: bool = False) -> Array:
    """Return a new array with the content of ``a``.

    Parameters
    ----------
    a : array_like
    order, subok
        Ignored: weft's arrays are stored in row-major order and have no subclasses.

    Returns
    -------
    Array
        With the shape and dtype of ``a``. A Scalar gives a Scalar; ``wf.array(a)`` makes an array that can be written to.

    Raises
    ------
    ValueError, TypeError
        ``order`` is none of NumPy's.

    Examples
    --------
    >>> import weft as wf
    >>> wf.copy(wf.ones(2)).tolist()
    [1.0, 1.0]
    """
    layout(order, "copy")
    return like(a, node(a, "copy", "a"))


def scalar_of(dtype: np.dtype, x: Any, imag: Any = None) -> Array:
    """Return a number as a Scalar of the dtype; return an array if ``x`` has dimensions."""
    if imag is not None:
        if dtype.kind != "c":
            raise TypeError(f"{dtype.name}: takes one number, not two; complex64(real, imag) takes two")
        x = asarray(x) + 1j * asarray(imag)
    form = FROM_NUMPY[dtype]
    if is_enabled() and form in FLOATS and is_argument(x, form) and abs(x) <= min(65504, form.reach):
        return wrap(input_leaf((), form, implementations.number(x, form)))
    if x is None or isinstance(x, str | bytes):
        x = array(x, dtype)
    result = astype(x, dtype)
    return result if result.ndim else result[()]

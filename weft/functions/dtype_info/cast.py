"""``astype``, ``copy``, and the scalars that calls such as ``wf.float32(x)`` make."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weft.array import Array, like, wrap
from weft.array.convert import is_argument
from weft.dtypes.formats import FLOATS, FROM_NUMPY
from weft.dtypes.parse import layout, spelled
from weft.eager import implementations
from weft.errors import DTypeError
from weft.functions.creation.fill import array, asarray
from weft.functions.support.arguments import cast, held, made_on, may_cast, node
from weft.graph.primitives.table import input_leaf
from weft.runtime.context import LOCAL


def astype(
    x: Any, /, dtype: Any, order: Any = None, casting: str = "unsafe", subok: bool = True, copy: bool = True, *,
    device: Any = None, rounding: str = "nearest", key: Any = None,
) -> Array:
    """``x`` in another dtype.

    Parameters
    ----------
    x : array_like
    dtype : dtype
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.
    casting : str
        Which casts may be: "no", "equiv", "safe", "same_kind", or "unsafe" for all.
    copy : bool
        False: an Array of that dtype is handed back as it is.
    device : str, optional
        Where it is to lie, such as "cpu" or "gpu"; by default where it is made.
    rounding : str
        Of floats: "nearest" (ties to even), "toward zero", "up", "down", or "stochastic": up or down by chance, so that the mean
        over many casts is the number itself, also where it is smaller than the least that the dtype holds.
    key : key, optional
        For "stochastic", as the functions of ``wf.random`` take one: by default the next words of the hidden state.

    Returns
    -------
    Array of the shape of ``x``

    Raises
    ------
    DTypeError, ValueError
        An unknown dtype, or one that ``casting`` forbids; complex numbers as real ones, whose imaginary parts would be lost (take
        ``wf.real(x)``); an unknown device or rounding, or one for what is no float.

    Examples
    --------
    >>> import weft as wf
    >>> wf.astype(wf.array([1.9, -1.9]), wf.int32).tolist()
    [1, -1]
    """
    layout(order, "astype")
    if device is not None:
        return made_on("astype", device, partial(astype, rounding=rounding, key=key), x, dtype, order, casting, subok, copy)
    wanted = spelled(dtype)
    if casting != "unsafe":
        have = node(x, "astype").dtype
        if not may_cast(have, wanted, casting, "astype"):
            raise DTypeError(f"astype: x is {have}, not cast to {wanted} by casting={casting!r}; use 'unsafe'")
    if rounding != "nearest":
        from weft.functions.random.stochastic_rounding import rounded

        return like(x, rounded(node(x, "astype"), wanted, rounding, key))
    if not isinstance(x, Array) or x.weak:
        return like(x, held(x, wanted, "astype", "x"))
    found = x.node
    return like(x, cast(found, wanted)) if copy or found.dtype != wanted else x


def copy(a: Any, order: Any = None, subok: bool = False) -> Array:
    """An array of its own with the content of ``a``.

    Parameters
    ----------
    a : array_like
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.

    Returns
    -------
    Array of the shape and dtype of ``a``; of a Scalar, a Scalar: ``wf.array(a)`` is an array that can be written to

    Raises
    ------
    ValueError, TypeError
        An ``order`` that NumPy does not have.

    Examples
    --------
    >>> import weft as wf
    >>> wf.copy(wf.ones(2)).tolist()
    [1.0, 1.0]
    """
    layout(order, "copy")
    return like(a, node(a, "copy", "a"))


def scalar_of(dtype: np.dtype, x: Any, imag: Any = None) -> Array:
    """A number in a dtype; of what has dimensions an array."""
    if imag is not None:
        if dtype.kind != "c":
            raise TypeError(f"{dtype.name}: one number is taken, not two; complex64(real, imag) takes two")
        x = asarray(x) + 1j * asarray(imag)
    form = FROM_NUMPY[dtype]
    if LOCAL.small and form in FLOATS and is_argument(x, form) and abs(x) <= min(65504, form.reach):  # as elements have
        return wrap(input_leaf((), form, implementations.number(x, form)))
    if x is None or isinstance(x, str | bytes):
        x = array(x, dtype)
    found = astype(x, dtype)
    return found if found.ndim else found[()]

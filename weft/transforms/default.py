"""Which dtype floats have that nobody gave one: ``set_default_dtype`` and ``with default_dtype(...)``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from weft.dtypes.formats import DEFAULT, FLOAT32, FLOAT64, Format
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.transforms.choosing import choose, chosen


def set_default_dtype(dtype: Any) -> None:
    """Choose what floats are from here on that nobody gave a dtype: float32, as weft has it, or float64, as NumPy has it.

    With float64 all dtypes are NumPy's: Python's floats, ``zeros``, ``linspace`` and random numbers are float64, so are means
    and quotients of integers, complex numbers are complex128, and ``int64 + float32`` is float64. What is there already stays as
    it is, and a jitted function is traced again. It holds for all threads.

    Parameters
    ----------
    dtype : dtype
        float32 or float64.

    Raises
    ------
    DTypeError
        Another dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_default_dtype("float64")
    >>> (wf.arange(3) / 2).dtype, wf.array([0.1]).dtype
    (dtype('float64'), dtype('float64'))
    >>> wf.set_default_dtype("float32")
    """
    choose(DEFAULT, _checked("set_default_dtype", dtype))


def get_default_dtype() -> np.dtype:
    """The dtype that floats have of which nobody said one.

    Returns
    -------
    numpy.dtype

    Examples
    --------
    >>> import weft as wf
    >>> wf.get_default_dtype()
    dtype('float32')
    """
    return DEFAULT.real.numpy


def default_dtype(dtype: Any) -> AbstractContextManager[None]:
    """Choose it for what is written inside; as :func:`set_default_dtype`, it holds for all threads.

    Parameters
    ----------
    dtype : dtype
        float32 or float64.

    Returns
    -------
    context manager

    Raises
    ------
    DTypeError
        Another dtype.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.default_dtype("float64"):
    ...     x = wf.ones(3)
    >>> x.dtype, wf.ones(3).dtype
    (dtype('float64'), dtype('float32'))
    """
    return chosen(DEFAULT, _checked("default_dtype", dtype))


def _checked(function: str, dtype: Any) -> Format:
    found = None if dtype is None else spelled(dtype)  # None is float64 to NumPy
    if found is not FLOAT32 and found is not FLOAT64:
        raise DTypeError(f"{function}: dtype={found} must be float32 or float64")
    return found

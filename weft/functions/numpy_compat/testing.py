"""NumPy's ``testing``, whose functions see NumPy's arrays in place of weft's: alone, and inside of dicts, lists and tuples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import testing as _numpys

from weft.array import Array, Scalar

_COMPARING = """
    assert_ assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal assert_array_almost_equal_nulp
    assert_array_compare assert_array_equal assert_array_less assert_array_max_ulp assert_equal assert_string_equal
    build_err_msg print_assert_equal""".split()  # the others call functions, which shall get what they are given
_COPIED = [name for name in functools.WRAPPER_ASSIGNMENTS if name != "__module__"]  # pickle looks for them here


def _seen(x: Any, narrow: bool) -> Any:
    """What NumPy is to see of an argument. Its functions find no NaN in formats that are not its own, which float32 holds."""
    if isinstance(x, dict):
        return {key: _seen(value, narrow) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return (list if isinstance(x, list) else tuple)([_seen(value, narrow) for value in x])
    found = x.numpy() if isinstance(x, Array) else x
    if not narrow and isinstance(found, np.ndarray | np.generic) and found.dtype.isbuiltin == 2:
        found = np.asarray(found, np.float32)
    return found[()] if isinstance(x, Scalar | np.generic) else found


def _seeing(function: Callable[..., Any]) -> Callable[..., Any]:
    ulps = function.__name__.endswith("ulp")  # an ulp of float32 is another one

    @functools.wraps(function, assigned=_COPIED)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        dtypes = {x.dtype for x in (*args, *kwargs.values()) if isinstance(x, Array | np.ndarray | np.generic)}
        narrow = ulps or bool(kwargs.get("strict")) and len(dtypes) > 1
        return function(*[_seen(x, narrow) for x in args], **{name: _seen(x, narrow) for name, x in kwargs.items()})

    return call


globals().update({name: _seeing(getattr(_numpys, name)) for name in _COMPARING})
__all__ = list(_numpys.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_numpys, name)

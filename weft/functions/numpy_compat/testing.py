"""``numpy.testing`` for Arrays: arguments are converted to NumPy arrays, also inside dicts, lists and tuples."""

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
    build_err_msg print_assert_equal""".split()  # the other functions pass arguments to the user's functions: no conversion
_COPIED_ATTRIBUTES = [name for name in functools.WRAPPER_ASSIGNMENTS if name != "__module__"]  # pickle needs this module's name


def _to_numpy(x: Any, narrow: bool) -> Any:
    """Return an argument with Arrays replaced by NumPy arrays.

    Formats of ml_dtypes become float32 unless ``narrow`` is set: NumPy's functions do not recognise their NaN.
    """
    if isinstance(x, dict):
        return {key: _to_numpy(value, narrow) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return (list if isinstance(x, list) else tuple)([_to_numpy(value, narrow) for value in x])
    content = x.numpy() if isinstance(x, Array) else x
    if not narrow and isinstance(content, np.ndarray | np.generic) and content.dtype.isbuiltin == 2:
        content = np.asarray(content, np.float32)
    return content[()] if isinstance(x, Scalar | np.generic) else content


def _convert_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the NumPy function with converted arguments."""
    ulps = function.__name__.endswith("ulp")  # ulps depend on the dtype: keep narrow formats

    @functools.wraps(function, assigned=_COPIED_ATTRIBUTES)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        dtypes = {x.dtype for x in (*args, *kwargs.values()) if isinstance(x, Array | np.ndarray | np.generic)}
        narrow = ulps or bool(kwargs.get("strict")) and len(dtypes) > 1
        return function(*[_to_numpy(x, narrow) for x in args], **{name: _to_numpy(x, narrow) for name, x in kwargs.items()})

    return call


globals().update({name: _convert_arguments(getattr(_numpys, name)) for name in _COMPARING})
__all__ = list(_numpys.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_numpys, name)

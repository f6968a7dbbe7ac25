"""``wf.emath``: roots, logarithms and inverse functions that are complex where no real result exists, as ``numpy.emath``.

The dtype of a result depends on the values, which are therefore computed; inside a traced function this raises. There
``wf.sqrt(x.astype("complex64"))`` is always complex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import exact_operands
from weft.dtypes.formats import COMPLEX, COMPLEX64, COMPLEX128, DEFAULT, FLOAT32, INEXACT, Format, complex_format
from weft.dtypes.formats import floating as floating_form
from weft.functions.elementwise import ufuncs
from weft.functions.support.arguments import NUMBERS, cast, floating, node, number, read_now, rename_function
from weft.process.docstrings import complete_module

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _cast_if_outside(function: str, x: Any, outside: Callable[[np.ndarray], Any], argument: str = "x") -> Array:
    """Return ``x``, cast to complex if an element is outside the domain of real results."""
    value = node(x, function, argument)
    if value.dtype in COMPLEX or not np.any(outside(read_now(x, function, argument))):
        return wrap(value)
    return wrap(cast(value, _complex_dtype(value.dtype)))


def _complex_dtype(form: Format) -> Format:
    """Return the complex dtype for numbers of ``form``; NumPy's if the default dtype is float64."""
    if not DEFAULT.wide:
        return complex_format(floating_form(form).computed)
    short = form.kind in ("signed", "unsigned") and form.bits <= 16
    return COMPLEX64 if short or form is FLOAT32 else COMPLEX128


def _is_negative(x: np.ndarray) -> Any:
    return x < 0


def _exceeds_one(x: np.ndarray) -> Any:
    return np.abs(x) > 1


def _extend(name: str, outside: Callable[[np.ndarray], Any], summary: str, example: str, output: str) -> Callable[[Any], Array]:
    """Make the ufunc ``name`` cast its operand to complex if an element is ``outside`` the real domain."""
    function = getattr(ufuncs, name)

    def extended(x: Any) -> Array:
        return function(_cast_if_outside(name, x, outside))

    rename_function(extended, name)
    extended.__doc__ = f"""{summary}

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of the shape of ``x``, real or complex

    Raises
    ------
    TraceError
        Inside a traced function, because the dtype depends on the values.

    >>> wf.emath.{name}({example}).tolist()
    {output}
    """
    return extended


sqrt = _extend("sqrt", _is_negative, "Compute the square root; imaginary for negative numbers.", "[-4.0, 9.0]", "[2j, (3+0j)]")
log = _extend("log", _is_negative, "Compute the logarithm; with imaginary part pi below zero.", "[1.0, wf.e]", "[0.0, 1.0]")
log10 = _extend("log10", _is_negative, "Compute the logarithm to base 10; complex below zero.", "[1.0, 100.0]", "[0.0, 2.0]")
log2 = _extend("log2", _is_negative, "Compute the logarithm to base 2; complex below zero.", "[1.0, 8.0]", "[0.0, 3.0]")
arccos = _extend("arccos", _exceeds_one, "Compute the inverse cosine; complex outside -1 to 1.", "[1.0]", "[0.0]")
arcsin = _extend("arcsin", _exceeds_one, "Compute the inverse sine; complex outside -1 to 1.", "[0.0]", "[0.0]")
arctanh = _extend("arctanh", _exceeds_one, "Compute the inverse hyperbolic tangent; complex outside -1 to 1.", "[0.0]", "[0.0]")


def logn(n: Any, x: Any) -> Array:
    """Compute the logarithm to base ``n``; complex for negative numbers.

    Parameters
    ----------
    n, x : array_like
        The base and the operand.

    Returns
    -------
    Array, real or complex

    >>> wf.emath.logn(2, [4.0, 16.0]).tolist()
    [2.0, 4.0]
    """
    operand = _cast_if_outside("logn", x, _is_negative)
    is_weak = type(n) in NUMBERS and operand.node.dtype in INEXACT and not DEFAULT.wide  # as for operators
    base = _cast_if_outside("logn", wrap(number(n, operand.node.dtype.part)) if is_weak else n, _is_negative, "n")
    return ufuncs.divide(ufuncs.log(operand), ufuncs.log(base))


def power(x: Any, p: Any) -> Array:
    """Compute ``x ** p``; complex for negative numbers, floats for integers with negative powers.

    Parameters
    ----------
    x, p : array_like

    Returns
    -------
    Array of the shape that both broadcast to

    >>> wf.emath.power([2, 4], -1).tolist()
    [0.5, 0.25]
    """
    base, times = map(wrap, exact_operands(x, p))
    if np.any(_ignore_complex(read_now(base, "power", "x")) < 0):
        base = _cast_if_outside("power", base, _is_negative)
    if np.any(_ignore_complex(read_now(times, "power", "p")) < 0):
        times = wrap(floating(times.node))
    return ufuncs.pow(base, times)


def _ignore_complex(x: np.ndarray) -> np.ndarray:
    """Return ``x``, or 0 for a complex array, whose elements are never cast."""
    return np.zeros(()) if x.dtype.kind == "c" else x


complete_module(globals(), (sqrt, logn, power))

"""``wf.emath``: roots, logarithms and arcs that are complex where real numbers have none, as ``numpy.emath``.

What dtype a result has depends on the numbers, so they are looked at: inside of traced functions this is refused. There
``wf.sqrt(x.astype("complex64"))`` is complex always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import exact_operands
from weft.dtypes.formats import COMPLEX, COMPLEX64, COMPLEX128, DEFAULT, FLOAT32, INEXACT, Format, complexed
from weft.dtypes.formats import floating as floating_form
from weft.functions.elementwise import ufuncs
from weft.functions.support.arguments import NUMBERS, cast, floating, looked, named, node, number

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _widened(function: str, x: Any, outside: Callable[[np.ndarray], Any], argument: str = "x") -> Array:
    """``x``, complex where one of its numbers is outside of what has a real result."""
    value = node(x, function, argument)
    if value.dtype in COMPLEX or not np.any(outside(looked(x, function, argument))):
        return wrap(value)
    return wrap(cast(value, _complex_of(value.dtype)))


def _complex_of(form: Format) -> Format:
    """The complex dtype for numbers of ``form``; NumPy's where the default is float64."""
    if not DEFAULT.wide:
        return complexed(floating_form(form).computed)
    short = form.kind in ("signed", "unsigned") and form.bits <= 16
    return COMPLEX64 if short or form is FLOAT32 else COMPLEX128


def _below(x: np.ndarray) -> Any:
    return x < 0


def _beyond(x: np.ndarray) -> Any:
    return np.abs(x) > 1


def _extended(
    name: str, function: Callable[[Any], Array], outside: Callable[[np.ndarray], Any], about: str, example: str, shows: str,
) -> Callable[[Any], Array]:
    """A function that goes on to complex numbers where ``outside`` says that there is no real answer."""

    def extended(x: Any) -> Array:
        return function(_widened(name, x, outside))

    named(extended, name)
    extended.__doc__ = f"""{about}

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Array of the shape of ``x``, real or complex

    Raises
    ------
    TraceError
        Inside a traced function, for the dtype depends on the numbers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.emath.{name}({example}).tolist()
    {shows}
    """
    return extended


sqrt = _extended(
    "sqrt", ufuncs.sqrt, _below, "The square root; of negative numbers an imaginary one.", "[-4.0, 9.0]", "[2j, (3+0j)]",
)
log = _extended(
    "log", ufuncs.log, _below, "The logarithm; of negative numbers with an angle of pi.", "[1.0, wf.e]", "[0.0, 1.0]",
)
log10 = _extended(
    "log10", ufuncs.log10, _below, "The logarithm to base 10; of negative numbers complex.", "[1.0, 100.0]", "[0.0, 2.0]",
)
log2 = _extended(
    "log2", ufuncs.log2, _below, "The logarithm to base 2; of negative numbers complex.", "[1.0, 8.0]", "[0.0, 3.0]",
)
arccos = _extended("arccos", ufuncs.acos, _beyond, "The arc of a cosine; beyond -1 and 1 complex.", "[1.0]", "[0.0]")
arcsin = _extended("arcsin", ufuncs.asin, _beyond, "The arc of a sine; beyond -1 and 1 complex.", "[0.0]", "[0.0]")
arctanh = _extended("arctanh", ufuncs.atanh, _beyond, "The inverse of tanh; beyond -1 and 1 complex.", "[0.0]", "[0.0]")


def logn(n: Any, x: Any) -> Array:
    """The logarithm to a base; of negative numbers complex.

    Parameters
    ----------
    n, x : array_like
        The base, and what the logarithm is of.

    Returns
    -------
    Array, real or complex

    Raises
    ------
    TraceError
        Inside a traced function, for the dtype depends on the numbers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.emath.logn(2, [4.0, 16.0]).tolist()
    [2.0, 4.0]
    """
    top = _widened("logn", x, _below)
    own = type(n) in NUMBERS and top.node.dtype in INEXACT and not DEFAULT.wide  # a number takes the dtype of what it meets
    base = _widened("logn", wrap(number(n, top.node.dtype.part)) if own else n, _below, "n")
    return ufuncs.divide(ufuncs.log(top), ufuncs.log(base))


def power(x: Any, p: Any) -> Array:
    """``x ** p``; of negative numbers complex, and of integers to negative powers floats.

    Parameters
    ----------
    x, p : array_like

    Returns
    -------
    Array of the shape that both broadcast to

    Raises
    ------
    TraceError
        Inside a traced function, for the dtype depends on the numbers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.emath.power([2, 4], -1).tolist()
    [0.5, 0.25]
    """
    base, times = map(wrap, exact_operands(x, p))
    if np.any(_real(looked(base, "power", "x")) < 0):
        base = _widened("power", base, _below)
    if np.any(_real(looked(times, "power", "p")) < 0):
        times = wrap(floating(times.node))
    return ufuncs.pow(base, times)


def _real(x: np.ndarray) -> np.ndarray:
    """Complex numbers count as none below zero: they are complex already."""
    return np.zeros(()) if x.dtype.kind == "c" else x

"""Convolution and correlation of vectors, window functions, ``sinc`` and ``i0``."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import array_operands
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT64, INT64
from weft.errors import ShapeError, name_numpy_errors
from weft.functions.elementwise.ufuncs import abs, exp, sin, sqrt
from weft.functions.indexing.where import where
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, arrays, cast, floating, node, op, reshaped
from weft.graph.primitives.precision import asked
from weft.process.docstrings import complete_module

_ONE: dict[str, Any] = dict(
    stride=(1,), lhs_dilation=(1,), rhs_dilation=(1,), groups=1, dims=((0, 1, 2), (0, 1, 2), (0, 1, 2)),
)


def _correlate_vectors(function: str, a: Any, v: Any, mode: str, is_reversed: bool) -> Array:
    """Return the sums of products of two vectors for each offset; ``turned`` reverses the second one (convolution)."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{function}: mode={mode!r} must be 'full', 'same' or 'valid'")
    x, y = array_operands(a, v)
    for name, operand in (("a", x), ("v", y)):
        if len(operand.shape) > 1 or not operand.size:
            raise ShapeError(f"{function}: {name} has shape {operand.shape}; a vector that is not empty is needed")
    n, m, dtype = x.size, y.size, x.dtype
    short = builtins.min(n, m)
    low, count = 0, n + m - 1
    if mode == "valid":
        low, count = short - 1, builtins.max(n, m) - short + 1
    elif mode == "same":  # like NumPy, which exchanges the operands if the second is longer, and reverses a correlation
        low, count = (short // 2 if n < m and not is_reversed else (short - 1) // 2), builtins.max(n, m)
    line, window = (cast(reshaped(z, (1, 1, z.size)), INT64 if dtype is BOOL else dtype) for z in (x, y))
    if is_reversed:
        window = op("slice", window, start=(0, 0, m - 1), step=(1, 1, -1), shape=(1, 1, m))
    full = _sum_products(line, window if is_reversed else arguments.conjugate(window), m)
    return wrap(cast(op("slice", reshaped(full, (n + m - 1,)), start=(low,), step=(1,), shape=(count,)), dtype))


def _sum_products(line: Node, window: Node, m: int) -> Node:
    """Return all sums of products; complex operands are split into their parts."""
    if line.dtype not in COMPLEX:
        return op("conv_general", line, window, padding=((m - 1, m - 1),), **_ONE, **asked(line.dtype))
    (a, b), (c, d) = arguments.split_complex(line), arguments.split_complex(window)
    ac, bd, ad, bc = (_sum_products(x, y, m) for x, y in ((a, c), (b, d), (a, d), (b, c)))
    return op("complex", op("subtract", ac, bd), op("add", ad, bc))


def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """Return the convolution of two vectors: the coefficients of the product of two polynomials.

    Parameters
    ----------
    a : (N,) array
    v : (M,) array
    mode : "full", "same" or "valid"
        All offsets (N + M - 1 results), the middle max(N, M), or only those where the vectors overlap completely.

    Returns
    -------
    Array with one dimension

    Raises
    ------
    ShapeError, ValueError
        An argument is no vector, or is empty; another ``mode``.

    >>> wf.convolve(wf.array([1, 2, 3]), [0, 1]).tolist()
    [0, 1, 2, 3]
    """
    return _correlate_vectors("convolve", a, v, mode, True)


def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """Return the cross-correlation of two vectors; complex ``v`` is conjugated.

    >>> wf.correlate(wf.array([1, 2, 3]), [0, 1, 2]).tolist()
    [8]
    """
    return _correlate_vectors("correlate", a, v, mode, False)


# ---- windows

def _window(name: str, M: Any, *more: float) -> Array:  # noqa: N803  NumPy's name
    """Return NumPy's window in the default dtype."""
    size = float(arguments.check_real_scalar(M, name, "M"))
    with name_numpy_errors(name), np.errstate(all="ignore"):
        return wrap(cast(node(getattr(np, name)(size, *more), name), DEFAULT.real))


def bartlett(M: float) -> Array:  # noqa: N803
    """Return a triangular window that is zero at its ends.

    Parameters
    ----------
    M : int
        The number of samples. NumPy also accepts a float.

    Returns
    -------
    (M,) Array of float32
        Empty if ``M`` is below 1.

    Raises
    ------
    DTypeError, ValueError
        An argument is no real number, or is infinite or NaN.

    >>> wf.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("bartlett", M)


def hanning(M: float) -> Array:  # noqa: N803
    """Return a raised cosine window that is zero at its ends.

    >>> wf.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("hanning", M)


def hamming(M: float) -> Array:  # noqa: N803
    """Return a raised cosine window that is 0.08 at its ends.

    >>> wf.hamming(3).tolist()[1]
    1.0
    """
    return _window("hamming", M)


def blackman(M: float) -> Array:  # noqa: N803
    """Return a window of three cosines that is nearly zero at its ends.

    >>> round(wf.blackman(3).tolist()[1], 6)
    1.0
    """
    return _window("blackman", M)


def kaiser(M: float, beta: float) -> Array:  # noqa: N803
    """Return a Kaiser window, which is built from a Bessel function.

    Parameters
    ----------
    beta : float
        The steepness: 0 is a rectangle, 14 is close to a Gaussian.

    >>> wf.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return _window("kaiser", M, float(arguments.check_real_scalar(beta, "kaiser", "beta")))


# ---- functions of signals

def sinc(x: Any) -> Array:
    """Compute ``sin(pi x) / (pi x)``, which is 1 at zero.

    Returns
    -------
    Array of the shape of ``x``

    >>> wf.sinc(wf.array([0.0, 0.5])).tolist()[0]
    1.0
    """
    value = floating(node(x, "sinc"))
    angle = wrap(cast(value, value.dtype.computed)) * math.pi
    near = abs(angle) < 1  # the quotient's derivatives would cancel here
    square = where(near, angle, 0.0) ** 2
    series: Any = 0.0
    for k in reversed(range(_SINC_TERMS[value.dtype.part is FLOAT64])):
        series = series * square + (-1) ** k / math.factorial(2 * k + 1)
    far = where(near, 1.0, angle)
    return wrap(cast(where(near, series, sin(far) / far).node, value.dtype))


# terms of sin(t) / t for t below 1 (float32, float64): the second derivative of the remainder is below a rounding
_SINC_TERMS = 6, 10


# Chebyshev coefficients of exp(-x) I0(x) on [0, 8], and of sqrt(x) exp(-x) I0(x) above 8 (S. L. Moshier, Cephes)
_I0_NEAR = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
    -1.16853328779934516808e-14, 7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12,
    -1.72682629144155570723e-11, 9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
    -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
    -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
    -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)
_I0_FAR = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17, 3.46122286769746109310e-17,
    -2.82762398051658348494e-16, -3.42548561967721913462e-16, 1.77256013305652638360e-15, 3.81168066935262242075e-15,
    -9.55484669882830764870e-15, -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
    7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11, -3.14991652796324136454e-11,
    1.18891471078464383424e-11, 4.94060238822496958910e-10, 3.39623202570838634515e-9, 2.26666899049817806459e-8,
    2.04891858946906374183e-7, 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)


def _chebyshev(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Evaluate a Chebyshev series by Clenshaw's recurrence."""
    b0: Any = coefficients[0]
    b1: Any = 0.0
    b2: Any = 0.0
    for c in coefficients[1:]:
        b2, b1 = b1, b0
        b0 = x * b1 - b2 + c
    return 0.5 * (b0 - b2)


def i0(x: Any) -> Array:
    """Compute the modified Bessel function of the first kind, of order 0.

    >>> round(float(wf.i0(wf.array(0.0, dtype="float64"))), 12)
    1.0
    """
    (argument,) = arrays("i0", x=x)
    value: Node = floating(argument.node)
    wide = wrap(cast(value, FLOAT64))
    size = where(wide < 0, -wide, wide)  # with abs, whose derivative at 0 is 0, the second derivative there would be 0
    near = _chebyshev(where(size <= 8, size, 0.0) / 2.0 - 2.0, _I0_NEAR)
    far_size = where(size > 8, size, 8.0)
    far = _chebyshev(32.0 / far_size - 2.0, _I0_FAR) / sqrt(far_size)
    return wrap(cast((exp(size) * where(size <= 8, near, far)).node, value.dtype))


complete_module(globals(), (convolve, correlate), (bartlett, hanning, hamming, blackman, kaiser), (sinc, i0))

"""Polynomials of coefficient vectors, poly1d, convolutions, windows and functions of signals."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.convert import array_operands, exact_operands, promote_operands
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT32, FLOAT64, FROM_NUMPY, INT64, complex_format, promote
from weft.errors import ShapeError, name_numpy_errors
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import abs, exp, sin, sqrt
from weft.functions.indexing.where import where
from weft.functions.linalg.decompositions import eigvals
from weft.functions.shape.axes import concat
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, arrays, broadcast, cast, floating, node, number, op, reshape_node, slice_node
from weft.graph.primitives.settings import current_precision
from weft.process.docstrings import complete_module

_ONE_DIMENSION: dict[str, Any] = dict(
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
    line, window = (cast(reshape_node(z, (1, 1, z.size)), INT64 if dtype is BOOL else dtype) for z in (x, y))
    if is_reversed:
        window = op("slice", window, start=(0, 0, m - 1), step=(1, 1, -1), shape=(1, 1, m))
    full = _sum_products(line, window if is_reversed else arguments.conjugate(window), m)
    return wrap(cast(op("slice", reshape_node(full, (n + m - 1,)), start=(low,), step=(1,), shape=(count,)), dtype))


def _sum_products(line: Node, window: Node, m: int) -> Node:
    """Return all sums of products; complex operands are split into their parts."""
    if line.dtype not in COMPLEX:
        return op("conv_general", line, window, padding=((m - 1, m - 1),), **_ONE_DIMENSION, **current_precision(line.dtype))
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


MAX_INTEGRALS = 1000  # NumPy's limit: its polyint recurses once per integration

def _coefficients(function: str, x: Any, argument: str = "p") -> Node:
    """Return coefficients as a vector; a number is a constant polynomial."""
    value = node(getattr(x, "coeffs", x), function, argument)
    if len(value.shape) > 1:
        raise ShapeError(f"{function}: {argument} has shape {value.shape}; a vector of coefficients is needed")
    return value if value.shape else reshape_node(value, (1,))


def _wrap_like(coefficients: Array, *operands: Any) -> Any:
    """Return coefficients as a ``poly1d`` if an operand is one, else as an array."""
    kind = next((type(x) for x in operands if hasattr(x, "coeffs")), None)
    return coefficients if kind is None else kind(coefficients)


def _wide(x: np.ndarray) -> np.ndarray:
    """Convert to float64 or complex128 for NumPy."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def polyval(p: Any, x: Any) -> Any:
    """Evaluate a polynomial at ``x`` by Horner's rule.

    Parameters
    ----------
    p : (N,) array or poly1d
        Coefficients, the highest power first.
    x : array or poly1d

    Returns
    -------
    Array with the shape of ``x``, or poly1d
        For a poly1d ``x``: the composition of the polynomials.

    Raises
    ------
    ShapeError
        ``p`` is no vector.

    >>> wf.polyval([3, 0, 1], wf.array([2, 5])).tolist()
    [13, 76]
    """
    if hasattr(x, "coeffs"):
        result = x * 0
        for k in range(_coefficients("polyval", p).size):
            result = result * x + wrap(_coefficients("polyval", p))[k]
        return result
    p, x = map(wrap, exact_operands(p, x))
    if not _coefficients("polyval", p).size:
        return wrap(op("multiply", node(x, "polyval"), number(0, node(x, "polyval").dtype)))
    line, at = promote_operands(wrap(_coefficients("polyval", p)), wrap(node(x, "polyval")))
    result = op("multiply", at, number(0, at.dtype))
    for k in range(line.size):
        result = op("add", op("multiply", result, at), reshape_node(slice_node(line, 0, k, k + 1), ()))
    return wrap(result)


def _pad_to_equal_length(function: str, a: Any, b: Any) -> tuple[Node, Node]:
    """Return two polynomials of equal length, with zeros in front of the shorter one."""
    a, b = exact_operands(a, b)
    x, y = promote_operands(wrap(_coefficients(function, a, "a1")), wrap(_coefficients(function, b, "a2")))
    long_ = max(x.size, y.size)
    first, second = (op("pad", n, low=(long_ - n.size,), high=(0,), value=0) if n.size < long_ else n for n in (x, y))
    return first, second


def polyadd(a1: Any, a2: Any) -> Any:
    """Return the sum of two polynomials.

    Parameters
    ----------
    a1, a2 : (N,) array or poly1d

    Returns
    -------
    Array with one dimension, or poly1d if an operand is one

    Raises
    ------
    ShapeError
        An operand is no vector.

    >>> wf.polyadd([1, 2], [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    return _wrap_like(wrap(op("add", *_pad_to_equal_length("polyadd", a1, a2))), a1, a2)


def polysub(a1: Any, a2: Any) -> Any:
    """Return the difference of two polynomials.

    >>> wf.polysub([2, 10, 2], [3, 10, 4]).tolist()
    [-1, 0, -2]
    """
    return _wrap_like(wrap(op("subtract", *_pad_to_equal_length("polysub", a1, a2))), a1, a2)


def polymul(a1: Any, a2: Any) -> Any:
    """Return the product of two polynomials without leading zeros. Inside a traced function leading zeros are kept.

    Raises
    ------
    ShapeError
        An operand is no vector, or is empty.

    >>> wf.polymul([1, 2, 3], [9, 5, 1]).tolist()
    [9, 23, 38, 17, 3]
    """
    x, y = exact_operands(a1, a2)
    return _wrap_like(convolve(_strip_leading_zeros("polymul", x, "a1"), _strip_leading_zeros("polymul", y, "a2")), a1, a2)


def _strip_leading_zeros(function: str, x: Any, argument: str) -> Array:
    """Return coefficients without leading zeros; the zero polynomial keeps one."""
    line = wrap(_coefficients(function, x, argument))
    if not line.size:
        return wrap(broadcast(number(0, line.node.dtype), (1,)))
    content = arguments.read_if_known(line, function, argument)
    if content is None or not content.size or content[0] != 0:
        return line
    first = np.flatnonzero(content)
    return line[int(first[0]) if first.size else content.size - 1:]


def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Return the quotient and the remainder of two polynomials. Computes at once to drop leading zeros of the remainder.

    Parameters
    ----------
    u, v : (N,) array or poly1d

    Returns
    -------
    two Arrays with one dimension, or poly1d if an operand is one

    Raises
    ------
    ShapeError, TraceError
        An operand is no vector; called inside a traced function.

    >>> [x.tolist() for x in wf.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])]
    [[1.5, 1.75], [0.25]]
    """
    above, below = exact_operands(u, v)
    over, under = promote_operands(wrap(_coefficients("polydiv", above, "u")), wrap(_coefficients("polydiv", below, "v")))
    dtype = floating(over).dtype
    results = np.polydiv(*(_wide(wrap(n).numpy()) for n in (over, under)))
    quotient, rest = (_wrap_like(arguments.from_numpy(x, dtype), u, v) for x in results)
    return quotient, rest


def polyder(p: Any, m: int = 1) -> Any:
    """Return the ``m``-th derivative of a polynomial.

    Parameters
    ----------
    p : (N,) array or poly1d
    m : int

    Returns
    -------
    Array with one dimension, ``m`` shorter; or poly1d if ``p`` is one

    Raises
    ------
    ShapeError, ValueError
        ``p`` is no vector; ``m`` is negative.

    >>> wf.polyder([1, 1, 1, 1]).tolist()
    [3, 2, 1]
    """
    line = wrap(_coefficients("polyder", p))
    for _ in range(min(arguments.count_from_zero(m, "polyder", "m", ValueError), line.size)):
        powers = np.arange(line.size - 1, 0, -1)
        line = line[:-1] * (powers if DEFAULT.wide or line.dtype.kind in "biu" else asarray(powers, dtype=line.dtype))
    return _wrap_like(line, p)


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Integrate a polynomial ``m`` times.

    Parameters
    ----------
    k : number or (m,) array, optional
        The constants of integration, in the order in which they are used; zero by default.

    Returns
    -------
    Array of floats with one dimension, ``m`` longer; or poly1d if ``p`` is one

    Raises
    ------
    ShapeError, ValueError
        ``p`` is no vector; ``m`` is negative or above 1000 (NumPy's recursion limit), or ``k`` has fewer than ``m`` elements.

    >>> wf.polyint([3.0, 2.0, 1.0]).tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    line, count = wrap(_coefficients("polyint", p)), arguments.count_from_zero(m, "polyint", "m", ValueError)
    if count > MAX_INTEGRALS:
        raise ValueError(f"polyint: m={count} is more than {MAX_INTEGRALS}")
    constants = [0.0] * count
    if k is not None:
        values = arguments.read_now(k, "polyint", "k").reshape(-1).tolist()
        constants = values * count if len(values) == 1 else values
        if len(constants) < count:
            raise ValueError(f"polyint: {len(constants)} constants are given for m={count}")
    for c in constants[:count]:
        line = wrap(floating(line.node))
        powers = np.arange(line.size, 0, -1)
        line = line / (powers if DEFAULT.wide else asarray(powers, dtype=line.dtype))
        form = complex_format(line.node.dtype) if isinstance(c, complex) else line.node.dtype
        line = concat([line, wrap(number(c, form)).reshape(1)])
    return _wrap_like(line, p)


def poly(seq_of_zeros: Any) -> Array:
    """Return the polynomial with the given zeros.

    Parameters
    ----------
    seq_of_zeros : (N,) or (N, N) array
        For a matrix the result is the characteristic polynomial.

    Returns
    -------
    (N + 1,) Array of floats, the first one 1; the number 1 if there are no zeros
        Complex zeros give complex coefficients, unless they are conjugate pairs. Inside a traced function, where that cannot be
        checked, the coefficients stay complex.

    Raises
    ------
    ShapeError
        ``seq_of_zeros`` is neither a vector nor a square matrix with elements.

    >>> wf.poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    argument = wrap(floating(node(seq_of_zeros, "poly", "seq_of_zeros")))
    if argument.ndim > 1 and (argument.ndim > 2 or argument.shape[0] != argument.shape[1] or not argument.size):
        raise ShapeError(f"poly: seq_of_zeros has shape {argument.shape}; a vector or a square matrix with elements is needed")
    zeros = eigvals(argument) if argument.ndim == 2 else argument.reshape(-1)
    if not zeros.size:
        return wrap(number(1, zeros.node.dtype))
    one = wrap(number(1, zeros.node.dtype)).reshape(1)
    coefficients = one
    for k in range(zeros.size):
        coefficients = convolve(coefficients, concat([one, -zeros[k : k + 1]]))
    real_matrix = argument.ndim == 2 and argument.node.dtype not in COMPLEX  # complex eigenvalues are conjugate pairs
    return wrap(op("real", coefficients.node)) if real_matrix or _are_conjugate_pairs(zeros) else coefficients


def _are_conjugate_pairs(zeros: Array) -> bool:
    """Return whether complex zeros are known to be conjugate pairs."""
    content = arguments.read_if_known(zeros, "poly") if zeros.node.dtype in COMPLEX else None
    return content is not None and bool((np.sort(content) == np.sort(content.conj())).all())


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803  NumPy's name
    """Return the Vandermonde matrix: the powers of a vector's elements, one power per column.

    Parameters
    ----------
    x : (M,) array
    N : int, optional
        The number of powers; by default the length of ``x``.
    increasing : bool
        Whether the lowest power comes first.

    Returns
    -------
    (M, N) Array

    Raises
    ------
    ShapeError
        ``x`` is no vector, or ``N`` is negative.

    >>> wf.vander([1, 2, 3], 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    (line,) = arrays("vander", x=x)
    if line.ndim != 1:
        raise ShapeError(f"vander: x has shape {line.shape}; a vector is needed")
    count = line.size if N is None else arguments.count_from_zero(N, "vander", "N")
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    value = line.astype(promote(line.node.dtype, INT64).name)
    return value[:, None] ** powers.astype(value.dtype)


def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """Fit a polynomial to points by least squares. Computes at once, with NumPy in float64.

    Parameters
    ----------
    x : (M,) array
    y : (M,) or (M, K) array
    deg : int
        The degree.
    rcond : float, optional
        Singular values smaller than this factor times the largest one are ignored.
    full : bool
        Also return residuals, rank, singular values and ``rcond``.
    w : (M,) array, optional
        Weights of the points.
    cov : bool or "unscaled"
        Also return the covariance matrix of the coefficients.

    Returns
    -------
    (deg + 1,) or (deg + 1, K) Array, or a tuple that begins with it

    Raises
    ------
    TypeError, ValueError, TraceError
        Shapes do not fit, or ``deg`` is negative; there are too few points for ``cov``; called inside a traced function.

    >>> [round(c, 4) for c in wf.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).tolist()]
    [2.0, 1.0]
    """
    x, y = exact_operands(x, y)
    contents = [arguments.read_now(v, "polyfit", name) for name, v in (("x", x), ("y", y))]
    weights = None if w is None else arguments.read_now(arguments.convert_for_write(w, FLOAT64, "polyfit", "w"), "polyfit")
    like = FLOAT64 if any(k.dtype in (np.float64, np.complex128) for k in contents) else DEFAULT.real
    fit: Any = np.polyfit
    with name_numpy_errors("polyfit"):
        result = fit(*(_wide(k) for k in contents), deg, rcond, full, weights, cov)
    if not isinstance(result, tuple):
        return arguments.from_numpy(result, like)
    return tuple(arguments.from_numpy(f, like) if isinstance(f, np.ndarray) else f for f in result)


def roots(p: Any) -> Array:
    """Return the zeros of a polynomial. Computes at once with NumPy: their number and dtype depend on the values of ``p``.

    Parameters
    ----------
    p : (N,) array
        Coefficients, the highest power first.

    Returns
    -------
    (M,) Array
        Real if all zeros are, else complex.

    Raises
    ------
    ShapeError, TraceError
        ``p`` is no vector; called inside a traced function.

    >>> wf.roots([1.0, -3.0, 2.0]).tolist()
    [2.0, 1.0]
    """
    content = np.atleast_1d(arguments.read_now(p, "roots", "p"))
    if content.ndim != 1:
        raise ShapeError(f"roots: p has shape {content.shape}; a vector of coefficients is needed")
    wide = content.astype(np.complex128 if content.dtype.kind == "c" else np.float64)
    is_single = content.dtype in (np.float32, np.complex64) if DEFAULT.wide else content.dtype not in (np.float64, np.complex128)
    return arguments.from_numpy(np.roots(wide), FLOAT32 if is_single else FLOAT64)


class poly1d:  # noqa: N801  NumPy's name
    """A polynomial that can be evaluated, added, multiplied, divided and differentiated: NumPy's older class.

    Parameters
    ----------
    c_or_r : (N,) array, number or poly1d
        Coefficients, the highest power first. Leading zeros are removed, so the content is computed.
    r : bool
        Whether ``c_or_r`` holds the zeros instead.
    variable : str, optional
        The name of the variable in printed text.

    Raises
    ------
    ShapeError, TraceError
        ``c_or_r`` is no vector; created inside a traced function.

    >>> p = wf.poly1d([1, 2, 3])
    >>> int(p(2)), (p * p).coeffs.tolist(), p.deriv().coeffs.tolist()
    (11, [1, 4, 10, 12, 9], [2, 2])
    """

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000  # operators of arrays defer to poly1d
    __array_ufunc__ = None
    coeffs: Array
    variable: str

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        if isinstance(c_or_r, poly1d):
            self.coeffs, self.variable = c_or_r.coeffs, variable or c_or_r.variable
            return
        coefficients = poly(c_or_r) if r else asarray(c_or_r)
        if coefficients.ndim > 1:
            raise ShapeError(f"poly1d: c_or_r has shape {coefficients.shape}; a vector of coefficients is needed")
        coefficients = coefficients.reshape(-1)
        first = np.flatnonzero(arguments.read_now(coefficients, "poly1d", "c_or_r"))
        zero = coefficients[:0].sum().reshape(1).astype(coefficients.dtype)
        self.coeffs = coefficients[int(first[0]):] + 0 if first.size else zero
        self.variable = variable or "x"

    @property
    def order(self) -> int:
        """The degree."""
        return self.coeffs.size - 1

    o = order

    @property
    def roots(self) -> Array:
        """The zeros, see :func:`roots`."""
        return roots(self.coeffs)

    r = roots

    @property
    def c(self) -> Array:
        """The coefficients; also ``coeffs``, ``coef`` and ``coefficients``."""
        return self.coeffs

    coef = coefficients = c

    def __call__(self, val: Any) -> Any:
        return polyval(self.coeffs, val)

    def deriv(self, m: int = 1) -> poly1d:
        """Return the ``m``-th derivative."""
        return poly1d(polyder(self.coeffs, m))

    def integ(self, m: int = 1, k: Any = 0) -> poly1d:
        """Integrate ``m`` times, with constants ``k``."""
        return poly1d(polyint(self.coeffs, m, k))

    def __getitem__(self, power: int) -> Any:
        """Return the coefficient of a power, 0 if the power is above the degree."""
        return self.coeffs[self.order - power] if 0 <= power <= self.order else type(self.coeffs.item(0))(0)

    def __setitem__(self, power: int, value: Any) -> None:
        if power < 0:
            raise ValueError(f"poly1d: the power {power} must not be negative")
        line = arguments.read_now(self.coeffs, "poly1d")
        line = np.concatenate([np.zeros(max(power - self.order, 0), line.dtype), line])
        line[line.size - 1 - power] = value
        self.coeffs = asarray(line, dtype=self.coeffs.dtype)

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[Any]:
        return iter(self.coeffs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.coeffs.numpy(), dtype)

    def __eq__(self, other: object) -> Any:
        mine, theirs = self.coeffs.numpy(), poly1d(other).coeffs.numpy() if _is_polynomial(other) else None
        return theirs is not None and mine.shape == theirs.shape and bool((mine == theirs).all())

    def __neg__(self) -> poly1d:
        return poly1d(-self.coeffs)

    def __pos__(self) -> poly1d:
        return self

    def __add__(self, other: Any) -> poly1d:
        return poly1d(polyadd(self.coeffs, poly1d(other).coeffs))

    def __sub__(self, other: Any) -> poly1d:
        return poly1d(polysub(self.coeffs, poly1d(other).coeffs))

    def __rsub__(self, other: Any) -> poly1d:
        return poly1d(polysub(poly1d(other).coeffs, self.coeffs))

    def __mul__(self, other: Any) -> poly1d:
        return poly1d(self.coeffs * other if _is_number(other) else polymul(self.coeffs, poly1d(other).coeffs))

    def __truediv__(self, other: Any) -> Any:
        if _is_number(other):
            return poly1d(self.coeffs / other)
        quotient, rest = polydiv(self.coeffs, poly1d(other).coeffs)
        return poly1d(quotient), poly1d(rest)

    def __rtruediv__(self, other: Any) -> Any:
        return poly1d(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, times: int) -> poly1d:
        times = resolve_scalar_indices(times)
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise ValueError(f"poly1d: the power {times!r} must be an integer that is not negative")
        result = poly1d(np.ones(1, self.coeffs.dtype))
        for _ in range(times):
            result = result * self
        return result

    def __repr__(self) -> str:
        return f"poly1d({np.array2string(self.coeffs.numpy(), separator=', ')})"

    def __str__(self) -> str:
        return str(np.poly1d(self.coeffs.numpy(), variable=self.variable))


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex | np.generic | Scalar) and (not hasattr(x, "dtype") or x.dtype in FROM_NUMPY)


def _is_polynomial(x: Any) -> bool:
    return isinstance(x, poly1d | Array | np.ndarray | list | tuple) or _is_number(x)


__all__ = ["poly1d", "roots"]


complete_module(
    globals(), (convolve, correlate), (bartlett, hanning, hamming, blackman, kaiser), (sinc, i0), (polyadd, polysub, polymul,
    polydiv), (polyder, polyint),
)

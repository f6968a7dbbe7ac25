"""Discrete Fourier transforms: ``wf.fft``, with the names, arguments and answers of ``numpy.fft``.

float32 gives complex64 and back; integers and narrow floats are float32 first. They run through NumPy's on the host, and have
derivatives.
"""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.dtypes.formats import DEFAULT, FLOAT64, INT64, Format
from weft.dtypes.parse import spelled, to_tuple
from weft.errors import DTypeError, ShapeError
from weft.functions.common import axis_index, cast, made_on, node, number, op, real_number, whole
from weft.functions.fourier import fft, hfft, ifft, ihfft, irfft, rfft
from weft.functions.fourier_axes import fft2, fftn, ifft2, ifftn, irfft2, irfftn, rfft2, rfftn
from weft.functions.manipulation import roll

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`fft`'s elements, in cycles per unit of ``d``.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        float32 by default.
    device : str, optional
        There is only "cpu".

    Returns
    -------
    (n,) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``n`` is not positive; no float dtype; an unknown device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", n, d, dtype, device, True)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`rfft`'s elements, in cycles per unit of ``d``.

    Parameters
    ----------
    n : int
        How many elements are transformed.
    d : float
        The distance between them.
    dtype : dtype, optional
        float32 by default.
    device : str, optional
        There is only "cpu".

    Returns
    -------
    (n // 2 + 1,) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``n`` is not positive; no float dtype; an unknown device.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", n, d, dtype, device, False)


def _frequencies(function: str, n: int, d: float, dtype: Any, device: Any, full: bool) -> Array:
    if device is not None:
        return made_on(function, device, _frequencies, function, n, d, dtype, None, full)
    count = whole(n, function, "n")
    if count < 1:
        raise ShapeError(f"{function}: n={n} must be positive")
    wanted: Format = DEFAULT.real if dtype is None else spelled(dtype)
    if wanted.kind != "float":
        raise DTypeError(f"{function}: dtype={wanted} cannot hold frequencies; use a float dtype")
    place = op("iota", shape=(count if full else count // 2 + 1,), dtype=INT64, axis=0)
    if full:
        upper = op("greater", place, number((count - 1) // 2, INT64))
        place = op("where", upper, op("subtract", place, number(count, INT64)), place)
    return wrap(cast(op("divide", cast(place, FLOAT64), number(count * real_number(d, function, "d"), FLOAT64)), wanted))


def fftshift(x: Any, axes: Any = None) -> Array:
    """The frequency 0 moved to the middle.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.fftshift(wf.array([0, 1, -2, -1])).tolist()
    [-2, -1, 0, 1]
    """
    value = node(x, "fftshift")
    shape = value.shape
    places = tuple(range(len(shape))) if axes is None else to_tuple(axes)
    places = tuple(axis_index(a, len(shape), "fftshift", "axes") for a in places)
    return wrap(value) if not places else roll(x, tuple(shape[a] // 2 for a in places), places)


def ifftshift(x: Any, axes: Any = None) -> Array:
    """The inverse of :func:`fftshift`.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    AxisError
        No such axis.

    Examples
    --------
    >>> import weft as wf
    >>> wf.fft.ifftshift(wf.array([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    value = node(x, "ifftshift")
    shape = value.shape
    places = tuple(range(len(shape))) if axes is None else to_tuple(axes)
    places = tuple(axis_index(a, len(shape), "ifftshift", "axes") for a in places)
    return wrap(value) if not places else roll(x, tuple(-(shape[a] // 2) for a in places), places)

"""Discrete Fourier transforms with the names, arguments and results of ``numpy.fft``.

float32 input gives complex64 results and the reverse; integers and storage-only floats are cast to float32 first. NumPy computes
the transforms on the host. They are differentiable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array, wrap
from weft.dtypes.formats import COMPLEX, DEFAULT, FLOAT32, FLOAT64, INT64, Format, complex_format
from weft.dtypes.parse import parse_dtype, to_tuple
from weft.errors import AxisError, DTypeError, ShapeError
from weft.functions.shape.axes import roll
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, floating, node, number, op, slice_node, wrap_result
from weft.graph.primitives.spectrum import INVERSE_NORMS, NORMS
from weft.process.docstrings import complete_module

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Return the frequencies of the elements of :func:`fft`, in cycles per unit of ``d``.

    Parameters
    ----------
    n : int
        Number of transformed elements.
    d : float
        Distance between samples.
    dtype : dtype, optional
        A float dtype; float32 by default.
    device : str, optional
        The device of the result; only "cpu" exists.

    Returns
    -------
    (n,) Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``n`` is not positive; ``dtype`` is not a float dtype; the device is unknown.

    >>> wf.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", n, d, dtype, device, True)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Return the frequencies of the elements of :func:`rfft`, in cycles per unit of ``d``.

    Returns
    -------
    (n // 2 + 1,) Array

    >>> wf.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", n, d, dtype, device, False)


def _frequencies(function: str, n: int, d: float, dtype: Any, device: Any, full: bool) -> Array:
    if device is not None:
        return arguments.create_on_device(function, device, _frequencies, function, n, d, dtype, None, full)
    extent = arguments.check_int(n, function, "n")
    if extent < 1:
        raise ShapeError(f"{function}: n={n} must be positive")
    form: Format = DEFAULT.real if dtype is None else parse_dtype(dtype)
    if form.kind != "float":
        raise DTypeError(f"{function}: dtype={form} cannot hold frequencies; use a float dtype")
    index = op("iota", shape=(extent if full else extent // 2 + 1,), dtype=INT64, axis=0)
    if full:
        upper = op("greater", index, number((extent - 1) // 2, INT64))
        index = op("where", upper, op("subtract", index, number(extent, INT64)), index)
    return wrap(cast(op("divide", cast(index, FLOAT64), number(extent * arguments.check_real(d, function, "d"), FLOAT64)), form))


def fftshift(x: Any, axes: Any = None) -> Array:
    """Move the element of frequency 0 to the middle.

    Parameters
    ----------
    axes : int or sequence of int, optional
        The shifted axes; all by default.

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    AxisError
        ``x`` has no such axis.

    >>> wf.fft.fftshift(wf.array([0, 1, -2, -1])).tolist()
    [-2, -1, 0, 1]
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Array:
    """Undo :func:`fftshift`.

    >>> wf.fft.ifftshift(wf.array([-2, -1, 0, 1])).tolist()
    [0, 1, -2, -1]
    """
    return _shift("ifftshift", x, axes, -1)


def _shift(function: str, x: Any, axes: Any, sign: int) -> Array:
    value = node(x, function)
    shape = value.shape
    axes = range(len(shape)) if axes is None else to_tuple(axes)
    places = tuple(arguments.axis_index(a, len(shape), function, "axes") for a in axes)
    return roll(x, tuple(sign * (shape[a] // 2) for a in places), places) if places else wrap(value)


Axes = Sequence[int] | None


def _operand(x: Any, function: str) -> Node:
    value = floating(node(x, function, "a"))
    return cast(value, FLOAT32) if value.dtype.narrow else value


def _to_complex(value: Node) -> Node:
    return cast(value, complex_format(value.dtype))


def _parse_norm(function: str, norm: Any) -> str:
    if norm is not None and norm not in NORMS:
        raise ValueError(f"{function}: norm={norm!r} must be 'backward', 'ortho' or 'forward'")
    return norm or "backward"


def _resize(function: str, value: Node, places: Sequence[int], sizes: Sequence[int | None]) -> Node:
    """Cut each axis or fill it with zeros to the given size; None keeps an axis."""
    ndim = len(value.shape)
    for axis, size in zip(places, sizes, strict=True):
        extent = value.shape[axis]
        n = extent if size is None else size
        if n < 1:
            raise ShapeError(f"{function}: a transform of n={n} elements along axis {axis}; at least one is needed")
        if n < extent:
            value = slice_node(value, axis, 0, n)
        elif n > extent:
            value = op("pad", value, low=(0,) * ndim, high=tuple(n - extent if d == axis else 0 for d in range(ndim)), value=0)
    return value


def _parse_axes(function: str, value: Node, s: Any, axes: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """Return the transformed axes and the requested length of each; None stands for the axis's own length."""
    ndim = len(value.shape)
    sizes = None if s is None else [arguments.check_int(n, function, "s") for n in arguments.as_list(s, function, "s")]
    if axes is None:
        axes = range(ndim) if sizes is None else range(ndim - len(sizes), ndim)
    places = tuple(arguments.axis_index(a, ndim, function, "axes") for a in arguments.as_list(axes, function, "axes"))
    if not places:
        raise AxisError(f"{function}: at least one axis is needed")
    if sizes is None:
        return places, [None] * len(places)
    if len(sizes) != len(places):
        raise ShapeError(f"{function}: s={tuple(sizes)} and axes={tuple(axes)} must have the same number of entries")
    return places, [value.shape[axis] if n == -1 else n for axis, n in zip(places, sizes, strict=True)]


def _transform_in_turn(
    function: str, value: Node, places: Sequence[int], sizes: Sequence[int | None], inverse: bool, norm: str,
) -> Node:
    """Transform one axis after the other, resizing each immediately before its transform: an axis may occur twice."""
    for axis, size in zip(places, sizes, strict=True):
        value = op("fft", _to_complex(_resize(function, value, (axis,), (size,))), axes=(axis,), inverse=inverse, norm=norm)
    return value


def _repeated_lengths(value: Node, places: Sequence[int], sizes: Sequence[int | None]) -> list[int] | None:
    """Return the length of each axis if an axis is named twice, else None."""
    if len(set(places)) == len(places):
        return None
    return [value.shape[axis] if n is None else n for axis, n in zip(places, sizes, strict=True)]


def _transform(function: str, x: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Node:
    value = _operand(x, function)
    if not value.shape and s is None and not axes:
        return node(x, function, "a")
    places, sizes = _parse_axes(function, value, s, axes)
    if (lengths := _repeated_lengths(value, places, sizes)) is not None:
        return _transform_in_turn(function, value, places[::-1], lengths[::-1], inverse, _parse_norm(function, norm))
    value = _resize(function, value, places, sizes)
    return op("fft", _to_complex(value), axes=places, inverse=inverse, norm=_parse_norm(function, norm))


def _transform_real(function: str, x: Any, s: Any, axes: Any, norm: Any) -> Node:
    value, normalised = _operand(x, function), _parse_norm(function, norm)
    if value.dtype in COMPLEX:
        raise DTypeError(f"{function}: a is {value.dtype}, but must be real: use wf.fft.fftn, or wf.real(x)")
    places, sizes = _parse_axes(function, value, s, axes)
    if (lengths := _repeated_lengths(value, places, sizes)) is not None:
        value = op("rfft", _resize(function, value, places[-1:], lengths[-1:]), axis=places[-1], norm=normalised)
        return _transform_in_turn(function, value, places[-2::-1], lengths[-2::-1], False, normalised)
    value = _resize(function, value, places, sizes)
    value = op("rfft", value, axis=places[-1], norm=normalised)
    return op("fft", value, axes=places[:-1], inverse=False, norm=normalised) if places[1:] else value


def _transform_to_real(function: str, value: Node, s: Any, axes: Any, norm: Any) -> Node:
    normalised = _parse_norm(function, norm)
    value = _to_complex(value)
    places, sizes = _parse_axes(function, value, s, axes)
    if (lengths := _repeated_lengths(value, places, sizes)) is not None:
        value = _transform_in_turn(function, value, places[:-1], lengths[:-1], True, normalised)
        sizes = [*sizes[:-1], 2 * (lengths[-1] - 1) if sizes[-1] is None else sizes[-1]]
    else:
        value = _resize(function, value, places[:-1], sizes[:-1])
    if places[1:] and lengths is None:
        value = op("fft", value, axes=places[:-1], inverse=True, norm=normalised)
    last = sizes[-1]
    n = 2 * (value.shape[places[-1]] - 1) if last is None else last
    if n < 1:
        raise ShapeError(f"{function}: a transform of n={n} elements along axis {places[-1]}; at least one is needed")
    value = _resize(function, value, places[-1:], [n // 2 + 1])
    return op("irfft", value, axis=places[-1], n=n, norm=normalised)


def _lengths(n: Any) -> Any:
    return None if n is None else (n,)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the discrete Fourier transform along one axis.

    Parameters
    ----------
    n : int, optional
        Number of transformed elements; the axis is cut or filled with zeros.
    axis : int
    norm : "backward", "ortho" or "forward"
        The transform that is divided: the inverse by n, both by sqrt(n), or the forward one by n.
    out : Array, optional

    Returns
    -------
    Array of complex64 or complex128

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        There are no elements to transform; a length, an axis or ``out`` does not fit; ``norm`` is unknown.

    >>> wf.round(wf.fft.fft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return wrap_result(_transform("fft", a, _lengths(n), (axis,), norm, False), out, "fft")


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`fft`.

    >>> wf.round(wf.fft.ifft(wf.array([3.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    return wrap_result(_transform("ifft", a, _lengths(n), (axis,), norm, True), out, "ifft")


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Transform real numbers; return the n // 2 + 1 non-negative frequencies, which determine the others.

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the axis

    >>> wf.round(wf.fft.rfft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [(1+0j), (1+0j)]
    """
    return wrap_result(_transform_real("rfft", a, _lengths(n), (axis,), norm), out, "rfft")


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`rfft`.

    Parameters
    ----------
    n : int, optional
        Length of the result; 2 (m - 1) for m input elements by default. The input is cut or filled with zeros to fit.

    Returns
    -------
    Array of floats

    >>> wf.round(wf.fft.irfft(wf.array([1.0, 1.0, 1.0])), 3).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    return wrap_result(_transform_to_real("irfft", _operand(a, "irfft"), _lengths(n), (axis,), norm), out, "irfft")


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Transform one half of a Hermitian-symmetric signal, whose spectrum is real.

    >>> wf.round(wf.fft.hfft(wf.array([1.0, 0.0, 0.0])), 3).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    spectrum = arguments.conjugate(_operand(a, "hfft"))
    return wrap_result(
        _transform_to_real("hfft", spectrum, _lengths(n), (axis,), INVERSE_NORMS[_parse_norm("hfft", norm)]), out, "hfft"
    )


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`hfft`.

    >>> wf.fft.ihfft(wf.array([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0]
    """
    spectrum = _transform_real("ihfft", a, _lengths(n), (axis,), INVERSE_NORMS[_parse_norm("ihfft", norm)])
    return wrap_result(arguments.conjugate(spectrum), out, "ihfft")


def fft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the discrete Fourier transform in two dimensions.

    Parameters
    ----------
    s : sequence of int, optional
        Number of transformed elements of each axis, which is cut or filled with zeros; -1 for the axis's own length.
    axes : sequence of int, optional
        The last two by default.

    >>> wf.round(wf.fft.fft2(wf.array([[1.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform("fft2", a, s, axes, norm, False), out, "fft2")


def ifft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`fft2`.

    >>> wf.round(wf.fft.ifft2(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform("ifft2", a, s, axes, norm, True), out, "ifft2")


def rfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """Transform real numbers in two dimensions: :func:`rfft` along the last axis, then :func:`fft` along the others.

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the last of the axes

    >>> wf.round(wf.fft.rfft2(wf.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform_real("rfft2", a, s, axes, norm), out, "rfft2")


def irfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`rfft2`.

    Parameters
    ----------
    s : sequence of int, optional
        Length of the result along each axis; -1 for the axis's own. The input is cut or filled with zeros to fit.

    Returns
    -------
    Array of floats

    >>> wf.round(wf.fft.irfft2(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return wrap_result(_transform_to_real("irfft2", _operand(a, "irfft2"), s, axes, norm), out, "irfft2")


def fftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the discrete Fourier transform in several dimensions.

    Parameters
    ----------
    axes : sequence of int, optional
        All axes by default, or the last ``len(s)``.

    >>> wf.round(wf.fft.fftn(wf.array([[1.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform("fftn", a, s, axes, norm, False), out, "fftn")


def ifftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`fftn`.

    >>> wf.round(wf.fft.ifftn(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform("ifftn", a, s, axes, norm, True), out, "ifftn")


def rfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """Transform real numbers in several dimensions: :func:`rfft` along the last axis, then :func:`fft` along the others.

    Returns
    -------
    Array of complex64 or complex128, with n // 2 + 1 elements along the last of the axes

    >>> wf.round(wf.fft.rfftn(wf.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])), 3).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return wrap_result(_transform_real("rfftn", a, s, axes, norm), out, "rfftn")


def irfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None, out: Array | None = None) -> Array:
    """Compute the inverse of :func:`rfftn`.

    Parameters
    ----------
    s : sequence of int, optional
        Length of the result along each axis; -1 for the axis's own. The input is cut or filled with zeros to fit.

    Returns
    -------
    Array of floats

    >>> wf.round(wf.fft.irfftn(wf.array([[4.0, 0.0], [0.0, 0.0]])), 3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return wrap_result(_transform_to_real("irfftn", _operand(a, "irfftn"), s, axes, norm), out, "irfftn")


complete_module(
    globals(), (fftfreq, rfftfreq), (fftshift, ifftshift), (fft, ifft, rfft, irfft, fft2), (rfft, ihfft), (irfft, hfft), (fft2,
    ifft2, rfft2, irfft2, fftn), (fftn, ifftn, rfftn, irfftn),
)

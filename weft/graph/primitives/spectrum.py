"""Discrete Fourier transforms through NumPy on the host: complex to complex, real to complex, and complex to real.

A transform is linear and its matrix symmetric: the derivative of ``fft`` is an ``fft`` again (JAX's convention). ``rfft``
returns only half of the frequencies, which determines the other half; the derivative of ``irfft`` therefore counts most of them
twice.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, FLOAT32, FLOAT64, INT64, Format, complex_format
from weft.errors import ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import call, number, reshape
from weft.graph.primitives.common import batch_in_front, traffic
from weft.graph.primitives.rules import check_axis, check_dtype
from weft.graph.primitives.table import register

NORMS = ("backward", "ortho", "forward")
INVERSE_NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
REAL = frozenset((FLOAT32, FLOAT64))


def _check(name: str, x: Node, allowed: Set[Format], axes: Sequence[int], norm: str) -> None:
    check_dtype(name, x, allowed)
    for axis in axes:
        check_axis(name, axis, len(x.shape))
        if not x.shape[axis]:
            raise ShapeError(f"{name}: x {x.shape} has no elements along axis {axis}: at least one is needed.")
    if norm not in NORMS:
        raise ValueError(f"{name}: norm {norm!r} must be 'backward', 'ortho' or 'forward'.")


def _cost(node: Node) -> Cost:
    return Cost(5 * node.size * max(1, node.size.bit_length()), traffic(node))


# ---- fft: (axes, inverse, norm)


def _fft_rule(x: Node, axes: tuple[int, ...], inverse: bool, norm: str) -> tuple[Shape, Format]:
    _check("fft", x, COMPLEX, axes, norm)
    return x.shape, x.dtype


def _fft(x: np.ndarray, axes: tuple[int, ...], inverse: bool, norm: Any) -> np.ndarray:
    if not x.size:
        return x
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm).astype(x.dtype, copy=False)


# ---- rfft, irfft: (axis, norm); n: number of real elements


def _rfft_rule(x: Node, axis: int, norm: str) -> tuple[Shape, Format]:
    _check("rfft", x, REAL, (axis,), norm)
    return (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1:]), complex_format(x.dtype)


def _rfft(x: np.ndarray, axis: int, norm: Any) -> np.ndarray:
    return np.fft.rfft(x, axis=axis, norm=norm).astype(np.result_type(x.dtype, np.complex64), copy=False)


def _rfft_vjp(g: Node, out: Node, x: Node, axis: int, norm: str) -> tuple[Node]:
    rest = tuple(x.shape[d] - n if d == axis else 0 for d, n in enumerate(g.shape))
    whole = call.pad(g, low=(0,) * len(rest), high=rest, value=0)
    return (call.real(call.fft(whole, axes=(axis,), inverse=False, norm=norm)),)


def _irfft_rule(x: Node, axis: int, n: int, norm: str) -> tuple[Shape, Format]:
    _check("irfft", x, COMPLEX, (axis,), norm)
    if n < 1 or x.shape[axis] != n // 2 + 1:
        raise ShapeError(f"irfft: x {x.shape} has {x.shape[axis]} elements along axis {axis}, but n={n} needs {n // 2 + 1}.")
    return (*x.shape[:axis], n, *x.shape[axis + 1:]), x.dtype.part


def _irfft(x: np.ndarray, axis: int, n: int, norm: Any) -> np.ndarray:
    return np.fft.irfft(x, n, axis=axis, norm=norm).astype(x.real.dtype, copy=False)


def _irfft_vjp(g: Node, out: Node, x: Node, axis: int, n: int, norm: str) -> tuple[Node]:
    count = n // 2 + 1
    place = call.iota(shape=(count,), dtype=INT64, axis=0)
    once = call.equal(place, number(0, place))
    if n % 2 == 0:
        once = call.logical_or(once, call.equal(place, number(n // 2, place)))
    times = call.where(once, number(1, x), number(2, x))
    times = reshape(times, tuple(count if d == axis else 1 for d in range(len(x.shape))))
    return (call.multiply(call.conj(call.rfft(g, axis=axis, norm=INVERSE_NORMS[norm])), times),)


def _entry(name: str, rule: Any, reference: Any, vjp: Any, batch: Any) -> None:
    register(Primitive(name, "host", rule, reference, None, vjp, batch, _cost))


_entry("fft", _fft_rule, _fft, lambda g, out, x, **params: (call.fft(g, **params),), batch_in_front("fft"))
_entry("rfft", _rfft_rule, _rfft, _rfft_vjp, batch_in_front("rfft"))
_entry("irfft", _irfft_rule, _irfft, _irfft_vjp, batch_in_front("irfft"))

"""wf.fft beside numpy.fft: every name, lengths, axes, ways to divide; and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests import oracle
from weft.errors import AxisError, DTypeError, ShapeError

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
NORMS = (None, "ortho", "forward")


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    r = oracle.rng()
    return np.asarray(r.normal(size=shape) + (1j * r.normal(size=shape) if dtype[0] == "c" else 0), dtype)


def close(got: Any, want: np.ndarray) -> None:
    got = np.asarray(got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    eps = 64 * np.finfo(want.dtype).eps
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps * float(np.max(np.abs(want), initial=1)))


def real_only(name: str) -> bool:
    return name.startswith(("rfft", "ihfft"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ONE)
def test_one_axis(name: str, dtype: str) -> None:
    if real_only(name) and dtype[0] == "c":
        with pytest.raises(DTypeError, match=f"{name}: a is {dtype}, but must be real"):
            getattr(wf.fft, name)(wf.array(data((3,), dtype)))
        return
    for shape, n, axis, norm in itertools.product([(5,), (2, 8), (3, 1, 4), (0, 4)], (None, 3, 8), (-1, 0), NORMS):
        if not shape[axis] or (0 in shape and n is not None) or (n is None and shape[axis] == 1 and name in ("irfft", "hfft")):
            continue
        x = data(shape, dtype)
        close(getattr(wf.fft, name)(wf.array(x), n, axis, norm), getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", MANY)
def test_several_axes(name: str, dtype: str) -> None:
    if real_only(name) and dtype[0] == "c":
        return
    for s, axes, norm in itertools.product((None, (3, 6), (4, -1)), ((-2, -1), (1, 0)), NORMS):
        x = data((2, 5, 4), dtype)
        close(getattr(wf.fft, name)(wf.array(x), s, axes, norm), getattr(np.fft, name)(x, s, axes, norm))
    if name[-1] == "n":
        x = data((2, 3, 4), dtype)
        close(getattr(wf.fft, name)(wf.array(x)), getattr(np.fft, name)(x))
        close(getattr(wf.fft, name)(wf.array(x), (3, 5)), getattr(np.fft, name)(x, (3, 5), (-2, -1)))


def test_frequencies_and_shifts() -> None:
    for n in (1, 2, 5, 8):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(wf.fft, name)(n, d=0.3)
            assert found.dtype == wf.float32
            np.testing.assert_allclose(found, getattr(np.fft, name)(n, d=0.3), rtol=1e-6)
            assert getattr(wf.fft, name)(n, dtype=wf.float64).tolist() == getattr(np.fft, name)(n).tolist()
    for shape, axes in (((5,), None), ((4, 3), None), ((4, 3), 1), ((4, 3, 2), (0, -1)), ((0, 3), None)):
        x = data(shape, "float32")
        for name in ("fftshift", "ifftshift"):
            np.testing.assert_array_equal(getattr(wf.fft, name)(wf.array(x), axes), getattr(np.fft, name)(x, axes))
    assert wf.fft.fftshift(wf.array(2.0)).item() == 2


def test_other_dtypes_and_out() -> None:
    assert wf.fft.fft(wf.arange(4)).dtype == wf.fft.fft(wf.ones(4, dtype="bfloat16")).dtype == wf.complex64
    assert wf.fft.irfft(wf.array([True, False])).dtype == wf.float32
    out = wf.zeros(4, dtype="complex64")
    assert wf.fft.fft(wf.arange(4), out=out) is out and out[0] == 6
    assert set(np.fft.__all__) == set(wf.fft.__all__) and len(wf.fft.__all__) == 18


def test_transforms() -> None:
    x = data((3, 8), "float64")
    a = wf.array(x)
    for f, g in ((wf.fft.rfft, np.fft.rfft), (wf.fft.fft, np.fft.fft), (lambda v: wf.fft.irfft(wf.fft.rfft(v) * 1j), None)):
        want = np.fft.irfft(np.fft.rfft(x) * 1j) if g is None else g(x)
        close(wf.vmap(f)(a), want)
        close(wf.jit(f)(a), want)
    low = wf.jit(wf.grad(lambda v: (wf.fft.irfft(wf.fft.rfft(v)[..., :3], 8) ** 2).sum()))(a)
    close(low, 2 * np.fft.irfft(np.fft.rfft(x)[..., :3], 8))  # a projection: its square's gradient is twice itself


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "nothing": (lambda: wf.fft.fft(wf.zeros(0)), ShapeError, "fft: a transform of n=0 elements along axis 0"),
    "n": (lambda: wf.fft.rfft(wf.ones(3), 0), ShapeError, "rfft: a transform of n=0 elements"),
    "negative": (lambda: wf.fft.ifft(wf.ones(3), -2), ShapeError, "ifft: a transform of n=-2 elements"),
    "one half": (lambda: wf.fft.irfft(wf.ones(1)), ShapeError, "irfft: a transform of n=0 elements"),
    "axis": (lambda: wf.fft.fft(wf.ones(3), axis=1), AxisError, "fft: axes=1, but the array has axes -1 to 0"),
    "number": (lambda: wf.fft.fft(wf.array(1.0)), AxisError, "fft: axes=-1, but the array has no axes"),
    "norm": (lambda: wf.fft.fft(wf.ones(3), norm="both"), ValueError, "fft: norm='both' must be 'backward', 'ortho'"),
    "lengths": (lambda: wf.fft.fftn(wf.ones((3, 3)), (2,), (0, 1)), ShapeError, r"fftn: s=\(2,\) and axes=\(0, 1\) must have"),
    "no axes": (lambda: wf.fft.fftn(wf.ones(3), axes=()), AxisError, "fftn: at least one axis is needed"),
    "fftfreq": (lambda: wf.fft.fftfreq(0), ShapeError, "fftfreq: n=0 must be positive"),
    "dtype": (lambda: wf.fft.rfftfreq(4, dtype="int32"), DTypeError, "rfftfreq: dtype=int32 cannot hold frequencies"),
    "device": (lambda: wf.fft.fftfreq(4, device="tpu"), ValueError, "fftfreq: no device 'tpu'"),
    "shift": (lambda: wf.fft.fftshift(wf.ones(3), 1), AxisError, "fftshift: axes=1"),
    "out": (lambda: wf.fft.fft(wf.ones(3), out=wf.zeros(3)), DTypeError, "fft: out has dtype float32, which cannot hold"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, pattern = ERRORS[name]
    with pytest.raises(error, match=pattern):
        wf.eval(call())

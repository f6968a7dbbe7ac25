"""Calls drawn at random against NumPy: functions by name, over dtypes (complex ones among them), shapes and options.

Whatever NumPy answers weft answers with the same numbers, and what NumPy refuses weft refuses; what differs on purpose is listed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf

DTYPES = ("bool", "uint8", "int64", "uint64", "float32", "float64", "complex64", "complex128")
CASTINGS = ("unsafe", "same_kind", "safe", "no")
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError)
ONE = """abs absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh deg2rad degrees exp exp2 expm1 fabs fix
    floor invert isfinite isinf isnan log log10 log1p log2 logical_not negative positive rad2deg radians reciprocal rint sign
    signbit sin sinh spacing sqrt square tan tanh trunc bitwise_count isneginf isposinf isreal iscomplex real imag angle round
    frexp modf sinc i0 nan_to_num""".split()
TWO = """add arctan2 bitwise_and bitwise_or bitwise_xor copysign divide equal float_power floor_divide fmax fmin fmod gcd greater
    greater_equal heaviside hypot lcm ldexp left_shift less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor
    maximum minimum mod multiply nextafter not_equal power remainder right_shift subtract true_divide divmod isclose
    """.split()
Call = Callable[..., Any]
# v: a vector, m: a matrix, s: a square one, a: any shape
VECTORS: dict[str, tuple[str, Call]] = {
    "convolve": ("vv", lambda xp, k, a, b: xp.convolve(a, b, ("full", "same", "valid")[k % 3])),
    "correlate": ("vv", lambda xp, k, a, b: xp.correlate(a, b, ("full", "same", "valid")[k % 3])),
    "polyadd": ("vv", lambda xp, k, a, b: xp.polyadd(a, b)),
    "polysub": ("vv", lambda xp, k, a, b: xp.polysub(a, b)),
    "polydiv": ("vv", lambda xp, k, a, b: xp.polydiv(a, xp.append(xp.asarray([1.0], dtype="float32"), b))),
    "polyval": ("va", lambda xp, k, a, b: xp.polyval(a, b)),
    "polyder": ("v", lambda xp, k, a: xp.polyder(a, k % 3)),
    "polyint": ("v", lambda xp, k, a: xp.polyint(a, k % 3)),
    "polyfit": ("v", lambda xp, k, a: xp.polyfit(np.arange(a.shape[0], dtype="float32"), a, 1)),
    "poly": ("v", lambda xp, k, a: xp.poly(a)),
    "poly of a matrix": ("s", lambda xp, k, a: xp.poly(a)),
    "vander": ("v", lambda xp, k, a: xp.vander(a, 3, increasing=k % 2 == 0)),
    "cov": ("m", lambda xp, k, a: xp.cov(a, rowvar=k % 2 == 0, bias=k % 3 == 0)),
    "cov of two": ("vv", lambda xp, k, a, b: xp.cov(a[:2], b[:2])),
    "corrcoef": ("m", lambda xp, k, a: xp.corrcoef(a)),
    "average": ("m", lambda xp, k, a: xp.average(a, axis=k % 2)),
    "average, weights": ("mm", lambda xp, k, a, b: xp.average(a, weights=b, axis=None, returned=k % 2 == 0)),
    "round": ("a", lambda xp, k, a: xp.round(a, k % 5 - 2)),
    "kron": ("mm", lambda xp, k, a, b: xp.kron(a, b)),
    "cross": ("mm", lambda xp, k, a, b: xp.cross(a[:, :3], b[:, 1:])),
    "matvec": ("mv", lambda xp, k, a, b: xp.matvec(a, xp.resize(b, 4))),
    "vecmat": ("vm", lambda xp, k, a, b: xp.vecmat(xp.resize(a, 3), b)),
    "vecdot": ("mm", lambda xp, k, a, b: xp.vecdot(a, b)),
    "vdot": ("mm", lambda xp, k, a, b: xp.vdot(a, b)),
    "tensordot": ("mm", lambda xp, k, a, b: xp.tensordot(a, b, k % 3 and ([k % 2], [k % 2]))),
    "trapezoid": ("m", lambda xp, k, a: xp.trapezoid(a, axis=k % 2)),
    "gradient": ("m", lambda xp, k, a: xp.gradient(a, axis=k % 2)),
    "diff": ("m", lambda xp, k, a: xp.diff(a, k % 3)),
    "ediff1d": ("a", lambda xp, k, a: xp.ediff1d(a)),
    "interp": ("av", lambda xp, k, a, b: xp.interp(a, [0.0, 1.0, 2.0], xp.resize(b, 3))),
    "linspace": ("aa", lambda xp, k, a, b: xp.linspace(xp.sum(a), xp.sum(b) + 1, 4, k % 2 == 0)),
    "logspace": ("vv", lambda xp, k, a, b: xp.logspace(a[0], b[0], 3, k % 2 == 0, 2.0)),
    "geomspace": ("vv", lambda xp, k, a, b: xp.geomspace(a[0] + 4, b[0] + 5, 3, k % 2 == 0)),
    "histogram": ("v", lambda xp, k, a: xp.histogram(xp.asarray([0.0, 0.5, 1.0]), 2, weights=xp.resize(a, 3))[0]),
    "clip": ("a", lambda xp, k, a: xp.clip(a, 0, 2)),
    "unwrap": ("v", lambda xp, k, a: xp.unwrap(a)),
    "sort": ("a", lambda xp, k, a: xp.sort(a, axis=None)),
    "array_equal": ("aa", lambda xp, k, a, b: xp.array_equal(a, b, equal_nan=k % 2 == 0)),
    "concatenate": ("vv", lambda xp, k, a, b: xp.concatenate([a, b], dtype=DTYPES[k % 8], casting=CASTINGS[k % 4])),
    "stack": ("a", lambda xp, k, a: xp.stack([a, a], dtype=DTYPES[k % 8], casting=CASTINGS[k % 4])),
    "setdiff1d": ("vv", lambda xp, k, a, b: xp.setdiff1d(a, b)),
    "union1d": ("vv", lambda xp, k, a, b: xp.union1d(a, b)),
    "intersect1d": ("vv", lambda xp, k, a, b: xp.intersect1d(a, b)),
    "isin": ("av", lambda xp, k, a, b: xp.isin(a, b)),
    "norm": ("m", lambda xp, k, a: xp.linalg.norm(a, (None, 1, 2, np.inf, "fro")[k % 5])),
}
# operands for which weft's answer is another on purpose
PURPOSE: dict[str, tuple[Callable[[np.ndarray], bool], ...]] = {
    "reciprocal": (lambda x: x.dtype.kind in "iu" and not x.all(),),  # an integer divided by zero
    "unwrap": (lambda x: x.dtype.kind == "u",),  # NumPy's differences of unsigned numbers wrap round
}


def content(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    found = rng.integers(0 if dtype[0] in "bu" else -3, 4, shape)
    if dtype[0] == "c":
        return np.asarray(found + 1j * rng.integers(-3, 4, shape)).astype(dtype)
    return np.asarray(found + (rng.integers(0, 4, shape) / 4 if dtype[0] == "f" else 0)).astype(dtype)


def outcome(f: Call) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = f()
        except REFUSALS as error:
            return error
    return tuple(np.asarray(x) for x in found) if isinstance(found, tuple | list) else np.asarray(found)


def same(got: Any, want: Any, context: Any) -> None:
    if "would lose its imaginary part" in str(got):
        return  # which NumPy drops with a warning
    if isinstance(got, Exception) or isinstance(want, Exception):
        assert isinstance(got, Exception) and isinstance(want, Exception), (context, got, want)
        return
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want), (context, got, want)
        for g, w in zip(got, want, strict=True):
            same(g, w, context)
        return
    if got.dtype == ml_dtypes.bfloat16:
        got = got.astype(np.float32)
    assert (got.dtype.kind, got.shape) == (want.dtype.kind, want.shape), (context, got, want)
    coarse = np.float16 in (got.dtype, want.dtype)  # which NumPy makes of 8 bits, and weft float32
    rtol = 4e-3 if coarse else 2e-5
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol, err_msg=str((context, got, want)))


def shape_of(rng: np.random.Generator, kind: str) -> tuple[int, ...]:
    return {"v": (int(rng.integers(1, 6)),), "m": (3, 4), "s": (3, 3), "a": ((), (5,), (2, 3), (1,))[rng.integers(4)]}[kind]


@pytest.mark.parametrize("name", VECTORS)
def test_functions(name: str, rng: np.random.Generator) -> None:
    kinds, f = VECTORS[name]
    for k in range(70):
        given = [content(rng, shape_of(rng, kind), DTYPES[rng.integers(len(DTYPES))]) for kind in kinds]
        want = outcome(lambda k=k, given=given: f(np, k, *given))
        got = outcome(lambda k=k, given=given: f(wf, k, *map(wf.array, given)))
        if isinstance(want, ZeroDivisionError) or any(w(x) for x in given for w in PURPOSE.get(name, ())):
            continue  # weights that sum to zero are not looked at
        same(got, want, (name, k, [(x.dtype, x.tolist()) for x in given]))


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_of_elements(name: str, rng: np.random.Generator) -> None:
    for first in DTYPES:
        for second in DTYPES if name in TWO else DTYPES[:1]:
            x, y = content(rng, (6,), first), content(rng, (6,), second)
            given = (x, y) if name in TWO else (x,)
            if any(w(v) for v in given for w in PURPOSE.get(name, ())):
                continue
            want = outcome(lambda given=given: getattr(np, name)(*given))
            got = outcome(lambda given=given: getattr(wf, name)(*map(wf.array, given)))
            same(got, want, (name, [(v.dtype, v.tolist()) for v in given]))


@pytest.mark.parametrize("name", """add subtract multiply divide hypot nextafter sqrt negative power less arctan2 floor_divide gcd
    isnan exp logical_and float_power""".split())
def test_out_and_where_and_casting(name: str, rng: np.random.Generator) -> None:
    """With ``out=`` an integer's root is a float64 where NumPy's is; what cannot be held is refused, with ``where=`` too."""
    arity, exact = getattr(np, name).nin, 0
    for k in range(120):
        given = [content(rng, (6,), DTYPES[rng.integers(2, 4 if k < 9 else len(DTYPES))]) for _ in range(arity)]
        into = "float64" if k < 9 else DTYPES[rng.integers(len(DTYPES))]
        options: dict[str, Any] = {}
        if rng.random() < 0.5:
            options["where"] = rng.random(6) < 0.7
        if rng.random() < 0.2:
            options["casting"] = ("unsafe", "same_kind")[rng.integers(2)]
        want, got, through = np.full(6, 1, into), wf.full(6, 1, dtype=into), wf.full(6, 1, dtype=into)
        theirs = outcome(lambda given=given, want=want, options=options: getattr(np, name)(*given, out=want, **options))
        ours = outcome(lambda given=given, got=got, options=options: getattr(wf, name)(*map(wf.array, given), out=got, **options))
        context = (name, [(x.dtype, x.tolist()) for x in given], into, options)
        if isinstance(theirs, Exception) and options.get("casting") == "unsafe":
            continue  # NumPy looks for loops
        same(ours, theirs, context)
        if isinstance(ours, Exception):
            assert (got.numpy() == 1).all(), context
            continue
        if "would lose" not in str(ours) and into == "float64" and all(x.dtype.kind in "biu" for x in given):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, err_msg=str(context))
            exact += 1
            getattr(np, name)(*map(wf.array, given), out=through, **options)
            np.testing.assert_allclose(through.numpy(), got.numpy(), rtol=1e-13, err_msg=str(context))
    assert exact


@pytest.mark.parametrize("mode", "constant edge linear_ramp maximum mean median minimum reflect symmetric wrap".split())
def test_padding(mode: str, rng: np.random.Generator) -> None:
    for _ in range(60):
        x = content(rng, ((5,), (2, 3), (1,), (2, 1, 4), (0, 2))[rng.integers(5)], DTYPES[rng.integers(len(DTYPES))])
        widths = [2, (1, 3), [tuple(p) for p in rng.integers(0, 4, (x.ndim, 2)).tolist()], 0][rng.integers(4)]
        options: dict[str, Any] = {}
        if mode in ("constant", "linear_ramp") and rng.random() < 0.7:
            values = [7, (3, 1), rng.integers(0, 5, (x.ndim, 2)).tolist()][rng.integers(3)]
            options["constant_values" if mode == "constant" else "end_values"] = values
        if mode in ("maximum", "mean", "median", "minimum") and rng.random() < 0.5:
            options["stat_length"] = [1, (2, 3), rng.integers(1, 4, (x.ndim, 2)).tolist()][rng.integers(3)]
        want = outcome(lambda x=x, widths=widths, options=options: np.pad(x, widths, mode, **options))
        got = outcome(lambda x=x, widths=widths, options=options: wf.pad(wf.array(x), widths, mode, **options))
        same(got, want, (mode, x.dtype, x.tolist(), widths, options))


def test_places_out_of_range_are_value_errors(rng: np.random.Generator) -> None:
    """Of lists and of arrays that are computed, at once; of pending ones it is an IndexError, when they are read."""
    for _ in range(60):
        shape = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
        flat = rng.integers(-1, int(np.prod(shape)) + 1, rng.integers(0, 3))
        many = [rng.integers(-1 if rng.random() < 0.2 else 0, n + (rng.random() < 0.2), 2) for n in shape]
        for make in (wf.array, np.ndarray.tolist):
            if not flat.size and make is not wf.array:
                continue
            for f, given in (("unravel_index", flat), ("ravel_multi_index", many)):
                ours, theirs = (make(given), given) if f == "unravel_index" else (tuple(map(make, given)), tuple(given))
                want = outcome(lambda f=f, theirs=theirs, shape=shape: getattr(np, f)(theirs, shape))
                got = outcome(lambda f=f, ours=ours, shape=shape: getattr(wf, f)(ours, shape))
                same(got, want, (f, given, shape))
                assert not isinstance(want, Exception) or isinstance(got, ValueError), (f, given, shape)


SLOPES: dict[str, Call] = {
    "frexp": lambda xp, x: xp.frexp(x)[0], "modf": lambda xp, x: xp.modf(x)[0], "ldexp": lambda xp, x: xp.ldexp(x, [3, -2, 0, 1]),
    "float_power": lambda xp, x: xp.float_power(x, 2.5), "fmax": lambda xp, x: xp.fmax(x, 1.1), "cbrt": lambda xp, x: xp.cbrt(x),
    "degrees": lambda xp, x: xp.degrees(x), "heaviside": lambda xp, x: xp.heaviside(x, 1.0),
    "fmod": lambda xp, x: xp.fmod(x, 0.7),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_elements(name: str, rng: np.random.Generator) -> None:
    x = rng.uniform(0.6, 0.9, 4) * [1, 2, 4, 8]
    ends = [SLOPES[name](np, x + step) for step in (1e-7, -1e-7)]
    found = wf.grad(lambda v: SLOPES[name](wf, v).sum())(wf.array(x))
    np.testing.assert_allclose(found.numpy(), (ends[0] - ends[1]) / 2e-7, rtol=1e-5, atol=1e-5)

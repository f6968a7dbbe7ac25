"""Names and keywords of NumPy beside the common ones, drawn at random beside NumPy: weights, gufuncs, windows, poly1d, emath."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib import stride_tricks as theirs
from scipy.optimize import linear_sum_assignment

import weft as wf
from weft.errors import TraceError

OURS = wf.lib.stride_tricks


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


def same(found: Any, want: Any, rtol: float = 1e-5) -> None:
    found, want = np.asarray(found), np.asarray(want)
    assert (found.shape, found.dtype.kind) == (want.shape, want.dtype.kind), (found, want)
    np.testing.assert_allclose(found, want, rtol=rtol, atol=1e-6)


def spread(weights: np.ndarray, shape: tuple[int, ...], axis: Any) -> np.ndarray:
    """Weights of some axes as those of all."""
    if weights.shape == shape:
        return weights
    axes = np.atleast_1d(axis) % len(shape)
    turned = weights.transpose(np.argsort(axes))
    return np.broadcast_to(turned.reshape([n if k in axes else 1 for k, n in enumerate(shape)]), shape)


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float64"])
def test_quantiles_by_weights(rng: np.random.Generator, name: str, dtype: str) -> None:
    for _ in range(6):
        a = (9 * rng.normal(size=rng.integers(1, 5, 3))).astype(dtype)
        if dtype[0] == "f" and rng.random() < 0.5:
            a.flat[rng.integers(a.size)] = np.nan
        axis = [None, 0, -1, (0, 1), (2, 0)][rng.integers(5)]
        shape = a.shape if axis is None or rng.random() < 0.5 else tuple(a.shape[k] for k in np.atleast_1d(axis))
        weights = rng.integers(0, 4, shape) + (0.5 if rng.random() < 0.5 else 0)
        weights.flat[-1] += 1
        q = [0.0, 0.3, [0.0, 0.5, 1.0], [[0.2], [0.9]]][rng.integers(4)]
        q = np.multiply(q, 100 if "percent" in name else 1)
        options = {"axis": axis, "weights": weights, "method": "inverted_cdf", "keepdims": bool(rng.integers(2))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                whole = spread(weights, a.shape, axis) if "nan" in name else weights  # NumPy's nanquantile takes no others
                want = getattr(np, name)(a, q, **{**options, "weights": whole})
            except ValueError as error:  # all weights of a slice are zero
                assert "Weights included" in str(error)
                with pytest.raises(ValueError, match="weights sum to"):
                    getattr(wf, name)(wf.array(a), q, **options)
                continue
        same(getattr(wf, name)(wf.array(a), q, **options), want)


def test_weights_of_several_axes(rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 4, 2)).astype("float32")
    for axis in ((0, 1), (1, 0), (2, 0), 1, (0, 1, 2)):
        weights = rng.random(tuple(a.shape[k] for k in np.atleast_1d(axis))).astype("float32")
        same(wf.average(wf.array(a), axis=axis, weights=weights), np.average(a, axis=axis, weights=weights))


@pytest.mark.parametrize("name", ["std", "var", "nanstd", "nanvar"])
def test_deviations_from_a_known_mean(rng: np.random.Generator, name: str) -> None:
    a = rng.normal(size=(4, 5)).astype("float32")
    for axis in (None, 0, 1, (0, 1)):
        mean = a.mean(axis=axis, keepdims=True)
        for given in (mean, mean + 1):
            want = getattr(np, name)(a, axis=axis, mean=given, ddof=1)
            same(getattr(wf, name)(wf.array(a), axis=axis, mean=wf.array(given), ddof=1), want)


@pytest.mark.parametrize(("name", "shapes"), [
    ("matmul", ((2, 3), (3, 4))), ("vecdot", ((3,), (3,))), ("matvec", ((2, 3), (3,))), ("vecmat", ((3,), (3, 2))),
])
def test_axes_of_products(rng: np.random.Generator, name: str, shapes: Any) -> None:
    for _ in range(8):
        more = rng.integers(1, 3)
        operands, axes = [], []
        for own in shapes:
            at = tuple(rng.permutation(len(own) + more)[:len(own)].tolist())
            x = rng.normal(size=(*(2 for _ in range(more)), *own)).astype("float32")
            operands.append(np.moveaxis(x, range(-len(own), 0), at))
            axes.append(tuple(a - (len(own) + more) * int(rng.integers(2)) for a in at))
        ndim = getattr(np, name)(*operands, axes=[*axes, {"matmul": (-2, -1), "vecdot": ()}.get(name, (-1,))]).ndim
        count = {"matmul": 2, "vecdot": 0}.get(name, 1)
        axes.append(tuple(rng.permutation(ndim)[:count].tolist()))
        options = {"axes": axes, "dtype": ["float32", "float64", None][rng.integers(3)]}
        want = getattr(np, name)(*operands, **options)
        found = getattr(wf, name)(*map(wf.array, operands), **options)
        assert found.dtype == want.dtype
        same(found, want)
        out = wf.zeros(want.shape, dtype="float64")
        assert getattr(wf, name)(*map(wf.array, operands), out=out, axes=axes) is out
        same(out, want)
    x = rng.normal(size=(3, 3)).astype("float32")
    if name == "vecdot":
        for options in ({"axis": 0}, {"axis": 0, "keepdims": True}, {"axis": -1, "keepdims": True}, {"axis": 1}):
            same(wf.vecdot(wf.array(x), wf.array(x), **options), np.vecdot(x, x, **options))


def test_windows(rng: np.random.Generator) -> None:
    for _ in range(20):
        x = rng.normal(size=rng.integers(2, 5, rng.integers(1, 4))).astype("float32")
        axes = rng.integers(-x.ndim, x.ndim, rng.integers(1, 3)).tolist()
        window = [int(rng.integers(1, 3)) if x.shape[a] > 2 else 1 for a in axes]
        if rng.random() < 0.3:
            axes, window = None, rng.integers(1, 3, x.ndim).tolist()
        same(OURS.sliding_window_view(wf.array(x), tuple(window), axes), theirs.sliding_window_view(x, tuple(window), axes))
    x = wf.array(rng.normal(size=(5, 4)).astype("float32"))
    kernel = wf.ones((2, 2))
    slope = wf.grad(lambda x: (OURS.sliding_window_view(x, (2, 2)) * kernel).sum())(x)
    same(slope, np.outer([1, 2, 2, 2, 1], [1, 2, 2, 1]).astype("float32"))


def test_strides_of_ones_own(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 6)).astype("float32")
    for view in (lambda v: v, lambda v: v[1:, ::2], lambda v: v.T, lambda v: v[::-1, 1:], lambda v: v.reshape(8, 3)[2:]):
        base, y = wf.array(x), view(wf.array(x))
        assert base.shape == x.shape
        for shape, strides in (((2, 2), (8, 4)), ((3,), (4,)), ((2, 1, 2), (0, 4, 8)), ((), ())):
            same(OURS.as_strided(y, shape, strides), theirs.as_strided(view(x), shape, strides))
        same(OURS.as_strided(y), view(x))
    with pytest.raises(ValueError, match="reads elements 0 to 30 of 24"):
        OURS.as_strided(wf.array(x), (2,), (120,))


def test_by_signature(rng: np.random.Generator) -> None:
    def outer(a: Any, b: Any) -> Any:
        return a.reshape(-1, 1) * b, (a * a).sum()

    cases: list[tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
        ("(m,n),(n)->(m)", lambda a, b: a @ b, ((3, 1, 2, 4), (2, 4))), ("(n)->()", lambda a: a.sum(), ((2, 3),)),
        ("(n),(m)->(n,m),()", outer, ((2, 3), (4,))), ("(),()->()", lambda a, b: a + b, ((2, 1), (3,))),
        (" ( n ) , ( n ) -> ( n ) ", lambda a, b: a - b, ((4,), (4,))),
    ]
    for signature, f, shapes in cases:
        given = [rng.normal(size=s).astype("float32") for s in shapes]
        want = np.vectorize(f, signature=signature)(*given)
        found = wf.vectorize(f, signature=signature)(*map(wf.array, given))
        pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for g, w in pairs:
            same(g, w)
    none = wf.vectorize(lambda a: a.sum(), otypes=["float32"], signature="(n)->()")(wf.zeros((0, 3)))
    assert (none.shape, none.dtype) == ((0,), np.float32)
    kept = wf.vectorize(lambda a, k: a + k, signature="(n)->(n)", excluded={1})(wf.ones((2, 3)), 2)
    assert kept.tolist() == [[3.0] * 3] * 2


def test_zeros_of_polynomials(rng: np.random.Generator) -> None:
    for _ in range(20):
        p = rng.integers(-3, 4, rng.integers(0, 6)).astype(["float32", "float64", "int64", "complex64"][rng.integers(4)])
        want, found = np.roots(p), wf.roots(wf.array(p))
        assert (found.shape, found.dtype.kind) == (want.shape, want.dtype.kind)
        pairs = linear_sum_assignment(np.abs(np.asarray(found)[:, None] - want))  # whose order rounding decides
        np.testing.assert_allclose(np.asarray(found)[pairs[0]], want[pairs[1]], atol=1e-5)
        same(wf.poly(wf.array(np.array([1 + 2j, 1 - 2j, 3]))), np.poly(np.array([1 + 2j, 1 - 2j, 3])))
    with pytest.raises(TraceError):
        wf.jit(wf.roots)(wf.ones(3))


@pytest.mark.parametrize("name", ["add", "radd", "mul", "sub", "rsub", "div", "pow", "call", "inside", "deriv", "integ", "neg",
    "text", "roots", "item", "set", "times", "over", "equal", "fresh"])
def test_polynomials_as_objects(rng: np.random.Generator, name: str) -> None:
    program: Callable[[Any, Any, Any], Any] = {
        "add": lambda xp, p, q: (p + q).coeffs, "radd": lambda xp, p, q: ([1, 2] + p).coeffs, "mul": lambda xp, p, q: (p * q).c,
        "sub": lambda xp, p, q: (p - q).coef, "rsub": lambda xp, p, q: (3 - p).coefficients,
        "div": lambda xp, p, q: tuple(r.coeffs for r in p / q), "pow": lambda xp, p, q: (p ** 3).coeffs,
        "call": lambda xp, p, q: p(xp.array([0.5, 2.0], dtype="float32")), "inside": lambda xp, p, q: p(q).coeffs,
        "deriv": lambda xp, p, q: p.deriv(2).coeffs, "integ": lambda xp, p, q: p.integ(2, [1, 2]).coeffs,
        "neg": lambda xp, p, q: (-p).coeffs, "text": lambda xp, p, q: (str(p), len(p), p.order),
        "roots": lambda xp, p, q: xp.sort_complex(p.r), "item": lambda xp, p, q: [float(p[k]) for k in (0, 1, 7)],
        "set": lambda xp, p, q: (p.__setitem__(4, 2), p.coeffs)[1], "times": lambda xp, p, q: (2 * p).coeffs,
        "over": lambda xp, p, q: (p / 2).coeffs, "equal": lambda xp, p, q: (p == q, p != q, p == p),
        "fresh": lambda xp, p, q: xp.poly1d([2.0, 3.0], True, "z").coeffs,
    }[name]
    for _ in range(4):
        first, second = (rng.integers(-3, 4, rng.integers(1, 5)).astype("float64") for _ in range(2))
        second[0] = 2
        want, found = (program(xp, xp.poly1d(first), xp.poly1d(second)) for xp in (np, wf))
        if name in ("text", "equal"):
            assert found == want
            continue
        for g, w in zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]:
            np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*wf.emath.__all__])
def test_functions_that_become_complex(rng: np.random.Generator, name: str) -> None:
    for k in range(12):
        x = [
            rng.normal(size=3), np.abs(rng.normal(size=(2, 2))) % 1, rng.integers(-3, 4, 3), np.array(-4.0), np.array([0.5, 1j]),
        ][k % 5]
        x = np.where(x == 0, x.dtype.type(1), x)
        args = (x,) if name not in ("logn", "power") else (3, x) if name == "logn" else (x, [2, -1, 0.5][k % 3])
        with np.errstate(all="ignore"):
            want = getattr(np.emath, name)(*args)
        same(getattr(wf.emath, name)(*(wf.array(a) if isinstance(a, np.ndarray) else a for a in args)), want)
    with pytest.raises(TraceError):
        wf.jit(getattr(wf.emath, name))(*[wf.ones(3)] * (2 if name in ("logn", "power") else 1))


def test_complex_numbers_that_are_real() -> None:
    for dtype in ("complex64", "complex128"):
        eps = np.finfo(dtype).eps
        for tol in (100, 1e-3, 1):
            for size in (0, 10, 1e3, 1e6):
                x = np.array([1 + size * eps * 1j, 2], dtype)
                same(wf.real_if_close(wf.array(x), tol), np.real_if_close(x, tol))
    for x in ([3, 1, 2], [2j, 1, 1 + 1j], np.arange(4, dtype="int8")[::-1], [[3.0, 1.0], [2.0, np.nan]]):
        same(wf.sort_complex(x), np.sort_complex(x))
    assert wf.sort_complex(wf.arange(3, dtype="int16")).dtype == np.sort_complex(np.arange(3, dtype="int16")).dtype


def test_codes_of_dtypes() -> None:
    assert wf.mintypecode(["d", wf.complex64, wf.ones(2)]) == np.mintypecode(["d", "F", "f"]) == "D"
    for dtypes in (("float32",), ("float32", "float64"), ("int64", "float64"), ("complex64", "float64"), ("float16",)):
        assert wf.common_type(*(wf.ones(2, dtype=d) for d in dtypes)) == np.common_type(*(np.ones(2, d) for d in dtypes))
    assert wf.common_type(wf.arange(2)) == wf.float32
    assert all(isinstance(x, wf.ScalarType) for x in (3, np.float32(1), wf.ones(2).sum()))
    assert not isinstance("a", wf.ScalarType) and wf.typecodes["AllInteger"] == np.typecodes["AllInteger"]
    assert set(wf.typecodes["AllFloat"]) == set("efdFD") and wf.sctypeDict["float32"] is np.float32 and "str" not in wf.sctypeDict
    assert wf.True_ and not wf.False_ and wf.typename("d") == np.typename("d")
    assert wf.issubdtype(wf.complex64, wf.complexfloating) and not wf.issubdtype(wf.float32, wf.complexfloating)


def test_classes_by_name() -> None:
    x, y = np.arange(3), np.arange(2)[:, None]
    ours, numpys = wf.broadcast(wf.array(x), y, 5), np.broadcast(x, y, 5)
    for name in ("shape", "nd", "ndim", "size", "numiter", "index"):
        assert getattr(ours, name) == getattr(numpys, name)
    assert [tuple(map(int, t)) for t in ours] == [tuple(map(int, t)) for t in numpys]
    ours.reset()
    assert next(ours) == (0, 0, 5) and [int(v) for v in ours.iters[1]] == [0, 0, 0, 1, 1, 1]
    assert isinstance(wf.add, wf.ufunc) and isinstance(np.add, wf.ufunc) and not isinstance(wf.mean, wf.ufunc)
    assert not isinstance(wf.ones(2), wf.ufunc) and isinstance(wf.ones(2).flat, wf.flatiter)


def test_methods_by_name() -> None:
    x = wf.array([[1, 2], [3, 4]], dtype="int32")
    known = x.numpy().copy()
    assert bytes(x.data) == known.tobytes() and x.data.readonly
    np.testing.assert_array_equal(pickle.loads(x.dumps()), known)
    file = io.BytesIO()
    x.dump(file)
    np.testing.assert_array_equal(pickle.loads(file.getvalue()), known)
    np.testing.assert_array_equal(x.byteswap(), known.byteswap())
    assert x.byteswap(inplace=True) is x
    np.testing.assert_array_equal(x, known.byteswap())
    y = wf.zeros(4)
    y.put(indices=[0, -1], values=[1, 2])
    assert y.tolist() == [1, 0, 0, 2]
    z = y.reshape(2, 2, copy=True)
    z[0] = 9
    assert y.tolist() == [1, 0, 0, 2] and y.astype("int8", "K", "unsafe", True, False).dtype == np.int8
    with pytest.raises(TypeError, match="astype: x is float32, not cast to int8 by casting='safe'"):
        y.astype("int8", casting="safe")


def test_generators_by_the_names_of_numpys() -> None:
    for name in ("Philox", "PCG64", "PCG64DXSM", "MT19937", "SFC64"):
        bits = getattr(wf.random, name)
        a, b = (wf.random.Generator(bits(7)).random(3) for _ in range(2))
        assert a.tolist() == b.tolist() == wf.random.default_rng(wf.random.SeedSequence(7)).random(3).tolist()
        assert a.tolist() == wf.random.default_rng(getattr(np.random, name)(7)).random(3).tolist()
        assert a.tolist() != wf.random.Generator(bits(8)).random(3).tolist()
        assert isinstance(bits(1), wf.random.BitGenerator) and len(bits(1).spawn(3)) == 3
    assert wf.random.Generator(wf.random.PCG64()).random(3).tolist() != wf.random.Generator(wf.random.PCG64()).random(3).tolist()


def test_modules_of_numpys() -> None:
    x = wf.array([1.0, 2.0])
    wf.testing.assert_allclose(x, [1, 2])
    with pytest.raises(AssertionError):
        wf.testing.assert_array_equal(x, [1, 3])
    with pytest.raises(wf.exceptions.AxisError):
        x.sum(axis=1)
    same(wf.polynomial.polynomial.polyval(x, [1.0, 1.0]), np.array([2, 3], "float32"))
    same(wf.polynomial.Polynomial([1, 2])(x), np.array([3.0, 5.0]))
    assert wf.lib.scimath is wf.emath and wf.typing.NDArray is np.typing.NDArray


def test_pairs_take_what_ufuncs_take() -> None:
    x, mask = np.array([1.5, -2.25], "float32"), np.array([True, False])
    for name, args in (("modf", (x,)), ("frexp", (x,)), ("divmod", (x, 2))):
        with_out = tuple(np.full(2, 7, d) for d in ("float32", "int32" if name == "frexp" else "float32"))
        want = getattr(np, name)(*args, out=tuple(o.copy() for o in with_out), where=mask)
        found = getattr(wf, name)(*map(wf.asarray, args), out=tuple(map(wf.array, with_out)), where=mask)
        for g, w in zip(found, want, strict=True):
            same(g, w)
        for g, w in zip(getattr(wf, name)(*args, dtype="float64"), getattr(np, name)(*args, **(
            {"dtype": "float64"} if name != "frexp" else {"signature": "d->di"})), strict=True):
            assert g.dtype == w.dtype
            same(g, w)


@pytest.mark.parametrize("function", [
    lambda xp, a: xp.repeat(a, repeats=2, axis=0), lambda xp, a: xp.pad(array=a, pad_width=((1, 0), (0, 2))),
    lambda xp, a: xp.take(a=a, indices=[0, 1], axis=1), lambda xp, a: xp.moveaxis(a, source=0, destination=1),
    lambda xp, a: xp.swapaxes(a, axis1=0, axis2=1), lambda xp, a: xp.split(ary=a, indices_or_sections=2)[1],
    lambda xp, a: xp.tile(A=a, reps=2), lambda xp, a: xp.argmax(a=a, axis=1), lambda xp, a: xp.expand_dims(a=a, axis=0),
    lambda xp, a: xp.isclose(a=a, b=a), lambda xp, a: xp.dot(a=a, b=a.T), lambda xp, a: xp.tril(m=a, k=1),
    lambda xp, a: xp.take_along_axis(arr=a, indices=xp.argsort(a=a, axis=1), axis=1), lambda xp, a: xp.diag(v=a),
    lambda xp, a: xp.broadcast_to(array=a, shape=(2, 2, 3)), lambda xp, a: xp.linalg.svd(a=a, compute_uv=False),
    lambda xp, a: xp.linalg.matrix_rank(A=a), lambda xp, a: xp.fft.fft(a=a, n=2).real, lambda xp, a: xp.unique(ar=a),
    lambda xp, a: xp.hstack(tup=(a, a), dtype="float64"), lambda xp, a: xp.isin(element=a, test_elements=[1.0]),
    lambda xp, a: xp.eye(N=2, M=3, order="F"), lambda xp, a: xp.tri(N=2, M=3), lambda xp, a: xp.copy(a=a, order="F"),
    lambda xp, a: xp.array(a, ndmax=2), lambda xp, a: xp.add(a, 1, order="C", subok=False), lambda xp, a: xp.roll(a=a, shift=1),
    lambda xp, a: xp.partition(a, 1, order=None), lambda xp, a: xp.linalg.multi_dot([a, a.T], out=None),
    lambda xp, a: xp.asanyarray(a, copy=True), lambda xp, a: xp.complex64(1, 2), lambda xp, a: xp.reshape(a, shape=(3, 2)),
])
def test_by_the_names_of_numpys_parameters(function: Callable[..., Any]) -> None:
    x = np.array([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]], "float32")
    same(function(wf, wf.array(x)), function(np, x))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3, 2)])
def test_what_qr_of_lapack_leaves(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = rng.normal(size=shape).astype("float64")
    for g, w in zip(wf.linalg.qr(wf.array(x), "raw"), np.linalg.qr(x, "raw"), strict=True):
        same(g, w)


def test_leading_zeros_and_pairs_inside_of_traces() -> None:
    p, q = wf.array([0.0, 1.0, 2.0]), wf.array([0.0, 3.0])
    assert wf.polymul(p, q).tolist() == np.polymul([0, 1, 2], [0, 3]).tolist() == [3, 6]
    assert wf.jit(wf.polymul)(p, q).tolist() == [0, 0, 3, 6]
    pairs = wf.array([1 + 2j, 1 - 2j])
    assert wf.poly(pairs).tolist() == [1, -2, 5] and wf.jit(wf.poly)(pairs).dtype == np.complex64

"""float64 as the default: all dtypes are NumPy's, in jitted functions too, and float32 is back behind it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import draw

MADE = {
    "python": lambda xp: xp.array([0.5, 1]),
    "complex": lambda xp: xp.array([1j, 2]),
    "zeros": lambda xp: xp.zeros(3),
    "ones": lambda xp: xp.ones((2, 2)),
    "empty": lambda xp: xp.empty(2),
    "full": lambda xp: xp.full(2, 0.1),
    "eye": lambda xp: xp.eye(2),
    "identity": lambda xp: xp.identity(2),
    "tri": lambda xp: xp.tri(3),
    "linspace": lambda xp: xp.linspace(0, 1, 7),
    "logspace": lambda xp: xp.logspace(0, 1, 3),
    "geomspace": lambda xp: xp.geomspace(1, 9, 3),
    "arange": lambda xp: xp.arange(0, 1, 0.1),
    "integers": lambda xp: xp.arange(5),
    "asarray": lambda xp: xp.asarray(0.1),
    "float": lambda xp: xp.zeros(2, float),
    "named": lambda xp: xp.ones(2, "float"),
    "complex dtype": lambda xp: xp.zeros(2, complex),
    "quotient": lambda xp: xp.arange(4) / 3,
    "mean": lambda xp: xp.arange(4).mean(),
    "std": lambda xp: xp.arange(4, dtype="int8").std(),
    "sqrt": lambda xp: xp.sqrt(xp.arange(4)),
    "sqrt of bytes": lambda xp: xp.sqrt(xp.arange(4, dtype="int8")),
    "sin of shorts": lambda xp: xp.sin(xp.arange(4, dtype="int16")),
    "number": lambda xp: xp.arange(4) * 0.1,
    "bool": lambda xp: (xp.arange(4) > 1) + 0.5,
    "j": lambda xp: xp.arange(4) * 1j,
    "mixed": lambda xp: xp.arange(4) + xp.ones(4, "float32"),
    "shorts": lambda xp: xp.arange(4, dtype="int16") + xp.ones(4, "float32"),
    "narrow": lambda xp: xp.ones(3, "float32") * 0.1,
    "half": lambda xp: xp.ones(3, "float16") + xp.arange(3),
    "fft": lambda xp: xp.fft.fft(xp.arange(4)),
    "solve": lambda xp: xp.linalg.solve(xp.array([[2, 1], [1, 3]]), xp.array([1, 2])),
    "frequencies": lambda xp: xp.fft.fftfreq(4),
    "window": lambda xp: xp.hanning(5),
    "mgrid": lambda xp: xp.mgrid[0:1:3j, 0:2],
    "histogram": lambda xp: xp.histogram([1, 2, 2], 3)[1],
    "polyfit": lambda xp: xp.polyfit([0, 1, 2], [1, 3, 5], 1),
    "cov": lambda xp: xp.cov(xp.array([[1, 2, 4], [3, 1, 1]])),
    "where": lambda xp: xp.where(xp.arange(3) > 1, 0.1, 2),
    "median": lambda xp: xp.median(xp.arange(4)),
    "interp": lambda xp: xp.interp(0.3, [0, 1], [2, 5]),
    "norm": lambda xp: xp.linalg.norm([3, 4]),
}


@pytest.mark.parametrize("name", MADE)
def test_dtypes_are_numpys(name: str) -> None:
    want = np.asarray(MADE[name](np))
    with wf.default_dtype("float64"):
        found = MADE[name](wf)
        jitted = wf.jit(lambda: wf.asarray(MADE[name](wf)))() if name not in ("polyfit", "histogram") else found
    assert found.dtype == jitted.dtype == want.dtype
    for x in (found, jitted):
        if name != "empty":
            np.testing.assert_allclose(x.numpy(), want, rtol=4 * np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0)
    if want.dtype in ("float64", "complex128"):
        narrow = np.asarray(MADE[name](wf).numpy())
        assert narrow.dtype == ("float32" if want.dtype == "float64" else "complex64")


def test_numbers_are_exact() -> None:
    with wf.default_dtype("float64"):
        assert float(wf.array(0.1)) == 0.1 and float(wf.arange(3)[1] / 3) == 1 / 3
        assert wf.jit(lambda x, s: x * s)(wf.array([3]), 0.1).tolist() == [3 * 0.1]
        assert wf.grad(lambda x: (x**2).sum())(wf.array([0.1])).tolist() == [0.2]


@pytest.mark.parametrize("draw_", [
    lambda r: r.normal(size=5), lambda r: r.uniform(size=5), lambda r: r.default_rng(0).standard_normal(5), lambda r: r.rand(3),
    lambda r: r.gamma(2.0, size=4), lambda r: r.RandomState(1).randn(3),
])
def test_random_numbers(draw_: object) -> None:
    with wf.default_dtype("float64"):
        found = draw_(wf.random)
    assert found.dtype == np.float64 and (found.numpy() != found.numpy().astype(np.float32)).any()
    assert draw_(wf.random).dtype == np.float32


def test_jitted_functions_are_traced_again() -> None:
    @wf.jit
    def f(x: wf.Array, scale: float) -> wf.Array:
        return (x * scale + wf.ones(3)) / 3

    x = wf.arange(3)
    for _ in range(3):
        assert f(x, 0.1).dtype == wf.float32
        with wf.default_dtype("float64"):
            for _ in range(3):
                assert f(x, 0.1).dtype == wf.float64 and f(x, 0.1).tolist() == ((np.arange(3) * 0.1 + 1) / 3).tolist()
    assert f.traces == 2


def test_layers_are_made_in_it() -> None:
    with wf.default_dtype("float64"):
        net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 1))
        x = wf.array(draw((5, 3), "float64"))
        value, gradient = wf.value_and_grad(lambda m: (m(x) ** 2).mean())(net)
        wf.optim.Adam(lr=0.1).update(net, gradient)
    assert value.dtype == wf.float64 and {p.dtype for p in net.parameters().values()} == {np.dtype("float64")}


def test_the_context_ends() -> None:
    assert wf.get_default_dtype() == np.float32
    with pytest.raises(ZeroDivisionError), wf.default_dtype(wf.float64):
        assert wf.get_default_dtype() == np.float64
        with wf.default_dtype("float32"):
            assert wf.zeros(1).dtype == wf.float32
        assert wf.zeros(1).dtype == wf.float64
        found = []
        thread = threading.Thread(target=lambda: found.append(wf.zeros(1).dtype))
        thread.start()
        thread.join()
        assert found == [np.dtype("float64")]
        raise ZeroDivisionError
    assert wf.zeros(1).dtype == wf.float32
    wf.set_default_dtype(np.float64)
    try:
        assert wf.zeros(1).dtype == wf.float64
        assert wf.__array_namespace_info__().default_dtypes()["complex floating"] == wf.complex128
    finally:
        wf.set_default_dtype(np.float32)
    assert wf.zeros(1).dtype == wf.float32


@pytest.mark.parametrize("dtype", ["float16", "int64", wf.bfloat16, "complex128", "nonsense", None])
def test_other_dtypes_are_refused(dtype: object) -> None:
    with pytest.raises(wf.errors.DTypeError, match="default_dtype: dtype=.* must be float32 or float64|is not a dtype"):
        wf.set_default_dtype(dtype)
    with pytest.raises(wf.errors.DTypeError), wf.default_dtype(dtype):
        pass
    assert wf.get_default_dtype() == np.float32


def test_dtypes_that_numpy_leaves_out_are_left_out() -> None:
    rng = np.random.default_rng()
    dtypes = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128")
    shapes = ((), (0,), (3,), (0, 2), (2, 3), (17,), (2000,), (3, 2, 2))
    drawn = [np.asarray(rng.normal(size=shape) * 5).astype(dtype) for dtype in dtypes for shape in shapes]
    arrays = [(wf.array(x), np.asarray(x)) for x in drawn]
    with wf.default_dtype("float64"):
        for ours, theirs in arrays:
            assert repr(ours) == repr(theirs) == repr([ours])[1:-1]
        assert repr(wf.ones(2, dtype="bfloat16")) == "array([1, 1], dtype=bfloat16)"
    for ours, theirs in arrays:
        assert repr(ours).endswith(f"dtype={theirs.dtype.name})")

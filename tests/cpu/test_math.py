"""Bounds of the generated functions in ulp, against float64 (float32 functions) or the C library (float64)."""

from __future__ import annotations

import numpy as np
import pytest
from harness import access, buffers, compile_kernel, fresh, load, op

import weft as wf
from tests.oracle import takes_floats
from weft.array import wrap
from weft.graph.primitives import TABLE, bind
from weft.kernel.ir import MACHINE_OPERATIONS, Axis, Kernel, Phase, Stage, Store


def unary(name: str, dtype, n: int, arity: int = 1):
    *xs, y = buffers(*[(dtype, (n,))] * (arity + 1))
    i = Axis(0, n)
    value = op(name, *(load(x, i) for x in xs))
    return compile_kernel(Kernel(name, (Phase((i,), (Stage((), (), (Store(access(y, i), value),)),)),), tuple(xs), (y,)))


def run(name: str, *arrays: np.ndarray) -> np.ndarray:
    if name not in MACHINE_OPERATIONS:
        return wrap(bind(TABLE[name], *(wf.array(a).node for a in arrays))).numpy()
    out = fresh(arrays[0].dtype, arrays[0].shape)
    unary(name, arrays[0].dtype, arrays[0].size, len(arrays))(list(arrays), [out])
    return out


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance in units of the last place of the exact value; NaN and infinities must agree."""
    with np.errstate(over="ignore"):
        near = exact.astype(got.dtype)
    assert (np.isnan(got) == np.isnan(near)).all()
    sure = np.isfinite(near)
    assert (got[~sure & ~np.isnan(near)] == near[~sure & ~np.isnan(near)]).all()
    unit = np.spacing(np.maximum(np.abs(near[sure]), np.finfo(got.dtype).tiny)).astype(exact.dtype)
    return float(np.max(np.abs(got[sure].astype(exact.dtype) - exact[sure]) / unit, initial=0))


# every function that the machine has; the primitive of its name says what it gives
FUNCTIONS = [name for name in MACHINE_OPERATIONS if name in TABLE and not TABLE[name].exact]
TWO = [name for name in FUNCTIONS if MACHINE_OPERATIONS[name].arity == 2]
MADE = [  # of several machine operations
    name for name, op in TABLE.items()
    if op.kind == "elementwise" and not op.exact and name not in MACHINE_OPERATIONS and takes_floats(name) == 1
]
ONE = sorted([name for name in FUNCTIONS if MACHINE_OPERATIONS[name].arity == 1] + MADE + ["sqrt"])
EXACT = {"floordiv", "rem", "philox", "philox_half"}  # every bit is promised; in test_machine.py and test_nest*.py
BOUND = {  # in float32, where it is not 2
    "exp": 1.5, "log": 1.5, "log1p": 2.5, "tanh": 2.5, "erf": 1.5, "sqrt": 0.5001, "log2": 4.0, "log10": 4.0, "erfc": 4.5,
    "erfcx": 3.0, "pow": 1.0, "atan2": 1.5,
}
BOUND64 = {"log2": 6.0, "log10": 6.0, "erfc": 5.0, "erfcx": 5.0}  # in float64, where it is not 2.5


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    return np.asarray(TABLE[name].reference(*arrays)).astype(arrays[0].dtype)


def test_every_function_is_bounded_here():
    assert {name for name, operation in MACHINE_OPERATIONS.items() if operation.costly} - EXACT == set(FUNCTIONS)
    assert set(BOUND) | set(BOUND64) <= {*ONE, *TWO} and set(FUNCTIONS) <= {*ONE, *TWO}


def arguments(rng: np.random.Generator, dtype, wide: float) -> np.ndarray:
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 88.72, 88.73, -87.4, -103.9, -104.1, 1e5, 3e38]
    return np.concatenate([
        np.array(special), rng.uniform(-wide, wide, 20000), rng.normal(size=20000), rng.normal(size=20000) * 1e-3,
        np.exp(rng.uniform(-80, 80, 20001)), -np.exp(rng.uniform(-80, 5, 2000)),
    ]).astype(dtype)


@pytest.mark.parametrize("name", ONE)
def test_float32_functions_stay_within_their_bounds(name, rng):
    x = arguments(rng, np.float32, 100.0)
    with np.errstate(all="ignore"):
        exact = reference(name, x.astype(np.float64))
    got = run(name, x)
    assert ulps(got, exact) <= BOUND.get(name, 2.0)
    zeros = x == 0
    assert (np.signbit(got[zeros]) == np.signbit(exact[zeros])).all()


@pytest.mark.parametrize("name", ONE)
def test_float64_functions_stay_within_their_bound(name, rng):
    x = arguments(rng, np.float64, 100.0)
    with np.errstate(all="ignore"):
        exact = reference(name, x.astype(np.longdouble))
    assert ulps(run(name, x), exact) <= BOUND64.get(name, 2.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"])
def test_denormals_keep_every_bit(name, dtype, rng):
    """These functions are x near zero: half a unit there is all of the number, so no bound in units would tell."""
    limits = np.finfo(dtype)
    counts = np.concatenate([np.arange(1, 40), rng.integers(1, 2**limits.nmant, 60)])
    x = (counts * limits.smallest_subnormal).astype(dtype)
    smallest = limits.tiny * rng.uniform(1, 4, 60)  # whose halves and quarters are denormals
    x = np.concatenate([x, -x, [limits.tiny, -limits.tiny], smallest, -smallest]).astype(dtype)
    np.testing.assert_array_equal(run(name, x), x)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_float64_sine_beside_multiples_of_half_pi(name, rng):
    """Where the sine or the cosine is all cancellation, up to where the C library takes over."""
    near = rng.integers(-60_000, 60_000, 5000) * (np.pi / 2)
    x = np.concatenate([near, np.nextafter(near, 0), near + rng.normal(size=5000) * 1e-9, rng.uniform(-1e5, 1e5, 5000)])
    assert ulps(run(name, x), reference(name, x.astype(np.longdouble))) <= 2.5


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands_stay_within_their_bounds(name, rng):
    x = np.abs(arguments(rng, np.float32, 50.0))
    y = rng.uniform(-5, 5, x.size).astype(np.float32)
    operands = (y, x) if name == "atan2" else (x, y)
    with np.errstate(all="ignore"):
        exact = reference(name, *(a.astype(np.float64) for a in operands))
    assert ulps(run(name, *operands), exact) <= BOUND.get(name, 2.0)


@pytest.mark.parametrize("exponent", [2.0, 3.0, -1.0, 0.5, -0.5, 2, 3, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_with_short_forms(dtype, exponent: float, rng) -> None:
    """Within the bound of ``pow``, with NumPy's special cases, and of one bit pattern however the exponent is given."""
    x = arguments(rng, dtype, 100.0)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), np.longdouble(exponent))
        want = exact.astype(dtype)
    got = (wf.asarray(x) ** exponent).numpy()
    usual = np.isfinite(want) & np.isfinite(got) & (np.abs(want) > np.finfo(dtype).tiny)
    assert (np.abs(got[usual] - exact[usual]) <= BOUND["pow"] * np.spacing(np.abs(want[usual]))).all()
    odd = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[odd], want[odd])
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
    a = wf.asarray(x)
    for other in (
        wf.jit(lambda a, t: a**t)(a, float(exponent)), wf.jit(lambda a: a**exponent)(a),
        a ** wf.full(a.shape, exponent, dtype=dtype), wf.concat([part**exponent for part in (a[:9], a[9:])]),
    ):
        some = other.numpy()
        np.testing.assert_array_equal(some, got)
        assert (np.signbit(some) == np.signbit(got))[~np.isnan(got)].all()
    slope = wf.grad(lambda a: (a**exponent).sum())(a[wf.isfinite(a) & (a > 1e-3) & (a < 1e3)])
    base = x[np.isfinite(x) & (x > 1e-3) & (x < 1e3)].astype(float)
    np.testing.assert_allclose(slope.numpy(), exponent * base ** (exponent - 1), rtol=1e-5)

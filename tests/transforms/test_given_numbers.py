"""Floats and NumPy's scalars as run-time numbers: what jit gives is what it gives without, and how often it is traced."""

import math
import random
import types
import warnings

import numpy as np
import pytest

import weft as wf
from tests.transforms.test_traced_ints import ARRAYS, NEEDS, NUMBERS, copied, outcome
from weft.transforms.jit import MAX_VARIANTS

FLOATS = [0.5, 0.75, -1.5, 0.0, -0.0, 2.0, 1e-3, 7.25, 100.0, -3.0, 1.0, math.inf, math.nan, 1e300]
SCALARS = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint64]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def same(jitted, f, x, value):
    got, want = outcome(jitted, copied(x), value), outcome(f, copied(x), value)
    assert close(got, want), (value, x, got, want)


def close(a, b):
    """Arrays to a few units in the last place: the Program computes with floats what Python computes without jit."""
    if isinstance(a, list) or (isinstance(a, tuple) and len(a) == 2 and isinstance(a[1], list)):
        return len(a) == len(b) and all(map(close, a, b)) if isinstance(a, list) else a[0] == b[0] and close(a[1], b[1])
    if isinstance(a, tuple) and len(a) == 4 and isinstance(b, tuple) and a[:3] == b[:3] and "float" in str(a[1]):
        left, right = (np.frombuffer(x[3], x[1]) for x in (a, b))
        return np.allclose(left, right, 1e-2 if a[1].itemsize == 2 else 1e-5, 1e-5, True)
    return repr(a) == repr(b) or a == b


# ---- float arguments

@pytest.mark.parametrize("way", [name for name in NEEDS if name not in ("numpy", "bits", "pow", "bin", "gcd", "exactly", "type")])
def test_what_needs_a_float_gets_it(way):
    f = NEEDS[way]
    jitted, x = wf.jit(f), wf.array(np.arange(6.0))
    for value in (2.0, 3.0, 0.5, 2.0, 3.0, 0.5, 1.0):
        same(jitted, f, x, value)


PYTHON = {
    "exp": lambda t: math.exp(-abs(t)), "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "int": int, "round": round,
    "max": lambda t: max(t, 0.3), "min": lambda t: min(0.3, t), "in": lambda t: t in (0.5, 0.75), "and": lambda t: t and 1,
    "or": lambda t: t or 2, "get": lambda t: {0.5: 1.0, 2.0: 3.0}.get(t, 4.0), "text": lambda t: len(f"{t:.2f}"),
    "str": lambda t: len(str(t)), "repr": lambda t: len(repr(t)), "whole": lambda t: t.is_integer(),
    "hex": lambda t: len(t.hex()),
    "ratio": lambda t: t.as_integer_ratio()[0] % 7, "if": lambda t: 1 if t == 0.0 else 2,
    "between": lambda t: 1 if 0 < t < 1 else 2,
    "isinstance": lambda t: 1 if isinstance(t, float) and not isinstance(t, int | str) else 2, "bool": bool,
    "numpy": lambda t: float(np.asarray(t)), "sorted": lambda t: sorted([0.6, t])[0], "sum": lambda t: sum([t, 1, t]),
    "divmod": lambda t: divmod(t, 0.3)[0], "pow": lambda t: abs(t) ** 0.5, "list": lambda t: [1, 2, 3][int(abs(t)) % 3],
}


@pytest.mark.parametrize("way", PYTHON)
def test_python_of_a_float(way):
    def f(x, t):
        return x * PYTHON[way](t)

    jitted, x = wf.jit(f), wf.array([1.0, 2.0])
    for value in FLOATS:
        same(jitted, f, x, value)
    seen = jitted.traces
    for value in FLOATS:
        same(jitted, f, x, value)
    assert jitted.traces - seen <= len(FLOATS) + MAX_VARIANTS
    again = jitted.traces
    for value in FLOATS:
        same(jitted, f, x, value)
    if not any(math.isnan(v) for v in FLOATS):
        assert jitted.traces == again


@pytest.mark.parametrize("way", ["floor", "ceil", "trunc", "round", "sum", "isinstance"])
def test_python_of_a_float_that_is_computed_at_each_call(way):
    jitted = wf.jit(lambda x, t: x * PYTHON[way](t))
    for k in range(50):
        assert jitted(wf.ones(1), k / 7).item() == pytest.approx(PYTHON[way](k / 7), 1e-5)
    assert jitted.traces == 1


def test_floats_that_only_meet_arrays_stay_in_native_calls():
    f = wf.jit(lambda x, t: x * (1 - t) / 2 + t)
    x = wf.ones(3)
    for k in range(20):
        f(x, k / 3)
    assert f.traces == 1 and f._recent[0]._tape is None and f._native_table is not None


def test_a_float_that_is_needed_is_named():
    with pytest.warns(RuntimeWarning, match=r"argument `t` changes \(from 0.5 to 0.75\)\. Line test_given_numbers.py:\d+ needs"):
        f = wf.jit(lambda x, t: x * math.exp(t))
        for k in range(5):
            f(wf.ones(1), k / 4)
    assert f.traces == 5


def test_conditions_on_floats_in_trees_and_keywords():
    def f(x, *, batch):
        return x * 2 if batch["t"] > 1 else x + batch["t"]

    jitted = wf.jit(f)
    for k in range(20):
        assert jitted(wf.ones(2), batch={"t": k / 5}).tolist() == f(wf.ones(2), batch={"t": k / 5}).tolist()
    assert jitted.traces == 2


# ---- NumPy's scalars

PLACES = ("attribute", "list", "dict", "argument")


def called(way, f, jit):
    """A function of an array and a number that lies somewhere."""
    if way == "argument":
        return wf.jit(f) if jit else f, lambda g, x, v: g(x, v)
    held = types.SimpleNamespace(v=None, items=[None], named={"v": None})

    def inner(x):
        return f(x, {"attribute": held.v, "list": held.items[0], "dict": held.named["v"]}[way])

    def call(g, x, v):
        held.v = held.items[0] = held.named["v"] = v
        return g(x)

    return wf.jit(inner) if jit else inner, call


@pytest.mark.parametrize("way", PLACES)
@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in ("chosen", "bits", "power")])
def test_a_scalar_keeps_its_dtype(way, name):
    kind = random.choice(SCALARS)
    if way == "argument" and not issubclass(kind, np.integer):
        kind = np.int16
    step = random.choice([s for s in NUMBERS if s not in ("shift", "and", "bool", "round", "ceil", "divmod", "root", "rmod")])

    def f(x, i):
        return ARRAYS[name](x, NUMBERS[step](i, 3) if name != "number" else i)

    (jitted, call), (plain, other) = called(way, f, True), called(way, f, False)
    x = wf.array(np.array([3, 1, 5], random.choice(["float32", "float64", "int32"])))
    for k in (3, 2, 1, 6, 2, 3, 1, 6, 0):
        got = outcome(lambda x, v: call(jitted, x, v), copied(x), kind(k))
        want = outcome(lambda x, v: other(plain, x, v), copied(x), kind(k))
        assert close(got, want), (kind, step, k, got, want)


UFUNCS = [
    np.cos, np.sqrt, np.exp, np.add, np.multiply, np.maximum, np.hypot, np.floor, np.negative, np.logical_not, np.sign,
    np.arctan2,
]


@pytest.mark.parametrize("kind", [int, *SCALARS])
def test_ufuncs_of_numpy_take_two_traces(kind):
    for ufunc in random.sample(UFUNCS, 4):
        def f(x, i, ufunc=ufunc):
            y = ufunc(i) if ufunc.nin == 1 else ufunc(i, 2)
            return x * y, y * 0.5

        held = types.SimpleNamespace(v=None)
        jitted = wf.jit(lambda x, f=f, held=held: f(x, held.v))
        for k in range(1, 30):
            held.v = kind(k)
            (got, y), (want, z) = jitted(wf.ones(2)), f(wf.ones(2), held.v)
            assert got.dtype == want.dtype and repr(y) == repr(z)
            np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-2 if want.dtype == "float16" else 1e-6)
        assert jitted.traces == 2, ufunc


RUN_TIME = {
    "key": lambda x, k: wf.random.key(k), "draw": lambda x, k: wf.random.normal(size=3, key=wf.random.key(k)),
    "split": lambda x, k: wf.random.split(wf.random.key(k), 3)[1], "fold": lambda x, k: wf.random.key(7 * 10**6 + k),
    "seed": lambda x, k: (wf.random.seed(k), wf.random.uniform(size=2))[1],
    "roll": lambda x, k: wf.roll(x, k), "rolled": lambda x, k: wf.roll(x.reshape(3, 4), (k, -k), (0, 1)),
    "axis": lambda x, k: wf.roll(x.reshape(3, 4), k, 1), "linspace": lambda x, k: wf.linspace(0, k, 5),
    "uniform": lambda x, k: wf.random.uniform(-k, k + 1, size=4, key=wf.random.key(3)),
    "normal": lambda x, k: wf.random.normal(k, k + 1, size=4, key=wf.random.key(3)),
    "laplace": lambda x, k: wf.random.laplace(k, k + 1, size=4, key=wf.random.key(3)),
    "exponential": lambda x, k: wf.random.exponential(k + 1, size=4, key=wf.random.key(3)),
    "rows": lambda x, k: x[[k % 12, 0]], "cosine": lambda x, k: np.cos(k) * x, "index": lambda x, k: x[k % 12],
    "bounds": lambda x, k: x[k % 8:k % 8 + 4].sum(), "array": lambda x, k: wf.array([[k, 1], [2, k]]),
}


@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
@pytest.mark.parametrize("way", RUN_TIME)
def test_functions_that_take_an_int_that_changes(way, kind):
    f = RUN_TIME[way]
    jitted, x = wf.jit(f), wf.arange(12.0)
    for k in (3, 5, 1, 7, 2, 6, 100, 0, 11):
        got, want = jitted(x, kind(k)), f(x, kind(k))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-6)
    assert jitted.traces <= 3  # an empty sum or a width of 1 is another program


def test_floats_and_nothing_else_in_lists_are_run_time_numbers():
    f = wf.jit(lambda x, k: x + wf.array([k, 0.5, 1]))
    for k in range(10):
        assert f(wf.zeros(3), k).tolist() == [k, 0.5, 1]
    assert f.traces == 2
    g = wf.jit(lambda k: wf.array([k, 0.5]))
    for k in (1, 2, 2**62, 2**64):
        assert outcome(lambda x, k: g(k), wf.ones(1), k) == outcome(lambda x, k: wf.array([k, 0.5]), wf.ones(1), k)


def test_what_is_set_beside_a_run_time_number():
    held = types.SimpleNamespace(n=0)

    def f(x, k):
        y = x * held.n
        held.n = int(k)
        return y

    jitted = wf.jit(f)
    for n, k in [(5, 2.0), (6, 2.0), (1, 1.0), (7, 1.0), (0, 1.0), (3, 3.0), (9, 3.0)]:
        held.n = n
        assert jitted(wf.ones(1), k).item() == n and held.n == int(k)



"""Scalars: what NumPy gives as a scalar is a value; what it gives as an array can be written to."""

from __future__ import annotations

import ast
import copy
import json
import math
import numbers
import operator
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import normal

import weft as wf
from weft.array.methods import NAMES
from weft.errors import TraceError

INTEGER = [d.name for d in (*wf.dtypes.SIGNED, *wf.dtypes.UNSIGNED)]


def kind(x: Any) -> type:
    return type(x)


# ---- which are which

def test_elements_sums_and_results_without_dimensions_are_scalars():
    a = wf.array(normal(3, 4))
    i = wf.array([1, 2])
    zero_d = wf.array(2.0)
    for found in (
        a[1, 2], a[-1][0], a[(1, 2)], a[i[0], i[1]], a[np.int64(1), 2], a[wf.array(1), 2], zero_d[()], a.sum(), a.max(),
        a.mean(), a.argmax(),
        a.var(), (a > 0).any(), a[0] @ a[1], wf.dot(a[0], a[1]), wf.einsum("i,i", a[0], a[1]), wf.linalg.norm(a), wf.trace(a),
        zero_d + 1, -zero_d, zero_d + zero_d, wf.sin(zero_d), np.sin(zero_d), zero_d.round(), wf.take(a, 3), zero_d.clip(0, 1),
        zero_d > 1, zero_d.sum(), next(iter(a[0])), wf.add(1, 2), wf.random.normal(), wf.where(zero_d > 1, 1.0, 2.0), ~i[0],
        a.sum().astype(int),
        a.sum().copy(), a.sum().T, a.sum().reshape(()), a.sum()[()], wf.searchsorted(a[0], 0.5), 2 * zero_d, a.prod(),
        wf.count_nonzero(a),
    ):
        assert kind(found) is wf.Scalar and found.shape == () and isinstance(found, wf.Array)


def test_what_can_be_written_to_is_an_array():
    a = wf.array(normal(3, 4))
    s = a.sum()
    for found in (
        wf.array(3.0), wf.zeros(()), wf.ones(()), wf.full((), 2), wf.array(s), wf.asarray(s), wf.zeros_like(s), a[1, 2, ...],
        a[..., 1, 2],
        s[...], wf.array([1.0]).reshape(()), wf.array([[1.0]]).squeeze(), wf.array(3.0).T, wf.array(3.0).copy(),
        copy.copy(wf.array(3.0)),
        copy.deepcopy(wf.array(3.0)), wf.array(3.0).astype(int), wf.asarray(np.array(3.0)), wf.broadcast_to(s, ()),
        wf.array(3.0)[...],
        pickle.loads(pickle.dumps(wf.array(3.0))), np.asarray(s).view(), wf.empty(()), wf.astype(wf.array(2.0), "int8"),
    ):
        assert kind(found) in (wf.ndarray, np.ndarray) and found.shape == ()
        if kind(found) is wf.ndarray:
            kept = found
            kept += 2
            assert kept is found
    base = wf.array([[1.0, 2.0]])
    base[0, ..., 1][...] = 7
    base[0, 0, ...] += 1
    assert base.tolist() == [[2.0, 7.0]]
    shaped_by = s.reshape(1), s.ravel(), s.flatten(), s[None], s[..., None], s[True], s.repeat(2)
    for shaped in (*shaped_by, wf.expand_dims(s, 0), wf.atleast_1d(s)):
        assert kind(shaped) is wf.ndarray and shaped.shape in ((1,), (2,))
        before = float(s)
        shaped[0] = -1e6
        assert float(s) == before


# ---- values

def test_swaps_and_names_that_stay():
    a = wf.array([1, 2])
    a[0], a[1] = a[1], a[0]
    assert a.tolist() == [2, 1]
    t = a[0]
    a[0] = 9
    assert t == 2 and a.tolist() == [9, 1]
    s = a.sum()
    keep = s
    for step in ("+=", "-=", "*=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>="):
        names = {"s": s}
        exec(f"s {step} 2", names)
        assert keep == 10 and names["s"] is not keep, step
    f = a.mean()
    half = f
    f /= 2
    assert half == 5.0 and f == 2.5
    matrix = wf.array([[1.0, 2.0], [3.0, 4.0]])
    first, last = matrix[0, 0], matrix[-1, -1]
    matrix += 10
    assert (first, last) == (1.0, 4.0)


@pytest.mark.parametrize("shuffle", [np.random.default_rng().shuffle, np.random.shuffle, random.shuffle])
def test_shuffles_of_others_lose_nothing(shuffle):
    a = wf.arange(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy says that it does not know the type
        shuffle(a)
    assert sorted(a.tolist()) == list(range(7))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_textbook_gradient_by_differences(dtype):
    def f(x):
        return (x * x * x).sum()

    x = wf.array(normal(2, 3, dtype=np.float64)).astype(dtype)
    seen = x.numpy().copy()
    slope, h = wf.zeros_like(x), 1e-2
    for i in range(2):
        for j in range(3):
            tmp = x[i, j]
            x[i, j] = tmp + h
            up = f(x)
            x[i, j] = tmp - h
            down = f(x)
            slope[i, j] = (up - down) / (2 * h)
            x[i, j] = tmp
    np.testing.assert_array_equal(x.numpy(), seen)
    np.testing.assert_allclose(slope.numpy(), wf.grad(f)(x).numpy(), rtol=2e-2, atol=1e-3)


def test_no_item_is_assigned():
    s = wf.array([1.0, 2.0]).sum()
    for write in (lambda: s.__setitem__((), 3), lambda: s.__setitem__(..., 3), lambda: s.fill(2)):
        with pytest.raises(TypeError, match="scalar .float32. does not support item assignment.*wf.array"):
            write()
    with pytest.raises(TypeError, match="it is a value"):
        wf.add(1.0, 2.0, out=s)
    with pytest.raises(TypeError, match="it is a value"):
        np.add(1.0, 2.0, out=s)
    with pytest.raises(IndexError, match="too many indices"):
        s[0]
    for refused in (len, iter, list):
        with pytest.raises(TypeError):
            refused(s)
    assert s == 3.0


# ---- Python's numbers

@pytest.mark.parametrize("dtype", [*INTEGER, "bool", "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_they_hash_by_value(dtype):
    a = wf.array([1, 0, 1]).astype(dtype)
    plain = 1.0 if dtype.startswith(("f", "bf")) else 1
    assert hash(a[0]) == hash(a[2]) == hash(plain)
    table = {a[0]: "one", a[1]: "zero"}
    assert len(table) == 2 and table[a[2]] == "one" and table[plain] == "one" and {plain: "x"}[a[0]] == "x"
    assert len({a[0], a[1], a[2], 0, 1}) == 2
    with pytest.raises(TypeError, match="not hashable"):
        hash(a)
    with pytest.raises(TypeError, match="not hashable"):
        hash(wf.array(1))


@pytest.mark.parametrize("dtype", INTEGER)
def test_integers_are_indices(dtype):
    n = min(2, wf.iinfo(dtype).max)
    s = wf.array([n], dtype=dtype)[0]
    words = ["a", "b", "c"]
    assert words[s] == words[n] and words[:s] == words[:n] and list(range(s)) == list(range(n)) and operator.index(s) == n
    assert "ab" * s == s * "ab" == "ab" * n and [0] * s == [0] * n and s * (1, 2) == (1, 2) * n
    assert wf.arange(5)[s] == np.arange(5)[s] == n and bin(s) == bin(n) and wf.zeros((s, s)).shape == (n, n)
    assert wf.arange(6).reshape(s, -1).shape == (n, 6 // n) and 1 // s == 1 // n
    if wf.iinfo(dtype).max >= 7:
        assert 7 // s == 3 and pow(s, 2) == 4
    for wrong in (wf.array([2.0])[0], wf.array([True])[0]):
        with pytest.raises(TypeError, match="index"):
            words[wrong]


def test_rounding_formats_and_conversions():
    s = wf.array([2.675])[0]
    assert round(s) == 3 and type(round(s)) is int and kind(round(s, 1)) is wf.Scalar and float(round(s, 1)) == pytest.approx(2.7)
    assert (math.floor(s), math.ceil(s), math.trunc(s), int(s)) == (2, 3, 2, 2) and complex(s).imag == 0
    assert f"{s:.2f}" == f"{float(s):.2f}" and f"{s}" == str(s) == "2.675" and repr(s) == "float32(2.675)"
    assert json.loads(json.dumps(float(s))) == float(s) and isinstance(s, numbers.Number) and np.isscalar(s)
    n = wf.array([17])[0]
    assert divmod(n, 5) == (3, 2) and divmod(100, n) == (5, 15) and f"{n:05d}" == "00017" and repr(n) == "int64(17)"
    assert round(n, -1) == 20 and repr(n > 3) == "bool(True)" and [kind(x) for x in divmod(n, 5)] == [wf.Scalar] * 2
    assert sum([n, n]) == 34 and max(n, wf.array([3])[0]) is n and sorted(wf.array([3, 1, 2]))[0] == 1
    assert pickle.loads(pickle.dumps(n)) == 17 and kind(pickle.loads(pickle.dumps(n))) is wf.Scalar
    assert copy.copy(n) is n and copy.deepcopy(n) is n and n.item() == 17 and type(n.item()) is int and n.tolist() == 17
    for bad in (wf.array([np.nan])[0], wf.array([np.inf])[0]):
        with pytest.raises((ValueError, OverflowError)):
            round(bad)


@pytest.mark.usefixtures("lazy")
def test_making_one_looks_at_nothing():
    a = wf.array(normal(3)) * 2
    s, t = a[0], a.sum()
    u = s + t
    u += 1
    assert a.node.value is None and s.node.value is None and u.node.value is None


# ---- transforms

def test_jit_gives_the_class_that_the_function_gave():
    x = wf.array(normal(4))

    @wf.jit
    def f(x):
        return {"sum": x.sum(), "own": wf.array(x.sum()), "first": x[0], "view": x[0, ...], "same": x}

    for _ in range(4):  # traced, found, and the native ways
        out = f(x)
        assert {k: kind(v) for k, v in out.items()} == {
            "sum": wf.Scalar, "own": wf.ndarray, "first": wf.Scalar, "view": wf.ndarray, "same": wf.ndarray,
        }
    functions = (lambda x: x.sum(), wf.Scalar), (lambda x: wf.array(x.sum()), wf.ndarray), (lambda x: x * 2, wf.ndarray)
    for function, wanted in functions:
        g = wf.jit(function)
        for _ in range(5):
            assert kind(g(x)) is wanted
        assert hash(g(x)) if wanted is wf.Scalar else True


def test_jit_knows_values_from_arrays_among_its_arguments():
    @wf.jit
    def f(x):
        before = x
        x += 1
        return before + x

    s, a = wf.array([3.0])[0], wf.array(3.0)
    for turn in range(5):
        assert f(s) == 7.0 and s == 3.0
        assert f(a) == 2 * (4.0 + turn) and a == 4.0 + turn
    assert f.traces == 2
    g = wf.jit(lambda x, k: x * k)
    for _ in range(5):
        for given in (s, wf.array(3.0), np.float32(3), np.array(3, "f4")):
            assert g(given, 2.0) == 6.0


def test_a_number_without_dtype_is_a_value_too():
    seen = {}

    @wf.jit
    def f(x, k):
        kept = k
        k *= 2
        seen["same"] = kept is k
        return x * kept, x * k, x.astype("float64") * -k, kept < 0.5

    x = wf.array([1.0])
    one, two, exact, small = f(x, 0.1)
    assert not seen["same"] and one.dtype == wf.float32 and exact.dtype == wf.float64 and exact.item() == -0.2 and bool(small)
    assert two.item() == np.float32(0.2) and one.item() == np.float32(0.1)


def test_inside_traces_the_same_rules_hold():
    def swapped(x):
        x = wf.array(x)
        x[0], x[2] = x[2], x[0]
        t = x[1]
        x[1] = 0
        s = x.sum()
        keep = s
        s += t
        return s * keep

    x = wf.array([1.0, 2.0, 3.0])
    assert swapped(x) == wf.jit(swapped)(x) == 24.0
    np.testing.assert_array_equal(wf.grad(swapped)(x).numpy(), wf.jit(wf.grad(swapped))(x).numpy())
    np.testing.assert_array_equal(wf.grad(swapped)(x).numpy(), [10.0, 4.0, 10.0])
    np.testing.assert_array_equal(wf.vmap(swapped)(wf.stack([x, x])).numpy(), [24.0, 24.0])
    total, seen = wf.scan(lambda c, v: (c + swapped(x) * v, c), 0.0, wf.array([1.0, 2.0]))
    assert total == 72.0 and kind(total) is wf.Scalar and seen.tolist() == [0.0, 24.0]
    assert wf.fori_loop(0, 3, lambda i, c: c + wf.arange(5)[i + 1], 0) == 6
    started = wf.array(1.0)
    last = wf.fori_loop(0, 3, lambda i, c: c * 2, started)
    assert kind(last) is wf.ndarray and last == 8.0 and started == 1.0
    with pytest.raises(TraceError, match="not known inside"):
        wf.jit(lambda x: {x.sum(): 1})(x)
    with pytest.raises(TraceError, match="not known inside"):
        wf.jit(lambda x: [1, 2][x.argmax()])(x)
    shown = []
    wf.jit(lambda x: shown.append(repr(x.sum())) or x)(x)
    assert shown == ["float32(<not known while tracing>)"]


def test_a_module_makes_its_own_array_of_a_value():
    class Scale(wf.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = wf.ones(3).mean()

        def forward(self, x):
            return x * self.factor

    net = Scale()
    assert kind(net.factor) is wf.ndarray and list(net.parameters()) == ["factor"]
    step = wf.train.training_step(net, wf.losses.mse, wf.optim.SGD(0.1))
    x = wf.array([[1.0], [2.0]])
    for _ in range(30):
        step(x, x * 3, 0.1)
    assert float(net.factor) == pytest.approx(3.0, abs=1e-2)
    with pytest.raises(TypeError, match="parameter 'w' is a Scalar.*wf.array"):
        wf.optim.SGD(0.1).init({"w": wf.ones(3).mean()}).update({"w": wf.ones(3).mean()}, {"w": wf.array(1.0)})


def test_the_stub_of_methods_names_them_all():
    stub = ast.parse((Path(wf.__file__).parent / "array" / "methods.pyi").read_text())
    (methods,) = (n for n in stub.body if isinstance(n, ast.ClassDef))
    named = [n.name if isinstance(n, ast.FunctionDef) else n.targets[0].id for n in methods.body]
    assert sorted(named) == sorted(NAMES)

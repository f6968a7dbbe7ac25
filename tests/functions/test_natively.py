"""Small work without Python: native operators, functions and elements do what Python does in their place, bit for bit."""

from __future__ import annotations

import gc
import operator
import resource
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import natively, small
from weft.array import operators
from weft.array.core import Array, Scalar
from weft.cell import LOCAL
from weft.formats import FORMATS
from weft.functions import elementwise

BINARY = {
    name: getattr(operator, name) for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift",
        "eq", "ne", "lt", "le", "gt", "ge",
    )
}
IN_PLACE = {
    name: getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ilshift")
}
UNARY = (operator.neg, abs, operator.invert, operator.pos, lambda x: x**2, lambda x: x**2.0)
SHAPES = [(), (1,), (3,), (8,), (17,), (33,), (3, 5), (2, 1, 4), (0,), (2, 0)]
NUMBERS = [
    0, 1, -1, 2, 3, 127, 128, -128, 200, 255, 256, 70000, 2**31, 2**63, -(2**63), 2**70, True, False, 0.0, -0.0, 0.5, 2.0,
    1e-40, 65504.0, 65505.0, 1e39, float("nan"), float("inf"), float("-inf"), np.float32(1.5), np.float64(1.5), np.int8(3),
    np.bool_(True), None, "text", 1j, [1.0], (2,),
]


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    """Functions are made when first asked for."""
    monkeypatch.setattr(small, "OFTEN", 0)


@contextmanager
def python() -> Iterator[None]:
    """Nothing is native."""
    names = ("element", "store", "number")
    ways = [*natively._SHORT, *natively._SHAPED]
    for way in ways:
        way.call = natively.never
    for name in names:
        setattr(natively.ELEMENTS, name, natively.never)
    try:
        yield
    finally:  # also of functions that were made meanwhile
        for way in (*natively._SHORT, *natively._SHAPED):
            way.call = natively.never if way.work is None else way.work.call
        for name in names:
            setattr(natively.ELEMENTS, name, getattr(natively._WORK[0], name) if natively._WORK else natively.never)


def content(rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if FORMATS[dtype].kind == "float":
        x = rng.normal(size=shape) * 2.0 ** rng.integers(-3, 4, shape)
        special = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-42, 1e4, -1.0], shape)
        return np.asarray(np.where(rng.random(shape) < 0.25, special, x)).astype(FORMATS[dtype].numpy)
    low, high = (0, 2) if dtype == "bool" else (0, 9) if dtype[0] == "u" else (-5, 9)
    return np.asarray(rng.integers(low, high, shape)).astype(dtype)


def outcome(f, *xs) -> Any:
    """What comes of a call: a result with its class and bits, or an error; and warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            out = f(*xs)
        except Exception as error:
            return type(error), str(error), [str(w.message) for w in told]
    said = [str(w.message) for w in told]
    if isinstance(out, Array):
        return type(out), out.dtype, out.shape, out.numpy().tobytes(), said
    return type(out), repr(out), said


def same(f, *xs) -> None:
    with python():
        want = outcome(f, *xs)
    for _ in range(2):  # the first may make the function
        got = outcome(f, *xs)
        assert got == want, (f, xs)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_arrays(name: str, dtype: str, rng) -> None:
    for shape in SHAPES:
        x, y = (wf.array(content(rng, shape, dtype)) for _ in range(2))
        zero, number = wf.array(content(rng, (), dtype)), wf.array(content(rng, (1,), dtype))[0]
        for pair in ((x, y), (x, x), (x, zero), (zero, x), (x, number), (number, x), (number, number)):
            same(BINARY[name], *pair)
    same(BINARY[name], wf.array(content(rng, (3, 5), dtype)), wf.array(content(rng, (5,), dtype)))
    same(BINARY[name], wf.array(content(rng, (3, 5), dtype)), wf.array(content(rng, (4,), dtype)))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_an_array_and_a_number(name: str, dtype: str, rng) -> None:
    x, zero = wf.array(content(rng, (5,), dtype)), wf.array(content(rng, (1,), dtype))[0]
    for y in NUMBERS:
        for array in (x, zero):
            same(BINARY[name], array, y)
            same(BINARY[name], y, array)


@pytest.mark.parametrize("name", ["add", "mul", "lt", "pow", "mod"])
def test_operators_of_two_dtypes_and_of_other_classes(name: str, rng) -> None:
    arrays = {dtype: wf.array(content(rng, (4,), dtype)) for dtype in FORMATS}
    for x in arrays.values():
        for y in (arrays["float32"], arrays["int8"], arrays["float64"], arrays["bool"]):
            same(BINARY[name], x, y)
    for other in (np.arange(4), np.ones(4, np.float32), np.float32(2), np.array(2.0), [1, 2, 3, 4], range(4)):
        same(BINARY[name], arrays["float32"], other)
        same(BINARY[name], other, arrays["float32"])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, dtype: str, rng) -> None:
    for shape in ((4,), (2, 3), (), (0,)):
        x, others = content(rng, shape, dtype), [wf.array(content(rng, s, dtype)) for s in (shape, (), (2,))]

        def apply(y, x=x):
            a = wf.array(x)
            view, kept = a[...], a
            before = a.numpy()
            held = before.tobytes()
            a = IN_PLACE[name](a, y)
            assert a is kept and before.tobytes() == held
            assert view.numpy().tobytes() == a.numpy().tobytes()
            return a

        for y in (*others, 1, 2, -1, 0.5, 300, True, wf.array(1.5), np.float32(2)):
            same(apply, y)


def test_in_place_of_views_and_values(rng) -> None:
    def view(y):
        a = wf.array(np.arange(6, dtype=np.float32))
        b = a[1:4]
        b.numpy()  # it knows its content
        b += y
        assert b.numpy().tobytes() == a.numpy()[1:4].tobytes()
        return a

    def value(y):
        s = before = wf.array([1.0, 2.0])[0]
        s += y
        assert float(before) == 1.0
        return s

    for y in (2.0, wf.array([1.0, 2.0, 3.0]), wf.array(2.0)):
        same(view, y)
    same(value, 2.0)
    same(value, wf.array([1.0, 2.0])[1])


@pytest.mark.parametrize("dtype", FORMATS)
def test_functions_of_one_operand(dtype: str, rng) -> None:
    names = [name for name, f in operators._CALLS.items() if operators.OPERATIONS[name].arity == 1 and hasattr(elementwise, name)]
    assert len(names) > 30
    functions = [*UNARY, *(getattr(elementwise, name) for name in names)]
    for shape in ((5,), (1,), (), (2, 3), (0,), (17,)):
        x = wf.array(content(rng, shape, dtype))
        for f in functions:
            same(f, x)
    for f in functions:
        same(f, x[0] if x.shape else x)
        same(f, wf.array(content(rng, (3,), dtype))[1])


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "atan2", "pow", "less", "logical_and", "copysign", "bitwise_and"])
def test_functions_of_two_operands(name: str, rng) -> None:
    f = getattr(wf, name)
    for dtype in FORMATS:
        x, y = (wf.array(content(rng, (5,), dtype)) for _ in range(2))
        for pair in ((x, y), (x, y[0]), *((x, n) for n in NUMBERS[:30]), *((n, x) for n in NUMBERS[:30])):
            same(f, *pair)


@pytest.mark.parametrize("dtype", FORMATS)
def test_reading_elements(dtype: str, rng) -> None:
    x, grid, zero = (wf.array(content(rng, s, dtype)) for s in ((5,), (3, 4), ()))
    part = grid[1]
    part.numpy()
    indices = [
        0, 4, -1, -5, 5, -6, 2**70, True, (1,), (-1,), (), (1, 2), (-3, -4), (3, 0), (1, True), 1.0, None, slice(1, 3), ..., "a",
    ]
    for array in (x, grid, zero, zero[()], part):
        for index in indices:
            same(lambda a, i: a[i], array, index)
    for one in (x[1], x[:1], grid[1, 2], zero, x, wf.array(content(rng, (1, 1), dtype))):
        for f in (float, int, bool, operator.index, complex, Array.item, str):
            same(f, one)


@pytest.mark.parametrize("dtype", FORMATS)
def test_writing_elements(dtype: str, rng) -> None:
    start = content(rng, (3, 4), dtype)

    def write(index, value):
        a = wf.array(start)
        a[index] = value
        return a

    def flat(index, value):
        a = wf.array(start.reshape(-1))
        a[index] = value
        return a

    numbers = [*NUMBERS[:33], wf.array(content(rng, (2,), dtype))[1], wf.array(content(rng, (), dtype)), wf.array([1.5])[0]]
    for value in numbers:
        same(write, (1, -2), value)
        same(flat, 7, value)
        same(flat, -12, value)
    for index in (12, -13, (1, 2), True, 2**70, slice(2), None):
        same(flat, index, 1)


def test_writes_are_seen_by_nobody_else() -> None:
    a = wf.array([1.0, 2.0, 3.0])
    copy, exported, shared = a.copy(), a.numpy(), wf.array(a)
    node = a.node
    a[0] = 5.0
    assert [float(x[0]) for x in (a, copy, shared)] == [5.0, 1.0, 1.0] and exported[0] == 1.0
    assert node.value is not a.node.value
    view = a[:2]
    assert float(view[0]) == 5.0
    a[0] = 6.0
    assert float(view[0]) == 6.0 and float(view.sum()) == 8.0
    f = wf.jit(lambda x: x + a)
    for k in range(4):
        a[1] = float(k)
        assert f(copy).tolist() == [7.0, 2.0 + k, 6.0]
    for s in (a[0], wf.array(1.0)[()]):
        with pytest.raises(TypeError):
            s[()] = 1.0
    memory = memoryview(a.numpy())
    a[0] = 9.0
    assert memory[0] == 6.0


_OPERATORS = {"test_natively.py", "operators.py", "core.py", "looks.py", "elementwise.py"}


def test_it_is_native(rng) -> None:
    """No Python function but the operator itself is entered."""
    a, b, out = (wf.array(content(rng, (5,), "float32")) for _ in range(3))
    ways = [
        lambda: a + b, lambda: a * 2, lambda: 2.5 - a, lambda: a < b, lambda: -a, lambda: a**2, lambda: a[1], lambda: float(a[2]),
        lambda: a[0] + a[1], lambda: operator.setitem(out, 1, 2.5), lambda: operator.setitem(out, 2, a[1]), lambda: wf.tanh(b),
    ]
    for way in ways:
        for _ in range(3):
            way()
        entered = []
        sys.setprofile(lambda frame, event, _, entered=entered: entered.append(frame.f_code) if event == "call" else None)
        try:
            way()
        finally:
            sys.setprofile(None)
        assert len(entered) <= 5, [code.co_qualname for code in entered]
        assert {code.co_filename.rsplit("/", 1)[1] for code in entered} <= _OPERATORS


def test_where_python_decides(rng) -> None:
    """Traces, gradients, loops, mapped functions, flushed denormals and arrays that are pending."""
    x = np.abs(rng.normal(size=5)).astype(np.float32) + 1
    a = wf.array(x)
    _ = [a + a, a * 2.0, -a, a[1], float(a[0])]
    slope = wf.grad(lambda y: (y * y + 2.0 * y)[1])(a)
    np.testing.assert_allclose(slope.numpy(), [0, 2 * x[1] + 2, 0, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(wf.jit(lambda y, k: (y + y) * k + y[0])(a, 3.0).numpy(), (x + x) * 3 + x[0])
    np.testing.assert_array_equal(wf.vmap(lambda y: y + y * a[0])(a).numpy(), x + x * x[0])
    tiny = wf.array(np.full(4, 1e-38, np.float32))
    assert float((tiny * 0.5)[0]) != 0
    with wf.flush_denormals():
        assert float((tiny * 0.5)[0]) == 0
    assert float((tiny * 0.5)[0]) != 0
    large = wf.array(np.ones(100_000, np.float32))
    pending = large + 1.0
    assert pending.node.value is None and (pending + large).node.value is None and float(pending[0] + a[0]) == 2 + x[0]
    before = LOCAL.at_once
    try:
        for limit in (0, 16, -1):
            LOCAL.at_once = limit
            assert (a + a).node.value is None and (a * 2.0).node.value is None and wf.tanh(a).node.value is None
        LOCAL.at_once = 20
        assert (a + a).node.value is not None
    finally:
        LOCAL.at_once = before


def test_threads_have_words_of_their_own(rng) -> None:
    a, wrong = wf.array(content(rng, (5,), "int32")), []
    _ = a + a

    def run(limit: int) -> None:
        if limit:
            for _ in range(2000):
                if (a + a).node.value is None:
                    wrong.append(limit)
        else:
            LOCAL.at_once = 0
            for _ in range(300):
                if (a + a).node.value is not None:
                    wrong.append(limit)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(3):  # threads that end make room for others
            threads = [threading.Thread(target=run, args=(k % 2,)) for k in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    finally:
        sys.setswitchinterval(switch)
    assert not wrong and (a + a).node.value is not None


def test_wrong_shapes_of_reductions_are_still_explained(rng) -> None:
    x = wf.array(content(rng, (3, 4), "float32"))

    def wrong():
        return x - (x.sum(axis=1) * 2.0 + 1.0)

    same(wrong)


def test_nothing_is_leaked(rng) -> None:
    x, y, out = (wf.array(content(rng, (5,), "float32")) for _ in range(3))
    s = x[1]

    def work(n: int) -> None:
        nonlocal out
        for k in range(n):
            _ = (x + y, x * 2.0, 1 - x, x < y, -x, x**2, x[2], float(x[1]), s + s, x + "a" if k < 0 else None)
            out += x
            out[1] = 2.5
            out[2] = s

    work(100)
    watched = [x.node.shape, x.node.dtype, x.node, x.node.value, s.node, natively._NOTHING, Array, Scalar, type(x.node)]
    watched += [None, (), True]
    gc.collect()
    before = [sys.getrefcount(w) for w in watched]
    alive = len(gc.get_objects())
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(60_000)
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    assert all(abs(b - a) < 50 for a, b in zip(before, after, strict=True)), list(zip(watched, before, after, strict=True))
    assert abs(len(gc.get_objects()) - alive) < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 4000  # KB


PRODUCTS = [
    ((4, 5), (5, 3)), ((4, 5), (5,)), ((5,), (5, 3)), ((5,), (5,)), ((1, 5), (5, 1)), ((1, 1), (1, 1)), ((20, 30), (30, 1)),
    ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)),
    ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((2, 600), (600, 2)), ((100, 100), (100, 9)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool"])
def test_products(dtype: str, rng) -> None:
    for left, right in PRODUCTS:
        x, y = wf.array(content(rng, left, dtype)), wf.array(content(rng, right, dtype))
        with python():
            want = outcome(operator.matmul, x, y)
        for _ in range(7):  # it is native when it was met some times
            assert outcome(operator.matmul, x, y) == want
        same(operator.matmul, wf.array(content(rng, left, dtype)), y)
        same(operator.matmul, x, wf.array(content(rng, right, "float32")))
        same(operator.matmul, x, y.numpy())
        same(operator.matmul, x, 2.0)
        same(operator.matmul, x, x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool"])
def test_sums(dtype: str, rng) -> None:
    for shape in ((10,), (20, 30), (3, 4, 5), (1, 7), (7, 1), (), (0,), (0, 3), (1,)):
        x = wf.array(content(rng, shape, dtype))
        for axis, keepdims in (
            (None, False), (0, False), (-1, False), (1, True), (None, True), ((0,), False), (5, False), (True, 1),
        ):
            with python():
                want = outcome(lambda a, axis, keep: a.sum(axis=axis, keepdims=keep), x, axis, keepdims)
            for _ in range(7):
                assert outcome(lambda a, axis, keep: a.sum(axis=axis, keepdims=keep), x, axis, keepdims) == want
        same(wf.sum, x.numpy())
        same(lambda a: wf.sum(a, dtype="float64"), x)
    grid = wf.array(content(rng, (20, 30), dtype))
    for _ in range(7):
        total = grid.sum(axis=1)
    same(lambda a, b: a - b, grid, total)  # the error says where the axis went


def test_products_and_sums_are_native_and_many_shapes_take_turns(rng) -> None:
    for turn in range(3):
        for n in range(1, 150):
            x, y = content(rng, (n, 3), "float64"), content(rng, (3, 2), "float64")
            a, b = wf.array(x), wf.array(y)
            for _ in range(2 + turn):
                with np.errstate(all="ignore"):
                    np.testing.assert_allclose((a @ b).numpy(), x @ y, rtol=1e-9, atol=1e-9)
    a, b = wf.array(content(rng, (9, 9), "float32")), wf.array(content(rng, (9,), "float32"))
    for way in (lambda: a @ b, lambda: a.sum(), lambda: a.sum(axis=0), lambda: wf.sum(a, keepdims=True)):
        for _ in range(8):
            way()
        entered = []
        sys.setprofile(lambda frame, event, _, entered=entered: entered.append(frame.f_code.co_name) if event == "call" else None)
        try:
            way()
        finally:
            sys.setprofile(None)
        assert len(entered) <= 2, entered
    assert wf.grad(lambda x: (x @ b).sum())(a).shape == (9, 9)
    assert wf.jit(lambda x: (x @ b).sum())(a).shape == ()

"""Small work without Python: where it is done and where not, products and sums, threads and memory."""

from __future__ import annotations

import gc
import operator
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from native_cases import content, outcome, python, same

import weft as wf
from weft.eager import implementations
from weft.runtime.context import CONTEXT


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    """Functions are made when first asked for."""
    monkeypatch.setattr(implementations, "COMPILE_AFTER_CALLS", 0)


_OPERATORS = {"test_native_path.py", "operators.py", "core.py", "numpy_methods.py", "ufuncs.py"}


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
        gc.disable()  # Hypothesis registers a callback of the collector
        sys.setprofile(lambda frame, event, _, entered=entered: entered.append(frame.f_code) if event == "call" else None)
        try:
            way()
        finally:
            sys.setprofile(None)
            gc.enable()
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
    before = CONTEXT.max_eager_bytes
    try:
        for limit in (0, 16, -1):
            CONTEXT.max_eager_bytes = limit
            assert (a + a).node.value is None and (a * 2.0).node.value is None and wf.tanh(a).node.value is None
        CONTEXT.max_eager_bytes = 20
        assert (a + a).node.value is not None
    finally:
        CONTEXT.max_eager_bytes = before


def test_threads_have_words_of_their_own(rng) -> None:
    a, wrong = wf.array(content(rng, (5,), "int32")), []
    _ = a + a

    def run(limit: int) -> None:
        if limit:
            for _ in range(2000):
                if (a + a).node.value is None:
                    wrong.append(limit)
        else:
            CONTEXT.max_eager_bytes = 0
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


def test_nothing_is_leaked() -> None:
    """In a process of its own: what other tests leave behind dies when it likes."""
    code = "from tests.functions.native_cases import work_and_count; work_and_count()"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


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

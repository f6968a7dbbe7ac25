"""Warm calls of jitted functions: no Python between the arguments and the result, and the slow way where it is needed."""

import gc
import sys
import threading

import numpy as np
import pytest

import weft as wf


def python_calls(f, *args):
    """The Python functions that a call enters, by name."""
    names = []
    sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        out = f(*args)
    finally:
        sys.setprofile(None)
    return out, names


def arrays(*shapes):
    found = [np.random.default_rng().normal(size=s).astype(np.float32) for s in shapes]
    return [wf.array(x) for x in found], found


def warm(f, *args):
    for _ in range(3):
        f(*args)
    out, names = python_calls(f, *args)
    assert "__call__" not in names
    return out


def test_values_without_python():
    (a, b), (x, y) = arrays((7,), (7,))
    f = wf.jit(lambda a, b: a * b + a)
    np.testing.assert_allclose(warm(f, a, b).numpy(), x * y + x, rtol=1e-6)
    (c, d), (u, v) = arrays((7,), (7,))
    out, names = python_calls(f, c, d)
    assert "__call__" not in names and f.traces == 1
    np.testing.assert_allclose(out.numpy(), u * v + u, rtol=1e-6)
    assert (out + 1).shape == (7,) and out.dtype == wf.float32


def test_numbers_static_values_and_captured_cells():
    (a, w), (x, u) = arrays((5,), (5,))
    mode = "plus"
    f = wf.jit(lambda a, k, mode: a * k + w if mode == "plus" else a)
    for k in (0.5, -1.0, 3.25):
        np.testing.assert_allclose(warm(f, a, k, mode).numpy(), x * np.float32(k) + u, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(f(a, 2.0, "minus").numpy(), x)
    w[...] = w + 1
    np.testing.assert_allclose(f(a, 2.0, mode).numpy(), x * 2 + (u + 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(warm(f, a, 2.0, mode).numpy(), x * 2 + (u + 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["view", "pending", "numpy", "shape", "dtype", "name", "integer"])
def test_other_arguments_take_the_slow_way(kind):
    (a, b), (x, y) = arrays((6,), (6,))
    f = wf.jit(lambda a, b: a - b)
    warm(f, a, b)
    if kind == "name":
        np.testing.assert_array_equal(f(b=b, a=a).numpy(), x - y)
        np.testing.assert_array_equal(f(a, b=b).numpy(), x - y)
        return
    other, want = {
        "view": lambda: (wf.array(np.concatenate([y, y]))[6:], x - y), "pending": lambda: (b * 2, x - y * 2),
        "numpy": lambda: (y, x - y), "shape": lambda: (b[:1], x - y[:1]),
        "dtype": lambda: (wf.array(y.astype(np.float64)), x - y.astype(np.float64)), "integer": lambda: (3, x - 3),
    }[kind]()
    np.testing.assert_allclose(f(a, other).numpy(), want, rtol=1e-6)
    np.testing.assert_array_equal(f(a, b).numpy(), x - y)


def test_inside_a_trace_and_a_gradient():
    (a, b), (x, y) = arrays((4,), (4,))
    f = wf.jit(lambda a, b: a * b)
    warm(f, a, b)
    np.testing.assert_allclose(wf.grad(lambda a: f(a, b).sum())(a).numpy(), y, rtol=1e-6)
    g = wf.jit(lambda a: f(a, b) + f(a, a))
    np.testing.assert_allclose(g(a).numpy(), x * y + x * x, rtol=1e-6)


def test_threads_may_change_between_calls():
    (a, b), (x, y) = arrays((300, 200), (200, 100))
    f = wf.jit(lambda a, b: a @ b)
    one = warm(f, a, b).numpy().copy()
    before = wf.get_num_threads()
    try:
        for count in (1, 2, 3):
            wf.set_num_threads(count)
            np.testing.assert_array_equal(f(a, b).numpy(), one)
            np.testing.assert_array_equal(warm(f, a, b).numpy(), one)
    finally:
        wf.set_num_threads(before)
    np.testing.assert_allclose(one, x @ y, rtol=1e-3, atol=1e-3)


def test_nothing_leaks():
    (a, b), _ = arrays((1000,), (1000,))
    f = wf.jit(lambda a, b, k: a + b * k)
    warm(f, a, b, 2.0)
    node, value = a.node, a.node.value
    counted = (node, value, None, ())
    counts = [sys.getrefcount(z) for z in counted]
    size = wf.runtime.counters()["allocator_bytes"]
    gc.collect()
    for _ in range(1000):
        f(a, b, 2.0)
    assert all(abs(sys.getrefcount(z) - then) < 100 for z, then in zip(counted, counts, strict=True))
    assert wf.runtime.counters()["allocator_bytes"] == size
    with pytest.raises((TypeError, ValueError)):
        f(a, wf.ones(3), 2.0)
    with pytest.raises(TypeError):
        f(a)


def test_two_python_threads_share_a_function():
    (a, b), (x, y) = arrays((400, 300), (400, 300))
    f = wf.jit(lambda a, b: wf.exp(a) * b)
    want = warm(f, a, b).numpy()
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(f(a, b).numpy(), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    np.testing.assert_allclose(want, np.exp(x) * y, rtol=1e-5)

"""What runs without being compiled: small work in its operator, new programs node by node; and what may not."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import counters
from weft.eager import tiers
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.tools.explain import explain

SMALL, LARGE = (30, 40), (300, 400)


def normal(*shape: int) -> wf.Array:
    return wf.array(np.random.default_rng(abs(hash(shape)) % 2**32).standard_normal(shape).astype(np.float32))


def ran() -> dict[str, int]:
    """What has run: kernels of their own, functions of any size, NumPy."""
    now = counters()
    return {name: now[name] for name in ("kernels", "compiles", "sized_calls", "numpy_calls")}


def test_a_small_result_has_its_value_and_a_large_one_waits() -> None:
    for small in (normal(*SMALL) + 1, normal(*SMALL).sum(axis=0), wf.exp(normal(7)), normal(3, 4) @ normal(4, 5), wf.zeros(9),
                  wf.arange(5), normal(*SMALL).T.reshape(-1) * 2, wf.where(normal(5) > 0, 1.0, 0.0), normal(5)[[0, 2]]):
        assert small.node.value is not None, small.shape
    large = normal(*LARGE) + 1
    assert large.node.value is None and large.sum(axis=0).node.value is None
    wf.eval(large)
    assert large.sum(axis=0).node.value is not None


def test_what_would_take_long_waits_though_its_result_is_small() -> None:
    x = wf.zeros((1200, 1000))
    wf.eval(x)
    assert x.sum().node.value is None and (x[:2] @ wf.ones((1000, 900))).node.value is None


@pytest.mark.parametrize("where", ["limit", "flush", "jit", "grad", "vmap", "scan"])
def test_where_nothing_runs_at_once(where: str) -> None:
    x, seen = normal(5), []

    def f(v: wf.Array) -> wf.Array:
        y = wf.tanh(v) * 2
        seen.append(y.node.value is None)
        return (y * y).sum()

    if where == "limit":
        before, CONTEXT.max_eager_bytes = CONTEXT.max_eager_bytes, 0
        try:
            f(x)
        finally:
            CONTEXT.max_eager_bytes = before
    elif where == "flush":
        with wf.flush_denormals():
            f(x)
    elif where == "jit":
        wf.jit(f)(x)
    elif where == "grad":
        wf.grad(f)(x)
    elif where == "vmap":
        wf.vmap(f)(normal(3, 5))
    else:
        wf.scan(lambda c, v: (c + f(v), c), wf.zeros(()), normal(3, 5))
    assert seen and all(seen)
    assert (wf.tanh(x) * 2).node.value is not None


def test_the_limit_is_the_threads_own() -> None:
    seen = []

    def other() -> None:
        CONTEXT.max_eager_bytes = 0
        seen.append((normal(3) + 1).node.value is None)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [True] and (normal(3) + 1).node.value is not None


def test_new_shapes_and_numbers_compile_nothing() -> None:
    def turn(n: int) -> None:
        a = wf.ones((3, n)) * n + 0.5
        (wf.exp(-a) @ wf.ones((n, 2))).sum(axis=0)
        a[:, n // 2] = n
        a[1, 0] += 1
        a.max(axis=1), a.mean(), a[a > 1].sum(), wf.sort(a), a.argmin(axis=1), wf.concatenate([a, a]), a.T[1:]

    for n in range(2, 300):  # every function that it needs has been made by then
        turn(n)
    before = ran()
    for n in range(300, 400):
        turn(n)
    after = ran()
    assert after["compiles"] == before["compiles"] and after["kernels"] == before["kernels"]
    assert after["sized_calls"] > before["sized_calls"] and after["numpy_calls"] > before["numpy_calls"]


def test_an_index_out_of_range_is_told_at_its_line() -> None:
    x, i = normal(5), wf.array([1, 5])
    with pytest.raises(IndexError, match=rf"index 5 is out of bounds for axis 0 with size 5 \({re.escape(__file__)}:\d+\)"):
        x[i]
    with pytest.raises(ValueError, match=r"x2 \(30,\)\. x2 is a reduction over axis 1: write keepdims=True there"):
        normal(*SMALL) / (normal(*SMALL).sum(axis=1) + 1)
    for fold in (wf.sum, wf.max, wf.argmin):  # the whole of a small reduction, read as a view, is one
        t = wf.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        m = fold(t, axis=1)
        with pytest.raises(ValueError, match=r"x2 \(2,\)\. x2 is a reduction over axis 1: write keepdims=True there"):
            t / m[:]
        with pytest.raises(ValueError, match=r"x1 \(2,\), x2 \(3,\)\. x1 is a reduction over axis 1"):
            m[...] += 1.0 * t[0].astype(m.dtype)


# ---- programs that are met for the first time


def loop(turns: int, shapes: bool) -> list[np.ndarray]:
    out = []
    for k in range(turns):
        x = normal(200 + k * shapes, 300)
        wf.eval(x)
        y = wf.tanh(x * 2 + 1) - x
        out.append((y / y.sum(axis=1, keepdims=True)).numpy())
    return out


def test_a_loop_of_new_shapes_is_not_compiled_and_one_that_repeats_is() -> None:
    loop(80, True)
    before = ran()
    loop(12, True)
    assert ran()["kernels"] == before["kernels"]
    loop(300, False)
    before = ran()
    loop(3, False)
    after = ran()
    assert after["kernels"] - before["kernels"] >= 3 and after["sized_calls"] == before["sized_calls"]


def test_both_ways_give_the_same_bits() -> None:
    CONTEXT.compile_threshold = 0.0
    try:
        compiled = loop(2, True)
    finally:
        CONTEXT.compile_threshold = 1.0
    CONTEXT.compile_threshold = 1e9
    try:
        uncompiled = loop(2, True)
    finally:
        CONTEXT.compile_threshold = 1.0
    assert [a.tobytes() for a in compiled] == [a.tobytes() for a in uncompiled]


def test_a_fused_kernel_is_tried_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(*LARGE)

    def short(*args: object) -> None:
        raise MemoryError("too much")

    want = (x.numpy() * 3 + 1).sum(axis=0, dtype=np.float64)
    monkeypatch.setattr(tiers, "compute_nodes", short)
    monkeypatch.setattr(CONTEXT, "compile_threshold", 1e9)
    np.testing.assert_allclose((x * 3 + 1).sum(axis=0).numpy(), want, rtol=1e-4)


def test_a_failure_leaves_everything_pending() -> None:
    x, index = normal(*LARGE), wf.array(np.arange(200_000) % 301)
    y = (x * 2)[index]
    with pytest.raises(IndexError, match="index 300 is out of bounds"):
        y.numpy()
    assert y.node.value is None
    np.testing.assert_array_equal((x * 2).numpy(), x.numpy() * 2)


# ---- windows: slices of what is there


def test_a_loop_over_rows_plans_once() -> None:
    data, w = normal(4000, 300), normal(300, 70)
    wf.eval(data, w)
    CONTEXT.compile_threshold = 0.0
    try:
        for k in range(3):
            wf.eval(wf.tanh(data[k * 200 : (k + 1) * 200] @ w))
        before = ran()
        for k in range(3, 20):
            got = wf.tanh(data[k * 200 : (k + 1) * 200] @ w).numpy()
        assert ran()["compiles"] == before["compiles"]
    finally:
        CONTEXT.compile_threshold = 1.0
    np.testing.assert_allclose(got, np.tanh(data.numpy()[3800:] @ w.numpy()), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("write", [
    lambda x: x.__setitem__((5, 7), 9.0), lambda x: x.__setitem__(slice(0, 300), 0.0), lambda x: x.__iadd__(1.0),
    lambda x: x.__setitem__((slice(None), 3), wf.ones(400)), lambda x: x.fill(2.0),
])
def test_what_was_read_stays_when_the_memory_behind_it_is_written(write: object) -> None:
    x = normal(400, 500)
    wf.eval(x)
    held = x.numpy().copy()
    view = x[:200]
    copied, once = wf.copy(view), view * 1
    wf.eval(copied)
    write(x)  # type: ignore[operator]
    wf.eval(x)
    np.testing.assert_array_equal(copied.numpy(), held[:200])
    np.testing.assert_array_equal(once.numpy(), held[:200])
    np.testing.assert_array_equal(view.numpy(), x.numpy()[:200])
    assert not np.array_equal(x.numpy(), held)


def test_a_window_is_not_given_away() -> None:
    """Neither it nor what it lies in may become the memory of a result while both are in use."""
    x = normal(400, 500)
    wf.eval(x)
    want = x.numpy().copy()
    step = wf.jit(lambda a: a * 2 + 1)
    part = wf.copy(x[100:300])
    for _ in range(3):
        x = step(x)
        part = step(part)
    scaled = want * 8 + 7
    np.testing.assert_allclose(x.numpy(), scaled, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(part.numpy(), scaled[100:300], rtol=1e-4, atol=1e-5)


def test_a_window_keeps_the_memory_it_shows() -> None:
    part = (normal(600, 500) + 1)[100:400]
    wf.eval(part)
    junk = [wf.eval(normal(600, 500) * k) for k in range(3)]
    np.testing.assert_array_equal(part.numpy(), normal(600, 500).numpy()[100:400] + 1)
    assert len(junk) == 3


def test_elements_are_written_into_large_arrays_where_they_lie() -> None:
    a = wf.zeros(1_000_000)
    a[3] = 1.0
    before = ran()
    for k in range(50):
        a[k] = float(k)
        a[k * 100 : k * 100 + 3] = wf.ones(3) * k
    after = ran()
    assert after["kernels"] == before["kernels"]
    want = np.zeros(1_000_000, np.float32)
    for k in range(50):
        want[k] = k
        want[k * 100 : k * 100 + 3] = k
    np.testing.assert_array_equal(a.numpy(), want)


def test_explain_says_what_runs_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    def f(a: wf.Array) -> wf.Array:
        return wf.exp(a - a.max(axis=1, keepdims=True)).sum()

    small, large = explain(f, normal(*SMALL)), explain(f, normal(*LARGE))
    assert small.at_once == small.operations == 4 and large.at_once == 1
    assert "without jit 4 of its 4 operations run at once" in capsys.readouterr().out
    assert explain(wf.jit(f), normal(*SMALL)).at_once == 0


def test_memory_stays_flat_over_shapes() -> None:
    def turn(n: int) -> float:
        a = wf.ones((3, n)) * 2.0 + 1.0
        return float(a.sum(axis=0).max())

    for n in range(1, 400):
        turn(n)
    size = execute.device().counters()["allocator_bytes"]
    for n in range(400, 1200):
        assert turn(n) == 9.0
    assert execute.device().counters()["allocator_bytes"] - size < 1 << 20


def test_a_loop_over_parts_of_a_pending_array_computes_it_once() -> None:
    x = normal(*LARGE) * 2
    following = x[3] + 1
    assert x.node.value is not None and following.node.value is not None
    whole, half = normal(*LARGE) * 2, (normal(*LARGE) * 2)[:200]
    assert whole.node.value is None and half.node.value is None


_BROADCASTS = (
    lambda np: np.ones(50_000, np.float32), lambda np: np.full(50_000, 7)[::2], lambda np: np.ones((200, 300), np.float32).T,
    lambda np: np.broadcast_to(np.arange(9, dtype=np.float32), (20_000, 9)),
    lambda np: np.broadcast_to(np.arange(50_000, dtype=np.float32)[:, None], (50_000, 3))[:, 1],
    lambda np: np.broadcast_to(np.arange(9, dtype=np.float32) * 2, (20_000, 9))[3:-3, ::-1],
)


@pytest.mark.parametrize("make", _BROADCASTS)
@pytest.mark.parametrize("loop", [iter, lambda x: (x[i] for i in range(len(x)))])
def test_a_loop_over_a_broadcast_runs_one_graph(
    make: Callable[[Any], Any], loop: Callable[[Any], Iterator[Any]], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many parts are read: a graph for each took 30 times as long as the loop."""
    want, x, runs = make(np), make(wf), []
    for module, name in ((tiers, "compute_nodes"), (execute, "run")):
        way = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, way=way: (runs.append(1), way(*given))[1])
    read = [part.tolist() for part in loop(x)]
    assert read == want.tolist()
    assert len(runs) <= 2, len(runs)


def test_a_broadcast_larger_than_memory_is_read_in_parts() -> None:
    """No part of it stores the whole: 1.6 GB, and 64 GB."""
    for n in (20_000, 126_000):
        x = wf.ones((n, n))
        wf.eval(wf.ones(3) + 1)
        before = counters()["allocator_bytes"]
        assert x[3, 4] == 1 and x.T[n - 1, 0] == 1 and x[5, :7].tolist() == [1] * 7 and float(x[-1].sum()) == n
        assert next(iter(x)).shape == (n,) and x[::1000, 2].tolist() == [1] * len(range(0, n, 1000))
        assert x.node.value is None and counters()["allocator_bytes"] - before < 64 << 20

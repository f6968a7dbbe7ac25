"""Loops: values and derivatives against Python loops in float64, counts, and the same bits as the loop written out."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.errors import DTypeError, ShapeError, TraceError
from weft.graph.interpret import interpret
from weft.runtime.execute import copy_structure
from weft.schedule import reasons
from weft.schedule.build import build
from weft.schedule.program import Call, Loop, calls


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng()
    return rng.standard_normal((4, 4)) / 2, rng.standard_normal((3, 4)), rng.standard_normal((6, 3, 4))


def net(w: Any, h: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = wf.tanh(x + h @ w)
        return h, h * 2

    return wf.scan(step, h, xs, reverse=reverse)


def net_numpy(w: np.ndarray, h: np.ndarray, xs: np.ndarray, reverse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    ys = np.zeros_like(xs)
    for t in range(len(xs))[:: -1 if reverse else 1]:
        h = np.tanh(xs[t] + h @ w)
        ys[t] = h * 2
    return h, ys


def loss(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    h, ys = net(w, h, xs, reverse)
    return (h * h).sum() + wf.sin(ys).sum()


def loss_numpy(w: np.ndarray, h: np.ndarray, xs: np.ndarray, reverse: bool = False) -> float:
    h, ys = net_numpy(w, h, xs, reverse)
    return float((h * h).sum() + np.sin(ys).sum())


def slope(f: Callable[..., float], arrays: list[np.ndarray], k: int, step: float = 1e-6) -> np.ndarray:
    """Central differences by array k."""
    out = np.zeros_like(arrays[k])
    for i in np.ndindex(out.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[k][i] += sign * step
            ends.append(f(*moved))
        out[i] = (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5, 6])
def test_values(data: tuple, steps: int, reverse: bool) -> None:
    w, h, xs = data[0], data[1], data[2][:steps]
    want = net_numpy(w, h, xs, reverse)
    for f in (net, wf.jit(net)):
        got = f(wf.array(w), wf.array(h), wf.array(xs), reverse)
        for g, r in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(g), r, rtol=1e-12, atol=1e-13)


def test_no_steps(data: tuple) -> None:
    w, h, xs = data
    last, ys = net(wf.array(w), wf.array(h), wf.array(xs[:0]))
    np.testing.assert_array_equal(np.asarray(last), h)
    assert ys.shape == (0, 3, 4)
    assert wf.fori_loop(3, 3, lambda i, v: v + i, 7) is not None and int(wf.fori_loop(3, 3, lambda i, v: v + i, 7)) == 7


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("steps", [1, 6])
def test_gradients(data: tuple, steps: int, jitted: bool, reverse: bool) -> None:
    arrays = [data[0], data[1], data[2][:steps]]
    f = wf.value_and_grad(lambda *a: loss(*a, reverse), argnums=(0, 1, 2))
    value, grads = (wf.jit(f) if jitted else f)(*map(wf.array, arrays))
    np.testing.assert_allclose(float(value), loss_numpy(*arrays, reverse), rtol=1e-12)
    for k, g in enumerate(grads):
        want = slope(lambda *a: loss_numpy(*a, reverse), arrays, k)
        np.testing.assert_allclose(np.asarray(g), want, rtol=1e-6, atol=1e-7)


def test_gradient_by_a_captured_array_and_by_one_alone(data: tuple) -> None:
    w, h, xs = map(wf.array, data)
    both = wf.grad(loss, argnums=(0, 1, 2))(w, h, xs)
    for k in range(3):
        alone = wf.grad(loss, argnums=k)(w, h, xs)
        np.testing.assert_array_equal(np.asarray(alone), np.asarray(both[k]))


def test_second_order(data: tuple) -> None:
    w, h, xs = data
    direction = np.random.default_rng().standard_normal(w.shape)

    def along(w: Any) -> Any:
        return (wf.grad(loss)(w, wf.array(h), wf.array(xs)) * wf.array(direction)).sum()

    def along_numpy(w: np.ndarray) -> float:
        return float((slope(loss_numpy, [w, h, xs], 0, 1e-5) * direction).sum())

    got = np.asarray(wf.grad(along)(wf.array(w)))
    np.testing.assert_allclose(got, slope(along_numpy, [w], 0, 1e-4), rtol=1e-3, atol=1e-4)


def test_vmap(data: tuple) -> None:
    w, h, xs = data
    ws = np.stack([w, -w, w * 0.5])
    many = np.stack([xs, xs * 2, xs - 1], axis=2)  # an axis in the middle
    got = wf.vmap(net, in_axes=(0, None, 2))(wf.array(ws), wf.array(h), wf.array(many))
    for k in range(3):
        want = net_numpy(ws[k], h, many[:, :, k])
        for g, r in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(g)[k], r, rtol=1e-12, atol=1e-13)
    grads = wf.vmap(wf.grad(loss), in_axes=(None, None, 2))(wf.array(w), wf.array(h), wf.array(many))
    for k in range(3):
        want = slope(loss_numpy, [w, h, many[:, :, k]], 0)
        np.testing.assert_allclose(np.asarray(grads)[k], want, rtol=1e-6, atol=1e-7)


def test_trees_numbers_and_integers() -> None:
    x = np.random.default_rng().standard_normal((5, 2)).astype(np.float32)

    def step(carry: dict, x: tuple) -> tuple[dict, dict]:
        value, flag = x
        count = carry["count"] + flag.astype("int32")
        return {"count": count, "sum": (carry["sum"][0] + value,)}, {"big": wf.where(flag, value, 0), "count": count}

    flags = x[:, 0] > 0
    carry, ys = wf.scan(step, {"count": 0, "sum": (wf.zeros(2),)}, (wf.array(x), wf.array(flags)))
    assert int(carry["count"]) == flags.sum() and carry["count"].dtype == wf.int64
    assert wf.scan(lambda c, x: (c + x.sum(), None), 0.0, wf.array(x.astype("float64")))[0].dtype == wf.float64
    np.testing.assert_allclose(np.asarray(carry["sum"][0]), x.sum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(ys["count"]), np.cumsum(flags))
    np.testing.assert_array_equal(np.asarray(ys["big"]), np.where(flags[:, None], x, 0))


def test_loops_in_loops() -> None:
    w = np.random.default_rng().uniform(0.5, 1.0, (3,))

    def f(w: Any) -> Any:
        def outer(i: Any, v: Any) -> Any:
            return wf.fori_loop(0, 4, lambda j, u: wf.sin(u * w) + j.astype("float64") * 0.1, v)

        return wf.fori_loop(0, 3, outer, w).sum()

    def reference(w: np.ndarray) -> float:
        v = w
        for _ in range(3):
            for j in range(4):
                v = np.sin(v * w) + j * 0.1
        return float(v.sum())

    assert np.isclose(float(wf.jit(f)(wf.array(w))), reference(w), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(wf.jit(wf.grad(f))(wf.array(w))), slope(reference, [w], 0), rtol=1e-6, atol=1e-8)


def test_a_carry_returned_as_it_was_and_swapped() -> None:
    a, b = np.random.default_rng().standard_normal((2, 7))
    (x, y, z), ys = wf.scan(lambda c, _: ((c[1], c[0], c[2]), c[0]), tuple(map(wf.array, (a, b, a))), length=5)
    np.testing.assert_array_equal(np.asarray(x), b)
    np.testing.assert_array_equal(np.asarray(y), a)
    np.testing.assert_array_equal(np.asarray(z), a)
    np.testing.assert_array_equal(np.asarray(ys), np.stack([a, b, a, b, a]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_as_the_loop_written_out(data: tuple, dtype: str) -> None:
    w, h, xs = (wf.array(a.astype(dtype)) for a in data)

    def unrolled(w: Any, h: Any, xs: Any) -> tuple[Any, Any]:
        ys = []
        for t in range(xs.shape[0]):
            h = wf.tanh(xs[t] + h @ w)
            ys.append(h * 2)
        return h, wf.stack(ys)

    for g, r in zip(wf.jit(net)(w, h, xs), wf.jit(unrolled)(w, h, xs), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(r))


def test_one_entry_and_as_many_kernels_at_any_length(data: tuple) -> None:
    w, h = wf.array(data[0]), wf.array(data[1])
    kernels = set()
    for steps in (2, 50):
        xs = wf.array(np.random.default_rng().standard_normal((steps, 3, 4)))
        f = wf.jit(wf.value_and_grad(loss, argnums=(0, 1, 2)))
        program = build(copy_structure(f.trace(w, h, xs).graph))
        assert sum(isinstance(s, Loop) for s in program.steps) == 2
        kernels.add(len(calls(program)))
        wf.eval(f(w, h, xs))
        before = get_device().counters()["entries"]
        wf.eval(f(w, h, xs))
        assert get_device().counters()["entries"] - before == 1
    assert len(kernels) == 1


def test_a_loop_runs_once_for_all_its_results(data: tuple) -> None:
    last, ys = net(*map(wf.array, data))
    before = get_device().counters()["entries"]
    np.asarray(last), np.asarray(ys)
    assert get_device().counters()["entries"] - before == 1


def test_a_long_loop_can_be_interrupted() -> None:
    f = wf.jit(lambda x: wf.fori_loop(0, 10**9, lambda i, v: wf.sin(v) + 0.1, x))
    x = wf.ones(64)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        wf.eval(f(x))
    np.testing.assert_allclose(np.asarray(wf.sin(x)), np.sin(np.ones(64)), rtol=1e-6)  # all is as it was


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_threads_run_one_loop_at_once(steps: int) -> None:
    f = wf.jit(lambda v: wf.fori_loop(0, 300 + steps, lambda i, u: wf.sin(u) + 0.1, v))
    v = wf.array(np.random.default_rng().standard_normal(500))
    want, found = np.asarray(f(v)), []
    threads = [threading.Thread(target=lambda: found.append(np.asarray(f(v)))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and all((g == want).all() for g in found)


def test_what_is_not_read_is_not_computed(data: tuple) -> None:
    f = wf.jit(lambda *a: net(*a)[0])
    (loop,) = (s for s in build(copy_structure(f.trace(*map(wf.array, data)).graph)).steps if isinstance(s, Loop))
    assert not loop.ys and all(c.tape < 0 for c in loop.carries)


def test_products_for_a_constant_are_made_once_after_the_loop(data: tuple) -> None:
    f = wf.jit(wf.grad(loss))
    loops = [s for s in build(copy_structure(f.trace(*map(wf.array, data)).graph)).steps if isinstance(s, Loop)]
    assert [len(s.carries) for s in loops] == [1, 1]  # no sum of products is carried

    def gated(v: Any, xs: Any) -> Any:  # two constants, one no product, one read by two products
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            return wf.tanh(x @ v["w"] + h @ v["w"] + v["b"] * h), None

        return (wf.scan(step, wf.zeros((3, 4), dtype="float64"), xs)[0] ** 2).sum()

    def gated_numpy(w: np.ndarray, b: np.ndarray) -> float:
        h = np.zeros((3, 4))
        for x in data[2]:
            h = np.tanh(x @ w + h @ w + b * h)
        return float((h**2).sum())

    b = np.random.default_rng().standard_normal(4)
    grads = wf.jit(wf.grad(gated))({"w": wf.array(data[0]), "b": wf.array(b)}, wf.array(data[2]))
    for k, name in enumerate("wb"):
        np.testing.assert_allclose(np.asarray(grads[name]), slope(gated_numpy, [data[0], b], k), rtol=1e-6, atol=1e-7)


def test_the_reason_why_a_loop_fuses_with_nothing(data: tuple) -> None:
    f = wf.jit(lambda w, h, xs: net(wf.exp(w), h, xs)[0])
    program = build(copy_structure(f.trace(*map(wf.array, data)).graph))
    assert [type(s) for s in program.steps] == [Call, Loop]
    assert program.info[0].boundary == (f"scan: {reasons.LOOP}",)


def test_the_reference_agrees(data: tuple) -> None:
    traced = wf.jit(wf.grad(loss)).trace(*map(wf.array, data))
    values = [data[0] if n.shape == (4, 4) else data[1] if n.shape == (3, 4) else data[2] for n in traced.graph.inputs]
    (want,) = interpret(traced.graph, values)
    np.testing.assert_allclose(np.asarray(wf.grad(loss)(*map(wf.array, data))), want, rtol=1e-10, atol=1e-12)


def test_refusals() -> None:
    x = wf.ones((3, 2))
    with pytest.raises(ShapeError, match=r"carry 0 has shape \(2,\) before a step and \(1, 2\)"):
        wf.scan(lambda c, x: (c[None] + x, None), wf.zeros(2), x)
    with pytest.raises(DTypeError, match="carry 0 is float32 before a step and float64 after"):
        wf.scan(lambda c, x: (c.astype("float64"), None), wf.zeros(2), x)
    with pytest.raises(ShapeError, match="first extents of xs differ"):
        wf.scan(lambda c, x: (c, None), wf.zeros(2), (x, wf.ones(4)))
    with pytest.raises(ShapeError, match="give length="):
        wf.scan(lambda c, x: (c, None), wf.zeros(2))
    with pytest.raises(TypeError, match=r"must return \(carry, y\)"):
        wf.scan(lambda c, x: c, wf.zeros(2), x)
    with pytest.raises(TypeError, match="structure of the carry"):
        wf.scan(lambda c, x: ((c, c), None), wf.zeros(2), x)
    with pytest.raises(TraceError, match="loop"):
        wf.scan(lambda c, x: (c + float(x.sum()), None), wf.zeros(2), x)
    with pytest.raises(TypeError, match="must be a Python int"):
        wf.fori_loop(0, wf.array(3), lambda i, v: v, 0.0)


@pytest.mark.parametrize("options", [dict(unroll=2), dict(unroll=5, reverse=True), dict(remat=3), dict(remat=True)], ids=str)
@pytest.mark.parametrize("jitted", [False, True])
def test_groups_of_no_steps(options: dict[str, Any], jitted: bool) -> None:
    def run(h: Any, xs: Any, **options: Any) -> Any:
        return wf.scan(lambda h, x: (wf.tanh(h + x), (h.sum(), x * 2)), h, xs, **options)

    h, xs = wf.ones(3), wf.zeros((0, 3))
    want = run(h, xs)
    got = (wf.jit(lambda h, xs: run(h, xs, **options)) if jitted else lambda h, xs: run(h, xs, **options))(h, xs)
    assert [(a.shape, a.dtype) for a in (got[0], *got[1])] == [(a.shape, a.dtype) for a in (want[0], *want[1])]
    assert (got[0] == want[0]).all()

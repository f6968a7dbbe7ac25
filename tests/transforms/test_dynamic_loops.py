"""Loops and branches whose number of steps depends on values: random programs beside the same programs run by Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.transforms.dynamic_programs import Python, program
from weft.errors import DTypeError, ShapeError, TraceError


@pytest.mark.drawn(3)
@pytest.mark.parametrize("part", range(6))
def test_random_programs(part: int) -> None:
    for _ in range(12):
        seed = random.randrange(1 << 40)
        f = program(seed)
        print(f"seed {seed}: {f.text}")  # type: ignore[attr-defined]  # shown if the test fails
        rng = np.random.default_rng(seed)
        a, rows = rng.standard_normal(3), rng.standard_normal((rng.integers(1, 6), 3))

        def value(a: Any, k: Any = wf, rows: Any = rows, f: Any = f) -> Any:
            return f(k, a, rows if k is Python else wf.array(rows)).sum() + 0.0 * a.sum()

        want = float(value(a, Python))
        bound = dict(rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(float(value(wf.array(a))), want, **bound)
        jitted = wf.jit(value)
        np.testing.assert_allclose(float(jitted(wf.array(a))), want, **bound)
        slope = np.asarray(wf.grad(value)(wf.array(a)))
        np.testing.assert_allclose(np.asarray(wf.jit(wf.grad(value))(wf.array(a))), slope, **bound)
        direction = rng.standard_normal(3)
        for run in (lambda f: f, wf.jit):
            got, change = run(lambda a, t: wf.jvp(value, (a,), (t,)))(wf.array(a), wf.array(direction))
            np.testing.assert_allclose(float(got), want, **bound)
            np.testing.assert_allclose(float(change), slope @ direction, **bound)
        many = np.stack([a, -a, a * 0.3, a + 1])
        np.testing.assert_allclose(
            np.asarray(wf.vmap(value)(wf.array(many))), [float(value(x, Python)) for x in many], **bound
        )
        each = [np.asarray(wf.grad(value)(wf.array(x))) for x in many]
        np.testing.assert_allclose(np.asarray(wf.vmap(wf.grad(value))(wf.array(many))), each, **bound)
        steps = 1e-6 * np.eye(3)
        ends = [[float(value(a + sign * h, Python)) for h in steps] for sign in (1, -1)]
        if np.abs(np.subtract(*ends)).max() < 1e-3:  # no step has crossed a condition
            np.testing.assert_allclose(slope, np.subtract(*ends) / 2e-6, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 10, 1000])
@pytest.mark.parametrize("most", [0, 1, 2, 10, None])
def test_numbers_of_steps(steps: int, most: int | None) -> None:
    start = np.zeros(3)
    got = wf.while_loop(lambda v: v[0] < steps, lambda v: (v[0] + 1, v[1] * 0.5 + 1), (0, wf.array(start)), max_steps=most)
    want = Python.while_loop(lambda v: v[0] < steps, lambda v: (v[0] + 1, v[1] * 0.5 + 1), (0, start), most)
    assert int(got[0]) == want[0]
    np.testing.assert_array_equal(np.asarray(got[1]), want[1])


def test_writes_outside() -> None:
    """Arrays that a body or the chosen branch writes hold the last value; those of the other branch are as they were."""
    for jit in (lambda f: f, wf.jit):
        total, other = wf.zeros(3), wf.ones(3)

        def f(x: Any, total: Any = total, other: Any = other) -> Any:
            def body(k: Any) -> Any:
                total[...] = total + x * k
                return k + 1

            def write(value: float) -> Any:
                other[...] = value
                return x

            k = wf.while_loop(lambda k: k < 4, body, 0)
            return k + wf.cond(x.sum() > 0, lambda: write(5.0), lambda: write(7.0)).sum()

        g = jit(f)
        assert float(g(wf.ones(3))) == 7
        np.testing.assert_array_equal(np.asarray(total), [6, 6, 6])
        np.testing.assert_array_equal(np.asarray(other), [5, 5, 5])
        g(-wf.ones(3))
        np.testing.assert_array_equal(np.asarray(other), [7, 7, 7])
        np.testing.assert_array_equal(np.asarray(total), [0, 0, 0])


def test_operands_are_copies() -> None:
    x = wf.ones(3)

    def add(y: Any) -> Any:
        y += 1
        return y

    assert wf.cond(x.sum() > 0, add, add, x).tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]


def test_an_index_that_is_out_of_range_in_a_branch_not_run() -> None:
    x = wf.arange(4.0)
    for jit in (lambda f: f, wf.jit):
        f = jit(lambda i: wf.cond(i < 4, lambda: x[i], lambda: wf.array(-1.0)))
        assert float(f(wf.array(2))) == 2
        assert float(f(wf.array(9))) == -1
        with pytest.raises(IndexError):
            float(jit(lambda i: wf.cond(i < 20, lambda: x[i], lambda: wf.array(-1.0)))(wf.array(9)))


def test_steps_in_numpy() -> None:
    """A loop with steps that NumPy runs is driven from Python."""
    a = wf.array(np.diag([1.0, 2.0, 4.0]))
    for jit in (lambda f: f, wf.jit):
        f = jit(lambda x: wf.while_loop(lambda s: s[1].sum() > 1e-3, lambda s: (s[0] + 1, wf.linalg.solve(a * 2, s[1])), (0, x)))
        steps, _ = f(wf.ones(3, dtype="float64"))
        want = Python.while_loop(
            lambda s: s[1].sum() > 1e-3, lambda s: (s[0] + 1, np.linalg.solve(np.asarray(a) * 2, s[1])), (0, np.ones(3))
        )
        assert int(steps) == want[0]


def test_one_program_for_all_numbers_of_steps() -> None:
    @wf.jit
    def f(x: Any, n: Any) -> Any:
        return wf.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, v[1] * 2), (0, x))[1]

    for n in range(20):
        assert float(f(wf.array(1.0), wf.array(n))) == 2.0**n
    assert f.traces == 1


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(axis: int, reverse: bool) -> None:
    rng = np.random.default_rng()
    for n in (1, 2, 3, 4, 5, 8, 17, 33):
        x = rng.standard_normal((n, n))
        flipped = np.flip(x, axis) if reverse else x
        for f, g in ((lambda a, b: a + b, np.cumsum), (wf.maximum, np.maximum.accumulate)):
            want = g(flipped, axis=axis)
            got = wf.associative_scan(f, wf.array(x), reverse=reverse, axis=axis)
            np.testing.assert_allclose(np.asarray(got), np.flip(want, axis) if reverse else want, rtol=1e-12, atol=1e-12)
    rows = {"a": rng.standard_normal((9, 2, 2))}  # products of matrices do not commute
    got = wf.associative_scan(lambda x, y: {"a": x["a"] @ y["a"]}, {"a": wf.array(rows["a"])})["a"]
    want = np.stack([np.linalg.multi_dot(rows["a"][:k]) if k > 1 else rows["a"][0] for k in range(1, 10)])
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "f", "xs", "error", "text"), [
    ("map", lambda p: p[0] + p[1], (wf.ones((3, 2)), wf.ones((4, 2))), ShapeError,
     r"the arrays of xs have shapes \(3, 2\), \(4, 2\): their extents along axis 0 must be equal"),
    ("map", lambda p: p, {"a": wf.ones(3), "b": 2.0}, ValueError, "xs, leaf 1, is one number"),
    ("map", lambda p: p, None, ShapeError, "xs is None, but must be an array"),
    ("map", lambda p: p, {"a": wf.ones(3), "b": "text"}, TypeError, "xs is a tree whose leaf 1 is 'text'"),
    ("map", lambda p: (p, "text"), wf.ones(3), TypeError, r"f returns a tree whose leaf 1 is 'text' \(str\), but must"),
    ("map", 3, wf.ones(3), TypeError, "f is 3 .* a function"),
    ("associative_scan", lambda a, b: a, (wf.ones((3, 2)), wf.ones((4, 2))), ShapeError, "extents along axis 0 must be equal"),
    ("associative_scan", lambda a, b: (a, b), wf.ones(3), ShapeError, "f returns .* for operands that are one array"),
    ("associative_scan", lambda a, b: (a + b).sum(), wf.ones(3), ShapeError, r"result of f has shape \(\) .* operands, \(1,\)"),
    ("associative_scan", lambda a, b: (a + b).astype("float64"), wf.ones(3), TypeError, "dtype float64, but .* float32"),
    ("associative_scan", lambda a, b: None, wf.ones(3), ShapeError, "f returns None"),
    ("associative_scan", lambda a, b: a, 2.0, ValueError, "xs is one number"),
])
def test_what_does_not_fit(name: str, f: Any, xs: Any, error: type[Exception], text: str) -> None:
    calls = [lambda: getattr(wf, name)(f, xs)]
    calls += [lambda: wf.map(f, xs, 2)] if name == "map" else [lambda: wf.associative_scan(f, xs, True)]
    for call in (*calls, lambda: wf.jit(lambda: calls[0]())()):
        with pytest.raises(error, match=f"{name}: .*{text}"):
            call()


@pytest.mark.parametrize("size", [None, 1, 2, 3, 5, 6, 100])
def test_map(size: int | None) -> None:
    x = np.random.default_rng().standard_normal((6, 3))
    got = wf.map(lambda row: {"sum": row["x"].sum(), "twice": row["x"] * 2}, {"x": wf.array(x)}, batch_size=size)
    np.testing.assert_allclose(np.asarray(got["sum"]), x.sum(axis=1))
    np.testing.assert_array_equal(np.asarray(got["twice"]), x * 2)


def test_bad_input() -> None:
    x = wf.ones(3)
    with pytest.raises(ShapeError, match=r"the condition has shape \(3,\)"):
        wf.while_loop(lambda v: v < 1, lambda v: v, x)
    with pytest.raises(DTypeError, match="the condition is float32"):
        wf.while_loop(lambda v: v.sum(), lambda v: v, x)
    with pytest.raises(ShapeError, match="while_loop: carry 0 has shape"):
        wf.while_loop(lambda v: v.sum() < 1, lambda v: v[:2], x)
    with pytest.raises(TypeError, match="changes the structure of the value"):
        wf.while_loop(lambda v: v.sum() < 1, lambda v: (v, v), x)
    for steps in (-1, 1.5, True, "3"):
        with pytest.raises((TypeError, ValueError), match="max_steps"):
            wf.while_loop(lambda v: v.sum() < 1, lambda v: v, x, max_steps=steps)
    with pytest.raises(TypeError, match="give max_steps"):
        wf.grad(lambda x: wf.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x).sum())(x)
    with pytest.raises(ShapeError, match="pred has shape"):
        wf.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(DTypeError, match="pred is int32|pred is int64"):
        wf.cond(wf.array(1), lambda: x, lambda: x)
    with pytest.raises(ShapeError, match=r"shapes \(3,\) and \(2,\)"):
        wf.cond(x.sum() > 0, lambda: x[:2], lambda: x)
    with pytest.raises(TypeError, match="one structure"):
        wf.cond(x.sum() > 0, lambda: x, lambda: (x, x))
    with pytest.raises(ValueError, match="branches is empty"):
        wf.switch(0, [])
    with pytest.raises(DTypeError, match="index is float32"):
        wf.switch(wf.array(1.0), [lambda: x])
    holder = {"x": x}

    def bind() -> Any:
        holder["x"] = x + 1
        return x

    with pytest.raises(TraceError, match="rebinds"):
        wf.cond(x.sum() > 0, bind, lambda: x)
    for options in ({"unroll": 0}, {"unroll": 2, "remat": 2}, {"remat": -1}, {"unroll": 1.5}):
        with pytest.raises(ValueError, match="unroll|remat"):
            wf.scan(lambda c, x: (c, x), x, wf.ones((4, 2)), **options)


def test_indices_in_a_loop_without_a_largest_number_of_steps() -> None:
    x = wf.arange(5.0)
    for jit in (lambda f: f, wf.jit):
        assert int(jit(lambda: wf.while_loop(lambda i: x[i] < 3, lambda i: i + 1, 0))()) == 3


def test_no_examples() -> None:
    none = wf.zeros((0, 3))
    assert wf.vmap(lambda x: wf.cond(x.sum() > 1, lambda: x / 2, lambda: x))(none).shape == (0, 3)
    assert wf.vmap(lambda x: wf.while_loop(lambda v: v.sum() < 3, lambda v: v + 1, x))(none).shape == (0, 3)


def test_branches_for_their_writes_only() -> None:
    x = wf.zeros(2)
    assert wf.cond(wf.array(True), lambda: x.__setitem__(0, 7.0), lambda: None) is None
    assert x.tolist() == [7, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_switch_takes_the_nearest_branch(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for index in (limits.min, 0, 1, 2, limits.max):
        want = min(max(index, 0), 1)
        assert int(wf.switch(wf.array(index, dtype=dtype), [lambda: 0, lambda: 1])) == want

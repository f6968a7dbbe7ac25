"""Memory that is shared: a jitted function does what it does lazily, and both do what NumPy does.

Programs are drawn: arrays and views of them as arguments and in closures, writes through any of them, and results that are
arguments, views, the same array twice. NumPy runs each of them too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from making import array

from weft.errors import ShapeError, TraceError
from weft.transforms.control import scan
from weft.transforms.grad import grad, value_and_grad, vjp
from weft.transforms.jit import jit
from weft.transforms.vmap import vmap


def slot(draw: np.random.Generator, n: int) -> slice:
    """A slice that takes something of ``n`` elements."""
    step = int(draw.choice([1, 1, 2, -1]))
    low = int(draw.integers(0, n))
    high = int(draw.integers(low + 1, n + 1))
    return slice(low, high, step) if step > 0 else slice(high - 1, low - 1 if low else None, step)


def move(draw: np.random.Generator, x: np.ndarray) -> tuple[str, Any]:
    """A view of an array, as (kind, how)."""
    kinds = ["slice", "slice", "transpose"] + (["reshape"] if x.flags.c_contiguous and x.ndim == 2 else [])
    kind = str(draw.choice(kinds))
    if kind == "slice":
        return kind, tuple(slot(draw, n) for n in x.shape)
    return kind, (x.shape[1], x.shape[0]) if kind == "reshape" else None


def seen(x: Any, how: tuple[str, Any]) -> Any:
    kind, what = how
    return x[what] if kind == "slice" else x.T if kind == "transpose" else x.reshape(what)


class Program:
    """Arrays, handles on them (arguments and closure), statements on handles, and what is returned."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        shapes = [tuple(draw.integers(1, 6, int(draw.integers(1, 3)))) for _ in range(int(draw.integers(1, 3)))]
        self.bases = [draw.integers(0, 90, s) for s in shapes]
        shown = [b.copy() for b in self.bases]
        self.handles: list[tuple[int, tuple | None]] = []  # (number of a base or an earlier handle, how it is seen)
        for _ in range(int(draw.integers(2, 5))):
            of = int(draw.integers(len(shown)))
            how = move(draw, shown[of]) if draw.random() < 0.75 else None
            self.handles.append((of, how))
            shown.append(shown[of] if how is None else seen(shown[of], how))
        self.handles = self.handles[:]
        count = len(self.handles)
        self.given = [k for k in range(count) if draw.random() < 0.7] or [0]  # the others are the closure's
        self.statements: list[tuple[str, int, int, Any]] = []
        shown = shown[len(self.bases):]
        for _ in range(int(draw.integers(2, 6))):
            a, b = int(draw.integers(len(shown))), int(draw.integers(len(shown)))
            kind = str(draw.choice(["write", "write", "add", "scale", "view", "fresh", "copy"]))
            if kind == "add" and shown[a].shape != shown[b].shape:
                kind = "write"
            how = None
            if kind == "view":
                how = move(draw, shown[a])
                shown.append(seen(shown[a], how))
            elif kind in ("fresh", "copy"):
                shown.append(np.array(shown[a]))
            self.statements.append((kind, a, b, how))
        self.returned = [int(k) for k in draw.integers(0, len(shown), int(draw.integers(1, 5)))]

    def arrays(self, make: Any) -> tuple[list[Any], list[Any]]:
        """The bases and the handles on them, made by ``make``."""
        bases = [make(b.copy()) for b in self.bases]
        all_ = list(bases)
        for of, how in self.handles:
            all_.append(all_[of] if how is None else seen(all_[of], how))
        return bases, all_[len(bases):]

    def function(self, handles: list[Any]) -> Any:
        def f(*args: Any) -> tuple[Any, ...]:
            local = list(handles)
            for k, x in zip(self.given, args, strict=True):
                local[k] = x
            for kind, a, b, how in self.statements:
                x, y = local[a], local[b]
                if kind == "write":
                    x[...] = (x * 3 + y.sum()) % 97
                elif kind == "add":
                    x += y
                elif kind == "scale":
                    x *= 2
                elif kind == "view":
                    local.append(seen(x, how))
                elif kind == "fresh":
                    local.append((x + y.sum()) % 89)
                else:
                    local.append(x.copy())
            return tuple(local[k] for k in self.returned)

        return f

    def run(self, make: Any, jitted: bool, calls: int) -> list[np.ndarray]:
        """Everything that can be seen: after each call, and after writes into what it returned."""
        bases, handles = self.arrays(make)
        f = self.function(handles)
        f = jit(f) if jitted else f
        args = [handles[k] for k in self.given]
        out: list[np.ndarray] = []
        for call in range(calls):
            results = f(*args)
            out += [np.array(r) for r in (*results, *bases)]
            for k, r in enumerate(results):
                r[...] = r + 10 * k + call
                r %= 101
                out += [np.array(x) for x in (*results, *bases, *handles)]
            for a, r in enumerate(results):  # the same object, where NumPy gives the same
                out.append(np.array([r is x for x in (*results[:a], *handles)]))
        return out


@pytest.mark.parametrize("seed", range(40))
def test_jit_lazy_and_numpy_agree_on_shared_memory(seed):
    program = Program(seed)
    want = program.run(lambda x: x, False, 2)
    for jitted in (False, True):
        got = program.run(array, jitted, 2)
        assert len(got) == len(want)
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_array_equal(g, w, err_msg=f"seed {seed}, jitted {jitted}, figure {k}: {vars(program)}")


POOL = ("a[0:6]", "a[2:8]", "a[6:12]", "a[::2]", "a[5::-1]", "b", "b[:]", "c")


@pytest.mark.parametrize("seed", range(4))
def test_one_function_called_with_this_and_that(seed):
    """The same jitted function meets arrays that share memory, in this way and that, and arrays that do not."""
    def make(kind):
        names = {"a": kind(np.arange(12)), "b": kind(np.arange(6) * 5), "c": kind(np.arange(6) + 50)}
        views = [eval(text, dict(names)) for text in POOL]
        kept = views[3]

        def f(x, y):
            x += y * 2
            y[1:] = x[:-1] % 97
            kept[0] = kept[0] + 1
            return (x + y + kept) % 100

        return names, views, f

    draw = np.random.default_rng(seed)
    (wants, theirs, plain), (names, ours, f) = make(lambda x: x), make(array)
    jitted, patterns = jit(f), set()
    for _ in range(30):
        i, k = (int(n) for n in draw.integers(0, len(POOL), 2))
        patterns.add((i, k))
        want, got = plain(theirs[i], theirs[k]), jitted(ours[i], ours[k])
        np.testing.assert_array_equal(got.numpy(), want, err_msg=f"{POOL[i]}, {POOL[k]}")
        for name in names:
            np.testing.assert_array_equal(names[name].numpy(), wants[name], err_msg=f"{name} after {POOL[i]}, {POOL[k]}")
    assert jitted.traces <= len(patterns)


def test_an_array_and_a_view_of_it():
    def f(x, y):
        x += 1
        return y.sum()

    for run in (f, jit(f)):
        a = array(np.arange(6, dtype=np.float32))
        assert float(run(a, a[::2])) == 9 and float(run(a, a[::2])) == 12 and float(run(a, array([1.0, 2.0]))) == 3


def test_views_that_do_not_meet_are_one_kind_of_call():
    def f(x, y):
        x += y

    f = jit(f)
    a, batches = array(np.arange(12.0)), []
    for k in range(0, 12, 4):
        f(a[k : k + 2], a[k + 2 : k + 4])
        batches.append(a[k : k + 4].tolist())
    assert f.traces == 1 and batches == [[2, 4, 2, 3], [10, 12, 6, 7], [18, 20, 10, 11]]
    read = jit(lambda x, y: x * y)
    for k in range(5):
        assert read(a[k : k + 4], a[k + 1 : k + 5]).tolist() == (a.numpy()[k : k + 4] * a.numpy()[k + 1 : k + 5]).tolist()
    assert read.traces == 1  # nothing is written: where the views lie is no part of the key


def test_what_is_returned_is_what_is_returned_without_jit():
    w = array([1.0, 2.0])
    row = array(np.ones((2, 3)))[0]

    def f(x, d):
        y = x * 2
        d["k"] += 1
        return {"x": x, "t": x.T, "d": d["k"], "w": w, "y": y, "again": y, "head": y[:1], "row": row, "tail": w[1:], "n": 3}

    for run in (f, jit(f)):
        for _ in range(3):
            x, k = array([[5.0, 6.0]]), array([0.0])
            out = run(x, {"k": k})
            assert out["x"] is x and out["d"] is k and out["w"] is w and out["row"] is row and out["y"] is out["again"]
            assert k.tolist() == [1.0] and out["n"] == 3
            for name, value in (("t", 7), ("head", 8), ("tail", w[1:] + 1)):
                out[name][...] = value
            assert x.tolist() == [[7.0, 7.0]] and out["y"].tolist()[0] == [8.0, 8.0]
    assert w.tolist() == [1.0, 8.0]


def test_parts_that_do_not_meet_are_arrays_of_their_own():
    halves = jit(lambda x: ((y := x * 2)[:3], y[3:]))
    a, b = halves(array(np.arange(6.0)))
    assert a._base is None and b._base is None and a.tolist() == [0, 2, 4] and b.tolist() == [6, 8, 10]
    over = jit(lambda x: ((y := x * 2)[:4], y[2:]))
    a, b = over(array(np.arange(6.0)))
    a[2:] = 0
    assert a.cell is b.cell and b.tolist() == [0, 0, 8, 10]


def test_a_result_that_somebody_keeps():
    class Box:
        y = None

    box = Box()

    def f(x):
        box.y = x * 2
        return box.y, box.y[1:]

    for run in (f, jit(f)):
        y, part = run(array([1.0, 2.0]))
        part[...] = 9
        assert y is box.y and box.y.tolist() == [2.0, 9.0]


def test_numpy_arguments_are_written_as_without_jit():
    def f(x, y):
        x += y
        return x * 2

    jitted = jit(f)
    for run in (f, jitted):
        x = np.array([1.0, 2.0], np.float32)
        for n in (1, 2):
            assert np.asarray(run(x, array([10.0, 20.0]))).tolist() == [2 + 20 * n, 4 + 40 * n]
            assert x.tolist() == [1 + 10 * n, 2 + 20 * n]
    assert jitted.traces == 1
    fixed = np.array([1.0, 2.0], np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"test_aliases\.py:\d+: f writes .*float32.* read-only"):
        jitted(fixed, array([1.0, 1.0]))
    both = np.arange(4, dtype=np.float32)
    with pytest.raises(ValueError, match="shares memory with another argument"):
        jitted(both[:2], both[1:3])
    assert both.tolist() == [0, 1, 2, 3] and fixed.tolist() == [1, 2]


@pytest.mark.parametrize("jitted", [False, True])
def test_vmap_writes_into_each_examples_part(jitted):
    def f(x, y, d):
        x += y
        d["rows"][0] = x.sum()
        return x * 2

    def loop(x, y, d):
        for k in range(3):
            f(x[k], y[k], {"rows": d["rows"][:, k]})

    mapped = vmap(f, in_axes=(0, 0, {"rows": 1}))
    mapped = jit(mapped) if jitted else mapped
    x, y, rows = np.arange(6.0).reshape(3, 2), np.ones((3, 2)), np.zeros((2, 3))
    wide = array(np.concatenate([x, x], 1))
    ours = wide[:, :2], array(y), {"rows": array(rows)}
    for _ in range(2):
        loop(x, y, {"rows": rows})
        out = mapped(*ours)
        np.testing.assert_array_equal(out.numpy(), x * 2)
        np.testing.assert_array_equal(wide.numpy()[:, :2], x)
        np.testing.assert_array_equal(ours[2]["rows"].numpy(), rows)
    plain = np.array([[1.0], [2.0]])
    vmap(lambda x: x.__imul__(3.0))(plain)
    assert plain.tolist() == [[3.0], [6.0]]


def add(x, y):
    x += y
    return x


def test_vmap_of_one_array_given_twice():
    for run in (vmap(add), jit(vmap(add))):
        a = array(np.arange(4.0))
        assert run(a, a).tolist() == [0, 2, 4, 6] and a.tolist() == [0, 1, 2, 3]  # a[k] is a value: nothing is written
        a = array(np.arange(4.0).reshape(4, 1))
        assert run(a, a).tolist() == [[0], [2], [4], [6]] and a.tolist() == [[0], [2], [4], [6]]
        a = array(np.ones((2, 4)))
        vmap(add)(a[:, :2], a[:, 2:])  # parts that do not meet
        assert a.tolist() == [[2, 2, 1, 1], [2, 2, 1, 1]]
        assert vmap(lambda x, y: x * y)(a, a[::-1]).shape == (2, 4)  # nothing is written


def test_vmap_refuses_what_each_example_could_not_see():
    a, plain = array(np.ones((2, 2))), np.ones((2, 2))

    def outside(x):
        x += 1
        return x + a

    cases = [
        (lambda: vmap(add)(a, a[::-1]), "argument 0 shares memory with argument 1"),
        (lambda: vmap(lambda y, x: add(x, y), in_axes=(0, 1))(a, a), "argument 1 shares memory with argument 0"),
        (lambda: vmap(add, in_axes=(0, None))(a, a[0]), "argument 0 shares memory with an array from outside"),
        (lambda: vmap(add, in_axes=(None, 0))(a[0], a * 1), None),
        (lambda: vmap(outside)(a), "argument 0 shares memory with an array from outside"),
        (lambda: vmap(add)(plain, plain[::-1]), "argument 0 shares memory with argument 1"),
    ]
    for run, message in cases:
        with pytest.raises(TraceError if message else ShapeError, match=message):
            run()
    plain.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        vmap(add)(plain, a)
    assert a.tolist() == plain.tolist() == [[1, 1], [1, 1]]


def test_grad_of_arrays_that_share_memory():
    a = array(np.arange(1.0, 7.0))
    x = a.numpy().copy()

    def f(u, v):
        return (u * u).sum() + (u[::2] * v).sum()

    for run in (lambda g, *given: g(*given), lambda g, *given: jit(g)(*given)):
        du, dv = run(grad(f, argnums=(0, 1)), a, a[::2])  # variables of their own, until one is written
        want = 2 * x
        want[::2] += x[::2]
        np.testing.assert_array_equal(du.numpy(), want)
        np.testing.assert_array_equal(dv.numpy(), x[::2])
        du, dv = run(grad(lambda u, v: (u * u * v).sum(), argnums=(0, 1)), a, a)
        np.testing.assert_array_equal(du.numpy(), 2 * x * x)
        np.testing.assert_array_equal(dv.numpy(), x * x)


def test_what_a_function_writes_under_grad_is_in_its_argument():
    def f(u, w):
        u *= 3
        w[0] = u.sum()
        return (u * u).sum() + w[0]

    for differentiated in (value_and_grad(f), jit(value_and_grad(f))):
        a, w = array([1.0, 2.0, 5.0]), array(np.zeros(2))
        value, slope = differentiated(a[:2], w)
        assert float(value) == 54 and slope.tolist() == [21, 39] and a.tolist() == [3, 6, 5] and w.tolist() == [9, 0]
    a = array([1.0, 2.0])
    y, pull = vjp(lambda u: u.__imul__(2), a)
    assert y is a and y.tolist() == [2, 4] and pull(array([1.0, 1.0]))[0].tolist() == [2, 2]
    (value, (same, tail)), _ = value_and_grad(lambda u: (u.sum(), (u, u[1:])), has_aux=True)(a)
    tail[...] = 7
    assert same is a and a.tolist() == [2, 7]


@pytest.mark.parametrize("jitted", [False, True])
def test_grad_refuses_to_guess_whose_a_written_memory_is(jitted):
    def first(u, v):
        u += 1
        return (u * u).sum() + v.sum()

    def second(u, v):
        v += 1
        return (u * u).sum() + v.sum()

    def twice(p):
        p[0] *= 2
        return (p[0] * p[1]).sum()

    a = array([1.0, 2.0, 3.0, 4.0])
    for f, argnums, given in (
        (first, 0, (a, a[::2])), (first, (0, 1), (a, a)), (first, 0, (a[:3], a[2:])), (second, 0, (a, a)),
        (second, 0, (a[1:], a)), (twice, 0, ([a, a],)),
    ):
        g = grad(f, argnums)
        with pytest.raises(TraceError, match=r"test_aliases\.py:\d+: grad of .*shares memory with another argument"):
            (jit(g) if jitted else g)(*given)
        assert a.tolist() == [1, 2, 3, 4]
    g = jit(grad(first)) if jitted else grad(first)
    assert g(a[:2], a[2:]).tolist() == [4, 6]  # parts that do not meet


def test_carries_and_slices_of_loops_are_copies():
    def step(c, x):
        c += x
        x *= 0
        return c, c[:1]

    for run in (scan, jit(lambda c, xs: scan(step, c, xs))):
        init, xs = array([1.0, 2.0]), array([[1.0, 1.0], [2.0, 2.0]])
        out, heads = scan(step, init, xs) if run is scan else run(init, xs)
        assert out.tolist() == [4, 5] and heads.tolist() == [[2], [4]]
        assert init.tolist() == [1, 2] and xs.tolist() == [[1, 1], [2, 2]]
        out[...] = 0
        assert init.tolist() == [1, 2]
    z = array(np.zeros(2))
    (a, b), _ = scan(lambda c, _: ((c[0].__iadd__(1), c[1] + z), None), (z, z), length=3)  # one array for two carries
    assert a.tolist() == [3, 3] and b.tolist() == [0, 0] and z.tolist() == [0, 0]

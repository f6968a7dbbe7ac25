"""Warm calls of jitted functions: no Python between the arguments and the result, and the slow way where it is needed."""

import copy
import gc
import itertools
import random
import sys
import threading

import numpy as np
import pytest

import weft as wf
from weft.runtime import execute

SEED = int(np.random.SeedSequence().generate_state(1)[0])  # fresh each run


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
    gc.collect()  # what lies about holds many a None
    counts = [sys.getrefcount(z) for z in counted]
    size = wf.devices.counters()["allocator_bytes"]
    for _ in range(1000):
        f(a, b, 2.0)
    assert all(abs(sys.getrefcount(z) - then) < 100 for z, then in zip(counted, counts, strict=True))
    assert wf.devices.counters()["allocator_bytes"] == size
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


def _slowly(f, *args, **options):
    _, names = python_calls(lambda: f(*args, **options))
    return "_call_by_key" in names


def test_a_table_may_be_replaced_while_another_thread_runs_by_it():
    """What a call still needs of its table it takes before it gives the interpreter lock up."""
    x = np.random.default_rng().normal(size=200_000).astype(np.float32)
    a, w = wf.array(x), wf.array(np.float32([1.0]))
    f = wf.jit(lambda a: a * w)
    warm(f, a)
    stop, wrong = threading.Event(), []

    def call():
        while not stop.is_set():
            out = f(a)
            ratio = float(out.numpy()[0]) / float(x[0])
            if out.shape != x.shape or abs(ratio - round(ratio)) > 1e-4:
                wrong.append(ratio)

    thread = threading.Thread(target=call)
    thread.start()
    for k in range(100):
        w[...] = wf.array([float(k % 7 + 1)])
        f(a), f(a)
        overwritten = [np.full(n, -1, np.int64) for n in range(10, 90)]  # where the old table lay
        del overwritten
    stop.set()
    thread.join()
    assert not wrong


def test_trees_and_keywords_take_the_short_way():
    (a, b, c), (x, y, z) = arrays((6,), (6,), (6,))
    f = wf.jit(lambda p, k, c=None: {"sum": p["a"] * k + p["b"][0] - c, "same": p["b"]})

    def check(p, k, c, want, slowly):
        assert _slowly(f, p, k, c=c) == slowly
        out = f(p, k, c=c)
        np.testing.assert_allclose(out["sum"].numpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(out["same"][0].numpy(), p["b"][0].numpy())

    for k in (2.0, 2.0, -0.5):
        f({"a": a, "b": [b]}, k, c=c)
    check({"a": a, "b": [b]}, 3.5, c, x * np.float32(3.5) + y - z, False)
    check({"b": [b], "a": a}, 3.5, c, x * np.float32(3.5) + y - z, True)  # the function sees this order
    check({"b": [b], "a": a}, 3.5, c, x * np.float32(3.5) + y - z, False)
    check({"a": b, "b": (a,)}, 3.5, c, y * np.float32(3.5) + x - z, True)  # another structure
    check({"a": b, "b": (a,)}, 3.5, c, y * np.float32(3.5) + x - z, False)
    check({"a": a[:1], "b": (b,)}, 3.5, c, x[:1] * np.float32(3.5) + y - z, True)
    assert f.traces == 4


def test_a_tree_that_holds_one_array_twice_is_written_once():
    @wf.jit
    def f(p):
        p["x"] += 1
        return p["x"] + p["y"]

    (a, b), (x, y) = arrays((3,), (3,))
    for k in range(1, 5):
        np.testing.assert_allclose(f({"x": a, "y": b}).numpy(), x + k + y, rtol=1e-5, atol=1e-5)
    (c,), (z,) = arrays((3,))
    np.testing.assert_allclose(f({"x": c, "y": c}).numpy(), 2 * (z + 1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(c.numpy(), z + 1, rtol=1e-6)


@pytest.mark.parametrize("both", [False, True])
def test_an_argument_given_twice_is_written_once(both):
    @wf.jit
    def f(a, b):
        a += 1
        if both:
            b *= 2
        return a - 3 * b

    def plainly(x, y):
        x += 1
        if both:
            y *= 2
        return x - 3 * y

    (a, b, c), (x, y, z) = arrays((3,), (3,), (3,))
    for _ in range(4):
        np.testing.assert_allclose(f(a, b).numpy(), plainly(x, y), rtol=1e-5, atol=1e-5)
    for _ in range(2):
        np.testing.assert_allclose(f(c, c).numpy(), plainly(z, z), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(c.numpy(), z, rtol=1e-6)
    np.testing.assert_allclose(f(a, b).numpy(), plainly(x, y), rtol=1e-5, atol=1e-5)


def test_static_and_positional_calls_beside_trees():
    (a, b), (x, y) = arrays((4,), (4,))
    f = wf.jit(lambda a, b, n=1: a * n - b, static_argnames="n")
    for n in (1, 2, 2, 3, 3, 1):
        np.testing.assert_allclose(f(a, b, n=n).numpy(), x * n - y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(f(a, b=b).numpy(), x - y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(f(a, b).numpy(), x - y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(f(b=a, a=b).numpy(), y - x, rtol=1e-5, atol=1e-6)
    assert f.traces == 6


def test_a_captured_array_that_is_an_argument_too():
    state = wf.asarray(np.ones(4, "f"))

    @wf.jit
    def step(a):
        state[:] = state + a
        return state + a

    one = np.full(4, 3.0, "f")
    expected = np.ones(4, "f")
    for own in (False, True, False, True, True, False):  # plain first, so that the short way is there to be refused
        out = step(state if own else wf.asarray(one))
        expected = expected + (expected if own else one)
        np.testing.assert_array_equal(state.numpy(), expected)
        np.testing.assert_array_equal(out.numpy(), expected + (expected if own else one))
    assert step.traces <= 3


def test_an_argument_that_is_written_and_captured_too():
    other = wf.asarray(np.ones(3, "f"))

    @wf.jit
    def step(a):
        a[:] = a + 1
        return other * 1

    np.testing.assert_array_equal(step(other).numpy(), np.full(3, 2, "f"))
    np.testing.assert_array_equal(step(wf.zeros(3)).numpy(), np.full(3, 2, "f"))
    np.testing.assert_array_equal(step(other).numpy(), np.full(3, 3, "f"))


def test_what_was_not_called_for_long_is_dropped_even_while_it_runs(monkeypatch):
    """A thread's warm call goes on while others push its program out; its memory is used again only afterwards."""
    from weft.devices import get_device
    from weft.transforms import jit as jitting

    monkeypatch.setattr(jitting, "KINDS", 2)
    f = wf.jit(lambda a, b: wf.tanh(a @ b) + 1)
    f._entries.fewest = 1
    known = get_device().compiler
    pairs = {n: arrays((n, 64), (64, n)) for n in range(400, 409)}
    want = {n: np.tanh(x @ y) + 1 for n, (_, (x, y)) in pairs.items()}
    failed = []

    def call(seed):
        try:
            for n in np.random.default_rng(seed).choice(list(pairs), 60):
                (a, b), _ = pairs[n]
                for _ in range(3):
                    np.testing.assert_allclose(f(a, b).numpy(), want[n], rtol=1e-4, atol=1e-4)
                known.sweep()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert len(f._entries) <= 6 and f.traces > len(pairs)


def test_a_table_holds_what_it_runs():
    (a, b), (x, y) = arrays((6,), (6,))
    f = wf.jit(lambda a, b: a - b)
    np.testing.assert_array_equal(warm(f, a, b).numpy(), x - y)
    f._entries, f._recent = type(f._entries)(4), ()
    execute.PROGRAMS.newest.clear()
    gc.collect()
    out, names = python_calls(f, a, b)
    assert "__call__" not in names
    np.testing.assert_array_equal(out.numpy(), x - y)


def test_views_take_the_fast_path_unless_layout_state_or_writes_forbid_it():
    (data, _, state), (x, _, w) = arrays((8, 3), (3, 8), (3, 3))
    f = wf.jit(lambda a: a @ a.T + 1)
    for k in range(0, 8, 2):
        np.testing.assert_allclose(f(data[k : k + 2]).numpy(), x[k : k + 2] @ x[k : k + 2].T + 1, rtol=1e-5, atol=1e-6)
    data[0] = 5.0
    out, names = python_calls(f, data[:2])
    np.testing.assert_allclose(out.numpy(), f(data[:2].copy()).numpy(), rtol=1e-5)
    assert "fast" in names and "_call_by_key" not in names
    turned = wf.array(x[:3, :2].copy()).T  # the strides of an argument are part of the key
    out, names = python_calls(f, turned)
    np.testing.assert_allclose(out.numpy(), x[:3, :2].T @ x[:3, :2] + 1, rtol=1e-5, atol=1e-6)
    assert "_call_by_key" in names

    @wf.jit
    def step(a):
        state[...] = state + a
        return a.sum()

    x[0] = 5.0
    for a, b in ((data[:3], x[:3]), (data[3:6], x[3:6]), (state[:], w), (data[:3], x[:3])):
        total = step(a)
        w[...] = w + b
        np.testing.assert_allclose(total.numpy(), b.sum(), rtol=1e-5)
        np.testing.assert_allclose(state.numpy(), w, rtol=1e-5)


class Setting:
    rate = 0.5


def draw_tree(r, depth=0):
    """Return a function that makes a tree from an iterator of arrays: lists, tuples, dicts, floats and None around them."""
    kind = r.choice(["array"] * (2 + 2 * depth) + ["list", "tuple", "dict", "dict", "none", "float"])
    if kind in ("list", "tuple", "dict"):
        parts = [draw_tree(r, depth + 1) for _ in range(r.randint(0, 3))]
        if kind == "dict":
            names = r.sample("abcde", len(parts))
            return lambda arrays: {name: part(arrays) for name, part in zip(names, parts, strict=True)}
        return lambda arrays: (list if kind == "list" else tuple)(part(arrays) for part in parts)
    if kind == "none":
        return lambda arrays: None
    return (lambda arrays: next(arrays)) if kind == "array" else (lambda arrays: 1.5)


def leaves_of(tree):
    if isinstance(tree, dict):
        return [x for item in tree.values() for x in leaves_of(item)]
    return [x for item in tree for x in leaves_of(item)] if isinstance(tree, list | tuple) else [tree]


class World:
    """Arrays of weft or of NumPy, a function of trees of them that reads and writes arguments and captured arrays, and events."""

    def __init__(self, seed, make):
        r = random.Random(seed)
        values = np.random.default_rng(seed)
        self.make = lambda: make(values.normal(size=4).astype(np.float32))
        self.captured = [self.make() for _ in range(r.randint(0, 3))]
        self.setting = Setting()
        trees = [draw_tree(r) for _ in range(r.randint(1, 3))]
        arrays = (self.make() for _ in itertools.count())
        self.args = [tree(arrays) for tree in trees]
        count = len([x for x in leaves_of(self.args) if getattr(x, "shape", ()) == (4,)]) + len(self.captured)
        written = [r.random() < 0.6 for _ in range(count)]
        result, which = draw_tree(r), r.sample(range(99), r.randint(0, 3))
        captured, setting = self.captured, self.setting

        self.names = "pqr"[: r.randint(0, len(trees))]  # of the last arguments

        def f(*args, **named):
            found = [x for x in leaves_of([*args, *named.values()]) if getattr(x, "shape", ()) == (4,)] + captured
            if not found:
                return None
            total = sum(found[1:], found[0]) * setting.rate
            given = len(found) - len(captured)
            out = [found[k % given] if given and k % 4 == 0 else total * (0.25 + k) for k in which]
            for x, is_written in zip(found, written, strict=False):
                if is_written:
                    x *= 0.75
                    x += total * 0.125
            return result(itertools.chain(out, (total + k for k in itertools.count())))

        self.f, self.kept = f, []

    def call(self, f):
        first = len(self.args) - len(self.names)
        return f(*self.args[:first], **dict(zip(self.names, self.args[first:], strict=True)))

    def arrays(self):
        return [x for x in leaves_of(self.args) if getattr(x, "shape", ()) == (4,)] + self.captured

    def event(self, r):
        """Keep a copy, a view or a pending result, replace an array, or change the setting."""
        kinds = ["copy", "view", "read view", "pending", "replaced", "rate", "dropped", "shared", "memory"]
        kind = r.choice(kinds + ["nothing"] * 6)
        arrays = self.arrays()
        x = arrays[r.randrange(len(arrays))] if arrays else None
        if kind == "rate":
            self.setting.rate = r.choice([0.5, 0.25])
        elif kind == "dropped":
            self.kept.clear()
        elif x is None:
            return
        elif kind == "copy":
            self.kept.append(x.copy())
        elif kind in ("view", "read view"):
            self.kept.append(x[1:])
            if kind == "read view":
                self.kept.append(self.kept[-1] + 1)
        elif kind == "pending":
            self.kept.append(x * 2 + 1)
        elif kind == "memory":
            self.kept.append(np.array(x))
        elif kind in ("replaced", "shared"):
            self.args = _replaced(self.args, x, self.make() if kind == "replaced" else arrays[r.randrange(len(arrays))])

    def show(self, results):
        return [np.asarray(x) for x in [*leaves_of(results), *self.arrays(), *self.kept] if getattr(x, "shape", ()) == (4,)]


def _replaced(tree, old, new):
    if isinstance(tree, dict):
        return {name: _replaced(x, old, new) for name, x in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_replaced(x, old, new) for x in tree)
    return new if tree is old else tree


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what shares memory changes from call to call
@pytest.mark.parametrize("trial", range(60))
def test_trees_and_writes_without_python(trial):
    """Random functions that write, in a random sequence of events, have NumPy's results; without events they need no Python."""
    seed = SEED + trial
    print("seed", seed)
    ours, theirs = World(seed, wf.array), World(seed, np.array)
    jitted = wf.jit(ours.f)
    for _ in range(4):
        got, want = ours.call(jitted), theirs.call(theirs.f)
    del got
    got, names = python_calls(ours.call, jitted)
    assert "__call__" not in names, names
    want = theirs.call(theirs.f)
    for a, b in zip(ours.show(got), theirs.show(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    choices = random.Random(seed), random.Random(seed)
    for _ in range(30):
        for world, r in zip((ours, theirs), choices, strict=True):
            world.event(r)
        got, want = ours.call(jitted), theirs.call(theirs.f)
        for a, b in zip(ours.show(got), theirs.show(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_structures_that_differ_take_the_slow_way():
    p = {"a": wf.ones(3), "b": [wf.ones(3), None]}
    f = wf.jit(lambda p: {"sum": p["a"] + 2 * p["b"][0], "rest": (p["a"], None)})
    warm(f, p)
    q = {"b": [wf.ones(3), None], "a": wf.zeros(3)}
    np.testing.assert_array_equal(f(q)["sum"].numpy(), [2, 2, 2])
    np.testing.assert_array_equal(f({"a": wf.zeros(3), "b": (wf.ones(3), None)})["sum"].numpy(), [2, 2, 2])
    np.testing.assert_array_equal(f({"a": wf.zeros(3), "b": [wf.ones(3), 1]})["sum"].numpy(), [2, 2, 2])
    with pytest.raises(KeyError):
        f({"a": wf.zeros(3)})


def test_a_fault_leaves_written_arguments_as_they_were():
    p, rows = [wf.arange(4.0), wf.ones(3)], wf.array([0, 1])

    @wf.jit
    def f(p, rows):
        p[1] *= 2
        picked = p[0][rows]
        p[0] += 1
        return picked

    warm(f, p, rows)
    before = [x.numpy().copy() for x in p]
    with pytest.raises(IndexError, match="9"):
        f(p, wf.array([0, 9]))
    for x, y in zip(p, before, strict=True):
        np.testing.assert_array_equal(x.numpy(), y)


def test_written_arguments_keep_their_memory():
    p = [wf.ones(1000), wf.zeros(1000)]

    @wf.jit
    def f(p):
        p[0] += 1
        p[1] += p[0]

    warm(f, p)
    addresses = [x._node.value.address for x in p]
    f(p)
    assert [x._node.value.address for x in p] == addresses


VIEWS = [
    lambda c: c[:], lambda c: c[0:4], lambda c: c.T, lambda c: c.ravel(), lambda c: c[::-1], lambda c: c,
    lambda c: c.reshape(2, 2).reshape(4),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", ["+=", "[...]", "[0]"])
@pytest.mark.parametrize("result", ["view", "itself", "new"])
def test_a_captured_array_becomes_a_view(view, write, result):
    def shown(make, jit):
        s, c = Setting(), make(np.zeros(4, "f"))
        s.b = make(np.ones(4, "f"))

        @jit
        def f():
            if write == "+=":
                s.b += 1
            elif write == "[...]":
                s.b[...] = s.b + 1
            else:
                s.b[0] += 1
            return s.b[1:] if result == "view" else s.b if result == "itself" else s.b * 2

        f()
        s.b = now = view(c)
        out = None
        for _ in range(5):
            out = f()
        before = [np.array(x) for x in (out, s.b, c)]
        c += 10
        return [*before, *[np.array(x) for x in (out, s.b)]], s.b is now

    (ours, kept), (theirs, _) = shown(wf.array, wf.jit), shown(np.array, lambda f: f)
    assert kept
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_floats_of_a_class_of_the_user():
    f = wf.jit(lambda x, s: x * s)
    own = type("Own", (float,), {})
    for s in (own(3.0), 2.0, own(4.0), np.float64(5.0)):
        assert f(wf.ones(2), s).tolist() == [float(s)] * 2


@pytest.mark.parametrize("kind", ["item", "attribute", "trace"])
def test_an_interrupt_at_any_python_call_leaves_a_working_function(kind):
    """Ctrl-C at a random point of weft's Python code; afterwards every call changes the state."""
    r = random.Random(SEED)
    print("seed", SEED)
    for _ in range(40):
        holder, o = Setting(), wf.ones(3)
        holder.w, items = wf.zeros(3), {"w": wf.zeros(3)}

        @wf.jit
        def f(x, items=items, holder=holder):
            if kind == "attribute":
                holder.w = holder.w + x
                return holder.w
            items["w"] = items["w"] + x
            return items["w"]

        for _ in range(0 if kind == "trace" else 5):
            f(o)
        left = r.randrange(400 if kind == "trace" else 40)

        def interrupt(frame, event, _):
            nonlocal left
            if event == "call" and "weft" in frame.f_code.co_filename and frame.f_code.co_name not in ("__del__", "interrupt"):
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt

        sys.settrace(interrupt)
        try:
            f(o)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        now = (holder.w if kind == "attribute" else items["w"]).numpy().copy()
        for k in range(1, 4):
            np.testing.assert_array_equal(f(o).numpy(), now + k)
            np.testing.assert_array_equal((holder.w if kind == "attribute" else items["w"]).numpy(), now + k)


@pytest.mark.filterwarnings("ignore:.*is traced again")
@pytest.mark.parametrize("passed", [False, True])
def test_models_whose_dtype_a_jitted_step_changes(passed) -> None:
    rng = random.Random(SEED)
    for _ in range(4):
        model = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 2))
        twin = copy.deepcopy(model)

        def step(net, x):
            for p in net.parameters().values():
                p += 0.25
            return net.astype(x.dtype)(x)

        jitted = wf.jit(step) if passed else wf.jit(lambda x, net=model: step(net, x))
        for name in rng.choices(("float16", "float32", "float64", "bfloat16"), k=7):
            x = wf.array([0.5, -1.0, 0.25], dtype=name)
            got, want = jitted(model, x) if passed else jitted(x), step(twin, x)
            assert got.dtype == want.dtype == model[0].weight.dtype, name
            tolerance = 32 * float(wf.finfo(name).eps)
            np.testing.assert_allclose(got.astype("float64").numpy(), want.astype("float64").numpy(), tolerance, tolerance)
            for p, q in zip(model.parameters().values(), twin.parameters().values(), strict=True):
                assert p.dtype == q.dtype and p.tolist() == q.tolist(), name

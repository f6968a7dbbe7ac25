"""Loops written as in NumPy cost what their steps cost: twice the steps, twice the work, whoever holds what and looks when.

Work is counted, not timed: kernels that ran, nodes in the graphs that ran, nodes in the programs that were planned. Programs
are drawn and compared with NumPy; they are cut often, so that every way of being computed is taken.
"""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from making import array, normal

import weft as wf
from weft.devices import counters
from weft.dtypes.formats import FLOAT32
from weft.eager import materialise as limit_pending
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.graph.primitives.table import constant
from weft.runtime import execute, pending
from weft.runtime.context import CONTEXT, PendingList
from weft.schedule.build import build
from weft.transforms.grad import value_and_grad
from weft.transforms.jit import jit

pytestmark = pytest.mark.usefixtures("lazy")


@pytest.fixture(autouse=True)
def no_hang():
    def stop(*_: Any) -> None:
        raise TimeoutError("this hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@dataclass
class Work:
    kernels: int = 0
    ran: int = 0  # nodes to be computed in graphs that ran
    planned: int = 0  # the same of graphs for which a program was made


@pytest.fixture
def work(monkeypatch):
    """A function that tells what a call has cost."""
    seen = Work()
    run, executable = execute.run, execute.executable

    def count(graph, values):
        seen.ran += sum(n.value is None for n in graph.order)
        before = len(execute.PROGRAMS)
        out = run(graph, values)
        seen.planned += len(graph.order) * (len(execute.PROGRAMS) > before)
        return out

    monkeypatch.setattr(execute, "run", count)
    assert execute.executable is executable

    def cost(f, *args):
        nonlocal seen
        seen.kernels, seen.ran, seen.planned = -counters()["kernels"], 0, 0
        f(*args)
        return Work(seen.kernels + counters()["kernels"], seen.ran, seen.planned)

    return cost


@pytest.fixture
def small(monkeypatch):
    """Graphs are cut when they are still small; what other tests have left pending does not count."""
    monkeypatch.setattr(CONTEXT, "pending", PendingList())
    monkeypatch.setattr(pending, "MAX_NODES", 120)
    monkeypatch.setattr(limit_pending, "ENOUGH", 60)
    monkeypatch.setattr(limit_pending, "EVERY", 16)
    monkeypatch.setattr(pending, "FIRST_CHECK", 4)


def grows_alike(once: Work, twice: Work) -> bool:
    """Nodes; kernels only by and large, for where a graph is cut decides how many there are."""
    return twice.ran <= 2.3 * once.ran + 150 and twice.kernels <= 6 * once.kernels + 20


# ---- the loops that were found to hang


def overlapping(n):
    a = wf.zeros(16)
    for i in range(n):
        a[i % 11 : i % 11 + 5] += 1
    return a.numpy()


def elements(n):
    a = wf.zeros(7)
    for i in range(n):
        a[i % 7] += 1
    return a.numpy()


def losses(n):
    w, x, kept = wf.ones(10), wf.ones((5, 10)), []
    for _ in range(n):
        kept.append(((x @ w) ** 2).mean())
        w -= 0.01 * (x.T @ (x @ w))
    wf.eval(w)
    return [float(loss) for loss in kept]


def losses_beside_eval(n):
    w, x, kept = wf.ones(10), wf.ones((5, 10)), []
    for _ in range(n):
        loss, slope = value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
        kept.append(loss)
        w -= 0.01 * slope
        wf.eval(w)
    return [float(loss) for loss in kept]


def looked_at_from_the_last(n):
    w, kept = wf.ones(10), []
    for _ in range(n):
        kept.append((w * w).sum())
        w -= 0.01 * w
    return [float(loss) for loss in kept[::-1]]


def fibonacci(n):
    a = wf.ones(8)
    for i in range(2, n):
        a[i % 8] = (a[(i - 1) % 8] + a[(i - 2) % 8]) * 0.5
    return a.numpy()


@pytest.mark.parametrize("loop", [overlapping, elements, losses, losses_beside_eval, looked_at_from_the_last, fibonacci])
def test_twice_the_steps_are_twice_the_work(loop, work, small):
    loop(40)
    once, twice = work(loop, 60), work(loop, 120)
    assert once.ran >= 100 and grows_alike(once, twice), (once, twice)


def test_what_is_computed_for_one_is_kept_for_all():
    x, w = array(normal(5, 10)), array(normal(10))
    wf.eval(x, w)
    before = counters()["kernels"]
    error = x @ w - 1
    loss, slope, other = (error * error).mean(), x.T @ error, error.max()
    del error
    float(loss)
    first = counters()["kernels"] - before
    float(slope.sum()), float(other)
    assert counters()["kernels"] - before == first + 1  # the sum is new
    unrelated = w * 2
    before = counters()["kernels"]
    float((x * 3).sum())
    assert counters()["kernels"] == before + 1 and unrelated.node.value is None


def test_a_failure_of_what_was_not_asked_for_fails_no_look(monkeypatch):
    x = array(normal(6))
    shared = x * 2
    asked, other = shared.sum(), shared.max()
    del shared
    run = execute.run

    def failing(graph, values, found=None):
        if len(graph.outputs) > 1:
            raise MemoryError("too much")
        return run(graph, values, found)

    monkeypatch.setattr(execute, "run", failing)
    np.testing.assert_allclose(float(asked), 2 * x.numpy().sum(), rtol=1e-5)
    assert other.node.value is None and float(other) == 2 * x.numpy().max()


def test_a_large_result_is_not_computed_for_a_look_at_a_small_one(monkeypatch):
    monkeypatch.setattr(pending, "MAX_BYTES", 10_000)
    x = array(normal(100))
    shared = x + 1
    asked, large = shared.sum(), shared[:, None] * shared
    del shared
    float(asked)
    assert large.node.value is None


def test_other_threads_graphs_stay_whole(small):
    """A thread whose graph is cut computes nothing that another is taking the gradient of."""
    inside, done, found = threading.Event(), threading.Event(), []

    def f(x):
        y = x * x
        inside.set()
        assert done.wait(60)
        return (y * x).sum()

    thread = threading.Thread(target=lambda: found.append(value_and_grad(f)(array(np.array([2.0]))))) 
    thread.start()
    assert inside.wait(60)
    a = wf.ones(3)
    for _ in range(400):
        a = a + 1
    done.set()
    thread.join()
    assert a.tolist() == [401.0] * 3 and found[0][1].tolist() == [12.0]


def test_many_results_of_one_call():
    f = jit(lambda xs: [x * xs[0] for x in xs])
    xs = [array(normal(3)) for _ in range(700)]
    for x, y in zip(xs, f(xs), strict=True):
        np.testing.assert_array_equal(y.numpy(), x.numpy() * xs[0].numpy())


def calls(f, *args) -> int:
    """How many functions are called while ``f`` runs: work that takes time wherever it runs."""
    seen = 0

    def note(frame, event, arg):
        nonlocal seen
        seen += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        f(*args)
    finally:
        sys.setprofile(before)
    return seen


def inputs(n):
    return [input_leaf((10,), FLOAT32) for _ in range(n)]


def of_one(n):
    (x,) = inputs(1)
    return Graph([x], [bind(TABLE["multiply"], x, constant(i + 1.5, x.dtype)) for i in range(n)])


def of_each(n):
    xs = inputs(n)
    return Graph(xs, [bind(TABLE["multiply"], x, xs[0]) for x in xs])


def updated(n):
    ws, slopes = inputs(n), inputs(n)
    return Graph(ws + slopes, [bind(TABLE["subtract"], w, slope) for w, slope in zip(ws, slopes, strict=True)])


def totals(n):
    (x,) = inputs(1)
    parts = [bind(TABLE["sin"], bind(TABLE["multiply"], x, constant(i + 1.5, x.dtype))) for i in range(n)]
    return Graph([x], [bind(TABLE["reduce_sum"], y, axes=(0,), keepdims=False) for y in parts])


@pytest.mark.parametrize("make", [of_one, of_each, updated, totals])
def test_a_program_is_planned_in_proportion_to_its_results(make):
    build(make(20))
    once, twice = (calls(build, make(n)) for n in (60, 120))
    assert once > 60 * 100 and twice < 2.2 * once, (once, twice)


def test_a_loop_finds_its_programs_again(work):
    """Graphs are cut at the line where one was cut before: from the second time on they are known."""
    def loop(n):
        a = b = wf.ones(5)
        for _ in range(n):
            a = wf.tanh(a * 0.5 + b)
            b = b + a.sum() * 0.1
        return a

    loop(2000)
    cost = work(loop, 4000)
    assert cost.ran > 15_000 and cost.planned < 2_500


# ---- drawn loops

STATEMENTS = {
    "slice": lambda s, i: s["a"].__setitem__(slice(1, 5), s["a"][1:5] + s["b"][2:6]),
    "in place": lambda s, i: _add(s["a"][i % 3 : i % 3 + 4], 0.25),
    "element": lambda s, i: s["a"].__setitem__(i % 8, s["b"][(i + 3) % 8] * 0.5),
    "shift": lambda s, i: s["b"].__setitem__(slice(1, None), s["a"][:-1] * 0.5),
    "swap": lambda s, i: s.update(a=s["b"], b=s["a"]),
    "hold": lambda s, i: s["held"].append((s["a"] * s["b"]).sum()),
    "hold rows": lambda s, i: s["held"].append(s["m"] @ s["m"].T),
    "total": lambda s, i: s.update(total=s["total"] + s["a"].sum()),
    "mean": lambda s, i: s.update(mean=s["mean"] * 0.9 + s["a"] * 0.1),
    "view": lambda s, i: _scale(s["m"].T[1:], 0.99),
    "dict": lambda s, i: s["d"].__setitem__(i % 3, s["d"][i % 3] * 0.5 + s["b"]),
    "rebind": lambda s, i: s.update(a=np.tanh(s["a"] + s["b"] * 0.1)),
    "product": lambda s, i: s.update(m=np.tanh(s["m"] @ s["w"])),
    "norm": lambda s, i: s.update(a=s["a"] / (1 + np.sqrt((s["a"] * s["a"]).sum()))),
    "statistics": lambda s, i: s.update(n=s["n"] + 1, v=s["v"] + (s["a"] - s["mean"]) ** 2),
    "where": lambda s, i: s.update(b=np.where(s["a"] > 0, s["b"], s["b"] * 0.5)),
    "copy": lambda s, i: s.update(c=s["a"].copy()),
    "look": lambda s, i: float(s["total"].sum()) if i % 5 == 0 else None,
    "look at the last": lambda s, i: float(s["held"][-1].sum()) if s["held"] and i % 3 == 0 else None,
    "stack": lambda s, i: s.update(c=np.stack([s["a"], s["b"]]).sum(axis=0) * 0.5),
}


def _add(view, value):
    view += value


def _scale(view, value):
    view *= value


def state(make):
    draw = np.random.default_rng(5)
    names = {"a": 8, "b": 8, "mean": 8, "v": 8, "c": 8, "m": (3, 4), "w": (4, 4)}
    arrays = {k: make(draw.normal(size=n)) for k, n in names.items()}
    return {
        **arrays, "held": [], "d": {k: make(np.full(8, float(k))) for k in range(3)}, "total": make(np.zeros(1)),
        "n": make(np.zeros(2)),
    }


def run_loop(make, body, n):
    s = state(make)
    for i in range(n):
        for name in body:
            STATEMENTS[name](s, i)
    return s


def contents(s):
    kept = [s[k] for k in ("a", "b", "c", "m", "mean", "v", "total", "n")] + [*s["d"].values()]
    return [np.asarray(x, dtype=np.float64) for x in [*s["held"][::7], *kept]]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("seed", range(8))
def test_drawn_loops(seed, work, small):
    draw = np.random.default_rng(seed)
    body = [str(x) for x in draw.choice(list(STATEMENTS), int(draw.integers(3, 8)))]
    for got, want in zip(contents(run_loop(array, body, 30)), contents(run_loop(lambda x: x, body, 30)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=str(body))
    costs = [work(lambda n: contents(run_loop(array, body, n)), n) for n in (30, 60)]
    assert grows_alike(*costs), (body, costs)

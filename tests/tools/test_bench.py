"""bench: its counts of arithmetic and traffic, what it leaves as it was, and what it refuses. Times are not looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError, TraceError
from weft.graph.primitives.table import TABLE
from weft.tools import bench as module
from weft.tools.bench import Bench


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 0.001)


def bench(f, *args, **kwargs) -> Bench:
    found = wf.bench(f, *args, show=False, **kwargs)
    assert found.seconds > 0 and found.calls >= 1 and found.milliseconds == 1e3 * found.seconds
    assert math.isclose(found.gflops * found.milliseconds * 1e6, found.flops, abs_tol=1e-6)
    assert math.isclose(found.gbytes * found.milliseconds * 1e6, found.bytes)
    assert found.share == pytest.approx(found.floor / found.seconds) and found.bound in ("arithmetic", "memory")
    assert found.device == "cpu" and found.threads == wf.get_num_threads()
    return found


def both(f, *args) -> Bench:
    """The function as it stands and jitted have the same work, and so have pending arguments."""
    found = bench(f, *args)
    again = bench(wf.jit(f), *args)
    assert (found.flops, found.bytes, found.kernels) == (again.flops, again.bytes, again.kernels)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("_", range(3))
def test_a_product_and_what_is_fused_into_it(_, dtype: str, rng) -> None:
    m, k, n = (int(v) for v in rng.integers(1, 90, 3))
    x, w, c = (wf.asarray(rng.normal(size=shape).astype(dtype)) for shape in ((m, k), (k, n), (m, n)))
    size = np.dtype(dtype).itemsize
    found = both(lambda x, w: x @ w, x, w)
    assert (found.flops, found.bytes) == (2 * m * n * k, size * (m * k + k * n + m * n)) and found.kernels == 1
    found = both(lambda x, w, c: 2 * wf.nn.relu(x @ w) + 0.5 * c, x, w, c)
    assert found.flops == 2 * m * n * k + 5 * m * n and found.bytes == size * (m * k + k * n + 2 * m * n)


@pytest.mark.parametrize("_", range(3))
def test_elements_reductions_and_what_lies_between_kernels(_, rng) -> None:
    rows, columns = (int(v) for v in rng.integers(2, 200, 2))
    x = wf.asarray(rng.normal(size=(rows, columns)).astype(np.float32))
    n = rows * columns
    found = both(lambda x: x * 2 + 1, x)
    assert (found.flops, found.bytes, found.kernels) == (2 * n, 8 * n, 1)
    found = both(lambda x: x[1:] + 1, x)
    assert (found.flops, found.bytes) == (n - columns, 8 * (n - columns))
    found = both(lambda x: x.sum(axis=1), x)
    assert found.bytes == 4 * (n + rows) and n - rows <= found.flops <= n

    def softmax(x):
        e = wf.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    found = both(softmax, x)
    assert found.bytes == 8 * n and found.kernels == 1

    def twice(x):
        y = x + 1
        float(y[0, 0])  # a look: two programs
        return y * 2

    plain = bench(twice, x)
    assert plain.flops == 2 * n and plain.kernels >= 2 and plain.bytes >= 16 * n


def test_loops_count_every_step(rng) -> None:
    x = wf.asarray(rng.normal(size=(30,)).astype(np.float32))
    for length in (1, 7, 100):
        found = both(lambda x, length=length: wf.fori_loop(0, length, lambda i, x: x * 1.01, x), x)
        assert found.flops == 30 * length


def test_a_training_step_and_what_it_leaves(rng) -> None:
    net = wf.nn.Sequential(wf.nn.Linear(6, 5), wf.nn.Dropout(0.5), wf.nn.Linear(5, 3))
    step = wf.train.training_step(net, wf.losses.cross_entropy, wf.optim.Adam().init(net))
    x, y = wf.asarray(rng.normal(size=(8, 6)).astype(np.float32)), wf.asarray(rng.integers(0, 3, 8))
    step(x, y, 1e-3)
    wf.random.seed(3)
    kept = {name: a.numpy().copy() for name, a in net.arrays().items()}
    drawn = wf.random.get_state()
    found = bench(step, x, y, 1e-3)
    assert found.flops > 3 * 2 * 8 * (6 * 5 + 5 * 3) * 2 / 3
    for name, a in net.arrays().items():
        np.testing.assert_array_equal(a.numpy(), kept[name])
    assert str(wf.random.get_state()) == str(drawn)
    total = wf.zeros(())

    def add(x):
        total[...] = total + x.sum()

    bench(add, x)
    assert float(total) == 0
    bench(net, x)  # a module
    bench(net.forward, x)  # a method


def test_work_in_numpy_is_estimated_and_every_primitive_has_an_estimate(rng) -> None:
    assert [name for name, op in TABLE.items() if op.cost is None and op.kind != "leaf"] == []
    x = wf.asarray(rng.normal(size=(50, 50)).astype(np.float32))
    assert bench(wf.linalg.inv, x).flops >= 2 * 50**3 / 3 and bench(wf.sort, x).bytes >= 2 * x.nbytes


def test_how_often_it_calls(monkeypatch) -> None:
    count = [0]

    def f(x):
        count[0] += 1
        return x + 1

    for repeat in (1, 2, 25):
        count[0] = 0
        found = bench(f, wf.ones(3), repeat=repeat)
        assert found.calls == repeat and repeat < count[0] <= repeat + 12
    assert bench(f, wf.ones(3), repeat=np.int64(4)).calls == 4 and bench(f, wf.ones(3)).calls >= 3


def test_nothing_is_compiled_for_the_calls_that_are_measured(rng) -> None:
    f, x = wf.jit(lambda x: wf.tanh(x) * 3), wf.asarray(rng.normal(size=(40, 40)).astype(np.float32))
    bench(f, x)
    before = wf.counters()["compiles"]
    bench(f, x)
    f(x)
    assert wf.counters()["compiles"] == before


def test_it_prints_one_line(capsys) -> None:
    def scaled(x):
        return x * 2

    found = wf.bench(scaled, wf.ones((64, 64)), repeat=3)
    out = capsys.readouterr().out
    assert out == f"{found}\n" and out.startswith("scaled: ") and out.count("\n") == 1
    assert "(the least of 3)" in out and "FLOP/s" in out and "B/s" in out and " of the measured bandwidth; cpu, " in out
    wf.bench(scaled, wf.ones((64, 64)), repeat=3, show=False)
    assert not capsys.readouterr().out and repr(found) == f"Bench({found})"


@pytest.mark.parametrize("call, error, message", [
    (lambda: wf.bench(3), TypeError, r"bench: 3 is not a function: .* wf\.bench\(f, x\)"),
    (lambda: wf.bench(wf.ones, 3, repeat=0), ValueError, "bench: repeat must be at least 1, not 0"),
    (lambda: wf.bench(wf.ones, 3, repeat=2.0), TypeError, "bench: repeat must be an integer, not 2.0"),
    (lambda: wf.bench(lambda x: np.sin(x.numpy()), wf.ones(3)), ValueError, "bench: <lambda> ran no program of weft"),
    (lambda: wf.bench(lambda x: x, wf.ones(3)), ValueError, "ran no program of weft"),
    (lambda: wf.bench(lambda: None), ValueError, "ran no program of weft"),
    (lambda: wf.jit(lambda x: wf.bench(wf.exp, x).flops)(wf.ones(3)), TraceError, "bench: not inside jit"),
    (lambda: wf.bench(lambda: wf.bench(wf.exp, wf.ones(3)) and wf.ones(3) + 1), TraceError, "bench: not inside jit.*another"),
    (lambda: wf.bench(lambda x: x @ x, wf.ones((3, 4))), ShapeError, "matmul: shapes"),
])
def test_refused(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
    assert wf.bench(wf.exp, wf.ones(3), repeat=1, show=False).bytes == 24


def test_calls_that_do_different_work_are_refused() -> None:
    sizes = iter(range(10, 10_000))
    with pytest.raises(ValueError, match=r"bench: two calls of grow did different work \(\d+ FLOP and [\d.]+ k?B, then "):
        def grow():
            return wf.ones(next(sizes)) * 2 + 1

        wf.bench(grow)

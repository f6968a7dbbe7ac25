"""A training step of the seed's net: one native entry, few kernels, no new memory, the ragged batch, the same bits."""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.devices import counters, get_device
from weft.eager.native import MAX_MISSES
from weft.tools.digit_net import digit_net
from weft.train.fit import training_step


def data(count: int, side: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((count, 1, side, side)).astype(np.float32), rng.integers(0, 10, count).astype(np.int32)


def made(side: int, seed: int = 0):
    wf.random.seed(seed)
    net = digit_net(side)
    optimizer = wf.optim.Adam(lr=1e-3)
    return net, training_step(net, wf.losses.cross_entropy, optimizer.init(net))


def test_more_layers_of_one_shape_load_no_further_kernels():
    """The second, third and further equal layers, their gradients and their updates share kernels."""
    rng = np.random.default_rng()
    width, rows = (int(rng.integers(20, 300)) for _ in range(2))
    optimizer = (wf.optim.SGD, wf.optim.Adam, wf.optim.AdamW)[rng.integers(3)]
    x, y = wf.asarray(rng.random((rows, width), np.float32)), wf.asarray(rng.integers(0, 7, rows))
    loads = []
    for layers in (3, 4, 7):
        parts = [part for _ in range(layers) for part in (wf.nn.Linear(width, width), wf.nn.ReLU())]
        net = wf.nn.Sequential(*parts, wf.nn.Linear(width, 7))
        step = training_step(net, wf.losses.cross_entropy, optimizer().init(net))
        before = counters()["loads"]
        float(step(x, y, 1e-3))
        loads.append(counters()["loads"] - before)
    assert loads[1:] == [0, 0], loads


def weights(net) -> dict[str, np.ndarray]:
    return {name: a.numpy().copy() for name, a in net.arrays().items()}


def resident() -> int:
    """Bytes of memory this process has now (where /proc tells, else its peak)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("batch", [8, 128])
def test_one_entry_and_at_most_twenty_kernels(batch: int) -> None:
    net, step = made(28)
    x, y = (wf.array(a) for a in data(batch, 28))
    found = wf.explain(step, x, y, 1e-3)
    assert len(found.kernels) <= 20 and not found.host
    wf.eval(step(x, y, 1e-3))
    before = counters()
    wf.eval(step(x, y, 2e-3))
    after = counters()
    assert after["entries"] - before["entries"] == 1
    assert after["kernels"] - before["kernels"] == len(found.kernels)
    assert after["compiles"] == before["compiles"] and after["loads"] == before["loads"]


def test_a_thousand_steps_take_no_new_memory() -> None:
    x, y = data(32, 8)
    net, step = made(8)
    start = weights(net)

    def epoch(count: int) -> float:
        last = 0.0
        for k in range(count):  # as fit does: new arrays each step, the loss looked at
            rows = np.arange(4 * k, 4 * k + 4) % len(x)
            last = float(step(wf.asarray(x[rows]), wf.asarray(y[rows]), 1e-3))
        return last

    first = epoch(1)
    epoch(MAX_MISSES)  # then the native function that reads numbers is loaded
    gc.collect()
    before, size = counters(), resident()
    last = epoch(1000)
    after = counters()
    grown = resident() - size
    assert after["entries"] - before["entries"] == 1000
    for name in ("allocator_misses", "allocator_bytes", "compiles", "cache_hits", "loads"):
        assert after[name] == before[name], name
    assert grown < 1 << 20, f"{grown} bytes in 1,000 steps"
    assert last < first / 2, "it learns its 32 images by heart"
    assert all(np.isfinite(w).all() and (w != start[name]).any() for name, w in weights(net).items())


def test_the_ragged_last_batch_is_trained() -> None:
    x, y = data(19, 8)

    def fitted(count: int, epochs: int = 1) -> tuple[int, dict[str, np.ndarray], wf.train.History]:
        wf.random.seed(3)
        net = digit_net(8)
        optimizer = wf.optim.Adam(lr=1e-3).init(net)
        wf.eval(net.arrays(), optimizer.state, optimizer.step_count)
        before = counters()["entries"]
        history = wf.train.fit(
            net, x[:count], y[:count], epochs=epochs, batch_size=8, optimizer=optimizer, shuffle=False, show=False, loss=entropy,
        )
        return counters()["entries"] - before, weights(net), history

    def entropy(logits, target):  # not the loss that fit looks into, so that only steps are counted
        return wf.losses.cross_entropy(logits, target)

    entries, all_of_them, history = fitted(19)
    assert entries == 3
    whole, without, _ = fitted(16)
    assert whole == 2
    assert all((all_of_them[name] != without[name]).any() for name in without)
    # and it is the step one would make by hand, and counts by its size in the loss
    net, step = made(8, seed=3)
    losses = [float(step(wf.array(x[i : i + 8]), wf.array(y[i : i + 8]), 1e-3)) for i in (0, 8, 16)]
    for name, w in weights(net).items():
        np.testing.assert_array_equal(w, all_of_them[name])
    assert history.loss[0] == pytest.approx((8 * losses[0] + 8 * losses[1] + 3 * losses[2]) / 19)
    for w in fitted(19, epochs=3)[1].values():
        assert np.isfinite(w).all()


def test_same_bits_with_one_and_two_threads() -> None:
    x, y = data(24, 28)
    pool, before = get_device().pool, wf.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 2):
            wf.set_num_threads(threads)
            net, step = made(28)
            jobs = pool.counter("jobs")
            workers: set[int] = set()
            losses = []
            for _ in range(2):
                for i in range(0, 24, 8):
                    with pool.record(4096) as seen:
                        losses.append(float(step(wf.array(x[i : i + 8]), wf.array(y[i : i + 8]), 1e-3)))
                    workers |= set(seen.tolist())
            assert threads == 1 or pool.counter("jobs") > jobs
            assert max(workers) < threads
            results.append((losses, weights(net)))
    finally:
        wf.set_num_threads(before)
    for losses, w in results[1:]:
        assert losses == results[0][0]
        for name, a in w.items():
            np.testing.assert_array_equal(a, results[0][1][name])


def test_gradients_against_central_differences() -> None:
    rng = np.random.default_rng()
    p = {name: rng.normal(size=a.shape) * 0.3 for name, a in digit_net(8).arrays().items()}
    x, y = rng.random((5, 1, 8, 8)), wf.array(rng.integers(0, 10, 5).astype(np.int32))

    @wf.jit
    def loss(p):
        h = wf.nn.relu(wf.nn.conv2d(wf.array(x), p["0.weight"], p["0.bias"], padding=1))
        h = wf.nn.max_pool2d(h, 2).reshape((5, -1))
        h = wf.nn.relu(wf.nn.linear(h, p["4.weight"], p["4.bias"]))
        return wf.losses.cross_entropy(wf.nn.linear(h, p["6.weight"], p["6.bias"]), y)

    slopes = wf.jit(wf.grad(loss))({k: wf.array(v) for k, v in p.items()})
    for name, value in p.items():
        assert slopes[name].dtype == np.float64
        for flat in rng.choice(value.size, min(4, value.size), replace=False):
            where = np.unravel_index(flat, value.shape)
            sides = []
            for h in (1e-6, -1e-6):
                moved = {k: wf.array(v) for k, v in p.items()}
                other = value.copy()
                other[where] += h
                moved[name] = wf.array(other)
                sides.append(float(loss(moved)))
            want = (sides[0] - sides[1]) / 2e-6
            assert float(slopes[name][where]) == pytest.approx(want, rel=1e-5, abs=1e-7), (name, where)

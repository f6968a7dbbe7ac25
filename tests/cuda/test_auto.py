"""Programs that choose their device: on recorded figures, between the CPU and gpu-sim, which is told to be quick or slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.errors import DataError, DeviceError
from weft.placement import choose
from weft.runtime.context import CONTEXT

pytest.importorskip("triton")

SOURCE = json.loads((Path(__file__).parents[1] / "placement" / "source.json").read_text())["devices"]
SLOW = {
    "name": "a slow CPU", "threads": 1, "flops": 1e6, "bandwidth": [[1000000000, 1e7]], "call": 0, "launch": 1e-7, "replay": 1e-8,
}
QUICK = {
    "name": "a card", "threads": 1, "flops": 1e13, "bandwidth": [[1000000000, 1e12]], "call": 0, "launch": 1e-5, "replay": 1e-6,
}
LINK = [1e-5, 1e10]

Profile = Callable[..., None]


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    """Says what the devices can do, once or again."""
    path = tmp_path / "machines.json"
    monkeypatch.setenv("WEFT_PROFILE", str(path))

    def write(cpu: dict[str, Any], **others: dict[str, Any]) -> None:
        before = path.stat().st_mtime_ns if path.exists() else 0
        path.write_text(json.dumps({"devices": {"cpu": cpu, **{name.replace("_", "-"): m for name, m in others.items()}}}))
        os.utime(path, ns=(before + 1000, before + 1000))

    yield write
    wf.set_device("cpu")


def launches() -> int:
    device: Any = get_device("gpu-sim")
    return device.launches


def solve(start: wf.Array, w1: wf.Array, w2: wf.Array) -> wf.Array:
    """The neural ODE of 3-100-3, by 25 steps of Euler's method."""
    return wf.scan(lambda y, _: (y + 0.04 * (w2 @ wf.tanh(w1 @ y)), y.sum()), start, None, length=25)[0]


def test_cheaper_launches_turn_the_small_net(profile: Profile, rng: np.random.Generator) -> None:
    """What it reads lies on the card in both cases, and the link is the source's."""
    given = [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (100, 3), (3, 100))]
    want = wf.jit(solve)(*map(wf.array, given)).numpy()
    gpu = SOURCE["gpu"]
    cheap = {name: gpu[name] / 100 for name in ("launch", "replay")}
    found = {}
    for name, figures in (("cpu", gpu), ("gpu-sim", {**gpu, **cheap})):
        profile(SOURCE["cpu"], gpu_sim=figures)
        f = wf.jit(solve)
        with wf.device("auto"):
            arrays = [wf.array(x).to_device("gpu-sim") for x in given]
            before = launches()
            for _ in range(3):
                out = f(*arrays)
                assert out.device == name and f.traces == 1
                np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)
            found[name] = launches() - before
            assert {a.device for a in arrays} == {name}
            assert wf.explain(f, *arrays).placement.device == name
    assert found["cpu"] == 0 < found["gpu-sim"] == 3 * 50


def test_bench_counts_on_a_device_without_figures_and_refuses_auto(profile: Profile, rng: np.random.Generator) -> None:
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((20, 30), (30, 10)))

    def product(x, w):
        return wf.nn.relu(x @ w) * 2

    with wf.device("gpu-sim"):
        found = [wf.bench(f, wf.array(x), wf.array(w), repeat=2, show=False) for f in (product, wf.jit(product))]
    assert {(b.device, b.flops, b.bytes, b.share) for b in found} == {
        ("gpu-sim", 2 * 20 * 30 * 10 + 3 * 200, 4 * (600 + 300 + 200), None)
    }
    assert str(found[0]).endswith("B/s; gpu-sim")
    profile(SLOW, gpu_sim=QUICK)
    with wf.device("auto"), pytest.raises(DeviceError, match=r"bench: 'auto' may run .*wf.device\('cpu'\)"):
        wf.bench(product, wf.array(x), wf.array(w))


def test_large_programs_go_and_come_back_and_small_ones_stay(profile: Profile, rng: np.random.Generator) -> None:
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    x = rng.normal(size=(300, 200)).astype(np.float32)
    wf.set_device("auto")
    a = wf.array(x)
    before = launches()
    total = (wf.exp(a) / 2).sum(axis=0)  # the CPU of the profile takes 50 ms, so its third look has paid for compiling
    for _ in range(4):
        total = (wf.exp(a) / 2).sum(axis=0)
        np.testing.assert_allclose(total.numpy(), (np.exp(x.astype(np.float64)) / 2).sum(axis=0), rtol=1e-5)
    assert launches() > before and total.device == a.device == "gpu-sim"
    before = launches()
    small = wf.array(np.ones(10, np.float32))
    assert float((small + 1).sum()) == 20.0 and float((small * total[0]).sum()) != 0 and small[3] == 1
    small[2] = 5
    assert small.device == "cpu" and launches() == before and a.device == "gpu-sim"
    f = wf.jit(lambda x: wf.tanh(x @ x.T).sum(axis=1))
    out = f(a)
    assert out.device == "gpu-sim" and launches() > before
    wf.set_device("cpu")
    np.testing.assert_allclose(f(a).numpy(), out.numpy(), rtol=1e-5, atol=1e-3)
    assert a.device == "cpu"


def test_a_large_array_elsewhere_is_not_fetched_for_one_element(profile: Profile) -> None:
    profile(SOURCE["cpu"], gpu_sim={**QUICK, "link": LINK})
    x = np.arange(60_000, dtype=np.float32).reshape(300, 200)
    with wf.device("auto"):
        a = wf.array(x).to_device("gpu-sim")
        assert a.device == "gpu-sim"
        assert float(a[3, 5]) == x[3, 5] and float(a[2].sum()) == x[2].sum()
        a[4, 4] = 7
        part = a[1:3] * 2
        assert float(a[4, 4]) == 7 and a[np.array([0, 4]), np.array([1, 4])].tolist() == [1.0, 7.0]
        np.testing.assert_array_equal(part.numpy(), x[1:3] * 2)


def test_weights_are_fetched_once_their_calls_have_paid(profile: Profile) -> None:
    """Each call saves about 1.2 ms, and fetching 4 MB takes 8: by the eighth call at the latest."""
    cpu = {**SLOW, "flops": 1e11, "bandwidth": [[1000000000, 3.3e9]]}
    profile(cpu, gpu_sim={**QUICK, "link": [1e-5, 5e8]})
    weight = wf.array(np.ones((1000, 1000), np.float32))
    f = wf.jit(lambda x: weight @ x)
    x = wf.array(np.ones(1000, np.float32))
    with wf.device("auto"):
        places = [f(x).device for _ in range(12)]
    turn = places.index("gpu-sim")
    assert 4 <= turn <= 9 and places == ["cpu"] * turn + ["gpu-sim"] * (12 - turn) and weight.device == "gpu-sim"


def test_calls_of_other_kinds(profile: Profile) -> None:
    """An argument that was an array is a number, a view or another shape now, and the other way round."""
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    f = wf.jit(lambda x, y: (x * y + 1).sum())
    with wf.device("auto"):
        for _ in range(2):
            a, b = wf.array(np.ones(30_000, np.float32)), wf.array(np.ones((2, 30_000), np.float32))
            given = [(a, a), (a, 2.0), (2.0, a), (b[0], a), (b, a), (a + 0, b[1]), (a, a), (3.0, 2.0)]
            want = [60_000, 90_000, 90_000, 60_000, 120_000, 60_000, 60_000, 7]
            assert [float(f(x, y)) for x, y in given] == want
            a[:10] = 5
            assert float(f(a, 1.0)) == 60_000 + 40 and float(f(a[:10], 1.0)) == 60


def test_a_decision_is_made_once(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    original = choose.decide
    monkeypatch.setattr(choose, "decide", lambda *given: asked.append(1) or original(*given))
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    f = wf.jit(lambda x: (x * 2 + 1).sum())
    with wf.device("auto"):
        arrays = [wf.array(np.ones(20_000, np.float32)) for _ in range(3)]
        for a in arrays:
            assert float(f(a)) == 60_000.0
        count = len(asked)
        assert count
        for a in arrays:
            for _ in range(3):
                assert float(f(a)) == 60_000.0
        assert len(asked) <= count + 2  # they lie on gpu-sim by now: one more way of lying
    traces = f.traces
    with wf.device("auto"):
        f(arrays[0])
    assert f.traces == traces and len(asked) <= count + 2


def test_a_net_learns_as_on_the_cpu(profile: Profile, rng: np.random.Generator) -> None:
    x = rng.normal(size=(64, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)

    def run() -> tuple[list[float], Any]:
        wf.random.seed(0)
        net = wf.nn.Sequential(wf.nn.Linear(6, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
        history = wf.train.fit(net, x, y, optimizer=wf.optim.Adam(0.02), epochs=2, batch_size=16, seed=0, show=False)
        return history.loss, net

    here, _ = run()
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    with wf.device("auto"):
        there, net = run()
    np.testing.assert_allclose(there, here, rtol=1e-5)
    assert {w.device for w in wf.tree_leaves(net)} == {"gpu-sim"}
    profile(SLOW, gpu_sim={**QUICK, "launch": 100.0, "replay": 100.0, "link": LINK})
    before = launches()
    with wf.device("auto"):
        there, net = run()
    assert there == here and launches() == before and {w.device for w in wf.tree_leaves(net)} == {"cpu"}


def test_threads_and_nested_devices(profile: Profile) -> None:
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    f = wf.jit(lambda x: (x * 2).sum())
    x = np.ones(30_000, np.float32)
    out: list[str] = []
    with wf.device("auto"):
        assert f(wf.array(x)).device == "gpu-sim"
        with wf.device("cpu"):
            assert f(wf.array(x)).device == "cpu" and CONTEXT.placement is None
        with wf.device("gpu-sim"):
            assert f(wf.ones(3)).device == "gpu-sim"
        assert f(wf.array(x)).device == "gpu-sim" and CONTEXT.device is None

        def there() -> None:
            out.append(f(wf.array(x)).device)

        thread = threading.Thread(target=there)
        thread.start()
        thread.join()
        assert out == ["cpu"]  # with is this thread's
    assert CONTEXT.placement is None
    wf.set_device("auto")
    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert out == ["cpu", "gpu-sim"]


def test_wrong_indices_are_told_wherever_it_ran(profile: Profile) -> None:
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    f = wf.jit(lambda x, i: (x[i] * 2).sum())
    with wf.device("auto"):
        x = wf.array(np.ones((100, 300), np.float32))
        assert f(x, wf.array([0, 99])).device == "gpu-sim"
        with pytest.raises(IndexError, match=r"index 100 is out of bounds for axis 0 with size 100 \(.*test_auto"):
            f(x, wf.array([0, 100]))


def test_only_what_is_here_is_asked(profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile(SLOW, gpu=QUICK, tpu=QUICK)
    with wf.device("auto"):
        assert CONTEXT.placement is None and (wf.ones(3) * 2).device == "cpu"
    monkeypatch.setenv("WEFT_PROFILE", str(tmp_path / "missing.json"))
    with wf.device("auto"):  # gpu-sim is for those who name it
        assert CONTEXT.placement is None
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    monkeypatch.setenv("WEFT_PROFILE", str(bad))
    with pytest.raises(DataError, match="must hold a JSON object"):
        wf.set_device("auto")


def test_by_the_environment(profile: Profile) -> None:
    profile(SLOW, gpu_sim={**QUICK, "link": LINK})
    code = "import weft as wf, numpy as np; print(wf.jit(lambda x: (x * 2).sum())(wf.array(np.ones(30000, 'f4'))).device)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, "WEFT_DEVICE": "auto"},
    )
    assert said.stdout == "gpu-sim\n", said.stderr

"""profile: that times are attributed, add up, disturb nothing, and that reasons are named."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.devices.cache import Cache
from weft.devices.cpu.emit.math import has_vectors
from weft.errors import DataError, TraceError
from weft.placement import device_figures as profile_machine
from weft.tools.cli import main
from weft.tools.profile import Profile

nn = wf.nn


def normal(*shape: int) -> wf.Array:
    return wf.asarray(np.random.default_rng().normal(size=shape).astype(np.float32))


def consistent(found: Profile) -> None:
    """Parts add up to kernels, kernels and what is outside of them to the call, in every table."""
    inside = sum(k.seconds for k in found.kernels)
    assert np.isclose(inside, found.inside) and found.seconds >= found.inside > 0
    assert found.seconds <= 1.001 * max(found.measured, found.inside)
    for kernel in found.kernels:
        assert np.isclose(sum(p.seconds for p in kernel.parts), kernel.seconds, atol=1e-12)
        assert 0 <= kernel.of_floor <= 1 and kernel.reason and kernel.why
        assert all(p.estimated == (len(kernel.parts) > 1) for p in kernel.parts)
    for rows in (found.layers, found.lines):
        assert np.isclose(sum(r.seconds for r in rows) + found.outside, found.seconds)
    assert np.isclose(sum(found.phases.values()), found.inside)
    assert [k.lost for k in found.kernels] == sorted((k.lost for k in found.kernels), reverse=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.layers = [nn.Linear(4 * 16, 16), nn.Linear(16, 5)]
        self.norm = nn.BatchNorm2d(4)
        self.gain = wf.ones(5)

    def forward(self, x):
        x = nn.max_pool2d(self.norm(self.conv1(x)), 2).reshape(x.shape[0], -1)
        for layer in self.layers:
            x = wf.tanh(layer(x))
        return x * self.gain


def step_of(net, optimizer):
    differentiated = wf.value_and_grad(lambda net, x, y: wf.losses.cross_entropy(net(x), y))

    @wf.jit
    def step(x, y):
        loss, gradient = differentiated(net, x, y)
        optimizer.update(net, gradient)
        return loss

    return step


def test_a_training_step() -> None:
    net, x = Net(), normal(16, 1, 8, 8)
    y = wf.asarray(np.random.default_rng().integers(0, 5, 16))
    optimizer = wf.optim.Adam(lr=0.01, clip_norm=1.0)
    step = step_of(net, optimizer)
    step(x, y)
    step(x, y)
    traces = step.traces
    before = {k: v.numpy().copy() for k, v in (*net.arrays().items(), *optimizer.arrays().items())}
    found = wf.profile(step, x, y, repeat=4, show=False)
    consistent(found)
    after = {k: v.numpy() for k, v in (*net.arrays().items(), *optimizer.arrays().items())}
    assert before.keys() == after.keys() and all((before[k] == after[k]).all() for k in before), "the state is as it was"
    assert step.traces == traces, "the function itself is not compiled anew"
    names = {r.name: r for r in found.layers}
    assert set(names) == {"conv1", "norm", "layers.0", "layers.1", "Net (own)", "cross_entropy", "(outside layers)"}
    assert names["conv1"].detail == "Conv2d" and names["layers.1"].detail == "Linear" and names["cross_entropy"].detail == "loss"
    for name in ("conv1", "layers.0", "layers.1", "norm"):
        assert names[name].forward > 0 and names[name].backward > 0 and names[name].update > 0, name
    assert names["(outside layers)"].forward == names["(outside layers)"].backward == 0, "the norm of all gradients, and counting"
    assert names["cross_entropy"].update == 0 and all(found.phases[p] > 0 for p in found.phases)
    sources = {r.detail: r for r in found.lines}
    convolution = sources["x = nn.max_pool2d(self.norm(self.conv1(x)), 2).reshape(x.shape[0], -1)"]
    assert convolution.forward > 0 and convolution.backward > 0 and convolution.update == 0
    update = sources["optimizer.update(net, gradient)"]
    assert update.update > 0 and update.forward == update.backward == 0
    first, again = float(step(x, y)), float(step(x, y))
    assert again != first, "the step still trains"


def test_the_first_call_makes_the_optimizers_state() -> None:
    net, x, y = Net(), normal(16, 1, 8, 8), wf.asarray(np.arange(16) % 5)
    optimizer = wf.optim.Adam(lr=0.01, clip_norm=1.0)
    wf.profile(step_of(net, optimizer), x, y, repeat=2, show=False)
    assert float(optimizer.step_count) == 1, "as after one call"


def test_code_that_looks_inside() -> None:
    weights = [normal(64, 64) for _ in range(2)]

    def descent(x, w, v):
        def loss(w, v):
            return (wf.tanh(wf.tanh(x @ w) @ v) ** 2).mean()

        value, slopes = wf.value_and_grad(loss, argnums=(0, 1))(w, v)
        if float(value) > 1e-9:
            w -= 0.1 * slopes[0]
            v -= 0.1 * slopes[1]
        return value

    before = [w.numpy().copy() for w in weights]
    found = wf.profile(descent, normal(128, 64), *weights, repeat=3, show=False)
    consistent(found)
    assert all((w.numpy() == b).all() for w, b in zip(weights, before, strict=True))
    sources = {r.detail: r for r in found.lines}
    product = sources["return (wf.tanh(wf.tanh(x @ w) @ v) ** 2).mean()"]
    assert product.forward > 0 and product.backward > 0
    assert sources["w -= 0.1 * slopes[0]"].update > 0
    assert found.outside > 0


def test_methods_modules_and_plain_functions() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = normal(32, 32)
            self.calls = 0

        @wf.jit
        def jitted(self, x):
            return (x @ self.w).sum()

        def plain(self, x):
            self.w += x.mean()
            return self.w

    model, x = Model(), normal(32, 32)
    before = model.w.numpy().copy()
    assert wf.profile(model.jitted, x, repeat=2, show=False).name == "jitted"
    found = wf.profile(model.plain, x, repeat=2, show=False)
    assert found.name == "plain" and {r.detail for r in found.lines} == {"self.w += x.mean()"}
    assert (model.w.numpy() == before).all()
    found = wf.profile(nn.Linear(8, 8), normal(4, 8), repeat=2, show=False)
    assert found.name == "Linear" and found.layers[0].name == "Linear"


def test_two_models_and_loops() -> None:
    encoder, decoder = nn.Sequential(nn.GRU(4, 8)), nn.Sequential(nn.Linear(8, 4), nn.Tanh())

    @wf.jit
    def both(x):
        return wf.grad(lambda e: (decoder(e(x)[0]) ** 2).mean())(encoder)

    found = wf.profile(both, normal(12, 3, 4), repeat=2, show=False)
    consistent(found)
    names = {r.name: r for r in found.layers}
    assert {"Sequential1.0", "Sequential2.0"} <= set(names), names
    assert names["Sequential1.0"].forward > 0 and names["Sequential1.0"].backward > 0
    loops = [k for k in found.kernels if k.kind == "loop"]
    assert {p.place.phase for k in loops for p in k.parts} == {"forward", "backward"}
    assert all(k.reason == "loop" and "12 steps" in k.why for k in loops)


def test_a_host_primitive() -> None:
    found = wf.profile(wf.jit(lambda x: wf.exp(wf.sort(x))), normal(100_000), repeat=10, show=False)
    consistent(found)
    assert found.culprit.reason == "host primitive" and "sort runs in NumPy" in found.culprit.sentence
    (sort,) = (k for k in found.kernels if k.kind == "numpy")
    assert sort.name == "sort" and found.culprit.seconds > 0.5 * found.seconds


def test_too_small_and_not_jitted() -> None:
    def add(x):
        return x + 1

    found = wf.profile(wf.jit(add), wf.ones(8), show=False)
    assert found.culprit.reason == "too small" and "the call from Python" in found.culprit.sentence
    assert found.kernels[0].reason == "too small" and found.outside > found.inside
    found = wf.profile(add, wf.ones(8), show=False)
    assert found.culprit.reason == "not jitted" and "wf.jit" in found.culprit.sentence


def test_a_python_loop_of_small_operations() -> None:
    def power(x):
        for _ in range(40):
            x = x * 1.01
        return x

    found = wf.profile(power, wf.ones(8), show=False)
    assert found.culprit.reason == "Python loop" and found.culprit.line == found.lines[0].name
    assert "40 times" in found.culprit.sentence


def test_a_large_softmax_is_memory_bound() -> None:
    def softmax(a):
        e = wf.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    found = wf.profile(wf.jit(softmax), normal(8192, 2048), repeat=10, show=False)  # far larger than any cache
    (kernel,) = found.kernels
    assert found.culprit.reason == "memory-bound" and kernel.bytes == 2 * 4 * 8192 * 2048 and kernel.bound == "memory"
    assert "softmax" in found.culprit.sentence and all(p.estimated for p in kernel.parts)


def test_what_is_not_vectorised() -> None:
    found = wf.profile(wf.jit(lambda x: wf.cumsum(x, axis=1)), normal(1, 100_000), repeat=3, show=False)
    assert found.kernels[0].reason == found.culprit.reason == "not vectorised" and "running sum" in found.culprit.sentence
    for name, slow in (("atan2", True), ("sin", False), ("exp", False)):
        assert has_vectors(name, "float") is not slow
        f = wf.jit((lambda x: wf.atan2(x, x + 1)) if name == "atan2" else getattr(wf, name))
        found = wf.profile(f, normal(100_000), repeat=3, show=False)
        assert (f"{name}f of the C library" in found.kernels[0].why) is slow, found.kernels[0].why


def test_scattered_sums_and_gathers() -> None:
    x, rows = normal(400_000), wf.asarray(np.random.default_rng().integers(0, 400_000, 200_000))
    found = wf.profile(wf.jit(lambda x, rows: wf.scatter_add(x, rows, wf.tanh(x[rows]))), x, rows, repeat=3, show=False)
    reasons = {k.reason for k in found.kernels}
    assert "serial scatter" in reasons and "quadratic" not in reasons


def test_windows_are_read_in_order() -> None:
    """Their places are computed from loop positions, so no index array is blamed."""
    x = normal(64 * 64 * 64).reshape(64, 64, 64)
    windows = wf.jit(lambda x: wf.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2)) * 2)
    assert "gather" not in {k.reason for k in wf.profile(windows, x, repeat=3, show=False).kernels}


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links = 0

    def handle_starttag(self, tag, attrs):
        self.links += any(k in ("src", "href") for k, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("matplotlib")
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    found = wf.profile(wf.jit(lambda x: wf.where(net(x) < 0, 1, 2)), normal(64, 8), repeat=2)
    printed = capsys.readouterr().out
    assert found.culprit.sentence in printed and "of floor" in printed and printed.strip() == str(found).strip()
    for end in ("html", "png", "json", "txt"):
        found.save(tmp_path / f"p.{end}")
    assert (tmp_path / "p.txt").read_text() == str(found) + "\n"
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (tmp_path / "p.html").read_text()
    balance = _Balance()
    balance.feed(page)
    assert not balance.open and not balance.links and "http" not in page and "&lt;lambda&gt;" in page
    assert found._repr_html_() in page
    trace = json.loads((tmp_path / "p.json").read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in spans} == {1, 2, 3} and all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
    kernels = [e for e in spans if e["tid"] == 1]
    assert [e["name"] for e in kernels] and len(kernels) == sum(k.runs for k in found.kernels)
    for one, following in zip(kernels, kernels[1:], strict=False):
        assert one["ts"] + one["dur"] <= following["ts"] + 1e-3
    for tid in (2, 3):
        assert sum(e["dur"] for e in spans if e["tid"] == tid) == pytest.approx(sum(e["dur"] for e in kernels))
    with pytest.raises(ValueError, match=r"must end in \.html"):
        found.save(tmp_path / "p.pdf")


def test_a_page_with_the_statistics_of_a_watch(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)), normal(64, 8)
    with wf.watch(net, format="float8_e4m3fn") as watch:
        for k in range(3):
            net(x * 1e3**k)
            watch.record()
    found = wf.profile(wf.jit(net), x, repeat=2, show=False, watch=watch)
    found.save(tmp_path / "p.html")
    page, without = (tmp_path / "p.html").read_text(), wf.profile(wf.jit(net), x, repeat=2, show=False)._repr_html_()
    assert page.count("<svg") == without.count("<svg") + 1 and "Numbers" not in without
    for s in watch.statistics.values():
        assert f">{s.name}</td>" in page and f">{s.overflow:,}</td>" in page
    assert watch["0"].overflow and all(note in page for note in watch.notes())
    with pytest.raises(TypeError, match="watch must be a result of wf.watch, not int"):
        wf.profile(wf.jit(net), x, watch=3)
    with watch, pytest.raises(TraceError, match="not inside jit, grad, vmap, a watch"):
        wf.profile(wf.jit(net), x)


def test_bad_arguments_and_nesting() -> None:
    with pytest.raises(TypeError, match="give the function and its arguments"):
        wf.profile(wf.ones(3))
    with pytest.raises(ValueError, match="repeat must be at least 1"):
        wf.profile(wf.exp, wf.ones(3), repeat=0)
    with pytest.raises(TypeError, match="repeat must be an integer"):
        wf.profile(wf.exp, wf.ones(3), repeat=1.5)
    with pytest.raises(TraceError, match="call it outside"):
        wf.jit(lambda x: wf.profile(wf.exp, x))(wf.ones(3))
    a = wf.ones(3)

    def fails(x):
        a[...] = 2
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        wf.profile(fails, a)
    assert a.tolist() == [1, 1, 1]
    assert wf.jit(lambda x: x + 1)(wf.ones(2)).tolist() == [2, 2], "an error leaves nothing behind"
    found = wf.profile(lambda: sum(range(1000)), repeat=2, show=False)
    assert not found.kernels and found.culprit.reason == "no weft" and str(found)


def test_the_command(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    assert main(["train", "digits", "--epochs", "1", "--profile", str(tmp_path / "p.json")]) == 0
    out = capsys.readouterr().out
    assert "One step of 8 images" in out and "Culprit: " in out and "Conv2d" in out and "An epoch: " in out
    assert json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    assert main(["train", "digits", "--profile", str(tmp_path / "p.exe")]) == 1
    assert "must end in" in capsys.readouterr().err


def test_files_that_cannot_be_written_are_refused_at_once(capsys, tmp_path: Path, monkeypatch) -> None:
    train = ["train", "digits", "--epochs", "1"]
    for more, why in (
        (["--save", str(tmp_path)], "is a folder"), (["--checkpoint", str(tmp_path)], "is a folder"),
        (["--resume"], "--resume needs --checkpoint FILE"),
    ):
        assert main([*train, *more]) == 1
        shown = capsys.readouterr()
        assert why in shown.err and not shown.out
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for more in (["--plot", "a.pdf"], ["--profile", "a.png"]):
        assert main([*train, *more]) == 1
        assert "needs matplotlib: pip install 'weft-array[plot]'" in capsys.readouterr().err


def test_the_machine_is_measured_once_and_can_be_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = get_device("cpu")
    monkeypatch.setattr(device.compiler, "cache", Cache(tmp_path / "cache"))  # other processes measure, too
    monkeypatch.setattr(profile_machine, "_MACHINES", {})
    found = profile_machine.machine()
    assert found.flops > 1e8 and all(b > 1e7 for _, b in found.bandwidth) and found.threads == wf.get_num_threads()
    sizes = np.geomspace(1, 1e12, 50)
    rates = [found.bandwidth_at(s) for s in sizes]
    assert rates == sorted(rates, reverse=True) and rates[-1] == found.memory
    monkeypatch.setattr(profile_machine, "_MACHINES", {})
    assert profile_machine.machine() == found, "from the cache folder"
    path = tmp_path / "machine.json"
    monkeypatch.setenv("WEFT_PROFILE", os.fspath(path))
    assert profile_machine.machine() == found and path.exists()
    path.write_text(json.dumps({"name": "mine", "threads": 3, "flops": 1e12, "bandwidth": [[1024, 2e9], [4096, 1e9]]}))
    assert profile_machine.machine().bandwidth_at(5000) == 1e9 and profile_machine.machine().name == "mine"
    for bad in ("{", '{"name": "mine"}', json.dumps({"name": "m", "threads": 1, "flops": 0, "bandwidth": [[1, 1]]})):
        path.write_text(bad)
        with pytest.raises(DataError, match="WEFT_PROFILE"):
            profile_machine.machine()

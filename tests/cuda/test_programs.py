"""Programs of users on gpu-sim: nets that learn, loops, writes, wrong indices; and arrays that change devices."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import get_device
from weft.devices.cuda.adapter import OutOfBounds, interpret_launch
from weft.devices.cuda.generate import generate
from weft.dtypes.formats import FLOAT32, formats_of_kind
from weft.dtypes.rounding import MODES
from weft.graph.node import Graph
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")

NAME = "gpu-sim"  # test_launcher.py runs some of these tests under another name


@pytest.fixture
def simulated() -> Iterator[Any]:
    """Everything runs on gpu-sim; random numbers begin anew."""
    wf.random.seed(0)
    with wf.device("gpu-sim"):
        yield get_device("gpu-sim")
    wf.random.seed(1)


def on_both(run) -> tuple[Any, Any]:
    """What ``run`` gives on the CPU and on the other device, where it must have launched something."""
    wf.random.seed(0)
    here = run()
    device: Any = get_device(NAME)
    before = device.launches
    wf.random.seed(0)
    with wf.device(NAME):
        there = run()
    assert device.launches > before
    wf.random.seed(1)
    return here, there


def small_net() -> Any:
    return wf.nn.Sequential(
        wf.nn.Conv2d(1, 4, 3, padding=1), wf.nn.BatchNorm2d(4), wf.nn.ReLU(), wf.nn.MaxPool2d(2), wf.nn.Conv2d(4, 6, 3),
        wf.nn.ReLU(), wf.nn.Flatten(), wf.nn.Dropout(0.2), wf.nn.Linear(96, 10),
    )


def test_explain_says_where_a_kernel_is_several_launches(capsys: pytest.CaptureFixture) -> None:
    with wf.device("gpu-sim"):
        assert wf.explain(lambda x: wf.nn.softmax(x, 1), wf.zeros((40, 1000))).launches == (1,)
        assert "launches" not in capsys.readouterr().out
        assert wf.explain(lambda x: wf.nn.softmax(x, 1), wf.zeros((4, 100_000))).launches == (5,)
        assert "    5 launches on this device: its parts, and pieces of what no program can own whole" in capsys.readouterr().out
    assert wf.explain(lambda x: wf.nn.softmax(x, 1), wf.zeros((4, 100_000))).launches == ()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_products_of_8_bits_add_up_in_32(dtype: str) -> None:
    """Sums of these products have no rounding, so all orders give their bits."""
    rng = np.random.default_rng()
    wide = "float32" if "float" in dtype else "int32"
    for m, k, n in ((5, 7, 3), (33, 65, 17), (70, 130, 40)):
        a, b = (wf.array(rng.integers(0 if dtype == "uint8" else -7, 8, s)).astype(dtype) for s in ((m, k), (k, n)))
        here, there = on_both(lambda a=a, b=b: wf.jit(lambda x, y: wf.matmul(x, y, dtype=wide))(a, b).numpy())
        np.testing.assert_array_equal(here, there)
        np.testing.assert_array_equal(here, a.numpy().astype("int64") @ b.numpy().astype("int64"))


@pytest.mark.parametrize("dtype", [f.name for f in formats_of_kind("float") if f.narrow])
def test_casts_round_in_every_mode_as_on_the_cpu(dtype: str) -> None:
    rng = np.random.default_rng()
    x = np.append(rng.normal(size=500) * np.exp2(rng.integers(-20, 16, 500)), [np.inf, -np.inf, np.nan, 0.0, -0.0])
    for source in ("float32", "float64"):
        for way in (None, *MODES):
            here, there = on_both(lambda s=source, w=way: wf.array(x.astype(s)).astype(dtype, rounding=w).numpy())
            assert here.dtype == there.dtype == dtype and here.tobytes() == there.tobytes(), (source, way)


@pytest.mark.parametrize("optimizer", [wf.optim.SGD, wf.optim.Adam])
def test_a_convolutional_net_learns_as_on_the_cpu(optimizer) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(8, 1, 12, 12)).astype(np.float32), rng.integers(0, 10, 8)

    def run() -> list[float]:
        x, t, net = wf.array(images), wf.array(labels), small_net()
        rule = optimizer(1e-2).init(net)

        @wf.jit
        def step(net: Any, rule: Any) -> wf.Array:
            loss, slope = wf.value_and_grad(lambda net: wf.losses.cross_entropy(net(x), t))(net)
            rule.update(net, slope)
            return loss

        return [float(step(net, rule)) for _ in range(4)]

    here, there = on_both(run)
    np.testing.assert_allclose(there, here, rtol=1e-5)
    assert here[-1] < here[0]


def trained_in_16_bits(steps: int = 2) -> tuple[list[float], list[np.ndarray]]:
    """A net in bfloat16 that learns: losses, and weights after some steps."""
    rng = np.random.default_rng(1)
    net = wf.nn.Sequential(
        wf.nn.Conv2d(8, 16, 3, padding=1, bias=False), wf.nn.BatchNorm2d(16), wf.nn.ReLU(),
        wf.nn.Conv2d(16, 8, 3, stride=2, padding=1), wf.nn.ReLU(), wf.nn.MaxPool2d(2), wf.nn.Flatten(), wf.nn.Linear(8 * 4, 4),
    )
    x, t = wf.array(rng.standard_normal((4, 8, 8, 8)).astype(np.float32)), wf.array(rng.integers(0, 4, 4))
    rule = wf.optim.SGD(0.1, momentum=0.9).init(net)

    @wf.jit
    def step(net: Any, rule: Any) -> wf.Array:
        def loss(net: Any) -> Any:
            half = wf.tree_map(lambda w: wf.astype(w, "bfloat16"), net)
            return wf.losses.cross_entropy(wf.astype(half(wf.astype(x, "bfloat16")), "float32"), t)

        value, slope = wf.value_and_grad(loss)(net)
        rule.update(net, slope)
        return value

    return [float(step(net, rule)) for _ in range(steps)], [w.numpy() for w in wf.tree_leaves(net)]


def test_a_net_in_16_bits_learns_as_on_the_cpu() -> None:
    """Its arrays lie channels last there."""
    (here, weights), (there, found) = on_both(trained_in_16_bits)
    np.testing.assert_allclose(there, here, rtol=2e-2)
    for a, b in zip(found, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2 * np.abs(b).max())


def test_fit() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)

    def run() -> tuple[list[float], Any]:
        net = wf.nn.Sequential(wf.nn.Linear(6, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
        history = wf.train.fit(net, x, y, optimizer=wf.optim.Adam(0.02), epochs=3, batch_size=16, seed=0, show=False)
        return history.loss, net

    (here, _), (there, net) = on_both(run)
    np.testing.assert_allclose(there, here, rtol=1e-5)
    assert here[-1] < here[0]
    assert all(w.device == NAME for w in wf.tree_leaves(net))


def test_a_recurrent_net() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 3, 4)).astype(np.float32)

    def run() -> list[np.ndarray]:
        net = wf.nn.GRU(4, 6)
        slope = wf.grad(lambda net: (net(wf.array(x))[0] ** 2).sum())(net)
        return [g.numpy() for g in wf.tree_leaves(slope)]

    for a, b in zip(*on_both(run), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_loops(length: int, reverse: bool) -> None:
    xs = np.random.default_rng(length).normal(size=(length, 3)).astype(np.float32)

    def step(c: wf.Array, x: wf.Array) -> tuple[wf.Array, wf.Array]:
        return wf.sin(c) * x + 0.5, c + x

    def run() -> list[np.ndarray]:
        c = wf.array([0.1, 0.2, 0.3])
        last, ys = wf.scan(step, c, wf.array(xs), reverse=reverse)
        slope = wf.grad(lambda c: wf.scan(step, c, wf.array(xs), reverse=reverse)[0].sum())(c)
        return [last.numpy(), ys.numpy(), slope.numpy(), (last * 2).numpy()]

    for a, b in zip(*on_both(run), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_writes_sorts_and_wrong_indices(simulated: Any) -> None:
    a = wf.zeros((3, 4))
    a[1:, ::2] = 5
    a += 1
    a[0, 1] = 7
    want = np.ones((3, 4), np.float32)
    want[1:, ::2] += 5
    want[0, 1] = 7
    np.testing.assert_array_equal(a.numpy(), want)
    np.testing.assert_array_equal(wf.sort(a, axis=1).numpy(), np.sort(want, axis=1))
    assert float(a[1, 2]) == 6
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for axis 0 with size 3 \(.*test_programs"):
        a[wf.array([0, 7])].numpy()
    before = a.numpy()
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        a[wf.array([1, 9])] = 3
        a.numpy()
    np.testing.assert_array_equal(before, want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "uint64"])
def test_the_last_of_several_writes_stays_and_sums_are_in_order(simulated: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    table, rows = rng.normal(size=(7, 5)) * 9, rng.normal(size=(40, 5)) * 9
    table, rows = (np.abs(x).astype(dtype) if dtype == "uint64" else x.astype(dtype) for x in (table, rows))
    at = rng.integers(0, 7, 40)
    a = wf.array(table)
    a[wf.array(at)] = wf.array(rows)
    want = table.copy()
    want[at] = rows
    np.testing.assert_array_equal(a.numpy(), want)
    added = wf.scatter_add(wf.array(table), wf.array(at), wf.array(rows)).numpy()
    sums = table.copy()
    for i, row in zip(at, rows, strict=True):  # one after the other, each rounded
        sums[i] += row
    np.testing.assert_array_equal(added, sums)


def test_arrays_are_copied_to_the_device_that_runs_the_program() -> None:
    x = wf.array(np.ones((16, 4), np.float32))
    f = wf.jit(lambda x: (x * 2).sum())
    assert [float(f(x)) for _ in range(3)] == [128.0] * 3
    with wf.device("gpu-sim"):
        y = wf.array(np.ones((16, 4), np.float32))
        assert (x.device, y.device) == ("cpu", "gpu-sim")
        assert float(f(x)) == float(f(y)) == float((x + y).sum()) == 128.0
        assert x.device == "gpu-sim"  # it was read there
        z, part = y * 3, y[3:]
        assert z.device == "gpu-sim"
        wf.eval(z)
    assert float(f(y)) == 128.0 and y.device == "cpu"
    assert [float(f(v)) for v in (x, y, x, wf.ones((16, 4)), x)] == [128.0] * 5
    assert float(z[0, 0]) == 3.0 and float((z + 1).sum()) == 256.0 and float(part.sum()) == 52.0
    z[0] = 5
    assert float(z.sum()) == 60 * 3 + 20
    there = z.to_device("gpu-sim")
    assert there.device == "gpu-sim" and z.device == "cpu"
    np.testing.assert_array_equal(there.numpy(), z.numpy())
    assert z.to_device("cpu") is z


def test_state_is_updated_in_its_memory(simulated: Any) -> None:
    a = wf.zeros(1000)

    @wf.jit
    def step() -> None:
        a[...] = a + 1

    step()
    memory = a.node.value
    step()
    assert a.node.value is memory  # nobody else held it
    kept = a.copy()
    step()
    assert (float(a.sum()), float(kept.sum())) == (3000.0, 2000.0)


@pytest.mark.parametrize("shape", [(2048, 33), (2049, 33), (5000, 40), (3, 3000, 4)])
def test_long_columns(simulated: Any, shape: tuple[int, ...]) -> None:
    """Cut among programs or not."""
    x = np.random.default_rng(0).normal(size=shape)
    found = wf.jit(lambda x: (x.sum(axis=-2), x.max(axis=-2), x.var(axis=-2)))(wf.array(x.astype(np.float32)))
    want = x.astype(np.float32).astype(np.float64)
    for a, b in zip(found, (want.sum(axis=-2), want.max(axis=-2), want.var(axis=-2)), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-3)


def test_each_thread_has_its_device() -> None:
    def there() -> None:
        with wf.device("gpu-sim"):
            inside.wait()
            out.append(wf.ones(3).device)

    inside, out = threading.Barrier(2, timeout=60), []
    thread = threading.Thread(target=there)
    thread.start()
    assert (wf.ones(3) * 2).device == "cpu"
    inside.wait()
    assert wf.ones(3).device == "cpu"
    thread.join()
    assert out == ["gpu-sim"]


def test_threads_on_two_devices_call_one_jitted_function() -> None:
    f = wf.jit(lambda x: (x * 2).sum())

    def there() -> None:
        with wf.device("gpu-sim"):
            y = wf.array(np.ones(5, np.float32))
            turns.wait()
            for _ in range(5):
                out.append(float(f(y)))
                turns.wait()
                turns.wait()

    turns, out = threading.Barrier(2, timeout=60), []
    thread = threading.Thread(target=there)
    thread.start()
    x = wf.array(np.ones(5, np.float32))
    turns.wait()
    for _ in range(5):
        turns.wait()
        assert float(f(x)) == float(f(x)) == 10.0 and x.device == "cpu"
        turns.wait()
    thread.join()
    assert out == [10.0] * 5


def test_set_device() -> None:
    try:
        wf.set_device("gpu-sim")
        assert wf.ones(3).device == "gpu-sim"
        with wf.device("cpu"):
            assert wf.ones(3).device == "cpu"
        out: list[str] = []
        thread = threading.Thread(target=lambda: out.append(wf.ones(3).device))
        thread.start()
        thread.join()
        assert out == ["gpu-sim"]
    finally:
        wf.set_device("cpu")
    with pytest.raises(ValueError, match="no device 'tpu'"):
        wf.set_device("tpu")


def test_every_access_is_checked() -> None:
    """A text that is told of less memory than it needs."""
    x = input_leaf((40,), FLOAT32)
    program = build(Graph([x], [bind(TABLE["tanh"], x)]), get_device("gpu-sim").target)
    (call,) = calls(program)
    (launch,) = generate(call.kernel).launches
    given, made = np.zeros(40, np.float32), np.zeros(40, np.float32)
    addresses: list[Any] = [(a.ctypes.data, a.nbytes) for a in (given, made)]
    numbers = [a.value for a in launch.arguments]
    rest = [None] * (len(launch.arguments) - 2)
    interpret_launch(launch, addresses + rest, numbers)
    for short in (0, 1):
        told = [(a, n - 4 * (k == short)) for k, (a, n) in enumerate(addresses)]
        with pytest.raises(Exception, match="element 39 of a buffer of 39 is accessed") as error:
            interpret_launch(launch, told + rest, numbers)
        assert isinstance(error.value, OutOfBounds)


CREATION = {
    "zeros": (3,), "ones": (3,), "empty": (3,), "full": (3, 1.5), "arange": (3,), "linspace": (0, 1, 3), "eye": (2,),
    "zeros_like": (wf.ones(2),), "ones_like": (wf.ones(2),), "empty_like": (wf.ones(2),), "full_like": (wf.ones(2), 2),
    "array": ([1.0],), "asarray": ([1.0],), "from_dlpack": (np.ones(2),), "astype": (wf.ones(2), wf.int32),
}


@pytest.mark.parametrize("name", CREATION)
def test_arrays_are_made_on_a_device(name: str) -> None:
    f, args = getattr(wf, name), CREATION[name]
    made = f(*args, device="gpu-sim")
    assert made.device == "gpu-sim" and (made * 1).device == "cpu"
    np.testing.assert_array_equal(made.get(), f(*args).numpy())
    there = f(*args, device="gpu-sim")
    with wf.device("gpu-sim"):
        assert f(*args, device="cpu").device == "cpu"
        doubled = wf.jit(lambda x: x + f(*args, device="cpu"))(there)
        assert doubled.device == "gpu-sim"
        np.testing.assert_array_equal(wf.asnumpy(doubled), 2 * f(*args, device="cpu").numpy())


def test_devices_of_the_array_api() -> None:
    info = wf.__array_namespace_info__()
    assert info.default_device() == "cpu" and {"cpu", "gpu-sim"} <= set(info.devices())
    with wf.device("gpu-sim"):
        assert info.default_device() == "gpu-sim"
    for name in info.devices():
        x = wf.zeros(3, device=name)
        assert x.device == name and x.to_device(name) is x and x.to(name) is x and x.to_device("cpu").device == "cpu"
    there = wf.ones(3, device="gpu-sim")
    assert wf.asarray(there, device="gpu-sim", copy=False) is there
    copy = wf.asarray(there, device="gpu-sim", copy=True)
    assert copy is not there and copy.device == "gpu-sim"
    with pytest.raises(ValueError, match="copy=False"):
        wf.asarray(there, device="cpu", copy=False)
    line, step = wf.linspace(0, 1, 5, retstep=True, device="gpu-sim")
    assert line.device == "gpu-sim" and step == 0.25
    assert wf.fft.fftfreq(4, device="gpu-sim").device == "gpu-sim"
    assert (there * 2).to_device("gpu-sim").device == "gpu-sim"


def test_train_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.tools import cli

    assert cli.main(["train", "digits", "--device", "tpu"]) == 1
    assert "no device 'tpu'; there are 'cpu', 'gpu-sim' and 'gpu'" in capsys.readouterr().err
    assert cli.main(["info"]) == 0
    assert "device in use" in capsys.readouterr().out


def test_a_learners_manager_runs_where_its_mode_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "seeds"))
    from learner import LayerManager

    x = np.random.default_rng(0).normal(size=(24, 1, 4, 4))
    t = (x.mean(axis=(1, 2, 3)) > 0).astype(int)
    device: Any = get_device("gpu-sim")
    errors = []
    for mode in ("cpu", "gpu-sim"):
        wf.random.seed(3)
        lm = LayerManager((x[:16], x[16:]), (t[:16], t[16:]), mode=mode)
        lm.append(name="m", n=5)
        lm.append(name="o", n=2, act="softmax", err_func="Cross")
        before = device.launches
        lm.training(1, n_batch=8, show_error=False)
        errors.append(lm.error())
        assert (device.launches > before) == (mode == "gpu-sim")
        assert {p.device for p in lm.net.parameters().values()} == {mode} and (wf.ones(3) * 2).device == "cpu"
        lm.forward(lm.x_train)
        errors.append(lm[-1].get_error(lm.y_train))
        lm.backward(lm.y_train)
        before = device.launches
        grad = lm[1].backward(lm.y_train)
        wf.eval(grad, lm[0].backward(grad), lm[0].forward(lm.x_train))
        assert (device.launches > before) == (mode == "gpu-sim") and grad.device == mode
        lm.update()
        assert lm.x_train.get().shape == (16, 1, 4, 4) and lm.predict(x=lm.x_train, y=lm.y_train).get().shape == (16,)
        errors.append(lm.error())
    assert errors[:3] == pytest.approx(errors[3:], rel=1e-4)

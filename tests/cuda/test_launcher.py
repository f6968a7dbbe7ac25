"""The device ``gpu`` over a driver without a card: what it asks for, in which order, and that results are right all the same."""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda import test_programs
from tests.cuda.on_device import check_program
from tests.cuda.stub import Card, made
from tests.examples.seeds import load
from tests.fuzz import paths
from tests.fuzz.families import grown
from tests.fuzz.levels import COMPILED, tier
from weft import devices
from weft.devices import get_device, names
from weft.devices.cache import Cache
from weft.devices.cuda import adapter, cards
from weft.devices.cuda import device as card_device
from weft.devices.cuda.device import CardDevice
from weft.devices.cuda.measure import PRODUCTS, measure
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import FLOAT32
from weft.errors import DeviceError
from weft.graph.node import Graph
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf
from weft.interop import cuda_exchange
from weft.placement import all_figures  # loaded before names are patched
from weft.placement import device_figures as machines
from weft.placement.device_figures import machine
from weft.process.bounded_cache import BoundedCache
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import calls
from weft.transforms import settings as transforms_device

pytest.importorskip("triton")
LOADED = (cuda_exchange, all_figures, transforms_device)  # before names are patched


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    """The name "gpu" is a device over the stub."""
    device, driver = made()
    with standing(device, monkeypatch):
        yield device, driver


class standing:  # noqa: N801  used as a statement
    """While it lasts, these devices are there."""

    def __init__(self, device: CardDevice, patch: pytest.MonkeyPatch, *more: CardDevice) -> None:
        self.devices, self.patch = {d.name: d for d in (device, *more)}, patch

    def __enter__(self) -> None:
        original = names.why_not
        self.patch.setattr(card_device, "open_device", lambda name, number: self.devices[name])
        for module in [m for m in sys.modules.values() if getattr(m, "why_not", None) is original]:
            self.patch.setattr(module, "why_not", lambda n: None if names.canonical_name(n) in self.devices else original(n))
        self._forget()

    def __exit__(self, *error: Any) -> None:
        wf.set_device("cpu")
        self._forget()

    def _forget(self) -> None:
        """Programs are known by the name of their device."""
        get_device.cache_clear()
        execute.PROGRAMS = BoundedCache(64e6)


# ---- programs


@pytest.mark.parametrize(("test", "args"), [
    (test_programs.test_a_convolutional_net_learns_as_on_the_cpu, (wf.optim.Adam,)),
    (test_programs.test_a_net_in_16_bits_learns_as_on_the_cpu, ()),
    (test_programs.test_fit, ()),
    (test_programs.test_a_recurrent_net, ()),
    *[(test_programs.test_loops, (length, reverse)) for length, reverse in ((0, False), (1, True), (4, False), (4, True))],
])
def test_programs_are_right(card: Card, test: Callable[..., None], args: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_programs, "NAME", "gpu")
    test(*args)
    assert card[1].log.count("launch") + card[1].log.count("replay") > 0


def test_eval_waits_where_arrays_lie(card: Card) -> None:
    device, driver = card
    x = wf.ones((100, 100))
    with wf.device("gpu"):
        y = wf.jit(lambda x: x * 2 + 1)(x)
    waits = driver.waits
    wf.eval(wf.ones(5) + 1)
    assert driver.waits == waits
    wf.eval(y)  # though programs run on the CPU now
    assert driver.waits == waits + 1
    wf.eval([wf.ones(3), {"y": y, "z": y}])
    assert driver.waits == waits + 2


def test_one_text_at_several_extents(card: Card) -> None:
    """Each program starts its own grids, though they share their code."""
    device, driver = card
    f = wf.jit(lambda x: wf.tanh(x * 0.5) + x.sum(axis=1, keepdims=True))
    for rows in (300, 451, 999):
        x = np.random.default_rng().normal(size=(rows, 37)).astype(np.float32)
        first = len(driver.launched)
        with wf.device("gpu"):
            out = f(wf.array(x)).numpy()
            program = build(f.trace(wf.array(x)).graph, device.target)
        np.testing.assert_allclose(out, np.tanh(x * 0.5) + x.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-5)
        own = [launch.grid for call in calls(program) for launch in device.print_kernel(call.kernel).launches]
        assert [grid for _, grid, _ in driver.launched[first:]] == own
    assert len({launch.text for launch, _, _ in driver.launched}) < len({grid for _, grid, _ in driver.launched})


def test_the_line_of_the_book(card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``config.GPU = True``: the same vectors as on the CPU."""
    cbow = load("cbow")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["you say goodbye and i say hello ."] * 40))
    given = ["--text", str(text), "--epochs", "1", "--batch", "20", "--limit", "3", "--save", str(tmp_path / "vectors")]
    want = cbow.main(given).into.weight.numpy()
    before = card[0].launches
    monkeypatch.setattr(cbow.config, "GPU", True)
    found = cbow.main(given).into.weight
    assert card[0].launches > before and found.device == "gpu"
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-6)


def test_writes_sorts_scatters_and_wrong_indices(card: Card) -> None:
    with wf.device("gpu"):
        test_programs.test_writes_sorts_and_wrong_indices(card[0])
        for dtype in ("float32", "uint64"):
            test_programs.test_the_last_of_several_writes_stays_and_sums_are_in_order(card[0], dtype)
        test_programs.test_state_is_updated_in_its_memory(card[0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("family", ["expression", "derivative", "ways"])
def test_kernels_of_random_programs(family: str) -> None:
    device, _ = made()
    ways = [paths.program(*case, seed=0) for k, case in enumerate(paths.cases()) if k % 60 == 7]
    programs = ways if family == "ways" else [grown(seed, family) for seed in range(900, 912)]
    with tier(*COMPILED):
        assert sum(check_program(device, program) for program in programs) > len(programs) // 2
    assert device.memories.bytes_in_use == 0


def test_arrays_change_devices(card: Card) -> None:
    x = wf.array(np.arange(6, dtype=np.float32))
    f = wf.jit(lambda x: (x * 2).sum())
    with wf.device("gpu"):
        there = wf.array(np.arange(6, dtype=np.float32))
        assert float(f(x)) == float(f(there)) == 30.0 == float((x + there).sum()) and x.device == "gpu"
        assert wf.zeros(3, device="cpu").device == "cpu"
    assert float(f(there)) == 30.0 and there.device == "cpu" and wf.ones(3, device="gpu").device == "gpu"
    assert wf.arange(3).to("cuda").device == "gpu" and float(there[2]) == 2.0
    with wf.device("gpu-sim"):
        moved = wf.ones(4, device="gpu") * 2
        assert moved.tolist() == [2.0] * 4 and moved.device == "gpu-sim"


def test_two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, one), (second, two) = made(), made(name="gpu:1")
    f = wf.jit(lambda x, y: (x * y).sum())
    with standing(first, monkeypatch, second):
        x = wf.array(np.arange(5, dtype=np.float32), device="gpu:0")
        y = wf.array(np.arange(5, dtype=np.float32), device="gpu:1")
        assert (x.device, y.device) == ("gpu", "gpu:1") and y.to("cuda:1") is y and x.to("cuda:0") is x is x.to_device("gpu:0")
        with wf.device("gpu:1"):
            assert float(f(x, y)) == 30.0 and x.device == "gpu:1" and "launch" in two.log and "launch" not in one.log
        with wf.device("gpu:0"):
            assert float(f(x, y)) == 30.0 and x.device == y.device == "gpu" and "launch" in one.log
        wf.set_device("gpu:1")
        assert wf.ones(3).device == "gpu:1" and float((x + y).sum()) == 20.0


# ---- order and time


def test_a_run_waits_for_nobody_and_a_look_does(card: Card) -> None:
    _, driver = card
    f = wf.jit(lambda x: wf.tanh(x @ x).sum(axis=1))
    with wf.device("gpu"):
        x = wf.array(np.full((5, 5), 0.1, np.float32))
        waits = driver.waits
        for _ in range(5):
            out = f(x)
        assert driver.waits == waits and "launch" not in driver.log and len(driver.asked) > 5
        del out
        np.testing.assert_allclose(f(x).numpy(), np.tanh(np.full((5, 5), 0.05)).sum(1), rtol=1e-5)
        assert driver.waits == waits + 1 and not driver.asked
        y = f(x)
        wf.eval(y)
        assert not driver.asked


def test_threads_take_turns(card: Card) -> None:
    f = wf.jit(lambda x, s: (wf.sin(x) * s).sum())
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        with wf.device("gpu"):
            for _ in range(6):
                x, s = rng.normal(size=40).astype(np.float32), float(rng.normal())
                found = float(f(wf.array(x), s))
                if abs(found - (np.sin(x, dtype=np.float64) * s).sum()) > 1e-4:
                    wrong.append((seed, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


# ---- wrong indices


def test_a_run_that_checks_indices_is_looked_at_with_its_result(card: Card) -> None:
    """Two checks, one behind the other, an update in place, and a loop: the wrong index is told, and nothing has changed."""
    device, driver = card
    state = wf.array(np.zeros(4, np.float32))

    @wf.jit
    def step(table: wf.Array, first: wf.Array, second: wf.Array) -> wf.Array:
        chosen = table[first]
        more = wf.sin(chosen @ chosen.T)[second]
        total, each = wf.scan(lambda c, i: (c + more[0, i], chosen[i].sum()), wf.array(0.0), second)
        state[...] = state + chosen.sum(axis=0)
        return total + each.sum()

    table = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    good, small = np.array([0, 5, 2]), np.array([1, 2, 0])
    want = float(step(wf.array(table), wf.array(good), wf.array(small)))
    state[...] = 0
    with wf.device("gpu"):
        arrays = [wf.array(x) for x in (table, good, small)]
        for turn in range(2):
            looks = driver.log.count("download")
            out = step(*arrays)
            assert driver.log.count("download") == looks
            assert float(out) == pytest.approx(want, rel=1e-4)
            before = state.numpy()
            np.testing.assert_allclose(before, (turn + 1) * table[good].sum(axis=0), rtol=1e-5)
            for wrong, told in (((np.array([0, 6, 2]), small), "index 6 .* axis 0 with size 6"),
                                ((good, np.array([1, 3, 0])), "index 3 .* with size 3")):
                with pytest.raises(IndexError, match=told + r".*test_launcher"):
                    float(step(arrays[0], *map(wf.array, wrong)))
                np.testing.assert_array_equal(state.numpy(), before)
        for _ in range(7):
            out = step(*arrays)
        assert device.replays > 0 and float(out) == pytest.approx(want, rel=1e-4)
        np.testing.assert_allclose(state.numpy(), 9 * table[good].sum(axis=0), rtol=1e-5)
        arrays[1][...] = wf.array([0, 1, 77])
        with pytest.raises(IndexError, match="index 77"):
            float(step(*arrays))


# ---- graphs


def test_what_runs_again_in_the_same_memory_is_replayed(card: Card) -> None:
    device, driver = card
    a, w = wf.zeros(50), wf.array(np.eye(50, dtype=np.float32) * 2)

    @wf.jit
    def step(lr: float) -> None:
        a[...] = (w @ (a + 1)).sum() * 0 + w @ (a + lr)

    want, state = np.zeros(50), []
    with wf.device("gpu"):
        for lr in [0.5] * 9 + [0.25, 0.5, -0.0, 0.0, 0.5]:
            step(lr)
            want = 2 * (want + lr)
            state.append(device.replays)
        np.testing.assert_allclose(a.numpy(), want, rtol=1e-5)
    assert state[8] >= 3 and state[9] == state[8] and "replay" in driver.log  # two pieces of memory take turns
    del step
    execute.PROGRAMS = BoundedCache(64e6)
    gc.collect()
    with wf.device("gpu"):
        assert wf.ones(3).tolist() == [1.0] * 3 and driver.dropped == 0  # they may still be running
        assert wf.ones(3).tolist() == [1.0] * 3 and driver.dropped > 0


def test_zeros_with_signs_are_different_numbers(card: Card) -> None:
    f = wf.jit(lambda x, s: wf.copysign(x @ x, s * wf.ones(())))
    with wf.device("gpu"):
        x = wf.ones((4, 4))
        for _ in range(5):
            assert float(f(x, 0.0)[0, 0]) == 4.0
            assert float(f(x, -0.0)[0, 0]) == -4.0


def test_an_error_while_recording_ends_the_recording(card: Card) -> None:
    device, driver = card
    x = input_leaf((8, 8), FLOAT32)
    run = device.compile(build(Graph([x], [product(product(x))]), device.target))
    given = device.upload(np.eye(8, dtype=np.float32))
    launch, count = driver.launch, [0]

    def failing(*args: Any) -> None:
        count[0] += driver.graph is not None
        if driver.graph is not None and count[0] == 1:
            raise KeyboardInterrupt
        launch(*args)

    driver.launch = failing  # type: ignore[method-assign]
    interrupted = 0
    for _ in range(6):
        try:
            out = run([given])
            del out
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted == 1 and driver.graph is None and device.replays > 0
    np.testing.assert_array_equal(device.download(run([given])[0], (8, 8), FLOAT32), np.eye(8))


def product(x: Any) -> Any:
    return bind(TABLE["dot_general"], x, x, contract=((1,), (0,)), batch=((), ()))


# ---- memory, code, names, figures


def test_a_program_without_memory_names_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    device, _ = made(limit=1 << 20)
    with standing(device, monkeypatch), wf.device("gpu"):
        x = wf.array(np.ones(1000, np.float32))
        large = x[:500] + x[:200, None]
        wf.eval(large)
        arrays = r"float32 \(200, 500\), float32 \(1000,\)"
        said = rf"test_launcher.py:\d+.*: a stub of a card has no .*, among them {arrays}, other .*the largest result here"
        with pytest.raises(MemoryError, match=said):
            wf.eval(x[:, None] * x + 1)
        assert float(large[0, 0]) == 2.0
        assert float((x * 2).sum()) == 2000.0



def test_code_is_kept_on_disk(tmp_path: Any) -> None:
    tmp_path.chmod(0o700)
    x = input_leaf((300,), FLOAT32)
    program = build(Graph([x], [bind(TABLE["exp"], x)]), GPU)
    first, driver = made(cache=Cache(tmp_path))
    first.compile(program)
    assert (first.codes.compiles, first.codes.hits) == (1, 0)
    second = CardDevice(driver, cache=Cache(tmp_path), compiler=driver.compiler)
    out = second.compile(program)([second.upload(np.zeros(300, np.float32))])
    assert (second.codes.compiles, second.codes.hits) == (0, 1)
    np.testing.assert_array_equal(second.download(out[0], (300,), FLOAT32), np.ones(300))
    (file,) = tmp_path.glob("*.weft")
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"?")
    third = CardDevice(driver, cache=Cache(tmp_path), compiler=driver.compiler)
    third.compile(program)
    assert (third.codes.compiles, third.codes.hits) == (1, 0)


def test_code_that_takes_other_parameters_is_refused() -> None:
    device, driver = made()
    x = input_leaf((300,), FLOAT32)
    program = build(Graph([x], [bind(TABLE["exp"], x)]), device.target)
    right = driver.compiler

    def wrong(*args: Any) -> Any:
        code = right(*args)
        return adapter.Code(*[getattr(code, n) for n in ("binary", "entry", "warps", "shared", "scratch")],
                            code.assembly.replace(".param .u32", ".param .u64"))

    with pytest.raises(RuntimeError, match="passes parameters of"):
        CardDevice(driver, compiler=wrong).compile(program)


def test_what_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(cards, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=absent)))
    assert "cuda-bindings is not installed" in str(cards.no_bindings())
    for error, said in (
        (ImportError("no GLIBC"), r"cuda-bindings is installed and cannot be imported \(ImportError: no GLIBC\): install"),
        (RuntimeError("Failed to get cuX"), r"NVIDIA's driver is older than cuda-bindings needs \(Failed to get cuX\): update"),
    ):
        def broken(name: str, error: Exception = error) -> Any:
            raise error

        util = SimpleNamespace(find_spec=lambda name: name)
        monkeypatch.setattr(cards, "importlib", SimpleNamespace(util=util, import_module=broken))
        assert re.search(said, str(cards.no_bindings()))
    monkeypatch.undo()
    assert "cuda.bindings" not in sys.modules
    monkeypatch.setattr(names, "why_not", lambda name: None)
    with pytest.raises(DeviceError, match="device 'gpu': NVIDIA's driver refuses to work .*: see whether nvidia-smi works"):
        card_device.open_device("gpu", 0)


def test_auto_does_without_a_card_that_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str = "cpu") -> Any:
        if name == "gpu":
            raise DeviceError("device 'gpu': it is another's alone")
        return get_device(name)

    monkeypatch.setattr(names, "why_not", lambda name: None)
    monkeypatch.setattr(devices, "get_device", get)
    monkeypatch.setattr(all_figures, "_FIGURES", {})
    machines.can_open.cache_clear()
    message = "'auto' skips a device that cannot be opened: device 'gpu': it is another's alone"
    with pytest.warns(RuntimeWarning, match=message), wf.device("auto"):
        assert (wf.ones(3) + 1).device == "cpu"
        assert all_figures.figures() is None
    machines.can_open.cache_clear()


def test_figures_of_a_card(card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    device, _ = card
    device._cache = Cache(tmp_path)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(machines, "_MACHINES", {})
    monkeypatch.setattr(all_figures, "_FIGURES", {})
    monkeypatch.setattr(CardDevice, "measure", lambda self: measure(self, (1 << 10, 1 << 12), (4, 8), 2))
    found = machine("gpu")
    assert found.link is not None and min(found.link) > 0 and [name for name, _ in found.products] == list(PRODUCTS)
    assert found.launch > 0 and found.flops > 0 and len(found.bandwidth) == 2
    monkeypatch.setattr(machines, "_MACHINES", {})
    monkeypatch.setattr(machines, "_OLD", -1.0)  # however long ago that was
    monkeypatch.setattr(CardDevice, "measure", lambda self: pytest.fail("measured again"))
    assert machine("gpu") == found
    path = tmp_path / "new.json"
    monkeypatch.setenv("WEFT_PROFILE", str(path))  # which is made, with all that is here
    with wf.device("cpu"):
        assert machine("cpu").link is None and machine("gpu") == found
    known = all_figures.figures()
    assert known is not None and list(known.machines) == ["cpu", "gpu"] == list(json.loads(path.read_text())["devices"])
    monkeypatch.delenv("WEFT_PROFILE")
    with wf.device("auto"):
        assert float((wf.ones(10) + 1).sum()) == 20.0


def test_auto_between_the_cpu_and_a_card(card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    _, driver = card
    slow = {"name": "slow", "threads": 1, "flops": 1e6, "bandwidth": [[1 << 30, 1e7]]}
    quick = {"name": "quick", "threads": 1, "flops": 1e13, "bandwidth": [[1 << 30, 1e12]], "launch": 1e-5, "link": [1e-5, 1e10]}
    path = tmp_path / "machines.json"
    path.write_text(json.dumps({"devices": {"cpu": slow, "gpu": quick}}))
    monkeypatch.setenv("WEFT_PROFILE", str(path))
    weight, state = wf.array(np.eye(60, dtype=np.float32)), wf.zeros(60)

    @wf.jit
    def step(x: wf.Array) -> wf.Array:
        state[...] = state + (x @ weight).sum(axis=0)
        return (x * 2).sum()

    x = np.ones((50, 60), np.float32)
    with wf.device("auto"):
        for _ in range(5):
            assert float(step(wf.array(x))) == 6000.0
        assert weight.device == state.device == "gpu" and "launch" in driver.log
        small = wf.ones(3) + 1
        assert small.device == "cpu" and small.tolist() == [2.0] * 3
    assert float(state.sum()) == 5 * 50 * 60 and (state * 1).device == "cpu"

"""Tiles of products that a clock may choose: which there are, that their bits are equal, and what becomes of measurements."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from benchmarks.gpu.setting import Setting
from tests.cuda.stub import Card, StubDriver, made
from tests.cuda.test_launcher import standing
from weft.devices import get_device
from weft.devices.cache import Cache
from weft.devices.cuda import adapter, tile_choices, tuning
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.compilers import Task
from weft.devices.cuda.device import CardDevice
from weft.devices.cuda.emission import CompileError
from weft.devices.cuda.generate import generate
from weft.devices.cuda.product import inner_k_axes, match_operands, tile_of
from weft.dtypes.formats import BFLOAT16, EVERY, FLOAT32, Format
from weft.graph.node import Graph, Node
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf
from weft.kernel.ir import size_of
from weft.kernel.stages import split
from weft.kernel.target import Target
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are tried, too, and soon."""
    monkeypatch.setattr(tile_choices, "MIN_MULTIPLICATIONS", 0)
    monkeypatch.setattr(tuning, "AFTER", 2)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    device, driver = made()
    with standing(device, monkeypatch):
        yield device, driver


def times(a: Node, b: Node) -> Node:
    return bind(TABLE["dot_general"], a, b, contract=((1,), (0,)), batch=((), ()))


def launches(*outputs: Node, inputs: list[Node]) -> list[Launch]:
    program = build(Graph(inputs, list(outputs)), Target("gpu"))
    return [launch for call in calls(program) for launch in generate(call.kernel).launches]


def product(n: int, form: Format, m: int | None = None) -> Launch:
    a, b = input_leaf((m or n, n), form), input_leaf((n, n), form)
    (launch,) = launches(times(a, b), inputs=[a, b])
    return launch


# ---- which there are


def test_products_have_others_and_sums_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(product(256, FLOAT32).alternatives) >= 4 and len(product(2048, BFLOAT16).alternatives) >= 5
    assert len(product(40, EVERY["float16"]).alternatives) >= 1
    for form in ("float64", "int32", "uint8"):
        assert product(256, EVERY[form]).others is None
    for n in (10, 3000, 100_000):
        x = input_leaf((7, n), FLOAT32)
        for name in ("reduce_sum", "reduce_max"):
            assert all(launch.others is None for launch in launches(bind(TABLE[name], x, axes=(1,), keepdims=False), inputs=[x]))
        v = input_leaf((n, 1), FLOAT32)
        assert all(launch.others is None for launch in launches(times(x, v), inputs=[x, v]))  # a product with a vector is a sum
    monkeypatch.setattr(tile_choices, "MIN_MULTIPLICATIONS", 1 << 24)
    assert product(128, FLOAT32).others is None and product(512, FLOAT32).others is not None
    first = product(512, FLOAT32)
    assert first == product(512, FLOAT32) and first.stopping().alternatives[0].stops


def convolution(shape: tuple[int, ...], weight: tuple[int, ...]) -> tuple[Node, list[Node]]:
    x, w = input_leaf(shape, FLOAT32), input_leaf(weight, FLOAT32)
    ones: dict[str, Any] = {name: (1, 1) for name in ("stride", "lhs_dilation", "rhs_dilation")}
    dims = (tuple(range(4)),) * 3
    return bind(TABLE["conv_general"], x, w, padding=((1, 1), (1, 1)), groups=1, dims=dims, **ones), [x, w]


@pytest.mark.parametrize("channels", [3, 7, 8, 12, 15, 16, 17, 40])
def test_tiles_that_would_sum_in_another_order_are_left_out(channels: int) -> None:
    """Which axes of k a tile goes along depends on its length: with 12 channels one of 16 goes along these, 32 along all."""
    out, inputs = convolution((1, channels, 9, 9), (64, channels, 3, 3))
    (call,) = calls(build(Graph(inputs, [out]), Target("gpu")))
    found = [s for s in map(match_operands, split(call.kernel)[0]) if s is not None]
    for s in found:
        first = tile_of(size_of(s.m), size_of(s.n), size_of(s.k), s.form, s.precision)
        tiles = tile_choices.alternatives(s)
        assert first not in tiles and len({inner_k_axes(s, t.k) for t in (first, *tiles)}) == 1
        assert {t.k for t in tiles} <= ({16, 32} if channels != 12 and channels != 15 and channels != 8 else {first.k})
    assert len(found) == 1


@pytest.mark.parametrize("what", ["product", "batches", "epilogue", "narrow", "convolution", "few channels", "ragged"])
def test_all_of_them_compute_the_same(what: str) -> None:
    rng = np.random.default_rng(0)
    form = BFLOAT16 if what == "narrow" else FLOAT32
    if what == "batches":
        a, b = input_leaf((3, 70, 40), form), input_leaf((3, 40, 90), form)
        out, inputs = bind(TABLE["dot_general"], a, b, contract=((2,), (1,)), batch=((0,), (0,))), [a, b]
    elif what in ("convolution", "few channels"):
        out, inputs = convolution((1, 40 if what == "convolution" else 3, 7, 7), (40, 40 if what == "convolution" else 3, 3, 3))
    else:
        n = 77 if what == "ragged" else 64
        a, b = input_leaf((n, n + 5), form), input_leaf((n + 5, n), form)
        out, inputs = times(a, b), [a, b]
        if what == "epilogue":
            out = bind(TABLE["tanh"], bind(TABLE["add"], out, out))
    (call,) = calls(build(Graph(inputs, [out]), Target("gpu")))
    printed = generate(call.kernel)
    (launch,) = printed.launches
    given = [np.ascontiguousarray(rng.normal(size=b.shape).astype(np.float32).astype(b.dtype.numpy)) for b in call.kernel.inputs]
    found = []
    for each in (launch, *launch.alternatives[::2]):
        result = np.full(out.shape, np.nan, out.dtype.numpy)
        memory = {("arg", b.id): x for b, x in zip((*call.kernel.inputs, *call.kernel.outputs), (*given, result), strict=True)}
        lies = [(memory[a.value].ctypes.data, memory[a.value].nbytes) if a.kind == "buffer" else None for a in each.arguments]
        adapter.interpret_launch(each, lies, [a.value if a.kind == "number" else None for a in each.arguments])
        found.append(result.astype(np.float64))
    assert len(found) > 1
    for result in found[1:]:  # the interpreter adds up as NumPy does, so bits may differ here
        np.testing.assert_allclose(result, found[0], rtol=1e-2 if form is BFLOAT16 else 1e-5, atol=1e-4)


def without_added_zeros(text: str) -> str:
    """Return PTX without the additions of 0.0 behind a loop over k; capability 10.0 adds two floats at once."""
    text = re.sub(r"add\.rn\.f32\s+%\w+, %\w+, 0f00000000;", "", text)
    zeros = re.findall(r"mov\.[bf]32\s+(%\w+), (?:0f00000000|0);", text)
    pairs = [pair for pair, low, high in re.findall(r"mov\.b64\s+(%\w+), \{(%\w+), (%\w+)\};", text) if {low, high} <= {*zeros}]
    return re.sub(rf"add\.rn\.f32x2\s+%\w+, %\w+, (?:{'|'.join(map(re.escape, pairs)) or 'none'});", "", text)


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_compiled_code_adds_up_in_the_same_order(capability: int) -> None:
    """float32: chains of fma in a thread, nothing is exchanged and added. Tensor cores: one instruction, with as much of k."""
    for form, n, m in ((FLOAT32, 256, 256), (BFLOAT16, 1024, 1024), (BFLOAT16, 256, 32)):
        launch = product(n, form, m)
        others = launch.alternatives[:: 2 if capability == 90 else 4]
        kinds = set()
        for each in (launch, *others):
            text = without_added_zeros(adapter.compile_launch(each, capability).assembly)
            assert not re.search(r"\badd(\.rn|\.ftz)*\.f32|shfl\.sync\.(bfly|down)|\bred\.", text)
            assert form is BFLOAT16 or len(re.findall(r"\bfma\.rn[.\w]*f32", text)) >= 16
            found = set(re.findall(r"\b((?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)[.\w:]*)", text))
            kinds.add(frozenset([re.sub(r"m\d+n\d+", "", name) for name in found]))
            assert bool(found) == (form is BFLOAT16)
        assert len(kinds) == 1, kinds


# ---- measurements


def quick(launch: Launch) -> tuple[int, ...]:
    """What tells tiles from one another here."""
    tile = re.search(r"sum\d+ = tl\.full\(\[(\d+), (\d+)\]", launch.text)
    return (*map(int, tile.groups()), launch.warps, launch.stages) if tile else ()


def trained(device: CardDevice, driver: StubDriver, turns: int) -> list[tuple[int, ...]]:
    """A product, run so often, each time looked at; the tiles that were taken."""
    a, b = input_leaf((128, 24), FLOAT32), input_leaf((24, 64), FLOAT32)
    run = device.compile(build(Graph([a, b], [times(a, b)]), device.target))
    rng = np.random.default_rng(0)
    taken = []
    for _ in range(turns):
        x, y = (rng.integers(-5, 5, shape).astype(np.float32) for shape in (a.shape, b.shape))
        (out,) = run([device.upload(x), device.upload(y)])
        np.testing.assert_array_equal(device.download(out, (128, 64), FLOAT32), x @ y)
        taken.append(quick(driver.launched[-1][0]))
    return taken


def tried() -> Launch:
    """The launch of that product."""
    a, b = input_leaf((128, 24), FLOAT32), input_leaf((24, 64), FLOAT32)
    (launch,) = launches(times(a, b), inputs=[a, b])
    return launch


def choice_of(driver: StubDriver, best: tuple[int, ...] | None) -> None:
    driver.times = lambda launch: 1e-6 if quick(launch) == best else 1e-5


def test_what_takes_least_stays_and_is_remembered(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    device, driver = made(cache=Cache(tmp_path))
    choice_of(driver, None)
    first = trained(device, driver, 1)[0]
    launch = tried()
    others = [quick(other) for other in launch.alternatives]
    assert len(set(others)) == len(others) >= 3 and first == quick(launch)
    best = others[2]
    choice_of(driver, best)
    taken = trained(device, driver, 24)
    assert set(taken[:1]) == {first} and set(taken[-8:]) == {best} and set(taken) == {first, *others}
    assert max(map(taken.count, [o for o in others if o != best])) == tuning.ROUNDS
    assert set(trained(device, driver, 3)) == {best}  # another program of the same text
    again = StubDriver(driver.compiler, driver.total)
    other = CardDevice(again, cache=Cache(tmp_path), compiler=driver.compiler)
    choice_of(again, first)  # who measured anew would come to another end
    assert set(trained(other, again, 5)) == {best} and other.codes.compiles == 0
    unlike = StubDriver(driver.compiler, driver.total)
    unlike.name = "another card"
    choice_of(unlike, first)
    assert set(trained(CardDevice(unlike, cache=Cache(tmp_path), compiler=driver.compiler), unlike, 24)[-5:]) == {first}


def test_another_process_takes_it_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    code = f"""
from pathlib import Path
import sys
from tests.cuda import test_tiles as t
t.tile_choices.MIN_MULTIPLICATIONS, t.tuning.AFTER = 0, 2
device, driver = t.made(cache=t.Cache(Path({str(tmp_path)!r})))
device.codes._cache = None  # the stub's code is of its process
t.choice_of(driver, None if sys.argv[1] == "none" else tuple(map(int, sys.argv[1].split(","))))
taken = t.trained(device, driver, int(sys.argv[2]))
print(taken[0], taken[-1], device.codes.compiles)
"""
    launch = tried()
    best = quick(launch.alternatives[1])
    said = []
    for asked in ((",".join(map(str, best)), "22"), ("none", "2")):
        done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    count = 1 + len(launch.alternatives)
    assert said == [f"{quick(launch)} {best} {count}", f"{best} {best} 1"]


def test_what_is_no_faster_changes_nothing(card: Card, tmp_path: Path) -> None:
    device, driver = card
    taken = trained(device, driver, 24)
    assert len(set(taken)) > 3 and set(taken[-10:]) == {taken[0]}
    driver.times = lambda launch: 1e-9
    assert set(trained(device, driver, 10)) == {taken[0]}


def test_tiles_that_the_card_does_not_take_are_left_out(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    device, driver = card
    launch = tried()
    refused, broken, best = (quick(other) for other in launch.alternatives[:3])
    driver.refuses = lambda launch: quick(launch) == refused
    right = device.codes._compiler

    def compiler(launch: Launch, *about: Any) -> Any:
        if quick(launch) == broken:
            raise CompileError("no")
        return right(launch, *about)

    monkeypatch.setattr(device.codes, "_compiler", compiler)
    driver.times = lambda launch: {refused: 1e-9, broken: 1e-9, best: 1e-6}.get(quick(launch), 1e-5)
    taken = trained(device, driver, 24)
    assert set(taken[-10:]) == {best} and not {refused, broken} & set(taken)


def test_each_run_runs_once_and_graphs_come_when_all_is_known(card: Card) -> None:
    """An update in place, behind a product: who measured by running again would do it twice."""
    device, driver = card
    driver.times = lambda launch: 1e-6 if launch.warps == 8 else 1e-5
    state, x = wf.zeros((64, 64)), wf.array(np.eye(64, dtype=np.float32))

    @wf.jit
    def step() -> wf.Array:
        state[...] = state + x @ x
        return wf.tanh(state.sum(axis=0) @ x)

    with wf.device("gpu"):
        for turn in range(1, 26):
            step()
            np.testing.assert_array_equal(state.numpy(), np.eye(64) * turn)
            if turn == 8:
                assert not device.replays
    assert device.replays > 0 and {quick(launch)[2] for launch, *_ in driver.launched[-6:] if quick(launch)} == {8}


def test_the_program_goes_on_while_others_are_compiled(card: Card) -> None:
    device, driver = card

    class Later:
        """Others' processes, which take their time."""

        tasks: list[Task] = []

        def submit(self, jobs: Any) -> list[Task]:
            self.tasks += [Task(job) for job in jobs]
            return self.tasks

        def is_abandoned(self, tasks: Any) -> bool:
            return all(task.is_done for task in tasks)

    device.codes._pool = later = Later()  # type: ignore[assignment]
    first = trained(device, driver, 12)
    assert len(set(first)) == 1 and len(later.tasks) >= 3
    compiles = device.codes.compiles
    launch = tried()
    for task, other in zip(later.tasks, launch.alternatives, strict=True):
        code = driver.compiler(other, 90, 16)
        task.answer = (code.binary, code.entry, code.warps, code.shared, code.scratch, code.assembly)
    taken = trained(device, driver, 24)
    assert set(taken) == {first[0], *map(quick, launch.alternatives)} and device.codes.compiles == compiles + len(later.tasks)


def test_a_benchmark_waits_until_the_tiles_are_chosen(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed runs in the tiles that stay, and a program that cannot settle in time is told from the others."""
    device, driver = card
    launch = tried()
    best = quick(launch.alternatives[1])
    choice_of(driver, best)
    a, b = input_leaf((128, 24), FLOAT32), input_leaf((24, 64), FLOAT32)
    run = device.compile(build(Graph([a, b], [times(a, b)]), device.target))
    given = [device.upload(np.ones(x.shape, np.float32)) for x in (a, b)]
    assert not device.choose_variants(lambda: run(list(given)), 0.0)
    assert device.choose_variants(lambda: run(list(given)), 60.0)
    device.synchronise()
    settled = len(driver.launched)
    monkeypatch.setattr(tuning, "AFTER", 10**6)  # nothing is ever tried
    late = device.compile(build(Graph([a, b], [bind(TABLE["exp"], times(a, b))]), device.target))
    for _ in range(5):
        run(list(given))
    device.synchronise()
    assert {quick(launch) for launch, *_ in driver.launched[settled:]} == {best}
    assert not device.choose_variants(lambda: late(list(given)), 0.01)
    x, y = wf.array(np.ones((128, 24), np.float32)), wf.array(np.ones((24, 64), np.float32))
    f = wf.jit(lambda x, y: x @ y)
    with wf.device("gpu"):
        row = Setting("gpu", quick=True).timed({"weft": lambda: f(x, y), "cpu": lambda: x.shape})
    assert row["weft"]["settled"] is True and "settled" not in row["cpu"]


def test_no_clock_decides_in_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_choices, "_others", lambda *given: pytest.fail("others were printed"))
    x = np.eye(32, dtype=np.float32)
    with wf.device("gpu-sim"):
        f = wf.jit(lambda x: x @ x)
        a = wf.array(x)
        for _ in range(6):
            np.testing.assert_array_equal(f(a).numpy(), x)
    assert not hasattr(get_device("gpu-sim"), "tuner")

"""Products whose k is divided among programs: when they are, that they are right, and that neither tiles nor runs change bits."""

from __future__ import annotations

import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.on_device import check_kernel
from tests.cuda.resources import usage
from tests.cuda.samples import derivatives, values
from tests.cuda.stub import made
from tests.cuda.test_launcher import standing
from tests.cuda.test_primitives import check
from tests.fuzz.levels import perform
from tests.graph.cnns import Net
from weft.devices.cuda import adapter, product, split_work, tile_choices, tuning
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.product import ProductOperands, default_tile, inner_k_axes, match_operands, tile_count, unit_count
from weft.devices.cuda.simulator import SimulatedDevice
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import EVERY
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind
from weft.graph.primitives.table import input_leaf
from weft.kernel.ir import Kernel, size_of
from weft.kernel.stages import Part, split
from weft.process.bounded_cache import BoundedCache
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import calls

triton = pytest.importorskip("triton")

FORMS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int32")
WIDER = {"int8": "int32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}


def kernels(f: Any, *arguments: Any) -> list[Kernel]:
    return [call.kernel for call in calls(build(wf.jit(f).trace(*arguments).graph, GPU))]


def launches(f: Any, *arguments: Any) -> list[Launch]:
    return [launch for kernel in kernels(f, *arguments) for launch in generate(kernel).launches]


def is_divided(found: list[Launch]) -> bool:
    return any(launch.grid[1] > 1 for launch in found)


def multiplied(f: Any, *arguments: Any) -> tuple[Part, ProductOperands]:
    """The only product of a function."""
    parts = [part for kernel in kernels(f, *arguments) for part in split(kernel)[0]]
    ((part, s),) = [(part, s) for part, s in zip(parts, map(match_operands, parts), strict=True) if s is not None]
    return part, s


def times(x: Any, y: Any) -> Any:
    """A product that adds up in what its format is added up in."""
    wider = WIDER.get(x.dtype.name)
    return wf.matmul(x, y, dtype=wider) if wider else x @ y


def product_of(form: str, m: int, n: int, k: int, batch: int = 1) -> tuple[Part, ProductOperands]:
    """A product as :func:`times` makes it, without arrays."""
    nodes = [input_leaf(shape, EVERY[form]) for shape in ((batch, m, k), (batch, k, n))]
    wide = EVERY[WIDER.get(form, form)]
    x, y = (bind(TABLE["cast"], node, dtype=wide) if form in WIDER else node for node in nodes)
    graph = Graph(nodes, [bind(TABLE["dot_general"], x, y, contract=((2,), (1,)), batch=((0,), (0,)))])
    ((part, s),) = [(part, match_operands(part)) for call in calls(build(graph, GPU)) for part in split(call.kernel)[0]]
    assert s is not None
    return part, s


def count_of(*about: Any) -> int:
    part, s = product_of(*about)
    return split_work.piece_count(s, part.stages[0].reductions[0])


def least(form: str, m: int, n: int, batch: int = 1) -> int:
    """The shortest k that is divided."""
    low, high = 32, 1 << 14
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count_of(form, m, n, middle, batch) else (middle, high)
    return high


# ---- when


@pytest.mark.parametrize("form", ["float32", "float64", "bfloat16", "int8"])
def test_the_rule(form: str) -> None:
    """Where there are too few tiles, and each piece has work that is worth it."""
    seen = set()
    for m, n, k, batch in itertools.product((16, 64, 200, 1024), (24, 300, 576), (500, 3000, 20_000, 300_000), (1, 7)):
        part, s = product_of(form, m, n, k, batch)
        count, tile = split_work.piece_count(s, part.stages[0].reductions[0]), default_tile(s)
        turns, tiles = -(-k // tile.k), tile_count(s, tile)
        seen.add(count)
        if count:
            assert 3 <= count <= 128 and tiles * count <= 264 and turns // count >= 8 and unit_count(s, tile) >= count
            assert k // count * (tile.m + tile.n) * s.a.dtype.bytes >= 7.5 * tile.m * tile.n * 4
        else:
            assert tiles > 88 or turns < 3 * 8 * 2
    assert len(seen) > 8


@pytest.mark.parametrize("form", FORMS)
def test_products_around_the_rule(form: str, rng: np.random.Generator) -> None:
    """A number too few, just enough, more; with batches, and with a bias and what follows it."""
    whole = EVERY[form].kind != "float"
    for batch in (1, 3):
        m, n = (int(x) for x in rng.integers(2, 70 // batch, 2))
        k = least(form, m, n, batch)
        for length, wanted in ((k - 1, False), (k + int(rng.choice([0, 1, 77, 400])), True)):
            x, y = (rng.integers(-9, 9, shape) if whole else rng.standard_normal(shape)
                    for shape in ((batch, m, length), (batch, length, n)))
            x, y = (wf.array(v).astype(form).numpy() for v in (x, y))
            bias = rng.integers(0, 9, n)

            def f(x: Any, y: Any, bias: Any) -> Any:
                found = times(x, y)
                return found, wf.maximum(found + bias.astype(found.dtype), 0).mT

            given = [wf.array(v) for v in (x, y, bias)]
            assert is_divided(launches(f, *given)) == wanted
            with wf.device("gpu-sim"):
                got = [v.numpy() for v in wf.jit(f)(*given)]
            exact = x.astype(np.int64 if whole else np.float64) @ y.astype(np.int64 if whole else np.float64)
            if whole:
                exact = exact.astype(got[0].dtype)
            size = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)) + np.abs(bias) + 1
            eps = 0 if whole else max(float(wf.finfo(got[0].dtype).eps), 2.0**-23 if form != "float64" else 0)
            ends = exact + bias.astype(exact.dtype)
            assert (np.abs(got[0].astype(np.float64) - exact) <= 4 * eps * size).all()
            after = np.swapaxes(np.maximum(ends, 0), 1, 2)
            assert (np.abs(got[1].astype(np.float64) - after) <= 4 * eps * np.swapaxes(size, 1, 2)).all()


# ---- convolutions, and whatever else is multiplied, with pieces that are as short as can be


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_work, "MIN_ITERATIONS", 1)
    monkeypatch.setattr(split_work, "MIN_PIECES", 2)
    monkeypatch.setattr(product, "UNIT", 64)
    monkeypatch.setattr(execute, "PROGRAMS", BoundedCache(64e6))


def drawn(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """A convolution: shapes of images and weights, and the rest."""
    groups = int(rng.choice([1, 1, 1, 2]))
    channels, out = (groups * int(rng.choice([3, 4, 8, 12, 17])) for _ in range(2))
    window = tuple(int(x) for x in rng.choice([1, 2, 3], 2))
    size = tuple(int(x) for x in rng.integers(6, 14, 2))
    about = {name: int(rng.choice([1, 1, 2])) for name in ("stride", "dilation")}
    return (int(rng.integers(2, 5)), channels, *size), (out, channels // groups, *window), {
        **about, "padding": int(rng.integers(0, 2)), "groups": groups,
    }


@pytest.mark.parametrize("form", ["float32", "float64", "bfloat16"])
def test_convolutions_in_all_three_passes(form: str, short: None, rng: np.random.Generator) -> None:
    """The result, and the gradients by images and weights."""
    divisions = 0
    for _ in range(5):
        image, weight, about = drawn(rng)

        def f(x: Any, w: Any, g: Any, about: dict[str, Any] = about) -> Any:
            found, back = wf.vjp(lambda x, w: wf.nn.conv2d(x, w, **about), x, w)
            return found, *back(g)

        def exact(*arrays: np.ndarray, f: Any = f) -> list[np.ndarray]:
            return [v.numpy() for v in f(*[wf.array(v.astype(np.float64)) for v in arrays])]

        shape = wf.nn.conv2d(wf.zeros(image), wf.zeros(weight), **about).shape
        given = [wf.array(rng.standard_normal(s)).astype(form).numpy() for s in (image, weight, shape)]
        divisions += is_divided(launches(f, *map(wf.array, given)))
        with wf.device("gpu-sim"):
            got = [v.numpy() for v in wf.jit(f)(*map(wf.array, given))]
        for a, b, size in zip(got, exact(*given), exact(*map(np.abs, given)), strict=True):
            assert (np.abs(a - b) <= 8 * float(wf.finfo(form).eps) * (size + 1e-3)).all(), (image, weight, about)
    assert divisions >= 2


@pytest.mark.parametrize("name", ["dot_general", "conv_general"])
def test_samples_of_products(name: str, short: None, rng: np.random.Generator) -> None:
    device = SimulatedDevice()  # which has printed nothing yet
    assert check(values(TABLE[name], rng), device)
    check(derivatives(TABLE[name], rng), device)
    counts = [is_divided(list(kernel.launches)) for kernel, _ in device._printed_kernels.newest.values()]
    assert any(counts) or name == "dot_general"  # whose samples are small


@pytest.mark.parametrize("seed", (300, 301, 303))
def test_nets(seed: int, short: None) -> None:
    """Gradients of convolutional nets in 16 bits, each kernel in memory of its own and in place."""
    device = SimulatedDevice()
    graph, given = Net(seed).graph(True)
    perform(build(execute.copy_structure(graph), device.target), given, lambda kernel, *call: check_kernel(device, kernel, *call))


def test_what_later_parts_read(short: None, rng: np.random.Generator) -> None:
    """A product with statistics of its rows and columns, an update in place, checked indices."""
    x, y = rng.standard_normal((40, 900)).astype(np.float32), rng.standard_normal((900, 24)).astype(np.float32)
    at = rng.integers(0, 40, 30)

    def f(x: Any, y: Any, at: Any) -> Any:
        z = x[at] @ y
        return (z - z.mean(axis=0)) / z.std(axis=0), z.sum(), wf.nn.softmax(z)

    given = [wf.array(v) for v in (x, y, at)]
    assert is_divided(launches(f, *given))
    with wf.device("gpu-sim"):
        got = [v.numpy() for v in wf.jit(f)(*given)]
        state = wf.array(np.ones((40, 24), np.float32))

        @wf.jit
        def step() -> None:
            state[...] = state - 0.5 * (given[0] @ given[1])

        step()
        step()
        wrong = wf.array(np.where(at == at[0], 40, at))
        with pytest.raises(IndexError, match="40"):
            wf.eval(f(given[0], given[1], wrong))
        np.testing.assert_allclose(state.numpy(), 1 - x.astype(np.float64) @ y, rtol=1e-4, atol=1e-3)
    z = x[at].astype(np.float64) @ y
    e = np.exp(z - z.max(axis=1, keepdims=True))
    for a, b in zip(got, ((z - z.mean(axis=0)) / z.std(axis=0), z.sum(), e / e.sum(axis=1, keepdims=True)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


# ---- the same bits


def run(found: list[Launch], kernel: Kernel, given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(output, scratch) of a kernel's launches, one after the other, in the interpreter."""
    (scratch,), (output,) = generate(kernel).scratch, kernel.outputs
    result, between = np.zeros(output.shape, output.dtype.numpy), np.full(scratch.shape, np.nan, scratch.dtype.numpy)
    memory = {("arg", b.id): x for b, x in zip((*kernel.inputs, output), (*given, result), strict=True)}
    memory["kernel", scratch.id] = between
    for launch in found:
        lies = [(memory[a.value].ctypes.data, memory[a.value].nbytes) if a.kind == "buffer" else None for a in launch.arguments]
        adapter.interpret_launch(launch, lies, [a.value if a.kind == "number" else None for a in launch.arguments])
    return result, between


@pytest.mark.parametrize("what", ["product", "batches", "narrow", "turned", "convolution", "few channels"])
def test_all_tiles_have_the_same_pieces(what: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each piece finds is the same to the last bit, since all sums here are exact; pieces are added one after the other."""
    monkeypatch.setattr(tile_choices, "MIN_MULTIPLICATIONS", 0)
    form = "bfloat16" if what == "narrow" else "float32"
    if what in ("convolution", "few channels"):
        channels = 12 if what == "convolution" else 3
        graph = wf.jit(wf.grad(lambda w, x, g: (wf.nn.conv2d(x, w, padding=1) * g).sum())).trace(
            wf.zeros((64, channels, 3, 3)), wf.zeros((1, channels, 24, 40)), wf.zeros((1, 64, 24, 40))).graph
    else:
        k = 1600 if what == "narrow" else 800
        a, b = ((2, 70, k), (2, k, 50)) if what == "batches" else ((70, k), (k, 50))
        nodes = [input_leaf(s, EVERY[form]) for s in (a, b)]
        contract = ((2,), (1,)) if what == "batches" else ((1,), (0,))
        out = bind(TABLE["dot_general"], *nodes, contract=contract, batch=((0,), (0,)) if what == "batches" else ((), ()))
        if what == "turned":
            out = bind(TABLE["permute"], out, axes=(1, 0))
        graph = Graph(nodes, [out])
    kernel = next(c.kernel for c in calls(build(graph, GPU)) if is_divided(list(generate(c.kernel).launches)))
    given = [rng.integers(-3, 4, b.shape).astype(b.dtype.numpy) for b in kernel.inputs]
    first, second = generate(kernel).launches
    result, pieces = run([first, second], kernel, given)
    again, same = run([first, second], kernel, given)
    np.testing.assert_array_equal(result, again)
    np.testing.assert_array_equal(pieces, same)
    assert first.alternatives and second.others is None and not np.isnan(pieces).any()
    for other in first.alternatives[-1::-3]:
        np.testing.assert_array_equal(pieces, run([other], kernel, given)[1])
    drawn = rng.standard_normal(pieces.shape).astype(np.float32)  # the second launch alone, on what is not exact
    lies = {a.value: a for a in second.arguments if a.kind == "buffer"}
    assert set(lies) == {("kernel", 0), ("arg", len(kernel.inputs))}
    made = np.zeros(result.shape, result.dtype)
    where = {("kernel", 0): drawn, ("arg", len(kernel.inputs)): made}
    adapter.interpret_launch(
        second, [(where[a.value].ctypes.data, where[a.value].nbytes) if a.kind == "buffer" else None for a in second.arguments],
        [a.value if a.kind == "number" else None for a in second.arguments],
    )
    total = np.zeros(result.size, np.float32)
    for piece in drawn.reshape(-1, result.size):
        total = total + piece
    np.testing.assert_array_equal(np.sort(made.ravel()), np.sort(total.astype(made.dtype)))


def test_places_do_not_depend_on_the_tile() -> None:
    for channels in (7, 8, 12, 16, 40):
        part, s = multiplied(
            wf.grad(lambda w, x, g: (wf.nn.conv2d(x, w, padding=1) * g).sum()),
            wf.zeros((64, channels, 3, 3)), wf.zeros((9, channels, 15, 40)), wf.zeros((9, 64, 15, 40)),
        )
        tiles = tile_choices.alternatives(s)
        assert tiles and len({(unit_count(s, t), inner_k_axes(s, t.k)) for t in (default_tile(s), *tiles)}) == 1
        assert all(product.UNIT % t.k == 0 for t in tiles) and size_of(s.k) == 9 * 15 * 40
        assert split_work.piece_count(s, part.stages[0].reductions[0]) >= 3


# ---- on a card, and for one


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(tile_choices, "MIN_MULTIPLICATIONS", 0)
    monkeypatch.setattr(tuning, "AFTER", 2)
    device, driver = made()
    with standing(device, monkeypatch):
        yield device, driver


def test_a_clock_chooses_among_their_tiles(soon: Any, rng: np.random.Generator) -> None:
    """Each run starts both launches, whatever the tile of the first; graphs come once the best is known."""
    device, driver = soon
    driver.times = lambda launch: 1e-6 if launch.warps == 8 else 1e-5
    x, y = (rng.integers(-5, 5, s).astype(np.float32) for s in ((64, 1024), (1024, 64)))
    state = wf.zeros((64, 64))

    @wf.jit
    def step(x: Any, y: Any) -> None:
        state[...] = state + x @ y

    with wf.device("gpu"):
        a, b = wf.array(x), wf.array(y)
        for turn in range(1, 24):
            step(a, b)
            np.testing.assert_array_equal(state.numpy(), turn * (x @ y))
    firsts = [launch for launch, *_ in driver.launched if launch.grid[1] > 1]
    assert len({(launch.text, launch.warps) for launch in firsts}) >= 3 and firsts[-1].warps == 8 and device.replays > 0


COMPILED: dict[str, tuple[Any, tuple[tuple[int, ...], ...], str]] = {
    "float32": (lambda x, y: wf.tanh(x @ y + 1), ((64, 5000), (5000, 576)), "float32"),
    "float64": (lambda x, y: x @ y, ((40, 5000), (5000, 30)), "float64"),
    "bfloat16": (lambda x, y: x @ y, ((64, 20_000), (20_000, 576)), "bfloat16"),
    "batches": (lambda x, y: x @ y, ((4, 63, 5000), (4, 5000, 97)), "float16"),
    "int8": (lambda x, y: wf.matmul(x, y, dtype="int32"), ((64, 20_000), (20_000, 96)), "int8"),
    "float8": (lambda x, y: wf.matmul(x, y, dtype="float32"), ((64, 20_000), (20_000, 96)), "float8_e4m3fn"),
    "weights of a convolution": (
        lambda x, w: wf.grad(lambda w: wf.nn.relu(wf.nn.conv2d(wf.nn.relu(x), w, padding=1)).sum())(w),
        ((32, 64, 28, 28), (64, 64, 3, 3)), "bfloat16",
    ),
}


def in_loops(code: adapter.Code) -> list[str]:
    """The instructions inside of loops that use the stack."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.binary)
        file.flush()
        lines = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout.splitlines()
    labels = {line.strip(" :"): k for k, line in enumerate(lines) if re.match(r"\s*\.L_x", line)}
    ends = [(labels[found[1]], k) for k, line in enumerate(lines) if (found := re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", line))]
    assert any(first < last - 1 for first, last in ends)
    return [x for first, last in ends for x in lines[first:last] if re.search(r"\b(STL|LDL)\b", x)]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str, capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop spills, tensor cores are used as before, and what adds up the pieces reads many before it adds the first."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    f, shapes, form = COMPILED[name]
    found = [generate(kernel).launches for kernel in kernels(f, *[wf.zeros(s, dtype=form) for s in shapes])]
    pairs = [p for p in found if is_divided(list(p))]
    assert pairs
    for first, second in pairs:
        codes = [adapter.compile_launch(launch, capability) for launch in (first, second)]
        for code in codes:
            used = usage(code)
            # a number that is needed before the loop and behind it may wait on the stack
            assert used.registers * 32 * code.warps <= 65536 and code.scratch == 0
            assert used.stack <= (0 if code is codes[1] else 8) and not in_loops(code)
        loop, exchanged = codes[1].assembly, r"\bshfl\.sync\.(bfly|down)|\b(red|atom)\."
        assert not re.search(exchanged, loop) and (form == "float64" or not re.search(exchanged, codes[0].assembly))
        added = re.search(r"\badd(\.rn)?\.f", loop)
        if form != "int8":  # addresses are integers, too
            assert added and len(
                re.findall(r"\bld\.global", loop[: added.start()])
            ) >= min(split_work.PIECES_AHEAD, first.grid[1])
        if form not in ("float32", "float64"):
            assert any(word in codes[0].assembly for word in ("mma.sync", "wgmma", "tcgen05.mma"))

"""Arrays between convolutions of 16-bit formats that lie channels last: the same bits, other memory; and which arrays do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.graph.cnns import Net
from tests.kernel.evaluate import evaluate
from tests.kernel.numpy_device import Buffer as Memory
from tests.kernel.numpy_device import Executable
from tests.kernel.verify import KernelError, verify
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import BFLOAT16, FLOAT16, INT64
from weft.graph.interpret import interpret
from weft.graph.node import Graph
from weft.kernel.hazards import in_place
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Phase, Reduction, Stage, Store, Value, axis_index
from weft.kernel.printer import kernel_key
from weft.kernel.storage import RELAYOUT, channels_last, relay, reorder_memory
from weft.kernel.target import CPU, Order, Target
from weft.schedule.build import build
from weft.schedule.program import Call, Loop, Program, calls

OFF = replace(GPU, channels_last=0)
ALWAYS = replace(GPU, channels_last=1, relaying=-(1 << 60))  # also where nothing is gained
TARGETS = {"as a GPU asks for it": GPU, "always": ALWAYS}


def results(program: Program, values: list[np.ndarray]) -> list[np.ndarray]:
    """By a device that runs every kernel in Python, on memory as it lies: sums are in the order that the kernel IR says."""
    memories = Executable(program)([Memory(np.array(v, order="C")) for v in values])
    return [m.memory.view(f.numpy).reshape(shape) for m, (shape, f) in zip(memories, program.outputs, strict=True)]


def agree(program: Program) -> None:
    """All kernels see a slot in one order, and only temporaries in another than the row-major one."""
    orders: dict[int, tuple[int, ...]] = {}
    for c in program.steps:
        assert isinstance(c, Call)
        for a, b in zip(c.args, (*c.kernel.inputs, *c.kernel.outputs), strict=True):
            assert orders.setdefault(a, b.order) == b.order
            assert not b.order or program.slots[a].kind == "arena" and all(s.of != a for s in program.slots)


def last(program: Program) -> list[tuple[int, ...]]:
    """Shapes of all that lies channels last."""
    return [b.shape for c in calls(program) for b in c.kernel.outputs if b.order]


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nets(seed: int) -> None:
    """With the pass, forced and not, the same bits as without, in as many bytes, by kernels that are well formed."""
    gradient = seed % 2 == 1
    graph, values = Net(seed).graph(gradient)
    plain = build(graph, OFF)
    want = results(plain, values)
    assert not last(plain)
    for name, target in TARGETS.items():
        program = build(graph, target)
        for c in calls(program):
            verify(c.kernel)
        agree(program)
        for a, b in zip(results(program, values), want, strict=True):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8), err_msg=name)
        copies = sum(k.bytes for k in program.info if k.name == RELAYOUT)
        assert sum(k.bytes for k in program.info) - copies == sum(k.bytes for k in plain.info)
        if not copies:
            assert len(program.steps) == len(plain.steps)
    if not gradient:  # and they are what the operations say, in numbers that have 8 or 11 bits
        for a, e in zip(want, interpret(graph, values), strict=True):
            a, e = a.astype(np.float32), e.astype(np.float32)
            np.testing.assert_allclose(a, e, rtol=0.1, atol=0.05 * np.abs(e).max(initial=0))


def test_the_random_nets_lay_enough_otherwise() -> None:
    """All kinds of layers meet the pass, and weights are laid anew."""
    words: set[str] = set()
    ranks: set[int] = set()
    relaid = 0
    for seed in SEEDS:
        net = Net(seed)
        program = build(net.graph(seed % 2 == 1)[0], ALWAYS)
        if last(program):
            words |= set(net.words)
            ranks.add(net.rank)
        relaid += any(k.name == RELAYOUT for k in program.info)
    assert words == {"convolution", "transposed", "norm", "relu", "maximum", "mean", "residual", "scale", "flatten"}
    assert ranks == {1, 2, 3} and relaid >= 5


@pytest.mark.parametrize("seed", range(12))
def test_the_cpus_programs_stay_as_they_were(seed: int) -> None:
    graph = Net(seed).graph(True)[0]
    program = build(graph, CPU)
    assert not last(program) and all(" lying " not in kernel_key(c.kernel) for c in calls(program))
    assert [kernel_key(c.kernel) for c in calls(build(graph, OFF))] == [kernel_key(c.kernel) for c in calls(program)]


# ---- which arrays


def graph_of(f: Any, *shapes: tuple[int, ...], dtype: str = "bfloat16") -> Graph:
    return wf.jit(f).trace(*[wf.zeros(s, dtype=dtype) for s in shapes]).graph


def two(x: Any, w: Any, v: Any) -> Any:
    return wf.nn.conv2d(wf.nn.relu(wf.nn.conv2d(x, w, padding=1)), v, padding=1)


IMAGES, WEIGHTS = (2, 16, 6, 6), (16, 16, 3, 3)


@pytest.mark.parametrize(("name", "f", "dtype", "found"), [
    ("two convolutions", two, "bfloat16", 1),
    ("float16", two, "float16", 1),
    ("float32 has no use for it", two, "float32", 0),
    ("one convolution between inputs and outputs", lambda x, w, v: wf.nn.conv2d(x, w), "bfloat16", 0),
    ("what is returned, too", lambda x, w, v: (y := wf.nn.conv2d(x, w), wf.nn.conv2d(y, v)), "bfloat16", 0),
    ("seen under another shape", lambda x, w, v: (wf.nn.conv2d(y := wf.nn.conv2d(x, w), v), y.reshape(2, -1) @ w.reshape(256, 9)),
     "bfloat16", 0),
    ("read by NumPy", lambda x, w, v: (wf.nn.conv2d(y := wf.nn.conv2d(x, w), v), wf.sort(y, axis=0)), "bfloat16", 0),
    ("a product of matrices", lambda x, w, v: wf.tanh(x) @ wf.tanh(x), "bfloat16", 0),
    ("pooled in between", lambda x, w, v: wf.nn.conv2d(wf.nn.max_pool2d(wf.nn.conv2d(x, w, padding=1), 2), v), "bfloat16", 2),
    ("added to", lambda x, w, v: wf.nn.conv2d(wf.tanh(x) + wf.nn.conv2d(x, w, padding=1), v), "bfloat16", 1),
], ids=lambda x: x if isinstance(x, str) else "")
def test_which_arrays(name: str, f: Any, dtype: str, found: int) -> None:
    program = build(graph_of(f, IMAGES, WEIGHTS, WEIGHTS, dtype=dtype), GPU)
    assert len(last(program)) == found, program.info


def test_what_is_between_follows_the_convolutions() -> None:
    """Statistics in float32 and masks in bytes, although no convolution reads them."""
    def net(x: Any, w: Any, v: Any) -> Any:
        y = wf.astype(wf.nn.conv2d(x, w, padding=1), "float32")
        y = (y - y.mean(axis=(0, 2, 3), keepdims=True)) / wf.sqrt(y.var(axis=(0, 2, 3), keepdims=True) + 1e-5)
        return wf.nn.conv2d(wf.astype(wf.nn.relu(y), "bfloat16"), v, padding=1)

    slopes = wf.grad(lambda x, w, v: wf.astype(net(x, w, v), "float32").sum(), (1, 2))
    program = build(graph_of(slopes, (4, 16, 8, 8), WEIGHTS, WEIGHTS), GPU)
    found = {(b.dtype.name, bool(b.order)) for c in calls(program) for b in c.kernel.outputs if b.shape == (4, 16, 8, 8)}
    assert found == {("float32", True), ("bfloat16", True)}

    def pooled(x: Any, w: Any, v: Any, b: Any) -> Any:
        y = wf.nn.max_pool2d(wf.nn.relu(wf.nn.conv2d(x, w, b, padding=1)), 2)
        return wf.astype(wf.nn.conv2d(y, v, padding=1), "float32").sum()

    program = build(graph_of(wf.grad(pooled, (1, 2)), (4, 16, 8, 8), WEIGHTS, WEIGHTS, (16,)), GPU)
    found = {(b.dtype.name, bool(b.order)) for c in calls(program) for b in c.kernel.outputs if b.shape == (4, 16, 8, 8)}
    assert found == {("bool", True), ("bfloat16", True)}


def test_few_channels_stay_row_by_row() -> None:
    program = build(graph_of(two, (2, 4, 6, 6), (4, 4, 3, 3), (4, 4, 3, 3)), GPU)
    assert not last(program)
    assert last(build(graph_of(two, (2, 4, 6, 6), (4, 4, 3, 3), (4, 4, 3, 3)), ALWAYS))


def test_depthwise_convolutions_ask_for_nothing() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return wf.nn.conv2d(wf.tanh(wf.nn.conv2d(x, w, groups=16)), v, groups=16)

    assert not last(build(graph_of(f, IMAGES, (16, 1, 3, 3), (16, 1, 3, 3)), GPU))


def test_inside_a_loop() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return wf.fori_loop(0, 3, lambda i, y: wf.tanh(two(y, w, v)), x)

    graph = graph_of(f, IMAGES, WEIGHTS, WEIGHTS)
    (loop,) = [s for s in build(graph, ALWAYS).steps if isinstance(s, Loop)]
    assert last(loop.body)
    rng = np.random.default_rng(0)
    values = [(rng.standard_normal(s) / 6).astype(BFLOAT16.numpy) for s in (IMAGES, WEIGHTS, WEIGHTS)]
    for a, b in zip(results(build(graph, ALWAYS), values), results(build(graph, OFF), values), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- weights


def test_weights_are_laid_anew_where_that_saves_more_than_it_costs() -> None:
    def relays(images: int, channels: int, target: Target = GPU, window: int = 3) -> list[Call]:
        shape = (channels, channels, window, window)
        program = build(graph_of(two, (images, channels, 32, 32), shape, shape), target)
        return [c for c in calls(program) if c.kernel.name == RELAYOUT]

    assert not relays(1, 32)  # a launch more for 8 rows of tiles
    assert len(relays(64, 64)) == 2
    assert not relays(64, 16)  # all taps of few channels fill a tile, as they lie
    assert not relays(64, 64, window=1)  # nothing lies otherwise
    assert not relays(64, 64, OFF)
    assert not relays(64, 64, replace(GPU, relaying=1 << 60))


def test_weights_are_laid_anew_once() -> None:
    """For both convolutions that read them, before the first; an update of them in place comes later and stays in place."""
    def f(x: Any, w: Any, v: Any) -> Any:
        y = wf.nn.conv2d(wf.nn.relu(wf.nn.conv2d(x, w, padding=1)), w, padding=1)
        return y, w * 2

    program = build(graph_of(f, (64, 64, 32, 32), (64, 64, 3, 3), (64, 64, 3, 3)), GPU)
    names = [c.kernel.name for c in calls(program)]
    assert names.count(RELAYOUT) == 1 and names.index(RELAYOUT) < min(k for k, n in enumerate(names) if n.startswith("conv"))
    assert (1, 1) in program.donate
    (info,) = [k for k in program.info if k.name == RELAYOUT]
    assert info.bytes == 2 * 64 * 64 * 9 * 2 and info.notes == ("channels last: 1 written",)


def test_explain_counts_what_is_moved(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.tools import explain

    arrays = [wf.zeros(s, dtype="bfloat16") for s in ((64, 64, 32, 32), (64, 64, 3, 3), (64, 64, 3, 3))]
    monkeypatch.setattr(explain.execute.device(), "target", GPU, raising=False)
    found = wf.explain(wf.jit(two), *arrays)
    assert found.relaid == 2 * 2 * 64 * 64 * 9 * 2
    said = capsys.readouterr().out
    assert "laying weights channels last moves 295 kB" in said and "channels last: 2 read" in said


# ---- the language of kernels


def copy(source: tuple[int, ...], target: tuple[int, ...]) -> Kernel:
    """An element-wise kernel from one order to another."""
    axes = tuple([Axis(d, n) for d, n in enumerate((2, 3, 4, 5))])
    index = tuple([axis_index(a) for a in axes])
    x, y = Buffer(0, FLOAT16, (2, 3, 4, 5), order=source), Buffer(1, FLOAT16, (2, 3, 4, 5), order=target)
    value = Value("neg", (Value("load", (), FLOAT16, Access(x, index)),), FLOAT16)
    return Kernel("neg", (Phase(axes, (Stage((), (), (Store(Access(y, index), value),)),)),), (x,), (y,))


def test_elements_in_different_orders_are_not_one_memory() -> None:
    order = channels_last((2, 3, 4, 5))
    assert in_place(copy((), ())) == in_place(copy(order, order)) == [(0, 0)]
    assert in_place(copy(order, ())) == in_place(copy((), order)) == []


def test_a_row_in_another_order_is_another_row() -> None:
    """A stage that reads inside of the row that its iteration writes, at a gathered index."""
    shape = (2, 3, 4)
    rows, i, j, k, m = Axis(0, 2), Axis(1, 3), Axis(2, 4), Axis(3, 3), Axis(4, 4)
    number = Buffer(1, INT64, shape)
    for first, second in (((), ()), ((0, 2, 1), (0, 2, 1)), ((), (0, 2, 1)), ((2, 0, 1), (0, 2, 1))):
        x, y = Buffer(0, FLOAT16, shape, order=first), Buffer(2, FLOAT16, shape, order=second)
        at = Value("load", (), INT64, Access(number, (axis_index(rows), axis_index(i), axis_index(j))))
        read = Access(x, (axis_index(rows), Affine(0, (), ((at, 1),)), Affine(0, (), ((at, 1),))))
        largest = Reduction(0, (i, j), "max", Value("load", (), FLOAT16, read), FLOAT16, FLOAT16, Order(32, 4096))
        store = Store(Access(y, (axis_index(rows), axis_index(k), axis_index(m))), Value("acc", (), FLOAT16, 0))
        kernel = Kernel("k", (Phase((rows,), (Stage((i, j), (largest,)), Stage((k, m), (), (store,)))),), (x, number), (y,))
        assert ((0, 0) in in_place(kernel)) == (first == second), (first, second)


def test_phases_apart_may_share_memory_in_any_order() -> None:
    """All has been read before the first is written."""
    shape, order = (2, 3, 4, 5), channels_last((2, 3, 4, 5))
    axes, others = (tuple([Axis(first + d, n) for d, n in enumerate(shape)]) for first in (0, 4))
    here, there = (tuple([axis_index(a) for a in some]) for some in (axes, others))
    x, y, kept = Buffer(0, FLOAT16, shape), Buffer(1, FLOAT16, shape, order=order), Buffer(0, FLOAT16, shape, "kernel")
    first = Store(Access(kept, here), Value("load", (), FLOAT16, Access(x, here)))
    second = Store(Access(y, there), Value("load", (), FLOAT16, Access(kept, there)))
    phases = tuple([Phase(a, (Stage((), (), (s,)),)) for a, s in ((axes, first), (others, second))])
    kernel = Kernel("k", phases, (x,), (y,), scratch=(kept,))
    assert in_place(kernel) == [(0, 0)]
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    np.testing.assert_array_equal(evaluate(kernel, [a], shared=((0, 0),))[0][0], a)


@pytest.mark.parametrize("source", [(), (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("target", [(), (0, 2, 3, 1), (1, 0, 3, 2)])
def test_a_kernel_on_other_memory_gives_the_same(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    kernel = copy(source, target)
    verify(kernel)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float16)
    (y,), traffic = evaluate(kernel, [x])
    np.testing.assert_array_equal(y, -x)
    assert [t.touched for t in traffic] == [120, 120]
    assert reorder_memory(copy((), ()), {k: o for k, o in enumerate((source, target)) if o}).inputs == kernel.inputs


def test_strides_follow_the_order() -> None:
    b = Buffer(0, FLOAT16, (2, 3, 4, 5), order=(0, 2, 3, 1))
    assert b.strides == (60, 1, 15, 3) and b.memory_extents == (2, 4, 5, 3)
    assert Buffer(0, FLOAT16, (2, 3, 4)).strides == (12, 4, 1)
    memory = np.zeros((2, 4, 5, 3)).transpose(0, 3, 1, 2)
    assert tuple(s // 8 for s in memory.strides) == b.strides


def test_the_printed_form_tells_orders_apart() -> None:
    order = (0, 2, 3, 1)
    keys = {kernel_key(copy(a, b)) for a in ((), order) for b in ((), order)}
    assert len(keys) == 4 and "b1 float16[2, 3, 4, 5] lying [0, 2, 3, 1]" in kernel_key(copy((), order))


def test_what_cannot_be_an_order_is_refused() -> None:
    for wrong in ((0, 1, 2), (0, 1, 2, 2), (1, 2, 3, 4)):
        with pytest.raises(KernelError, match="cannot lie in the order"):
            verify(copy((), wrong))


@pytest.mark.parametrize(("shape", "order"), [
    ((2, 3, 4), (0, 2, 1)), ((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 3, 4, 5, 6), (0, 2, 3, 4, 1)), ((2, 3, 1, 5), (0, 2, 3, 1)),
    ((2, 3), ()), ((7,), ()), ((), ()), ((2, 1, 4, 5), ()), ((2, 3, 1, 1), ()), ((2, 3, 0, 5), ()), ((0, 3, 4, 5), (0, 2, 3, 1)),
])
def test_channels_last(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    assert channels_last(shape) == order


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 8, 3, 3), (2, 3, 2, 4, 3)])
def test_a_relay_copies(shape: tuple[int, ...]) -> None:
    kernel = relay(shape, BFLOAT16)
    verify(kernel)
    x = np.random.default_rng(0).standard_normal(shape).astype(BFLOAT16.numpy)
    (y,), traffic = evaluate(kernel, [x])
    np.testing.assert_array_equal(x, y)
    assert [(t.loads, t.stores) for t in traffic] == [(x.size, 0), (0, x.size)] and not in_place(kernel)

"""Programs: kernel counts of whole training steps, memory, aliases, donation, order of steps."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.graph.fusing import F32, check, kernels, leaf, mean, number, op, random
from tests.graph.test_fuse import adam, conv, dense, softmax
from weft.dtypes.formats import FLOAT64, INT32
from weft.graph.gradient import backward
from weft.graph.node import Graph, Node
from weft.kernel.expressions import Machine
from weft.kernel.hazards import in_place
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Phase, Stage, Store, axis_index
from weft.schedule.arena import arena
from weft.schedule.build import build
from weft.schedule.program import Call


def linear(x: Node, w: Node, b: Node) -> Node:
    return op("add", op("dot_general", x, w, contract=((1,), (1,)), batch=((), ())), b)


def cross_entropy(x: Node, labels: Node) -> Node:
    s = op("subtract", x, op("stop_gradient", op("reduce_max", x, axes=(1,), keepdims=True)))
    logp = op("subtract", s, op("log", op("reduce_sum", op("exp", s), axes=(1,), keepdims=True)))
    total = op("reduce_sum", op("multiply", logp, labels), axes=(0, 1), keepdims=False)
    return op("negative", op("divide", total, number(x.shape[0])))


def relu(x: Node) -> Node:
    return op("maximum", x, number(0))


def training_step(loss: Node, parameters: list[Node]) -> tuple[list[Node], list[Node]]:
    """(more inputs, outputs) of one step of Adam."""
    rate = leaf()
    state = [leaf(*p.shape) for p in parameters for _ in range(2)]
    outputs = [loss]
    for k, (p, g) in enumerate(zip(parameters, backward([loss], [number(1)], parameters), strict=True)):
        outputs += adam(p, g, state[2 * k], state[2 * k + 1], rate)
    return [*state, rate], outputs


def cnn(batch: int = 2, side: int = 8, filters: int = 3, hidden: int = 5, classes: int = 4) -> tuple[list[Node], list[Node]]:
    x, labels = leaf(batch, 1, side, side), leaf(batch, classes)
    flat = filters * (side // 2) ** 2
    p = [leaf(filters, 1, 3, 3), leaf(filters), leaf(hidden, flat), leaf(hidden), leaf(classes, hidden), leaf(classes)]
    a = relu(op("add", conv(x, p[0]), op("reshape", p[1], shape=(1, filters, 1, 1))))
    pooled = op("reduce_window", a, kind="max", window=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)))
    h = relu(linear(op("reshape", pooled, shape=(batch, flat)), p[2], p[3]))
    more, outputs = training_step(cross_entropy(linear(h, p[4], p[5]), labels), p)
    return [x, labels, *p, *more], outputs


def test_a_convolutional_step() -> None:
    inputs, outputs = cnn()
    program = check(inputs, outputs, tolerance=1e-3)
    assert len(kernels(program)) <= 15
    # every parameter and its two moments may be updated where they lie
    given = {i for i, _ in program.donate}
    assert set(range(2, 8 + 12)) <= given


def test_building_it_is_quick() -> None:
    """No bound on time (machines differ), but a graph twice as long must not cost four times as much."""

    def seconds(layers: int) -> float:
        x, labels = leaf(4, 6), leaf(4, 6)
        p = [n for _ in range(layers) for n in (leaf(6, 6), leaf(6))]
        h = x
        for k in range(layers):
            h = relu(linear(h, p[2 * k], p[2 * k + 1]))
        more, outputs = training_step(cross_entropy(h, labels), p)
        graph = Graph([x, labels, *p, *more], outputs)
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            build(graph)
            best = min(best, time.perf_counter() - start)
        return best

    seconds(2)
    assert seconds(24) < 4 * 3 * seconds(8)


def test_a_dense_step() -> None:
    x, y = leaf(7, 3), leaf(7, 3)
    p = [leaf(10, 3), leaf(10), leaf(3, 10), leaf(3)]
    out = linear(op("tanh", linear(x, p[0], p[1])), p[2], p[3])
    loss = mean(op("square", op("subtract", out, y)), 0, 1, keepdims=False)
    more, outputs = training_step(loss, p)
    program = check([x, y, *p, *more], outputs, tolerance=1e-3)
    assert len(kernels(program)) <= 9


def test_convolutions_with_both_gradients() -> None:
    x, w, v = leaf(2, 3, 6, 6), leaf(4, 3, 3, 3), leaf(5, 4, 3, 3)
    h = relu(conv(x, w, stride=(2, 2)))
    y = conv(h, v)
    loss = op("reduce_sum", op("square", y), axes=(0, 1, 2, 3), keepdims=False)
    program = check([x, w, v], [loss, *backward([loss], [number(1)], [x, w, v])], tolerance=2e-3)
    assert len(kernels(program)) <= 8


def test_attention_and_embedding() -> None:
    table, i = leaf(11, 8), leaf(2, 5, dtype=INT32)
    x = op("gather", table, i, axes=(0,))
    scores = op("dot_general", x, x, contract=((2,), (2,)), batch=((0,), (0,)))
    e = op("exp", op("subtract", scores, op("reduce_max", scores, axes=(2,), keepdims=True)))
    weights = op("divide", e, op("reduce_sum", e, axes=(2,), keepdims=True))
    out = op("dot_general", weights, x, contract=((2,), (1,)), batch=((0,), (0,)))
    loss = op("reduce_sum", op("square", out), axes=(0, 1, 2), keepdims=False)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((11, 8)).astype(np.float32) * 0.5, rng.integers(0, 11, (2, 5)).astype(np.int32)]
    program = check([table, i], [loss, *backward([loss], [number(1)], [table])], values, tolerance=2e-3)
    assert len(kernels(program)) <= 14


def test_arena_never_overlaps() -> None:
    rng = np.random.default_rng(0)
    sizes = [int(n) for n in rng.integers(1, 5000, 60)]
    lives = [(int(a), int(a + n)) for a, n in zip(rng.integers(0, 40, 60), rng.integers(0, 12, 60), strict=True)]
    offsets, total = arena(sizes, lives)
    assert all(o % 64 == 0 for o in offsets) and max(o + s for o, s in zip(offsets, sizes, strict=True)) <= total
    assert total < sum(sizes) // 2
    for a in range(60):
        for b in range(a):
            together = lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]
            apart = offsets[a] + sizes[a] <= offsets[b] or offsets[b] + sizes[b] <= offsets[a]
            assert apart or not together


def test_temporaries_are_reused() -> None:
    x = leaf(30, 30)
    w = [leaf(30, 30) for _ in range(8)]
    h = x
    for k in w:
        h = op("dot_general", h, k, contract=((1,), (0,)), batch=((), ()))
    program = check([x, *w], [op("tanh", op("multiply", h, number(1e-4)))], count=8, tolerance=1e-2)
    assert program.arena <= 2 * 3648


def donated(inputs: list[Node], outputs: list[Node]) -> set[tuple[int, int]]:
    return set(build(Graph(inputs, outputs)).donate)


def test_what_may_be_donated() -> None:
    x, y = leaf(6, 40), leaf(6, 40)
    assert donated([x, y], [op("add", x, y)]) == {(0, 0), (1, 0)}
    assert donated([x], [softmax(x, 1)]) == {(0, 0)}
    assert donated([x], [softmax(x, 0)]) == {(0, 0)}
    assert donated([x], [op("divide", x, op("reduce_sum", x, axes=(0, 1), keepdims=False))]) == {(0, 0)}


def test_what_may_not_be_donated() -> None:
    x, y, w, b = leaf(6, 6), leaf(6, 6), leaf(6, 6), leaf(6)
    assert not donated([x], [op("exp", op("permute", x, axes=(1, 0)))])
    assert not donated([x], [op("slice", x, start=(5, 0), step=(-1, 1), shape=(6, 6))])
    assert donated([x, w, b], [dense(x, w, b)]) == set()
    assert donated([x, y], [op("exp", x), op("dot_general", op("exp", x), y, contract=((1,), (0,)), batch=((), ()))]) == {(0, 0)}
    assert donated([x], [op("exp", x), x]) == set()
    later = op("dot_general", op("exp", x), x, contract=((1,), (0,)), batch=((), ()))
    assert donated([x], [op("exp", x), later]) == set()
    both = op("add", x, op("slice", x, start=(0, 5), step=(1, -1), shape=(6, 6)))
    assert donated([x], [both]) == set()
    assert not donated([x], [op("cast", x, dtype=FLOAT64)])


def test_what_a_later_store_reads_is_not_donated_to_an_earlier_one() -> None:
    x, old = leaf(40, 50), leaf(40, 50)
    new = op("exp", x)
    program = build(Graph([x, old], [new, op("add", new, old)]))
    assert len(program.steps) == 1 and (1, 0) not in program.donate and (1, 1) in program.donate


def test_updates_wait_for_the_other_readers() -> None:
    x, w = leaf(6, 6), leaf(6, 6)
    new = op("subtract", w, op("multiply", number(0.1), op("exp", w)))
    read = op("dot_general", x, w, contract=((1,), (0,)), batch=((), ()))
    program = build(Graph([w, x], [new, read]))
    assert [s.kernel.name for s in program.steps if isinstance(s, Call)][0] == "dot" and program.donate == ((0, 0),)


def test_random_programs() -> None:
    """Graphs of random operations: whatever is fused, the numbers are those of the graph."""
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        inputs, outputs = random_graph(rng)
        values = [0.3 * random(i, rng) for i in inputs]
        check(inputs, outputs, values, tolerance=2e-2, special=True)


def random_graph(rng: np.random.Generator) -> tuple[list[Node], list[Node]]:
    shapes = [(3, 4), (2, 3, 4), (4,), (2, 2, 3, 4), (5, 1, 4), (3, 3)]
    inputs = [leaf(*shapes[k]) for k in rng.choice(len(shapes), 2)]
    pool = list(inputs)
    for _ in range(int(rng.integers(3, 24))):
        made = random_node(rng, pool, inputs)
        if made is not None and made.size <= 2000:
            pool.append(made)
    some = [pool[k] for k in rng.choice(len(pool), min(len(pool), 3), replace=False)]
    return inputs, [*some, pool[-1]]


def random_node(rng: np.random.Generator, pool: list[Node], inputs: list[Node]) -> Node | None:
    x = pool[-1 - int(rng.integers(min(5, len(pool))))]
    if x.dtype != F32 or not x.shape:
        return None
    d = int(rng.integers(len(x.shape)))
    kind = rng.choice(["one", "two", "two", "reduce", "centre", "permute", "slice", "pad", "reshape", "concat", "dot", "gather"])
    if kind == "one":
        scaled = op("multiply", x, number(0.7))
        name = str(rng.choice(["sin", "tanh", "negative", "floor"]))
        # what is left of a mean is 0 but for its last bits, and no place for a floor
        return op(name, op("add", scaled, number(0.37)) if name == "floor" else scaled)
    if kind == "two":
        y = pool[int(rng.integers(len(pool)))]
        try:
            return op(str(rng.choice(["add", "subtract", "maximum"])), x, y)
        except ValueError:
            return None
    if kind in ("reduce", "centre"):
        axes = tuple(sorted(int(a) for a in rng.choice(len(x.shape), int(rng.integers(1, len(x.shape) + 1)), replace=False)))
        if kind == "centre":
            return op("subtract", x, mean(x, *axes))
        return op(str(rng.choice(["reduce_sum", "reduce_max"])), x, axes=axes, keepdims=bool(rng.integers(2)))
    if kind == "permute":
        return op("permute", x, axes=tuple(int(a) for a in rng.permutation(len(x.shape))))
    if kind == "slice":
        start, step = [0] * len(x.shape), [1] * len(x.shape)
        start[d], step[d] = x.shape[d] - 1, -1
        return op("slice", x, start=tuple(start), step=tuple(step), shape=x.shape)
    if kind == "pad":
        low = [0] * len(x.shape)
        low[d] = int(rng.integers(3))
        return op("pad", x, low=tuple(low), high=(1,) * len(x.shape), value=float(rng.choice([0.0, 1.5])))
    if kind == "reshape":
        return op("reshape", x, shape=[(x.size,), (*x.shape, 1), (x.shape[0], x.size // x.shape[0])][int(rng.integers(3))])
    if kind == "concat":
        return op("concat", x, op("sin", x), axis=d)
    if kind == "dot" and len(x.shape) == 2:
        inputs.append(leaf(x.shape[1], 3))
        pool.append(inputs[-1])
        return op("dot_general", x, inputs[-1], contract=((1,), (0,)), batch=((), ()))
    if kind == "gather":
        return op("gather", x, op("iota", shape=(3,), dtype=INT32, axis=0), axes=(d,))
    return None


def _copy(load: Affine, store: Affine) -> Kernel:
    i = Axis(0, 6)
    source, target = Buffer(0, F32, (6,)), Buffer(1, F32, (6,))
    value = Machine().load(Access(source, (load,)))
    return Kernel("copy", (Phase((i,), (Stage((), (), (Store(Access(target, (store,)), value),)),)),), (source,), (target,))


@pytest.mark.parametrize(("load", "legal"), [(axis_index(0), True), (axis_index(0, -1).plus(Affine(5)), False)])
def test_in_place_only_at_the_same_element(load: Affine, legal: bool) -> None:
    assert in_place(_copy(load, axis_index(0))) == ([(0, 0)] if legal else [])

"""Groups of one form share what was found out about them; whatever their kernel rests on makes another form."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given

from tests.graph.fusing import F64, check, kernels, leaf, number, op
from tests.graph.test_fuse import adam, dense, softmax
from tests.graph.test_random_graphs import graphs, quick
from weft.dtypes.formats import FLOAT32, INT64
from weft.graph.gradient import backward
from weft.graph.node import Graph, Node
from weft.graph.primitives import constant
from weft.graph.primitives.table import scalar_leaf
from weft.kernel.printer import print_kernel
from weft.process.bounded_cache import BoundedCache
from weft.schedule import group_cache
from weft.schedule.build import build
from weft.schedule.group_cache import GroupCache
from weft.schedule.program import Program


class Forgetful(BoundedCache):
    def get(self, key: Any) -> Any:
        return None


@contextmanager
def without_memory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_WORDS", "_VERDICTS", "_KERNELS"):
            patch.setattr(group_cache, name, Forgetful(0))
        patch.setattr(GroupCache, "_find_analysis", lambda self, nodes: None)
        yield


def told(program: Program) -> tuple:
    """All of a Program that does not name nodes."""
    steps = [(type(s), getattr(s, "args", None), getattr(s, "scalars", None)) for s in program.steps]
    return program.slots, steps, program.arena, program.donate, program.info, [print_kernel(k) for k in kernels(program)]


def same_without_memory(inputs: list[Node], outputs: list[Node]) -> None:
    graph = Graph(inputs, outputs)
    build(graph)
    found = told(build(graph))
    with without_memory():
        assert told(build(graph)) == found


def layers(count: int) -> tuple[list[Node], list[Node]]:
    """A net of equal layers with softmax and a gathered table, its gradient, and the update of all parameters."""
    table, indices, rate = leaf(11, 6), leaf(5, dtype=INT64), leaf()
    x = op("gather", table, op("add", indices, constant(1, INT64)), axes=(0,))
    parameters = [(leaf(6, 6), leaf(6)) for _ in range(count)]
    for w, b in parameters:
        x = op("add", x, softmax(dense(x, w, b), 1))
    loss = op("reduce_sum", op("square", x), axes=(0, 1), keepdims=False)
    flat = [table, *(p for pair in parameters for p in pair)]
    inputs, outputs = [indices, rate, *flat], [loss]
    for p, g in zip(flat, backward([loss], [number(1.0, FLOAT32)], flat), strict=True):
        m, v = leaf(*p.shape), leaf(*p.shape)
        inputs += [m, v]
        outputs += adam(p, g, m, v, rate)
    return inputs, outputs


@given(graphs())
@quick
def test_a_random_program_is_the_same_without_a_memory(graph: tuple[list[Node], list[Node]]) -> None:
    same_without_memory(*graph)


@given(graphs())
@quick
def test_the_program_of_a_derivative_is_the_same_without_a_memory(graph: tuple[list[Node], list[Node]]) -> None:
    inputs, outputs = graph
    same_without_memory(inputs, backward(outputs, [number(1.0, o.dtype) for o in outputs], inputs))


def test_the_program_of_a_net_is_the_same_without_a_memory() -> None:
    same_without_memory(*layers(3))


def test_equal_layers_and_later_graphs_share_kernels() -> None:
    few, many = (build(Graph(*layers(n))) for n in (3, 5))
    objects = {id(k) for k in kernels(few)}
    assert len(objects) == len({print_kernel(k) for k in kernels(few)}) < len(kernels(few))
    assert {id(k) for k in kernels(many)} <= objects
    assert len(kernels(many)) > len(kernels(few))


def variants() -> list[tuple[list[Node], list[Node]]]:
    """Groups that differ in one thing each from a first one."""
    out = []
    for start in (0, 1):
        x, y = leaf(8, 6), leaf(8, 4)
        out.append(([x, y], [op("add", op("slice", x, start=(0, start), step=(1, 1), shape=(8, 4)), y)]))
    x, y = leaf(8, 4), leaf(8, 4)
    exp = op("exp", x)
    out += [([x, y], [op("subtract", exp, y)]), ([x, y], [op("subtract", y, exp)]), ([x, y], [op("multiply", exp, exp)])]
    out += [([x, y], [op("subtract", exp, y), exp]), ([x, y], [op("subtract", exp, x)])]
    s = scalar_leaf(None, FLOAT32)
    one = leaf()
    out += [([x, k], [op("multiply", exp, k)]) for k in (s, one)]
    out += [([x], [op("multiply", exp, number(n))]) for n in (2.0, 3.0)]
    a, b = leaf(8, 4, dtype=F64), leaf(8, 4, dtype=F64)
    out += [([a, b], [op("subtract", op("exp", a), b)])]
    w = leaf(4, 8)
    out += [([w, y], [op("subtract", op("exp", op("reshape", w, shape=(8, 4))), y)])]
    out += [([w, y], [op("subtract", op("exp", op("permute", w, axes=(1, 0))), y)])]
    return out


def test_groups_that_differ_have_kernels_of_their_own() -> None:
    """Each program is run and compared, after all others were planned."""
    first = [kernels(build(Graph(*v))) for v in variants()]
    texts = ["\n".join(map(print_kernel, k)) for k in first]
    assert len(set(texts)) == len(texts) - 1  # memory under another shape is memory
    for inputs, outputs in variants():
        check(inputs, outputs, seed=len(outputs))


def test_what_is_kept_weighs_what_it_says() -> None:
    """Of small graphs whose shapes never come back, of which a process may see ever more."""
    names = ("_WORDS", "_VERDICTS", "_KERNELS")
    assert 2 * sum(getattr(group_cache, name).max_weight for name in names) <= 25e6
    with pytest.MonkeyPatch.context() as patch:
        stores = {name: BoundedCache(1e9) for name in names}
        for name, store in stores.items():
            patch.setattr(group_cache, name, store)
        made = [_planned(n) for n in range(2, 12)]
        tracemalloc.start()
        try:
            for n in range(12, 312):
                _planned(n)
            before = sum(store.weight for store in stores.values())
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
            for store in stores.values():
                store.newest.clear()
            gc.collect()
            held -= tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert all(made) and held < 1.25 * before


def _planned(n: int) -> Program:
    x = leaf(n, 3)
    return build(Graph([x], [op("reduce_sum", op("add", op("multiply", x, x), x), axes=(0, 1), keepdims=False)]))


def test_what_is_kept_is_bounded_and_holds_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = BoundedCache(50 * 600, fewest=2)
    monkeypatch.setattr(group_cache, "_KERNELS", kept)
    for n in range(2, 60):
        x = leaf(n, 3)
        build(Graph([x], [op("exp", op("add", x, x))]))
    assert len(kept) <= 40
    made = next(iter(kept.newest.values()))[0]
    assert {type(n) for n in (*made.outputs, *(n for n, _ in made.inputs))} == {int}

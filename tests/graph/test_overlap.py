"""Effects beside kernels: their order in random programs, and the steps between the beginning of one and its end, counted."""

from __future__ import annotations

import numpy as np
import pytest

from weft.dtypes.formats import FLOAT32, INT32
from weft.graph.effects import first_turn, turn_after
from weft.graph.node import Graph, Node, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.schedule.build import build
from weft.schedule.fuse import FusedGroup, fuse
from weft.schedule.overlap import begin_early, split_effects
from weft.schedule.program import Call, HostCall, root

SHAPE = (16, 16)


def same(x: Node, *rest: Node, **params: int) -> tuple:
    return x.shape, x.dtype


def number_rule(*inputs: Node, **params: int) -> tuple:
    return (), INT32


def reference(x: np.ndarray, *rest: np.ndarray, **params: int) -> np.ndarray:
    return x


BEGIN = Primitive("begin", "host", number_rule, lambda x, turn, **p: np.int32(0), raises=True, timing="early")
FINISH = Primitive("finish", "host", number_rule, reference, raises=True, timing="late")
SPLIT = Primitive("split", "host", same, reference, raises=True, effect=True, halves=(BEGIN, FINISH))
WHOLE = Primitive("whole", "host", same, reference, raises=True, effect=True)


def draw_graph(rng: np.random.Generator) -> tuple[Graph, int]:
    """Return a random graph with effects, each with its number in the program's order, and how many there are."""
    inputs = [input_leaf(SHAPE, FLOAT32) for _ in range(3)]
    values, turn, effects = list(inputs), first_turn(), 0
    for _ in range(int(rng.integers(2, 30))):
        x, y = (values[-1 - int(k)] for k in rng.integers(0, min(8, len(values)), 2))
        kind = rng.choice(("tanh", "product", "product", "split", "split", "whole"), p=(0.2, 0.2, 0.2, 0.15, 0.15, 0.1))
        if kind == "tanh":
            values.append(bind(TABLE["tanh"], x))
        elif kind == "product":
            values.append(bind(TABLE["dot_general"], x, y, contract=((1,), (0,)), batch=((), ())))
        else:
            values.append(bind(SPLIT if kind == "split" else WHOLE, x, turn, place=effects))
            turn, effects = turn_after(values[-1]), effects + 1
    read = [values[int(k)] for k in rng.integers(3, len(values), 3)]
    return Graph(inputs, [*read, turn]), effects


def is_effect(step: object) -> bool:
    return isinstance(step, HostCall) and step.name in ("begin", "split", "whole")


@pytest.mark.parametrize("repeat", range(20))
def test_effects_keep_their_order_and_values_are_written_before_they_are_read(rng: np.random.Generator, repeat: int) -> None:
    graph, effects = draw_graph(rng)
    program = build(graph)
    assert [step.params["place"] for step in program.steps if is_effect(step)] == list(range(effects))
    written = {slot.id for slot in program.slots if slot.kind == "input"}
    began = 0
    for step in program.steps:
        assert {root(program.slots, r).id for r in step.reads} <= written, program.steps
        written |= {root(program.slots, w).id for w in step.writes}
        began += isinstance(step, HostCall) and step.name == "begin"
        began -= isinstance(step, HostCall) and step.name == "finish"
        assert not began or not isinstance(step, HostCall) or step.name != "whole", "an effect beside others is not split"
    assert not began, "the program ends after all effects"


def names(fused: list[FusedGroup]) -> list[str]:
    return [f.nodes[0].op.timing if f.kernel is None else "" for f in fused]


@pytest.mark.parametrize("repeat", range(20))
def test_beginnings_are_early_and_waits_are_late(rng: np.random.Generator, repeat: int) -> None:
    graph, _ = draw_graph(rng)
    _, given = fuse(split_effects(graph))
    fused = begin_early(given)
    assert sorted(map(id, fused)) == sorted(map(id, given))
    writer = {n: k for k, f in enumerate(fused) for n in f.outputs}
    behind: list[set[int]] = []  # of each step all steps that it depends on
    for f in fused:
        direct = {writer[n] for n, _ in f.inputs if n in writer}
        behind.append(direct.union(*[behind[k] for k in direct]))
    timing = names(fused)
    begins = [k for k, when in enumerate(timing) if when == "early"]
    for k, when in enumerate(timing):
        later = [b for b in begins if b > k]
        needed = set(begins).union(*[behind[b] for b in begins])
        is_needed = k in needed
        if when == "late":  # all that could run before it has run, but for other waits and what later beginnings need
            rest = [j for j in range(k + 1, len(fused)) if timing[j] != "late" and j not in needed]
            assert all(max(behind[j], default=-1) >= k for j in rest), timing
        elif not is_needed and when != "early" and later:  # it runs before a beginning only if that has to wait
            assert any(timing[w] == "late" and w > k for w in behind[later[0]]), timing


@pytest.mark.parametrize("is_reversed", [False, True])
def test_sums_of_gradients_overlap_with_products(is_reversed: bool) -> None:
    """A chain of products has a gradient for each layer, the last layer's first. Both orders of the sums hide all but one."""
    layers = 5
    weights, gradients = [input_leaf(SHAPE, FLOAT32) for _ in range(layers)], {}
    slope = input_leaf(SHAPE, FLOAT32)
    product = {"contract": ((1,), (0,)), "batch": ((), ())}
    back = slope
    for k in reversed(range(layers)):
        gradients[k] = bind(TABLE["dot_general"], back, slope, **product)
        back = bind(TABLE["dot_general"], back, weights[k], **product)
    turn, sums = first_turn(), {}
    for k in reversed(range(layers)) if is_reversed else range(layers):
        sums[k] = bind(SPLIT, gradients[k], turn, place=k)
        turn = turn_after(sums[k])
    outputs = [bind(TABLE["subtract"], weights[k], sums[k]) for k in range(layers)]
    program = build(Graph([*weights, slope], [*outputs, turn]))
    letters = "".join("k" if isinstance(s, Call) else s.name[0] for s in program.steps if isinstance(s, Call | HostCall))
    # k: a kernel, the first one stores a turn; b: begin; f: finish; t: the last turn
    if is_reversed:  # each sum begins behind its gradient, before the next slope
        before = "kkb" * layers
    else:  # all slopes, then the first layer's gradient, then the others while its sum is on its way
        before = "k" * layers + "kb" * layers
    assert letters == before + "fk" * (layers - 1) + "ftk", letters

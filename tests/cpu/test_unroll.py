"""Unrolled loops over short axes: the same bits as the loops, in place too, and each expression computed once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cross import TABLE, bind, kernels_of, leaf, run_both

from tests.kernel.evaluate import evaluate
from tests.kernel.verify import verify
from weft.dtypes.formats import FLOAT64, INT64
from weft.graph.node import Node
from weft.graph.primitives.call import call, full
from weft.kernel.expressions import roots, walk
from weft.kernel.hazards import in_place
from weft.kernel.ir import MACHINE_OPERATIONS, Kernel
from weft.kernel.unroll import unroll


def operations(kernel: Kernel) -> int:
    """Return the machine operations that a kernel runs, each as often as its loops do."""
    total = 0
    for phase in kernel.phases:
        for stage in phase.stages:
            rounds = int(np.prod([a.extent for a in (*phase.axes, *stage.axes)], initial=1))
            total += rounds * sum(v.op in MACHINE_OPERATIONS for v in walk(roots([stage])))
    return total


def draw(rng: random.Random, parts: int, n: int) -> tuple[list[Node], list[Node]]:
    """Return the inputs and outputs of a random graph over arrays [parts, n] and [n] that takes rows and joins them again."""
    inputs = [leaf(np.zeros((parts, n))) for _ in range(2)] + [leaf(np.zeros(n))]
    wide, flat = inputs[:2], inputs[2:]

    def row(x: Node) -> Node:
        k = rng.randrange(parts)
        return call.reshape(call.slice(x, start=(k, 0), step=(1, 1), shape=(1, n)), shape=(n,))

    for _ in range(rng.randint(3, 12)):
        kind = rng.choice(["join", "join", "wide", "flat", "sum", "choose", "shift"])
        a, b = rng.choice(wide), rng.choice(wide)
        binary = getattr(call, rng.choice(["add", "subtract", "multiply", "maximum"]))
        if kind == "join":
            rows = [binary(row(a), rng.choice([row(b), rng.choice(flat)])) for _ in range(parts)]
            wide.append(call.concat(*[call.reshape(r, shape=(1, n)) for r in rows], axis=0))
        elif kind == "wide":
            wide.append(binary(a, rng.choice([b, rng.choice(flat)])))
        elif kind == "flat":
            flat.append(binary(row(a), rng.choice(flat)))
        elif kind == "sum":
            flat.append(call.reduce_sum(a, axes=(0,), keepdims=False))
        elif kind == "choose":
            place = call.iota(shape=(parts, 1), dtype=INT64, axis=0)
            wide.append(call.where(call.less(place, full(rng.randint(0, parts), (parts, 1), INT64)), a, b))
        else:
            low = rng.randint(0, parts)
            rows = call.pad(call.slice(a, start=(0, 0), step=(1, 1), shape=(parts - low, n)), low=(low, 0), high=(0, 0), value=0)
            wide.append(rows)
    made = [*wide[2:], *flat[1:]]
    return inputs, rng.sample(made, rng.randint(1, len(made)))


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int) -> None:
    changed = 0
    for _ in range(15):
        seed = random.randrange(1 << 40)
        print(f"seed {seed}")
        rng, values = random.Random(seed), np.random.default_rng(seed)
        inputs, outputs = draw(rng, rng.choice([2, 3, 4, 5]), rng.choice([1, 3, 5, 8, 17, 40]))
        for kernel, got, want in run_both(inputs, [values.standard_normal(i.shape) for i in inputs], outputs):
            for g, w in zip(got, want, strict=True):
                assert g.tobytes() == np.ascontiguousarray(w).tobytes(), kernel
            flat = unroll(kernel)
            if flat is kernel:
                continue
            changed += 1
            verify(flat)
            arrays = [values.standard_normal(b.shape).astype(b.dtype.numpy) for b in kernel.inputs]
            for pairs in ((), *[[p] for p in in_place(kernel)]):
                for g, w in zip(evaluate(flat, arrays, (), pairs)[0], evaluate(kernel, arrays)[0], strict=True):
                    assert g.tobytes() == w.tobytes(), (pairs, kernel)
            assert operations(flat) <= operations(kernel)
    assert changed


def test_parts_are_computed_once() -> None:
    """Rows that are joined and read again: the kernel computes each of them for its own store, and has one loop nest."""
    x = leaf(np.zeros((3, 64)))
    rows = [call.slice(x, start=(k, 0), step=(1, 1), shape=(1, 64)) for k in range(3)]
    one = [bind(TABLE["exp"], call.multiply(rows[k], rows[k - 1])) for k in range(3)]
    joined = call.concat(*one, axis=0)
    (fused,) = kernels_of([x], [call.add(joined, full(1, (), FLOAT64)), call.reshape(call.add(one[0], one[1]), shape=(64,))])
    assert fused.kernel is not None
    flat = unroll(fused.kernel)
    exps = [v for phase in flat.phases for v in walk(roots(phase.stages)) if v.op == "exp"]
    assert (len(flat.phases), len(exps)) == (1, 3)
    assert operations(flat) < operations(fused.kernel) / 2


def test_values_that_are_not_chosen() -> None:
    """b2[0] = b0[0]; b3[0] = b1[0]: with the choice folded, b2 in the memory of b1 would be written before b1 is read."""
    x, y = leaf(np.zeros((2, 40))), leaf(np.zeros((2, 40)))
    first = call.less(call.iota(shape=(2, 1), dtype=INT64, axis=0), full(1, (2, 1), INT64))
    one = call.where(first, x, y)
    outputs = [one, call.where(first, y, one)]
    for kernel, got, want in run_both([x, y], [np.random.default_rng().standard_normal((2, 40)) for _ in range(2)], outputs):
        assert (1, 0) in in_place(kernel)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)

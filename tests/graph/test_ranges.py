"""Ranges of integers: never narrower than what a graph's numbers are, and narrow enough that sure checks go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tests import oracle
from tests.fuzz.expressions import graph_of
from weft.dtypes.formats import BOOL, FLOAT32, INT8, INT32, INT64, UINT8, UINT32, UINT64
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.graph.primitives import bind, constant, input_leaf
from weft.graph.primitives.call import call, cast
from weft.graph.primitives.kinds import BITS
from weft.graph.primitives.table import TABLE
from weft.graph.ranges import Range, note, remove_certain_checks
from weft.schedule.build import build
from weft.schedule.index_checks import sites

pytestmark = pytest.mark.usefixtures("lazy")

SHAPE = (3, 5)
TWO = ("add", "subtract", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_right_shift",
       "bitwise_left_shift", "remainder", "floor_divide")
ONE = ("negative", "abs", "square", "sign", "bitwise_invert")
DTYPES = [INT8, UINT8, INT32, UINT32, INT64, UINT64, BOOL]


def grown(r: np.random.Generator) -> tuple[Graph, list[np.ndarray]]:
    """A graph of integers, every node of which is a result, and what it is given."""
    inputs, arrays, nodes = [], [], []
    for _ in range(3):
        dtype = DTYPES[r.integers(len(DTYPES))]
        wide = r.random() < 0.3 and dtype is not BOOL
        low, high = (dtype.least, dtype.greatest) if wide else (0 if dtype.kind != "signed" else -9, 1 if dtype is BOOL else 9)
        node = input_leaf(SHAPE, dtype)
        inputs.append(node)
        nodes.append(node)
        drawn = r.integers(low, high, SHAPE, dtype=np.int8 if dtype is BOOL else dtype.numpy, endpoint=True)
        arrays.append(drawn.astype(dtype.numpy))
    nodes.append(call.iota(shape=SHAPE, dtype=INT64, axis=1))
    for _ in range(12):
        x = nodes[r.integers(len(nodes))]
        nodes.append(_step(r, x, nodes))
    used = [n for n in nodes if n not in inputs]
    return Graph(inputs, used), arrays


def _step(r: np.random.Generator, x: Node, nodes: list[Node]) -> Node:
    kind = r.integers(8)
    if x.dtype is BOOL or kind == 0:
        return cast(x, DTYPES[r.integers(len(DTYPES) - 1)])
    if kind == 1:
        return bind(TABLE[ONE[r.integers(len(ONE))]], x)
    if kind == 2:
        number = int(r.integers(1, 20))
        return bind(TABLE[TWO[r.integers(len(TWO))]], x, call.broadcast_to(constant(number, x.dtype), shape=SHAPE))
    if kind == 3:
        mates = [n for n in nodes if n.dtype == x.dtype]
        return bind(TABLE[TWO[r.integers(len(TWO))]], x, mates[r.integers(len(mates))])
    if kind == 4:
        mates = [n for n in nodes if n.dtype == x.dtype]
        return call.where(call.less(x, mates[0]), x, mates[r.integers(len(mates))])
    if kind == 5:
        many = call.concat(x, call.pad(x, low=(0, 1), high=(0, 0), value=int(r.integers(0, 5))), axis=1)
        return call.slice(many, start=(0, 3), step=(1, 1), shape=SHAPE)
    if kind == 6:
        name = ("reduce_max", "argmax", "argmin", "reduce_min")[r.integers(4)]
        found = bind(TABLE[name], x, axes=(1,), keepdims=True)
        return call.broadcast_to(found, shape=SHAPE)
    rows = call.remainder(cast(x, INT64), constant(3, INT64))
    return call.slice(call.gather(x, call.reshape(rows, shape=(15,)), axes=(0,)), start=(0, 0), step=(1, 1), shape=SHAPE)


@pytest.mark.parametrize("part", range(8))
def test_nothing_is_outside_its_range(part: int) -> None:
    r = oracle.rng()
    for _ in range(60):
        graph, arrays = grown(r)
        with np.errstate(all="ignore"):
            values = interpret(graph, arrays)
        known: dict[Node, Range] = {}
        for node, value in zip(graph.outputs, values, strict=True):
            note(node, known)
            if node.dtype in BITS and value.size:
                low, high = known[node]
                assert low <= int(value.min()) and int(value.max()) <= high, (node, known[node], value.min(), value.max(), graph)


N = 7


def _checks(f: Callable, *arrays: np.ndarray) -> int:
    return len(sites(build(graph_of([f(*map(wf.array, arrays))])[0])))


X, PLACES = np.arange(N * 4.0).reshape(N, 4), np.array([3, 1, 6, 0])
SURE: dict[str, tuple[Callable, tuple[np.ndarray, ...]]] = {
    "arange": (lambda x: x[wf.arange(N)], (X,)),
    "reversed arange": (lambda x: x[N - 1 - wf.arange(N)], (X,)),
    "argmax": (lambda x: x[x.argmax(axis=0)], (X,)),
    "argsort": (lambda x: x[wf.argsort(x[:, 0])], (X,)),
    "clipped": (lambda x, i: x[wf.clip(i, 0, N - 1)], (X, PLACES)),
    "remainder": (lambda x, i: x[i % N], (X, PLACES)),
    "masked bits": (lambda x, i: x[(i >> 2) & 3], (X, PLACES)),
    "of a table of places": (lambda x, i: x[wf.minimum(wf.arange(20), N - 1)[i % 20]], (X, PLACES)),
    "random": (lambda x: x[wf.random.randint(0, N, (9,))], (X,)),
    "chosen": (lambda x, i: x[wf.where(i > 0, i % N, 0)], (X, PLACES)),
    "in a loop": (lambda x: wf.scan(lambda c, k: (c + x[k], k), x[0], wf.arange(N))[0], (X,)),
}
UNSURE: dict[str, tuple[Callable, tuple[np.ndarray, ...], int]] = {
    "given": (lambda x, i: x[i], (X, PLACES), 1),
    "too far": (lambda x: x[wf.arange(N) + 1 - 1 * (x[:, 0] > -1)], (X,), 1),
    "from the end": (lambda x: x[wf.arange(N) - 2], (X,), 1),
    "wraps around": (lambda x, i: x[(i.astype("int8") % 100 * 3).astype("int64")], (X, PLACES), 1),
    "beside sure ones": (lambda x, i: x[wf.concatenate([i, wf.arange(N)])], (X, PLACES), 1),
}


@pytest.mark.parametrize("name", SURE)
def test_sure_indices_are_not_checked(name: str) -> None:
    f, arrays = SURE[name]
    assert _checks(f, *arrays) == 0


@pytest.mark.parametrize("name", UNSURE)
def test_the_others_are(name: str) -> None:
    f, arrays, count = UNSURE[name]
    assert _checks(f, *arrays) == count


def test_the_part_of_a_concatenation_that_is_wrong_is_told() -> None:
    f = wf.jit(lambda x, i: x[wf.concatenate([wf.arange(N), i])])
    x = wf.array(X)
    np.testing.assert_array_equal(f(x, wf.array(PLACES)).numpy(), X[np.concatenate([np.arange(N), PLACES])])
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 7"):
        f(x, wf.array([0, N])).numpy()


def test_a_loop_that_draws_its_rows_writes_over_its_carries() -> None:
    """Nothing in it can fail half-way, so it needs no copy of a table that it changes."""
    sampler = wf.data.UnigramSampler(np.arange(1, 30))

    def f(table: wf.Array) -> wf.Array:
        def step(c: wf.Array, _: wf.Array) -> tuple[wf.Array, wf.Array]:
            rows = sampler.sample((5,), without=wf.array([1, 2, 3, 4, 5]))
            return wf.scatter_add(c, rows, wf.ones((5, 3)), axes=(0,)), rows

        return wf.scan(step, table, wf.arange(4))[0]

    assert _checks(f, np.zeros((29, 3), np.float32)) == 0


def test_graphs_without_sure_checks_are_left_alone() -> None:
    x, i = input_leaf((4,), FLOAT32), input_leaf((3,), INT64)
    graph = Graph([x, i], [call.gather(x, call.in_bounds(i, extent=4, axis=0, from_end=True), axes=(0,))])
    assert remove_certain_checks(graph) is graph


def test_inputs_are_anything_however_they_came_about() -> None:
    index = wf.array([1, 2]) + wf.array([0, 1])
    wf.eval(index)
    assert index.node.op.name == "add" and not index.node.inputs
    assert len(sites(build(graph_of([wf.arange(4.0)[index]])[0]))) == 1

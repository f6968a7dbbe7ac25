"""Expressions: functions of arrays without a side effect, compared at every level, lazily and jitted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import levels
from tests.fuzz.elementwise import PLAIN, REDUCE
from tests.fuzz.grow import FLOATS, Growth, Table, size
from tests.fuzz.layers import LOOPS, NETS
from tests.fuzz.levels import AT_ONCE, UNSEEN, Mismatch, tier, want
from tests.fuzz.library import LIBRARY
from tests.fuzz.moving import INDEX, SHAPES, unknown
from tests.fuzz.program import Program, primitive, ruled
from tests.fuzz.record import RECORD
from weft.errors import TraceError
from weft.graph.node import Graph, topological_order
from weft.graph.primitives.table import SCALAR
from weft.runtime import execute

ALL: Table = [(1.2, lambda g: None)]  # replaced below


def table(**weights: float) -> Table:
    """The tables of lines, each as a whole so heavy."""
    rooms = {"plain": PLAIN, "reduce": REDUCE, "shapes": SHAPES, "index": INDEX, "nets": NETS, "loops": LOOPS, "library": LIBRARY}
    out: Table = []
    for name, weight in weights.items():
        total = sum(w for w, _ in rooms[name])
        out += [(weight * w / total, maker) for w, maker in rooms[name]]
    return out


MIXTURES = [
    (3.0, table(plain=3, reduce=2, shapes=3, index=1, nets=0.5, loops=0.2)),
    (1.5, table(plain=2, reduce=4, shapes=3)),
    (1.5, table(plain=2, reduce=1, shapes=2, index=4)),
    (1.5, table(plain=1.5, reduce=1, shapes=1, nets=4)),
    (0.7, table(plain=2, reduce=1, shapes=1, nets=1, loops=4)),
    (1.0, table(plain=2, reduce=1, shapes=1, library=4)),
]


def grown(r: random.Random) -> Program:
    """A random expression."""
    dtype = r.choices(FLOATS, (6, 2, 1, 1, 0.5, 0.5))[0]
    kind = r.choices(("normal", "few", "special", "unit"), (6, 1.5, 1, 1))[0]
    g = Growth(r, dtype, kind)
    for _ in range(r.choice((1, 2, 2))):
        g.input(shape(r))
    if r.random() < 0.3:
        g.input(g.shape("x0"), r.choice(("int32", "int64", "uint8", "int8", "bool", "int16", "uint32", "uint64", "uint16")))
    steps = r.choices([t for _, t in MIXTURES], [w for w, _ in MIXTURES])[0]
    for _ in range(r.randint(1, 8)):
        g.step(steps)
    options: dict[str, Any] = {}
    if r.random() < 0.04:
        g.step([(1.0, unknown)])
    return g.program("expression", **options)


def shape(r: random.Random) -> tuple[int, ...]:
    ndim = r.choices((0, 1, 2, 3, 4), (0.3, 3, 5, 2, 0.7))[0]
    most = {0: 70, 1: 70, 2: 70, 3: 17, 4: 9}[ndim]
    while True:
        found = tuple(size(r, most) for _ in range(ndim))
        if int(np.prod(found)) <= 3000:
            return found


def function(program: Program) -> Any:
    """The program's lines as a Python function of its inputs."""
    space: dict[str, Any] = {"wf": wf, "np": np, "nan": np.nan, "inf": np.inf, "primitive": primitive, "ruled": ruled}
    exec(program.source(), space)  # noqa: S102  the fuzzer's own text
    return space["f"]


def graph_of(outputs: list[Any]) -> tuple[Graph, list[Any]]:
    """What a look at these arrays would run, and the values of its leaves."""
    nodes = [o.node for o in outputs]
    leaves = [n for n in topological_order(nodes) if n.value is not None]
    values = [n.value if n.op is SCALAR else np.array(execute.to_numpy(n.value, n.shape, n.dtype)) for n in leaves]
    return Graph(leaves, nodes), values


def check(program: Program) -> None:
    """Every level of a program."""
    f = function(program)
    arrays = [i.array() for i in program.inputs]
    outputs = list(f(*map(wf.array, arrays)))
    graph, values = graph_of(outputs)
    RECORD.graph(graph)
    expected = levels.check_graph(graph, values, RECORD.kernel)
    RECORD.results(program, expected)
    wf.eval(outputs)
    for k, (o, e) in enumerate(zip(outputs, expected, strict=True)):
        want("lazily", o.numpy(), e, f"output {k}")
    again = list(f(*map(wf.array, arrays)))
    for k in random.Random(program.seed).sample(range(len(again)), len(again)):
        want("looked at one by one", again[k].numpy(), expected[k], f"output {k}")
    for name, kind in (("at once", AT_ONCE), ("unseen", UNSEEN)):
        with tier(*kind):
            for k, (o, e) in enumerate(zip(f(*map(wf.array, arrays)), expected, strict=True)):
                want(name, o.numpy(), e, f"output {k}")
    jitted(f, program, arrays, expected)


def jitted(f: Any, program: Program, arrays: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """The same bits under jit: the first call, the second, and one with other numbers."""
    compiled = wf.jit(f)
    try:
        first = compiled(*map(wf.array, arrays))
    except TraceError:
        RECORD.count("looks, so not under jit")
        return
    for name, got in (("first call", first), ("second call", compiled(*map(wf.array, arrays)))):
        for k, (o, e) in enumerate(zip(got, expected, strict=True)):
            want("jitted", o.numpy(), e, f"output {k}, {name}")
    fresh = [i.array(1) for i in program.inputs]
    lazily = f(*map(wf.array, fresh))
    for k, (o, e) in enumerate(zip(compiled(*map(wf.array, fresh)), lazily, strict=True)):
        want("jitted", o.numpy(), e.numpy(), f"output {k}, other numbers, against lazily")
    if compiled.traces > 3:  # results that are views are traced up to three times
        raise Mismatch("jitted", f"traced {compiled.traces} times for arguments of one kind")

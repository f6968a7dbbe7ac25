"""A graph at every level, each compared with the one above it: bits where weft promises bits.

    node by node     each node alone, as a kernel of its own run by ``evaluate``, against its NumPy reference (with a bound)
    fused            the kernels of ``build``, run by ``evaluate``: the bits of node by node
    verified         every kernel passes ``verify``
    compiled         every kernel, in memory that ends (begins) at a page nobody may touch: the bits of ``evaluate``
    in place         every kernel once for each pair of ``in_place``, with the memory really shared: the same bits
    run              the whole program by the runtime, with one thread and two, and with inputs given away: the same bits

Because each level is given what the level above it was given, no error grows from step to step, and a comparison or a
floor in the middle of a graph needs no care: one node's bound is all that is ever allowed for.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tests import oracle
from tests.fuzz import native
from tests.fuzz.bounds import check_node
from tests.kernel.evaluate import evaluate, shown
from tests.kernel.verify import verify
from weft.devices import get_device
from weft.graph.calls import inline
from weft.graph.loops import SCAN, UNBOUNDED
from weft.graph.node import Graph, Node, frozen
from weft.graph.primitives import CONSTANT
from weft.graph.primitives.table import SCALAR, bind, input_leaf, scalar_leaf
from weft.kernel.hazards import in_place
from weft.kernel.ir import Chain, Contraction, Kernel, Stage, Store, Value
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.schedule.build import build
from weft.schedule.program import Call, Copy, HostCall, Loop, Program, calls

Watch = Callable[[Kernel, list[np.ndarray], list[Any], list[np.ndarray]], None]


COMPILED = 0, 0.0  # bytes that are computed in operators, and patience with graphs that are not compiled
UNSEEN = 0, 1e9
AT_ONCE = 128 << 10, 1e9


@contextmanager
def tier(at_once: int, patience: float) -> Iterator[None]:
    """While it lasts, what runs is compiled, runs node by node, or is computed at once."""
    before = CONTEXT.max_eager_bytes, CONTEXT.compile_threshold
    CONTEXT.max_eager_bytes, CONTEXT.compile_threshold = at_once, patience
    try:
        yield
    finally:
        CONTEXT.max_eager_bytes, CONTEXT.compile_threshold = before


class Mismatch(Exception):
    """Two levels disagree. ``level`` is the one that is wrong if the one above it is right."""

    def __init__(self, level: str, message: str) -> None:
        super().__init__(f"{level}: {message}")
        self.level = level


def differ(a: np.ndarray, b: np.ndarray) -> str:
    """How two arrays that should be equal differ, in a line."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} is not {b.dtype}{list(b.shape)}"
    bad = [at for at in np.ndindex(*a.shape) if not native.same(np.asarray(a[at]), np.asarray(b[at]))]
    return f"{len(bad)} of {a.size} elements, first {bad[0]}: {a[bad[0]]!r} is not {b[bad[0]]!r}"


def want(level: str, got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Raise Mismatch unless the bits are equal."""
    if not native.same(np.asarray(got), np.asarray(expected)):
        raise Mismatch(level, f"{what}: {differ(np.asarray(got), np.asarray(expected))}")


# node by node

_SINGLE: dict[Any, tuple[Graph, Program]] = {}


def _single(node: Node) -> Program:
    """The program of one node alone."""
    key = (node.op.name, frozen(node.params), tuple((i.shape, i.dtype, i.op is SCALAR) for i in node.inputs))
    found = _SINGLE.get(key)
    if found is None:
        if len(_SINGLE) > 5000:
            _SINGLE.clear()
        leaves = [scalar_leaf(None, i.dtype) if i.op is SCALAR else input_leaf(i.shape, i.dtype) for i in node.inputs]
        graph = Graph(leaves, [bind(node.op, *leaves, **node.params)])
        found = _SINGLE[key] = graph, build(graph)
    return found[1]


def node_by_node(graph: Graph, values: Sequence[Any], check: bool = True) -> dict[Node, Any]:
    """The value of every node, each computed by a kernel of its own; of a loop, the list of its results."""
    known: dict[Node, Any] = {n: np.asarray(v, n.dtype.numpy) for n, v in zip(graph.inputs, values, strict=True)}
    for node in graph.order:
        if node in known:
            continue
        if node.op is CONSTANT:
            known[node] = np.asarray(node.params["value"], node.dtype.numpy)
            continue
        args = [known[i] for i in node.inputs]
        if node.op is SCAN:
            known[node] = _loop(node, args, check)
        elif node.op.name == "item":
            known[node] = args[0][node.params["index"]]
        else:
            (known[node],) = perform(_single(node), args)
            if check:
                problem = check_node(node, args, known[node])
                if problem:
                    raise Mismatch("node by node", f"{node!r} of {', '.join(map(repr, node.inputs))}: {problem}")
    return known


def _loop(scan: Node, operands: list[np.ndarray], check: bool) -> list[np.ndarray]:
    """What a loop gives, step by step: last carries, stacked outputs, the tape."""
    body, carries, xs = scan.params["body"].graph, scan.params["carries"], scan.params["xs"]
    count = int(operands.pop()) if scan.params["counted"] else scan.params["length"]
    state, stacked, constants = operands[:carries], operands[carries: carries + xs], operands[carries + xs:]
    length = scan.params["length"]
    count = min(max(count, 0), length)
    nothing = [np.zeros(n.shape, n.dtype.numpy) for n in (*body.outputs[carries:], *body.inputs[:carries])]
    rows: list[Any] = [nothing] * (length if length < UNBOUNDED else 64)  # the others are bounded by the fuzzer's programs
    for t in reversed(range(count)) if scan.params["reverse"] else range(count):
        if scan.params["until"] and not state[0]:
            break
        before = state
        known = node_by_node(body, [*before, *(x[t] for x in stacked), *constants], check)
        out = [known[o] for o in body.outputs]
        state = out[:carries]
        rows[t] = [*out[carries:], *before]
    return [*state, *(np.stack(column) for column in zip(*rows, strict=True))]


# programs, run in Python


def perform(program: Program, values: Sequence[Any], watch: Watch | None = None) -> list[np.ndarray]:
    """Run a Program by ``evaluate``: a real arena, aliases, loops. ``watch`` sees every call of a kernel."""
    arena = np.full(program.arena + 64, 0xA5, np.uint8)
    inputs = [np.ascontiguousarray(np.asarray(v, d.numpy)).reshape(s) for v, (s, d) in zip(values, program.inputs, strict=True)]
    outputs = [np.zeros(s, d.numpy) for s, d in program.outputs]

    def memory(i: int) -> np.ndarray:
        slot = root = program.slots[i]
        while root.kind == "alias":
            root = program.slots[root.of]
        if root.kind == "arena":
            size = int(np.prod(root.shape)) * root.dtype.bytes
            content = arena[root.offset: root.offset + size]
        else:
            content = (inputs if root.kind == "input" else outputs)[root.position].reshape(-1).view(np.uint8)
        return content.view(slot.dtype.numpy).reshape(slot.shape)  # an alias may have another dtype of as many bytes

    for step in program.steps:
        if isinstance(step, Call):
            count = len(step.kernel.inputs)
            buffers = (*step.kernel.inputs, *step.kernel.outputs)
            seen = [shown(memory(a), b) for a, b in zip(step.args, buffers, strict=True)]
            given = [a.copy() for a in seen[:count]]
            scalars = [values[p] for p in step.scalars]
            done, _ = evaluate(step.kernel, given, scalars, (), native.OPERATIONS)
            if own_order(step.kernel) and not any(b.order for b in buffers):  # native code is the CPU's, row by row
                done = near(step.kernel, native.run(step.kernel, given, scalars), done, overflowing(step.kernel, given, scalars))
            if watch is not None:
                watch(step.kernel, given, scalars, done)
            for target, result in zip(seen[count:], done, strict=True):
                target[...] = result
        elif isinstance(step, HostCall):
            memory(step.out)[...] = step.fn(*map(memory, step.args), **step.params)
        elif isinstance(step, Copy):
            target = memory(step.target)
            target[...] = memory(step.source).reshape(target.shape)
        else:
            _perform_loop(step, memory, watch)
    return outputs


def _perform_loop(step: Loop, memory: Callable[[int], np.ndarray], watch: Watch | None) -> None:
    state = [memory(c.init).copy() for c in step.carries]
    xs, constants = [memory(x).copy() for x in step.xs], [memory(c).copy() for c in step.constants]
    count = step.length if step.count < 0 else min(max(int(memory(step.count)), 0), step.length)
    order = range(count - 1, -1, -1) if step.reverse else range(count)
    for y in step.ys if count < step.length or step.until else ():
        memory(y)[...] = 0
    for t in order:
        if step.until and not state[0]:
            break
        for carry, value in zip(step.carries, state, strict=True):
            if carry.tape >= 0:
                memory(carry.tape)[t] = value
        seen = watch if t in (order[0], order[-1]) else None
        out = perform(step.body, [*state, *(x[t] for x in xs), *constants], seen)
        state = out[: len(state)]
        for y, value in zip(step.ys, out[len(state):], strict=True):
            memory(y)[t] = value
    for carry, value in zip(step.carries, state, strict=True):
        memory(carry.result)[...] = value


# kernels


def own_order(kernel: Kernel) -> bool:
    """Whether the kernel sums in an order of its own, which the kernel IR does not say: weight gradients of convolutions, and
    chains of products."""
    stages = [stage for phase in kernel.phases for stage in phase.stages]
    return any(isinstance(s, Chain) or (isinstance(s, Contraction) and s.order is None) for s in stages)


def adds_up(kernel: Kernel) -> bool:
    """Whether numbers are added up, in an order that a device may have of its own."""
    stages = [stage for phase in kernel.phases for stage in phase.stages]
    return any(
        not isinstance(s, Stage) or any(r.monoid == "sum" for r in s.reductions) or any(x.adds for x in s.stores) for s in stages
    )


def overflowing(kernel: Kernel, given: Sequence[np.ndarray], scalars: Sequence[Any]) -> list[np.ndarray]:
    """Where a sum may overflow on its way: where the sum of the magnitudes of finite inputs comes near that."""
    def size(x: Any) -> Any:
        return np.where(np.isfinite(x), np.abs(x), 0).astype(x.dtype) if oracle.is_float(np.asarray(x).dtype) else x

    with np.errstate(all="ignore"):
        made, _ = evaluate(_sums_only(kernel), [size(x) for x in given], [abs(s) for s in scalars], (), native.OPERATIONS)
        most = [float(ml_dtypes.finfo(m.dtype).max) / 4 if oracle.is_float(m.dtype) else np.inf for m in made]
        return [~(np.abs(np.asarray(m, np.float64)) <= limit) for m, limit in zip(made, most, strict=True)]


def _sums_only(kernel: Kernel) -> Kernel:
    """The kernel with the sums of its contraction stored in place of what it makes of them."""
    def plain(store: Store, c: Contraction) -> Store:
        dtype = store.access.buffer.dtype
        if not oracle.is_float(dtype):
            return store
        total = Value("acc", (), c.accum, c.id)
        return replace(store, value=total if dtype == c.accum else Value("cast", (total,), dtype))

    phases = tuple([
        replace(phase, stages=tuple([
            replace(s, stores=tuple([plain(x, s) for x in s.stores])) if isinstance(s, Contraction) else s for s in phase.stages
        ])) for phase in kernel.phases
    ])
    return replace(kernel, phases=phases)


def near(
    kernel: Kernel, got: list[np.ndarray], expected: list[np.ndarray], over: Sequence[Any], given: Sequence[np.ndarray] = (),
) -> list[np.ndarray]:
    """``got``, where it is close to what evaluate gives; the levels below are held to its bits.

    What is left where the numbers ``given`` are added up and cancel is off by their roundings, however small it is.

    Where a sum may overflow on its way (``over``, by element), an infinity of the other sign makes NaN of that in one order,
    and none in another.
    """
    summed = min([s.accum.bytes for p in kernel.phases for s in p.stages if isinstance(s, Contraction)], default=8)
    floats = [np.asarray(x, np.float64) for x in given if oracle.is_float(x.dtype)] if adds_up(kernel) else []
    cancelled = sum([float(np.abs(x[np.isfinite(x)]).sum()) for x in floats])
    for k, (g, e, beyond) in enumerate(zip(got, expected, over, strict=True)):
        if oracle.is_float(g.dtype):
            a, b = np.asarray(g, np.float64), np.asarray(e, np.float64)
            largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=1e-30))
            rate = {1: 0.3, 2: 0.05, 4: 1e-4, 8: 1e-10}[min(g.dtype.itemsize, summed)]
            unit = 2.0 ** (-52 if min(g.dtype.itemsize, summed) == 8 else -23)
            far = ~(np.abs(a - b) <= rate * largest + unit * cancelled) & ~np.isnan(b) & ~np.isinf(a) & ~np.isinf(b)
            far &= ~(np.isnan(a) & beyond)
        else:
            far = np.asarray(g != e)
            if far.mean() < 0.05:  # a comparison of two numbers that are equal but for their last bits
                continue
        if far.any():
            raise Mismatch(
                "compiled", f"output {k} of kernel {kernel.name}, whose sums have an order of their own: {differ(g, e)}",
            )
    return got


def check_kernel(kernel: Kernel, inputs: list[np.ndarray], scalars: list[Any], expected: list[np.ndarray]) -> None:
    """Verify, compile and run one kernel, also in place."""
    from weft.kernel.printer import kernel_key

    text = str(kernel_key(kernel))
    try:
        verify(kernel)
    except AssertionError as error:
        raise Mismatch("verified", f"{error}\n{text}") from error
    for behind in (True, False):
        got = native.run(kernel, inputs, scalars, behind)
        compared("compiled", kernel, got, expected, text)
    pairs = in_place(kernel)
    together: list[tuple[int, int]] = []
    for i, o in pairs:
        compared("in place", kernel, native.run(kernel, inputs, scalars, True, [(i, o)]), expected, f"pair {(i, o)}\n{text}")
        if all(i != a and o != b for a, b in together):
            together.append((i, o))
    for processor in sorted(set(native.isas()) - {"host"}):
        chosen = zlib.crc32((text + processor).encode()) % 12 == 0  # the same in every run
        if chosen and not own_order(kernel) and native.same_bits(kernel, processor):
            got = native.run(kernel, inputs, scalars, True, together[:1], native.native_for(kernel, processor))
            compared(f"compiled for {processor}", kernel, got, expected, text)
    if len(together) > 1:
        compared("in place", kernel, native.run(kernel, inputs, scalars, True, together), expected, f"pairs {together}\n{text}")


def compared(level: str, kernel: Kernel, got: list[np.ndarray], expected: list[np.ndarray], text: str) -> None:
    for k, (g, e) in enumerate(zip(got, expected, strict=True)):
        if not native.same(g, e):
            raise Mismatch(level, f"output {k} of kernel {kernel.name}: {differ(g, e)}\n{text}")


# whole graphs


def check_graph(graph: Graph, values: Sequence[Any], taken: Callable[[Kernel], None] | None = None) -> list[np.ndarray]:
    """All levels of a graph; the outputs, node by node.

    Parameters
    ----------
    values : an array or number for each of ``graph.inputs``
    taken : is told of every kernel
    """
    graph = inline(graph)
    known = node_by_node(graph, values)
    expected = [known[o] for o in graph.outputs]
    whole = execute.copy_structure(graph)
    program = build(whole)
    seen: list[tuple[Kernel, list[np.ndarray], list[Any], list[np.ndarray]]] = []
    got = perform(program, values, lambda *call: seen.append(call))
    for call in seen:
        if taken is not None:
            taken(call[0])
        check_kernel(*call)
    own = [call for call in seen if own_order(call[0])]
    if own:
        beyond = any(o.any() for kernel, given, scalars, _ in own for o in overflowing(kernel, given, scalars))
        expected = near(seen[0][0], got, expected, [beyond] * len(got))
    for k, (g, e) in enumerate(zip(got, expected, strict=True)):
        want("fused", g, e, f"output {k} by evaluate")
    check_run(graph, program, values, expected)
    return expected


def check_run(graph: Graph, program: Program, values: Sequence[Any], expected: list[np.ndarray]) -> None:
    """The runtime's own run of the program."""
    run = execute.executable(graph)
    device = get_device()
    before = device.pool.threads
    parallel = any(native.native(c.kernel).loaded.parallel for c in calls(program))

    def once(what: str, held: bool) -> None:
        given = [
            v if n.op is SCALAR else execute.to_buffer(np.asarray(v, n.dtype.numpy))
            for n, v in zip(graph.inputs, values, strict=True)
        ]
        marks = None if held else [n.op is SCALAR for n in graph.inputs]
        out = run(given, marks)
        del given
        for k, (buffer, e, node) in enumerate(zip(out, expected, graph.outputs, strict=True)):
            want("run", execute.to_numpy(buffer, node.shape, node.dtype), e, f"output {k}, {what}")

    try:
        for threads in (2, 1) if parallel else (before,):
            device.pool.set_threads(threads) if threads != device.pool.threads else None
            once(f"{threads} threads", True)
        once("inputs given away", False)
    finally:
        if device.pool.threads != before:
            device.pool.set_threads(before)

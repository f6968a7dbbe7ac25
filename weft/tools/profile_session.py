"""A profiling session: what this thread runs is timed step by step, and new nodes know their layer and phase.

Programs of a session are compiled with time stamps between their kernels, which come from the cache. Jitted functions are traced
again by separate twins, so that their nodes carry marks. The last parts measure calls and count the work of each step.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.operators import mark_nodes
from weft.devices.base import Timing
from weft.devices.faults import IndexFault
from weft.eager.materialise import evaluate
from weft.errors import DeviceError, TraceError
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import INPUT, SCALAR
from weft.graph.source_lines import ORIGIN
from weft.nn.module import Module
from weft.nn.module_tree import WATCH
from weft.placement.device_figures import Machine
from weft.runtime import execute
from weft.runtime.context import LOCAL
from weft.runtime.execute import refused, told
from weft.schedule.build import built
from weft.schedule.fuse import Fused
from weft.schedule.fusion_graph import strip
from weft.schedule.index_checks import sites
from weft.schedule.kernel_info import kernel_info
from weft.schedule.program import Call, Copy, Host, Loop, Program
from weft.transforms.jit import Jitted
from weft.transforms.reach import contents_of, names_in
from weft.transforms.tree import structure_changed

_ONE = threading.Lock()  # two profiles at once would time each other


def check_device() -> None:
    """Refuse, before anything runs, a device that cannot tell what its steps take.

    Raises
    ------
    DeviceError
        The device in use is one.
    """
    _timing(execute.device())


def _timing(device: Any) -> Timing:
    if isinstance(device, Timing):
        return device
    raise DeviceError(
        f"profile: the device {device.name!r} cannot time the steps of a program, the CPU can: profile there, inside "
        "`with wf.device('cpu'):`, or by --device cpu"
    )


@dataclass(eq=False)
class Unit:
    """A program that ran in the session. ``jitted``: the name of the jitted function that it is, "" for a look."""

    program: Program
    fused: list[Fused]
    run: Any  # TimedExecutable, or Executable where the session does not time
    jitted: str


@dataclass(frozen=True)
class Run:
    """One run of a unit: (begin, nanoseconds) of each step."""

    unit: Unit
    times: list[tuple[int, int]]


class Session:
    """Use with ``with``. ``runs`` grows while ``recording``.

    Parameters
    ----------
    tool : the name of the function that errors name
    timed : whether runs have the times of their steps, which only some devices can tell
    """

    def __init__(self, tool: str = "profile", timed: bool = True) -> None:
        self.tool, self.timed = tool, timed
        self.units: dict[Any, Unit] = {}
        self.runs: list[Run] = []
        self.recording = False
        self.traced = 0  # how often a jitted function was traced while recording
        self._twins: dict[int, tuple[Jitted, Jitted]] = {}
        self._tracing = ""
        self._roots: dict[int, tuple[Module, int, dict[int, str]]] = {}  # module called outside of others: number, names inside
        self._stack: list[tuple[int, dict[int, str]]] = []
        self._kinds: dict[str, str] = {}  # mark of a layer -> its class
        self._before: tuple[Any, Any] = (None, None)

    def __enter__(self) -> Session:
        if LOCAL.inside or LOCAL.trace is not None or LOCAL.watch is not None or WATCH.watch is not None:
            raise TraceError(f"{self.tool}: not inside jit, grad, vmap, a model's summary or another profile; call it outside")
        if self.timed:
            check_device()
        _ONE.acquire()
        LOCAL.watch, WATCH.watch, ORIGIN.layer = self, self._module, ""
        mark_nodes(True)
        structure_changed()  # jitted functions leave their shortest way and ask for their twins
        return self

    def __exit__(self, *exc: object) -> None:
        LOCAL.watch, WATCH.watch, ORIGIN.layer = None, None, None
        mark_nodes(False)
        _ONE.release()

    # ---- what runs

    def executable(self, graph: Graph) -> Callable[..., list[Any]]:
        """In place of ``weft.runtime.execute.executable``."""
        key = (graph.key(), LOCAL.flush, self._tracing, tuple([n.where for n in graph.order]))
        unit = self.units.get(key)
        if unit is None:
            device = execute.device()
            program, fused = built(resolved(graph), device.target)
            compiled = _timing(device).compile_timed if self.timed else device.compile
            run = compiled(program, flush_denormals=LOCAL.flush)
            unit = self.units[key] = Unit(program, fused, run, self._tracing)

        def timed(inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
            try:
                out = unit.run(inputs, held)
            except IndexFault as fault:  # the unit was made of these lines
                site = sites(unit.program)[fault.site]
                raise told(fault, site, site.where) from None
            except ValueError as error:
                if not hasattr(error, "step"):
                    raise
                raise refused(error, error.step.where) from None
            if self.recording:
                self.runs.append(Run(unit, unit.run.times() if self.timed else []))
            return out

        return timed

    def twin(self, jitted: Jitted) -> Jitted:
        """A jitted function's stand-in, with programs of the session's."""
        known = self._twins.get(id(jitted))
        if known is None:
            known = self._twins[id(jitted)] = (jitted, _Twin(self, jitted))
        return known[1]

    # ---- layers

    def _module(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        before = ORIGIN.layer
        if self._stack and id(module) in self._stack[-1][1]:
            root, names = self._stack[-1]
        else:
            if id(module) not in self._roots:
                inside = {id(m): name for name, m in reversed(list(module.modules()))}
                self._roots[id(module)] = (module, len(self._roots), inside)
            _, root, names = self._roots[id(module)]
        self._stack.append((root, names))
        mark = ORIGIN.layer = f"{root}:{names[id(module)]}"
        self._kinds[mark] = type(module).__name__
        try:
            return module.forward(*args, **kwargs)
        finally:
            self._stack.pop()
            ORIGIN.layer = before

    def layer(self, mark: str) -> tuple[str, str]:
        """Name and class of the layer of a mark: its path in the model, behind the model's name where there are several."""
        number, colon, path = mark.partition(":")
        if not colon:
            return mark, "loss" if mark else ""
        kind = self._kinds[mark]
        roots = [m for m, _, _ in self._roots.values()]
        root = roots[int(number)]
        name = type(root).__name__
        alike = [m for m in roots if type(m) is type(root)]
        if len(alike) > 1:
            name += str(1 + next(k for k, m in enumerate(alike) if m is root))
        if not path:
            return (f"{name} (own)" if next(root.children(), None) is not None else name), kind
        return (path if len(roots) == 1 else f"{name}.{path}"), kind


class _Twin(Jitted):
    """Compiled in the session; knows which function it stands for."""

    def __init__(self, session: Session, jitted: Jitted) -> None:
        super().__init__(jitted.f, jitted.static_argnums, tuple(jitted.static_argnames))
        self._session = session

    def _trace_and_run(self, *args: Any, **kwargs: Any) -> Any:
        self._session.traced += self._session.recording
        before, self._session._tracing = self._session._tracing, getattr(self.f, "__name__", type(self.f).__name__)
        try:
            return super()._trace_and_run(*args, **kwargs)
        finally:
            self._session._tracing = before


def _mark(where: Any) -> tuple[Any, int, str, str | None]:
    if where is None:
        return None, -1, "", None
    return where if len(where) == 4 else (*where, "", None)


def resolved(graph: Graph) -> Graph:
    """A copy that holds no buffers, in which every node has (code, instruction, layer, phase).

    What rests on a gradient and is in no layer's forward pass is the update. In layers written by hand, functions called
    backward and update say it themselves. An update belongs to the layer of the gradient it rests on, if there is one, else
    to the layer of what rests on it.
    """
    known: dict[Node, Node] = {}
    after: set[Node] = set()
    owner: dict[Node, frozenset[str]] = {}
    marks: dict[Node, list[Any]] = {}
    for node in graph.order:
        code, instruction, layer, phase = _mark(node.where)
        if phase in ("backward", "update") or any(i in after for i in node.inputs):
            after.add(node)
        if phase is None and not layer and code is not None and code.co_name in ("backward", "update"):
            phase = code.co_name  # layers written by hand
        elif phase is None:
            phase = "forward" if layer or node not in after else "update"
        marks[node] = [code, instruction, layer, phase]
        owner[node] = frozenset((layer,)) if layer else frozenset().union(
            *(owner[i] for i in node.inputs if i in owner and marks[i][3] != "forward")
        )
    above: dict[Node, frozenset[str]] = {}
    for node in reversed(graph.order):
        mark = marks[node]
        if mark[3] == "update" and not mark[2] and node.size > 1:  # numbers of a step serve all layers
            of = owner[node] or above.get(node, frozenset())
            mark[2] = next(iter(of)) if len(of) == 1 else ""
        own = frozenset((mark[2],)) if mark[2] else above.get(node, frozenset())
        if mark[3] == "update":
            for i in node.inputs:
                above[i] = above.get(i, frozenset()) | own
    for node in graph.inputs:
        known[node] = Node(node.op if node.op is SCALAR else INPUT, (), {}, node.shape, node.dtype)
    for node in graph.order:
        if node not in known:
            inputs = tuple([known[i] for i in node.inputs])
            known[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, tuple(marks[node]))
    return Graph([known[n] for n in graph.inputs], [known[n] for n in graph.outputs])

SETTLE = 2  # calls before each round that are not counted: arrays change owners, caches fill
MOST_OBJECTS = 100_000


def check_call(tool: str, f: Any, repeat: Any) -> None:
    """Refuse what ``profile`` and ``bench`` (``tool``) cannot call, or not so often."""
    if not callable(f):
        raise TypeError(f"{tool}: {f!r} is not a function: give the function and its arguments, wf.{tool}(f, x)")
    if repeat is not None and (isinstance(repeat, bool) or not isinstance(repeat, int | np.integer)):
        raise TypeError(f"{tool}: repeat must be an integer, not {repeat!r}")
    if repeat is not None and repeat < 1:
        raise ValueError(f"{tool}: repeat must be at least 1, not {repeat}")


@contextlib.contextmanager
def contents_kept(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Iterator[list[Array]]:
    """Call ``f`` once and yield the Arrays that its calls reach; afterwards these have the contents from before.

    A first call that makes state (an optimizer's, say) counts: that state stays as this call left it.
    """
    arrays = reached(f, args, kwargs)
    evaluate(arrays)
    kept = [(array, array._node) for array in arrays]
    try:
        called(f, args, kwargs, arrays)
        made = reached(f, args, kwargs)
        if not {id(a) for a in made} <= {id(a) for a in arrays}:
            arrays = made
            evaluate(arrays)
            kept = [(array, array._node) for array in arrays]
        yield arrays
    finally:
        for array, node in kept:
            array._node = node


def name_of(f: Any) -> str:
    """Return the name of a function, or of its class."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def in_notebook() -> bool:
    """Whether a result is shown by itself."""
    from rich.console import Console

    return Console().is_jupyter


def called(f: Callable, args: tuple, kwargs: dict[str, Any], reached: Sequence[Array]) -> int:
    """Call, compute what comes out and what was written; nanoseconds."""
    begin = time.perf_counter_ns()
    out = f(*args, **kwargs)
    pending = [a for a in reached if a._node.value is None]
    if pending or not isinstance(out, Array) or out.node.value is None:
        evaluate(out, pending)
    return time.perf_counter_ns() - begin


def measured(
    session: Session, call: Callable[[], int], repeat: int | None, budget: float,
) -> tuple[list[int], list[int], list[list[Run]]]:
    """Nanoseconds of whole calls; of calls in the session; and the runs of each of these. ``budget``: seconds for all of it."""
    once = min(call(), call()) * 1e-9
    count = repeat if repeat is not None else int(min(200, max(3, budget / 2 / max(once, 1e-7))))
    rounds = min(count, 4)
    wholes: list[int] = []
    timed: list[int] = []
    runs: list[list[Run]] = []
    for r in range(rounds):  # plain and timed calls in turns, so that a busy moment meets both
        share = count * (r + 1) // rounds - count * r // rounds
        for _ in range(SETTLE if once < 0.5 else 1):
            call()
        wholes += [call() for _ in range(share)]
        with session:
            for _ in range(SETTLE if r else SETTLE + 1):
                call()
            session.recording = True
            for _ in range(share):
                session.runs = []
                timed.append(call())
                runs.append(session.runs)
            session.recording = False
    return wholes, timed, runs


def reached(*roots: Any) -> list[Array]:
    """Every Array with a content of its own that the roots lead to, and the random state."""
    from weft.functions.random import state

    found: dict[int, Array] = {}
    seen: dict[int, Any] = {}
    stack: list[Any] = [*roots, state._STATE.key, state._STATE.base]
    while stack and len(seen) < MOST_OBJECTS:
        item = stack.pop()
        if item is None or isinstance(item, int | float | str | bytes | type | types.ModuleType | np.ndarray) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Array):
            found[id(item.cell)] = item.cell
        elif isinstance(item, types.FunctionType):
            stack += [*contents_of(item), *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            if not (item.__module__ or "").startswith("weft."):
                stack += [item.__globals__[n] for n in names_in(item.__code__).variables if n in item.__globals__]
        elif isinstance(item, types.MethodType):
            stack += [item.__func__, item.__self__]
        elif isinstance(item, functools.partial):
            stack += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, Jitted):
            stack.append(item.f)
        elif isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif hasattr(item, "__dict__"):
            stack += vars(item).values()
    return list(found.values())

Origin = tuple[Any, int, str, str]  # code, instruction, layer, phase: as on resolved nodes


@dataclass(frozen=True)
class Work:
    """One step. ``parts``: the weight of each origin in it; one part is exact, several are an estimate."""

    name: str
    kind: str  # kernel, loop, numpy, copy
    flops: int
    bytes: int
    wide: bool  # float64
    parts: dict[Origin, float]
    nodes: tuple[Node, ...] = ()
    kernel: Any = None
    length: int = 1  # steps of a loop

    def floor(self, machine: Machine) -> tuple[float, float]:
        """Seconds that the arithmetic and the memory traffic take at least."""
        peak = machine.flops / 2 if self.wide else machine.flops
        return self.flops / peak, self.bytes / machine.bandwidth_at(self.bytes // self.length)


def works(program: Program, fused: list[Fused], machine: Machine) -> list[Work]:
    """One a step of the program."""
    lines: dict[Any, str] = {}
    made = iter(fused)
    out = []
    for step in program.steps:
        if isinstance(step, Copy):
            size = program.slots[step.source].dtype.bytes
            for n in program.slots[step.source].shape:
                size *= n
            out.append(Work("copy", "copy", 0, 2 * size, False, {(None, -1, "", "forward"): 1.0}))
            continue
        f = next(made)
        wide = any(n.dtype.name == "float64" for n in f.nodes)
        if isinstance(step, Call):
            info = kernel_info(f, lines)
            out.append(Work(info.name, "kernel", info.flops, info.bytes, wide, _parts(f, machine, info.bytes), f.nodes, f.kernel))
        elif isinstance(step, Loop):
            out.append(_loop(f.nodes[0], machine))
        else:
            assert isinstance(step, Host)
            node = f.nodes[0]
            flops = node.op.cost(node).flops if node.op.cost is not None else 0
            moved = node.nbytes + sum(i.nbytes for i in node.inputs)
            out.append(Work(step.name, "numpy", flops, moved, wide, {_origin(node): 1.0}, f.nodes))
    return out


def _origin(node: Node) -> Origin:
    code, instruction, layer, phase = (*(node.where or (None, -1)), "", None)[:4]
    return code, instruction, layer, phase or "forward"


def _parts(fused: Fused, machine: Machine, size: int) -> dict[Origin, float]:
    """Seconds that each origin's arithmetic and memory traffic would take one after the other."""
    memory = 1 / machine.bandwidth_at(size)
    outputs = set(fused.outputs)
    given = {strip(n) for n, _ in fused.inputs}
    readers: dict[Node, list[Node]] = {}
    for node in fused.nodes:
        for i in node.inputs:
            if (base := strip(i)) in given:
                readers.setdefault(base, []).append(node)
    out: dict[Origin, float] = {}

    def add(node: Node, seconds: float) -> None:
        origin = _origin(node)
        out[origin] = out.get(origin, 0.0) + seconds

    for node in fused.nodes:
        flops = node.op.cost(node).flops if node.op.cost is not None else 0
        add(node, flops / machine.flops + (node.nbytes * memory if node in outputs else 0.0))
    for base, who in readers.items():
        for node in who:
            add(node, base.nbytes * memory / len(who))
    total = sum(out.values())
    return {o: w / total if total else 1 / len(out) for o, w in out.items() if w or not total}


def _loop(scan: Node, machine: Machine) -> Work:
    """A loop: its body's work, once for every step; nodes without a layer are in the loop's own."""
    program, fused = built(scan.params["body"].graph)
    length = scan.params["length"]
    inside = works(program, fused, machine)
    _, _, layer, phase = own = _origin(scan)
    parts: dict[Origin, float] = {}
    for work in inside:
        seconds = sum(work.floor(machine))
        for (code, instruction, inner, when), share in work.parts.items():
            late = phase if phase != "forward" else when
            origin = (code, instruction, inner or layer, late) if code is not None else (*own[:2], inner or layer, late)
            parts[origin] = parts.get(origin, 0.0) + share * seconds
    total = sum(parts.values())
    parts = {o: w / total for o, w in parts.items() if w} if total else {own: 1.0}
    name = f"loop of {length}: {max(inside, key=lambda w: sum(w.floor(machine))).name}"
    return Work(
        name, "loop", length * sum(w.flops for w in inside), length * sum(w.bytes for w in inside), any(w.wide for w in inside),
        parts, _nodes(inside), None, length,
    )


def _nodes(inside: Iterable[Work]) -> tuple[Node, ...]:
    return tuple([n for work in inside for n in work.nodes])

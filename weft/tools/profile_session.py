"""Profiling sessions: the programs of this thread are timed step by step, and new nodes are marked with layer and phase.

Programs of a session are compiled with time stamps between their kernels, which come from the cache. Jitted functions are traced
again in copies of their own (twins), so that their nodes carry marks. The rest of the module measures calls and counts the work
of each step.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.operators import set_node_marking
from weft.devices.base import Timing
from weft.devices.cpu.convolution.winograd_transform import executed_share
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.faults import IndexFault
from weft.eager.materialise import evaluate
from weft.errors import DeviceError, TraceError
from weft.graph.loops import is_dynamic
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import INPUT, SCALAR
from weft.graph.source_lines import ORIGIN
from weft.kernel.convolution import match_conv
from weft.kernel.ir import Contraction, Kernel
from weft.nn.module import Module
from weft.nn.module_tree import CALL_HOOK
from weft.placement.device_figures import Machine
from weft.process.attributes import change_attribute
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.runtime.execute import add_user_line, make_index_error
from weft.schedule.build import build_with_groups
from weft.schedule.fuse import FusedGroup
from weft.schedule.fusion_graph import strip
from weft.schedule.index_checks import sites
from weft.schedule.kernel_info import describe_kernel
from weft.schedule.program import EXPECTED_STEPS, Call, Copy, HostCall, Loop, Program
from weft.transforms.code_names import closure_contents, names_in
from weft.transforms.jit import JittedFunction
from weft.transforms.tree import structure_changed

_SESSION_LOCK = threading.Lock()  # two sessions at once would distort each other's times


def timing_device() -> Timing:
    """Return the device in use; raise DeviceError if it cannot time its steps."""
    device: Any = execute.device()
    if isinstance(device, Timing):
        return device
    raise DeviceError(
        f"profile: the device {device.name!r} cannot time the steps of a program, the CPU can: profile there, inside "
        "`with wf.device('cpu'):`, or by --device cpu"
    )


@dataclass(eq=False)
class Unit:
    """A program that ran in the session."""

    program: Program
    groups: list[FusedGroup]
    run: Any  # TimedExecutable, or Executable if the session does not time
    function_name: str  # the name of the jitted function, "" for a program outside jit


@dataclass(frozen=True)
class Run:
    """One run of a unit: (begin, nanoseconds) of each step."""

    unit: Unit
    times: list[tuple[int, int]]


class Session:
    """Context manager of a profiling session. Runs are appended to ``runs`` while ``recording`` is True.

    Parameters
    ----------
    tool : name of the calling function, for error messages
    timed : whether runs have the times of their steps, which not all devices can measure
    """

    def __init__(self, tool: str = "profile", timed: bool = True) -> None:
        self.tool, self.timed = tool, timed
        self.units: dict[Any, Unit] = {}
        self.runs: list[Run] = []
        self.recording = False
        self.trace_count = 0  # traces of jitted functions while recording
        self._twins: dict[int, tuple[JittedFunction, JittedFunction]] = {}
        self._tracing = ""
        # id of a module that is called outside other modules -> (module, its number, names of the modules inside)
        self._roots: dict[int, tuple[Module, int, dict[int, str]]] = {}
        self._stack: list[tuple[int, dict[int, str]]] = []
        self._kinds: dict[str, str] = {}  # mark of a layer -> its class

    def __enter__(self) -> Session:
        is_profiled = CONTEXT.profiler is not None or CALL_HOOK.watch_call is not None
        if CONTEXT.transform_depth or CONTEXT.trace is not None or is_profiled:
            raise TraceError(
                f"{self.tool}: not inside jit, grad, vmap, a watch, a model's summary or another profile; call it outside"
            )
        if self.timed:
            timing_device()
        _SESSION_LOCK.acquire()
        CONTEXT.profiler, CALL_HOOK.watch_call, ORIGIN.layer = self, self._call_module, ""
        set_node_marking(True)
        structure_changed()  # makes jitted functions leave their warm calls, so that they look for their twins
        return self

    def __exit__(self, *exc: object) -> None:
        CONTEXT.profiler, CALL_HOOK.watch_call, ORIGIN.layer = None, None, None
        set_node_marking(False)
        _SESSION_LOCK.release()

    def executable(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return the executable of a graph that records its runs. Replaces ``weft.runtime.execute.executable``."""
        key = (graph.key(), CONTEXT.flush_denormals, self._tracing, tuple([n.source_line for n in graph.order]))
        unit = self.units.get(key)
        if unit is None:
            device = execute.device()
            program, fused = build_with_groups(mark_origins(graph), device.target)
            compiled = timing_device().compile_timed if self.timed else device.compile
            run = compiled(program, flush_denormals=CONTEXT.flush_denormals)
            unit = self.units[key] = Unit(program, fused, run, self._tracing)

        def timed(inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
            try:
                out = unit.run(inputs, held)
            except IndexFault as fault:
                site = sites(unit.program)[fault.site]
                raise make_index_error(fault, site, site.source_line) from None
            except ValueError as error:
                if not hasattr(error, "step"):
                    raise
                raise add_user_line(error, error.step.source_line) from None
            if self.recording:
                self.runs.append(Run(unit, unit.run.times() if self.timed else []))
            return out

        return timed

    def twin(self, jitted: JittedFunction) -> JittedFunction:
        """Return the copy of a jitted function that uses the programs of this session."""
        entry = self._twins.get(id(jitted))
        if entry is None:
            entry = self._twins[id(jitted)] = (jitted, _Twin(self, jitted))
        return entry[1]

    def _call_module(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a module's forward while new nodes are marked with its layer."""
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
        """Return name and class of the layer of a mark. The name is its path in the model, after the model's name if there are
        several models."""
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


class _Twin(JittedFunction):
    """Copy of a jitted function that is traced and compiled in a session."""

    def __init__(self, session: Session, jitted: JittedFunction) -> None:
        super().__init__(jitted.f, jitted.static_argnums, tuple(jitted.static_argnames))
        self._session = session

    def _trace_and_run(self, *args: Any, **kwargs: Any) -> Any:
        self._session.trace_count += self._session.recording
        with change_attribute(self._session, "_tracing", getattr(self.f, "__name__", type(self.f).__name__)):
            return super()._trace_and_run(*args, **kwargs)


def _mark(where: Any) -> tuple[Any, int, str, str | None]:
    """Return (code, instruction, layer, phase) of a node's source line; without a mark, layer is "" and phase None."""
    return (*(where or (None, -1)), "", None)[:4]


def mark_origins(graph: Graph) -> Graph:
    """Return a copy of the graph without buffers, in which every node has (code, instruction, layer, phase).

    Nodes that depend on a gradient and are not in the forward pass of a layer belong to the update. In layers written by hand,
    functions named backward and update determine the phase. An update belongs to the layer of the gradient from which it is
    computed if that is unique, else to the layer of the nodes computed from it.
    """
    copies: dict[Node, Node] = {}
    after_gradient: set[Node] = set()
    owner: dict[Node, frozenset[str]] = {}
    marks: dict[Node, list[Any]] = {}
    for node in graph.order:
        code, instruction, layer, phase = _mark(node.source_line)
        if phase in ("backward", "update") or any(i in after_gradient for i in node.inputs):
            after_gradient.add(node)
        if phase is None and not layer and code is not None and code.co_name in ("backward", "update"):
            phase = code.co_name  # layers written by hand
        elif phase is None:
            phase = "forward" if layer or node not in after_gradient else "update"
        marks[node] = [code, instruction, layer, phase]
        owner[node] = frozenset((layer,)) if layer else frozenset().union(
            *(owner[i] for i in node.inputs if i in owner and marks[i][3] != "forward")
        )
    layers_of_users: dict[Node, frozenset[str]] = {}
    for node in reversed(graph.order):
        mark = marks[node]
        if mark[3] == "update" and not mark[2] and node.size > 1:  # single numbers belong to no layer
            owners = owner[node] or layers_of_users.get(node, frozenset())
            mark[2] = next(iter(owners)) if len(owners) == 1 else ""
        own = frozenset((mark[2],)) if mark[2] else layers_of_users.get(node, frozenset())
        if mark[3] == "update":
            for i in node.inputs:
                layers_of_users[i] = layers_of_users.get(i, frozenset()) | own
    for node in graph.inputs:
        copies[node] = Node(node.op if node.op is SCALAR else INPUT, (), {}, node.shape, node.dtype)
    for node in graph.order:
        if node not in copies:
            inputs = tuple([copies[i] for i in node.inputs])
            copies[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, tuple(marks[node]))
    return Graph([copies[n] for n in graph.inputs], [copies[n] for n in graph.outputs])


WARM_UP_CALLS = 2  # calls before each round that are not timed: they fill caches and make buffers that later calls reuse
MAX_OBJECTS = 100_000  # objects that ``find_arrays`` visits


def check_call(tool: str, f: Any, repeat: Any) -> None:
    """Check the arguments ``f`` and ``repeat`` of the function ``tool``, profile or bench."""
    if not callable(f):
        raise TypeError(f"{tool}: {f!r} is not a function: give the function and its arguments, wf.{tool}(f, x)")
    if repeat is not None and (isinstance(repeat, bool) or not isinstance(repeat, int | np.integer)):
        raise TypeError(f"{tool}: repeat must be an integer, not {repeat!r}")
    if repeat is not None and repeat < 1:
        raise ValueError(f"{tool}: repeat must be at least 1, not {repeat}")


@contextlib.contextmanager
def restore_arrays(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Iterator[list[Array]]:
    """Context manager: call ``f`` once, yield the Arrays that its calls reach, and restore their contents at the end.

    State that the first call creates, such as an optimizer's, stays as this call left it.
    """
    arrays = find_arrays(f, args, kwargs)
    evaluate(arrays)
    saved = [(array, array._node) for array in arrays]
    try:
        time_call(f, args, kwargs, arrays)
        reached_arrays = find_arrays(f, args, kwargs)
        if not {id(a) for a in reached_arrays} <= {id(a) for a in arrays}:
            arrays = reached_arrays
            evaluate(arrays)
            saved = [(array, array._node) for array in arrays]
        yield arrays
    finally:
        for array, node in saved:
            array._node = node


def name_of(f: Any) -> str:
    """Return the name of a function, or of its class."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def in_notebook() -> bool:
    """Return whether the code runs in a notebook."""
    from rich.console import Console

    return Console().is_jupyter


def time_call(f: Callable, args: tuple, kwargs: dict[str, Any], reached: Sequence[Array]) -> int:
    """Call ``f``, materialise its results and the arrays that it wrote, and return the time in nanoseconds."""
    begin = time.perf_counter_ns()
    out = f(*args, **kwargs)
    pending = [a for a in reached if a._node.value is None]
    if pending or not isinstance(out, Array) or out.node.value is None:
        evaluate(out, pending)
    return time.perf_counter_ns() - begin


def measure_calls(
    session: Session, call: Callable[[], int], repeat: int | None, budget: float,
) -> tuple[list[int], list[int], list[list[Run]]]:
    """Time ``call`` outside and inside the session, in alternating groups, for about ``budget`` seconds.

    Return the times outside and inside in nanoseconds, and the recorded runs of each call inside.
    """
    call_seconds = min(call(), call()) * 1e-9
    count = repeat if repeat is not None else int(min(200, max(3, budget / 2 / max(call_seconds, 1e-7))))
    rounds = min(count, 4)
    wholes: list[int] = []
    timed: list[int] = []
    runs: list[list[Run]] = []
    for r in range(rounds):  # alternate, so that a busy moment of the machine affects both
        share = count * (r + 1) // rounds - count * r // rounds
        for _ in range(WARM_UP_CALLS if call_seconds < 0.5 else 1):
            call()
        wholes += [call() for _ in range(share)]
        with session:
            for _ in range(WARM_UP_CALLS if r else WARM_UP_CALLS + 1):
                call()
            session.recording = True
            for _ in range(share):
                session.runs = []
                timed.append(call())
                runs.append(session.runs)
            session.recording = False
    return wholes, timed, runs


def find_arrays(*roots: Any) -> list[Array]:
    """Return every Array that is not a view and can be reached from ``roots`` or the random state."""
    from weft.functions.random import state

    arrays: dict[int, Array] = {}
    seen: dict[int, Any] = {}
    stack: list[Any] = [*roots, state._HIDDEN_STREAM.key, state._HIDDEN_STREAM.base]
    while stack and len(seen) < MAX_OBJECTS:
        item = stack.pop()
        if item is None or isinstance(item, int | float | str | bytes | type | types.ModuleType | np.ndarray) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, Array):
            arrays[id(item.cell)] = item.cell
        elif isinstance(item, types.FunctionType):
            stack += [*closure_contents(item), *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            if not (item.__module__ or "").startswith("weft."):
                stack += [item.__globals__[n] for n in names_in(item.__code__).variables if n in item.__globals__]
        elif isinstance(item, types.MethodType):
            stack += [item.__func__, item.__self__]
        elif isinstance(item, functools.partial):
            stack += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, JittedFunction):
            stack.append(item.f)
        elif isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif hasattr(item, "__dict__"):
            stack += vars(item).values()
    return list(arrays.values())


Origin = tuple[Any, int, str, str]  # code, instruction, layer, phase: source line of a resolved node


@dataclass(frozen=True)
class Work:
    """The work of one step of a program."""

    name: str
    kind: str  # kernel, loop, numpy, copy
    flops: int
    executed: float  # the same, without those that Winograd's transforms save
    bytes: int
    wide: bool  # whether it computes in float64
    parts: dict[Origin, float]  # the share of each origin, estimated if there are several
    nodes: tuple[Node, ...] = ()
    kernel: Any = None
    length: int = 1  # steps of a loop

    def floor(self, machine: Machine) -> tuple[float, float]:
        """Return the minimum times of the arithmetic and of the memory traffic in seconds."""
        peak = machine.flops / 2 if self.wide else machine.flops
        return self.executed / peak, self.bytes / machine.bandwidth_at(self.bytes // self.length)


def list_work(program: Program, fused: list[FusedGroup], machine: Machine) -> list[Work]:
    """Return the work of each step of the program."""
    lines: dict[Any, str] = {}
    remaining = iter(fused)
    out = []
    for step in program.steps:
        if isinstance(step, Copy):
            slot = program.slots[step.source]
            size = math.prod(slot.shape) * slot.dtype.bytes
            out.append(Work("copy", "copy", 0, 0, 2 * size, False, {(None, -1, "", "forward"): 1.0}))
            continue
        f = next(remaining)
        wide = any(n.dtype.name == "float64" for n in f.nodes)
        if isinstance(step, Call):
            info = describe_kernel(f, lines)
            executed, parts = info.flops * _executed_share(step.kernel), _parts(f, machine, info.bytes)
            out.append(Work(info.name, "kernel", info.flops, executed, info.bytes, wide, parts, f.nodes, f.kernel))
        elif isinstance(step, Loop):
            out.append(_loop(f.nodes[0], machine))
        else:
            assert isinstance(step, HostCall)
            node = f.nodes[0]
            flops = node.op.cost(node).flops if node.op.cost is not None else 0
            moved = node.nbytes + sum(i.nbytes for i in node.inputs)
            out.append(Work(step.name, "numpy", flops, flops, moved, wide, {_origin(node): 1.0}, f.nodes))
    return out


def _executed_share(kernel: Kernel) -> float:
    """Return the operations that a kernel of the CPU executes, over those of the direct algorithm."""
    stages = [stage for phase in kernel.phases for stage in phase.stages]
    conv = next((match_conv(s) for s in stages if isinstance(s, Contraction) and s.algorithm == "winograd"), None)
    return executed_share(conv, host_isa()) if conv is not None else 1.0


def _origin(node: Node) -> Origin:
    code, instruction, layer, phase = _mark(node.source_line)
    return code, instruction, layer, phase or "forward"


def _parts(fused: FusedGroup, machine: Machine, size: int) -> dict[Origin, float]:
    """Return each origin's share of the kernel's time, estimated from its arithmetic and memory traffic."""
    memory = 1 / machine.bandwidth_at(size)
    outputs = set(fused.outputs)
    inputs = {strip(n) for n, _ in fused.inputs}
    readers: dict[Node, list[Node]] = {}
    for node in fused.nodes:
        for i in node.inputs:
            if (base := strip(i)) in inputs:
                readers.setdefault(base, []).append(node)
    out: dict[Origin, float] = {}

    def add(node: Node, seconds: float) -> None:
        origin = _origin(node)
        out[origin] = out.get(origin, 0.0) + seconds

    for node in fused.nodes:
        flops = node.op.cost(node).flops if node.op.cost is not None else 0
        add(node, flops / machine.flops + (node.nbytes * memory if node in outputs else 0.0))
    for base, nodes in readers.items():
        for node in nodes:
            add(node, base.nbytes * memory / len(nodes))
    total = sum(out.values())
    return {o: w / total if total else 1 / len(out) for o, w in out.items() if w or not total}


def _loop(scan: Node, machine: Machine) -> Work:
    """Return the work of a loop: the body's work times the steps. Nodes without a layer belong to the loop's layer."""
    program, fused = build_with_groups(scan.params["body"].graph)
    length = min(scan.params["length"], EXPECTED_STEPS) if is_dynamic(scan) else scan.params["length"]
    body = list_work(program, fused, machine)
    _, _, layer, phase = own = _origin(scan)
    parts: dict[Origin, float] = {}
    for work in body:
        seconds = sum(work.floor(machine))
        for (code, instruction, inner, when), share in work.parts.items():
            own_phase = phase if phase != "forward" else when
            origin = (code, instruction, inner or layer, own_phase) if code is not None else (*own[:2], inner or layer, own_phase)
            parts[origin] = parts.get(origin, 0.0) + share * seconds
    total = sum(parts.values())
    parts = {o: w / total for o, w in parts.items() if w} if total else {own: 1.0}
    name = f"loop of {length}: {max(body, key=lambda w: sum(w.floor(machine))).name}"
    return Work(
        name, "loop", length * sum(w.flops for w in body), length * sum(w.executed for w in body),
        length * sum(w.bytes for w in body), any(w.wide for w in body), parts,
        tuple([n for work in body for n in work.nodes]), None, length,
    )

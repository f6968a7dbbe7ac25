"""A profiling session: while it lasts, what this thread runs is timed step by step, and new nodes know layer and phase.

Programs that run in a session are compiled for it: the same kernels, found in the cache, with stamps between them.
Jitted functions are traced again, by twins of their own, so that their nodes carry marks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.array.operators import mark_nodes
from weft.devices.base import Timing
from weft.devices.faults import IndexFault
from weft.errors import DeviceError, TraceError
from weft.graph.node import Graph, Node
from weft.graph.origin import ORIGIN
from weft.graph.primitives.table import INPUT, SCALAR
from weft.nn.module import Module
from weft.nn.module_tree import WATCH
from weft.runtime import execute
from weft.runtime.context import LOCAL
from weft.runtime.execute import refused, told
from weft.schedule.build import built
from weft.schedule.checks import sites
from weft.schedule.fuse import Fused
from weft.schedule.program import Program
from weft.transforms.jit import Jitted
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

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        self._session.traced += self._session.recording
        before, self._session._tracing = self._session._tracing, getattr(self.f, "__name__", type(self.f).__name__)
        try:
            return super()._first(*args, **kwargs)
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

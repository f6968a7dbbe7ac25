"""Programs that are placed by cost: on which device each graph runs under ``wf.set_device("auto")``.

A decision is made once for each way in which a program's arrays may lie, and remembered with the program. What stays where it is
(weights that a jitted function captures) is fetched once for many calls: it is fetched as soon as the calls so far would have
paid for it. Estimates and counts decide, never a clock, so runs repeat.

A program that does not fit into a device's memory runs on the CPU; so does one whose run finds that there is none left. Such a
run has changed nothing, so it is run again there, which nobody sees but for a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from weft.devices import get_device
from weft.devices.base import ELSEWHERE, Device, Run
from weft.devices.faults import OutOfRoom
from weft.errors import warn
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.runtime import execute
from weft.runtime.context import LOCAL

if TYPE_CHECKING:  # which are loaded with the first decision
    from weft.placement.all_figures import Figures
    from weft.placement.choose import Decision

_COMPILING = 0.1  # seconds that making a kernel for another device takes
_WAYS = 64  # in which arrays may lie that are remembered
_MANY = 1 << 30  # calls: never
_AGAIN = 100  # runs after which there may be memory


@dataclass(slots=True)
class _Way:
    """A decision. device: where it runs; calls: after so many it runs at ``later`` from then on; gain: seconds a run that it
    takes less there than on the CPU; again: after so many runs it is made anew, for want of memory."""

    device: str
    later: str
    calls: int
    gain: float
    again: int


class Placement:
    """Where one program runs.

    sizes : bytes of each array that it reads, 0 for numbers; kept : from which of them on they stay what they are from call to
    call; kernels : that another device would have to compile
    """

    __slots__ = ("_estimates", "_figures", "_kept", "_made", "_refused", "_sizes", "_ways", "kernels", "lost")

    def __init__(self, graph: Graph, figures: Figures, sizes: Sequence[int], kept: int) -> None:
        from weft.placement.estimate import estimate, made
        from weft.schedule.build import build
        from weft.schedule.program import calls

        program = build(execute.detached(graph), get_device().target)
        self._estimates = tuple([estimate(name, program, machine) for name, machine in figures.machines.items()])
        self._figures, self._sizes, self._kept = figures, tuple(sizes), kept
        self._ways: dict[tuple[type, ...], _Way] = {}
        self._made, self._refused = made(program, kept), dict[str, str]()
        self.kernels, self.lost = len({id(call.kernel) for call in calls(program)}), 0.0

    @property
    def count(self) -> int:
        """How many arrays the program reads."""
        return len(self._sizes)

    def way(self, values: Sequence[Any]) -> _Way:
        """The decision for arrays that lie where ``values`` do."""
        key = tuple(map(type, values))
        found = self._ways.get(key)
        if found is not None and found.again != _MANY:
            found.again -= 1
        if found is None or not found.again:
            if len(self._ways) >= _WAYS:
                self._ways.clear()
            found = self._ways[key] = self._decided(values)
        return found

    def refuse(self, device: str, error: OutOfRoom) -> None:
        """A run found no memory left on a device: it is not asked again."""
        self._refused[device] = f"a run found no memory left there ({error})"
        self._ways.clear()
        warn(f"a program that 'auto' placed on {device} runs on the CPU from now on: {error}")

    def called(self, values: Sequence[Any]) -> _Way:
        """The same for a call, which counts."""
        way = self.way(values)
        if way.calls != _MANY:
            way.calls -= 1
            if way.calls < 0:
                way.device, way.calls = way.later, _MANY
        return way

    def decision(self, values: Sequence[Any], kept: bool = True) -> Decision:
        """What takes least, with the reason. kept : whether also what stays where it is has to be fetched"""
        from weft.placement.choose import decide

        last = len(values) if kept else self._kept
        return decide(self._estimates, self._figures.machines, self._arrays(values, 0, last), self._without(values))

    def _without(self, values: Sequence[Any]) -> dict[str, str]:
        """Why it cannot be one of the devices."""
        from weft.placement.all_figures import rooms
        from weft.placement.choose import lacking

        left = rooms(self._figures.machines)
        return lacking(self._made, self._arrays(values, 0, len(values)), left) | self._refused

    def _arrays(self, values: Sequence[Any], first: int, last: int) -> list[tuple[int, str]]:
        """Bytes, and where they lie."""
        known = zip(values[first:last], self._sizes[first:last], strict=True)
        return [(size, ELSEWHERE.get(type(value), "cpu")) for value, size in known if size]

    def _decided(self, values: Sequence[Any]) -> _Way:
        from weft.placement.choose import fetching

        now, then = self.decision(values), self.decision(values, kept=False)
        taken = {e.device: e.total for e in now.estimates}
        gain = taken["cpu"] - taken[now.device]
        full = taken[now.device] > min([taken[name] for name in taken if name not in self._refused])
        again = _AGAIN if full else _MANY
        if now.device == then.device:
            return _Way(now.device, now.device, _MANY, gain, again)
        takes = {e.device: e.total for e in then.estimates}
        arrays = self._arrays(values, self._kept, len(values))
        price = fetching(then.device, self._figures.machines, arrays)
        each = takes[now.device] - takes[then.device]  # saved a call, once they are there
        return _Way(now.device, then.device, ceil(min(price / each, _MANY - 1)) if each > 0 else _MANY, gain, again)


class Placed:
    """What runs a jitted function's graph: a Run for each device that it was placed on, asked for with ``on``."""

    __slots__ = ("_graph", "_last", "_placement", "_runs", "_written")

    def __init__(self, graph: Graph, sizes: Sequence[int], kept: int, written: Mapping[int, int] | None) -> None:
        self._graph, self._runs, self._written = execute.detached(graph), dict[str, Run](), written
        self._placement = Placement(graph, LOCAL.place, sizes, kept)
        self._last: _Way | None = None

    def on(self, values: Sequence[Any]) -> tuple[Run, Device]:
        """What runs it where that takes least, for arrays that lie where ``values`` do, and the device."""
        plain = len(values) == self._placement.count and None not in values  # else it is a call of another kind
        way = self._last = self._placement.called(values) if plain else None
        name = "cpu" if way is None else way.device
        return self._run(name), get_device(name)

    def brought(self, nodes: Sequence[Node]) -> Run:
        """The same, with all that the nodes hold brought there."""
        run, there = self.on([n.value for n in nodes])
        try:
            execute.here(nodes, there)
        except OutOfRoom as error:
            run = self.refused(there.name, error)
            execute.here(nodes, get_device())
        return run

    def refused(self, name: str, error: OutOfRoom) -> Run:
        """What runs it on the CPU, since there is no memory left on a device."""
        self._placement.refuse(name, error)
        self._last = None
        return self._run("cpu")

    def _run(self, name: str) -> Run:
        found = self._runs.get(name)
        if found is None:
            with execute.on(name):
                found = execute.located(execute.executable(self._graph), self._graph, self._written)
            found = self._runs[name] = found if name == "cpu" else _Falling(found, name, self)
        return found

    def on_the_cpu(self, name: str, inputs: Sequence[Any], error: OutOfRoom) -> list[Any]:
        """A run that found no memory left on a device, once more."""
        run, before, after = self.refused(name, error), get_device(name), get_device()
        known = zip(self._graph.inputs, inputs, strict=True)
        return run([after.upload(before.download(x, n.shape, n.dtype)) if type(x) in ELSEWHERE else x for n, x in known])

    def staying(self) -> Run | None:
        """What runs it on the CPU, if it was placed there for good when it was asked last."""
        way = self._last
        stays = way is not None and way.device == "cpu" and way.calls == way.again == _MANY
        return self._runs.get("cpu") if stays else None


class _Falling:
    """What runs a program on a device, and on the CPU where that has no memory left."""

    __slots__ = ("_name", "_placed", "_run")

    def __init__(self, run: Run, name: str, placed: Placed) -> None:
        self._run, self._name, self._placed = run, name, placed

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        try:
            return self._run(inputs, held)
        except OutOfRoom as error:
            return self._placed.on_the_cpu(self._name, inputs, error)

    def direct(self) -> int:
        return self._run.direct()


def device_of(graph: Graph, values: Sequence[Any]) -> str:
    """Where a graph that is looked at runs: the name of a device.

    One that was never compiled there waits on the CPU until compiling it would have been worth it, as ``tiers.py`` waits.
    """
    figures: Figures = LOCAL.place
    if not ELSEWHERE.keys() & set(map(type, values)) and _is_small(graph, figures):
        return "cpu"
    key = (figures, graph.key(), LOCAL.flush)
    found = execute.PROGRAMS.get(key)
    if found is None:
        sizes = [0 if n.op is SCALAR else n.nbytes for n in graph.inputs]
        found = Placement(graph, figures, sizes, len(sizes))
        execute.PROGRAMS.put(key, found, execute.LEAST)
    way = found.way(values)
    if way.device == "cpu" or not LOCAL.patience:
        return way.device
    with execute.on(way.device):
        if execute.known(execute.key_of(graph)) is not None:
            return way.device
    found.lost += way.gain
    return way.device if found.lost > LOCAL.patience * _COMPILING * found.kernels else "cpu"


def refused(graph: Graph, name: str, error: OutOfRoom) -> None:
    """There is no memory left on the device on which a graph was to run."""
    found = execute.PROGRAMS.get((LOCAL.place, graph.key(), LOCAL.flush))
    if found is not None:
        found.refuse(name, error)


def _is_small(graph: Graph, figures: Figures) -> bool:
    """Whether a graph surely takes less on the CPU than anything takes elsewhere; it is not planned for that."""
    cpu = figures.machines["cpu"]
    slowest = min([cpu.flops, *[rate for _, curve in cpu.products for _, rate in curve]])
    seconds = 0.0
    for n in graph.order:
        if n.value is not None or n.op is CONSTANT:
            continue
        if n.op.kind in ("loop", "host") or seconds >= figures.least:
            return False
        seconds += (n.nbytes + sum([i.nbytes for i in n.inputs])) / cpu.memory + _flops(n) / slowest + cpu.launch
    return cpu.call + seconds < figures.least


def _flops(node: Node) -> float:
    return node.op.cost(node).flops if node.op.cost is not None else max([node.size, *[i.size for i in node.inputs]])

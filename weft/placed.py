"""Programs that are placed by cost: on which device each graph runs under ``wf.set_device("auto")``.

A decision is made once for each way in which a program's arrays may lie, and remembered with the program. What stays where it is
(weights that a jitted function captures) is fetched once for many calls: it is fetched as soon as the calls so far would have
paid for it. Estimates and counts decide, never a clock, so runs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from weft import execute
from weft.cell import LOCAL
from weft.devices import get_device
from weft.devices.base import ELSEWHERE, Device, Run
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT, SCALAR

if TYPE_CHECKING:  # which are loaded with the first decision
    from weft.placement.choose import Decision
    from weft.placement.figures import Figures

_COMPILING = 0.1  # seconds that making a kernel for another device takes
_WAYS = 64  # in which arrays may lie that are remembered
_MANY = 1 << 30  # calls: never


@dataclass(slots=True)
class _Way:
    """A decision. device: where it runs; calls: after so many it runs at ``later`` from then on; gain: seconds a run that it
    takes less there than on the CPU."""

    device: str
    later: str
    calls: int
    gain: float


class Placement:
    """Where one program runs.

    sizes : bytes of each array that it reads, 0 for numbers; kept : from which of them on they stay what they are from call to
    call; kernels : that another device would have to compile
    """

    __slots__ = ("_estimates", "_figures", "_kept", "_sizes", "_ways", "kernels", "lost")

    def __init__(self, graph: Graph, figures: Figures, sizes: Sequence[int], kept: int) -> None:
        from weft.placement.estimate import estimate
        from weft.schedule.build import build
        from weft.schedule.program import calls

        program = build(execute.detached(graph), get_device().target)
        self._estimates = tuple([estimate(name, program, machine) for name, machine in figures.machines.items()])
        self._figures, self._sizes, self._kept = figures, tuple(sizes), kept
        self._ways: dict[tuple[type, ...], _Way] = {}
        self.kernels, self.lost = len({id(call.kernel) for call in calls(program)}), 0.0

    @property
    def count(self) -> int:
        """How many arrays the program reads."""
        return len(self._sizes)

    def way(self, values: Sequence[Any]) -> _Way:
        """The decision for arrays that lie where ``values`` do."""
        key = tuple(map(type, values))
        found = self._ways.get(key)
        if found is None:
            if len(self._ways) >= _WAYS:
                self._ways.clear()
            found = self._ways[key] = self._decided(values)
        return found

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

        return decide(self._estimates, self._figures.machines, self._arrays(values, 0, len(values) if kept else self._kept))

    def _arrays(self, values: Sequence[Any], first: int, last: int) -> list[tuple[int, str]]:
        """Bytes, and where they lie."""
        known = zip(values[first:last], self._sizes[first:last], strict=True)
        return [(size, ELSEWHERE.get(type(value), "cpu")) for value, size in known if size]

    def _decided(self, values: Sequence[Any]) -> _Way:
        from weft.placement.choose import fetching

        now, then = self.decision(values), self.decision(values, kept=False)
        taken = {e.device: e.total for e in now.estimates}
        gain = taken["cpu"] - taken[now.device]
        if now.device == then.device:
            return _Way(now.device, now.device, _MANY, gain)
        takes = {e.device: e.total for e in then.estimates}
        arrays = self._arrays(values, self._kept, len(values))
        price = fetching(then.device, self._figures.machines, arrays)
        each = takes[now.device] - takes[then.device]  # saved a call, once they are there
        return _Way(now.device, then.device, ceil(min(price / each, _MANY - 1)) if each > 0 else _MANY, gain)


class Placed:
    """What runs a jitted function's graph: a Run for each device that it was placed on, asked for with ``on``."""

    __slots__ = ("_graph", "_last", "_placement", "_runs")

    def __init__(self, graph: Graph, sizes: Sequence[int], kept: int) -> None:
        self._graph, self._runs = execute.detached(graph), dict[str, Run]()
        self._placement = Placement(graph, LOCAL.place, sizes, kept)
        self._last: _Way | None = None

    def on(self, values: Sequence[Any]) -> tuple[Run, Device]:
        """What runs it where that takes least, for arrays that lie where ``values`` do, and the device."""
        plain = len(values) == self._placement.count and None not in values  # else it is a call of another kind
        way = self._last = self._placement.called(values) if plain else None
        name = "cpu" if way is None else way.device
        found = self._runs.get(name)
        if found is None:
            with execute.on(name):
                found = self._runs[name] = execute.located(execute.executable(self._graph), self._graph)
        return found, get_device(name)

    def staying(self) -> Run | None:
        """What runs it on the CPU, if it was placed there for good when it was asked last."""
        way = self._last
        return self._runs.get("cpu") if way is not None and way.device == "cpu" and way.calls == _MANY else None


def device_of(graph: Graph, values: Sequence[Any]) -> str:
    """Where a graph that is looked at runs: the name of a device.

    One that was never compiled there waits on the CPU until compiling it would have been worth it, as ``unseen.py`` waits.
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

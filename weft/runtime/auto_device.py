"""Placement by cost: the device on which each graph runs under ``wf.set_device("auto")``.

A program caches one decision per combination of input devices. Arrays that stay the same from call to call (weights that a jitted
function captures) are moved once, as soon as the calls so far would have paid for the move. Decisions use estimates and counts,
never a clock, so runs repeat.

A program that does not fit into a device's memory runs on the CPU. So does one that runs out of memory: such a run has changed
nothing, so it is repeated on the CPU, with a warning.

A read of a small graph is not planned: its largest possible time on the CPU is below the time of anything elsewhere. A decision
is found by one look-up, by the classes of memory of the arrays. A run that has begun to write over its inputs cannot be
repeated on the CPU; it raises MemoryError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from weft.devices import get_device
from weft.devices.base import DEVICE_OF_BUFFER_TYPE, Device, Run
from weft.devices.faults import OutOfDeviceMemory
from weft.errors import warn
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.runtime import execute
from weft.runtime.context import CONTEXT

if TYPE_CHECKING:  # loaded with the first decision
    from weft.placement.all_figures import PlacementFigures
    from weft.placement.choose import Decision

_COMPILE_S = 0.1  # to compile a kernel for another device
_MAX_PLACEMENTS = 64  # combinations of input devices cached per program
_NEVER_CALLS = 1 << 30  # calls
_RETRY_RUNS = 100  # after so many runs, memory may be free again


@dataclass(slots=True)
class _Choice:
    """A cached decision. device: where the program runs; calls: after this many calls it runs on ``later``; gain: seconds that a
    run saves compared with the CPU; again: after this many runs the decision is repeated, because memory was short."""

    device: str
    later: str
    calls: int
    gain: float
    repeat_after: int


class Placement:
    """The device choices of one program.

    sizes : bytes of each input array, 0 for numbers; kept : index of the first input that stays the same from call to call;
    kernels : number of kernels that another device would have to compile
    """

    __slots__ = (
        "_estimates", "_figures", "_first_constant", "_work_bytes", "_shortages", "_choices", "kernels", "lost_seconds", "sizes"
    )

    def __init__(self, graph: Graph, figures: PlacementFigures, sizes: Sequence[int], kept: int) -> None:
        from weft.placement.estimate import allocated_bytes, estimate
        from weft.schedule.build import build
        from weft.schedule.program import calls

        program = build(execute.copy_structure(graph), get_device().target)
        self._estimates = tuple([estimate(name, program, machine) for name, machine in figures.machines.items()])
        self._figures, self.sizes, self._first_constant = figures, tuple(sizes), kept
        self._choices: dict[tuple[type, ...], _Choice] = {}
        self._work_bytes, self._shortages = allocated_bytes(program, kept), dict[str, str]()
        self.kernels, self.lost_seconds = len({id(call.kernel) for call in calls(program)}), 0.0

    def choose(self, values: Sequence[Any]) -> _Choice:
        """Return the decision for inputs on the devices of ``values``."""
        key = tuple(map(type, values))
        choice = self._choices.get(key)
        if choice is not None and choice.repeat_after != _NEVER_CALLS:
            choice.repeat_after -= 1
        if choice is None or not choice.repeat_after:
            if len(self._choices) >= _MAX_PLACEMENTS:
                self._choices.clear()
            choice = self._choices[key] = self._decide(values)
        return choice

    def refuse(self, device: str, error: OutOfDeviceMemory) -> None:
        """Exclude a device on which a run found no memory left."""
        self._shortages[device] = f"a run found no memory left there ({error})"
        self._choices.clear()
        warn(f"a program that 'auto' placed on {device} runs on the CPU from now on: {error}")

    def choose_for_call(self, values: Sequence[Any]) -> _Choice:
        """Return the decision for a call, and count the call."""
        choice = self.choose(values)
        if choice.calls != _NEVER_CALLS:
            choice.calls -= 1
            if choice.calls < 0:
                choice.device, choice.calls = choice.later, _NEVER_CALLS
        return choice

    def decision(self, values: Sequence[Any], kept: bool = True) -> Decision:
        """Choose the cheapest device, with the reason. kept : whether inputs that stay the same must be moved too"""
        from weft.placement.choose import decide

        last = len(values) if kept else self._first_constant
        return decide(self._estimates, self._figures.machines, self._arrays(values, 0, last), self._exclusions(values))

    def _exclusions(self, values: Sequence[Any]) -> dict[str, str]:
        """Return the reason why each excluded device cannot run the program."""
        from weft.placement.all_figures import rooms
        from weft.placement.choose import find_full_devices

        left = rooms(self._figures.machines)
        return find_full_devices(self._work_bytes, self._arrays(values, 0, len(values)), left) | self._shortages

    def _arrays(self, values: Sequence[Any], first: int, last: int) -> list[tuple[int, str]]:
        """Return bytes and device name of each input array."""
        inputs = zip(values[first:last], self.sizes[first:last], strict=True)
        return [(size, DEVICE_OF_BUFFER_TYPE.get(type(value), "cpu")) for value, size in inputs if size]

    def _decide(self, values: Sequence[Any]) -> _Choice:
        from weft.placement.choose import transfer_seconds

        now, then = self.decision(values), self.decision(values, kept=False)
        seconds_now = {e.device: e.total for e in now.estimates}
        gain = seconds_now["cpu"] - seconds_now[now.device]
        memory_short = seconds_now[now.device] > min([seconds_now[name] for name in seconds_now if name not in self._shortages])
        again = _RETRY_RUNS if memory_short else _NEVER_CALLS
        if now.device == then.device:
            return _Choice(now.device, now.device, _NEVER_CALLS, gain, again)
        seconds_later = {e.device: e.total for e in then.estimates}
        arrays = self._arrays(values, self._first_constant, len(values))
        price = transfer_seconds(then.device, self._figures.machines, arrays)
        saving = seconds_later[now.device] - seconds_later[then.device]  # seconds saved per call once the arrays are there
        return _Choice(
            now.device, then.device, ceil(min(price / saving, _NEVER_CALLS - 1)) if saving > 0 else _NEVER_CALLS, gain, again
        )


class PlacedProgram:
    """A jitted function's graph with one Run per device that it was placed on."""

    __slots__ = ("_graph", "_last_choice", "_placement", "_runs", "_overwritten_inputs")

    def __init__(self, graph: Graph, sizes: Sequence[int], kept: int, written: Mapping[int, int] | None) -> None:
        self._graph, self._runs, self._overwritten_inputs = execute.copy_structure(graph), dict[str, Run](), written
        self._placement = Placement(graph, CONTEXT.placement, sizes, kept)
        self._last_choice: _Choice | None = None

    def choose_run(self, values: Sequence[Any]) -> tuple[Run, Device]:
        """Return the Run on the cheapest device for inputs on the devices of ``values``, counting transfers, and the device."""
        matches = len(values) == len(self._placement.sizes) and None not in values  # else the call differs from the program
        choice = self._last_choice = self._placement.choose_for_call(values) if matches else None
        name = "cpu" if choice is None else choice.device
        return self._run(name), get_device(name)

    def choose_and_move(self, nodes: Sequence[Node]) -> Run:
        """Choose a device, move the values of ``nodes`` there and return the Run."""
        run, device = self.choose_run([n.value for n in nodes])
        try:
            execute.move_leaves(nodes, device)
        except OutOfDeviceMemory as error:
            run = self.fall_back(device.name, error)
            execute.move_leaves(nodes, get_device())
        return run

    def fall_back(self, name: str, error: OutOfDeviceMemory) -> Run:
        """Exclude a device without memory left, and return the Run on the CPU."""
        self._placement.refuse(name, error)
        self._last_choice = None
        return self._run("cpu")

    def _run(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            with execute.on(name):
                run = execute.with_source_lines(execute.executable(self._graph), self._graph, self._overwritten_inputs)
            run = self._runs[name] = run if name == "cpu" else _RunWithFallback(run, name, self)
        return run

    def repeat_on_cpu(self, name: str, inputs: Sequence[Any], error: OutOfDeviceMemory) -> list[Any]:
        """Repeat on the CPU a run that found no memory left on a device."""
        run, before, after = self.fall_back(name, error), get_device(name), get_device()
        pairs = zip(self._graph.inputs, inputs, strict=True)
        return run(
            [after.upload(before.download(x, n.shape, n.dtype)) if type(x) in DEVICE_OF_BUFFER_TYPE else x for n, x in pairs]
        )

    def staying(self) -> Run | None:
        """Return the Run on the CPU if the last decision is to stay there for good, else None."""
        choice = self._last_choice
        stays = choice is not None and choice.device == "cpu" and choice.calls == choice.repeat_after == _NEVER_CALLS
        return self._runs.get("cpu") if stays else None


class _RunWithFallback:
    """A Run on a device that falls back to the CPU when the device has no memory left."""

    __slots__ = ("_name", "_program", "_run")

    def __init__(self, run: Run, name: str, placed: PlacedProgram) -> None:
        self._run, self._name, self._program = run, name, placed

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        try:
            return self._run(inputs, held)
        except OutOfDeviceMemory as error:
            return self._program.repeat_on_cpu(self._name, inputs, error)

    def direct(self) -> int:
        return self._run.direct()


def device_of(graph: Graph, values: Sequence[Any]) -> str:
    """Return the name of the device on which a materialised graph runs.

    A graph that was never compiled for another device waits on the CPU until compiling it would have paid off, as in
    ``tiers.py``.
    """
    figures: PlacementFigures = CONTEXT.placement
    if not DEVICE_OF_BUFFER_TYPE.keys() & set(map(type, values)) and _is_small(graph, figures):
        return "cpu"
    key = (figures, graph.key(), CONTEXT.flush_denormals)
    placement = execute.PROGRAMS.get(key)
    if placement is None:
        sizes = [0 if n.op is SCALAR else n.nbytes for n in graph.inputs]
        placement = Placement(graph, figures, sizes, len(sizes))
        execute.PROGRAMS.put(key, placement, execute.MIN_PROGRAM)
    choice = placement.choose(values)
    if choice.device == "cpu" or not CONTEXT.compile_threshold:
        return choice.device
    with execute.on(choice.device):
        if execute.PROGRAMS.get(execute.key_of(graph)) is not None:
            return choice.device
    placement.lost_seconds += choice.gain
    return choice.device if placement.lost_seconds > CONTEXT.compile_threshold * _COMPILE_S * placement.kernels else "cpu"


def record_shortage(graph: Graph, name: str, error: OutOfDeviceMemory) -> None:
    """Record that a graph found no memory left on a device."""
    placement = execute.PROGRAMS.get((CONTEXT.placement, graph.key(), CONTEXT.flush_denormals))
    if placement is not None:
        placement.refuse(name, error)


def _is_small(graph: Graph, figures: PlacementFigures) -> bool:
    """Return whether a graph certainly takes less time on the CPU than any work elsewhere. Such a graph is not planned."""
    cpu = figures.machines["cpu"]
    slowest = min([cpu.flops, *[rate for _, curve in cpu.products for _, rate in curve]])
    seconds = 0.0
    for n in graph.order:
        if n.value is not None or n.op is CONSTANT:
            continue
        if n.op.kind in ("loop", "host") or seconds >= figures.least_seconds:
            return False
        seconds += (n.nbytes + sum([i.nbytes for i in n.inputs])) / cpu.memory + _flops(n) / slowest + cpu.launch
    return cpu.call + seconds < figures.least_seconds


def _flops(node: Node) -> float:
    return node.op.cost(node).flops if node.op.cost is not None else max([node.size, *[i.size for i in node.inputs]])

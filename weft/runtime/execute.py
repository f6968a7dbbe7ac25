"""Run a Graph: the only place where the array layer calls the scheduler and the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from weft.devices import get_device
from weft.devices.base import DEVICE_OF_BUFFER_TYPE, DefersChecks, Device, EagerDevice, Prepares, ReportsErrorsLate, Run
from weft.devices.faults import IndexFault
from weft.dtypes.formats import Format
from weft.errors import DeviceError, format_bytes, index_error
from weft.graph.node import Graph, Node, Shape
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.table import INPUT, SCALAR
from weft.graph.source_lines import user_line
from weft.process.bounded_cache import BoundedCache
from weft.process.notices import announce
from weft.runtime import program_files
from weft.runtime.context import CONTEXT

# Code whose shapes always change compiles without end, so the cache is bounded: the last 1000 small programs hit, at most 2000
# are kept (about 16 KB each, 40 MB in all); large programs take 64 to 128 MB by estimate. The last 16 are always kept. Programs
# with fixed shapes need far less.
PROGRAMS = BoundedCache(64e6)
MIN_PROGRAM, NODE, STEP = 64e3, 1e3, 8e3  # bytes: least of a program, of a node in key and kernel, of a step in code and table


def key_of(graph: Graph) -> tuple:
    """Return the cache key of a graph's program: equal keys mean the same program."""
    return (device().name, graph.key(), CONTEXT.flush_denormals)


def device() -> Device:
    """Return the device that this thread's programs run on."""
    try:
        return get_device(CONTEXT.device or "cpu")
    except (ValueError, DeviceError) as error:  # other names were checked when they were set
        raise type(error)(f"$WEFT_DEVICE: {error}") from None


def owner(buffer: Any) -> Device:
    """Return the device that owns a buffer."""
    return get_device(DEVICE_OF_BUFFER_TYPE.get(type(buffer), "cpu") if DEVICE_OF_BUFFER_TYPE else "cpu")


@contextmanager
def on(name: str) -> Iterator[None]:
    """Run the body on a device, in this thread."""
    previous = CONTEXT.device, CONTEXT.placement
    CONTEXT.device = CONTEXT.placement = None if name == "cpu" else name
    try:
        yield
    finally:
        CONTEXT.device, CONTEXT.placement = previous


def move_leaves(nodes: Iterable[Node], target: Device | None = None) -> None:
    """Move the values of leaves to ``target``, by default the device in use. The leaf keeps the moved copy, so a program moves
    each input once. Call it only if ``DEVICE_OF_BUFFER_TYPE`` is not empty."""
    if target is None:
        target = device()
    for node in nodes:
        value = node.value
        if value is None or node.op is SCALAR:
            continue
        source = owner(value)
        if source is not target:
            node.value = target.upload(source.download(value, node.shape, node.dtype))


def move_if_small(*nodes: Node) -> bool:
    """Move leaves to the device in use for eager work. Return False, and move nothing, if programs are placed by cost and a leaf
    on another device is too large to move for that: the work then stays pending."""
    if CONTEXT.placement is not CONTEXT.device:
        for node in nodes:
            if node.value is not None and node.nbytes > CONTEXT.max_eager_bytes and type(node.value) in DEVICE_OF_BUFFER_TYPE:
                return False
    move_leaves(nodes)
    return True


def executable(graph: Graph) -> Run:
    """Return the compiled Run of a graph, ``f(inputs, held=None) -> buffers``: from the cache, or compiled now."""
    if CONTEXT.profiler is not None:
        return CONTEXT.profiler.executable(graph)
    current, key = device(), key_of(graph)
    run = PROGRAMS.get(key)
    if run is None:
        with announce(lambda: f"compiling {len(graph.order):,} operations"):
            run = _compile(graph, current, key)
    return run


def _compile(graph: Graph, current: Any, key: Any) -> Run:
    """Return the Run of a graph that is not in the cache, which then has it."""
    from weft.schedule.program import calls, find_hosts

    name = program_files.name_of(graph, key[1], current)
    stored = program_files.read(current, name)
    if stored is None:
        from weft.schedule.build import build

        texts: dict[int, str] = {}
        prepare = partial(_prepare, current, texts) if isinstance(current, Prepares) else None
        program = build(copy_structure(graph), current.target, prepare)
        run = current.compile(program, flush_denormals=CONTEXT.flush_denormals)
        run.places = _find_places(graph, program)
        if name is not None and prepare is not None and not find_hosts(program):
            program_files.write(current, name, (program, run.places, [texts[id(c.kernel)] for c in calls(program)]))
    else:
        program, places, lines = stored
        if isinstance(current, Prepares):
            for step, text in zip(calls(program), lines, strict=True):
                current.prepare(step.kernel, text)
        run = current.compile(program, flush_denormals=CONTEXT.flush_denormals)
        run.places = places
    kernels = sum(1 for _ in calls(program))
    PROGRAMS.put(key, run, max(MIN_PROGRAM, NODE * len(graph.order) + STEP * (len(program.steps) + kernels)))
    return run


def _prepare(target: Prepares, texts: dict[int, str], kernel: Any) -> None:
    """Let the device prepare a kernel, and keep the printed form in ``texts``."""
    texts[id(kernel)] = target.prepare(kernel)


def copy_structure(graph: Graph) -> Graph:
    """Return a copy of the graph without buffers, so that keeping the copy keeps no memory."""
    copies: dict[Node, Node] = {}
    for node in graph.inputs:
        copies[node] = Node(node.op if node.op is SCALAR else INPUT, (), {}, node.shape, node.dtype)
    for node in graph.order:
        if node not in copies:
            inputs = tuple(copies[i] for i in node.inputs)
            copies[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, node.source_line)
    return Graph([copies[n] for n in graph.inputs], [copies[n] for n in graph.outputs])


def run(graph: Graph, values: Sequence[Any], compiled: Run | None = None) -> list[Any]:
    """Run a graph and return one buffer per output; ``values`` are the buffers and numbers of ``graph.inputs``.

    compiled : the result of :func:`executable`, if the caller has it

    Raises
    ------
    IndexError
        An index is out of range; nothing has changed.
    MemoryError
        The work does not fit into memory; the message names the largest result.
    """
    runs: Any = executable(graph) if compiled is None else compiled
    if DEVICE_OF_BUFFER_TYPE:
        move_leaves(graph.inputs)
        values = [v if n.value is None else n.value for n, v in zip(graph.inputs, values, strict=True)]
    try:
        return runs(list(values))
    except IndexFault as fault:
        raise _index_error(fault, runs.places, graph) from None
    except ValueError as error:
        if not hasattr(error, "step"):
            raise
        raise _step_error(error, runs.places, graph) from None
    except MemoryError as error:
        largest = max(graph.outputs, key=lambda n: n.nbytes)
        raise type(error)(
            f"{user_line(largest.source_line)}: {error}; the largest result here has shape {largest.shape}, dtype "
            f"{largest.dtype.name} and {format_bytes(largest.nbytes)}"
        ) from None


def with_source_lines(run: Run, graph: Graph, written: Mapping[int, int] | None = None) -> Run:
    """Return the Run of a jitted call's graph, with errors that name the lines of the graph; ``run`` itself if it checks
    nothing.

    written : output number -> number of the input that the written array held before the call; None if the call changes more
    """
    return _LocatedRun(run, graph, written) if getattr(run, "places", ()) else run


class _LocatedRun:
    __slots__ = ("run_deferred", "graph", "run", "overwritten_inputs")

    def __init__(self, run: Any, graph: Graph, written: Mapping[int, int] | None) -> None:
        self.run, self.graph, self.overwritten_inputs = run, copy_structure(graph), written
        self.run_deferred = run.run_deferred if written is not None and isinstance(run, DefersChecks) else None

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        try:
            if self.run_deferred is not None:
                return self.run_deferred(inputs, held, self.overwritten_inputs, self.make_error)
            return self.run(inputs, held)
        except IndexFault as fault:
            raise self.make_error(fault) from None
        except ValueError as error:
            if not hasattr(error, "step"):
                raise
            raise _step_error(error, self.run.places, self.graph) from None

    def make_error(self, fault: IndexFault) -> IndexError:
        return _index_error(fault, self.run.places, self.graph)

    def direct(self) -> int:
        return self.run.direct()


Place = tuple[Any, tuple[int, ...]]


def _find_places(graph: Graph, program: Any) -> list[Place]:
    """Return the position of each index check of a Program, then of each NumPy step that may raise. A position finds the node in
    any graph with the same key: an index into the order of nodes, then one per nested loop."""
    from weft.schedule.index_checks import sites
    from weft.schedule.program import find_hosts

    checked = [(site, _find_place(graph, IN_BOUNDS.name, site.source_line)) for site in sites(program)]
    return checked + [(step, _find_place(graph, step.name, step.source_line)) for step in find_hosts(program) if step.raises]


def _find_place(graph: Graph, name: str, where: Any) -> tuple[int, ...]:
    for k, node in enumerate(graph.order):
        if node.op.name == name and node.source_line is where:  # rewrites of a node pass on this very object
            return (k,)
        if node.op.kind == "loop":
            path = _find_place(node.params["body"].graph, name, where)
            if path:
                return (k, *path)
    return ()


def _index_error(fault: IndexFault, places: list[Place], graph: Graph) -> IndexError:
    """Return the IndexError of a fault with the line of this graph, which may differ from the graph that was compiled."""
    site, path = places[fault.site]
    return make_index_error(fault, site, _line_of(graph, path, site.source_line))


def _line_of(graph: Graph, path: tuple[int, ...], default: Any) -> Any:
    """Return the line of the node at a position; ``known`` if the position is empty."""
    node: Any = None
    for k in path:
        node = (graph if node is None else node.params["body"].graph).order[k]
    return default if node is None else node.source_line


def _step_error(error: ValueError, places: list[Place], graph: Graph) -> ValueError:
    """Return the error of a step in NumPy with the line of this graph."""
    step = error.step  # type: ignore[attr-defined]
    path = next((path for candidate, path in places if candidate is step), None)
    return error if path is None else add_user_line(error, _line_of(graph, path, step.source_line))


def add_user_line(error: ValueError, where: Any) -> ValueError:
    """Return NumPy's error with the user's line added: ``Singular matrix (train.py:12)``."""
    try:
        return type(error)(f"{error} ({user_line(where)})")
    except TypeError:  # its constructor takes more than a message
        return error


def make_index_error(fault: IndexFault, site: Any, where: Any) -> IndexError:
    """Return NumPy's error for an index out of range, with the user's line. ``fault.index`` counts from the front."""
    index = fault.index
    if index < 0:
        index += 1 << 64 if site.is_unsigned else site.lowest
    return index_error(index, site.axis, site.extent, user_line(where))


def to_buffer(array: np.ndarray) -> Any:
    """Return a buffer with a copy of a NumPy array."""
    return device().upload(array)


def read_first(buffer: Any, dtype: Format) -> Any:
    """Return the first element of a buffer, as a NumPy number."""
    source = owner(buffer)
    number = source.read_first(buffer, dtype)
    if DEVICE_OF_BUFFER_TYPE:
        _raise_late_error(source)
    return number


def to_numpy(buffer: Any, shape: Shape, dtype: Format) -> np.ndarray:
    """Return a read-only NumPy view of a buffer. The buffer must never be written afterwards."""
    source = owner(buffer)
    array = source.download(buffer, shape, dtype)
    if DEVICE_OF_BUFFER_TYPE:
        _raise_late_error(source)
    return array


def _raise_late_error(source: Device) -> None:
    """Raise the pending error of an earlier run on this device, if there is one."""
    if isinstance(source, ReportsErrorsLate):
        source.raise_pending_error()


eager_device: Callable[[], EagerDevice] = get_device  # type: ignore[assignment]  # the device of eager work, the CPU


def wait_for(nodes: Iterable[Node]) -> None:
    """Wait until the devices that hold the values of nodes are idle. CPU runs are complete when they return."""
    if DEVICE_OF_BUFFER_TYPE:
        for source in {owner(n.value) for n in nodes if type(n.value) in DEVICE_OF_BUFFER_TYPE}:
            source.synchronise()
            _raise_late_error(source)

"""Run a Graph: the one place where the array layer meets schedule and devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from weft.devices import get_device
from weft.devices.base import ELSEWHERE, AnySize, DefersChecks, Device, Run, Sized, TellsLate
from weft.devices.faults import IndexFault
from weft.dtypes.formats import Format
from weft.errors import DeviceError, gib, out_of_bounds
from weft.graph.node import Graph, Node, Shape
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.primitives.table import INPUT, SCALAR
from weft.graph.source_lines import user_line
from weft.process.bounded_cache import Recent
from weft.runtime.context import LOCAL

# Someone who changes shapes for ever makes programs for ever. The last 1000 small ones are found again and at most 2000 kept,
# some 16 KB each, 40 MB in all; of large ones 64 and 128 MB by estimate, but never fewer than the last 16. That is far above
# what a program with fixed shapes needs.
PROGRAMS = Recent(64e6)
LEAST, NODE, STEP = 64e3, 1e3, 8e3  # bytes: of a node with its part of key and kernel, of a step with its code and table


def key_of(graph: Graph) -> tuple:
    """Equal keys mean the same program."""
    return (device().name, graph.key(), LOCAL.flush)


def device() -> Device:
    """The device that this thread's programs run on."""
    try:
        return get_device(LOCAL.device or "cpu")
    except (ValueError, DeviceError) as error:  # every other name was tried where it was given
        raise type(error)(f"$WEFT_DEVICE: {error}") from None


def owner(buffer: Any) -> Device:
    """The device whose memory a buffer is."""
    return get_device(ELSEWHERE.get(type(buffer), "cpu") if ELSEWHERE else "cpu")


@contextmanager
def on(name: str) -> Iterator[None]:
    """Run what is run inside on a device, in this thread."""
    before = LOCAL.device, LOCAL.place
    LOCAL.device = LOCAL.place = None if name == "cpu" else name
    try:
        yield
    finally:
        LOCAL.device, LOCAL.place = before


def here(nodes: Iterable[Node], there: Device | None = None) -> None:
    """Bring what leaves hold to a device, the one in use unless told otherwise, where it lies elsewhere: a program moves what it
    reads, once, and the leaf holds the copy from then on. To be asked only where ``ELSEWHERE`` says that there is another."""
    if there is None:
        there = device()
    for node in nodes:
        value = node.value
        if value is None or node.op is SCALAR:
            continue
        before = owner(value)
        if before is not there:
            node.value = there.upload(before.download(value, node.shape, node.dtype))


def fetched(*nodes: Node) -> bool:
    """The same for what is computed at once; False where programs are placed by cost and one of the leaves lies elsewhere and is
    too large to be fetched for that: then it waits for the program that it is part of."""
    if LOCAL.place is not LOCAL.device:
        for node in nodes:
            if node.value is not None and node.nbytes > LOCAL.at_once and type(node.value) in ELSEWHERE:
                return False
    here(nodes)
    return True


def threads() -> int:
    """How many threads a kernel may use."""
    return device().threads


def known(key: tuple) -> Run | None:
    """What runs graphs of this key, if one was compiled lately."""
    return PROGRAMS.get(key)


def executable(graph: Graph) -> Run:
    """What runs a graph: ``f(inputs, held=None) -> buffers``. Made once for a graph's key, while that is in use."""
    if LOCAL.watch is not None:
        return LOCAL.watch.executable(graph)
    there, key = device(), key_of(graph)
    found = PROGRAMS.get(key)
    if found is None:
        from weft.schedule.build import build
        from weft.schedule.program import calls

        program = build(detached(graph), there.target)
        found = there.compile(program, flush_denormals=LOCAL.flush)
        found.places = _places(graph, program)
        kernels = sum(1 for _ in calls(program))
        PROGRAMS.put(key, found, max(LEAST, NODE * len(graph.order) + STEP * (len(program.steps) + kernels)))
    return found


def detached(graph: Graph) -> Graph:
    """A copy of the graph that holds no buffers, so that keeping it keeps no memory."""
    known: dict[Node, Node] = {}
    for node in graph.inputs:
        known[node] = Node(node.op if node.op is SCALAR else INPUT, (), {}, node.shape, node.dtype)
    for node in graph.order:
        if node not in known:
            inputs = tuple(known[i] for i in node.inputs)
            known[node] = Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    return Graph([known[n] for n in graph.inputs], [known[n] for n in graph.outputs])


def run(graph: Graph, values: Sequence[Any], found: Run | None = None) -> list[Any]:
    """One buffer an output; ``values`` are the buffers and numbers of ``graph.inputs``.

    found : what :func:`executable` gives, where that is known

    Raises
    ------
    IndexError
        An index is out of range; nothing has changed.
    MemoryError
        It does not fit; the largest result is named.
    """
    runs: Any = executable(graph) if found is None else found
    if ELSEWHERE:
        here(graph.inputs)
        values = [v if n.value is None else n.value for n, v in zip(graph.inputs, values, strict=True)]
    try:
        return runs(list(values))
    except IndexFault as fault:
        raise _told(fault, runs.places, graph) from None
    except ValueError as error:
        if not hasattr(error, "step"):
            raise
        raise _refused(error, runs.places, graph) from None
    except MemoryError as error:
        largest = max(graph.outputs, key=lambda n: n.nbytes)
        raise type(error)(
            f"{user_line(largest.where)}: {error}; the largest result here has shape {largest.shape}, dtype "
            f"{largest.dtype.name} and {gib(largest.nbytes)}"
        ) from None


def located(found: Run, graph: Graph, written: Mapping[int, int] | None = None) -> Run:
    """Return what runs a jitted call's graph, with errors that name its lines; ``found`` itself where it checks nothing.

    written : for each output that an array holds after the call the input that it held before, by number; None where more than
    that changes
    """
    return _Located(found, graph, written) if getattr(found, "places", ()) else found


class _Located:
    __slots__ = ("deferring", "found", "graph", "written")

    def __init__(self, found: Any, graph: Graph, written: Mapping[int, int] | None) -> None:
        self.found, self.graph, self.written = found, detached(graph), written
        self.deferring = found.deferring if written is not None and isinstance(found, DefersChecks) else None

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Any]:
        try:
            if self.deferring is not None:
                return self.deferring(inputs, held, self.written, self.told)
            return self.found(inputs, held)
        except IndexFault as fault:
            raise self.told(fault) from None
        except ValueError as error:
            if not hasattr(error, "step"):
                raise
            raise _refused(error, self.found.places, self.graph) from None

    def told(self, fault: IndexFault) -> IndexError:
        return _told(fault, self.found.places, self.graph)

    def direct(self) -> int:
        return self.found.direct()


Place = tuple[Any, tuple[int, ...]]


def _places(graph: Graph, program: Any) -> list[Place]:
    """Each site of a Program, then each step in NumPy that may refuse its operands, and where its node stands in any graph of
    the same key: a position, one more in each loop."""
    from weft.schedule.index_checks import sites
    from weft.schedule.program import hosts

    checked = [(site, _place(graph, IN_BOUNDS.name, site.where)) for site in sites(program)]
    return checked + [(step, _place(graph, step.name, step.where)) for step in hosts(program) if step.raises]


def _place(graph: Graph, name: str, where: Any) -> tuple[int, ...]:
    for k, node in enumerate(graph.order):
        if node.op.name == name and node.where is where:  # whoever rewrites a node passes on this very object
            return (k,)
        if node.op.kind == "loop":
            inner = _place(node.params["body"].graph, name, where)
            if inner:
                return (k, *inner)
    return ()


def _told(fault: IndexFault, places: list[Place], graph: Graph) -> IndexError:
    """The error of a fault, at the line of this graph, which need not be the one that the Program was made of."""
    site, path = places[fault.site]
    return told(fault, site, _where(graph, path, site.where))


def _where(graph: Graph, path: tuple[int, ...], known: Any) -> Any:
    """The line of the node at a path; ``known`` where there is no path."""
    node: Any = None
    for k in path:
        node = (graph if node is None else node.params["body"].graph).order[k]
    return known if node is None else node.where


def _refused(error: ValueError, places: list[Place], graph: Graph) -> ValueError:
    """The error of a step in NumPy, at the line of this graph."""
    step = error.step  # type: ignore[attr-defined]
    path = next((path for found, path in places if found is step), None)
    return error if path is None else refused(error, _where(graph, path, step.where))


def refused(error: ValueError, where: Any) -> ValueError:
    """NumPy's error and the user's line: ``Singular matrix (train.py:12)``."""
    try:
        return type(error)(f"{error} ({user_line(where)})")
    except TypeError:  # it is made of more than a sentence
        return error


def told(fault: IndexFault, site: Any, where: Any) -> IndexError:
    """NumPy's error of an index out of range, and the user's line. The index was counted from the front."""
    index = fault.index
    if index < 0:
        index += 1 << 64 if site.unsigned else site.lowest
    return out_of_bounds(index, site.axis, site.extent, user_line(where))


def to_buffer(array: np.ndarray) -> Any:
    """A buffer with a copy of a NumPy array."""
    return device().upload(array)


def gathered(array: np.ndarray, rows: np.ndarray) -> Any:
    """A buffer with some rows of a NumPy array, copied once; the dtype is one of NumPy's own, ``rows`` lie within the array."""
    return device().upload_rows(array, rows)


def first(buffer: Any, dtype: Format) -> Any:
    """The first element of a buffer, as a NumPy number."""
    there = owner(buffer)
    found = there.first(buffer, dtype)
    if ELSEWHERE:
        _tell(there)
    return found


def to_numpy(buffer: Any, shape: Shape, dtype: Format) -> np.ndarray:
    """A read-only view of a buffer, which is never written from then on."""
    there = owner(buffer)
    found = there.download(buffer, shape, dtype)
    if ELSEWHERE:
        _tell(there)
    return found


def _tell(there: Device) -> None:
    """After a look: raise the error of an earlier run on this device that nobody has heard of."""
    if isinstance(there, TellsLate):
        there.tell()


@cache
def _any_size(name: str) -> AnySize | None:
    found = get_device(name)
    return found if isinstance(found, AnySize) else None


def any_size() -> AnySize:
    """The device, which computes small things at once."""
    found = _any_size(device().name)
    assert found is not None
    return found


def sized() -> Sized:
    """The device's functions that take sizes as arguments."""
    return any_size().sized


def count_numpy() -> None:
    """Note that NumPy computes an operation on the device's memory."""
    any_size().numpy_calls += 1


def computes_at_once() -> bool:
    """Whether the device can compute small things at once."""
    return _any_size(device().name) is not None


def window(buffer: Any, start: int, nbytes: int) -> Any:
    """A buffer that is a part of another one, which is not written to while it lives."""
    return device().window(buffer, start, nbytes)  # type: ignore[attr-defined]


def over(array: np.ndarray) -> Any:
    """A buffer over the memory of a NumPy array that lies row by row; None where the device has memory of its own."""
    own = device()
    return own.over(array) if isinstance(own, AnySize) else None


def memory(buffer: Any, shape: Shape, dtype: Format) -> np.ndarray:
    """A buffer's memory, to be read from for a moment while the buffer is held."""
    return device().memory(buffer, shape, dtype)  # type: ignore[attr-defined]


def writable(buffer: Any, shape: Shape, dtype: Format) -> np.ndarray | None:
    """A buffer's memory, to be written to for a moment; None where a view or another library may be reading it."""
    found = _any_size(device().name)
    return None if found is None else found.writable(buffer, shape, dtype)


def together(buffers: Sequence[Any]) -> bytes | None:
    """The bytes of many buffers, one after the other; None where one of them is a part of another buffer."""
    return device().together(buffers)  # type: ignore[attr-defined]


def allocate(nbytes: int) -> Any:
    """A buffer of so many bytes, not initialised."""
    return device().allocate(nbytes)


def allocator() -> Callable[[int], Any]:
    """What makes a buffer of so many bytes, not initialised."""
    return device().allocate


def wait_for(nodes: Iterable[Node]) -> None:
    """Wait until the devices where nodes have their values are done; calls on the CPU have finished when they return."""
    if ELSEWHERE:
        for there in {owner(n.value) for n in nodes if type(n.value) in ELSEWHERE}:
            there.synchronise()
            _tell(there)

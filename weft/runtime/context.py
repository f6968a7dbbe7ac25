"""Per-thread state: limits of eager work, the active trace and profile, the device, and pending arrays."""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol


class WriteLog(Protocol):
    """A log of the contents that writes replace: see ``weft.transforms.write_log``."""

    def record(self, cell: Any) -> None: ...
    def add_log(self, later: Any) -> None: ...


class ProfilerSession(Protocol):
    """The interface of a profile session: it wraps what runs."""

    def executable(self, graph: Any) -> Any: ...
    def twin(self, jitted: Any) -> Any: ...


class PendingList(list[Any]):
    """Weak references to the Arrays of one thread whose contents are pending, some of them dead: see ``weft.runtime.pending``.

    limit: length at which the amount of pending work is checked. swept: length up to which dead entries have been removed. came:
    entries added since the last check of the whole list. counted: length at the last count of pending nodes; known: that count.
    waits: enough is pending, compute at the next good place, or when the list has ``until`` entries. line: the source line of the
    last computation.
    """

    __slots__ = ("new_entries", "counted_length", "node_count", "limit", "line", "swept_length", "until", "waits")

    def __init__(self) -> None:
        super().__init__()
        self.limit = 32
        self.swept_length = self.new_entries = self.counted_length = self.node_count = self.until = 0
        self.waits = False
        self.line: Any = None


_ENVIRONMENT = {"": None, "cpu": None, "cpu:0": None, "auto": None, "gpu:0": "gpu"}
_DEVICE_VARIABLE = os.environ.get("WEFT_DEVICE", "")
_set: Any = threading.local.__setattr__
_EAGER_SETTINGS = frozenset(("transform_depth", "flush_denormals", "profiler", "device", "max_eager_bytes"))


class _Local(threading.local):
    # default of new threads: None for the CPU, another device's name, or, for "auto", the Figures by which programs are placed
    # (set by ``weft/__init__.py``): see ``transforms/settings.py``
    default_placement: Any = _ENVIRONMENT.get(_DEVICE_VARIABLE, _DEVICE_VARIABLE)
    placement: Any  # the same for this thread
    device: str | None = None  # its name; None for "auto" too, since small work then runs on the CPU
    trace: Any = None  # the innermost trace of this thread
    retain_graph: int = 0  # above 0: reading a value leaves the graph as it is, a gradient will walk it
    custom_rules: int = 0  # derivatives that functions with a rule of their own prepare for: ``transforms/custom.py``
    variables: frozenset[Any] = frozenset()  # nodes that the current gradient differentiates by
    transform_depth: int = 0  # above 0: in a trace or a gradient, where jitted functions are inlined
    flush_denormals: bool = False  # new programs flush denormals to zero
    precision: Any = None  # the formats of the products of layers, and the layer's name: ``nn/precision.py``
    watch: Any = None  # the key of the active watch of numbers: ``nn/watch.py``
    profiler: ProfilerSession | None = None  # the active profile session of this thread
    compile_threshold: float = 1.0  # share of its compile time that a graph may lose before it is compiled, see ``tiers.py``
    refused_export: Any = None  # array id and frame of the last refused writable export: see ``NumpyMethods._export_memory``
    max_eager_bytes: int  # bytes of the largest result computed immediately, see ``eager/apply.py``; 0 disables it
    eager_limit: int  # the same limit; 0 inside traces, gradients and profiles, with flush, and on other devices

    def __init__(self) -> None:
        self.pending = PendingList()
        self.max_eager_bytes = 128 << 10
        self.placement = _Local.default_placement
        self.device = self.placement if isinstance(self.placement, str) else None

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)
        if name in _EAGER_SETTINGS:  # every operator reads ``eager_limit``, so it is computed here
            disabled = self.transform_depth or self.flush_denormals or self.profiler is not None or self.device is not None
            _set(self, "eager_limit", 0 if disabled else self.max_eager_bytes)


CONTEXT = _Local()

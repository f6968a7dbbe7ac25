"""Programs on disk: a later process reads the Program of a large graph instead of scheduling the graph again.

The name of an entry is a digest of the graph's key, of the device as the scheduler sees it, and, added by the device, of weft's
sources. The content is a pickle, in a folder whose entries are trusted like the object code in it (``weft/devices/cache.py``). An
entry that cannot be read counts as missing.

Not stored: Programs of small graphs, which are scheduled as fast as a file is read; Programs with steps in NumPy, which contain
functions; and those of graphs whose key contains anything but numbers, texts, shapes and formats of weft's own.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

import numpy as np

from weft.devices.base import Device, KeepsPrograms
from weft.dtypes.formats import Format, named
from weft.graph.loops import Body, every
from weft.graph.node import Graph
from weft.kernel.target import Target

MIN_NODES = 100  # of a graph and the bodies of its loops


def name_of(graph: Graph, key: tuple, device: Device) -> str | None:
    """Return the name under which the Program of a graph is stored, or None if it is not. key : the graph's key"""
    if not isinstance(device, KeepsPrograms) or len(every(graph)) < MIN_NODES:
        return None
    file = io.BytesIO()
    try:
        _KeyPickler(file).dump((sys.version, np.__version__, device.target, key))
    except TypeError:
        return None
    return hashlib.sha256(file.getbuffer()).hexdigest()


class _KeyPickler(pickle.Pickler):
    """Writes equal bytes for equal keys, in every process."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.fast = True  # without references to equal parts, of which one key may have more than another

    def reducer_override(self, obj: Any) -> Any:
        """Called for what is not a tuple, number or text. Raise TypeError if its bytes may differ between processes."""
        if isinstance(obj, Format) and not obj.custom:
            return str, (obj.name,)
        if isinstance(obj, Body):
            return tuple, (obj.key(),)
        if isinstance(obj, Target):
            kind, values = _as_call(obj)
            return kind, tuple([sorted(v) if isinstance(v, frozenset) else v for v in values])
        if isinstance(obj, type | tuple | np.dtype):
            return NotImplemented
        raise TypeError(f"a key contains {type(obj).__name__}")


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> str | None:
        """Formats exist once in a process. The user's code is left out: errors name the line of the graph that runs."""
        if isinstance(obj, Format):
            return obj.name
        return "" if isinstance(obj, CodeType) else None

    def reducer_override(self, obj: Any) -> Any:
        """Let records be read by calls of their classes, in half the time of ``dataclasses``' own way."""
        return _as_call(obj) if is_dataclass(obj) and not isinstance(obj, type) else NotImplemented


def _as_call(record: Any) -> tuple[type, tuple]:
    """Return a class and the arguments that make this record."""
    return type(record), tuple([getattr(record, field.name) for field in fields(record) if field.init])


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: str) -> Format | None:
        return named(pid) if pid else None


def read(device: Device, name: str | None) -> Any:
    """Return the value stored under a name, or None."""
    content = device.read_program(name) if name is not None and isinstance(device, KeepsPrograms) else None
    if content is None:
        return None
    try:
        return _Unpickler(io.BytesIO(content)).load()
    except Exception:  # of whatever kind a damaged or strange pickle raises
        return None


def write(device: Device, name: str | None, value: Any) -> None:
    """Store a Program and what belongs to it under a name."""
    if name is None or not isinstance(device, KeepsPrograms):
        return
    file = io.BytesIO()
    try:
        _Pickler(file, 5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return
    device.write_program(name, file.getvalue())

"""Arrays that refuse writes: ``x.flags.writeable = False`` changes the class of an array to ReadOnly, so writes need no check.

Native code handles plain Arrays only and leaves these to Python.
"""

from __future__ import annotations

from typing import Any

from weft.array.core import Array, ndarray
from weft.array.views import ViewPath
from weft.errors import TraceError
from weft.graph.node import Node
from weft.runtime.context import CONTEXT


class ReadOnly(ndarray):
    """An Array, or a view, that refuses writes."""

    __slots__ = ()
    read_only = True

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _write_error(self)

    def _in_place(self, node: Node, name: str) -> Array:
        raise _write_error(self, f"{name}: ")

    def _view(self, path: ViewPath) -> Array:
        out = super()._view(path)
        out.__class__ = ReadOnly
        return out


def _write_error(array: Array, prefix: str = "") -> ValueError:
    description = f"{array.dtype.name}{list(array.shape)}"
    return ValueError(
        f"{prefix}assignment destination is read-only: this array ({description}), or the array it is a view of, was made so by "
        "flags.writeable = False; write into a copy, x.copy()"
    )


def _set_write(array: Any, write: bool) -> None:
    """Implement ``setflags(write=)``."""
    if array.is_value:
        raise ValueError("setflags: flags of a Scalar cannot be set: it is a value; make an array of it with wf.array(x)")
    if write and array._base is not None and array._base.read_only:
        raise ValueError("setflags: cannot set WRITEABLE flag to True of this array: it is a view of one that is read-only")
    if write is not array.read_only:
        return
    if CONTEXT.trace is not None:
        raise TraceError("setflags: inside of a traced function no array is made read-only, nor writeable; do it outside")
    array.__class__ = ndarray if write else ReadOnly

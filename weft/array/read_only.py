"""Arrays that refuse writes: ``x.flags.writeable = False`` gives an array this class, so that others need not ask.

Native code serves plain Arrays alone, and leaves these to Python.
"""

from __future__ import annotations

from typing import Any

from weft.array.core import Array, ndarray
from weft.array.views import Path
from weft.errors import TraceError
from weft.graph.node import Node
from weft.runtime.context import LOCAL


class ReadOnly(ndarray):
    """An Array, or a view, that is not written to."""

    __slots__ = ()
    read_only = True

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _refusal(self)

    def _in_place(self, node: Node, name: str) -> Array:
        raise _refusal(self, f"{name}: ")

    def _view(self, path: Path) -> Array:
        out = super()._view(path)
        out.__class__ = ReadOnly
        return out


def _refusal(array: Array, what: str = "") -> ValueError:
    form = f"{array.dtype.name}{list(array.shape)}"
    return ValueError(
        f"{what}assignment destination is read-only: this array ({form}), or what it is a view of, was made so by "
        "flags.writeable = False; write into a copy, x.copy()"
    )


def _set_write(array: Any, write: bool) -> None:
    """What ``setflags(write=)`` does."""
    if array.is_value:
        raise ValueError("setflags: flags of a Scalar cannot be set: it is a value; make an array of it with wf.array(x)")
    if write and array._base is not None and array._base.read_only:
        raise ValueError("setflags: cannot set WRITEABLE flag to True of this array: it is a view of one that is read-only")
    if write is not array.read_only:
        return
    if LOCAL.trace is not None:
        raise TraceError("setflags: inside of a traced function no array is made read-only, nor writeable; do it outside")
    array.__class__ = ndarray if write else ReadOnly

"""The buffer protocol of Arrays before Python 3.12, which has ``__buffer__`` for it: a function in the slots of the classes.

A function that Python code answers cannot leave an exception behind: where ``_exported`` refuses, Python says SystemError.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_AS_BUFFER = tuple.__basicsize__ + 17 * ctypes.sizeof(ctypes.c_void_p)  # cpython/object.h, PyTypeObject: tp_as_buffer
_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)


@_GetBuffer
def _export(x: Any, view: int, flags: int) -> int:
    """``bf_getbuffer``: what the content's NumPy array answers. Python calls it, so nothing may be raised here."""
    try:
        return _get_buffer(x._exported(flags), view, flags)
    except BaseException:
        ctypes.c_void_p.from_address(view + ctypes.sizeof(ctypes.c_void_p)).value = None  # Py_buffer.obj: nothing was exported
        return -1


def install(*classes: type) -> None:
    """Classes that have ``_exported`` export buffers; classes made from them later inherit that."""
    for kind in classes if sys.version_info < (3, 12) else ():
        slots = ctypes.c_size_t.from_address(id(kind) + _AS_BUFFER).value
        ctypes.c_void_p.from_address(slots).value = ctypes.cast(_export, ctypes.c_void_p).value

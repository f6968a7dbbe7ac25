"""The buffer protocol of Arrays before Python 3.12, which introduced ``__buffer__``: C functions in the slots of the classes.

The exporting function is Python code behind ctypes, which cannot leave an exception set. The slot therefore gets a few machine
instructions that call it and raise the exception that it stored. On systems or processors that cannot run them, the slot gets the
function itself, and a refusal by ``_export_memory`` becomes a SystemError.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from typing import Any

_AS_BUFFER = tuple.__basicsize__ + 17 * ctypes.sizeof(ctypes.c_void_p)  # cpython/object.h, PyTypeObject: tp_as_buffer
_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_ReleaseBuffer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_error_references = (ctypes.c_void_p * 3)()  # owned references: type, value and traceback of the exception to raise
# export(x, view, flags); if that is not 0: PyErr_Restore(*_error_references), return -1. {}: the addresses of export,
# _error_references and PyErr_Restore
_CODE = {
    "x86_64": "4883ec08 48b8{} ffd0 85c0 7426 48b8{} 488b38 488b7008 488b5010 48b8{} ffd0 b8ffffffff 4883c408 c3",
    "aarch64": "fd7bbfa9 69010058 20013fd6 e0000034 49010058 200540a9 220940f9 29010058 20013fd6 00008012 fd7bc1a8 c0035fd6"
               "{}{}{}",
}


@_GetBuffer
def _export(x: Any, view: int, flags: int) -> int:
    """``bf_getbuffer``: export the content's NumPy array. Python calls it through ctypes, so it must not raise."""
    try:
        return _get_buffer(x._export_memory(flags), view, flags)
    except BaseException as error:
        ctypes.c_void_p.from_address(view + ctypes.sizeof(ctypes.c_void_p)).value = None  # Py_buffer.obj: nothing was exported
        for k, part in enumerate((type(error), error, error.__traceback__) if _CODE_ADDRESS else ()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
            _error_references[k] = id(part)
        return -1


@_ReleaseBuffer
def _release(x: int, view: int) -> None:
    """``bf_releasebuffer``: never called, since a view belongs to NumPy's array. If a class has this slot, ``numpy.frombuffer``
    uses a memoryview; otherwise it requests plain bytes, which ``_export_memory`` refuses."""


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _map_code() -> int | None:
    """Return the address of the machine instructions, or None if they cannot run here."""
    text = _CODE.get(platform.machine(), "") if sys.platform == "linux" else ""
    addresses = _address(_export), ctypes.addressof(_error_references), _address(ctypes.pythonapi.PyErr_Restore)
    code = bytes.fromhex(text.format(*[struct.pack("<Q", address).hex() for address in addresses]))
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.write(code)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        executable = ctypes.CDLL(None).mprotect(
            ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC,
        ) == 0
    except (OSError, AttributeError, ValueError):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # never unmapped
    return start if code and executable else None


def install(*classes: type) -> None:
    """Let classes that have ``_export_memory`` export buffers; their later subclasses inherit that."""
    for kind in classes if sys.version_info < (3, 12) else ():
        slots = ctypes.c_size_t.from_address(id(kind) + _AS_BUFFER).value
        ctypes.c_void_p.from_address(slots).value = _CODE_ADDRESS or _address(_export)
        ctypes.c_void_p.from_address(slots + ctypes.sizeof(ctypes.c_void_p)).value = _address(_release)


_CODE_ADDRESS = _map_code() if sys.version_info < (3, 12) else None

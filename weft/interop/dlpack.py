"""DLPack: arrays handed to other libraries, and taken from them.

Arrays of weft may share their memory with each other (a copy costs nothing until one of them is written), so nobody else may
write to it. Not every consumer heeds the flag that says so (PyTorch does not): unless sharing is asked for by name, an
export is a copy of its own. NumPy knows none of ml_dtypes' formats: it carries their bits as unsigned integers, and the type is
put into the capsule.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft.dtypes.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2

_CPU = 1
_UINT = 1  # DLPack's codes of types
_CODES = {BFLOAT16.numpy: 4, FLOAT8_E4M3FN.numpy: 10, FLOAT8_E5M2.numpy: 12}
_COMING = {code: dtype for dtype, code in _CODES.items()}
_VERSIONED, _PLAIN = b"dltensor_versioned", b"dltensor"
_CODE_AT = {_VERSIONED: 32 + 20, _PLAIN: 20}  # where in a managed tensor the code stands: after address, device and ndim


def exported(array: np.ndarray, kwargs: dict[str, Any]) -> Any:
    """What ``__dlpack__(**kwargs)`` gives for a read-only array.

    Raises
    ------
    BufferError
        Sharing is asked for, of a consumer that cannot be told that it must not write.
    """
    version, copy = kwargs.get("max_version"), kwargs.get("copy")
    told = version is not None and tuple(version) >= (1, 0)
    if copy is False and not told:
        raise BufferError(
            "__dlpack__: with copy=False the memory is shared, and must not be written; this consumer is too old (DLPack before "
            "1.0) to be told. Let it have a copy"
        )
    if copy is not False:
        if told:
            kwargs = {**kwargs, "copy": True}
        else:
            array = array.copy()
            kwargs = {k: v for k, v in kwargs.items() if k not in ("copy", "max_version")}
    code = _CODES.get(array.dtype)
    capsule = (array if code is None else array.view(f"u{array.itemsize}")).__dlpack__(**kwargs)
    if code is not None:
        _code(capsule).value = code
    return capsule


def shared(x: Any) -> np.ndarray:
    """The memory of another library's array, lying row by row, without a copy.

    Raises
    ------
    BufferError
        It cannot be shared.
    """
    try:
        found = taken(x, copy=False)
    except ValueError as error:  # so NumPy says that a copy is needed
        raise BufferError(f"from_dlpack: {error}") from None
    if not (found.flags.c_contiguous and found.flags.aligned):
        raise BufferError(
            f"from_dlpack: with copy=False the memory must lie row by row; an array of shape {found.shape} with strides "
            f"{found.strides} does not. Let it be copied"
        )
    return found


def taken(x: Any, **options: Any) -> np.ndarray:
    """The content of another library's array, shared where NumPy can share it."""
    try:
        return np.from_dlpack(x, **options)
    except (RuntimeError, BufferError):
        if x.__dlpack_device__()[0] != _CPU:
            raise
        capsule = x.__dlpack__()
        code = _code(capsule)
        dtype = _COMING.get(code.value)
        if dtype is None:
            raise
        code.value = _UINT
        return np.from_dlpack(_Holder(capsule)).view(dtype)


class _Holder:
    """A capsule as the object that gives it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def _code(capsule: Any) -> ctypes.c_uint8:
    """The code of the type, in place."""
    api = ctypes.pythonapi
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    name = _VERSIONED if valid(capsule, _VERSIONED) else _PLAIN
    return ctypes.c_uint8.from_address(pointer(capsule, name) + _CODE_AT[name])

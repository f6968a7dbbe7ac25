"""DLPack: export of arrays to other libraries, and import from them.

Arrays of weft may share memory with each other (a copy is free until one of them is written), so no other library may write to
it. Not every consumer respects the read-only flag (PyTorch does not): an export is a copy unless sharing is requested by name.
NumPy's DLPack functions do not support ml_dtypes' formats: their bits are passed as unsigned integers, and the type code in the
capsule is then replaced.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft.dtypes.formats import FORMATS, FROM_NUMPY

CPU = 1  # DLPack's device type
_UINT = 1  # DLPack's type code
OWN_CODES = {  # formats with a type code of their own, which NumPy lacks: dlpack.h 1.1
    FORMATS[name]: code for name, code in (
        ("bfloat16", 4), ("float8_e3m4", 7), ("float8_e4m3", 8), ("float8_e4m3b11fnuz", 9), ("float8_e4m3fn", 10),
        ("float8_e4m3fnuz", 11), ("float8_e5m2", 12), ("float8_e5m2fnuz", 13), ("float8_e8m0fnu", 14),
    )
}
_DTYPE_OF_CODE = {code: form.numpy for form, code in OWN_CODES.items()}
_VERSIONED_CAPSULE, _PLAIN_CAPSULE = b"dltensor_versioned", b"dltensor"
_FLAGS = 24  # offset of the flags


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )


def export_array(array: np.ndarray, kwargs: dict[str, Any]) -> Any:
    """Return the result of ``__dlpack__(**kwargs)`` for a read-only array.

    Raises
    ------
    BufferError
        Sharing is requested by a consumer that does not support the read-only flag.
    """
    copy = kwargs.get("copy")
    versioned = reads_flags(kwargs.get("max_version"), copy)
    if copy is not False:
        if versioned:
            kwargs = {**kwargs, "copy": True}
        else:
            array = array.copy()
            kwargs = {k: v for k, v in kwargs.items() if k not in ("copy", "max_version")}
    code = OWN_CODES.get(form := FROM_NUMPY[array.dtype])
    if code is None and form.alone:
        raise BufferError(f"DLPack has no type for {form} with one element a byte; use .astype('float32')")
    capsule = (array if code is None else array.view(f"u{array.itemsize}")).__dlpack__(**kwargs)
    if code is not None:
        open_capsule(capsule)[0].code = code
    return capsule


def reads_flags(version: Any, copy: bool | None = None) -> bool:
    """Return whether a consumer reads the flags of DLPack 1.0. Refuse ``copy=False`` if it does not."""
    versioned = version is not None and tuple(version) >= (1, 0)
    if copy is False and not versioned:
        raise BufferError(
            "__dlpack__: with copy=False the memory is shared, and must not be written; this consumer is too old (DLPack before "
            "1.0) to respect that. Use copy=True or leave copy out"
        )
    return versioned


def shared(x: Any) -> np.ndarray:
    """Return the memory of another library's array as a contiguous NumPy array, without a copy.

    Raises
    ------
    BufferError
        The array cannot be shared.
    """
    try:
        array = import_array(x, copy=False)
    except ValueError as error:  # NumPy raises it if a copy is needed
        raise BufferError(f"from_dlpack: {error}") from None
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise BufferError(
            f"from_dlpack: with copy=False the memory must lie row by row; an array of shape {array.shape} with strides "
            f"{array.strides} does not. Leave copy=False out to get a copy"
        )
    return array


def import_array(x: Any, **options: Any) -> np.ndarray:
    """Return the content of another library's array as a NumPy array, shared if NumPy can share it."""
    try:
        return np.from_dlpack(x, **options)
    except (RuntimeError, BufferError):
        if x.__dlpack_device__()[0] != CPU:
            raise
        capsule = x.__dlpack__()
        tensor, _ = open_capsule(capsule)
        dtype = _DTYPE_OF_CODE.get(tensor.code)
        if dtype is None:
            raise
        tensor.code = _UINT
        return np.from_dlpack(_CapsuleHolder(capsule)).view(dtype)


class _CapsuleHolder:
    """An object whose ``__dlpack__`` returns a given capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)


def open_capsule(capsule: Any) -> tuple[_Tensor, Any]:
    """Return the DLTensor of a capsule, in place, and its flags if it has any."""
    api = ctypes.pythonapi
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    if not valid(capsule, _VERSIONED_CAPSULE):
        return _Tensor.from_address(pointer(capsule, _PLAIN_CAPSULE)), None
    start = pointer(capsule, _VERSIONED_CAPSULE)
    major = ctypes.c_uint32.from_address(start).value
    if major != 1:
        raise BufferError(f"a DLPack capsule of version {major} cannot be read: version 1 can")
    return _Tensor.from_address(start + 32), ctypes.c_uint64.from_address(start + _FLAGS)

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

from weft.dtypes.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2

_CPU = 1
_UINT = 1  # DLPack's type code
_CODES = {BFLOAT16.numpy: 4, FLOAT8_E4M3FN.numpy: 10, FLOAT8_E5M2.numpy: 12}
_FORMAT_OF_CODE = {code: dtype for dtype, code in _CODES.items()}
_VERSIONED, _PLAIN = b"dltensor_versioned", b"dltensor"
_CODE_AT = {_VERSIONED: 32 + 20, _PLAIN: 20}  # offset of the code in a managed tensor: after address, device and ndim


def exported(array: np.ndarray, kwargs: dict[str, Any]) -> Any:
    """Return the result of ``__dlpack__(**kwargs)`` for a read-only array.

    Raises
    ------
    BufferError
        Sharing is requested by a consumer that does not support the read-only flag.
    """
    version, copy = kwargs.get("max_version"), kwargs.get("copy")
    versioned = version is not None and tuple(version) >= (1, 0)
    if copy is False and not versioned:
        raise BufferError(
            "__dlpack__: with copy=False the memory is shared, and must not be written; this consumer is too old (DLPack before "
            "1.0) to respect that. Use copy=True or leave copy out"
        )
    if copy is not False:
        if versioned:
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
    """Return the memory of another library's array as a contiguous NumPy array, without a copy.

    Raises
    ------
    BufferError
        The array cannot be shared.
    """
    try:
        array = taken(x, copy=False)
    except ValueError as error:  # NumPy raises it if a copy is needed
        raise BufferError(f"from_dlpack: {error}") from None
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise BufferError(
            f"from_dlpack: with copy=False the memory must lie row by row; an array of shape {array.shape} with strides "
            f"{array.strides} does not. Leave copy=False out to get a copy"
        )
    return array


def taken(x: Any, **options: Any) -> np.ndarray:
    """Return the content of another library's array as a NumPy array, shared if NumPy can share it."""
    try:
        return np.from_dlpack(x, **options)
    except (RuntimeError, BufferError):
        if x.__dlpack_device__()[0] != _CPU:
            raise
        capsule = x.__dlpack__()
        code = _code(capsule)
        dtype = _FORMAT_OF_CODE.get(code.value)
        if dtype is None:
            raise
        code.value = _UINT
        return np.from_dlpack(_CapsuleHolder(capsule)).view(dtype)


class _CapsuleHolder:
    """An object whose ``__dlpack__`` returns a given capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def _code(capsule: Any) -> ctypes.c_uint8:
    """Return the type code of a capsule, in place."""
    api = ctypes.pythonapi
    valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    name = _VERSIONED if valid(capsule, _VERSIONED) else _PLAIN
    return ctypes.c_uint8.from_address(pointer(capsule, name) + _CODE_AT[name])

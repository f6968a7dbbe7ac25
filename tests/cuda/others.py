"""Other libraries on a card, for tests: one that takes arrays apart as dlpack.h says, and some whose memory weft is shown."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.cuda.stub import StubDriver

CODES = {"bool": 6, "int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5}
READ_ONLY, COPIED = 1, 2
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
api = ctypes.pythonapi
NAME = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
CONTENT = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
RENAMED = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", api))
Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
MAKE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, Destructor)(("PyCapsule_New", api))
VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )


class Plain(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", Deleter))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", Deleter),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    )


FORMS: dict[bytes, Any] = {b"dltensor": Plain, b"dltensor_versioned": Versioned}


class Consumer:
    """Another library that takes an array, on a stream of its own."""

    def __init__(self, driver: StubDriver, x: Any, stream: Any = 1, **asked: Any) -> None:
        self.driver, self.stream = driver, 1 if stream is None else stream
        self.device = x.__dlpack_device__()
        capsule = x.__dlpack__(stream=stream, **({"max_version": (1, 1)} | asked))
        name = NAME(capsule)
        self.managed = FORMS[name].from_address(CONTENT(capsule, name))
        self.used = b"used_" + name  # a capsule keeps the address of its name
        RENAMED(capsule, self.used)
        self.tensor: Any = self.managed.tensor
        self.flags = getattr(self.managed, "flags", None)

    def at_once(self) -> np.ndarray:
        """What lies there now."""
        t = self.tensor
        shape = tuple(t.shape[: t.ndim])
        assert not t.strides or tuple(t.strides[: t.ndim]) == tuple(np.cumprod([1, *shape[:0:-1]])[::-1]) * bool(t.ndim)
        kind = next(k for k, c in CODES.items() if c == t.code)
        dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat" else f"{kind}{t.bits}" if kind != "bool" else "bool")
        nbytes = int(np.prod(shape, dtype=int)) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(t.data + t.offset, nbytes), dtype).reshape(shape)

    def read(self) -> np.ndarray:
        """What its stream reads."""
        self.driver.run(self.stream)
        return self.at_once()

    def release(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


class Producer:
    """Another library's array on the card, whose content its stream has still to write."""

    def __init__(
        self, driver: StubDriver, content: np.ndarray, stream: int = 5, versioned: bool = True, offset: int = 0,
        view: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    ) -> None:
        self.driver, self.stream, self.versioned, self.content, self.offset = driver, stream, versioned, view(content), offset
        self.address = driver.theirs(content, stream, offset)
        self.first = self.address + _address(self.content) - _address(content)
        self.asked: list[dict[str, Any]] = []
        self.released = 0
        self.device = (2, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **asked: Any) -> Any:
        if asked and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append({"stream": stream, **asked})
        assert stream == self.driver.stream
        self.driver.follow(self.stream)  # the consumer's stream waits for its own
        form, content = FORMS[b"dltensor_versioned" if self.versioned else b"dltensor"], self.content
        managed = form()
        if self.versioned:
            managed.major, managed.minor = 1, 1
        kind = "bfloat" if content.dtype == ml_dtypes.bfloat16 else "".join(c for c in content.dtype.name if not c.isdigit())
        shape = (ctypes.c_int64 * max(1, content.ndim))(*content.shape)
        strides = (ctypes.c_int64 * max(1, content.ndim))(*[s // content.itemsize for s in content.strides])
        t = managed.tensor = Tensor(
            self.first - 4, *self.device, content.ndim, CODES[kind], 8 * content.itemsize, 1, shape, strides, 4,
        )
        kept: list[Any] = [managed, t, shape, strides, self]

        def end(at: Any) -> None:
            self.released += 1
            self.driver.memory.pop(self.address - self.offset)[:] = 0xCD
            kept.clear()

        def dropped(capsule: int) -> None:
            if VALID(capsule, name):
                end(None)

        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        managed.deleter = Deleter(end)
        ending = Destructor(dropped)
        kept += [managed.deleter, ending, name]
        ALIVE.append((ending, name, managed))
        return MAKE(ctypes.addressof(managed), name, ending)


class Interfaced(Producer):
    """The same by the CUDA array interface alone."""

    told: Any = 5
    version = 3

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__dlpack"):
            raise AttributeError(name)
        return super().__getattribute__(name)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        content = self.content
        compact = content.flags.c_contiguous
        return {
            "version": self.version, "shape": content.shape, "typestr": content.dtype.str, "data": (self.first, False),
            "strides": None if compact else content.strides, **({"stream": self.told} if self.version > 2 else {}),
        }


ALIVE: list[Any] = []  # functions that capsules call


def _address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]

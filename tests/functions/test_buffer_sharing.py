"""Arrays that leave: what others write never shows in an array of weft, and what weft writes never shows in what has left."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import FORMATS

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
          "float8_e4m3fn", "float8_e5m2")
CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}  # DLPack's, of what NumPy does not have


class Tensor(ctypes.Structure):
    """DLTensor, as dlpack.h has it."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]


class Consumer:
    """Another library, which takes what it is given and writes to it without asking."""

    def __init__(self, x, **kwargs):
        self.capsule = x.__dlpack__(**kwargs)
        get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        versioned = "max_version" in kwargs and kwargs["max_version"] >= (1, 0)
        address = get(self.capsule, b"dltensor_versioned" if versioned else b"dltensor")
        whole = Versioned.from_address(address) if versioned else None
        self.flags = whole.flags if whole else 0
        self.tensor = t = whole.tensor if whole else Tensor.from_address(address)
        self.count = int(np.prod([t.shape[k] for k in range(t.ndim)]))
        self.nbytes = self.count * t.bits // 8

    def bytes(self):
        return ctypes.string_at(self.tensor.data + self.tensor.offset, self.nbytes)

    def write(self):
        ctypes.memset(self.tensor.data + self.tensor.offset, 1, self.nbytes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("asked", [{}, {"stream": None}, {"max_version": (1, 0)}, {"max_version": (1, 0), "copy": True},
                                   {"max_version": (0, 8)}], ids=str)
def test_what_others_write_shows_nowhere(dtype, asked):
    a = wf.array(np.array([[0, 1, 0], [1, 1, 0]]), dtype=dtype)
    b, view, pending, before = a.copy(), a[1:], a == a, a.numpy().copy()
    for x in (a, view, b * 1 if dtype != "bool" else b | b):
        wanted = x.numpy().copy()
        taken = Consumer(x, **asked)
        t = taken.tensor
        assert (t.device, t.ndim, t.bits, t.lanes) == (1, 2, 8 * a.itemsize, 1)
        assert t.code == {"b": 6, "i": 0, "u": 1}.get(a.dtype.kind, CODES.get(dtype, 2))
        assert taken.bytes() == wanted.tobytes() and not taken.flags & 1
        taken.write()
        np.testing.assert_array_equal(x.numpy(), wanted)
    for x in (a, b):
        np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(view.numpy(), before[1:])
    assert pending.all()


def test_sharing_is_asked_for_by_name_and_told():
    a = wf.arange(1000, dtype="float32")
    shared = Consumer(a, max_version=(1, 0), copy=False)
    assert shared.flags & 1 and shared.tensor.data == a.numpy().ctypes.data
    with pytest.raises(BufferError, match="copy=False"):
        a.__dlpack__(copy=False)
    found = np.from_dlpack(a, copy=False)
    assert not found.flags.writeable and np.shares_memory(found, a.numpy())
    own = np.from_dlpack(a)
    own[:] = 0
    assert a[3].item() == 3 and not np.shares_memory(own, a.numpy())


def routes(a):
    yield np.asarray(a)
    yield a.numpy()[::2]
    yield np.from_dlpack(a, copy=False)
    yield memoryview(a.numpy())
    yield Consumer(a, max_version=(1, 0), copy=False)
    yield np.lib.stride_tricks.as_strided(a.numpy(), (4,), (0,))


def content(x):
    return x.bytes() if isinstance(x, Consumer) else np.asarray(x).tobytes()


@pytest.mark.parametrize("route", range(6))
def test_what_weft_writes_shows_in_nothing_that_has_left(route):
    state = wf.arange(5000, dtype="float32")

    @wf.jit
    def step():
        state[...] = state * 0.5 + 1

    step(), step()  # from here on in place
    left = list(routes(state))[route]
    before = content(left)
    gc.collect()
    for write in (step, step, lambda: state.__iadd__(1), lambda: state.fill(7), lambda: wf.eval(state.__imul__(2)), step):
        write()
        wf.eval(state)
        assert content(left) == before
    del left
    gc.collect()
    step(), step()
    assert np.isfinite(state.numpy()).all()


def test_numpys_views_cannot_be_made_writable():
    found = np.asarray(wf.ones(3))
    for change in (lambda: found.__setitem__(0, 2), lambda: found.setflags(write=True), lambda: np.add(found, 1, out=found)):
        with pytest.raises(ValueError, match="read-only|cannot set WRITEABLE"):
            change()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_comes_in_is_a_copy(dtype):
    given = np.array([0, 1, 1, 0]).astype(FORMATS[dtype].numpy)
    ways = [wf.array, wf.asarray] + ([] if dtype in CODES else [wf.from_dlpack])
    for way in ways:
        for source in (given.copy(), given.copy()[::2], given.copy()[::-1]):
            want = source.copy()
            a = way(source)
            source[...] = (1 - want.astype("int8")).astype(source.dtype)
            np.testing.assert_array_equal(a.numpy(), want)
            assert a.dtype == given.dtype
    there = wf.array(given)
    back = wf.from_dlpack(there)  # bfloat16 and 8-bit floats too, though NumPy has none
    there[...] = 1
    np.testing.assert_array_equal(back.numpy(), given)
    assert back.dtype == given.dtype


def test_what_cannot_be_taken_says_so():
    class Elsewhere:
        def __dlpack__(self, **kwargs):
            raise BufferError("on another device")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="another device"):
        wf.from_dlpack(Elsewhere())

"""Compiled kernels, run by hand: inputs and outputs end (or begin) where memory ends, or lie in one piece of memory.

Also the machine operations as NumPy functions that run weft's own compiled code, so that ``evaluate`` gives the bits
of kernels where NumPy's own functions differ from weft's in the last place.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests import oracle
from tests.cpu.harness import compile_ir, isas
from weft.devices import get_device
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.emit.text import Generated
from weft.devices.cpu.generate import generate
from weft.devices.cpu.native.compile import LoadedKernel
from weft.dtypes.formats import BOOL, FROM_NUMPY, Format
from weft.dtypes.rounding import decode_array
from weft.graph.primitives import TABLE
from weft.kernel.ir import (
    MACHINE_OPERATIONS,
    Access,
    Affine,
    Axis,
    Buffer,
    Chain,
    Contraction,
    Kernel,
    Phase,
    Stage,
    Store,
    Value,
    axis_index,
)
from weft.kernel.printer import kernel_key

PAGE = mmap.PAGESIZE
_PATTERN = 0xA5


class Native(NamedTuple):
    """A kernel in memory, and how it was generated."""

    loaded: LoadedKernel
    generated: Generated


_KERNELS: dict[str, Native] = {}
_ENGINES: list[Any] = []  # of kernels for other processors; they are never unloaded


def native(kernel: Kernel) -> Native:
    """Generate and compile a kernel, once for its printed form, by the compiler that programs use."""
    key = str(kernel_key(kernel))
    found = _KERNELS.get(key)
    if found is None:
        device = get_device()
        assert device.native
        generated = generate(kernel, host_isa())
        found = _KERNELS[key] = Native(device.compiler.kernel(key, lambda: generated), generated)
    return found


def native_for(kernel: Kernel, processor: str) -> Native:
    """The kernel as an older processor (``avx2``, ``sse``) would get it."""
    isa = isas()[processor]
    generated = generate(kernel, isa)
    engine = compile_ir(generated.ir, isa)
    _ENGINES.append(engine)
    address = engine.get_function_address(generated.symbol)
    return Native(LoadedKernel(address, generated.scratch, generated.worker_scratch, False), generated)


def same_bits(kernel: Kernel, processor: str) -> bool:
    """Whether an older processor promises the bits of this one: without fused multiply-add not in products and polynomials.

    Float16 there calls functions of the compiler's own library, which the engine of the tests does not have.
    """
    if processor != "sse":
        return True
    text = str(kernel_key(kernel))
    products = any(isinstance(stage, (Chain, Contraction)) for phase in kernel.phases for stage in phase.stages)
    return not products and "float16" not in text.replace("bfloat16", "") and not _OWN_IN_TEXT.search(text)


# memory between two pages that may not be touched

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FREE: dict[int, list[int]] = {}  # pages -> the first byte of regions that nobody uses


class Fenced:
    """Memory between two pages that may not be touched: arrays in it touch the one in front or the one behind."""

    def __init__(self, nbytes: int) -> None:
        self.pages = max(1, -(-nbytes // PAGE))
        free = _FREE.setdefault(self.pages, [])
        if free:
            self.start = free.pop()
            return
        whole = (self.pages + 2) * PAGE
        at = _libc.mmap(None, whole, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if at in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no memory for fenced arrays")
        self.start = at + PAGE
        if _libc.mprotect(self.start, self.pages * PAGE, mmap.PROT_READ | mmap.PROT_WRITE):
            raise OSError(ctypes.get_errno(), "mprotect")

    def __del__(self) -> None:
        _FREE[self.pages].append(self.start)

    def place(self, nbytes: int, behind: bool) -> int:
        """Where ``nbytes`` lie that end at the page behind, or begin at the page in front."""
        return self.start + (self.pages * PAGE - nbytes if behind else 0)


def _view(address: int, like: np.ndarray | Buffer) -> np.ndarray:
    dtype = oracle.in_numpy(like.dtype)
    size = int(np.prod(like.shape)) * dtype.itemsize
    raw = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(raw, np.uint8, size).view(dtype).reshape(like.shape)


def run(
    kernel: Kernel, inputs: Sequence[np.ndarray], scalars: Sequence[Any] = (), behind: bool = True,
    shared: Sequence[tuple[int, int]] = (), compiled: Native | None = None,
) -> list[np.ndarray]:
    """Run the compiled kernel on copies of the inputs in fenced memory.

    Parameters
    ----------
    behind : arrays end where memory ends; else they begin where it begins
    shared : (input, output) positions that are one piece of memory
    compiled : the kernel for another processor

    Returns
    -------
    list of ndarray: the outputs. Elements that nothing wrote keep a pattern.

    Raises
    ------
    AssertionError
        if the kernel wrote into an input that shares no memory, or found a fault: indices are checked by ``evaluate`` before.
    """
    fences, words, mine = [], [], []
    for array in inputs:
        fence = Fenced(array.nbytes)
        view = _view(fence.place(array.nbytes, behind), array)
        view[...] = array
        fences.append(fence)
        mine.append(view)
        words.append(view.ctypes.data)
    outputs = []
    reads = dict((o, i) for i, o in shared)
    for position, buffer in enumerate(kernel.outputs):
        if position in reads:
            out = _view(words[reads[position]], buffer)
        else:
            nbytes = int(np.prod(buffer.shape)) * buffer.dtype.bytes
            fence = Fenced(nbytes)
            fences.append(fence)
            out = _view(fence.place(nbytes, behind), buffer)
            out.reshape(-1).view(np.uint8).fill(0 if buffer.dtype is BOOL else _PATTERN)
        outputs.append(out)
        words.append(out.ctypes.data)
    for dtype, number in zip(kernel.scalars, scalars, strict=True):
        words.append(int.from_bytes(np.asarray(number).astype(dtype.numpy).tobytes().ljust(8, b"\0"), "little"))
    loaded = (compiled or native(kernel)).loaded
    room = -(-loaded.scratch // 64) * 64 + -(-loaded.worker_scratch // 64) * 64 * get_device().pool.threads
    scratch = Fenced(room)
    words.append(scratch.place(room, True))
    record = np.zeros(2, np.int64)  # of indices out of range: (site + 1, index)
    table = np.array([*words, record.ctypes.data], np.uint64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)(table.ctypes.data)
    if record[0]:
        raise AssertionError(f"the kernel found index {record[1]} out of range at site {record[0] - 1}")
    found = [o.copy() for o in outputs]
    for position, (view, array) in enumerate(zip(mine, inputs, strict=True)):
        if position not in reads.values() and not same(view, array):
            raise AssertionError(f"the kernel wrote into its input {position}")
    return found


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits; which NaN it is does not count."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a.view(np.uint8) if a.dtype == bool and a.flags.c_contiguous and a.ndim else a,
                                   b.view(np.uint8) if b.dtype == bool and b.flags.c_contiguous and b.ndim else b))
    if a.dtype.names is not None:  # of a made format
        a, b = decode_array(a), decode_array(b)
    whole = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(whole) == np.ascontiguousarray(b).view(whole)
    return bool((equal | (np.isnan(a) & np.isnan(b))).all())


# machine operations by compiled code

OWN = (*sorted(name for name in MACHINE_OPERATIONS if name in TABLE and not TABLE[name].exact), "fma")

_OWN_IN_TEXT = re.compile(rf"= ({'|'.join(OWN)}) ")


def _kernel(op: str, dtype: Format, extent: int) -> Kernel:
    count = MACHINE_OPERATIONS[op].arity
    axis = Axis(0, extent)
    buffers = [Buffer(i, dtype, (extent,)) for i in range(count + 1)]
    loads = tuple(Value("load", (), dtype, Access(b, (axis_index(axis),))) for b in buffers[:count])
    store = Store(Access(buffers[count], (Affine(0, ((0, 1),)),)), Value(op, loads, dtype))
    return Kernel(f"own_{op}", (Phase((axis,), (Stage((), (), (store,)),)),), tuple(buffers[:count]), (buffers[count],))


def _own(op: str) -> Callable[..., np.ndarray]:
    def function(*args: np.ndarray) -> np.ndarray:
        args = np.broadcast_arrays(*args)
        shape, dtype, size = args[0].shape, args[0].dtype, args[0].size
        if dtype.kind != "f" or dtype.itemsize < 4:
            return _PLAIN[op](*args)
        extent = 64 if size <= 512 else 4096
        loaded = native(_kernel(op, FROM_NUMPY[dtype], extent)).loaded
        whole = -(-size // extent) * extent
        given = [np.ones(whole, dtype) for _ in args]
        for g, a in zip(given, args, strict=True):
            g[:size] = a.reshape(-1)
        out = np.empty(whole, dtype)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)
        for begin in range(0, whole, extent):
            at = begin * dtype.itemsize
            table = np.array([*(g.ctypes.data + at for g in given), out.ctypes.data + at, 0], np.uint64)
            call(table.ctypes.data)
        return out[:size].reshape(shape)

    return function


from tests.kernel import evaluate as _evaluate  # noqa: E402

_PLAIN = dict(_evaluate.NUMPY)
OPERATIONS = {**_PLAIN, **{op: _own(op) for op in OWN}}

"""Buffers: aligned, used again, never under a view that still lives."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from handmade import device

import weft as wf
from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.native.allocator import SLAB, BorrowedBuffer, size_class
from weft.dtypes.formats import FROM_NUMPY, INT32, UINT8
from weft.dtypes.parse import parse_dtype


@pytest.fixture
def be(tmp_path_factory: pytest.TempPathFactory) -> CPUDevice:
    return device(tmp_path_factory.mktemp("cache"), threads=1)


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 1000, 5000, 1 << 20, 5 << 20])
def test_memory_is_aligned_large_enough_and_used_again(be: CPUDevice, nbytes: int) -> None:
    buffer = be.allocate(nbytes)
    address = buffer.address
    assert address % (64 if nbytes < 4 << 20 else 2 << 20) == 0
    assert buffer.nbytes == nbytes and not buffer.export_count
    be.download(buffer, (nbytes,), UINT8, writable=True)[:] = 7
    del buffer
    misses = be.allocator.misses
    again = be.allocate(nbytes)
    assert again.address == address and be.allocator.misses == misses and not again.export_count


def test_size_classes() -> None:
    for n in [*range(1, 3000, 7), *(2**k + d for k in range(10, 30) for d in (-1, 0, 1))]:
        c = size_class(n)
        assert c >= n and c % 64 == 0 and size_class(c) == c
        assert c <= max(n + 63, n * 1.26) or n > 4 << 20


def test_a_view_keeps_its_buffer(be: CPUDevice) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    buffer = be.upload(x.T)
    view = be.download(buffer, (5, 3), FROM_NUMPY[x.dtype])
    assert np.array_equal(view, x.T) and not view.flags.writeable and buffer.export_count
    del buffer
    gc.collect()
    others = [be.allocate(60) for _ in range(10)]
    for o in others:
        be.download(o, (15,), FROM_NUMPY[x.dtype], writable=True)[:] = -1
    assert np.array_equal(view, x.T)


def test_a_buffer_counts_its_views(be: CPUDevice) -> None:
    buffer = be.allocate(100)
    views = [be.download(buffer, (n,), INT32) for n in (25, 3)]
    part = views[0][2:4]
    assert buffer.export_count
    views.clear()
    gc.collect()
    assert buffer.export_count
    del part
    assert not buffer.export_count
    with pytest.raises(ValueError, match="too small"):
        be.download(buffer, (26,), INT32)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 0, 3), (4, 3)])
def test_every_dtype_and_shape_comes_back(be: CPUDevice, dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).integers(0, 2, shape).astype(dtype)
    out = be.download(be.upload(x), shape, parse_dtype(dtype))
    assert out.dtype == x.dtype and out.shape == shape and np.array_equal(out, x)


def test_buffers_can_be_watched_and_not_made_by_hand(be: CPUDevice) -> None:
    buffer = be.allocate(10)
    ended: list[int] = []
    weakref.finalize(buffer, ended.append, 1)
    watch = weakref.ref(buffer)
    del buffer
    assert watch() is None and ended == [1]
    with pytest.raises(TypeError):
        be.allocator.Buffer()
    with pytest.raises(AttributeError):
        be.allocate(10).address = 3


def test_trim_gives_memory_back(be: CPUDevice) -> None:
    buffers = [be.allocate(1 << 20) for _ in range(5)]
    assert be.allocator.idle_bytes() == 0
    del buffers
    assert be.allocator.idle_bytes() == 5 << 20
    assert be.allocator.trim(2 << 20) == 3 << 20
    assert be.allocator.trim() == 2 << 20
    assert be.allocator.idle_bytes() == 0 == be.allocator.system_bytes


@pytest.mark.parametrize("nbytes", [4, 64, 100, 1000, 1024])
def test_small_blocks_are_parts_of_slabs(be: CPUDevice, nbytes: int, rng: np.random.Generator) -> None:
    """Few requests to the system, no two in one place; a slab goes back when none of its blocks is held."""
    allocator, size = be.allocator, size_class(nbytes)
    a_slab = SLAB // size
    held = [be.allocate(nbytes) for _ in range(3 * a_slab + 1)]
    addresses = np.array([buffer.address for buffer in held])
    assert allocator.misses == 4 and allocator.system_bytes == 4 * SLAB
    assert (np.diff(np.sort(addresses)) >= size).all() and (addresses % 64 == 0).all()
    for k, buffer in enumerate(held):
        be.download(buffer, (nbytes,), UINT8, writable=True)[:] = k % 251
    kept = [held[k] for k in rng.permutation(len(held))[:5]]
    marks = [be.download(buffer, (nbytes,), UINT8)[0] for buffer in kept]
    del held, buffer
    slabs = len({buffer.address // SLAB for buffer in kept})
    allocator.trim()
    assert allocator.system_bytes == slabs * SLAB
    assert allocator.idle_bytes() == (slabs * a_slab - len(kept)) * size
    assert [be.download(buffer, (nbytes,), UINT8)[0] for buffer in kept] == marks
    del kept
    allocator.trim(1)
    assert allocator.idle_bytes() == 0 == allocator.system_bytes


def test_many_numbers_are_held_for_few_requests() -> None:
    """Each element that a program keeps is memory of its own, and no work for the system."""
    x = wf.arange(20_000)
    before = wf.devices.counters()["allocator_misses"]
    kept = [x[k] for k in range(20_000)]
    assert wf.devices.counters()["allocator_misses"] - before <= 20_000 * 64 // SLAB + 2
    assert kept[19_999] == 19_999 and [int(k) for k in kept[:3]] == [0, 1, 2]


def test_idle_memory_stays_below_the_limit(tmp_path_factory: pytest.TempPathFactory) -> None:
    be = device(tmp_path_factory.mktemp("cache"))
    be.allocator.limit = 8 << 20
    for megabytes in range(1, 30):
        be.allocate(megabytes << 20)
        assert be.allocator.idle_bytes() <= (8 << 20) + (megabytes << 20) + (2 << 20)


def test_no_memory_is_an_error_not_a_crash(be: CPUDevice) -> None:
    with pytest.raises(MemoryError, match="no memory for"):
        be.allocate(1 << 60)


def test_borrowed_memory_counts_as_exported() -> None:
    x = np.ones(4, np.float32)
    b = BorrowedBuffer(x.ctypes.data, x.nbytes, x)
    assert b.export_count and b.address == x.ctypes.data

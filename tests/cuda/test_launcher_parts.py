"""Parts of the launcher by themselves, over the stub of a driver: copies, memory, and parameters of launches."""

from __future__ import annotations

import ctypes
import gc
import random
import struct
from typing import Any

import numpy as np
import pytest

from tests.cuda.stub import Compiler, StubDriver, made
from weft.devices.cuda import adapter
from weft.devices.cuda.arguments import Argument, Launch
from weft.devices.cuda.card_allocator import MIN_BYTES, Staging, size_class
from weft.devices.cuda.generate import generate
from weft.devices.cuda.launch_parameters import Parameters, declared_sizes, layout
from weft.devices.cuda.nvidia import DriverError
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import EVERY, FLOAT32, INT32, INT64
from weft.graph.node import Graph
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf, scalar_leaf
from weft.process.bounded_cache import BoundedCache
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")


# ---- functions


def test_functions_that_nobody_holds_are_unloaded_when_the_card_is_done_with_them() -> None:
    """A program holds its own, however many others are loaded; what falls out of the cache goes behind its last launch."""
    device, driver = made()
    device.codes._loaded_code = BoundedCache(3, 1)

    def program(number: int) -> tuple[Any, Any]:
        """A program with a text of its own, and what it gives for ones."""
        node, want = x, np.ones((3, 5))
        for bit in f"{number:06b}":
            name = ("sin", "cos")[int(bit)]
            node, want = bind(TABLE[name], node), getattr(np, name)(want)
        return device.compile(build(Graph([x], [node]), device.target)), want

    def check(out: Any, want: np.ndarray) -> None:
        np.testing.assert_allclose(device.read(out.pointer, (3, 5), FLOAT32), want, rtol=1e-5)

    x, given = input_leaf((3, 5), FLOAT32), device.upload(np.ones((3, 5), np.float32))
    (held, first), most = program(0), 0
    for number in range(1, 40):
        run, want = program(number)
        waits = driver.waits
        (out,) = run([given])
        most = max(most, len(driver.loaded))
        if number % 9 == 0:
            check(out, want)
        else:
            assert driver.waits == waits
    check(held([given])[0], first)
    device.enter()
    before = len(driver.loaded)
    del held, run, out
    device.codes._loaded_code = BoundedCache(3, 1)
    gc.collect()
    device.enter()
    assert len(driver.loaded) == before  # it is not known yet that the card is done
    device.synchronise()
    device.enter()
    assert len(driver.loaded) == 0 < before <= most < 30


# ---- copies


@pytest.mark.parametrize("nbytes", [1, 15, 16, 17, 32, 33, 47, 48, 49, 160])
def test_copies_of_all_sizes_through_small_pieces(nbytes: int) -> None:
    device, driver = made(piece=16)
    rng = np.random.default_rng(nbytes)
    given = [rng.integers(0, 256, nbytes).astype(np.uint8) for _ in range(4)]
    memories = [device.upload(x) for x in given]
    for x in given:
        kept = x.copy()
        x[:] = 0  # what is uploaded has been read
        x[:] = kept
    for memory, x in zip(memories, given, strict=True):
        np.testing.assert_array_equal(device.read_bytes(memory.pointer, nbytes), x)
    assert driver.marks == 2 and len(driver.host) == 2
    assert device.upload(np.zeros(0, np.float32)).nbytes == 0 and device.read_bytes(memories[0].pointer, 0).size == 0


def test_staging_hands_a_piece_out_when_the_card_is_done_with_it() -> None:
    driver = StubDriver(Compiler())
    staging, address = Staging(driver, 8), driver.allocate(64)
    staging.upload(address, np.arange(16, dtype=np.uint8))
    assert driver.waits == 0
    staging.upload(address + 16, np.arange(8, dtype=np.uint8))
    assert driver.waits == 1
    found = np.empty(24, np.uint8)
    staging.download(address, found)
    assert found.tolist() == [*range(16), *range(8)]


# ---- memory


def test_classes_of_sizes() -> None:
    rng = random.Random(0)
    for n in [0, 1, MIN_BYTES - 1, MIN_BYTES, MIN_BYTES + 1, *[rng.randrange(1 << rng.randrange(1, 40)) for _ in range(500)]]:
        size = size_class(n)
        assert size >= max(n, MIN_BYTES) and size % 256 == 0 and size_class(size) == size
        assert size <= max(2 * MIN_BYTES, n * 9 // 8 + MIN_BYTES)
    assert len({size_class(n) for n in range(1 << 20, 1 << 21, 999)}) <= 9


def test_memory_is_used_again() -> None:
    device, driver = made()
    first = device.allocate(1000)
    pointer = first.pointer
    del first
    again = device.allocate(900)
    assert again.pointer == pointer and device.memories.misses == 1 and device.memories.pooled_bytes == 0
    other = device.allocate(1000)
    assert other.pointer != pointer and device.describe()["held_bytes"] == 2 * size_class(1000)
    del again, other
    assert device.memories.bytes_in_use == 0 and len(driver.memory) == 2
    device.memories.give_back()
    assert not driver.memory and driver.trims == 1 and driver.used == 0


def test_without_memory_what_is_kept_is_given_back_and_then_it_says_who_has_it() -> None:
    device, driver = made(limit=1 << 20)
    held = [device.allocate(100_000) for _ in range(4)]
    loose = [device.allocate(200_000) for _ in range(2)]
    del loose
    assert device.memories.pooled_bytes == 2 * size_class(200_000)
    large = device.allocate(500_000)  # fits only in place of what was kept
    assert driver.trims == 1 and device.memories.pooled_bytes == 0
    with pytest.raises(MemoryError, match=(
        r"a stub of a card has no 0\.00186 GiB left of its 0\.000977 GiB: arrays of this process hold .* in 5 pieces "
        r"\(the largest: 1 of .*, 4 of .*\), other programs hold 0 GiB, and .* are free"
    )):
        device.allocate(2_000_000)
    del large, held
    assert device.allocate(900_000).nbytes == 900_000


# ---- parameters


def launch_of(types: list[str]) -> Launch:
    forms = {"*": ("buffer", FLOAT32), "i32": ("number", INT32), "i64": ("number", INT64), "fp32": ("scalar", FLOAT32)}
    rest = {"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "u32": "uint32", "u64": "uint64", "fp64": "float64"}
    forms |= {short: ("scalar", EVERY[name]) for short, name in rest.items()}
    arguments = [Argument(f"a{k}", *forms[t], 12345) for k, t in enumerate(types)]
    return Launch((), tuple(arguments), (1, 1))


def test_numbers_lie_where_the_card_reads_them() -> None:
    rng = random.Random(1)
    kinds = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "fp32", "fp64"]
    for _ in range(100):
        types = ["*"] * rng.randrange(4) + [rng.choice(kinds) for _ in range(rng.randrange(7))]
        where = layout(launch_of(types))
        assert all(offset % size == 0 for offset, size in zip(where.offsets, where.sizes, strict=True))
        parameters, values = Parameters(where), []
        parameters.put_addresses([16 * k for k in range(where.pointers)])
        for k, t in enumerate(types):
            values.append(16 * k if t == "*" else rng.random() if t.startswith("fp") else rng.randrange(100))
            if t != "*":
                parameters.put_number(k, values[-1])
        table = (ctypes.c_void_p * len(where.codes)).from_address(parameters.address)
        read = [struct.unpack(c, ctypes.string_at(at, struct.calcsize(c)))[0] for at, c in zip(table, where.codes, strict=True)]
        assert read == pytest.approx([*values, 0, 0]) and table[0] % 8 == 0 and table[-1] - table[0] == where.offsets[-1]
    with pytest.raises(ValueError, match="after its pointers"):
        layout(launch_of(["i32", "*"]))


@pytest.mark.parametrize("name", ["int8", "uint16", "uint32", "int64", "float16", "float64", "bool"])
def test_triton_declares_the_parameters_that_are_packed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x, s = input_leaf((300,), EVERY[name]), scalar_leaf(None, EVERY[name])
    program = build(Graph([x, s], [bind(TABLE["maximum"], x, s)]), GPU)
    (launch,) = generate(calls(program)[0].kernel).launches
    for aligned in (1, 16):
        code = adapter.compile_launch(launch, 90, aligned)
        assert declared_sizes(code) == layout(launch).sizes == declared_sizes(Compiler()(launch, 90, aligned))


def test_the_stub_notices() -> None:
    device, driver = made()
    x = input_leaf((300,), FLOAT32)
    (call,) = calls(build(Graph([x], [bind(TABLE["exp"], x)]), device.target))
    given, out = device.upload(np.ones(300, np.float32)), device.allocate(1200)
    device.run_kernel(call.kernel, [given.pointer, out.pointer], [])
    pointer = out.pointer
    with pytest.raises(DriverError, match="not in one piece of memory"):
        device.run_kernel(call.kernel, [given.pointer, 64], [])
    device.run_kernel(call.kernel, [given.pointer, pointer + 1024], [])
    with pytest.raises(adapter.OutOfBounds, match="is accessed"):
        device.synchronise()
    launch = driver.launched[0][0]
    (loaded,) = {device.codes.load(launch, 16)}
    with pytest.raises(DriverError, match="multiples of 16"):
        parameters = Parameters(loaded.layout)
        parameters.put_addresses([given.pointer + 4, pointer])
        driver.launch(loaded.function, launch.grid, loaded.code, parameters.address)
    driver.record()
    for refused in (lambda: driver.allocate(8), driver.synchronise, lambda: driver.mark()):
        with pytest.raises(DriverError, match="while a graph is recorded"):
            refused()
    driver.end_recording()
    device.memories.give_back()

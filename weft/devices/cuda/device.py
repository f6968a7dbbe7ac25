"""The device ``gpu``: kernels compiled by Triton and launched by weft through NVIDIA's driver.

Runs are asynchronous; reading a result waits. All operations of one card are ordered by one stream, so memory is reused without
waiting, and threads take turns under one lock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.devices.cache import Cache
from weft.devices.cuda.adapter import assemble_for, compile_launch, version
from weft.devices.cuda.card_allocator import PIECE_BYTES, CardAllocator, CardMemory, EndWhenDone, Staging
from weft.devices.cuda.code_store import CodeStore, Compiler
from weft.devices.cuda.compilers import POOL, Pool
from weft.devices.cuda.generate import PrintingDevice
from weft.devices.cuda.measure import measure
from weft.devices.cuda.nvidia import NvidiaDriver, OutOfMemory
from weft.devices.cuda.pending_checks import PendingChecks
from weft.devices.cuda.run_program import CardExecutable, run_kernel
from weft.devices.cuda.tuning import Tuner
from weft.dtypes.formats import Format
from weft.errors import DeviceError
from weft.process.distribution import install_command
from weft.schedule.program import Program


class CardDevice(PrintingDevice):
    """See :class:`weft.devices.base.Device`.

    compiler : (launch, capability, alignment of addresses) -> Code
    piece : bytes of a pinned piece for copies
    pool : compiles several launches in parallel
    """

    run_kernel = run_kernel

    def __init__(
        self, driver: NvidiaDriver, name: str = "gpu", cache: Cache | None = None, compiler: Compiler = compile_launch,
        piece: int = PIECE_BYTES, pool: Pool | None = None,
    ) -> None:
        super().__init__()
        self.driver, self.name, self._cache = driver, name, cache
        # one class for each card: DEVICE_OF_BUFFER_TYPE identifies cards by it
        memory_class = type("CardMemory", (CardMemory,), {"__slots__": ()})
        self.memories, self.staging = CardAllocator(driver, memory_class), Staging(driver, piece)
        self._unused_graphs = EndWhenDone(driver, driver.drop)
        self._unused_functions = EndWhenDone(driver, driver.unload)
        self.codes = CodeStore(driver, self._unused_functions.add, cache, compiler, pool)
        self.tuner = Tuner(driver, self.codes, self.identity, self.recall, self.remember)
        self.checks = PendingChecks(driver)
        self.replays = 0
        DEVICE_OF_BUFFER_TYPE[memory_class] = name

    def compile(self, program: Program, flush_denormals: bool = False) -> CardExecutable:
        """Compile a program. ``flush_denormals`` is ignored: a GPU is no slower with denormals."""
        with self.lock:
            self.driver.enter()
            return CardExecutable(self, program)

    def drop(self, graphs: list[Any]) -> None:
        """Destroy graphs that are no longer used; may be called from anywhere."""
        for graph in graphs:
            self._unused_graphs.add(graph)

    def enter(self) -> Callable[[int], CardMemory]:
        """Make the card current in this thread, under the lock. Return the allocating function."""
        self.driver.enter()
        self._unused_graphs.end_finished()
        self._unused_functions.end_finished()
        self.memories.borrowed_owners.end_finished()
        return self.memories.allocate

    def allocate(self, nbytes: int) -> CardMemory:
        with self.lock:
            return self.enter()(nbytes)

    def upload(self, array: np.ndarray) -> CardMemory:
        memory = self.allocate(array.nbytes)
        with self.lock:
            self.staging.upload(memory.pointer, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return memory

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> CardMemory:
        return self.upload(array[rows])

    def free_bytes(self) -> int:
        with self.lock:
            self.driver.enter()
            return self.driver.free() + self.memories.pooled_bytes

    # ---- other libraries on the same card

    @property
    def number(self) -> int:
        return int(self.name.partition(":")[2] or 0)

    @property
    def stream(self) -> int:
        return self.driver.stream

    def lend(self, buffer: CardMemory, stream: int | None) -> int:
        with self.lock:
            self.driver.enter()
            self._settle(buffer)
            buffer.lent = True
            if stream is not None:
                self.driver.lead(stream)
        return buffer.pointer

    def borrow(self, address: int, nbytes: int, owner: Any, stream: int | None = None) -> CardMemory:
        with self.lock:
            self.enter()
            if stream is not None:
                self.driver.follow(stream)
            return self.memories.borrow(address, nbytes, owner)

    def copy_buffer(self, buffer: CardMemory) -> CardMemory:
        with self.lock:
            copy = self.enter()(buffer.nbytes)
            self._settle(buffer)
            if buffer.nbytes:
                self.driver.copy(copy.pointer, buffer.pointer, buffer.nbytes)
        return copy

    def gpu_of_address(self, address: int) -> int | None:
        with self.lock:
            self.driver.enter()
            return self.driver.gpu_of_address(address)

    # ---- reads

    def raise_pending_error(self) -> None:
        """See :class:`weft.devices.base.ReportsErrorsLate`."""
        with self.lock:
            self.driver.enter()
            self.checks.raise_pending_error()

    def _settle(self, buffer: CardMemory) -> None:
        """Wait for the index checks on which a buffer depends; raise the error of a failed one."""
        if buffer.checks:
            self.checks.settle(self.checks.doubts([buffer]))

    def read_bytes(self, pointer: int, nbytes: int) -> np.ndarray:
        """Return a copy of memory after all operations issued so far."""
        content = np.empty(nbytes, np.uint8)
        with self.lock:
            self.driver.enter()
            self.staging.download(pointer, content)
        return content

    def read(self, pointer: int, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """Return a copy of memory as an array."""
        return self.read_bytes(pointer, math.prod(shape) * dtype.bytes).view(dtype.numpy).reshape(shape)

    def read_first(self, buffer: CardMemory, dtype: Format) -> Any:
        return self.download(buffer, (1,), dtype)[0]

    def download(self, buffer: CardMemory, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        array = self.read(buffer.pointer, shape, dtype)
        if buffer.checks:
            with self.lock:
                self._settle(buffer)
        array.flags.writeable = False
        return array

    def synchronise(self) -> None:
        with self.lock:
            self.enter()
            self.driver.synchronise()
            self.memories.borrowed_owners.end_finished()

    def counters(self) -> dict[str, int]:
        return {
            "kernels": self.kernels, "launches": self.launches, "replays": self.replays, "compiles": self.codes.compiles,
            "cache_hits": self.codes.hits, "allocations": self.memories.requests, "allocator_misses": self.memories.misses,
        }

    def describe(self, measure: bool = False) -> dict[str, Any]:
        with self.lock:
            self.driver.enter()
            description = {"device": self.name, "model": self.driver.name, "capability": self.driver.capability}
            return {**description, **self.memories.describe(), "triton": version()}

    @property
    def processor(self) -> str:
        return self.driver.name

    @property
    def identity(self) -> str:
        return f"{self.driver.name} {self.driver.capability} {self.driver.total} {version()}"

    def choose_variants(self, run: Callable[[], Any], seconds: float) -> bool:
        """See :class:`weft.devices.base.ChoosesByMeasuring`. Other tiles are compiled in parallel, so runs are spaced out."""
        end = time.monotonic() + seconds
        while True:
            before = self.tuner.undecided_starts
            run()
            if self.tuner.undecided_starts == before:
                return True
            if time.monotonic() > end:
                return False
            self.synchronise()
            time.sleep(0.001)

    def measure(self) -> dict[str, Any]:
        """Measure the card's performance figures; takes some seconds."""
        return measure(self)

    def recall(self, name: str) -> dict[str, Any] | None:
        """Return a note from the cache folder, or None."""
        entry = None if self._cache is None else self._cache.read(name)
        return None if entry is None else entry.meta

    def remember(self, name: str, note: dict[str, Any]) -> None:
        if self._cache is not None:
            self._cache.write(name, note, b"")


def open_device(name: str, number: int) -> CardDevice:
    """Open a card of this machine.

    Raises
    ------
    DeviceError
        The driver fails.
    """
    from weft.devices.cuda.nvidia import NvidiaDriver

    try:
        driver = NvidiaDriver(number)
        assemble_for(driver.cuda, driver.capability)
        return CardDevice(driver, name, Cache(), pool=POOL)
    except ModuleNotFoundError as error:
        raise DeviceError(f"device {name!r}: the package {error.name} is not installed: {install_command('gpu')}") from None
    except (RuntimeError, OutOfMemory, ImportError) as error:  # cuda-bindings raises these if it does not find the driver
        raise DeviceError(f"device {name!r}: NVIDIA's driver refuses to work ({error}): see whether nvidia-smi works") from None

"""The device ``gpu``: kernels as Triton makes them, started by weft itself over a driver (``driver.py``).

Runs are asked for and not waited for; a look waits. Everything of one card is in the order of one stream, so memory is reused
without waiting, and threads take turns under one lock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.devices.base import ELSEWHERE
from weft.devices.cache import Cache
from weft.devices.cuda.adapter import assemble_for, compiled, version
from weft.devices.cuda.arguments import Launch, Printed
from weft.devices.cuda.card_allocator import PIECE, CardMemory, Memories, Staging, Until
from weft.devices.cuda.code_store import Codes, Compiler, Loaded
from weft.devices.cuda.compilers import POOL, Pool
from weft.devices.cuda.driver import Driver, OutOfMemory
from weft.devices.cuda.generate import generate
from weft.devices.cuda.measure import measure
from weft.devices.cuda.pending_checks import PendingChecks
from weft.devices.cuda.run_program import CardExecutable, run_kernel
from weft.devices.cuda.target import GPU
from weft.devices.cuda.tuning import Tuner
from weft.dtypes.formats import Format
from weft.errors import DeviceError
from weft.kernel.ir import Kernel
from weft.kernel.printer import kernel_key
from weft.process.bounded_cache import Recent
from weft.schedule.program import Program


class CardDevice:
    """See :class:`weft.devices.base.Device`.

    compiler : (launch, capability, what addresses are multiples of) -> Code; piece : bytes of what copies go through; pool : what
    compiles several launches at once
    """

    target = GPU
    threads = 1

    def __init__(
        self, driver: Driver, name: str = "gpu", cache: Cache | None = None, compiler: Compiler = compiled, piece: int = PIECE,
        pool: Pool | None = None,
    ) -> None:
        self.driver, self.name, self._cache = driver, name, cache
        made = type("CardMemory", (CardMemory,), {"__slots__": ()})  # a class a card, for ELSEWHERE tells cards apart by it
        self.memories, self.staging = Memories(driver, made), Staging(driver, piece)
        self._dropped = Until(driver, driver.drop)  # graphs that nobody needs any more
        self._unloaded = Until(driver, driver.unload)  # and functions
        self.codes = Codes(driver, self._unloaded.add, cache, compiler, pool)
        self.tuner = Tuner(driver, self.codes, self.identity, self.recall, self.remember)
        self.checks = PendingChecks(driver)
        self.lock = threading.RLock()
        self.launches = self.kernels = self.replays = 0
        self._printed = Recent(1000)
        ELSEWHERE[made] = name

    def set_threads(self, count: int) -> None:
        """Threads are the CPU's."""

    def compile(self, program: Program, flush_denormals: bool = False) -> CardExecutable:
        """``flush_denormals`` is not followed: a GPU is no slower with them."""
        with self.lock:
            self.driver.enter()
            return CardExecutable(self, program)

    def launches_of(self, kernel: Kernel) -> int:
        return len(self.printed(kernel).launches)

    def printed(self, kernel: Kernel) -> Printed:
        """A kernel as launches, made once."""
        key = kernel_key(kernel)
        self.kernels += 1
        found = self._printed.get(key)
        if found is None:
            found = generate(kernel)
            self._printed.put(key, found)
        return found

    def code(self, launch: Launch, aligned: int) -> Loaded:
        """A launch that can be started."""
        return self.codes.loaded(launch, aligned)

    def run_kernel(self, kernel: Kernel, pointers: Sequence[int], numbers: Sequence[Any]) -> tuple[int, int] | None:
        """A kernel on memory of its inputs and outputs; (number of a site, index) where it found an index out of range."""
        return run_kernel(self, kernel, pointers, numbers)

    def drop(self, graphs: list[Any]) -> None:
        """Graphs that nobody replays any more; may be called from anywhere."""
        for graph in graphs:
            self._dropped.add(graph)

    def ready(self) -> Callable[[int], CardMemory]:
        """Let this thread ask, under the lock; what gives it memory."""
        self.driver.enter()
        self._dropped.look()
        self._unloaded.look()
        self.memories.borrowed.look()
        return self.memories.allocate

    def allocate(self, nbytes: int) -> CardMemory:
        with self.lock:
            return self.ready()(nbytes)

    def upload(self, array: np.ndarray) -> CardMemory:
        made = self.allocate(array.nbytes)
        with self.lock:
            self.staging.upload(made.pointer, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return made

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> CardMemory:
        return self.upload(array[rows])

    def room(self) -> int:
        with self.lock:
            self.driver.enter()
            return self.driver.free() + self.memories.kept

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
            self._known(buffer)
            buffer.lent = True
            if stream is not None:
                self.driver.lead(stream)
        return buffer.pointer

    def borrow(self, address: int, nbytes: int, owner: Any, stream: int | None = None) -> CardMemory:
        with self.lock:
            self.ready()
            if stream is not None:
                self.driver.follow(stream)
            return self.memories.borrow(address, nbytes, owner)

    def copied(self, buffer: CardMemory) -> CardMemory:
        with self.lock:
            made = self.ready()(buffer.nbytes)
            self._known(buffer)
            if buffer.nbytes:
                self.driver.copy(made.pointer, buffer.pointer, buffer.nbytes)
        return made

    def lies(self, address: int) -> int | None:
        with self.lock:
            self.driver.enter()
            return self.driver.lies(address)

    # ---- looks

    def tell(self) -> None:
        """See :class:`weft.devices.base.TellsLate`."""
        with self.lock:
            self.driver.enter()
            self.checks.tell()

    def _known(self, buffer: CardMemory) -> None:
        """Wait until it is known that the runs behind a buffer had no wrong index; raise where one had."""
        if buffer.checks:
            self.checks.settle(self.checks.doubts([buffer]))

    def read_bytes(self, pointer: int, nbytes: int) -> np.ndarray:
        """What lies there, when all that was asked for before is done."""
        found = np.empty(nbytes, np.uint8)
        with self.lock:
            self.driver.enter()
            self.staging.download(pointer, found)
        return found

    def read(self, pointer: int, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """The same as an array."""
        return self.read_bytes(pointer, math.prod(shape) * dtype.bytes).view(dtype.numpy).reshape(shape)

    def first(self, buffer: CardMemory, dtype: Format) -> Any:
        return self.download(buffer, (1,), dtype)[0]

    def download(self, buffer: CardMemory, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        found = self.read(buffer.pointer, shape, dtype)
        if buffer.checks:
            with self.lock:
                self._known(buffer)
        found.flags.writeable = False
        return found

    def synchronise(self) -> None:
        with self.lock:
            self.ready()
            self.driver.synchronise()
            self.memories.borrowed.look()

    def counters(self) -> dict[str, int]:
        return {
            "kernels": self.kernels, "launches": self.launches, "replays": self.replays, "compiles": self.codes.compiles,
            "cache_hits": self.codes.hits, "allocations": self.memories.asked, "allocator_misses": self.memories.misses,
        }

    def describe(self, measure: bool = False) -> dict[str, Any]:
        with self.lock:
            self.driver.enter()
            about = {"device": self.name, "model": self.driver.name, "capability": self.driver.capability}
            return {**about, **self.memories.describe(), "triton": version()}

    @property
    def processor(self) -> str:
        return self.driver.name

    @property
    def identity(self) -> str:
        return f"{self.driver.name} {self.driver.capability} {self.driver.total} {version()}"

    def settled(self, run: Callable[[], Any], seconds: float) -> bool:
        """See :class:`weft.devices.base.ChoosesByMeasuring`. Other tiles are compiled meanwhile, so between two runs there is a
        moment for that."""
        end = time.monotonic() + seconds
        while True:
            before = self.tuner.undecided
            run()
            if self.tuner.undecided == before:
                return True
            if time.monotonic() > end:
                return False
            self.synchronise()
            time.sleep(0.001)

    def measure(self) -> dict[str, Any]:
        """What the card can do; some seconds."""
        return measure(self)

    def recall(self, name: str) -> dict[str, Any] | None:
        """A note in the cache folder."""
        entry = None if self._cache is None else self._cache.read(name)
        return None if entry is None else entry.meta

    def remember(self, name: str, note: dict[str, Any]) -> None:
        if self._cache is not None:
            self._cache.write(name, note, b"")


def opened(name: str, number: int) -> CardDevice:
    """A card of this machine.

    Raises
    ------
    DeviceError
        The driver refuses to work.
    """
    from weft.devices.cuda.nvidia import NvidiaDriver

    try:
        driver = NvidiaDriver(number)
        assemble_for(driver.cuda, driver.capability)
        return CardDevice(driver, name, Cache(), pool=POOL)
    except ModuleNotFoundError as error:
        raise DeviceError(f"device {name!r}: the package {error.name} is not installed: pip install 'weft[gpu]'") from None
    except (RuntimeError, OutOfMemory, ImportError) as error:  # cuda-bindings' own, too, where it does not find the driver
        raise DeviceError(f"device {name!r}: NVIDIA's driver refuses to work ({error}): see whether nvidia-smi works") from None

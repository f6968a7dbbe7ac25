"""A driver without a card: it records what it is asked for, checks it, and does it when somebody waits, in Triton's interpreter.

Nothing is done before a wait, so whatever is used too early, or overwritten too early, shows as a wrong result. Memory is given
out with a pattern in it, and belongs to nobody once it is released: who touches it then fails.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft.devices.cache import Cache
from weft.devices.cuda.adapter import Code, interpret_launch
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.device import CardDevice
from weft.devices.cuda.nvidia import DriverError, OutOfMemory

UNWRITTEN, RELEASED = 0xAB, 0xCD
GRID, SHARED, ALIGNED = (2**31 - 1, 65535), 227 << 10, 256
PTX = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64", "fp32": "f32", "fp64": "f64"}
UNPACK = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "fp32": "f", "fp64": "d"}


class Compiler:
    """Stands for Triton: code is the number of a launch, and declares the parameters as Triton's would."""

    def __init__(self) -> None:
        self.launches: list[tuple[Launch, int]] = []

    def __call__(self, launch: Launch, capability: int, aligned: int) -> Code:
        self.launches.append((launch, aligned))
        types = ["u64 .ptr .global .align 1" if t[0] == "*" else PTX.get(t, t) for _, t, _ in launch.signature]
        head = ",\n".join([f"\t.param .{t} kernel_param_{k}" for k, t in enumerate([*types, *["u64 .ptr .global .align 1"] * 2])])
        binary = f"stub {len(self.launches) - 1}".encode()
        return Code(binary, "kernel", launch.warps, 0, 0, f".visible .entry kernel(\n{head}\n)\n.reqntid {32 * launch.warps}\n")


class StubDriver:
    """See :class:`weft.devices.cuda.nvidia.NvidiaDriver`. limit : bytes of the card's memory.

    log : what was done; waits : how often somebody waited; asked : what was asked for and is not done yet
    """

    name, capability, stream, bus = "a stub of a card", 90, 77, "0000:01:00.0"

    def __init__(self, compiler: Compiler, limit: int = 1 << 30) -> None:
        self.compiler, self.total = compiler, limit
        self.memory: dict[int, np.ndarray] = {}  # address -> bytes of the card
        self.host: dict[int, np.ndarray] = {}
        self.asked: list[tuple[str, Callable[[], None]]] = []
        self.log: list[str] = []
        self.graph: list[tuple[str, Callable[[], None]]] | None = None
        self.waits = self.trims = self.dropped = self.marks = 0
        self.used = self.settles = 0
        self.pending: list[int] = []  # graphs that were asked for and are not done
        self.clock, self.times = 0.0, lambda launch: 1e-5  # what launches take
        self.refuses: Callable[[Launch], bool] = lambda launch: False  # to load
        self.others: dict[int, list[Callable[[], None]]] = {}  # what other libraries asked for, by stream
        self.launched: list[tuple[Launch, tuple[int, int], int]] = []
        self.loaded: list[list[Any]] = []  # functions

    def enter(self) -> None:
        self.entered = True

    # ---- memory

    def _piece(self, nbytes: int, pattern: int) -> tuple[int, np.ndarray]:
        whole = np.full(nbytes + 2 * ALIGNED, pattern, np.uint8)
        first = -_address(whole) % ALIGNED
        piece = whole[first : first + nbytes]
        return _address(piece), piece

    def allocate(self, nbytes: int) -> int:
        self._not_recording("allocate")
        if self.used + nbytes > self.total:
            raise OutOfMemory("stub")
        address, piece = self._piece(nbytes, UNWRITTEN)
        self.memory[address] = piece
        self.used += nbytes
        return address

    def release(self, address: int) -> None:
        self._not_recording("release")
        self._inside(address, 1)

        def done() -> None:
            self.memory.pop(address)[:] = RELEASED

        self.used -= self.memory[address].size
        self._ask("release", done)

    def trim(self) -> None:
        self.synchronise()
        self.trims += 1

    def free(self) -> int:
        return self.total - self.used

    def allocate_pinned(self, nbytes: int) -> int:
        address, piece = self._piece(nbytes, UNWRITTEN)
        self.host[address] = piece
        return address

    def _inside(self, address: int, nbytes: int, host: bool = False) -> None:
        """Refuse what does not lie in one piece of memory that is there."""
        if not any(a <= address and address + nbytes <= a + m.size for a, m in (self.host if host else self.memory).items()):
            raise DriverError(f"{nbytes} bytes at {address:#x} are not in one piece of {'pinned memory' if host else 'memory'}")

    def _move(self, name: str, target: int, source: int, nbytes: int, hosts: tuple[bool, bool]) -> None:
        if not nbytes:
            raise DriverError(f"{name}: nothing to copy")

        def done() -> None:
            self._inside(target, nbytes, hosts[0])
            self._inside(source, nbytes, hosts[1])
            ctypes.memmove(target, source, nbytes)

        self._inside(target, nbytes, hosts[0])
        self._inside(source, nbytes, hosts[1])
        self._ask(name, done)

    def upload(self, target: int, source: int, nbytes: int) -> None:
        self._move("upload", target, source, nbytes, (False, True))

    def download(self, target: int, source: int, nbytes: int) -> None:
        self._not_recording("download")
        self._move("download", target, source, nbytes, (True, False))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._move("copy", target, source, nbytes, (False, False))

    def zero(self, target: int, nbytes: int) -> None:
        self._inside(target, nbytes)
        self._ask("zero", lambda: ctypes.memset(target, 0, nbytes))

    # ---- kernels

    def load(self, code: Code) -> Any:
        found = self.compiler.launches[int(code.binary.split()[1])]
        if self.refuses(found[0]):
            raise DriverError("load: the code asks for more than the card has")
        self.loaded.append(function := [*found])
        return function

    def unload(self, function: Any) -> None:
        """From here on its launches fail, those too that were asked for and are not done."""
        self._not_recording("unload")
        self.loaded = [each for each in self.loaded if each is not function]
        function.clear()

    def launch(self, function: Any, grid: tuple[int, int], code: Code, parameters: int) -> None:
        if not function:
            raise DriverError("launch: the function was unloaded")
        first, aligned = function
        launch = replace(first, grid=grid)  # one text serves several extents, which it is given
        if not all(0 < n <= most for n, most in zip(grid, GRID, strict=True)) or code.shared > SHARED or code.warps > 32:
            raise DriverError(f"launch: grid {grid}, {code.warps} warps and {code.shared} shared bytes are too much")
        table = (ctypes.c_void_p * (len(launch.signature) + 2)).from_address(parameters)
        addresses: list[tuple[int, int] | None] = []
        numbers: list[Any] = []
        for (name, kind, divisor), place in zip(launch.signature, table, strict=False):
            code_of = "Q" if kind[0] == "*" else UNPACK[kind]
            (value,) = struct.unpack(code_of, ctypes.string_at(place, struct.calcsize(code_of)))
            numbers.append(value)
            if kind[0] != "*":
                addresses.append(None)
                if divisor > 1 and value % divisor:
                    raise DriverError(f"launch: {name} is {value}, and its code was made for multiples of {divisor}")
                continue
            if value % max(aligned, _size(kind)):
                raise DriverError(f"launch: {name} lies at {value:#x}, and its code was made for multiples of {aligned}")
            self._inside(value, 0)
            end = next(a + m.size for a, m in self.memory.items() if a <= value <= a + m.size)
            addresses.append((value, end - value))
        if any(struct.unpack("Q", ctypes.string_at(place, 8))[0] for place in table[len(launch.signature) :]):
            raise DriverError("launch: scratch memory that the code does not ask for")

        def done() -> None:
            if not function:
                raise DriverError("launch: the function was unloaded before its launch was done")
            for where in addresses:
                if where is not None:
                    self._inside(where[0], 0)
            self.launched.append((launch, grid, aligned))
            self.clock += self.times(launch)
            interpret_launch(launch, addresses, numbers)

        self._ask("launch", done)

    # ---- time

    def _ask(self, name: str, done: Callable[[], None]) -> None:
        (self.asked if self.graph is None else self.graph).append((name, done))

    def _do(self, count: int) -> None:
        with np.errstate(all="ignore"):
            for _ in range(count):
                name, done = self.asked.pop(0)
                self.log.append(name)
                done()

    def mark(self, mark: Any = None) -> Any:
        self._not_recording("mark")
        found = {} if mark is None else mark
        self.marks += mark is None
        found["number"] = number = object()
        self.asked.append(("mark", lambda: found.__setitem__("reached", number)))
        return found

    def wait(self, mark: Any) -> None:
        self._not_recording("wait")
        self.waits += 1
        while mark.get("reached") is not mark["number"]:
            if not self.asked:
                raise DriverError("a wait for what was never asked for")
            self._do(1)

    def has_reached(self, mark: Any) -> bool:
        return mark.get("reached") is mark["number"]

    def _until(self, mark: Any) -> None:
        while not self.has_reached(mark):
            self._do(1)

    def stamp(self) -> Any:
        self._not_recording("stamp")
        found: dict[str, Any] = {"number": object()}
        self.asked.append(("stamp", lambda: found.update(reached=found["number"], clock=self.clock)))
        return found

    def take_seconds(self, first: Any, second: Any) -> float:
        return second["clock"] - first["clock"]

    def synchronise(self) -> None:
        self._not_recording("synchronise")
        self.waits += 1
        self._do(len(self.asked))

    # ---- others on the card, with streams of their own

    def lead(self, stream: int) -> None:
        mark = self.mark()
        self.others.setdefault(stream, []).append(lambda: self._until(mark))

    def follow(self, stream: int) -> None:
        self._not_recording("follow")
        seen: list[bool] = []
        self.others.setdefault(stream, []).append(lambda: seen.append(True))
        self.asked.append(("follow", lambda: self.run(stream, seen)))

    def run(self, stream: int, until: list[bool] | None = None) -> None:
        """Do what was asked for on another stream."""
        theirs = self.others.get(stream, [])
        while theirs and not until:
            theirs.pop(0)()

    def settle(self) -> None:
        self._not_recording("settle")
        self.settles += 1
        for stream in self.others:
            self.run(stream)
        self._do(len(self.asked))

    def gpu_of_address(self, address: int) -> int | None:
        return 0 if any(a <= address < a + m.size for a, m in self.memory.items()) else None

    def theirs(self, content: np.ndarray, stream: int, offset: int = 0) -> int:
        """Memory of another library, which writes its content on its stream; the address."""
        address, piece = self._piece(content.nbytes + offset + 1, UNWRITTEN)
        self.memory[address] = piece
        told = np.frombuffer(content.tobytes(), np.uint8)
        self.others.setdefault(stream, []).append(lambda: piece.__setitem__(slice(offset, offset + told.size), told))
        return address + offset

    # ---- graphs

    def record(self) -> None:
        self._not_recording("record")
        self.graph = []

    def end_recording(self) -> Any:
        found, self.graph = self.graph, None
        return found

    def replay(self, graph: Any) -> None:
        self._not_recording("replay")
        if not graph:
            raise DriverError("replay of a graph that was dropped")

        def done() -> None:
            self.pending.remove(id(graph))
            for _, each in graph:
                each()

        self.pending.append(id(graph))
        self.asked.append(("replay", done))

    def drop(self, graph: Any) -> None:
        if id(graph) in self.pending:
            raise DriverError("a graph is dropped before its replay is done")
        self.dropped += 1
        graph.clear()

    def _not_recording(self, what: str) -> None:
        if self.graph is not None:
            raise DriverError(f"{what} while a graph is recorded")


def _address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]


def _size(kind: str) -> int:
    return {"*bf16": 2, "*fp16": 2}.get(kind) or int("".join(c for c in kind if c.isdigit())) // 8


Card = tuple[CardDevice, StubDriver]


def made(limit: int = 1 << 28, piece: int = 4096, cache: Cache | None = None, name: str = "gpu") -> Card:
    compiler = Compiler()
    driver = StubDriver(compiler, limit)
    return CardDevice(driver, name, cache, compiler, piece), driver

"""The device ``gpu-sim``: interprets the texts for a GPU over host memory, for tests and for inspection.

It shows that texts compute correct results, that every access lies in its buffer and that every element is written, since fresh
memory contains a pattern. It does not show races, the rounding of a card's approximate functions, or times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.devices.cuda.adapter import interpret_launch, version
from weft.devices.cuda.arguments import FAULTS, Argument
from weft.devices.cuda.generate import PrintingDevice
from weft.devices.faults import ForeignBuffer
from weft.devices.steps import find_donations, walk
from weft.dtypes.formats import Format
from weft.dtypes.rounding import scalar
from weft.kernel.ir import Kernel
from weft.schedule.program import Call, Program, Slot

ALIGNMENT = 256  # bytes: alignment of a card's memory
FRESH_BYTE = 0xAB  # value of every fresh byte


class DeviceMemory:
    """Memory that native code of the host must not access, as it cannot access a card's."""

    __slots__ = ("__weakref__", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        whole = np.full(max(nbytes, 1) + ALIGNMENT, FRESH_BYTE, np.uint8)
        first = -_address(whole) % ALIGNMENT
        self.memory, self.nbytes = whole[first : first + nbytes], nbytes

    @property
    def address(self) -> int:
        raise ForeignBuffer(-1, -1)


def _address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]


class _Worker:
    """Runs the steps of a Program: see ``weft.devices.steps``."""

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device

    def piece(self, memory: np.ndarray, offset: int, nbytes: int) -> np.ndarray:
        return memory[offset : offset + nbytes]

    def copy(self, source: np.ndarray, target: np.ndarray, nbytes: int) -> None:
        target[:nbytes] = source[:nbytes].copy()

    def number(self, value: Any, slot: Slot) -> np.ndarray:
        return np.asarray(scalar(value, slot.dtype)).reshape(-1).view(np.uint8)

    def fetch(self, memory: np.ndarray, slot: Slot) -> np.ndarray:
        return _content(memory, slot.shape, slot.dtype).copy()

    def put(self, array: np.ndarray, memory: np.ndarray) -> None:
        memory[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def launch(self, call: Call, memories: Sequence[np.ndarray], numbers: Sequence[Any]) -> tuple[int, int] | None:
        return self.device.run_kernel(call.kernel, memories, numbers)


def _number(a: Argument, kernel: Kernel, numbers: Sequence[Any]) -> Any:
    """Return the value passed for a number, rounded to its format; None for a buffer."""
    if a.kind == "scalar":
        return scalar(numbers[a.value], kernel.scalars[a.value])
    return a.value if a.kind == "number" else None


def _content(memory: np.ndarray, shape: tuple[int, ...], form: Format) -> np.ndarray:
    return memory[: math.prod(shape) * form.bytes].view(form.numpy).reshape(shape)


class _Executable:
    def __init__(self, device: SimulatedDevice, program: Program) -> None:
        self.device, self.program = device, program
        self.places: Any = ()

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[DeviceMemory]:
        program = self.program
        memories = [x.memory if isinstance(x, DeviceMemory) else x for x in inputs]
        sizes = [math.prod(shape) * form.bytes for shape, form in program.outputs]
        reused = {} if held is None else find_donations(program, inputs, held, sizes, DeviceMemory)
        outputs = [reused[k] if k in reused else DeviceMemory(size) for k, size in enumerate(sizes)]
        with np.errstate(all="ignore"):
            walk(program, memories, [o.memory for o in outputs], DeviceMemory(program.arena).memory, _Worker(self.device))
        return outputs

    def direct(self) -> int:
        return 0


class SimulatedDevice(PrintingDevice):
    """See :class:`weft.devices.base.Device`."""

    name = "gpu-sim"

    def __init__(self) -> None:
        super().__init__()
        DEVICE_OF_BUFFER_TYPE[DeviceMemory] = self.name
        self.triton = version()

    def run_kernel(self, kernel: Kernel, memories: Sequence[np.ndarray], numbers: Sequence[Any]) -> tuple[int, int] | None:
        """Run a kernel on the memory of its inputs and outputs. Return (check number, index) if an index was out of range."""
        printed = self.print_kernel(kernel)
        buffers = {("arg", b.id): (b, m) for b, m in zip((*kernel.inputs, *kernel.outputs), memories, strict=True)}
        for b in printed.scratch:
            buffers["kernel", b.id] = b, DeviceMemory(math.prod(b.shape) * b.dtype.bytes).memory
        faults = np.zeros(1 + printed.sites, np.int64)
        for launch in printed.launches:
            addresses: list[tuple[int, int] | None] = []
            for a in launch.arguments:
                if a.kind == "buffer":
                    b, memory = buffers[a.value]
                    addresses.append((_address(memory), math.prod(b.shape) * b.dtype.bytes))
                else:
                    addresses.append((_address(faults), faults.nbytes) if a.kind == FAULTS else None)
            self.launches += 1
            interpret_launch(launch, addresses, [_number(a, kernel, numbers) for a in launch.arguments])
        return (int(faults[0]) - 1, int(faults[faults[0]])) if faults[0] else None

    def compile(self, program: Program, flush_denormals: bool = False) -> _Executable:
        """Compile a program. ``flush_denormals`` is ignored: a GPU is no slower with denormals."""
        return _Executable(self, program)

    def allocate(self, nbytes: int) -> DeviceMemory:
        return DeviceMemory(nbytes)

    def upload(self, array: np.ndarray) -> DeviceMemory:
        memory = DeviceMemory(array.nbytes)
        memory.memory[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return memory

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> DeviceMemory:
        return self.upload(array[rows])

    def read_first(self, buffer: DeviceMemory, dtype: Format) -> Any:
        return buffer.memory[: dtype.bytes].view(dtype.numpy)[0]

    def download(self, buffer: DeviceMemory, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        """Return a read-only copy, as from a card."""
        array = _content(buffer.memory, shape, dtype).copy()
        array.flags.writeable = False
        return array

    def synchronise(self) -> None:
        """Do nothing: operations are synchronous."""

    def counters(self) -> dict[str, int]:
        return {"kernels": self.kernels, "launches": self.launches}

    def describe(self, measure: bool = False) -> dict[str, Any]:
        return {"device": self.name, "triton": self.triton}

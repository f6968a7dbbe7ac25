"""A device that runs every kernel in Python, by ``evaluate``: what the Protocol asks for, and no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.kernel.evaluate import evaluate, shown
from weft.devices.faults import IndexFault
from weft.devices.steps import walk
from weft.dtypes.formats import Format
from weft.kernel.target import Target
from weft.schedule.program import Call, Program, Slot


class Buffer:
    """Memory of its own; the address is of no use to anybody else."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory.reshape(-1).view(np.uint8)
        self.address, self.nbytes = id(self), self.memory.nbytes


class Worker:
    """Memory is an array of bytes."""

    def piece(self, memory: np.ndarray, offset: int, nbytes: int) -> np.ndarray:
        return memory[offset : offset + nbytes]

    def copy(self, source: np.ndarray, target: np.ndarray, nbytes: int) -> None:
        target[:nbytes] = source[:nbytes].copy()

    def number(self, value: Any, slot: Slot) -> np.ndarray:
        return np.asarray(value, slot.dtype.numpy).reshape(-1).view(np.uint8)

    def fetch(self, memory: np.ndarray, slot: Slot) -> np.ndarray:
        return _seen(memory, slot.shape, slot.dtype)

    def put(self, array: np.ndarray, memory: np.ndarray) -> None:
        memory[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def launch(self, call: Call, memories: Sequence[np.ndarray], numbers: Sequence[Any]) -> tuple[int, int] | None:
        kernel = call.kernel
        buffers = (*kernel.inputs, *kernel.outputs)
        seen = [shown(_seen(m, b.memory_extents, b.dtype), b) for m, b in zip(memories, buffers, strict=True)]
        count = len(kernel.inputs)
        try:
            done, _ = evaluate(kernel, [a.copy() for a in seen[:count]], numbers)
        except IndexFault as fault:
            return fault.site, fault.index
        for target, result in zip(seen[count:], done, strict=True):
            target[...] = result
        return None


def _seen(memory: np.ndarray, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
    return memory[: math.prod(shape) * dtype.bytes].view(dtype.numpy).reshape(shape)


class Executable:
    """A Program and nothing else."""

    worker: type[Worker] = Worker

    def __init__(self, program: Program) -> None:
        self.program = program
        self.places: Any = ()

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Buffer]:
        p = self.program
        given = [x.memory if isinstance(x, Buffer) else x for x in inputs]
        outputs = [Buffer(np.zeros(shape, dtype.numpy)) for shape, dtype in p.outputs]
        with np.errstate(all="ignore"):
            walk(p, given, [o.memory for o in outputs], np.zeros(p.arena, np.uint8), self.worker())
        return outputs

    def direct(self) -> int:
        return 0


class NumpyDevice:
    """See :class:`weft.devices.base.Device`."""

    name = "numpy"
    target = Target("numpy")
    threads = 1

    def set_threads(self, count: int) -> None:
        pass

    def compile(self, program: Program, flush_denormals: bool = False) -> Executable:
        return Executable(program)

    def allocate(self, nbytes: int) -> Buffer:
        return Buffer(np.empty(nbytes, np.uint8))

    def upload(self, array: np.ndarray) -> Buffer:
        return Buffer(np.array(array, order="C"))

    def upload_rows(self, array: np.ndarray, rows: np.ndarray) -> Buffer:
        return Buffer(np.ascontiguousarray(array[rows]))

    def read_first(self, buffer: Buffer, dtype: Format) -> Any:
        return buffer.memory.view(dtype.numpy)[0]

    def download(self, buffer: Buffer, shape: tuple[int, ...], dtype: Format) -> np.ndarray:
        found = _seen(buffer.memory, shape, dtype)
        found.flags.writeable = False
        return found

    def synchronise(self) -> None:
        pass

    def counters(self) -> dict[str, int]:
        return {}

    def describe(self, measure: bool = False) -> dict[str, Any]:
        return {"device": self.name}

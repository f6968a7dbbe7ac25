"""Loops with host steps: Python runs the iterations; segments between the host steps run natively.

A loop without host steps is one native call (``loop_ir.py``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.devices.cpu.native.allocator import Allocator, at
from weft.devices.cpu.native.slots import Slots
from weft.devices.steps import turns
from weft.schedule.program import Loop, Slot

Part = Callable[[list[Any], list[Any], int], Any]  # of a run: inputs, outputs, arena


class Place:
    """An address of memory that the run keeps alive."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address


class _Mover:
    """See ``weft.devices.steps``."""

    def piece(self, memory: Place, offset: int, nbytes: int) -> Place:
        return Place(memory.address + offset)

    def copy(self, source: Place, target: Place, nbytes: int) -> None:
        ctypes.memmove(target.address, source.address, nbytes)

    def fetch(self, memory: Place, slot: Slot) -> np.ndarray:
        return at(memory.address, slot.shape, slot.dtype.numpy, memory, False)

    def put(self, array: np.ndarray, memory: Place) -> None:
        ctypes.memmove(memory.address, array.ctypes.data, array.nbytes)


class PythonLoop:
    """A loop that Python runs, as a part of a run.

    parts : of the body, called in every iteration
    home, room : source and size of the memory for temporaries and scratch, allocated once per run
    """

    def __init__(self, slots: Slots, loop: Loop, allocator: Allocator, parts: list[Part], home: int, room: int) -> None:
        self.slots, self.loop, self.allocator = slots, loop, allocator
        self.parts, self.home, self.room = parts, home, room

    def __call__(self, inputs: list[Any], outputs: list[Any], arena: int) -> None:
        slots, parts = self.slots, self.parts
        own = self.allocator.take(self.home, self.room) if self.home else 0

        def memory(slot: int) -> Place:
            return Place(slots.address(slot, inputs, outputs, arena))

        def run_body(body_inputs: list[Place], body_outputs: list[Place], _: Any) -> None:
            for part in parts:
                part(body_inputs, body_outputs, own)

        try:
            turns(self.loop, slots.program.slots, memory, _Mover(), run_body)
        finally:
            if self.home:
                self.allocator.give(self.home, own)

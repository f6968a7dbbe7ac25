"""The program of a test's ranks: collectives on a device whose memory NCCL reaches, both of which are stand-ins, on MPI.

``card_programs.py SEED``. Arrays of a rank lie on the device or in the host's memory; all must take the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import weft as wf
from tests.dist.host_cards import HostStep, Library, Stream
from tests.dist.programs import HAS_ROWS, draw, expected, function
from tests.kernel.numpy_device import Buffer, Executable, NumpyDevice, Worker
from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dist import nccl
from weft.dist.world import world
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.schedule.program import Program, Slot

SEED = int(sys.argv[1])
RANK, SIZE = wf.dist.rank(), wf.dist.size()
STREAM = Stream(7)
JOB = world()
assert JOB.engine is not None
LIBRARY = Library(JOB.engine, JOB, range(SIZE), [STREAM])


class CardWorker(Worker):
    """Offers its memory to host steps."""

    def device_step(self, operand: np.ndarray, slot: Slot, out: np.ndarray) -> HostStep:
        return HostStep(operand, slot.shape, slot.dtype, out, STREAM, CARD[0])


class CardExecutable(Executable):
    worker = CardWorker


class CardDevice(NumpyDevice):
    target = replace(NumpyDevice.target, splits_effects=False)

    def compile(self, program: Program, flush_denormals: bool = False) -> Executable:
        return CardExecutable(program)


CARD = [f"card {RANK}"]
DEVICES: dict[bool, Any] = {True: CardDevice(), False: NumpyDevice()}
PROGRAMS = {where: type(execute.PROGRAMS)(64e6) for where in DEVICES}  # programs are known by the name of their device


@contextmanager
def arrays_on(is_card: bool) -> Iterator[None]:
    """Compute on the stand-in of a card, or on a device that offers no memory."""
    original = execute.get_device, execute.PROGRAMS
    execute.get_device, execute.PROGRAMS = lambda name="cpu": DEVICES[is_card], PROGRAMS[is_card]
    try:
        yield
    finally:
        execute.get_device, execute.PROGRAMS = original


def messages() -> int:
    return sum(call[0] in ("send", "recv") for call in LIBRARY.calls)


def check(rng: np.random.Generator, where: list[bool], by_nccl: bool) -> None:
    """Each collective on random data. where : of each rank's array"""
    for name in ("all_sum", "all_gather", "reduce_scatter", "all_to_all", "broadcast"):
        dtype, root = str(rng.choice(["float32", "float64", "int32", "uint8", "float16", "complex64"])), int(rng.integers(SIZE))
        shape = ((), (7,), (3, 5), (0,), (4097,))[rng.integers(5)]
        whole = (SIZE, *shape) if name in HAS_ROWS else shape
        data = [draw(rng, whole, dtype) for _ in range(SIZE)]
        f, before = function(name, root, None), messages()
        with arrays_on(where[RANK]):
            result = (wf.jit(f) if rng.random() < 0.5 else f)(wf.array(data[RANK])).numpy()
        want = expected(name, data, RANK, root) if dtype != "float16" else sum16(name, data, root)
        assert result.dtype == want.dtype and result.tobytes() == np.ascontiguousarray(want).tobytes(), (name, SEED)
        assert (messages() > before) is (by_nccl and 0 not in whole), (name, where)


def sum16(name: str, data: list[np.ndarray], root: int) -> np.ndarray:
    """Sums of 16-bit floats are rounded once."""
    wide = [x.astype(np.float32) for x in data] if name in ("all_sum", "reduce_scatter") else data
    return expected(name, wide, RANK, root).astype(np.float16)


def main() -> None:
    rng = np.random.default_rng(SEED)
    CONTEXT.max_eager_bytes = CONTEXT.compile_threshold = 0  # no eager work of the CPU, nothing node by node
    DEVICE_OF_BUFFER_TYPE[Buffer] = NumpyDevice.name
    check(rng, [True] * SIZE, False)  # NCCL is not installed
    nccl._can_load.clear()
    nccl.load_nccl = lambda: LIBRARY
    check(rng, [True] * SIZE, True)
    check(rng, [k != SIZE - 1 for k in range(SIZE)], False)  # one rank's array lies in the host's memory
    check(rng, [True] * SIZE, True)
    with arrays_on(True):
        slope = wf.grad(lambda x: (wf.dist.all_sum(x * x) * 3).sum())(wf.array([1.0, RANK]))
        assert slope.numpy().tolist() == [6, 6 * RANK], slope
    begun = [call[0] for call in LIBRARY.calls].count("comm_init_rank_scalable")
    assert begun == 1, begun
    CARD[0] = f"other card {RANK}"
    check(rng, [True] * SIZE, True)
    names = [call[0] for call in LIBRARY.calls]
    assert names.count("comm_init_rank_scalable") == 2 and names.count("comm_destroy") == 1, names
    CARD[0] = "one card"  # all ranks have it
    check(rng, [True] * SIZE, False)
    print("all checked")


main()

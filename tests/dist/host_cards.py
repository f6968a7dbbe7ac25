"""Stand-ins for a card and for NCCL: memory of the host, and messages of another engine that are sent in the order of a stream.

Work is done when a test waits for it, so memory that is read or overwritten too early gives a wrong result.
"""

from __future__ import annotations

import ctypes
import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.devices.steps import Sums
from weft.dist.engine import Engine, Waiter
from weft.dtypes.formats import Format

TAG = 77
UNWRITTEN = 0xAB


class Stream:
    """Operations that are done in the order in which they were asked for."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, []

    def ask(self, operation: Callable[[], None]) -> None:
        self.asked.append(operation)

    def run(self) -> None:
        while self.asked:
            self.asked.pop(0)()


class HostStep:
    """See :class:`weft.devices.steps.DeviceStep`: the operand and the result are bytes of the host."""

    def __init__(
        self, operand: np.ndarray, shape: tuple[int, ...], dtype: Format, out: np.ndarray, stream: Stream, card: str,
    ) -> None:
        self.address, self.shape, self.dtype, self.out = operand.ctypes.data, shape, dtype, out.ctypes.data
        self.memory, self.queue, self.stream, self.card = [operand, out], stream, stream.number, card

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """Return memory of the step, and of nobody else."""
        for piece in self.memory:
            first = address - piece.ctypes.data
            if 0 <= first and first + nbytes <= piece.nbytes:
                return piece[first : first + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are no memory of the step")

    def fetch(self) -> np.ndarray:
        self.queue.run()
        return self.view(self.address, math.prod(self.shape) * self.dtype.bytes).view(self.dtype.numpy).reshape(self.shape)

    def allocate(self, nbytes: int) -> int:
        self.memory.append(np.full(nbytes, UNWRITTEN, np.uint8))
        return self.memory[-1].ctypes.data

    def copy(self, target: int, source: int, nbytes: int) -> None:
        assert nbytes, "a card's driver refuses empty copies"
        a, b = self.view(target, nbytes), self.view(source, nbytes)
        self.queue.ask(lambda: a.__setitem__(slice(None), b.copy()))

    def zero(self, target: int, nbytes: int) -> None:
        memory = self.view(target, nbytes)
        self.queue.ask(lambda: memory.fill(0))

    def sum_rows(self, target: int, rows: int, sums: Sums, count: int, dtype: Format) -> None:
        assert count
        nbytes, narrow = count * dtype.bytes, dtype.numpy.kind not in "iu" and dtype.bytes < 4
        out = self.view(target, nbytes)

        def add(part: Sums) -> np.ndarray:
            if isinstance(part, tuple):
                return add(part[0]) + add(part[1])
            row = self.view(rows + part * nbytes, nbytes).view(dtype.numpy)
            return row.astype(np.float32) if narrow else row

        def done() -> None:
            with np.errstate(all="ignore"):
                out[:] = add(sums).astype(dtype.numpy).view(np.uint8)

        self.queue.ask(done)

    def mark(self) -> None:
        self.queue.ask(lambda: None)

    def has_reached_mark(self) -> bool:
        self.queue.run()
        return True

    def synchronise(self) -> None:
        self.queue.run()


class NCCLError(Exception):
    """What the bindings raise."""


class Library:
    """The functions of ``nccl.bindings.nccl`` that weft calls. calls : their names and arguments

    fails : names of functions that raise. state : what ``comm_get_async_error`` returns
    """

    class Result(enum.IntEnum):
        Success = 0
        RemoteError = 6
        InProgress = 7

    class DataType(enum.IntEnum):
        Int8 = 0
        Uint8 = 1

    def __init__(self, engine: Engine, waiter: Waiter, ranks: Sequence[int], streams: Sequence[Stream]) -> None:
        self._engine, self._waiter, self._ranks = engine, waiter, ranks
        self._streams = {stream.number: stream for stream in streams}
        self._group: list[tuple[str, np.ndarray, int]] | None = None
        self.calls: list[tuple[Any, ...]] = []
        self.fails: set[str] = set()
        self.state = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            if name in self.fails:
                raise NCCLError(f"{name} is unwell")
            return getattr(self, f"_{name}")(*arguments)

        if name.startswith("_"):
            raise AttributeError(name)
        return call

    def _get_unique_id(self) -> bytes:
        return bytes(range(128))

    def _comm_init_rank_scalable(self, size: int, me: int, count: int, number: bytearray, config: int) -> str:
        assert (size, count, config) == (len(self._ranks), 1, 0) and bytes(number) == bytes(range(128))
        assert self._ranks[me] == self._engine.rank
        return f"communicator {me}"

    def _group_start(self) -> None:
        assert self._group is None
        self._group = []

    def _send(self, address: int, count: int, form: int, peer: int, communicator: str, stream: int) -> None:
        assert self._group is not None and count and form == self.DataType.Uint8
        me = self._ranks.index(self._engine.rank)
        assert 0 <= peer < len(self._ranks) and peer != me and communicator == f"communicator {me}"
        memory = np.frombuffer((ctypes.c_uint8 * count).from_address(address), np.uint8)
        self._group.append((self.calls[-1][0], memory, self._ranks[peer]))
        self._stream = self._streams[stream]

    _recv = _send

    def _group_end(self) -> None:
        group, self._group = self._group, None
        if group:
            self._stream.ask(lambda: self._move(group))

    def _move(self, group: list[tuple[str, np.ndarray, int]]) -> None:
        requests = [(self._engine.irecv(data, rank, TAG), rank) for name, data, rank in group if name == "recv"]
        requests += [(self._engine.isend(data, rank, TAG), rank) for name, data, rank in group if name == "send"]
        self._waiter.wait(requests, "NCCL's stand-in")

    def _comm_get_async_error(self, communicator: str) -> int:
        return self.state

    def _get_error_string(self, state: int) -> str:
        return f"error {state}"

    def _comm_abort(self, communicator: str) -> None:
        """Nothing is left to end."""

    def _comm_destroy(self, communicator: str) -> None:
        """Nothing is left to end."""

"""NCCL, which moves arrays between GPUs without the host. Only this file imports ``nccl4py``; MPI starts it.

Only its sends and receives of bytes are used: the order of its own sums changes with channels and ranks. Every call is issued on
the stream of the device ``gpu``.

All ranks of a group must take the same way, by NCCL or by the host, but only a rank itself knows where its operand lies. So they
agree by messages of one byte: once for each group whether NCCL can be loaded, then, if so, before each collective.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from weft.devices.steps import DeviceStep
from weft.dist.algorithms import Link, all_gather, broadcast, least
from weft.errors import CollectiveError

_HOST, _NEW, _READY = range(3)  # what a rank can offer for a collective; the least of all ranks is done
_ID_BYTES = 128
Part = tuple[int, int, int]  # address, bytes, and the member at the other end


def load_nccl() -> Any:
    """Return the bindings of NCCL, or None if the package or the library cannot be loaded."""
    if find_spec("nccl") is None:
        return None
    try:
        from nccl.bindings import nccl

        nccl.get_version()  # loads the library
    except Exception:  # a broken install fails in any way
        return None
    return nccl


class Communicator:
    """The cards of a group's ranks, one a rank.

    Raises
    ------
    CollectiveError
        NCCL reports an error.
    """

    def __init__(self, library: Any, link: Link) -> None:
        self._library, self._what = library, link.what
        self._handle: Any = None
        number = np.zeros(_ID_BYTES, np.uint8)
        if link.me == 0:
            number[:] = np.frombuffer(bytes(self._call("get_unique_id")), np.uint8)
        number = broadcast(link, number, 0)
        self._handle = self._call("comm_init_rank_scalable", link.size, link.me, 1, bytearray(number.tobytes()), 0)

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._library, name)(*arguments)
        except Exception as error:  # NCCLError, or what loading the library raises
            raise CollectiveError(f"{self._what}: NCCL's {name} failed ({error}): NCCL_DEBUG=INFO makes it tell more") from None

    def exchange(self, step: DeviceStep, sends: Sequence[Part], receives: Sequence[Part]) -> None:
        """Issue sends and receives that run at the same time. Empty ones send nothing."""
        form = int(self._library.DataType.Uint8)
        self._call("group_start")
        try:
            for name, parts in (("recv", receives), ("send", sends)):
                for address, nbytes, member in parts:
                    if nbytes:
                        self._call(name, address, nbytes, form, member, self._handle, step.stream)
        finally:
            self._call("group_end")

    def wait(self, link: Link, step: DeviceStep) -> None:
        """Return when all that was issued is done. An error or a lost rank ends NCCL's work on the stream."""
        step.mark()
        try:
            link.wait(_Work(self, step))
        except BaseException:
            self.end("comm_abort")
            raise

    def raise_error(self) -> None:
        """Raise the error of a call that has returned before."""
        state = self._call("comm_get_async_error", self._handle)
        if state not in (self._library.Result.Success, self._library.Result.InProgress):
            text = self._call("get_error_string", int(state))
            raise CollectiveError(f"{self._what}: NCCL failed on the card ({text}): NCCL_DEBUG=INFO makes it tell more")

    def begin(self, what: str) -> None:
        """Name the collective that errors belong to."""
        self._what = what

    def end(self, name: str = "comm_destroy") -> None:
        self._call(name, self._handle)


class _Work:
    """A request: all that was issued on a card so far."""

    def __init__(self, communicator: Communicator, step: DeviceStep) -> None:
        self._communicator, self._step = communicator, step

    def Test(self) -> bool:
        if self._step.has_reached_mark():
            return True
        self._communicator.raise_error()
        return False


_can_load: dict[tuple[int, ...], bool] = {}  # whether all members of a group can load NCCL
_communicators: dict[tuple[int, ...], tuple[str, Communicator | None]] = {}  # group -> card, and None if a card has two ranks


def agree_on_way(link: Link, step: DeviceStep | None) -> Communicator | None:
    """Return the communicator of a collective if all operands lie on cards of their own, else None.

    step : None on a rank whose operand lies in the host's memory
    """
    group = link.ranks
    if group not in _can_load:
        _can_load[group] = bool(least(link, int(load_nccl() is not None)))
    if not _can_load[group]:
        return None
    card, communicator = _communicators.get(group, ("", None))
    offer = _HOST
    if step is not None and 0 not in step.shape:
        step.synchronise()  # the time limit is that of the other ranks, not of this card's earlier work
        offer = _READY if step.card == card else _NEW
    way = least(link, offer)
    if way == _NEW and step is not None:
        if communicator is not None:
            communicator.end()
        communicator = _start(link, step.card)
        _communicators[group] = step.card, communicator
    if communicator is not None:
        communicator.begin(link.what)
    return None if way == _HOST else communicator


def _machine() -> str:
    """Return a text that differs between machines; two containers of one machine share it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


def _start(link: Link, card: str) -> Communicator | None:
    """Return a communicator, or None if two ranks share a card, which NCCL refuses."""
    cards = all_gather(link, np.frombuffer(f"{_machine()} {card}".encode()[:96].ljust(96), np.uint8))
    return None if len({row.tobytes() for row in cards}) < link.size else Communicator(load_nccl(), link)

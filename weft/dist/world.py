"""The job: its ranks, how long one waits for the others, and its end when one of them fails.

A rank waits by asking its requests in turn and giving the core to others, so that more ranks than cores work: 35 us for a message
among 4 ranks on 2 cores, where a blocking call of MPICH 5.0.2 takes 480 us. It also sees Ctrl-C and the time limit there.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from weft.dist.agreement import MESSAGE_TAGS, agree_to_leave, empty, unpack
from weft.dist.algorithms import Link, all_to_all
from weft.dist.engine import Engine, Request
from weft.dist.exchanges import Exchanges, identify_thread
from weft.dist.failures import FAILED, HUNG, describe_error
from weft.dist.mpi import MPI, launched_rank, refuse_lost_ranks
from weft.dist.report import DONE, FAILURE, WAITING, Report
from weft.errors import CollectiveError, is_own_file

PATIENCE_VARIABLE, OVERLAP_VARIABLE = "WEFT_PATIENCE", "WEFT_OVERLAP"
_SPINS, _YIELDS = 100, 5000  # requests are asked without a pause, then with a yield, then with short sleeps
_SLEEP_S = 1e-4
_LAST_WORDS_S = 0.5  # from a rank's message to the end of the job: the others may have one, too


class World:
    """The ranks of this job, seen from one of them."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.rank, self.size = 0, 1
        self.patience = float(os.environ.get(PATIENCE_VARIABLE, 60))
        self.has_left = False  # whether MPI has ended
        self.failure = ""  # why no more messages can be exchanged
        self._thread = identify_thread()
        self._unsent: list[tuple[Request, int]] = []  # messages of ``send`` that may not have left
        self.report: Report  # if there is an engine
        self.exchanges = Exchanges()
        self.overlaps = False  # whether exchanges may run beside the program
        place = launched_rank()
        refuse_lost_ranks()
        if place is not None:
            self.report = Report(place)
            self.engine = MPI()
            self.rank, self.size = self.engine.rank, self.engine.size
            self.overlaps = self.size > 1 and self.engine.takes_threads and os.environ.get(OVERLAP_VARIABLE) != "0"
            self.sent, self.received = np.zeros((2, self.size, 2), np.int64)  # messages by the other rank, and of derivatives
            self._show, sys.excepthook = sys.excepthook, self._end_by_exception  # weft's own: see ``process/tracebacks.py``
            atexit.register(self.leave)  # MPI's own end comes after it
            self._exit, os._exit = os._exit, self._end_by_exit  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    # ---- messages

    @contextmanager
    def conversation(self, what: str) -> Iterator[Engine]:
        """Give the engine for messages that belong to ``what``. If they are interrupted, no more are exchanged."""
        if self.is_elsewhere():
            raise CollectiveError(
                f"rank {self.rank}: {what} is asked for in another thread or process than the first one that used wf.dist"
            )
        self.exchanges.drain()
        if self.failure:
            raise CollectiveError(f"rank {self.rank}: no {what} is possible: {self.failure}")
        assert self.engine is not None
        self.report.write(WAITING + what)
        try:
            yield self.engine
        except BaseException as error:
            self.failure = f"{what} was interrupted by {type(error).__name__}"
            raise
        if not self.failure:  # else this rank has ended the job beside this exchange
            self.report.write(f"is past {what}")

    def is_elsewhere(self) -> bool:
        """Return whether this is another thread, or a forked process: the order of their collectives would be accidental."""
        return identify_thread() not in (self._thread, self.exchanges.thread)

    def wait(self, requests: Sequence[tuple[Request, int]], what: str) -> None:
        """Wait until the requests, each with the rank at the other end, are done; at most ``patience`` seconds."""
        turns, end = 0, 0.0
        while requests := self._find_pending(requests, what):
            turns += 1
            if turns < _SPINS:
                continue
            if turns == _SPINS:
                end = time.monotonic() + self.patience
            yields = turns < _YIELDS and not self.exchanges.is_beside()  # beside kernels it would take their core
            os.sched_yield() if yields else time.sleep(_SLEEP_S)
            if turns % 64 == 0 and time.monotonic() > end:
                peers = {peer for _, peer in requests}
                late = self.report.find_late_ranks()
                late_peers = peers & late.keys()
                rest = "" if late_peers else "".join(f"; rank {r}, which does not wait, {text}" for r, text in late.items())
                others = _describe_ranks(late_peers or peers)
                raise CollectiveError(f"{self} has waited {self.patience:g} s for {others} in {what}{rest}", HUNG)

    def _find_pending(self, requests: Sequence[tuple[Request, int]], what: str) -> list[tuple[Request, int]]:
        """Return the requests that are not done. Raise CollectiveError if the library fails: another rank has ended."""
        try:
            return [r for r in requests if not r[0].Test()]
        except Exception as error:
            time.sleep(_LAST_WORDS_S)  # if a signal ended the other rank, the launcher ends this one meanwhile, and names it
            others = _describe_ranks({peer for _, peer in requests})
            raise CollectiveError(f"{self} cannot reach {others} in {what}: {error}") from None

    def send_later(self, data: Sequence[np.ndarray], to: int, tag: int) -> None:
        """Send copies of bytes without waiting for the receiver."""
        assert self.engine is not None
        self._unsent = [r for r in self._unsent if not r[0].Test()]
        self._unsent += [(self.engine.isend(x, to, tag), to) for x in data]

    # ---- the end of a rank

    def leave(self) -> None:
        """Wait until all ranks are at the end of their scripts."""
        if self.engine is None or self.is_elsewhere():
            return
        if self.failure:
            return self.end(f"{self} is at the end of its script, but {self.failure}", FAILED)
        try:
            with self.conversation("the end of the script"):
                agree_to_leave(self, self.engine)
                self._check_received(self.engine)
                self.wait(self._unsent, "the end of the script, before its messages are received")
                self.engine.finish()
            self.has_left = True
            self.report.write(DONE)
        except CollectiveError as error:
            self.end(str(error), error.code)

    def _check_received(self, engine: Engine) -> None:
        """Raise CollectiveError if this rank has not received all messages to it: the ranks compare their counts."""
        what = "the end of the script"
        link = Link(self, engine, tuple(range(self.size)), what)
        for source, backward in np.argwhere(all_to_all(link, self.sent) != self.received).tolist():
            header = empty()
            self.wait([(engine.irecv(header, source, MESSAGE_TAGS[backward]), source)], what)
            text, place = unpack(header)
            message = "a derivative" if backward else "a message"
            raise CollectiveError(
                f"{self} is at the end of its script, but has not received {message} of rank {source}: {text} ({place})"
            )

    def end(self, why: str, code: int) -> None:
        """Print a line and end the job."""
        assert self.engine is not None
        self.failure = self.failure or why
        self.report.write(f"{FAILURE}{code}")
        sys.stdout.flush()
        sys.stderr.write(f"weft: {why}: the job ends\n")  # one write: lines of ranks mix
        sys.stderr.flush()
        time.sleep(_LAST_WORDS_S)
        self.engine.abort(code)

    def _end_by_exit(self, status: int) -> NoReturn:
        """End the job, in place of ``os._exit``, if this rank still belongs to it: MPI would not say which rank left."""
        if os.getpid() == self._thread[0] and not self.has_left:
            self.end(f"{self} left by os._exit({status})", status or FAILED)
        self._exit(status)

    def _end_by_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._show(kind, error, trace)
        self.end_by(error)

    def end_by(self, error: BaseException) -> None:
        """End the job because this rank raised."""
        if isinstance(error, CollectiveError):
            return self.end(str(error), error.code)
        code = 130 if isinstance(error, KeyboardInterrupt) else FAILED
        self.end(describe_error(self.rank, self.size, error), code)


def _describe_ranks(ranks: Collection[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}"


_WORLD: list[World] = []


def world() -> World:
    """Return the job. The first call begins MPI if a launcher has started this process."""
    if not _WORLD:
        _WORLD.append(World())
    return _WORLD[0]


def started_rank() -> int:
    """Return the number of this rank, 0 if the job has not begun."""
    return _WORLD[0].rank if _WORLD else 0


def started_size() -> int:
    """Return the number of ranks, 1 if the job has not begun."""
    return _WORLD[0].size if _WORLD else 1


def rank() -> int:
    """Return the number of this process among those of the job: 0 without a launcher.

    Returns
    -------
    int

    Raises
    ------
    DeviceError
        MPI cannot be loaded, or is another one than the launcher's.

    Examples
    --------
    >>> import weft as wf
    >>> if wf.dist.rank() == 0:
    ...     print("one rank prints")
    one rank prints
    """
    return world().rank


def size() -> int:
    """Return the number of ranks of the job: 1 without a launcher.

    Returns
    -------
    int

    Raises
    ------
    DeviceError
        As :func:`rank`.

    Examples
    --------
    >>> import weft as wf
    >>> rows = wf.arange(8)[wf.dist.rank() :: wf.dist.size()]  # this rank's share
    >>> rows.shape
    (8,)
    """
    return world().size


def init(patience: float | None = None) -> None:
    """Begin MPI, if a launcher has started this process, and change settings. Calling it is not necessary.

    Parameters
    ----------
    patience : seconds that a rank waits for the others in a collective before it ends the job; without it the variable
        ``WEFT_PATIENCE``, or 60

    Raises
    ------
    ValueError
        ``patience`` is not a positive number.
    DeviceError
        MPI cannot be loaded, or is another one than the launcher's.

    Examples
    --------
    >>> import weft as wf
    >>> wf.dist.init(patience=120)
    """
    job = world()
    if patience is not None:
        if isinstance(patience, bool) or not isinstance(patience, int | float) or not patience > 0:
            raise ValueError(f"init: patience is {patience!r}, but must be a positive number of seconds")
        job.patience = float(patience)


def user_place() -> str:
    """Return ``file:line`` of the user's running line."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return "?" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

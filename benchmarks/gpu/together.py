"""A step's process lives no longer than the command that started it, however that ends.

The command holds the other end of the step's standard input and writes nothing to it: when it is gone, by ``kill -9`` too, the
step reads the end, and ends itself with all that it has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from weft.process.signals import uninterrupted

FLAG = "--follow"
ROOT = Path(__file__).parents[2]  # of the checkout, where a step's process finds ``benchmarks``
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def started(command: Sequence[str], log: IO[bytes], speaks: bool = False) -> subprocess.Popen[bytes]:
    """A process that follows this one, first of a group of its own. speaks : what it prints goes where this one prints"""
    out = None if speaks else log
    return subprocess.Popen(
        [*command, FLAG], stdout=out, stderr=log, stdin=subprocess.PIPE, env=environment(), start_new_session=True
    )


def environment() -> dict[str, str]:
    """Return the environment of a step's process, in which Python finds ``benchmarks``."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started, which is its group."""
    with uninterrupted():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def follow() -> None:
    """In the step's process: end with the command."""
    threading.Thread(target=_until_the_end, daemon=True).start()


def _until_the_end() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that is closed, raise KeyboardInterrupt with their number, but for what is ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raised)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # of code that is not Python's
                signal.signal(number, handler)


def _raised(number: int, frame: Any) -> None:
    raise KeyboardInterrupt(number)

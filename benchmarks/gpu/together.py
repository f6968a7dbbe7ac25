"""End a step's process together with the command that started it, however the command ends.

The command holds the other end of the step's standard input and writes nothing to it. When the command is gone, even by
``kill -9``, the step reads the end of the input, and kills itself with all processes that it has started.
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

from weft.process.signals import defer_signals

FLAG = "--follow"
ROOT = Path(__file__).parents[2]  # of the checkout, where a step's process finds ``benchmarks``
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def started(command: Sequence[str], log: IO[bytes], speaks: bool = False) -> subprocess.Popen[bytes]:
    """Start a process, in a group of its own, that ends with this one. speaks : it inherits standard output, else uses ``log``"""
    out = None if speaks else log
    return subprocess.Popen(
        [*command, FLAG], stdout=out, stderr=log, stdin=subprocess.PIPE, env=environment(), start_new_session=True
    )


def environment() -> dict[str, str]:
    """Return the environment of a step's process, in which Python finds ``benchmarks``."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started, which are its group."""
    with defer_signals():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def follow() -> None:
    """Called in the step's process: end it when the command ends."""
    threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Context manager: SIGTERM and SIGHUP (a closed terminal) raise KeyboardInterrupt with their number, unless ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raise_interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not installed from Python
                signal.signal(number, handler)


def _raise_interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt(number)

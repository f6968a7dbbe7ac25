"""Rows of steps that go wrong, for ``bench_on_stub``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.setting import Rows, Setting
from weft.devices import get_device
from weft.devices.cuda.nvidia import DriverError


def good(setting: Setting) -> dict[str, Any]:
    """A row that asks the device for something."""
    setting.card.allocate(8)
    return {"right": True, "process": os.getpid()}


def named(*rows: tuple[str, Callable[[Setting], dict[str, Any]]]) -> Callable[[Setting], Rows]:
    def made(setting: Setting) -> Rows:
        for name, row in rows:
            yield name, lambda row=row: row(setting)

    return made


def raises(setting: Setting) -> dict[str, Any]:
    raise ValueError("what is wrong")


def wrong(setting: Setting) -> dict[str, Any]:
    return {"right": False, "worst": float("nan")}


def dies(setting: Setting) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def loses(setting: Setting) -> dict[str, Any]:
    """As after an illegal address: whatever is asked from then on is refused."""

    def refuse(*given: Any) -> Any:
        raise DriverError("an illegal memory access was encountered")

    driver = get_device("gpu").driver  # type: ignore[attr-defined]
    driver.synchronise = driver.launch = driver.allocate = refuse
    return refuse()


def slow(setting: Setting) -> dict[str, Any]:
    time.sleep(1.5)
    return {"right": True}


def longer(setting: Setting) -> dict[str, Any]:
    time.sleep(8)
    return {"right": True}


def hangs(setting: Setting) -> dict[str, Any]:
    time.sleep(600)
    return {}


def starts(setting: Setting) -> dict[str, Any]:
    """A process of its own, which knows the step's folder and would go on for ever."""
    folder = sys.argv[sys.argv.index("--out") + 1]
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", folder])
    return {"right": True}


FAULTS = named(("first", good), ("raises", raises), ("dies", dies), ("loses", loses), ("last", good))
MENDED = named(*[(name, good) for name in ("first", "raises", "dies", "loses", "last")])
STARTS = named(("one", starts), ("two", hangs))
WRONG = named(("first", good), ("not right", wrong))
SLOW = named(("one", slow), ("two", slow), ("three", slow), ("four", slow))
LATE = named(("one", longer), ("hangs", hangs))
HANGS = named(("first", good), ("hangs", hangs), ("never", good))
ALL = named(("first", good), ("second", good))


SLOW_PACKED = named(("one", good), ("hangs", hangs))
PARTS = named(("driver", good), ("graphs", wrong), ("memory", dies), ("threads", good))
VITAL = named(("driver", good), ("copies", raises), ("never", good))
VITAL_DIES = named(("driver", good), ("launch", dies), ("never", good))


def at_once(setting: Setting) -> Rows:
    """Dies before its first row."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield "never", lambda: {}

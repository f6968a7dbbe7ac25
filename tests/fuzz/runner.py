"""Runs programs in worker processes: starts them anew when they crash, hang or have lived long enough."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fuzz.record import Record

ROOT = Path(__file__).parents[2]
WALL_SECONDS = 120.0  # the worker counts processor time itself; this is for one that cannot
LIFE = 400  # programs a worker runs: code is never unloaded


@dataclass(frozen=True)
class Outcome:
    """What one program came to. ``level`` None: nothing wrong."""

    program: str
    level: str | None
    message: str | None
    seed: int = -1


class Runner:
    """One worker at a time. Use as a context."""

    def __init__(self) -> None:
        self.worker: subprocess.Popen[str] | None = None
        self.log: Any = None
        self.done = 0
        self.record = Record()
        self.cache = tempfile.TemporaryDirectory(prefix="weft-fuzz-")

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop(kind is None)
        self.cache.cleanup()

    def seed(self, seed: int, family: str | None = None, public: str | None = None) -> Outcome:
        """Grow and check the program of a seed, of a family, or one that calls a public function."""
        answer = self._ask({"seed": seed, "family": family, "tour": public})
        if not answer["program"]:
            answer["program"] = self.text(seed, family, public)
        return Outcome(answer["program"], answer["level"], answer["message"], seed)

    def program(self, text: str) -> Outcome:
        """Check a program."""
        answer = self._ask({"program": text})
        return Outcome(text, answer["level"], answer["message"])

    def text(self, seed: int, family: str | None, public: str | None) -> str:
        """The program of a seed that took its worker down: grown in a process of its own."""
        code = f"from tests.fuzz.families import grown; print(grown({seed}, {family!r}, {public!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120, env=self._env(),
        )
        return done.stdout

    def restart(self) -> None:
        """End the worker; what it has met is in ``record`` then."""
        self._stop(True)

    # the worker

    def _env(self) -> dict[str, str]:
        return {**os.environ, "WEFT_CACHE": self.cache.name, "PYTHONPATH": str(ROOT), "WEFT_THREADS": "2"}

    def _start(self) -> subprocess.Popen[str]:
        self.log = tempfile.TemporaryFile("w+")
        self.done = 0
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True,
            cwd=ROOT, env=self._env(),
        )

    def _stop(self, asking: bool) -> None:
        worker, self.worker = self.worker, None
        if worker is None:
            return
        assert worker.stdin and worker.stdout
        if asking and worker.poll() is None:
            worker.stdin.write('{"record": true}\n')
            worker.stdin.close()
            line = worker.stdout.readline()
            if line:
                self.record.add(json.loads(line)["record"])
        worker.kill()
        worker.wait()
        self.log.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        if self.done >= LIFE:
            self._stop(True)
        worker = self.worker = self.worker or self._start()
        assert worker.stdin and worker.stdout
        self.done += 1
        try:
            worker.stdin.write(json.dumps(command) + "\n")
            worker.stdin.flush()
        except BrokenPipeError:
            return self._crashed(command)
        ready, _, _ = select.select([worker.stdout], [], [], WALL_SECONDS)
        if not ready:
            self._stop(False)
            return {"program": command.get("program", ""), "level": "hang", "message": f"no answer in {WALL_SECONDS:.0f} seconds"}
        line = worker.stdout.readline()
        return json.loads(line) if line else self._crashed(command)

    def _crashed(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.worker is not None
        code = self.worker.wait()
        self.log.seek(0)
        tail = self.log.read()[-3000:]
        self._stop(False)
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return {"program": command.get("program", ""), "level": f"crash {name}", "message": tail}


def seeds(
    runner: Runner, first: int, count: int | None = None, until: float | None = None, family: str | None = None,
) -> Iterator[Outcome]:
    """The outcomes of seeds in order, so many or until a time."""
    seed = first
    while (count is None or seed < first + count) and (until is None or time.monotonic() < until):
        yield runner.seed(seed, family)
        seed += 1

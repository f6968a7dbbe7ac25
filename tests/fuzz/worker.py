"""A process that runs programs for another one, which survives it: crashes and hangs are findings like any other.

Commands come as lines of JSON: ``{"seed": 3, "family": null}``, ``{"program": text}``, ``{"record": true}``. Each is
answered by a line: ``{"program": text, "level": ..., "message": ...}`` (level null: nothing wrong), or the record.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from typing import Any

CPU_SECONDS = 15.0  # a program takes a tenth of a second


def _late(*_: Any) -> None:
    raise TimeoutError(f"more than {CPU_SECONDS:.0f} seconds of the processor")


def serve() -> None:
    from tests.fuzz.families import grown, problem
    from tests.fuzz.program import parse
    from tests.fuzz.record import RECORD

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is not for the protocol
    signal.signal(signal.SIGPROF, _late)
    for line in sys.stdin:
        command = json.loads(line)
        if "record" in command:
            answer: dict[str, Any] = {"record": RECORD.data()}
        else:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                text = command.get("program")
                program = grown(command["seed"], command["family"], command["tour"]) if text is None else parse(text)
                found = problem(program)
                answer = {"program": str(program), "level": found and found[0], "message": found and found[1]}
            except TimeoutError as error:
                answer = {"program": "", "level": "hang", "message": str(error)}
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    faulthandler.enable()
    serve()

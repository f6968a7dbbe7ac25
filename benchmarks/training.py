"""How fast do the seeds' programs train beside PyTorch and JAX, in one run?

    python benchmarks/training.py [--rounds 3] [--threads 2] [--only learner] [--json FILE]

As ``first_figures.py``: a process for each library, which take turns at every case; the losses of the first steps are
compared in the same run, from equal weights. A ratio is the median over rounds of (best other / weft).
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import turns
from measure import seconds_per_call


@dataclass(frozen=True)
class Case:
    """A program: the function that sets it up in ``training_<library>``, who has it, and the ratio that is asked for."""

    function: str
    libraries: tuple[str, ...]
    required: float
    module: str = "training"


CASES = {
    "learner's CNN, 100 steps of 8": Case("learner", ("weft", "torch", "jax"), 3.0),
    "Keras' CNN, a step of 128": Case("keras", ("weft", "torch", "jax"), 1.1),
    "Lorenz, a step of Adam": Case("lorenz", ("weft", "torch", "jax"), 1.1),
    "CBOW, 100 steps of 100": Case("cbow", ("weft", "torch"), 1.1, "training_text"),
    "LSTM language model, a step": Case("language", ("weft", "torch"), 1.1, "training_text"),
}
ALL = ("weft", "torch", "jax")


def worker(library: str, folder: str) -> None:
    """Measure each case named on standard input; losses go to ``folder``, seconds to standard output."""
    print(json.dumps(importlib.import_module(f"training_{library}").VERSION), flush=True)
    for line in sys.stdin:
        name = line.strip()
        case = CASES[name]
        if library not in case.libraries:
            print(json.dumps(None), flush=True)
            continue
        start = time.perf_counter()
        call, show = getattr(importlib.import_module(f"{case.module}_{library}"), case.function)()
        losses = np.asarray(show())
        first = time.perf_counter() - start
        np.save(Path(folder) / f"{library} {name}.npy", losses)
        seconds = seconds_per_call(call, batch_seconds=0.5, settle=turns.settling(library))
        print(json.dumps({"first": first, "seconds": seconds}), flush=True)


def main() -> None:
    arguments = turns.parser(__doc__, ALL).parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.folder)
        return
    names = turns.chosen(CASES, arguments.only)
    record = turns.measure_rounds(arguments, names, __file__, lambda library, name: library in CASES[name].libraries)
    _table(record, arguments.libraries, names)


def _table(record: dict, libraries: list[str], names: list[str]) -> None:
    rounds = [r["measured"] for r in record["rounds"]]
    print(f"{record['threads']} threads: median milliseconds a call; ratio = best other / weft, and what is asked for")
    print(f"{'':32}" + "".join(f"{lib:>10}" for lib in libraries) + f"{'ratio':>8}{'asked':>7}{'losses differ':>15}")
    for name in names:
        medians = [{lib: statistics.median(r[lib][name]["seconds"]) for lib in libraries if r[lib][name]} for r in rounds]
        line = f"{name:32}"
        for lib in libraries:
            line += f"{1e3 * statistics.median(t[lib] for t in medians):10.3f}" if lib in medians[0] else f"{'-':>10}"
        if len(medians[0]) > 1 and "weft" in medians[0]:
            ratio = statistics.median(min(v for lib, v in t.items() if lib != "weft") / t["weft"] for t in medians)
            differs = max(v for key, v in record["disagreement"].items() if key.endswith(name))
            line += f"{ratio:8.2f}{CASES[name].required:7.1f}{differs:15.1e}"
        print(line)


if __name__ == "__main__":
    main()

"""How fast is weft beside PyTorch and JAX, each at its best, in one run?

    python benchmarks/first_figures.py [--rounds 3] [--threads 1 2] [--only gemm cnn] [--json FILE]

Each round starts a process for each library and thread count; the processes take turns at every case, so that a slow
second of the machine meets all of them. Outputs are compared with weft's in the same run. Times are medians over all
batches; a ratio is the median over rounds of (best other / weft), each from one turn. weft's kernel cache is empty at
the start: the first round's first calls compile, later ones load.
"""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import problems
from measure import seconds_per_call
from turns import about, calibrate, chosen, disagreement, one_round, parser, settling

HERE = Path(__file__).parent
LIBRARIES = ("weft", "torch", "jax")


def cases() -> dict[str, tuple]:
    """name -> (function of the implementation, arguments)."""
    out: dict[str, tuple] = {f"gemm {m}x{k}x{n}": ("gemm", m, k, n) for m, k, n in problems.GEMM}
    for name in problems.CONV:
        out.update({f"conv {name} {part}": ("conv", name, part) for part in ("forward", "input gradient", "weight gradient")})
    out.update({f"cnn step batch {b}": ("cnn", b) for b in problems.CNN})
    out.update({f"mlp step batch {b}": ("mlp", b) for b in problems.MLP})
    out.update({"softmax 4096x1024": ("softmax",), "batch norm 4096x1024": ("batch_norm",), "call on 10 floats": ("call10",)})
    return out


def worker(library: str, folder: str) -> None:
    """Measure each case named on standard input; outputs go to ``folder``, seconds to standard output."""
    module = importlib.import_module(f"impl_{library}")
    print(json.dumps(module.VERSION), flush=True)
    known = cases()
    for line in sys.stdin:
        name = line.strip()
        function, *args = known[name]
        start = time.perf_counter()
        call, show = getattr(module, function)(*args)
        result = show()
        first = time.perf_counter() - start
        np.save(Path(folder) / f"{library} {name.replace('/', '_')}.npy", np.asarray(result))
        print(json.dumps({"first": first, "seconds": seconds_per_call(call, settle=settling(library))}), flush=True)


def import_seconds(library: str) -> float:
    code = f"import time; import numpy; t = time.perf_counter(); import {library}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    arguments = parser(__doc__, LIBRARIES, [1, 2]).parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.folder)
        return
    record: dict = {**about(), "rounds": [], "import": {}}
    names = chosen(cases(), arguments.only)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        for number in range(arguments.rounds):
            for threads in arguments.threads:
                before = calibrate()
                measured = one_round(arguments.libraries, threads, names, folder, cache, __file__)
                record["rounds"].append({"round": number, "threads": threads, "calibration": before, "measured": measured})
                print(f"round {number}, {threads} threads done", file=sys.stderr, flush=True)
        for library in arguments.libraries:
            record["import"][library] = [import_seconds(library) for _ in range(5)]
        record["disagreement"] = {
            f"{library} {name}": disagreement(folder, arguments.libraries[0], library, name)
            for library in arguments.libraries[1:] for name in names
        }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(record, indent=1))
    _table(record, arguments.libraries, arguments.threads, names)


def _table(record: dict, libraries: list[str], threads: list[int], names: list[str]) -> None:
    for count in threads:
        rounds = [r["measured"] for r in record["rounds"] if r["threads"] == count]
        print(f"\n{count} thread{'s' if count > 1 else ''}: median microseconds a call; ratio = best other / weft;"
              " weft's first call, ms: compiled, loaded")
        print(f"{'':34}" + "".join(f"{lib:>12}" for lib in libraries) + f"{'ratio':>8}  {'differs':>8}{'cold':>8}{'warm':>8}")
        for name in names:
            medians = {lib: statistics.median(s for r in rounds for s in r[lib][name]["seconds"]) for lib in libraries}
            line = f"{name:34}" + "".join(f"{1e6 * medians[lib]:12.2f}" for lib in libraries)
            others = [lib for lib in libraries if lib != "weft"]
            if "weft" in libraries and others:
                turns = [{lib: statistics.median(r[lib][name]["seconds"]) for lib in libraries} for r in rounds]
                ratio = statistics.median(min(t[lib] for lib in others) / t["weft"] for t in turns)
                differs = max(record["disagreement"].get(f"{lib} {name}", 0.0) for lib in others)
                line += f"{ratio:8.2f}  {differs:8.1e}"
            if "weft" in libraries:
                first = [1e3 * r["weft"][name]["first"] for r in rounds]
                cold, warm = (first[:1], first[1:]) if count == threads[0] else ([], first)
                line += "".join(f"{statistics.median(ms):8.0f}" if ms else f"{'':8}" for ms in (cold, warm))
            print(line)
    print("\nimport, ms above numpy:", {k: round(1e3 * statistics.median(v), 1) for k, v in record["import"].items()})


if __name__ == "__main__":
    main()

"""Code without jit, new shapes and numbers, first calls: weft beside NumPy, PyTorch and JAX, each on one thread, in one run.

    python benchmarks/eager.py [--rounds 3] [--only add LSTM] [--libraries numpy weft] [--limit 60] [--shapes 2000] [--json FILE]

Every case is one program, written for NumPy and given to each library (JAX is not jitted; ``eager_libraries.py`` holds what
differs). The libraries take turns at a case, each in a process of its own, so that nothing is warm which the row calls cold;
weft's disk cache is empty. What is told is CPU time of the whole process, so threads that compile are counted. A process that
has used more than ``--limit`` seconds is stopped: "> limit" where a row has no figure, "~" where it is made of the steps that
there were. Figures are medians over rounds, as are the ratios to NumPy. Results are compared with NumPy's (of training
steps, with PyTorch's). ``--libraries ... torch.compile`` measures that, too, where a training step's first call is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import eager_libraries
import numpy as np
import turns
from eager_cases import MEMORY, Case, Row, cases, figure, program
from measure import seconds_per_call

AGAIN = "weft, disk cache"


def clock() -> float:
    """CPU seconds of this process, and of the processes that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class OutOfTime(Exception):
    """The limit of CPU time is reached."""


def worker(library: str, folder: str) -> None:
    """One case, described on standard input: its steps' seconds to standard output, its results to ``folder``."""
    asked = json.loads(sys.stdin.readline())
    case = cases(asked["shapes"])[asked["case"]]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(os.environ["WEFT_CACHE"], "torch"))  # as empty as weft's
    start = clock()
    lib = eager_libraries.load(library.split(",")[0])
    out: dict = {"version": lib.version, "loading": clock() - start, "seconds": [], "behind": 0.0, "stopped": False}
    try:
        signal.signal(signal.SIGUSR1, _out_of_time)
        step, show = program(case)(lib)
        start = clock()
        _steps(case, step, out, turns.settling(library.split(",")[0]))
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        out["whole"] = idle() - start
        np.save(Path(folder) / f"{library} {asked['case']}.npy", np.concatenate([_flat(v) for v in show()]))
    except OutOfTime:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        out["stopped"] = True
    out.setdefault("memory", []).append(memory())
    print(json.dumps(out), flush=True)


def _steps(case: Case, step: Callable[[int], object], out: dict, settle: Callable[[], None]) -> None:
    seconds = out["seconds"]
    if case.steps is None:
        seconds += seconds_per_call(lambda: step(0), clock=clock, settle=settle)
        return
    for k in range(case.steps):
        start = clock()
        step(k)
        seconds.append(clock() - start)
        if k == 0 and case.settles:
            start = clock()
            out["behind"] = idle() - start
        if k + 1 in (case.steps // 20, case.steps // 2):
            out.setdefault("memory", []).append(memory())


def _out_of_time(number: int, frame: object) -> None:
    raise OutOfTime


def idle(patience: float = 60.0) -> float:
    """Wait until the process computes nothing any more, nor one that it started; gives the CPU time that was used by then."""
    end, calm, looking, others = time.monotonic() + patience, 0, 0.0, -1.0
    while calm < 2 and time.monotonic() < end:
        before = clock()
        time.sleep(0.05)
        used = clock() - before
        start, last, others = clock(), others, _started()  # which takes time itself
        looking += clock() - start
        calm = calm + 1 if used < 0.002 and others == last else 0
    return clock() - looking + others


def _started() -> float:
    """CPU seconds of processes that this one started and that still run."""
    found = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def memory() -> dict[str, float]:
    """Resident megabytes, and how many mappings the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"MB": pages * 4096 / 1e6, "maps": len(Path("/proc/self/maps").read_text().splitlines())}


def _flat(value: object) -> np.ndarray:
    return np.asarray(value).astype(np.float64).reshape(-1)


def measure(library: str, name: str, options: argparse.Namespace, folder: str, cache: str) -> dict:
    """What a process of its own measures."""
    process, answer = turns.start_worker(library, 1, folder, cache, __file__), None
    asked: str | None = json.dumps({"case": name, "shapes": options.shapes}) + "\n"
    try:
        while answer is None:
            try:
                answer = process.communicate(asked, timeout=0.5)[0]
            except subprocess.TimeoutExpired:
                asked = None
                if (used := _cpu_seconds(process.pid)) > options.limit:  # a timer in the process would make its clock coarse
                    process.send_signal(signal.SIGUSR1)
                if used > 3 * options.limit + 60:  # in native code that no signal ends
                    break
    finally:
        process.kill()
        process.wait()
    if not answer:
        print(f"{library}, {name}: the process ended with {process.returncode}", file=sys.stderr)
        return {"died": process.returncode, "seconds": [], "behind": 0.0, "stopped": False}
    return json.loads(answer)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_round(names: list[str], options: argparse.Namespace, folder: str) -> dict[str, dict[str, dict]]:
    """case -> library -> what was measured."""
    out: dict[str, dict[str, dict]] = {}
    for name in names:
        case, found = cases(options.shapes)[name], {}
        with tempfile.TemporaryDirectory() as cache:
            for library in options.libraries:
                if library in case.libraries or (library == "torch.compile" and "numpy" not in case.libraries):
                    found[library] = measure(library, name, options, folder, cache)
            if case.again and "weft" in found:
                found[AGAIN] = measure(AGAIN, name, options, folder, cache)
        out[name] = found
        print(f"  {name} done", file=sys.stderr, flush=True)
    return out


def disagreement(folder: str, name: str, libraries: list[str]) -> dict[str, float]:
    """library -> how far its results are from the first one's, relative to their norm; none where a limit was met."""
    files = {library: Path(folder) / f"{library} {name}.npy" for library in libraries}
    found = {library: np.load(file) for library, file in files.items() if file.exists()}
    if not found or libraries[0] not in found:
        return {}
    right = found.pop(libraries[0])
    scale = max(float(np.linalg.norm(right)), 1e-30)
    return {library: float(np.linalg.norm(result - right)) / scale for library, result in found.items()}


def main() -> None:
    parser = turns.parser(__doc__, eager_libraries.ALL, None)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a process")
    parser.add_argument("--shapes", type=int, default=2000, help="how many shapes the memory is measured over")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.folder)
        return
    names = turns.chosen(cases(options.shapes), options.only)
    record: dict = {**turns.about(), "limit": options.limit, "shapes": options.shapes, "rounds": [], "disagreement": {}}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            before = turns.calibrate()
            record["rounds"].append({"calibration": before, "measured": one_round(names, options, folder)})
            print(f"round {number} done", file=sys.stderr, flush=True)
        for name in names:
            order = sorted(record["rounds"][-1]["measured"][name], key=lambda lib: ("numpy", "torch").index(lib)
                           if lib in ("numpy", "torch") else 2)
            record["disagreement"][name] = disagreement(folder, name, order)
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=1))
    _table(record, options)


def _table(record: dict, options: argparse.Namespace) -> None:
    rounds = [r["measured"] for r in record["rounds"]]
    libraries = [*options.libraries, *([AGAIN] if any(AGAIN in found for found in rounds[0].values()) else [])]
    others = [lib for lib in options.libraries if lib != "numpy"]
    print(f"CPU time on one thread; limit {options.limit:g} s a case; times NumPy's; what the issue asks of weft; relative error")
    print(f"{'':50}" + "".join(f"{lib:>{max(12, len(lib) + 2)}}" for lib in libraries)
          + "".join(f"{lib + ' x':>{max(9, len(lib) + 3)}}" for lib in others) + f"{'asked':>8}{'differs':>9}")
    for name in rounds[0]:
        case = cases(options.shapes)[name]
        for row in case.rows:
            line = f"{row.called:50}"
            for lib in libraries:
                line += f"{_shown(row, [r[name].get(lib) for r in rounds]):>{max(12, len(lib) + 2)}}"
            line += "".join(
                f"{_ratio(row, lib, [r[name] for r in rounds]):>{max(9, len(lib) + 3)}}" for lib in others
            )
            differs = max(record["disagreement"][name].values(), default=None)
            print(line + f"{row.asked:>8}" + ("" if differs is None else f"{differs:9.0e}"))
    loading = {lib: [c[lib]["loading"] for r in rounds for c in r.values() if "loading" in c.get(lib, {})] for lib in libraries}
    print("\nloading and a first addition, CPU s:", {k: round(statistics.median(v), 2) for k, v in loading.items() if v})
    for lib, found in rounds[-1].get(MEMORY, {}).items():
        marks = ", ".join(f"{m['MB']:.0f} MB and {m['maps']} maps" for m in found.get("memory", []))
        print(f"memory, {lib}: {marks} at a 20th, half and all of {len(found['seconds'])} shapes of {options.shapes}")


def _shown(row: Row, found: list[dict | None]) -> str:
    there = [f for f in found if f is not None]
    if not there:
        return "-"
    figures = [figure(row, f) for f in there]
    seconds = [s for s, _ in figures if s is not None]
    if not seconds:
        return "died" if any("died" in f for f in there) else "> limit"
    value = statistics.median(seconds)
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if value >= s or u == "us")
    return f"{'' if all(whole for _, whole in figures) else '~'}{value / scale:.3g} {unit}"


def _ratio(row: Row, library: str, rounds: list[dict[str, dict]]) -> str:
    """Median over rounds of a library's time to NumPy's in the same round."""
    found = []
    for measured in rounds:
        pair = [figure(row, measured[lib])[0] for lib in (library, "numpy") if lib in measured]
        if len(pair) == 2 and all(pair):
            found.append(pair[0] / pair[1])
    return f"{statistics.median(found):.3g}" if found else "-"


if __name__ == "__main__":
    main()

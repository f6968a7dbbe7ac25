"""The textbook's LSTM language model trained to the end by weft and by PyTorch: perplexity and time, in one run.

    WEFT_DATA=folder python benchmarks/language_model.py [--epochs 4] [--threads 2] [--json FILE]

Reads folder/ptb. Both start from equal weights and meet equal batches; they take turns at every epoch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import first_figures as figures

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "seeds"))
from lstm_lm import BATCH, STEPS, read_texts  # noqa: E402

LIBRARIES = ["weft", "torch"]


def worker(library: str, limit: int | None) -> None:
    """One epoch for each line on standard input, or the perplexity on the test text."""
    module = importlib.import_module(f"training_text_{library}")
    print(json.dumps(module.VERSION), flush=True)
    texts, _ = read_texts(Path(os.environ["WEFT_DATA"], "ptb"))
    step, perplexity = module.language_model(texts["train"])
    count = min((len(texts["train"]) - 1) // (BATCH * STEPS), limit or sys.maxsize)
    for line in sys.stdin:
        start = time.perf_counter()
        found = perplexity(texts["test"]) if line.strip() == "test" else math.exp(sum(step() for _ in range(count)) / count)
        print(json.dumps({"perplexity": found, "seconds": time.perf_counter() - start}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, default=os.environ.get("BENCH_LIMIT"), help="steps an epoch, all by default")
    parser.add_argument("--json", default=None)
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.limit)
        return
    if arguments.limit:
        os.environ["BENCH_LIMIT"] = str(arguments.limit)  # for the workers
    names = [f"epoch {k + 1}" for k in range(arguments.epochs)] + ["test"]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=figures.HERE).stdout.strip()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        measured = figures.one_round(LIBRARIES, arguments.threads, names, folder, cache, __file__)
    record = {
        "machine": platform.platform(), "cpu": figures.cpu(), "commit": commit, "threads": arguments.threads,
        "calibration": figures.calibrate(), "measured": measured,
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(record, indent=1))
    print(f"{'':10}" + "".join(f"{lib + ' s':>12}{'perplexity':>12}" for lib in LIBRARIES))
    for name in names:
        found = [measured[lib][name] for lib in LIBRARIES]
        print(f"{name:10}" + "".join(f"{x['seconds']:12.1f}{x['perplexity']:12.2f}" for x in found))


if __name__ == "__main__":
    main()

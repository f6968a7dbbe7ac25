"""The textbook's LSTM language model trained to the end by weft and by PyTorch: perplexity and time, in one run.

    WEFT_DATA=folder python benchmarks/language_model.py [--epochs 4] [--seeds 23 24 25] [--threads 2] [--json FILE]

Reads folder/ptb. Both start from equal weights and meet equal batches; they take turns at every
epoch. A rate of 20 makes rounding grow into other weights within an epoch, so one pair of runs says little: hence seeds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import turns

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "seeds"))
from lstm_lm import BATCH, STEPS, read_texts  # noqa: E402

LIBRARIES = ["weft", "torch"]


def worker(library: str) -> None:
    """For each line "SEED epoch N" one epoch, for "SEED test" the perplexity on the test text."""
    module = importlib.import_module(f"training_text_{library}")
    print(json.dumps(module.VERSION), flush=True)
    texts, _ = read_texts(Path(os.environ["WEFT_DATA"], "ptb"))
    count = (len(texts["train"]) - 1) // (BATCH * STEPS)
    current = None
    for line in sys.stdin:
        seed, what, *_ = line.split()
        if seed != current:
            current, (step, perplexity) = seed, module.language_model(texts["train"], int(seed))
        start = time.perf_counter()
        found = perplexity(texts["test"]) if what == "test" else math.exp(sum(step() for _ in range(count)) / count)
        print(json.dumps({"perplexity": found, "seconds": time.perf_counter() - start}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[23, 24, 25], help="of the first weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=turns.check_output)
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
        return
    parts = [f"epoch {k + 1}" for k in range(arguments.epochs)] + ["test"]
    names = [f"{seed} {part}" for seed in arguments.seeds for part in parts]
    before = turns.calibrate()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        measured = turns.one_round(LIBRARIES, arguments.threads, names, folder, cache, __file__)
    record = {**turns.about(), "threads": arguments.threads, "calibration": before, "measured": measured}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(record, indent=1))
    print(f"{'':16}" + "".join(f"{lib + ' s':>12}{'perplexity':>12}" for lib in LIBRARIES))
    for name in names:
        _line(name, [measured[lib][name] for lib in LIBRARIES])
    for part in parts:
        found = [[measured[lib][f"{seed} {part}"] for seed in arguments.seeds] for lib in LIBRARIES]
        _line(f"median {part}", [{key: statistics.median(x[key] for x in one) for key in one[0]} for one in found])


def _line(name: str, found: list[dict[str, float]]) -> None:
    print(f"{name:16}" + "".join(f"{x['seconds']:12.1f}{x['perplexity']:12.2f}" for x in found))


if __name__ == "__main__":
    main()

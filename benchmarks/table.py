"""The README's table of figures, from the results that are kept in ``results``.

    python benchmarks/table.py            # prints it
    python benchmarks/table.py --write    # puts it into README.md, between the two comments

Times are medians over rounds; a ratio is the median over rounds of (best other library / weft), each from one turn.
"""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- figures: benchmarks/table.py -->", "<!-- end of figures -->"
PROGRAMS = {  # name in training.json -> what the README calls it
    "learner's CNN, 100 steps of 8": "the learner's net, 100 steps of 8 images",
    "Keras' CNN, a step of 128": "Keras' MNIST net, a step of 128 images",
    "CBOW, 100 steps of 100": "CBOW, 100 steps of 100 windows",
    "LSTM language model, a step": "LSTM language model, a step of 20 x 35 words",
    "Lorenz, a step of Adam": "neural ODE, solve, gradient and Adam",
}
KERNELS = {  # name in first_figures.json
    "mlp step batch 101": "a small dense net, a step of 101 rows",
    "gemm 1024x1024x1024": "matrix product, 1024 x 1024 x 1024",
    "conv vgg 64->128 forward": "convolution 3 x 3, 64 to 128 channels",
    "batch norm 4096x1024": "normalisation of columns, 4096 x 1024",
    "softmax 4096x1024": "softmax of rows, 4096 x 1024",
}


def row(rounds: list[dict], name: str, called: str) -> str:
    """A line of the table."""
    turns = [
        {library: statistics.median(found[name]["seconds"]) for library, found in r["measured"].items() if found[name]}
        for r in rounds
    ]
    others = [library for library in turns[0] if library != "weft"]
    times = {library: statistics.median(t[library] for t in turns) for library in turns[0]}
    ratio = statistics.median(min(t[library] for library in others) / t["weft"] for t in turns)
    cells = [_time(times[library]) if library in times else "-" for library in ("weft", "torch", "jax")]
    return f"| {called} | {' | '.join(cells)} | {ratio:.2g} |"


def _time(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2g} ms"


def trained() -> str:
    """What the language model's whole training came to."""
    measured = json.loads((HERE / "results" / "language_model.json").read_text())["measured"]
    tests = {lib: [v["perplexity"] for key, v in m.items() if key.endswith(" test")] for lib, m in measured.items()}
    minutes = {
        lib: sum(v["seconds"] for key, v in m.items() if " epoch " in key) / len(tests[lib]) / 60 for lib, m in measured.items()
    }
    found, asked = (f"{statistics.median(tests[lib]):.1f} after {minutes[lib]:.1f} minutes" for lib in ("weft", "torch"))
    text = (
        f"The language model trained to the end, {len(tests['weft'])} pairs of runs from equal first weights: test perplexity "
        f"{found}, PyTorch {asked} (medians, and a run's mean time)."
    )
    return textwrap.fill(text, 120)


def table() -> str:
    """The table in Markdown."""
    training = json.loads((HERE / "results" / "training.json").read_text())
    first = json.loads((HERE / "results" / "first_figures.json").read_text())
    two = [r for r in first["rounds"] if r["threads"] == training["threads"]]
    versions = {library: found["version"] for library, found in training["rounds"][0]["measured"].items()}
    lines = [
        f"| {training['threads']} threads, {training['cpu']} | weft | PyTorch {versions['torch']} | JAX {versions['jax']} "
        "| best other / weft |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(row(training["rounds"], name, called) for name, called in PROGRAMS.items()),
        *(row(two, name, called) for name, called in KERNELS.items()),
    ]
    return "\n".join(lines)


def write(text: str) -> str:
    """A README with the table in its place."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md must hold {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table()}\n\n{trained()}\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(write(README.read_text()))
    else:
        print(table(), trained(), sep="\n\n")

"""A character language model in 8 and 4 bits: its perplexity, its file and its tokens a second beside float32's.

    python examples/quantized_lm.py --folder docs

The model is the one of Bengio et al.: A neural probabilistic language model, JMLR 2003: the embeddings of the last characters,
concatenated, and two hidden layers. It learns the text of the Markdown files of a folder; every tenth piece of it is the test.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf

VERSIONS = (("float32", None), ("int8", None), ("int8", "int8"), ("int4", None), ("int4", "int8"), ("mxfp4", None))


def read_text(folder: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the training and the test text as integers, and the characters they stand for."""
    text = "\n".join(path.read_text() for path in sorted(Path(folder).rglob("*.md")))
    if len(text) < 10_000:
        raise SystemExit(f"{folder} has {len(text)} characters in Markdown files, the model needs 10,000 or more")
    characters = sorted(set(text))
    codes = np.searchsorted(characters, list(text)).astype(np.int32)
    pieces = np.array_split(codes, 100)
    is_test = np.arange(100) % 10 == 9
    train, test = (np.concatenate([p for p, t in zip(pieces, is_test, strict=True) if t == of_test]) for of_test in (False, True))
    return train, test, characters


def windows(text: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each run of ``context`` characters and the character after it."""
    views = np.lib.stride_tricks.sliding_window_view(text, context + 1)
    return views[:, :-1], views[:, -1]


def make_model(characters: int, context: int, width: int) -> wf.nn.Sequential:
    return wf.nn.Sequential(
        wf.nn.Embedding(characters, 32), wf.nn.Flatten(), wf.nn.Linear(32 * context, width), wf.nn.ReLU(),
        wf.nn.Linear(width, width), wf.nn.ReLU(), wf.nn.Linear(width, characters),
    )


def perplexity(model: wf.nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """Return the perplexity a character."""
    loss = wf.jit(lambda x, y: wf.losses.cross_entropy(model(x), y))
    pieces = zip(np.array_split(x, 8), np.array_split(y, 8), strict=True)
    return float(np.exp(sum(float(loss(wf.array(a), wf.array(b))) * len(a) for a, b in pieces) / len(x)))


def tokens_a_second(model: wf.nn.Module, context: int, count: int) -> float:
    """Return how many characters the model writes in a second, one after the other."""
    def step(last: Any) -> Any:
        following = model(last).argmax(axis=-1).astype("int32")
        return wf.concat([last[:, 1:], following[:, None]], axis=1)

    step, last = wf.jit(step), wf.zeros((1, context), dtype="int32")
    step(last).numpy()
    start = time.thread_time()
    for _ in range(count):
        last = step(last)
    last.numpy()
    return count / (time.thread_time() - start)


def main(argv: list[str] | None = None) -> dict[str, tuple[float, int, float]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=str(Path(__file__).parents[1] / "docs"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--context", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=300)
    arguments = parser.parse_args(argv)
    wf.set_num_threads(1)
    wf.random.seed(0)
    train, test, characters = read_text(arguments.folder)
    x, y = windows(train, arguments.context)
    model = make_model(len(characters), arguments.context, arguments.width)
    wf.train.fit(
        model, x, y, epochs=arguments.epochs, batch_size=256, loss=wf.losses.cross_entropy, optimizer=wf.optim.Adam(lr=1e-3),
        seed=0, show=False,
    )
    model.eval()
    x, y = windows(test, arguments.context)
    print(f"{len(train):,} characters to learn, {len(test):,} to test\n")
    print(f"{'weights':10}{'activations':>12}{'perplexity':>12}{'bytes':>12}{'tokens / s':>12}")
    found = {}
    for weights, activations in VERSIONS:
        form = wf.mxfp4 if weights == "mxfp4" else weights
        small = model if weights == "float32" else wf.nn.quantize_model(model, form, activations)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            small.save(path)
            size = os.path.getsize(path)
        result = perplexity(small, x, y), size, tokens_a_second(small, arguments.context, arguments.tokens)
        found[weights if activations is None else f"{weights}, {activations}"] = result
        print(f"{weights:10}{activations or 'float32':>12}{result[0]:12.3f}{result[1]:12,}{result[2]:12,.0f}", flush=True)
    return found


if __name__ == "__main__":
    main()

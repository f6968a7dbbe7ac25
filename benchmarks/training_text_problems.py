"""The text programs as problems: a corpus with the size and the word frequencies of the Penn Treebank, and first weights."""

from __future__ import annotations

import numpy as np

TOKENS, WORDS = 929_589, 10_000
CBOW = {"window": 5, "hidden": 100, "batch": 100, "negatives": 5, "steps": 100, "power": 0.75}  # Adam at its defaults
LM = {"wordvec": 100, "hidden": 100, "batch": 20, "steps": 35, "lr": 20.0, "clip": 0.25}
COMPARED = 5  # steps whose losses are compared


def corpus() -> np.ndarray:
    """Words drawn by Zipf's law."""
    share = 1.0 / np.arange(1, WORDS + 1)
    return np.random.default_rng(21).choice(WORDS, size=TOKENS, p=share / share.sum())


def cbow() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tables in and out, the positions of the batches (n, batch), and negative samples for the first steps."""
    r = np.random.default_rng(22)
    tables = [(0.01 * r.normal(size=(WORDS, CBOW["hidden"]))).astype(np.float32) for _ in range(2)]
    window, batch = CBOW["window"], CBOW["batch"]
    order = r.permutation(np.arange(window, TOKENS - window))
    negatives = r.integers(0, WORDS, (COMPARED, batch, CBOW["negatives"]))
    return tables[0], tables[1], order[: len(order) // batch * batch].reshape(-1, batch), negatives


def language(seed: int = 23) -> dict[str, np.ndarray]:
    """Weights as PyTorch lays them out."""
    r = np.random.default_rng(seed)
    d, h = LM["wordvec"], LM["hidden"]
    shapes = {
        "embed": (WORDS, d), "weight_ih": (4 * h, d), "weight_hh": (4 * h, h), "bias_ih": (4 * h,), "bias_hh": (4 * h,),
        "weight": (WORDS, h), "bias": (WORDS,),
    }
    scale = {name: 0.01 if name == "embed" else shape[-1] ** -0.5 if len(shape) > 1 else 0.0 for name, shape in shapes.items()}
    return {name: (r.normal(size=shape) * scale[name]).astype(np.float32) for name, shape in shapes.items()}

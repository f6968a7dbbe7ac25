"""Word vectors from the Penn Treebank: the textbook's CBOW with negative sampling, trained in seconds on a CPU.

    WEFT_DATA=folder python examples/seeds/cbow.py            # reads folder/ptb/ptb.train.txt, ten epochs
    python examples/seeds/cbow.py --text some.txt --epochs 3  # any text of words between blanks

The settings are the book's: window 5, 100 numbers a word, batches of 100, five negative samples, Adam. Afterwards it
prints the nearest words of "you", "year", "car" and "toyota", and four analogies, and stores the vectors in float16.

With ``config.GPU = True``, the book's line, all of it runs on the GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import weft as wf


class config:  # noqa: N801  the book's module of this name
    GPU: bool | str = False  # True: on the GPU; or the name of a device


WINDOW, HIDDEN, BATCH, EPOCHS, NEGATIVES = 5, 100, 100, 10, 5
QUERIES = ("you", "year", "car", "toyota")
ANALOGIES = (("king", "man", "queen"), ("take", "took", "go"), ("car", "cars", "child"), ("good", "better", "bad"))


def read_text(path: str | Path) -> tuple[np.ndarray, list[str]]:
    """(word numbers, words): numbers count up as words appear; the end of a line is the word <eos>."""
    number: dict[str, int] = {}
    text = Path(path).read_text(encoding="utf-8").replace("\n", " <eos> ")
    corpus = [number.setdefault(word, len(number)) for word in text.split()]
    return np.array(corpus, np.int64), list(number)


class CBOW(wf.nn.Module):
    """The mean of the context's vectors says whether a word stands in the middle or was drawn at random."""

    def __init__(self, corpus: np.ndarray, words: int, hidden: int = HIDDEN, negatives: int = NEGATIVES) -> None:
        super().__init__()
        self.negatives = negatives
        self.sampler = wf.data.UnigramSampler(np.bincount(corpus, minlength=words), power=0.75)
        self.into = wf.nn.Embedding(words, hidden, sparse=True)
        self.out = wf.nn.Embedding(words, hidden, sparse=True)
        self.into.weight = 0.01 * wf.random.randn(words, hidden)
        self.out.weight = 0.01 * wf.random.randn(words, hidden)

    def forward(self, context: wf.Array, target: wf.Array, negatives: wf.Array | None = None) -> wf.Array:
        """The loss of a batch: words around (N, 2 * window), between them (N,), negative samples (negatives, N), else drawn."""
        if negatives is None:
            negatives = self.sampler.sample((self.negatives, len(target)), without=target)
        asked = wf.concatenate([target[None], negatives])
        h = self.into(context).mean(axis=1)
        score = wf.einsum("knh,nh->kn", self.out(asked), h)
        right = wf.arange(1 + self.negatives)[:, None] == 0
        return wf.nn.softplus(wf.where(right, -score, score)).sum() / len(target)


def around(text: wf.Array, middle: wf.Array, window: int = WINDOW) -> tuple[wf.Array, wf.Array]:
    """(context, target) at positions in a text."""
    beside = wf.array([i for i in range(-window, window + 1) if i])
    return text[middle[..., None] + beside], text[middle]


def learner(model: CBOW, corpus: np.ndarray, window: int = WINDOW) -> Callable[..., wf.Array]:
    """A function that makes one step of Adam for each row of positions (batches, N), all of them in one native call.

    It gives the losses (batches,); negative samples (batches, negatives, N) may be given too.
    """
    optimizer, text = wf.optim.Adam().init(model), wf.array(corpus)

    def step(_, batch):
        loss, gradient = wf.value_and_grad(lambda model: model(*batch))(model)
        optimizer.update(model, gradient)
        return None, loss

    @wf.jit
    def learn(middle, *negatives):
        return wf.scan(step, None, (*around(text, middle, window), *negatives))[1]

    return learn


def train(
    model: CBOW, corpus: np.ndarray, epochs: int = EPOCHS, batch: int = BATCH, window: int = WINDOW, seed: int = 0,
    limit: int | None = None,
) -> list[float]:
    """The mean loss of each epoch; ``limit``: no more batches than this an epoch."""
    learn = learner(model, corpus, window)
    rng = np.random.default_rng(seed)
    middle = np.arange(window, len(corpus) - window)
    count = min(len(middle) // batch, limit or len(middle))
    if not count:
        raise ValueError(f"a text of {len(corpus)} words holds no batch of {batch} windows of {2 * window + 1}")
    losses = []
    with wf.flush_denormals():
        for epoch in range(1, epochs + 1):
            start = time.perf_counter()
            order = rng.permutation(middle)[: count * batch].reshape(count, batch)
            losses.append(float(learn(wf.array(order)).mean()))
            seconds = time.perf_counter() - start
            print(f"| epoch {epoch} | loss {losses[-1]:.2f} | {seconds:.1f} s, {1e6 * seconds / count:.0f} us a step", flush=True)
    return losses


def nearest(vector: np.ndarray, vectors: np.ndarray, without: list[int], top: int = 5) -> list[tuple[int, float]]:
    """The ``top`` rows that point most in the direction of a vector, and the products."""
    score = vectors @ vector
    return [(int(i), float(score[i])) for i in np.argsort(-score) if i not in without][:top]


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / (np.sqrt((vectors**2).sum(axis=-1, keepdims=True)) + 1e-8)


def most_similar(query: str, words: list[str], vectors: np.ndarray, top: int = 5) -> list[tuple[str, float]]:
    """The words with the largest cosine similarity to a word."""
    number, directions = words.index(query), unit(vectors)
    return [(words[i], score) for i, score in nearest(directions[number], directions, [number], top)]


def analogy(a: str, b: str, c: str, words: list[str], vectors: np.ndarray, top: int = 5) -> list[tuple[str, float]]:
    """``a`` is to ``b`` as ``c`` is to what?"""
    known = [words.index(w) for w in (a, b, c)]
    va, vb, vc = vectors[known]
    return [(words[i], score) for i, score in nearest(unit(vb - va + vc), vectors, known, top)]


def show(words: list[str], vectors: np.ndarray) -> None:
    for query in QUERIES:
        print(f"\n[query] {query}")
        if query not in words:
            print(f"{query} is not found")
            continue
        for word, score in most_similar(query, words, vectors):
            print(f" {word}: {score:.4f}")
    for a, b, c in ANALOGIES:
        print(f"\n[analogy] {a}:{b} = {c}:?")
        missing = [w for w in (a, b, c) if w not in words]
        if missing:
            print(f"{' and '.join(missing)} not found")
            continue
        for word, score in analogy(a, b, c, words, vectors):
            print(f" {word}: {score:.4f}")


def main(arguments: list[str] | None = None) -> CBOW:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", help="a text file; by default $WEFT_DATA/ptb/ptb.train.txt")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--limit", type=int, help="batches an epoch, all by default")
    parser.add_argument("--save", default="cbow.safetensors", help="where the vectors go, in float16")
    options = parser.parse_args(arguments)
    Path(options.save).parent.mkdir(parents=True, exist_ok=True)
    if options.text is None and "WEFT_DATA" not in os.environ:
        parser.error("give --text, or name the folder that holds ptb/ptb.train.txt in WEFT_DATA")
    if config.GPU:
        wf.set_device("gpu" if config.GPU is True else config.GPU)
    wf.random.seed(0)
    corpus, words = read_text(options.text or Path(os.environ["WEFT_DATA"], "ptb", "ptb.train.txt"))
    print(f"{len(corpus)} words, {len(words)} different ones")
    model = CBOW(corpus, len(words))
    train(model, corpus, options.epochs, options.batch, limit=options.limit)
    model.into.save(options.save, dtype="float16")
    vectors = wf.nn.Embedding(len(words), HIDDEN)
    vectors.load(options.save)
    show(words, vectors.weight.numpy())
    return model


if __name__ == "__main__":
    main()

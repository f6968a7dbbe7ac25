"""A language model of the Penn Treebank: the textbook's LSTM networks with truncated backpropagation through time.

    WEFT_DATA=folder python examples/seeds/lstm_lm.py             # reads folder/ptb/ptb.{train,valid,test}.txt
    python examples/seeds/lstm_lm.py --folder texts --epochs 1    # any folder with train.txt, valid.txt and test.txt
    python examples/seeds/lstm_lm.py --better                     # two layers, dropout, one matrix for words in and out

The settings of the plain network are the book's: 100 numbers a word, 100 in the LSTM, batches of 20 texts, 35 words at a
time, SGD at rate 20, gradients clipped to norm 0.25, four epochs. Each batch goes on where the last one ended: the state is
kept, gradients stop there. The better network is the book's improvement: 650 numbers, rate divided by four when the
validation perplexity gets worse, the best weights kept.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import weft as wf

BATCH, STEPS = 20, 35


def read_texts(folder: str | Path) -> tuple[dict[str, np.ndarray], list[str]]:
    """Word numbers of the three texts, counted as words appear in the first; the end of a line is the word <eos>."""
    number: dict[str, int] = {}
    texts = {}
    for part in ("train", "valid", "test"):
        path = next((p for name in (f"ptb.{part}.txt", f"{part}.txt") if (p := Path(folder, name)).exists()), None)
        if path is None:
            raise FileNotFoundError(f"{folder} has no ptb.{part}.txt and no {part}.txt")
        words = path.read_text(encoding="utf-8").replace("\n", " <eos> ").split()
        if part == "train":
            for word in words:
                number.setdefault(word, len(number))
        missing = next((w for w in words if w not in number), None)
        if missing is not None:
            raise ValueError(f"{path}: the word {missing!r} does not occur in the training text")
        texts[part] = np.array([number[w] for w in words], np.int64)
    return texts, list(number)


class Rnnlm(wf.nn.Module):
    """Words in, an LSTM, scores of the next word out."""

    def __init__(self, words: int, wordvec: int = 100, hidden: int = 100) -> None:
        super().__init__()
        self.embed = wf.nn.Embedding(words, wordvec, sparse=True)
        self.lstm = wf.nn.LSTM(wordvec, hidden, batch_first=True, stateful=True)
        self.out = wf.nn.Linear(hidden, words)
        self.embed.weight = wf.random.randn(words, wordvec) / 100
        self.lstm.weight_ih_l0 = wf.random.randn(4 * hidden, wordvec) / math.sqrt(wordvec)
        self.lstm.weight_hh_l0 = wf.random.randn(4 * hidden, hidden) / math.sqrt(hidden)
        self.lstm.bias_ih_l0 = self.lstm.bias_hh_l0 = wf.zeros(4 * hidden)
        self.out.weight = wf.random.randn(words, hidden) / math.sqrt(hidden)
        self.out.bias = wf.zeros(words)

    def forward(self, x: wf.Array) -> wf.Array:
        """(batch, steps) word numbers -> (batch, steps, words)."""
        return self.out(self.lstm(self.embed(x))[0])

    def reset_state(self) -> None:
        self.lstm.reset_state()


class BetterRnnlm(wf.nn.Module):
    """Two layers of LSTM with dropout around them; the matrix that reads words also scores them."""

    def __init__(self, words: int, size: int = 650, dropout: float = 0.5) -> None:
        super().__init__()
        self.embed = wf.nn.Embedding(words, size)
        self.lstm = wf.nn.LSTM(size, size, num_layers=2, dropout=dropout, batch_first=True, stateful=True)
        self.bias = wf.zeros(words)
        self.dropout = dropout
        self.embed.weight = wf.random.randn(words, size) / 100

    def forward(self, x: wf.Array) -> wf.Array:
        x = wf.nn.dropout(self.embed(x), self.dropout, self.training)
        y = wf.nn.dropout(self.lstm(x)[0], self.dropout, self.training)
        return wf.nn.linear(y, self.embed.weight, self.bias)

    def reset_state(self) -> None:
        self.lstm.reset_state()


def batches(corpus: np.ndarray, batch: int, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(words, next words), (batch, steps) each, without end: row i reads on from i / batch of the text, and round."""
    x, t = corpus[:-1], corpus[1:]
    if len(x) < batch * steps:
        raise ValueError(f"a text of {len(corpus)} words holds no batch of {batch} times {steps} words")
    rows = np.arange(batch)[:, None] * (len(x) // batch)
    at = 0
    while True:
        places = (rows + at + np.arange(steps)) % len(x)
        at += steps
        yield x[places], t[places]


def perplexity(model, corpus: np.ndarray, batch: int = 10, steps: int = STEPS) -> float:
    """exp of the mean loss over a text, read from the start; the state of the model is forgotten."""
    model.eval()
    model.reset_state()
    words = len(model.embed.weight)
    loss = wf.jit(lambda x, t: wf.losses.cross_entropy(model(x).reshape(-1, words), t.reshape(-1)))
    count = (len(corpus) - 1) // (batch * steps)
    found = batches(corpus, batch, steps)
    total = sum(float(loss(*map(wf.array, next(found)))) for _ in range(count))
    model.reset_state()
    model.train()
    return math.exp(total / count)


class Trainer:
    """Batches that go on from epoch to epoch, and one jitted step."""

    def __init__(self, model, corpus: np.ndarray, optimizer: wf.optim.Optimizer, batch: int = BATCH, steps: int = STEPS) -> None:
        self.model, self.optimizer = model, optimizer.init(model)
        self.found = batches(corpus, batch, steps)
        self.count = (len(corpus) - 1) // (batch * steps)
        words = len(model.embed.weight)

        @wf.jit
        def step(x, t, lr):
            loss, gradient = wf.value_and_grad(
                lambda model: wf.losses.cross_entropy(model(x).reshape(-1, words), t.reshape(-1))
            )(model)
            optimizer.update(model, gradient, lr)
            return loss

        self.step = step

    def epoch(self, number: int, lr: float, limit: int | None = None, every: int = 20) -> float:
        """One pass; prints the perplexity of every few batches, gives that of the whole."""
        start, total, recent = time.perf_counter(), 0.0, 0.0
        count = min(self.count, limit or self.count)
        for k in range(1, count + 1):
            x, t = next(self.found)
            loss = float(self.step(wf.array(x), wf.array(t), lr))
            total, recent = total + loss, recent + loss
            if k % every == 0:
                seconds = time.perf_counter() - start
                found = math.exp(recent / every)
                print(f"| epoch {number} | iter {k} / {count} | time {seconds:.0f}[s] | perplexity {found:.2f}", flush=True)
                recent = 0.0
        return math.exp(total / count)


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where the three texts are; by default $WEFT_DATA/ptb")
    parser.add_argument("--better", action="store_true", help="the two-layer network")
    parser.add_argument("--epochs", type=int, help="4, or 40 with --better")
    parser.add_argument("--limit", type=int, help="batches an epoch, all by default")
    parser.add_argument("--hidden", type=int, help="numbers a word and in the LSTM: 100, or 650 with --better")
    parser.add_argument("--save", default="rnnlm.safetensors", help="where the weights go, in float16")
    options = parser.parse_args(arguments)
    Path(options.save).parent.mkdir(parents=True, exist_ok=True)
    if options.folder is None and "WEFT_DATA" not in os.environ:
        parser.error("give --folder, or name the folder that holds ptb/ in WEFT_DATA")
    wf.random.seed(0)
    texts, words = read_texts(options.folder or Path(os.environ["WEFT_DATA"], "ptb"))
    print(f"{len(texts['train'])} words to train on, {len(words)} different ones")
    size = options.hidden or (650 if options.better else 100)
    model = BetterRnnlm(len(words), size) if options.better else Rnnlm(len(words), size, size)
    trainer = Trainer(model, texts["train"], wf.optim.SGD(20.0, clip_norm=0.25))
    lr, best = 20.0, math.inf
    with wf.flush_denormals():
        for number in range(1, (options.epochs or (40 if options.better else 4)) + 1):
            trainer.epoch(number, lr, options.limit)
            if options.better:
                found = perplexity(model, texts["valid"])
                print(f"valid perplexity: {found:.2f}")
                if found < best:
                    best = found
                    model.save(options.save, dtype="float16")
                else:
                    lr /= 4.0
        if options.better:
            model.load(options.save)
        found = perplexity(model, texts["test"])
        if not options.better:
            model.save(options.save, dtype="float16")
    print(f"test perplexity: {found:.2f}")
    return found


if __name__ == "__main__":
    main()

"""PyTorch: CBOW and the LSTM language model. Of sparse and dense updates of the tables the faster one is taken."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
import training_text_problems as P
from torch import nn

torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
torch.set_flush_denormal(True)
VERSION = torch.__version__


class CBOW(nn.Module):
    def __init__(self, corpus: torch.Tensor, into: np.ndarray, out: np.ndarray, sparse: bool) -> None:
        super().__init__()
        window = P.CBOW["window"]
        self.corpus = corpus
        self.around = torch.tensor([i for i in range(-window, window + 1) if i])
        # the mean is made while rows are read: no array of all context vectors
        self.into = nn.EmbeddingBag(*into.shape, mode="mean", sparse=sparse)
        self.out = nn.Embedding(*out.shape, sparse=sparse)
        with torch.no_grad():
            self.into.weight.copy_(torch.from_numpy(into))
            self.out.weight.copy_(torch.from_numpy(out))
        self.right = torch.zeros(P.CBOW["batch"], 1 + P.CBOW["negatives"])
        self.right[:, 0] = 1.0

    def forward(self, middle: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        middle = middle[:, None]
        h = self.into(self.corpus[middle + self.around])
        asked = self.out(torch.cat([self.corpus[middle], negatives], 1))
        score = torch.bmm(asked, h[:, :, None])[:, :, 0]
        return nn.functional.binary_cross_entropy_with_logits(score, self.right, reduction="sum") / len(middle)


def cbow() -> tuple[Callable, Callable]:
    corpus = torch.from_numpy(P.corpus())
    into, out, rows, negatives = P.cbow()
    rows, negatives = torch.from_numpy(rows), torch.from_numpy(negatives)
    share = torch.bincount(corpus, minlength=P.WORDS).double() ** P.CBOW["power"]

    def made(sparse: bool) -> Callable:
        model = CBOW(corpus, into, out, sparse)
        tables = list(model.parameters())
        optimizer = torch.optim.SparseAdam(tables) if sparse else torch.optim.Adam(tables, fused=True)

        def step(middle, given):
            optimizer.zero_grad()
            loss = model(middle, given)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def drawn(targets: torch.Tensor) -> torch.Tensor:
        """Negative samples of many steps at once, drawn again where they hit the target."""
        found = torch.multinomial(share, targets.numel() * P.CBOW["negatives"], True).reshape(*targets.shape, -1)
        while (hit := found == targets[..., None]).any():
            found[hit] = torch.multinomial(share, int(hit.sum()), True)
        return found

    def several(sparse: bool, steps: int) -> Callable:
        step, position = made(sparse), itertools.count()

        def call():
            at = [next(position) % len(rows) for _ in range(steps)]
            for r, n in zip(rows[at], drawn(corpus[rows[at]]), strict=True):
                value = step(r, n)
            return value.item()

        return call

    def show():
        step = made(True)
        return np.array([step(r, n).item() for r, n in zip(rows, negatives, strict=False)])

    sparse = min((True, False), key=lambda s: _seconds(several(s, 10)))
    return several(sparse, P.CBOW["steps"]), show


def _seconds(call: Callable) -> float:
    call()
    found = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def language_model(corpus: np.ndarray, seed: int = 23) -> tuple[Callable, Callable]:
    """(step, perplexity): one step of truncated backpropagation through time, and the model's perplexity on a text."""
    given = {name: torch.from_numpy(a) for name, a in P.language(seed).items()}
    embed, lstm = nn.Embedding(P.WORDS, P.LM["wordvec"]), nn.LSTM(P.LM["wordvec"], P.LM["hidden"], batch_first=True)
    out = nn.Linear(P.LM["hidden"], P.WORDS)
    with torch.no_grad():
        embed.weight.copy_(given["embed"])
        out.weight.copy_(given["weight"])
        out.bias.copy_(given["bias"])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(lstm, f"{name}_l0").copy_(given[name])
    parameters = [*embed.parameters(), *lstm.parameters(), *out.parameters()]
    optimizer = torch.optim.SGD(parameters, P.LM["lr"], fused=True)

    def losses(text: np.ndarray, batch: int) -> Iterator[torch.Tensor]:
        """Row i of a batch reads on from i / batch of the text; the state goes on, gradients stop."""
        x, t = torch.from_numpy(text[:-1]), torch.from_numpy(text[1:])
        first = torch.arange(batch)[:, None] * (len(x) // batch)
        state, steps = None, P.LM["steps"]
        for at in itertools.count(0, steps):
            places = (first + at + torch.arange(steps)) % len(x)
            y, state = lstm(embed(x[places]), state)
            state = tuple(s.detach() for s in state)
            yield nn.functional.cross_entropy(out(y).reshape(-1, P.WORDS), t[places].reshape(-1))

    training = losses(corpus, P.LM["batch"])

    def call() -> float:
        optimizer.zero_grad()
        loss = next(training)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, P.LM["clip"])
        optimizer.step()
        return loss.item()

    def perplexity(text: np.ndarray, batch: int = 10) -> float:
        count = (len(text) - 1) // (batch * P.LM["steps"])
        with torch.no_grad():
            total = sum(loss.item() for loss in itertools.islice(losses(text, batch), count))
        return math.exp(total / count)

    return call, perplexity


def language() -> tuple[Callable, Callable]:
    def stepper() -> Callable:
        return language_model(P.corpus())[0]

    def show():
        own = stepper()
        return np.array([own() for _ in range(P.COMPARED)])

    return stepper(), show

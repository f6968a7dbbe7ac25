"""weft: CBOW and the LSTM language model of ``examples/seeds`` with given weights."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import training_text_problems as P

import weft as wf

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "seeds"))
import cbow as seed_cbow  # noqa: E402
import lstm_lm as seed_lm  # noqa: E402

wf.set_num_threads(int(os.environ["BENCH_THREADS"]))
VERSION = wf.__version__


def cbow() -> tuple[Callable, Callable]:
    """A call is CBOW["steps"] steps, negative samples drawn."""
    corpus = P.corpus()
    into, out, rows, negatives = P.cbow()

    def made() -> Callable:
        model = seed_cbow.CBOW(corpus, P.WORDS)
        model.into.weight, model.out.weight = into, out
        return seed_cbow.learner(model, corpus)

    learn, position = made(), itertools.count()

    def call():
        at = [next(position) % len(rows) for _ in range(P.CBOW["steps"])]
        with wf.flush_denormals():
            return float(learn(wf.array(rows[at]))[-1])

    def show():
        with wf.flush_denormals():
            return made()(wf.array(rows[: len(negatives)]), wf.array(negatives.transpose(0, 2, 1))).numpy()

    return call, show


def language_model(corpus: np.ndarray, seed: int = 23) -> tuple[Callable, Callable]:
    """(step, perplexity): one step of truncated backpropagation through time, and the model's perplexity on a text."""
    model, given = seed_lm.Rnnlm(P.WORDS), P.language(seed)
    model.embed.weight, model.out.weight, model.out.bias = given["embed"], given["weight"], given["bias"]
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(model.lstm, f"{name}_l0", given[name])
    trainer = seed_lm.Trainer(model, corpus, wf.optim.SGD(P.LM["lr"], clip_norm=P.LM["clip"]))

    def call():
        x, t = next(trainer.found)
        with wf.flush_denormals():
            return float(trainer.step(wf.array(x), wf.array(t), P.LM["lr"]))

    return call, lambda text: seed_lm.perplexity(model, text)


def language() -> tuple[Callable, Callable]:
    """A call is one step of truncated backpropagation through time."""

    def stepper():
        return language_model(P.corpus())[0]

    def show():
        own = stepper()
        return np.array([own() for _ in range(P.COMPARED)])

    return stepper(), show

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

    def made():
        model = seed_cbow.CBOW(corpus, P.WORDS)
        model.into.weight, model.out.weight = into, out
        optimizer = wf.optim.Adam().init(model)

        @wf.jit
        def step(*batch):
            loss, gradient = wf.value_and_grad(lambda model: model(*batch))(model)
            optimizer.update(model, gradient)
            return loss

        return step

    step, position = made(), itertools.count()

    def call():
        with wf.flush_denormals():
            for _ in range(P.CBOW["steps"]):
                value = step(*seed_cbow.around(corpus, rows[next(position) % len(rows)]))
            return float(value)

    def show():
        own = made()
        with wf.flush_denormals():
            given = zip(rows, negatives, strict=False)
            return np.array([float(own(*seed_cbow.around(corpus, r), wf.array(n))) for r, n in given])

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

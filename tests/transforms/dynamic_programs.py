"""Random programs with loops and branches whose number of steps depends on values, for weft and for Python's control flow."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np


class Python:
    """The control flow of weft on NumPy arrays, by Python's own."""

    sin, tanh, abs, where = np.sin, np.tanh, np.abs, np.where

    @staticmethod
    def while_loop(condition: Callable, body: Callable, value: Any, max_steps: int | None = None) -> Any:
        steps = 0
        while condition(value) and (max_steps is None or steps < max_steps):
            value, steps = body(value), steps + 1
        return value

    @staticmethod
    def cond(pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
        return (true_fun if pred else false_fun)(*operands)

    @staticmethod
    def switch(index: Any, branches: list[Callable], *operands: Any) -> Any:
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    @staticmethod
    def scan(f: Callable, init: Any, xs: Any, **options: Any) -> Any:
        ys, reverse = [], options.get("reverse", False)
        for x in xs[:: -1 if reverse else 1]:
            init, y = f(init, x)
            ys.append(y)
        return init, np.stack(ys[:: -1 if reverse else 1])


def expression(rng: random.Random, depth: int, variables: str) -> str:
    """The text of a function of vectors of 3 elements; no value comes near the threshold of a condition by accident."""
    def inner() -> str:
        return expression(rng, depth - 1, variables)

    v = rng.choice(variables)
    if depth == 0:
        return rng.choice([v, f"{v} * 0.5", f"k.sin({v})", f"k.tanh({v} + 0.3)", f"({v} - 0.2 * {rng.choice(variables)})"])
    kind = rng.randrange(8)
    fresh = "abcdefgh"[len(variables)] if len(variables) < 8 else v
    if kind == 0:
        return f"({inner()} + {inner()})"
    if kind == 1:
        return f"k.cond(({inner()}).sum() > {rng.uniform(-1, 1):.3f}, lambda: {inner()}, lambda: {inner()})"
    if kind == 2:
        body = expression(rng, depth - 1, variables + fresh)
        other = expression(rng, depth - 1, variables + fresh)
        return f"k.cond({v}[0] > {rng.uniform(-1, 1):.3f}, lambda {fresh}: {body}, lambda {fresh}: {other}, {inner()})"
    if kind == 3:
        branches = ", ".join(f"lambda: {inner()}" for _ in range(rng.randrange(1, 4)))
        return f"k.switch({rng.randrange(-1, 4)} + ({v}.sum() > 0), [{branches}])"
    if kind in (4, 5):
        limit, most = rng.choice([0, 1, 2, 3, 7]), rng.choice([1, 2, 5, 20])
        body = expression(rng, depth - 1, variables + fresh)
        condition = f"(s[0] < {limit}) & (k.abs(s[1]).sum() < {rng.uniform(1, 9):.3f})"
        step = f"lambda s: (s[0] + 1, (lambda {fresh}: {body})(s[1]))"
        return f"k.while_loop(lambda s: {condition}, {step}, (0, {inner()}), max_steps={most})[1]"
    options = rng.choice(["", ", reverse=True", ", unroll=2", ", remat=True", ", remat=2, reverse=True", ", unroll=3"])
    body = expression(rng, depth - 1, variables + fresh)
    last = rng.choice(["[0]", "[1].sum(axis=0)"])
    return f"k.scan(lambda z, {fresh}: (k.tanh(z + {fresh}), {body} * z), {inner()}, rows{options}){last}"


def program(seed: int) -> Callable[[Any, Any, Any], Any]:
    rng = random.Random(seed)
    text = f"lambda k, a, rows: ({expression(rng, rng.choice([1, 2, 3]), 'a')})"
    f = eval(text)
    f.text = text
    return f

"""Kernels that fusion makes: the compiled loops against evaluate.py, for samples of every primitive and random graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both

TOLERANCE = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}
SAMPLED = sorted(name for name, p in TABLE.items() if p.samples is not None)
UNARY = ("negative", "abs", "square", "floor", "sign")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def agree(got: np.ndarray, want: np.ndarray) -> None:
    if got.dtype.name in TOLERANCE:
        bound = TOLERANCE[got.dtype.name]
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=bound, atol=bound / 20)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_of_primitives(name, rng):
    p = TABLE[name]
    samples = list(p.samples(rng))
    first = {}  # one of every kind, dtype by dtype
    for s in samples:
        first.setdefault((s.tag, *(np.asarray(a).dtype.name for a in s.arrays)), s)
    for s in itertools.islice(first.values(), 8):
        arrays = [np.asarray(a) for a in s.arrays]
        inputs = [leaf(a) for a in arrays]
        for _, got, want in run_both(inputs, arrays, [bind(p, *inputs, **s.params)]):
            for g, w in zip(got, want, strict=True):
                agree(g, w)


def random_graph(rng: np.random.Generator):
    """(inputs, arrays, outputs) of exactly rounded operations and reductions that keep their dimensions."""
    shape = tuple(int(x) for x in rng.choice([1, 2, 3, 5, 8, 17, 33, 64, 70, 200], size=rng.integers(1, 4)))
    inputs, arrays = [], []

    def source(s):
        arrays.append(rng.normal(size=s).astype(np.float32))
        inputs.append(leaf(arrays[-1]))
        return inputs[-1]

    nodes = [source(shape), source(shape)]
    for _ in range(int(rng.integers(2, 9))):
        kind = rng.integers(0, 10)
        a, b = nodes[rng.integers(len(nodes))], nodes[rng.integers(len(nodes))]
        if kind < 3:
            nodes.append(bind(TABLE[str(rng.choice(UNARY))], a))
        elif kind < 6:
            nodes.append(bind(TABLE[str(rng.choice(BINARY))], a, b))
        elif kind < 8:
            axes = tuple(sorted(rng.choice(len(shape), size=rng.integers(1, len(shape) + 1), replace=False).tolist()))
            name = str(rng.choice(["reduce_sum", "reduce_max", "reduce_min"]))
            nodes.append(bind(TABLE[name], a, axes=axes, keepdims=True))
        else:
            nodes.append(bind(TABLE["add"], a, source(tuple(1 if rng.random() < 0.4 else n for n in shape))))
    return inputs, arrays, [n for n in nodes[-2:] if n.inputs]


@pytest.mark.parametrize("part", range(6))
def test_random_graphs_have_the_evaluators_bits(part, rng):
    for _ in range(8):
        inputs, arrays, outputs = random_graph(rng)
        for _, got, want in run_both(inputs, arrays, outputs):
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w)

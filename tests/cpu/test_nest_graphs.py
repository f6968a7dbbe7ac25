"""Kernels that fusion makes: the compiled loops against evaluate.py, for samples of every primitive and random graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cross import TABLE, bind, leaf, run_both
from harness import isas

from tests.kernel.samples.table import draw_samples, has_samples
from weft.kernel.printer import print_kernel

TOLERANCE = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}
SAMPLED = sorted(name for name, p in TABLE.items() if has_samples(p) and not p.chains)  # loops hold no chain of products
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
    samples = draw_samples(p, rng)
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
    """(inputs, arrays, outputs) of exactly rounded operations: maps, joins, writes, reductions that keep their dimensions."""
    extents = [1, 2, 3, 5, 8, 17, 33, 64, 70] if rng.random() < 0.8 else [1, 5, 64, 200]
    shape = tuple(int(x) for x in rng.choice(extents, size=rng.integers(1, 4)))
    inputs, arrays = [], []

    def source(s):
        arrays.append(rng.normal(size=s).astype(np.float32))
        inputs.append(leaf(arrays[-1]))
        return inputs[-1]

    def fitting(node):
        """``node`` with the graph's shape again."""
        start = tuple(int(rng.integers(0, m - n + 1)) for m, n in zip(node.shape, shape, strict=True))
        return bind(TABLE["slice"], node, start=start, step=(1,) * len(shape), shape=shape)

    def some(n):
        """start, count and step of a part of ``n`` elements."""
        step = int(rng.integers(1, 3))
        start = int(rng.integers(0, n))
        return start, int(rng.integers(1, (n - 1 - start) // step + 2)), step

    nodes = [source(shape), source(shape)]
    flags = []
    for _ in range(int(rng.integers(2, 10))):
        kind = rng.integers(0, 14)
        a, b = nodes[rng.integers(len(nodes))], nodes[rng.integers(len(nodes))]
        axes = tuple(sorted(rng.choice(len(shape), size=rng.integers(1, len(shape) + 1), replace=False).tolist()))
        axis = int(rng.integers(len(shape)))
        if kind < 3:
            nodes.append(bind(TABLE[str(rng.choice(UNARY))], a))
        elif kind < 5:
            nodes.append(bind(TABLE[str(rng.choice(BINARY))], a, b))
        elif kind < 7:
            name = str(rng.choice(["reduce_sum", "reduce_max", "reduce_min"]))
            nodes.append(bind(TABLE["add"], bind(TABLE[name], a, axes=axes, keepdims=True), b))
        elif kind < 8:
            nodes.append(bind(TABLE["add"], a, source(tuple(1 if rng.random() < 0.4 else n for n in shape))))
        elif kind < 9:
            nodes.append(fitting(bind(TABLE["concat"], a, b, axis=axis)))
        elif kind < 10:
            low = tuple(int(x) for x in rng.integers(0, 3, size=len(shape)))
            nodes.append(fitting(bind(TABLE["pad"], a, low=low, high=low, value=0.5)))
        elif kind < 12:
            start, count, step = zip(*map(some, shape), strict=True)
            new = bind(TABLE["slice"], b, start=start, step=step, shape=count)
            nodes.append(bind(TABLE["slice_set"], a, bind(TABLE["negative"], new), start=start, step=step))
        else:
            joined = bind(TABLE["concat"], a, b, axis=axis) if kind == 12 else a
            other = bind(TABLE["concat"], b, a, axis=axis) if kind == 12 else b
            flag = bind(TABLE["greater"], joined, other)
            flags.append(bind(TABLE[str(rng.choice(["reduce_max", "reduce_min"]))], flag, axes=axes, keepdims=bool(kind % 2)))
    outputs = [n for n in (*nodes[-3:], *flags[-1:]) if n.inputs]
    return inputs, arrays, outputs


@pytest.mark.drawn(6)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("part", range(4))
def test_random_graphs_have_the_evaluators_bits(part, isa, rng):
    for _ in range(8):
        inputs, arrays, outputs = random_graph(rng)
        for kernel, got, want in run_both(inputs, arrays, outputs, isas()[isa]):
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w, err_msg=print_kernel(kernel))

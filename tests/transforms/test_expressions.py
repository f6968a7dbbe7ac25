"""Random expressions: node by node, as one lazy graph, and under jit; the same bits each time, and NumPy's values."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from making import array

from weft.transforms.jit import jit

STEPS = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / (b * b + 1), "tanh": lambda a, b: np.tanh(a), "exp": lambda a, b: np.exp(-(a * a)),
    "sum": lambda a, b: a.sum(axis=1, keepdims=True) + b, "mean": lambda a, b: a - b.mean(axis=0),
    "max": lambda a, b: a / (1 + abs(b).max()), "turned": lambda a, b: a.T[::-1].T * b, "rows": lambda a, b: a[::-1] + b[:1],
    "product": lambda a, b: a @ b.T @ b / 16, "where": lambda a, b: a * (b > 0), "number": lambda a, b: 0.5 * a - 2,
}


def evaluate(recipe, a, b, settle=lambda x: x):
    stack = [a, b]
    for name, i, j in recipe:
        stack.append(settle(STEPS[name](stack[i % len(stack)], stack[j % len(stack)])))
    return stack[-1]


def settled(x):
    x.numpy()
    return x


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    st.sampled_from([(3, 4), (1, 5), (7, 3), (16, 33)]), st.integers(0, 2**31),
)
def test_three_ways_agree(recipe, shape, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(2))
    want = evaluate(recipe, x.astype(np.float64), y.astype(np.float64))
    lazy = evaluate(recipe, array(x), array(y)).numpy()
    stepwise = evaluate(recipe, array(x), array(y), settled).numpy()
    f = jit(lambda a, b: evaluate(recipe, a, b))
    first, again = f(array(x), array(y)).numpy(), f(array(x), array(y)).numpy()
    np.testing.assert_allclose(lazy, want, rtol=2e-4, atol=2e-4)
    np.testing.assert_array_equal(lazy, stepwise)
    np.testing.assert_array_equal(lazy, first)
    np.testing.assert_array_equal(lazy, again)

"""State that is updated in place by the kernel that still reads it."""

from __future__ import annotations

import numpy as np

import weft as wf


def test_a_sum_over_all_rows_sees_the_state_before_its_update() -> None:
    """The sum needs each row's maximum, so it runs in the kernel that writes the softmax over its operand."""
    given = np.random.default_rng().normal(size=(64, 300)).astype(np.float32)
    state = {"x": wf.array(given) + 0.0}
    wf.eval(state["x"])

    @wf.jit
    def step():
        x = state["x"]
        top = x.max(axis=1, keepdims=True)
        e = wf.exp(x - top)
        total = (x * top).sum()
        x[...] = e / e.sum(axis=1, keepdims=True)
        return total

    want = given.astype(np.float64)
    for _ in range(3):
        total = float(step())
        top = want.max(axis=1, keepdims=True)
        np.testing.assert_allclose(total, (want * top).sum(), rtol=1e-4, atol=1e-2)
        want = np.exp(want - top) / np.exp(want - top).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(state["x"].numpy(), want, rtol=1e-5)

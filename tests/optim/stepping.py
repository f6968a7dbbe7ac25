"""Steps of an optimizer on random gradients, for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf

STEPS, SHAPES = 8, {"w": (4, 5), "b": (5,)}
rng = np.random.default_rng()


def arrays(dtype: str = "float32") -> dict[str, np.ndarray]:
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in SHAPES.items()}


def as_weft(content: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: wf.array(a) for name, a in content.items()}


def run(optimizer: Any, start, grads, jitted: bool, losses=None, **options) -> list[dict[str, np.ndarray]]:
    """The parameters after each step."""
    p = as_weft(start)
    optimizer.init(p)

    def step(g, loss):
        optimizer.update(p, g, loss=loss, **options)

    step = wf.jit(step) if jitted else step
    out = []
    for k, g in enumerate(grads):
        step(as_weft(g), wf.array(np.asarray(1.0 if losses is None else losses[k], start["w"].dtype)))
        out.append({name: a.numpy().copy() for name, a in p.items()})
        if not jitted:
            wf.eval(optimizer.state, optimizer.step_count, optimizer.shared)
    if jitted:
        assert step.traces == 1
    return out


def compare(found, start, grads, reference, rtol: float) -> None:
    for name in SHAPES:
        p = start[name].astype(np.float64)
        want = list(reference(p, [g[name].astype(np.float64) for g in grads]))
        assert np.abs(want[-1] - p).max() > 1e-3, "the steps are too small to tell anything"
        for k, w in enumerate(want):
            np.testing.assert_allclose(found[k][name], w, rtol=rtol, atol=rtol * np.abs(w).max(), err_msg=f"{name}, step {k + 1}")

"""The learner's pooling layer: its backward pass assigned ``grad_x[:, index] = grad``, which is quadratic and wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft as wf


class Pooling:
    """Max pooling by rows of windows, as it was written for NumPy."""

    def __init__(self, size: int) -> None:
        self.size = size

    def forward(self, x):
        b, c, h, w = self.shape = x.shape
        s = self.size
        windows = x.reshape(b, c, h // s, s, w // s, s).transpose(0, 1, 2, 4, 3, 5).reshape(-1, s * s)
        self.max_index = windows.argmax(axis=1)
        return windows.max(axis=1).reshape(b, c, h // s, w // s)

    def backward(self, grad):
        grad = grad.reshape(-1, 1)
        grad_x = wf.zeros((grad.size, self.size**2))
        grad_x[:, self.max_index] = grad
        return self.image(grad_x)

    def backward_by_row(self, grad):
        grad = grad.reshape(-1)
        grad_x = wf.zeros((grad.size, self.size**2))
        for row, index in enumerate(self.max_index.tolist()):
            grad_x[row, index] = grad[row]
        return self.image(grad_x)

    def backward_at_once(self, grad):
        grad = grad.reshape(-1)
        grad_x = wf.zeros((grad.size, self.size**2))
        grad_x[wf.arange(grad.size), self.max_index] = grad
        return self.image(grad_x)

    def image(self, rows):
        b, c, h, w = self.shape
        s = self.size
        return rows.reshape(b, c, h // s, w // s, s, s).transpose(0, 1, 2, 4, 3, 5).reshape(b, c, h, w)


def line_of(text: str) -> str:
    number = 1 + next(k for k, line in enumerate(Path(__file__).read_text().splitlines()) if line.strip() == text)
    return f"{__file__}:{number}"


def both(layer: Pooling, backward):
    return lambda x: backward(layer.forward(x))


def test_the_assignment_through_a_slice_and_an_index_vector() -> None:
    layer = Pooling(2)
    x = wf.asarray(np.random.default_rng(0).normal(size=(4, 10, 28, 28)).astype("float32"))
    found = wf.profile(both(layer, layer.backward), x, repeat=3, show=False)
    culprit = found.culprit
    assert culprit.line == line_of("grad_x[:, self.max_index] = grad") and culprit.reason == "quadratic"
    assert culprit.seconds > 0.5 * found.seconds and culprit.phase == "backward" and found.phases["forward"] > 0
    assert "61,465,600 elements" in culprit.sentence and "31,360" in culprit.sentence and "1,960 times" in culprit.sentence
    assert "Pooling.backward" in culprit.sentence and "grad_x[:, self.max_index] = grad" in culprit.sentence
    assert found.lines[0].name == culprit.line and found.kernels[0].reason == "quadratic"
    assert "wf.arange" in culprit.sentence


@pytest.mark.parametrize("jitted", [False, True])
def test_a_loop_over_rows(jitted: bool) -> None:
    layer = Pooling(2)
    x = wf.asarray(np.random.default_rng(1).normal(size=(1, 2, 16, 16)).astype("float32"))
    if jitted:
        g = layer.forward(x).copy()  # a view is read the long way at each call, which counts here
        layer.max_index = np.asarray(layer.max_index.tolist())  # inside jit the indices are Python's
        found = wf.profile(wf.jit(layer.backward_by_row), g, show=False)
    else:
        found = wf.profile(both(layer, layer.backward_by_row), x, repeat=2, show=False)
    assert found.culprit.line == line_of("grad_x[row, index] = grad[row]"), found
    assert found.culprit.reason == "quadratic" and "128 times" in found.culprit.sentence


def test_the_assignment_that_was_meant() -> None:
    layer = Pooling(2)
    x = wf.asarray(np.random.default_rng(2).normal(size=(4, 10, 28, 28)).astype("float32"))
    found = wf.profile(wf.jit(both(layer, layer.backward_at_once)), x, repeat=3, show=False)
    reasons = {k.reason for k in found.kernels}
    assert "quadratic" not in reasons and "serial scatter" in reasons
    assert (layer.backward_at_once(layer.forward(x)).numpy() != 0).sum() == 4 * 10 * 14 * 14

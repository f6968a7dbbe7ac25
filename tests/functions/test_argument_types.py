"""Bools and floats where integers belong, and integers that no machine can use, are refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft as wf

X, IMAGES = wf.ones((2, 3)), wf.ones((2, 4, 8, 8))
HUGE = 10**20
REFUSED: dict[str, Callable] = {
    "zeros: shape": lambda: wf.zeros(True),
    "full: shape": lambda: wf.full((True, 2), 1),
    "reshape: the shape": lambda: X.reshape(True, 6),
    "sum: axis": lambda: X.sum(axis=True),
    "argmax: axis": lambda: X.argmax(axis=True),
    "eye: N": lambda: wf.eye(True),
    "mean: axis": lambda: X.mean(axis=False),
    "concatenate: axis": lambda: wf.concatenate([X, X], axis=True),
    "scan: length must be an int, not 2.0": lambda: wf.scan(lambda c, x: (c, x), 0.0, None, length=2.0),
    "scan: length must be an int, not True": lambda: wf.scan(lambda c, x: (c, x), 0.0, None, length=True),
    "fori_loop: upper": lambda: wf.fori_loop(0, True, lambda i, c: c, 1.0),
    "the axis must": lambda: wf.vmap(abs, in_axes=True)(X),
    "jit: static_argnums": lambda: wf.jit(abs, static_argnums="a"),
    "argnums must be": lambda: wf.grad(abs, argnums=1.0)(X),
    "Dropout: p": lambda: wf.nn.Dropout(None),
    "flatten: start_dim": lambda: wf.nn.Flatten(None)(IMAGES),
    "lp_pool2d: norm_type": lambda: wf.nn.LPPool2d(None, 2)(IMAGES),
}
TOO_LARGE: dict[str, Callable] = {
    "avg_pool2d: stride": lambda: wf.nn.avg_pool2d(IMAGES, 2, stride=HUGE),
    "Linear: in_features": lambda: wf.nn.Linear(HUGE, 3),
    "max_pool2d: stride": lambda: wf.nn.max_pool2d(IMAGES, 2, stride=HUGE),
    "Conv2d: kernel_size": lambda: wf.nn.Conv2d(4, 2, HUGE),
    "adaptive_avg_pool2d: output_size": lambda: wf.nn.AdaptiveAvgPool2d(2**63)(IMAGES),
    "RNN: num_layers": lambda: wf.nn.RNN(8, 3, HUGE),
    "scan: an array": lambda: wf.scan(lambda c, x: (c + 1, c), 0.0, None, length=2**62),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(TypeError, match=text):
        REFUSED[text]()


@pytest.mark.parametrize("text", TOO_LARGE)
def test_what_is_too_large(text: str) -> None:
    with pytest.raises(wf.errors.ShapeError, match=text):
        TOO_LARGE[text]()

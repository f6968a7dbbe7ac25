"""Functions as attributes of classes: those that NumPy does not bind to objects, weft does not bind either."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft as wf

HOMES = [(np, wf), (np.linalg, wf.linalg), (np.fft, wf.fft), (np.random, wf.random)]
PAIRS = [
    (name, getattr(ours, name), getattr(theirs, name)) for theirs, ours in HOMES for name in sorted(ours.__all__)
    if callable(getattr(theirs, name, None)) and not isinstance(getattr(ours, name), type)
    and not isinstance(getattr(theirs, name), type)
]


def is_bound(function: Any) -> bool:
    """Whether an object's attribute is another thing than what stands in its class."""
    holder: Any = type("Holder", (), {"held": function})
    return holder().held != holder.held


def test_every_function_binds_as_numpys() -> None:
    assert len(PAIRS) > 400
    wrong = [name for name, ours, theirs in PAIRS if is_bound(ours) and not is_bound(theirs)]
    assert not wrong


def test_in_use() -> None:
    class Layer:
        act, init, draw, join, ask = wf.tanh, wf.zeros, wf.random.normal, wf.concatenate, wf.arange

    layer = Layer()
    assert layer.act(wf.zeros(2)).tolist() == [0, 0]
    assert layer.init((2, 3)).shape == (2, 3)
    assert layer.draw(size=4).shape == (4,)
    assert layer.ask(3).tolist() == [0, 1, 2]


def test_traced_once_as_an_attribute() -> None:
    class Layer:
        def __init__(self) -> None:
            self.act = wf.tanh

        def __call__(self, x: wf.Array) -> wf.Array:
            return self.act(x)

    @wf.jit
    def step(layer: Layer, x: wf.Array) -> wf.Array:
        return layer(x)

    layer = Layer()
    for held in (layer, copy.deepcopy(layer), layer):
        step(held, wf.ones(3)).numpy()
    outer = wf.jit(lambda x: layer(x))
    for _ in range(3):
        outer(wf.ones(3)).numpy()
    assert step.traces == outer.traces == 1


@pytest.mark.parametrize("function", [wf.tanh, wf.add, wf.zeros, wf.matmul, wf.random.normal, wf.erfc])
def test_still_a_function(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) == function
    assert callable(function) and function.__name__ and function.__doc__ and function == function
    assert hash(function) == hash(function) and {function: 1}[function] == 1

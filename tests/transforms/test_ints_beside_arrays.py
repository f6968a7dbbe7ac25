"""Python ints beside arrays are arguments of programs without jit too."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import weft as wf
from tests.transforms.test_traced_ints import told
from weft.graph.node import Graph, topological_order
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.runtime import execute


def key(x):
    order = topological_order((x.node,))
    return execute.key_of(Graph([n for n in order if n.value is not None], [x.node]))


@pytest.mark.usefixtures("lazy")
def test_without_jit_ints_beside_floats_are_arguments_too():
    x, n = wf.array([1.0, 2.0]), wf.array([1, 2])
    several = (3, 4, 77, -5, 65504)
    for f in (lambda x, i: (x * i - 7) / i, lambda x, i: i - x, lambda x, i: x > i, lambda x, i: x // i % i):
        assert len({key(f(x, i)) for i in several}) == 1
        assert len({key(f(x, i)) for i in (*several, -1, 0, 1, 2)}) == 5  # rules look for these
    assert len({key(x**i) for i in several}) == len({key(n // i) for i in several}) == len(several)
    assert (x * 0).node.inputs[1].op is (x**5).node.inputs[1].op is CONSTANT and (x * 5).node.inputs[1].op is SCALAR


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"])
def test_without_jit_they_are_the_same_numbers(dtype):
    x = wf.array(np.random.default_rng().normal(size=50)).astype(dtype)
    op = operator
    steps = op.add, op.sub, op.mul, op.truediv, op.floordiv, op.mod, op.lt, op.ge
    for step in steps:
        for i in (3, -7, 2, 255, 1001, 65503, 65505, 10**6):
            if i > x.node.dtype.largest:
                continue
            text = wf.jit(lambda x, step=step, i=i: (step(x, i), step(i, x)))(x)  # there they are constants
            for got, want in zip((step(x, i), step(i, x)), text, strict=True):
                assert told(got) == told(want)
    with pytest.raises(OverflowError):
        x * 10**400

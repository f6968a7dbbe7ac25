"""A convolution's bits do not rest on how its operands came to lie: moved first, or read where they are moved to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.ir import Contraction
from weft.schedule.build import build
from weft.schedule.convolution_order import has_generator_order

MOVES: dict[str, Callable[[Any], Any]] = {
    "turned": lambda x: x[..., ::-1], "transposed": lambda x: x.swapaxes(0, 1), "every second": lambda x: x[..., ::2],
    "a part": lambda x: x[:, 1:, ..., 1:-1], "padded": lambda x: wf.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 2)]),
    "joined": lambda x: wf.concat([x, x[..., :1]], axis=-1), "spread": lambda x: wf.broadcast_to(x[:, :1], x.shape),
    "narrow": lambda x: x.astype("bfloat16").astype("float32"),
    "as it is": lambda x: x, "in another shape": lambda x: (x * 2).reshape(x.shape),
}


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dims", [1, 2])
def test_operands_that_move(name: str, dims: int, rng: np.random.Generator) -> None:
    move = MOVES[name]
    convolve = getattr(wf.nn, f"conv{dims}d")
    wide, channels = int(rng.integers(4, 7)), int(rng.integers(3, 5))
    window = wide if dims == 1 else wide - 1  # so few positions are left that sums run along them
    image, weight = (rng.normal(size=(channels, channels, *(n,) * dims)).astype("f") for n in (2 * wide, 2 * window))

    def both(x: Any, w: Any) -> Any:
        x, w = move(x), move(w)
        if w.shape[-1] > x.shape[-1]:
            x, w = w, x
        if w.shape[1] != x.shape[1]:
            w = w[:, : x.shape[1]]
            x = x[:, : w.shape[1]]
        return convolve(x, w, padding=1)

    def grads(x: Any, w: Any) -> Any:
        return wf.grad(lambda a, b: (both(a, b) ** 2).sum(), argnums=(0, 1))(x, w)

    x, w = wf.array(image), wf.array(weight)
    for f in (lambda x, w: (both(x, w),), grads):
        for got, want in zip(wf.jit(f)(x, w), f(x, w), strict=True):
            assert got.numpy().tobytes() == want.numpy().tobytes()
            assert np.abs(want.numpy()).max() > 0


def conv(x: tuple[int, ...], w: tuple[int, ...], **params: Any) -> Node:
    """A convolution of empty memory."""
    given = {
        "stride": (1,), "padding": ((0, 0),), "lhs_dilation": (1,), "rhs_dilation": (1,), "dims": ((0, 1, 2),) * 3, "groups": 1,
    } | params
    return bind(TABLE["conv_general"], input_leaf(x, FLOAT32), input_leaf(w, FLOAT32), **given)


def test_whose_order_it_is(rng: np.random.Generator) -> None:
    """The same of a node as of what is made of it."""
    met = set()
    for _ in range(200):
        n, k, stride, ld, rd = (int(rng.integers(1, m)) for m in (9, 6, 4, 4, 4))
        low, high = (int(rng.integers(0, 4)) for _ in range(2))
        if (n - 1) * ld + 1 + low + high < (k - 1) * rd + 1:
            continue
        node = conv((2, 3, n), (2, 3, k), stride=(stride,), padding=((low, high),), lhs_dilation=(ld,), rhs_dilation=(rd,))
        program = build(Graph(list(node.inputs), [node]))
        found = [
            s.order for step in program.steps for phase in step.kernel.phases for s in phase.stages if isinstance(s, Contraction)
        ]
        if found:
            assert (None in found) == has_generator_order(node), (node.params, node.shape)
            met.add(has_generator_order(node))
    assert met == {True, False}

"""Random graphs: simplify keeps every bit, batching equals a loop, and both survive gradients."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import oracle
from weft.dtypes.formats import FLOAT32, FLOAT64, Format
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.graph.primitives import constant, input_leaf
from weft.graph.primitives.call import call, full
from weft.graph.simplify import simplify

F32, F64 = FLOAT32, FLOAT64
SHAPE = (3, 4)
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

UNARY = ("negative", "abs", "square", "tanh", "sin", "exp", "identity", "stop_gradient", "sign")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


@st.composite
def graphs(draw: st.DrawFn, dtype: Format = F32) -> tuple[list[Node], list[Node]]:
    """Two inputs and up to 14 nodes of shape (3, 4), many of them no-ops that simplify should see."""
    inputs = [input_leaf(SHAPE, dtype) for _ in range(2)]
    nodes = list(inputs)

    def pick() -> Node:
        return nodes[draw(st.integers(0, len(nodes) - 1))]

    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from((
            "unary", "binary", "constant", "row", "column", "transposed", "reshaped", "flipped", "halves", "cast", "where",
        )))
        x = pick()
        if kind == "unary":
            node = getattr(call, draw(st.sampled_from(UNARY)))(x)
        elif kind == "binary":
            node = getattr(call, draw(st.sampled_from(BINARY)))(x, pick())
        elif kind == "constant":
            value = constant(draw(st.sampled_from((0.0, -0.0, 1.0, -1.0, 2.0))), dtype)
            other = call.broadcast_to(value, shape=SHAPE) if draw(st.booleans()) else value
            pair = (x, other) if draw(st.booleans()) else (other, x)
            node = getattr(call, draw(st.sampled_from(BINARY)))(*pair)
        elif kind in ("row", "column"):
            axis = int(kind == "row")
            mean = call.multiply(call.reduce_sum(x, axes=(axis,), keepdims=True), constant(0.25, dtype))
            node = call.subtract(x, mean)
        elif kind == "transposed":
            node = call.permute(call.permute(x, axes=(1, 0)), axes=(1, 0))
        elif kind == "reshaped":
            node = call.reshape(call.permute(call.reshape(x, shape=(2, 6)), axes=(1, 0)), shape=SHAPE)
        elif kind == "flipped":
            node = call.slice(x, start=(2, 0), step=(-1, 1), shape=SHAPE)
        elif kind == "halves":
            parts = [call.slice(x, start=(0, k), step=(1, 2), shape=(3, 2)) for k in (0, 1)]
            node = call.concat(*parts, axis=1)
        elif kind == "cast":
            node = call.cast(call.cast(x, dtype=F64), dtype=dtype)
        else:
            node = call.where(call.less(x, pick()), x, full(1, SHAPE, dtype))
        nodes.append(node)
    return inputs, [nodes[-1], pick()]


def bits(arrays: list[np.ndarray]) -> list[bytes]:
    """NaNs alike: which one comes out is nobody's promise."""
    return [np.where(np.isnan(a), np.nan, a).tobytes() for a in arrays]


@given(graphs(), st.integers(0, 2**32 - 1))
@quick
def test_simplify_keeps_every_bit(graph: tuple[list[Node], list[Node]], seed: int) -> None:
    inputs, outputs = graph
    generator = oracle.rng(seed)
    values = [oracle.random(generator, SHAPE), np.resize(np.array([0, -0.0, np.inf, np.nan, 1.5, -2.0], np.float32), SHAPE)]
    before = Graph(inputs, outputs)
    after = simplify(before)
    assert len(after.order) <= len(before.order) + 2
    assert bits(interpret(before, values)) == bits(interpret(after, values)), f"{before}\n{after}"
    assert simplify(Graph(inputs, outputs)).key() == after.key()


@given(graphs(F64), st.integers(0, 2**32 - 1))
@quick
def test_batched_gradients_equal_a_loop(graph: tuple[list[Node], list[Node]], seed: int) -> None:
    inputs, outputs = graph
    grads = backward(outputs, [constant(1, F64)] * len(outputs), inputs)
    generator = oracle.rng(seed)
    many, shared = oracle.random(generator, (3, 2, 4), np.float64), oracle.random(generator, SHAPE, np.float64)
    leaf = input_leaf(many.shape, F64)
    results = batch([*outputs, *grads], {inputs[0]: (leaf, 1)})
    small = simplify(Graph([leaf, inputs[1]], [r for r, _ in results]))
    got = interpret(small, [many, shared])
    for i in range(2):
        expected = interpret(Graph(inputs, [*outputs, *grads]), [many[:, i], shared])
        for (_, dim), a, e in zip(results, got, expected, strict=True):
            one = a if dim is None else np.take(a, i, axis=dim)
            np.testing.assert_allclose(one, e, rtol=1e-9, atol=1e-9 * max(1.0, float(np.max(np.abs(e)))))

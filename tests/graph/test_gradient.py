"""backward and batch on graphs of several nodes."""

from __future__ import annotations

import numpy as np
import pytest

from tests import oracle
from weft.dtypes.formats import FLOAT64, INT32
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node, topological_order
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.graph.primitives.call import call

F64 = FLOAT64


def softmax(x: Node) -> Node:
    top = call.stop_gradient(call.reduce_max(x, axes=(1,), keepdims=True))
    e = call.exp(call.subtract(x, top))
    return call.divide(e, call.reduce_sum(e, axes=(1,), keepdims=True))


def mlp(x: Node, w: Node, b: Node) -> Node:
    hidden = call.tanh(call.add(call.dot_general(x, w, contract=((1,), (0,)), batch=((), ())), b))
    return call.reduce_sum(call.log(softmax(hidden)), axes=(0, 1), keepdims=False)


def test_network_against_central_differences() -> None:
    generator = oracle.rng()
    arrays = [oracle.random(generator, s, np.float64) for s in ((5, 3), (3, 4), (4,))]

    def gradients(*nodes: Node) -> list[Node]:
        out = mlp(*nodes)
        return backward([out], [oracle.number(1, out)], nodes)

    for k, got in enumerate(oracle.run(gradients, *arrays)):
        expected = oracle.central_differences(lambda *a: oracle.run(mlp, *a)[0], arrays, k)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


def test_no_path_gives_zeros_and_only_the_part_between_is_walked() -> None:
    x, y = input_leaf((3,), F64), input_leaf((2, 3), F64)
    before = call.exp(x)
    out = call.square(before)
    dx, dy = backward([out], [constant(1, F64)], [before, y])
    assert x not in topological_order([dx], stop=frozenset([before])), "what lies before wrt was entered"
    values = [np.array([1.0, 2.0, 3.0]), np.ones((2, 3))]
    got, zeros = interpret(Graph([before, y], [dx, dy]), values)
    np.testing.assert_allclose(got, [2, 4, 6])
    assert zeros.shape == (2, 3) and not zeros.any()


def test_broadcast_operands_are_summed() -> None:
    a, b = np.arange(6.0).reshape(2, 1, 3) + 1, np.arange(4.0).reshape(4, 1) + 2

    def gradients(x: Node, y: Node) -> list[Node]:
        out = call.multiply(x, y)
        return backward([out], [constant(1, F64)], [x, y])

    da, db = oracle.run(gradients, a, b)
    np.testing.assert_allclose(da, np.full(a.shape, b.sum()))
    np.testing.assert_allclose(db, np.full(b.shape, a.sum()))


def test_the_same_operand_twice_and_an_output_in_wrt() -> None:
    x = input_leaf((2,), F64)
    out = call.multiply(x, x)
    (dx,) = backward([out, x], [constant(1, F64), constant(5, F64)], [x])
    np.testing.assert_allclose(interpret(Graph([x], [dx]), [np.array([1.0, 2.0])])[0], [7, 9])


def test_deep_graphs_do_not_recurse() -> None:
    x = input_leaf((), F64)
    node = x
    for _ in range(5000):
        node = call.multiply(node, constant(1.0001, F64))
    (dx,) = backward([node], [constant(1, F64)], [x])
    np.testing.assert_allclose(interpret(Graph([x], [dx]), [2.0])[0], 1.0001**5000)


def test_integers_have_no_gradient() -> None:
    x = input_leaf((3,), INT32)
    with pytest.raises(TypeError, match=r"grad: argument 0 is int32\[3\], but must be float"):
        backward([bind(TABLE["cast"], x, dtype=F64)], [constant(1, F64)], [x])


def test_product_with_zeros_has_right_derivatives() -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]])

    def gradients(node: Node) -> list[Node]:
        out = bind(TABLE["reduce_prod"], node, axes=(1,), keepdims=False)
        return backward([out], [constant(1, F64)], [node])

    np.testing.assert_allclose(oracle.run(gradients, x)[0], [[0, 6, 0], [0, 0, 0], [12, 8, 6]])


def test_batched_gradient_is_the_gradient_of_each() -> None:
    generator = oracle.rng()
    x, w, b = (oracle.random(generator, s, np.float64) for s in ((5, 3), (3, 4), (4,)))
    nodes = oracle.leaves((x, w, b))
    out = mlp(*nodes)
    grads = backward([out], [constant(1, F64)], nodes)
    many = np.stack([x, x * 0.5, x + 0.25], axis=1)
    leaf = input_leaf(many.shape, F64)
    results = batch(grads, {nodes[0]: (leaf, 1), nodes[1]: (nodes[1], None)})
    got = interpret(Graph([leaf, *nodes[1:]], [r for r, _ in results]), [many, w, b])
    for i in range(3):
        expected = interpret(Graph(nodes, grads), [many[:, i], w, b])
        for (_, dim), g, e in zip(results, got, expected, strict=True):
            np.testing.assert_allclose(np.take(g, i, axis=dim), e, rtol=1e-10, atol=1e-12)

"""simplify: fewer nodes, the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from weft.dtypes.formats import BOOL, FLOAT16, FLOAT32, FLOAT64, FLOATS, INT32, INTEGERS, UINT64, Format, holds
from weft.dtypes.rounding import convert_array
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.graph.primitives import CONSTANT, TABLE, bind, constant, input_leaf
from weft.graph.primitives.call import call, full
from weft.graph.primitives.kinds import ALL
from weft.graph.simplify import simplify
from weft.runtime import execute

F32, F64, I32 = FLOAT32, FLOAT64, INT32
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 1e-40, 3e38, -1, 7, 0.1], np.float32).reshape(3, 4)


def one(value: float, dtype: Format = F32) -> Node:
    return constant(value, dtype)


def leaf(dtype: Format = F32) -> Node:
    return input_leaf((3, 4), dtype)


def slice_(x: Node, start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    return call.slice(x, start=start, step=step, shape=shape)


GONE = {  # each is its operand
    "x*1": lambda x: call.multiply(x, one(1)),
    "ones*x": lambda x: call.multiply(full(1, (3, 4), F32), x),
    "x/1": lambda x: call.divide(x, one(1)),
    "x-0": lambda x: call.subtract(x, one(0)),
    "x+(-0)": lambda x: call.add(x, one(-0.0)),
    "--x": lambda x: call.negative(call.negative(x)),
    "identity": lambda x: call.identity(call.stop_gradient(x)),
    "transpose twice": lambda x: call.permute(call.permute(x, axes=(1, 0)), axes=(1, 0)),
    "reshape back": lambda x: call.reshape(call.reshape(x, shape=(12,)), shape=(3, 4)),
    "cast there and back": lambda x: call.cast(call.cast(x, dtype=F64), dtype=F32),
    "whole slice": lambda x: slice_(x, (0, 0), (1, 1), (3, 4)),
    "flip twice": lambda x: slice_(slice_(x, (2, 0), (-1, 1), (3, 4)), (2, 0), (-1, 1), (3, 4)),
    "pad nothing": lambda x: call.pad(x, low=(0, 0), high=(0, 0), value=1),
    "concat of one": lambda x: call.concat(x, axis=0),
    "concat with nothing": lambda x: call.concat(x, slice_(x, (0, 0), (1, 1), (0, 4)), axis=0),
    "where same": lambda x: call.where(call.greater(x, one(0)), x, x),
    "where true": lambda x: call.where(constant(True, BOOL), x, one(0)),
    "sum over no axes": lambda x: call.reduce_sum(x, axes=(), keepdims=False),
    "broadcast to itself": lambda x: call.broadcast_to(x, shape=(3, 4)),
}

KEPT = {  # near twins that must stay: they are not the same bits
    "x+0": lambda x: call.add(x, one(0)),  # -0 + 0 is 0
    "x-(-0)": lambda x: call.subtract(x, one(-0.0)),
    "x*0": lambda x: call.multiply(x, one(0)),  # NaN, infinity, -0
    "x-x": lambda x: call.subtract(x, x),
    "x/x": lambda x: call.divide(x, x),
    "narrow and back": lambda x: call.cast(call.cast(x, dtype=FLOAT16), dtype=F32),
    "to int and back": lambda x: call.cast(call.cast(call.where(call.isfinite(x), one(2.5), x), dtype=I32), dtype=F32),
    "two transposes of another kind": lambda x: call.permute(call.reshape(x, shape=(4, 3)), axes=(1, 0)),
}


def same_bits(fn, *, array: np.ndarray = SPECIAL) -> tuple[Graph, Graph]:
    x = leaf()
    graph = Graph([x], [fn(x)])
    small = simplify(graph)
    assert small.inputs == graph.inputs
    with np.errstate(all="ignore"):
        (before,), (after,) = interpret(graph, [array]), interpret(small, [array])
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(np.signbit(before)[~np.isnan(before)], np.signbit(after)[~np.isnan(after)])
    return graph, small


@pytest.mark.parametrize("name", GONE)
def test_gone(name: str) -> None:
    _, small = same_bits(GONE[name])
    assert small.outputs[0] is small.inputs[0]


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    graph, small = same_bits(KEPT[name])
    assert small.outputs[0] is not small.inputs[0]
    assert small.outputs[0].op is graph.outputs[0].op


def test_chains_become_one_node() -> None:
    chains = [
        lambda x: call.permute(call.permute(call.reshape(x, shape=(3, 2, 2)), axes=(1, 2, 0)), axes=(1, 2, 0)),
        lambda x: slice_(slice_(x, (0, 3), (1, -1), (3, 4)), (1, 0), (1, 2), (2, 2)),
        lambda x: call.broadcast_to(call.broadcast_to(x, shape=(1, 3, 4)), shape=(2, 3, 4)),
        lambda x: call.cast(call.cast(x, dtype=F64), dtype=FLOAT16),
        lambda x: call.permute(call.reshape(x, shape=(1, 3, 4)), axes=(1, 0, 2)),
    ]
    for chain in chains:
        graph, small = same_bits(chain)
        assert len(small.order) < len(graph.order), repr(small)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [63, 64, 65, 66, 80, 81, 300])
def test_long_concatenations_are_cut_into_pieces(count: int, axis: int, rng: np.random.Generator) -> None:
    shapes = [(1 + k % 3, 4) if axis == 0 else (3, k % 4) for k in range(count)]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    leaves = [input_leaf(s, F32) for s in shapes]
    graph = Graph(leaves, [call.concat(*leaves, axis=axis)])
    small = simplify(graph)
    assert max(len(n.inputs) for n in small.order) <= 64
    (found,) = interpret(small, arrays)
    np.testing.assert_array_equal(found, np.concatenate(arrays, axis))


def test_constants_fold_and_equal_nodes_merge() -> None:
    x, y = leaf(), leaf()
    two = call.add(one(1), one(1))
    left = call.multiply(call.exp(call.add(x, y)), two)
    right = call.multiply(call.exp(call.add(x, y)), one(2))
    small = simplify(Graph([x, y], [left, right]))
    assert small.outputs[0] is small.outputs[1]
    assert [n.op.name for n in small.order] == ["input", "input", "add", "exp", "constant", "multiply"]
    inexact = simplify(Graph([], [call.exp(one(1))]))
    assert inexact.outputs[0].op is not CONSTANT, "a function with a kernel of its own must not be folded by NumPy"


def test_zeros_of_both_signs_and_nan_are_kept_apart() -> None:
    x = leaf()
    outs = [call.add(x, one(v)) for v in (0.0, -0.0)] + [call.copysign(x, one(v)) for v in (0.0, -0.0)]
    small = simplify(Graph([x], outs))
    assert len(set(small.outputs)) == 4
    nans = simplify(Graph([x], [call.copysign(x, one(np.nan)), call.copysign(x, one(np.nan))]))
    assert nans.outputs[0] is nans.outputs[1]
    assert Graph([x], outs[:1]).key() != Graph([x], outs[1:2]).key()


def test_a_graph_is_known_by_the_bits_of_its_parameters() -> None:
    def padded(value: float) -> Graph:
        x = leaf()
        return Graph([x], [call.pad(x, low=(1, 0), high=(0, 0), value=value)])

    assert padded(0.0).key() != padded(-0.0).key() != padded(0).key()
    assert padded(float("nan")).key() == padded(-float("nan") * 0).key()
    for value in (0.0, -0.0, 0.0):
        graph = padded(value)
        buffer = execute.run(graph, [execute.to_buffer(SPECIAL)])[0]
        found = execute.to_numpy(buffer, (4, 4), F32)
        assert (np.signbit(found[0]) == np.signbit(value)).all() and found[1:].tobytes() == SPECIAL.tobytes()


def test_padding_a_zero_of_the_other_sign() -> None:
    graph = Graph([], [call.pad(full(-0.0, (2, 3), F32), low=(1, 0), high=(0, 0), value=0.0)])
    found = execute.to_numpy(execute.run(graph, [])[0], (3, 3), F32)
    assert (np.signbit(found) == [[False], [True], [True]]).all()


def test_random_bits_of_one_counter_are_one_node() -> None:
    key, base = (input_leaf((), UINT64) for _ in range(2))
    bits = [bind(TABLE["random_bits"], key, base, shape=(4,)) for _ in range(2)]
    small = simplify(Graph([key, base], bits))
    assert small.outputs[0] is small.outputs[1]


def numbers(x: np.ndarray, form: Format) -> np.ndarray:
    """Numbers of Python: those of ml_dtypes' integers compare modulo their bits."""
    return convert_array(x, form.computed.numpy).astype(object) if form in INTEGERS else x.astype(object)


def test_holds_is_true_exactly_where_values_survive() -> None:
    own = [form for form in ALL if not form.custom]
    for wide, narrow in itertools.product(own, own):
        if wide.kind != "float" and narrow.kind == "float" and narrow.special == "scale":
            continue  # of which most numbers here are integers
        if narrow == BOOL:
            values = np.array([False, True])
        elif narrow in INTEGERS:
            chosen = [narrow.least, narrow.greatest, 1, max(narrow.greatest - 2, narrow.least)]
            values = np.array(chosen, narrow.computed.numpy).astype(narrow.numpy)
        else:
            import ml_dtypes

            info = ml_dtypes.finfo(narrow.numpy)
            wanted = [info.max, info.tiny, info.smallest_subnormal, 1 + float(info.eps), -1, np.inf, -0.0]
            values = convert_array(np.array(wanted, np.float64), narrow.numpy)
        with np.errstate(all="ignore"):
            values = values[values == values]  # -1 is NaN without a sign
            there = convert_array(values, wide.numpy)
            back = convert_array(there, narrow.numpy)
            exact = bool(back.tobytes() == values.tobytes() and np.all(numbers(there, wide) == numbers(values, narrow)))
        if holds(wide, narrow):
            assert exact, (wide, narrow)
        elif not (wide in FLOATS and narrow in INTEGERS) and wide is not BOOL:
            assert not exact, (wide, narrow)


def test_a_long_chain_is_linear_and_keeps_user_lines() -> None:
    x = leaf()
    node = x
    for k in range(2000):
        node = call.add(call.multiply(node, one(1)), one(k))
    small = simplify(Graph([x], [node]))
    assert len(small.order) == 1 + 2 * 2000
    assert all(n.source_line is not None for n in small.order if n.inputs)

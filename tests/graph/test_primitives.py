"""The primitive table against itself: every entry is complete, and its parts agree with each other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.kernel.samples.sample import Sample
from tests.kernel.samples.table import draw_samples, error_samples
from weft.dtypes.formats import FLOAT32, FLOAT64, FROM_NUMPY
from weft.graph.batching import batch
from weft.graph.forward import forward
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf

PRIMITIVES = [op for op in TABLE.values() if op.kind != "leaf"]
SEED = int(np.random.SeedSequence().generate_state(1)[0])  # fresh each run
everyone = pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)

TAKE_ALL = {"identity", "recompute", "stop_gradient", "after_step", "logical_not"}  # one array of any shape and format
NO_ARRAYS = {"iota", "random_bits", "complex_constant"}  # nothing of theirs could be strided or broadcast
SYMMETRIC = {"cholesky", "eigh", "eigvalsh"}  # read one triangle; their derivatives are those of symmetric matrices
MATRICES = {op.name for op in TABLE.values() if op.raises}  # other elements in other places are other matrices: maybe singular
NOT_SMOOTH = {"after_step", "bitcast", "nextafter", "round_stochastic", "round_to", "stop_gradient"}  # by agreement


def samples(op: Primitive) -> list[Sample]:
    print("seed", SEED)  # shown when a test fails
    return draw_samples(op, np.random.default_rng(SEED))


def nudged(op: Primitive, arrays: tuple[np.ndarray, ...], generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Floats in float64, moved a little, so that none are equal (there the derivative jumps)."""
    return tuple(
        fitting(op, k, a + generator.uniform(-0.01, 0.01, a.shape)) if oracle.is_float(a.dtype) else a
        for k, a in enumerate(map(oracle.widened, arrays))
    )


def fitting(op: Primitive | None, k: int, array: np.ndarray) -> np.ndarray:
    """An operand, or a direction to move it in, such as the primitive is made for."""
    return (array + np.swapaxes(array, -1, -2)) / 2 if op is not None and op.name in SYMMETRIC and k == 0 else array


@everyone
def test_entry_is_complete(op: Primitive) -> None:
    tags = {s.tag for s in samples(op)}
    wanted = {"zero", "one", "prime", "usual", "broadcast", "strided", "special"}
    if op.name in NO_ARRAYS:
        wanted -= {"broadcast", "strided", "special"}
    elif op.kind == "elementwise":
        wanted -= {"usual"}
    if op.name in ("argsort", "bitcast"):
        wanted -= {"usual"}
    assert wanted <= tags, f"{op.name} has no samples for {sorted(wanted - tags)}"
    assert error_samples(op) or op.name in TAKE_ALL, f"{op.name} has no error sample"
    assert op.reference is not None, f"{op.name} has no NumPy reference"
    assert op.vjp is not None or op.compose is not None, f"{op.name} has neither a derivative nor a stated zero"
    assert op.batch is not None, f"{op.name} has no batching rule"
    assert op.cost is not None, f"{op.name} has no cost"
    assert (op.formula is not None) == (op.kind == "elementwise"), f"{op.name}: formulas are for element-wise primitives"
    if op.kind == "shape":
        assert op.at is not None, f"{op.name} has no index rule"
        if op.name not in NO_ARRAYS:
            assert op.axis_maps is not None, f"{op.name} does not say along which dimensions it runs"


@everyone
def test_reference_matches_rule_and_cost(op: Primitive) -> None:
    assert op.cost is not None
    for sample in samples(op):
        nodes = oracle.leaves(sample.arrays)
        out = bind(op, *nodes, **sample.params)
        (result,) = interpret(Graph(nodes, [out]), sample.arrays)  # checks shape and dtype against the rule
        cost = op.cost(out)
        assert isinstance(cost.flops, int) and cost.flops >= 0
        assert cost.bytes >= result.nbytes


@everyone
def test_errors(op: Primitive) -> None:
    for sample in error_samples(op):
        with pytest.raises(sample.error, match=sample.match):
            bind(op, *(input_leaf(a.shape, FROM_NUMPY[a.dtype]) for a in sample.arrays), **sample.params)


def directional(
    graph: Graph, values: list[np.ndarray], wrt: list[int], directions: list[np.ndarray], weights: list[np.ndarray]
) -> float | None:
    """The derivative of sum(weights * outputs) along a direction, by central differences; None where it jumps."""

    def slope(step: float) -> float:
        sums = []
        for signed in (step, -step):
            moved = list(values)
            for k, d in zip(wrt, directions, strict=True):
                moved[k] = values[k] + signed * d
            sums.append(sum(float(np.sum(w * o)) for w, o in zip(weights, interpret(graph, moved), strict=True)))
        return (sums[0] - sums[1]) / (2 * step)

    wide, narrow = slope(2e-6), slope(5e-7)
    return wide if abs(wide - narrow) <= 1e-3 * max(abs(wide), abs(narrow), 1.0) else None


def check_derivative(
    outputs: list[Node], nodes: list[Node], values: list[np.ndarray], generator: np.random.Generator, op: Primitive | None = None
) -> list[Node]:
    """Compare backward with central differences along random directions; the derivative nodes come back."""
    floats = [k for k, n in enumerate(nodes) if oracle.is_float(n.dtype)]
    cotangents = [input_leaf(o.shape, o.dtype) for o in outputs]
    weights = [generator.normal(size=o.shape) for o in outputs]
    grads = backward(outputs, cotangents, [nodes[k] for k in floats])
    got = interpret(Graph([*nodes, *cotangents], grads), [*values, *weights])
    graph = Graph(nodes, outputs)
    for _ in range(2):
        for _ in range(5):
            directions = [fitting(op, k, generator.normal(size=nodes[k].shape)) for k in floats]
            expected = directional(graph, values, floats, directions, weights)
            if expected is not None:
                break
        else:
            raise AssertionError("no smooth point was found")
        actual = sum(float(np.sum(g * d)) for g, d in zip(got, directions, strict=True))
        size = sum(float(np.sum(np.abs(g * d))) for g, d in zip(got, directions, strict=True))
        assert actual == pytest.approx(expected, rel=2e-5, abs=2e-5 * max(size, 1.0)), [n.shape for n in nodes]
        tangents = pushed(outputs, nodes, values, floats, directions)
        along = sum(float(np.sum(w * t)) for w, t in zip(weights, tangents, strict=True))
        assert along == pytest.approx(actual, rel=1e-9, abs=1e-9 * max(size, 1.0)), "forward and reverse derivative differ"
    return [*cotangents, *grads]


def pushed(
    outputs: list[Node], nodes: list[Node], values: list[np.ndarray], wrt: list[int], directions: list[np.ndarray]
) -> list[np.ndarray]:
    """The derivatives of the outputs along the directions, by the forward walk; None counts as zeros."""
    slots = {nodes[k]: input_leaf(nodes[k].shape, nodes[k].dtype) for k in wrt}
    _, tangents = forward(outputs, slots)
    zeros = [np.zeros(o.shape) for o in outputs]
    given = [(k, t) for k, t in enumerate(tangents) if t is not None]
    found = interpret(Graph([*nodes, *slots.values()], [t for _, t in given]), [*values, *directions])
    for (k, _), value in zip(given, found, strict=True):
        zeros[k] = value
    return zeros


def differentiable(op: Primitive) -> list[Sample]:
    out = []
    for sample in samples(op):
        params = dict(sample.params)
        if op.name == "cast":  # rounding has no derivative: keep float64
            if not all(map(oracle.is_float, (params["dtype"], sample.arrays[0].dtype))):
                continue
            params["dtype"] = FLOAT64
        if sample.tag != "special" and any(oracle.is_float(a.dtype) for a in sample.arrays):
            out.append(Sample(sample.arrays, params, sample.tag))
    return out


@everyone
def test_first_and_second_derivative(op: Primitive) -> None:
    if op.name in NOT_SMOOTH:
        return
    generator = np.random.default_rng(SEED)
    for sample in differentiable(op):
        arrays = nudged(op, sample.arrays, generator)
        nodes = oracle.leaves(arrays)
        out = bind(op, *nodes, **sample.params)
        if not oracle.is_float(out.dtype):
            continue
        cotangent, *grads = check_derivative([out], nodes, list(arrays), generator, op)
        check_derivative(grads, [*nodes, cotangent], [*arrays, generator.normal(size=out.shape)], generator, op)


def varied(op: Primitive, array: np.ndarray, count: int) -> list[np.ndarray]:
    """``count`` examples of the same kind of content."""
    if op.name in MATRICES:
        return [array * array.dtype.type(1 + i / 8) for i in range(count)]
    if array.size == 1 and array.dtype.kind in "iu":
        return [array + array.dtype.type(i) for i in range(count)]
    if array.size == 1 and oracle.is_float(array.dtype):
        return [array * array.dtype.type(1 + i / 8) for i in range(count)]
    return [np.roll(array.reshape(-1), i).reshape(array.shape) for i in range(count)]


def check_batching(
    op: Primitive, arrays: tuple[np.ndarray, ...], params: dict[str, Any], dims: list[int | None], batch_last: bool,
    count: int = 3,
) -> None:
    examples = [varied(op, a, count) if d is not None else [a] * count for a, d in zip(arrays, dims, strict=True)]
    expected = [oracle.apply(op, Sample(tuple(e[i] for e in examples), params)) for i in range(count)]
    stacked = [np.stack(e, axis=d) if d is not None else e[0] for e, d in zip(examples, dims, strict=True)]
    nodes, leaves = oracle.leaves(arrays), oracle.leaves(stacked)
    out = bind(op, *nodes, **params)
    ((result, dim),) = batch([out], {n: (x, d) for n, x, d in zip(nodes, leaves, dims, strict=True)}, batch_last)
    assert dim is not None
    assert result.dtype == out.dtype
    (got,) = interpret(Graph(leaves, [result]), stacked)
    terms = 1 if op.exact else max(a.size for a in arrays)
    largest = max(float(np.max(np.abs(a[np.isfinite(a)]), initial=0)) for a in map(oracle.widened, stacked))
    scale = None if op.kind == "elementwise" else terms * largest**2
    message = f"{op.name} {params} {[a.shape for a in arrays]} dims {dims} batch_last {batch_last}"
    oracle.assert_close(np.moveaxis(got, dim, 0), np.stack(expected), out.dtype, terms=terms, scale=scale, message=message)


@everyone
def test_batching_against_a_loop(op: Primitive) -> None:
    for sample in samples(op):
        n = len(sample.arrays)
        if not n:
            out = bind(op, **sample.params)
            assert batch([out], {}) == [(out, None)]
        choices = [(None, 0, a.ndim) if a.ndim else (None, 0) for a in sample.arrays]
        combinations = [c for c in itertools.product(*choices) if any(d is not None for d in c)]
        # all operands in front, then each alone at the end, then a mixture
        alone = [c for c in combinations if sum(d is not None for d in c) == 1]
        for dims in {tuple(0 for _ in range(n)), *alone, *combinations[-1:]} if n else ():
            for batch_last in (False, True):
                check_batching(op, sample.arrays, sample.params, list(dims), batch_last)


def test_keepdims_is_proposed() -> None:
    x = input_leaf((4, 5), FLOAT32)
    total = bind(TABLE["reduce_sum"], x, axes=(1,), keepdims=False)
    mean = bind(TABLE["divide"], total, input_leaf((), FLOAT32))
    with pytest.raises(ValueError, match=r"x1 \(4, 5\), x2 \(4,\)\. x2 is a reduction over axis 1: write keepdims=True there"):
        bind(TABLE["subtract"], x, mean)
    with pytest.raises(ValueError, match="reshape or transpose"):
        bind(TABLE["subtract"], x, input_leaf((4,), FLOAT32))


def test_integer_powers_of_negative_exponents_are_truncated() -> None:
    base, exponent = np.array([2, 1, -1, -1, 0, -3]), np.array([-1, -5, -3, -4, -1, -1])
    assert oracle.apply(TABLE["pow"], Sample((base, exponent))).tolist() == [0, 1, -1, 1, 0, 0]


def test_philox_known_answers() -> None:
    """Random123's published vectors: counter and key zero."""
    from weft.graph.primitives.philox import word

    words = word(np.uint64(0), np.uint64(0), np.arange(4)).tolist()
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_tie_and_nan_agreements() -> None:
    x = np.array([[1.0, 3.0, 3.0], [np.nan, 2.0, np.nan]])
    reduce = {"axes": (1,), "keepdims": False}
    assert oracle.apply(TABLE["argmax"], Sample((x,), reduce)).tolist() == [1, 0]
    assert np.isnan(oracle.apply(TABLE["reduce_max"], Sample((x,), reduce))[1])

    def split(node: Node) -> Node:
        out = bind(TABLE["reduce_max"], node, **reduce)
        return backward([out], [oracle.number(1, out)], [node])[0]

    assert oracle.run(split, x[:1])[0].tolist() == [[0, 0.5, 0.5]]

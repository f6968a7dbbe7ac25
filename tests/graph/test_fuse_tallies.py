"""Order-free reductions in the kernel of the product or convolution that they read: structure, reasons and meaning."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.graph.fusing import F32, check, kernels, leaf, number, op
from tests.graph.test_fuse import conv
from tests.graph.test_fuse_reasons import product
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import BFLOAT16, BOOL, FLOAT16, FLOAT64, INT32, INT64, Format
from weft.graph.node import Graph, Node
from weft.kernel.hazards import in_place
from weft.schedule import reasons
from weft.schedule.build import build


def whole(name: str, x: Node, keepdims: bool = False) -> Node:
    return op(f"reduce_{name}", x, axes=tuple(range(len(x.shape))), keepdims=keepdims)


def count(condition: Node) -> Node:
    return whole("sum", op("cast", condition, dtype=INT64))


def test_a_layer_and_its_statistics_are_one_kernel() -> None:
    x, w, b = leaf(9, 6), leaf(6, 21), leaf(21)
    y = op("cast", op("maximum", op("add", product(x, w), b), number(0)), dtype=FLOAT16)
    largest = whole("max", op("abs", y))
    over = count(op("greater", op("abs", y), number(2, FLOAT16)))
    scale = op("divide", largest, number(240, FLOAT16))
    program = check([x, w, b], [y, largest, over, scale], count=1, tolerance=2e-2)
    assert len(kernels(program)[0].phases) == 2
    check([x, w, b], [largest, over], count=1, tolerance=2e-2)  # the product itself is not stored


def test_joined_statistics_of_a_cast_are_in_its_kernel() -> None:
    """As ``watch`` records them: in one array."""
    x = leaf(70, 33)
    y = op("cast", x, dtype=FLOAT16)
    a = op("abs", x)
    counts = [op("cast", count(c), dtype=F32) for c in (op("equal", a, number(0)), op("greater", a, number(1)))]
    numbers = [op("reshape", n, shape=(1,)) for n in (whole("max", a), *counts)]
    check([x], [y, op("concat", *numbers, axis=0)], count=1, tolerance=1e-3)


STATISTICS = {
    "absmax": lambda y, r: whole("max", op("abs", y), r.random() < 0.5), "max": lambda y, r: whole("max", y),
    "min": lambda y, r: whole("min", y, r.random() < 0.5),
    "over": lambda y, r: count(op("greater", y, number(1, y.dtype))),
    "zeros": lambda y, r: count(op("equal", y, number(0, y.dtype))),
    "any": lambda y, r: whole("max", op("greater", y, number(3, y.dtype))),
    "all": lambda y, r: whole("min", op("less", y, number(9, y.dtype))),
    "permuted": lambda y, r: whole("min", op("permute", y, axes=tuple(r.permutation(len(y.shape)).tolist()))),
}


@pytest.mark.parametrize("seed", range(30))
def test_random_statistics_are_one_kernel(seed: int) -> None:
    r = np.random.default_rng(seed)
    dtype: Format = [F32, FLOAT64, FLOAT16, BFLOAT16, INT32][seed % 5]
    m, n, k, batch = (int(r.integers(1, 7)) for _ in range(4))
    if seed % 3:
        x, w = leaf(batch, m, k, dtype=dtype), leaf(batch, k, n, dtype=dtype)
        y = op("dot_general", x, w, contract=((2,), (1,)), batch=((0,), (0,)))
    else:
        x, w = leaf(2, 3, 5, 6, dtype=dtype), leaf(4, 3, 2, 2, dtype=dtype)
        y = conv(x, w)
    read = op("maximum", y, number(-1, dtype)) if r.random() < 0.5 else y
    chosen = r.choice(list(STATISTICS), size=int(r.integers(1, 5)), replace=False)
    results = [STATISTICS[name](read, r) for name in chosen]
    if r.random() < 0.7:
        results.insert(0, read)
    values = [np.asarray(r.integers(-4, 5, v.shape), v.dtype.numpy) for v in (x, w)]  # exact in every dtype
    check([x, w], results, values, count=1, special=True)


def test_reductions_whose_order_matters_or_that_keep_axes_are_refused() -> None:
    x, w = leaf(9, 6), leaf(6, 21)
    y = product(x, w)
    rows = op("reduce_max", y, axes=(1,), keepdims=False)
    position = op("argmax", y, axes=(0, 1), keepdims=False)
    for refused in (whole("sum", y), whole("prod", y), rows, position):
        program = check([x, w], [y, refused], count=2, tolerance=2e-2, special=True)
        assert program.info[0].boundary == (f"{refused.op.name}: {reasons.PRODUCT_REDUCED}",)


def test_the_reason_is_shown_where_an_operation_moves_to_the_kernel_that_reads_it() -> None:
    x, w = leaf(9, 6), leaf(6, 21)
    y = product(x, w)
    program = check([x, w], [y, whole("sum", op("abs", y))], count=2, tolerance=2e-3)
    assert program.info[0].boundary == (f"abs: {reasons.PRODUCT_REDUCED}",)


def test_what_reads_the_product_and_a_tally_is_a_kernel_of_its_own() -> None:
    x, w = leaf(9, 6), leaf(6, 21)
    y = product(x, w)
    check([x, w], [op("divide", y, whole("max", op("abs", y)))], count=2, tolerance=2e-3)


def test_a_target_without_tallies_says_so() -> None:
    x, w = leaf(9, 6), leaf(6, 21)
    y = product(x, w)
    program = build(Graph([x, w], [y, whole("max", op("abs", y))]), GPU)
    assert len(kernels(program)) == 2
    assert program.info[0].boundary == (f"abs: {reasons.PRODUCT_TALLIED}",)


def test_an_addend_may_be_overwritten_by_the_product() -> None:
    x, w, c = leaf(9, 6), leaf(6, 21), leaf(9, 21)
    y = op("add", product(x, w), c)
    (kernel,) = kernels(build(Graph([x, w, c], [y, whole("max", op("abs", y))])))
    (third,) = [k for k, b in enumerate(kernel.inputs) if b.shape == (9, 21)]
    assert in_place(kernel) == [(third, 0)]
    turned = op("add", product(x, leaf_w := leaf(6, 9)), square := leaf(9, 9))
    other = op("abs", op("add", turned, op("permute", square, axes=(1, 0))))
    (kernel,) = kernels(build(Graph([x, leaf_w, square], [turned, whole("max", other)])))
    assert in_place(kernel) == []


def test_parts_of_a_strided_gradient_are_joined() -> None:
    def widen(x: wf.Array, w: wf.Array, stride: int) -> tuple[wf.Array, ...]:
        y = wf.nn.conv_transpose2d(x, w, stride=stride)
        return y, y.max(), y.min()

    x, w = wf.ones((2, 3, 7, 7)), wf.ones((3, 4, 2, 2))
    for stride in (2, 3):
        assert len(wf.explain(widen, x, w, stride).kernels) == 1
        y, high, low = (v.numpy() for v in wf.jit(widen)(x, w, stride))
        assert (high, low) == (y.max(), y.min())


def test_bools_are_joined_as_numbers() -> None:
    x, w = leaf(4, 6, dtype=INT32), leaf(6, 5, dtype=INT32)
    y = product(x, w)
    assert whole("max", op("greater", y, number(0, INT32))).dtype is BOOL
    check([x, w], [whole("max", op("greater", y, number(0, INT32)))], count=1)

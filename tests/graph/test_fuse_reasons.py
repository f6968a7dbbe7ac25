"""Each reason for not fusing: a graph that triggers it, and a near twin that is one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.fusing import check, kernels, leaf, mean, number, op
from tests.graph.test_fuse import conv, dense, softmax
from weft.dtypes.formats import INT32
from weft.graph.node import Node
from weft.schedule import reasons

Case = tuple[list[Node], list[Node]]


def product(x: Node, w: Node) -> Node:
    return op("dot_general", x, w, contract=((1,), (0,)), batch=((), ()))


def other_index() -> tuple[Case, Case]:
    x = leaf(4, 6)
    total = op("reduce_sum", x, axes=(1,), keepdims=True)
    flipped = op("slice", total, start=(3, 0), step=(-1, 1), shape=(4, 1))
    return ([x], [op("multiply", x, flipped)]), ([x], [op("multiply", x, total)])


def reshape() -> tuple[Case, Case]:
    x, y = leaf(4, 6), leaf(24)
    e = op("exp", x)
    merged = op("multiply", op("reshape", e, shape=(24,)), y)
    z, w = leaf(24), leaf(4, 6)
    split = op("multiply", op("reshape", op("exp", z), shape=(4, 6)), w)
    return ([x, y], [merged]), ([z, w], [split])


def two_products() -> tuple[Case, Case]:
    x, w, v = leaf(4, 6), leaf(6, 5), leaf(4, 5)
    return ([x, w, v], [op("add", product(x, w), product(product(x, w), leaf_of(v)))]), ([x, w, v], [op("add", product(x, w), v)])


def leaf_of(v: Node) -> Node:
    """(5, 5) out of (4, 5) by moving data only."""
    return op("concat", v, op("slice", v, start=(0, 0), step=(1, 1), shape=(1, 5)), axis=0)


def product_operand() -> tuple[Case, Case]:
    x, w = leaf(4, 6), leaf(6, 5)
    return ([x, w], [product(op("exp", x), w)]), ([x, w], [op("exp", product(x, w))])


def product_reduced() -> tuple[Case, Case]:
    x, w, b = leaf(4, 6), leaf(6, 5), leaf(5)
    return ([x, w], [softmax(product(x, w), 1)]), ([x, w, b], [dense(x, w, b)])


def product_domain() -> tuple[Case, Case]:
    x, w, more = leaf(4, 6), leaf(6, 5), leaf(3, 4, 5)
    first = op("reshape", op("slice", more, start=(0, 0, 0), step=(1, 1, 1), shape=(1, 4, 5)), shape=(4, 5))
    return ([x, w, more], [op("add", product(x, w), more)]), ([x, w, more], [op("add", product(x, w), first)])


def cycle() -> tuple[Case, Case]:
    x, w = leaf(4, 6), leaf(6, 6)
    e = op("exp", x)
    f = op("sin", e)
    return ([x, w], [op("multiply", f, product(e, w)), f]), ([x, w], [op("multiply", op("sin", x), product(x, w))])


def reduce_axes() -> tuple[Case, Case]:
    x = leaf(4, 6)
    first = op("subtract", x, mean(x, 1))
    return ([x], [op("subtract", first, mean(first, 0))]), ([x], [op("subtract", first, mean(first, 1))])


def too_large() -> tuple[Case, Case]:
    x = leaf(4, 6)

    def chain(n: int) -> Node:
        y = x
        for k in range(n):
            y = op("add", y, number(1.0 + k))
        return y

    return ([x], [chain(200)]), ([x], [chain(60)])


def gathered() -> tuple[Case, Case]:
    x, i = leaf(4, 6), leaf(3, dtype=INT32)
    return ([x, i], [op("gather", op("exp", x), i, axes=(0,))]), ([x, i], [op("exp", op("gather", x, i, axes=(0,)))])


def rows() -> tuple[Case, Case]:
    x, i = leaf(4, 16), leaf(3, dtype=INT32)
    at = op("add", i, number(1, INT32))
    return ([x, i], [at, op("gather", x, at, axes=(0,))]), ([x, i], [op("gather", x, at, axes=(0,))])


def windowed() -> tuple[Case, Case]:
    x = leaf(2, 8, 8)

    def pooled(y: Node, window: int) -> Node:
        return op("reduce_window", y, kind="max", window=(window,) * 2, stride=(2, 2), padding=((0, 0),) * 2)

    twice = op("multiply", x, number(2))
    return ([x], [pooled(twice, 3)]), ([x], [pooled(twice, 2)])


def recompute() -> tuple[Case, Case]:
    x, b = leaf(40, 6), leaf(6)
    return ([x, b], [op("add", x, op("exp", b))]), ([x, b], [op("add", x, op("negative", op("square", b)))])


def moved() -> tuple[Case, Case]:
    x = leaf(3, 4)

    def doubled(times: int) -> Node:
        y = x
        for _ in range(times):
            y = op("concat", op("negative", op("square", y)), y, axis=0)
        return op("square", y)

    return ([x], [doubled(6)]), ([x], [doubled(2)])


def single() -> tuple[Case, Case]:
    t, a, b = leaf(), leaf(4, 6), leaf(5, 3)
    p = op("pow", number(0.9), t)
    return ([t, a, b], [op("multiply", a, p), op("multiply", b, p)]), ([t, a, b], [op("multiply", a, p)])


def splitting() -> tuple[Case, Case]:
    g, h = leaf(2, 4, 4), leaf(2, 2, 2)

    def spread(x: Node, n: int) -> Node:
        how = {"window": (n, n), "stride": (n, n), "padding": ((0, 0), (0, 0))}
        return op("window_gather", x, size=(8, 8), **how)

    return ([g, h], [op("add", spread(g, 2), spread(h, 4))]), ([g, h], [op("add", spread(g, 2), spread(leaf_like(g), 2))])


def leaf_like(g: Node) -> Node:
    return op("slice", g, start=(1, 3, 3), step=(-1, -1, -1), shape=g.shape)


def in_place() -> tuple[Case, Case]:
    x, u, i = leaf(4, 6), leaf(3, 6), leaf(3, dtype=INT32)
    added = op("scatter", x, u, i, axes=(0,), mode="add")
    before = op("scatter", op("exp", x), op("exp", u), i, axes=(0,), mode="add")
    return ([x, u, i], [op("exp", added)]), ([x, u, i], [before])


def unpooled() -> tuple[Case, Case]:
    g = leaf(2, 4, 4)
    wide = op("exp", op("window_gather", g, size=(8, 8), window=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0))))
    return ([g], [wide, op("sin", wide)]), ([g], [op("sin", wide)])


def beside() -> tuple[Case, Case]:
    x, y, z = leaf(40, 6), leaf(40, 6), leaf(40, 6)
    rows = [op("reduce_sum", a, axes=(0,), keepdims=True) for a in (x, y)]
    together = op("add", op("reduce_sum", z, axes=(0,), keepdims=True), op("reduce_max", z, axes=(0,), keepdims=True))
    return ([x, y], [op("concat", *rows, axis=0)]), ([z], [together])


def read_first() -> tuple[Case, Case]:
    x, i, j = leaf(64), leaf(1, dtype=INT32), leaf(1, dtype=INT32)
    held, second = op("exp", op("gather", x, i, axes=(0,))), op("exp", op("gather", x, j, axes=(0,)))
    written = op("scatter", x, second, i, axes=(0,), mode="set")
    swapped = op("scatter", written, held, j, axes=(0,), mode="set")
    return ([x, i, j], [swapped]), ([x, i, j], [op("scatter", x, second, i, axes=(0,), mode="set")])


def host() -> tuple[Case, Case]:
    x = leaf(4, 6)
    return ([x], [op("argsort", op("exp", x), axis=1)]), ([x], [op("argmax", op("exp", x), axes=(1,), keepdims=False)])


def stored() -> tuple[Case, Case]:
    x, w = leaf(4, 6), leaf(4, 6)
    p = op("multiply", op("exp", x), w)
    square = op("square", p)
    first, second = (op("reduce_sum", s, axes=(axis,), keepdims=False) for s, axis in ((p, 0), (square, 1)))
    return ([x, w], [p, first, second]), ([x, w], [p, square])


def running() -> tuple[Case, Case]:
    x = leaf(4, 6)
    return ([x], [op("cumulative_sum", op("exp", x), axis=1)]), ([x], [op("reduce_sum", op("exp", x), axes=(1,), keepdims=False)])


def chained() -> tuple[Case, Case]:
    q, k, v = leaf(5, 4), leaf(7, 4), leaf(7, 3)
    how = {"scale": 0.5, "causal": True, "keep": None}
    out, lse = (op("attention", q, k, v, result=result, **how) for result in ("out", "lse"))
    return ([q, k, v], [op("exp", out)]), ([q, k, v], [out, lse])


CASES = {
    "OTHER_INDEX": other_index, "RESHAPE": reshape, "TWO_PRODUCTS": two_products, "PRODUCT_OPERAND": product_operand,
    "PRODUCT_REDUCED": product_reduced, "PRODUCT_DOMAIN": product_domain, "CYCLE": cycle, "REDUCE_AXES": reduce_axes,
    "TOO_LARGE": too_large, "GATHERED_READ": gathered, "ROWS": rows, "COSTLY_WINDOWS": windowed, "RECOMPUTE": recompute,
    "SINGLE": single,
    "TOO_MANY_POSITIONS": moved, "SPLITTING": splitting, "IN_PLACE": in_place, "HOST": host,
    "RUNNING": running, "CHEAP_FROM_STORED": stored,
    "ATTENTION_ENDS": chained, "READ_FIRST": read_first, "POOLING_GRADIENT": unpooled, "FASTER_ALONE": beside,
}
WITHOUT_A_KERNEL = {"HOST": 1}  # kernels beside the step that is none


@pytest.mark.parametrize("name", CASES)
def test_reason_and_twin(name: str) -> None:
    (inputs, outputs), (twin_inputs, twin_outputs) = CASES[name]()
    values = None if name != "SINGLE" else [np.float32(2), np.ones((4, 6), np.float32), np.ones((5, 3), np.float32)]
    program = check(inputs, outputs, values, tolerance=2e-3)
    said = {b.split(": ", 1)[1] for i in program.info for b in i.boundary}
    assert getattr(reasons, name) in said, f"{said} of {[k.name for k in kernels(program)]}"
    assert len(kernels(program)) > 1 or name in WITHOUT_A_KERNEL
    check(twin_inputs, twin_outputs, values, count=1, tolerance=2e-3)


def test_every_reason_has_a_case() -> None:
    """UNRELATED is no decision: it is what explain says where nothing was tried. LOOP: tests/transforms/test_scan.py.

    PRODUCT_TALLIED: tests/graph/test_fuse_tallies.py.
    """
    named = {k for k, v in vars(reasons).items() if k.isupper() and isinstance(v, str)}
    assert named - {"NO_COMMON_OPERATION", "LOOP", "PRODUCT_TALLIED"} == set(CASES)


def test_a_convolution_and_what_follows_it_is_explained() -> None:
    x, w = leaf(2, 3, 6, 6), leaf(4, 3, 3, 3)
    z = op("maximum", conv(x, w), number(0))
    pooled = op("reduce_window", z, kind="max", window=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)))
    program = check([x, w], [pooled], count=2)
    assert program.info[0].boundary == (f"reduce_window: {reasons.PRODUCT_REDUCED}",)
    assert program.info[0].lines and all("test_fuse" in line or "fusing" in line for line in program.info[0].lines)

"""Convolutions as products of windows: the bits of the convolution, for any parameters, and compiled as products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.graph.fusing import kernels, leaf, op
from weft.dtypes.formats import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, Format
from weft.dtypes.rounding import Accumulator
from weft.errors import ShapeError
from weft.graph import convolution_as_product
from weft.graph.decompose import decompose
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.kernel.ir import Contraction
from weft.kernel.product import match_product
from weft.kernel.target import CPU
from weft.schedule.build import build

DRAWS = 40


def drawn_params(rng: np.random.Generator, rank: int) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """Return parameters of conv_general, and shapes of its operands."""
    groups = int(rng.choice((1, 1, 2, 3)))
    dims = tuple(tuple(int(d) for d in rng.permutation(rank + 2)) for _ in range(3))
    params = dict(
        stride=tuple(int(s) for s in rng.integers(1, 4, rank)),
        lhs_dilation=tuple(int(s) for s in rng.choice((1, 1, 2, 3), rank)),
        rhs_dilation=tuple(int(s) for s in rng.integers(1, 3, rank)), groups=groups, dims=dims,
        padding=tuple((int(a), int(b)) for a, b in rng.integers(-1, 4, (rank, 2))),
    )
    x, w = [0] * (rank + 2), [0] * (rank + 2)
    channels = int(rng.integers(1, 4))
    for d, n in zip(dims[0], (rng.integers(1, 3), channels * groups, *rng.integers(1, 8, rank)), strict=True):
        x[d] = int(n)
    for d, n in zip(dims[1], (rng.integers(1, 3) * groups, channels, *rng.integers(1, 5, rank)), strict=True):
        w[d] = int(n)
    return params, tuple(x), tuple(w)


def drawn_convolution(rng: np.random.Generator, x_dtype: Format, w_dtype: Format, **settings: Any) -> tuple[Graph, Node]:
    """Return a convolution of random parameters, of operands that are cast to int32 if they are bytes."""
    while True:
        params, x_shape, w_shape = drawn_params(rng, int(rng.integers(1, 4)))
        x, w = leaf(*x_shape, dtype=x_dtype), leaf(*w_shape, dtype=w_dtype)
        a, b = (op("cast", i, dtype=INT32) if i.dtype is not FLOAT32 else i for i in (x, w))
        try:
            y = op("conv_general", a, b, **params, **settings)
        except ShapeError:
            continue
        return Graph([x, w], [y]), y


def values(rng: np.random.Generator, graph: Graph) -> list[np.ndarray]:
    return [
        rng.standard_normal(n.shape).astype(np.float32) if n.dtype is FLOAT32
        else rng.integers(-128, 128, n.shape).astype(np.int8).view(n.dtype.numpy)
        for n in graph.inputs
    ]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("form", [FLOAT16, BFLOAT16])
@pytest.mark.parametrize("every", [1, 3, 16])
def test_rounded_sums_keep_their_order(form: Format, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_as_product, "MOST_BYTES", int(np.random.default_rng().choice((1, 1000, 1 << 28))))
    for seed in np.random.default_rng().integers(10**6, size=DRAWS):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        operands = (None, BFLOAT16) if rng.random() < 0.3 else (None, None)
        graph, _ = drawn_convolution(rng, FLOAT32, FLOAT32, accumulator=Accumulator(form, every), operands=operands)
        apart = decompose(graph, CPU.chains)
        assert all(n.op.kind != "convolution" for n in apart.order) or apart is graph
        inputs = values(rng, graph)
        assert same(*(interpret(g, inputs)[0] for g in (graph, apart))), graph


@pytest.mark.parametrize("dtypes", [(UINT8, INT8), (INT8, INT8), (INT8, UINT8)])
def test_sums_of_bytes(dtypes: tuple[Format, Format]) -> None:
    for seed in np.random.default_rng().integers(10**6, size=DRAWS):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        graph, _ = drawn_convolution(rng, *dtypes)
        apart = decompose(graph, CPU.chains)
        inputs = values(rng, graph)
        assert same(*(interpret(g, inputs)[0] for g in (graph, apart))), graph
        products = [k for k in kernels(build(graph)) if any(isinstance(s, Contraction) for p in k.phases for s in p.stages)]
        assert all(match_product(k) is not None for k in products)


def test_large_windows_are_copied_in_parts() -> None:
    """The copies use the same memory, one after the other."""
    x, w = leaf(4, 8, 300, 300), leaf(4, 8, 3, 3)
    ones: dict[str, Any] = dict(stride=(1, 1), lhs_dilation=(1, 1), rhs_dilation=(1, 1), padding=((1, 1), (1, 1)), groups=1)
    y = op("conv_general", x, w, **ones, dims=((0, 1, 2, 3),) * 3, accumulator=Accumulator(FLOAT16, 32))
    one_image = 8 * 9 * 300 * 300 * 4
    assert build(Graph([x, w], [y])).arena >= 4 * one_image
    before, convolution_as_product.MOST_BYTES = convolution_as_product.MOST_BYTES, one_image
    try:
        assert build(Graph([x, w], [y])).arena < 2 * one_image
    finally:
        convolution_as_product.MOST_BYTES = before


def test_wider_integers_stay_convolutions() -> None:
    graph, y = drawn_convolution(np.random.default_rng(0), INT16, INT8)
    assert decompose(graph, CPU.chains).outputs == (y,)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_layers_of_bytes(rank: int) -> None:
    """Compiled, with bias and ReLU, beside NumPy's whole numbers."""
    for seed in np.random.default_rng().integers(10**6, size=8):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        stride, padding, groups = int(rng.integers(1, 3)), int(rng.integers(0, 3)), int(rng.choice((1, 2)))
        x = rng.integers(0, 256, (2, 2 * groups, *rng.integers(4, 12, rank))).astype(np.uint8)
        w = rng.integers(-128, 128, (3 * groups, 2, *rng.integers(1, 4, rank))).astype(np.int8)
        conv = getattr(wf.nn, f"conv{rank}d")
        options = dict(stride=stride, padding=padding, groups=groups)

        def layer(x: Any, w: Any) -> Any:
            return wf.maximum(conv(x, w, accumulate="int32", **options) + 7, 0)  # noqa: B023

        want = wf.maximum(conv(wf.array(x.astype("float64")), wf.array(w.astype("float64")), **options) + 7, 0)
        got = wf.jit(layer)(wf.array(x), wf.array(w))
        assert got.dtype == np.int32 and (got.numpy() == want.numpy()).all()

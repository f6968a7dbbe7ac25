"""Order-free reductions in the kernel of a product or convolution: the numbers that NumPy gives, in the same bits everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cross import TABLE, bind, check_in_place, kernels_of, leaf, run_both
from harness import Compiled, fresh, isas

import weft as wf
from tests.kernel.evaluate import evaluate
from weft.array import wrap
from weft.devices import get_num_threads, set_num_threads
from weft.devices.cpu.generate import generate
from weft.devices.cpu.nest.kernel import generate_loops
from weft.dtypes.formats import BOOL, INT64
from weft.graph.node import Graph, Node
from weft.graph.primitives import constant
from weft.graph.primitives.table import SCALAR
from weft.kernel.hazards import in_place

pytestmark = pytest.mark.usefixtures("lazy")

NUMPY: dict[str, Callable[[np.ndarray], Any]] = {
    "absmax": lambda y: np.abs(y).max(), "max": lambda y: y.max(), "min": lambda y: y.min(),
    "overflows": lambda y: np.isinf(y).sum(), "nans": lambda y: np.isnan(y).sum(), "zeros": lambda y: (y == 0).sum(),
    "large": lambda y: (np.abs(y) > 2).sum(), "any nan": lambda y: np.isnan(y).any(),
    "all small": lambda y: (np.abs(y) < 1e3).all(), "largest negative": lambda y: -(-np.abs(y)).max(),
}
WEFT: dict[str, Callable[[Any], Any]] = {
    "absmax": lambda y: wf.abs(y).max(), "max": lambda y: y.max(), "min": lambda y: y.min(),
    "overflows": lambda y: wf.isinf(y).sum(), "nans": lambda y: wf.isnan(y).sum(), "zeros": lambda y: (y == 0).sum(),
    "large": lambda y: (wf.abs(y) > 2).sum(), "any nan": lambda y: wf.isnan(y).any(),
    "all small": lambda y: (wf.abs(y) < 1e3).all(), "largest negative": lambda y: -(-wf.abs(y)).max(),
}


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits, or NaN at the same places."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    missing = a != a
    return bool(np.array_equal(missing, b != b)) and a[~missing].tobytes() == b[~missing].tobytes()


def operands(r: np.random.Generator, *shapes: tuple[int, ...], special: bool) -> list[np.ndarray]:
    out = [r.standard_normal(shape, np.float32) for shape in shapes]
    if special:
        for value in (np.inf, -np.inf, np.nan, 1e30):
            a = out[int(r.integers(len(out)))]
            a[tuple(int(r.integers(n)) for n in a.shape)] = value
    return out


def product(r: np.random.Generator, special: bool) -> tuple[Callable[..., Any], list[np.ndarray]]:
    sizes = (1, 2, 7, 16, 33, 100, 260)
    m, n = (int(r.choice(sizes)) for _ in range(2))
    k = int(r.choice((1, 5, 64, 300)))
    kind = r.choice(("plain", "turned", "batch", "vector", "whole"))
    if kind == "whole":
        return lambda a, b: a @ b, [r.integers(-9, 9, s).astype(np.int32) for s in ((m, k), (k, n))]
    if kind == "batch":
        return lambda a, b: a @ b, operands(r, (3, m % 50 + 1, k), (3, k, n % 50 + 1), special=special)
    if kind == "turned":
        return lambda a, b: (a @ b.T).T, operands(r, (m, k), (n, k), special=special)
    if kind == "vector":
        return lambda a, b: a @ b, operands(r, (m, k), (k,), special=special)
    return lambda a, b: a @ b, operands(r, (m, k), (k, n), special=special)


def convolution(r: np.random.Generator, special: bool) -> tuple[Callable[..., Any], list[np.ndarray]]:
    c, o, size = (int(r.integers(1, 20)) for _ in range(3))
    stride, padding, window = int(r.integers(1, 4)), int(r.integers(0, 2)), int(r.integers(1, 4))
    shape = (int(r.integers(1, 5)), c, size + 4, size + 5)
    kind = r.choice(("forward", "transposed", "weights"))
    if kind == "transposed":
        arrays = operands(r, shape, (c, o, window, window), special=special)
        return lambda x, w: wf.nn.conv_transpose2d(x, w, stride=stride), arrays
    if kind == "weights":
        arrays = operands(r, shape, (o, c, window, window), special=special)
        return lambda x, w: wf.grad(lambda w: wf.nn.conv2d(x, w, stride=stride, padding=padding).sum())(w), arrays
    arrays = operands(r, shape, (o, c, window, window), special=special)
    return lambda x, w: wf.nn.conv2d(x, w, stride=stride, padding=padding), arrays


def elementwise(r: np.random.Generator, special: bool) -> tuple[Callable[..., Any], list[np.ndarray]]:
    shape = tuple(int(r.choice((1, 2, 5, 16, 33, 64, 130))) for _ in range(int(r.integers(1, 4))))
    kind = r.choice(("flat", "turned", "channels", "rows", "strided", "long"))
    if kind == "long":
        shape = (int(r.integers(1, 120_000)),)
    if kind == "turned":
        return lambda x, z: x.T * 2 + z, operands(r, shape, shape[::-1], special=special)
    if kind == "channels":
        return lambda x, z: x * z[:, None] + 1, operands(r, (3, 20, *shape[:1]), (20,), special=special)
    if kind == "rows":
        return lambda x, z: x + z, operands(r, (*shape, 40), (40,), special=special)
    if kind == "strided":
        return lambda x, z: x[::2] - z, operands(r, (2 * shape[0] - 1, *shape[1:]), shape, special=special)
    return lambda x, z: x * z, operands(r, shape, shape, special=special)


@pytest.mark.drawn(40)
@pytest.mark.parametrize("make", [product, convolution, elementwise])
@pytest.mark.parametrize("seed", range(25))
def test_random_statistics(seed: int, make: Callable[..., Any], threads: int) -> None:
    r = np.random.default_rng((seed, make is product, make is elementwise))
    f, arrays = make(r, special=r.random() < 0.4)
    epilogue = str(r.choice(("none", "relu", "long")))
    dtype = "int32" if arrays[0].dtype == np.int32 else str(r.choice(("float32", "float16", "bfloat16", "float64")))
    names = [str(n) for n in r.choice(list(WEFT), size=int(r.integers(1, 5)), replace=False)]

    def layer(*given: Any) -> Any:
        y = f(*given)
        if epilogue == "relu":
            y = wf.maximum(y * 2 - 1, 0)
        elif epilogue == "long" and dtype != "int32":
            y = wf.tanh(y) + wf.exp(-wf.abs(y)) * 0.5
        return y.astype(dtype)

    given = [wf.array(a) for a in arrays]
    statistics = wf.jit(lambda *a: (lambda y: [y, *[WEFT[n](y) for n in names]])(layer(*a)))
    y, *got = (v.numpy() for v in statistics(*given))
    assert same_bits(y, wf.jit(layer)(*given).numpy()), f"{names}, seed {seed}"
    apart = wf.jit(lambda y: [WEFT[n](y) for n in names])(wf.array(y))
    alone = wf.jit(lambda *a: (lambda y: [WEFT[n](y) for n in names])(layer(*a)))(*given)
    with np.errstate(all="ignore"):
        for name, g, u, a in zip(names, got, apart, alone, strict=True):
            want = NUMPY[name](y)
            assert same_bits(g, u.numpy()), f"{name}: {g}, {u.numpy()} computed apart, seed {seed}"
            assert same_bits(g, a.numpy()), f"{name}: {g}, {a.numpy()} without a store of the product, seed {seed}"
            assert g == want or (g != g and want != want), f"{name}: {g}, NumPy gives {want}, seed {seed}"


def test_one_kernel_for_a_layer_with_statistics() -> None:
    x, w, b = wf.ones((64, 48)), wf.ones((48, 80)), wf.ones(80)

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = wf.maximum(x @ w + b, 0)
        stored = y.astype("float16")
        return stored, wf.abs(y).max(), (wf.abs(y) > 65504).sum(), wf.isnan(stored).sum()

    assert len(wf.explain(layer, x, w, b).kernels) == 1
    image, filters = wf.ones((2, 3, 9, 9)), wf.ones((4, 3, 3, 3))
    assert len(wf.explain(lambda x, w: (lambda y: (y, wf.abs(y).max()))(wf.nn.conv2d(x, w)), image, filters).kernels) == 1


def count_kernels(f: Callable[..., Any], *args: Any) -> int:
    return len(wf.explain(f, *args).kernels)


@pytest.mark.parametrize("form", ["float8_e4m3fn", "float16", "float32", "float6_e2m3fn"])
def test_one_kernel_for_a_cast_with_statistics(form: str) -> None:
    x, scale = wf.ones((30, 70)), wf.ones(70)

    def of_result(x: Any) -> Any:
        y = x.astype(form)
        return y, wf.abs(y).max(), (y == 0).sum(), wf.isnan(y).sum()

    def of_operand(x: Any) -> Any:
        return x.astype(form), wf.abs(x).max(), (x == 0).sum(), wf.isnan(x).any()

    def of_both(x: Any) -> Any:
        y = (x * scale).astype(form)
        return y, wf.abs(y).max(), ((y == 0) & (x != 0)).sum(), x.max(), (x < 0).sum()

    for f in (of_result, of_operand, of_both, lambda x: of_result(x)[1:], lambda x: of_operand(x)[1:]):
        assert count_kernels(f, x) == 1


def test_statistics_of_other_arrays_stay_apart() -> None:
    x, z = wf.ones((30, 70)), wf.ones((30, 70))
    assert count_kernels(lambda x, z: (x * 2, wf.abs(z).max()), x, z) == 2
    assert count_kernels(lambda x, z: (x * 2, wf.abs(x[:7]).max()), x, z) == 2
    assert count_kernels(lambda x, z: ((x * wf.abs(x).max()).astype("float16"), (x < 0).sum()), x, z) <= 2


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(10))
def test_sums_of_floats_beside_the_array_that_is_stored(seed: int, threads: int) -> None:
    r = np.random.default_rng(seed)
    shape = ((int(r.integers(1, 200_000)),), (int(r.integers(1, 300)), int(r.integers(1, 300))))[seed % 2]
    x, z = (r.standard_normal(shape, np.float32) for _ in range(2))
    form = str(r.choice(("float32", "float64", "bfloat16")))

    def sums(y: Any) -> list[Any]:
        return [y.sum(), wf.abs(y.astype("float32")).mean(), wf.abs(y).max(), (y < 0).sum(), y.argmax()]

    def together(x: Any, z: Any) -> Any:
        y = (x * z).astype(form)
        return [y, *sums(y)]

    assert count_kernels(together, wf.array(x), wf.array(z)) == 1
    y, *got = wf.jit(together)(wf.array(x), wf.array(z))
    assert same_bits(y.numpy(), wf.jit(lambda x, z: (x * z).astype(form))(wf.array(x), wf.array(z)).numpy())
    for a, b in zip(got, wf.jit(sums)(wf.array(y.numpy())), strict=True):
        assert same_bits(a.numpy(), b.numpy()), f"seed {seed}"

    def in_place(x: Any, z: Any) -> Any:
        x *= z
        return x.sum(), wf.abs(x).max()

    a = wf.array(x)
    total, largest = wf.jit(in_place)(a, wf.array(z))
    apart = wf.jit(lambda x: (x.sum(), wf.abs(x).max()))(wf.array(x * z))
    for got, want in ((a, x * z), (total, apart[0]), (largest, apart[1])):
        assert same_bits(got.numpy(), np.asarray(want))


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("seed", range(12))
def test_nests_with_statistics_at_every_level(seed: int, isa: str) -> None:
    r = np.random.default_rng(seed)
    f, arrays = elementwise(r, special=False)
    names = [str(n) for n in r.choice(list(WEFT), size=int(r.integers(1, 5)), replace=False)]
    form = str(r.choice(("float32", "bfloat16", "float8_e5m2", "float64")))
    inputs = [leaf(a) for a in arrays]
    given = [wrap(n) for n in inputs]
    y = f(*given).astype(form)
    outputs = [y, *[WEFT[n](y) for n in names], *[WEFT[n](given[0]) for n in names]]
    numbers = {n: np.asarray(n.value) for o in outputs for n in Graph([], [o.node]).order if n.op is SCALAR}
    arrays += numbers.values()
    for _, got, want in run_both([*inputs, *numbers], arrays, [o.node for o in outputs], isas()[isa]):
        for a, b in zip(got, want, strict=True):
            assert same_bits(a, b), f"{names}, {form}, seed {seed}"


def test_the_larger_of_two_zeros_is_positive(threads: int) -> None:
    a = np.zeros((300, 4), np.float32)
    a[7, 0], a[200:, 0] = 1, -1  # a product of -0.0, 0.0 and no other number
    b = np.zeros((4, 200), np.float32)
    high, low = wf.jit(lambda a, b: (lambda y: (y.max(), y.min()))((a @ b) * -1))(wf.array(a), wf.array(b))
    y = (wf.array(a) @ wf.array(b) * -1).numpy()
    assert np.signbit(high.numpy()) == np.all(np.signbit(y)) and np.signbit(low.numpy()) == np.any(np.signbit(y))


def test_an_array_is_updated_in_place_beside_its_statistics() -> None:
    r = np.random.default_rng(3)
    w, x, g = (wf.array(r.standard_normal(s, np.float32)) for s in ((90, 70), (50, 90), (50, 70)))

    @wf.jit
    def step(w: Any, x: Any, g: Any) -> Any:
        w -= 0.1 * (x.T @ g)
        return wf.abs(w).max(), (w < 0).sum()

    before = w.numpy().copy()
    for _ in range(3):
        largest, negative = step(w, x, g)
        after = w.numpy()
        assert np.abs(after).max() == largest.numpy() and (after < 0).sum() == negative.numpy()
    assert not np.array_equal(before, w.numpy())
    assert len(wf.explain(step, w, x, g).kernels) == 1


def test_an_index_out_of_range_beside_statistics_is_an_error() -> None:
    a, b, table = wf.ones((20, 30)), wf.ones((30, 40)), wf.arange(40.0)
    i = wf.array(np.array([[0, 41]] * 20).repeat(20, axis=1))
    f = wf.jit(lambda a, b, table, i: (lambda y: (y, y.max()))(a @ b + table[i]))
    with pytest.raises(IndexError):
        f(a, b, table, i)[1].numpy()
    y, high = f(a, b, table, wf.minimum(i, 39))
    assert high.numpy() == y.numpy().max() == 69


def op(name: str, *nodes: Node, **params: Any) -> Node:
    return bind(TABLE[name], *nodes, **params)


@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize("seed", range(8))
def test_templates_and_loop_nests_on_older_processors_too(seed: int, name: str) -> None:
    r = np.random.default_rng(seed)
    dtype = (np.float32, np.float64)[seed // 4 % 2]
    m, n, k = (int(r.choice((1, 3, 8, 17, 40))) for _ in range(3))
    if seed % 4:
        arrays = [r.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n))]
        a, b, c = map(leaf, arrays)
        y = op("add", op("dot_general", a, b, contract=((1,), (0,)), batch=((), ())), c)
    else:
        arrays = [r.standard_normal(s).astype(dtype) for s in ((2, 3, 8, 9), (5, 3, 3, 3), (2, 5, 6, 7))]
        a, b, c = map(leaf, arrays)
        y = op("add", convolved(a, b), c)
    axes = tuple(range(len(y.shape)))
    zero = constant(0, y.dtype)
    results = [
        y, op("reduce_max", op("abs", y), axes=axes, keepdims=False), op("reduce_min", y, axes=axes, keepdims=True),
        op("reduce_sum", op("cast", op("greater", y, zero), dtype=INT64), axes=axes, keepdims=False),
        op("reduce_max", op("less", y, zero), axes=axes, keepdims=False),
    ]
    assert results[-1].dtype is BOOL
    (fused,) = kernels_of([a, b, c], results)
    kernel, ins = fused.kernel, [arrays[[a, b, c].index(node)].reshape(shape) for node, shape in fused.inputs]
    pairs = in_place(kernel)
    assert any(output == 0 for _, output in pairs)
    isa = isas()[name]
    expected: list[np.ndarray] = []
    for make in (generate_loops, generate):
        generated = make(kernel, isa)
        compiled = Compiled(generated, kernel, isa)
        out = compiled(ins, [fresh(node.dtype, node.shape) for node in fused.outputs])
        if not expected or not isa.fma:  # without the instruction only templates round twice
            expected = out
        made, *counted = (out[fused.outputs.index(node)] for node in results)
        for got, want in zip(counted, (np.abs(made).max(), made.min(), (made > 0).sum(), (made < 0).any()), strict=True):
            assert got == want, f"{make.__name__}, {m} {n} {k}, seed {seed}"
        assert make is generate_loops or any(p.startswith(("product", "vector product", "convolution")) for p in generated.paths)
        for got, want in zip(out, expected, strict=True):
            assert got.tobytes() == np.ascontiguousarray(want).tobytes(), f"{make.__name__}, {m} {n} {k}, seed {seed}"
        for pair in pairs:
            check_in_place(compiled, ins, [], pair, out, evaluate(kernel, ins, [])[0])


def convolved(x: Node, w: Node) -> Node:
    return op(
        "conv_general", x, w, stride=(1, 1), padding=((0, 0), (0, 0)), lhs_dilation=(1, 1), rhs_dilation=(1, 1), groups=1,
        dims=((0, 1, 2, 3),) * 3,
    )

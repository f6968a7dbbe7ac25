"""matmul_precision: a permission that operations carry from where they are written; the CPU uses bfloat16 only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.product.dot import MAX_FMA_FLOPS
from weft.devices.cuda.target import GPU
from weft.dtypes.formats import FLOAT32
from weft.graph.batching import batch
from weft.graph.gradient import backward
from weft.graph.node import Node, topological_order
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.ir import Contraction
from weft.kernel.printer import kernel_key
from weft.kernel.target import CPU
from weft.schedule.build import build
from weft.schedule.program import calls

SHORT = ("tf32", "tf32x3")
EVERY = (*SHORT, "bfloat16")
CONVOLUTION = {
    "stride": (2, 1), "padding": ((1, 1), (0, 2)), "lhs_dilation": (1, 1), "rhs_dilation": (1, 2), "groups": 2,
    "dims": ((0, 1, 2, 3),) * 3,
}
ASKED: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {  # what users write -> products of float32
    "matmul": (lambda x, y: x @ y, ((5, 4), (4, 3))),
    "stacks": (lambda x, y: wf.matmul(x, y), ((2, 5, 4), (2, 4, 3))),
    "dot": (wf.dot, ((5, 4), (4, 3))),
    "tensordot": (lambda x, y: wf.tensordot(x, y, 1), ((5, 4), (4, 3))),
    "einsum": (lambda x, y: wf.einsum("ij,jk->ik", x, y), ((5, 4), (4, 3))),
    "linear": (wf.nn.linear, ((5, 4), (3, 4))),
    "conv2d": (lambda x, w: wf.nn.conv2d(x, w), ((2, 3, 6, 6), (4, 3, 3, 3))),
    "conv_transpose2d": (lambda x, w: wf.nn.conv_transpose2d(x, w), ((2, 3, 6, 6), (3, 4, 3, 3))),
    "convolve": (lambda x, y: wf.convolve(x, y), ((9,), (4,))),
}


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    assert wf.get_matmul_precision() == "float32"


def precisions(outputs: Any) -> list[str]:
    return [n.params.get("precision", "float32") for n in topological_order(outputs) if n.op.contracts]


@pytest.mark.drawn(12)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("precision", EVERY)
def test_operations_keep_what_held_where_they_were_written(name: str, precision: str) -> None:
    f, shapes = ASKED[name]
    arguments = [wf.zeros(s) for s in shapes]
    with wf.matmul_precision(precision):
        graph = wf.jit(f).trace(*arguments).graph
        wide = wf.jit(f).trace(*[wf.astype(a, "float64") for a in arguments]).graph
        narrow = wf.jit(f).trace(*[wf.astype(a, "float16") for a in arguments]).graph
    assert set(precisions(graph.outputs)) == {precision}
    assert {*precisions(wide.outputs), *precisions(narrow.outputs)} == {"float32"}  # it is about float32 alone
    assert set(precisions(wf.jit(f).trace(*arguments).graph.outputs)) == {"float32"}


def products() -> Iterator[tuple[Node, list[Node]]]:
    x, y = input_leaf((5, 4), FLOAT32), input_leaf((4, 3), FLOAT32)
    yield bind(TABLE["dot_general"], x, y, contract=((1,), (0,)), batch=((), ()), precision="tf32"), [x, y]
    x, y = input_leaf((2, 4, 6, 7), FLOAT32), input_leaf((6, 2, 3, 2), FLOAT32)
    yield bind(TABLE["conv_general"], x, y, **CONVOLUTION, precision="tf32"), [x, y]


@pytest.mark.parametrize("case", range(2))
def test_derivatives_and_batches_have_their_products_precision(case: int) -> None:
    out, given = list(products())[case]
    seed = input_leaf(out.shape, FLOAT32)
    first = backward([out], [seed], given)
    assert precisions(first) == ["tf32"] * len(precisions(first)) and len(precisions(first)) >= 2
    second = backward([first[0]], [input_leaf(first[0].shape, FLOAT32)], [seed, given[1]])
    assert set(precisions(second)) == {"tf32"}
    for mapped in ((0,), (1,), (0, 1)):
        more = {given[k]: (input_leaf((3, *given[k].shape), FLOAT32), 0) for k in mapped}
        ((made, _),) = batch([out], more)
        assert precisions([made]) == ["tf32"], mapped


def test_a_loops_step_has_it_too() -> None:
    w, xs = wf.ones((4, 4)), wf.ones((3, 2, 4))

    def loss(w: Any) -> Any:
        return wf.scan(lambda c, x: (wf.tanh(c @ w + x), c), wf.ones((2, 4)), xs)[0].sum()

    with wf.matmul_precision("tf32x3"):
        program = build(wf.jit(wf.grad(loss)).trace(w).graph, GPU)
    found = [s.precision for c in calls(program) for p in c.kernel.phases for s in p.stages if isinstance(s, Contraction)]
    assert len(found) >= 3 and set(found) == {"tf32x3"}


@pytest.mark.parametrize("name", ["matmul", "conv2d"])
def test_the_cpu_computes_float32(name: str) -> None:
    """The same kernels, by their keys, and the same bits: at once, lazily and jitted."""
    f, shapes = ASKED[name]
    rng = np.random.default_rng(0)
    shapes = tuple(tuple(4 * n for n in s) if name == "matmul" else s for s in shapes)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    x, y = map(wf.array, arrays)
    want, graph = f(x, y).numpy(), wf.jit(f).trace(x, y).graph
    keys = [kernel_key(c.kernel) for c in calls(build(graph, CPU))]
    g = wf.jit(f)
    for precision in ("float32", *SHORT):
        with wf.matmul_precision(precision):
            assert [kernel_key(c.kernel) for c in calls(build(wf.jit(f).trace(x, y).graph, CPU))] == keys
            for found in (f(x, y), g(x, y), f(x + 0, y * 1)):
                np.testing.assert_array_equal(found.numpy(), want)


def test_the_cpu_may_round_large_products_to_bfloat16(rng: np.random.Generator) -> None:
    """If the processor gains by it: equal to the product of rounded operands, or to that in float32; derivatives, too."""
    m, n, k = (int(rng.integers(60, 200)) for _ in range(3))
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    short = [v.astype(wf.bfloat16).astype(np.float32) for v in (a, b)]

    def loss(a: Any, b: Any) -> Any:
        return ((a @ b) ** 2).sum()

    both = wf.jit(lambda a, b: (a @ b, *wf.grad(loss, argnums=(0, 1))(a, b)))
    exact = [v.numpy() for v in both(a, b)]
    with wf.matmul_precision("bfloat16"):
        found = [v.numpy() for v in both(a, b)]
        rounds = 2 * m * n * k > MAX_FMA_FLOPS and host_isa().multiplies_bfloat16
        np.testing.assert_array_equal(found[0], wf.matmul(*map(wf.array, short)).numpy() if rounds else exact[0])
    for one, other in zip(found[1:], exact[1:], strict=True):
        scale = np.abs(other).max()
        assert np.abs(one - other).max() <= (0.03 * scale if rounds else 0)
        assert not rounds or np.abs(one - other).max() > 0


@pytest.mark.parametrize("precision", EVERY)
def test_convolutions_of_bfloat16_have_that_precision_alone(precision: str) -> None:
    """Products of bfloat16 need no permission for it; a GPU does without."""
    x, w = wf.zeros((2, 3, 6, 6), dtype="bfloat16"), wf.zeros((4, 3, 3, 3), dtype="bfloat16")
    f = wf.jit(wf.grad(lambda w: wf.nn.conv2d(x, w).sum() + (w[0, 0] @ w[0, 0]).sum()))
    with wf.matmul_precision(precision):
        graph = f.trace(w).graph
    found = {(n.op.name, n.params.get("precision")) for n in topological_order(graph.outputs) if n.op.contracts}
    assert found == {("conv_general", "bfloat16" if precision == "bfloat16" else None), ("dot_general", None)}
    assert not any("products" in note for kernel in build(graph, GPU).info for note in kernel.notes)


def test_a_gpu_takes_tf32_for_bfloat16() -> None:
    with wf.matmul_precision("bfloat16"):
        program = build(wf.jit(lambda x: x @ x).trace(wf.zeros((32, 32))).graph, GPU)
    assert [k.notes for k in program.info] == [("products in tf32",)]


def test_a_gpus_kernels_say_it_in_their_key() -> None:
    x, y = wf.zeros((32, 32)), wf.zeros((32, 32))
    keys = set()
    for precision in ("float32", *SHORT):
        with wf.matmul_precision(precision):
            (call,) = calls(build(wf.jit(lambda x, y: x @ y).trace(x, y).graph, GPU))
        keys.add(kernel_key(call.kernel))
        assert (f"block 32, {precision}]" in kernel_key(call.kernel)) == (precision != "float32")
    assert len(keys) == 3


def test_jitted_functions_are_traced_once_for_each() -> None:
    f, x = wf.jit(lambda x: x @ x), wf.ones((8, 8))
    for _ in range(3):
        for precision in ("tf32", "float32", "tf32x3"):
            with wf.matmul_precision(precision):
                f(x)
                f(x)
    assert f.traces == 3


def test_set_and_get() -> None:
    wf.set_matmul_precision("tf32")
    try:
        assert wf.get_matmul_precision() == "tf32"
        with pytest.raises(ZeroDivisionError), wf.matmul_precision("tf32x3"):
            assert wf.get_matmul_precision() == "tf32x3"
            raise ZeroDivisionError
        assert wf.get_matmul_precision() == "tf32"
        with wf.matmul_precision("float32"):
            assert wf.get_matmul_precision() == "float32"
    finally:
        wf.set_matmul_precision("float32")


@pytest.mark.parametrize(("wrong", "said"), [
    ("highest", "what others call highest is float32 here"), ("high", "is tf32x3 here"), ("tensorfloat32", "is tf32 here"),
    ("float16", r"precision='float16' must be \"float32\", \"tf32\", \"tf32x3\" or \"bfloat16\"$"), (None, "precision=None"),
    (np.float32, "must be"),
])
def test_another_precision_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"set_matmul_precision: .*{said}"):
        wf.set_matmul_precision(wrong)
    with pytest.raises(ValueError, match=f"^matmul_precision: .*{said}"), wf.matmul_precision(wrong):
        pass


def test_explain_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    x = wf.ones((8, 8))
    with wf.matmul_precision("tf32"):
        wf.explain(lambda x: x @ x, x)
        assert "tf32" not in capsys.readouterr().out  # on the CPU it is not
        program = build(wf.jit(lambda x: x @ x).trace(x).graph, GPU)
    assert [k.notes for k in program.info] == [("products in tf32",)]


def test_eager_products_have_the_bits_of_jitted_ones(rng: np.random.Generator) -> None:
    """Whatever was compiled before: small products are never rounded, large ones whenever the processor can."""
    for n in (40, 101, 102, 180):
        a, b = (wf.array(rng.standard_normal((n, n)).astype(np.float32)) for _ in range(2))
        with wf.matmul_precision("bfloat16"):
            before = (a @ b).numpy()
            jitted = wf.jit(lambda a, b: a @ b)(a, b).numpy()
            after = [(a @ b).numpy() for _ in range(6)]
        for other in (jitted, *after):
            np.testing.assert_array_equal(before, other)


@pytest.mark.parametrize("enter, read, other", [
    (wf.matmul_precision, wf.get_matmul_precision, "tf32"), (wf.conv_algorithm, wf.get_conv_algorithm, "winograd"),
    (wf.deterministic, wf.get_deterministic, False), (wf.default_dtype, wf.get_default_dtype, "float64"),
])
def test_blocks_of_threads_end_in_any_order(enter: Any, read: Any, other: Any, rng: np.random.Generator) -> None:
    """The last block that ends restores the value before all of them; until then it is that of the latest block."""
    before = read()
    blocks = [enter(other) for _ in range(4)]
    for block in blocks:
        block.__enter__()
    for k in rng.permutation(4):
        assert read() == other
        blocks[k].__exit__(None, None, None)
    assert read() == before

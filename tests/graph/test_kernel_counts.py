"""User code that must be one kernel: explain says so, the counter in the emitted code agrees, the bytes are the touched ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.graph.fusing import _gathered, kernels, random, run
from weft.devices import counters, get_device
from weft.runtime import execute
from weft.schedule.program import Call, Program, Slot

pytestmark = pytest.mark.usefixtures("lazy")

EPS = 1e-5


def by_rows(a):
    return (a - a.mean(axis=1, keepdims=True)) / wf.sqrt(a.var(axis=1, keepdims=True) + EPS)


def by_columns(a):
    return (a - a.mean(axis=0)) / wf.sqrt(a.var(axis=0) + EPS)


def mean_written_twice(a):
    centred = a - a.mean(axis=1, keepdims=True)
    variance = ((a - a.mean(axis=1, keepdims=True)) ** 2).mean(axis=1, keepdims=True)
    return centred / wf.sqrt(variance + EPS)


def softmax(a):
    e = wf.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(a, scale, shift):
    return by_rows(a) * scale + shift


def adam(p, g, m, v, rate):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * (g * g)
    return p - rate * m / (wf.sqrt(v) + 1e-8), m, v


def adam_of_wf_optim(p, g):
    optimizer = wf.optim.Adam(lr=0.1)
    parameters = {"p": p}
    optimizer.init(parameters)
    optimizer.step_count[...] = 3.0
    wf.eval(p, g, optimizer.step_count, optimizer.state)
    step = wf.jit(lambda g: optimizer.update(parameters, {"p": g}))
    return step, g


CASES: dict[str, tuple[Callable[..., Any], Sequence[tuple[int, ...]]]] = {
    "rows": (by_rows, [(37, 53)]),
    "columns": (by_columns, [(37, 53)]),
    "middle axis": (by_rows, [(5, 19, 7)]),
    "mean written twice": (mean_written_twice, [(37, 53)]),
    "mean written twice, middle axis": (mean_written_twice, [(5, 19, 7)]),
    "softmax": (softmax, [(37, 53)]),
    "softmax of a middle axis": (softmax, [(5, 19, 7)]),
    "layer norm": (layer_norm, [(37, 53), (53,), (53,)]),
    "divided by its sum": (lambda x: x / x.sum(), [(41, 23)]),
    "mean square of what is left": (lambda a: ((a - a.mean()) ** 2).mean(), [(41, 23)]),
    "dense": (lambda x, w, b: wf.nn.relu(x @ w + b), [(29, 31), (31, 23), (23,)]),
    "linear": (lambda x, w, b: wf.nn.relu(wf.nn.linear(x, w, b)), [(29, 31), (23, 31), (23,)]),
    "convolution": (lambda x, w, b: wf.nn.relu(wf.nn.conv2d(x, w, b, padding=1)), [(2, 3, 9, 8), (5, 3, 3, 3), (5,)]),
    "adam": (adam, [(23, 17)] * 4 + [()]),
}
LARGE = {name: (CASES[name][0], [(4096, 1024)]) for name in ("rows", "columns", "mean written twice", "softmax")}


def arguments(shapes: Sequence[tuple[int, ...]], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng()
    return [wf.array((rng.random(s) + 0.1).astype(dtype)) if s else 0.01 for s in shapes]


def oracle(name: str, args: Sequence[np.ndarray]) -> Any:
    """The case in float64 NumPy."""
    if name in ("rows", "middle axis", "mean written twice", "mean written twice, middle axis"):
        (a,) = args
        return (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + EPS)
    if name == "columns":
        (a,) = args
        return (a - a.mean(0)) / np.sqrt(a.var(0) + EPS)
    if name.startswith("softmax"):
        e = np.exp(args[0] - args[0].max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    if name == "layer norm":
        return oracle("rows", args[:1]) * args[1] + args[2]
    if name == "divided by its sum":
        return args[0] / args[0].sum()
    if name == "mean square of what is left":
        return ((args[0] - args[0].mean()) ** 2).mean()
    if name in ("dense", "linear"):
        x, w, b = args
        return np.maximum(x @ (w if name == "dense" else w.T) + b, 0)
    if name == "convolution":
        x, w, b = args
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
        return np.maximum(np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None], 0)
    p, g, m, v, rate = args
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - rate * m / (np.sqrt(v) + 1e-8), m, v


def entered(f: Callable[[], Any]) -> int:
    before = counters()["kernels"]
    wf.eval(f())
    return counters()["kernels"] - before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str, dtype: str) -> None:
    f, shapes = CASES[name]
    args = arguments(shapes, dtype)
    before = counters()
    found = wf.explain(f, *args)
    after = counters()
    assert all(after[k] == before[k] for k in ("kernels", "entries", "compiles", "cache_hits", "loads")), "explain runs nothing"
    assert len(found.kernels) == 1 and not found.host, str(found)
    jitted = wf.jit(f)
    wf.eval(jitted(*args))
    assert entered(lambda: jitted(*args)) == 1
    assert entered(lambda: f(*args)) == 1, "a lazy call is the same kernel"
    want = oracle(name, [a.numpy().astype(np.float64) if isinstance(a, wf.Array) else a for a in args])
    bound = 2e-5 if dtype == "float32" else 1e-12
    got = jitted(*args)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for g, w in pairs:
        np.testing.assert_allclose(g.numpy(), w, rtol=bound, atol=bound * max(1.0, float(np.abs(w).max())))


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_what_the_kernel_touches(name: str) -> None:
    f, shapes = CASES[name]
    traced = wf.jit(f).trace(*arguments(shapes))
    program = wf.explain(f, *arguments(shapes)).program
    rng = np.random.default_rng()
    _, traffic = run(program, [random(n, rng) for n in traced.graph.inputs])
    for kernel, seen, info in zip(kernels(program), traffic, program.info, strict=True):
        buffers = (*kernel.inputs, *kernel.outputs)
        touched = sum(t.touched * b.dtype.bytes for t, b in zip(seen, buffers, strict=True))
        assert not _gathered(kernel) and info.bytes == touched
        once = sum(int(np.prod(s.shape)) * s.dtype.bytes for s in buffers)
        assert touched == once, "each element of inputs and outputs counts once"
        stored = sum(t.stores for t, b in zip(seen, buffers, strict=True) if b in kernel.outputs)
        assert stored == sum(int(np.prod(b.shape)) for b in kernel.outputs), "each element of an output is stored once"


@pytest.mark.parametrize("name", LARGE)
def test_one_kernel_at_full_size(name: str) -> None:
    f, shapes = LARGE[name]
    args = arguments(shapes)
    found = wf.explain(f, *args)
    assert len(found.kernels) == 1 and found.kernels[0].bytes == 2 * 4096 * 1024 * 4
    assert found.program.arena == 0, "nothing of array size is stored inside"
    jitted = wf.jit(f)
    assert entered(lambda: jitted(*args)) == 1
    got, want = jitted(*args).numpy(), oracle(name, [args[0].numpy().astype(np.float64)])
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_the_update_of_one_parameter_by_wf_optim() -> None:
    p, g = arguments([(23, 17), (23, 17)])
    start = p.numpy().astype(np.float64).copy()
    step, g = adam_of_wf_optim(p, g)
    found = wf.explain(step, g)
    large = [k for k in found.kernels if k.bytes > 100]
    assert len(large) == 1 and len(found.kernels) <= 2, str(found)  # the other counts the step
    assert entered(lambda: step(g)) == len(found.kernels)
    slope = g.numpy().astype(np.float64)
    t = 4
    want = start - 0.1 * (0.1 * slope / (1 - 0.9**t)) / (np.sqrt(0.001 * slope**2 / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p.numpy(), want, rtol=1e-4, atol=1e-4)


def two_calls(program: Program) -> Program:
    """The same Program with its only Call made twice: the second writes an output that nobody asked for."""
    (call,) = (s for s in program.steps if isinstance(s, Call))
    out = program.slots[call.args[-1]]
    extra = Slot(len(program.slots), "output", out.shape, out.dtype, position=len(program.outputs))
    again = dataclasses.replace(call, args=(*call.args[:-1], extra.id))
    return dataclasses.replace(
        program, slots=(*program.slots, extra), steps=(*program.steps, again),
        outputs=(*program.outputs, (out.shape, out.dtype)), info=(*program.info, *program.info),
    )


def test_a_call_that_is_slipped_in_is_counted() -> None:
    a = arguments([(37, 53)])[0]
    wf.eval(a)
    program = wf.explain(by_rows, a).program
    device = get_device()

    def count(p: Program) -> tuple[int, list[np.ndarray]]:
        compiled = device.compile(p)
        before = counters()["kernels"]
        results = compiled([execute.to_buffer(a.numpy())])
        return counters()["kernels"] - before, [device.download(r, *o) for r, o in zip(results, p.outputs, strict=True)]

    honest, (one,) = count(program)
    longer, both = count(two_calls(program))
    assert (honest, longer) == (1, 2)
    np.testing.assert_array_equal(one, both[0])
    np.testing.assert_array_equal(one, both[1])

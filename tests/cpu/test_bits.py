"""Same bits: over runs, thread counts and fusion (lazily, operation by operation, under jit)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft as wf
from weft.devices import get_device

UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": lambda a: wf.exp(-wf.abs(a)), "log": lambda a: wf.log(wf.abs(a) + 0.5),
    "tanh": wf.tanh, "sqrt": lambda a: wf.sqrt(wf.abs(a)),
    "sin": wf.sin, "erf": wf.erf, "square": wf.square, "reciprocal": lambda a: 1 / (a * a + 1),
    "relu": lambda a: wf.maximum(a, 0),
    "power": lambda a: (wf.abs(a) + 0.1) ** 1.7, "negative": lambda a: -a, "number": lambda a: 0.3 * a - 1.25,
    "sum all": lambda a: a - a.sum() / 7, "sum columns": lambda a: a + a.sum(axis=0),
    "mean rows": lambda a: a - a.mean(axis=1, keepdims=True),
    "var rows": lambda a: a / wf.sqrt(a.var(axis=1, keepdims=True) + 1e-3), "std columns": lambda a: a / (a.std(axis=0) + 1),
    "max rows": lambda a: a / (1 + wf.abs(a).max(axis=1, keepdims=True)), "prod": lambda a: a * (1 + a * 0.01).prod(axis=0),
    "cumsum": lambda a: a.cumsum(axis=1) / 8, "flip": lambda a: wf.flip(a, axis=1), "roll": lambda a: wf.roll(a, 2, axis=0),
    "softmax": lambda a: wf.exp(a - a.max(1, keepdims=True)) / wf.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True),
    "argmax": lambda a: a + a.argmax(axis=1).reshape((-1, 1)), "half": lambda a: a.astype("float16").astype(a.dtype),
    "shape": lambda a: a.reshape((-1,))[::-1].reshape(a.shape),
    "turn": lambda a: wf.permute_dims(wf.permute_dims(a, (1, 0)) * 2, (1, 0)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "fused?": lambda a, b: a * b + a,
    "divide": lambda a, b: a / (b * b + 1), "where": lambda a, b: wf.where(a > b, a, b * 0.5), "atan2": wf.atan2,
    "hypot": wf.hypot,
    "product": lambda a, b: (a @ b.T) @ b / 16, "gram": lambda a, b: a @ (a.T @ b) / 16, "rows": lambda a, b: a + b[:1] * b[-1:],
    "dense": lambda a, b: wf.maximum(a @ (b.T @ b) / 16 + b[0], 0),
}
STEPS = sorted([*UNARY, *BINARY])


def grown(recipe: list[tuple[str, int, int]], leaves: list[Any], settle: Callable[[Any], Any] = lambda x: x) -> list[Any]:
    """All results of a random graph that no later step reads, and the last."""
    stack = list(leaves)
    read: set[int] = set()
    for name, i, j in recipe:
        i, j = i % len(stack), j % len(stack)
        read |= {i, j} if name in BINARY else {i}
        stack.append(settle(UNARY[name](stack[i]) if name in UNARY else BINARY[name](stack[i], stack[j])))
    return [x for k, x in enumerate(stack) if k >= len(leaves) and k not in read]


def settled(x: Any) -> Any:
    wf.eval(x)
    return x


def bits(arrays: list[Any]) -> list[bytes]:
    return [a.numpy().tobytes() for a in arrays]


recipes = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    recipes, st.sampled_from([(3, 4), (1, 5), (7, 3), (17, 33), (40, 70)]), st.sampled_from(["float32", "float64"]),
    st.integers(0, 2**31),
)
def test_lazy_stepwise_and_jitted(recipe: list, shape: tuple[int, int], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.uniform(-1, 1, shape).astype(dtype) for _ in range(2)]

    def leaves() -> list[Any]:
        return [wf.array(v) for v in values]

    lazy = bits(grown(recipe, leaves()))
    assert bits(grown(recipe, leaves(), settled)) == lazy, "operation by operation"
    f = wf.jit(lambda *x: grown(recipe, list(x)))
    for _ in range(2):
        assert bits(f(*leaves())) == lazy, "under jit"


def softmax(x):
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


LARGE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "element-wise": (lambda a, b: wf.tanh(a * b) + wf.exp(-a * a), [(700, 911)] * 2),
    "sum of all": (lambda a: (a * a).sum(), [(2100, 911)]),
    "mean and variance of columns": (lambda a: (a - a.mean(axis=0)) / wf.sqrt(a.var(axis=0) + 1e-5), [(3000, 501)]),
    "softmax": (softmax, [(900, 701)]),
    "product": (lambda a, b: a @ b, [(333, 401), (401, 289)]),
    "long k": (lambda a, b: a.T @ b, [(9000, 123), (9000, 131)]),
    "batched product": (lambda a, b: a @ b, [(37, 165, 133), (37, 133, 141)]),
    "dense": (lambda x, w, b: wf.maximum(x @ w + b, 0), [(512, 300), (300, 256), (256,)]),
    "convolution": (lambda x, w: wf.nn.conv2d(x, w, padding=1), [(8, 16, 30, 30), (24, 16, 3, 3)]),
    "gradients of a convolution": (
        wf.grad(lambda x, w: (wf.nn.conv2d(x, w, padding=1) ** 2).sum(), argnums=(0, 1)), [(8, 16, 30, 30), (24, 16, 3, 3)],
    ),
    "pooling and its gradient": (wf.grad(lambda x: (wf.nn.max_pool2d(x, 2) ** 2).sum()), [(16, 20, 60, 60)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_one_and_two_workers(name: str) -> None:
    f, shapes = LARGE[name]
    rng = np.random.default_rng()
    args = [wf.array(rng.normal(size=s).astype(np.float32)) for s in shapes]
    pool, before = get_device().pool, wf.get_num_threads()
    jitted = wf.jit(f)

    def once() -> list[bytes]:
        return bits(wf.tree_leaves(jitted(*args)))

    try:
        wf.set_num_threads(1)
        alone = once()
        assert all(np.frombuffer(b, np.uint8).any() for b in alone)
        for threads in (2, 3):
            wf.set_num_threads(threads)
            shared = False
            end = time.monotonic() + 20
            while time.monotonic() < end:  # other programs may keep the second core for a while
                jobs = pool.counter("jobs")
                with pool.record(100_000) as workers:
                    again = once()
                assert pool.counter("jobs") > jobs, "large enough for the pool"
                assert again == alone
                shared = len(set(workers.tolist()) - {-1}) >= 2
                if shared:
                    break
            assert shared, "two workers ran"
    finally:
        wf.set_num_threads(before)


@pytest.mark.parametrize("name", LARGE)
def test_a_hundred_times(name: str) -> None:
    f, shapes = LARGE[name]
    shapes = [tuple(max(3, n // 8) if n > 40 else n for n in s) for s in shapes]
    rng = np.random.default_rng()
    values = [rng.normal(size=s).astype(np.float32) for s in shapes]
    args = [wf.array(v) for v in values]
    jitted = wf.jit(f)
    first = bits(wf.tree_leaves(f(*args)))
    assert bits(wf.tree_leaves(jitted(*args))) == first
    for k in range(99):
        if k % 10 == 0:
            args = [wf.array(v) for v in values]  # elsewhere in memory
        assert bits(wf.tree_leaves(f(*args))) == first
        assert bits(wf.tree_leaves(jitted(*args))) == first


def test_random_numbers_depend_on_the_seed_alone() -> None:
    draws = []
    for threads in (1, 2):
        before = wf.get_num_threads()
        wf.set_num_threads(threads)
        try:
            wf.random.seed(11)
            draws.append(bits([wf.random.normal(size=(300, 501)), wf.random.uniform(size=(7,)), wf.random.permutation(100)]))
        finally:
            wf.set_num_threads(before)
    assert draws[0] == draws[1]

"""Programs whose estimates are compared with what they took: of each kind of work one at least, small and large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf
from weft.devices import get_device
from weft.graph.node import Graph
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import Program


@dataclass(frozen=True)
class Work:
    """A function of arrays, and what it is given."""

    function: Callable[..., Any]
    given: Sequence[np.ndarray]


def _normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _positive(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(1).uniform(0.2, 0.9, shape).astype(dtype)


def _norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / wf.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _batch_norm(x: Any) -> Any:
    centred = x - x.mean((0, 2, 3), keepdims=True)
    return centred / wf.sqrt((centred * centred).mean((0, 2, 3), keepdims=True) + 1e-5)


def _gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of a sum of squares of a result."""
    return lambda *x: wf.grad(lambda pair: (f(*pair) ** 2).sum())(list(x))


def traced(work: Work) -> Graph:
    """The graph of a program, without its arrays."""
    return execute.copy_structure(wf.jit(lambda *x: work.function(*x)).trace(*map(wf.array, work.given)).graph)


def program_of(work: Work) -> Program:
    """It as the CPU runs it."""
    return build(traced(work), get_device().target)


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (wf.sqrt(v) + 1e-8), m, v


def _mlp(x: Any, y: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def loss(w: Any) -> Any:
        return ((wf.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y) ** 2).mean()

    return wf.value_and_grad(loss)([a, b, c, d])


def _attention(q: Any, k: Any, v: Any) -> Any:
    return wf.nn.scaled_dot_product_attention(q, k, v, is_causal=True)


def _solved(start: Any, w1: Any, w2: Any) -> Any:
    return wf.scan(lambda y, _: (y + 0.04 * (w2 @ wf.tanh(w1 @ y)), y.sum()), start, None, length=200)[0]


_FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "log2", "sqrt", "sin", "cos", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf",
)


def works() -> dict[str, Work]:
    """By name."""
    found: dict[str, Work] = {}
    mega, small = _positive(1 << 20), _positive(1 << 12)
    for name in _FUNCTIONS:
        f = getattr(wf, name, None) or getattr(wf.special, name)
        found[name] = Work(lambda x, f=f: f(x), [mega])  # type: ignore[misc]
        if name in ("exp", "tanh", "log", "erf", "sin"):
            found[f"{name} float64"] = Work(lambda x, f=f: f(x), [mega.astype(np.float64)])  # type: ignore[misc]
            found[f"{name} of few"] = Work(lambda x, f=f: f(x), [small])  # type: ignore[misc]
    found |= {
        "add": Work(lambda x, y: x + y, [mega, mega]), "add of many": Work(lambda x, y: x + y, [_normal(1 << 24)] * 2),
        "add of few": Work(lambda x, y: x + y, [small, small]),
        "chain": Work(lambda x: (x * 2 + 1).clip(-1, 3) * x - x / 3, [mega]),
        "power": Work(lambda x, y: x**y, [mega, mega]), "divide": Work(lambda x, y: x / y, [mega, mega]),
        "floor divide": Work(lambda x, y: x // y, [mega, mega]), "atan2": Work(lambda x, y: wf.atan2(x, y), [mega, mega]),
        "integer remainder": Work(lambda x: (x % 7) + x // 5, [np.arange(1 << 20, dtype=np.int32)]),
        "gelu": Work(wf.nn.gelu, [_normal(1 << 24)]), "gelu of few": Work(wf.nn.gelu, [_normal(1 << 14)]),
        "silu": Work(wf.nn.silu, [_normal(1 << 20)]), "sigmoid float16": Work(wf.nn.sigmoid, [_normal(1 << 20, dtype="float16")]),
        "softmax": Work(lambda x: wf.nn.softmax(x, -1), [_normal(1024, 1024)]),
        "softmax of few": Work(lambda x: wf.nn.softmax(x, -1), [_normal(32, 10)]),
        "layer norm": Work(_norm, [_normal(1024, 1024)]), "batch norm": Work(_batch_norm, [_normal(32, 64, 28, 28)]),
        "layer norm, gradient": Work(_gradient(_norm), [_normal(1024, 1024)]),
        "sum": Work(lambda x: x.sum(), [_normal(1 << 22)]), "sum of rows": Work(lambda x: x.sum(axis=1), [_normal(2048, 2048)]),
        "sum of columns": Work(lambda x: x.sum(axis=0), [_normal(2048, 2048)]),
        "largest": Work(lambda x: x.argmax(axis=1), [_normal(1024, 1024)]),
        "running sum": Work(lambda x: wf.cumsum(x, axis=1), [_normal(64, 1 << 14)]),
        "transposition": Work(lambda x: x.T * 2, [_normal(2048, 2048)]),
        "random": Work(lambda x: x + wf.random.normal(size=x.shape), [_normal(1 << 20)]),
        "dropout": Work(lambda x: wf.where(wf.random.uniform(size=x.shape) < 0.5, x, 0.0), [_normal(1 << 20)]),
        "gather": Work(lambda t, at: t[at], [_normal(10_000, 64), np.random.default_rng(3).integers(0, 10_000, 1 << 14)]),
        "rows added": Work(
            lambda t, at: wf.vjp(lambda t: t[at], t)[1](t[at])[0],
            [_normal(10_000, 64), np.random.default_rng(3).integers(0, 10_000, 1 << 14)],
        ),
        "adam": Work(_adam, [_normal(1 << 20), _normal(1 << 20), _normal(1 << 20), _positive(1 << 20)]),
        "net of 3-100-3": Work(_mlp, [_normal(1, 3), _normal(1, 3), _normal(3, 100), _normal(100), _normal(100, 3), _normal(3)]),
        "neural ODE": Work(_solved, [_normal(3), _normal(100, 3), _normal(3, 100)]),
        "net of 784-256-10": Work(
            _mlp, [_normal(128, 784), _normal(128, 10), _normal(784, 256), _normal(256), _normal(256, 10), _normal(10)],
        ),
        "attention": Work(_attention, [_normal(1, 8, 1024, 64, seed=k) for k in range(3)]),
        "attention, gradient": Work(_gradient(_attention), [_normal(1, 8, 1024, 64, seed=k) for k in range(3)]),
        "convolution": Work(lambda x, w: wf.nn.conv2d(x, w, padding=1), [_normal(8, 64, 28, 28), _normal(64, 64, 3, 3)]),
        "convolution, gradient": Work(
            _gradient(lambda x, w: wf.nn.conv2d(x, w, padding=1)), [_normal(8, 64, 28, 28), _normal(64, 64, 3, 3)],
        ),
        "pool": Work(lambda x: wf.nn.max_pool2d(x, 3, 2), [_normal(16, 64, 55, 55)]),
    }
    for n in (16, 64, 256, 1024):
        found[f"product {n}"] = Work(lambda a, b: a @ b, [_normal(n, n)] * 2)
    found |= {
        "product 512 float64": Work(lambda a, b: a @ b, [_normal(512, 512, dtype="float64")] * 2),
        "product 512 bfloat16": Work(lambda a, b: a @ b, [_normal(512, 512)] * 2),
        "product with a vector": Work(lambda a, x: a @ x, [_normal(2048, 2048), _normal(2048)]),
        "product, gelu": Work(lambda a, b: wf.nn.gelu(a @ b), [_normal(512, 512)] * 2),
    }
    for n in (1 << 10, 1 << 16, 1 << 20):
        found[f"sort {n}"] = Work(lambda x: wf.sort(x), [_normal(n)])
    found |= {
        "sort of rows": Work(lambda x: wf.sort(x, axis=1), [_normal(1024, 256)]),
        "sort float64": Work(lambda x: wf.sort(x), [_normal(1 << 18, dtype="float64")]),
        "sort integers": Work(lambda x: wf.sort(x), [np.random.default_rng(2).integers(0, 1 << 30, 1 << 18).astype(np.int32)]),
        "argsort": Work(lambda x: wf.argsort(x), [_normal(1 << 18)]), "median": Work(lambda x: wf.median(x), [_normal(1 << 18)]),
        "fft": Work(lambda x: wf.real(wf.fft.fft(x)), [_normal(64, 4096)]),
        "inverse": Work(lambda a: wf.linalg.inv(a), [_normal(256, 256)]),
        "solve": Work(lambda a, b: wf.linalg.solve(a, b), [_normal(400, 400), _normal(400)]),
        "cholesky": Work(lambda a: wf.linalg.cholesky(a @ a.T + 300 * wf.eye(256)), [_normal(256, 256)]),
        "svd": Work(lambda a: wf.linalg.svd(a)[1], [_normal(128, 128)]),
        "eigh": Work(lambda a: wf.linalg.eigh(a + a.T)[0], [_normal(128, 128)]),
    }
    return found

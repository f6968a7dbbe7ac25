"""What NumPy makes at once of small arrays has the bits of compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.eager.peek import fill_leaf, peek
from weft.runtime.context import CONTEXT

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool")


def crossed(a: int, b: int, dtype: str) -> Callable[[Any], Any]:
    def call(rng: np.random.Generator) -> Any:
        x, y = (wf.array(rng.normal(size=(n, 5)) * 20).astype("int64").astype(dtype) * 3 for n in (a, b))
        return wf.cross(x / 7 if "float" in dtype else x, y, 0, 0, 0)
    return call


CALLS: list[Callable[[Any], Any]] = [
    *[lambda _, d=d, k=k: wf.eye(3, 5, k, d) for d in DTYPES for k in (-9, -1, 0, 2, 9)],
    *[lambda _, d=d: wf.ones((2, 3), d) for d in DTYPES], lambda _: wf.zeros(()), lambda _: wf.ones((0, 3)),
    *[lambda _, d=d, e=e, n=n: wf.linspace(-0.1, 1.3, n, e, dtype=d)
      for d in DTYPES[:4] for e in (True, False) for n in (0, 1, 2, 7, 100)],
    lambda _: wf.linspace(3, -7, 11, dtype="int8"), lambda _: wf.linspace(0, 1e308, 5) - wf.linspace(0, np.inf, 5, False),
    *[crossed(a, b, d) for a in (2, 3) for b in (2, 3) for d in ("float32", "float64", "bfloat16", "int8", "uint64")],
    lambda rng: wf.cross(rng.normal(size=3), rng.normal(size=(4, 3))), lambda _: wf.cross([1, 2], [3, 4]),
    lambda _: wf.arange(9)[::-2], lambda _: wf.arange(12.0).reshape(3, 4).T[1:], lambda _: wf.roll(wf.arange(7), 3),
]


def drawn(rng: Any, dtype: str, shape: tuple) -> Any:
    """Numbers, some of them NaN, infinite, zeros of both signs; in a view of a larger array now and then."""
    x = rng.normal(size=(2, *shape)) * 5
    x[rng.random(size=x.shape) < 0.3] = rng.choice([0.0, -0.0, 1.0] + ([np.nan, np.inf] if "float" in dtype else []))
    if "int" in dtype or dtype == "bool":
        x = abs(x)
    return wf.array(x).astype(dtype)[1] if rng.random() < 0.5 else wf.array(x[1]).astype(dtype)


MOVES: dict[str, Callable[..., Any]] = {
    "concatenate": lambda x, y, r: wf.concatenate([x, y], axis=int(r.integers(2))),
    "all": lambda x, y, r: wf.concat([x, y], axis=None),
    "stack": lambda x, y, r: wf.stack((x, y, x), 1),
    "vstack": lambda x, y, r: wf.vstack([x, y]),
    "hstack": lambda x, y, r: wf.hstack([x[0], y[0]]),
    "repeat": lambda x, y, r: wf.repeat(x, 3, 1),
    "repeat all": lambda x, y, r: wf.repeat(x, 0),
    "take": lambda x, y, r: wf.take(x, wf.array([[1, -1], [0, 1]]), axis=0),
    "take all": lambda x, y, r: wf.take(x, wf.array(2)),
    "roll": lambda x, y, r: wf.roll(x, -1),
    "roll one": lambda x, y, r: wf.roll(x, 7, 1),
    "diag": lambda x, y, r: wf.diag(x, int(r.integers(-2, 3))),
    "diag of a vector": lambda x, y, r: wf.diag(x[0], -1),
    "triu": lambda x, y, r: wf.triu(x, 1),
    "tril": lambda x, y, r: wf.tril(x),
    "outer": lambda x, y, r: wf.outer(x, y[1]),
    "count": lambda x, y, r: wf.count_nonzero(x),
    "dot": lambda x, y, r: wf.dot(x, y.T),
    "dot of vectors": lambda x, y, r: wf.dot(x[0], y[1]),
    "inner": lambda x, y, r: wf.inner(x[1], y[0]),
    "fill": lambda x, y, r: filled(x, 3),
    "scalar": lambda x, y, r: x * getattr(wf, x.dtype.name)(3.25),
}
KINDS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint64", "bool", "complex64")


def filled(x: Any, value: Any) -> Any:
    out = wf.copy(x)
    out.fill(value)
    return out


@pytest.mark.drawn(10)
@pytest.mark.parametrize("name", MOVES)
def test_what_numpy_moves_is_as_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    for dtype in KINDS:
        if dtype == "float8_e4m3fn" and name[:3] in ("dot", "inn"):  # which asks for the dtype of the sums
            continue
        for shape in ((2, 3), (4, 4), (3, 1)):
            def call(dtype: str = dtype, shape: tuple = shape) -> Any:
                rng = np.random.default_rng(seed)
                return bits(MOVES[name](drawn(rng, dtype, shape), drawn(rng, dtype, shape), rng))

            with monkeypatch.context() as patch:
                got = call()
                patch.setattr(CONTEXT, "max_eager_bytes", 0)
                patch.setattr(CONTEXT, "compile_threshold", 0)
                assert call() == got, (dtype, shape, seed)


def test_interp_is_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    for dtype in ("float32", "float64"):
        for n, m in ((1, 1), (1, 4), (5, 3), (30, 20), (0, 3)):
            def call(dtype: str = dtype, n: int = n, m: int = m) -> Any:
                rng = np.random.default_rng(seed)
                line = np.sort(rng.integers(0, 9, size=m)).astype(dtype)
                q = np.append(rng.normal(size=n) * 9, line[: n // 2])
                q[n // 2 : n // 2 + 1] = np.nan
                given = [wf.array(v.astype(dtype)) for v in (q, line, rng.normal(size=m))]
                return bits(wf.interp(*given)), bits(wf.interp(2.5, *given[1:]))

            with monkeypatch.context() as patch:
                got = call()
                patch.setattr(CONTEXT, "max_eager_bytes", 0)
                patch.setattr(CONTEXT, "compile_threshold", 0)
                assert call() == got, (dtype, n, m, seed)


def bits(x: Any) -> Any:
    return x.dtype.name, x.shape, x.numpy().tobytes(), type(x)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_compiled(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    got = [bits(CALLS[number](np.random.default_rng(number))) for _ in range(2)]
    monkeypatch.setattr(CONTEXT, "max_eager_bytes", 0)
    monkeypatch.setattr(CONTEXT, "compile_threshold", 0)
    assert [bits(CALLS[number](np.random.default_rng(number)))] * 2 == got


def test_a_content_of_its_own() -> None:
    x, y = wf.arange(5), wf.arange(5)
    x += 1
    assert y.tolist() == wf.arange(5).tolist() == [0, 1, 2, 3, 4]


def test_only_what_is_small_and_known() -> None:
    x, pending = wf.ones(3), wf.ones((1000, 1000)) + 1
    assert peek(x.node) is not None and peek(x.node, pending.node) is None
    found: list[Any] = []
    wf.jit(lambda y: found.extend([peek(y.node), fill_leaf((2,), x.node.dtype, lambda: np.ones(2))]) or y)(x)
    wf.grad(lambda y: found.append(peek(y.node)) or y.sum())(x)
    assert found == [None] * 3
    assert fill_leaf((1000, 1000), x.node.dtype, lambda: np.ones((1000, 1000), np.float32)) is None

"""Derivatives of random programs by random nestings of transforms, against each other and against central differences."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

SEED = int(np.random.SeedSequence().generate_state(1)[0])  # fresh each run
N = 3
Function = Callable[[Any], Any]


@wf.custom_vjp
def cube(x: Any) -> Any:
    return x * x * x


cube.defvjp(lambda x: (cube(x), x), lambda x, g: (3 * x * x * g,))


@wf.custom_jvp
def wave(x: Any) -> Any:
    return wf.sin(x)


wave.defjvps(lambda t, out, x: wf.cos(x) * t)


@wf.remat
def block(x: Any) -> Any:
    return wf.tanh(x) * wf.cos(x)


def looped(x: Any) -> Any:
    last, rows = wf.scan(lambda c, t: (wf.sin(c * t) + x, c * c), x, wf.array([0.5, 1.0, 1.5], dtype=wf.float64))
    return last + rows.sum(axis=0)


def looped_rules(x: Any) -> Any:
    return wf.fori_loop(0, 2, lambda i, c: wave(c) + 0.1 * cube(block(c)), x)


@wf.custom_vjp
def pulled_loop(x: Any) -> Any:
    return looped(x)


pulled_loop.defvjp(lambda x: (pulled_loop(x), x), lambda x, g: wf.vjp(looped, x)[1](g))


@wf.custom_jvp
def pushed_loop(x: Any) -> Any:
    return looped(x)


pushed_loop.defjvp(lambda primals, tangents: (pushed_loop(*primals), wf.jvp(looped, primals, tangents)[1]))


STEPS: dict[str, Function] = {
    "loop in a reverse rule": pulled_loop, "loop in a forward rule": pushed_loop,
    "rules in a loop": lambda x: wf.scan(lambda c, _: (pushed_loop(c) * 0.5, pulled_loop(c)), x, length=2)[1].sum(axis=0),
    "sin": wf.sin, "tanh": wf.tanh, "square": lambda x: x * x, "quotient": lambda x: x / (2 + x * x),
    "total": lambda x: x * x.sum(), "softmax": lambda x: wf.nn.softmax(x, -1),
    "product": lambda x: wf.arange(9.0, dtype=wf.float64).reshape(3, 3) / 9 @ x,
    "turned": lambda x: wf.concat([x[1:] * 2, x[:1]]), "running": wf.cumsum, "power": lambda x: (2 + wf.sin(x)) ** x[0],
    "gather": lambda x: x[wf.array([2, 0, 0])] * x,
    "solve": lambda x: wf.linalg.solve(3 * wf.eye(3, dtype=wf.float64) + wf.outer(x, x), x),
    "mapped": lambda x: wf.vmap(lambda t: wf.sin(t) * x.sum())(x), "slope": lambda x: wf.grad(lambda y: (y**3).sum() * y[0])(x),
    "cube": cube, "wave": wave, "block": block, "loop": looped, "loop of rules": looped_rules,
    "row of rules": lambda x: wf.vmap(lambda t: wave(t) + cube(t) * x.sum())(x),
}


def program(r: random.Random) -> tuple[list[str], Function]:
    names = r.choices(list(STEPS), k=r.randint(1, 3))

    def f(x: Any) -> Any:
        for name in names:
            x = STEPS[name](x)
        return x

    return names, f


def _double_vjp(f: Function, x: Any, v: Any) -> Any:
    y, pull = wf.vjp(f, x)
    return wf.vjp(lambda u: pull(u)[0], wf.zeros_like(y))[1](v)[0]


def _in_loop(f: Function, x: Any, v: Any) -> Any:
    return wf.scan(lambda c, t: (c, wf.jvp(f, (c,), (t,))[1]), x, v[None])[1][0]


# each is the derivative of f at x along v
DIRECTIONAL: dict[str, Callable[[Function, Any, Any], Any]] = {
    "jvp": lambda f, x, v: wf.jvp(f, (x,), (v,))[1],
    "linearize": lambda f, x, v: wf.linearize(f, x)[1](v),
    "jacfwd": lambda f, x, v: wf.jacfwd(f)(x) @ v,
    "jacrev": lambda f, x, v: wf.jacrev(f)(x) @ v,
    "double vjp": _double_vjp,
    "grad": lambda f, x, v: wf.grad(lambda w: wf.vjp(f, x)[1](w)[0] @ v)(wf.zeros_like(x)),
    "rows of grad": lambda f, x, v: wf.vmap(lambda k: wf.grad(lambda y: f(y)[k])(x) @ v)(wf.arange(N)),
    "vmap of jvp": lambda f, x, v: wf.vmap(lambda t: wf.jvp(f, (x,), (t,))[1])(wf.stack([v, 2 * v]))[1] / 2,
    "jit of jvp": lambda f, x, v: wf.jit(lambda x, v: wf.jvp(f, (x,), (v,))[1])(x, v),
    "jit of jacrev": lambda f, x, v: wf.jit(wf.jacrev(f))(x) @ v,
    "jvp of jit": lambda f, x, v: wf.jvp(wf.jit(f), (x,), (v,))[1],
    "jvp of remat": lambda f, x, v: wf.jvp(wf.remat(f), (x,), (v,))[1],
    "jacrev of remat": lambda f, x, v: wf.jacrev(wf.remat(f))(x) @ v,
    "in a loop": _in_loop,
}


def along(kinds: list[str], f: Function, directions: list[Any]) -> Function:
    """The derivative of f along several directions, one after the other; the last one is taken first."""
    for kind, v in zip(kinds, directions, strict=True):
        f = lambda x, f=f, kind=kind, v=v: DIRECTIONAL[kind](f, x, v)  # noqa: E731
    return f


def differences(f: Function, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """The derivative of f along v by central differences, and how far two step lengths are apart: much for a steep f."""
    def slope(h: float) -> np.ndarray:
        up, down = (f(wf.array(x + s * h * v)).numpy() for s in (1, -1))
        return (up - down) / (2 * h)

    near, far = slope(1e-5), slope(4e-5)
    return near + (near - far) / 15, float(np.abs(near - far).max())


@pytest.mark.drawn(20)
@pytest.mark.parametrize("trial", range(40))
def test_nestings_agree(trial: int) -> None:
    r = random.Random(SEED + trial)
    order = r.choice((1, 2, 2, 3))
    x, *vs = np.random.default_rng(SEED + trial).uniform(-0.9, 0.9, (order + 1, N))
    directions = [wf.array(v) for v in vs]
    kinds, others = (r.choices(list(DIRECTIONAL), k=order) for _ in range(2))
    names, f = program(r)
    while not np.isfinite(along(["double vjp"] * order, f, directions)(wf.array(x)).numpy()).all():
        names, f = program(r)  # powers of powers overflow: the sum of an infinity and its opposite depends on the order
    print("seed", SEED, names, kinds, others)
    got = along(kinds, f, directions)(wf.array(x)).numpy()
    again = along(others, f, directions)(wf.array(x)).numpy()
    size = max(1.0, float(np.abs(got).max()))
    np.testing.assert_allclose(got, again, rtol=1e-8, atol=1e-9 * size)
    if size > 1e6:
        return  # too steep for differences: one of 1e15 had differences of 1e12
    below = along(others[:-1], f, directions[:-1])
    want, apart = differences(below, x, vs[-1])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7 * size + apart)


@pytest.mark.parametrize("name", STEPS)
def test_hessian_is_every_second_derivative(name: str) -> None:
    x = np.random.default_rng(SEED).uniform(-0.9, 0.9, N)
    weights = wf.array([1.0, -2.0, 0.5], dtype=wf.float64)
    f = lambda x: STEPS[name](x) @ weights  # noqa: E731
    found = {
        "hessian": wf.hessian(f), "jitted": wf.jit(wf.hessian(f)), "fwd of fwd": wf.jacfwd(wf.jacfwd(f)),
        "rev of fwd": wf.jacrev(wf.jacfwd(f)), "rev of rev": wf.jacrev(wf.jacrev(f)), "rev of grad": wf.jacrev(wf.grad(f)),
        "fwd of grad": wf.jacfwd(wf.grad(f)), "mapped": lambda x: wf.vmap(wf.hessian(f))(wf.stack([x * 2, x]))[1],
    }
    values = {kind: g(wf.array(x)).numpy() for kind, g in found.items()}
    want = np.stack([differences(wf.grad(f), x, e)[0] for e in np.eye(N)], axis=1)
    for kind, value in values.items():
        np.testing.assert_allclose(value, want, rtol=1e-6, atol=1e-7, err_msg=f"{kind}, seed {SEED}")
        np.testing.assert_allclose(value, values["hessian"], rtol=1e-9, atol=1e-10, err_msg=f"{kind}, seed {SEED}")

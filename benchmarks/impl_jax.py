"""JAX at its best: jitted, NHWC, state donated; every timed call waits for its result."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import problems
from jax import lax

VERSION = jax.__version__


def _timed(f: Callable, *args) -> tuple[Callable, Callable]:
    g = jax.jit(f)
    return lambda: g(*args).block_until_ready(), lambda: np.asarray(g(*args))


def gemm(m: int, k: int, n: int) -> tuple[Callable, Callable]:
    return _timed(lambda a, b: a @ b, *(jnp.asarray(v) for v in problems.gemm(m, k, n)))


def conv(name: str, part: str) -> tuple[Callable, Callable]:
    x, w, dy, pad = problems.conv(name)
    x, dy, w = (jnp.asarray(v) for v in (x.transpose(0, 2, 3, 1), dy.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)))

    def forward(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    if part == "forward":
        call, show = _timed(forward, x, w)
        return call, lambda: show().transpose(0, 3, 1, 2)
    which = 0 if part == "input gradient" else 1
    call, show = _timed(lambda x, w, dy: jax.vjp(forward, x, w)[1](dy)[which], x, w, dy)
    return call, lambda: show().transpose((0, 3, 1, 2) if which == 0 else (3, 2, 0, 1))


def _adam(params, grads, state, lr=1e-3):
    t, m, v = state
    t = t + 1
    m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
    v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads, strict=True)]
    rate = lr * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return [p - rate * a / (jnp.sqrt(b) + 1e-8) for p, a, b in zip(params, m, v, strict=True)], (t, m, v)


def _stepper(loss: Callable, weights, x, y, batch) -> tuple[Callable, Callable]:
    params = [jnp.asarray(w) for w in weights]
    state = (jnp.float32(0), [jnp.zeros_like(p) for p in params], [jnp.zeros_like(p) for p in params])

    def step(params, state, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        params, state = _adam(params, grads, state)
        return value, params, state

    jitted = jax.jit(step, donate_argnums=(0, 1))
    held = [params, state]
    batches = [(jnp.asarray(x[i : i + batch]), jnp.asarray(y[i : i + batch])) for i in range(0, len(x) - batch + 1, batch)]
    position = [0]

    def call():
        i = position[0]
        position[0] = (i + 1) % len(batches)
        value, held[0], held[1] = jitted(held[0], held[1], *batches[i])
        return value.block_until_ready()

    return call, lambda: np.array([float(call()) for _ in range(5)])


def cnn(batch: int) -> tuple[Callable, Callable]:
    weights, x, y = problems.cnn(batch)
    weights[0] = weights[0].transpose(2, 3, 1, 0)

    def loss(p, x, y):
        h = lax.conv_general_dilated(x, p[0], (1, 1), [(1, 1)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = jax.nn.relu(h + p[1])
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = jax.nn.relu(h.transpose(0, 3, 1, 2).reshape(len(x), -1) @ p[2].T + p[3])
        z = jax.nn.log_softmax(h @ p[4].T + p[5])
        return -jnp.take_along_axis(z, y[:, None], 1).mean()

    return _stepper(loss, weights, x.transpose(0, 2, 3, 1), y.astype(np.int32), batch)


def mlp(batch: int) -> tuple[Callable, Callable]:
    def loss(p, x, y):
        return ((jnp.tanh(x @ p[0] + p[1]) @ p[2] + p[3] - y) ** 2).mean()

    return _stepper(loss, *problems.mlp(batch), batch)


def softmax() -> tuple[Callable, Callable]:
    return _timed(lambda x: jax.nn.softmax(x, 1), jnp.asarray(problems.rows()))


def batch_norm() -> tuple[Callable, Callable]:
    return _timed(lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5), jnp.asarray(problems.rows()))


def call10() -> tuple[Callable, Callable]:
    return _timed(lambda a, b: a + b, jnp.arange(10.0), jnp.ones(10))

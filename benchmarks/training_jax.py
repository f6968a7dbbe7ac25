"""JAX: the same programs, each step one jitted function whose state is donated; images lie channels last."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import problems
import training_problems as P
from impl_jax import _adam
from jax import lax

VERSION = jax.__version__


def _stepper(loss: Callable, update: Callable, params: list, state) -> Callable:
    """step(*arguments of the loss) -> its value before the step."""
    def both(params, state, *args):
        value, grads = jax.value_and_grad(loss)(params, *args)
        params, state = update(params, grads, state)
        return value, params, state

    jitted = jax.jit(both, donate_argnums=(0, 1))
    held = [[jnp.array(p) for p in params], state]

    def step(*args):
        value, held[0], held[1] = jitted(held[0], held[1], *args)
        return value

    return step


def _adam_state(weights):
    return jnp.float32(0), [jnp.zeros(w.shape) for w in weights], [jnp.zeros(w.shape) for w in weights]


def _conv(x, w, b, padding):
    return lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")) + b


def _pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _flat(x):
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def _cross_entropy(scores, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()


def learner() -> tuple[Callable, Callable]:
    batch = P.LEARNER["batch"]
    images, labels = P.images(batch * P.LEARNER["steps"])
    x, y = jnp.asarray(images.transpose(0, 2, 3, 1)), jnp.asarray(labels.astype(np.int32))
    rows = [jnp.asarray(at) for at in P.order(len(x)).reshape(-1, batch)]
    weights = problems.cnn(8)[0]
    weights[0] = weights[0].transpose(2, 3, 1, 0)

    def loss(p, x, y, at):
        h = _pool(jax.nn.relu(_conv(x[at], p[0], p[1], "SAME")))
        return _cross_entropy(jax.nn.relu(_flat(h) @ p[2].T + p[3]) @ p[4].T + p[5], y[at])

    def made():
        step = _stepper(loss, _adam, weights, _adam_state(weights))
        return lambda at: step(x, y, at)

    step = made()

    def call():
        for at in rows:
            value = step(at)
        return float(value)

    def show():
        step = made()
        return np.array([float(step(at)) for at in rows[: P.COMPARED]])

    return call, show


def _adadelta(params, grads, state):
    rho, eps = P.KERAS["rho"], P.KERAS["eps"]
    squares = [rho * s + (1 - rho) * g * g for s, g in zip(state[0], grads, strict=True)]
    moves = [g * jnp.sqrt(d + eps) / jnp.sqrt(s + eps) for g, d, s in zip(grads, state[1], squares, strict=True)]
    deltas = [rho * d + (1 - rho) * m * m for d, m in zip(state[1], moves, strict=True)]
    return [p - P.KERAS["lr"] * m for p, m in zip(params, moves, strict=True)], (squares, deltas)


def keras() -> tuple[Callable, Callable]:
    images, labels = P.images(P.KERAS["batch"])
    x, y = jnp.asarray(images.transpose(0, 2, 3, 1)), jnp.asarray(labels.astype(np.int32))
    weights = [w.transpose(2, 3, 1, 0) if w.ndim == 4 else w for w in P.keras()]

    def dropped(key, h, p):
        return jnp.where(jax.random.bernoulli(key, 1 - p, h.shape), h / (1 - p), 0)

    def made(dropout: bool):
        def loss(p, x, y, key):
            one, two = jax.random.split(key)
            h = _pool(jax.nn.relu(_conv(jax.nn.relu(_conv(x, p[0], p[1], "VALID")), p[2], p[3], "VALID")))
            h = _flat(dropped(one, h, 0.25) if dropout else h)
            h = jax.nn.relu(h @ p[4].T + p[5])
            return _cross_entropy((dropped(two, h, 0.5) if dropout else h) @ p[6].T + p[7], y)

        zeros = [jnp.zeros(w.shape) for w in weights]
        step = _stepper(loss, _adadelta, weights, (zeros, [z + 0 for z in zeros]))
        keys = iter(jax.random.split(jax.random.key(0), 10_000))
        return lambda: float(step(x, y, next(keys)))

    def show():
        call = made(False)
        return np.array([call() for _ in range(P.COMPARED)])

    return made(True), show


def lorenz() -> tuple[Callable, Callable]:
    """The solve is lax.scan."""
    weights, u0, data = P.lorenz()
    u0, data, h = jnp.asarray(u0), jnp.asarray(data), 1.0 / P.LORENZ["steps"]

    def loss(p, u0, data):
        def f(u):
            return jnp.tanh(p[0] @ u + p[1]) @ p[2].T + p[3]

        def step(u, _):
            k1 = f(u)
            k2 = f(u + h / 2 * k1)
            k3 = f(u + h / 2 * k2)
            k4 = f(u + h * k3)
            u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return u, u

        points = lax.scan(step, u0, None, length=P.LORENZ["steps"])[1]
        return ((jnp.concatenate([u0[None], points]) - data) ** 2).sum()

    def update(params, grads, state):
        return _adam(params, grads, state, P.LORENZ["lr"])

    step = _stepper(loss, update, weights, _adam_state(weights))

    def call():
        return float(step(u0, data))

    return call, lambda: np.array([call() for _ in range(P.COMPARED)])

"""The optimizers in float64 NumPy, written from their papers: for each one array, all its gradients, all steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Steps = Iterator[np.ndarray]


def sgd(p, grads, lr, mu=0.0, dampening=0.0, nesterov=False) -> Steps:
    buffer = None
    for g in grads:
        if mu:
            buffer = g if buffer is None else mu * buffer + (1 - dampening) * g
            g = g + mu * buffer if nesterov else buffer
        p = p - lr * g
        yield p


def adagrad(p, grads, lr, eps, first=0.0) -> Steps:
    for t in range(1, len(grads) + 1):
        p = p - lr * grads[t - 1] / (np.sqrt(first + sum(g**2 for g in grads[:t])) + eps)
        yield p


def rmsprop(p, grads, lr, rho, eps, mu=0.0, centered=False) -> Steps:
    v, m, b = 0.0, 0.0, 0.0
    for g in grads:
        v = rho * v + (1 - rho) * g**2
        m = rho * m + (1 - rho) * g if centered else 0.0
        b = mu * b + g / (np.sqrt(v - m**2) + eps)
        p = p - lr * b
        yield p


def graves(p, grads, lr, rho, momentum, eps) -> Steps:
    n, mean, delta = 0.0, 0.0, 0.0
    for e in grads:
        n = rho * n + (1 - rho) * e**2
        mean = rho * mean + (1 - rho) * e
        delta = momentum * delta - lr * e / np.sqrt(n - mean**2 + eps)
        p = p + delta
        yield p


def adadelta(p, grads, lr, rho, eps) -> Steps:
    eg, ex = np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        eg = rho * eg + (1 - rho) * g**2
        dx = -(np.sqrt(ex + eps) / np.sqrt(eg + eps)) * g
        ex = rho * ex + (1 - rho) * dx**2
        p = p + lr * dx
        yield p


def smorms3(p, grads, lr, eps=1e-16) -> Steps:
    mem, m, v = 1.0, 0.0, 0.0
    for g in grads:
        r = 1 / (mem + 1)
        m = (1 - r) * m + r * g
        v = (1 - r) * v + r * g**2
        p = p - g * np.minimum(lr, m * m / (v + eps)) / (np.sqrt(v) + eps)
        mem = 1 + mem * (1 - m * m / (v + eps))
        yield p


def adam(p, grads, lr, b1=0.9, b2=0.999, eps=1e-8, wd=0.0, decoupled=0.0, amsgrad=False) -> Steps:
    m, v, top = 0.0, 0.0, 0.0
    for t, g in enumerate(grads, 1):
        g = g + wd * p
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = np.maximum(top, v) if amsgrad else v
        p = p - lr * ((m / (1 - b1**t)) / (np.sqrt(top / (1 - b2**t)) + eps) + decoupled * p)
        yield p


def adamax(p, grads, lr, b1, b2) -> Steps:
    m, u = 0.0, 0.0
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        u = np.maximum(b2 * u, np.abs(g))
        p = p - lr / (1 - b1**t) * m / u
        yield p


def nadam(p, grads, lr, b1, b2, eps, decay) -> Steps:
    m, v = 0.0, 0.0
    mu = [b1 * (1 - 0.5 * 0.96 ** (t * decay)) for t in range(1, len(grads) + 2)]
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        mean = mu[t] * m / (1 - np.prod(mu[: t + 1])) + (1 - mu[t - 1]) * g / (1 - np.prod(mu[:t]))
        p = p - lr * mean / (np.sqrt(v / (1 - b2**t)) + eps)
        yield p


def adabelief(p, grads, lr, b1, b2, eps) -> Steps:
    m, s = 0.0, 0.0
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * (g - m) ** 2 + eps
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(s / (1 - b2**t)) + eps)
        yield p


def adabound(p, grads, lr, final, gamma, b1=0.9, b2=0.999, eps=1e-8, ams=False) -> Steps:
    m, v, top = 0.0, 0.0, 0.0
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        top = np.maximum(top, v) if ams else v
        rate = lr * np.sqrt(1 - b2**t) / (1 - b1**t) / (np.sqrt(top) + eps)
        p = p - np.clip(rate, final * (1 - 1 / (gamma * t + 1)), final * (1 + 1 / (gamma * t))) * m
        yield p


def eve(p, grads, losses, lr, b1, b2, b3, eps, c, least) -> Steps:
    m, v, d, before = 0.0, 0.0, 1.0, np.nan
    for t, (g, f) in enumerate(zip(grads, losses, strict=True), 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        if t > 1:
            jump = abs(f - before) / (min(f, before) - least)
            d = b3 * d + (1 - b3) * np.clip(jump, 1 / c, c)
        before = f
        p = p - lr / d * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        yield p


def santa(p, grads, noise, u, lr, sigma, eps, anneal, burnin, c, n, splitting) -> Steps:
    """``u`` the first momentum, ``noise`` one array a step."""
    a, v, before = np.full_like(p, np.sqrt(lr) * c), 0.0, None
    for t, (f, z) in enumerate(zip(grads, noise, strict=True), 1):
        beta = t**anneal
        v = sigma * v + (1 - sigma) / n**2 * f * f
        g = 1 / np.sqrt(eps + np.sqrt(v))
        before = g if before is None else before
        inverse = np.where(u * u < 0.01 * lr / beta, u / (0.01 * lr / beta), 1 / u)
        kick = lr / beta * (1 - before / g) * inverse + np.sqrt(2 * lr / beta * before) * z
        if splitting:
            p = p + g * u / 2
            if t < burnin:
                a = a + (u * u - lr / beta) / 2
                u = np.exp(-a / 2) * u
                u = u - g * f * lr + kick
                u = np.exp(-a / 2) * u
                a = a + (u * u - lr / beta) / 2
            else:
                u = np.exp(-a / 2) * u
                u = u - g * f * lr
                u = np.exp(-a / 2) * u
            p = p + g * u / 2
        else:
            if t < burnin:
                a = a + (u * u - lr / beta)
            else:
                kick = 0.0
            u = kick + (1 - a) * u - lr * g * f
            p = p + g * u
        before = g
        yield p


def lion(p, grads, lr, b1, b2, wd) -> Steps:
    m = np.zeros_like(p)
    for g in grads:
        c = b1 * m + (1 - b1) * g
        p = p - lr * (np.sign(c) + wd * p)
        m = b2 * m + (1 - b2) * g
        yield p


def lamb(p, grads, lr, b1, b2, eps, wd) -> Steps:
    m, v = 0.0, 0.0
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        r = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + wd * p
        p = p - lr * np.linalg.norm(p) / np.linalg.norm(r) * r
        yield p


def sam(p: np.ndarray, slope: Callable[[np.ndarray], np.ndarray], steps: int, lr, rho, adaptive=False) -> Steps:
    """On one array with plain gradient steps."""
    for _ in range(steps):
        g = slope(p)
        climb = p**2 * g / np.linalg.norm(np.abs(p) * g) if adaptive else g / np.linalg.norm(g)
        p = p - lr * slope(p + rho * climb)
        yield p

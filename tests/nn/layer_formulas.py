"""The layers in NumPy, written from their papers and from PyTorch's documentation; tests run them in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

# ---- activations


sig = special.expit
_a, _s = 1.6732632423543772, 1.0507009873554805


# function -> (reference, settings, layer); settings are numbers that 16 bits hold exactly
ACTIVATIONS = {
    "step": (lambda x: np.where(x > 0, 1.0, 0.0), (), "Step"),
    "identity": (lambda x: x, (), "Identity"),
    "bent_identity": (lambda x: (np.sqrt(x * x + 1) - 1) / 2 + x, (), "BentIdentity"),
    "hardshrink": (lambda x: np.where(np.abs(x) > 0.75, x, 0), (0.75,), "Hardshrink"),
    "softshrink": (lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.75, 0), (0.75,), "Softshrink"),
    "threshold": (lambda x: np.where(x > 0.25, x, -4.0), (0.25, -4.0), "Threshold"),
    "sigmoid": (sig, (), "Sigmoid"),
    "hardsigmoid": (lambda x: np.clip(x / 6 + 0.5, 0, 1), (), "Hardsigmoid"),
    "logsigmoid": (lambda x: -np.logaddexp(0, -x), (), "LogSigmoid"),
    "tanh": (np.tanh, (), "Tanh"),
    "tanhshrink": (lambda x: x - np.tanh(x), (), "Tanhshrink"),
    "hardtanh": (lambda x: np.clip(x, -2.0, 1.5), (-2.0, 1.5), "Hardtanh"),
    "relu": (lambda x: np.maximum(x, 0), (), "ReLU"),
    "relu6": (lambda x: np.clip(x, 0, 6), (), "ReLU6"),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.25 * x), (0.25,), "LeakyReLU"),
    "elu": (lambda x: np.where(x > 0, x, 1.25 * np.expm1(np.minimum(x, 0))), (1.25,), "ELU"),
    "selu": (lambda x: _s * np.where(x > 0, x, _a * np.expm1(np.minimum(x, 0))), (), "SELU"),
    "celu": (lambda x: np.where(x > 0, x, 1.25 * np.expm1(np.minimum(x, 0) / 1.25)), (1.25,), "CELU"),
    "gelu": (lambda x: x * special.ndtr(x), (), "GELU"),
    "softplus": (lambda x: np.logaddexp(0, 2.5 * x) / 2.5, (2.5,), "Softplus"),
    "softsign": (lambda x: x / (1 + np.abs(x)), (), "Softsign"),
    "silu": (lambda x: x * sig(x), (), "SiLU"),
    "swish": (lambda x: x * sig(1.75 * x), (1.75,), "Swish"),
    "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), (), "Mish"),
    "tanhexp": (lambda x: x * np.tanh(np.exp(x)), (), "TanhExp"),
    "softmax": (lambda x: special.softmax(x, 1), (1,), "Softmax"),
    "softmin": (lambda x: special.softmax(-x, 1), (1,), "Softmin"),
    "log_softmax": (lambda x: special.log_softmax(x, 1), (1,), "LogSoftmax"),
}


# ---- convolutions


def conv(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * spatial)
    kernel = w.shape[2:]
    out = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], kernel, strict=True)]
    x, w = (a.reshape(s) for a, s in (
        (x, (x.shape[0], groups, -1, *x.shape[2:])), (w, (groups, -1, *w.shape[1:]))))
    y = 0
    for at in np.ndindex(*kernel):
        window = tuple(slice(p * dilation, p * dilation + (n - 1) * stride + 1, stride) for p, n in zip(at, out, strict=True))
        y = y + np.einsum("ngi...,goi->ngo...", x[(..., *window)], w[(..., *at)])
    return y.reshape((x.shape[0], -1, *out)) + b.reshape((-1,) + (1,) * spatial)


def conv_transpose(x, w, b, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    spatial = x.ndim - 2
    full = [(n - 1) * stride + dilation * (k - 1) + 1 + output_padding for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((x.shape[0], groups, w.shape[1], *full))
    xs, ws = x.reshape((x.shape[0], groups, -1, *x.shape[2:])), w.reshape((groups, -1, *w.shape[1:]))
    for at in np.ndindex(*w.shape[2:]):
        place = tuple(
            slice(p * dilation, p * dilation + (n - 1) * stride + 1, stride) for p, n in zip(at, x.shape[2:], strict=True))
        y[(..., *place)] += np.einsum("ngi...,gio->ngo...", xs, ws[(..., *at)])
    y = y.reshape((x.shape[0], -1, *full))
    y = y[(..., *(slice(padding, n - padding) for n in full))]
    return y + b.reshape((-1,) + (1,) * spatial)


# ---- pooling


def windows(x, k, stride, padding, fill):
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * spatial, constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(x, (k,) * spatial, tuple(range(2, x.ndim)))
    views = views[(..., *(slice(None, None, stride),) * spatial, *(slice(None),) * spatial)]
    return views.reshape((*views.shape[: x.ndim], -1))


def adaptive(x, out, fold):
    for axis, o in enumerate(out, 2):
        n = x.shape[axis]
        parts = [fold(np.take(x, range(i * n // o, -(-(i + 1) * n // o)), axis), axis=axis) for i in range(o)]
        x = np.stack(parts, axis)
    return x


# ---- normalisations


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def affine(y, w, b, shape=None):
    """``w`` and ``b`` one a channel, unless another shape is given."""
    shape = (1, -1) + (1,) * (y.ndim - 2) if shape is None else shape
    return y * w.reshape(shape) + b.reshape(shape)


# ---- recurrent layers


def cell(kind: str, x: np.ndarray, state: list, p: dict, name: str) -> list:
    h = state[0]
    gx, gh = x @ p[f"weight_ih_{name}"].T, h @ p[f"weight_hh_{name}"].T
    if f"bias_ih_{name}" in p:
        gx, gh = gx + p[f"bias_ih_{name}"], gh + p[f"bias_hh_{name}"]
    if kind == "RNN":
        return [np.tanh(gx + gh)]
    if kind == "LSTM":
        i, f, g, o = np.split(gx + gh, 4, axis=1)
        c = sig(f) * state[1] + sig(i) * np.tanh(g)
        return [sig(o) * np.tanh(c), c]
    (xr, xz, xn), (hr, hz, hn) = np.split(gx, 3, axis=1), np.split(gh, 3, axis=1)
    z = sig(xz + hz)
    return [(1 - z) * np.tanh(xn + sig(xr + hr) * hn) + z * h]


def recurrent(kind: str, x: np.ndarray, start: list, p: dict, layers: int, both: bool) -> tuple[np.ndarray, list]:
    """x (steps, batch, features), start: (layers * directions, batch, hidden) each."""
    last = []
    for layer in range(layers):
        parts = []
        for end in ("", "_reverse") if both else ("",):
            state = [s[len(last)] for s in start]
            y = np.zeros((*x.shape[:2], start[0].shape[2]))
            for t in range(len(x))[:: -1 if end else 1]:
                state = cell(kind, x[t], state, p, f"l{layer}{end}")
                y[t] = state[0]
            parts.append(y)
            last.append(state)
        x = np.concatenate(parts, axis=2)
    return x, [np.stack(s) for s in zip(*last, strict=True)]


# ---- attention


def softmax(s: np.ndarray) -> np.ndarray:
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attention(q, k, v, allowed: Any = True, bias: Any = 0.0, scale=None) -> np.ndarray:
    s = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return softmax(np.where(allowed, s, -np.inf)) @ v


def heads(layer: Any, q, k, v, w: dict[str, np.ndarray], allowed: Any = True, bias: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The layer in NumPy: (result, weights of each head)."""
    e, h = layer.embed_dim, layer.num_heads
    parts = np.split(w["in_proj_weight"], 3) if "in_proj_weight" in w else [w[f"{c}_proj_weight"] for c in "qkv"]
    biases = np.split(w["in_proj_bias"], 3) if "in_proj_bias" in w else [0.0] * 3
    q, k, v = (
        (x @ a.T + b).reshape(*x.shape[:2], h, e // h).swapaxes(1, 2) for x, a, b in zip((q, k, v), parts, biases, strict=True)
    )
    weights = softmax(np.where(allowed, q @ k.swapaxes(-1, -2) * (e // h) ** -0.5 + bias, -np.inf))
    out = (weights @ v).swapaxes(1, 2)
    return out.reshape(*out.shape[:2], e) @ w["out_proj.weight"].T + w.get("out_proj.bias", 0.0), weights

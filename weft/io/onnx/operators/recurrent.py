"""ONNX's recurrent operators: RNN, GRU and LSTM, each direction as one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.errors import DataError
from weft.io.onnx.operators.shapes import reverse_sequences
from weft.io.onnx.operators.table import Attributes, operator

Function = Callable[[Any], Any]
State = tuple[Any, ...]

_ACTIVATIONS: dict[str, Callable[[float | None, float | None], Function]] = {
    "relu": lambda a, b: lambda x: wf.maximum(x, 0),
    "tanh": lambda a, b: wf.tanh,
    "sigmoid": lambda a, b: lambda x: wf.nn.sigmoid(x),
    "affine": lambda a, b: lambda x: (1.0 if a is None else a) * x + (b or 0.0),
    "leakyrelu": lambda a, b: lambda x: wf.nn.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda a, b: lambda x: wf.where(x > (1.0 if a is None else a), x, 0),
    "scaledtanh": lambda a, b: lambda x: (1.0 if a is None else a) * wf.tanh((1.0 if b is None else b) * x),
    "hardsigmoid": lambda a, b: lambda x: wf.clip((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1),
    "elu": lambda a, b: lambda x: wf.nn.elu(x, 1.0 if a is None else a),
    "softsign": lambda a, b: lambda x: wf.nn.softsign(x),
    "softplus": lambda a, b: lambda x: wf.nn.softplus(x),
}
_WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _choose_functions(at: Attributes, default: tuple[str, ...], directions: int) -> list[tuple[Function, ...]]:
    """Return the activations of each direction."""
    names = [n.lower() for n in at.activations or default * directions]
    alphas, betas = iter(at.activation_alpha or ()), iter(at.activation_beta or ())
    made = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise DataError(f"the activation {name!r} is none of {', '.join(_ACTIVATIONS)}")
        a = next(alphas, None) if name in _WITH_ALPHA else None
        b = next(betas, None) if name in _WITH_BETA else None
        made.append(_ACTIVATIONS[name](a, b))
    count = len(default)
    return [tuple(made[k * count : (k + 1) * count]) for k in range(directions)]


def _recur(
    at: Attributes, default: tuple[str, ...], states: int, step: Callable[..., State], x: Any, w: Any, r: Any, bias: Any,
    lengths: Any, initial: State, extra: Any = None,
) -> Any:
    """Run a loop for each direction.

    step : ``step(functions, state, products with the input, recurrence weights, biases of the recurrence, peepholes)``
    """
    x, w, r = wf.asarray(x), wf.asarray(w), wf.asarray(r)
    if at.layout:
        x, initial = wf.swapaxes(x, 0, 1), tuple(None if s is None else wf.swapaxes(s, 0, 1) for s in initial)
    steps, batch = x.shape[:2]
    hidden, directions = r.shape[-1], w.shape[0]
    functions = _choose_functions(at, default, directions)
    if lengths is not None:
        lengths = wf.asarray(lengths).astype(np.int64)
    outputs, last = [], []
    for d in range(directions):
        backward = at.direction == "reverse" or d == 1
        own = x
        if backward:
            own = wf.flip(x, axis=0) if lengths is None else reverse_sequences(x, lengths, 1, 0)
        gates = w.shape[1] // hidden
        b_in, b_back = (wf.zeros(gates * hidden, dtype=x.dtype),) * 2 if bias is None else (
            bias[d, : gates * hidden], bias[d, gates * hidden :]
        )
        inputs = wf.matmul(own, w[d].T) + b_in
        start = tuple(wf.zeros((batch, hidden), dtype=x.dtype) if s is None else wf.asarray(s)[d] for s in initial)
        start += tuple(wf.zeros((batch, hidden), dtype=x.dtype) for _ in range(states - len(start)))
        peep = None if extra is None else extra[d]

        def one(
            state: State, row: tuple[Any, Any], d: int = d, b_back: Any = b_back, peep: Any = peep
        ) -> tuple[State, Any]:
            t, part = row
            new = step(functions[d], state, part, r[d], b_back, peep)
            if lengths is None:
                return new, new[0]
            alive = (t < lengths)[:, None]
            return tuple(wf.where(alive, a, b) for a, b in zip(new, state, strict=True)), wf.where(alive, new[0], 0)

        final, y = wf.scan(one, start, (wf.arange(steps), inputs))
        if backward:
            y = wf.flip(y, axis=0) if lengths is None else reverse_sequences(y, lengths, 1, 0)
        outputs.append(y)
        last.append(final)
    ys = wf.stack(outputs, axis=1)
    finals = [wf.stack(s) for s in zip(*last, strict=True)]
    if at.layout:
        ys, finals = wf.permute_dims(ys, (2, 0, 1, 3)), [wf.swapaxes(s, 0, 1) for s in finals]
    return ys, *finals


def _clip_gates(at: Attributes, x: Any) -> Any:
    return x if at.clip is None else wf.clip(x, -at.clip, at.clip)


@operator("RNN")
def _rnn(at: Attributes, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    def step(f: Any, state: State, part: Any, weight: Any, bias: Any, peep: Any) -> State:
        return (f[0](_clip_gates(at, part + wf.matmul(state[0], weight.T) + bias)),)

    activations = at.activations
    if activations and len(activations) > w.shape[0]:
        at.values["activations"] = activations[: w.shape[0]]
    return _recur(at, ("Tanh",), 1, step, x, w, r, b, lengths, (h,))


@operator("GRU")
def _gru(at: Attributes, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    def step(f: Any, state: State, part: Any, weight: Any, bias: Any, peep: Any) -> State:
        (old,), n = state, weight.shape[-1]
        both = f[0](_clip_gates(at, part[:, : 2 * n] + wf.matmul(old, weight[: 2 * n].T) + bias[: 2 * n]))
        z, reset = both[:, :n], both[:, n:]
        if at.linear_before_reset:
            back = reset * (wf.matmul(old, weight[2 * n :].T) + bias[2 * n :])
        else:
            back = wf.matmul(reset * old, weight[2 * n :].T) + bias[2 * n :]
        new = f[1](_clip_gates(at, part[:, 2 * n :] + back))
        return ((1 - z) * new + z * old,)

    return _recur(at, ("Sigmoid", "Tanh"), 1, step, x, w, r, b, lengths, (h,))


@operator("LSTM")
def _lstm(
    at: Attributes, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None, p: Any = None
) -> Any:
    def step(f: Any, state: State, part: Any, weight: Any, bias: Any, peep: Any) -> State:
        (old, cell), n = state, weight.shape[-1]
        i, o, forget, g = (
            (part + wf.matmul(old, weight.T) + bias)[:, k * n : (k + 1) * n] for k in range(4)
        )
        if peep is not None:
            i, forget = i + peep[:n] * cell, forget + peep[2 * n :] * cell
        i = f[0](_clip_gates(at, i))
        forget = 1 - i if at.input_forget else f[0](_clip_gates(at, forget))
        cell = forget * cell + i * f[1](_clip_gates(at, g))
        if peep is not None:
            o = o + peep[n : 2 * n] * cell
        return f[0](_clip_gates(at, o)) * f[2](cell), cell

    return _recur(at, ("Sigmoid", "Tanh", "Tanh"), 2, step, x, w, r, b, lengths, (h, c), p)

"""Nets written out in NumPy, forward and backward by hand, as textbooks and courses write them.

A program is (step, show), as in ``eager_small.py``. Losses are looked at where the originals print them or test them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from eager_libraries import Library, put
from eager_small import Program

VOCABULARY, HIDDEN, LENGTH = 65, 100, 25  # of the character RNN
WORDS, WIDE, BATCH, STEPS = 10_000, 100, 20, 35  # of the LSTM language model
POINTS, CLASSES = 100, 3  # of the spirals
SHOWN, COMPARED = 1000, 200  # how often the two-layer net's loss is printed, and a step at which it is compared


def character_rnn(lib: Library) -> Program:
    """A plain RNN over characters: 25 steps forward and back, clipped gradients, Adagrad."""
    xp, r = lib.xp, np.random.default_rng(51)
    text = r.integers(0, VOCABULARY, 10_000).tolist()
    shapes = ((HIDDEN, VOCABULARY), (HIDDEN, HIDDEN), (VOCABULARY, HIDDEN), (HIDDEN, 1), (VOCABULARY, 1))
    params = [lib.array((0.01 * r.standard_normal(s) * (s[1] > 1)).astype(np.float32)) for s in shapes]
    mems = [xp.zeros_like(p) for p in params]
    state, losses = [xp.zeros((HIDDEN, 1), dtype=xp.float32)], []

    def loss_and_gradients(inputs: list[int], targets: list[int], hprev: Any) -> tuple[Any, list, Any]:
        wxh, whh, why, bh, by = params
        xs, hs, ps, loss = {}, {-1: xp.copy(hprev)}, {}, 0
        for t in range(len(inputs)):
            xs[t] = put(lib, xp.zeros((VOCABULARY, 1), dtype=xp.float32), inputs[t], 1)
            hs[t] = xp.tanh(wxh @ xs[t] + whh @ hs[t - 1] + bh)
            y = why @ hs[t] + by
            ps[t] = xp.exp(y) / xp.sum(xp.exp(y))
            loss += -xp.log(ps[t][targets[t], 0])
        dwxh, dwhh, dwhy, dbh, dby = (xp.zeros_like(p) for p in params)
        dhnext = xp.zeros_like(hs[0])
        for t in reversed(range(len(inputs))):
            dy = xp.copy(ps[t])
            dy = put(lib, dy, targets[t], dy[targets[t]] - 1)
            dwhy += dy @ hs[t].T
            dby += dy
            dh = why.T @ dy + dhnext
            dhraw = (1 - hs[t] * hs[t]) * dh
            dbh += dhraw
            dwxh += dhraw @ xs[t].T
            dwhh += dhraw @ hs[t - 1].T
            dhnext = whh.T @ dhraw
        return loss, [xp.clip(d, -5, 5) for d in (dwxh, dwhh, dwhy, dbh, dby)], hs[len(inputs) - 1]

    def step(k: int) -> None:
        at = k * LENGTH
        loss, grads, state[0] = loss_and_gradients(text[at : at + LENGTH], text[at + 1 : at + LENGTH + 1], state[0])
        for j, grad in enumerate(grads):
            mems[j] += grad * grad
            params[j] += -0.1 * grad / xp.sqrt(mems[j] + 1e-8)
        losses.append(float(loss))
        lib.look(params, mems, state)

    return step, lambda: losses[:5]  # Adagrad's first steps go by the signs of gradients, so rounding grows


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


def lstm_language_model(lib: Library) -> Program:
    """Embedding, LSTM step by step, affine and softmax; the gradient's norm clipped, plain steepest descent."""
    xp, r = lib.xp, np.random.default_rng(52)
    scaled = (((WORDS, WIDE), 0.01), ((WIDE, 4 * WIDE), 0.1), ((WIDE, 4 * WIDE), 0.1), ((4 * WIDE,), 0.0),
              ((WIDE, WORDS), 0.1), ((WORDS,), 0.0))
    params = [lib.array((r.standard_normal(shape) * scale).astype(np.float32)) for shape, scale in scaled]
    text = r.integers(0, WORDS, (BATCH, 20 * STEPS + 1))
    carried = [xp.zeros((BATCH, WIDE), dtype=xp.float32) for _ in range(2)]
    losses, h4 = [], (slice(0, WIDE), slice(WIDE, 2 * WIDE), slice(2 * WIDE, 3 * WIDE), slice(3 * WIDE, 4 * WIDE))

    def forward(xs: Any) -> tuple[Any, list]:
        _, wx, wh, b, _, _ = params
        h, c = carried
        hs, tape = xp.zeros((BATCH, STEPS, WIDE), dtype=xp.float32), []
        for t in range(STEPS):
            x = xs[:, t, :]
            a = x @ wx + h @ wh + b
            f, g, i, o = a[:, h4[0]], a[:, h4[1]], a[:, h4[2]], a[:, h4[3]]
            f, g, i, o = _sigmoid(xp, f), xp.tanh(g), _sigmoid(xp, i), _sigmoid(xp, o)
            c_next = f * c + g * i
            h_next = o * xp.tanh(c_next)
            tape.append((x, h, c, i, f, g, o, c_next))
            h, c = h_next, c_next
            hs = put(lib, hs, (slice(None), t, slice(None)), h)
        carried[:] = [h, c]
        return hs, tape

    def backward(dhs: Any, tape: list) -> tuple[Any, Any, Any, Any]:
        _, wx, wh, b, _, _ = params
        dwx, dwh, db = xp.zeros_like(wx), xp.zeros_like(wh), xp.zeros_like(b)
        dxs = xp.zeros((BATCH, STEPS, WIDE), dtype=xp.float32)
        dh, dc = 0, 0
        for t in reversed(range(STEPS)):
            x, h_prev, c_prev, i, f, g, o, c_next = tape[t]
            dh = dhs[:, t, :] + dh
            tanh_c = xp.tanh(c_next)
            ds = dc + (dh * o) * (1 - tanh_c**2)
            dc = ds * f
            di, df, do, dg = ds * g, ds * c_prev, dh * tanh_c, ds * i
            da = xp.hstack((df * f * (1 - f), dg * (1 - g**2), di * i * (1 - i), do * o * (1 - o)))
            dwh += h_prev.T @ da
            dwx += x.T @ da
            db += da.sum(axis=0)
            dxs = put(lib, dxs, (slice(None), t, slice(None)), da @ wx.T)
            dh = da @ wh.T
        return dwx, dwh, db, dxs

    def step(k: int) -> None:
        tokens = lib.array(text[:, k * STEPS : (k + 1) * STEPS])
        targets = lib.array(text[:, k * STEPS + 1 : (k + 1) * STEPS + 1].reshape(-1))
        embed, _, _, _, w, b = params
        hs, tape = forward(embed[tokens])
        flat = hs.reshape(-1, WIDE)
        scores = flat @ w + b
        y = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        y /= y.sum(axis=1, keepdims=True)
        rows, count = xp.arange(BATCH * STEPS), BATCH * STEPS
        loss = -xp.sum(xp.log(y[rows, targets])) / count
        dy = put(lib, y, (rows, targets), y[rows, targets] - 1) / count
        dwx, dwh, db, dxs = backward((dy @ w.T).reshape(BATCH, STEPS, WIDE), tape)
        dembed = lib.add_at(xp.zeros_like(embed), tokens.reshape(-1), dxs.reshape(-1, WIDE))
        grads = [dembed, dwx, dwh, db, flat.T @ dy, dy.sum(axis=0)]
        rate = 0.25 / (float(sum((g**2).sum() for g in grads)) ** 0.5 + 1e-6)
        for j, grad in enumerate(grads):
            params[j] -= 20.0 * (grad * rate if rate < 1 else grad)
        losses.append(float(loss))
        lib.look(params, carried)

    return step, lambda: losses


def two_layers(lib: Library) -> Program:
    """A net of two layers on three spirals, the right scores by index arrays, as the course has it."""
    return _two_layers(lib, False)


def two_layers_one_hot(lib: Library) -> Program:
    """The same with the labels as rows of zeros and a one, so that nothing is written by index."""
    return _two_layers(lib, True)


def _two_layers(lib: Library, one_hot: bool) -> Program:
    """Its loss is looked at once in a thousand steps, as the course prints it, and its weights when they are trained."""
    xp, r, n = lib.xp, np.random.default_rng(53), POINTS * CLASSES
    radius = np.tile(np.linspace(0.0, 1.0, POINTS), CLASSES)
    labels = np.repeat(np.arange(CLASSES), POINTS)
    angle = 4.0 * (labels + radius) + 0.2 * r.standard_normal(n)
    x = lib.array(np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1).astype(np.float32))
    y, rows, targets = lib.array(labels), xp.arange(n), lib.array(np.eye(CLASSES, dtype=np.float32)[labels])
    params = [lib.array((0.01 * r.standard_normal(s)).astype(np.float32)) for s in ((2, 100), (100, CLASSES))]
    params += [xp.zeros((1, s), dtype=xp.float32) for s in (100, CLASSES)]
    losses = []

    def step(k: int) -> None:
        w, w2, b, b2 = params
        hidden = xp.maximum(0, x @ w + b)
        exp_scores = xp.exp(hidden @ w2 + b2)
        probs = exp_scores / xp.sum(exp_scores, axis=1, keepdims=True)
        data_loss = -xp.sum(targets * xp.log(probs)) / n if one_hot else xp.sum(-xp.log(probs[rows, y])) / n
        loss = data_loss + 0.5e-3 * xp.sum(w * w) + 0.5e-3 * xp.sum(w2 * w2)
        if k % SHOWN == 0 or k == COMPARED:
            losses.append(float(loss))
        dscores = probs - targets if one_hot else put(lib, probs, (rows, y), probs[rows, y] - 1)
        dscores /= n
        dw2 = hidden.T @ dscores
        db2 = xp.sum(dscores, axis=0, keepdims=True)
        dhidden = dscores @ w2.T
        dhidden = put(lib, dhidden, hidden <= 0, 0)
        dw = x.T @ dhidden
        db = xp.sum(dhidden, axis=0, keepdims=True)
        dw2 += 1e-3 * w2
        dw += 1e-3 * w
        for j, grad in enumerate((dw, dw2, db, db2)):
            params[j] += -1.0 * grad
        if k % SHOWN == SHOWN - 1:
            lib.look(params)

    return step, lambda: losses[:2]  # steps of 1.0 make rounding grow: later ones may differ in the third digit

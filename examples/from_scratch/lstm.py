"""An LSTM step by step: forward and backward through time by hand, trained to continue a wave."""
import random

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class LSTM:
    """One step in time. x: (N, D), h and c: (N, H)."""

    def __init__(self, Wx, Wh, b):
        self.params = [Wx, Wh, b]
        self.grads = [np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(b)]
        self.cache = None

    def forward(self, x, h_prev, c_prev):
        Wx, Wh, b = self.params
        N, H = h_prev.shape
        A = np.dot(x, Wx) + np.dot(h_prev, Wh) + b
        f = sigmoid(A[:, :H])
        g = np.tanh(A[:, H:2 * H])
        i = sigmoid(A[:, 2 * H:3 * H])
        o = sigmoid(A[:, 3 * H:])
        c_next = f * c_prev + g * i
        h_next = o * np.tanh(c_next)
        self.cache = (x, h_prev, c_prev, i, f, g, o, c_next)
        return h_next, c_next

    def backward(self, dh_next, dc_next):
        Wx, Wh, b = self.params
        x, h_prev, c_prev, i, f, g, o, c_next = self.cache
        tanh_c_next = np.tanh(c_next)
        ds = dc_next + (dh_next * o) * (1 - tanh_c_next**2)
        dc_prev = ds * f
        di = ds * g * i * (1 - i)
        df = ds * c_prev * f * (1 - f)
        do = dh_next * tanh_c_next * o * (1 - o)
        dg = ds * i * (1 - g**2)
        dA = np.hstack((df, dg, di, do))
        self.grads[0][...] = np.dot(x.T, dA)
        self.grads[1][...] = np.dot(h_prev.T, dA)
        self.grads[2][...] = dA.sum(axis=0)
        return np.dot(dA, Wx.T), np.dot(dA, Wh.T), dc_prev


class TimeLSTM:
    def __init__(self, Wx, Wh, b):
        self.params = [Wx, Wh, b]
        self.grads = [np.zeros_like(p) for p in self.params]

    def forward(self, xs):
        Wx, Wh, b = self.params
        N, T, D = xs.shape
        H = Wh.shape[0]
        self.layers = []
        hs = np.empty((N, T, H), dtype="f")
        h, c = np.zeros((N, H), dtype="f"), np.zeros((N, H), dtype="f")
        for t in range(T):
            layer = LSTM(*self.params)
            h, c = layer.forward(xs[:, t, :], h, c)
            hs[:, t, :] = h
            self.layers.append(layer)
        return hs

    def backward(self, dhs):
        N, T, H = dhs.shape
        dxs = np.empty((N, T, self.params[0].shape[0]), dtype="f")
        dh, dc = 0, 0
        grads = [0, 0, 0]
        for t in reversed(range(T)):
            dx, dh, dc = self.layers[t].backward(dhs[:, t, :] + dh, dc)
            dxs[:, t, :] = dx
            for i, grad in enumerate(self.layers[t].grads):
                grads[i] += grad
        for i, grad in enumerate(grads):
            self.grads[i][...] = grad
        return dxs


def clip_grads(grads, max_norm):
    total_norm = 0
    for grad in grads:
        total_norm += np.sum(grad**2)
    total_norm = np.sqrt(total_norm)
    rate = max_norm / (total_norm + 1e-6)
    if rate < 1:
        for grad in grads:
            grad *= rate
    return total_norm


def main(n=8, steps=12, hidden=10, epochs=60, lr=0.5):
    random.seed(4)

    def randn(*shape):
        return np.array([[random.gauss(0, 1) for _ in range(shape[1])] for _ in range(shape[0])]).astype("f")

    phase = np.linspace(0, 2 * np.pi, n, endpoint=False)[:, np.newaxis]
    wave = np.sin(phase + 0.5 * np.arange(steps + 1))
    xs, ts = wave[:, :-1, None].astype("f"), wave[:, 1:]

    lstm = TimeLSTM(randn(1, 4 * hidden), randn(hidden, 4 * hidden) / np.sqrt(hidden), np.zeros(4 * hidden).astype("f"))
    W, b = randn(hidden, 1) / np.sqrt(hidden), np.zeros(1, dtype="f")
    losses, norms = [], []
    for epoch in range(epochs):
        hs = lstm.forward(xs)
        ys = (hs.reshape(n * steps, hidden) @ W + b).reshape(n, steps)
        error = ys - ts
        losses.append((error**2).mean())
        dys = (2 * error / error.size).reshape(-1, 1)
        dW, db = hs.reshape(n * steps, hidden).T @ dys, dys.sum(axis=0)
        lstm.backward((dys @ W.T).reshape(hs.shape))
        norms.append(clip_grads(lstm.grads + [dW, db], 0.25))
        for param, grad in zip(lstm.params + [W, b], lstm.grads + [dW, db]):
            param -= (lr * grad).astype("f")
        if (epoch + 1) % 20 == 0:
            print("| epoch %d | loss %.4f | gradient's norm %.3f" % (epoch + 1, losses[-1], norms[-1]))

    h, c = np.zeros((1, hidden)), np.zeros((1, hidden))
    cell, x, continued = LSTM(*lstm.params), xs[:1, 0], []
    for _ in range(5):
        h, c = cell.forward(x, h, c)
        x = h @ W + b
        continued.append(x.item())
    print("goes on with", np.round(continued, 2))
    return {"losses": np.array(losses), "norms": np.array(norms), "Wh": lstm.params[1], "ys": ys, "continued": continued}


if __name__ == "__main__":
    main()

"""Attention from scratch: positions, a causal mask, several heads, and one head trained to look where it should."""
import random

import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, gamma, beta, eps=1e-5):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def positional_encoding(length, d_model):
    position = np.arange(length)[:, None]
    div_term = np.exp(np.arange(0, d_model, 2) * -(np.log(10000.0) / d_model))
    pe = np.zeros((length, d_model))
    pe[:, 0::2] = np.sin(position * div_term)
    pe[:, 1::2] = np.cos(position * div_term)
    return pe


def attention(q, k, v, mask=None):
    scores = np.einsum("...qd,...kd->...qk", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    weights = softmax(scores)
    return weights @ v, weights


def multi_head(x, w_qkv, w_out, n_head):
    """x: (T, E)."""
    causal = np.tril(np.ones((len(x), len(x)), dtype=bool))
    q, k, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = [np.array(np.split(a, n_head, axis=-1)) for a in (q, k, v)]
    out, weights = attention(q, k, v, causal)
    return np.hstack(list(out)) @ w_out, weights


def block(x, p, n_head):
    a, weights = multi_head(layer_norm(x, 1, 0), p["qkv"], p["out"], n_head)
    x = x + a
    return x + gelu(layer_norm(x, 1, 0) @ p["fc"]) @ p["proj"], weights


def train_lookup(tokens, d, steps, lr, randn):
    """A head that learns to find the same token in a list: targets are the values beside the keys."""
    keys = randn(tokens, d)
    values = np.eye(tokens)
    wq, wk = 0.1 * randn(d, d), 0.1 * randn(d, d)
    losses = []
    for _ in range(steps):
        q, k = keys @ wq, keys @ wk
        out, a = attention(q, k, values)
        losses.append(-np.log(out[np.diag_indices(tokens)]).mean())
        dout = -values / np.maximum(out, 1e-9) / tokens
        da = dout @ values.T
        ds = a * (da - np.sum(da * a, axis=1, keepdims=True)) / np.sqrt(d)
        dwq, dwk = keys.T @ (ds @ k), keys.T @ (ds.T @ q)
        wq, wk = wq - lr * dwq, wk - lr * dwk
    return np.array(losses), a


def main(length=12, d_model=32, n_head=4, blocks=2, tokens=6, steps=60):
    random.seed(5)

    def randn(*shape):
        return np.array([random.gauss(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape)

    pe = positional_encoding(length, d_model)
    x = randn(length, d_model) + pe
    for _ in range(blocks):
        p = {
            "qkv": randn(d_model, 3 * d_model) / np.sqrt(d_model), "out": randn(d_model, d_model) / np.sqrt(d_model),
            "fc": randn(d_model, 4 * d_model) / np.sqrt(d_model), "proj": randn(4 * d_model, d_model) / np.sqrt(4 * d_model),
        }
        x, weights = block(x, p, n_head)
    logits = layer_norm(x, 1, 0) @ randn(d_model, tokens)
    prediction = logits.argmax(-1)
    print("weights of head 0, last position:", weights[0, -1].round(2))
    print("predicted tokens:", prediction.tolist())

    losses, looked = train_lookup(tokens, d_model // 2, steps, 0.1, randn)
    print(f"lookup: loss {losses[0]:.3f} -> {losses[-1]:.3f}; looks at", np.argmax(looked, axis=1))
    return {
        "positions": pe, "weights": weights, "future": np.abs(np.triu(weights, 1)).max(), "logits": logits,
        "losses": losses, "looked": looked,
    }


if __name__ == "__main__":
    main()

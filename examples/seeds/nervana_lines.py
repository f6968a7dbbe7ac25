"""nervanagpu's lines in weft: a matrix product, a variance and a batch normalisation, each one kernel.

    python examples/seeds/nervana_lines.py

``A[:] = expression`` writes in place, and nothing runs before it is looked at. Batches lie along the last axis, as there.
The timings of its layer classes are ``weft bench convnets``.
"""

from __future__ import annotations

import numpy as np

import weft as wf


def gemm(a: wf.Array, b: wf.Array) -> wf.Array:
    """ng.dot(devA.T, devB, devC, relu=True)"""
    return wf.maximum(wf.dot(a.T, b), 0)


def variance(a: wf.Array) -> wf.Array:
    """devC[:] = ng.mean(ng.square(devA - ng.mean(devA, axis=1)), axis=1)"""
    return wf.mean(wf.square(a - wf.mean(a, axis=1, keepdims=True)), axis=1, keepdims=True)


def batch_norm(x: wf.Array, gamma: wf.Array, beta: wf.Array, eps: float = 1e-3) -> wf.Array:
    """The reciprocal's order of words is not needed here: a division and a variance may stand where they belong."""
    return gamma * (x - x.mean(axis=1, keepdims=True)) / wf.sqrt(x.var(axis=1, keepdims=True) + eps) + beta


def main(dtype: str = "float32", k: int = 1024, m: int = 512, n: int = 256) -> list[wf.tools.explain.Explanation]:
    """Returns what ``wf.explain`` found, one a line."""
    host = np.random.default_rng(0).standard_normal
    dev_a = wf.asarray(host((k, m)).astype("f")).astype(dtype)
    dev_b = wf.asarray(host((k, n)).astype("f")).astype(dtype)
    gamma, beta = (wf.asarray(host((k, 1)).astype("f")).astype(dtype) for _ in range(2))

    dev_c = wf.empty((m, n), dtype=dtype)
    dev_c[:] = gemm(dev_a, dev_b)
    print("product: ", dev_c.numpy()[0, :3])

    dev_v = wf.empty((k, 1), dtype=dtype)
    dev_v[:] = variance(dev_a)
    print("variance:", dev_v.numpy()[:3, 0])

    dev_a[:] = batch_norm(dev_a, gamma, beta)
    print("normed:  ", dev_a.numpy()[0, :3])

    return [
        wf.explain(gemm, dev_a, dev_b), wf.explain(variance, dev_a), wf.explain(batch_norm, dev_a, gamma, beta),
    ]


if __name__ == "__main__":
    main()

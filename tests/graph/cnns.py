"""Random convolutional nets in 16-bit formats, as graphs: forward passes, and gradients by images and all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.graph.node import Graph

CONVOLUTION = {1: wf.nn.conv1d, 2: wf.nn.conv2d, 3: wf.nn.conv3d}
TRANSPOSED = {1: wf.nn.conv_transpose1d, 2: wf.nn.conv_transpose2d, 3: wf.nn.conv_transpose3d}
MAXIMA = {1: wf.nn.max_pool1d, 2: wf.nn.max_pool2d, 3: wf.nn.max_pool3d}
MEANS = {1: wf.nn.avg_pool1d, 2: wf.nn.avg_pool2d, 3: wf.nn.avg_pool3d}
OTHERS = ["transposed", "norm", "relu", "maximum", "mean", "residual", "scale"]
CHANNELS = (1, 3, 4, 8, 12, 16)
Layer = Callable[[Any, list[Any]], Any]


class Net:
    """Layers that take arrays and the list of weights; ``given``: shapes of the images and of the weights, in float32."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rank = int(rng.choice([1, 2, 2, 2, 3]))
        self.dtype = str(rng.choice(["float16", "bfloat16"]))
        self.master = bool(rng.integers(2))  # weights are float32, and cast
        most = {1: 17, 2: 8, 3: 5}[self.rank]
        self.size = tuple(int(n) for n in rng.integers(3, most + 1, self.rank))
        self.shapes: list[tuple[int, ...]] = [(int(rng.integers(1, 4)), int(rng.choice(CHANNELS)), *self.size)]
        self.words: list[str] = []
        self.layers: list[Layer] = []
        self.channels = self.shapes[0][1]
        for _ in range(int(rng.integers(2, 6))):
            self.add(str(rng.choice(["convolution"] * len(OTHERS) + OTHERS)))
        if rng.integers(3) == 0:
            self.flatten()

    def weight(self, *shape: int) -> int:
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def add(self, word: str) -> None:
        getattr(self, word)()
        self.words.append(word)

    def convolution(self) -> None:
        rng, c, out = self.rng, self.channels, int(self.rng.choice(CHANNELS))
        window = tuple(int(min(k, n)) for k, n in zip(rng.choice([1, 2, 3], self.rank), self.size, strict=True))
        stride, padding = int(rng.choice([1, 1, 2])), tuple(int(min(k // 2, 1)) for k in window)
        groups = int(rng.choice([g for g in (1, 1, 2, 4, c) if c % g == 0 and out % g == 0]))
        w, bias = self.weight(out, c // groups, *window), self.weight(out) if rng.integers(2) else None
        relu = bool(rng.integers(2))
        f = CONVOLUTION[self.rank]

        def layer(x: Any, ws: list[Any]) -> Any:
            y = f(x, ws[w], None if bias is None else ws[bias], stride=stride, padding=padding, groups=groups)
            return wf.nn.relu(y) if relu else y

        self.layers.append(layer)
        self.channels = out
        self.size = tuple((n + 2 * p - k) // stride + 1 for n, k, p in zip(self.size, window, padding, strict=True))

    def transposed(self) -> None:
        out, stride = int(self.rng.choice(CHANNELS)), int(self.rng.choice([1, 2]))
        window = tuple(int(k) for k in self.rng.choice([2, 3], self.rank))
        w, f = self.weight(self.channels, out, *window), TRANSPOSED[self.rank]
        self.layers.append(lambda x, ws: f(x, ws[w], stride=stride))
        self.channels = out
        self.size = tuple((n - 1) * stride + k for n, k in zip(self.size, window, strict=True))

    def norm(self) -> None:
        axes, ones = (0, *range(2, self.rank + 2)), (1,) * self.rank
        scale, shift = self.weight(self.channels), self.weight(self.channels)

        def layer(x: Any, ws: list[Any]) -> Any:
            y = wf.astype(x, "float32")
            y = (y - y.mean(axis=axes, keepdims=True)) / wf.sqrt(y.var(axis=axes, keepdims=True) + 0.1)
            one, other = (wf.astype(ws[k], "float32").reshape(1, -1, *ones) for k in (scale, shift))
            return wf.astype(y * one + other, self.dtype)

        self.layers.append(layer)

    def relu(self) -> None:
        self.layers.append(lambda x, ws: wf.nn.relu(x))

    def scale(self) -> None:
        self.layers.append(lambda x, ws: wf.tanh(x) * 2)

    def maximum(self) -> None:
        self._pool(MAXIMA[self.rank])

    def mean(self) -> None:
        self._pool(MEANS[self.rank])

    def _pool(self, f: Callable[..., Any]) -> None:
        window, stride = (int(n) for n in self.rng.integers(1, 4, 2))
        window = min(window, *self.size)
        self.layers.append(lambda x, ws: f(x, window, stride=stride))
        self.size = tuple((n - window) // stride + 1 for n in self.size)

    def residual(self) -> None:
        w, f = self.weight(self.channels, self.channels, *(3,) * self.rank), CONVOLUTION[self.rank]
        self.layers.append(lambda x, ws: x + wf.nn.relu(f(x, ws[w], padding=1)))

    def flatten(self) -> None:
        n = self.channels * int(np.prod(self.size))
        w = self.weight(5, n)
        self.layers.append(lambda x, ws: wf.nn.linear(x.reshape(x.shape[0], -1), ws[w]))
        self.words.append("flatten")

    def __call__(self, x: Any, *given: Any) -> Any:
        ws = [wf.astype(w, self.dtype) for w in (x, *given)]
        y = ws[0]
        for layer in self.layers:
            y = layer(y, ws)
        return y

    def graph(self, gradient: bool) -> tuple[Graph, list[np.ndarray]]:
        """The graph of the net, or of its derivatives, and numbers for its inputs."""
        form = "float32" if self.master else self.dtype
        arrays = [self.rng.standard_normal(s) / np.sqrt(max(1, np.prod(s[1:]))) for s in self.shapes]
        given = [wf.array(a.astype(np.float32)).astype(form) for a in arrays]
        forward = wf.jit(lambda *given: self(*given)).trace(*given).graph
        if not gradient:
            return forward, [np.array(a.numpy()) for a in given]
        cotangent = wf.array(self.rng.standard_normal(forward.outputs[0].shape).astype(np.float32))

        def loss(cotangent: Any, *given: Any) -> Any:
            return (wf.astype(self(*given), "float32") * cotangent).sum()

        slopes = wf.jit(wf.grad(loss, tuple(range(1, 1 + len(given)))))
        return slopes.trace(cotangent, *given).graph, [np.array(a.numpy()) for a in (cotangent, *given)]

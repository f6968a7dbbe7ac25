"""Training steps dominated by kernel launches: a net of 3-100-3 and a transformer, compared with the CPU and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import told
from benchmarks.gpu.setting import Rows, Setting, normal

TOLERANCE = 1e-3  # relative error of the losses of three steps
RATE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Sizes of the transformer."""

    batch: int = 16
    length: int = 256
    width: int = 512
    heads: int = 8
    blocks: int = 4


TINY = Sizes(1, 5, 8, 2, 1)


def rows(setting: Setting) -> Rows:
    """Yield rows for the small net with two batch sizes, then for the transformer."""
    for batch in (1, 101):
        yield f"3-100-3, batch {batch}", lambda batch=batch: _small(setting, batch)  # type: ignore[misc]
    yield "transformer", lambda: _transformer(setting, TINY if setting.quick else Sizes())


# ---- 3-100-3


def small_weights() -> list[np.ndarray]:
    return [normal((100, 3), 1) * 0.5, np.zeros(100, np.float32), normal((3, 100), 2) * 0.1, np.zeros(3, np.float32)]


def _small(setting: Setting, batch: int) -> dict[str, Any]:
    def loss(x: Any, y: Any, lib: Any, w: Any) -> Any:
        out = lib.tanh(x @ w[0].T + w[1]) @ w[2].T + w[3] - y
        return (out * out).mean()

    data = (normal((batch, 3), 3), normal((batch, 3), 4))
    return _measure(setting, loss, small_weights(), data)


# ---- a transformer


def transformer_weights(sizes: Sizes) -> list[np.ndarray]:
    """Return, for each block, the weights of query, key and value together, of the output, and two of the feed-forward layer."""
    d, weights = sizes.width, []
    for k in range(sizes.blocks):
        for part, shape in enumerate(((3 * d, d), (d, d), (4 * d, d), (d, 4 * d))):
            weights.append(normal(shape, 10 * k + part) / np.float32(np.sqrt(shape[1])))
    return weights


def _transformer(setting: Setting, sizes: Sizes) -> dict[str, Any]:
    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / ((centred * centred).mean(-1, keepdims=True) + 1e-5) ** 0.5

    def block(x: Any, lib: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
        b, length, d = x.shape
        heads = (norm(x) @ qkv.T).reshape((b, length, 3, sizes.heads, d // sizes.heads))
        q, k, v = (lib.transpose(heads[:, :, i]) for i in range(3))
        x = x + lib.transpose(lib.attention(q, k, v)).reshape((b, length, d)) @ out.T
        return x + lib.relu(norm(x) @ up.T) @ down.T

    def loss(x: Any, y: Any, lib: Any, w: Any) -> Any:
        for k in range(sizes.blocks):
            x = block(x, lib, *w[4 * k : 4 * k + 4])
        return ((x - y) * (x - y)).mean()

    shape = (sizes.batch, sizes.length, sizes.width)
    return _measure(setting, loss, transformer_weights(sizes), (normal(shape, 5), normal(shape, 6)))


# ---- both


class _Weft:
    tanh, relu = staticmethod(wf.tanh), staticmethod(wf.nn.relu)

    @staticmethod
    def transpose(x: Any) -> Any:
        return x.swapaxes(1, 2)

    @staticmethod
    def attention(q: Any, k: Any, v: Any) -> Any:
        return wf.nn.scaled_dot_product_attention(q, k, v, is_causal=True)


def _torch_words(torch: Any) -> Any:
    class Words:
        tanh, relu = torch.tanh, torch.relu

        @staticmethod
        def transpose(x: Any) -> Any:
            return x.transpose(1, 2)

        @staticmethod
        def attention(q: Any, k: Any, v: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Words


class Net(wf.nn.Module):
    """Module with a list of weights."""

    def __init__(self, weights: list[np.ndarray]) -> None:
        super().__init__()
        self.weights = [wf.array(w) for w in weights]


def _stepper(loss: Callable[..., Any], weights: list[np.ndarray], data: tuple[np.ndarray, ...], device: str) -> Callable[[], Any]:
    """Return a function that does a step of Adam on a device."""
    net = Net(weights)
    optimizer = wf.optim.Adam(RATE).init(net)
    x, y = (wf.array(a) for a in data)

    @wf.jit
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        value, slope = wf.value_and_grad(lambda net: loss(x, y, _Weft, net.weights))(net)
        optimizer.update(net, slope)
        return value

    def run() -> Any:
        with wf.device(device):
            return step(net, optimizer, x, y)

    return run


def _measure(
    setting: Setting, loss: Callable[..., Any], weights: list[np.ndarray], data: tuple[np.ndarray, ...],
) -> dict[str, Any]:
    on_device, on_cpu = (_stepper(loss, weights, data, device) for device in (setting.device, "cpu"))
    before = setting.launches
    losses = [float(on_device()) for _ in range(3)]
    started = (setting.launches - before) // 3
    want = [float(on_cpu()) for _ in range(3)]
    off = max(abs(a - b) / abs(b) for a, b in zip(losses, want, strict=True))
    sides: dict[str, Any] = {"weft": on_device, "cpu": on_cpu}
    if setting.torch is not None:
        sides["torch"] = _torch(setting, loss, weights, data, False)
        if not setting.quick:
            sides["torch.compile"] = _torch(setting, loss, weights, data, True)
    return {**told(off / TOLERANCE), "losses": losses, "launches": started, **setting.timed(sides)}


def _torch(
    setting: Setting, loss: Callable[..., Any], weights: list[np.ndarray], data: tuple[np.ndarray, ...], compiled: bool,
) -> Callable[[], Any]:
    assert setting.torch is not None
    peer, torch = setting.torch, setting.torch.torch
    tensors = [peer.array(w).requires_grad_() for w in weights]
    x, y = (peer.array(a) for a in data)
    optimizer, words = torch.optim.Adam(tensors, RATE, fused=True), _torch_words(torch)
    run: Callable[..., Any] = lambda x, y, tensors: loss(x, y, words, tensors)  # noqa: E731
    if compiled:
        run = peer.compiled(run)

    def step() -> Any:
        optimizer.zero_grad()
        value = run(x, y, tensors)
        value.backward()
        optimizer.step()
        return value

    return step

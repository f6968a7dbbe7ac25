"""Training steps whose first call is measured: weft's jitted step, and PyTorch's (eager, or by torch.compile) from equal weights.

A program is (step, show), as in ``eager_small.py``; ``show`` gives the losses. NumPy and un-jitted JAX have no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from eager_libraries import Library
from eager_small import Program

LETTERS, LENGTH, WIDE, HEADS, BLOCKS, TEXTS = 65, 64, 256, 4, 4, 8  # of the GPT
IMAGES = 16
#  channels, kernel, stride, padding of a convolution, and whether a pool (3, stride 2) follows
ALEXNET = ((64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True))
LR = 1e-3


def mlp(lib: Library) -> Program:
    r, nn = np.random.default_rng(61), _layers(lib)
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y = r.standard_normal((64, 784), np.float32), r.integers(0, 10, 64)
    return _stepper(lib, net, "Adam", x, y)


def gpt(lib: Library) -> Program:
    tokens = np.random.default_rng(62).integers(0, LETTERS, (TEXTS, LENGTH + 1))
    net = _gpt_of_torch() if lib.name.startswith("torch") else _gpt_of_weft()
    return _stepper(lib, net, "AdamW", tokens[:, :-1], tokens[:, 1:].reshape(-1))


def alexnet(lib: Library) -> Program:
    r, nn, inside, parts = np.random.default_rng(63), _layers(lib), 3, []
    for outside, kernel, stride, padding, pool in ALEXNET:
        parts += [nn.Conv2d(inside, outside, kernel, stride, padding), nn.ReLU(), *([nn.MaxPool2d(3, 2)] if pool else [])]
        inside = outside
    parts += [nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    x, y = r.standard_normal((IMAGES, 3, 224, 224), np.float32), r.integers(0, 1000, IMAGES)
    return _stepper(lib, nn.Sequential(*parts), "SGD", x, y)


def _layers(lib: Library) -> Any:
    if lib.name == "weft":
        return lib.xp.nn
    import torch

    return torch.nn


def _weights(names_and_shapes: list[tuple[str, tuple[int, ...]]]) -> list[np.ndarray]:
    """Equal first weights for both libraries, whose layers keep them in one order and layout."""
    r, out = np.random.default_rng(64), []
    for name, shape in names_and_shapes:
        if len(shape) == 1:
            out.append(np.full(shape, 0.0 if name.endswith("bias") else 1.0, np.float32))
        else:
            out.append(r.standard_normal(shape, np.float32) * np.float32(np.prod(shape[1:]) ** -0.5))
    return out


def _stepper(lib: Library, net: Any, optimizer: str, x: np.ndarray, y: np.ndarray) -> Program:
    made = _with_torch if lib.name.startswith("torch") else _with_weft
    step, losses = made(lib, net, optimizer, x, y), []
    return lambda k: losses.append(step()), lambda: losses


def _with_weft(lib: Library, net: Any, optimizer: str, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    wf = lib.xp
    params = net.parameters()
    for p, value in zip(params.values(), _weights([(n, p.shape) for n, p in params.items()]), strict=True):
        p[...] = wf.array(value)
    xs, ys = wf.array(x), wf.array(y.astype(np.int32))
    wf.eval(xs, ys, list(params.values()))
    step = wf.train.training_step(net, wf.losses.cross_entropy, getattr(wf.optim, optimizer)(lr=LR).init(net))
    return lambda: float(step(xs, ys, LR))


def _with_torch(lib: Library, net: Any, optimizer: str, x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    import torch

    params = list(net.named_parameters())
    for (_, p), value in zip(params, _weights([(n, tuple(p.shape)) for n, p in params]), strict=True):
        p.copy_(torch.from_numpy(value))  # gradients are off until the step
    xs, ys = torch.from_numpy(x), torch.from_numpy(y)
    update = getattr(torch.optim, optimizer)(net.parameters(), LR, fused=True)
    if optimizer == "AdamW":
        update.param_groups[0]["weight_decay"] = 0.01
    run = torch.compile(net) if lib.name == "torch.compile" else net

    def step() -> float:
        with torch.enable_grad():
            update.zero_grad()
            loss = torch.nn.functional.cross_entropy(run(xs), ys)
            loss.backward()
            update.step()
        return loss.item()

    return step


def _gpt_of_weft() -> Any:
    import weft as wf

    class Block(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.attention = wf.nn.LayerNorm(WIDE), wf.nn.MultiHeadAttention(WIDE, HEADS)
            self.second = wf.nn.LayerNorm(WIDE)
            self.wide = wf.nn.Sequential(wf.nn.Linear(WIDE, 4 * WIDE), wf.nn.GELU(), wf.nn.Linear(4 * WIDE, WIDE))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x), is_causal=True)
            return x + self.wide(self.second(x))

    class GPT(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = wf.nn.Embedding(LETTERS, WIDE), wf.nn.Embedding(LENGTH, WIDE)
            self.blocks = wf.nn.Sequential(*(Block() for _ in range(BLOCKS)))
            self.last, self.out = wf.nn.LayerNorm(WIDE), wf.nn.Linear(WIDE, LETTERS)

        def forward(self, tokens: Any) -> Any:
            h = self.letters(tokens) + self.places(wf.arange(LENGTH))
            return self.out(self.last(self.blocks(h))).reshape(-1, LETTERS)

    return GPT()


def _gpt_of_torch() -> Any:
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.three, self.out = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)

        def forward(self, x: Any) -> Any:
            q, k, v = self.three(x).reshape(TEXTS, LENGTH, 3, HEADS, WIDE // HEADS).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(TEXTS, LENGTH, WIDE))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.attention = nn.LayerNorm(WIDE), Attention()
            self.second = nn.LayerNorm(WIDE)
            self.wide = nn.Sequential(nn.Linear(WIDE, 4 * WIDE), nn.GELU(), nn.Linear(4 * WIDE, WIDE))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.wide(self.second(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(LETTERS, WIDE), nn.Embedding(LENGTH, WIDE)
            self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
            self.last, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, LETTERS)

        def forward(self, tokens: Any) -> Any:
            h = self.letters(tokens) + self.places(torch.arange(LENGTH))
            return self.out(self.last(self.blocks(h))).reshape(-1, LETTERS)

    return GPT()

"""Convolutions of well-known nets, forward and both gradients, compared with cuDNN in both of its layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, formats, normal
from benchmarks.nets import NETS, Layer, layers

CHOSEN = (
    ("vgg-a", "conv4"), ("vgg-a", "conv6"), ("alexnet", "conv2"), ("overfeat", "conv4"), ("googlenet", "inc3.3x3"),
    ("googlenet", "inc3.1x1"), ("alexnet", "conv1"),
)
TINY = (Layer("3x3", "conv", (3, 6, 6), (4, 6, 6), 3, 1, 1), Layer("strided", "conv", (2, 9, 9), (3, 4, 4), 3, 2, 0))
PASSES = ("forward", "input gradient", "weight gradient")
STACK = 3  # successive convolutions, between which a device may store channels last


def rows(setting: Setting) -> Rows:
    """Yield a row for each layer, format and pass; then stacks of three with ReLUs."""
    cases = [(layer, 2, "") for layer in TINY] if setting.quick else [
        (next(x for x in layers(net) if x.name == name), NETS[net].batch, f"{net} ") for net, name in CHOSEN
    ]
    for dtype in formats("float16", "float32") if setting.quick else formats("float16", "float32", "bfloat16"):
        for layer, batch, net in cases:
            for part in PASSES:
                yield f"{net}{layer.name} {part} {dtype}", (
                    lambda layer=layer, batch=batch, part=part, dtype=dtype: _row(setting, layer, batch, part, dtype)  # type: ignore[misc]
                )
    for dtype in formats("float16", "float32"):
        yield f"{STACK} in a row, forward {dtype}", lambda dtype=dtype: _stack(setting, dtype)  # type: ignore[misc]


@dataclass(frozen=True)
class Operands:
    """Images, filters, the gradient of the result, stride and padding."""

    x: np.ndarray
    w: np.ndarray
    dy: np.ndarray
    stride: int
    padding: int


@lru_cache(maxsize=1)
def given(layer: Layer, batch: int, dtype: str) -> Operands:
    assert layer.weight is not None
    return Operands(
        normal((batch, *layer.inside), 4, dtype), normal(layer.weight, 5, dtype), normal((batch, *layer.outside), 6, dtype),
        layer.stride, layer.padding,
    )


def _call(part: str, g: Operands) -> Callable[[Any, Any, Any], Any]:
    def conv(x: Any, w: Any) -> Any:
        return wf.nn.conv2d(x, w, None, g.stride, g.padding)

    if part == "forward":
        return lambda x, w, dy: conv(x, w)
    if part == "input gradient":
        return lambda x, w, dy: wf.vjp(lambda x: conv(x, w), x)[1](dy)[0]
    return lambda x, w, dy: wf.vjp(lambda w: conv(x, w), w)[1](dy)[0]


def _terms(layer: Layer, batch: int, part: str) -> int:
    if part == "weight gradient":
        return batch * layer.outside[1] * layer.outside[2]
    return (layer.inside[0] if part == "forward" else layer.outside[0]) * layer.kernel**2


def _row(setting: Setting, layer: Layer, batch: int, part: str, dtype: str) -> dict[str, Any]:
    g = given(layer, batch, dtype)
    f, arrays = wf.jit(_call(part, g)), [wf.array(a) for a in (g.x, g.w, g.dy)]
    result = f(*arrays).numpy()
    want = _reference(_call(part, g), (g.x, g.w, g.dy))
    row = told(apart(result, want, terms=_terms(layer, batch, part)))
    row |= {"batch": batch, "sample": [float(v) for v in result.reshape(-1)[:4]]}
    sides: dict[str, Any] = {"weft": lambda: f(*arrays)}
    for last in (False, True):
        sides[f"torch channels {'last' if last else 'first'}"] = _torch(setting, part, g, last)
    row |= setting.timed(sides)
    return {**row, **_rates(setting, row, batch * layer.flops)}


def _reference(function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Compute the reference: the function of float32 copies of the arrays, on the CPU."""
    with wf.device("cpu"):
        return wf.jit(function)(*[wf.array(a.astype(np.float32)) for a in arrays]).numpy()


def _rates(setting: Setting, row: dict[str, Any], flops: int) -> dict[str, Any]:
    rates: dict[str, Any] = {"weft GFLOP/s": flops / row["weft"]["median"] / 1e9}
    peers = [row[key]["median"] for key in row if key.startswith("torch") and isinstance(row[key], dict)]
    if peers:
        rates["torch GFLOP/s"] = flops / min(peers) / 1e9
        rates["share of torch"] = setting.of_torch(min(peers), row["weft"]["median"])
    return rates


def _torch(setting: Setting, part: str, g: Operands, last: bool) -> Callable[[], Any] | None:
    if setting.torch is None:
        return None
    torch = setting.torch.torch
    x, w, dy = (setting.torch.array(a, channels_last=last) for a in (g.x, g.w, g.dy))
    if part == "forward":
        return lambda: torch.nn.functional.conv2d(x, w, None, g.stride, g.padding)
    mask = [part == "input gradient", part == "weight gradient", False]
    stride, padding = [g.stride] * 2, [g.padding] * 2
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(dy, x, w, None, stride, padding, [1, 1], False, [0, 0], 1, mask)


def _stack(setting: Setting, dtype: str) -> dict[str, Any]:
    batch, channels, side = (2, 3, 5) if setting.quick else (64, 256, 28)
    x = normal((batch, channels, side, side), 4, dtype)
    filters = [(normal((channels, channels, 3, 3), 5 + k) / np.sqrt(4.5 * channels)).astype(x.dtype) for k in range(STACK)]

    def run(x: Any, *ws: Any) -> Any:
        for w in ws:
            x = wf.nn.relu(wf.nn.conv2d(x, w, None, 1, 1))
        return x

    f, arrays = wf.jit(run), [wf.array(a) for a in (x, *filters)]
    result = f(*arrays).numpy()
    row = told(apart(result, _reference(run, (x, *filters)), terms=9 * channels, ulps=64))
    row |= {"batch": batch, "sample": [float(v) for v in result.reshape(-1)[:4]]}
    sides: dict[str, Any] = {"weft": lambda: f(*arrays)}
    for last in (False, True) if setting.torch is not None else ():
        sides[f"torch channels {'last' if last else 'first'}"] = _torch_stack(setting, x, filters, last)
    row |= setting.timed(sides)
    return {**row, **_rates(setting, row, STACK * 2 * batch * channels**2 * 9 * side**2)}


def _torch_stack(setting: Setting, x: np.ndarray, filters: list[np.ndarray], last: bool) -> Callable[[], Any]:
    assert setting.torch is not None
    f = setting.torch.torch.nn.functional
    images, *ws = (setting.torch.array(a, channels_last=last) for a in (x, *filters))

    def run() -> Any:
        y = images
        for w in ws:
            y = f.relu(f.conv2d(y, w, None, 1, 1))
        return y

    return run

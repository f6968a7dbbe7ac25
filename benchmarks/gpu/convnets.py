"""Whole convolutional nets as in nervanagpu's benchmark: forward, backward and update, compared with PyTorch and torch.compile.

As in that benchmark images are uniform, the gradient of the last layer is its result, the update has a learning rate of 0, and
"published" GFLOP/s count three forward passes, including the gradient of the images, which is not computed. The time of backward
and update is that of a step less that of a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import told
from benchmarks.gpu.peers import TorchWords
from benchmarks.gpu.setting import Rows, Setting, numpy_dtype
from benchmarks.gpu.timing import Effort
from benchmarks.nets import NETS, Net, Weft, executed, forward, layers, weft_functions, weights

EFFORT = Effort(runs=10, seconds=1.0)
SCALE = 2.0**-5  # of the last layer's gradient, so that sums over a batch stay within float16
CHECKED = 2  # images, independent of the others, that are computed on the CPU as well
TOLERANCE = {"float32": 1e-3, "float16": 0.05}  # relative norm of the error: a ReLU near 0 may switch
_END = "dense 8|dense 8|dense 5"
QUICK: dict[str, Net] = {
    "alexnet": Net(15, 2, f"conv 4 5 2 1|pool 3 2|conv 6 3 1 1|pool 3 2|{_END}"),
    "overfeat": Net(16, 2, f"conv 4 6 2 0|pool 2 2|conv 6 2 1 0|pool 2 2|{_END}"),
    "vgg-a": Net(8, 2, f"conv 4 3 1 1|pool 2 2|conv 6 3 1 1|pool 2 2|{_END}"),
    "googlenet": Net(12, 2, "conv 6 7 2 3|pool 3 2 1|inception 4 3 5 3 4 4|mean 3 1|dense 5"),
}


def rows(setting: Setting) -> Rows:
    """Yield a row for each net and format; then again with torch.compile, which starts slowly and is omitted with gpu-sim."""
    nets = QUICK if setting.quick else {name: NETS[name] for name in QUICK}
    cases = [(name, dtype) for name in nets for dtype in ("float32", "float16") if not setting.quick or (name, dtype) in _TRIED]
    for name, dtype in cases:
        yield f"{name} {dtype}", lambda name=name, dtype=dtype: _row(setting, nets[name], dtype, False)  # type: ignore[misc]
    if setting.torch is not None and setting.device != "gpu-sim":
        for name, dtype in cases[:1] if setting.quick else cases:
            yield f"{name} {dtype} torch.compile", (
                lambda name=name, dtype=dtype: _row(setting, nets[name], dtype, True)  # type: ignore[misc]
            )


_TRIED = (*[(name, "float32") for name in QUICK], ("vgg-a", "float16"))


@lru_cache(maxsize=1)
def given(net: Net) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return images and weights in float32, rounded to numbers that float16 can represent."""
    rng = np.random.default_rng(11)
    images = rng.random((net.batch, 3, net.side, net.side), np.float32)
    return _round(images), [_round(w) for w in weights(net, rng)]


def _round(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float32)


@lru_cache(maxsize=1)
def _on_cpu(net: Net) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the results of the first images and the gradients of the weights, in float32 on the CPU."""
    images, ws = given(net)
    run = forward(net, Weft())
    with wf.device("cpu"):
        out, back = wf.vjp(lambda *ws: run(wf.array(images[:CHECKED]), ws), *[wf.array(w) for w in ws])
        return out.numpy(), [slope.numpy() for slope in back(out * SCALE)]


def _row(setting: Setting, net: Net, dtype: str, compiled: bool) -> dict[str, Any]:
    pass_forward, step = weft_functions(net)
    images, ws = given(net)
    batch, work = net.batch, sum([layer.flops for layer in layers(net)])
    x, share = wf.array(images.astype(dtype)), wf.array(np.full((batch, 1), SCALE, numpy_dtype(dtype)))
    parameters = [wf.array(w.astype(dtype)) for w in ws]
    row: dict[str, Any] = {"batch": batch}
    result = pass_forward(x, parameters).numpy()
    if not compiled:
        row |= _check(net, dtype, result, step, x)
        row |= {"sample": [float(v) for v in result.reshape(-1)[:4]]}
    sides: dict[str, Any] = {"forward": lambda: pass_forward(x, parameters), "step": lambda: step(x, parameters, share, 0.0)}
    if setting.torch is not None:
        sides |= _torch(setting, net, dtype, compiled)
    row |= setting.timed(sides, effort=EFFORT)
    for side in ("", "torch "):
        if f"{side}forward" in row and f"{side}step" in row:
            ahead, whole = row[f"{side}forward"]["median"], row[f"{side}step"]["median"]
            row |= _rates(side, ahead, whole, batch * work, batch * executed(net))
    if "torch step" in row:
        row["share of torch"] = setting.of_torch(row["torch step"]["median"], row["step"]["median"])
    return row


def _rates(side: str, ahead: float, whole: float, flops: int, executed_flops: int) -> dict[str, Any]:
    return {
        f"{side}back and update": {"median": whole - ahead}, f"{side}forward GFLOP/s": flops / ahead / 1e9,
        f"{side}published GFLOP/s": 3 * flops / whole / 1e9, f"{side}done GFLOP/s": executed_flops / whole / 1e9,
    }


def _check(net: Net, dtype: str, result: np.ndarray, step: Callable[..., Any], x: Any) -> dict[str, Any]:
    """Compare the results of the first images and their updates of the weights with the CPU's."""
    (images, before), (want, slopes) = given(net), _on_cpu(net)
    rate = 0.5 * max(np.abs(w).max() for w in before) / max(np.abs(s).max() for s in slopes)
    rate = float(min(rate, 1e4))
    changed = [wf.array(w.astype(dtype)) for w in before]
    alone = np.zeros((len(images), 1), numpy_dtype(dtype))
    alone[:CHECKED] = SCALE
    step(x, changed, wf.array(alone), rate)
    moved = [(b - w.numpy().astype(np.float32)) / rate for b, w in zip(before, changed, strict=True)]
    # error of each weight relative to its update, or to the rounding of its format if that is larger
    rounding = [np.linalg.norm(b) * float(np.finfo(dtype).eps) / rate for b in before]
    backward = max([
        np.linalg.norm(m - s) / (np.linalg.norm(s) + 4 * near / TOLERANCE[dtype])
        for m, s, near in zip(moved, slopes, rounding, strict=True)
    ])
    ahead = np.linalg.norm(result[:CHECKED].astype(np.float32) - want) / np.linalg.norm(want)
    return {**told(float(max(ahead, backward)) / TOLERANCE[dtype]), "forward off": float(ahead), "update off": float(backward)}


def _torch(setting: Setting, net: Net, dtype: str, compiled: bool) -> dict[str, Callable[[], Any]]:
    assert setting.torch is not None
    peer, torch = setting.torch, setting.torch.torch
    images, ws = given(net)
    x = peer.array(images, dtype, channels_last=True)
    tensors = [peer.array(w, dtype, channels_last=w.ndim == 4).requires_grad_() for w in ws]
    run = forward(net, TorchWords(torch))
    if compiled:
        run = peer.compiled(run)

    def ahead() -> Any:
        with torch.no_grad():
            return run(x, tensors)

    def step() -> Any:
        out = run(x, tensors)
        slopes = torch.autograd.grad(out, tensors, out.detach() * SCALE)
        with torch.no_grad():
            torch._foreach_add_(tensors, slopes, alpha=0.0)
        return out

    return {"torch forward": ahead, "torch step": step}

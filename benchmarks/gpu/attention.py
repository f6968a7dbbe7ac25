"""Attention, forward and with its gradients, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, formats, normal
from weft.nn import attention as layer

BATCH, HEADS, WIDTH = 2, 16, 64
LENGTHS = (512, 2048, 8192)
CHECKED = 8  # positions of the first head that NumPy computes


def rows(setting: Setting) -> Rows:
    """Yield a row for each format, length, mask and pass."""
    for dtype in formats("float16", "float32") if setting.quick else formats("bfloat16", "float16", "float32"):
        for length in (13,) if setting.quick else LENGTHS:
            for causal in (False, True):
                for backward in (False, True):
                    name = f"{length}{' causal' if causal else ''}{' with gradients' if backward else ''} {dtype}"
                    yield name, (
                        lambda dtype=dtype, length=length, causal=causal, backward=backward:  # type: ignore[misc]
                        _row(setting, dtype, length, causal, backward)
                    )


def given(quick: bool, length: int, dtype: str) -> list[np.ndarray]:
    """Return query, key, value, and the gradient of the result."""
    shape = (1, 2, length, 4) if quick else (BATCH, HEADS, length, WIDTH)
    return [normal(shape, 7 + k, dtype) for k in range(4)]


def _row(setting: Setting, dtype: str, length: int, causal: bool, backward: bool) -> dict[str, Any]:
    arrays = given(setting.quick, length, dtype)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return wf.nn.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def slopes(q: Any, k: Any, v: Any, dy: Any) -> Any:
        return wf.vjp(attend, q, k, v)[1](dy)

    f: Any = wf.jit(slopes if backward else lambda q, k, v, dy: attend(q, k, v))
    on = [wf.array(a) for a in arrays]
    with force_chained(setting.quick):
        result = (f(*on)[0] if backward else f(*on)).numpy()[0, 0, :CHECKED]  # the result, or the gradient of the query
    q, k, v, dy = (a[0, 0].astype(np.float64) for a in arrays)
    row = told(apart(result, _reference(q, k, v, dy, causal, backward), terms=length))
    row |= {"sample": [float(v) for v in result.reshape(-1)[:4]]}
    row |= setting.timed({"weft": lambda: f(*on), "torch": _torch(setting, arrays, causal, backward)})
    batch, heads, _, width = arrays[0].shape
    flops = batch * heads * length**2 * width * 4 * (3.5 if backward else 1.0) * (0.5 if causal else 1.0)
    for side in ("weft", "torch"):
        if side in row:
            row[f"{side} GFLOP/s"] = flops / row[side]["median"] / 1e9
    if "torch" in row:
        row["share of torch"] = setting.of_torch(row["torch"]["median"], row["weft"]["median"])
    return row


@contextmanager
def force_chained(quick: bool) -> Iterator[None]:
    """Context manager: in a quick run, use the chained kernel although there are few scores."""
    before = layer.MAX_STORED_SCORES
    layer.MAX_STORED_SCORES = -1 if quick else before
    try:
        yield
    finally:
        layer.MAX_STORED_SCORES = before


def _reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, causal: bool, backward: bool) -> np.ndarray:
    """Return the first positions of one head in float64: the result, or the gradient of the query."""
    few = q[:CHECKED]
    scores = few @ k.T / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.arange(len(few))[:, None] >= np.arange(len(k)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    if not backward:
        return p @ v
    dp = dy[:CHECKED] @ v.T
    return p * (dp - (p * dp).sum(axis=1, keepdims=True)) @ k / np.sqrt(q.shape[-1])


def _torch(setting: Setting, arrays: list[np.ndarray], causal: bool, backward: bool) -> Callable[[], Any] | None:
    if setting.torch is None:
        return None
    torch = setting.torch.torch
    q, k, v, dy = (setting.torch.array(a) for a in arrays)

    def attend() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    if not backward:
        return attend
    for x in (q, k, v):
        x.requires_grad_()
    return lambda: torch.autograd.grad(attend(), (q, k, v), dy)

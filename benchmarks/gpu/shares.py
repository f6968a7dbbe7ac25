"""Memory-bound operations: bytes per second of softmax, batch norm, sums and maps, as shares of a copy's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, formats, normal

ROWS, COLUMNS = 16384, 4096  # 256 MB of float32
IMAGES = (64, 64, 128, 128)
CHECKED = 64  # rows that are computed in NumPy as well


@dataclass(frozen=True)
class Work:
    """One operation.

    Attributes
    ----------
    shape : shape of the operand
    run : the operation in weft
    beside : function of (torch, x) that returns a function for the same operation in PyTorch
    want : the operation in NumPy, of the operand in float64
    moved : how many times the operand's bytes are read or written
    terms : numbers that an element of the result adds up
    by_rows : whether each row of the result depends only on its row of the operand, so that a few rows can be checked
    """

    shape: tuple[int, ...]
    run: Callable[[Any], Any]
    beside: Callable[[Any, Any], Callable[[], Any]]
    want: Callable[[np.ndarray], np.ndarray]
    moved: float
    terms: int = 1
    by_rows: bool = True


def works(quick: bool) -> dict[str, Work]:
    """Return the operations by name. The first is the copy."""
    plain = (33, 70) if quick else (ROWS, COLUMNS)
    images = (2, 3, 5, 7) if quick else IMAGES
    chain = lambda x: (x * 2 + 1).clip(-1, 3) * x  # noqa: E731
    return {
        "copy": Work(plain, lambda x: -x, lambda t, x: lambda: t.neg(x), lambda x: -x, 2),
        "map of four": Work(
            plain, chain, lambda t, x: lambda: t.clamp(x * 2 + 1, -1, 3) * x, lambda x: np.clip(x * 2 + 1, -1, 3) * x, 2, 4,
        ),
        "gelu": Work(plain, wf.nn.gelu, lambda t, x: lambda: t.nn.functional.gelu(x), _gelu, 2, 4),
        "softmax": Work(plain, lambda x: wf.nn.softmax(x, -1), lambda t, x: lambda: t.softmax(x, -1), _softmax, 2, plain[1]),
        "sum of rows": Work(plain, lambda x: x.sum(axis=1), lambda t, x: lambda: t.sum(x, 1), lambda x: x.sum(1), 1, plain[1]),
        "sum of columns": Work(
            plain, lambda x: x.sum(axis=0), lambda t, x: lambda: t.sum(x, 0), lambda x: x.sum(0), 1, plain[0], False,
        ),
        "sum": Work(plain, lambda x: x.sum(), lambda t, x: lambda: t.sum(x), lambda x: x.sum(), 1, prod(plain), False),
        "running sum": Work(
            plain, lambda x: x.reshape(-1).cumsum(), lambda t, x: lambda: t.cumsum(x.reshape(-1), 0), lambda x: x.cumsum(), 3,
            prod(plain), False,
        ),
        "rows added up": _added_up(plain, True),
        "rows added up in any order": _added_up(plain, False),
        "batch norm": Work(images, _batch_norm, _torch_batch_norm, _numpy_batch_norm, 3, prod(images) // images[1], False),
        "transposition": Work(plain, lambda x: x.T * 2, _torch_transposition, lambda x: x.T * 2, 2, 1, False),
    }


def rows(setting: Setting) -> Rows:
    """Yield a row for each format and operation."""
    copies: dict[str, float] = {}
    for dtype in formats("float32", "float16") if setting.quick else formats("float32", "bfloat16", "float16"):
        for name, work in works(setting.quick).items():
            yield f"{name} {dtype}", lambda name=name, work=work, dtype=dtype: _row(setting, name, work, dtype, copies)  # type: ignore[misc]


def _row(setting: Setting, name: str, work: Work, dtype: str, copies: dict[str, float]) -> dict[str, Any]:
    if dtype not in copies and name != "copy":  # an earlier process measured its row
        copies[dtype] = _row(setting, "copy", works(setting.quick)["copy"], dtype, copies)["weft GB/s"]
    x = normal(work.shape, 3, dtype)
    operand, f = wf.array(x), wf.jit(work.run)
    result = f(operand).numpy()
    few = x[:CHECKED] if work.by_rows else x
    want = work.want(few.astype(np.float64))
    size = float(np.abs(few.astype(np.float64)).sum()) if name in ("sum", "running sum") else None
    row = told(apart(result[:CHECKED] if work.by_rows else result, want, terms=work.terms, scale=_scale(name, few, size)))
    sides: dict[str, Any] = {"weft": lambda: f(operand)}
    if setting.torch is not None:
        sides["torch"] = work.beside(setting.torch.torch, setting.torch.array(x))
    row |= {"sample": [float(v) for v in np.asarray(result, np.float64).reshape(-1)[:4]]}
    nbytes = work.moved * x.nbytes
    for side, times in setting.timed(sides).items():
        row[side] = times
        row[f"{side} GB/s"] = nbytes / times["median"] / 1e9
    copies.setdefault(dtype, row["weft GB/s"])
    row["share of copy"] = row["weft GB/s"] / copies[dtype]
    return row


def _scale(name: str, x: np.ndarray, total: float | None) -> float | None:
    """Return the size to which errors of sums are relative: the sum of absolute values. ``total``: for other operations"""
    if name == "sum of rows":
        return float(np.abs(x.astype(np.float64)).sum(1).max())
    if name == "sum of columns" or name.startswith("rows added up"):
        return float(np.abs(x.astype(np.float64)).sum(0).max())
    return total


def _added_up(shape: tuple[int, ...], deterministic: bool) -> Work:
    """Return the work of adding rows to those of a smaller table, as in the gradient of an embedding."""
    table = (max(1, shape[0] // 16), shape[1])
    where = np.random.default_rng(7).integers(0, table[0], shape[0])

    def run(x: Any) -> Any:
        with wf.deterministic(deterministic):
            return wf.scatter_add(wf.zeros(table, x.dtype), where, x)

    def beside(torch: Any, x: Any) -> Callable[[], Any]:
        zeros, at = torch.zeros(table, dtype=x.dtype, device=x.device), torch.asarray(where, device=x.device)
        return lambda: zeros.index_add(0, at, x)

    def want(x: np.ndarray) -> np.ndarray:
        out = np.zeros(table)
        np.add.at(out, where, x)
        return out

    return Work(shape, run, beside, want, 1 + 2 * table[0] / shape[0], shape[0], False)


def _gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _batch_norm(x: Any) -> Any:
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    centred = x - mean
    return centred / wf.sqrt((centred * centred).mean(axis=(0, 2, 3), keepdims=True) + 1e-5)


def _numpy_batch_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)


def _torch_transposition(torch: Any, x: Any) -> Callable[[], Any]:
    out = torch.empty(x.shape[::-1], dtype=x.dtype, device=x.device)  # otherwise PyTorch's result would have the layout of x
    return lambda: torch.mul(x.T, 2, out=out)


def _torch_batch_norm(torch: Any, x: Any) -> Callable[[], Any]:
    return lambda: torch.nn.functional.batch_norm(x, None, None, training=True)

"""Products of square matrices in every format of weft, compared with cuBLAS through PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, formats, numpy_dtype

SIZES = (512, 1024, 2048, 4096, 8192)
QUICK_SIZES = (17, 32)
CHECKED = 8  # rows that NumPy computes in float64
_EIGHT = ("float8_e4m3fn", "float8_e5m2")
_matmul: Any = wf.matmul
_precision: Any = getattr(wf, "matmul_precision", None)
_LOOSER = {"tf32": 2.0**12, "tf32x3": 8.0}  # multiples of float32's bound: operands have 10 bits, or three times 10


def rows(setting: Setting) -> Rows:
    """Yield a row for each format and size, the formats of nets first."""
    kinds = formats("bfloat16", "float32", "float16")
    if _precision is not None:
        kinds += ["tf32", "tf32x3"]
    kinds += [*formats(*_EIGHT), *["int8"] * _has_int8(), "float64"]
    missing = [name for name in (*_LOOSER, *_EIGHT, "int8") if name not in kinds]
    if missing:
        setting.notes.append(f"weft has no products in {', '.join(missing)} here")
    for kind in kinds:
        for n in QUICK_SIZES if setting.quick else SIZES:
            yield f"{kind} {n}", lambda kind=kind, n=n: _row(setting, kind, n)  # type: ignore[misc]


def _has_int8() -> bool:
    """Return whether products of int8 can be summed in int32."""
    a = wf.array(np.full((2, 2), 100, np.int8))
    try:
        return int(_matmul(a, a, dtype=wf.int32)[0, 0]) == 20_000
    except (TypeError, ValueError):
        return False


def _product(kind: str) -> Callable[[Any, Any], Any]:
    """Return the product function of a format. Formats of 8 bits are summed in wider ones."""
    wide = {"int8": wf.int32, **dict.fromkeys(_EIGHT, wf.float32)}.get(kind)
    return (lambda a, b: a @ b) if wide is None else lambda a, b: _matmul(a, b, dtype=wide)


@lru_cache(maxsize=8)
def _numbers(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, n), np.float32), rng.standard_normal((n, n), np.float32)


def operands(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices in a format."""
    a, b = _numbers(n)
    if kind == "int8":
        return tuple([np.clip(40 * x, -127, 127).astype(np.int8) for x in (a, b)])  # type: ignore[return-value]
    dtype = np.dtype(np.float32) if kind in _LOOSER else numpy_dtype(kind)
    return a.astype(dtype), b.astype(dtype)


def _row(setting: Setting, kind: str, n: int) -> dict[str, Any]:
    a, b = operands(kind, n)
    f = wf.jit(_product(kind))
    x, y = wf.array(a), wf.array(b)
    chosen = np.linspace(0, n - 1, CHECKED).astype(int)
    want = a[chosen].astype(np.float64) @ b.astype(np.float64)
    with _precision(kind) if kind in _LOOSER else contextlib.nullcontext():
        result = f(x, y).numpy()
        row = told(apart(result[chosen], want, terms=n, ulps=16 * _LOOSER.get(kind, 1.0)))
        sides = {"weft": lambda: f(x, y), "torch": _torch(setting, kind, a, b)}
        row |= {"sample": [float(v) for v in result[0, :4]], **setting.timed(sides)}
    for side in ("weft", "torch"):
        if side in row:
            row[f"{side} GFLOP/s"] = 2 * n**3 / row[side]["median"] / 1e9
    if "torch" in row:
        row["share of torch"] = setting.of_torch(row["torch"]["median"], row["weft"]["median"])
    if setting.torch is not None:
        setting.torch.tf32(False)
    return row


def _torch(setting: Setting, kind: str, a: np.ndarray, b: np.ndarray) -> Callable[[], Any] | None:
    if setting.torch is None:
        return None
    torch = setting.torch.torch
    setting.torch.tf32(kind in _LOOSER)
    if kind in _EIGHT:
        if not hasattr(torch, "_scaled_mm"):
            return None
        p, q = (setting.torch.array(x.astype(np.float32)).to(getattr(torch, kind)) for x in (a, b.T))
        one = torch.ones((), device=setting.torch.name)
        return lambda: torch._scaled_mm(p, q.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    x, y = setting.torch.array(a), setting.torch.array(b)
    return (lambda: torch._int_mm(x, y)) if kind == "int8" else (lambda: x @ y)

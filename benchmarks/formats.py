"""Number formats beside float32, one thread: casts, products of 8-bit integers, matrices of narrow weights times a vector, and
products and convolutions whose sums are rounded.

    python benchmarks/formats.py [--turns 15] [--only product] [--json FILE]

The contestants of a case take turns in one process. A time is the least CPU time of a call: on a shared core, the clock would
count other processes in every call that is longer than a time slice. Results that are exact are checked. PyTorch takes part if it
is installed. A case is an entry of ``CASES``; ratios are those to its first contestant.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import ml_dtypes
import numpy as np
from turns import about, check_output, chosen

import weft as wf
from weft import fixed_dtype, float_dtype
from weft.dtypes.parse import parse_dtype
from weft.nn.watch import measure as measure_numbers

try:
    import torch
except ImportError:
    torch = None


class Contestant(NamedTuple):
    """call: what is timed. amount: operations, or bytes read, of a call. want: what an exact result is compared with."""

    call: Callable[[], Any]
    amount: float
    want: np.ndarray | None = None


class Case(NamedTuple):
    """unit: what an amount is counted in. contestants: makes them, by name."""

    unit: str
    contestants: Callable[[], dict[str, Contestant]]


def _jitted(f: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
    g = wf.jit(f)
    return lambda: g(*arrays).numpy()


def _returned(f: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
    """Return a call whose result stays an array of weft."""
    g = wf.jit(f)
    return lambda: wf.eval(g(*arrays))


def _in(dtype: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: wf.matmul(a, b, dtype=dtype)


def product(m: int, n: int, k: int) -> Case:
    """a @ b of bfloat16, and of bytes, summed in int32; float32 first."""

    def contestants() -> dict[str, Contestant]:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        x, y = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        flops, columns = 2.0 * m * n * k, np.ascontiguousarray(y.T)

        def exact(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int32)

        bytes_, want, halves = x.view(np.uint8), exact(x, y), [wf.array(v.astype(ml_dtypes.bfloat16)) for v in (a, b)]
        out = {
            "float32": Contestant(_jitted(lambda a, b: a @ b, wf.array(a), wf.array(b)), flops),
            "bfloat16 to float32": Contestant(_jitted(_in("float32"), *halves), flops),
            "bfloat16": Contestant(_returned(lambda a, b: a @ b, *halves), flops),
            "float32, bfloat16 operands": Contestant(
                _jitted(lambda a, b: wf.matmul(a, b, operands="bfloat16"), wf.array(a), wf.array(b)), flops),
            "bfloat16 x float8_e4m3fn": Contestant(
                _jitted(_in("float32"), halves[0], wf.array(b.astype(ml_dtypes.float8_e4m3fn))), flops),
            "int8": Contestant(_jitted(_in("int32"), wf.array(x), wf.array(y)), flops, want),
            "int8, b by columns": Contestant(
                _jitted(lambda a, b: wf.matmul(a, b.T, dtype="int32"), wf.array(x), wf.array(columns)), flops, want),
            "uint8 x int8": Contestant(_jitted(_in("int32"), wf.array(bytes_), wf.array(y)), flops, exact(bytes_, y)),
            "int8, scaled to float32": Contestant(
                _jitted(lambda a, b: wf.maximum(wf.matmul(a, b, dtype="int32").astype("float32") * 0.01 + 1.0, 0.0),
                        wf.array(x), wf.array(y)), flops),
        }
        if torch is not None:
            ta, tb, tx, ty, turned = map(torch.from_numpy, (a, b, x, y, columns))
            ha, hb = ta.bfloat16(), tb.bfloat16()
            out["torch float32"] = Contestant(lambda: ta @ tb, flops)
            out["torch bfloat16"] = Contestant(lambda: ha @ hb, flops)
            out["torch _int_mm"] = Contestant(lambda: torch._int_mm(tx, ty), flops, want)
            out["torch _int_mm, b by columns"] = Contestant(lambda: torch._int_mm(tx, turned.T), flops, want)
        return out

    return Case("GFLOP/s", contestants)


def vector(n: int, k: int) -> Case:
    """w @ x, w of n rows: the bytes of w that are read in a second. The first contestant only reads them."""

    def contestants() -> dict[str, Contestant]:
        rng = np.random.default_rng(0)
        w, x = rng.standard_normal((n, k)).astype(np.float32), rng.standard_normal(k).astype(np.float32)
        w8, x8 = rng.integers(-128, 128, (n, k)).astype(np.int8), rng.integers(-128, 128, k).astype(np.int8)
        wide, v, v8 = wf.array(w), wf.array(x), wf.array(x8)
        size, exact = float(n * k), (w8.astype(np.int64) @ x8.astype(np.int64)).astype(np.int32)
        out = {
            "read float32 (sum)": Contestant(_jitted(wf.sum, wide), 4 * size),
            "float32": Contestant(_jitted(lambda a, b: a @ b, wide, v), 4 * size),
        }
        for name, bytes_ in (("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1)):
            weights = wf.array(w.astype(getattr(ml_dtypes, name)))
            out[f"{name} x float32"] = Contestant(_jitted(_in("float32"), weights, v), bytes_ * size)
        out["int8 x float32"] = Contestant(_jitted(lambda a, b: a.astype("float32") @ b, wf.array(w8), v), size)
        out["int8 x int8"] = Contestant(_jitted(_in("int32"), wf.array(w8), v8), size, exact)
        for form in (wf.mxfp8_e4m3, wf.mxfp4, wf.nvfp4, wf.block_format("int8", 32)):
            layer = wf.nn.QuantizedLinear(wf.nn.quantize(wide, form))
            out[f"{form.name} x float32"] = Contestant(_jitted(layer, v), layer.weight.nbytes)
        if torch is not None:
            tw, tx, t8, scales = *map(torch.from_numpy, (w, x, w8)), torch.ones(n).bfloat16()
            row = tx.bfloat16()[None]
            out["torch float32"] = Contestant(lambda: tw @ tx, 4 * size)
            out["torch _weight_int8pack_mm"] = Contestant(lambda: torch.ops.aten._weight_int8pack_mm(row, t8, scales), size)
        return out

    return Case("GB/s of weights", contestants)


def _counts(x: Any, y: Any) -> tuple[Any, ...]:
    """Return the largest magnitude, and the counts of overflows, underflows, zeros and NaNs, of a cast from x to y."""
    wide = abs(y.astype("float32"))
    return wf.abs(y).max(), (wide == np.inf).sum(), ((wide == 0) & (x != 0)).sum(), (x == 0).sum(), wf.isnan(wide).sum()


STATISTICS: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "largest magnitude": lambda x, y: (wf.abs(y).max(),),
    "largest and mean magnitude": lambda x, y: (wf.abs(y).max(), wf.abs(y.astype("float32")).mean()),
    "magnitude and counts": _counts,
    "what a watch measures": lambda x, y: (measure_numbers(x, parse_dtype(y.dtype)),),
}


def cast(dtype: Any, name: str) -> Case:
    """float32 to a format in several roundings: the bytes read and written in a second. The first contestant copies float32."""

    def contestants() -> dict[str, Contestant]:
        x = wf.array(np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32))
        moved = float(x.size * (4 + wf.zeros(1, dtype=dtype).itemsize))
        out = {"copy float32": Contestant(_returned(lambda a: a + 0.0, x), 8.0 * x.size)}
        for mode in (None, "toward zero", "up", "stochastic"):
            out[mode or "nearest"] = Contestant(_returned(lambda a, m=mode: a.astype(dtype, rounding=m), x), moved)
        out["stochastic, 16 bits"] = Contestant(_returned(lambda a: a.astype(dtype, rounding="stochastic", bits=16), x), moved)
        for what, statistics in STATISTICS.items():
            out[f"nearest, {what}"] = Contestant(
                _returned(lambda a, f=statistics: (lambda y: (y, *f(a, y)))(a.astype(dtype)), x), moved)
        if torch is not None and hasattr(torch, name):
            tx, form = torch.from_numpy(x.numpy().copy()), getattr(torch, name)
            out["torch nearest"] = Contestant(lambda: tx.to(form), moved)
        return out

    return Case("GB/s", contestants)


def sums(m: int, n: int, k: int) -> Case:
    """a @ b with sums that are rounded, after every addition or in blocks of k; float32 first."""

    def contestants() -> dict[str, Contestant]:
        rng = np.random.default_rng(0)
        a, b = (wf.array(rng.standard_normal(shape).astype(np.float32)) for shape in ((m, k), (k, n)))
        flops, ways = 2.0 * m * n * k, [("float8_e4m3fn", 1)]
        ways += [(form, every) for form in ("float16", "bfloat16") for every in (1, 4, 16, 32, 64)]
        out = {"float32": Contestant(_returned(lambda a, b: a @ b, a, b), flops)}
        for form, every in ways:
            call = _returned(lambda a, b, f=form, e=every: wf.matmul(a, b, accumulate=f, every=e), a, b)
            out[f"{form}, every {every}"] = Contestant(call, flops)
        out["bfloat16 operands"] = Contestant(_returned(lambda a, b: wf.matmul(a, b, operands="bfloat16"), a, b), flops)
        return out

    return Case("GFLOP/s", contestants)


def convolution(images: int, channels: int, size: int, filters: int, window: int, stride: int = 1) -> Case:
    """A padded 2-D convolution with sums that are rounded, or in int32; float32 first."""

    def contestants() -> dict[str, Contestant]:
        rng = np.random.default_rng(0)
        shapes = (images, channels, size, size), (filters, channels, window, window)
        options = dict(stride=stride, padding=window // 2)
        x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        x8, w8 = rng.integers(0, 256, shapes[0]).astype(np.uint8), rng.integers(-128, 128, shapes[1]).astype(np.int8)
        conv = partial(wf.nn.conv2d, **options)
        exact = conv(wf.array(x8.astype(float)), wf.array(w8.astype(float))).numpy().astype(np.int32)
        flops, a, b = 2.0 * exact.size * w[0].size, wf.array(x), wf.array(w)
        out = {"float32": Contestant(_returned(conv, a, b), flops)}
        out["uint8 x int8"] = Contestant(_jitted(partial(conv, accumulate="int32"), wf.array(x8), wf.array(w8)), flops, exact)
        for form, every in (("bfloat16", 1), ("float16", 1), ("float16", 32)):
            out[f"{form}, every {every}"] = Contestant(_returned(partial(conv, accumulate=form, every=every), a, b), flops)
        if torch is not None:
            ta, tb = torch.from_numpy(x), torch.from_numpy(w)
            out["torch float32"] = Contestant(lambda: torch.nn.functional.conv2d(ta, tb, **options), flops)
        return out

    return Case("GFLOP/s", contestants)


CASES: dict[str, Case] = {
    **{f"cast to {name}": cast(name, name) for name in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")},
    "cast to 1 + 3 + 2 bits, bias 4": cast(float_dtype(3, 2, 4, infinities=False, nans=False), ""),
    "cast to fixed point, 16 bits": cast(fixed_dtype(16, 12), ""),
    **{f"product {m} x {n} x {k}": product(m, n, k) for m, n, k in ((960, 960, 1024), (1920, 1920, 2048), (96, 4096, 4096))},
    "vector 4096 x 4096": vector(4096, 4096),
    **{f"rounded sums {m} x {n} x {k}": sums(m, n, k) for m, n, k in ((240, 256, 512), (480, 480, 1024))},
    "convolution of 32 channels": convolution(8, 32, 28, 64, 3), "convolution of images": convolution(8, 3, 64, 32, 7, 2),
}


def measure(contestants: dict[str, Contestant], turns: int) -> dict[str, float]:
    """Return the least CPU seconds of a call of each, after two that warm up."""
    for name, one in contestants.items():
        one.call()
        result = one.call()
        if one.want is not None and not np.array_equal(np.asarray(result), one.want):
            raise AssertionError(f"{name}: the result is not exact")
    least = dict.fromkeys(contestants, float("inf"))
    for _ in range(turns):
        for name, one in contestants.items():
            start = time.thread_time()
            one.call()
            least[name] = min(least[name], time.thread_time() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names hold one of these words")
    parser.add_argument("--json", type=check_output)
    options = parser.parse_args()
    wf.set_num_threads(1)
    if torch is not None:
        torch.set_num_threads(1)
    record: dict[str, Any] = {**about(), "turns": options.turns, "seconds": {}}
    for name in chosen(CASES, options.only):
        case = CASES[name]
        contestants = case.contestants()
        seconds = record["seconds"][name] = measure(contestants, options.turns)
        rates = {who: one.amount / seconds[who] / 1e9 for who, one in contestants.items()}
        first = next(iter(rates))
        print(f"\n{name}, {case.unit}; beside {first}")
        for who, rate in rates.items():
            print(f"  {who:30}{rate:10.1f}{rate / rates[first]:8.2f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

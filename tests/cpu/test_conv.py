"""Convolutions in native code: values against float64, every direction, odd sizes, epilogues, chunk order."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import Native, conv_reference, forward, weight_gradient, weight_reference

from weft.codegen.cpu.conv import generate_conv
from weft.codegen.cpu.isa import host_isa

BOUND = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}

# n, c, h, w, o, kh, kw, stride, padding, dilation
CASES = [
    (1, 1, 5, 5, 1, 3, 3, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (8, 1, 28, 28, 10, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (3, 3, 13, 17, 7, 3, 5, (1, 1), ((1, 1), (2, 2)), (1, 1)),
    (2, 5, 15, 11, 6, 3, 3, (2, 2), ((1, 1), (1, 1)), (1, 1)),
    (2, 3, 39, 39, 16, 11, 11, (4, 4), ((2, 2), (2, 2)), (1, 1)),
    (2, 4, 14, 15, 9, 3, 3, (1, 1), ((2, 2), (2, 2)), (2, 2)),
    (2, 4, 19, 21, 13, 3, 2, (3, 2), ((0, 2), (1, 0)), (2, 3)),
    (3, 20, 9, 9, 11, 1, 1, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (3, 20, 9, 10, 11, 1, 1, (2, 2), ((0, 0), (0, 0)), (1, 1)),
    (20, 6, 4, 4, 5, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (1, 70, 30, 31, 33, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (2, 64, 40, 12, 20, 5, 5, (1, 1), ((2, 2), (2, 2)), (1, 1)),
]


def close(got: np.ndarray, want: np.ndarray, scale: np.ndarray, dtype) -> None:
    assert np.isfinite(got.astype(np.float64)).all()
    error = np.abs(got.astype(np.float64) - want) / (scale + 1e-30)
    assert error.max() <= BOUND[np.dtype(dtype).name], error.max()


def random(shape, dtype, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forward(case, dtype) -> None:
    n, c, h, w, o, kh, kw, *how = case
    kernel = forward(*case, dtype=dtype)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, wt = random((n, c, h, w), dtype, 1), random((o, c, kh, kw), dtype, 2)
    out = np.empty(kernel.outputs[0].shape, dtype)
    native.run([x, wt, out])
    assert native.counter.value == 1
    close(out, conv_reference(x, wt, *how), conv_reference(abs(x), abs(wt), *how), dtype)
    again = np.empty_like(out)
    native.run([x, wt, again], backwards=True)
    assert (again == out).all()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weight_gradient(case, dtype) -> None:
    n, c, h, w, o, kh, kw, *how = case
    kernel = weight_gradient(*case, dtype=dtype)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, dy = random((n, c, h, w), dtype, 3), random(kernel.inputs[1].shape, dtype, 4)
    out = np.empty(kernel.outputs[0].shape, dtype)
    native.run([x, dy, out])
    close(out, weight_reference(x, dy, kh, kw, *how), weight_reference(abs(x), abs(dy), kh, kw, *how), dtype)
    again = np.empty_like(out)
    native.run([x, dy, again], backwards=True)
    assert (again == out).all()

"""Convolutions in native code: values against float64, every direction, odd sizes, epilogues, chunk order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conv_cases import Native, conv_reference, forward, load, weight_gradient, weight_reference

from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.emit.isa import host_isa
from weft.dtypes.formats import BOOL, FLOAT32
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Access, Axis, Buffer, Contraction, Kernel, Phase, Store, Value, axis_index
from weft.kernel.summation import product_order

BOUND = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26}

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
    (2, 16, 32, 32, 6, 1, 1, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (1, 5, 37, 41, 70, 1, 1, (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (2, 1, 29, 31, 4, 5, 5, (1, 1), ((2, 2), (2, 2)), (1, 1)),
    (20, 6, 4, 4, 5, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (1, 70, 30, 31, 33, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (2, 64, 40, 12, 20, 5, 5, (1, 1), ((2, 2), (2, 2)), (1, 1)),
]


def close(got: np.ndarray, want: np.ndarray, scale: np.ndarray, dtype) -> None:
    assert np.isfinite(got.astype(np.float64)).all()
    error = np.abs(got.astype(np.float64) - want) / (scale + 1e-30)
    assert error.max() <= BOUND[parse_dtype(dtype).name], error.max()


def random(shape, dtype, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(parse_dtype(dtype).numpy)


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


@pytest.mark.parametrize("groups, c, o", [(3, 2, 4), (5, 1, 1), (2, 7, 3)])
def test_groups(groups, c, o) -> None:
    kernel = forward(2, c, 12, 13, o, 3, 3, padding=((1, 1), (1, 1)), groups=groups)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, w = random((2, c * groups, 12, 13), np.float32, 5), random((o * groups, c, 3, 3), np.float32, 6)
    out = np.empty(kernel.outputs[0].shape, np.float32)
    native.run([x, w, out])
    how = ((1, 1), ((1, 1), (1, 1)), (1, 1), groups)
    close(out, conv_reference(x, w, *how), conv_reference(abs(x), abs(w), *how), np.float32)


def test_input_gradient() -> None:
    """A forward convolution of dy with the weights turned round and their channels exchanged."""
    n, c, h, w, o, k = 2, 6, 14, 15, 10, 5
    kernel = forward(n, o, h, w, c, k, k, padding=((2, 2), (2, 2)), flip=True)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    dy, wt = random((n, o, h, w), np.float32, 7), random((o, c, k, k), np.float32, 8)
    out = np.empty(kernel.outputs[0].shape, np.float32)
    native.run([dy, wt, out])
    turned = wt.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    how = ((1, 1), ((2, 2), (2, 2)))
    close(out, conv_reference(dy, turned, *how), conv_reference(abs(dy), abs(turned), *how), np.float32)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_halves(name) -> None:
    """Stored in 16 bits, summed in float32, rounded once."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    case = (2, 5, 11, 12, 7, 3, 3, (1, 1), ((1, 1), (1, 1)), (1, 1))
    kernel = forward(*case, dtype=dtype)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, w = random((2, 5, 11, 12), dtype, 9), random((7, 5, 3, 3), dtype, 10)
    out = np.empty(kernel.outputs[0].shape, dtype)
    native.run([x, w, out])
    want = conv_reference(x, w, *case[7:])
    assert abs(want).max() > 1
    close(out, want, conv_reference(abs(x), abs(w), *case[7:]), dtype)


@pytest.mark.parametrize("c, o, k, size", [(1, 10, 3, (28, 28)), (16, 7, 5, (13, 9)), (1, 3, 2, (6, 7))])
def test_bias_relu_mask(c, o, k, size) -> None:
    """The whole epilogue of the main job's layer: relu(conv + bias), and where it was positive."""
    f32, pad = FLOAT32, ((k // 2, k // 2),) * 2

    def epilogue(inputs, y, acc, where):
        bias = Buffer(2, f32, (o,))
        out, mask = Buffer(3, f32, y.shape), Buffer(4, BOOL, y.shape)
        z = Value("add", (acc, load(bias, where[1])), f32)
        zero = Value("const", (), f32, 0.0)
        return (
            [*inputs, bias],
            [out, mask],
            (
                Store(Access(out, where), Value("max", (z, zero), f32)),
                Store(Access(mask, where), Value("gt", (z, zero), BOOL)),
            ),
            (),
        )

    kernel = forward(5, c, *size, o, k, k, padding=pad, epilogue=epilogue)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, w, bias = random((5, c, *size), f32, 11), random((o, c, k, k), f32, 12), random((o,), f32, 13)
    out, mask = np.empty(kernel.outputs[0].shape, np.float32), np.empty(kernel.outputs[0].shape, bool)
    native.run([x, w, bias, out, mask])
    want = conv_reference(x, w, (1, 1), pad) + bias[:, None, None]
    close(out, np.maximum(want, 0), conv_reference(abs(x), abs(w), (1, 1), pad) + 1, f32)
    sure = abs(want) > 1e-4
    assert (mask == (want > 0))[sure].all() and sure.mean() > 0.9 and 0.1 < mask.mean() < 0.9


@pytest.mark.parametrize("o, c, k", [(10, 1, 3), (6, 5, 5)])
def test_update_of_the_weights(o, c, k) -> None:
    """A weight gradient whose stores are a step of momentum: in and out are the same memory, the rate a scalar."""
    f32 = FLOAT32

    def epilogue(inputs, dw, acc, where):
        w, m = Buffer(2, f32, dw.shape), Buffer(3, f32, dw.shape)
        w1, m1 = Buffer(4, f32, dw.shape), Buffer(5, f32, dw.shape)
        rate, half = Value("scalar", (), f32, 0), Value("const", (), f32, 0.5)
        speed = Value("add", (Value("mul", (load(m, *where), half), f32), acc), f32)
        moved = Value("sub", (load(w, *where), Value("mul", (rate, speed), f32)), f32)
        return [*inputs, w, m], [w1, m1], (Store(Access(w1, where), moved), Store(Access(m1, where), speed)), (f32,)

    kernel = weight_gradient(4, c, 12, 10, o, k, k, padding=((k // 2, k // 2),) * 2, epilogue=epilogue)
    native = Native(kernel, generate_conv(kernel, host_isa()))
    x, dy = random((4, c, 12, 10), f32, 14), random((4, o, 12, 10), f32, 15)
    w, m = random((o, c, k, k), f32, 16), random((o, c, k, k), f32, 17)
    speed = 0.5 * m.astype(np.float64) + weight_reference(x, dy, k, k, (1, 1), ((k // 2, k // 2),) * 2)
    want = w - np.float64(np.float32(0.01)) * speed
    native.run([x, dy, w, m, w, m], [np.float32(0.01)])
    scale = weight_reference(abs(x), abs(dy), k, k, (1, 1), ((k // 2, k // 2),) * 2) + 1
    close(m, speed, scale, f32)
    close(w, want, scale, f32)


def test_not_a_convolution() -> None:
    x, y, z = (Buffer(i, FLOAT32, (4, 4)) for i in range(3))
    i, j, k = (Axis(a, 4) for a in range(3))
    acc = Value("acc", (), x.dtype, 0)
    stores = (Store(Access(z, (axis_index(i), axis_index(j))), acc),)
    a, b = load(x, axis_index(i), axis_index(k)), load(y, axis_index(k), axis_index(j))
    product = Contraction(0, (), (i,), (j,), (k,), a, b, x.dtype, product_order(4, 4, (4,)), stores)
    assert generate_conv(Kernel("product", (Phase((), (product,)),), (x, y), (z,)), host_isa()) is None

"""Block formats against the rules of OCP and NVIDIA, written with NumPy and ml_dtypes one block at a time."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError, ShapeError

MX = {
    wf.mxfp8_e4m3: ml_dtypes.float8_e4m3fn, wf.mxfp8_e5m2: ml_dtypes.float8_e5m2, wf.mxfp6_e2m3: ml_dtypes.float6_e2m3fn,
    wf.mxfp6_e3m2: ml_dtypes.float6_e3m2fn, wf.mxfp4: ml_dtypes.float4_e2m1fn,
}
INTEGERS = [wf.block_format("int8", 32), wf.block_format("int4", 64), wf.block_format("int4", None), wf.block_format("int8", 5),
            wf.block_format("int4", 6, scale="float16"), wf.block_format("int8", 16, scale="float8_e8m0fnu")]
FORMATS = [*MX, wf.nvfp4, *INTEGERS]


def reference_block(block, form, scale_rounding, of_tensor):
    """Return the numbers of one block, and its scale."""
    top = np.float32(np.abs(block).max(initial=0))
    if not np.isfinite(top):
        return np.full(block.shape, np.nan, np.float32), np.float32(np.nan)
    element = getattr(ml_dtypes, form.element.name, None)
    largest = np.float32(form.largest)
    if form.scale.name == "float8_e8m0fnu":
        exponent = -127
        if top:
            exponent = math.frexp(float(top))[1] - 1 - (math.frexp(float(largest))[1] - 1)
            if scale_rounding == "up" and float(top) > float(largest) * 2.0**exponent:
                exponent += 1
        scale = np.float64(2.0 ** max(exponent, -127))
    else:
        kind = np.dtype(getattr(ml_dtypes, form.scale.name, form.scale.name))
        scale = top / largest / of_tensor
        scale = np.minimum(scale, np.float32(ml_dtypes.finfo(kind).max))
        scale = np.float32(scale).astype(kind).astype(np.float32) * of_tensor
    if scale == 0:
        return np.zeros(block.shape, np.float32), scale
    exact = (block.astype(np.float64) / scale).astype(np.float32)
    if element is None:
        codes = np.rint(np.clip(exact, -largest, largest))
    else:
        codes = np.clip(exact, -largest, largest).astype(element).astype(np.float32)
    return (codes * np.float64(scale)).astype(np.float32), scale


def reference(x, form, scale_rounding=None):
    """Return ``x`` rounded along its last axis, and the scales."""
    size = form.block or x.shape[-1]
    of_tensor = np.float32(1)
    if form.has_tensor_scale:
        finite = np.abs(x[np.isfinite(x)]).max(initial=0)
        of_tensor = np.float32(finite / np.float32(form.largest * form.scale.largest)) if finite else np.float32(1)
    out, scales = np.empty(x.shape, np.float32), []
    for row in np.ndindex(x.shape[:-1]):
        for first in range(0, x.shape[-1], size):
            out[row][first : first + size], scale = reference_block(x[row][first : first + size], form, scale_rounding, of_tensor)
            scales.append(scale)
    return out, np.array(scales)


def draw(rng, shape):
    x = (rng.normal(size=shape) * np.exp(4 * rng.normal(size=(*shape[:-1], 1)))).astype(np.float32)
    kind = rng.integers(5, size=shape)
    x[kind == 0] = 0
    return x


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_numbers_and_scales(form, rng):
    for extent, rounding in itertools.product((1, 31, 32, 96, 100, 256), (None, "floor", "up")):
        if rounding and not form.has_power_scales:
            continue
        x = draw(rng, (7, extent))
        want, scales = reference(x, form, rounding)
        q = wf.nn.quantize(x, form, scale_rounding=rounding)
        np.testing.assert_array_equal(q.dequantize().numpy(), want, err_msg=f"extent {extent}, {rounding}")
        np.testing.assert_array_equal(wf.nn.fake_quantize(x, form, scale_rounding=rounding).numpy(), want)
        if not form.has_tensor_scale:
            np.testing.assert_array_equal(q.scales.astype("float32").numpy().ravel(), scales.astype(np.float32))
        assert q.nbytes == q.codes.nbytes + q.scales.nbytes + 4 * form.has_tensor_scale
        assert q.codes.nbytes == 7 * math.prod(form.block_shape(extent)) // (2 if form.bits == 4 else 1)


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_special_blocks(form):
    """Zeros, subnormals, the largest numbers, NaN and infinities."""
    size = form.block or 32
    x = np.zeros((8, size), np.float32)
    x[1, 0], x[1, 1] = 1e-40, -1e-45
    x[2] = 3e38 * np.linspace(-1, 1, size)
    x[3, :2] = np.nan, 1
    x[4, :2] = np.inf, 1
    x[5, :2] = -np.inf, np.nan
    x[6, 0], x[7, 0] = 2.0**-126, -1
    want, _ = reference(x, form)
    got = wf.nn.quantize(x, form).dequantize().numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    rows = [0, 2, 6, 7] if form.has_power_scales else [0, 7]
    np.testing.assert_array_equal(got[rows], want[rows])
    np.testing.assert_allclose(got[1], x[1], atol=1e-38)


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_axes_dtypes_jit_vmap(form, rng):
    x = draw(rng, (3, 64, 5))
    want = np.moveaxis(reference(np.ascontiguousarray(np.moveaxis(x, 1, -1)), form)[0], -1, 1)
    np.testing.assert_array_equal(wf.nn.quantize(x, form, axis=1).dequantize().numpy(), want)
    np.testing.assert_array_equal(wf.jit(lambda a: wf.nn.quantize(a, form, axis=-2).dequantize())(x).numpy(), want)
    q = wf.jit(lambda a: wf.nn.quantize(a, form, axis=1))(wf.array(x))  # a result
    np.testing.assert_array_equal(q.dequantize().numpy(), want)
    np.testing.assert_array_equal(wf.nn.fake_quantize(x, form, axis=1).numpy(), want)
    if not form.has_tensor_scale:
        np.testing.assert_array_equal(wf.vmap(lambda a: wf.nn.quantize(a, form, axis=0).dequantize())(wf.array(x)).numpy(), want)
    half = wf.array(x).astype("bfloat16")
    np.testing.assert_array_equal(
        wf.nn.quantize(half, form).dequantize("bfloat16").numpy(),
        wf.nn.quantize(half.astype("float32"), form).dequantize().astype("bfloat16").numpy(),
    )
    again = wf.nn.quantize(q.dequantize(), form, axis=1)  # numbers of the format stay
    if form.has_power_scales:
        np.testing.assert_array_equal(again.dequantize().numpy(), want)


@pytest.mark.parametrize("form", [wf.mxfp4, wf.nvfp4, wf.block_format("int4", 128)], ids=str)
def test_one_kernel(form):
    x = wf.ones((64, 256))
    f = wf.jit(lambda a: (wf.nn.quantize(a, form).codes, wf.nn.quantize(a, form).scales))
    assert len(wf.explain(f, x).kernels) == 1
    q = wf.nn.quantize(x, form)
    assert len(wf.explain(wf.jit(q.dequantize)).kernels) == 1


def test_gradients_are_those_of_the_identity(rng):
    x, w = draw(rng, (4, 40)), draw(rng, (4, 40))
    for form in FORMATS:
        g = wf.grad(lambda a, form=form: (wf.nn.fake_quantize(a, form) * w).sum())(wf.array(x))
        np.testing.assert_array_equal(g.numpy(), w)
    assert not wf.grad(lambda a: wf.nn.quantize(a, wf.mxfp4).dequantize().sum())(wf.array(x)).any()


def test_stochastic_rounding_has_the_right_mean():
    x = wf.concat([wf.full((8192, 1), 6.0), wf.full((8192, 31), 0.3)], axis=1)
    got = wf.nn.quantize(x, wf.mxfp4, rounding="stochastic", key=wf.random.key(3)).dequantize()[:, 1:]
    assert set(np.unique(got.numpy())) == {0.0, 0.5}
    assert abs(float(got.mean()) - 0.3) < 4 * 0.245 / (8192 * 31) ** 0.5


def test_precision_rounds_along_the_summed_axis(rng):
    x, w, image, kernel = (draw(rng, s) for s in ((5, 64), (3, 64), (2, 32, 6, 6), (4, 32, 3, 3)))
    fake = wf.nn.fake_quantize
    with wf.precision(weights=wf.mxfp4, activations=wf.mxfp8_e4m3):
        line, conv = wf.nn.linear(x, wf.array(w)), wf.nn.conv2d(wf.array(image), wf.array(kernel))
        turned = wf.nn.conv_transpose2d(wf.array(image), wf.array(kernel.swapaxes(0, 1)))
    np.testing.assert_array_equal(line.numpy(), wf.nn.linear(fake(x, wf.mxfp8_e4m3), fake(w, wf.mxfp4)).numpy())
    a, b = fake(image, wf.mxfp8_e4m3, axis=1), fake(kernel, wf.mxfp4, axis=1)
    np.testing.assert_array_equal(conv.numpy(), wf.nn.conv2d(a, b).numpy())
    np.testing.assert_array_equal(turned.numpy(), wf.nn.conv_transpose2d(a, b.swapaxes(0, 1)).numpy())
    with pytest.raises(DTypeError, match="gradients cannot have the block format"):
        wf.precision(gradients=wf.mxfp4)
    with pytest.raises(DTypeError, match="always saturates"):
        wf.precision(weights=wf.mxfp4, saturate=True)


def test_bad_input():
    q = wf.nn.quantize(wf.ones((2, 32)), wf.mxfp4)
    uses = (lambda: q[0], lambda: q.T, lambda: q + q, lambda: wf.ones((2, 2)) @ q, lambda: q.transpose(), lambda: np.asarray(q))
    for use in uses:
        with pytest.raises(TypeError, match="dequantize"):
            use()
    with pytest.raises(AttributeError, match="quantize the new values"):
        q.codes = wf.ones(3)
    cases = [
        (DTypeError, "must be a block format", lambda: wf.nn.quantize(wf.ones(3), "float8_e4m3fn")),
        (DTypeError, "x must be a float array", lambda: wf.nn.quantize(wf.arange(3), wf.mxfp4)),
        (ShapeError, "must be an axis of x", lambda: wf.nn.quantize(wf.ones(3), wf.mxfp4, axis=1)),
        (ValueError, "must be 'floor' or 'up'", lambda: wf.nn.quantize(wf.ones(3), wf.mxfp4, scale_rounding="ceil")),
        (ValueError, "are rounded to nearest", lambda: wf.nn.quantize(wf.ones(3), wf.nvfp4, scale_rounding="up")),
        (ValueError, "rounding=", lambda: wf.nn.quantize(wf.ones(3), wf.mxfp4, rounding="odd")),
        (DTypeError, "int4, int8, or a float dtype", lambda: wf.block_format("int16")),
        (ValueError, "positive even integer", lambda: wf.block_format("int4", 33)),
        (ValueError, "positive integer", lambda: wf.block_format("int8", 0)),
        (DTypeError, "scale=", lambda: wf.block_format("int8", 32, scale="float64")),
        (TypeError, "must be a QuantizedArray", lambda: wf.nn.dequantize(wf.ones(3))),
        (DTypeError, "must be a float dtype", lambda: q.dequantize("int8")),
        (ValueError, "its own scales", lambda: wf.nn.fake_quantize(wf.ones(3), wf.mxfp4, scale="tensor")),
        (ValueError, "is for block formats", lambda: wf.nn.fake_quantize(wf.ones(3), "int8", scale_rounding="up")),
    ]
    for error, message, call in cases:
        with pytest.raises(error, match=message):
            call()


def test_integers_of_numpy(rng):
    x, n = wf.array(rng.normal(size=(64, 4)).astype(np.float32)), np.int64
    form = wf.block_format("int8", n(32))
    assert form == wf.block_format("int8", 32)
    assert repr(form) == "block_format('int8', 32, scale='float32')"
    assert wf.nn.quantize(x, form, axis=n(0)).axis == 0
    assert (wf.nn.fake_quantize(x, form, axis=n(-2)) == wf.nn.fake_quantize(x, form, axis=0)).all()
    one, other = (wf.nn.fake_quantize(x, "int8", scale="channel", axis=axis) for axis in (n(1), 1))
    assert (one == other).all()
    small = wf.nn.quantize_model(wf.nn.Linear(64, 4), "int4", block=n(32))
    assert small.weight.format == wf.block_format("int4", 32)
    for flag in (True, np.True_, 32.0, n(0)):
        with pytest.raises(ValueError, match="positive integer"):
            wf.block_format("int8", flag)
    for flag in (True, np.True_, 0.0, n(2)):
        with pytest.raises(ShapeError, match="must be an axis"):
            wf.nn.quantize(x, form, axis=flag)

"""Quantized layers and models: the numbers they compute, their gradients, files and errors."""

import os

import numpy as np
import pytest

import weft as wf
from weft.errors import DataError, DTypeError, ShapeError
from weft.nn.quantized import linear

WEIGHTS = ["int8", "int4", "float8_e4m3fn", wf.mxfp4, wf.nvfp4, wf.mxfp8_e5m2, wf.block_format("int4", None),
           wf.block_format("int4", 32, scale="float16"), wf.block_format("int4", 10), wf.block_format("int8", 32)]
ACTIVATIONS = [None, "int8", "float8_e4m3fn"]


def rounded(x, activations, scale=None, axis=-1):
    """Return float64 inputs rounded to a format, with a scale a row, as NumPy computes them."""
    x = x.astype(np.float64)
    if activations is None:
        return x
    largest = 127.0 if activations == "int8" else 448.0
    if scale is None:
        scale = np.abs(x).max(axis=axis, keepdims=True) / largest
    codes = np.clip(x / scale, -largest, largest)
    codes = np.rint(codes) if activations == "int8" else wf.array(codes).astype("float8_e4m3fn").astype("float64").numpy()
    return codes * scale


@pytest.mark.drawn(5)
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_linear(weights, rng, monkeypatch):
    """Random sizes, each with few rows (codes are unpacked in the product) and many."""
    monkeypatch.setattr(linear, "IN_CACHE", int(rng.choice((0, linear.IN_CACHE))))
    for rows in (1, 2, 4, 5, 33):
        width, out = (int(n) for n in rng.integers(1, 300, size=2))
        layer, x = wf.nn.Linear(width, out), rng.normal(size=(rows, width)).astype(np.float32)
        for activations in ACTIVATIONS:
            small = wf.nn.quantize_model(layer, weights, activations)
            w = small.weight.dequantize().numpy().astype(np.float64)
            want = rounded(x, activations) @ w.T + layer.bias.numpy()
            bound = 2e-6 * (np.abs(x) @ np.abs(w).T).max() + (0.02 * want.std() if activations else 0) + 1e-6
            got = small(wf.array(x)).numpy()
            assert np.abs(got - want).max() < bound, (rows, width, out, activations)
            np.testing.assert_array_equal(wf.jit(small)(wf.array(x)).numpy(), got)
            g = wf.grad(lambda a, small=small: small(a).sum())(wf.array(x)).numpy()
            np.testing.assert_allclose(g, np.broadcast_to(w.sum(0), x.shape), atol=1e-4 * np.abs(w).sum(0).max())


def test_rows_do_not_depend_on_others(rng):
    layer = wf.nn.Linear(192, 70)
    for weights, activations in (("int4", None), ("int4", "int8"), ("int8", "int8")):
        small = wf.nn.quantize_model(layer, weights, activations)
        x = wf.array(rng.normal(size=(3, 192)).astype(np.float32))
        np.testing.assert_array_equal(wf.concat([small(x[k : k + 1]) for k in range(3)]).numpy(), small(x).numpy())
        many = wf.array(rng.normal(size=(2, 3, 192)).astype(np.float32))
        np.testing.assert_allclose(wf.vmap(small)(many).numpy(), small(many).numpy(), rtol=1e-4, atol=1e-5)


def test_convolutions_and_embeddings(rng):
    image = rng.normal(size=(2, 8, 12, 12)).astype(np.float32)
    mirrored = wf.nn.Conv2d(8, 4, 3, groups=2, padding_mode="reflect", padding=1)
    for layer in (wf.nn.Conv2d(8, 6, 3, padding=1, stride=2), mirrored):
        for weights in ("int8", "int4", wf.mxfp8_e4m3):
            for activations in ACTIVATIONS:
                small = wf.nn.quantize_model(layer, weights, activations)
                like = wf.nn.quantize_model(layer, weights)
                x = rounded(image, activations, axis=(1, 2, 3)).astype(np.float32)
                np.testing.assert_allclose(small(wf.array(image)).numpy(), like(wf.array(x)).numpy(), rtol=1e-3, atol=2e-2)
                g = wf.grad(lambda a, m=small: (m(a) ** 2).sum())(wf.array(image))
                assert g.shape == image.shape and float(abs(g).max()) > 0
    line = wf.nn.quantize_model(wf.nn.Conv1d(3, 5, 3), "int8", "int8")
    assert line(wf.ones((2, 3, 9))).shape == (2, 5, 7) and "activations=int8" in repr(line)
    table = wf.nn.Embedding(20, 48)
    for weights in ("int8", "int4", wf.mxfp4, wf.nvfp4):
        small = wf.nn.quantize_model(table, weights)
        index = wf.array([[0, 19, -1], [3, 3, 7]])
        np.testing.assert_array_equal(small(index).numpy(), small.weight.dequantize()[index].numpy())
        with pytest.raises(IndexError, match="the table has 20 rows"):
            small(wf.array([20]))


@pytest.mark.drawn(5)
@pytest.mark.parametrize("weights", [*WEIGHTS, wf.block_format("int4", 32)], ids=str)
def test_convolutions_of_short_rows(weights, rng):
    """Rows of 4-bit weights may have as many bytes as a row has weights, where they fill half a block."""
    for channels, window in ((1, 1), (8, 1), (2, 2), (16, 1), (4, 4), (5, 2), (32, 1), (64, 1)):
        layer = wf.nn.Conv2d(channels, 3, window, bias=False)
        image = rng.normal(size=(2, channels, 7, 7)).astype(np.float32)
        for activations in ACTIVATIONS:
            small = wf.nn.quantize_model(layer, weights, activations)
            decoded = small.weight.dequantize().reshape(layer.weight.shape)
            want = wf.nn.conv2d(wf.array(rounded(image, activations, axis=(1, 2, 3)).astype(np.float32)), decoded).numpy()
            bound = 2e-6 * np.abs(want).max() + (0.02 * want.std() if activations else 0) + 1e-6
            assert np.abs(small(wf.array(image)).numpy() - want).max() < bound, (channels, window, activations)


def make():
    return wf.nn.Sequential(
        wf.nn.Conv2d(1, 8, 3), wf.nn.ReLU(), wf.nn.Flatten(), wf.nn.Linear(288, 64), wf.nn.BatchNorm1d(64), wf.nn.Linear(64, 10),
    )


@pytest.mark.parametrize("weights", ["int8", "int4", "float8_e4m3fn", wf.mxfp4, wf.nvfp4], ids=str)
def test_files_have_the_bytes_of_the_codes(weights, tmp_path, rng):
    net, path = make(), tmp_path / "net.safetensors"
    x = wf.array(rng.normal(size=(6, 1, 8, 8)).astype(np.float32))
    small = wf.nn.quantize_model(net, weights, "int8", data=[x])
    small.save(path)
    again = wf.nn.quantize_model(make(), weights, "int8", data=[])
    np.testing.assert_array_equal(again.load(path)(x).numpy(), small(x).numpy())
    data = sum(a.nbytes for a in small.arrays().values())
    assert 0 < os.path.getsize(path) - data < 6000  # the header
    bits = {"int8": 8, "float8_e4m3fn": 8}.get(weights, 4)
    weight = small[3].weight
    assert weight.codes.nbytes == 64 * (-(-288 // (weight.format.block or 1)) * (weight.format.block or 1)) * bits // 8
    with pytest.raises(DataError, match="does not fit"):
        net.load(path)


@pytest.mark.parametrize("one,other,width", [
    ("int4", wf.block_format("float4_e2m1fn", 128), 256), (wf.mxfp4, wf.block_format("int4", 32, scale="float8_e8m0fnu"), 256),
    ("float8_e5m2", "float8_e4m3fn", 256), (wf.mxfp8_e4m3, wf.mxfp6_e2m3, 256), (wf.mxfp4, wf.nvfp4, 256),
    (wf.mxfp4, wf.mxfp4, 250),  # codes of the same shape
], ids=str)
def test_files_of_other_formats(one, other, width, tmp_path):
    path = tmp_path / "net.safetensors"
    for a, b in ((one, other), (other, one)):
        saved = wf.nn.quantize_model(wf.nn.Sequential(wf.nn.Linear(256, 8)), a)
        into = wf.nn.quantize_model(wf.nn.Sequential(wf.nn.Linear(width, 8)), b)
        saved.save(path)
        forms = [f"{net[0].weight.format} of shape {net[0].weight.shape}" for net in (saved, into)]
        with pytest.raises(DataError) as error:
            into.load(path)
        assert f"'0.weight' is {forms[0]}" in str(error.value)
        assert f"the model's is {forms[1]}" in str(error.value)
        wf.nn.quantize_model(wf.nn.Sequential(wf.nn.Linear(256, 8)), a).load(path)
    alike = wf.block_format("float4_e2m1fn", 32, scale="float8_e8m0fnu")  # has the name of an equal format
    wf.nn.quantize_model(wf.nn.Linear(256, 8), wf.mxfp4).save(path)
    wf.nn.quantize_model(wf.nn.Linear(256, 8), alike).load(path)


def test_models_stay_and_layers_are_chosen(rng):
    net = make()
    before = {name: a.numpy().copy() for name, a in net.arrays().items()}
    x = wf.array(rng.normal(size=(64, 1, 8, 8)).astype(np.float32))
    dynamic = wf.nn.quantize_model(net, "int8", "int8")
    fixed = wf.nn.quantize_model(net, "int8", "int8", data=[x, (x * 2, None)])
    cut = wf.nn.quantize_model(net, "int8", "int8", data=[x], percentile=99.0)
    assert dynamic[0].scale is None and float(fixed[0].scale) > 1.5 * float(cut[0].scale) > 0
    assert np.isclose(float(fixed[0].scale), float(abs(x).max()) * 2 / 127)
    net.eval()
    for m in (dynamic, fixed, cut):
        assert float(abs(m(x) - net(x)).max()) < 0.3
    net.train()
    assert all(np.array_equal(a.numpy(), before[name]) for name, a in net.arrays().items())
    assert net.training and not fixed.training
    last = wf.nn.quantize_model(net, "int4", only="5")
    assert isinstance(last[5], wf.nn.QuantizedLinear) and isinstance(last[3], wf.nn.Linear)
    last[3].weight[...] = 0
    assert net[3].weight.any()
    assert not [name for name in fixed.parameters() if "weight" in name and not name.startswith("4")]
    assert fixed.astype("bfloat16")[3].weight.codes.dtype == "int8"


def test_what_is_left_out_is_told():
    class Net(wf.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.out = wf.nn.MultiHeadAttention(32, 4), wf.nn.Linear(32, 5)

        def forward(self, x):
            return self.out(self.attention(x))

    with pytest.warns(RuntimeWarning, match=r"left as they are: attention\.\w+ \(MultiHeadAttention\)"):
        wf.nn.quantize_model(Net())
    wf.nn.quantize_model(Net(), only="out")


def test_bad_input():
    net, square = make(), wf.nn.quantize(wf.ones((4, 4)), wf.mxfp4)
    cases = [
        (DTypeError, "int4, int8, or a float dtype", lambda: wf.nn.quantize_model(net, "int16")),
        (DTypeError, "activations=", lambda: wf.nn.quantize_model(net, "int8", "int32")),
        (ValueError, "matches no Linear", lambda: wf.nn.quantize_model(net, only="nothing")),
        (ValueError, "are for activations=", lambda: wf.nn.quantize_model(net, data=[wf.ones((1, 1, 8, 8))])),
        (ValueError, "percentile=", lambda: wf.nn.quantize_model(net, "int8", "int8", data=[], percentile=0)),
        (ValueError, "its own blocks", lambda: wf.nn.quantize_model(net, wf.mxfp4, block=64)),
        (ShapeError, "in_features = 64", lambda: wf.nn.quantize_model(net)[5](wf.ones((2, 63)))),
        (ShapeError, "quantized along axis 1", lambda: wf.nn.QuantizedLinear(wf.nn.quantize(wf.ones((4, 4)), wf.mxfp4, axis=0))),
        (ShapeError, "quantized along axis 1", lambda: wf.nn.QuantizedEmbedding(wf.nn.quantize(wf.ones(4), wf.mxfp4))),
        (TypeError, "model must be a Module, not str", lambda: wf.nn.quantize_model("x", "int8")),
        (ValueError, "model: there is no Linear", lambda: wf.nn.quantize_model(wf.nn.Sequential(wf.nn.ReLU()), "int8")),
        (ValueError, "weights; some are quantized already", lambda: wf.nn.quantize_model(wf.nn.quantize_model(net))),
        (TypeError, "Linear: weight must be a QuantizedArray, .* not ndarray", lambda: wf.nn.QuantizedLinear(wf.ones((2, 3)))),
        (TypeError, "Embedding: weight must be a QuantizedArray", lambda: wf.nn.QuantizedEmbedding(wf.ones((2, 3)))),
        (TypeError, "Conv2d: weight must be a QuantizedArray", lambda: wf.nn.QuantizedConv2d(net[0], wf.ones((2, 3)))),
        (TypeError, "layer must be a Conv1d, Conv2d or Conv3d", lambda: wf.nn.QuantizedConv2d(wf.nn.Linear(4, 4), square)),
        (ShapeError, r"bias has shape \(3,\), it must be .* = \(4,\)", lambda: wf.nn.QuantizedLinear(square, wf.ones(3))),
        (ValueError, "scale=0.5 is for activations=", lambda: wf.nn.QuantizedLinear(square, scale=0.5)),
        (ValueError, "scale=.* must be one positive", lambda: wf.nn.QuantizedLinear(square, None, "int8", wf.ones(4))),
        *(
            (ValueError, "scale=.* must be one positive", lambda scale=scale: wf.nn.QuantizedLinear(square, None, "int8", scale))
            for scale in (0.0, -1, float("inf"), float("nan"))
        ),
        (ShapeError, "in two dimensions", lambda: wf.nn.QuantizedConv2d(net[0], wf.nn.quantize(wf.ones((4, 4)), wf.mxfp4))),
    ]
    for error, message, call in cases:
        with pytest.raises(error, match=message):
            call()


def test_empty_batches():
    for weights in WEIGHTS:
        for activations in ACTIVATIONS:
            small = wf.nn.quantize_model(wf.nn.Linear(256, 64), weights, activations)
            for shape in ((0, 256), (3, 0, 256)):
                assert small(wf.ones(shape)).shape == (*shape[:-1], 64)


def test_calibration_with_infinities(rng):
    x = rng.normal(size=(4, 6)).astype(np.float32)
    net = wf.nn.Sequential(wf.nn.Linear(6, 5), wf.nn.Linear(5, 3))
    for factor in (np.inf, np.nan):
        with pytest.raises(ValueError, match="batch 1 of data= .* layer '0' inputs with infinities or NaN"):
            wf.nn.quantize_model(net, "int8", activations="int8", data=[x, x * np.float32(factor)])
    of_numpy = wf.nn.quantize_model(net, "int8", activations="int8", data=[x])
    of_arrays = wf.nn.quantize_model(net, "int8", activations="int8", data=[wf.array(x)])
    assert float(of_numpy[0].scale) == float(of_arrays[0].scale) == np.float32(np.abs(x).max() / 127)

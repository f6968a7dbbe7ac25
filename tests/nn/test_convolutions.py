"""Convolutions of 1 to 3 dimensions and their transposes: value and gradient against sums over the window in float64."""

from __future__ import annotations

import numpy as np
import pytest
from layer_formulas import conv, conv_transpose
from layer_reference import check

import weft as wf
from weft.errors import ShapeError, TraceError

nn = wf.nn
rng = np.random.default_rng()


FORWARD = [
    (1, 9, {}), (1, 11, {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}), (2, 7, {"padding": 1, "dilation": 2}),
    (2, 6, {"groups": 2, "padding": 1}), (2, 6, {"groups": 4, "stride": 2}), (3, 5, {"padding": 1}),
    (3, 5, {"stride": 2, "groups": 2}),
]


@pytest.mark.parametrize("spatial,side,settings", FORWARD)
def test_convolution(spatial: int, side: int, settings: dict) -> None:
    groups = settings.get("groups", 1)
    x, w = rng.normal(size=(2, 4, *(side + d for d in range(spatial)))), rng.normal(size=(4, 4 // groups, *(3,) * spatial))
    b = rng.normal(size=4)
    function = getattr(nn, f"conv{spatial}d")
    check(lambda x, w, b: function(x, w, b, **settings), lambda x, w, b: conv(x, w, b, **settings), x, w, b)
    layer = getattr(nn, f"Conv{spatial}d")(None, 4, 3, **settings)
    y = layer(wf.array(x.astype("float32")))
    p = {n: a.numpy().astype("float64") for n, a in layer.parameters().items()}
    np.testing.assert_allclose(y.numpy(), conv(x, p["weight"], p["bias"], **settings), rtol=1e-4, atol=1e-4)
    assert layer.in_channels == 4


BACKWARD = [
    (1, 5, {"stride": 2, "padding": 1, "output_padding": 1}), (1, 5, {"dilation": 2, "groups": 2}),
    (2, 4, {"stride": 2, "padding": 1}), (2, 3, {"stride": 2, "groups": 2, "output_padding": 1}), (3, 3, {"stride": 2}),
]


@pytest.mark.parametrize("spatial,side,settings", BACKWARD)
def test_transposed_convolution(spatial: int, side: int, settings: dict) -> None:
    groups = settings.get("groups", 1)
    x, w = rng.normal(size=(2, 4, *(side + d for d in range(spatial)))), rng.normal(size=(4, 6 // groups, *(3,) * spatial))
    b = rng.normal(size=6)
    function = getattr(nn, f"conv_transpose{spatial}d")
    check(lambda x, w, b: function(x, w, b, **settings), lambda x, w, b: conv_transpose(x, w, b, **settings), x, w, b)
    layer = getattr(nn, f"ConvTranspose{spatial}d")(4, 6, 3, **settings)
    assert layer(wf.array(x.astype("float32"))).shape == conv_transpose(x, w, b, **settings).shape


def test_same_padding_and_small_dtypes() -> None:
    x, w, b = rng.normal(size=(2, 3, 7)), rng.normal(size=(4, 3, 4)), np.zeros(4)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2)))
    np.testing.assert_allclose(nn.conv1d(wf.array(x), wf.array(w), padding="same").numpy(), conv(padded, w, b), rtol=1e-10)
    np.testing.assert_allclose(nn.conv1d(wf.array(x), wf.array(w), padding="valid").numpy(), conv(x, w, b), rtol=1e-10)
    for dtype, bound in (("float16", 5e-3), ("bfloat16", 4e-2)):
        a, c = (wf.array(v.astype("float32")).astype(dtype) for v in (x, w))
        want = conv(a.astype("float64").numpy(), c.astype("float64").numpy(), b)
        y = nn.conv1d(a, c)
        assert y.dtype == a.dtype
        np.testing.assert_allclose(y.astype("float64").numpy(), want, rtol=bound, atol=bound * np.abs(want).max())


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "zeros": "constant"}


@pytest.mark.parametrize("mode", MODES)
def test_padding_modes(mode: str) -> None:
    x = rng.normal(size=(2, 3, 5, 6))
    for padding, widths in ((2, (2, 2)), ("same", (1, 2))):
        layer = nn.Conv2d(3, 4, 4, padding=padding, padding_mode=mode).astype("float64")
        w, b = (layer.parameters()[n].numpy() for n in ("weight", "bias"))
        padded = lambda x, widths=widths: np.pad(x, ((0, 0), (0, 0), widths, widths), mode=MODES[mode])  # noqa: E731
        check(layer, lambda x, w=w, b=b, padded=padded: conv(padded(x), w, b), x)
    assert mode == "zeros" or mode in repr(layer)
    with pytest.raises(ValueError, match="padding_mode must be one of 'zeros', 'reflect'"):
        nn.Conv2d(1, 2, 3, padding_mode="mirror")


def test_errors() -> None:
    with pytest.raises(ShapeError, match="stride 1"):
        nn.conv1d(wf.ones((1, 2, 5)), wf.ones((2, 2, 3)), padding="same", stride=2)
    with pytest.raises(ShapeError, match="has 3 channels"):
        nn.conv1d(wf.ones((1, 3, 5)), wf.ones((2, 2, 3)))
    with pytest.raises(ShapeError, match="x must be"):
        nn.Conv2d(1, 2, 3)(wf.ones((1, 5, 5)))
    with pytest.raises(ShapeError, match="groups=2"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ShapeError, match="output_padding"):
        nn.conv_transpose1d(wf.ones((1, 2, 5)), wf.ones((2, 2, 3)), output_padding=1)
    with pytest.raises(TraceError, match="in_channels is not known"):
        net = nn.Conv2d(None, 2, 3)
        wf.jit(lambda x: net(x))(wf.ones((1, 1, 5, 5)))


@pytest.mark.parametrize("seed", range(60))
def test_transposed_to_nothing(seed: int) -> None:
    """Padding may take all of the result, as in PyTorch, and no more."""
    rng = np.random.default_rng(seed)
    spatial, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    n, k, s, d, p = (rng.integers(low, high, spatial) for low, high in ((1, 5), (1, 4), (1, 4), (1, 3), (0, 5)))
    extra = rng.integers(0, np.maximum(s, d))
    extents = (n - 1) * s - 2 * p + d * (k - 1) + extra + 1
    x, w = wf.ones((2, 2 * groups, *n)), wf.ones((2 * groups, 3, *k))
    options = dict(zip(("stride", "padding", "output_padding", "dilation"), map(tuple, (s, p, extra, d)), strict=True))
    function = getattr(nn, f"conv_transpose{spatial}d")
    if extents.min() < 0:
        with pytest.raises(ShapeError, match=rf"conv_transpose{spatial}d: padding \({p[0]},.* with stride \({s[0]},"):
            function(x, w, groups=groups, **options)
        return
    for bias in (None, wf.ones(3 * groups)):
        y = function(x, w, bias, groups=groups, **options)
        assert y.shape == (2, 3 * groups, *extents) and y.dtype == "float32"
    if not extents.min():
        slope = wf.grad(lambda w: function(x, w, groups=groups, **options).sum())(w)
        assert slope.shape == w.shape and not slope.any()

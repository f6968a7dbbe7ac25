"""Resizing, sampling, padding, unpooling: large filters, NaN, dtypes, kernels, refusals; values are in test_torch_values.py."""

from __future__ import annotations

import numpy as np
import pytest
from layer_reference import check

import weft as wf
from weft.errors import DTypeError, ShapeError

nn = wf.nn


def test_filters_over_many_pixels(rng: np.random.Generator) -> None:
    """A filter over an area of 12 pixels: weights of a triangle of twice that width, which add up to 1."""
    x = rng.normal(size=(1, 2, 48))
    at = np.arange(48)

    def shrink(x: np.ndarray) -> np.ndarray:
        weights = np.maximum(0, 1 - np.abs(at + 0.5 - (np.arange(4)[:, None] + 0.5) * 12) / 12)
        return x @ (weights / weights.sum(1, keepdims=True)).T

    check(lambda x: nn.interpolate(x, 4, mode="linear", antialias=True), shrink, x)


def test_nan_stays_where_it_is_read() -> None:
    x = np.ones((1, 1, 8, 8), np.float32)
    x[0, 0, 0, 0] = np.nan
    for mode in ("nearest", "linear", "cubic", "area"):
        found = np.isnan(nn.interpolate(wf.array(x), 4, mode=mode).numpy())
        assert found[0, 0, 0, 0] and not found[0, 0, 2:, 2:].any()
    grid = wf.array(np.array([[[[np.nan, 0.0], [9.0, 0.0], [np.inf, 0.0]]]], np.float32))  # nothing is read out of range
    assert np.isnan(nn.grid_sample(wf.ones((1, 1, 2, 2)), grid).numpy()[0, 0, 0, 0])
    assert nn.grid_sample(wf.ones((1, 1, 2, 2)), grid).numpy()[0, 0, 0, 1] == 0
    y, places = nn.max_pool2d(wf.array(x), 2, return_indices=True)
    assert np.isnan(y.numpy()[0, 0, 0, 0]) and places.numpy()[0, 0, 0, 0] == 0
    low = wf.array(np.full((1, 1, 3), -np.inf))
    assert nn.max_pool1d(low, 3, 1, 1, return_indices=True)[1].tolist() == [[[0, 0, 1]]]


def test_integers_and_sixteen_bits(rng: np.random.Generator) -> None:
    x = wf.array(rng.integers(0, 9, (1, 2, 4, 4)), dtype="uint8")
    assert nn.interpolate(x, 8).dtype == np.uint8 and nn.PixelShuffle(1)(x).dtype == np.uint8
    assert nn.max_pool2d(x, 2, return_indices=True)[0].dtype == np.uint8
    wide = rng.normal(size=(2, 2, 5, 5))
    half = wf.array(wide).astype("bfloat16")
    y = nn.interpolate(half, 9, mode="cubic")
    want = nn.interpolate(half.astype("float64"), 9, mode="cubic").numpy()
    assert y.dtype.name == "bfloat16"
    np.testing.assert_allclose(y.astype("float64").numpy(), want, rtol=4e-3, atol=1e-6)


def test_kernels_and_retraces(rng: np.random.Generator) -> None:
    x = wf.array(rng.normal(size=(2, 3, 8, 8)).astype(np.float32))
    grid = wf.array(rng.uniform(-1, 1, (2, 4, 4, 2)).astype(np.float32))

    def step(x, grid):
        y, places = nn.max_pool2d(nn.interpolate(x, 12, mode="linear"), 2, return_indices=True)
        return nn.max_unpool2d(y, places, 2), nn.grid_sample(x, grid)

    jitted = wf.jit(step)
    for _ in range(3):
        wf.eval(jitted(x, grid))
    assert jitted.traces == 1
    for f, count in (
        (lambda x: nn.interpolate(x, scale_factor=2), 1), (lambda x: nn.interpolate(x, 5, mode="cubic"), 2),
        (lambda x: nn.grid_sample(x, grid), 1), (nn.ReflectionPad2d(2), 2), (nn.ZeroPad2d(2), 1),
    ):
        assert len(wf.explain(wf.jit(f), x).kernels) <= count


def test_pairs_of_padding(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(2, 2, 5, 6)), rng.normal(size=(3, 2, 3, 2))
    pads = ((0, 2), (1, 3))

    def padded(x):
        return nn.conv2d(nn.ZeroPad2d((1, 3, 0, 2))(x), wf.array(w)).numpy()

    np.testing.assert_allclose(nn.conv2d(wf.array(x), wf.array(w), padding=pads).numpy(), padded(wf.array(x)), rtol=1e-12)
    for mode, pad in (("reflect", nn.ReflectionPad2d), ("circular", nn.CircularPad2d), ("replicate", nn.ReplicationPad2d)):
        layer = nn.Conv2d(2, 3, (3, 2), padding=pads, padding_mode=mode).astype("float64")
        want = nn.conv2d(pad((1, 3, 0, 2))(wf.array(x)), layer.weight, layer.bias)
        np.testing.assert_allclose(layer(wf.array(x)).numpy(), want.numpy(), rtol=1e-12)
    assert nn.Conv2d(2, 3, 3, padding=((1, 1), (2, 2))).padding == (1, 2)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
def test_places_at_a_border_have_no_gradient(padding_mode: str, align_corners: bool, rng: np.random.Generator) -> None:
    n = 4
    edge = 1.0 if align_corners else 1.0 - 1.0 / n  # the centre of the last pixel
    x = wf.array(np.cumsum(rng.uniform(1, 2, (1, 1, n, n)), axis=3))
    grid = np.zeros((1, 1, 5, 2))
    grid[0, 0, :, 0] = -edge, edge, 0.9 * edge, rng.uniform(-0.9, 0.9) * edge, -0.9 * edge
    slope = wf.grad(lambda g: nn.grid_sample(x, g, "bilinear", padding_mode, align_corners).sum())(wf.array(grid)).numpy()
    assert not slope[0, 0, :2, 0].any() and (slope[0, 0, 2:, 0] > 0.5).all()


def test_unpooling_refuses_places_and_sizes_that_no_pooling_gives(rng: np.random.Generator) -> None:
    for _ in range(8):
        k, s = (int(v) for v in rng.integers(1, 5, 2))
        p, n = int(rng.integers(0, k // 2 + 1)), int(rng.integers(k, 12))
        x = wf.array(rng.uniform(1, 2, (2, 1, n)))
        y, places = nn.max_pool1d(x, k, s, p, return_indices=True)
        back = nn.max_unpool1d(y, places, k, s, p, output_size=n).numpy()
        assert (back == np.where(back == 0, 0, x.numpy())).all() and back.any()
        for size in (n + s, n - 2 * s):
            with pytest.raises(ShapeError, match="output_size"):
                nn.max_unpool1d(y, places, k, s, p, output_size=size)
        row = int(rng.integers(0, 2))
        for bad in (-1, n):
            wrong = places.numpy().copy()
            wrong[row, 0, -1] = bad
            for f in (nn.max_unpool1d, wf.jit(nn.max_unpool1d, static_argnums=(2, 3, 4, 5))):
                with pytest.raises(IndexError, match=f"max_unpool1d: indices must be from 0 to {n - 1}, not {bad}"):
                    wf.eval(f(y, wf.array(wrong), k, s, p, n))


@pytest.mark.parametrize("call, error, words", [
    (lambda x: nn.interpolate(x), TypeError, "give size or scale_factor"),
    (lambda x: nn.interpolate(x, 3, 2), TypeError, "not both"),
    (lambda x: nn.interpolate(x, 3, mode="linaer"), ValueError, "mode must be one of"),
    (lambda x: nn.interpolate(x, 3, mode="trilinear"), ValueError, r"not 'trilinear' for x \(N, C, H, W\)"),
    (lambda x: nn.interpolate(x[0], scale_factor=(1, 2)), ShapeError, r"must be a positive number, not \(1, 2\)"),
    (lambda x: nn.interpolate(x, 3, antialias=True), ValueError, "antialias is for"),
    (lambda x: nn.interpolate(x, scale_factor=0.1), ShapeError, "leaves no pixel"),
    (lambda x: nn.interpolate(x[0, 0], 3), ShapeError, r"x must be \(N, C, L\)"),
    (lambda x: nn.interpolate(x.astype("int32"), 3, mode="area"), DTypeError, "must be float"),
    (lambda x: nn.grid_sample(x, wf.ones((2, 3, 3, 2))), ShapeError, "grid"),
    (lambda x: nn.grid_sample(x, wf.ones((1, 3, 3, 2)), "linear"), ValueError, "'bilinear', 'nearest', 'bicubic'"),
    (lambda x: nn.grid_sample(x, wf.ones((1, 3, 3, 2)), padding_mode="edge"), ValueError, "padding_mode"),
    (lambda x: nn.affine_grid(wf.ones((2, 2)), (1, 1, 2, 2)), ShapeError, "theta"),
    (lambda x: nn.affine_grid(wf.ones((1, 2, 3)), (1, 1, 2)), ShapeError, "size"),
    (lambda x: nn.ZeroPad2d((1, 2)), ShapeError, "4 ints"),
    (lambda x: nn.ReflectionPad1d(-1), ShapeError, "at least 0"),
    (lambda x: nn.pixel_shuffle(x, 2), ShapeError, "multiple of upscale_factor"),
    (lambda x: nn.pixel_unshuffle(x, 3), ShapeError, "multiples of downscale_factor"),
    (lambda x: nn.max_unpool2d(x, x, 2), DTypeError, "indices must be integers"),
    (lambda x: nn.max_unpool2d(x, wf.zeros((1, 2), dtype="int32"), 2), ShapeError, "shape of x"),
    (lambda x: nn.max_pool2d(x, (1, 2, 2), return_indices=True), ShapeError, "return_indices"),
    (lambda x: nn.conv2d(x, wf.ones((1, 2, 2, 2)), padding=((1, 2),)), ShapeError, "pair"),
])
def test_refusals(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call(wf.ones((1, 2, 4, 4)))

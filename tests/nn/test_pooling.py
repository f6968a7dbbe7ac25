"""Pooling of 1 to 3 dimensions: value and gradient against windows in float64."""

from __future__ import annotations

import numpy as np
import pytest
from layer_formulas import adaptive, windows
from layer_reference import check

import weft as wf
from weft.errors import ShapeError

nn = wf.nn
rng = np.random.default_rng()


def _x(spatial: int) -> np.ndarray:
    """No two numbers are near each other: between two of them the largest would change within a step of the differences."""
    shape = (2, 3, *(6, 7, 5)[:spatial])
    return rng.permutation(np.linspace(-3, 3.1, int(np.prod(shape)))).reshape(shape)


KINDS = {
    "max": ((), lambda x: windows(x, 3, 2, 1, -np.inf).max(-1)),
    "avg": ((), lambda x: windows(x, 3, 2, 1, 0).mean(-1)),
    "lp": ((3.0,), lambda x: (np.abs(windows(x, 3, 2, 1, 0)) ** 3).sum(-1) ** (1 / 3)),
}


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_pooling(kind: str, spatial: int) -> None:
    first, reference = KINDS[kind]
    x = _x(spatial)
    check(lambda x: getattr(nn, f"{kind}_pool{spatial}d")(x, *first, 3, 2, 1), reference, x)
    layer = getattr(nn, f"{ {'max': 'Max', 'avg': 'Avg', 'lp': 'LP'}[kind]}Pool{spatial}d")(*first, 3, 2, 1)
    np.testing.assert_allclose(layer(wf.array(x)).numpy(), reference(x), rtol=1e-10, atol=1e-12)


def test_padding_not_counted_and_other_norms() -> None:
    x = _x(2)
    counts = windows(np.ones_like(x), 3, 2, 1, 0).sum(-1)
    check(lambda x: nn.avg_pool2d(x, 3, 2, 1, count_include_pad=False), lambda x: windows(x, 3, 2, 1, 0).sum(-1) / counts, x)
    check(lambda x: nn.lp_pool2d(x, 2, 2), lambda x: np.sqrt((windows(x, 2, 2, 0, 0) ** 2).sum(-1)), x)
    np.testing.assert_allclose(nn.lp_pool2d(wf.array(x), wf.inf, 2).numpy(), np.abs(windows(x, 2, 2, 0, 0)).max(-1))
    np.testing.assert_allclose(nn.lp_pool2d(wf.array(x), 1, 2).numpy(), np.abs(windows(x, 2, 2, 0, 0)).sum(-1))
    slope = wf.grad(lambda x: nn.lp_pool2d(x, 2, 2).sum())(wf.zeros((1, 1, 4, 4)))
    assert (slope.numpy() == 0).all()


@pytest.mark.parametrize("out", [(4, 3), (2, 7), (1, 1)])
def test_adaptive_pooling(out: tuple[int, int]) -> None:
    x = _x(2)
    check(lambda x: nn.AdaptiveAvgPool2d(out)(x), lambda x: adaptive(x, out, np.mean), x)
    check(lambda x: nn.AdaptiveMaxPool2d(out)(x), lambda x: adaptive(x, out, np.max), x)


def test_other_ranks_and_global_pooling() -> None:
    for spatial in (1, 3):
        x = _x(spatial)
        a = wf.array(x)
        size = (4, 3, 2)[:spatial]
        for name, fold in (("Avg", np.mean), ("Max", np.max)):
            got = getattr(nn, f"Adaptive{name}Pool{spatial}d")(size)(a)
            np.testing.assert_allclose(got.numpy(), adaptive(x, size, fold), rtol=1e-10, atol=1e-12)
            got = getattr(nn, f"Global{name}Pool{spatial}d")()(a)
            np.testing.assert_allclose(got.numpy(), fold(x.reshape(2, 3, -1), axis=-1), rtol=1e-10, atol=1e-12)
    x = _x(2)
    check(lambda x: nn.GlobalMaxPool2d()(x), lambda x: x.max((2, 3)), x)
    assert nn.GlobalAvgPool2d(keepdims=True)(wf.array(x)).shape == (2, 3, 1, 1)
    assert nn.AdaptiveAvgPool2d((None, 2))(wf.array(x)).shape == (2, 3, 6, 2)


def _ceiled(x, k, s, p, fold):
    """``fold(window, padded size)`` of windows cut at the end of the image with its padding."""
    out = [-(-(n + 2 * p - k) // s) + 1 for n in x.shape[2:]]
    out = [o - ((o - 1) * s >= n + p) for o, n in zip(out, x.shape[2:], strict=True)]
    y = np.empty((*x.shape[:2], *out))
    for at in np.ndindex(*out):
        inside = [(max(i * s - p, 0), min(i * s - p + k, n)) for i, n in zip(at, x.shape[2:], strict=True)]
        size = np.prod([min(i * s - p + k, n + p) - (i * s - p) for i, n in zip(at, x.shape[2:], strict=True)])
        window = x[(..., *(slice(a, b) for a, b in inside))].reshape(*x.shape[:2], -1)
        y[(..., *at)] = fold(window, size)
    return y


@pytest.mark.parametrize("spatial,k,s,p", [(1, 3, 2, 0), (1, 2, 3, 1), (2, 3, 2, 1), (2, 2, 3, 0), (3, 2, 2, 0)])
def test_windows_that_stick_out(spatial: int, k: int, s: int, p: int) -> None:
    x = _x(spatial)
    kinds = {
        "Max": ({}, lambda w, size: w.max(-1)), "Avg": ({}, lambda w, size: w.sum(-1) / size),
        "LP": ({"norm_type": 2}, lambda w, size: np.sqrt((w**2).sum(-1))),
    }
    for kind, (settings, fold) in kinds.items():
        layer = getattr(nn, f"{kind}Pool{spatial}d")(kernel_size=k, stride=s, padding=p, ceil_mode=True, **settings)
        check(layer, lambda x, fold=fold: _ceiled(x, k, s, p, fold), x)
    layer = getattr(nn, f"AvgPool{spatial}d")(k, s, p, count_include_pad=False, ceil_mode=True)
    check(layer, lambda x: _ceiled(x, k, s, p, lambda w, size: w.mean(-1)), x)
    assert "ceil_mode=True" in repr(layer) and "count_include_pad=False" in repr(layer)


def test_large_numbers_in_float16() -> None:
    """Sums and powers are larger than float16 holds, the results are not."""
    x = wf.array(np.full((1, 1, 4, 4), 2000.0, "float16"))
    assert nn.avg_pool2d(x, 4).numpy().item() == nn.AdaptiveAvgPool2d(1)(x).numpy().item() == 2000
    assert nn.avg_pool2d(x, 4, 1, 2, count_include_pad=False).numpy()[0, 0, 0, 0] == 2000
    assert nn.lp_pool2d(x, 2, 4).numpy().item() == 8000 and nn.lp_pool2d(x, 3.0, 2).numpy()[0, 0, 0, 0] == 3174
    whole = wf.array(np.arange(16).reshape(1, 1, 4, 4))
    assert nn.avg_pool2d(whole, 2, count_include_pad=False, padding=1).numpy()[0, 0, 1, 1] == 7.5


def test_maxout() -> None:
    x = rng.normal(size=(3, 6, 4))
    check(lambda x: nn.maxout(x, 3), lambda x: x.reshape(3, 2, 3, 4).max(2), x)
    assert nn.MaxOut(2)(wf.array(x)).shape == (3, 3, 4)
    with pytest.raises(ShapeError, match="multiple of kernel_size=4"):
        nn.MaxOut(4)(wf.array(x))


def test_small_dtypes_and_errors() -> None:
    for dtype, bound in (("float16", 3e-3), ("bfloat16", 2e-2)):
        x = wf.array(_x(2).astype("float32")).astype(dtype)
        wide = x.astype("float64").numpy()
        assert nn.max_pool2d(x, 2).dtype == x.dtype
        np.testing.assert_array_equal(nn.max_pool2d(x, 2).astype("float64").numpy(), windows(wide, 2, 2, 0, 0).max(-1))
        np.testing.assert_allclose(
            nn.avg_pool2d(x, 2).astype("float64").numpy(), windows(wide, 2, 2, 0, 0).mean(-1), rtol=bound, atol=bound)
    with pytest.raises(ShapeError, match="x must be"):
        nn.MaxPool1d(2)(wf.ones((1, 1, 4, 4)))
    with pytest.raises(ShapeError, match="more than half"):
        nn.max_pool2d(wf.ones((1, 1, 4, 4)), 2, padding=2)
    with pytest.raises(ValueError, match="norm_type"):
        nn.lp_pool2d(wf.ones((1, 1, 4, 4)), 0.5, 2)

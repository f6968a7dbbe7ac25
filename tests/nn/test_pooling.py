"""Pooling of 1 to 3 dimensions: value and gradient against windows in float64."""

from __future__ import annotations

from functools import partial

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


def _outputs(n: int, k: int, s: int, p: int, ceil: bool) -> int:
    """PyTorch's ``pooling_output_shape``."""
    count = (n + 2 * p - k + (s - 1 if ceil else 0)) // s + 1
    return count - (ceil and (count - 1) * s >= n + p)


def _pooled(x: np.ndarray, g: np.ndarray, fold: str, sizes: list[tuple[int, int, int]], ceil: bool) -> tuple:
    """Value and gradient of pooling over the last dimensions, window by window, in float64."""
    dims = len(sizes)
    lead, size = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
    out = tuple(_outputs(n, *at, ceil) for n, at in zip(size, sizes, strict=True))
    y, dx = np.empty(lead + out), np.zeros_like(x)
    for at in np.ndindex(*out):
        first = [i * s - p for i, (_, s, p) in zip(at, sizes, strict=True)]
        last = [a + k for a, (k, _, _) in zip(first, sizes, strict=True)]
        inside = (..., *(slice(max(a, 0), min(b, n)) for a, b, n in zip(first, last, size, strict=True)))
        padded = np.prod([min(b, n + p) - a for a, b, n, (_, _, p) in zip(first, last, size, sizes, strict=True)])
        window = x[inside].reshape(*lead, -1)
        if fold == "max":
            y[(..., *at)], share = window.max(-1), np.arange(window.shape[-1]) == window.argmax(-1)[..., None]
        elif fold.startswith("avg"):
            count = padded if fold == "avg" else window.shape[-1]
            y[(..., *at)], share = window.sum(-1) / count, np.full_like(window, 1 / count)
        else:
            power = float(fold[3:])
            norm = (abs(window) ** power).sum(-1) ** (1 / power)
            y[(..., *at)], share = norm, np.sign(window) * (abs(window) / np.where(norm == 0, 1, norm)[..., None]) ** (power - 1)
        dx[inside] += (share * g[(..., *at)][..., None]).reshape(dx[inside].shape)
    return y, dx


def _function(fold: str, spatial: int) -> tuple:
    """The function and the layer that fold windows so, as functions of sizes."""
    kind = "lp" if fold.startswith("lp ") else fold[:3]
    first = (float(fold[3:]),) if kind == "lp" else ()
    more = {"count_include_pad": False} if fold == "avg inside" else {}
    layer = getattr(nn, f"{ {'max': 'Max', 'avg': 'Avg', 'lp': 'LP'}[kind]}Pool{spatial}d")
    function = getattr(nn, f"{kind}_pool{spatial}d")
    return (lambda x, *at, **how: function(x, *first, *at, **how, **more)), lambda *at, **how: layer(*first, *at, **how, **more)


@pytest.mark.drawn(7)
@pytest.mark.parametrize("dtype,bound", [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("fold", ["max", "avg", "avg inside", "lp 1", "lp 2", "lp 3", "lp 1.5"])
def test_random_windows(fold: str, dtype: str, bound: float) -> None:
    """Over one to three dimensions, with channels and without, overlapping, padded and sticking out; value and gradient."""
    for _ in range(12):
        spatial, channels, ceil = int(rng.integers(1, 4)), bool(rng.random() < 0.6), bool(rng.random() < 0.5)
        sizes = []
        for _ in range(spatial + channels):
            k = int(rng.integers(1, 5))
            sizes.append((k, int(rng.integers(1, k + 2)), int(rng.integers(0, k // 2 + 1))))
        size = [int(rng.integers(1, 7)) for _ in sizes]
        size = [n if _outputs(n, *at, ceil) > 0 else at[0] for n, at in zip(size, sizes, strict=True)]
        shape = (*[int(n) for n in rng.integers(1, 4, 2 - channels)], *size)
        x = rng.permutation(np.linspace(-3, 3.1, int(np.prod(shape)))).reshape(shape).astype(dtype)
        x[x > 2.5] = 0  # equal ones: the first of the largest counts
        if fold == "max":  # padding is never the largest, not even beside -inf
            x[rng.random(x.shape) < rng.choice([0, 0.5, 0.95])] = -np.inf
        function, layer = _function(fold, spatial)
        k, s, p = (tuple(at) for at in zip(*sizes, strict=True))
        if len(set(s)) == 1 and rng.random() < 0.5:
            s = s[0]
        if len(set(p)) == 1 and rng.random() < 0.5:
            p = p[0]
        found = function(wf.array(x), k, s, p, ceil_mode=ceil)
        g = rng.normal(size=found.shape)
        want, slope = _pooled(x.astype("float64"), g, fold, sizes, ceil)
        np.testing.assert_allclose(found.numpy(), want, rtol=bound, atol=bound)
        weights = wf.array(g.astype(dtype))
        for form in (partial(function, kernel_size=k, stride=s, padding=p, ceil_mode=ceil), layer(k, s, p, ceil_mode=ceil)):
            derivative = wf.grad(lambda x, weights, form=form: (form(x) * weights).sum())
            for call in (derivative, wf.jit(derivative)):
                np.testing.assert_allclose(call(wf.array(x), weights).numpy(), slope, rtol=4 * bound, atol=4 * bound)


def test_numbers_of_windows_are_pytorchs() -> None:
    for n, k, s in np.ndindex(7, 6, 6):
        for p in range(k // 2 + 1 if k else 0):
            for ceil in (False, True):
                if s and _outputs(n, k, s, p, ceil) > 0 and n:
                    got = nn.max_pool1d(wf.ones((1, 1, n)), k, s, p, ceil_mode=ceil)
                    assert got.shape == (1, 1, _outputs(n, k, s, p, ceil)) and (got.numpy() == 1).all(), (n, k, s, p, ceil)
                    mean = nn.avg_pool1d(wf.ones((1, 1, n)), k, s, p, False, ceil)
                    np.testing.assert_allclose(mean.numpy(), 1, rtol=1e-6)
                elif s and n:
                    with pytest.raises(ShapeError, match="larger than x"):
                        nn.max_pool1d(wf.ones((1, 1, n)), k, s, p, ceil_mode=ceil)


def test_pooling_over_channels_as_maxout_and_as_a_volume() -> None:
    x = wf.array(_x(2).repeat(2, axis=1))
    np.testing.assert_array_equal(nn.max_pool2d(x, (3, 1, 1)).numpy(), nn.maxout(x, 3).numpy())
    volume = nn.avg_pool3d(x[:, None], (3, 2, 3), (2, 1, 2), 1)
    np.testing.assert_array_equal(nn.avg_pool2d(x, (3, 2, 3), (2, 1, 2), 1).numpy(), volume[:, 0].numpy())
    assert "(3, 2, 3)" in repr(nn.AvgPool2d((3, 2, 3), (2, 1, 2), 1))
    for wrong in ((1,), (1, 2, 3, 4)):
        with pytest.raises(ShapeError, match="tuple of 2, or one of 3 whose first is for channels"):
            nn.max_pool2d(x, wrong)
    for name, value in (("stride", (2, 2)), ("padding", (0, 0)), ("kernel_size", (2, 2, 0))):
        with pytest.raises(ShapeError, match=f"max_pool2d: {name} must be"):
            nn.max_pool2d(x, **{"kernel_size": (2, 2, 2), name: value})
    with pytest.raises(ShapeError, match="four ints"):
        nn.max_pool3d(x[:, None], (1, 1, 1, 1), "ab")


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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_regions(bad: float) -> None:
    for spatial in (1, 2, 3):
        x, size = _x(spatial), (4, 3, 2)[:spatial]
        x[(0, 0, *(rng.integers(n) for n in x.shape[2:]))] = bad
        with np.errstate(invalid="ignore"):
            for name, fold in (("Avg", np.mean), ("Max", np.max)):
                layer = getattr(nn, f"Adaptive{name}Pool{spatial}d")(size)
                np.testing.assert_allclose(layer(wf.array(x)).numpy(), adaptive(x, size, fold), rtol=1e-10, atol=1e-12)


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

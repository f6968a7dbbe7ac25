"""Attention against NumPy in float64: values, gradients, masks, heads, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_formulas import attention, heads
from layer_reference import check

import weft as wf
from weft.errors import DTypeError, ShapeError

nn = wf.nn
rng = np.random.default_rng()


def triple(*batch: int, length=5, keys=7, width=3, out=4) -> list[np.ndarray]:
    return [rng.normal(size=(*batch, *s)) for s in ((length, width), (keys, width), (keys, out))]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_values_and_gradients(batch: tuple[int, ...]) -> None:
    check(nn.scaled_dot_product_attention, attention, *triple(*batch))


def test_masks_and_scale() -> None:
    x = triple(2, 3)
    mask, bias = rng.random((2, 1, 5, 7)) < 0.6, rng.normal(size=(5, 7))
    mask[0, 0, 2] = False  # attends to nothing
    low = np.tril(np.ones((5, 7), bool))
    f = nn.scaled_dot_product_attention
    check(lambda q, k, v: f(q, k, v, wf.array(mask)), lambda q, k, v: attention(q, k, v, mask), *x)
    check(lambda q, k, v: f(q, k, v, wf.array(bias), scale=0.3), lambda q, k, v: attention(q, k, v, True, bias, 0.3), *x)
    check(lambda q, k, v: f(q, k, v, is_causal=True), lambda q, k, v: attention(q, k, v, low), *x)
    assert not f(*(wf.array(a) for a in x), wf.array(mask)).numpy()[0, :, 2].any()


def test_several_query_heads_for_each_key_head() -> None:
    q, k, v = rng.normal(size=(2, 6, 4, 3)), rng.normal(size=(2, 2, 5, 3)), rng.normal(size=(2, 2, 5, 3))
    check(lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, enable_gqa=True),
          lambda q, k, v: attention(q, k.repeat(3, 1), v.repeat(3, 1)), q, k, v)


@pytest.mark.parametrize("dtype,bound", [("float16", 2e-3), ("bfloat16", 1e-2)])
def test_half_precision_is_storage(dtype: str, bound: float) -> None:
    x = [wf.array(a).astype(dtype) for a in triple(2)]
    got = nn.scaled_dot_product_attention(*x, is_causal=True)
    wide = [a.astype("float64").numpy() for a in x]
    want = attention(*wide, np.tril(np.ones((5, 7), bool)))
    assert got.dtype == dtype
    assert np.abs(got.astype("float64").numpy() - want).max() < bound * np.abs(want).max()


def test_dropout_drops_weights() -> None:
    wf.random.seed(11)
    one = wf.zeros((50, 40, 2))
    value = wf.array(np.broadcast_to(np.eye(40, dtype="f"), (50, 40, 40)))
    w = nn.scaled_dot_product_attention(one, one, value, dropout_p=0.25).numpy()
    assert abs((w == 0).mean() - 0.25) < 0.01 and np.allclose(w[w != 0], 1 / 40 / 0.75)


def made(*args: Any, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    layer = nn.MultiHeadAttention(*args, **options)
    w = {}
    for name, a in layer.parameters().items():
        w[name] = rng.normal(size=a.shape) * 0.5
        a[...] = w[name].astype("f")
        w[name] = a.numpy().astype(np.float64)
    return layer, w


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 5, "vdim": 3}])
def test_layer_between_sequences(options: dict[str, Any]) -> None:
    layer, w = made(8, 2, **options)
    q, k, v = rng.normal(size=(3, 4, 8)), rng.normal(size=(3, 6, layer.kdim)), rng.normal(size=(3, 6, layer.vdim))
    padding = np.arange(6) >= np.array([[6], [4], [1]])
    later = rng.random((4, 6)) < 0.2
    later[:, 0] = False
    run = wf.jit(lambda q, k, v: layer(q, k, v, wf.array(padding), True, wf.array(later), False))
    got, weights = run(*(wf.array(a.astype("f")) for a in (q, k, v)))
    want, each = heads(layer, q, k, v, w, ~(padding[:, None, None] | later))
    assert np.abs(got.numpy() - want).max() < 2e-5 * np.abs(want).max()
    assert np.abs(weights.numpy() - each).max() < 1e-5
    mean = layer(*(wf.array(a.astype("f")) for a in (q, k, v)), wf.array(padding), True, wf.array(later))[1]
    assert np.abs(mean.numpy() - each.mean(1)).max() < 1e-5


def test_layer_attends_to_itself_in_training() -> None:
    layer, w = made(6, 3)
    x, low = rng.normal(size=(2, 5, 6)), np.tril(np.ones((5, 5), bool))
    bias = rng.normal(size=(6, 5, 5))
    target = rng.normal(size=(2, 5, 6))
    mask, toward = wf.array(bias.astype("f")), wf.array(target)

    @wf.jit
    def slopes(x: Any) -> Any:
        return wf.grad(lambda layer: (layer(x, attn_mask=mask, is_causal=True) * toward).sum())(layer)

    found = slopes(wf.array(x.astype("f")))

    def total(w: dict[str, np.ndarray]) -> float:
        return (heads(layer, x, x, x, w, low, bias.reshape(2, 3, 5, 5))[0] * target).sum()

    for name, a in w.items():
        step = rng.normal(size=a.shape)
        up, down = ({**w, name: a + s * 1e-6 * step} for s in (1, -1))
        slope = found.parameters()[name].numpy().astype(np.float64)
        assert abs((slope * step).sum() - (total(up) - total(down)) / 2e-6) < 2e-4 * (np.abs(slope * step).sum() + 1e-3), name


def test_layer_without_batch_dropout_and_modes() -> None:
    layer, w = made(4, 2, dropout=0.5)
    x = rng.normal(size=(5, 4))
    got, weights = layer.eval()(wf.array(x.astype("f")), need_weights=True, key_padding_mask=np.arange(5) > 3)
    want, each = heads(layer, x[None], x[None], x[None], w, np.arange(5) <= 3)
    assert got.shape == (5, 4) and weights.shape == (5, 5)
    assert np.abs(got.numpy() - want[0]).max() < 2e-5 * np.abs(want).max()
    assert np.abs(weights.numpy() - each[0].mean(0)).max() < 1e-5
    layer.train()
    assert (layer(wf.array(x.astype("f"))).numpy() != layer(wf.array(x.astype("f"))).numpy()).any()
    whole = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2))
    rows = whole.summary((2, 5, 3)).rows
    assert sum(r.parameters for r in rows) == 16 + 4 * (16 + 4) + 10


def test_bad_calls_name_what_does_not_fit() -> None:
    f, x = nn.scaled_dot_product_attention, wf.ones((2, 5, 4))
    with pytest.raises(ShapeError, match=r"query \(2, 5, 4\), key \(2, 5, 3\)"):
        f(x, x[..., :3], x)
    with pytest.raises(DTypeError, match="one float dtype, not float32, float64"):
        f(x, x.astype("float64"), x)
    with pytest.raises(DTypeError, match="must be bool or float, not int64"):
        f(x, x, x, wf.array([[1, 0, 1, 0, 1]]))
    with pytest.raises(ShapeError, match=r"mask of shape \(4, 5\) does not broadcast"):
        f(x, x, x, wf.ones((4, 5)))
    layer = nn.MultiHeadAttention(4, 2)
    with pytest.raises(ShapeError, match=r"must end in embed_dim, kdim, vdim = \(4, 4, 4\)"):
        layer(wf.ones((2, 5, 3)))
    with pytest.raises(ShapeError, match=r"key_padding_mask has shape \(5,\), but must be \(2, 5\)"):
        layer(x, key_padding_mask=np.zeros(5, bool))
    with pytest.raises(ShapeError, match="attn_mask has shape"):
        layer(x, attn_mask=np.zeros((4, 5), bool))
    with pytest.raises(ShapeError, match="multiple of num_heads=3"):
        nn.MultiHeadAttention(4, 3)
    with pytest.raises(ValueError, match="dropout must lie between"):
        nn.MultiHeadAttention(4, 2, dropout=2.0)


def test_a_mask_and_causality_together() -> None:
    x, low = triple(2, 3), np.tril(np.ones((5, 7), bool))
    mask, bias = rng.random((2, 1, 5, 7)) < 0.6, rng.normal(size=(5, 7))
    f = nn.scaled_dot_product_attention
    check(lambda q, k, v: f(q, k, v, wf.array(mask), is_causal=True), lambda q, k, v: attention(q, k, v, mask & low), *x)
    check(lambda q, k, v: f(q, k, v, wf.array(bias), is_causal=True), lambda q, k, v: attention(q, k, v, low, bias), *x)
    q, k = rng.normal(size=(1, 2, 400, 4)).astype("f"), rng.normal(size=(1, 2, 400, 4)).astype("f")  # scores are not stored
    mask, low = rng.random((400, 400)) < 0.5, np.tril(np.ones((400, 400), bool))
    got = f(*(wf.array(a) for a in (q, k, k)), wf.array(mask), is_causal=True)
    np.testing.assert_allclose(got.numpy(), attention(q, k, k, mask & low), atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_cache_gives_what_the_whole_sequence_gives(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(12, 3, 8, dropout=0.0, norm_first=norm_first)
    x = wf.array(rng.normal(size=(2, 9, 12)).astype("f"))
    want = layer(x, is_causal=True).numpy()
    cache = nn.KeyValueCache(2, 3, 10, 4)
    step = wf.jit(lambda x: layer(x, cache=cache))
    for _ in range(2):
        parts = [layer(x[:, :4], cache=cache).numpy(), *(step(x[:, t : t + 1]).numpy() for t in range(4, 9))]
        np.testing.assert_allclose(np.concatenate(parts, 1), want, atol=2e-6)
        assert int(cache.length) == 9
        cache.reset()
    assert step.traces == 1
    cache.length[...] = 10
    with pytest.raises(IndexError, match="KeyValueCache: positions must be from 0 to 9, not 10"):
        wf.eval(step(x[:, :1]))
    assert int(cache.length) == 10  # the call that failed has changed nothing
    with pytest.raises(ShapeError, match="no room for 1 positions of 10; 10 are used"):
        layer(x[:, :1], cache=cache)
    with pytest.raises(ShapeError, match=r"must be \(2, 3, L, 4\)"):
        cache.update(wf.ones((2, 2, 1, 4)), wf.ones((2, 3, 1, 4)))
    with pytest.raises(DTypeError, match="value must be float, not complex64"):
        cache.update(wf.ones((2, 3, 1, 4)), wf.ones((2, 3, 1, 4), dtype="complex64"))
    for dtype in ("int32", bool, "complex64"):
        with pytest.raises(DTypeError, match="KeyValueCache: dtype must be float"):
            nn.KeyValueCache(2, 3, 10, 4, dtype=dtype)
    assert nn.KeyValueCache(2, 3, 10, 4, dtype="bfloat16").values.dtype.name == "bfloat16"
    with pytest.raises(TypeError, match="self-attention"):
        nn.MultiHeadAttention(12, 3)(x, x, cache=cache)


def test_rotation_depends_on_distance_alone() -> None:
    q, k = (wf.array(rng.normal(size=(1, 6))) for _ in range(2))
    for interleaved in (True, False):
        def product(i: Any, j: Any, interleaved: bool = interleaved) -> float:
            a, b = (nn.rotary_embedding(x, wf.array([p]), interleaved=interleaved) for x, p in ((q, i), (k, j)))
            return float((a * b).sum())

        assert abs(product(3, 10) - product(23, 30)) < 1e-12 and abs(product(3, 10) - product(3, 11)) > 1e-6
    with pytest.raises(ShapeError, match="even D"):
        nn.rotary_embedding(wf.ones((2, 3)))
    with pytest.raises(ShapeError, match="do not broadcast"):
        nn.rotary_embedding(wf.ones((2, 4)), wf.arange(3))
    assert len(wf.explain(wf.jit(nn.rotary_embedding), wf.ones((2, 3, 50, 8))).kernels) <= 2

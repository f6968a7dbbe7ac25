"""Random changes of batches: every result is one that the definition allows, shares are as asked, keys repeat, jit draws anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import weft as wf
from weft.errors import DTypeError, LabelError, ShapeError

data = wf.data


def test_crops_are_windows(rng: np.random.Generator) -> None:
    for _ in range(4):
        n, c, h, w, v, u = (int(k) for k in (*rng.integers(1, 5, 2), *rng.integers(3, 8, 2), *rng.integers(0, 3, 2)))
        x = rng.integers(1, 100, (n, c, h, w))
        size = int(rng.integers(1, h + 2 * v + 1)), int(rng.integers(1, w + 2 * u + 1))
        wide = np.pad(x, [(0, 0), (0, 0), (v, v), (u, u)])
        windows = np.lib.stride_tricks.sliding_window_view(wide, size, (2, 3))
        for image, all_of_it in zip(data.random_crop(wf.array(x), size, (v, u)).numpy(), windows, strict=True):
            assert (all_of_it == image[:, None, None]).all((0, 3, 4)).any()
    x = wf.arange(5).reshape((1, 1, 1, 5)) + wf.zeros((4000, 1, 1, 1), dtype="int64")
    counts = np.bincount(data.random_crop(x, (1, 2)).numpy()[:, 0, 0, 0], minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_flips_mirror_a_share(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3000, 1, 2, 3)).astype(np.float32)
    y = data.random_flip(wf.array(x), 0.3).numpy()
    mirrored = (y == x[..., ::-1]).all((1, 2, 3))
    assert ((y == x).all((1, 2, 3)) | mirrored).all() and 0.2 < mirrored.mean() < 0.4
    np.testing.assert_array_equal(data.random_flip(wf.array(x), 1.0, axis=-2).numpy(), x[:, :, ::-1])


def test_erased_rectangles(rng: np.random.Generator) -> None:
    x = np.ones((2000, 2, 20, 24), np.float32)
    y = data.random_erasing(wf.array(x), 0.4, scale=(0.05, 0.2), ratio=(0.5, 2.0), value=-3.0).numpy()
    gone = y[:, 0] == -3
    assert ((y[:, 1] == -3) == gone).all() and (y[:, 0][~gone] == 1).all()
    is_erased = gone.any((1, 2))
    assert 0.3 < is_erased.mean() < 0.5
    for mask in gone[is_erased]:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        assert mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()  # one rectangle, of which nothing is left
        assert 0.02 < mask.mean() < 0.25
    assert gone[:, 0].any() and gone[:, -1].any() and gone[..., 0].any() and gone[..., -1].any()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.5])
def test_mixtures(alpha: float, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
    keys = wf.random.split(wf.random.key(int(rng.integers(1 << 30))), 3000)
    mixed, rows = wf.jit(wf.vmap(lambda k: data.mixup(wf.array(x), wf.array(y), 3, alpha, key=k)))(keys)
    mixed, rows = mixed.numpy(), rows.numpy()
    np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(mixed.mean(1), np.tile(x.mean(0), (3000, 1)), atol=1e-5)  # each sample is once the other one
    step = mixed - x
    others = x[None, None] - x[None, :, None]
    which = np.abs(step).argmax(-1)
    drawn = []
    for k in range(3000):
        i = int(np.abs(step[k]).max(-1).argmax())
        if np.abs(step[k, i]).max() < 1e-3:
            continue
        share = step[k, i, which[k, i]] / np.where(others[0, i, :, which[k, i]] == 0, np.inf, others[0, i, :, which[k, i]])
        fits = [s for s, other in zip(share, others[0, i], strict=True) if np.abs(s * other - step[k, i]).max() < 1e-5]
        assert len(fits) == 1
        drawn.append(1 - fits[0])
    drawn = np.array(drawn)
    law = stats.beta(alpha, alpha)
    inner = drawn[(drawn > 0.05) & (drawn < 0.95)]
    cut = law.cdf(0.05)
    assert stats.kstest(inner, lambda q: (law.cdf(q) - cut) / (1 - 2 * cut)).pvalue > 1e-6


def test_keys_repeat_and_calls_do_not(rng: np.random.Generator) -> None:
    x, y = wf.array(rng.normal(size=(8, 3, 12, 12)).astype(np.float32)), wf.array(rng.integers(0, 5, 8))

    @wf.jit
    def change(x, y):
        x = data.random_erasing(data.random_flip(data.random_crop(x, 12, 2)), 0.9)
        return data.mixup(x, y, 5, 1.0)

    first, second = change(x, y), change(x, y)
    assert change.traces == 1 and (first[0].numpy() != second[0].numpy()).any()
    key = wf.random.key(3)
    for f in (
        lambda k: data.random_crop(x, 5, key=k), lambda k: data.random_flip(x, key=k), lambda k: data.random_erasing(x, key=k),
        lambda k: data.mixup(x, y, 5, key=k)[0],
    ):
        np.testing.assert_array_equal(f(key).numpy(), wf.jit(f)(key).numpy())
    half = x.astype("bfloat16")
    assert data.mixup(half, x[:, 0, 0])[0].dtype.name == "bfloat16"


def test_refusals() -> None:
    x = wf.ones((2, 1, 4, 4))
    for call, error, words in (
        (lambda: data.random_crop(x, 5), ShapeError, "larger than the images"),
        (lambda: data.random_crop(x, (1, 2, 3)), ShapeError, "pair of ints"),
        (lambda: data.random_crop(x, 1.5), DTypeError, "size must be an integer"),
        (lambda: data.random_crop(x[0], 2), ShapeError, r"must be \(N, C, H, W\)"),
        (lambda: data.random_flip(x, 1.5), ValueError, "between 0 and 1"),
        (lambda: data.random_flip(x, axis=0), ShapeError, "that of the samples"),
        (lambda: data.random_erasing(x, scale=(0.3, 0.1)), ValueError, "scale must be"),
        (lambda: data.mixup(x, wf.array([0, 1])), ValueError, "give num_classes"),
        (lambda: data.mixup(x, wf.array([0, 1, 1]), 2), ShapeError, "one length"),
        (lambda: data.mixup(x.astype("uint8"), wf.array([0, 1]), 2), DTypeError, "must be float"),
        (lambda: data.mixup(x, wf.array([0, 1]), 2, alpha=0.0), ValueError, "alpha"),
        (lambda: data.mixup(x, wf.array([0, 5]), 3), LabelError, "label 5 at position 1"),
        (lambda: data.mixup(x, [-1, 0], 3), LabelError, "label -1 at position 0"),
        (lambda: data.mixup(x, wf.array([True, True]), 1), LabelError, "label 1 at position 0"),
        (lambda: wf.eval(wf.jit(lambda y: data.mixup(x, y, 3))(wf.array([0, 3]))), IndexError, "mixup: labels .* not 3"),
        (lambda: data.random_flip(x, key=3), DTypeError, "random_flip: key"),
        (lambda: data.random_crop(x, 2, key=3), DTypeError, "random_crop: key"),
        (lambda: data.mixup(x, x, key=3), DTypeError, "mixup: key"),
    ):
        with pytest.raises(error, match=words):
            call()

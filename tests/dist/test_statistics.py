"""``SyncBatchNorm``: in ``fit`` with shards batch norm over the whole batch, and batch norm everywhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError

nn = wf.nn


def random_net(rng: np.random.Generator) -> tuple[wf.nn.Module, tuple[int, ...]]:
    """Return a float64 net with batch norm, and the shape of a sample."""
    channels, rank = int(rng.integers(2, 5)), int(rng.integers(3))
    momentum, affine = [0.1, None, 0.7][rng.integers(3)], bool(rng.integers(2))
    kinds = (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)
    layers = [kinds[rank](channels, momentum=momentum, affine=affine), nn.Tanh(), nn.Flatten()]
    shape = (channels, *(4, 3)[:rank])
    size = int(np.prod(shape))
    wf.random.seed(int(rng.integers(1000)))
    layers += [nn.Linear(size, 6), nn.BatchNorm1d(6), nn.Sigmoid(), nn.Linear(6, 3)]
    return nn.Sequential(*layers).astype("float64"), shape


def train(net: wf.nn.Module, x: np.ndarray, y: np.ndarray, shards: int | None, **options: object) -> np.ndarray:
    """Return all arrays of the net after a run of ``fit``, and the losses."""
    options = dict(epochs=1, show=False, shuffle=False, optimizer=wf.optim.SGD(0.1, momentum=0.9)) | options
    history = wf.train.fit(net, x, y, shards=shards, **options)
    return np.concatenate([*[a.numpy().reshape(-1) for a in net.arrays().values()], history.loss])


@pytest.mark.drawn(6)
@pytest.mark.parametrize("case", range(6))
def test_statistics_are_those_of_the_whole_batch(case: int, rng: np.random.Generator) -> None:
    net, shape = random_net(rng)
    batch_size, shards = int(rng.integers(3, 14)), int(rng.integers(2, 17))
    rows = batch_size * int(rng.integers(1, 4)) + int(rng.integers(2, batch_size))
    x, y = rng.normal(size=(rows, *shape)), rng.integers(0, 3, rows).astype("int32")
    options = dict(epochs=2, batch_size=batch_size, accumulate=int(rng.integers(1, 3)))
    synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    whole, parts = train(net, x, y, None, **options), train(synchronised, x, y, shards, **options)
    assert np.allclose(whole, parts, rtol=1e-6, atol=1e-8), (shards, options, abs(whole - parts).max())


def test_gradient_is_that_of_central_differences(rng: np.random.Generator) -> None:
    net, shape = random_net(rng)
    x, y = rng.normal(size=(11, *shape)), rng.integers(0, 3, 11).astype("int32")
    before = {n: p.numpy().copy() for n, p in net.parameters().items()}
    synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    train(synchronised, x, y, 4, batch_size=11, optimizer=wf.optim.SGD(1.0))
    for name, p in net.train().parameters().items():
        place, step = tuple(int(rng.integers(n)) for n in p.shape), 1e-5
        losses = []
        for sign in (1, -1):
            moved = before[name].copy()
            moved[place] += sign * step
            p[...] = wf.asarray(moved)
            losses.append(float(wf.losses.cross_entropy(net(wf.asarray(x)), wf.asarray(y))))
        p[...] = wf.asarray(before[name])
        gradient = before[name][place] - synchronised.parameters()[name].numpy()[place]
        assert np.isclose(gradient, (losses[0] - losses[1]) / (2 * step), rtol=1e-4, atol=1e-7), name


def test_layers_are_converted_and_are_batch_norm_outside_of_fit(rng: np.random.Generator) -> None:
    net, shape = random_net(rng)
    model = nn.Residual(nn.Sequential(net[0])) if rng.integers(2) else net
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert {type(layer) for _, layer in converted.modules()} & {nn.SyncBatchNorm, nn.BatchNorm1d, nn.BatchNorm2d} == {
        nn.SyncBatchNorm
    }
    assert [*converted.arrays()] == [*model.arrays()]
    x = wf.asarray(rng.normal(size=(7, *shape)))
    for training in (True, False):
        out = [m.train(training)(x).numpy().tobytes() for m in (model, converted)]
        arrays = [b"".join(a.numpy().tobytes() for a in m.arrays().values()) for m in (model, converted)]
        assert out[0] == out[1] and arrays[0] == arrays[1]
    with pytest.raises(TypeError, match="convert_sync_batchnorm: module must be a Module, not list"):
        nn.SyncBatchNorm.convert_sync_batchnorm([nn.BatchNorm1d(3)])


def test_errors(rng: np.random.Generator) -> None:
    with pytest.raises(ShapeError, match=re.escape("SyncBatchNorm: x must be (N, C, ...) with C = 3, not (2, 4)")):
        nn.SyncBatchNorm(3)(wf.ones((2, 4)))
    x, y = rng.normal(size=(9, 3)).astype("float32"), np.zeros(9, "int32")

    class Fails(nn.Module):
        def forward(self, x: wf.Array) -> wf.Array:
            if x.shape[0] == 1:
                raise RuntimeError("one row")
            return x

    net = nn.Sequential(nn.SyncBatchNorm(3), Fails(), nn.Linear(3, 2))
    with pytest.raises(ShapeError, match="fit: a batch of 1 row in 4 shards"):
        train(nn.Sequential(nn.SyncBatchNorm(3), nn.Linear(3, 2)), x, y, 4, batch_size=8)
    with pytest.raises(RuntimeError, match="one row"):  # of a shard, in its thread
        train(net, x, y, 5, batch_size=9)


def test_a_loss_that_is_not_finite_is_diagnosed(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(6, 3)).astype("float32"), np.zeros(6, "int32")
    net = nn.Sequential(nn.Linear(3, 4), nn.SyncBatchNorm(4), nn.Linear(4, 2))
    with pytest.warns(RuntimeWarning, match="not finite. It begins at step"):
        history = wf.train.fit(net, x, y, shards=6, epochs=3, batch_size=6, optimizer=wf.optim.SGD(1e38), show=False)
    assert history.non_finite is not None

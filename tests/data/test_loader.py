"""Loader: batches of arrays, files and data sets; orders that no worker changes; errors where the batch is asked for."""

from __future__ import annotations

import threading
import time
import traceback

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.data import Loader
from weft.errors import DataError, DTypeError, ShapeError


class Squares:
    """A data set that is slow for some of its samples."""

    def __init__(self, n: int, slow: bool = False) -> None:
        self.n, self.slow, self.threads = n, slow, set()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int):
        self.threads.add(threading.current_thread().name)
        if self.slow and i % 7 == 0:
            time.sleep(0.002)
        return np.full((2, 3), i * i, np.float32), i


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_once_in_order(workers: int, drop_last: bool) -> None:
    loader = Loader(Squares(53, slow=True), batch_size=8, workers=workers, drop_last=drop_last)
    assert len(loader) == (6 if drop_last else 7)
    found = list(loader)
    assert all(type(a) is wf.ndarray for pair in found for a in pair)
    labels = np.concatenate([y.numpy() for _, y in found])
    assert labels.tolist() == list(range(48 if drop_last else 53))
    for x, y in found:
        assert x.shape[1:] == (2, 3) and (x.numpy() == (y.numpy() ** 2)[:, None, None]).all()


@pytest.mark.parametrize("kind", ["arrays", "data set"])
def test_the_order_depends_on_seed_and_epoch_alone(kind: str) -> None:
    source = (np.arange(53) ** 2, np.arange(53)) if kind == "arrays" else Squares(53, slow=True)

    def noise(x, y, rng):
        return x + rng.normal(size=x.shape), y

    def epochs(seed: int, workers: int, prefetch: int = 2):
        loader = Loader(source, 8, shuffle=True, seed=seed, workers=workers, prefetch=prefetch, transform=noise)
        return [[(x.numpy().tobytes(), y.tolist()) for x, y in loader] for _ in range(3)]

    want = epochs(5, 0)
    assert want == epochs(5, 1) == epochs(5, 4, 6) == epochs(5, 2, 1)
    first, second, third = ([n for _, y in epoch for n in y] for epoch in want)
    assert sorted(first) == sorted(second) == list(range(53)) and len({tuple(first), tuple(second), tuple(third)}) == 3
    assert epochs(6, 0) != want
    loader = Loader(source, 8, shuffle=True, seed=5, transform=noise)
    assert [(x.numpy().tobytes(), y.tolist()) for x, y in loader.batches(2, start=4)] == want[2][4:]


def test_arrays_alone_and_in_tuples() -> None:
    x = np.random.default_rng().normal(size=(10, 3))
    (first, *_), (pair, *_) = Loader(x, 4), Loader((x,), 4, dtype="float16")
    assert (first.numpy() == x[:4]).all() and isinstance(pair, tuple) and pair[0].dtype == wf.float16
    ints = next(iter(Loader((x, np.arange(10)), 4, dtype="bfloat16")))
    assert ints[0].dtype == wf.bfloat16 and ints[1].dtype == wf.int64
    whole = next(iter(Loader(wf.array(x), 10, transform=lambda x: x.sum(axis=1))))
    np.testing.assert_allclose(whole.numpy(), x.sum(1))


def test_files_are_read_batch_by_batch(tmp_path) -> None:
    x, y = data(4000)
    big = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (4000, 3))
    big[:] = x
    reads: list[int] = []

    class Counted(np.memmap):
        def __getitem__(self, index):
            found = super().__getitem__(index)
            reads.append(np.size(found))
            return found

        def astype(self, *args, **kwargs):
            reads.append(self.size)
            return super().astype(*args, **kwargs)

    def opened():
        return np.load(tmp_path / "x.npy", mmap_mode="r").view(Counted)

    assert [len(b) for b, _ in Loader((opened(), y), 500, shuffle=True, dtype="float32")] == [500] * 8
    model, other = net(), net()
    wf.train.fit(model, opened(), y, epochs=2, batch_size=100, validation=0.1, show=False)
    assert 0 < max(reads) <= 3000  # the 1,000 rows that are validated at once
    wf.train.fit(other, np.asarray(big), y, epochs=2, batch_size=100, validation=0.1, show=False)
    assert bits(model) == bits(other)


def test_errors_come_where_the_batch_is_asked_for() -> None:
    class Broken(Squares):
        def __getitem__(self, i: int):
            if i == 21:
                raise KeyError("no such file")  # the user's line
            return super().__getitem__(i)

    for workers in (0, 2):
        seen = []
        with pytest.raises(KeyError, match="no such file") as caught:
            for _, y in Loader(Broken(40), 8, workers=workers):
                seen.append(y.tolist())
        assert seen == [list(range(8)), list(range(8, 16))]
        lines = traceback.extract_tb(caught.tb)
        assert lines[0].filename == __file__ and "# the user's line" in lines[-1].line
        assert caught.value.__notes__ == ["Loader: this was batch 2 of epoch 0"]
    with pytest.raises(KeyError, match="no such file"):
        wf.train.fit(net(), Loader(Broken(40), 8, workers=2), loss=lambda p, t: p.mean(), show=False)


def test_threads_end_with_the_loop() -> None:
    source = Squares(400, slow=True)
    for k, _ in enumerate(Loader(source, 4, workers=3)):
        if k == 2:
            break
    assert source.threads and all(name.startswith("weft-loader") for name in source.threads)
    until = time.monotonic() + 10
    while any(t.name.startswith("weft-loader") for t in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(t.name.startswith("weft-loader") for t in threading.enumerate())


def test_fit_takes_loaders_iterables_functions_and_generators() -> None:
    x, y = data(60)

    def batches():
        return ((x[k : k + 20], y[k : k + 20]) for k in range(0, 60, 20))

    def trained(given, **more):
        model = net()
        history = wf.train.fit(model, *given, epochs=3, show=False, optimizer=wf.optim.SGD(lr=0.1), **more)
        return bits(model), history.loss

    want = trained((x, y), batch_size=20, shuffle=False)
    assert trained((Loader((x, y), 20),)) == want
    assert trained((list(batches()),)) == want
    assert trained((batches,)) == want
    assert trained(((pair for _ in range(3) for pair in batches()),), steps_per_epoch=3) == want
    assert trained((batches,), validation=Loader((x, y), 20)) == want
    with pytest.raises(ValueError, match="x is a generator, which is gone through once: give steps_per_epoch="):
        trained((batches(),))
    with pytest.raises(ValueError, match="validation is a generator, .* give a list"):
        trained((x, y), validation=batches())
    with pytest.raises(ShapeError, match="no batch in epoch 2; a generator is gone through once: give steps_per_epoch="):
        trained((batches(),), steps_per_epoch=3)
    history = wf.train.fit(net(), batches(), epochs=1, validation=batches(), show=False)
    assert len(history.epochs) == 1 and history["val_loss"]


def test_progress_of_an_unknown_number_of_steps(capsys) -> None:
    x, y = data(60)
    wf.train.fit(net(), lambda: iter([(x, y)] * 3), epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/2", "epoch 2/2"]


def test_validation_by_a_loader_is_a_mean_over_the_rows() -> None:
    x, y = data(70)
    whole = wf.train.fit(net(), x, y, epochs=2, validation=(x, y), metrics=["accuracy"], show=False)
    parts = wf.train.fit(net(), x, y, epochs=2, validation=Loader((x, y), 32), metrics=["accuracy"], show=False)
    for a, b in zip(whole.epochs, parts.epochs, strict=True):
        assert a.validation_loss == pytest.approx(b.validation_loss, rel=1e-5)
        assert a["val_accuracy"] == pytest.approx(b["val_accuracy"])


X = np.zeros((10, 3), np.float32)


@pytest.mark.parametrize("make,error,pattern", [
    (lambda: Loader((X, X[:9])), ShapeError, "10, 9 rows"),
    (lambda: Loader(X[:0]), ShapeError, "data is empty"),
    (lambda: Loader(()), ShapeError, "holds no array"),
    (lambda: Loader(iter([X])), TypeError, "must be an array, a tuple of arrays, or have __len__ and __getitem__"),
    (lambda: Loader(X, X), TypeError, r"pass several arrays as a tuple, Loader\(\(x, y\), 32\)"),
    (lambda: Loader(X, 0), ValueError, "Loader: batch_size must be at least 1, not 0"),
    (lambda: Loader(X, 4, workers=-1), ValueError, "workers"),
    (lambda: Loader(X, 4, prefetch=0), ValueError, "prefetch"),
    (lambda: Loader(X, 11, drop_last=True), ValueError, "10 samples make no batch of 11"),
    (lambda: Loader(X, dtype="int32"), DTypeError, "must be a float dtype"),
    (lambda: Loader(np.array(["a", "b"])), DTypeError, "array 0 must hold numbers"),
    (lambda: list(Loader([X[0], X[0, :2]], 2)), DataError, r"part 0 of the samples has shapes \(2,\), \(3,\)"),
    (lambda: wf.train.fit(net(), X, show=False), TypeError, "y is missing"),
    (lambda: wf.train.fit(net(), Loader(X), show=False), TypeError, r"must give pairs \(x, y\), or triples \(.*\), not ndarray"),
    (lambda: wf.train.fit(net(), Loader((X, np.arange(10) // 8)), epochs=1, show=False, validation=Loader((X, np.arange(10)), 4)),
     ValueError, "label 2 at position 2"),
    (lambda: wf.train.fit(net(), Loader((X, np.arange(10)), 4), show=False), ValueError, "label 2 at position 2"),
    (lambda: wf.train.fit(net(), Loader((X, X)), validation=0.1, show=False), ValueError, "fraction for validation needs arrays"),
    (lambda: wf.train.fit(net(), X, X[:, 0], validation=3.5, show=False), ValueError, r"must be a fraction in \[0, 1\)"),
    (lambda: wf.train.fit(net(), X, X[:, 0], steps_per_epoch=3, show=False), ValueError, "steps_per_epoch needs x to be"),
    (lambda: wf.train.fit(net(), lambda: [(X, X[:3])], show=False), ShapeError, r"x of shape \(10, 3\) and y of shape \(3, 3\)"),
])
def test_data_that_make_no_sense(make, error, pattern) -> None:
    with pytest.raises(error, match=pattern):
        make()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_transform_in_place_leaves_the_data_alone(shuffle: bool) -> None:
    x, y = np.ones((7, 2)), np.arange(7)

    def clear(a, b):
        a["x"] *= 0
        b += 1
        return a, b

    for batch_size in (3, 7):
        for a, _ in wf.data.Loader(({"x": x}, y), batch_size, shuffle=shuffle, transform=clear):
            assert not a["x"].numpy().any()
    assert x.all() and y.tolist() == list(range(7))


@pytest.mark.parametrize("other", [(1.0,), 1.0])
def test_samples_of_several_lengths_raise(other) -> None:
    samples = [(1.0, 2)] * 3 + [other]

    class Data:
        def __len__(self):
            return 4

        def __getitem__(self, k):
            return samples[k]

    with pytest.raises(wf.errors.DataError, match="a sample is a tuple of 2, another is"):
        list(wf.data.Loader(Data()))

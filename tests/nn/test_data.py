"""Data sets: what is shipped is whole, what is read is checked."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.data import load_digits, load_mnist
from weft.data.sets import read_idx
from weft.errors import DataError


def test_digits() -> None:
    d = load_digits()
    assert d.x_train.shape == (1437, 1, 8, 8) and d.x_test.shape == (360, 1, 8, 8)
    assert d.x_train.dtype == np.float32 and 0 <= d.x_train.min() and d.x_train.max() == 1
    shares = np.bincount(d.y_test) / np.bincount(np.concatenate([d.y_train, d.y_test]))
    assert (abs(shares - 0.2) < 0.005).all()


def test_mnist_is_read_and_checked() -> None:
    if not (Path(os.environ.get("WEFT_DATA", "/nonexistent")) / "mnist").is_dir():
        pytest.skip("WEFT_DATA holds no mnist folder")
    d = load_mnist()
    assert d.x_train.shape == (60000, 1, 28, 28) and d.x_test.shape == (10000, 1, 28, 28)
    assert np.bincount(d.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert abs(d.x_train.mean() - 0.1307) < 1e-4 and d.x_train.max() == 1


def test_damaged_mnist_is_refused(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x02ab"))
    with pytest.raises(DataError, match="damaged: md5 of the unpacked bytes"):
        load_mnist()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match="damaged"):
        load_mnist()


def idx(*shape: int, data: bytes | None = None) -> bytes:
    data = bytes(range(256))[: int(np.prod(shape))] if data is None else data
    return bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape) + data


@pytest.mark.parametrize("packed", [False, True])
def test_idx(tmp_path, packed: bool) -> None:
    path = tmp_path / "labels"

    def write(content: bytes, *more: bytes) -> None:
        path.write_bytes(b"".join(map(gzip.compress, (content, *more))) if packed else content + b"".join(more))

    for shape in ((), (0,), (5,), (2, 3), (3, 0, 4), (2, 3, 5, 7)):
        write(idx(*shape))
        found = read_idx(path)
        assert found.shape == shape and found.tobytes() == idx(*shape)[4 + 4 * len(shape):]
    write(idx(2, 3)[:13], idx(2, 3)[13:])  # in two members
    assert read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]
    for content, why in {
        b"hello": "does not begin with the bytes", b"\0\0\x08": "does not begin", b"\0\0\x09\1\0\0\0\1a": "does not begin",
        idx(2, 2, 2)[:11]: "3 dimensions and is cut off", idx(2, 3)[:-1]: "(5 of 6|cannot hold)", idx(2) + b"x": "goes on",
        idx(*[1] * 65): "65 dimensions", idx(*[1 << 31] * 4, data=b"abc"): "cannot hold",
        idx(*[(1 << 32) - 1] * 3, 0): "cannot hold",
    }.items():
        write(content)
        with pytest.raises(DataError, match=f"labels is damaged or no idx file of bytes: .*{why}"):
            read_idx(path)


def test_what_is_unpacked_is_what_was_promised(tmp_path) -> None:
    """A bomb: a thousand times its size, of which nothing is promised."""
    path, size = tmp_path / "bomb", 256 << 20
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    parts = [packer.compress(idx(3))] + [packer.compress(block) for _ in range(size >> 20)] + [packer.flush()]
    path.write_bytes(b"".join(parts))
    tracemalloc.start()
    with pytest.raises(DataError, match="goes on after the 3 bytes"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size < 1 << 20 and peak < 4 << 20
    whole = gzip.compress(idx(2, 3))
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match="bomb is damaged"):
            read_idx(path)
    path.write_bytes(whole[:-6] + b"xx" + whole[-4:])
    with pytest.raises(DataError, match="cannot be unpacked: .*check"):
        read_idx(path)


def test_members_of_any_sizes_are_unpacked(tmp_path) -> None:
    """Random members, many of them empty, then zeros."""
    rng = np.random.default_rng()
    for members in (1, 2, 50, 5_000):
        data = rng.integers(0, 256, 200_000).astype("u1").tobytes()
        content = idx(len(data), data=data)
        cuts = sorted(rng.integers(0, len(content), members - 1) // rng.integers(1, 1000, members - 1))
        ends = zip([0, *cuts], [*cuts, len(content)], strict=True)
        packed = b"".join(gzip.compress(content[a:b], 1) for a, b in ends) + bytes(rng.integers(0, 100))
        (tmp_path / "x").write_bytes(packed)
        assert read_idx(tmp_path / "x").tobytes() == data


def test_validation_by_batches_has_an_accuracy(rng: np.random.Generator) -> None:
    """The accuracy is that of arrays, unless there are metrics, or targets are no labels."""
    x, labels = rng.normal(size=(40, 3)).astype("float32"), rng.integers(0, 3, 40)
    net, size, weights = wf.nn.Linear(3, 3), int(rng.integers(1, 41)), rng.random(40)
    one, two = (wf.train.evaluate(net, *data) for data in ((x, labels), (wf.data.Loader((x, labels), size),)))
    assert one.keys() == two.keys() == {"loss", "accuracy"} and all(np.isclose(one[k], two[k], rtol=1e-5) for k in one)
    assert np.isclose(wf.train.evaluate(net, wf.data.Loader((x, labels, weights), size))["accuracy"], one["accuracy"])
    options = dict(epochs=1, show=False)
    history = wf.train.fit(net, x, labels, validation=wf.data.Loader((x, labels), size), **options)
    assert np.isclose(history["val_accuracy"][0], wf.train.accuracy(net, x, labels))
    history = wf.train.fit(net, x, labels, validation=wf.data.Loader((x, labels), size), metrics="top_5_accuracy", **options)
    assert "val_accuracy" not in history.epochs[0].values() and history["val_top_5_accuracy"] == [1.0]
    history = wf.train.fit(net, x, x, loss="mse", validation=wf.data.Loader((x, x), size), **options)
    assert "val_accuracy" not in history.epochs[0].values()

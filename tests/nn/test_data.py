"""Data sets: what is shipped is whole, what is read is checked."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

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


def test_idx() -> None:
    assert read_idx(b"\0\0\x08\x02\0\0\0\x02\0\0\0\x01\x07\x08").tolist() == [[7], [8]]
    with pytest.raises(DataError, match="cut off"):
        read_idx(b"\0\0\x08\x01\0\0\0\x05ab")
    with pytest.raises(DataError, match="no idx file"):
        read_idx(b"hello")

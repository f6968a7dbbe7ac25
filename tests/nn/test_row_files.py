"""Arrays in files: rows as NumPy gives them, for every kind of file, and files that are refused."""

from __future__ import annotations

import gzip
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.errors import DataError, DTypeError, ShapeError

IDX = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


def write_idx(path: Path, x: np.ndarray) -> None:
    head = bytes([0, 0, IDX[x.dtype.name], x.ndim]) + b"".join(n.to_bytes(4, "big") for n in x.shape)
    path.write_bytes(head + x.astype(x.dtype.newbyteorder(">")).tobytes())


def draw(rng: np.random.Generator, kinds: list[str]) -> np.ndarray:
    shape = (int(rng.integers(1, 40)), *rng.integers(1, 5, rng.integers(0, 3)).tolist())
    return rng.integers(-100 if (name := str(rng.choice(kinds))) != "uint8" else 0, 100, shape).astype(name)


def store(rng: np.random.Generator, folder: Path) -> tuple[np.ndarray, Any]:
    """Write random rows in a random kind of file, or several. Return them and the arguments of ``open_rows``."""
    kind = rng.integers(3)
    if kind == 0:
        x, name, order = draw(rng, ["float32", "float64", "uint8", "int64", "bool", "float16"]), None, str(rng.choice(["=", ">"]))

        def save(path: Path, x: np.ndarray) -> None:
            np.save(path.with_suffix(".npy"), x.astype(x.dtype.newbyteorder(order)))
    elif kind == 1:
        save, x, name = write_idx, draw(rng, list(IDX)), None
    else:
        x, name = draw(rng, ["float32", "int32", "uint8"]), "data.x"
        if rng.random() < 0.3:
            x = x.astype(ml_dtypes.bfloat16)

        def save(path: Path, x: np.ndarray) -> None:
            others = {"a": np.ones(3, "float32"), "z": np.ones(1, "uint8")}
            wf.io.save(path.with_suffix(".safetensors"), {name: wf.asarray(x), **{k: wf.asarray(v) for k, v in others.items()}})
    if rng.random() < 0.5:
        save(folder / "one", x)
        (path,) = folder.iterdir()
        return x, (path, name)
    cuts = np.sort(rng.integers(0, len(x) + 1, rng.integers(0, 12)))
    for k, part in enumerate(np.split(x, cuts)):
        save(folder / f"part{k}", part)
    return x, (folder, name)


def test_rows_are_those_of_the_array(rng: np.random.Generator, tmp_path: Path) -> None:
    for case in range(12):
        (folder := tmp_path / str(case)).mkdir()
        x, arguments = store(rng, folder)
        rows = wf.data.open_rows(*arguments)
        assert (rows.shape, rows.dtype, rows.ndim, rows.size, rows.nbytes, len(rows)) == (
            x.shape, x.dtype, x.ndim, x.size, x.nbytes, len(x)), (case, rows)
        n, read = len(x), 0
        for key in (
            int(rng.integers(-n, n)), slice(*rng.integers(-n, n, 2).tolist(), int(rng.choice([1, 2, -1]))), slice(None),
            rng.integers(-n, n, rng.integers(0, 20)), rng.integers(0, n, (3, 2)), rng.random(n) < 0.5, [0, n - 1], [],
        ):
            want = x[np.array(key, int) if key == [] else key] if isinstance(key, list) else x[key]
            found = rows[key]
            read += want.size // max(1, x[0].size)
            assert found.shape == want.shape and found.dtype == x.dtype, (case, key, found.dtype)
            assert found.tobytes() == np.ascontiguousarray(want).tobytes(), (case, key)
        assert rows.rows_read == read and rows.bytes_read == read * (x.nbytes // n), (case, rows)
        assert np.asarray(rows).tobytes() == x.tobytes() == np.asarray(pickle.loads(pickle.dumps(rows))).tobytes()
        assert f"read {rows.rows_read:,} rows in" in repr(rows)


def test_many_files_and_threads(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import weft.data.row_files

    monkeypatch.setattr(weft.data.row_files, "_MAX_OPEN", 3)
    x = rng.normal(size=(60, 3))
    for k in range(20):
        np.save(tmp_path / f"x{k}.npy", x[3 * k : 3 * k + 3])
    rows, wrong = wf.data.open_rows(tmp_path), []

    def read(seed: int) -> None:
        picks = np.random.default_rng(seed).integers(0, 60, (50, 7))
        wrong.extend(k for k in picks if rows[k].tobytes() != x[k].tobytes())

    threads = [threading.Thread(target=read, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and rows.rows_read == 4 * 50 * 7


def test_fit_and_loader_take_rows(rng: np.random.Generator, tmp_path: Path) -> None:
    x, y = rng.normal(size=(50, 4)), rng.integers(0, 3, 50)
    np.save(tmp_path / "x.npy", x)
    write_idx(tmp_path / "y", y.astype("uint8"))
    on_disk = wf.data.open_rows(tmp_path / "x.npy"), wf.data.open_rows(tmp_path / "y")
    weights = []
    for data in ((x, y.astype("uint8")), on_disk):
        for samples in (data, (wf.data.Loader(data, 8, shuffle=True, workers=1),)):
            wf.random.seed(0)
            net = wf.nn.Linear(4, 3)
            held = {} if len(samples) == 1 else {"validation": 0.2, "batch_size": 8}
            wf.train.fit(net, *samples, epochs=2, show=False, **held)
            weights.append(net.weight.numpy().tobytes())
    assert weights[0] == weights[2] and weights[1] == weights[3]
    assert wf.train.accuracy(net, on_disk[0], on_disk[1]) == wf.train.accuracy(net, x, y)
    with pytest.raises(ValueError, match="label 2 at position . but there are 2 classes|labels out of range"):
        wf.train.fit(wf.nn.Linear(4, 2), *on_disk, epochs=1, show=False)


def test_rows_out_of_range(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    rows = wf.data.open_rows(tmp_path / "x.npy")
    for key, error, text in (
        (3, IndexError, "row 3 is asked for, but there are 3"), ([0, -4], IndexError, "row -4"),
        ((0, 1), TypeError, "the index is (0, 1), but must be rows"), ("a", TypeError, "the index is 'a'"),
        (1.0, TypeError, "the index is 1.0"), ([True, False], TypeError, "but must be rows"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            rows[key]
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(150)
    with pytest.raises(DataError, match="x.npy is cut off: its rows need 176 bytes, it has 150"):
        rows[2]


def test_files_that_are_refused(tmp_path: Path) -> None:
    folder = tmp_path
    np.save(folder / "x.npy", np.ones((3, 2)))
    (folder / "idx.gz").write_bytes(gzip.compress(b"\0\0\x08\1\0\0\0\3abc"))
    (folder / "short").write_bytes(b"\0\0\x08\1\0\0\0\3ab")
    (folder / "head").write_bytes(b"\0\0\x08\3\0\0\0\3")
    (folder / "text").write_text("no array at all")
    (folder / "half.npy").write_bytes((folder / "x.npy").read_bytes()[:140])
    (folder / "broken.npy").write_bytes(b"\x93NUMPY\1\0\5\0{'a':")
    for name, x in (("columns", np.asfortranarray(np.ones((3, 2)))), ("number", np.array(3.0)), ("complex", np.ones(2, complex)),
                    ("objects", np.array([{}])), ("texts", np.array(["a"]))):
        np.save(folder / f"{name}.npy", x)
    wf.io.save(folder / "two.safetensors", {"a": wf.ones(2), "b": wf.ones(3)})
    wrong = {"empty": [], "dtypes": [np.ones(2), np.ones(2, "int32")], "shapes": [np.ones((2, 3)), np.ones((2, 4))]}
    for sub, arrays in wrong.items():
        (folder / sub).mkdir()
        for k, x in enumerate(arrays):
            np.save(folder / sub / f"{k}.npy", x)
    for name, error, text in (
        ("nothing", DataError, "nothing cannot be read: No such file"), ("idx.gz", DataError, "packed by gzip"),
        ("short", DataError, "short is cut off: uint8[3] needs 11 bytes, the file has 10"),
        ("head", DataError, "says 3 dimensions"), ("text", DataError, "no safetensors file"),
        ("half.npy", DataError, "is cut off"), ("broken.npy", DataError, "damaged .npy"),
        ("columns.npy", DataError, "stores columns together"), ("number.npy", ShapeError, "holds one number"),
        ("complex.npy", DTypeError, "holds complex128"), ("objects.npy", DTypeError, "holds object"),
        ("texts.npy", DTypeError, "holds <U1"), ("two.safetensors", ValueError, "has 2 arrays, and name= is missing: a, b"),
        ("empty", DataError, "has no file"), ("dtypes", DTypeError, "1.npy has dtype int32, but"),
        ("shapes", ShapeError, "1.npy has rows (4,), but"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            wf.data.open_rows(folder / name)
    with pytest.raises(ValueError, match="there is no 'c': a, b"):
        wf.data.open_rows(folder / "two.safetensors", "c")
    with pytest.raises(ValueError, match="name='x' names nothing in it"):
        wf.data.open_rows(folder / "x.npy", "x")

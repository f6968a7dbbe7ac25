"""LabelEncoder against scikit-learn's, in weight files, and what both it and folders of images refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn import preprocessing

import weft as wf
from weft.errors import DataError


def draw_labels(rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:
        return rng.integers(-50, 50, int(rng.integers(1, 60))).astype(rng.choice(["int64", "int8", "O"]))
    texts = ["".join(rng.choice(list("aBé ö1"), int(rng.integers(0, 4)))) for _ in range(int(rng.integers(1, 60)))]
    return np.array(texts, dtype=object if rng.random() < 0.3 else None)


@pytest.mark.parametrize("_", range(10))
def test_labels_are_sklearns(_: int, rng: np.random.Generator, tmp_path: Path) -> None:
    y = draw_labels(rng)
    found, want = wf.data.LabelEncoder(), preprocessing.LabelEncoder()
    numbers = found.fit_transform(y if rng.random() < 0.5 else y.tolist())
    assert numbers.tolist() == want.fit_transform(y).tolist() and found.classes_.tolist() == want.classes_.tolist()
    assert found.transform([]).tolist() == want.transform([]).tolist() == []
    some = rng.permutation(numbers)
    assert found.inverse_transform(some).tolist() == want.inverse_transform(some).tolist()

    def make() -> wf.nn.Module:
        net = wf.nn.Sequential(wf.nn.Linear(2, 3))
        net.labels = wf.data.LabelEncoder()
        return net

    net, path = make(), tmp_path / "net.safetensors"
    net.labels = found
    net.save(path)
    assert make().load(path).labels.classes_.tolist() == found.classes_.tolist()
    wf.nn.Sequential(wf.nn.Linear(2, 3)).load(path)  # a model without an encoder leaves the labels alone
    with pytest.raises(DataError, match=r"\.npz holds arrays only"):
        net.save(tmp_path / "net.npz")
    wf.nn.Sequential(wf.nn.Linear(2, 3)).save(path)
    with pytest.raises(DataError, match="has no texts for 'labels'"):
        make().load(path)


@pytest.mark.parametrize("call,message", [
    (lambda e: e.fit([]), "must be .N,. labels, not of shape"),
    (lambda e: e.fit([1.5, 2.0]), "texts or integers, not float64"),
    (lambda e: e.fit(["a", 1]), "label 1 is 1"),
    (lambda e: e.fit(np.array([1, 2**63], np.uint64)), "label 1 is 9223372036854775808, which int64 does not hold"),
    (lambda e: e.fit([-(2**63) - 1]), "label 0 is -9223372036854775809, which int64 does not hold"),
    (lambda e: e.transform(["a"]), "no classes before fit"),
    (lambda e: e.fit(["a", "b"]).transform(["a", "z"]), "'z' .at 1. is none of the classes"),
    (lambda e: e.fit(["a", "b"]).transform([1]), "y holds integers, the classes are texts"),
    (lambda e: e.fit(["a", "b"]).inverse_transform([0, 2]), "2 is no class: there are 2"),
    (lambda e: e.fit(["a", "b"]).inverse_transform(np.zeros((2, 2))), r"give scores.argmax\(axis=1\)"),
])
def test_labels_refuse(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match="LabelEncoder.*" + message):
        call(wf.data.LabelEncoder())


@pytest.mark.parametrize("text", [
    '{"classes": [2, 1]}', '{"classes": [1, "a"]}', '{"classes": "ab"}', "[]", "{", '{"classes": [true]}',
])
def test_damaged_texts(text: str) -> None:
    with pytest.raises(DataError, match="classes of labels must be sorted"):
        wf.data.LabelEncoder().parse_text(text)


def test_a_folder_of_images(rng: np.random.Generator, tmp_path: Path) -> None:
    want, y = [], []
    for k, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        for n in range(3):
            want.append(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8))
            y.append(k)
            Image.fromarray(want[-1]).save(tmp_path / name / f"{n}.png")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    folder = wf.data.image_folder(tmp_path)
    x, found = folder.load()
    assert np.allclose(x, np.stack(want).transpose(0, 3, 1, 2) / 255, atol=1e-7) and found.tolist() == y
    assert wf.data.image_folder(tmp_path, size=(2, 4), grayscale=True)[0][0].shape == (1, 2, 4)
    net = wf.nn.Sequential(wf.nn.Flatten(), wf.nn.Linear(105, 2))
    loader = wf.data.Loader(folder, batch_size=4, shuffle=True, workers=1)
    assert len(wf.train.fit(net, loader, epochs=1, show=False, validation=(x, y)).loss) == 1
    Image.fromarray(want[0][:4]).save(tmp_path / "b" / "odd.png")
    with pytest.raises(DataError, match=r"odd.png has height and width \(4, 7\), other images \(5, 7\): give .* a size="):
        wf.data.image_folder(tmp_path).load()
    (tmp_path / "b" / "cut.jpg").write_bytes((tmp_path / "a" / "0.png").read_bytes()[:60])
    with pytest.raises(DataError, match="cut.jpg is damaged or no image"):
        list(wf.data.Loader(wf.data.image_folder(tmp_path, size=3), 8))
    (tmp_path / "c").mkdir()
    for path, message in ((tmp_path, "c has no images"), (tmp_path / "a", "has no subfolders"), (tmp_path / "z", "is missing")):
        with pytest.raises(DataError, match=f"image_folder: .*{message}"):
            wf.data.image_folder(path)

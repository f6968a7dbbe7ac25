"""A first program with two inputs and two outputs: names as labels, training, files of weights and ONNX, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import weft as wf


class Animal(wf.nn.Module):
    """Name and weight of an animal, from a picture and two numbers."""

    def __init__(self) -> None:
        super().__init__()
        wf.random.seed(0)
        self.picture, self.numbers = wf.nn.Linear(16, 12), wf.nn.Linear(2, 12)
        self.name, self.kilos = wf.nn.Linear(12, 3), wf.nn.Linear(12, 1)
        self.labels = wf.data.LabelEncoder()

    def forward(self, picture: wf.Array, numbers: wf.Array) -> dict[str, wf.Array]:
        hidden = wf.nn.relu(self.picture(picture.reshape(len(picture), -1)) + self.numbers(numbers))
        return {"name": self.name(hidden), "kilos": self.kilos(hidden)}


def test_from_data_to_files_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    names = rng.choice(["cat", "dog", "emu"], 240)
    numbers = rng.normal(size=(240, 2))
    pictures = rng.normal(size=(240, 4, 4)) + 3 * np.eye(4)[[["cat", "dog", "emu"].index(n) for n in names]][:, None]
    x = {"picture": pictures, "numbers": numbers}
    net = Animal()
    y = {"name": net.labels.fit_transform(names), "kilos": numbers.sum(axis=1, keepdims=True)}
    losses: dict[str, Any] = {"name": "cross_entropy", "kilos": wf.losses.mse}
    history = wf.train.fit(
        net, x, y, epochs=12, batch_size=16, loss=losses, loss_weights={"kilos": 0.5}, class_weights={"name": "balanced"},
        metrics={"name": "accuracy"}, validation=0.2, optimizer=wf.optim.Adam(0.01), show=False,
        callbacks=[wf.train.EarlyStopping("val_name_accuracy", patience=12), wf.train.CSVLog(tmp_path / "log.csv")],
    )
    assert list(history.epochs[0].values()) == [
        "loss", "name_loss", "kilos_loss", "name_accuracy", "val_loss", "val_name_loss", "val_kilos_loss", "val_name_accuracy",
    ]
    assert history["val_kilos_loss"][-1] < history["val_kilos_loss"][0]
    net.save(tmp_path / "net.safetensors")
    again = Animal().load(tmp_path / "net.safetensors")
    out = wf.train.predict(again, x)
    assert (again.labels.inverse_transform(out["name"].argmax(axis=1)) == names).mean() > 0.8

    wf.io.save_onnx(net, {"picture": (None, 4, 4), "numbers": (None, 2)}, tmp_path / "net.onnx")
    loaded = wf.io.load_onnx(tmp_path / "net.onnx")
    assert loaded.input_names == ("picture", "numbers") and loaded.output_names == ("name", "kilos")
    both = loaded(*(wf.array(a.astype("float32")) for a in x.values()))
    for found, want in zip(both, out.values(), strict=True):
        assert np.allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)

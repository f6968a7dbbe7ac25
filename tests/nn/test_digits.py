"""The main job: the seed's net learns digits from the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.tools.cli import main


def _accuracy(text: str) -> float:
    return float(text.split("test accuracy:")[1].split("%")[0])


def test_train_digits(tmp_path, capsys) -> None:
    weights, picture = tmp_path / "d.safetensors", tmp_path / "d.png"
    code = main(["train", "digits", "--epochs", "12", "--seed", "1", "--save", str(weights), "--plot", str(picture)])
    out = capsys.readouterr().out
    assert code == 0 and _accuracy(out) >= 93.0
    assert weights.stat().st_size > 60_000 and picture.read_bytes()[:4] == b"\x89PNG"
    assert "labels" in out and "predictions" in out and "seconds an epoch" in out


def test_mnist_learns(capsys) -> None:
    if not (Path(os.environ.get("WEFT_DATA", "/nonexistent")) / "mnist").is_dir():
        pytest.skip("WEFT_DATA holds no mnist folder")
    assert main(["train", "mnist", "--epochs", "1", "--batch-size", "32"]) == 0
    assert _accuracy(capsys.readouterr().out) >= 96.0


def test_bad_arguments(capsys, monkeypatch, tmp_path) -> None:
    assert main(["train", "digits", "--lr", "-1"]) == 1
    assert "lr must not be negative" in capsys.readouterr().err


def test_info(capsys) -> None:
    assert main(["info"]) == 0
    assert "threads" in capsys.readouterr().out

"""Train a net on several ranks, to the same bits as on one: ``weft launch -n 2 examples/several_ranks.py``.

``--net``: ``norm`` (convolution, batch norm and dropout; digits), ``cnn`` (the README's net; digits) or ``gpt`` (a small causal
transformer of characters; the Markdown files of ``--folder``). The line that begins with ``bits`` is the same for 1, 2, 3, ...
ranks, apart from their number. With ``--checkpoint FILE`` a run that was stopped goes on, also on another number of ranks.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft import nn

LENGTH = 32  # characters of a sample of the transformer
WIDTH = 64


def make_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10),
    )


def make_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(160, 100), nn.ReLU(), nn.Linear(100, 10),
    )


class GPT(nn.Module):
    """Characters (N, L) -> scores (N, L, characters) of the next one."""

    def __init__(self, characters: int) -> None:
        self.characters, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = [nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, activation="gelu", norm_first=True) for _ in range(2)]
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x: Any) -> Any:
        x = self.characters(x) + self.places(wf.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.out(self.norm(x))


def next_character_loss(scores: Any, y: Any) -> Any:
    return wf.losses.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))


def read_text(folder: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return samples of characters, the characters after them, and how many different ones there are."""
    text = "\n".join(path.read_text() for path in sorted(Path(folder).glob("*.md")))[:100_000]
    characters, codes = np.unique(list(text), return_inverse=True)
    if len(codes) < 10 * LENGTH:
        raise SystemExit(f"{folder} has {len(codes)} characters in Markdown files, the model needs {10 * LENGTH}")
    windows = np.lib.stride_tricks.sliding_window_view(codes.astype("int32"), LENGTH + 1)[::LENGTH]
    return windows[:, :-1], windows[:, 1:], len(characters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--net", choices=("norm", "cnn", "gpt"), default="norm")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--shards", type=int, default=8, help="the most ranks that can share the work; the result depends on it")
    parser.add_argument("--checkpoint", metavar="FILE")
    parser.add_argument("--folder", default=str(Path(__file__).parents[1] / "docs" / "guide"), help="the texts of gpt")
    arguments = parser.parse_args()
    wf.random.seed(0)
    options: dict[str, Any] = {"batch_size": 128, "optimizer": wf.optim.Adam(2e-3, clip_norm=1.0)}
    if arguments.net == "gpt":
        x, y, characters = read_text(arguments.folder)
        net, held = GPT(characters), len(x) // 10
        options |= {"loss": next_character_loss, "validation": (x[:held], y[:held])}
        x, y = x[held:], y[held:]
    else:
        net, digits = make_norm() if arguments.net == "norm" else make_cnn(), wf.data.load_digits()
        x, y = digits.x_train, digits.y_train
        options |= {"validation": (digits.x_test, digits.y_test), "metrics": ["accuracy"]}
    history = wf.train.fit(
        net, x, y, epochs=arguments.epochs, shards=arguments.shards, checkpoint=arguments.checkpoint,
        resume=True if arguments.checkpoint else None, **options,
    )
    if wf.dist.rank() == 0:
        bits = hashlib.sha256(b"".join(a.numpy().tobytes() for a in net.arrays().values())).hexdigest()[:16]
        result = f"validation loss {history['val_loss'][-1]:.4f}"
        if arguments.net != "gpt":
            result = f"test accuracy {100 * history['val_accuracy'][-1]:.2f} %"
        print(f"bits {bits}, {result}, after {len(history.epochs)} epochs; {wf.dist.size()} ranks")


if __name__ == "__main__":
    main()

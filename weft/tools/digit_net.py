"""The convolutional net that ``weft train`` trains."""

from __future__ import annotations

from weft import nn


def digit_net(side: int) -> nn.Sequential:
    """Return a net for images of ``side`` x ``side``: conv 10 filters 3x3 + ReLU, max-pool 2, dense 100 + ReLU, dense 10."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(10 * (side // 2) ** 2, 100), nn.ReLU(), nn.Linear(100, 10),
    )

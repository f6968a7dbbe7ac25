"""An epoch of ``fit`` with 60,000 images of 28 x 28 and the small convolutional net of ``weft train mnist``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import told
from benchmarks.gpu.setting import Rows, Setting
from weft.tools.digit_net import digit_net

EPOCH = 60_000
TRIED = 2048  # images of the first run, which determines how many fit into the time
TOLERANCE = 1e-3  # of the losses of the first epochs, relative: steps follow each other, so roundings grow


def rows(setting: Setting) -> Rows:
    """Yield rows for batches of 8 and 128: on the device, on the CPU, in PyTorch."""
    for batch in (2, 8) if setting.quick else (8, 128):
        yield f"batch {batch}", lambda batch=batch: _row(setting, batch)  # type: ignore[misc]


def make_data(quick: bool, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random images, and labels that can be learnt from them."""
    rng = np.random.default_rng(12)
    side = 4 if quick else 28
    x = rng.random((count, 1, side, side), np.float32)
    return x, (x[:, 0, 0, :4].argmax(axis=1)).astype(np.int64)


def _row(setting: Setting, batch: int) -> dict[str, Any]:
    tried = 2 * batch if setting.quick else TRIED
    x, y = make_data(setting.quick, tried)
    on_device = _losses(setting.device, x, y, batch, 2)
    on_cpu = _losses("cpu", x, y, batch, 2)
    off = float(np.max(np.abs(np.subtract(on_device[0], on_cpu[0])) / np.abs(on_cpu[0])))
    row: dict[str, Any] = {**told(off / TOLERANCE), "losses": on_device[0], "kernels a step": _kernels(setting, x, y, batch)}
    sides: dict[str, Callable[[int], float]] = {
        "": lambda count: _epoch(setting, setting.device, count, batch),
        "cpu ": lambda count: _epoch(setting, "cpu", count, batch),
    }
    if setting.torch is not None:
        sides["torch "] = lambda count: _torch(setting, count, batch)
    seconds_per_image = {"": on_device[1] / tried, "cpu ": on_cpu[1] / tried}
    for side, run in sides.items():
        each = seconds_per_image.get(side) or run(tried) / tried
        room = max(1.0, setting.left / 8)  # seconds; two rows of three sides, and epochs that compile
        count = tried if setting.quick else int(min(EPOCH, max(tried, room / each)))
        seconds = run(count - count % batch)
        row |= {f"{side}s an epoch": seconds * EPOCH / count, f"{side}images": count}
    return row


def _losses(device: str, x: np.ndarray, y: np.ndarray, batch: int, epochs: int) -> tuple[list[float], float]:
    """Return the losses of the first epochs, and the seconds of the last one."""
    wf.random.seed(5)
    net = digit_net(x.shape[-1])
    with wf.device(device):
        history = wf.train.fit(net, x, y, epochs=epochs, batch_size=batch, optimizer=wf.optim.Adam(1e-3), seed=0, show=False)
    return list(history.loss), history.seconds[-1]


def _epoch(setting: Setting, device: str, count: int, batch: int) -> float:
    return _losses(device, *make_data(setting.quick, count), batch, 2)[1]


def _kernels(setting: Setting, x: np.ndarray, y: np.ndarray, batch: int) -> int:
    """Return the number of kernels that a step launches."""
    net = digit_net(x.shape[-1])
    step = wf.train.training_step(net.train(), wf.losses.cross_entropy, wf.optim.Adam(1e-3).init(net))
    images, labels = wf.array(x[:batch]), wf.array(y[:batch])
    for _ in range(2):
        before = setting.launches
        step(images, labels, 1e-3).numpy()
    return setting.launches - before


def _torch(setting: Setting, count: int, batch: int) -> float:
    """Return the seconds of an epoch in PyTorch's usual way, with images on the device."""
    assert setting.torch is not None
    peer, torch = setting.torch, setting.torch.torch
    x, y = (peer.array(a) for a in make_data(setting.quick, count))
    side = x.shape[-1]
    layers = torch.nn
    net = layers.Sequential(
        layers.Conv2d(1, 10, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2), layers.Flatten(),
        layers.Linear(10 * (side // 2) ** 2, 100), layers.ReLU(), layers.Linear(100, 10),
    ).to(peer.name)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    seconds = 0.0
    for _ in range(2):
        peer.watch.begin()
        begin = time.perf_counter()
        for rows in torch.randperm(count, device=peer.name).split(batch):
            optimizer.zero_grad()
            layers.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        peer.watch.end()
        seconds = time.perf_counter() - begin
    return seconds

"""A script that trains random nets by ``fit`` with shards, for any number of ranks: see ``test_training.py``.

``training.py cases SEED COUNT`` prints a hash of weights, optimizer state and history of each case.
``training.py run CHECKPOINT SEED [KILL_AT]`` trains one net with a checkpoint; the last rank kills itself at a step.
``training.py MODE`` does what the ranks must notice.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
from typing import Any

import numpy as np

import weft as wf

RANK, SIZE = wf.dist.rank(), wf.dist.size()
LAST = RANK == SIZE - 1
nn = wf.nn


def dense(rng: np.random.Generator, dropout: float) -> Any:
    width = int(rng.integers(3, 20))
    layers = [nn.Flatten(), nn.Linear(36, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, 4)]
    return nn.Sequential(*layers, *[Noise()] * int(rng.integers(2)))


class Noise(nn.Module):
    """Draws in evaluation, too."""

    def forward(self, x: Any) -> Any:
        return x + 0.01 * wf.random.normal(size=x.shape)


def with_statistics(rng: np.random.Generator, dropout: float) -> Any:
    channels = int(rng.integers(2, 6))
    return nn.Sequential(
        nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(dropout),
        nn.Linear(4 * channels, 4),
    )


OPTIMIZERS = (
    lambda: wf.optim.Adam(1e-2, clip_norm=0.5), lambda: wf.optim.SGD(0.1, momentum=0.9), lambda: wf.optim.AdamW(1e-2),
    lambda: wf.optim.SGD(0.1, momentum=0.9, state_dtype="bfloat16", rounding="stochastic"),
)


def hash_of(net: Any, optimizer: Any, history: Any) -> str:
    found = hashlib.sha256()
    for a in (*net.arrays().values(), *optimizer.arrays().values()):
        found.update(a.numpy().tobytes())
    found.update(repr((wf.random.get_state(), [e.values() for e in history.epochs], history.best, history.stopped)).encode())
    return found.hexdigest()[:16]


def data(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(rows, 1, 6, 6)).astype("float32"), rng.integers(0, 4, rows).astype("int32")


def as_memory_map(x: np.ndarray) -> np.ndarray:
    with tempfile.NamedTemporaryFile() as file:
        out = np.memmap(file, x.dtype, "w+", shape=x.shape)
        out[...] = x
        return out


def with_common_statistics(rng: np.random.Generator, dropout: float) -> Any:
    return nn.SyncBatchNorm.convert_sync_batchnorm(with_statistics(rng, dropout))


NETS = (dense, with_statistics, with_common_statistics)


def train_case(rng: np.random.Generator) -> str:
    """One random run of ``fit``."""
    make = NETS[rng.integers(len(NETS))]
    has_statistics = make is with_statistics
    shards, batch_size, rows = int(rng.integers(3, 10)), int(rng.integers(4, 60)), int(rng.integers(30, 150))
    if has_statistics:  # a shard of one row would be refused
        batch_size = int(rng.integers(2 * shards, 5 * shards))
        rows = batch_size * int(rng.integers(1, 5)) + int(rng.choice([0, 2 * shards]))
    x, y = data(rng, rows)
    accumulate, source = int(rng.choice([1, 1, 3])), int(rng.integers(3))
    options: dict[str, Any] = {"accumulate": accumulate}
    options["metrics"] = [[], ["accuracy"], ["accuracy", "top_5_accuracy"]][rng.integers(3)]
    options["precision"] = [None, None, "float16", {"gradients": "float8_e5m2"}][rng.integers(4)]
    held = data(rng, int(rng.choice([7, 2100])))
    batches = [(held[0][k : k + 2], held[1][k : k + 2]) for k in range(0, 7, 2)]
    options["validation"] = [0.0, held, batches, 0.0 if has_statistics or source else 0.2][rng.integers(4)]
    options["callbacks"] = [wf.train.AverageWeights(0.9)] if rng.random() < 0.3 else []
    wf.random.seed(int(rng.integers(100)) + (0 if RANK == 0 else 1000 + RANK))  # rank 0 decides
    net = make(rng, float(rng.choice([0.0, 0.3])))
    optimizer = OPTIMIZERS[rng.integers(len(OPTIMIZERS))]()
    if source == 0:
        options["batch_size"], samples = batch_size, (as_memory_map(x) if rng.random() < 0.4 else x, y)
    elif source == 1:
        samples = (wf.data.Loader((x, y), batch_size, seed=3),)
    else:
        samples = (lambda: ((x[k : k + batch_size], y[k : k + batch_size]) for k in range(0, rows, batch_size)),)
    history = wf.train.fit(net, *samples, epochs=2, shards=shards, optimizer=optimizer, show=False, **options)
    return hash_of(net, optimizer, history)


def train_with_checkpoint(path: str, seed: int, kill_at: int) -> str:
    rng = np.random.default_rng(seed)
    x, y = data(rng, 100)
    wf.random.seed(seed)
    net, optimizer = with_statistics(rng, 0.2), wf.optim.Adam(1e-2)

    class Kill:
        def on_batch(self, state: Any) -> None:
            if LAST and state.step == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    history = wf.train.fit(
        net, x, y, epochs=3, batch_size=20, shards=5, optimizer=optimizer, validation=(x, y),
        callbacks=[wf.train.BestWeights(path=path + ".best"), wf.train.CSVLog(path + ".csv"), Kill()],
        checkpoint=path, checkpoint_every="3 steps", resume=True,
    )
    return hash_of(net, optimizer, history)


def notice(mode: str) -> None:
    """Do on the last rank what the others must hear of."""
    x, y = data(np.random.default_rng(0 if mode != "other data" or not LAST else 1), 60)
    wf.random.seed(0)
    net, optimizer = dense(np.random.default_rng(0), 0.3), wf.optim.SGD(1e38 if mode == "not finite" else 0.1)

    def act(state: Any) -> None:
        if not LAST:
            return
        if mode == "stop":
            state.stop("a rank has had enough" + 300 * "!")
        if mode == "rate":
            state.optimizer.lr = 0.05
        if mode == "weights":
            state.model.parameters()["1.bias"][...] = 1.0

    class Act:
        def on_batch(self, state: Any) -> None:
            if mode == "stop step" and LAST and state.step == 4:
                state.stop("a rank has had enough")
            if mode == "ctrl-c" and LAST and state.step == 4:
                os.kill(os.getpid(), signal.SIGINT)

    shards = None if mode == "no shards" else 2 if mode == "few shards" else 4
    history = wf.train.fit(
        net, x, y, epochs=3, batch_size=16, shards=shards, optimizer=optimizer, callbacks=[act, Act()], show=False,
    )
    print("ended", repr(history.stopped), len(history.epochs), hash_of(net, optimizer, history), history.non_finite)


if sys.argv[1] == "cases":
    for case in range(int(sys.argv[3])):
        print("hash", case, train_case(np.random.default_rng([int(sys.argv[2]), case])))
elif sys.argv[1] == "run":
    print("hash", train_with_checkpoint(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
else:
    notice(sys.argv[1])

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
from weft.dist import exchanges
from weft.dist.world import world
from weft.train.partition import Parts
from weft.train.ranks import Ranks

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


def with_table(rng: np.random.Generator, dropout: float) -> Any:
    rows = nn.Lambda(lambda x: (wf.abs(x) * 5).astype("int32") % 20)
    table = nn.Embedding(20, 3, sparse=True)
    return nn.Sequential(nn.Flatten(), rows, table, nn.Flatten(), nn.Dropout(dropout), nn.Linear(108, 4))


class Two(nn.Module):
    """Two inputs and two outputs around a net."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net, self.size = net, nn.Linear(4, 2)

    def forward(self, image: Any, numbers: Any) -> dict[str, Any]:
        scores = self.net(image) + numbers
        return {"digit": scores, "size": self.size(scores)}


def as_two(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    """Return inputs, targets and sample weights for :class:`Two`."""
    numbers = rng.normal(size=(len(x), 4)).astype("float32")
    targets = {"size": numbers[:, :2], "digit": y}
    weights = rng.uniform(0, 2, len(x)).astype("float32")
    return {"numbers": numbers, "image": x}, targets, weights


OPTIMIZERS = (
    lambda: wf.optim.Adam(1e-2, clip_norm=0.5), lambda: wf.optim.SGD(0.1, momentum=0.9), lambda: wf.optim.AdamW(1e-2),
    lambda: wf.optim.LAMB(1e-2, clip_norm=1.0), lambda: wf.optim.Eve(),
    lambda: wf.optim.Lion(1e-3, clip_value=0.1, clip_norm=0.2),
    lambda: wf.optim.RMSprop(centered=True, state_dtype="bfloat16", groups={"*.bias": {"lr": 0.0}}),
    lambda: wf.optim.AMSGrad(groups={"*.bias": {"weight_decay": 0.1, "sparse": True}}),
    lambda: wf.optim.SGD(0.1, momentum=0.9, state_dtype="bfloat16", rounding="stochastic"),
)
SHARDED = (None, "optimizer", "gradients")


def whole_state(net: Any, optimizer: Any) -> dict[str, np.ndarray]:
    """Return the state of the optimizer on all ranks, whose parts ``fit(sharded=...)`` has left on them."""
    if optimizer._place is None:
        return {name: a.numpy() for name, a in optimizer.arrays().items()}
    ranks = Ranks(SIZE, RANK, SIZE)
    state = Parts(net, optimizer, None, ranks).gather_state()
    content = [ranks.broadcast(a.tobytes(), "the state") for a in state.values()]
    return {name: np.frombuffer(c or b"", a.dtype) for (name, a), c in zip(state.items(), content, strict=True)}


def hash_of(net: Any, optimizer: Any, history: Any) -> str:
    found = hashlib.sha256()
    for content in (*[a.numpy() for a in net.arrays().values()], *whole_state(net, optimizer).values()):
        found.update(content.tobytes())
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


NETS = (dense, with_statistics, with_common_statistics, with_table)


def train_case(rng: np.random.Generator) -> str:
    """One random run of ``fit``."""
    exchanges.BUCKET_BYTES = int(rng.choice([64, 1000, 1 << 22]))  # gradients are exchanged in many parts, in a few, or at once
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
    if rng.random() < 0.4:
        net, (inputs, targets, weights) = Two(net), as_two(rng, x, y)
        options |= {"loss": {"size": "mse", "digit": "cross_entropy"}, "loss_weights": {"size": 0.3}}
        options["metrics"] = {"digit": "accuracy"}
        options["class_weights"] = {"digit": [1.0, 2.0, 0.5, 1.0]} if rng.random() < 0.5 else None
        both = options["validation"]
        options["validation"] = as_two(rng, *held) if isinstance(both, tuple) else 0.0 if isinstance(both, list) else both
        if source == 0:
            samples = (inputs, targets)
            options |= {"batch_size": batch_size, "sample_weights": weights}
        else:
            samples = (wf.data.Loader((inputs, targets, weights), batch_size, seed=3),)
    elif source == 0:
        options["batch_size"], samples = batch_size, (as_memory_map(x) if rng.random() < 0.4 else x, y)
    elif source == 1:
        samples = (wf.data.Loader((x, y), batch_size, seed=3),)
    else:
        samples = (lambda: ((x[k : k + batch_size], y[k : k + batch_size]) for k in range(0, rows, batch_size)),)
    options["gradients_dtype"] = [None, None, "bfloat16", "float16"][rng.integers(4)]
    if optimizer.rounding is None:  # each number of ranks takes another way to the same bits
        options["sharded"] = SHARDED[(int(rng.integers(3)) + SIZE) % 3]
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

    samples: Any = (wf.data.Loader((x, y), 20, shuffle=True, seed=seed, workers=1),) if seed % 2 else (x, y)
    options = {} if seed % 2 else {"batch_size": 20}
    history = wf.train.fit(
        net, *samples, epochs=3, shards=5, optimizer=optimizer, validation=(x, y),
        callbacks=[wf.train.BestWeights(path=path + ".best"), wf.train.CSVLog(path + ".csv"), Kill()],
        checkpoint=path, checkpoint_every="3 steps", resume=True, sharded=SHARDED[SIZE % 3], **options,
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


def count_bytes() -> None:
    """Print the bytes of the optimizer's state that this rank keeps."""
    x, y = data(np.random.default_rng(0), 32)
    for make in (wf.optim.Adam, wf.optim.AMSGrad, wf.optim.SMORMS3):
        optimizer, net = make(), nn.Sequential(nn.Flatten(), nn.Linear(36, 101), nn.Tanh(), nn.Linear(101, 4))
        wf.train.fit(net, x, y, epochs=1, batch_size=16, shards=4, optimizer=optimizer, sharded="optimizer", show=False)
        kept = sum(a.numpy().nbytes for slots in optimizer.state.values() for a in slots.values())
        whole = sum(p.numpy().nbytes for p in net.parameters().values()) * len(optimizer.slots)
        print("bytes", kept, whole, len(optimizer.slots))


def count_parts() -> None:
    """Print how many exchanges run beside the program in each update, and a hash."""
    x, y = data(np.random.default_rng(0), 48)
    wf.random.seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = wf.optim.Adam(1e-2, clip_norm=0.5)
    begun, begin = [], world().exchanges.begin
    world().exchanges.begin = lambda run: (begun.append(run), begin(run))[1]
    counts = []

    class Count:
        def on_batch(self, state: Any) -> None:
            counts.append(len(begun))

    history = wf.train.fit(net, x, y, epochs=1, batch_size=16, shards=5, optimizer=optimizer, callbacks=[Count()], show=False)
    print("begun", counts, hash_of(net, optimizer, history))


if sys.argv[1] != "cases":
    exchanges.BUCKET_BYTES = 64
if sys.argv[1] == "parts":
    count_parts()
elif sys.argv[1] == "cases":
    for case in range(int(sys.argv[3])):
        print("hash", case, train_case(np.random.default_rng([int(sys.argv[2]), case])))
elif sys.argv[1] == "bytes":
    count_bytes()
elif sys.argv[1] == "run":
    print("hash", train_with_checkpoint(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
else:
    notice(sys.argv[1])

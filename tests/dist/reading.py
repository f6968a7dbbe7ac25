"""A script that trains from files on any number of ranks, and checks which rows each rank reads: see ``test_reading.py``.

``reading.py FOLDER SEED COUNT`` prints a hash of the results of each case.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft.data import RowFiles, open_rows
from weft.dist.shard_sum import shards_of
from weft.train.shards import find_shard_rows

FOLDER, SEED, COUNT = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
RANK, SIZE = wf.dist.rank(), wf.dist.size()
nn = wf.nn


def write(rng: np.random.Generator, path: Path, x: np.ndarray) -> Path:
    """Write an array in one of the forms of files; every rank could, one does."""
    kind = rng.integers(4)
    if kind == 0 and x.dtype == np.uint8:
        head = bytes([0, 0, 8, x.ndim]) + b"".join(n.to_bytes(4, "big") for n in x.shape)
        contents = {path.with_suffix(".idx"): lambda p: p.write_bytes(head + x.tobytes())}
    elif kind == 1:
        contents = {path.with_suffix(".st"): lambda p: wf.io.save(p, {"x": wf.asarray(x)})}
    elif kind == 2:
        cuts = np.sort(rng.integers(0, len(x) + 1, 3))
        contents = {path / f"x{k}.npy": lambda p, part=part: np.save(p, part) for k, part in enumerate(np.split(x, cuts))}
    else:
        contents = {path.with_suffix(".npy"): lambda p: np.save(p, x)}
    if RANK == 0:
        for file, save in contents.items():
            file.parent.mkdir(exist_ok=True)
            save(file)
    wf.dist.barrier()
    return path if kind == 2 else next(iter(contents))


class RowLog(RowFiles):
    """Files that note which rows are read."""

    def _read(self, rows: np.ndarray) -> np.ndarray:
        self.log.extend(rows.tolist())
        return super()._read(rows)


def open_with_log(path: Path) -> RowLog:
    rows = open_rows(path)
    rows.__class__ = RowLog
    rows.log = []
    return rows


def add_noise(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return x + rng.normal(0, 0.1, x.shape).astype("float32"), y


def train(case: int) -> str:
    """Train from memory and from files, to the same bits. From files this rank must read its rows only."""
    rng = np.random.default_rng([SEED, case])
    shards, batch_size, rows = int(rng.integers(3, 8)), int(rng.integers(8, 30)), int(rng.integers(30, 120))
    pixels, normal = rng.integers(0, 256, (rows, 4, 3)).astype("uint8"), rng.normal(size=(rows, 4, 3)).astype("float32")
    x = pixels if rng.random() < 0.5 else normal
    y, held = rng.integers(0, 4, rows).astype("uint8"), rng.normal(size=(2100, 4, 3)).astype("float32")
    held_y = rng.integers(0, 4, 2100).astype("uint8")
    files = [write(rng, FOLDER / f"{case}-{k}", a) for k, a in enumerate((x, y, held, held_y))]
    way, shuffle, workers = int(rng.integers(3)), bool(rng.integers(2)), int(rng.integers(3))
    is_divided = rng.random() < 0.5
    hashes = []
    for source in ((x, y, held, held_y), [open_with_log(f) for f in files]):
        wf.random.seed(3)
        scale = nn.Lambda(lambda x: x.astype("float32") / 100)
        net = nn.Sequential(scale, nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 4))
        optimizer, logs = wf.optim.Adam(1e-2), source if isinstance(source, list) else []
        options: dict[str, Any] = {"validation": wf.data.Loader(tuple(source[2:]), 100) if is_divided else tuple(source[2:])}
        if way == 0:
            samples, options = (source[0], source[1]), options | {"batch_size": batch_size, "shuffle": shuffle, "seed": case}
        else:
            more = {"transform": add_noise} if way == 2 else {}
            samples = (wf.data.Loader(tuple(source[:2]), batch_size, shuffle=shuffle, seed=case, workers=workers, **more),)

        class Forget:
            """Clears the log of rows, which has those that fit reads to check them before the first step."""

            def on_begin(self, state: Any, logs: Any = logs) -> None:
                for log in logs[:2]:
                    check_few(log, rows)
                    log.log.clear()

        history = wf.train.fit(
            net, *samples, epochs=2, shards=shards, optimizer=optimizer, show=False, callbacks=[Forget()], **options,
        )
        found = hashlib.sha256(repr([e.values() for e in history.epochs]).encode())
        for a in (*net.arrays().values(), *optimizer.arrays().values()):
            found.update(a.numpy().tobytes())
        hashes.append(found.hexdigest()[:16])
    assert hashes[0] == hashes[1], (case, "memory and files", hashes)
    check_rows(logs, rows, batch_size, shards, shuffle, is_divided)
    return hashes[0]


def check_few(log: RowLog, rows: int) -> None:
    """Before the first step a rank reads some fixed rows, to compare the data of the ranks, and one of the first batch."""
    fixed = {*range(33), *np.linspace(0, rows - 1, 64).astype(int).tolist()}
    assert len({*log.log} - fixed) <= 1 and len(log.log) <= 2 * 33 + 64 + 2, log.log


def check_rows(logs: list[RowLog], rows: int, batch_size: int, shards: int, shuffle: bool, is_divided: bool) -> None:
    """Compare the rows that this rank has read in two epochs with those of its shards."""
    own = []
    for first in range(0, rows, batch_size):
        count = min(batch_size, rows - first)
        for shard in shards_of(RANK, SIZE, shards):
            own += range(*(first + k for k in find_shard_rows(count, shards, shard)))
    for log in logs[:2]:
        if shuffle:  # the places in the order are this rank's, so their number is known; the ranks together read each row once
            assert len(log.log) == 2 * len(own), (len(log.log), len(own))
        else:
            assert sorted(log.log) == sorted(2 * own), (log.log, own)
        read = np.bincount(log.log, minlength=rows)
        assert (wf.dist.all_sum(wf.asarray(read)).numpy() == 2).all(), "a row was read by two ranks, or by none"
    table, limit = logs[2].log, 2100 if SIZE == 1 else 2100 - 100 * (21 // SIZE) if is_divided else 2048
    assert len(table) <= 2 * limit + 97, (len(table), limit)


for case in range(COUNT):
    print("hash", case, train(case))

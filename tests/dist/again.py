"""A script whose ranks fail in given tries of a job, and that trains with a checkpoint: see ``test_retries.py``.

``again.py FOLDER MODE TRIES``: the last rank fails in the first TRIES tries, after some steps.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf

FOLDER, MODE, TRIES = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
RANK, SIZE = wf.dist.rank(), wf.dist.size()
wf.dist.barrier()
number = len(list(FOLDER.glob("try-*")))
wf.dist.barrier()
if RANK == 0:
    (FOLDER / f"try-{number}").write_text(str(SIZE))


class Fail:
    def on_batch(self, state: Any) -> None:
        if RANK != SIZE - 1 or number >= TRIES or state.step != 4 + 3 * number:
            return
        if MODE == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if MODE == "raises":
            raise OSError("the disk is away")
        if MODE == "exits":
            sys.exit(5)
        if MODE == "host":
            (FOLDER / "dead").write_text("beta\n")
            os.kill(os.getpid(), signal.SIGKILL)


rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 3)).astype("float32"), rng.integers(0, 2, 60).astype("int32")
wf.random.seed(0)
net, optimizer = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Dropout(0.1), wf.nn.Linear(8, 2)), wf.optim.Adam(1e-2)
wf.train.fit(
    net, x, y, epochs=3, batch_size=12, shards=4, optimizer=optimizer, callbacks=[Fail()], checkpoint=FOLDER / "run",
    checkpoint_every="2 steps", resume=True, show=False,
)
print("bits", hashlib.sha256(b"".join(a.numpy().tobytes() for a in net.arrays().values())).hexdigest()[:16])

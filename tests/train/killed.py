"""A training run that is killed with SIGKILL at random moments and resumed; run as a script it does so 60 times.

    python tests/train/killed.py 60
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DATA = ("arrays", "loader", "generator")
MODELS = ("dense", "images", "recurrent")


def data(kind: str, x: np.ndarray, y: np.ndarray):
    """The training data as one of the kinds that fit takes."""
    import weft as wf

    if kind == "arrays":
        return x, y
    if kind == "loader":
        moved = lambda x, y, rng: (x + rng.normal(size=x.shape).astype("float32") * np.float32(0.1), y)  # noqa: E731
        return (wf.data.Loader((x, y), batch_size=16, shuffle=True, seed=5, workers=2, transform=moved),)

    def batches():
        for k in range(0, len(x), 16):
            yield x[k : k + 16], y[k : k + 16]

    return (batches,)


def model(kind: str):
    """Nets of 6 numbers a sample, with all that a model may keep."""
    import weft as wf

    if kind == "dense":
        net = wf.nn.Sequential(
            wf.nn.Linear(6, 16), wf.nn.BatchNorm1d(16), wf.nn.Tanh(), wf.nn.Dropout(0.25), wf.nn.Linear(16, 2),
        )
        net.append(Half())
        return net
    if kind == "images":
        return wf.nn.Sequential(
            wf.nn.Reshape((1, 2, 3)), wf.nn.Conv2d(1, 4, 3, padding=1), wf.nn.BatchNorm2d(4), wf.nn.ReLU(), wf.nn.Dropout(0.1),
            wf.nn.Flatten(), wf.nn.LayerNorm(24), wf.nn.Linear(24, 2),
        )

    class Recurrent(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = wf.nn.LSTM(2, 5, batch_first=True)
            self.out = wf.nn.Linear(5, 2)

        def forward(self, x):
            return self.out(self.rnn(x.reshape((-1, 3, 2)))[0][:, -1])

    return Recurrent()


def train(folder: Path, kind: str, which: str) -> None:
    """The run: 24 epochs of 7 updates, with everything that a checkpoint must hold."""
    import weft as wf

    r = np.random.default_rng(3)
    x = r.normal(size=(111, 6)).astype("float32")
    y = (x[:, 0] + 0.3 * x[:, 1] * x[:, 2] > 0).astype("int32")
    wf.random.seed(7)
    net = model(which)
    optimizer = wf.optim.Adam(lr=3e-3, schedule=wf.optim.schedules.cosine(400), clip_norm=1.0)
    keep = wf.train.BestWeights("val_accuracy", restore=False)
    began = []

    def slow(state: wf.train.State) -> None:
        if not began:
            began.append(True)
            (folder / "begun").write_text("")
        time.sleep(0.0005)

    history = wf.train.fit(
        net, *data(kind, x, y), epochs=24, batch_size=16, optimizer=optimizer, metrics=["accuracy"],
        validation=(x[:30], y[:30]), checkpoint=folder / "run.ckpt", checkpoint_every=3, resume=True, show=False, seed=11,
        callbacks=[
            keep, wf.train.EarlyStopping("loss", patience=3), wf.train.CSVLog(folder / "log.csv"),
            wf.train.ReduceLROnPlateau("loss", patience=2), type("Slow", (), {"on_batch": staticmethod(slow)})(),
        ],
    )
    arrays = {f"model/{n}": a.numpy() for n, a in net.arrays().items()}
    arrays |= {f"optimizer/{n}": a.numpy() for n, a in optimizer.arrays().items()}
    arrays |= {f"best/{n}": a for n, a in (keep.best or {}).items()}
    arrays |= {f"last/{n}": a for n, a in (keep.last or {}).items()}
    lines = [line.rpartition(",")[0] for line in (folder / "log.csv").read_text().splitlines()]
    result = {
        "arrays": {n: hashlib.sha256(a.tobytes()).hexdigest() for n, a in arrays.items()},
        "random": wf.random.get_state(), "history": [e.values() | {"lr": e.lr} for e in history.epochs],
        "best": [history.best, keep.number, keep.score], "stopped": history.stopped, "log": lines, "lr": optimizer.lr,
    }
    (folder / "result.json").write_text(json.dumps(result))


def Half():
    """A layer with a parameter of float16 and buffers of other dtypes."""
    import weft as wf

    class Half(wf.nn.Module):
        buffers = ("seen", "mean")

        def __init__(self) -> None:
            super().__init__()
            self.shift = wf.zeros(2, dtype="float16")
            self.seen = wf.zeros((), dtype="int64")
            self.mean = wf.zeros(2, dtype="bfloat16")

        def forward(self, x):
            if self.training:
                self.seen = self.seen + 1
                self.mean = (self.mean * 0.5 + wf.stop_gradient(x).mean(axis=0) * 0.5).astype("bfloat16")
            return x + self.shift.astype("float32")

    return Half()


def start(folder: Path, kind: str, which: str = "dense") -> subprocess.Popen:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "begun").unlink(missing_ok=True)
    return subprocess.Popen([sys.executable, __file__, "train", str(folder), kind, which])


def finish(folder: Path, kind: str, which: str = "dense") -> dict:
    """Run to the end."""
    if start(folder, kind, which).wait(timeout=300):
        raise AssertionError(f"{folder}: the run failed")
    return json.loads((folder / "result.json").read_text())


def kill(folder: Path, kind: str, which: str, after: float) -> bool:
    """Start or resume the run, kill it ``after`` seconds of training; whether it was still running."""
    child = start(folder, kind, which)
    until = time.monotonic() + 300
    while not (folder / "begun").exists() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    return child.wait() == -signal.SIGKILL


def killed(folder: Path, kind: str, times: int, longest: float = 0.08, which: str = "dense") -> tuple[dict, int]:
    """The result after so many kills at random moments, and how many of them struck."""
    struck = 0
    for _ in range(times):
        struck += kill(folder, kind, which, random.uniform(0.0, longest))
        left = {p.name for p in folder.iterdir()} - {"run.ckpt", "run.ckpt.lock", "begun", "log.csv", "result.json"}
        assert len(left) <= 1 and all(re.fullmatch(r"run\.ckpt\.[0-9a-f]{16}\.part", name) for name in left), left
    result = finish(folder, kind, which)
    assert {p.name for p in folder.iterdir()} == {"run.ckpt", "begun", "log.csv", "result.json"}
    return result, struck


def main() -> None:
    if sys.argv[1] == "train":
        train(Path(sys.argv[2]), *sys.argv[3:])
        return
    times, cases = int(sys.argv[1]), [(kind, which) for which in MODELS for kind in DATA]
    total = 0
    for kind, which in cases:
        with tempfile.TemporaryDirectory() as name:
            want = finish(Path(name) / "whole", kind, which)
            found, struck = killed(Path(name) / "killed", kind, -(-times // len(cases)), which=which)
            total += struck
            for part in want:
                assert found[part] == want[part], (kind, which, part)
        print(f"{which} net, data as {kind}: killed {struck} times, ended with the bits of the uninterrupted run", flush=True)
    print(f"{total} kills in {len(cases)} runs")


if __name__ == "__main__":
    main()

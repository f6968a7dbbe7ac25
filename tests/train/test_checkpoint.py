"""Checkpoints: a run goes on to the same bits after a kill, an exception or Ctrl-C; files of other runs are refused."""

from __future__ import annotations

import itertools
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tests.train import killed
from tests.train.making import Broken, bits, data, net
from weft.errors import DataError
from weft.train import BestWeights, EarlyStopping
from weft.train.checkpoint import PLACE_FORM, load, parse_every


def test_killed_four_times(tmp_path: Path) -> None:
    want = killed.finish(tmp_path / "whole", "arrays")
    assert 8 < len(want["history"]) < 24 and want["lr"] < 3e-3 and want["stopped"]  # every callback had its say
    found, struck = killed.killed(tmp_path / "killed", "arrays", 4)
    assert struck >= 2
    for part, value in want.items():
        assert found[part] == value, part


class Stateful(wf.nn.Module):
    """A recurrent layer that makes its state in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = wf.nn.GRU(3, 4, stateful=True)
        self.out = wf.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.rnn(x.reshape((5, -1, 3)))[0][-1])


def batches(x, y):
    for k in range(0, len(x), 20):
        yield x[k : k + 20], y[k : k + 20]


def loader(x, y, workers=0):
    def noisy(x, y, rng):
        return x + rng.normal(size=x.shape).astype("float32"), y

    return wf.data.Loader((x, y), batch_size=20, shuffle=True, seed=3, transform=noisy, workers=workers)


CASES = {
    "arrays": lambda x, y: ((x, y), {}),
    "validation": lambda x, y: ((x, y), {"validation": 0.3, "metrics": ["accuracy"]}),
    "accumulated": lambda x, y: ((x, y), {"accumulate": 2, "batch_size": 13}),
    "float16": lambda x, y: ((x, y), {"precision": "float16"}),
    "loader": lambda x, y: ((loader(x, y, workers=2),), {"validation": loader(x, y)}),
    "function": lambda x, y: ((lambda: batches(x, y),), {}),
    "generator": lambda x, y: ((batches(np.tile(x, (9, 1)), np.tile(y, 9)),), {"steps_per_epoch": 7}),
    "SAM": lambda x, y: ((x, y), {"optimizer": wf.optim.SAM(wf.optim.Adam(lr=0.01, groups={"0": {"lr": 0.1}}))}),
    "stateful": lambda x, y: ((x[:, None].repeat(5, 1), np.repeat(y[:, None], 5, 1)[:, 0]), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_after_a_crash(case: str, tmp_path: Path) -> None:
    x, y = data()

    def run(path: Path, crash: int | None = None):
        model = Stateful() if case == "stateful" else net(dropout=0.3)
        wf.random.seed(4)
        if case == "stateful":
            for p in model.parameters().values():
                p[...] = wf.random.normal(size=p.shape) * 0.3
        given, options = CASES[case](x, y)
        options = {"batch_size": 20, "optimizer": wf.optim.Adam(lr=0.01), **options}
        keep = BestWeights(restore=False)

        class Crash:
            def on_batch(self, state):
                if state.step == crash:
                    raise Broken

        history = wf.train.fit(
            model, *given, epochs=4, callbacks=[keep, Crash()], checkpoint=path, checkpoint_every=2, resume=True, show=False,
            **options,
        )
        state = {n: a.numpy().tobytes() for n, a in options["optimizer"].arrays().items()}
        best = {n: a.tobytes() for n, a in keep.best.items()}
        return bits(model), state, best, [e.values() for e in history.epochs], history.best, wf.random.get_state()

    want = run(tmp_path / "whole")
    wf.random.seed(99)
    for crash in sorted(random.sample(range(1, 14), 2)):
        with pytest.raises(Broken):
            run(tmp_path / "broken", crash)
        wf.random.seed(random.randrange(1000))
    assert run(tmp_path / "broken") == want
    assert run(tmp_path / "broken") == want  # finished already: nothing is trained


def test_ctrl_c_writes_the_checkpoint(tmp_path: Path) -> None:
    x, y = data()

    def run(path, stop_at=None):
        model = net(dropout=0.2)

        class Stop:
            def on_batch(self, state):
                if state.step == stop_at:
                    os.kill(os.getpid(), signal.SIGINT)

        history = wf.train.fit(
            model, x, y, epochs=3, batch_size=20, callbacks=[Stop()], checkpoint=path, resume=True, show=False,
        )
        return bits(model), history

    want, _ = run(tmp_path / "whole")
    weights, history = run(tmp_path / "asked", 8)
    assert history.interrupted and history.stopped == "Ctrl-C" and len(history.epochs) == 1
    held = load(tmp_path / "asked")
    assert held.place["step"] == 8 and held.place["batch"] == 3
    best = {n.removeprefix("best/"): a.tobytes() for n, a in held.callbacks[0][1].items() if isinstance(a, np.ndarray)}
    assert weights == best != {n: a.tobytes() for n, a in held.snapshot.arrays["model"].items()}
    found, history = run(tmp_path / "asked")
    assert found == want and not history.interrupted and not history.stopped


def test_longer_runs_and_other_rates_go_on_from_a_finished_one(tmp_path: Path) -> None:
    x, y = data()

    def run(path, epochs, lr=0.01, **more):
        model = net()
        history = wf.train.fit(
            model, x, y, epochs=epochs, optimizer=wf.optim.SGD(lr=lr, momentum=0.9), checkpoint=path, show=False, **more,
        )
        return bits(model), history

    whole, _ = run(tmp_path / "a", 5)
    run(tmp_path / "b", 2)
    longer, history = run(tmp_path / "b", 5, resume=True)
    assert longer == whole and [e.number for e in history.epochs] == [1, 2, 3, 4, 5]
    run(tmp_path / "c", 2)
    other, history = run(tmp_path / "c", 5, lr=0.02, resume=True)
    assert other != whole and [e.lr for e in history.epochs] == [0.01] * 2 + [0.02] * 3
    again, _ = run(tmp_path / "c", 5, resume=False)
    assert again == whole


def test_on_the_command_line(tmp_path: Path, capsys) -> None:
    from weft.tools.cli import main

    def run(epochs: int, *more: str) -> tuple[int, str]:
        status = main(["train", "digits", "--epochs", str(epochs), "--batch-size", "128", *more])
        return status, capsys.readouterr().out

    path, weights = str(tmp_path / "run.ckpt"), [str(tmp_path / name) for name in "ab"]
    assert run(2, "--save", weights[0])[0] == 0
    assert run(1, "--checkpoint", path)[0] == 0
    assert main(["train", "digits", "--checkpoint", path]) == 1 and "resume=True goes on from it" in capsys.readouterr().err
    status, out = run(2, "--checkpoint", path, "--resume", "--save", weights[1])
    assert status == 0 and "epoch 2/2" in out and "epoch 1/2" not in out
    assert Path(weights[0]).read_bytes() == Path(weights[1]).read_bytes()
    before = Path(path).read_bytes()
    for one, other in itertools.combinations(["save", "checkpoint", "plot"], 2):
        assert main(["train", "digits", f"--{one}", path, f"--{other}", str(tmp_path / "." / "run.ckpt")]) == 1
        assert f"train: --{one} and --{other} would both write" in capsys.readouterr().err
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("first, second", [("val_loss", "loss"), ("val_loss", None), ("loss", None), ("loss", "val_loss")])
def test_the_best_weights_watch_the_same_figure(tmp_path: Path, first: str, second: str | None) -> None:
    x, y = data()

    def run(epochs: int, monitor: str | None):
        keep = BestWeights(monitor)
        return wf.train.fit(
            net(), x, y, epochs=epochs, validation=0.2, callbacks=[keep], checkpoint=tmp_path / "run", resume=True, show=False)

    run(2, first)
    if first == (second or "val_loss"):
        assert len(run(3, second).epochs) == 3
    else:
        here = second or "val_loss"
        with pytest.raises(DataError, match=f"watches is the smallest {first} there, and the smallest {here} here"):
            run(3, second)


def test_an_early_stop_stays(tmp_path: Path) -> None:
    x, y = data()

    def run():
        stop = EarlyStopping("loss", threshold=9.0)
        return wf.train.fit(net(), x, y, epochs=5, callbacks=[stop], checkpoint=tmp_path / "run", resume=True, show=False)

    assert len(run().epochs) == len(run().epochs) == 1 and run().stopped == "loss reached 9"


def test_files_that_are_refused(tmp_path: Path) -> None:
    x, y = data()
    path = tmp_path / "run"

    def fit(model=None, x=x, y=y, **more):
        options = {"batch_size": 20, "optimizer": wf.optim.Adam(lr=0.01), "epochs": 2, "resume": True, **more}
        return wf.train.fit(model or net(), x, y, checkpoint=path, show=False, **options)

    fit()
    before = path.read_bytes()
    wide = wf.nn.Sequential(wf.nn.Linear(3, 9), wf.nn.Tanh(), wf.nn.Dropout(0.0), wf.nn.Linear(9, 2))
    for pattern, call in {
        r"run exists, a run that stands at 2 epochs: resume=True goes on .*, resume=False begins anew": lambda: fit(resume=None),
        "another run: samples is 100 there, and 99 here": lambda: fit(x=x[1:], y=y[1:]),
        "batch size is 20 there, and 10 here": lambda: fit(batch_size=10),
        "optimizer is Adam there, and SGD here": lambda: fit(optimizer=wf.optim.SGD(lr=0.01)),
        r"optimizer Adam: betas is \[0.9, 0.999\] there, and \[0.9, 0.9\] here": lambda: fit(
            optimizer=wf.optim.Adam(lr=0.01, betas=(0.9, 0.9))),
        "data is .*int32.* there, and .*int64": lambda: fit(y=y.astype("int64")),
        "loss is cross_entropy there, and hinge here": lambda: fit(y=y, loss=wf.losses.hinge),
        "seed is 0 there, and 1 here": lambda: fit(seed=1),
        r"model array '0.weight' is float32\[8, 3\] there, and float32\[9, 3\] here": lambda: fit(wide),
        "model's arrays are others: '0.bias', .* only there, 'bias', 'weight' only here": lambda: fit(wf.nn.Linear(3, 2)),
        r"callbacks is \['BestWeights'\] there, and \['BestWeights', 'BestWeights'\] here": lambda: fit(
            callbacks=[BestWeights(), BestWeights()]),
    }.items():
        with pytest.raises(DataError, match=pattern):
            call()
        assert path.read_bytes() == before
    at = random.randrange(len(before))
    path.write_bytes(before[:at] + bytes([before[at] ^ (1 << random.randrange(8))]) + before[at + 1:])
    with pytest.raises(DataError, match="damaged"):
        fit()
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(DataError, match="damaged|cut off"):
        fit()
    with pytest.raises(ValueError, match="checkpoint= and BestWeights would both write"):
        fit(callbacks=[BestWeights(path=tmp_path / "x" / ".." / "run")])
    wf.io.save(path, net())
    with pytest.raises(DataError, match="no checkpoint of fit"):
        fit()
    with pytest.raises(ValueError, match="resume=True needs checkpoint="):
        wf.train.fit(net(), x, y, resume=True, show=False)


def test_a_rate_that_no_optimizer_takes_is_damage() -> None:
    for name in ("lr", "given_lr"):
        assert [PLACE_FORM[name](x) for x in (0.01, 0, -0.01, float("nan"), "0.01", None)] == [
            True,
            True,
            False,
            False,
            False,
            False,
        ]


def test_when_checkpoints_are_written(tmp_path: Path) -> None:
    x, y = data()

    def steps(when):
        found = []

        class Look:
            def on_batch(self, state):
                found.append(load(tmp_path / "run").place["step"])

        wf.train.fit(
            net(), x, y, epochs=3, batch_size=25, callbacks=[Look()], checkpoint=tmp_path / "run", checkpoint_every=when,
            resume=False, show=False,
        )
        assert load(tmp_path / "run").place["step"] == 12
        return found

    assert steps("epoch") == [0] * 4 + [4] * 4 + [8] * 4
    assert steps("2 epochs") == [0] * 8 + [8] * 4
    assert steps(3) == [0] * 3 + [3] + [4] * 2 + [6] * 2 + [8, 9, 9, 9]
    assert steps("5 steps") == [0] * 5 + [5] * 5 + [10] * 2
    for wrong in (0, -1, True, "3", "0 epochs", "daily", 2.5, None):
        with pytest.raises(ValueError, match="checkpoint_every must be a number of steps"):
            parse_every(wrong)

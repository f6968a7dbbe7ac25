"""Many updates in one native call: the bits of the same updates one by one, whatever they depend on."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.train import loop, step
from weft.train.checkpoint import load


@pytest.fixture
def many(monkeypatch) -> list[int]:
    """Loops of four from the third update on; lists how many updates each native loop made."""
    made: list[int] = []
    for name, value in (("UPDATES_PER_LOOP", 4), ("SHORT_STEP_S", 1e9), ("MIN_REMAINING", 0), ("TIMED_UPDATES", 1)):
        monkeypatch.setattr(loop, name, value)
    once = loop.UpdateRunner._run_block

    def counted(self, block, lr):
        out = once(self, block, lr)
        if out is not None:
            made.append(len(block))
        return out

    monkeypatch.setattr(loop.UpdateRunner, "_run_block", counted)
    return made


class Norm(wf.nn.Module):
    """Running statistics and random numbers between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = wf.nn.Linear(3, 6), wf.nn.BatchNorm1d(6), wf.nn.Linear(6, 2)
        self.drop = wf.nn.Dropout(0.3)

    def forward(self, x):
        return self.last(self.drop(wf.tanh(self.norm(self.first(x)))))


class Words(wf.nn.Module):
    """A table of which a step touches a few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = wf.nn.Embedding(50, 4, sparse=True), wf.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.table(x).mean(axis=1))


class Solved(wf.nn.Module):
    """Its loop solves a system in each step, and NumPy sorts what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = wf.nn.Linear(3, 2), wf.nn.Linear(2, 2)
        self.m = wf.array([[3.0, 0.5], [-0.5, 2.0]])

    def forward(self, x):
        h = wf.scan(lambda h, _: (wf.linalg.solve(self.m, h) + 0.1, None), self.first(x).T, length=3)[0]
        return self.last(wf.sort(h.T, axis=1))


CASES = {
    "NumPy in a step": (Solved, lambda: wf.optim.Adam(lr=0.01), {}),
    "Adam": (lambda: net(), lambda: wf.optim.Adam(lr=0.01), {}),
    "clipped, with a schedule": (
        lambda: net(), lambda: wf.optim.AdamW(0.01, clip_norm=0.1, schedule=wf.optim.schedules.cosine(40)), {}),
    "dropout and batch norm": (Norm, lambda: wf.optim.SGD(lr=0.1, momentum=0.9), {"metrics": ["accuracy"]}),
    "float16": (lambda: net(), lambda: wf.optim.Adam(lr=0.01), {"precision": "float16"}),
    "SAM": (lambda: net(), lambda: wf.optim.SAM(wf.optim.SGD(lr=0.1)), {}),
    "Eve": (lambda: net(), lambda: wf.optim.Eve(lr=0.01), {}),
    "words": (Words, lambda: wf.optim.Adam(lr=0.01), {"shuffle": False}),
    "validated": (lambda: net(), lambda: wf.optim.RMSprop(lr=0.01), {"validation": 0.2}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bits_of_single_updates(case: str, many) -> None:
    x, y = data(98)
    if case == "words":
        x = np.random.default_rng().integers(0, 50, (98, 3))

    def run(alone: bool):
        make, optimizer, options = CASES[case]
        wf.random.seed(7)
        model, made = make(), optimizer()
        history = wf.train.fit(
            model, x, y, epochs=3, batch_size=8, optimizer=made, show=False, **options,
            callbacks=[Each()] if alone else [],
        )
        state = {n: a.numpy().tobytes() for n, a in made.arrays().items()}
        return bits(model), state, [e.values() for e in history.epochs], wf.random.get_state()

    want = run(alone=True)
    assert not many
    assert run(alone=False) == want
    assert set(many) == {4} and len(many) > 5


class Each:
    """Wants to be called after each update."""

    def on_batch(self, state) -> None:
        self.step = state.step


def test_checkpoints_on_their_steps(many, tmp_path: Path) -> None:
    x, y = data(98)

    def run(path: Path, epochs: int, every: int | str = 9):
        model = net()
        wf.train.fit(
            model, x, y, epochs=epochs, batch_size=8, checkpoint=path, checkpoint_every=every, resume=True, show=False,
            callbacks=[lambda s: seen.append(loaded(path))],
        )
        return bits(model)

    def loaded(path: Path) -> int:
        return load(path).place["step"]

    seen: list[int] = []
    want = run(tmp_path / "a", 4)
    assert seen == [9, 18, 36, 45]  # the last one within each epoch of 13
    run(tmp_path / "b", 2, 9)
    assert run(tmp_path / "b", 4, 9) == want and many


def test_a_bad_step_among_many(many) -> None:
    x, y = data(100)
    x = np.abs(x) + 0.1
    x[77] = -1.0

    class Log(wf.nn.Module):
        def forward(self, x):
            return wf.log(x)

    def run(x, **more):
        wf.random.seed(3)
        model = wf.nn.Sequential(Log(), wf.nn.Dropout(0.2), wf.nn.Linear(3, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            history = wf.train.fit(model, x, y, epochs=1, batch_size=8, shuffle=False, show=False, **more)
        return bits(model), history, wf.random.get_state()

    found, history, key = run(x)
    assert many and (history.non_finite.step, history.non_finite.batch, history.non_finite.operation) == (10, 10, "log")

    class Nine:
        def on_batch(self, state) -> None:
            if state.step == 9:
                state.stop()

    want, _, want_key = run(np.abs(x), callbacks=[Nine()])
    assert found == want and key == want_key


def test_what_no_native_loop_can_hold(many, monkeypatch) -> None:
    def refused(*given):
        raise TypeError("scan: not this")

    monkeypatch.setattr(step, "training_steps", lambda one: refused)
    x, y = data(60)
    history = wf.train.fit(net(), x, y, epochs=3, batch_size=4, show=False)
    assert len(history.epochs) == 3 and not many


@pytest.mark.parametrize("at", [8, 21, 43, 77])
def test_what_numpy_refuses_among_many(at: int, many) -> None:
    """The line is the user's; the updates of the call that failed are lost, those before are kept."""

    class Inverse(wf.nn.Module):
        def forward(self, x):
            return wf.linalg.inv(wf.eye(3) * x[:, None])[:, 0]

    x, y = np.abs(data(100)[0]) + 0.5, data(100)[1]
    x[at] = 0

    def run(x, **more):
        wf.random.seed(3)
        model = wf.nn.Sequential(Inverse(), wf.nn.Linear(3, 2))
        try:
            wf.train.fit(model, x, y, epochs=1, batch_size=4, shuffle=False, show=False, **more)
        except np.linalg.LinAlgError as error:
            assert "Singular matrix (" in str(error) and "test_pace.py:" in str(error)
            return bits(model), True
        return bits(model), False

    class Until:
        def on_batch(self, state) -> None:
            if state.step == kept:
                state.stop()

    found = run(x)
    updates = at // 4
    kept = updates if updates < 5 else 1 + (updates - 1) // 4 * 4  # the first loop of four gives way to single updates
    assert found == (run(np.where(x == 0, 1, x), callbacks=[Until()])[0], True)


def test_long_steps_and_short_runs_stay_single(many, monkeypatch) -> None:
    x, y = data(60)
    for name, value in (("SHORT_STEP_S", 0.0), ("MIN_REMAINING", 46)):
        with monkeypatch.context() as patch:
            patch.setattr(loop, name, value)
            wf.train.fit(net(), x, y, epochs=3, batch_size=4, show=False)
    assert not many
    wf.train.fit(net(), wf.data.Loader((x, y), 4), epochs=3, show=False)
    wf.train.fit(net(), x, y, epochs=3, batch_size=4, accumulate=2, show=False)
    assert not many

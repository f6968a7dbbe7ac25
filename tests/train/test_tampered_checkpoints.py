"""Checkpoints with right checksums and wrong contents: each is refused with what is wrong, and stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.train.making import Broken, data, net
from weft.errors import DataError
from weft.nn.weights import pack, unpack

Change = Callable[[Any, dict[str, np.ndarray]], Any]


def forged(content: bytes, change: Change) -> bytes:
    """A checkpoint whose state.json and arrays are changed; what ``change`` gives stands in state.json instead."""
    arrays = dict(unpack(content, "it"))
    state = json.loads(arrays["state.json"].tobytes())
    new = change(state, arrays)
    text = new if isinstance(new, bytes) else json.dumps(state).encode()
    return pack({**arrays, "state.json": np.frombuffer(text, np.uint8)})


def put(*path: Any) -> Change:
    """The last of ``path`` becomes the value at the keys before it."""
    def change(state: Any, arrays: Any) -> None:
        for key in path[:-2]:
            state = state[key]
        state[path[-2]] = path[-1]
    return change


def drop(*path: Any) -> Change:
    def change(state: Any, arrays: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]
    return change


def move(old: str, new: str) -> Change:
    def change(state: Any, arrays: Any) -> None:
        arrays[new] = arrays.pop(old)
    return change


def widen(name: str) -> Change:
    def change(state: Any, arrays: Any) -> None:
        arrays[name] = arrays[name].astype(np.float64)
    return change


def without(part: str) -> Change:
    """The first array of a part is gone."""
    return lambda state, arrays: arrays.pop(next(name for name in arrays if name.startswith(part))) is None


def text(content: bytes) -> Change:
    return lambda state, arrays: content


CASES: list[tuple[str, Change]] = [
    ("its state.json cannot be read: Expecting", text(b"{")),
    ("cannot be read: 'utf-8'", text(b"\xff\xfe")),
    ("cannot be read: .*recursion", text(b"[" * 100_000)),
    ("a number has 41 digits", text(b"1" * 41)),
    (r"needs version, run, .* in it, and has \[", text(b"[]")),
    ("needs version, run, .*, place in it", drop("random")),
    ("version 2; this weft reads version 1", put("version", 2)),
    ("has '1' for 'version'", put("version", "1")),
    (r"has \[1\] for 'random'", put("random", [1])),
    ("has .* for 'random'", put("random", [1, 1 << 64])),
    ("has 3 for 'callbacks' of it", put("callbacks", 3)),
    ("for 'callbacks'", put("callbacks", [["BestWeights"]])),
    (r"has \{\} for 'epochs'", put("epochs", {})),
    (r"needs number, loss.* in epochs\[0\]", put("epochs", 0, {"loss": 1.0})),
    ("has 'x' for 'metrics' of epochs", put("epochs", 0, "metrics", "x")),
    ("has epoch 7", put("epochs", 0, "number", 7)),
    ("needs batch.* in place", drop("place", "rows")),
    ("has -1 for 'batch'", put("place", "batch", -1)),
    ("has True for 'step'", put("place", "step", True)),
    ("0 batches had", put("place", "batch", 0)),
    ("has None for 'loss' of place", put("place", "loss", None)),
    (r"has \[\] for 'feed'", put("place", "feed", [])),
    ("does not say where", put("place", "feed", {})),
    ("does not say where", put("place", "feed", {"generator": {"state": 1}})),
    ("does not say where", put("place", "feed", "generator", "state", "state", -1)),
    ("does not say where", put("place", "totals", [1.0] * 9)),
    ("'other/0.weight' belongs to nothing", move("model/0.weight", "other/0.weight")),
    ("model's arrays are others", move("model/0.weight", "model/x")),
    ("optimizer's arrays are others", without("optimizer/")),
    ("BestWeights's arrays are others", move("callback0/best/0.bias", "callback0/best/x")),
    ("BestWeights cannot take back what it kept: KeyError", put("callbacks", 0, 1, {})),
    ("BestWeights cannot take back what it kept: TypeError", put("callbacks", 0, 1, "number", [])),
    (r"BestWeights array '0.bias' is float64\[\d+\] there, and float32", widen("callback0/best/0.bias")),
    ("what BestWeights watches is the largest loss there, and the smallest loss here", put(
        "callbacks", 0, 1, "watched", "the largest loss")),
    ("callbacks is", put("callbacks", 0, 0, "Other")),
    ("optimizer is", put("run", "optimizer", None)),
    ("optimizer Adam: extra is None there", put("run", "optimizer", "extra", None)),
    ("batch size is", put("run", "batch_size", ["x"] * 999)),
]


def fit(path: Path, crash: int, model: Any = None, optimizer: Any = None, callbacks: Any = ()) -> Any:
    class Crash:
        def on_batch(self, state: Any) -> None:
            if state.step == crash:
                raise Broken

    x, y = data()
    return wf.train.fit(
        model or net(), x, y, epochs=2, batch_size=30, checkpoint=path, checkpoint_every=1, resume=True, show=False,
        optimizer=optimizer or wf.optim.Adam(lr=0.01), callbacks=[Crash(), *callbacks],
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "run.ckpt"
    with pytest.raises(Broken):
        fit(path, 7)
    return path.read_bytes()


@pytest.mark.parametrize("why, change", CASES, ids=[why for why, _ in CASES])
def test_it_is_refused_in_words(tmp_path: Path, content: bytes, why: str, change: Change) -> None:
    path = tmp_path / "run.ckpt"
    path.write_bytes(forged(content, change))
    before = path.read_bytes()
    model, optimizer = net(), wf.optim.Adam(lr=0.01)
    optimizer.init(model)
    state = everything(model, optimizer)
    with pytest.raises(DataError, match=why) as caught:
        fit(path, 0, model, optimizer)
    assert "run.ckpt" in str(caught.value) and len(str(caught.value)) < 2000 and path.read_bytes() == before
    assert everything(model, optimizer) == state


def everything(model: Any, optimizer: Any) -> Any:
    arrays = {**model.arrays(), **{f"optimizer/{name}": a for name, a in optimizer.arrays().items()}}
    return {name: a.numpy().tobytes() for name, a in arrays.items()}, optimizer.lr, wf.random.get_state()


def test_a_callback_that_cannot_begin_leaves_the_model(tmp_path: Path, content: bytes) -> None:
    class Breaks:
        def on_begin(self, state: Any) -> None:
            raise Broken

    path = tmp_path / "run.ckpt"
    path.write_bytes(content)
    model, optimizer = net(), wf.optim.Adam(lr=0.01)
    optimizer.init(model)
    state = everything(model, optimizer)
    with pytest.raises(Broken):
        fit(path, 0, model, optimizer, [Breaks()])
    assert everything(model, optimizer) == state


def test_without_a_change_it_goes_on(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.ckpt"
    path.write_bytes(forged(content, lambda state, arrays: None))
    assert len(fit(path, 0).epochs) == 2

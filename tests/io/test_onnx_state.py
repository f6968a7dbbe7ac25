"""save_onnx refuses models that write arrays or draw random numbers, names the array, and leaves the model as it was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.io.test_onnx_export import check
from weft.errors import TraceError

nn = wf.nn
WIDTH = 4
TRAINING = {  # layers of (N, WIDTH) that behave otherwise in training mode, and what the message says of them
    "BatchNorm1d": (lambda: nn.BatchNorm1d(WIDTH), r"running_mean` in layer .*BatchNorm1d\(4\)"),
    "averages": (lambda: nn.BatchNorm1d(WIDTH, momentum=None), "running_mean` in layer .*BatchNorm1d"),
    "SpectralNorm": (lambda: nn.SpectralNorm(nn.Linear(WIDTH, WIDTH)), "`.*` in layer .*SpectralNorm"),
    "Dropout": (lambda: nn.Dropout(0.3), r"random_bits.* in layer .*Dropout\(p=0.3\)"),
}


class Stateful(nn.Module):
    """A model that keeps state in the way that ``kind`` names."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.calls = kind, 0
        self.head = nn.Linear(WIDTH, WIDTH)
        self.total, self.items, self.named = wf.zeros(WIDTH), [wf.zeros(WIDTH)], {"a": wf.zeros(WIDTH)}
        self.kept: Any = None
        self.memory = nn.GRU(WIDTH, WIDTH, stateful=True) if kind in ("gru", "lstm") else None
        self.memory = nn.LSTM(WIDTH, WIDTH, stateful=True) if kind == "lstm" else self.memory
        self.attention = nn.MultiHeadAttention(WIDTH, 2) if kind == "cache" else None
        self.cache = nn.KeyValueCache(1, 2, 64, WIDTH // 2) if kind == "cache" else None

    def forward(self, x: Any) -> Any:
        y = self.head(x)
        self.calls += 1
        if self.memory is not None:
            y = self.memory(y)[0]
        elif self.attention is not None:
            y = self.attention(y[None], cache=self.cache)[0]
        elif self.kind == "write":
            self.total += y.sum(axis=0)
        elif self.kind == "assign":
            self.total = y.sum(axis=0)
        elif self.kind == "item":
            self.items[0][1:3] = y[0, 1:3]
        elif self.kind == "grow":
            self.items.append(y)
        elif self.kind == "dict":
            self.named["a"][...] = y[0]
        elif self.kind == "loop":
            wf.fori_loop(0, 3, lambda i, v: self._add(v), y)
        elif self.kind == "keep":
            self.kept = y
        return y

    def _add(self, v: Any) -> Any:
        self.total += v.sum(axis=0)
        return v * 2


STATES = {
    "gru": "memory.hidden", "lstm": "memory.hidden", "cache": "cache.keys", "write": "total", "assign": "total", "item": "items",
    "grow": "items", "dict": "named", "loop": "total", "keep": "kept",
}


def contents(model: nn.Module) -> dict[str, Any]:
    """Return the arrays, containers, numbers and modes of a model."""
    arrays = {name: a.numpy().tolist() for name, a in model.arrays().items()}
    rest = {
        (name, key): len(value) if isinstance(value, list | dict) else value
        for name, m in model.modules() for key, value in vars(m).items() if isinstance(value, list | dict | bool | int | None)
    }
    return {**arrays, **rest}


def as_function(model: Any, way: str) -> Callable[..., Any]:
    """Return a function that calls a model."""
    ways = {
        "lambda": lambda x: model(x) * 2, "partial": functools.partial(model), "method": model.forward, "jit": wf.jit(model),
        "nested": lambda x: wf.jit(lambda v: model(v) + 1)(x),
    }
    return ways[way]


@pytest.mark.parametrize("kind", TRAINING)
def test_functions_over_layers_in_training(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    make, message = TRAINING[kind]
    path = tmp_path / "net.onnx"
    layers = [nn.Linear(WIDTH, WIDTH), nn.Tanh(), make()]
    rng.shuffle(layers)  # type: ignore[arg-type]
    net = nn.Sequential(*layers)
    before, state = contents(net), wf.random.get_state()
    batch = None if rng.integers(2) else 6
    x = wf.array(rng.normal(size=(6, WIDTH)).astype(np.float32))
    for way in ("lambda", "partial", "method", "jit", "nested"):
        advice = r"training mode: pass the Module itself to save_onnx, or call \.eval\(\)"
        with pytest.raises(TraceError, match=f"{message}.*{advice}"):
            wf.io.save_onnx(as_function(net, way), (batch, WIDTH), path)
        assert not path.exists() and contents(net) == before and wf.random.get_state() == state
    check(net, (batch, WIDTH), x, path=path)
    net.eval()
    for way in ("lambda", "method", "jit"):
        check(as_function(net, way), (batch, WIDTH), x, path=path)


def test_layers_that_a_module_does_not_hold(tmp_path: Path) -> None:
    layer = nn.BatchNorm1d(WIDTH)

    class Outside(nn.Module):
        def forward(self, x: Any) -> Any:
            return layer(x)

    with pytest.raises(TraceError, match=r"`layer.running_mean` in layer BatchNorm1d of Outside.*mode: call \.eval\(\) on it"):
        wf.io.save_onnx(Outside(), (3, WIDTH), tmp_path / "net.onnx")


@pytest.mark.parametrize("kind", STATES)
def test_state_is_refused(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    shape = ((None, 3)[rng.integers(2)], WIDTH)
    if kind in ("gru", "lstm"):
        shape = (3, 1, WIDTH)  # type: ignore[assignment]
    is_first = bool(rng.integers(2))
    model = Stateful(kind)
    if not is_first and kind not in ("grow", "keep"):
        model(wf.array(rng.normal(size=[n or 3 for n in shape]).astype(np.float32)))
    before = contents(model)
    inner = nn.Sequential(nn.Identity(), model)
    for f, name in ((model, STATES[kind]), (inner, f"1.{STATES[kind]}"), (lambda x: model(x), f"model.{STATES[kind]}")):
        with pytest.raises(TraceError) as caught:
            wf.io.save_onnx(f, shape, tmp_path / "net.onnx")
        text = str(caught.value)
        verb = "leaves an array behind in" if kind in ("grow", "keep") else "writes"
        assert f"{verb} `{name}" in text and "keeps nothing from one call to the next" in text and ".eval()" not in text
        assert contents(model) == before
    assert not [*tmp_path.iterdir()]


def test_state_of_models_with_unknown_widths(rng: np.random.Generator, tmp_path: Path) -> None:
    """The call that makes their weights leaves the other arrays, and the sample, as they were."""
    model = Stateful("write")
    model.head = nn.Linear(None, WIDTH)
    x = wf.array(rng.normal(size=(3, 7)).astype(np.float32))
    with pytest.raises(TraceError, match="writes `total` in layer Stateful"):
        wf.io.save_onnx(model, x, tmp_path / "net.onnx")
    assert not model.total.numpy().any() and model.head.weight.shape == (WIDTH, 7) and model.training


def test_weights_that_the_first_call_makes(rng: np.random.Generator, tmp_path: Path) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head: Any = None

        def forward(self, x: Any) -> Any:
            self.head = self.head or nn.Linear(x.shape[1], 2)
            return self.head(x)

    net, x = Late(), wf.array(rng.normal(size=(3, WIDTH)).astype(np.float32))
    with pytest.raises(TraceError, match=r"leaves an array behind in `head\.(weight|bias)`.*has to be called once before"):
        wf.io.save_onnx(net, x, tmp_path / "net.onnx")
    assert net.head is None
    net(x)
    check(net, (None, WIDTH), x, path=tmp_path / "net.onnx")


def test_state_as_inputs(rng: np.random.Generator, tmp_path: Path) -> None:
    """What the message advises; writes into inputs and into arrays that the model makes are allowed."""
    layer = nn.GRU(WIDTH, WIDTH)
    x, h = (wf.array(rng.normal(size=(1, 5, WIDTH)).astype(np.float32)) for _ in range(2))
    check(lambda x, h: layer(x, h), ((1, None, WIDTH), (1, None, WIDTH)), x, h, path=tmp_path / "step.onnx")

    def center(x: Any) -> Any:
        made = wf.zeros(WIDTH)
        made[1:] = x[0, 0, 1:]
        y = x.copy()
        y -= y.mean()
        return y + made

    def center_in_place(x: Any) -> Any:
        made = x[0, 0] * np.array([0, *[1] * (WIDTH - 1)], np.float32)
        x -= x.mean()
        return x + made

    check(center, x, x, path=tmp_path / "center.onnx")
    want = center(x).numpy()
    wf.io.save_onnx(center_in_place, x, tmp_path / "center.onnx")
    np.testing.assert_allclose(wf.io.load_onnx(tmp_path / "center.onnx")(x).numpy(), want, rtol=1e-5, atol=1e-5)


def test_watched_models(rng: np.random.Generator, tmp_path: Path) -> None:
    """An active watch writes statistics at each call, but not in this trace."""
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    x = wf.array(rng.normal(size=(2, WIDTH)).astype(np.float32))
    with wf.watch(net):
        check(net, x, x, path=tmp_path / "net.onnx")
